//! How far the job had come when something failed, by the step lines and the initialisation before it.

use crate::stages::check::finding::{Finding, JobStage, LineSpot, Severity};
use crate::stages::check::walk::CheckGathered;
use crate::stages::net::net_stage::FirstReportLine;

/// Gives every error its stage, if the lines of its input before its first line show it.
pub(crate) fn note_stages(findings: &mut [Finding], seen: &CheckGathered) {
    for finding in findings {
        let first = finding.evidence.first().map(|evidence| evidence.at);
        if let (Severity::Error, None, Some(LineSpot::Line(at))) =
            (finding.severity, finding.about.stage, first)
        {
            finding.about.stage = stage_of_step(seen, at).or_else(|| stage_of_setup(seen, at));
        }
    }
}

fn stage_of_step(seen: &CheckGathered, at: FirstReportLine) -> Option<JobStage> {
    let input = seen.inputs.get(at.input as usize)?;
    input.last_step_number()?;
    Some(match input.last_step_before(at.line) {
        Some(step) => JobStage::AfterStep(step),
        None => JobStage::BeforeFirstStep,
    })
}

/// The stage by the initialisations that the input's lines before `at` begin and complete.
fn stage_of_setup(seen: &CheckGathered, at: FirstReportLine) -> Option<JobStage> {
    let is_before = |spot: &FirstReportLine| spot.input == at.input && *spot < at;
    let (mut open, mut complete) = (false, false);
    for side in &seen.found.sides {
        let began = side.progress.began.as_ref().map(|spot| spot.at);
        match side.progress.completed.as_ref().is_some_and(is_before) {
            true => complete = true,
            false => open |= began.as_ref().is_some_and(is_before),
        }
    }
    match (open, complete) {
        (true, _) => Some(JobStage::Initialisation),
        (false, true) => Some(JobStage::Initialised),
        (false, false) => None,
    }
}

impl JobStage {
    /// `after step 8`.
    pub(crate) fn describe_stage(self) -> String {
        match self {
            JobStage::Initialisation => "in the initialisation of a communicator".to_owned(),
            JobStage::Initialised => "after the initialisation".to_owned(),
            JobStage::BeforeFirstStep => "before the first step line".to_owned(),
            JobStage::AfterStep(step) => format!("after step {step}"),
        }
    }
}
