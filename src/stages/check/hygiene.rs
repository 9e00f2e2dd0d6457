//! How the log was written, where that spoils it.

use super::finding::{About, Evidence, Finding, Severity, Sure};
use super::names::{counted, verb};
use super::walk::Walked;
use crate::account::Account;
use crate::scan;
use crate::stages::net::all::First;

/// The findings on how `input`, the `number`th, was written.
pub(crate) fn findings(number: u32, input: &Walked, account: &Account) -> Vec<Finding> {
    let name = &input.name;
    let places = account.places.iter().map(|place| {
        let line = place.line;
        Evidence::from(First {
            input: number,
            line,
        })
    });
    let places: Vec<Evidence> = places.collect();
    let finding = |id, says, why: &str, advice: &str, evidence| Finding {
        id,
        severity: Severity::Note,
        says,
        about: About::default(),
        sure: Sure::High,
        why: why.to_owned(),
        advice: advice.to_owned(),
        evidence,
    };
    let too_long = account
        .places
        .iter()
        .all(|place| place.what == scan::TOO_LONG);
    let mut findings = Vec::new();
    if account.overwritten >= 2 {
        findings.push(finding(
            "shared_file",
            format!(
                "{name}: processes wrote over each other's bytes on {}: calls are lost",
                counted(account.overwritten, "line")
            ),
            "another process's text follows a line that is cut",
            "rerun with NCCL_DEBUG_FILE=nccl.%h.%p.log, a file for each process",
            places.clone(),
        ));
    } else if account.damaged > 0 {
        findings.push(finding(
            "damaged_lines",
            format!(
                "{name}: {} {} damaged",
                counted(account.damaged, "line"),
                verb(account.damaged as usize, "is", "are")
            ),
            if too_long {
                "the first of them are cut by NCCL itself, which prints at most 1,023 bytes of a line"
            } else {
                "they begin as NCCL's lines do, and do not end so"
            },
            if too_long {
                "nothing; NCCL prints longer lines since 2.29.2"
            } else {
                "rerun with NCCL_DEBUG_FILE=nccl.%h.%p.log, a file for each process"
            },
            places,
        ));
    }
    if account.block_lines > 0 || account.spliced > 0 {
        findings.push(finding(
            "block_buffered",
            format!(
                "{name}: standard output was block-buffered ({} put together again): calls may stand \
                 in a later step than theirs",
                counted(account.block_lines + account.spliced, "line")
            ),
            "lines are cut at the ends of 4 KiB buffers",
            "rerun with PYTHONUNBUFFERED=1",
            Vec::new(),
        ));
    }
    if account.ray_lines > 0 {
        findings.push(finding(
            "ray_dedup",
            format!(
                "{name}: Ray left out {}: counts are too low",
                counted(account.ray_repeats, "line")
            ),
            "lines end in `[repeated Nx across cluster]`",
            "rerun with RAY_DEDUP_LOGS=0",
            Vec::new(),
        ));
    }
    let falls = input.timeline.steps.last().map_or(0, |step| step.segment);
    if falls > 0 {
        findings.push(finding(
            "several_runs",
            format!(
                "{name}: the step number falls {}: the file holds restarts, epochs or several jobs",
                counted(falls.into(), "time")
            ),
            "by the step lines",
            "tell the runs apart with nccl-steps --list (column segment)",
            Vec::new(),
        ));
    }
    findings
}
