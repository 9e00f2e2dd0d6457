//! How many collectives each rank had made at each step line.
//!
//! NCCL prints when a rank enqueues, the trainer when its printing rank is done, and other ranks may be ahead
//! or behind. The members of a communicator make the same collectives in the same order, so the difference of
//! these numbers is the distance of the ranks.

use crate::calls::same::is_collective_name;
use crate::log::timeline::StepTimeline;
use crate::log::walk::LogCall;
use crate::members::MergedMembers;
use crate::members::comm_id::CommId;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// One chunk's collectives by member and gap.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ChunkCollectives {
    /// Counts of the gap in hand, by member.
    now: Vec<u32>,
    /// The members that have any.
    touched: Vec<u32>,
    /// (gap, member, collectives)
    pub(crate) done: Vec<(usize, u32, u32)>,
}

impl ChunkCollectives {
    /// Sends and receives are left out: each peer makes its own number of them. No other
    /// operation's name has four letters.
    #[inline(always)]
    pub(crate) fn count_call(&mut self, call: &LogCall<'_>) {
        if !is_collective_name(call.coll.op) {
            return;
        }
        let member = call.member as usize;
        if self.now.len() <= member {
            self.now.resize(member + 1, 0);
        }
        if self.now[member] == 0 {
            self.touched.push(call.member);
        }
        self.now[member] += 1;
    }

    /// The gap in hand is over.
    pub(crate) fn end_gap(&mut self, gap: usize) {
        for member in self.touched.drain(..) {
            let n = std::mem::take(&mut self.now[member as usize]);
            self.done.push((gap, member, n));
        }
    }
}

/// The collectives of a log by rank of a communicator and gap.
#[derive(Debug, Default)]
pub(crate) struct CollectivesByRank {
    /// By identity.
    ranks: FxHashMap<u32, RankCollectives>,
}

/// One rank's collectives on one communicator.
#[derive(Debug, Default)]
pub(crate) struct RankCollectives {
    /// The process, merged.
    pub(crate) process: u32,
    /// Collectives of gaps that are not kept any more.
    pub(crate) before: u64,
    /// (gap, collectives), gaps rising: small, since there is one for each rank and step.
    pub(crate) gaps: Vec<(u32, u32)>,
}

impl RankCollectives {
    fn total_calls(&self) -> u64 {
        self.before + self.gaps.iter().map(|&(_, n)| u64::from(n)).sum::<u64>()
    }

    /// Replaces the gaps before this one by their sum.
    fn forget_before(&mut self, gap: usize) {
        let old = self.gaps.partition_point(|(at, _)| (*at as usize) < gap);
        let old = self.gaps.drain(..old);
        self.before += old.map(|(_, n)| u64::from(n)).sum::<u64>();
        shrink_list(&mut self.gaps);
    }
}

/// Gives back memory of what was forgotten.
pub(super) fn shrink_list<T>(list: &mut Vec<T>) {
    list.shrink_to(2 * list.len());
}

impl CollectivesByRank {
    /// Counts `n` collectives of a merged member in a gap.
    pub(crate) fn add_collectives(
        &mut self,
        merged: &MergedMembers,
        member: u32,
        gap: usize,
        n: u32,
    ) {
        let member = merged.origins.members.get(member);
        let Some(identity) = member.identity.checked_sub(1) else {
            return;
        };
        let made = self.ranks.entry(identity).or_default();
        made.process = merged.origins.places.get(member.place).process;
        let gap = u32::try_from(gap).unwrap_or(u32::MAX);
        match made.gaps.last_mut() {
            Some((last, sum)) if *last == gap => *sum = sum.saturating_add(n),
            _ => made.gaps.push((gap, n)),
        }
    }

    /// Returns, in order, the gaps before a change of kind that ended with ranks of a communicator at different
    /// numbers of collectives, even if their totals differ. `None` if no communicator is known.
    pub(crate) fn gaps_apart(
        &self,
        merged: &MergedMembers,
        timeline: &StepTimeline,
    ) -> Option<Vec<usize>> {
        let comms = self.all_comms(merged);
        let mut is_apart = apart_in_any_comm(&comms);
        let apart = segment_edges(timeline, 0..timeline.gaps.len());
        let apart = apart.filter(|&gap| is_apart(gap)).collect();
        (!comms.is_empty()).then_some(apart)
    }

    /// Returns the first such gap in `gaps`.
    pub(crate) fn first_gap_apart(
        &self,
        merged: &MergedMembers,
        timeline: &StepTimeline,
        gaps: Range<usize>,
    ) -> Option<usize> {
        let comms = self.all_comms(merged);
        let mut is_apart = apart_in_any_comm(&comms);
        segment_edges(timeline, gaps).find(|&gap| is_apart(gap))
    }

    /// Replaces the gaps before this one by each rank's sum.
    pub(crate) fn forget_before(&mut self, gap: usize) {
        self.ranks
            .values_mut()
            .for_each(|made| made.forget_before(gap));
    }

    /// Like `forget_before`, and counts gaps from `gap`.
    pub(crate) fn renumber_from(&mut self, gap: usize) {
        self.forget_before(gap);
        let gaps = self.ranks.values_mut().flat_map(|made| &mut made.gaps);
        let gap = u32::try_from(gap).unwrap_or(u32::MAX);
        gaps.for_each(|(at, _)| *at = at.saturating_sub(gap));
    }

    /// Returns the communicators by id with their ranks in order, if all ranks made equally many collectives.
    pub(crate) fn equal_comms(
        &self,
        merged: &MergedMembers,
    ) -> BTreeMap<CommId, Vec<&RankCollectives>> {
        let mut comms = self.all_comms(merged);
        comms.retain(|_, ranks| {
            let all = ranks.first().map(|made| made.total_calls());
            ranks.len() > 1 && ranks.iter().all(|made| Some(made.total_calls()) == all)
        });
        comms
    }

    fn all_comms(&self, merged: &MergedMembers) -> BTreeMap<CommId, Vec<&RankCollectives>> {
        let mut comms: BTreeMap<CommId, Vec<(u32, &RankCollectives)>> = BTreeMap::new();
        for (&identity, made) in &self.ranks {
            let known = merged.identities.get(identity);
            if let Some(id) = known.comm_id {
                comms.entry(id).or_default().push((known.rank, made));
            }
        }
        let in_order = |mut ranks: Vec<(u32, _)>| {
            ranks.sort_by_key(|(rank, _)| *rank);
            ranks.into_iter().map(|(_, made)| made).collect()
        };
        comms
            .into_iter()
            .map(|(id, ranks)| (id, in_order(ranks)))
            .collect()
    }
}

/// Returns the gaps with a next gap of another kind.
fn segment_edges(timeline: &StepTimeline, gaps: Range<usize>) -> impl Iterator<Item = usize> {
    let all = &timeline.gaps;
    let is_edge = |&gap: &usize| {
        let pair = all.get(gap).zip(all.get(gap + 1));
        pair.is_some_and(|(this, next)| this != next)
    };
    gaps.filter(is_edge)
}

/// True if ranks of any communicator made different numbers of collectives up to the end of a gap; gaps must
/// rise.
fn apart_in_any_comm(comms: &BTreeMap<CommId, Vec<&RankCollectives>>) -> impl FnMut(usize) -> bool {
    let mut walks: Vec<Vec<CollectivesCursor<'_>>> = comms
        .values()
        .map(|ranks| {
            ranks
                .iter()
                .map(|made| CollectivesCursor::new(made))
                .collect()
        })
        .collect();
    move |gap| {
        let each = walks.iter_mut().map(|ranks| are_apart(ranks, gap));
        each.fold(false, |any, is| any | is)
    }
}

/// One rank's collectives, counted gap by gap.
struct CollectivesCursor<'a> {
    gaps: std::slice::Iter<'a, (u32, u32)>,
    made: u64,
}

impl CollectivesCursor<'_> {
    fn new(made: &RankCollectives) -> CollectivesCursor<'_> {
        CollectivesCursor {
            gaps: made.gaps.iter(),
            made: made.before,
        }
    }

    /// How many it made up to the end of a gap; gaps rising.
    fn calls_up_to(&mut self, gap: usize) -> u64 {
        let is_before = |&&(at, _): &&(u32, u32)| at as usize <= gap;
        while let Some(&(_, n)) = self.gaps.as_slice().first().filter(is_before) {
            self.made += u64::from(n);
            self.gaps.next();
        }
        self.made
    }
}

/// True where these ranks of one communicator made different numbers of collectives up to the end of a
/// gap.
fn are_apart(ranks: &mut [CollectivesCursor<'_>], gap: usize) -> bool {
    let mut made = ranks.iter_mut().map(|rank| rank.calls_up_to(gap));
    let first = made.next();
    made.fold(false, |apart, n| apart | (Some(n) != first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(gaps: &[(u32, u32)]) -> RankCollectives {
        RankCollectives {
            gaps: gaps.to_vec(),
            ..RankCollectives::default()
        }
    }

    #[test]
    fn what_is_forgotten_is_part_of_the_total() {
        let mut made = made(&[(0, 4), (2, 5), (7, 6)]);
        made.forget_before(3);
        assert_eq!((made.before, &made.gaps[..]), (9, &[(7, 6)][..]));
        made.forget_before(3);
        assert_eq!(made.total_calls(), 15);
    }

    #[test]
    fn ranks_are_apart_where_one_made_more_calls_up_to_a_line() {
        let told = |ranks: &[&[(u32, u32)]]| -> Vec<bool> {
            let mut ranks: Vec<RankCollectives> = ranks.iter().map(|gaps| made(gaps)).collect();
            let told = |ranks: &[RankCollectives], gaps: Range<usize>| -> Vec<bool> {
                let mut walks: Vec<CollectivesCursor<'_>> =
                    ranks.iter().map(CollectivesCursor::new).collect();
                gaps.map(|gap| are_apart(&mut walks, gap)).collect()
            };
            let all = told(&ranks, 0..3);
            // What is forgotten of the first gaps still counts.
            ranks.iter_mut().for_each(|made| made.forget_before(1));
            assert!(ranks.iter().all(|made| made.gaps.len() < 3));
            assert_eq!(told(&ranks, 1..3), all[1..]);
            all
        };
        let (even, ahead, late) = ([(0, 4), (1, 4)], [(0, 5), (1, 3)], [(1, 8)]);
        assert_eq!(told(&[&even, &even, &ahead]), [true, false, false]);
        assert_eq!(told(&[&even, &late]), [true, false, false]);
        assert_eq!(told(&[&even, &[(0, 4), (2, 4)]]), [false, true, false]);
    }
}
