//! The members' collectives of one process group, call by call: the first that differs, and who left
//! one out or made one more.

use super::job::{Calls, Grouped};
use crate::formats::flight::{Entry, Op};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What of calls is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// What must be equal and is not compared by NCCL: operation, type, elements.
    Calls,
    /// The lines of the program as well. Equal calls may come from other lines on other ranks; one that
    /// made no difference before, and shifts all later ones, shows a call that was left out or added.
    Lines,
}

/// What is equal on all members of a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    /// NCCL's operation; PyTorch's name where it is not known.
    op: String,
    /// The types of elements.
    types: Vec<Arc<str>>,
    /// The elements of each tensor, where all members must give as many.
    counts: Vec<Option<u64>>,
    /// The lines that made them, if they are compared.
    lines: Vec<(Arc<str>, u64)>,
}

impl Kind {
    /// Of the records of one number.
    pub(super) fn of(calls: &[&Entry], by: By) -> Kind {
        let mut kind = Kind {
            op: String::new(),
            types: Vec::new(),
            counts: Vec::new(),
            lines: Vec::new(),
        };
        for entry in calls {
            let op = match &entry.op {
                Op::Collective(name) => name,
                Op::Coalesced => "coalesced",
                _ => &*entry.name,
            };
            if !kind.op.is_empty() {
                kind.op.push(' ');
            }
            kind.op.push_str(op);
            let frame = entry.source().filter(|_| by == By::Lines);
            kind.lines
                .extend(frame.map(|frame| (frame.file.clone(), frame.line)));
            // Only the root has both lists of these; parts of an all-to-all may be uneven.
            if matches!(op, "Gather" | "Scatter" | "AlltoAll") {
                continue;
            }
            kind.types.extend(entry.inputs.types.iter().cloned());
            kind.counts.extend(entry.inputs.counts());
        }
        kind
    }

    /// In what it differs from another, as the finding of logs is called.
    pub(super) fn differs(&self, other: &Kind) -> &'static str {
        if self.op != other.op {
            "op_mismatch"
        } else if self.types != other.types {
            "datatype_mismatch"
        } else if self.counts != other.counts {
            "count_mismatch"
        } else {
            "line_mismatch"
        }
    }
}

/// The first call of a group that its members do not make alike.
pub(super) struct Differs<'d> {
    /// Its number in the group.
    pub(super) seq: u64,
    /// Who makes another call than most; both sides where they are as many.
    pub(super) odd: BTreeSet<u32>,
    pub(super) others: BTreeSet<u32>,
    /// One record of each side.
    pub(super) sides: (&'d Entry, &'d Entry),
    pub(super) id: &'static str,
    /// What the odd ones did, if their other calls show it.
    pub(super) shift: Option<Shift>,
    /// Which side is odd is known.
    pub(super) is_told: bool,
}

/// How a rank's calls are the others', from another number on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shift {
    /// It left out so many.
    LeftOut(u64),
    /// It made so many more.
    Added(u64),
    /// It makes calls that come later: how many it left out is not known, as the others got no further.
    Past,
}

/// By how many calls two ranks may be shifted.
const FARTHEST: u64 = 64;

/// Calls that must have been made by the same lines before one that was not.
const BEFORE: usize = 2;

/// The first call that differs, if one does.
pub(super) fn first_difference<'d>(grouped: &Grouped<'d>, by: By) -> Option<Differs<'d>> {
    let members = &grouped.members;
    let numbers: BTreeSet<u64> = members.values().flat_map(|c| c.keys().copied()).collect();
    let (mut before, mut numbers) = (0, numbers.into_iter());
    let differs = numbers.find_map(|seq| {
        let made = members
            .values()
            .filter(|calls| calls.contains_key(&seq))
            .count();
        before += usize::from(made > 1);
        at(members, seq, by)
    })?;
    let is_shift = || matches!(differs.shift, Some(Shift::LeftOut(_) | Shift::Added(_)));
    (by == By::Calls || before > BEFORE && is_shift()).then_some(differs)
}

fn at<'d>(members: &BTreeMap<u32, Calls<'d>>, seq: u64, by: By) -> Option<Differs<'d>> {
    let mut kinds: BTreeMap<Kind, BTreeSet<u32>> = BTreeMap::new();
    for (&rank, calls) in members {
        if let Some(calls) = calls.get(&seq) {
            kinds.entry(Kind::of(calls, by)).or_default().insert(rank);
        }
    }
    if kinds.len() < 2 {
        return None;
    }
    let most = kinds.values().map(BTreeSet::len).max()?;
    let largest: Vec<&Kind> = kinds
        .iter()
        .filter(|(_, r)| r.len() == most)
        .map(|(k, _)| k)
        .collect();
    let calls = |rank: u32| members.get(&rank);
    let shift = |odd: u32, other: u32| shift(calls(odd)?, calls(other)?, (seq, by));
    // Of two sides of one size the one whose later calls are the other's, shifted, is odd.
    let (usual, told) = match largest[..] {
        [one] => (one, true),
        [a, b] if kinds.len() == 2 => {
            let first = |kind: &Kind| kinds.get(kind).and_then(|ranks| ranks.first().copied());
            let (a_rank, b_rank) = (first(a)?, first(b)?);
            match (shift(a_rank, b_rank), shift(b_rank, a_rank)) {
                // Who left a call out is as likely as who made one more.
                (Some(Shift::LeftOut(_)), _) => (b, most > 1),
                (_, Some(Shift::LeftOut(_))) => (a, most > 1),
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
    Some(Differs {
        seq,
        sides: (record(&odd)?, record(&others)?),
        id: odd_kind.differs(usual),
        shift: moved,
        is_told: told,
        odd,
        others,
    })
}

/// How the calls of one rank from `seq` on are another's, if all that both have are.
fn shift(calls: &Calls<'_>, others: &Calls<'_>, (seq, by): (u64, By)) -> Option<Shift> {
    let kind = |calls: &[&Entry]| Kind::of(calls, by);
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
    let left_out = (1..=FARTHEST).find(|&by| agree(0, by)).map(Shift::LeftOut);
    // Calls that are alike in each step: those that it makes here were made before.
    let is_past = || (1..=FARTHEST.min(seq)).any(|by| goes_on(calls, others, seq, by));
    left_out
        .or_else(|| is_past().then_some(Shift::Past))
        .or_else(|| (1..=FARTHEST).find(|&by| agree(by, 0)).map(Shift::Added))
}

/// True where a rank's calls from `seq` on are those that the other made `by` calls earlier: two of
/// them at least.
fn goes_on(calls: &Calls<'_>, others: &Calls<'_>, seq: u64, by: u64) -> bool {
    let same = |at: u64| {
        let then = at.checked_sub(by)?;
        Some(Kind::of(calls.get(&at)?, By::Calls) == Kind::of(others.get(&then)?, By::Calls))
    };
    (seq..seq.saturating_add(2)).all(|at| same(at) == Some(true))
}
