//! The calls of logs that another stage walks: who comes late, without a walk of its own.
//!
//! Of each call a few bytes wait ([`times`], `packed`) until all logs are read. Then the calls of each
//! communicator are matched by their number in the sequences of its ranks, on all cores (`together`):
//! nothing is looked up for a call. Where that might tell something else than the rows of nccl-comms
//! would, calls are met again in line order, with the steps and numbers of these rows (`again`).

mod again;
mod aligned;
mod members;
mod packed;
mod part;
mod steps;
mod stretches;
pub(crate) mod times;
mod together;

use super::rows::Taken;
use super::{Found, Options, table};
use crate::count::calls::Options as Read;
use crate::error::Result;
use crate::grammar::values::{Kind, kind};
use crate::log::Part;
use crate::log::placement::{self, Across, Placed, Placement, Placer};
use crate::log::timeline::Timeline;
use crate::members::{Merged, Ops};
use crate::output::render::Grid;
use crate::report::Report;
use again::Again;
use members::Op;
use packed::Packed;
use std::sync::Arc;
use times::Partial;

/// A chunk's calls.
struct Chunk {
    calls: Packed,
    ops: Ops,
    /// Merged member by the chunk's.
    members: Vec<u32>,
}

/// A log that is read.
struct Log {
    chunks: Vec<Chunk>,
    /// The gap that each call was made in, and the steps of gaps.
    placement: Placement,
    timeline: Arc<Timeline>,
    aliases: Vec<u32>,
    /// Its number among those whose calls are placed when all are read.
    held: Option<u32>,
}

/// The calls of all logs so far.
pub(crate) struct Times {
    logs: Vec<Log>,
    /// Of the log in hand.
    now: Vec<Chunk>,
    /// What places calls, where nobody else does.
    own: Option<(Placer, Across)>,
    /// Calls without a time stamp: nothing is kept.
    is_bare: bool,
    /// How fine the times are, in ns.
    step: i64,
    jobs: usize,
}

impl Times {
    /// Nothing yet of so many inputs; `places` says that nobody else places their calls.
    pub(crate) fn new(inputs: usize, places: bool, jobs: usize) -> Times {
        Times {
            logs: Vec::new(),
            now: Vec::new(),
            own: places.then(|| (Placer::of(jobs), Across::of(inputs))),
            is_bare: false,
            step: 0,
            jobs,
        }
    }

    /// The next log begins.
    pub(crate) fn begin_input(&mut self) {
        self.now.clear();
        if let Some((placer, _)) = &mut self.own {
            *placer = Placer::of(self.jobs);
        }
    }

    /// Adds a chunk.
    pub(crate) fn add(&mut self, part: Part<'_, Partial>, read: &Read) {
        let (visit, part) = part.taken();
        if visit.is_bare || self.is_bare {
            *self = Times {
                is_bare: true,
                ..Times::new(0, false, self.jobs)
            };
            return;
        }
        if let (Some((placer, _)), Some(calls)) = (&mut self.own, visit.recorder) {
            placer.add(calls, &part, &read.timeline, |_, _| {});
        }
        self.step = self.step.max(visit.step);
        self.now.push(Chunk {
            calls: visit.calls.trimmed(),
            ops: visit.ops,
            members: part.to.members.clone(),
        });
    }

    /// The log is read. `placed` is where its calls were made, if someone else has placed them.
    pub(crate) fn end_input(
        &mut self,
        (placement, taken): (Placement, placement::Taken),
        timeline: &Timeline,
        merged: &Merged,
    ) {
        if self.is_bare {
            return;
        }
        let (placement, taken) = match &mut self.own {
            Some((placer, across)) => {
                let placer = std::mem::take(placer);
                across.end(placer, (timeline, merged), |_, _| {})
            }
            None => (placement, taken),
        };
        self.logs.push(Log {
            chunks: std::mem::take(&mut self.now),
            placement: placement.trimmed(),
            timeline: timeline.clone().into(),
            aliases: merged.aliases(),
            held: taken.held,
        });
    }

    /// All logs are read; `placed` are the calls that were held, if someone else has placed them. `None` where
    /// a call has no time stamp.
    pub(crate) fn grid(
        mut self,
        merged: &Merged,
        placed: Option<Placed>,
        report: &Report,
    ) -> Option<Result<Grid>> {
        if self.is_bare {
            return None;
        }
        let placed = match &mut self.own {
            Some((_, across)) => across.place(merged, self.jobs),
            None => placed,
        };
        for log in &mut self.logs {
            if let (Some(held), Some(placed)) = (log.held, &placed)
                && placed.has(held)
            {
                log.placement = placed.placement(held);
                log.timeline = Arc::clone(&placed.timeline);
            }
        }
        let options = Options::default();
        let together = together::found(&self.logs, merged, self.jobs, &options);
        let mut found = together.unwrap_or_else(|| in_order(&self.logs, merged, &options));
        found.step = self.step;
        Some(table(&found, false, &options, report))
    }
}

/// What all calls show, in line order.
fn in_order(logs: &[Log], merged: &Merged, options: &Options) -> Found {
    let mut again = Again::new(merged, options);
    logs.iter().for_each(|log| again.log(log));
    again.taken.end(options)
}

impl Chunk {
    /// What its operations are.
    fn ops(&self, taken: &mut Taken) -> Vec<Op> {
        let ops = self.ops.names().map(|name| Op {
            number: taken.op(name),
            compared: kind(name) != Kind::PointToPoint,
        });
        ops.collect()
    }
}

#[cfg(test)]
mod tests;
