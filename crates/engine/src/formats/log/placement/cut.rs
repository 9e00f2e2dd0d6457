//! Where a step ends among calls that no threshold places: what ranks that are placed do before
//! and after their own cuts tells.

use super::bounds::UNKNOWN;
use super::keys::{Keys, looks};
use super::streams::{Stream, Streams};
use super::what::What;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::ops::Range;

/// How many cuts of a placed rank are looked at, and how many calls on each side.
const CUTS: usize = 64;
const REACH: usize = 4096;

/// How often calls that look like this were made before and after a cut.
#[derive(Debug, Default)]
pub(super) struct Habits {
    /// By what the calls are.
    met: FxHashMap<u32, [u32; 2]>,
    /// By what they look like.
    sides: FxHashMap<u64, [u32; 2]>,
}

impl Habits {
    /// Learns from a placed rank: the calls around its cuts, as far as the next collective on one of
    /// `comms`, the communicators whose calls are placed by sequence.
    pub(super) fn learn(
        &mut self,
        stream: &Stream,
        cuts: &[(u32, u32)],
        comms: &BTreeSet<u32>,
        keys: &Keys,
    ) {
        let ends_it = |what: u32| {
            let key = keys.of[what as usize] as usize;
            keys.is_collective.get(key) == Some(&true) && comms.contains(&keys.comm[key])
        };
        let calls = &stream.calls;
        let inner = cuts
            .windows(2)
            .filter(|w| w[0].0 != UNKNOWN && w[1].0 != UNKNOWN);
        for pair in inner.take(CUTS) {
            let end = pair[0].1 as usize;
            let before = (end.saturating_sub(REACH)..end).rev();
            for at in before.take_while(|&at| !ends_it(calls[at])) {
                self.met.entry(calls[at]).or_default()[0] += 1;
            }
            let after = end..calls.len().min(end + REACH);
            for at in after.take_while(|&at| !ends_it(calls[at])) {
                self.met.entry(calls[at]).or_default()[1] += 1;
            }
        }
    }

    /// Nothing more is learned.
    pub(super) fn learned(mut self, streams: &Streams) -> Habits {
        for (what, [before, after]) in self.met.drain() {
            for look in looks(&streams.whats()[what as usize]) {
                let sides = self.sides.entry(look).or_default();
                sides[0] += before;
                sides[1] += after;
            }
        }
        self
    }

    /// How much a call belongs after a cut (above 0) or before it (below), in thousandths.
    fn leaning(&self, what: &What) -> i64 {
        let looks = looks(what);
        let known = looks.iter().find_map(|look| self.sides.get(look));
        known.map_or(0, |&[before, after]| {
            let (before, after) = (i64::from(before), i64::from(after));
            1000 * (after - before) / (after + before)
        })
    }

    /// Where among the calls of `range` a stretch ends whose line comes after the first `position`
    /// calls; and whether the calls themselves told.
    fn cut(
        &self,
        stream: &Stream,
        range: Range<u32>,
        position: u32,
        leanings: &mut Leanings,
        streams: &Streams,
    ) -> (u32, bool) {
        let calls = &stream.calls[range.start as usize..range.end as usize];
        let mut told = false;
        // The cost of calls on the wrong side, and of those on the other side than their lines,
        // beyond that of a cut before all of them.
        let mut cost = 0;
        let mut best = (cost, range.start.abs_diff(position), range.start);
        for (at, &what) in (range.start..).zip(calls) {
            let leaning = leanings.of(what, |what| self.leaning(&streams.whats()[what as usize]));
            told |= leaning != 0;
            cost += leaning;
            let cut = at + 1;
            best = best.min((cost, cut.abs_diff(position), cut));
        }
        (best.2, told)
    }
}

/// How much calls belong after a cut, by what they are, once for those that were asked for. Memory
/// that is used again.
#[derive(Debug, Default)]
pub(super) struct Leanings {
    by_what: Vec<i64>,
    asked: Vec<u32>,
}

/// A leaning that was not asked for.
const NOT_ASKED: i64 = i64::MIN;

impl Leanings {
    #[inline]
    fn of(&mut self, what: u32, leaning: impl FnOnce(u32) -> i64) -> i64 {
        match self.by_what.get(what as usize) {
            Some(&known) if known != NOT_ASKED => known,
            _ => self.ask(what, leaning(what)),
        }
    }

    #[cold]
    fn ask(&mut self, what: u32, leaning: i64) -> i64 {
        let at = what as usize;
        if self.by_what.len() <= at {
            self.by_what.resize(at + 1, NOT_ASKED);
        }
        self.by_what[at] = leaning;
        self.asked.push(what);
        leaning
    }

    fn forget(&mut self) {
        for what in self.asked.drain(..) {
            self.by_what[what as usize] = NOT_ASKED;
        }
    }
}

/// The habits by which a process's calls are cut: learned when the first cut needs them.
pub(super) struct Cutting<'c, F> {
    streams: &'c Streams,
    learn: F,
    habits: Option<Habits>,
    leanings: &'c mut Leanings,
}

impl<'c, F: Fn() -> Habits> Cutting<'c, F> {
    pub(super) fn new(streams: &'c Streams, leanings: &'c mut Leanings, learn: F) -> Self {
        leanings.forget();
        Cutting {
            streams,
            learn,
            habits: None,
            leanings,
        }
    }

    /// See [`Habits::cut`].
    pub(super) fn cut(&mut self, stream: &Stream, range: Range<u32>, position: u32) -> (u32, bool) {
        let habits = self.habits.get_or_insert_with(&self.learn);
        habits.cut(stream, range, position, self.leanings, self.streams)
    }
}
