//! Where a communicator's members part.

use super::finding::{Groups, different};
use super::{Calls, Details, Mark, Parting, mark};
use crate::grammar::values::is_known;
use crate::stages::check::ranks::names::Names;
use crate::stages::check::streams::compare::{Apart, Ranked};
use crate::stages::check::streams::reread::Detail;
use crate::stages::check::streams::why::Why;
use crate::stages::check::streams::{Caller, Way};
use std::collections::{BTreeMap, BTreeSet};

/// Finds where the members of `apart` part. `caller` gives the caller of a number, `kin` others that
/// make the same calls.
pub(crate) fn parting(
    apart: &Apart,
    (from, to): (u64, u64),
    details: &Details,
    kin: &[Caller],
    caller: impl Fn(u32) -> Caller,
    names: Names<'_>,
) -> Parting {
    let stretch = Stretch::new(apart, details, caller);
    let all = &stretch.all;
    for seq in from..to {
        let groups = stretch.groups(seq);
        if groups.len() > 1 {
            if let Some(why) = stretch.unknown(seq, groups.keys()) {
                return Parting::Unknown(why);
            }
            let kin = kin
                .iter()
                .filter_map(|caller| details.get(&(*caller, Way::Collective)));
            let kin: Vec<&[Detail]> = kin.map(|list| &list[..]).collect();
            let groups = Groups::new(seq, groups.into_values().collect(), all);
            return match different(apart, groups, &kin, names) {
                Some(finding) => Parting::Different(Box::new(finding)),
                None => stretch.behind(seq),
            };
        }
        if all.iter().any(|calls| calls.member.calls <= seq) {
            return stretch.behind(seq);
        }
    }
    stretch.behind(to)
}

/// The members' calls of the stretch in which they part.
struct Stretch<'a> {
    all: Vec<Calls<'a>>,
    /// NCCL's number of a call is one for all members.
    counted: bool,
    /// The log begins in the middle of the job.
    is_late: bool,
}

impl<'a> Stretch<'a> {
    fn new(apart: &Apart, details: &'a Details, caller: impl Fn(u32) -> Caller) -> Stretch<'a> {
        let of = |member: &Ranked| {
            let list = member
                .caller
                .and_then(|c| details.get(&(caller(c), Way::Collective)));
            Calls {
                member: *member,
                list: list.map_or(&[][..], |list| list),
            }
        };
        // Sends and receives count too, and each rank has its own.
        let alone = |(of, way): &(Caller, Way)| {
            let mut members = apart.members.iter().filter_map(|m| m.caller);
            *way == Way::Collective || !members.any(|member| caller(member) == *of)
        };
        Stretch {
            all: apart.members.iter().map(of).collect(),
            counted: details.keys().all(alone),
            is_late: apart.is_late,
        }
    }

    /// The members that make the same call there, by the call.
    fn groups(&self, seq: u64) -> BTreeMap<Mark<'a>, Vec<usize>> {
        let mut groups: BTreeMap<Mark<'_>, Vec<usize>> = BTreeMap::new();
        for (at, calls) in self.all.iter().enumerate() {
            if let Some(call) = calls.at(seq) {
                groups.entry(mark(call)).or_default().push(at);
            }
        }
        groups
    }

    /// Why it may be the log that is not right where members call different things.
    fn unknown<'m>(&self, seq: u64, mut calls: impl Iterator<Item = &'m Mark<'m>>) -> Option<Why> {
        // Both ranks have made as many calls before it.
        if self.numbers(seq) {
            Some(Why::Numbers)
        } else if self.is_late && !self.in_step(seq) {
            Some(Why::Late)
        } else if calls.any(|(op, ..)| !is_known(op)) || is_torn(seq, &self.all) {
            Some(Why::Damaged)
        } else {
            None
        }
    }

    /// Some have made fewer calls, if the log is right.
    fn behind(&self, seq: u64) -> Parting {
        if self.is_late && !self.in_step(seq) {
            Parting::Unknown(Why::Late)
        } else if seq.checked_sub(1).is_some_and(|seq| self.numbers(seq)) {
            Parting::Unknown(Why::Numbers)
        } else {
            Parting::Behind
        }
    }

    /// NCCL itself counted other calls of some members there: the log lacks lines.
    fn numbers(&self, seq: u64) -> bool {
        self.counted && self.differ(seq) && self.is_number(seq)
    }

    /// The members' calls have different numbers there.
    fn differ(&self, seq: u64) -> bool {
        let calls = || self.all.iter().filter_map(|calls| calls.at(seq));
        let first = calls().next().map(|call| call.op_count);
        calls().any(|call| Some(call.op_count) != first)
    }

    /// NCCL's numbers were the same before, and rose by one. NCCL does not count calls for which a
    /// rank has no work on the network: where a host has several ranks, the number says nothing to
    /// the others.
    fn is_number(&self, seq: u64) -> bool {
        let lists = self.all.iter().flat_map(|calls| calls.list);
        let before = lists.filter(|call| call.seq < seq);
        let before: BTreeSet<u64> = before.map(|call| call.seq).collect();
        let rises = |calls: &Calls<'_>| {
            let pairs = calls.list.windows(2).filter(|w| w[1].seq < seq);
            let mut next = pairs.filter(|w| w[1].seq == w[0].seq + 1);
            next.all(|w| w[1].op_count == w[0].op_count + 1)
        };
        !before.into_iter().any(|seq| self.differ(seq)) && self.all.iter().all(rises)
    }

    /// A log that begins in the middle has ranks at different calls: where they were not in step,
    /// one that is of another kind than the last shows it.
    fn in_step(&self, seq: u64) -> bool {
        let Some(calls) = self.all.iter().min_by_key(|calls| calls.list.len()) else {
            return false;
        };
        let before = calls.list.windows(2).filter(|w| w[1].seq < seq);
        before.filter(|w| mark(&w[0]) != mark(&w[1])).count() >= 2
    }
}

/// True where a rank's two calls stand in the other order only because one of them was torn and the
/// other stands between its pieces.
fn is_torn(seq: u64, all: &[Calls<'_>]) -> bool {
    let torn = |calls: &Calls<'_>| {
        let both = calls.at(seq).zip(calls.at(seq + 1));
        both.is_some_and(|(a, b)| a.joined || b.joined)
    };
    let swapped = |a: &Calls<'_>, b: &Calls<'_>| a.same(seq, b, seq + 1) && a.same(seq + 1, b, seq);
    let mut those = all.iter().filter(|calls| torn(calls));
    those.any(|calls| all.iter().any(|other| swapped(calls, other)))
}
