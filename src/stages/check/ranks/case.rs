//! What is known of the calls where ranks differ.

use super::deadlock::Met;
use super::last_calls::LastCalls;
use super::mismatch::Details;
use super::names::Names;
use super::stopped::lone_stop::Tail;
use crate::stages::check::streams::compare::Whose;
use crate::stages::check::streams::step_ends::StepEnds;
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
    /// Calls that came through a pipe may have been let go.
    pub(super) is_piped: bool,
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

    /// The last calls, and whose they are; `steps` are the processes' own, `job_of` gives a process's job.
    pub(super) fn tail<'t>(
        &'t self,
        steps: &'t StepEnds,
        job_of: impl Fn(u32) -> u32 + 't,
    ) -> Tail<'t> {
        let mut process_of: FxHashMap<u32, u32> = FxHashMap::default();
        let mut made: FxHashMap<u32, u64> = FxHashMap::default();
        for ((number, _), &stream) in &self.streams.at {
            let caller = self.caller(*number);
            *made.entry(caller.process).or_default() += self.streams.calls(stream);
            let own = self.whose.get(&caller);
            process_of.extend(own.map(|own| (stream, own.process)));
        }
        // Calls that no stream has would move the others.
        let own = move |input: u32, process: u32| {
            let own = steps.of(input, process)?;
            (made.get(&process) == Some(&own.made)).then_some(own)
        };
        Tail {
            calls: self.streams.tail(),
            steps: Box::new(own),
            process_of: Box::new(move |stream| process_of.get(&stream).copied()),
            job_of: Box::new(job_of),
        }
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
