//! Whether the ranks called the same things, and if not, which rank and where: from the hashes of
//! their calls to findings.

mod absent_members;
mod blame;
mod confidence;
mod deadlock;
pub(crate) mod difference_context;
pub(crate) mod fewer_calls;
mod last_calls;
pub(crate) mod limits;
mod messages;
pub(crate) mod mismatch;
pub(crate) mod names;
mod reread_differences;
mod steps_of_calls;
pub(super) mod stopped;
pub(crate) mod unmet_calls;
pub(super) mod unnamed_communicators;
mod unseen_ranks;

use super::evidence;
use super::finding::Finding;
use super::log::job_spans::{JobCallSpans, JobsByProcess};
use super::streams::compare::{LogStart, StreamComparison, compare_communicators};
use super::streams::piped::PipeRecord;
use super::streams::reread::{RereadSources, WantedCalls, reread_wanted};
use super::streams::step_ends::InputStepEnds;
use super::streams::stream_owners::find_stream_owners;
use super::streams::wanted_streams::RereadSinks;
use super::streams::{CallStreams, StreamKind};
use super::walk::WalkedInput;
use super::watchdog::{WatchdogMessage, WatchdogRecord};
use crate::count::calls::Options;
use crate::error::Result;
use crate::report::account::Account;
use crate::source::Input;
use crate::stages::check::log::job_processes::JobProcesses;
use crate::stages::communicators::CommunicatorsSummary;
use confidence::unjudged;
use deadlock::Rendezvous;
use difference_context::DifferenceContext;
use fewer_calls::JobEndSignals;
use last_calls::find_last_calls;
use mismatch::{CallDetails, same_kind};
use names::RankNames;
use rustc_hash::FxHashSet;
use std::collections::{BTreeMap, BTreeSet};
use stopped::step_lines::StepLinePositions;
use stopped::{JobFailures, JobLiveness, StopDetector};
use unmet_calls::SideCallPlace;
use unnamed_communicators::UnnamedComms;

/// The comparison of the ranks' calls.
pub(crate) struct RankComparison {
    /// The comparison of the hashes.
    pub(crate) compared: StreamComparison,
    /// The findings.
    pub(crate) findings: Vec<Finding>,
    /// The first call of each rank that not all members of its communicator have made alike.
    pub(crate) unmet: FxHashSet<SideCallPlace>,
}

/// The inputs, to be read again.
pub(crate) struct RereadInputs<'a> {
    /// Opens an input by its number.
    pub(crate) open: &'a (dyn Fn(u32) -> Result<Input> + Sync),
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

impl RereadInputs<'_> {
    /// Reads the calls in `wanted` again.
    fn reread_wanted(
        &self,
        wanted: &WantedCalls,
        found: &CommunicatorsSummary,
        streams: &CallStreams,
        sinks: &mut RereadSinks<'_>,
    ) -> Result<CallDetails> {
        let numbers = 0..u32::try_from(self.processes.len()).unwrap_or(u32::MAX);
        let sources = RereadSources {
            options: self.options,
            streams,
            piped: self.piped,
        };
        reread_wanted(wanted, &found.processes, numbers, self.open, sources, sinks)
    }
}

/// How the job ended, as far as lines other than the calls report it.
#[derive(Clone, Copy)]
pub(crate) struct ReportedEnd<'a> {
    /// The lines of PyTorch's watchdog.
    pub(crate) watched: &'a [WatchdogRecord],
    pub(crate) signals: JobEndSignals,
    pub(crate) failures: &'a JobFailures,
}

/// Compares the ranks' calls and returns the findings.
///
/// # Errors
/// An input cannot be read again.
pub(crate) fn compare_ranks(
    found: &CommunicatorsSummary,
    open: &UnnamedComms,
    streams: &CallStreams,
    end: ReportedEnd<'_>,
    inputs: &RereadInputs<'_>,
) -> Result<RankComparison> {
    let begins = classify_log_start(streams, inputs.cut);
    let compared = compare_communicators(found, open, streams, inputs.accounts, begins);
    let late = |w: &WatchdogRecord| matches!(w.what, WatchdogMessage::Timeout(_));
    let hung = end.watched.iter().any(late);
    let lines = StepLinePositions::from_inputs(inputs.walked);
    let is_watched = end.failures.now == JobLiveness::Stalled;
    let failed = end.signals.failed;
    let met = deadlock::replay_last_calls(&compared, found, streams, &lines, failed, is_watched);
    let differ = met.is_circle() || !compared.apart.is_empty() || !compared.unpaired.is_empty();
    if !differ && compared.few.is_none() && !hung {
        return Ok(RankComparison {
            compared,
            findings: Vec::new(),
            unmet: FxHashSet::default(),
        });
    }
    reread_and_blame(compared, &met, found, streams, end, inputs)
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
fn reread_and_blame(
    mut compared: StreamComparison,
    met: &Rendezvous,
    found: &CommunicatorsSummary,
    streams: &CallStreams,
    end: ReportedEnd<'_>,
    inputs: &RereadInputs<'_>,
) -> Result<RankComparison> {
    let failures = end.failures;
    let ranks = JobProcesses::new(found, failures.begins.clone());
    let whose = find_stream_owners(found, streams);
    let kin = same_kind::find_similar_callers(&compared.apart, &whose, found);
    let mut silence = JobCallSpans::new(JobsByProcess::group_processes(found));
    // Where a line reports a failure, or the job runs, no steps are needed to see that it stopped.
    let mut ends = InputStepEnds::default();
    let is_quiet = failures.lines.is_empty() && failures.now != JobLiveness::Running;
    let mut sinks = RereadSinks {
        spans: &mut silence,
        ends: is_quiet.then_some(&mut ends),
    };
    let wanted = reread_differences::list_wanted_calls(&compared, met, &kin, streams);
    let details = inputs.reread_wanted(&wanted, found, streams, &mut sinks)?;
    let messaging = details
        .keys()
        .filter(|(_, way)| *way != StreamKind::Collective);
    let messaging = messaging.map(|(caller, _)| *caller).collect();
    let case = DifferenceContext {
        found,
        streams,
        details: &details,
        messaging: &messaging,
        met,
        watched: end.watched,
        ranks: &ranks,
        is_piped: !inputs.piped.is_empty(),
        names: RankNames { found },
        whose: &whose,
        last: &find_last_calls(&details, streams, &whose),
    };
    let middle = case.lone_stop_search(&ends, &silence).find_mid_step_ranks();
    let stops = StopDetector {
        found,
        silence: &silence,
        ranks: &ranks,
        failures,
        lags: met,
        steps: &ends,
        middle: &middle,
        walked: inputs.walked,
    };
    let is_settled = |pair: &_| met.is_settled_difference(pair, found, streams);
    let mut unjudged = unjudged::drop_ended_pairs(&mut compared.unpaired, found, is_settled);
    let doubts = confidence::rate_membership(&compared, found);
    let judged = case.find_blamed(&mut compared, &kin, end.signals, stops);
    let mut findings = judged.findings;
    unjudged.extend(judged.unjudged);
    unjudged::move_to_unjudged(&mut compared, unjudged);
    steps_of_calls::note_steps_of_calls(&mut findings, found, inputs)?;
    evidence::resolve_evidence(&mut findings, inputs.open)?;
    let end = JobEndSignals {
        uncut: judged.uncut,
        ..end.signals
    };
    confidence::rate_confidence(&mut findings, &mut compared, &doubts, &case, inputs, end)?;
    unseen_ranks::doubt_by_unseen_ranks(&mut findings, found);
    if !findings.is_empty() {
        findings.extend(last_calls::list_last_calls(case.last, found));
    }
    findings.extend(case.find_timed_out_nccl_calls());
    findings.extend(case.note_absent_members(&compared, inputs.accounts));
    Ok(RankComparison {
        compared,
        findings,
        unmet: judged.unmet,
    })
}
