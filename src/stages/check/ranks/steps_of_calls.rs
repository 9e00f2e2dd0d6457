//! The steps of calls in inputs without step lines, by the lines of the job's other inputs.

use super::RereadInputs;
use crate::error::Result;
use crate::log;
use crate::log::placement::{CallPlacer, CallRecorder, FilesWithoutSteps, PlacedCalls};
use crate::members::MergedMembers;
use crate::pool;
use crate::stages::check::finding::{Finding, JobStage, LineSpot, Severity};
use crate::stages::check::walk::WalkedInput;
use crate::stages::communicators::CommunicatorsSummary;
use std::collections::BTreeMap;

/// The inputs' calls, placed in the steps of all.
struct CallsPlacedAcross {
    placed: PlacedCalls,
    /// The input of each number of held ones, and of each number of those with step lines.
    held: Vec<u32>,
    stepped: Vec<u32>,
}

/// Gives errors on a call the step that it belongs to, and how far the job had come, where their input has no step
/// lines and another one has.
///
/// # Errors
/// An input cannot be read again.
pub(super) fn note_steps_of_calls(
    findings: &mut [Finding],
    found: &CommunicatorsSummary,
    inputs: &RereadInputs<'_>,
) -> Result<()> {
    let has_steps = |input: &WalkedInput| input.last_step_number().is_some();
    let mut wanted: BTreeMap<(u32, u64), Vec<&mut Finding>> = BTreeMap::new();
    for finding in findings {
        if let (Severity::Error, None) = (finding.severity, finding.about.stage)
            && let Some(LineSpot::Byte { input, at }) = finding.evidence.first().map(|e| e.at)
            && inputs
                .walked
                .get(input as usize)
                .is_some_and(|own| !has_steps(own))
        {
            wanted.entry((input, at)).or_default().push(finding);
        }
    }
    // What a pipe had is kept only in part.
    if wanted.is_empty() || !inputs.walked.iter().any(has_steps) || !inputs.piped.is_empty() {
        return Ok(());
    }
    let Some(across) = place_across_inputs(found, inputs)? else {
        return Ok(());
    };
    for (held, &input) in (0..).zip(&across.held) {
        across.placed.each_call(held, |gap, _, at| {
            let here = at.and_then(|at| wanted.get_mut(&(input, at)));
            for finding in here.into_iter().flatten() {
                finding.about.stage = across.stage_at(gap, inputs.walked);
                let step = across.placed.timeline.step_of(gap as usize);
                finding.about.step = step.map(|step| step.step);
            }
        });
    }
    Ok(())
}

/// Places the calls of all inputs; `None` if all have step lines.
fn place_across_inputs(
    found: &CommunicatorsSummary,
    inputs: &RereadInputs<'_>,
) -> Result<Option<CallsPlacedAcross>> {
    let options = inputs.options;
    let jobs = options.log.jobs;
    let mut merged = MergedMembers::with_process_names(&found.processes);
    let mut across = FilesWithoutSteps::for_inputs(inputs.walked.len());
    let (mut held, mut stepped) = (Vec::new(), Vec::new());
    let numbers = 0..u32::try_from(inputs.walked.len()).unwrap_or(u32::MAX);
    let begin = |number: u32| {
        let input = (inputs.open)(number)?;
        let begun = log::begin_log(&input, &options.log, CallRecorder::with_lines)?;
        Ok((number, input, begun))
    };
    pool::map_in_order(jobs, numbers, begin, |begun| {
        let (number, input, begun) = begun?;
        let mut placer = CallPlacer::with_jobs(jobs);
        let log = log::continue_log(
            &input,
            begun,
            &options.log,
            &mut merged,
            CallRecorder::with_lines,
            |_| {},
            |part| {
                let (calls, part) = part.take_visit();
                placer.add_chunk(calls, &part, &options.timeline, |_, _| {});
                Ok(())
            },
        )?;
        let timeline = log.build_timeline(&options.timeline);
        let (_, taken) = across.end_input(placer, &timeline, &merged, |_, _| {});
        held.extend(taken.held.map(|_| number));
        stepped.extend(taken.stepped.map(|_| number));
        Ok(())
    })?;
    let placed = across.place_held(&merged, jobs);
    Ok(placed.map(|placed| CallsPlacedAcross {
        placed,
        held,
        stepped,
    }))
}

impl CallsPlacedAcross {
    /// How far the job had come at a gap of the common timeline, by the lines of the input that the gap is of.
    fn stage_at(&self, gap: u32, walked: &[WalkedInput]) -> Option<JobStage> {
        let (stepped, own) = self.placed.own_gap(gap as usize)?;
        let input = walked.get(*self.stepped.get(stepped as usize)? as usize)?;
        Some(match input.last_step_before_gap(own) {
            Some(step) => JobStage::AfterStep(step),
            None => JobStage::BeforeFirstStep,
        })
    }
}
