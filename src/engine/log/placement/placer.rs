//! Calls held until they can be placed, in bounded memory.

use super::bounds::StepBounds;
use super::lately::{LivePlacement, RecentWindow, SettleRule};
use super::limits::{
    BYTES_PER_STEP_LINE, MAX_HELD_BYTES, MAX_PIPE_BYTES, MIN_CALLS_TOO_MANY, MIN_WINDOW_CALLS,
    STRETCHES_HELD_BACK,
};
use super::printer::PrinterHistory;
use super::record::CallRecorder;
use super::resolve::{PlacementScope, place_streams};
use super::streams::StreamsByProcess;
use super::{CutsByProcess, Placement};
use crate::by_number::ByNumber;
use crate::log::MergedChunk;
use crate::log::timeline::{self, Checkpoint, PositionOnlyReason, StepTimeline};
use crate::members::MergedMembers;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The calls of one input, placed when it ends, or as soon as there are too many to hold.
#[derive(Debug, Serialize, Deserialize)]
pub struct CallPlacer {
    /// The bytes that held calls may take. A log with fewer is placed as a whole.
    room: u64,
    jobs: usize,
    streams: StreamsByProcess,
    /// Calls by gap, of those that are held.
    by_gap: BTreeMap<u32, u64>,
    /// How many calls of each process were let go.
    gone: ByNumber<u32>,
    placed: Placement,
    /// The ranks that printed the lines so far.
    printers: PrinterHistory,
    /// Once some were let go: the processes met until then. A later one's calls have no
    /// beginning in common with theirs.
    met: Option<u32>,
    by_position: Option<PositionOnlyReason>,
    /// The printing rank, if the user named it.
    printer: Option<u32>,
    /// The last calls, once it was asked where they are placed so far.
    #[serde(skip)]
    lately: Option<RecentWindow>,
    /// How many of these are placed at least.
    few: u64,
    /// Forgets the cuts of calls that were let go.
    forgets: bool,
}

impl Default for CallPlacer {
    fn default() -> Self {
        CallPlacer::new(MAX_HELD_BYTES, 1)
    }
}

impl CallPlacer {
    pub(super) fn new(room: u64, jobs: usize) -> CallPlacer {
        CallPlacer {
            room,
            jobs,
            streams: StreamsByProcess::default(),
            by_gap: BTreeMap::new(),
            gone: ByNumber::default(),
            placed: Placement::default(),
            printers: PrinterHistory::default(),
            met: None,
            by_position: None,
            printer: None,
            lately: None,
            few: MIN_WINDOW_CALLS,
            forgets: false,
        }
    }

    /// Nothing held yet; the work is shared out to `jobs` threads.
    pub fn with_jobs(jobs: usize) -> CallPlacer {
        CallPlacer::new(MAX_HELD_BYTES, jobs)
    }

    /// Forgets the cuts of calls that were let go: they take 8 bytes for each process and step.
    pub fn without_old_cuts(self) -> CallPlacer {
        CallPlacer {
            forgets: true,
            ..self
        }
    }

    /// Places at least `few` calls again at a pause.
    #[cfg(test)]
    pub(super) fn lately(self, few: u64) -> CallPlacer {
        CallPlacer { few, ..self }
    }

    /// Adds a chunk. Calls that are let go are given to `sink` with their cuts: by process, pairs of
    /// a gap and the number of calls up to its end.
    pub fn add_chunk(
        &mut self,
        mut calls: CallRecorder,
        part: &MergedChunk<'_, ()>,
        steps: &timeline::Options,
        mut sink: impl FnMut(&StreamsByProcess, &CutsByProcess),
    ) {
        self.printer = steps.printer;
        let made = self.streams.add_chunk(&mut calls, part.gap, part.to);
        if let Some(lately) = &mut self.lately {
            lately
                .streams_mut()
                .add_chunk(&mut calls, part.gap, part.to);
        }
        for (gap, n) in made {
            *self.by_gap.entry(gap).or_default() += n;
        }
        while let Some(gap) = self.overflow_gap() {
            let before = self.streams.count_calls();
            self.let_go_until(gap, part, steps, &mut sink);
            // All of them were made later than their lines are.
            if self.streams.count_calls() == before {
                break;
            }
        }
        // A stretch without an end can only be placed by position.
        if self.streams.memory_bytes() >= self.room.saturating_mul(2)
            && let Some(gap) = self.endless_gap()
        {
            self.by_position.get_or_insert(PositionOnlyReason::Many);
            self.let_go_until(gap, part, steps, &mut sink);
        }
    }

    /// Places the calls up to a checkpoint of a log that is still being written, and lets go of all but the last
    /// stretches.
    pub fn place_checkpoint(
        &mut self,
        turn: Checkpoint,
        part: &MergedChunk<'_, ()>,
        steps: &timeline::Options,
        mut sink: impl FnMut(&StreamsByProcess, &CutsByProcess),
    ) {
        self.let_go_until(turn.gap, part, steps, &mut sink);
        // If ranks are never level, the window keeps all calls: it begins anew.
        let most = self.streams.count_calls().max(MIN_CALLS_TOO_MANY);
        self.lately
            .take_if(|lately| lately.streams_mut().count_calls() > 2 * most);
    }

    /// Where the calls of a process are cut that are placed for good.
    pub fn cuts_of(&self, process: u32) -> &[(u32, u32)] {
        self.placed.cuts_of(process)
    }

    /// Forgets where calls were made up to the end of gap `gap`.
    pub fn forget_until(&mut self, gap: u32) {
        for cuts in self.placed.cuts.values_mut() {
            // The last one has the number of calls.
            let old = cuts.partition_point(|cut| cut.0 <= gap);
            cuts.drain(..old.saturating_sub(1));
        }
    }

    /// True if the held calls and `step_lines` step lines take the memory of a pipe.
    pub(crate) fn is_pipe_full(&self, step_lines: usize) -> bool {
        let lines = BYTES_PER_STEP_LINE * step_lines as u64;
        self.streams.memory_bytes() + lines >= MAX_PIPE_BYTES
    }

    /// How many of the calls that are held fill the room.
    fn calls_with_room(&self) -> u64 {
        let bytes = u128::from(self.streams.memory_bytes().max(1));
        let calls = u128::from(self.streams.count_calls()) * u128::from(self.room) / bytes;
        u64::try_from(calls).unwrap_or(u64::MAX)
    }

    /// Returns a gap that takes twice the room by itself.
    fn endless_gap(&self) -> Option<u32> {
        let too_many = self.calls_with_room().saturating_mul(2).max(1);
        let mut all = self.by_gap.iter();
        all.find(|(_, n)| **n >= too_many).map(|(gap, _)| *gap)
    }

    /// Returns the gap up to which the calls fill the room, if its line has come.
    fn overflow_gap(&self) -> Option<u32> {
        if self.streams.memory_bytes() < self.room {
            return None;
        }
        let room = self.calls_with_room();
        let last = *self.by_gap.last_key_value()?.0;
        let mut sum = 0;
        self.by_gap
            .iter()
            .find(|(_, n)| {
                sum += **n;
                sum >= room
            })
            .map(|(gap, _)| *gap)
            .filter(|&gap| gap < last)
    }

    /// Places what came up to the end of `gap`, and lets go of all but the last stretches.
    fn let_go_until(
        &mut self,
        gap: u32,
        part: &MergedChunk<'_, ()>,
        steps: &timeline::Options,
        sink: &mut impl FnMut(&StreamsByProcess, &CutsByProcess),
    ) {
        let later = self.streams.split_after(gap);
        // If the log's beginning is forgotten, its calls are no longer held.
        let gone = part.marks.forgotten_count();
        let marks = part.marks.slice(gone..gap as usize + 1);
        let timeline = timeline::resolve_timeline(marks, &[], steps);
        let bounds = StepBounds::from_timeline(&timeline).shift_gaps(gone as u32);
        let is_endless = self.by_position == Some(PositionOnlyReason::Many);
        let last = bounds
            .before_last(STRETCHES_HELD_BACK)
            .filter(|_| !is_endless);
        self.by_position = self.by_position.or(timeline.by_position);
        // There are too few lines for the calls: their position is all there is.
        if last.is_none() {
            self.by_position.get_or_insert(PositionOnlyReason::Many);
        }
        let until = last.unwrap_or(gap);
        let placement = self.place_calls(part.merged, &bounds);
        let gone =
            placement
                .cuts
                .map_values(|_, cuts| match cuts.partition_point(|&(g, _)| g <= until) {
                    0 => 0,
                    n => cuts[n - 1].1,
                });
        self.met.get_or_insert(self.streams.streams.end_number());
        self.take_until(placement, Some(until), sink);
        self.streams
            .drop_first(|process| gone.get(process).copied().unwrap_or(0));
        for (process, n) in gone {
            let gone = self.gone.entry(process);
            *gone = gone.saturating_add(n);
        }
        self.by_gap = self.streams.calls_by_gap();
        for (gap, n) in later.calls_by_gap() {
            *self.by_gap.entry(gap).or_default() += n;
        }
        self.streams.append_later(later);
        self.streams.forget_unused(std::iter::empty());
    }

    fn place_calls(&mut self, merged: &MergedMembers, bounds: &StepBounds) -> Placement {
        let scope = self.scope(self.by_position);
        place_streams(&self.streams, merged, bounds, scope, &mut self.printers)
    }

    fn scope(&self, by_position: Option<PositionOnlyReason>) -> PlacementScope {
        PlacementScope {
            by_position: by_position.is_some(),
            printer: self.printer,
            among: self.met.unwrap_or(u32::MAX),
            jobs: self.jobs,
        }
    }

    /// Makes the next live placement one of all calls since the last checkpoint: the window of the last ones is dropped.
    pub(crate) fn drop_window(&mut self) {
        self.lately = None;
    }

    /// The last calls, placed by what has come so far: those of gap `needed` and later are among them.
    pub fn live_placement(
        &mut self,
        timeline: &StepTimeline,
        merged: &MergedMembers,
        needed: u32,
    ) -> LivePlacement<'_> {
        self.live_placement_by(SettleRule::Usual, timeline, merged, needed)
    }

    /// [`CallPlacer::live_placement`], with the steps that are settled by `rule`.
    pub(crate) fn live_placement_by(
        &mut self,
        rule: SettleRule,
        timeline: &StepTimeline,
        merged: &MergedMembers,
        needed: u32,
    ) -> LivePlacement<'_> {
        if self
            .lately
            .as_mut()
            .is_some_and(|l| l.lacks_first_calls(merged))
        {
            self.lately = None;
        }
        let scope = self.scope(self.by_position.or(timeline.by_position));
        let CallPlacer {
            streams,
            gone,
            placed,
            lately,
            ..
        } = self;
        let all = || {
            let last = placed.cuts.all_values().filter_map(|cuts| cuts.last());
            let base = last.map(|cut| cut.0).max();
            let before = placed.cuts.clone();
            RecentWindow::from_streams(streams.clone(), gone.clone(), before, base, self.few)
        };
        lately.get_or_insert_with(all).place_window(
            rule,
            timeline,
            merged,
            scope,
            &self.printers,
            needed,
        )
    }

    /// Gives the calls up to the end of gap `until` to `sink` and remembers where they are cut.
    fn take_until(
        &mut self,
        placement: Placement,
        until: Option<u32>,
        sink: &mut impl FnMut(&StreamsByProcess, &CutsByProcess),
    ) {
        let Placement {
            mut cuts,
            methods,
            known,
            ..
        } = placement;
        self.placed.known = known;
        if let Some(until) = until {
            let all = methods.total_calls();
            let mut taken = 0;
            for cuts in cuts.values_mut() {
                cuts.retain(|&(gap, _)| gap <= until);
                taken += cuts.last().map_or(0, |c| u64::from(c.1));
            }
            self.placed
                .methods
                .add_counts(methods.scale_to_part(taken, all));
        } else {
            self.placed.methods.add_counts(methods);
        }
        sink(&self.streams, &cuts);
        for (process, cuts) in cuts {
            let before = self.gone.get(process).copied().unwrap_or(0);
            let absolute = cuts
                .into_iter()
                .map(|(gap, n)| (gap, before.saturating_add(n)));
            let all = self.placed.cuts.entry(process);
            all.extend(absolute);
            // Where none was let go, other inputs' calls may be placed by these.
            if self.forgets && self.met.is_some() {
                all.drain(..all.len().saturating_sub(1));
                all.shrink_to(1);
            }
        }
    }

    /// All calls of the input, if none was let go: they are not placed here.
    pub fn into_held_calls(self) -> Option<StreamsByProcess> {
        self.met.is_none().then_some(self.streams)
    }

    /// How many calls are held.
    #[cfg(test)]
    pub(super) fn calls(&self) -> u64 {
        self.streams.count_calls()
    }

    /// True if no call was let go.
    pub fn is_whole(&self) -> bool {
        self.met.is_none()
    }

    /// Ends the input: places the held calls and gives them to `sink`. Returns the placement of all calls, and the
    /// calls if none was let go before.
    pub fn end_input(
        mut self,
        timeline: &StepTimeline,
        merged: &MergedMembers,
        mut sink: impl FnMut(&StreamsByProcess, &CutsByProcess),
    ) -> (Placement, Option<StreamsByProcess>) {
        self.by_position = self.by_position.or(timeline.by_position);
        let placement = self.place_calls(merged, &StepBounds::from_timeline(timeline));
        self.take_until(placement, None, &mut sink);
        self.placed.methods.why = self.by_position.or(self.placed.methods.why);
        let whole = self.met.is_none().then_some(self.streams);
        (self.placed, whole)
    }
}
