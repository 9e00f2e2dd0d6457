//! The members' collectives of one process group: the first call that differs.

use super::job::{DumpCallsBySeq, GroupDumpCalls, is_open};
use super::limits::MIN_EQUAL_CALLS_BEFORE;
use crate::calls::compare::{
    Deviation, KnownCalls, compare_numbered, find_deviation, group_members,
};
use crate::calls::usual::{Basis, Outliers};
use crate::formats::flight::{DumpEntry, FlightOp};
use crate::stages::check::finding::Kind;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The properties of calls that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CompareScope {
    /// Operation, type and elements: they must be equal, and NCCL does not compare them.
    Calls,
    /// Also the lines of the program. Ranks may make equal calls in different lines; a difference that is new,
    /// and shifts all later calls, shows a call that was left out or added.
    Lines,
    /// The ends of a message.
    Messages,
}

/// A call's properties that are equal on all members of a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct DumpCallShape {
    /// NCCL's operation, or PyTorch's name if NCCL's is unknown.
    op: String,
    /// The types of elements.
    types: Vec<Arc<str>>,
    /// The elements of each tensor, if all members must give equally many.
    counts: Vec<Option<u64>>,
    /// The lines that made them, if they are compared.
    lines: Vec<(Arc<str>, u64)>,
}

impl DumpCallShape {
    /// The shape of a call, from the records of its number.
    pub(super) fn from_records(calls: &[&DumpEntry], by: CompareScope) -> DumpCallShape {
        let mut kind = DumpCallShape {
            op: String::new(),
            types: Vec::new(),
            counts: Vec::new(),
            lines: Vec::new(),
        };
        for entry in calls {
            let op = match &entry.op {
                FlightOp::Collective(name) => name,
                FlightOp::Coalesced => "coalesced",
                _ => &*entry.name,
            };
            if !kind.op.is_empty() {
                kind.op.push(' ');
            }
            kind.op.push_str(op);
            if let (
                CompareScope::Messages,
                FlightOp::Send { from, to } | FlightOp::Recv { to, from },
            ) = (by, &entry.op)
            {
                kind.op = format!("{from} to {to}");
                continue;
            }
            let frame = entry.source_frame().filter(|_| by == CompareScope::Lines);
            kind.lines
                .extend(frame.map(|frame| (frame.file.clone(), frame.line)));
            // Only the root has both lists of these, and parts of an all-to-all may be uneven.
            if matches!(op, "Gather" | "Scatter" | "AlltoAll") {
                continue;
            }
            kind.types.extend(entry.inputs.types.iter().cloned());
            kind.counts.extend(entry.inputs.element_counts());
        }
        kind
    }

    /// The kind of the first difference to another shape.
    pub(super) fn difference_kind(&self, other: &DumpCallShape) -> Kind {
        if self.op != other.op {
            Kind::OpMismatch
        } else if self.types != other.types {
            Kind::DatatypeMismatch
        } else if self.counts != other.counts {
            Kind::CountMismatch
        } else {
            Kind::LineMismatch
        }
    }
}

/// The first call of a group in which its members differ.
pub(super) struct DumpCallDifference<'d> {
    /// Its number in the group.
    pub(super) seq: u64,
    /// The ranks that make another call than the others.
    pub(super) odd: BTreeSet<u32>,
    pub(super) others: BTreeSet<u32>,
    /// One record of each side: the odd ranks' and the others'.
    pub(super) sides: (&'d DumpEntry, &'d DumpEntry),
    pub(super) kind: Kind,
    /// What the odd ranks did, by their later calls.
    pub(super) deviation: Deviation,
    /// How the odd side is known.
    pub(super) basis: Basis,
}

impl DumpCallDifference<'_> {
    /// True if it is known which side is odd. Of two single ranks the longer match fits a call left out on one
    /// as well as a call added on the other.
    pub(super) fn is_odd_side_known(&self) -> bool {
        match self.basis {
            Basis::Unknown => false,
            // Of messages one is left out far more often than both ends are made for nothing.
            Basis::LongerMatch => self.others.len() > 1 || self.kind == Kind::P2pMissingCounterpart,
            _ => true,
        }
    }
}

/// A member's calls with the properties that are compared.
#[derive(Clone, Copy)]
struct ScopedCalls<'j, 'd> {
    calls: &'j DumpCallsBySeq<'d>,
    scope: CompareScope,
}

impl KnownCalls for ScopedCalls<'_, '_> {
    type Content = DumpCallShape;
    type Op = String;

    fn content_at(&self, seq: u64) -> Option<DumpCallShape> {
        let records = self.calls.get(&seq)?;
        Some(DumpCallShape::from_records(records, self.scope))
    }

    fn op_at(&self, seq: u64) -> Option<String> {
        Some(self.content_at(seq)?.op)
    }

    fn first_seq(&self) -> Option<u64> {
        self.calls.keys().next().copied()
    }

    fn last_seq(&self) -> Option<u64> {
        self.calls.keys().next_back().copied()
    }
}

/// Finds the first call of a group that differs. `groups` are all groups of the job: those of the same kind show
/// which call is usual.
pub(super) fn find_first_difference<'d>(
    grouped: &GroupDumpCalls<'d>,
    groups: &[GroupDumpCalls<'d>],
    scope: CompareScope,
) -> Option<DumpCallDifference<'d>> {
    let similar = |seq| {
        let alike = groups.iter().filter(|other| grouped.is_similar(other));
        alike
            .filter_map(move |other| other.agreed_calls(seq, scope))
            .collect()
    };
    find_difference_of_members(&grouped.members, scope, similar)
}

/// Finds the first message between two ranks that is not a send of the one and a receive of the other, if it did not
/// end and the later ones show which rank left one out. `calls` has the numbered messages of both.
pub(super) fn find_message_difference<'d>(
    calls: &BTreeMap<u32, DumpCallsBySeq<'d>>,
) -> Option<DumpCallDifference<'d>> {
    let differs = find_difference_of_members(calls, CompareScope::Messages, |_| Vec::new())?;
    let mut records = calls.values().filter_map(|calls| calls.get(&differs.seq));
    (records.any(|calls| is_open(calls)) && differs.is_odd_side_known()).then_some(differs)
}

/// Finds the first call in which `members` differ; `similar` gives the calls of groups of the same kind, by a call's
/// number.
fn find_difference_of_members<'j, 'd: 'j>(
    members: &'j BTreeMap<u32, DumpCallsBySeq<'d>>,
    scope: CompareScope,
    similar: impl Fn(u64) -> Vec<ScopedCalls<'j, 'd>>,
) -> Option<DumpCallDifference<'d>> {
    let ranks: Vec<u32> = members.keys().copied().collect();
    let all = members.values().map(|calls| ScopedCalls { calls, scope });
    let all: Vec<ScopedCalls<'j, 'd>> = all.collect();
    let numbered = all.iter().map(|calls| {
        let seqs = calls.calls.keys();
        seqs.filter_map(|&seq| Some((seq, calls.content_at(seq)?)))
    });
    let compared = compare_numbered(numbered);
    let seq = compared.first?;
    let calls = all.iter().enumerate();
    let groups_at =
        group_members(calls.filter_map(|(at, calls)| Some((at, calls.content_at(seq)?))));
    let mut by_call: Vec<Vec<usize>> = groups_at.into_iter().map(|(_, group)| group).collect();
    let similar = similar(seq);
    let outliers = Outliers {
        seq,
        all: &all,
        similar: &similar,
    };
    let basis = outliers.put_right_group_first(&mut by_call);
    let (&other, &odd) = (by_call.first()?.first()?, by_call.get(1)?.first()?);
    let deviation = find_deviation(&all[odd], &all[other], seq);
    let is_shift = matches!(deviation, Deviation::LeftOut(_) | Deviation::Added(_));
    if scope == CompareScope::Lines && (compared.compared <= MIN_EQUAL_CALLS_BEFORE || !is_shift) {
        return None;
    }
    let rank_set = |groups: &[Vec<usize>]| groups.iter().flatten().map(|&at| ranks[at]).collect();
    let record = |at: usize| all[at].calls.get(&seq)?.first().copied();
    Some(DumpCallDifference {
        seq,
        others: rank_set(&by_call[..1]),
        odd: rank_set(&by_call[1..]),
        sides: (record(odd)?, record(other)?),
        kind: match scope {
            CompareScope::Messages => Kind::P2pMissingCounterpart,
            _ => all[odd]
                .content_at(seq)?
                .difference_kind(&all[other].content_at(seq)?),
        },
        deviation,
        basis,
    })
}

impl<'d> GroupDumpCalls<'d> {
    fn scoped_calls(&self, scope: CompareScope) -> impl Iterator<Item = ScopedCalls<'_, 'd>> {
        let members = self.members.values();
        members.map(move |calls| ScopedCalls { calls, scope })
    }

    /// True for another group of equally many ranks that PyTorch describes alike.
    fn is_similar(&self, other: &GroupDumpCalls<'_>) -> bool {
        let (own, other) = (self.group, other.group);
        own.ranks != other.ranks && own.ranks.len() == other.ranks.len() && own.desc == other.desc
    }

    /// The calls of one member, if all members that have call `seq` agree on it, and most have it.
    fn agreed_calls(&self, seq: u64, scope: CompareScope) -> Option<ScopedCalls<'_, 'd>> {
        let calls = self.scoped_calls(scope);
        let those: Vec<_> = calls
            .filter(|calls| calls.calls.contains_key(&seq))
            .collect();
        let (first, later) = those.split_first()?;
        let content = first.content_at(seq);
        let is_agreed = later.iter().all(|other| other.content_at(seq) == content);
        (is_agreed && 2 * those.len() > self.group.ranks.len()).then_some(*first)
    }
}
