//! Calls that not all members of their communicator have made alike.

use super::tail::{SideCalls, TailCall};
use crate::calls::same::StreamKind;
use rustc_hash::{FxHashMap, FxHashSet};

/// Finds the calls that did not meet their counterparts.
pub(super) struct UnmetCalls<'a> {
    sides: &'a SideCalls<'a>,
    /// By communicator, if all members' first calls are known: the fewest collectives of a member.
    fewest: FxHashMap<usize, u64>,
    /// Collectives to which members came with different calls.
    different: FxHashSet<(usize, u64)>,
}

impl<'a> UnmetCalls<'a> {
    /// Compares the last calls of all ranks.
    pub(super) fn compare_calls<'c>(
        sides: &'a SideCalls<'a>,
        calls: impl Iterator<Item = &'c TailCall>,
    ) -> UnmetCalls<'a> {
        let mut unmet = UnmetCalls {
            sides,
            fewest: FxHashMap::default(),
            different: FxHashSet::default(),
        };
        let mut marks: FxHashMap<(usize, u64), u64> = FxHashMap::default();
        let mut looked = FxHashSet::default();
        for call in calls {
            let at = call.communicator;
            if looked.insert(at) && sides.are_numbered_alike(at) {
                let members = sides.found.communicators[at].sides.iter();
                let made = members.map(|&side| sides.count_made(side, StreamKind::Collective));
                unmet.fewest.insert(at, made.min().unwrap_or(0));
            }
            if call.way == StreamKind::Collective
                && *marks.entry((at, call.seq)).or_insert(call.mark) != call.mark
            {
                unmet.different.insert((at, call.seq));
            }
        }
        unmet
    }

    /// True if calls of different ranks with one number are one call.
    pub(super) fn is_shared(&self, communicator: usize) -> bool {
        self.fewest.contains_key(&communicator)
    }

    /// True if a member has not made the call, or made another one.
    pub(super) fn is_unmet(&self, call: &TailCall) -> bool {
        let Some(&fewest) = self.fewest.get(&call.communicator) else {
            return false;
        };
        if call.way == StreamKind::Collective {
            return fewest <= call.seq || self.different.contains(&(call.communicator, call.seq));
        }
        !self.list_absent_sides(call).is_empty()
    }

    /// Returns the members that have not made their part of the call.
    pub(super) fn list_absent_sides(&self, call: &TailCall) -> Vec<usize> {
        let sides = &self.sides.found.sides;
        let own = sides[call.side].rank.map(i64::from);
        let part = |side: usize| match call.way {
            StreamKind::Collective => Some(StreamKind::Collective),
            StreamKind::Send(to) => {
                (sides[side].rank.map(i64::from) == Some(to)).then_some(StreamKind::Recv(own?))
            }
            StreamKind::Recv(from) => {
                (sides[side].rank.map(i64::from) == Some(from)).then_some(StreamKind::Send(own?))
            }
        };
        let members = &self.sides.found.communicators[call.communicator].sides;
        let is_absent = |side: &usize| {
            part(*side).is_some_and(|way| self.sides.count_made(*side, way) <= call.seq)
        };
        members.iter().copied().filter(is_absent).collect()
    }
}
