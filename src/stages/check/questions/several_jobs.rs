//! Inputs of several jobs, or of several attempts of one: the tables add them up.

use super::job_facts::JobFacts;
use crate::error::escape::escape_for_terminal;
use crate::stages::check::finding::{Confidence, Finding, Kind};
use crate::stages::check::wording::{list_names, number_and_noun};
use crate::stages::communicators::is_world;
use crate::stages::net::net_stage::FirstReportLine;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the finding, if communicators of all ranks have no process in common, and no input either: attempts of
/// one job in one log are distinguished by their steps.
pub(super) fn find_several_jobs(job: &JobFacts<'_>) -> Option<Finding> {
    let mut inputs_of: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (input, own) in (0..).zip(job.processes) {
        for &process in own {
            inputs_of.entry(process).or_default().push(input);
        }
    }
    // By the inputs of each job: its processes, and the number of its ranks.
    let mut jobs: BTreeMap<BTreeSet<u32>, (BTreeSet<u32>, usize)> = BTreeMap::new();
    let worlds = job.found.communicators.iter();
    for world in worlds.filter(|c| is_world(c)) {
        let sides = world
            .sides
            .iter()
            .map(|&side| job.found.sides[side].process);
        let processes: BTreeSet<u32> = sides.collect();
        let inputs = processes
            .iter()
            .filter_map(|process| inputs_of.get(process));
        let inputs = inputs.flatten().copied().collect();
        let known = jobs.entry(inputs).or_default();
        known.1 = known.1.max(processes.len());
        known.0.extend(processes);
    }
    let (mut inputs, mut processes) = (BTreeSet::new(), BTreeSet::new());
    let are_apart = jobs.iter().all(|(own, (of, _))| {
        own.iter().all(|at| inputs.insert(at)) && of.iter().all(|at| processes.insert(at))
    });
    if jobs.len() < 2 || !are_apart {
        return None;
    }
    let each = jobs.iter().filter_map(|(inputs, (_, ranks))| {
        let first = &job.inputs.get(*inputs.first()? as usize)?.name;
        let first = escape_for_terminal(first, false);
        let more = match inputs.len() {
            1 => String::new(),
            n => format!(" and {}", number_and_noun(n as u64 - 1, "other input")),
        };
        Some(format!(
            "{} in {first}{more}",
            number_and_noun(*ranks as u64, "rank")
        ))
    });
    let each: Vec<String> = each.collect();
    let says = format!(
        "the inputs are of {} jobs, or attempts of one, that share no process: {}; tables add them up",
        jobs.len(),
        list_names(&each)
    );
    let begins = jobs.keys().filter_map(|inputs| {
        let input = *inputs.first()?;
        Some(FirstReportLine { input, line: 0 }.into())
    });
    Some(Finding {
        evidence: begins.collect(),
        why: "their communicators of all ranks have no process and no input in common".to_owned(),
        advice: "give the files of one job; nccl-diff compares two".to_owned(),
        ..Finding::of_kind(Kind::SeveralJobs, Confidence::High, says)
    })
}
