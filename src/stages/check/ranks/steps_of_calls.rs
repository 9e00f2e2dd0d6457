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
    // A rank that lags may have made its call after the step line: the first of all calls counts.
    let mut wanted: BTreeMap<(u32, u64), Vec<usize>> = BTreeMap::new();
    for (number, finding) in findings.iter().enumerate() {
        let spots = finding
            .evidence
            .iter()
            .map_while(|evidence| match evidence.at {
                LineSpot::Byte { input, at } => Some((input, at)),
                LineSpot::Line(_) => None,
            });
        let is_unplaced = finding.severity == Severity::Error && finding.about.stage.is_none();
        let mut spots = spots.filter(|_| is_unplaced).peekable();
        let is_held = |&(input, _): &(u32, u64)| {
            let own = inputs.walked.get(input as usize);
            own.is_some_and(|own| !has_steps(own))
        };
        if spots.peek().is_some_and(is_held) {
            spots.for_each(|spot| wanted.entry(spot).or_default().push(number));
        }
    }
    // What a pipe had is kept only in part.
    if wanted.is_empty() || !inputs.walked.iter().any(has_steps) || !inputs.piped.is_empty() {
        return Ok(());
    }
    let Some(across) = place_across_inputs(found, inputs)? else {
        return Ok(());
    };
    let mut first: BTreeMap<usize, u32> = BTreeMap::new();
    for (held, &input) in (0..).zip(&across.held) {
        across.placed.each_call(held, |gap, _, at| {
            // Gap 0 is of calls without a step: here those that are like no other rank's.
            let here = at.filter(|_| gap > 0);
            let here = here.and_then(|at| wanted.get(&(input, at)));
            for &finding in here.into_iter().flatten() {
                let known = first.entry(finding).or_insert(gap);
                *known = gap.min(*known);
            }
        });
    }
    for (finding, gap) in first {
        let about = &mut findings[finding].about;
        about.stage = across.stage_at(gap, inputs.walked);
        let step = across.placed.timeline.step_of(gap as usize);
        about.step = step.map(|step| step.step);
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
