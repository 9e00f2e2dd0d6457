//! nccl-tuning: algorithm, protocol and channels by operation and size.
//!
//! `burst` joins TUNING lines to calls, `fold` does it for a chunk and `tuning_stage` for all chunks;
//! [`table`] makes ranges of sizes with the same choice, and `call_methods` has the choice of each call.

pub(crate) mod burst;
pub(crate) mod call_methods;
pub(crate) mod fold;
pub mod table;
pub(crate) mod tuning_stage;

use crate::count::calls::{Options, Progress};
use crate::count::member_filter::MemberFilter;
use crate::error::Result;
use crate::filter::CallFilter;
use crate::formats::Provides;
use crate::log::MergedChunk;
use crate::output::table::Column;
use crate::report::Report;
use crate::source::InputName;
use crate::stages::{self, InputStage};
use fold::TuningPartial;
use tuning_stage::{TuningLineCounts, TuningStage};

/// The columns of a line and of the calls that it serves.
const TUNING_COLUMNS: [Column; 13] = [
    Column::op,
    Column::bytes,
    Column::nranks,
    Column::algo,
    Column::proto,
    Column::nchannels,
    Column::host,
    Column::pid,
    Column::dev,
    Column::comm,
    Column::comm_id,
    Column::rank,
    Column::global_rank,
];

/// Reads all `origins`, which must be logs. Lines count whose calls pass `filter`.
///
/// # Errors
/// No input could be read, or is a log; damage under `--strict`; the filter needs another column.
pub fn read_tuning(
    origins: &[InputName],
    options: &Options,
    filter: &CallFilter,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<TuningStage> {
    let mut all = TuningStage::with_filter(MemberFilter::new(filter, &TUNING_COLUMNS)?);
    let new = TuningPartial::default;
    let merged = stages::read_stage(&mut all, origins, options, report, progress, new)?;
    progress.finish();
    all.end_lines(&merged);
    match filter.is_empty() {
        true => report_unmatched_calls(all.sum_counts(), all.calls, report),
        false => all.report_filter(report),
    }
    Ok(all)
}

// The calls and lines of a thread may continue in the next input, so the end of an input changes nothing.
impl InputStage for TuningStage {
    const NEEDS: Provides = Provides::ALGORITHMS;
    const USES_STEPS: bool = false;
    type Visit = TuningPartial;

    fn add_chunk(&mut self, part: MergedChunk<'_, TuningPartial>) {
        TuningStage::add_chunk(self, part);
    }
}

/// Reports how many of the `calls` of ranks 0 have no TUNING line.
pub(crate) fn report_unmatched_calls(sum: TuningLineCounts, calls: u64, report: &Report) {
    if sum.lines == 0 {
        report.warn(
            "the log has no TUNING lines; NCCL prints them under NCCL_DEBUG=INFO \
             NCCL_DEBUG_SUBSYS=INIT,COLL,TUNING",
        );
        return;
    }
    if sum.alone == sum.lines {
        report.note(&format!(
            "no call was found for any of {} TUNING lines: the sizes of the communicators need \
             COLL lines too, NCCL_DEBUG_SUBSYS=INIT,COLL,TUNING",
            sum.lines
        ));
        return;
    }
    report.note(&format!(
        "{} TUNING lines = {} with their call + {} ambiguous + {} without a call",
        sum.lines, sum.joined, sum.ambiguous, sum.alone
    ));
    let joined = sum.calls + sum.ambiguous;
    if calls > joined {
        report.note(&format!(
            "{} of {} calls by a rank 0 have no TUNING line",
            calls - joined,
            calls
        ));
    }
}
