//! What is kept beside the steps in the first walk of a log: how its calls were served, where that
//! is asked for.

use crate::formats::log::Part;
use crate::formats::log::walk::Visit;
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
    /// Of a chunk.
    type Kept: Visit + Send;
    /// Nothing of a chunk yet.
    fn kept() -> Self::Kept;
    /// The next chunk.
    fn add(&mut self, part: Part<'_, Self::Kept>);
    /// The log ended.
    fn end(self, merged: &Merged, tuned: &mut Tuned) -> Option<Served>;
}

/// Nothing.
impl Beside for () {
    type Kept = ();

    fn kept() {}

    fn add(&mut self, _: Part<'_, ()>) {}

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
    type Kept = Partial;

    fn kept() -> Partial {
        Partial::in_order()
    }

    fn add(&mut self, part: Part<'_, Partial>) {
        self.0.add(part);
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
