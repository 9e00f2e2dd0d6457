//! nccl-tuning: which algorithm and protocol, on how many channels, served which operation and
//! size.
//!
//! `burst` joins TUNING lines to calls, `fold` does so for a chunk, `all` for all of them;
//! [`table`] makes ranges of sizes with the same choice, `served` has it call by call.

pub(crate) mod all;
pub(crate) mod burst;
pub(crate) mod fold;
pub(crate) mod served;
pub mod table;

use crate::count::calls::{Options, Progress};
use crate::error::Result;
use crate::formats::Tells;
use crate::log::Part;
use crate::report::Report;
use crate::source::Origin;
use crate::stages::{self, Stage};
use all::{All, Counts};
use fold::Partial;

/// Reads all `origins`, which must be logs.
///
/// # Errors
/// No input could be read, or is a log; damage under `--strict`.
pub fn tuning(
    origins: &[Origin],
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<All> {
    let (mut all, merged) = stages::gather::<All>(origins, options, report, progress)?;
    all.end(&merged);
    said(all.sum(), all.calls, report);
    Ok(all)
}

// A thread's calls and lines may go on in the next input: nothing is done at the end of one.
impl Stage for All {
    const NEEDS: Tells = Tells::ALGORITHMS;
    const STEPS: bool = false;
    type Visit = Partial;

    fn add(&mut self, part: Part<'_, Partial>) {
        All::add(self, part);
    }
}

/// Reports which of the `calls` of ranks 0 have no TUNING line.
pub(crate) fn said(sum: Counts, calls: u64, report: &Report) {
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
