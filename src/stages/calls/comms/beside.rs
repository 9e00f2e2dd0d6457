//! What is kept beside the steps in the first walk of a log: how its calls were served, where that
//! is asked for.

use crate::log::Part;
use crate::log::placement::Recorder;
use crate::log::walk::Visit;
use crate::members::Merged;
use crate::stages::tuning::all::{All, Counts};
use crate::stages::tuning::fold::Partial;
use crate::stages::tuning::served::Served;

/// What TUNING lines tell of the calls of all logs.
#[derive(Debug, Default)]
pub(super) struct Tuned {
    /// Logs that were asked.
    pub(super) logs: u64,
    /// How lines and calls were joined.
    pub(super) sum: Counts,
    /// Calls of ranks 0.
    pub(super) calls: u64,
}

/// What is kept of one log.
pub(super) trait Beside: Default {
    /// Of a chunk, with its calls. Each type that walks takes its time to build: calls alone are what
    /// other stages keep, too.
    type Visit: Visit + Send;
    /// Nothing of a chunk yet.
    fn visit() -> Self::Visit;
    /// The next chunk; gives its calls.
    fn add<'p>(&mut self, part: Part<'p, Self::Visit>) -> (Recorder, Part<'p, ()>);
    /// The log ended.
    fn end(self, merged: &Merged, tuned: &mut Tuned) -> Option<Served>;
}

/// Nothing.
impl Beside for () {
    type Visit = Recorder;

    fn visit() -> Recorder {
        Recorder::default()
    }

    fn add<'p>(&mut self, part: Part<'p, Recorder>) -> (Recorder, Part<'p, ()>) {
        part.taken()
    }

    fn end(self, _: &Merged, _: &mut Tuned) -> Option<Served> {
        None
    }
}

/// How its calls were served.
pub(super) struct Tuning(All);

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning(All::in_order())
    }
}

impl Beside for Tuning {
    type Visit = (Recorder, Partial);

    fn visit() -> (Recorder, Partial) {
        (Recorder::default(), Partial::in_order())
    }

    fn add<'p>(&mut self, part: Part<'p, Self::Visit>) -> (Recorder, Part<'p, ()>) {
        let ((calls, served), part) = part.taken();
        self.0.add(part.with(served));
        (calls, part)
    }

    fn end(self, merged: &Merged, tuned: &mut Tuned) -> Option<Served> {
        let Tuning(mut all) = self;
        all.end(merged);
        tuned.logs += 1;
        tuned.sum.add(all.sum());
        tuned.calls += all.calls;
        Some(all.into_served())
    }
}
