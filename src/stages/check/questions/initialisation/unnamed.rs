//! Initialisations of versions without `Init START`.

use super::SetupContext;
use super::limits::MAX_SETUP_EVIDENCE;
use super::phase_words::{describe_phases, name_process, phase_advice};
use crate::stages::check::finding::{Confidence, Evidence, Finding, Kind, Severity};
use crate::stages::check::wording::{list_names, name_result};
use crate::stages::communicators::begun::{SetupPhase, UnnamedSetup};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the finding on initialisations of NCCL 2.4 to 2.17, which print no `Init START`.
pub(super) fn judge_unnamed(context: &SetupContext<'_>) -> Option<Finding> {
    let open = &context.found.unnamed_setups;
    let first = open.first()?;
    let failed = open
        .iter()
        .find_map(|open| Some((open, open.progress.failed?)));
    let is_known = !context.has_steps() && !context.is_damaged();
    let stalled = context.is_stalled() && is_known;
    let mut says = match failed {
        Some((open, (code, _))) => format!(
            "the initialisation of a communicator failed on {}: a function of NCCL returned {}",
            describe_unnamed(context, open),
            name_result(code)
        ),
        None => {
            let names = open.iter().map(|open| describe_unnamed(context, open));
            let names: Vec<String> = names.collect();
            format!(
                "the initialisation of a communicator had not ended on {} when the log ends",
                list_names(names)
            )
        }
    };
    let mut by_phase: BTreeMap<SetupPhase, BTreeSet<u32>> = BTreeMap::new();
    for open in open {
        by_phase
            .entry(open.progress.phase)
            .or_default()
            .extend(open.rank);
    }
    says += &format!(": {}", describe_phases(&by_phase));
    let severity = match failed.is_some() || stalled {
        true => Severity::Error,
        false => Severity::Note,
    };
    let spots = open.iter().filter_map(|open| open.progress.last_spot());
    let lines = failed.map(|(_, (_, at))| at).into_iter();
    let lines = lines.chain(spots.map(|spot| spot.at));
    Some(Finding {
        why: match (failed.is_some(), stalled) {
            (true, _) => "NCCL prints the functions that an error left",
            (_, true) => "they print no Init COMPLETE, and nothing more was written",
            _ => "the log may have been cut, or copied while the job starts",
        }
        .to_owned(),
        advice: phase_advice(first.progress.phase).to_owned(),
        evidence: lines.take(MAX_SETUP_EVIDENCE).map(Evidence::from).collect(),
        ..Finding::new(Kind::InitIncomplete, severity, Confidence::Medium, says)
    })
}

fn describe_unnamed(context: &SetupContext<'_>, open: &UnnamedSetup) -> String {
    let process = name_process(context, open.process);
    match open.rank {
        Some(rank) => format!("rank {rank} ({process})"),
        None => process,
    }
}
