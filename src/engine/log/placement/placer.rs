//! Calls held until they can be placed, in bounded memory.

use super::Placement;
use super::bounds::Bounds;
use super::lately::{How, LATELY, Lately, SoFar};
use super::printer::Printers;
use super::record::Recorder;
use super::resolve::{Who, place};
use super::streams::Streams;
use crate::log::Part;
use crate::log::timeline::{self, ByPosition, Timeline, Turn};
use crate::members::Merged;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Calls that are held at a time: 4 bytes each, and what they are once. A log with fewer is placed as a whole.
pub(super) const HELD: u64 = 4 << 20;

/// Stretches before the last line that are held back when the oldest are let go: ranks may be so
/// many steps ahead of the line, or behind it.
const KEPT: usize = 8;

/// So many of the last calls are never too many.
const MANY: u64 = 16 * LATELY;

/// The calls of one input, placed when it ends, or as soon as there are too many to hold.
#[derive(Debug, Serialize, Deserialize)]
pub struct Placer {
    held: u64,
    jobs: usize,
    streams: Streams,
    /// Calls by gap, of those that are held.
    by_gap: BTreeMap<u32, u64>,
    /// How many calls of each process were let go.
    gone: Vec<u32>,
    placed: Placement,
    /// Who printed the lines so far.
    printers: Printers,
    /// Once some were let go: the processes met until then. A later one's calls have no
    /// beginning in common with theirs.
    met: Option<usize>,
    by_position: Option<ByPosition>,
    /// The rank that prints, if the user said it.
    printer: Option<u32>,
    /// The last calls, once it was asked where they are placed so far.
    #[serde(skip)]
    lately: Option<Lately>,
    /// How many of these are placed at least.
    few: u64,
    /// Nobody asks where calls were made that were let go.
    forgets: bool,
}

impl Default for Placer {
    fn default() -> Self {
        Placer::new(HELD, 1)
    }
}

impl Placer {
    pub(super) fn new(held: u64, jobs: usize) -> Placer {
        Placer {
            held,
            jobs,
            streams: Streams::default(),
            by_gap: BTreeMap::new(),
            gone: Vec::new(),
            placed: Placement::default(),
            printers: Printers::default(),
            met: None,
            by_position: None,
            printer: None,
            lately: None,
            few: LATELY,
            forgets: false,
        }
    }

    /// Nothing held yet; the work is shared out to `jobs` threads.
    pub fn of(jobs: usize) -> Placer {
        Placer::new(HELD, jobs)
    }

    /// The same, that does not remember where calls are cut that were let go: of each process, and of
    /// each step, that is 8 bytes.
    pub fn forgetful(self) -> Placer {
        Placer {
            forgets: true,
            ..self
        }
    }

    /// The same, that places so few calls again at a pause.
    #[cfg(test)]
    pub(super) fn lately(self, few: u64) -> Placer {
        Placer { few, ..self }
    }

    /// Adds a chunk. Calls that are let go are given to `sink` with their cuts: by process, pairs of
    /// a gap and the number of calls up to its end.
    pub fn add(
        &mut self,
        mut calls: Recorder,
        part: &Part<'_, ()>,
        steps: &timeline::Options,
        mut sink: impl FnMut(&Streams, &[Vec<(u32, u32)>]),
    ) {
        self.printer = steps.printer;
        let made = self.streams.add(&mut calls, part.gap, part.to);
        if let Some(lately) = &mut self.lately {
            lately.streams().add(&mut calls, part.gap, part.to);
        }
        for (gap, n) in made {
            *self.by_gap.entry(gap).or_default() += n;
        }
        while let Some(gap) = self.full() {
            let before = self.streams.calls();
            self.let_go(gap, part, steps, &mut sink);
            // All of them were made later than their lines are.
            if self.streams.calls() == before {
                break;
            }
        }
        // Of a stretch that does not end nothing more can be told.
        let too_many = 2 * self.held;
        let endless = || self.by_gap.iter().find(|(_, n)| **n >= too_many);
        if self.streams.calls() >= too_many
            && let Some(gap) = endless().map(|(gap, _)| *gap)
        {
            self.by_position.get_or_insert(ByPosition::Many);
            self.let_go(gap, part, steps, &mut sink);
        }
    }

    /// At a turn of a log that is still being written: places what came up to its gap, and lets go of all
    /// but the last stretches.
    pub fn turn(
        &mut self,
        turn: Turn,
        part: &Part<'_, ()>,
        steps: &timeline::Options,
        mut sink: impl FnMut(&Streams, &[Vec<(u32, u32)>]),
    ) {
        self.let_go(turn.gap, part, steps, &mut sink);
        // Where ranks are never level the last calls are all calls: they begin anew, from the same place.
        let most = self.streams.calls().max(MANY);
        self.lately
            .take_if(|lately| lately.streams().calls() > 2 * most);
    }

    /// Where the calls of a process are cut that are placed for good.
    pub fn cuts_of(&self, process: u32) -> &[(u32, u32)] {
        self.placed.cuts_of(process)
    }

    /// Forgets where calls were made up to the end of gap `gap`.
    pub fn forget(&mut self, gap: u32) {
        for cuts in &mut self.placed.cuts {
            // The last one tells how many calls there were.
            let old = cuts.partition_point(|cut| cut.0 <= gap);
            cuts.drain(..old.saturating_sub(1));
        }
    }

    /// The gap at whose end there are more calls than may be held, if its line has come.
    fn full(&self) -> Option<u32> {
        if self.streams.calls() < self.held {
            return None;
        }
        let last = *self.by_gap.last_key_value()?.0;
        let mut sum = 0;
        self.by_gap
            .iter()
            .find(|(_, n)| {
                sum += **n;
                sum >= self.held
            })
            .map(|(gap, _)| *gap)
            .filter(|&gap| gap < last)
    }

    /// Places what came up to the end of `gap`, and lets go of all but the last stretches.
    fn let_go(
        &mut self,
        gap: u32,
        part: &Part<'_, ()>,
        steps: &timeline::Options,
        sink: &mut impl FnMut(&Streams, &[Vec<(u32, u32)>]),
    ) {
        let later = self.streams.split(gap);
        // Of a log of which the beginning is forgotten, calls from there are not held any more.
        let gone = part.marks.gone();
        let marks = part.marks.part(gone..gap as usize + 1);
        let timeline = timeline::resolve(marks, &[], steps);
        let bounds = Bounds::of(&timeline).later(gone as u32);
        let is_endless = self.by_position == Some(ByPosition::Many);
        let last = bounds.before_last(KEPT).filter(|_| !is_endless);
        self.by_position = self.by_position.or(timeline.by_position);
        // Too few lines for so many calls: their position is all there is.
        if last.is_none() {
            self.by_position.get_or_insert(ByPosition::Many);
        }
        let until = last.unwrap_or(gap);
        let placement = self.place(part.merged, &bounds);
        let gone: Vec<u32> = placement
            .cuts
            .iter()
            .map(|cuts| match cuts.partition_point(|&(g, _)| g <= until) {
                0 => 0,
                n => cuts[n - 1].1,
            })
            .collect();
        self.met.get_or_insert(self.streams.processes());
        self.take(placement, Some(until), sink);
        self.streams
            .drop_first(|process| gone.get(process as usize).copied().unwrap_or(0));
        for (at, n) in gone.into_iter().enumerate() {
            if self.gone.len() <= at {
                self.gone.resize(at + 1, 0);
            }
            self.gone[at] = self.gone[at].saturating_add(n);
        }
        self.by_gap = self.streams.by_gap();
        for (gap, n) in later.by_gap() {
            *self.by_gap.entry(gap).or_default() += n;
        }
        self.streams.append(later);
        self.streams.forget(&mut []);
    }

    fn place(&mut self, merged: &Merged, bounds: &Bounds) -> Placement {
        let by_position = self.by_position.is_some();
        let printer = self.printer;
        let among = self.met.unwrap_or(usize::MAX);
        let who = Who {
            by_position,
            printer,
            among,
            printers: &mut self.printers,
        };
        place(&self.streams, merged, bounds, who, self.jobs)
    }

    /// The last calls, placed by what has come so far: those of gap `needed` and later are among them.
    pub fn so_far(&mut self, timeline: &Timeline, merged: &Merged, needed: u32) -> SoFar<'_> {
        if self.lately.as_mut().is_some_and(|l| l.lacks(merged)) {
            self.lately = None;
        }
        let Placer {
            streams,
            gone,
            placed,
            lately,
            ..
        } = self;
        let all = || {
            let last = placed.cuts.iter().filter_map(|cuts| cuts.last());
            let base = last.map(|cut| cut.0).max();
            let before = (gone.clone(), placed.cuts.clone());
            Lately::of(streams.clone(), before, base, self.few)
        };
        let how = How {
            by_position: self.by_position.or(timeline.by_position).is_some(),
            printer: self.printer,
            among: self.met.unwrap_or(usize::MAX),
            printers: &self.printers,
            jobs: self.jobs,
        };
        lately
            .get_or_insert_with(all)
            .so_far((timeline, merged), how, needed)
    }

    /// Gives the calls up to the end of gap `until` to `sink` and remembers where they are cut.
    fn take(
        &mut self,
        placement: Placement,
        until: Option<u32>,
        sink: &mut impl FnMut(&Streams, &[Vec<(u32, u32)>]),
    ) {
        let Placement {
            mut cuts,
            methods,
            known,
            ..
        } = placement;
        self.placed.known = known;
        if let Some(until) = until {
            let all = methods.all();
            let mut taken = 0;
            for cuts in &mut cuts {
                cuts.retain(|&(gap, _)| gap <= until);
                taken += cuts.last().map_or(0, |c| u64::from(c.1));
            }
            self.placed.methods.add(methods.share(taken, all));
        } else {
            self.placed.methods.add(methods);
        }
        sink(&self.streams, &cuts);
        for (at, cuts) in cuts.into_iter().enumerate() {
            if self.placed.cuts.len() <= at {
                self.placed.cuts.resize(at + 1, Vec::new());
            }
            let before = self.gone.get(at).copied().unwrap_or(0);
            let absolute = cuts
                .into_iter()
                .map(|(gap, n)| (gap, before.saturating_add(n)));
            let all = &mut self.placed.cuts[at];
            all.extend(absolute);
            // Where none was let go, other inputs' calls may be placed by these.
            if self.forgets && self.met.is_some() {
                all.drain(..all.len().saturating_sub(1));
                all.shrink_to(1);
            }
        }
    }

    /// All calls of the input, if none was let go: they are not placed here.
    pub fn held(self) -> Option<Streams> {
        self.met.is_none().then_some(self.streams)
    }

    /// How many calls are held.
    #[cfg(test)]
    pub(super) fn calls(&self) -> u64 {
        self.streams.calls()
    }

    /// True if no call was let go.
    pub fn is_whole(&self) -> bool {
        self.met.is_none()
    }

    /// The input ended: places what is held, gives it to `sink`, and says where all calls were made.
    /// Gives the calls too if none was let go before.
    pub fn end(
        mut self,
        timeline: &Timeline,
        merged: &Merged,
        mut sink: impl FnMut(&Streams, &[Vec<(u32, u32)>]),
    ) -> (Placement, Option<Streams>) {
        self.by_position = self.by_position.or(timeline.by_position);
        let placement = self.place(merged, &Bounds::of(timeline));
        self.take(placement, None, &mut sink);
        self.placed.methods.why = self.by_position.or(self.placed.methods.why);
        let whole = self.met.is_none().then_some(self.streams);
        (self.placed, whole)
    }
}
