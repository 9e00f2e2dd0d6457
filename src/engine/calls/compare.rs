//! The first call of a sequence that its members do not make alike, and what a member did there.
//!
//! Generic over the source of the calls: lines of a log, a dump's entries, records, lines of a watchdog.

use super::limits::{MAX_CALL_SHIFT, MIN_SHIFTED_CALLS};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The known calls of one member in a sequence, by number.
pub trait KnownCalls {
    /// What the members must agree on.
    type Content: PartialEq;
    /// The operation alone.
    type Op: PartialEq;
    /// The content of a call, if the call is known.
    fn content_at(&self, seq: u64) -> Option<Self::Content>;
    /// The operation of a call, if the call is known.
    fn op_at(&self, seq: u64) -> Option<Self::Op>;
    /// The number of the first known call.
    fn first_seq(&self) -> Option<u64>;
    /// The number of the last known call.
    fn last_seq(&self) -> Option<u64>;
}

/// True if one member's call is another's at a different place.
pub fn is_same_call<A, B>(own: &A, seq: u64, other: &B, other_seq: u64) -> bool
where
    A: KnownCalls,
    B: KnownCalls<Content = A::Content>,
{
    let content = own.content_at(seq);
    content.is_some() && content == other.content_at(other_seq)
}

/// What the numbered calls of several members show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberedDifference {
    /// The first number at which members differ.
    pub first: Option<u64>,
    /// Numbers that more than one member has, up to and with the first that differs; all if none does.
    pub compared: u64,
    /// All numbers that more than one member has.
    pub shared: u64,
}

/// Compares members' calls by number, each with the numbers that it has.
pub fn compare_numbered<C: PartialEq>(
    members: impl IntoIterator<Item = impl IntoIterator<Item = (u64, C)>>,
) -> NumberedDifference {
    let mut known: FxHashMap<u64, (C, bool)> = FxHashMap::default();
    let mut first: Option<u64> = None;
    for (seq, content) in members.into_iter().flatten() {
        let Some((expected, is_shared)) = known.get_mut(&seq) else {
            known.insert(seq, (content, false));
            continue;
        };
        *is_shared = true;
        if *expected != content && first.is_none_or(|first| seq < first) {
            first = Some(seq);
        }
    }
    let is_before = |seq: u64| first.is_none_or(|first| seq <= first);
    let (mut compared, mut shared) = (0, 0);
    for (seq, _) in known.iter().filter(|(_, (_, is_shared))| *is_shared) {
        shared += 1;
        compared += u64::from(is_before(*seq));
    }
    NumberedDifference {
        first,
        compared,
        shared,
    }
}

/// Groups members by what they call at one place: the largest group first, then the one with the first member.
pub fn group_members<M: Ord + Copy, C: Ord>(
    calls: impl IntoIterator<Item = (M, C)>,
) -> Vec<(C, Vec<M>)> {
    let mut groups: BTreeMap<C, Vec<M>> = BTreeMap::new();
    for (member, content) in calls {
        groups.entry(content).or_default().push(member);
    }
    let mut groups: Vec<(C, Vec<M>)> = groups.into_iter().collect();
    groups.sort_by_key(|(_, group)| (Reverse(group.len()), group.first().copied()));
    groups
}

/// What a member did where its calls begin to differ from the others'.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deviation {
    /// It left out this many calls.
    LeftOut(u64),
    /// It left out calls; the others got no further, so their number is unknown.
    Skipped,
    /// It made this many calls more.
    Added(u64),
    /// It made this many calls fewer, and equal ones so far.
    Behind(u64),
    /// Its calls are no shift of the others'.
    Other,
}

/// Finds what a member did from call `seq` on, beside one that made the expected calls. The explanation under
/// which more calls agree decides; of two that are equal, a call left out.
pub fn find_deviation<A, B>(own: &A, usual: &B, seq: u64) -> Deviation
where
    A: KnownCalls,
    B: KnownCalls<Content = A::Content>,
{
    if own.content_at(seq).is_none() {
        let missing = usual
            .last_seq()
            .map_or(0, |last| last.saturating_sub(seq).saturating_add(1));
        return Deviation::Behind(missing);
    }
    let left_out = find_shift(own, usual, seq);
    let added = find_shift(usual, own, seq);
    match (left_out, added) {
        (Some(left_out), Some(added)) if added.agreed > left_out.agreed => {
            Deviation::Added(added.calls)
        }
        (Some(left_out), _) => Deviation::LeftOut(left_out.calls),
        (None, _) if makes_earlier_calls(own, usual, seq) => Deviation::Skipped,
        (None, Some(added)) => Deviation::Added(added.calls),
        (None, None) => Deviation::Other,
    }
}

/// A shift under which one member's calls are another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallShift {
    /// By how many calls.
    pub calls: u64,
    /// How many calls agree.
    pub agreed: u64,
}

/// Finds the smallest shift under which the calls of `own` from `seq` on are those that `other` makes later,
/// as far as both are known.
pub fn find_shift<A, B>(own: &A, other: &B, seq: u64) -> Option<CallShift>
where
    A: KnownCalls,
    B: KnownCalls<Content = A::Content>,
{
    (1..=MAX_CALL_SHIFT).find_map(|calls| {
        let mut agreed = 0;
        while let Some(at) = seq.checked_add(agreed) {
            let Some(theirs) = at.checked_add(calls).and_then(|at| other.content_at(at)) else {
                break;
            };
            match own.content_at(at) {
                Some(content) if content == theirs => agreed += 1,
                Some(_) => return None,
                None => break,
            }
        }
        (agreed >= MIN_SHIFTED_CALLS).then_some(CallShift { calls, agreed })
    })
}

/// True if a member's next calls are those that the other made earlier, as in each step.
fn makes_earlier_calls<A, B>(own: &A, other: &B, seq: u64) -> bool
where
    A: KnownCalls,
    B: KnownCalls<Content = A::Content>,
{
    (1..=MAX_CALL_SHIFT.min(seq)).any(|shift| {
        let mut calls = seq..seq.saturating_add(MIN_SHIFTED_CALLS);
        calls.all(|at| is_same_call(own, at, other, at - shift))
    })
}

/// Members that made fewer calls than the one that made most, each with how many fewer: the ones that are
/// furthest behind first.
pub fn members_behind<M: Ord>(made: impl Iterator<Item = (M, u64)> + Clone) -> Vec<(M, u64)> {
    let most = made.clone().map(|(_, calls)| calls).max().unwrap_or(0);
    let fewer = made.map(|(member, calls)| (member, most - calls));
    let mut behind: Vec<(M, u64)> = fewer.filter(|(_, by)| *by > 0).collect();
    behind.sort_by(|(a, by_a), (b, by_b)| by_b.cmp(by_a).then_with(|| a.cmp(b)));
    behind
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Calls by one letter each, from number `.0` on.
    pub(in crate::calls) struct Letters(
        pub(in crate::calls) u64,
        pub(in crate::calls) &'static [u8],
    );

    impl KnownCalls for Letters {
        type Content = u8;
        type Op = u8;
        fn content_at(&self, seq: u64) -> Option<u8> {
            let at = usize::try_from(seq.checked_sub(self.0)?).ok()?;
            self.1.get(at).copied()
        }
        fn op_at(&self, seq: u64) -> Option<u8> {
            self.content_at(seq)
        }
        fn first_seq(&self) -> Option<u64> {
            Some(self.0)
        }
        fn last_seq(&self) -> Option<u64> {
            Some(self.0 + self.1.len() as u64 - 1)
        }
    }

    #[test]
    fn the_longer_match_decides_what_a_member_did() {
        let usual = Letters(0, b"ABCDEFGH");
        let by = |own: &'static [u8], seq| find_deviation(&Letters(0, own), &usual, seq);
        assert_eq!(by(b"ABDEFGH", 2), Deviation::LeftOut(1));
        assert_eq!(by(b"ABEFGH", 2), Deviation::LeftOut(2));
        assert_eq!(by(b"ABXCDEFGH", 2), Deviation::Added(1));
        assert_eq!(by(b"ABXDEFGH", 2), Deviation::Other);
        assert_eq!(by(b"ABCDE", 5), Deviation::Behind(3));
        // One call that agrees is chance.
        assert_eq!(by(b"ABD", 2), Deviation::Other);
        // Calls that alternate fit both; one more or one fewer decides.
        let usual = Letters(0, b"ARARARAR");
        let by = |own: &'static [u8]| find_deviation(&Letters(0, own), &usual, 2);
        assert_eq!(by(b"ARRARAR"), Deviation::LeftOut(1));
        assert_eq!(by(b"ARRARARAR"), Deviation::Added(1));
        // The others got no further.
        let usual = Letters(0, b"ABCABCA");
        let own = Letters(0, b"ABCABCBCABC");
        assert_eq!(find_deviation(&own, &usual, 6), Deviation::Skipped);
        let end = Letters(u64::MAX - 3, b"ABCD");
        assert_eq!(find_deviation(&end, &end, u64::MAX - 1), Deviation::Other);
    }

    #[test]
    fn numbers_that_only_one_member_has_are_not_compared() {
        let calls = [
            vec![(0, 8), (1, 4), (2, 4)],
            vec![(0, 8), (1, 16), (3, 4)],
            vec![(2, 8)],
        ];
        let compared = compare_numbered(calls.clone());
        let expected = NumberedDifference {
            first: Some(1),
            compared: 2,
            shared: 3,
        };
        assert_eq!(compared, expected);
        let alike = compare_numbered(calls.into_iter().take(1));
        assert_eq!((alike.first, alike.shared), (None, 0));
        let groups = group_members([(0, 4), (1, 16), (2, 4)]);
        assert_eq!(groups, [(4, vec![0, 2]), (16, vec![1])]);
    }

    #[test]
    fn members_behind_are_ordered_by_how_far() {
        let made = [(0, 9), (1, 8), (2, 9), (3, 6), (4, 8)];
        assert_eq!(members_behind(made.into_iter()), [(3, 3), (1, 1), (4, 1)]);
        assert_eq!(members_behind([].into_iter()), [] as [(u32, u64); 0]);
    }
}
