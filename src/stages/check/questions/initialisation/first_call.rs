//! A log that ends right after the initialisation.

use super::SetupContext;
use crate::stages::check::finding::{Confidence, Evidence, Finding, Kind, Severity};
use crate::stages::check::wording::number_and_noun;
use crate::stages::communicators::{CommunicatorState, JobGpu, gpu_of_side};
use crate::stages::net::net_stage::FirstReportLine;
use std::collections::BTreeSet;

/// Returns the note if all communicators are complete, and nothing at all follows: no call, no step, no end, no
/// other line.
pub(super) fn find_silent_start(context: &SetupContext<'_>) -> Option<Finding> {
    let sides = &context.found.sides;
    let is_quiet = sides
        .iter()
        .all(|side| side.state == CommunicatorState::Ready && side.count_calls() == 0);
    let several = sides.iter().any(|side| side.nranks.is_some_and(|n| n > 1));
    let is_open = !context.found.unnamed_setups.is_empty();
    let went_wrong =
        context.is_running() || context.failed || context.warned || context.is_damaged();
    if !is_quiet || !several || is_open || went_wrong || context.has_steps() {
        return None;
    }
    let calls: u64 = context.accounts.iter().map(|account| account.calls).sum();
    let last = sides
        .iter()
        .filter_map(|side| side.progress.completed)
        .max()?;
    // Between inputs the order of lines is unknown.
    let after = |line: FirstReportLine| context.inputs.len() > 1 || line > last;
    // After a stall the launcher may have a word.
    let is_followed = !context.is_stalled() && context.foreign.is_some_and(after);
    if calls > 0 || is_followed {
        return None;
    }
    let gpus: BTreeSet<JobGpu> = sides.iter().map(gpu_of_side).collect();
    let ranks = number_and_noun(gpus.len(), "rank");
    let stalled = context.is_stalled();
    let says = format!(
        "the log ends after the initialisation: {ranks} completed it, and no call, step or other line \
         follows"
    );
    Some(Finding {
        why: match stalled {
            true => "nothing more was written while the log was watched",
            false => {
                "the log may have been cut there; without COLL lines it does not show whether a call \
                 was made"
            }
        }
        .to_owned(),
        evidence: vec![Evidence::from(last)],
        ..Finding::new(
            Kind::NoFirstCall,
            if stalled { Severity::Warning } else { Severity::Note },
            if stalled { Confidence::Medium } else { Confidence::Low },
            says,
        )
    })
}
