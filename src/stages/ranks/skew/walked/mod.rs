//! The lateness of ranks in logs that another stage walks.
//!
//! Each call takes a few bytes ([`times`], `packed`) until all logs are read. Then the calls of each communicator are
//! matched by their numbers in the sequences of its ranks, on all cores and without lookups (`by_communicator`). If
//! the rows of nccl-comms might give another result, calls are replayed in line order, with the steps and numbers of
//! these rows (`line_order`).

mod aligned;
mod by_communicator;
mod clock_stretches;
mod communicators;
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
use rustc_hash::FxHashMap;
use std::sync::Arc;
use times::SkewPartial;

/// A chunk's calls.
struct SkewChunk {
    calls: PackedCalls,
    ops: OpInterner,
    /// The merged number of each of the chunk's members.
    members: Vec<u32>,
}

/// A log that was read.
struct SkewLog {
    chunks: Vec<SkewChunk>,
    /// The gap of each call, and the steps of gaps.
    placement: Placement,
    timeline: Arc<StepTimeline>,
    renamed: FxHashMap<u32, u32>,
    /// Its number among the logs with calls that are placed after all are read.
    held: Option<u32>,
}

/// The calls of all logs so far.
pub(crate) struct SkewLogs {
    logs: Vec<SkewLog>,
    /// Chunks of the current log.
    now: Vec<SkewChunk>,
    /// Places calls, if no other stage does.
    own: Option<(CallPlacer, FilesWithoutSteps)>,
    /// Some calls have no time stamp: no call is kept.
    is_bare: bool,
    /// The resolution of the times, ns.
    step: i64,
    jobs: usize,
}

impl SkewLogs {
    /// Begins with this number of inputs; `places` if no other stage places their calls.
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

    /// Begins the next log.
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

    /// Ends a log. `placed` has the steps of its calls, if another stage has placed them.
    pub(crate) fn end_input(
        &mut self,
        placed: (Placement, placement::TakenInput),
        timeline: &StepTimeline,
        merged: &MergedMembers,
    ) {
        if self.is_bare {
            return;
        }
        let (placement, taken) = match &mut self.own {
            Some((placer, across)) => {
                let placer = std::mem::take(placer);
                across.end_input(placer, timeline, merged, |_, _| {})
            }
            None => placed,
        };
        self.logs.push(SkewLog {
            chunks: std::mem::take(&mut self.now),
            placement,
            timeline: timeline.clone().into(),
            renamed: merged.renamed_processes(),
            held: taken.held,
        });
    }

    /// Returns the table of all logs; `placed` are the calls that were held, if another stage has placed them. `None`
    /// if a call has no time stamp.
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
        found.late.resolution_ns = self.step;
        Some(build_skew_table(&found, &options, report))
    }
}

/// Returns the summary of all calls in line order.
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
    /// Resolves its operations.
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
