//! The members' collectives of one process group, call by call: the first that differs, and who left
//! one out or made one more.

use super::job::{DumpCallsBySeq, GroupDumpCalls};
use crate::formats::flight::{DumpEntry, FlightOp};
use crate::stages::check::finding::Kind;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What of calls is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CompareScope {
    /// What must be equal and is not compared by NCCL: operation, type, elements.
    Calls,
    /// The lines of the program as well. Equal calls may come from other lines on other ranks; one that
    /// made no difference before, and shifts all later ones, shows a call that was left out or added.
    Lines,
}

/// What is equal on all members of a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DumpCallShape {
    /// NCCL's operation; PyTorch's name where it is not known.
    op: String,
    /// The types of elements.
    types: Vec<Arc<str>>,
    /// The elements of each tensor, where all members must give as many.
    counts: Vec<Option<u64>>,
    /// The lines that made them, if they are compared.
    lines: Vec<(Arc<str>, u64)>,
}

impl DumpCallShape {
    /// Of the records of one number.
    pub(super) fn call_shape(calls: &[&DumpEntry], by: CompareScope) -> DumpCallShape {
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
            let frame = entry.source_frame().filter(|_| by == CompareScope::Lines);
            kind.lines
                .extend(frame.map(|frame| (frame.file.clone(), frame.line)));
            // Only the root has both lists of these; parts of an all-to-all may be uneven.
            if matches!(op, "Gather" | "Scatter" | "AlltoAll") {
                continue;
            }
            kind.types.extend(entry.inputs.types.iter().cloned());
            kind.counts.extend(entry.inputs.element_counts());
        }
        kind
    }

    /// In what it differs from another, as the finding of logs is called.
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

/// The first call of a group that its members do not make alike.
pub(super) struct DumpCallDifference<'d> {
    /// Its number in the group.
    pub(super) seq: u64,
    /// Who makes another call than most; both sides where they are as many.
    pub(super) odd: BTreeSet<u32>,
    pub(super) others: BTreeSet<u32>,
    /// One record of each side.
    pub(super) sides: (&'d DumpEntry, &'d DumpEntry),
    pub(super) kind: Kind,
    /// What the odd ones did, if their other calls show it.
    pub(super) shift: Option<CallShift>,
    /// Which side is odd is known.
    pub(super) is_told: bool,
}

/// How a rank's calls are the others', from another number on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallShift {
    /// It left out so many.
    LeftOut(u64),
    /// It made so many more.
    Added(u64),
    /// It makes calls that come later: how many it left out is not known, as the others got no further.
    Past,
}

/// By how many calls two ranks may be shifted.
const MAX_CALL_SHIFT: u64 = 64;

/// Calls that must have been made by the same lines before one that was not.
const MIN_EQUAL_CALLS_BEFORE: usize = 2;

/// The first call that differs, if one does.
pub(super) fn find_first_difference<'d>(
    grouped: &GroupDumpCalls<'d>,
    by: CompareScope,
) -> Option<DumpCallDifference<'d>> {
    let members = &grouped.members;
    let numbers: BTreeSet<u64> = members.values().flat_map(|c| c.keys().copied()).collect();
    let (mut before, mut numbers) = (0, numbers.into_iter());
    let differs = numbers.find_map(|seq| {
        let made = members
            .values()
            .filter(|calls| calls.contains_key(&seq))
            .count();
        before += usize::from(made > 1);
        difference_at(members, seq, by)
    })?;
    let is_shift = || {
        matches!(
            differs.shift,
            Some(CallShift::LeftOut(_) | CallShift::Added(_))
        )
    };
    (by == CompareScope::Calls || before > MIN_EQUAL_CALLS_BEFORE && is_shift()).then_some(differs)
}

fn difference_at<'d>(
    members: &BTreeMap<u32, DumpCallsBySeq<'d>>,
    seq: u64,
    by: CompareScope,
) -> Option<DumpCallDifference<'d>> {
    let mut kinds: BTreeMap<DumpCallShape, BTreeSet<u32>> = BTreeMap::new();
    for (&rank, calls) in members {
        if let Some(calls) = calls.get(&seq) {
            kinds
                .entry(DumpCallShape::call_shape(calls, by))
                .or_default()
                .insert(rank);
        }
    }
    if kinds.len() < 2 {
        return None;
    }
    let most = kinds.values().map(BTreeSet::len).max()?;
    let largest: Vec<&DumpCallShape> = kinds
        .iter()
        .filter(|(_, r)| r.len() == most)
        .map(|(k, _)| k)
        .collect();
    let calls = |rank: u32| members.get(&rank);
    let shift = |odd: u32, other: u32| find_shift(calls(odd)?, calls(other)?, (seq, by));
    // Of two sides of one size the one whose later calls are the other's, shifted, is odd.
    let (usual, told) = match largest[..] {
        [one] => (one, true),
        [a, b] if kinds.len() == 2 => {
            let first =
                |kind: &DumpCallShape| kinds.get(kind).and_then(|ranks| ranks.first().copied());
            let (a_rank, b_rank) = (first(a)?, first(b)?);
            match (shift(a_rank, b_rank), shift(b_rank, a_rank)) {
                // Who left a call out is as likely as who made one more.
                (Some(CallShift::LeftOut(_)), _) => (b, most > 1),
                (_, Some(CallShift::LeftOut(_))) => (a, most > 1),
                _ => (a, false),
            }
        }
        [a, ..] => (a, false),
        [] => return None,
    };
    let others = kinds.get(usual)?.clone();
    let odd: BTreeSet<u32> = kinds
        .iter()
        .filter(|(k, _)| *k != usual)
        .flat_map(|(_, r)| r)
        .copied()
        .collect();
    let record = |ranks: &BTreeSet<u32>| calls(*ranks.first()?)?.get(&seq)?.first().copied();
    let (odd_kind, _) = kinds.iter().find(|(k, _)| *k != usual)?;
    let moved = match (odd.first(), others.first()) {
        (Some(&one), Some(&other)) => shift(one, other),
        _ => None,
    };
    Some(DumpCallDifference {
        seq,
        sides: (record(&odd)?, record(&others)?),
        kind: odd_kind.difference_kind(usual),
        shift: moved,
        is_told: told,
        odd,
        others,
    })
}

/// How the calls of one rank from `seq` on are another's, if all that both have are.
fn find_shift(
    calls: &DumpCallsBySeq<'_>,
    others: &DumpCallsBySeq<'_>,
    (seq, by): (u64, CompareScope),
) -> Option<CallShift> {
    let kind = |calls: &[&DumpEntry]| DumpCallShape::call_shape(calls, by);
    // At least two must agree: one may do so by chance.
    let agree = |ours: u64, theirs: u64| {
        let mut met = 0;
        for (number, own) in calls.range(seq.saturating_add(ours)..) {
            let at = number - seq.saturating_add(ours);
            let Some(other) = others.get(&(seq.saturating_add(theirs).saturating_add(at))) else {
                break;
            };
            if kind(own) != kind(other) {
                return false;
            }
            met += 1;
        }
        met >= 2
    };
    let left_out = (1..=MAX_CALL_SHIFT)
        .find(|&by| agree(0, by))
        .map(CallShift::LeftOut);
    // Calls that are alike in each step: those that it makes here were made before.
    let is_past =
        || (1..=MAX_CALL_SHIFT.min(seq)).any(|by| has_shifted_calls(calls, others, seq, by));
    left_out
        .or_else(|| is_past().then_some(CallShift::Past))
        .or_else(|| {
            (1..=MAX_CALL_SHIFT)
                .find(|&by| agree(by, 0))
                .map(CallShift::Added)
        })
}

/// True where a rank's calls from `seq` on are those that the other made `by` calls earlier: two of
/// them at least.
fn has_shifted_calls(
    calls: &DumpCallsBySeq<'_>,
    others: &DumpCallsBySeq<'_>,
    seq: u64,
    by: u64,
) -> bool {
    let same = |at: u64| {
        let then = at.checked_sub(by)?;
        Some(
            DumpCallShape::call_shape(calls.get(&at)?, CompareScope::Calls)
                == DumpCallShape::call_shape(others.get(&then)?, CompareScope::Calls),
        )
    };
    (seq..seq.saturating_add(2)).all(|at| same(at) == Some(true))
}
