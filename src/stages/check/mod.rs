//! nccl-check: finds faults of a job in its log, with evidence, and lists what the log does not
//! show.
//!
//! | room | the questions it answers |
//! |---|---|
//! | `kind`, `finding`, `evidence` | a finding, its facts, and the lines that show it |
//! | `causes` | which findings follow from which: one table, and one pass that folds by it |
//! | `words` | facts become words, as the last step |
//! | `inputs` | the logs, and what other tools recorded beside them |
//! | `walk` | one walk over all inputs that gathers what every check needs |
//! | `streams` | every rank's calls as hashes, and which communicators' members differ |
//! | `ranks` | which ranks call different things or fewer, stopped, or wait in a circle |
//! | `warn` | what NCCL reports: WARN lines by their first cause |
//! | `records` | what records of NCCL Inspector and of the profiler plugin show |
//! | `dumps` | what the dumps of PyTorch's flight recorder show of each rank's last calls |
//! | `live` | what the answers of NCCL's RAS and the stacks of processes show of a job that hangs |
//! | `machine` | what the kernel's messages, nvidia-smi and DCGM show of the hosts and GPUs of the job |
//! | `watchdog` | what PyTorch's watchdog reports, and the calls it waited for |
//! | `questions` | one table of those that need only what was gathered: hosts, settings, steps |
//! | `log` | whether the log is whole, which jobs it holds and how they ended |
//! | [`answer`] | what must hold (`--expect`), what the log can answer, findings as rows |

pub mod answer;
mod causes;
mod dumps;
pub(crate) mod evidence;
pub(crate) mod finding;
mod inputs;
pub mod kind;
pub(crate) mod limits;
pub(crate) mod live;
mod log;
mod machine;
mod questions;
pub(crate) mod ranks;
mod records;
pub(crate) mod streams;
#[cfg(test)]
mod twins;
pub(crate) mod walk;
pub(crate) mod warn;
pub(crate) mod watchdog;
pub(crate) mod wording;
mod words;

use crate::count::calls::{Options, Progress};
use crate::error::Result;
use crate::filter::CallFilter;
use crate::report::{Report, count_phrase};
use crate::source::{Input, InputName};
use crate::stages::communicators::CommunicatorState;
use crate::stages::net::fact::NetFactKind;
use answer::judged::{JudgedParts, UnjudgedComms};
use answer::{actors, coverage::LineKinds, expect::LogFacts, summary};
use finding::{About, Confidence, Evidence, Finding, Kind, LineSpot, Reason, Severity, WarnKind};
pub(crate) use inputs::CheckInputs;
use inputs::RecorderInputs;
use log::first_failure::FailureEvidence;
pub(crate) use log::first_failure::failed_process::correct_end_advice;
use log::job_processes::JobProcesses;
use log::nothing_to_check;
use questions::initialisation::SetupContext;
use ranks::fewer_calls::JobEndSignals;
pub use ranks::stopped::JobLiveness;
use ranks::unmet_calls::SideCallPlace;
use ranks::{ReportedEnd, RereadInputs, stopped::JobFailures};
use rustc_hash::FxHashSet;
use streams::CallStreams;
use walk::{CheckGathered, Requested};
use warn::known_warns::known_bugs;
use warn::nccl_error;
use warn::triage::{self, CommEndCounts};
use watchdog::mismatch;

/// The result of a check.
#[derive(Debug, Default)]
pub struct CheckSummary {
    /// The findings, worst first.
    pub findings: Vec<Finding>,
    /// The inputs' names.
    pub inputs: Vec<String>,
    /// The facts of the log as a whole.
    pub facts: LogFacts,
    /// What kinds of lines it has.
    pub known: LineKinds,
    /// What was judged.
    pub judged: JudgedParts,
    /// Those that were not compared, or not to their last calls.
    pub unjudged: Vec<UnjudgedComms>,
    /// What the end of the log shows if the job still runs, and only then.
    pub if_running: Option<String>,
    /// Which findings are shown; all are judged.
    pub filter: CallFilter,
    /// The first call of each rank that not all members of its communicator have made alike.
    pub(crate) unmet: FxHashSet<SideCallPlace>,
}

impl CheckSummary {
    /// True where something is wrong, not only worth knowing.
    pub fn is_wrong(&self) -> bool {
        self.findings.iter().any(|f| f.severity != Severity::Note)
    }

    /// True where nothing of the job was judged.
    pub fn is_empty(&self) -> bool {
        self.findings.iter().any(|f| f.kind == Kind::NotChecked)
    }

    /// Returns the verdict on a job without errors and warnings, in a few words.
    pub fn clean_verdict(&self) -> &'static str {
        match self.is_empty() {
            true => JudgedParts::default().clean_verdict(),
            false => self.judged.clean_verdict(),
        }
    }
}

/// Reads and checks all `origins`, logs and records of calls; `now` is the state of the job besides
/// them.
///
/// # Errors
/// No input could be read, or is a log; damage under `--strict`.
pub fn check(
    origins: &[InputName],
    options: &Options,
    now: JobLiveness,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<CheckSummary> {
    let inputs = CheckInputs::sort_inputs(origins, options, report)?;
    let (seen, beside) = gather_for_check(inputs, options, None, report, progress)?;
    judge_gathered(&seen, beside, options, now, report)
}

/// Reads logs and records to be judged, and gathers all that `asked` names.
///
/// # Errors
/// As [`check`].
pub(crate) fn gather_for_check(
    inputs: CheckInputs,
    options: &Options,
    asked: Option<&Requested>,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<(CheckGathered, RecorderInputs)> {
    let CheckInputs {
        mut logs,
        mut beside,
    } = inputs;
    let walked = walk::walk_inputs(&logs, options, asked, &mut beside, report, progress);
    let mut seen = match walked {
        // The records have an answer without the logs that cannot be read.
        Err(e) if beside.is_read && e.is_about_input() => {
            report.error(&e.to_string());
            walk::walk_inputs(&[], options, asked, &mut beside, report, progress)?
        }
        walked => walked?,
    };
    // What a pipe had cannot be read again.
    let is_read_once = |log: &InputName| log.is_stdin() || log.is_piped();
    while !logs.iter().any(is_read_once) {
        let (copies, read) = (seen.find_copies(), logs.len());
        for copy in &copies {
            let at = logs.iter().rposition(|log| log.name() == *copy);
            at.map(|at| logs.remove(at));
        }
        if logs.len() == read {
            break;
        }
        report.note(&format!(
            "{} left out: other inputs are the same",
            count_phrase(copies.len() as u64, "input")
        ));
        let (mut quiet, mut known) = (Report::of_section(), RecorderInputs::default());
        seen = walk::walk_inputs(&logs, options, asked, &mut known, &mut quiet, progress)?;
    }
    Ok((seen, beside))
}

/// Judges everything that was gathered.
///
/// # Errors
/// As [`check`].
pub(crate) fn judge_gathered(
    seen: &CheckGathered,
    recorders: RecorderInputs,
    options: &Options,
    now: JobLiveness,
    report: &mut Report,
) -> Result<CheckSummary> {
    seen.net.note_hidden(report);
    let open = |number| seen.open_input(number);
    let inputs = RereadInputs {
        open: &open,
        processes: &seen.processes,
        accounts: &seen.accounts,
        walked: &seen.inputs,
        piped: &seen.piped,
        options,
        cut: is_init_only(seen),
    };
    let ended = count_comm_ends(seen);
    let (mut findings, failures) = find_reported_failures(seen, ended, now);
    let said = seen.lines.hung || findings.iter().any(|f| f.severity == Severity::Error);
    let signals = JobEndSignals {
        said,
        failed: said || ended.aborted > 0,
        uncut: false,
        lost: is_connection_lost_first(seen, &findings),
    };
    let watched = seen.warnings.watchdog_lines();
    let end = ReportedEnd {
        watched,
        signals,
        failures: &failures,
    };
    let (doubled, none) = (seen.find_doubled_input(), CallStreams::default());
    let streams = match doubled {
        Some(_) => &none,
        None => &seen.streams,
    };
    let ranks = ranks::compare_ranks(&seen.found, &seen.untold, streams, end, &inputs)?;
    findings.extend(ranks.findings);
    findings.extend(doubled.map(nothing_to_check::describe_doubled_calls));
    let is_error = |f: &Finding| f.severity == Severity::Error;
    let has_failed = !failures.lines.is_empty() || findings.iter().any(is_error);
    findings.extend(SetupContext::new(seen, has_failed, now).find_setup_faults());
    mismatch::merge_mismatch(&mut findings, mismatch::find_mismatch(watched));
    findings.extend(questions::benchmarks::find_benchmark_faults(
        &seen.inputs,
        now,
    ));
    let lone_process = recorders.live.describe_lone_process();
    let (names, records) = recorders.merge_findings(seen, &mut findings, open, report)?;
    let ends = &seen.warnings.ends;
    causes::fold_consequences_by_job(&mut findings, &seen.found, ends.first_messages());
    let CheckGathered {
        net,
        found,
        inputs,
        accounts,
        separate,
        ..
    } = seen;
    findings.extend(questions::ask_questions(
        net, found, inputs, accounts, separate,
    ));
    let mut judged = JudgedParts::of_log(&ranks.compared, found, ends, separate.len());
    judged.records = records;
    // A job that hangs in its first call has completed its initialisation, too.
    if findings.iter().any(|f| f.kind == Kind::NoFirstCall) {
        judged.initialised = None;
    }
    nothing_to_check::add_nothing_to_check(
        seen,
        &ranks.compared,
        &judged,
        names.len(),
        lone_process,
        &mut findings,
    );
    correct_end_advice(&mut findings);
    complete_findings(&mut findings, seen, open)?;
    Ok(CheckSummary {
        unmet: ranks.unmet,
        ..summarize_check(seen, findings, &ranks.compared, judged, names)
    })
}

/// Gives the findings their words, processes, stages and lines, and puts them in order.
fn complete_findings(
    findings: &mut [Finding],
    seen: &CheckGathered,
    open: impl Fn(u32) -> Result<Input>,
) -> Result<()> {
    let processes = JobProcesses::new(&seen.found, seen.warnings.ends.first_messages());
    actors::name_actors(findings, &seen.found, &processes);
    evidence::resolve_evidence(findings, open)?;
    log::earlier_attempts::excuse_earlier_attempts(findings, &seen.warnings);
    words::write_texts(findings);
    log::job_stage::note_stages(findings, seen, &processes);
    known_bugs::note_known_bugs(findings, seen.net.nccl_versions());
    // Of the failures of known processes the first is the cause, whether a program or a watchdog reports it.
    let is_of_process = |finding: &Finding| {
        let About { pid, rank, .. } = &finding.about;
        let is_known = pid.is_some() || rank.is_some();
        is_known && matches!(finding.kind, Kind::RankException | Kind::WatchdogException)
    };
    let surest = findings
        .iter()
        .filter(|f| is_of_process(f))
        .map(|f| f.sure)
        .min();
    findings.sort_by_key(|finding| {
        let (severity, sure, first, id) = severity_order(finding);
        let surest = surest.filter(|_| is_of_process(finding));
        // The last attempt is the one that people ask about.
        let is_past = finding.reasons.contains(&Reason::StartedAgain);
        (severity, is_past, surest.unwrap_or(sure), first, id)
    });
    for evidence in findings.iter_mut().flat_map(|f| &mut f.evidence) {
        if let LineSpot::Line(at) = &mut evidence.at
            && let Some(account) = seen.accounts.get(at.input as usize)
        {
            at.line = account.number_in_file(at.line);
        }
    }
    Ok(())
}

/// Returns the findings on failures that lines report, and these lines.
fn find_reported_failures(
    seen: &CheckGathered,
    ended: CommEndCounts,
    now: JobLiveness,
) -> (Vec<Finding>, JobFailures) {
    let watched = seen.warnings.watchdog_lines();
    let failed = FailureEvidence::from_lines(&seen.warnings.ends, watched, &seen.found);
    let processes = &seen.found.processes;
    let mut findings = triage::triage_warnings(&seen.warnings, &seen.found, ended);
    failed.excuse_after_end(&mut findings);
    let together = failed.ended_together();
    // A program that relays an error of NCCL's did not end in order.
    if together && seen.warnings.returned.relayed_lines().is_empty() {
        causes::excuse_closed_connections(&mut findings);
    }
    let mut failures = collect_failures(seen, &findings, now);
    if !together {
        failures.lines.extend(failed.failure_lines());
    }
    failures.lines.retain(|&at| !failed.is_after_job_end(at));
    findings.extend(failed.find_failures());
    findings.extend(nccl_error::find_nccl_error(&seen.warnings, processes));
    if !findings.iter().any(|f| f.severity == Severity::Error) {
        findings.extend(failed.find_unexplained());
    }
    (findings, failures)
}

/// Returns the findings with what was compared, and the names of the inputs: logs, then `recorded`.
fn summarize_check(
    seen: &CheckGathered,
    findings: Vec<Finding>,
    compared: &streams::compare::StreamComparison,
    judged: JudgedParts,
    recorded: Vec<String>,
) -> CheckSummary {
    let unjudged = compared.unjudged.iter();
    let logs = seen.inputs.iter().map(|input| input.name.clone());
    CheckSummary {
        facts: summary::collect_facts(seen, compared, &findings),
        known: summary::collect_line_kinds(seen),
        judged,
        unjudged: unjudged
            .map(|(why, those)| UnjudgedComms::new(*why, those.len()))
            .collect(),
        findings,
        inputs: logs.chain(recorded).collect(),
        if_running: None,
        filter: CallFilter::default(),
        unmet: FxHashSet::default(),
    }
}

/// True for what `nccl-steps --keep-init` leaves of a log: communicators, but no version, and the
/// first step is not the job's first. A job that went on from a checkpoint names NCCL's version.
fn is_init_only(seen: &CheckGathered) -> bool {
    let later = seen
        .inputs
        .iter()
        .any(|input| input.first_step_number().is_some_and(|step| step > 0));
    later
        && !seen
            .net
            .facts()
            .keys()
            .any(|fact| fact.kind == NetFactKind::Version)
}

/// Collects the lines that report a failure, and the first line of each process.
fn collect_failures(seen: &CheckGathered, findings: &[Finding], now: JobLiveness) -> JobFailures {
    let watched = seen
        .warnings
        .watchdog_lines()
        .iter()
        .map(|watched| watched.at);
    let errors = findings.iter().filter(|f| f.severity == Severity::Error);
    let errors = errors.flat_map(|f| &f.evidence);
    let errors = errors.filter_map(|evidence| match evidence.at {
        LineSpot::Line(at) => Some(at),
        LineSpot::Byte { .. } => None,
    });
    JobFailures {
        lines: watched.chain(errors).collect(),
        begins: seen.warnings.ends.first_messages().collect(),
        now,
    }
}

/// True where connections to a process that ended were lost before anything timed out.
fn is_connection_lost_first(seen: &CheckGathered, findings: &[Finding]) -> bool {
    let watched = seen.warnings.watchdog_lines();
    let timed_out = watched
        .iter()
        .any(|w| matches!(w.what, watchdog::WatchdogMessage::Timeout(_)));
    !timed_out
        && findings
            .iter()
            .any(|f| f.kind == Kind::Warn(WarnKind::PEER_CLOSED))
}

fn count_comm_ends(seen: &CheckGathered) -> CommEndCounts {
    let sides = &seen.found.sides;
    let of = |is: fn(CommunicatorState) -> bool| {
        sides.iter().filter(|side| is(side.state)).count() as u64
    };
    CommEndCounts {
        destroyed: of(|state| state == CommunicatorState::Destroyed),
        aborted: of(|state| state == CommunicatorState::Aborted),
        communicators: sides
            .iter()
            .filter(|s| s.state != CommunicatorState::Unknown)
            .count() as u64,
    }
}

/// The order in which findings are reported.
fn severity_order(finding: &Finding) -> (Severity, Confidence, Option<LineSpot>, &'static str) {
    let first = finding.evidence.first().map(|Evidence { at, .. }| *at);
    (finding.severity, finding.sure, first, finding.kind.id())
}
