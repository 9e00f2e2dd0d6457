//! How the log was written, where that spoils it.

use crate::formats::account::{Account, PLACES};
use crate::stages::check::finding::{About, Evidence, Finding, Severity, Spot, Sure};
use crate::stages::check::walk::Walked;
use crate::stages::check::wording::{counted, verb};
use crate::stages::net::all::First;

/// What keeps every process's lines apart.
const OWN_FILES: &str = "rerun with NCCL_DEBUG_FILE=nccl.%h.%p.log, a file for each process";

/// The findings on how `input`, the `number`th, was written.
pub(crate) fn findings(number: u32, input: &Walked, account: &Account) -> Vec<Finding> {
    let name = &input.name;
    let at = |line: u64| {
        Evidence::from(First {
            input: number,
            line,
        })
    };
    let line = |first: Option<u64>| first.map(at);
    let firsts = &account.firsts;
    let places = || account.places.iter().map(|place| at(place.line));
    let mut findings = Vec::new();
    let mut told = |id, says, (why, advice): (&str, &str), evidence: Vec<Evidence>| {
        findings.push(Finding {
            id,
            severity: Severity::Note,
            says: format!("{name}: {says}"),
            about: About::default(),
            sure: Sure::High,
            why: why.to_owned(),
            advice: advice.to_owned(),
            evidence,
        });
    };
    let remains = &input.remains;
    // Lines without the beginning of a header are among both.
    let overwritten = account.overwritten.max(remains.count);
    if overwritten >= 2 {
        let first = line(firsts.overwritten);
        let rest = places().filter(|place| Some(place) != first.as_ref());
        let ends = remains.places.iter().copied().map(Evidence::from);
        let ends = ends.filter(|place| Some(place) != first.as_ref());
        told(
            "shared_file",
            format!(
                "processes overwrote each other's bytes on {}: {} are lost",
                counted(overwritten, "line"),
                if account.overwritten > 0 && account.calls > 0 {
                    "calls"
                } else {
                    "lines"
                },
            ),
            (
                match account.overwritten {
                    0 => "single lines among whole ones lack the beginning of their header",
                    _ => "another process's text follows a line that is cut",
                },
                OWN_FILES,
            ),
            first
                .iter()
                .cloned()
                .chain(ends)
                .chain(rest)
                .take(PLACES)
                .collect(),
        );
    } else if account.damaged > 0 {
        told(
            "damaged_lines",
            format!(
                "{} {} damaged",
                counted(account.damaged, "line"),
                verb(account.damaged as usize, "is", "are")
            ),
            (
                "they begin like NCCL's lines and do not end like them",
                OWN_FILES,
            ),
            places().collect(),
        );
    }
    if account.truncated > 0 {
        told(
            "lines_truncated",
            format!(
                "NCCL itself truncated {}; no call is affected",
                counted(account.truncated, "line")
            ),
            (
                "they end where NCCL's own buffer ends: NCCL prints at most 1,023 bytes of a line, \
                 RCCL about 2,100",
                "no action is needed; NCCL prints longer lines since 2.29.2",
            ),
            line(firsts.truncated).into_iter().collect(),
        );
    }
    if account.torn > 0 {
        told(
            "lines_torn",
            format!(
                "{} {} torn and rejoined",
                counted(account.torn, "line"),
                verb(account.torn as usize, "was", "were"),
            ),
            (
                "they end at byte 128, where NCCL 2.29.2 and later ends a write to a pipe that \
                 processes share, and exactly one other piece fits each of them",
                OWN_FILES,
            ),
            line(firsts.torn).into_iter().collect(),
        );
    }
    if account.block_writers > 0 || account.spliced > 0 {
        let joined = firsts.block.map(|at| Evidence {
            at: Spot::Byte { input: number, at },
            text: None,
        });
        told(
            "block_buffered",
            format!(
                "standard output was block-buffered ({} rejoined): calls may appear in a later \
                 step than theirs",
                counted(account.block_lines + account.spliced, "line")
            ),
            (
                "lines are cut at the ends of 4 KiB buffers",
                "rerun with PYTHONUNBUFFERED=1",
            ),
            joined.into_iter().chain(line(firsts.spliced)).collect(),
        );
    }
    if account.ray_lines > 0 {
        told(
            "ray_dedup",
            format!(
                "Ray omitted {}: counts are too low",
                counted(account.ray_repeats, "line")
            ),
            (
                "lines end in `[repeated Nx across cluster]`",
                "rerun with RAY_DEDUP_LOGS=0",
            ),
            line(firsts.ray).into_iter().collect(),
        );
    }
    let steps = &input.timeline.steps;
    let falls = steps.last().map_or(0, |step| step.segment);
    if falls > 0 {
        let fall = steps.iter().position(|step| step.segment > 0);
        // The line that begins anew, and the one before it.
        let lines = fall.into_iter().flat_map(|at| [at, at.saturating_sub(1)]);
        told(
            "several_runs",
            format!(
                "the step number falls {}: the file has restarts, epochs, several jobs or step \
                 lines of several ranks",
                counted(falls, "time")
            ),
            (
                "the step lines show it",
                "nccl-steps --list shows the runs (column segment)",
            ),
            lines
                .filter_map(|step| input.line_of(number, step))
                .collect(),
        );
    }
    findings
}
