//! The calls of one rank, cut by the thresholds, by the rank's own order, and by the habits of other ranks.

use super::{PlacementSolver, cuts_by_position};
use crate::log::placement::PlacementMethods;
use crate::log::placement::anchors::{AnchorScratch, AnchoredCalls, AnchoredRun};
use crate::log::placement::bounds::{StretchCuts, push_cut};
use crate::log::placement::cut::{BoundaryCutter, BoundaryModel, BoundaryScores};
use crate::log::placement::limits::{MAX_MODEL_RANKS, NO_SEQUENCE, UNKNOWN_STRETCH};
use crate::log::placement::streams::ProcessStream;
use std::collections::BTreeSet;
use std::ops::Range;

impl PlacementSolver<'_> {
    /// Cuts a process's calls by the thresholds, its own order, and the habits of other ranks.
    pub(super) fn place_rank<'s>(
        &'s self,
        process: u32,
        uses: &[(u32, u64)],
        scratch: &mut AnchorScratch<'s>,
        leanings: &mut BoundaryScores,
    ) -> (StretchCuts, PlacementMethods) {
        let stream = &self.streams.streams[process];
        let AnchoredCalls { runs, calls } = self
            .thresholds
            .anchor_calls(stream, uses, &self.keys, scratch);
        let mut methods = PlacementMethods {
            sequence: calls,
            ..PlacementMethods::default()
        };
        let Some(first) = runs.first() else {
            let all = u64::from(stream.len());
            if !self.by_line {
                methods.without = all;
                return (vec![(UNKNOWN_STRETCH, stream.len())], methods);
            }
            methods.position = all;
            return (cuts_by_position(stream, self.bounds), methods);
        };
        let all = u64::from(stream.len()) - calls;
        let habits = || self.learn_boundaries(uses);
        let mut cutting = BoundaryCutter::new(self.streams, leanings, habits);
        let mut cuts = StretchCuts::new();
        let mut position = 0;
        // Calls before the first placed one are cut by lines, but not after it.
        if !self.by_line && self.busy.first().is_some_and(|&busy| busy < first.stretch) {
            position += u64::from(first.first);
            push_cut(&mut cuts, UNKNOWN_STRETCH, first.first);
        }
        for stretch in (0..first.stretch).take_while(|_| self.by_line) {
            let end = self.calls_until(stream, stretch).min(first.first);
            position += u64::from(end.saturating_sub(cuts.last().map_or(0, |c| c.1)));
            push_cut(&mut cuts, stretch, end);
        }
        for pair in runs.windows(2) {
            let range = pair[0].last + 1..pair[1].first;
            position += self.cut_between(
                stream,
                pair[0].stretch,
                pair[1].stretch,
                range,
                &mut cuts,
                &mut cutting,
            );
        }
        let last = runs.last().copied().unwrap_or(*first);
        position += self.cut_rest(stream, last, &mut cuts, &mut cutting);
        methods.order = all.saturating_sub(position);
        if self.by_line {
            methods.position = position;
        } else {
            methods.without = position;
        }
        (cuts, methods)
    }

    /// Cuts the calls of `range`, which lie between two that are placed in different stretches. Returns how many
    /// were cut by position; without `by_line`, how many stay unplaced.
    fn cut_between(
        &self,
        stream: &ProcessStream,
        from: u32,
        to: u32,
        range: Range<u32>,
        cuts: &mut StretchCuts,
        cutting: &mut BoundaryCutter<'_, impl Fn() -> BoundaryModel>,
    ) -> u64 {
        if to == self.next_stretch(from) {
            if range.is_empty() {
                push_cut(cuts, from, range.start);
                return 0;
            }
            let again = self.again.expected_end(&stream.calls, cuts, from);
            if let Some(end) = again.filter(|end| (range.start..=range.end).contains(end)) {
                push_cut(cuts, from, end);
                return 0;
            }
            let position = self.calls_until(stream, from);
            let len = u64::from(range.end - range.start);
            let (cut, told) = cutting.find_cut(stream, range.clone(), position);
            if !self.by_line && !told {
                push_cut(cuts, from, range.start);
                push_cut(cuts, UNKNOWN_STRETCH, range.end);
                return len;
            }
            push_cut(cuts, from, cut);
            return if told { 0 } else { len };
        }
        if !self.by_line {
            push_cut(cuts, from, range.start);
            push_cut(cuts, UNKNOWN_STRETCH, range.end);
            return u64::from(range.end.saturating_sub(range.start));
        }
        // The placed ranks made no calls in the stretches between: each may end as most do, or the first one does and
        // less than a step follows.
        let n = (to - from) as usize;
        let mut ends = cutting.find_boundaries(stream, range.clone(), n);
        let began = cuts.last().map_or(0, |cut| cut.1);
        let is_alone = |&end: &u32| ends.len() == 1 && range.end - end < end.saturating_sub(began);
        if ends.len() < n && !ends.first().is_some_and(is_alone) {
            ends.clear();
        }
        let mut least = range.start;
        for (at, stretch) in (from..to).enumerate() {
            let end = ends.get(at).copied();
            least =
                end.unwrap_or_else(|| self.calls_until(stream, stretch).clamp(least, range.end));
            push_cut(cuts, stretch, least);
        }
        let is_told = ends.len() == n;
        if is_told {
            0
        } else {
            u64::from(range.end - range.start)
        }
    }

    /// Cuts the calls after the last one that is placed.
    fn cut_rest(
        &self,
        stream: &ProcessStream,
        last: AnchoredRun,
        cuts: &mut StretchCuts,
        cutting: &mut BoundaryCutter<'_, impl Fn() -> BoundaryModel>,
    ) -> u64 {
        let range = last.last + 1..stream.len();
        let end = stream.len();
        let by_line = match self.by_line {
            true => cuts_by_position(stream, self.bounds)
                .last()
                .map_or(0, |c| c.0),
            false => 0,
        };
        let mut position = 0;
        let next = self.next_stretch(last.stretch);
        if next <= self.bounds.last_gap() && !range.is_empty() {
            let to = by_line.max(next);
            position = self.cut_between(stream, last.stretch, to, range, cuts, cutting);
            push_cut(cuts, to, end);
        } else {
            push_cut(cuts, last.stretch, end);
        }
        if cuts.last().is_some_and(|c| c.1 < end)
            && let Some(last) = cuts.last_mut()
        {
            last.1 = end;
        }
        position
    }

    /// Returns the next stretch; without `by_line`, the next in which calls were made.
    fn next_stretch(&self, stretch: u32) -> u32 {
        if self.by_line {
            return stretch + 1;
        }
        let at = self.busy.partition_point(|&busy| busy <= stretch);
        self.busy.get(at).copied().unwrap_or(u32::MAX)
    }

    /// Counts a process's calls that appear up to the end of a stretch.
    fn calls_until(&self, stream: &ProcessStream, stretch: u32) -> u32 {
        // Line positions do not count.
        if !self.by_line {
            return stream.len();
        }
        let gap = self.bounds.ends.get(stretch as usize);
        gap.map_or(stream.len(), |&gap| stream.calls_until(gap))
    }

    /// Learns from ranks that share communicators with a process which calls are around their cuts: the process's
    /// own cuts lie between the same calls.
    fn learn_boundaries(&self, uses: &[(u32, u64)]) -> BoundaryModel {
        let told = uses
            .iter()
            .filter(|(key, _)| *key != NO_SEQUENCE && self.thresholds.has_thresholds(*key));
        let comms: BTreeSet<u32> = told.map(|(key, _)| self.keys.comm[*key as usize]).collect();
        let share = comms.iter().filter_map(|comm| self.known_on.get(comm));
        let mut models: Vec<u32> = Vec::new();
        for &model in share.flatten() {
            if !models.contains(&model) {
                models.push(model);
            }
        }
        let mut habits = BoundaryModel::default();
        for &model in models.iter().take(MAX_MODEL_RANKS) {
            if let Some(cuts) = &self.cuts[model] {
                let stream = &self.streams.streams[model];
                habits.learn_from(stream, cuts, &comms, &self.keys);
            }
        }
        habits.finish_learning(self.streams)
    }
}
