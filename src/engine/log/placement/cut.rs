//! Where a step ends among calls that no threshold places: what ranks that are placed do before
//! and after their own cuts tells, and between which calls these are.

use super::bounds::UNKNOWN;
use super::keys::{Keys, looks};
use super::streams::{Stream, Streams};
use super::what::What;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::ops::Range;

/// How many cuts of a placed rank are looked at, and how many calls on each side.
const CUTS: usize = 64;
const REACH: usize = 4096;

/// Most cuts, in thousandths.
const MOST: i64 = 500;

/// How often calls that look like this were made before and after a cut.
#[derive(Debug, Default)]
pub(super) struct Habits {
    /// By what the calls are.
    met: FxHashMap<u32, [u32; 2]>,
    /// By what they look like.
    sides: FxHashMap<u64, [u32; 2]>,
    /// How many cuts there are between two calls, by what they are, and by what they look like.
    between: FxHashMap<[u32; 2], u32>,
    ends: FxHashMap<[u64; 2], u32>,
    /// What calls that are the last before a cut look like, and those that are the first after one.
    next_to: [FxHashSet<u64>; 2],
    cuts: u32,
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
            self.cuts += 1;
            if let Some(&[last, first]) = end.checked_sub(1).and_then(|at| calls.get(at..at + 2)) {
                *self.between.entry([last, first]).or_default() += 1;
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
        for (pair, cuts) in self.between.drain() {
            let pair = pair.map(|what| exact(&streams.whats()[what as usize]));
            for (looks, look) in self.next_to.iter_mut().zip(pair) {
                looks.insert(look);
            }
            *self.ends.entry(pair).or_default() += cuts;
        }
        self
    }

    /// What is known of a call.
    fn lean(&self, what: &What) -> Lean {
        let look = exact(what);
        Lean {
            leaning: self.leaning(what),
            next_to: [0, 1].map(|side: usize| self.next_to[side].contains(&look)),
        }
    }

    /// How much a cut belongs between two calls, in thousandths.
    fn end_at(
        &self,
        [last, first]: [Option<u32>; 2],
        mut lean: impl FnMut(u32) -> Lean,
        whats: &[What],
    ) -> i64 {
        let (Some(last), Some(first)) = (last, first) else {
            return 0;
        };
        if !lean(first).next_to[1] || !lean(last).next_to[0] {
            return 0;
        }
        let pair = [last, first].map(|what| exact(&whats[what as usize]));
        let cuts = self.ends.get(&pair);
        cuts.map_or(0, |&cuts| {
            1000 * i64::from(cuts) / i64::from(self.cuts.max(1))
        })
    }

    /// The places among the calls of a range that are between two calls between which most cuts are;
    /// none where there are more than `n`.
    fn ends(
        &self,
        calls: (&Stream, Range<u32>),
        n: usize,
        leanings: &mut Leanings,
        streams: &Streams,
    ) -> Vec<u32> {
        let mut ends = Vec::new();
        self.walk(calls, leanings, streams, |place, end, _| {
            if end > MOST && ends.len() <= n {
                ends.push(place);
            }
        });
        if ends.len() > n {
            ends.clear();
        }
        ends
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

    /// Where among the calls of a range a stretch ends whose line comes after the first `position`
    /// calls; and whether the calls themselves told.
    fn cut(
        &self,
        calls: (&Stream, Range<u32>),
        position: u32,
        leanings: &mut Leanings,
        streams: &Streams,
    ) -> (u32, bool) {
        let range = calls.1.clone();
        let mut told = false;
        // The cost of calls on the wrong side, beyond that of a cut before all of them; less where the
        // others' cuts are between the same two calls. Of equal ones the one that is next to the line.
        let mut cost = 0;
        let mut best = (i64::MAX, u32::MAX, range.start);
        self.walk(calls, leanings, streams, |place, end, leaning| {
            told |= end != 0;
            best = best.min((cost - end, place.abs_diff(position), place));
            if place < range.end {
                told |= leaning != 0;
                cost += leaning;
            }
        });
        (best.2, told)
    }

    /// Gives each place among the calls of a range, before the first one to after the last: how much a cut
    /// belongs there, and how much the next call belongs after one.
    fn walk(
        &self,
        (stream, range): (&Stream, Range<u32>),
        leanings: &mut Leanings,
        streams: &Streams,
        mut sink: impl FnMut(u32, i64, i64),
    ) {
        let whats = streams.whats();
        let of = |at: u32| stream.calls.get(at as usize).copied();
        let mut lean = |what: u32| leanings.of(what, |what| self.lean(&whats[what as usize]));
        let mut before = range.start.checked_sub(1).and_then(of);
        for place in range.start..=range.end {
            let after = of(place);
            let end = self.end_at([before, after], &mut lean, whats);
            let leaning = after.map_or(0, |what| lean(what).leaning);
            sink(place, end, leaning);
            before = after;
        }
    }
}

/// What a call looks like at the finest level.
fn exact(what: &What) -> u64 {
    looks(what)[0]
}

/// What is known of a call.
#[derive(Debug, Clone, Copy, Default)]
struct Lean {
    /// How much it belongs after a cut.
    leaning: i64,
    /// Whether it is the last before some cut, or the first after one.
    next_to: [bool; 2],
}

/// How much calls belong after a cut, by what they are, once for those that were asked for. Memory
/// that is used again.
#[derive(Debug, Default)]
pub(super) struct Leanings {
    by_what: Vec<Option<Lean>>,
    asked: Vec<u32>,
}

impl Leanings {
    #[inline]
    fn of(&mut self, what: u32, lean: impl FnOnce(u32) -> Lean) -> Lean {
        match self.by_what.get(what as usize) {
            Some(&Some(known)) => known,
            _ => self.ask(what, lean(what)),
        }
    }

    #[cold]
    fn ask(&mut self, what: u32, lean: Lean) -> Lean {
        let at = what as usize;
        if self.by_what.len() <= at {
            self.by_what.resize(at + 1, None);
        }
        self.by_what[at] = Some(lean);
        self.asked.push(what);
        lean
    }

    fn forget(&mut self) {
        for what in self.asked.drain(..) {
            self.by_what[what as usize] = None;
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

    /// See [`Habits::ends`].
    pub(super) fn ends(&mut self, stream: &Stream, range: Range<u32>, n: usize) -> Vec<u32> {
        let habits = self.habits.get_or_insert_with(&self.learn);
        habits.ends((stream, range), n, self.leanings, self.streams)
    }

    /// See [`Habits::cut`].
    pub(super) fn cut(&mut self, stream: &Stream, range: Range<u32>, position: u32) -> (u32, bool) {
        let habits = self.habits.get_or_insert_with(&self.learn);
        habits.cut((stream, range), position, self.leanings, self.streams)
    }
}
