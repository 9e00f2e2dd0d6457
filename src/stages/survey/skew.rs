//! How far the ranks were from the same call at a step line.
//!
//! A call's step is known by position: it is the step whose line comes next. NCCL prints when a
//! rank enqueues, the trainer when its printing rank is done, and other ranks may be ahead or
//! behind. The log itself tells: the members of a communicator make the same collectives in the
//! same order, so where they have made different numbers of them at a step line, some of these
//! calls stand on the wrong side of it.

use crate::formats::log::timeline::Timeline;
use crate::formats::log::walk::Call;
use crate::members::Merged;
use crate::members::comm_id::CommId;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// One chunk's collectives by member and gap.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Those of the gap in hand, by member.
    now: Vec<u32>,
    /// The members that have any.
    touched: Vec<u32>,
    /// (gap, member, collectives)
    pub(crate) done: Vec<(usize, u32, u32)>,
}

impl Counts {
    /// Sends and receives are left out: each peer makes its own number of them. No other
    /// operation's name has four letters.
    #[inline(always)]
    pub(crate) fn call(&mut self, call: &Call<'_>) {
        if call.coll.op.len() == b"Send".len() {
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
    pub(crate) fn end(&mut self, gap: usize) {
        for member in self.touched.drain(..) {
            let n = std::mem::take(&mut self.now[member as usize]);
            self.done.push((gap, member, n));
        }
    }
}

/// The collectives of a log by rank of a communicator and gap.
#[derive(Debug, Default)]
pub(crate) struct Skew {
    /// By identity.
    ranks: FxHashMap<u32, Made>,
}

/// One rank's collectives on one communicator.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// The process, merged.
    pub(crate) process: u32,
    /// (gap, collectives), gaps rising.
    pub(crate) gaps: Vec<(usize, u64)>,
}

impl Made {
    fn total(&self) -> u64 {
        self.gaps.iter().map(|(_, n)| n).sum()
    }
}

/// Calls on the wrong side of the step lines.
#[derive(Debug, Default)]
pub struct Astray {
    /// For each gap at whose end something else begins: how many, at least.
    pub at: BTreeMap<usize, u64>,
    /// Different calls, at least: one may be on the wrong side of several lines.
    pub calls: u64,
}

impl Skew {
    /// Counts `n` collectives of a merged member in a gap.
    pub(crate) fn add(&mut self, merged: &Merged, member: u32, gap: usize, n: u64) {
        let member = merged.origins.members.get(member);
        let Some(identity) = member.identity.checked_sub(1) else {
            return;
        };
        let made = self.ranks.entry(identity).or_default();
        made.process = merged.origins.places.get(member.place).process;
        match made.gaps.last_mut() {
            Some((last, sum)) if *last == gap => *sum += n,
            _ => made.gaps.push((gap, n)),
        }
    }

    /// How many calls stand on the wrong side of each step line, at least: for each communicator
    /// the sum of its ranks' distances from their median.
    ///
    /// `None` where nothing can be said: no communicator's id is known, one rank's log alone, or
    /// the ranks' totals differ, as where a log begins or ends in the middle of a job.
    pub(crate) fn astray(&self, merged: &Merged, timeline: &Timeline) -> Option<Astray> {
        let comms = self.comms(merged);
        if comms.is_empty() {
            return None;
        }
        Some(all_apart(&comms, timeline))
    }

    /// The first gap at whose end ranks of a communicator had made different numbers of
    /// collectives, also of those whose totals differ.
    pub(crate) fn uneven(&self, merged: &Merged, timeline: &Timeline) -> Option<usize> {
        let Astray { at, .. } = all_apart(&self.all_comms(merged), timeline);
        at.into_iter().find(|(_, n)| *n > 0).map(|(gap, _)| gap)
    }

    /// The communicators by id, each with its ranks in order, of those whose ranks made equally
    /// many collectives in all.
    pub(crate) fn comms(&self, merged: &Merged) -> BTreeMap<CommId, Vec<&Made>> {
        let mut comms = self.all_comms(merged);
        comms.retain(|_, ranks| {
            let all = ranks.first().map(|made| made.total());
            ranks.len() > 1 && ranks.iter().all(|made| Some(made.total()) == all)
        });
        comms
    }

    fn all_comms(&self, merged: &Merged) -> BTreeMap<CommId, Vec<&Made>> {
        let mut comms: BTreeMap<CommId, Vec<(u32, &Made)>> = BTreeMap::new();
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

/// What the ranks of all these communicators are apart wherever something else begins.
fn all_apart(comms: &BTreeMap<CommId, Vec<&Made>>, timeline: &Timeline) -> Astray {
    let gaps = &timeline.gaps;
    let mut at: BTreeMap<usize, u64> = (1..gaps.len())
        .filter(|&next| gaps[next] != gaps[next - 1])
        .map(|next| (next - 1, 0))
        .collect();
    let gaps = |ranks: &Vec<&Made>| -> u64 {
        let gaps: Vec<&[(usize, u64)]> = ranks.iter().map(|made| &made.gaps[..]).collect();
        apart(&gaps, &mut at)
    };
    let calls = comms.values().map(gaps).sum();
    Astray { at, calls }
}

/// Adds what the ranks of one communicator are apart at each edge; gives the different calls.
fn apart(ranks: &[&[(usize, u64)]], edges: &mut BTreeMap<usize, u64>) -> u64 {
    let mut calls = 0;
    // Up to which call of each rank those astray are counted.
    let mut counted = vec![0_u64; ranks.len()];
    let mut made = vec![0_u64; ranks.len()];
    let mut next = vec![0_usize; ranks.len()];
    for (&edge, sum) in edges {
        for (rank, gaps) in ranks.iter().enumerate() {
            while let Some((_, n)) = gaps.get(next[rank]).filter(|(gap, _)| *gap <= edge) {
                made[rank] += n;
                next[rank] += 1;
            }
        }
        let mut sorted = made.clone();
        sorted.sort_unstable();
        let median = sorted[sorted.len() / 2];
        for (&n, counted) in made.iter().zip(&mut counted) {
            *sum += n.abs_diff(median);
            let (from, to) = (n.min(median), n.max(median));
            calls += to.saturating_sub(from.max(*counted));
            *counted = to.max(*counted);
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_apart_by_their_distance_from_the_median() {
        // Three ranks, four collectives a step; the third is one ahead at the first line.
        let (even, ahead) = (vec![(0, 4), (1, 4)], vec![(0, 5), (1, 3)]);
        let ranks: Vec<&[(usize, u64)]> = vec![&even, &even, &ahead];
        let mut edges = BTreeMap::from([(0, 0), (1, 0)]);
        assert_eq!(apart(&ranks, &mut edges), 1);
        assert_eq!(edges, BTreeMap::from([(0, 1), (1, 0)]));
        // A rank that has not begun.
        let late = vec![(1, 8)];
        let ranks: Vec<&[(usize, u64)]> = vec![&even, &late, &even];
        let mut edges = BTreeMap::from([(0, 0), (1, 0)]);
        assert_eq!(apart(&ranks, &mut edges), 4);
        assert_eq!(edges, BTreeMap::from([(0, 4), (1, 0)]));
        // One call ahead of three lines is one call.
        let (even, ahead) = (vec![(0, 1), (3, 1)], vec![(0, 2)]);
        let ranks: Vec<&[(usize, u64)]> = vec![&even, &even, &ahead];
        let mut edges = BTreeMap::from([(0, 0), (1, 0), (2, 0), (3, 0)]);
        assert_eq!(apart(&ranks, &mut edges), 1);
        assert_eq!(edges.values().sum::<u64>(), 3);
    }
}
