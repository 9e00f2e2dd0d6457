//! Inputs of several jobs, or of several attempts of one: the tables add them up.

use super::job_facts::JobFacts;
use crate::members::jobs::describe_separate_jobs;
use crate::stages::check::finding::{Confidence, Finding, Kind};
use crate::stages::net::net_stage::FirstReportLine;

/// Returns the finding, if there are several jobs: attempts of one job in one log are distinguished by their steps.
pub(super) fn find_several_jobs(job: &JobFacts<'_>) -> Option<Finding> {
    if job.separate.is_empty() {
        return None;
    }
    let begins = job.separate.iter().filter_map(|separate| {
        let first = separate.inputs.first()?;
        let input = job.inputs.iter().position(|input| input.name == *first)? as u32;
        Some(FirstReportLine { input, line: 0 }.into())
    });
    let says = describe_separate_jobs(job.separate);
    Some(Finding {
        evidence: begins.collect(),
        why: "their communicators of all ranks have no process and no input in common".to_owned(),
        advice: "give the files of one job; nccl-diff compares two".to_owned(),
        ..Finding::of_kind(
            Kind::SeveralJobs,
            Confidence::High,
            format!("{says}; tables add them up, and their hosts are not compared"),
        )
    })
}
