//! Where nothing of a job could be judged: then no finding means nothing.

use crate::report::account::Account;
use crate::stages::check::answer::judged::{InitProgress, JudgedParts, JudgedRecords};
use crate::stages::check::finding::{Confidence, Finding, Kind, Severity};
use crate::stages::check::questions::benchmarks::describe_tables;
use crate::stages::check::streams::compare::StreamComparison;
use crate::stages::check::walk::{CheckGathered, DoubledInput};
use crate::stages::check::wording::number_and_noun;
use crate::stages::communicators::{CommunicatorState, gpu_of_side};
use crate::stages::net::net_stage::FirstReportLine;
use std::collections::BTreeSet;

/// Adds the finding, if nothing of a job was judged. A log that ends in the initialisation is described by one
/// finding only, and a reported failure is an answer.
pub(crate) fn add_nothing_to_check(
    seen: &CheckGathered,
    compared: &StreamComparison,
    judged: &JudgedParts,
    recordings: usize,
    lone_process: Option<String>,
    findings: &mut Vec<Finding>,
) {
    let is_open = |f: &Finding| matches!(f.kind, Kind::InitIncomplete | Kind::InitMissingRank);
    let is_answer =
        |f: &Finding| f.severity == Severity::Error || is_open(f) && f.severity != Severity::Note;
    // The states of a job's processes have a note of their own.
    let is_answer = |f: &Finding| is_answer(f) || f.kind == Kind::NotChecked;
    if findings.iter().any(is_answer) {
        return;
    }
    let has_nccl_lines = seen
        .accounts
        .iter()
        .any(|account| account.lines > account.foreign);
    if seen.inputs.is_empty() && recordings > 0 {
        findings.extend(find_uncompared_recordings(judged, recordings, lone_process));
    } else if !has_nccl_lines && let Some(tables) = find_tables_only(seen) {
        findings.push(tables);
    } else if let Some(mut nothing) = find_nothing_to_check(seen, compared, judged) {
        // Where some ranks completed theirs, the others have a finding of their own.
        let has_made = seen.found.sides.iter().any(|side| side.state.is_set_up());
        for open in findings.extract_if(.., |f| is_open(f) && !has_made) {
            nothing.why = format!("{}; {}", nothing.why, open.says);
        }
        if let Some(does) = lone_process {
            nothing.says = format!("{}: {does}", nothing.says);
        }
        // A remark of NCCL's is all that there is to know.
        let warned = findings
            .iter()
            .find(|f| f.kind.is_warn() && seen.lines.informs.is_none());
        if let Some(warned) = warned {
            nothing.says = format!("{}: {}", nothing.says, warned.says);
        }
        findings.push(nothing);
    }
}

/// Returns the finding, if recordings without a log have the calls, or the main thread, of one rank only.
fn find_uncompared_recordings(
    judged: &JudgedParts,
    recordings: usize,
    lone_process: Option<String>,
) -> Option<Finding> {
    if !judged.is_nothing() {
        return None;
    }
    let (says, why, advice) = match judged.records {
        JudgedRecords {
            dumped: all @ 2..,
            cut: cut @ 1..,
            ..
        } => (
            format!("not judged: the dumps of {cut} of {all} ranks are cut or damaged"),
            "a cut dump lacks the last calls of its rank, where a hang is",
            "copy the whole dumps, or check the log",
        ),
        JudgedRecords {
            enqueued: those @ 1..,
            ..
        } => (
            format!(
                "not judged: the sizes of {} agree, and no record shows whether these calls ended",
                number_and_noun(those, "recorded collective")
            ),
            "these records have the calls as the host made them",
            "check the recordings with the job's log",
        ),
        _ => {
            let those = number_and_noun(recordings, "recording");
            let does = lone_process.map_or(String::new(), |does| format!(": {does}"));
            (
                format!(
                    "not judged: {those}, and no calls or stacks of two ranks to compare{does}"
                ),
                "a fault shows where the calls of several ranks differ",
                "check the recordings of all ranks together, or with the log",
            )
        }
    };
    Some(Finding {
        why: why.to_owned(),
        advice: advice.to_owned(),
        ..Finding::of_kind(Kind::NotChecked, Confidence::High, says)
    })
}

/// The finding, where an input has some of another one's calls: no rank's calls are known then.
pub(crate) fn describe_doubled_calls(doubled: DoubledInput<'_>) -> Finding {
    let DoubledInput { name, input, of } = doubled;
    let at = FirstReportLine { input, line: 0 };
    Finding {
        why: "ranks were not compared: a stream with calls twice differs from each that has them once".to_owned(),
        advice: format!("check without {name} or without {of}, or cut the lines that both have from one of them"),
        evidence: vec![at.into()],
        ..Finding::of_kind(
            Kind::NotChecked,
            Confidence::High,
            format!("not judged: {name} and {of} have calls in common"),
        )
    }
}

/// Returns the finding, if tables of nccl-tests are all that could be checked.
fn find_tables_only(seen: &CheckGathered) -> Option<Finding> {
    let tables = describe_tables(&seen.inputs)?;
    let first = seen.inputs.iter().zip(0..).find_map(|(input, number)| {
        let table = input.benchmarks.first()?;
        Some(input.line_evidence(number, table.line))
    });
    let says = format!(
        "the log has {tables}; it has no communicator, connection or call of NCCL: nothing else \
         was checked"
    );
    Some(Finding {
        why: "nccl-tests prints its table without NCCL_DEBUG too".to_owned(),
        advice: "to check NCCL itself, run it with NCCL_DEBUG=INFO \
                 NCCL_DEBUG_SUBSYS=INIT,COLL,NET; nccl-diff compares the tables of two runs"
            .to_owned(),
        evidence: first.into_iter().collect(),
        ..Finding::of_kind(Kind::BenchmarkOnly, Confidence::High, says)
    })
}

/// Returns the finding, if neither the ranks' calls nor the initialisation of all ranks were judged, and no line
/// reports the job's end.
fn find_nothing_to_check(
    seen: &CheckGathered,
    compared: &StreamComparison,
    judged: &JudgedParts,
) -> Option<Finding> {
    let sum = |of: fn(&Account) -> u64| seen.accounts.iter().map(of).sum::<u64>();
    let (lines, calls) = (sum(|account| account.lines), sum(|account| account.calls));
    // The program reports an empty input.
    if lines == 0 || !judged.is_nothing() {
        return None;
    }
    let texts = match calls {
        0 => describe_log_without_calls(seen, lines, sum(|account| account.foreign)),
        _ => describe_unjudged_calls(compared),
    };
    Some(Finding {
        why: texts.why,
        advice: texts.advice.to_owned(),
        evidence: vec![
            seen.lines
                .informs
                .unwrap_or(FirstReportLine { input: 0, line: 0 })
                .into(),
        ],
        ..Finding::of_kind(Kind::NotChecked, Confidence::High, texts.says)
    })
}

/// The texts of the finding.
struct NotCheckedTexts {
    says: String,
    why: String,
    advice: &'static str,
}

/// Of a log with calls that could not be compared.
fn describe_unjudged_calls(compared: &StreamComparison) -> NotCheckedTexts {
    let reasons = compared.unjudged.iter().map(|(why, those)| {
        let many = number_and_noun(those.len(), "communicator");
        format!("{many}: {}", why.describe_reason())
    });
    let reasons = reasons.collect::<Vec<_>>().join("; ");
    NotCheckedTexts {
        says:
            "not judged: the log has neither calls that can be compared across ranks nor the job's end"
                .to_owned(),
        why: match reasons.is_empty() {
            true => "no communicator has the calls of more than one rank".to_owned(),
            false => reasons,
        },
        advice: "check the logs of all ranks together: set NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL,NET on \
                 every rank",
    }
}

fn describe_log_without_calls(seen: &CheckGathered, lines: u64, foreign: u64) -> NotCheckedTexts {
    let sides = || seen.found.sides.iter();
    // A GPU begins smaller communicators, too.
    let communicators = || seen.found.communicators.iter();
    let largest = communicators().map(|c| c.nranks).max();
    let those = communicators().filter(|c| Some(c.nranks) == largest);
    let those = those
        .flat_map(|c| &c.sides)
        .map(|&at| &seen.found.sides[at]);
    let begun = those.filter(|side| side.state == CommunicatorState::Started);
    let begun = begun.map(gpu_of_side).collect::<BTreeSet<_>>().len() as u64;
    let has_made = sides().any(|side| side.state.is_set_up());
    let init = InitProgress::of_largest(&seen.found).filter(|_| has_made);
    let (says, why, advice) = match (seen.lines.informs, init) {
        (_, Some(InitProgress { complete, all })) if complete == all => (
            format!(
                "not judged: the log has no calls, and ends after the initialisation of all {}",
                number_and_noun(all, "rank")
            ),
            "without COLL lines the log does not show whether a call was made",
            "run the job with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL, and check the whole log",
        ),
        (_, Some(InitProgress { complete, all })) => (
            format!(
                "not judged: the log has no calls, and the initialisation is complete on {complete} of \
                 {}",
                number_and_noun(all, "rank")
            ),
            "the log does not show that the other ranks completed their initialisation",
            "check the logs of all ranks together: set NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL,NET on \
             every rank",
        ),
        _ if begun > 0 => (
            format!(
                "the log ends in NCCL's initialisation: {} of the largest communicator began it, and none \
                 has completed it; no call, no connection and no step of NCCL was checked",
                number_and_noun(begun, "rank")
            ),
            "no line reports a complete communicator, and the log has no call",
            "let the job run longer, or find out why it stops: compare the last lines of each rank",
        ),
        (Some(_), _) if !seen.net.all.links.is_empty() => (
            "not judged: the log has connections, but neither communicators nor calls".to_owned(),
            "NCCL's lines in the log are of other subsystems",
            "use the whole log, under NCCL_DEBUG_SUBSYS=INIT,COLL,NET",
        ),
        (Some(_), _) => (
            "the log has no communicator, connection or call: nothing was checked".to_owned(),
            "NCCL's lines in the log are of its start or of other subsystems",
            "use the whole log, under NCCL_DEBUG_SUBSYS=INIT,COLL,NET",
        ),
        (None, _) if seen.lines.warns => (
            "not judged: the log has WARN lines only, and no line reports the job's end".to_owned(),
            "under NCCL_DEBUG=WARN NCCL prints nothing else",
            "run the job with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL,NET",
        ),
        (None, _) if lines > foreign => (
            "the log has only NCCL's version: nothing was checked".to_owned(),
            "under NCCL_DEBUG=VERSION, and under WARN without a warning, NCCL prints nothing else",
            "run the job with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL,NET",
        ),
        (None, _) => (
            format!(
                "the log has no line of NCCL among {}: nothing was checked",
                number_and_noun(lines, "line")
            ),
            "under NCCL_DEBUG=INFO NCCL prints to standard output or to NCCL_DEBUG_FILE",
            "run the job with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL,NET, and check all files \
             that it writes",
        ),
    };
    NotCheckedTexts {
        says,
        why: why.to_owned(),
        advice,
    }
}
