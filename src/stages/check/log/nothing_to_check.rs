//! Where a log has nothing that could be checked: then no finding means nothing.

use crate::stages::check::finding::{Confidence, Finding, Kind};
use crate::stages::check::questions::benchmarks::describe_tables;
use crate::stages::check::walk::CheckGathered;
use crate::stages::check::wording::number_and_noun;
use crate::stages::communicators::CommunicatorState;
use crate::stages::net::net_stage::FirstReportLine;

/// The finding, if tables of nccl-tests are all that could be checked.
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

/// The finding, if nothing of NCCL's work is in the log.
pub(crate) fn find_nothing_to_check(seen: &CheckGathered) -> Option<Finding> {
    let sum =
        |of: fn(&crate::report::account::Account) -> u64| seen.accounts.iter().map(of).sum::<u64>();
    let (lines, calls) = (sum(|account| account.lines), sum(|account| account.calls));
    let foreign = sum(|account| account.foreign);
    let watched = !seen.warnings.watchdog_lines().is_empty();
    let made = |state: CommunicatorState| {
        !matches!(
            state,
            CommunicatorState::Unknown | CommunicatorState::Started
        )
    };
    let sides = &seen.found.sides;
    // The program reports an empty input.
    if lines == 0
        || calls > 0
        || watched
        || seen.lines.kernels
        || !seen.net.all.links.is_empty()
        || sides.iter().any(|side| made(side.state))
    {
        return None;
    }
    let begun = sides
        .iter()
        .filter(|side| side.state == CommunicatorState::Started);
    let begun = begun.count() as u64;
    let informs = seen.lines.informs;
    // Under NCCL_DEBUG=WARN a job prints its WARN lines and nothing else: they were checked.
    if seen.lines.warns && informs.is_none() {
        return None;
    }
    if let Some(finding) = find_tables_only(seen) {
        return Some(finding);
    }
    let (says, why, advice) = match informs {
        _ if begun > 0 => (
            format!(
                "the log ends in NCCL's initialisation: {} of a communicator began it, and none \
                 has completed it; no call, no connection and no step of NCCL was checked",
                number_and_noun(begun, "rank")
            ),
            "no line reports a complete communicator, and the log has no call",
            "let the job run longer, or find out why it stops: compare the last lines of each rank",
        ),
        Some(_) => (
            "the log has no communicator, connection or call: nothing was checked".to_owned(),
            "NCCL's lines in the log are of its start or of other subsystems",
            "use the whole log, under NCCL_DEBUG_SUBSYS=INIT,COLL,NET",
        ),
        None if lines > foreign => (
            "the log has only NCCL's version: nothing was checked".to_owned(),
            "under NCCL_DEBUG=VERSION, and under WARN without a warning, NCCL prints nothing else",
            "run the job with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL,NET",
        ),
        None => (
            format!(
                "the log has no line of NCCL among {}: nothing was checked",
                number_and_noun(lines, "line")
            ),
            "under NCCL_DEBUG=INFO NCCL prints to standard output or to NCCL_DEBUG_FILE",
            "run the job with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL,NET, and check all files \
             that it writes",
        ),
    };
    Some(Finding {
        why: why.to_owned(),
        advice: advice.to_owned(),
        evidence: vec![
            informs
                .unwrap_or(FirstReportLine { input: 0, line: 0 })
                .into(),
        ],
        ..Finding::of_kind(Kind::NotChecked, Confidence::High, says)
    })
}
