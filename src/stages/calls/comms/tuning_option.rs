//! What is kept beside the steps in the first walk of a log: how its calls were served, where that
//! is asked for.

use crate::log::MergedChunk;
use crate::log::placement::CallRecorder;
use crate::log::walk::LogVisitor;
use crate::members::MergedMembers;
use crate::stages::tuning::call_methods::CallMethods;
use crate::stages::tuning::fold::TuningPartial;
use crate::stages::tuning::tuning_stage::{TuningLineCounts, TuningStage};

/// What TUNING lines tell of the calls of all logs.
#[derive(Debug, Default)]
pub(super) struct TuningCounts {
    /// Logs that were asked.
    pub(super) logs: u64,
    /// How lines and calls were joined.
    pub(super) sum: TuningLineCounts,
    /// Calls of ranks 0.
    pub(super) calls: u64,
}

/// What is kept of one log.
pub(super) trait TuningOption: Default {
    /// Of a chunk, with its calls. Each type that walks takes its time to build: calls alone are what
    /// other stages keep, too.
    type Visit: LogVisitor + Send;
    /// Nothing of a chunk yet.
    fn new_visit() -> Self::Visit;
    /// The next chunk; gives its calls.
    fn split_part<'p>(
        &mut self,
        part: MergedChunk<'p, Self::Visit>,
    ) -> (CallRecorder, MergedChunk<'p, ()>);
    /// The log ended.
    fn finish_log(self, merged: &MergedMembers, tuned: &mut TuningCounts) -> Option<CallMethods>;
}

/// Nothing.
impl TuningOption for () {
    type Visit = CallRecorder;

    fn new_visit() -> CallRecorder {
        CallRecorder::default()
    }

    fn split_part<'p>(
        &mut self,
        part: MergedChunk<'p, CallRecorder>,
    ) -> (CallRecorder, MergedChunk<'p, ()>) {
        part.take_visit()
    }

    fn finish_log(self, _: &MergedMembers, _: &mut TuningCounts) -> Option<CallMethods> {
        None
    }
}

/// How its calls were served.
pub(super) struct WithTuning(TuningStage);

impl Default for WithTuning {
    fn default() -> WithTuning {
        WithTuning(TuningStage::in_order())
    }
}

impl TuningOption for WithTuning {
    type Visit = (CallRecorder, TuningPartial);

    fn new_visit() -> (CallRecorder, TuningPartial) {
        (CallRecorder::default(), TuningPartial::in_order())
    }

    fn split_part<'p>(
        &mut self,
        part: MergedChunk<'p, Self::Visit>,
    ) -> (CallRecorder, MergedChunk<'p, ()>) {
        let ((calls, served), part) = part.take_visit();
        self.0.add_chunk(part.with_visit(served));
        (calls, part)
    }

    fn finish_log(self, merged: &MergedMembers, tuned: &mut TuningCounts) -> Option<CallMethods> {
        let WithTuning(mut all) = self;
        all.end_lines(merged);
        tuned.logs += 1;
        tuned.sum.add_counts(all.sum_counts());
        tuned.calls += all.calls;
        Some(all.into_served())
    }
}
