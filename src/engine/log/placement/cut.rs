//! Where a step ends among calls that no threshold places: placed ranks show it by the calls around their own cuts.

use super::keys::{Sequences, fingerprint_call};
use super::limits::{CALLS_AROUND_CUT, MAX_CUTS_LEARNED, MOST_CUTS_THOUSANDTHS, UNKNOWN_STRETCH};
use super::streams::{ProcessStream, StreamsByProcess};
use super::what::CallShape;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::ops::Range;

/// How often calls that look like this were made before and after a cut.
#[derive(Debug, Default)]
pub(super) struct BoundaryModel {
    /// Calls before and after a cut, by shape.
    met: FxHashMap<u32, [u32; 2]>,
    /// Calls before and after a cut, by fingerprint.
    sides: FxHashMap<u64, [u32; 2]>,
    /// Cuts between two calls, by shape and by fingerprint.
    between: FxHashMap<[u32; 2], u32>,
    ends: FxHashMap<[u64; 2], u32>,
    /// The fingerprints of the last calls before a cut, and of the first ones after it.
    next_to: [FxHashSet<u64>; 2],
    cuts: u32,
}

impl BoundaryModel {
    /// Learns from a placed rank: the calls around its cuts, as far as the next collective on one of
    /// `comms`, the communicators with calls placed by sequence.
    pub(super) fn learn_from(
        &mut self,
        stream: &ProcessStream,
        cuts: &[(u32, u32)],
        comms: &BTreeSet<u32>,
        keys: &Sequences,
    ) {
        let ends_it = |what: u32| {
            let key = keys.of[what as usize] as usize;
            keys.is_collective.get(key) == Some(&true) && comms.contains(&keys.comm[key])
        };
        let calls = &stream.calls;
        let inner = cuts
            .windows(2)
            .filter(|w| w[0].0 != UNKNOWN_STRETCH && w[1].0 != UNKNOWN_STRETCH);
        for pair in inner.take(MAX_CUTS_LEARNED) {
            let end = pair[0].1 as usize;
            let before = (end.saturating_sub(CALLS_AROUND_CUT)..end).rev();
            let before = before.filter_map(|at| calls.get(at));
            for what in before.take_while(|&what| !ends_it(what)) {
                self.met.entry(what).or_default()[0] += 1;
            }
            let after = calls.slice(end..end + CALLS_AROUND_CUT);
            for what in after.iter().take_while(|&what| !ends_it(what)) {
                self.met.entry(what).or_default()[1] += 1;
            }
            self.cuts += 1;
            let last = end.checked_sub(1).and_then(|at| calls.get(at));
            if let Some((last, first)) = last.zip(calls.get(end)) {
                *self.between.entry([last, first]).or_default() += 1;
            }
        }
    }

    /// Ends the learning: counts by shape become counts by fingerprint.
    pub(super) fn finish_learning(mut self, streams: &StreamsByProcess) -> BoundaryModel {
        for (what, [before, after]) in self.met.drain() {
            for look in fingerprint_call(&streams.call_shapes()[what as usize]) {
                let sides = self.sides.entry(look).or_default();
                sides[0] += before;
                sides[1] += after;
            }
        }
        for (pair, cuts) in self.between.drain() {
            let pair = pair.map(|what| exact_fingerprint(&streams.call_shapes()[what as usize]));
            for (looks, look) in self.next_to.iter_mut().zip(pair) {
                looks.insert(look);
            }
            *self.ends.entry(pair).or_default() += cuts;
        }
        self
    }

    fn score_call(&self, what: &CallShape) -> BoundaryScore {
        let look = exact_fingerprint(what);
        BoundaryScore {
            leaning: self.score_leaning(what),
            next_to: [0, 1].map(|side: usize| self.next_to[side].contains(&look)),
        }
    }

    /// Scores how well a cut fits between two calls, in thousandths.
    fn score_boundary(
        &self,
        [last, first]: [Option<u32>; 2],
        mut lean: impl FnMut(u32) -> BoundaryScore,
        whats: &[CallShape],
    ) -> i64 {
        let (Some(last), Some(first)) = (last, first) else {
            return 0;
        };
        if !lean(first).next_to[1] || !lean(last).next_to[0] {
            return 0;
        }
        let pair = [last, first].map(|what| exact_fingerprint(&whats[what as usize]));
        let cuts = self.ends.get(&pair);
        cuts.map_or(0, |&cuts| {
            1000 * i64::from(cuts) / i64::from(self.cuts.max(1))
        })
    }

    /// Returns the places in `range` with two calls around them that most cuts are between; none if there are
    /// more than `n`.
    fn find_boundaries(
        &self,
        stream: &ProcessStream,
        range: Range<u32>,
        n: usize,
        leanings: &mut BoundaryScores,
        streams: &StreamsByProcess,
    ) -> Vec<u32> {
        let mut ends = Vec::new();
        self.each_score(stream, range, leanings, streams, |place, end, _| {
            if end > MOST_CUTS_THOUSANDTHS && ends.len() <= n {
                ends.push(place);
            }
        });
        if ends.len() > n {
            ends.clear();
        }
        ends
    }

    /// How much a call belongs after a cut (above 0) or before it (below), in thousandths.
    fn score_leaning(&self, what: &CallShape) -> i64 {
        let looks = fingerprint_call(what);
        let known = looks.iter().find_map(|look| self.sides.get(look));
        known.map_or(0, |&[before, after]| {
            let (before, after) = (i64::from(before), i64::from(after));
            1000 * (after - before) / (after + before)
        })
    }

    /// Returns where in `range` a stretch ends, and whether the calls themselves show it. The stretch's line comes
    /// after the first `position` calls.
    fn find_cut(
        &self,
        stream: &ProcessStream,
        range: Range<u32>,
        position: u32,
        leanings: &mut BoundaryScores,
        streams: &StreamsByProcess,
    ) -> (u32, bool) {
        let last = range.end;
        let mut told = false;
        // The cost of calls on the wrong side, beyond that of a cut before all of them; less where the
        // others' cuts are between the same two calls. Of equal costs the place next to the line wins.
        let mut cost = 0;
        let mut best = (i64::MAX, u32::MAX, range.start);
        self.each_score(stream, range, leanings, streams, |place, end, leaning| {
            told |= end != 0;
            best = best.min((cost - end, place.abs_diff(position), place));
            if place < last {
                told |= leaning != 0;
                cost += leaning;
            }
        });
        (best.2, told)
    }

    /// Gives each place in `range`, before its first call to after its last: how well a cut fits there, and how much
    /// the next call belongs after one.
    fn each_score(
        &self,
        stream: &ProcessStream,
        range: Range<u32>,
        leanings: &mut BoundaryScores,
        streams: &StreamsByProcess,
        mut sink: impl FnMut(u32, i64, i64),
    ) {
        let whats = streams.call_shapes();
        let of = |at: u32| stream.calls.get(at as usize);
        let mut lean =
            |what: u32| leanings.score_of(what, |what| self.score_call(&whats[what as usize]));
        let mut before = range.start.checked_sub(1).and_then(of);
        for place in range.start..=range.end {
            let after = of(place);
            let end = self.score_boundary([before, after], &mut lean, whats);
            let leaning = after.map_or(0, |what| lean(what).leaning);
            sink(place, end, leaning);
            before = after;
        }
    }
}

/// The finest fingerprint of a call.
fn exact_fingerprint(what: &CallShape) -> u64 {
    fingerprint_call(what)[0]
}

/// On which side of a cut a call belongs.
#[derive(Debug, Clone, Copy, Default)]
struct BoundaryScore {
    /// See [`BoundaryModel::score_leaning`].
    leaning: i64,
    /// Whether it is the last before some cut, or the first after one.
    next_to: [bool; 2],
}

/// Scores by call shape, computed when they are first needed. The memory is reused.
#[derive(Debug, Default)]
pub(super) struct BoundaryScores {
    by_what: Vec<Option<BoundaryScore>>,
    asked: Vec<u32>,
}

impl BoundaryScores {
    #[inline]
    fn score_of(&mut self, what: u32, lean: impl FnOnce(u32) -> BoundaryScore) -> BoundaryScore {
        match self.by_what.get(what as usize) {
            Some(&Some(known)) => known,
            _ => self.score_and_store(what, lean(what)),
        }
    }

    #[cold]
    fn score_and_store(&mut self, what: u32, lean: BoundaryScore) -> BoundaryScore {
        let at = what as usize;
        if self.by_what.len() <= at {
            self.by_what.resize(at + 1, None);
        }
        self.by_what[at] = Some(lean);
        self.asked.push(what);
        lean
    }

    fn forget_scores(&mut self) {
        for what in self.asked.drain(..) {
            self.by_what[what as usize] = None;
        }
    }
}

/// Cuts a process's calls by a model that is learned when the first cut needs it.
pub(super) struct BoundaryCutter<'c, F> {
    streams: &'c StreamsByProcess,
    learn: F,
    habits: Option<BoundaryModel>,
    leanings: &'c mut BoundaryScores,
}

impl<'c, F: Fn() -> BoundaryModel> BoundaryCutter<'c, F> {
    pub(super) fn new(
        streams: &'c StreamsByProcess,
        leanings: &'c mut BoundaryScores,
        learn: F,
    ) -> Self {
        leanings.forget_scores();
        BoundaryCutter {
            streams,
            learn,
            habits: None,
            leanings,
        }
    }

    /// See [`BoundaryModel::find_boundaries`].
    pub(super) fn find_boundaries(
        &mut self,
        stream: &ProcessStream,
        range: Range<u32>,
        n: usize,
    ) -> Vec<u32> {
        let habits = self.habits.get_or_insert_with(&self.learn);
        habits.find_boundaries(stream, range, n, self.leanings, self.streams)
    }

    /// See [`BoundaryModel::find_cut`].
    pub(super) fn find_cut(
        &mut self,
        stream: &ProcessStream,
        range: Range<u32>,
        position: u32,
    ) -> (u32, bool) {
        let habits = self.habits.get_or_insert_with(&self.learn);
        habits.find_cut(stream, range, position, self.leanings, self.streams)
    }
}
