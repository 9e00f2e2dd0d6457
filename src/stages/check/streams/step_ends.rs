//! After how many of its calls each process ended its steps, by the steps that the calls were made in
//! ([`placement`](crate::formats::log::placement)), wherever their lines are.

use crate::count::calls::Options;
use crate::formats::log::placement::{Placement, Placer, Recorder};
use crate::formats::log::timeline::{Gap, Timeline};
use crate::formats::log::{Log, Part};
use crate::members::Merged;
use std::collections::BTreeMap;

/// One process's steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Own {
    /// How many calls it made.
    pub(crate) made: u64,
    /// How many it had made when each of its steps ended; rising.
    pub(crate) ends: Vec<u64>,
}

/// The steps of an input's processes, by process; of each input that has any.
pub(crate) type StepEnds = BTreeMap<u32, Vec<Own>>;

/// One input, while it is read.
pub(super) struct Steps<'o> {
    placer: Placer,
    options: &'o Options,
}

impl<'o> Steps<'o> {
    pub(super) fn new(options: &'o Options) -> Steps<'o> {
        let placer = Placer::of(options.log.jobs);
        Steps { placer, options }
    }

    /// Adds a chunk.
    pub(super) fn add(&mut self, calls: Recorder, part: &Part<'_, ()>) {
        self.placer
            .add(calls, part, &self.options.timeline, |_, _| {});
    }

    /// The input is read to its end.
    pub(super) fn end(self, log: &Log, merged: &Merged) -> Vec<Own> {
        let timeline = log.timeline(&self.options.timeline);
        let (placement, _) = self.placer.end(&timeline, merged, |_, _| {});
        ends(&placement, &timeline)
    }
}

fn ends(placement: &Placement, timeline: &Timeline) -> Vec<Own> {
    let own = |cuts: &Vec<(u32, u32)>| {
        let mut own = Own::default();
        let mut before = None;
        for &(gap, made) in cuts {
            let step = timeline.gaps.get(gap as usize).copied();
            if let Some(Gap::Step(_)) = before
                && step != before
            {
                own.ends.push(own.made);
            }
            before = step;
            own.made = made.into();
        }
        own
    };
    placement.cuts.iter().map(own).collect()
}
