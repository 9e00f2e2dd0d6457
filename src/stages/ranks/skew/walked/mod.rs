//! The calls of logs that another stage walks: who comes late, without a walk of its own.
//!
//! Of each call a few bytes wait ([`times`], `packed`) until all logs are read. Then the calls of each
//! communicator are matched by their number in the sequences of its ranks, on all cores (`together`):
//! nothing is looked up for a call. Where that might tell something else than the rows of nccl-comms
//! would, calls are met again in line order, with the steps and numbers of these rows (`again`).

mod aligned;
mod by_communicator;
mod clock_stretches;
mod line_order;
mod matching;
mod members;
mod packed;
mod step_runs;
pub(crate) mod times;

use super::rows::SkewBuilder;
use super::{Options, SkewSummary, build_skew_table};
use crate::count::calls::Options as Read;
use crate::error::Result;
use crate::grammar::values::op_kind;
use crate::log::MergedChunk;
use crate::log::placement::{self, CallPlacer, FilesWithoutSteps, PlacedCalls, Placement};
use crate::log::timeline::StepTimeline;
use crate::members::{MergedMembers, OpInterner};
use crate::output::render::Grid;
use crate::report::Report;
use line_order::LineOrderReplay;
use members::SkewOp;
use packed::PackedCalls;
use std::sync::Arc;
use times::SkewPartial;

/// A chunk's calls.
struct SkewChunk {
    calls: PackedCalls,
    ops: OpInterner,
    /// Merged member by the chunk's.
    members: Vec<u32>,
}

/// A log that is read.
struct SkewLog {
    chunks: Vec<SkewChunk>,
    /// The gap that each call was made in, and the steps of gaps.
    placement: Placement,
    timeline: Arc<StepTimeline>,
    aliases: Vec<u32>,
    /// Its number among those whose calls are placed when all are read.
    held: Option<u32>,
}

/// The calls of all logs so far.
pub(crate) struct SkewLogs {
    logs: Vec<SkewLog>,
    /// Of the log in hand.
    now: Vec<SkewChunk>,
    /// What places calls, where nobody else does.
    own: Option<(CallPlacer, FilesWithoutSteps)>,
    /// Calls without a time stamp: nothing is kept.
    is_bare: bool,
    /// How fine the times are, in ns.
    step: i64,
    jobs: usize,
}

impl SkewLogs {
    /// Nothing yet of so many inputs; `places` says that nobody else places their calls.
    pub(crate) fn new(inputs: usize, places: bool, jobs: usize) -> SkewLogs {
        SkewLogs {
            logs: Vec::new(),
            now: Vec::new(),
            own: places.then(|| {
                (
                    CallPlacer::with_jobs(jobs),
                    FilesWithoutSteps::for_inputs(inputs),
                )
            }),
            is_bare: false,
            step: 0,
            jobs,
        }
    }

    /// The next log begins.
    pub(crate) fn begin_input(&mut self) {
        self.now.clear();
        if let Some((placer, _)) = &mut self.own {
            *placer = CallPlacer::with_jobs(self.jobs);
        }
    }

    /// Adds a chunk.
    pub(crate) fn add_chunk(&mut self, part: MergedChunk<'_, SkewPartial>, read: &Read) {
        let (visit, part) = part.take_visit();
        if visit.is_bare || self.is_bare {
            *self = SkewLogs {
                is_bare: true,
                ..SkewLogs::new(0, false, self.jobs)
            };
            return;
        }
        if let (Some((placer, _)), Some(calls)) = (&mut self.own, visit.recorder) {
            placer.add_chunk(calls, &part, &read.timeline, |_, _| {});
        }
        self.step = self.step.max(visit.step);
        self.now.push(SkewChunk {
            calls: visit.calls.into_trimmed(),
            ops: visit.ops,
            members: part.to.members.clone(),
        });
    }

    /// The log is read. `placed` is where its calls were made, if someone else has placed them.
    pub(crate) fn end_input(
        &mut self,
        (placement, taken): (Placement, placement::TakenInput),
        timeline: &StepTimeline,
        merged: &MergedMembers,
    ) {
        if self.is_bare {
            return;
        }
        let (placement, taken) = match &mut self.own {
            Some((placer, across)) => {
                let placer = std::mem::take(placer);
                across.end_input(placer, (timeline, merged), |_, _| {})
            }
            None => (placement, taken),
        };
        self.logs.push(SkewLog {
            chunks: std::mem::take(&mut self.now),
            placement: placement.trimmed(),
            timeline: timeline.clone().into(),
            aliases: merged.process_aliases(),
            held: taken.held,
        });
    }

    /// All logs are read; `placed` are the calls that were held, if someone else has placed them. `None` where
    /// a call has no time stamp.
    pub(crate) fn build_grid(
        mut self,
        merged: &MergedMembers,
        placed: Option<PlacedCalls>,
        report: &Report,
    ) -> Option<Result<Grid>> {
        if self.is_bare {
            return None;
        }
        let placed = match &mut self.own {
            Some((_, across)) => across.place_held(merged, self.jobs),
            None => placed,
        };
        for log in &mut self.logs {
            if let (Some(held), Some(placed)) = (log.held, &placed)
                && placed.has_steps(held)
            {
                log.placement = placed.placement_of(held);
                log.timeline = Arc::clone(&placed.timeline);
            }
        }
        let options = Options::default();
        let together = by_communicator::match_all_logs(&self.logs, merged, self.jobs, &options);
        let mut found =
            together.unwrap_or_else(|| replay_in_line_order(&self.logs, merged, &options));
        found.step = self.step;
        Some(build_skew_table(&found, false, &options, report))
    }
}

/// What all calls show, in line order.
fn replay_in_line_order(
    logs: &[SkewLog],
    merged: &MergedMembers,
    options: &Options,
) -> SkewSummary {
    let mut again = LineOrderReplay::new(merged, options);
    logs.iter().for_each(|log| again.replay_log(log));
    again.taken.finish_rows(options)
}

impl SkewChunk {
    /// What its operations are.
    fn resolve_ops(&self, taken: &mut SkewBuilder) -> Vec<SkewOp> {
        let ops = self.ops.op_names().map(|name| SkewOp {
            number: taken.intern_op(name),
            compared: !op_kind(name).is_message(),
        });
        ops.collect()
    }
}

#[cfg(test)]
mod tests;
