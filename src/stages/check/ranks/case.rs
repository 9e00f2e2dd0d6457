//! What is known of the calls where ranks differ.

use super::deadlock::Met;
use super::last_calls::LastCalls;
use super::mismatch::Details;
use super::names::Names;
use crate::stages::check::streams::compare::Whose;
use crate::stages::check::streams::{Caller, Streams, Way};
use crate::stages::communicators::Found;
use rustc_hash::FxHashMap;

/// What is known of the calls where ranks differ.
#[derive(Clone, Copy)]
pub(super) struct Case<'a> {
    pub(super) found: &'a Found,
    pub(super) streams: &'a Streams,
    pub(super) details: &'a Details,
    pub(super) met: &'a Met,
    pub(super) names: Names<'a>,
    /// Whose calls a caller's are.
    pub(super) whose: &'a FxHashMap<Caller, Whose>,
    /// Each process's last call.
    pub(super) last: &'a LastCalls<'a>,
}

impl Case<'_> {
    /// The caller of a number.
    pub(super) fn caller(&self, number: u32) -> Caller {
        *self.streams.callers.get(number)
    }

    /// How many collectives each caller made.
    pub(super) fn made(&self) -> FxHashMap<Caller, u64> {
        let all = self.streams.at.iter();
        let collectives = all.filter(|((_, way), _)| *way == Way::Collective);
        collectives
            .map(|((number, _), &at)| (self.caller(*number), self.streams.calls(at)))
            .collect()
    }
}
