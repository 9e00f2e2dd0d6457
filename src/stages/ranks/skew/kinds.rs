//! The kinds of times at which ranks came. Times of different kinds are never compared, and never added up.

use super::SkewSummary;
use super::window::SkewCall;
use crate::members::Interner;
use crate::stages::comms::limits::MIN_NS_SINCE_1970;
use std::cmp::Reverse;

/// A kind of time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum TimeKind {
    /// Starts and durations by this clock, or time stamps, for which it is empty.
    Starts(Box<[u8]>),
    /// Enqueues of a record that also has starts of kernels.
    Enqueues {
        /// They count from the beginning of each process or session.
        is_own: bool,
    },
}

impl TimeKind {
    /// The kind of these enqueues.
    pub(super) fn of_enqueue(ns: u64) -> TimeKind {
        TimeKind::Enqueues {
            is_own: ns < MIN_NS_SINCE_1970,
        }
    }

    /// Returns true if the clock begins with each process or session.
    pub(super) fn has_own_clock(&self) -> bool {
        match self {
            TimeKind::Starts(clock) => matches!(&**clock, b"plugin" | b"kineto" | b"nsys"),
            TimeKind::Enqueues { is_own } => *is_own,
        }
    }

    /// Returns its name in a sentence.
    fn describe(&self) -> String {
        match self {
            TimeKind::Starts(clock) if clock.is_empty() => "their time stamp".to_owned(),
            TimeKind::Starts(clock) => {
                format!("their start (clock {})", String::from_utf8_lossy(clock))
            }
            TimeKind::Enqueues { .. } => "their enqueue".to_owned(),
        }
    }
}

/// The calls of a kind.
#[derive(Debug, Default)]
pub(super) struct CallsOfKind {
    pub(super) found: SkewSummary,
    /// Calls that wait to be aligned.
    pub(super) held: Vec<SkewCall>,
}

/// Returns the summary of the kind that most calls have; of equal ones the first by name.
pub(super) fn pick_kind<'k>(
    kinds: impl Iterator<Item = (&'k TimeKind, CallsOfKind)>,
) -> SkewSummary {
    let mut kinds: Vec<(&TimeKind, SkewSummary)> =
        kinds.map(|(kind, calls)| (kind, calls.found)).collect();
    kinds.sort_by_key(|(kind, found)| (Reverse(found.matched), *kind));
    let mut kinds = kinds.into_iter();
    let Some((kind, mut best)) = kinds.next() else {
        return SkewSummary::default();
    };
    let others: Vec<_> = kinds.collect();
    best.untimed = others.iter().map(|(_, found)| found.alone).sum();
    best.are_gaps_known = best.untimed == 0;
    let others = others.iter().filter(|(_, found)| found.matched > 0);
    best.other_kinds = others
        .map(|(other, found)| (other.describe(), found.matched))
        .collect();
    if !best.other_kinds.is_empty() {
        best.time_kind = kind.describe();
    }
    best
}

/// An operation and the number of the kind of its times, by number.
pub(super) fn op_of_number(ops: &Interner<(Vec<u8>, u32)>, number: u32) -> (&[u8], usize) {
    let op = ops.items().get(number as usize);
    op.map_or((&b""[..], 0), |(op, kind)| (op, *kind as usize))
}

/// The calls of a kind, by its number.
pub(super) fn calls_of_kind(calls: &mut Vec<CallsOfKind>, kind: usize) -> &mut CallsOfKind {
    if calls.len() <= kind {
        calls.resize_with(kind + 1, CallsOfKind::default);
    }
    &mut calls[kind]
}
