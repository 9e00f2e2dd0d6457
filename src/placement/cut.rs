//! Where a step ends among calls that no threshold places: what ranks that are placed do before
//! and after their own cuts tells.

use super::keys::{Keys, looks};
use super::resolve::UNKNOWN;
use super::streams::{Stream, Streams};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;

/// How many cuts of a placed rank are looked at, and how many calls on each side.
const CUTS: usize = 64;
const REACH: usize = 4096;

/// How often calls that look like this were made before and after a cut.
#[derive(Debug, Default)]
pub(super) struct Habits {
    sides: FxHashMap<u64, [u32; 2]>,
}

impl Habits {
    /// Learns from a placed rank: the calls around its cuts, as far as the next collective on one of
    /// `comms`, the communicators whose calls are placed by sequence.
    pub(super) fn learn(
        &mut self,
        stream: &Stream,
        cuts: &[(u32, u32)],
        comms: &FxHashSet<u32>,
        streams: &Streams,
        keys: &Keys,
    ) {
        let ends_it = |kind: u32| {
            let key = keys.of[kind as usize] as usize;
            keys.is_collective.get(key) == Some(&true) && comms.contains(&keys.comm[key])
        };
        let len = stream.kinds.len();
        let inner = cuts
            .windows(2)
            .filter(|w| w[0].0 != UNKNOWN && w[1].0 != UNKNOWN);
        for pair in inner.take(CUTS) {
            let end = pair[0].1 as usize;
            let before = (end.saturating_sub(REACH)..end).rev();
            for at in before.take_while(|&at| !ends_it(stream.kinds[at])) {
                self.saw(stream, at, 0, streams);
            }
            let after = end..len.min(end + REACH);
            for at in after.take_while(|&at| !ends_it(stream.kinds[at])) {
                self.saw(stream, at, 1, streams);
            }
        }
    }

    fn saw(&mut self, stream: &Stream, at: usize, side: usize, streams: &Streams) {
        let kind = &streams.kinds[stream.kinds[at] as usize];
        for look in looks(kind, stream.counts[at]) {
            self.sides.entry(look).or_default()[side] += 1;
        }
    }

    /// How much a call belongs after a cut (above 0) or before it (below), in thousandths.
    fn leaning(&self, stream: &Stream, at: usize, streams: &Streams) -> i64 {
        let kind = &streams.kinds[stream.kinds[at] as usize];
        let looks = looks(kind, stream.counts[at]);
        let known = looks.iter().find_map(|look| self.sides.get(look));
        known.map_or(0, |&[before, after]| {
            let (before, after) = (i64::from(before), i64::from(after));
            1000 * (after - before) / (after + before)
        })
    }

    /// Where among the calls of `range` a stretch ends whose line comes after the first `position`
    /// calls; and whether the calls themselves told.
    pub(super) fn cut(
        &self,
        stream: &Stream,
        range: Range<u32>,
        position: u32,
        streams: &Streams,
    ) -> (u32, bool) {
        let leaning: Vec<i64> = (range.start..range.end)
            .map(|at| self.leaning(stream, at as usize, streams))
            .collect();
        let told = leaning.iter().any(|&l| l != 0);
        // The cost of calls on the wrong side, and of those on the other side than their lines.
        let mut cost: i64 = leaning.iter().map(|&l| (-l).max(0)).sum();
        let mut best = (cost, range.start.abs_diff(position), range.start);
        for (at, leaning) in (range.start..).zip(&leaning) {
            cost += leaning;
            let cut = at + 1;
            best = best.min((cost, cut.abs_diff(position), cut));
        }
        (best.2, told)
    }
}
