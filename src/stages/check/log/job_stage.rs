//! How far the job had come when something failed, by the step lines and the initialisation before it.

use crate::stages::check::finding::{Finding, JobStage, LineSpot, Severity};
use crate::stages::check::log::job_processes::JobProcesses;
use crate::stages::check::walk::CheckGathered;
use crate::stages::net::net_stage::FirstReportLine;

/// Gives every error its stage, if the lines of its input before its first line show it, and findings on calls the step
/// that its line is in: ranks that run ahead of the step lines are further than that.
pub(crate) fn note_stages(
    findings: &mut [Finding],
    seen: &CheckGathered,
    processes: &JobProcesses,
) {
    let setups = SetupSpots::new(seen);
    let mut inputs = seen.inputs.iter();
    let has_steps = inputs.any(|input| input.last_step_number().is_some());
    for finding in findings {
        let Some(LineSpot::Line(at)) = finding.evidence.first().map(|evidence| evidence.at) else {
            continue;
        };
        let stage = stage_of_step(seen, processes, at);
        if let (Some(_), None, Some(_)) = (finding.about.seq, finding.about.step, stage) {
            let input = seen.inputs.get(at.input as usize);
            finding.about.step = input.and_then(|input| input.step_at_line(at.line));
        }
        if let (Severity::Error, None) = (finding.severity, finding.about.stage) {
            let setup = || setups.stage_before(at);
            // Where another input has the step lines, this one's initialisation is long past.
            let is_past = |stage: &JobStage| has_steps && *stage == JobStage::Initialised;
            finding.about.stage = stage.or_else(|| setup().filter(|stage| !is_past(stage)));
        }
    }
}

/// The stage by the step lines, where all processes of the job began before them.
fn stage_of_step(
    seen: &CheckGathered,
    processes: &JobProcesses,
    at: FirstReportLine,
) -> Option<JobStage> {
    let input = seen.inputs.get(at.input as usize)?;
    input.last_step_number()?;
    let begin = processes.begins_of_job_at(at).map_or(0, |(_, last)| last);
    // A line may have the bar of a step that has ended in front of its text.
    match input.last_step_between(begin, at.line + 1) {
        Some(step) => Some(JobStage::AfterStep(step)),
        None if at.line < begin || input.last_step_before(begin).is_some() => None,
        None => Some(JobStage::BeforeFirstStep),
    }
}

/// Where initialisations begin and complete, in order.
struct SetupSpots {
    /// Those of sides whose beginning is known: it, and the completion.
    began: Vec<FirstReportLine>,
    ended: Vec<FirstReportLine>,
    complete: Vec<FirstReportLine>,
}

impl SetupSpots {
    fn new(seen: &CheckGathered) -> SetupSpots {
        let sides = || seen.found.sides.iter().map(|side| &side.progress);
        let in_order = |spots: &mut dyn Iterator<Item = FirstReportLine>| {
            let mut spots = Vec::from_iter(spots);
            spots.sort_unstable();
            spots
        };
        let begun = || sides().filter_map(|of| Some((of.began.as_ref()?.at, of.completed)));
        // An input's own lines complete what they began.
        let own = |(began, end): (FirstReportLine, Option<FirstReportLine>)| {
            end.filter(|end| end.input == began.input)
        };
        SetupSpots {
            began: in_order(&mut begun().map(|(began, _)| began)),
            ended: in_order(&mut begun().filter_map(own)),
            complete: in_order(&mut sides().filter_map(|of| of.completed)),
        }
    }

    /// The stage by the initialisations that the input's lines before `at` begin and complete.
    fn stage_before(&self, at: FirstReportLine) -> Option<JobStage> {
        let count = |spots: &[FirstReportLine]| {
            let first = spots.partition_point(|spot| spot.input < at.input);
            spots[first..].partition_point(|spot| *spot < at)
        };
        match (
            count(&self.began),
            count(&self.ended),
            count(&self.complete),
        ) {
            (began, ended, _) if began > ended => Some(JobStage::Initialisation),
            (_, _, 1..) => Some(JobStage::Initialised),
            _ => None,
        }
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
