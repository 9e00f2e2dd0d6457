//! Whether the ranks called the same things, and if not, which rank and where: from the hashes of
//! their calls to findings.

mod absent_members;
mod blame;
mod confidence;
mod deadlock;
mod difference_context;
pub(crate) mod fewer_calls;
mod last_calls;
pub(crate) mod limits;
mod messages;
pub(crate) mod mismatch;
pub(crate) mod names;
mod reread_differences;
pub(super) mod stopped;
pub(super) mod unnamed_communicators;

use super::evidence;
use super::finding::Finding;
use super::log::job_spans::{JobCallSpans, JobsByProcess};
use super::streams::CallStreams;
use super::streams::compare::{
    LogStart, StreamComparison, compare_communicators, find_stream_owners,
};
use super::streams::piped::PipeRecord;
use super::streams::step_ends::InputStepEnds;
use super::walk::WalkedInput;
use super::watchdog::nccl_call;
use super::watchdog::{WatchdogMessage, WatchdogRecord};
use crate::count::calls::Options;
use crate::error::Result;
use crate::report::account::Account;
use crate::source::Input;
use crate::stages::communicators::CommunicatorsSummary;
use blame::JobEndEvidence;
use confidence::unjudged;
use deadlock::Rendezvous;
use difference_context::DifferenceContext;
use fewer_calls::JobEndSignals;
use last_calls::find_last_calls;
use mismatch::same_kind;
use names::RankNames;
use reread_differences::reread_differences;
use std::collections::{BTreeMap, BTreeSet};
use stopped::step_lines::StepLinePositions;
use stopped::{JobFailures, JobLiveness, StopDetector};
use unnamed_communicators::UnnamedComms;

/// The comparison of the ranks' calls.
pub(crate) struct RankComparison {
    /// The comparison of the hashes.
    pub(crate) compared: StreamComparison,
    /// The findings.
    pub(crate) findings: Vec<Finding>,
}

/// The inputs, to be read again.
pub(crate) struct RereadInputs<'a, F: Fn(u32) -> Result<Input>> {
    /// Opens an input by its number.
    pub(crate) open: F,
    /// For each input the processes with lines in it.
    pub(crate) processes: &'a [BTreeSet<u32>],
    /// Where their lines went.
    pub(crate) accounts: &'a [Account],
    /// The results of the walk over them.
    pub(crate) walked: &'a [WalkedInput],
    /// What was kept of those that came through a pipe.
    pub(crate) piped: &'a BTreeMap<u32, PipeRecord>,
    /// How they are read.
    pub(crate) options: &'a Options,
    /// They look as if they had been cut out of longer ones.
    pub(crate) cut: bool,
}

/// Compares the ranks' calls and returns the findings.
///
/// # Errors
/// An input cannot be read again.
pub(crate) fn compare_ranks<F: Fn(u32) -> Result<Input>>(
    found: &CommunicatorsSummary,
    open: &UnnamedComms,
    streams: &CallStreams,
    (watched, end, failures): (&[WatchdogRecord], JobEndSignals, &JobFailures),
    inputs: &RereadInputs<'_, F>,
) -> Result<RankComparison> {
    let begins = classify_log_start(streams, inputs.cut);
    let compared = compare_communicators(found, open, streams, inputs.accounts, begins);
    let late = |w: &WatchdogRecord| matches!(w.what, WatchdogMessage::Timeout(_));
    let hung = watched.iter().any(late);
    let lines = StepLinePositions::from_inputs(inputs.walked);
    let met = deadlock::replay_last_calls(&compared, found, streams, &lines, end.failed);
    let differ = met.is_circle() || !compared.apart.is_empty() || !compared.unpaired.is_empty();
    if !differ && compared.few.is_none() && !hung {
        return Ok(RankComparison {
            compared,
            findings: Vec::new(),
        });
    }
    reread_and_blame(
        (compared, &met),
        (found, streams),
        (watched, end, failures),
        inputs,
    )
}

/// Where the log begins, by NCCL's own count or by what it looks like.
fn classify_log_start(streams: &CallStreams, cut: bool) -> LogStart {
    match (streams.lacks_first_calls(), cut && !streams.counts) {
        (true, _) => LogStart::Late,
        (false, true) => LogStart::Unsure,
        _ => LogStart::First,
    }
}

/// Reads the differing calls again, and finds the rank to blame.
fn reread_and_blame<F: Fn(u32) -> Result<Input>>(
    (mut compared, met): (StreamComparison, &Rendezvous),
    (found, streams): (&CommunicatorsSummary, &CallStreams),
    (watched, end, failures): (&[WatchdogRecord], JobEndSignals, &JobFailures),
    inputs: &RereadInputs<'_, F>,
) -> Result<RankComparison> {
    let whose = find_stream_owners(found, streams);
    let kin = same_kind::find_similar_callers(&compared.apart, &whose, found);
    let mut silence = JobCallSpans::new(JobsByProcess::group_processes(found));
    // Where a line reports a failure, or the job runs, no steps are needed to see that it stopped.
    let mut ends = InputStepEnds::default();
    let is_quiet = failures.lines.is_empty() && failures.now != JobLiveness::Running;
    let read = (inputs, &mut silence, is_quiet.then_some(&mut ends));
    let details = reread_differences((&compared, met), &kin, found, streams, read)?;
    let case = DifferenceContext {
        found,
        streams,
        details: &details,
        met,
        is_piped: !inputs.piped.is_empty(),
        names: RankNames { found },
        whose: &whose,
        last: &find_last_calls(&details, streams, &whose),
    };
    let middle = case
        .lone_stop_search(&ends, |process| silence.job_of_process(process))
        .find_lone_mid_step_ranks();
    let stops = StopDetector {
        found,
        silence: &silence,
        failures,
        lags: met,
        steps: &ends,
        middle: &middle,
        is_last_step: inputs.walked.iter().any(WalkedInput::ends_with_last_step),
    };
    let mut unjudged = unjudged::drop_ended_pairs(&mut compared.unpaired, found);
    let doubts = confidence::rate_membership(&compared, found);
    let ending = JobEndEvidence {
        watched,
        end,
        stops,
    };
    let judged = case.find_blamed(&mut compared, &kin, ending);
    let mut findings = judged.findings;
    unjudged.extend(judged.unjudged);
    unjudged::move_to_unjudged(&mut compared, unjudged);
    evidence::resolve_evidence(&mut findings, inputs.walked, &inputs.open)?;
    let uncut = judged.uncut;
    let about = (&case, inputs, JobEndSignals { uncut, ..end });
    confidence::rate_confidence(&mut findings, &mut compared, &doubts, about)?;
    if !findings.is_empty() {
        findings.extend(last_calls::list_last_calls(case.last, found));
    }
    let made = case.count_collectives();
    findings.extend(nccl_call::find_timed_out_nccl_calls(
        watched, &details, &made, &whose, case.names,
    ));
    findings.extend(case.note_absent_members(&compared, inputs.accounts));
    Ok(RankComparison { compared, findings })
}
