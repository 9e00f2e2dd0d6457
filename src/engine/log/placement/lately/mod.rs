//! The last calls of a log that is still being written.
//!
//! All calls are held until the log ends, or until there are too many. The work for a new step does not grow
//! with the log: each pause places only the calls since steps that were settled a while ago. The calls before
//! are placed for good, each process's as many as the others' on each communicator; later ones are counted
//! from there.

mod limits;
mod settled;

use super::bounds::StepBounds;
use super::keys::Sequences;
use super::limits::UNKNOWN_STRETCH;
use super::printer::PrinterHistory;
use super::resolve::{PlacementScope, place_streams};
use super::streams::StreamsByProcess;
use super::{CutsByProcess, Placement};
use crate::by_number::ByNumber;
use crate::log::timeline::StepTimeline;
use crate::members::MergedMembers;
use limits::{MAX_CUTS_REMEMBERED, MAX_LET_GO_TRIES, MIN_WHOLE_STEPS_IN_ROW, STEPS_KEPT_SETTLED};
use settled::{StepCompleteness, last_step_ends};

pub(super) use settled::cut_at;
pub use settled::{LivePlacement, SettleRule};

/// The calls that are placed at each pause.
#[derive(Debug)]
pub(super) struct RecentWindow {
    streams: StreamsByProcess,
    /// How many calls of each process came before.
    gone: ByNumber<u32>,
    /// Where these were cut, by process.
    before: CutsByProcess,
    /// The last gap before them.
    base: Option<u32>,
    /// `base` when the window began.
    first: Option<u32>,
    /// The ranks that printed the lines before.
    printers: PrinterHistory,
    /// By process: a call of each kind that it made before.
    ever: ByNumber<Vec<u32>>,
    /// How many calls of each process were looked at: see [`RecentWindow::lacks_first_calls`].
    looked_at: ByNumber<u32>,
    /// The fewest calls that are placed.
    few: u64,
    /// The number of calls from which some are let go.
    many: u64,
}

impl RecentWindow {
    /// A window of all `streams`; before them come `gone` calls of each process, cut at `before`, up to the end of
    /// gap `base`.
    pub(super) fn from_streams(
        streams: StreamsByProcess,
        gone: ByNumber<u32>,
        before: CutsByProcess,
        base: Option<u32>,
        few: u64,
    ) -> RecentWindow {
        RecentWindow {
            streams,
            gone,
            before,
            base,
            first: base,
            printers: PrinterHistory::default(),
            ever: ByNumber::default(),
            looked_at: ByNumber::default(),
            few,
            many: few.saturating_mul(2),
        }
    }

    /// The calls, to be added to.
    pub(super) fn streams_mut(&mut self) -> &mut StreamsByProcess {
        &mut self.streams
    }

    /// True if a process calls on a communicator on which only others did before: its first call there
    /// is their first, which is not here any more.
    pub(super) fn lacks_first_calls(&mut self, merged: &MergedMembers) -> bool {
        let all = &self.streams.streams;
        if self.ever.all_values().all(Vec::is_empty) {
            return false;
        }
        let keys = Sequences::new(&self.streams, merged);
        let key = |what: &u32| keys.key_of(*what) as usize;
        let mut ever = vec![false; keys.len()];
        for what in self.ever.all_values().flatten() {
            if let Some(ever) = ever.get_mut(key(what)) {
                *ever = true;
            }
        }
        let mut own = vec![u32::MAX; keys.len()];
        for (process, stream) in all.iter_numbered() {
            let looked_at = self.looked_at.entry(process);
            for what in self.ever.get(process).into_iter().flatten() {
                if let Some(own) = own.get_mut(key(what)) {
                    *own = process;
                }
            }
            let new = stream
                .calls
                .slice(*looked_at as usize..stream.len() as usize);
            *looked_at = stream.len();
            let is_late = |what: u32| {
                let key = key(&what);
                ever.get(key) == Some(&true) && own[key] != process
            };
            if new.iter().any(is_late) {
                return true;
            }
        }
        false
    }

    /// Places the calls by all that has come so far. Those of gap `needed` and later stay.
    pub(super) fn place_window(
        &mut self,
        rule: SettleRule,
        timeline: &StepTimeline,
        merged: &MergedMembers,
        scope: PlacementScope,
        printers: &PrinterHistory,
        needed: u32,
    ) -> LivePlacement<'_> {
        self.forget_old_cuts();
        let mut printers = printers.joined_with(&self.printers);
        let bounds = StepBounds::after_gap(timeline, self.base);
        let Placement {
            mut cuts, known, ..
        } = place_streams(&self.streams, merged, &bounds, scope, &mut printers);
        let keys = match scope.by_position {
            true => Sequences::default(),
            false => Sequences::new(&self.streams, merged),
        };
        let is_unusual = printers.is_unusual;
        let steps = StepCompleteness::new(
            &self.streams,
            &keys,
            &known,
            &cuts,
            &self.ever,
            merged,
            is_unusual,
        );
        let settled = steps.last_settled_gap(timeline, rule);
        let calls = self.streams.count_calls();
        let mut until = None;
        if calls >= self.many {
            until =
                settled.and_then(|settled| self.find_let_go_gap(&steps, timeline, settled, needed));
            if until.is_none() && settled < Some(needed) {
                // There is no good place: not each pause looks for one.
                self.many = calls.saturating_add(self.few);
            }
        }
        if let Some(until) = until {
            self.let_go_until(until, &mut cuts, &keys);
            self.printers = printers;
            self.many = self.streams.count_calls().saturating_add(self.few);
        }
        LivePlacement {
            streams: &self.streams,
            gone: &self.gone,
            before: &self.before,
            cuts,
            settled,
            since: self.first,
        }
    }

    /// Forgets the oldest cuts.
    fn forget_old_cuts(&mut self) {
        for cuts in self.before.values_mut() {
            if cuts.len() > 2 * MAX_CUTS_REMEMBERED {
                cuts.drain(..cuts.len() - MAX_CUTS_REMEMBERED);
                cuts[0].0 = UNKNOWN_STRETCH;
            }
        }
    }

    /// Returns the last gap up to which no call needs to be placed again.
    fn find_let_go_gap(
        &self,
        steps: &StepCompleteness<'_>,
        timeline: &StepTimeline,
        settled: u32,
        needed: u32,
    ) -> Option<u32> {
        let of_gaps = steps.calls_by_gap();
        let mut left = 0;
        let enough = of_gaps.iter().rev().find(|(_, calls)| {
            left += **calls;
            left >= self.few
        });
        let most = (*enough?.0).min(settled).min(needed).checked_sub(1)?;
        let settled = last_step_ends(timeline, settled, STEPS_KEPT_SETTLED);
        let most = most.min(
            *settled
                .first()
                .filter(|_| settled.len() >= STEPS_KEPT_SETTLED)?,
        );
        let places = last_step_ends(timeline, most, MAX_LET_GO_TRIES + MIN_WHOLE_STEPS_IN_ROW);
        let is_good = |last: &&[u32]| {
            last.windows(2)
                .all(|pair| steps.is_whole(Some(pair[0]), pair[1]))
        };
        let good = places
            .windows(MIN_WHOLE_STEPS_IN_ROW + 1)
            .rev()
            .find(is_good)?;
        let until = *good.last()?;
        self.base.is_none_or(|base| until > base).then_some(until)
    }

    /// Lets go of the calls up to the end of gap `until`.
    fn let_go_until(&mut self, until: u32, cuts: &mut CutsByProcess, keys: &Sequences) {
        let mut gone = ByNumber::default();
        let mut seen = vec![u32::MAX; keys.len()];
        for (process, cuts) in cuts.iter_numbered_mut() {
            let own = &self.streams.streams[process];
            let settled = cuts.partition_point(|&(gap, _)| gap <= until);
            let n = settled.checked_sub(1).map_or(0, |last| cuts[last].1);
            *gone.entry(process) = n;
            let ever = self.ever.entry(process);
            let old = std::mem::take(ever);
            let made = own.calls.slice(0..n as usize);
            for what in old.into_iter().chain(made) {
                if let Some(seen) = seen.get_mut(keys.key_of(what) as usize)
                    && *seen != process
                {
                    *seen = process;
                    ever.push(what);
                }
            }
            let all = self.gone.entry(process);
            let before = *all;
            let absolute = |(gap, end): (u32, u32)| (gap, before.saturating_add(end));
            let old = cuts.drain(..settled).map(absolute);
            self.before.entry(process).extend(old);
            for cut in cuts {
                cut.1 = cut.1.saturating_sub(n);
            }
            *all = before.saturating_add(n);
            if let Some(looked_at) = self.looked_at.get_mut(process) {
                *looked_at = looked_at.saturating_sub(n);
            }
        }
        self.streams.drop_first(|process| gone[process]);
        self.streams.forget_unused(self.ever.values_mut());
        self.base = Some(until);
    }
}
