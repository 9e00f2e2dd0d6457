//! What the first walk of a log keeps beside its steps: how its calls were served, under `--tuning`.

use crate::log::MergedChunk;
use crate::log::placement::CallRecorder;
use crate::log::walk::LogVisitor;
use crate::members::MergedMembers;
use crate::stages::tuning::call_methods::CallMethods;
use crate::stages::tuning::fold::TuningPartial;
use crate::stages::tuning::tuning_stage::{TuningLineCounts, TuningStage};

/// Sums over the TUNING lines of all logs.
#[derive(Debug, Default)]
pub(super) struct TuningCounts {
    /// Logs with the option.
    pub(super) logs: u64,
    /// How lines and calls were joined.
    pub(super) sum: TuningLineCounts,
    /// Calls of ranks 0.
    pub(super) calls: u64,
}

/// The state of one log.
pub(super) trait TuningOption: Default {
    /// The visit of a chunk, with its calls. Each visitor type adds to the build time: other stages visit calls
    /// alone, too.
    type Visit: LogVisitor + Send;
    /// An empty visit.
    fn new_visit() -> Self::Visit;
    /// Adds a chunk; returns its calls.
    fn split_part<'p>(
        &mut self,
        part: MergedChunk<'p, Self::Visit>,
    ) -> (CallRecorder, MergedChunk<'p, ()>);
    /// Ends the log.
    fn finish_log(self, merged: &MergedMembers, tuned: &mut TuningCounts) -> Option<CallMethods>;
}

/// Keeps nothing.
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

/// Keeps how calls were served.
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
