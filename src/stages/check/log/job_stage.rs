//! How far the job had come when something failed, by the step lines and the initialisation before it.

use crate::stages::check::answer::judged::InitProgress;
use crate::stages::check::finding::{Finding, JobStage, LineSpot, Severity};
use crate::stages::check::walk::CheckGathered;

/// Gives every error its stage, if the lines before its first line show it.
pub(crate) fn note_stages(findings: &mut [Finding], seen: &CheckGathered) {
    let has_steps =
        |input: &crate::stages::check::walk::WalkedInput| input.last_step_number().is_some();
    let whole = match seen.inputs.iter().any(has_steps) {
        true => None,
        false => stage_of_initialisation(seen),
    };
    for finding in findings {
        if finding.severity != Severity::Error || finding.about.stage.is_some() {
            continue;
        }
        let first = finding.evidence.first().map(|evidence| evidence.at);
        let in_steps = first.and_then(|at| stage_of_line(seen, at));
        finding.about.stage = in_steps.or(whole.filter(|_| first.is_some()));
    }
}

fn stage_of_line(seen: &CheckGathered, at: LineSpot) -> Option<JobStage> {
    let input = seen.inputs.get(at.input() as usize)?;
    input.last_step_number()?;
    Some(match input.last_step_before(at.line()?) {
        Some(step) => JobStage::AfterStep(step),
        None => JobStage::BeforeFirstStep,
    })
}

/// The stage of a job without step lines, at the end of its log.
fn stage_of_initialisation(seen: &CheckGathered) -> Option<JobStage> {
    let InitProgress { complete, all } = InitProgress::of_largest(&seen.found)?;
    Some(match complete < all {
        true => JobStage::Initialisation,
        false => JobStage::Initialised,
    })
}

impl JobStage {
    /// `after step 8`.
    pub(crate) fn describe_stage(self) -> String {
        match self {
            JobStage::Initialisation => {
                "before NCCL's initialisation was complete on all ranks".to_owned()
            }
            JobStage::Initialised => "after NCCL's initialisation was complete".to_owned(),
            JobStage::BeforeFirstStep => "before the first step line".to_owned(),
            JobStage::AfterStep(step) => format!("after step {step}"),
        }
    }
}
