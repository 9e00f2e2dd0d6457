//! An input that is still being written: calls are given as soon as their steps are settled, and what was
//! given long ago is forgotten.

use super::{Calls, Options, finished};
use crate::count::cells::{Gathering, Step};
use crate::count::rowed::Rowed;
use crate::count::tally;
use crate::count::tally::{Bag, Key, Tally, Value};
use crate::error::Result;
use crate::log::timeline::{self, Growing, Present, StepKey, Timeline, Turn};
use crate::log::{Log, Part};
use crate::members::Merged;
use crate::output::early::Early;
use crate::source::Pause;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// Where nobody takes calls before the end, a step is settled when so many more have come.
const LATE: usize = 64;

/// Calls of an input that goes on.
#[derive(Default)]
pub(super) struct Live<'e> {
    /// There is one input, of which steps are told apart.
    is_alone: bool,
    /// Who takes the calls of steps that are settled.
    early: Option<Early<'e, Calls>>,
    /// The last gap and the last step that were given.
    gap: Option<u32>,
    step: Step,
    /// The last step that was given before the last turn, and before the one before it.
    turned: [Step; 2],
    /// What was given since each.
    sums: [Sum; 2],
    /// It turned out otherwise.
    is_otherwise: bool,
    /// All that was forgotten, by key.
    gone: Bag<(), Key>,
    growing: Growing,
}

/// A sum that other calls do not have, in whatever parts they are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum(u128);

impl Sum {
    fn add(&mut self, gap: usize, key: Key, value: Value) {
        let mut hasher = FxHasher::default();
        (gap, key).hash(&mut hasher);
        let hash = u128::from(hasher.finish() | 1);
        let (calls, bytes) = (u128::from(value.calls), value.bytes);
        let calls = hash.wrapping_mul(calls).rotate_left(64);
        self.0 = self
            .0
            .wrapping_add(calls.wrapping_add(hash.wrapping_mul(bytes)));
    }
}

impl<'e> Live<'e> {
    /// Gives calls to `early`.
    pub(super) fn of(early: Option<Early<'e, Calls>>, is_alone: bool) -> Live<'e> {
        Live {
            is_alone,
            early: early.filter(|_| is_alone),
            ..Live::default()
        }
    }

    /// The steps of a log that has ended.
    pub(super) fn ended(&mut self, log: &Log, steps: &timeline::Options) -> Timeline {
        let timeline = log.ended(&mut self.growing, steps);
        self.is_otherwise |= self.growing.is_otherwise();
        timeline
    }

    /// The steps that are not known any more.
    pub(super) fn forgotten(&self) -> &Present {
        self.growing.forgotten()
    }

    /// True where calls were given otherwise than they turned out to be.
    pub(super) fn is_otherwise(&self) -> bool {
        self.is_otherwise
    }

    /// True for a gap whose calls count, and were not given for good.
    pub(super) fn wants(&self, options: &Options, timeline: &Timeline, gap: usize) -> bool {
        let step = || timeline.step_of(gap).map(timeline::Step::key);
        let is_given = self.turned[1].is_some_and(|given| step().is_some_and(|s| s <= given));
        !is_given && options.wants(timeline, gap)
    }

    /// All that was given for good, by key.
    pub(super) fn given(self) -> Vec<(Key, Value)> {
        let all = self.gone.into_sorted().into_iter();
        all.map(|((_, key), value)| (key, value)).collect()
    }

    /// A part has been added to the tally: gives what is settled now.
    pub(super) fn add(
        &mut self,
        part: &Part<'_, ()>,
        counted: (&mut Tally, &mut Gathering),
        (read, options): (&Options, &tally::Options),
    ) -> Result<()> {
        let Some((log, pause)) = part.so_far.filter(|_| self.is_alone) else {
            return Ok(());
        };
        let turn = match &mut self.early {
            // What comes so fast is only copied: each step would be placed twice for nobody.
            Some(_) if pause == Pause::Long => return Ok(()),
            Some(_) => {
                let known = (log, part.merged);
                if let Some(calls) = self.settled(counted.0, (read, options), known)
                    && let Some(early) = &mut self.early
                {
                    early.rows(calls)?;
                }
                self.gap
            }
            None => {
                let timeline = log.growing(&mut self.growing, &read.timeline);
                let steps = timeline.steps.left();
                let last = steps.len().checked_sub(LATE).and_then(|at| steps.get(at));
                last.and_then(|last| u32::try_from(last.mark).ok())
            }
        };
        let turns = self.early.as_ref().is_none_or(Early::turns);
        match turn
            .filter(|_| turns)
            .and_then(|gap| self.growing.turn(gap))
        {
            Some(turn) => self.turn(turn, (part, log), counted, read),
            None => Ok(()),
        }
    }

    /// The calls of the steps that are settled now, after those that were given; `None` where there is
    /// none.
    fn settled(
        &mut self,
        tally: &mut Tally,
        (read, options): (&Options, &tally::Options),
        (log, merged): (&Log, &Merged),
    ) -> Option<Calls> {
        let timeline = log.growing(&mut self.growing, &read.timeline);
        let mut logged = Gathering::default();
        let (last, mut most) = (self.step, self.step);
        let mut found = tally.so_far((timeline, merged), self.gap)?;
        self.gap = Some(found.last);
        let (sum, is_otherwise) = (&mut self.sums[0], &mut self.is_otherwise);
        let step_of = |gap: usize| {
            let step = timeline.step_of(gap).map(timeline::Step::key);
            step.filter(|_| read.wants(timeline, gap))
        };
        let is_new = |step: &StepKey| last.is_none_or(|last| *step > last);
        let mut take = |gap: usize, key: Key, value: Value| {
            let step = step_of(gap)?;
            if !is_new(&step) {
                *is_otherwise = true;
                return None;
            }
            sum.add(gap, key, value);
            most = most.max(Some(step));
            Some(step)
        };
        for pieces in found.pieces {
            pieces.each(|gap, key, value| {
                take(gap, key, value);
            });
            logged.pieces(pieces.renamed(|gap| step_of(gap).filter(is_new).map(Some)));
        }
        found.others.drain(|gap, key, value| {
            if let Some(step) = take(gap, key, value) {
                logged.push(Some(step), key, value);
            }
        });
        if most == self.step {
            return None;
        }
        self.step = most;
        let rows = Rowed::new(options, read.window);
        let counted = (tally.ops.clone(), logged);
        Some(finished(options, merged, counted, rows, true))
    }

    /// A turn: what was given before the last one is forgotten; where nobody took it, it is counted by step.
    fn turn(
        &mut self,
        turn: Turn,
        (part, log): (&Part<'_, ()>, &Log),
        (tally, logged): (&mut Tally, &mut Gathering),
        read: &Options,
    ) -> Result<()> {
        tally.turn(turn, part, &read.timeline);
        if let Some(before) = turn.before {
            let timeline = self.growing.timeline();
            let is_given = self.early.is_some();
            let (gone, mut sum) = (&mut self.gone, Sum::default());
            tally.forget(before.gap, |gap, key, value| {
                if !read.wants(timeline, gap) {
                    return;
                }
                match timeline.step_of(gap).map(timeline::Step::key) {
                    Some(_) if is_given => {
                        sum.add(gap, key, value);
                        gone.push((), key, value);
                    }
                    step => logged.push(step, key, value),
                }
            });
            self.is_otherwise |= is_given && sum != self.sums[1];
            self.growing.forget(before.gap);
            log.forget(before.gap);
        }
        self.turned = [self.step, self.turned[0]];
        self.sums = [Sum::default(), self.sums[0]];
        match &mut self.early {
            Some(early) => early.turn(),
            None => Ok(()),
        }
    }
}
