//! Steps that wait for the calls of all ranks, where these are in several logs.
//!
//! Logs are read one after another, and they grow so. Steps wait until nothing more comes, a second at most. Of logs that
//! were there before the watch began, that are copied, or whose writers keep much text back, several steps are read from
//! one log before the next: once all are read, the count of nccl-ops gives each step the calls of all ranks.

use super::calls::{CallsByOp, OpCallTotals};
use super::{JobWatch, WatchEvent};
use crate::count::calls::{self, Options as Read};
use crate::count::tally::{self, SizeKey};
use crate::grammar::values::ByteBasis;
use crate::log::timeline::StepKey;
use crate::report::Report;
use crate::report::progress::ByteProgressBar;
use crate::source::InputName;
use crate::stages::watch::limits::{
    COPY_PAUSE, MAX_BURST_WAIT, MAX_STEP_WAIT, MIN_COUNT_PAUSE_FACTOR,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What one reading of all inputs has brought.
#[derive(Debug, Default)]
pub(super) struct WatchRound {
    /// Any input has grown.
    pub(super) has_grown: bool,
    pub(super) events: Vec<WatchEvent>,
    /// One input has several new steps: the calls of the other inputs are of them all.
    has_burst: bool,
}

impl WatchRound {
    pub(super) fn add_input_events(&mut self, events: Vec<WatchEvent>) {
        self.has_burst |= events.iter().filter(is_step).nth(1).is_some();
        self.events.extend(events);
    }
}

/// Events that wait until all logs are read to their ends.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// Events wait.
    pub(super) is_open: bool,
    /// All logs are to be counted.
    recounts: bool,
    events: Vec<WatchEvent>,
    /// Since when nothing new came: files may be copied one after another.
    quiet: Option<Instant>,
    /// When the events go on in any case: a job may write without a pause.
    ends: Option<Instant>,
    /// When the logs were counted last, and how long that took.
    counted: Option<(Instant, Duration)>,
}

fn is_step(event: &&WatchEvent) -> bool {
    matches!(event, WatchEvent::Step(_))
}

impl Backlog {
    /// Of logs that are there before the watch (`is_open`), or come later.
    pub(super) fn new(is_open: bool) -> Backlog {
        Backlog {
            is_open,
            recounts: is_open,
            ..Backlog::default()
        }
    }

    /// Notes whether a round had nothing, or new files. Returns true where events wait no more. What was there before
    /// the watch is read once its end was reached, even if the job writes on.
    pub(super) fn is_complete(&mut self, is_quiet: bool, has_new: bool, now: Instant) -> bool {
        if has_new || !is_quiet && self.ends.is_some() {
            self.quiet = None;
        } else if is_quiet {
            self.quiet.get_or_insert(now);
        }
        let is_quiet = self.quiet.is_some_and(|since| now - since >= COPY_PAUSE);
        self.is_open && (is_quiet || self.ends.is_some_and(|ends| now >= ends))
    }

    /// Holds the events of a round from the first step on, or gives them back. To count all logs again must not
    /// cost much.
    pub(super) fn hold_steps(&mut self, mut round: WatchRound, now: Instant) -> Vec<WatchEvent> {
        if !self.is_open && round.events.iter().any(|event| is_step(&event)) {
            (self.is_open, self.quiet, self.ends) = (true, None, Some(now + MAX_STEP_WAIT));
        }
        let is_cheap = |(at, took)| now - at >= took * MIN_COUNT_PAUSE_FACTOR;
        if round.has_burst && !self.recounts && self.counted.is_none_or(is_cheap) {
            (self.recounts, self.ends) = (true, Some(now + MAX_BURST_WAIT));
        }
        if self.is_open {
            self.events.append(&mut round.events);
        }
        round.events
    }

    /// The held events, each step with the calls of all ranks. If `paths` cannot be counted, steps keep the
    /// calls since the step line before.
    pub(super) fn take_complete(
        &mut self,
        watch: &mut JobWatch<'_>,
        paths: impl FnOnce() -> Vec<PathBuf>,
        read: &Read,
    ) -> Vec<WatchEvent> {
        self.is_open = false;
        let began = Instant::now();
        let mut events = std::mem::take(&mut self.events);
        watch.finish_round(&mut events);
        if !std::mem::take(&mut self.recounts) || !events.iter().any(|event| is_step(&event)) {
            return events;
        }
        let paths = paths();
        if let Some(counted) = count_calls_by_step(paths, read) {
            for event in &mut events {
                if let WatchEvent::Step(ended) = event {
                    let own = counted.get(&ended.step.key());
                    ended.calls = own.cloned().unwrap_or_default();
                }
            }
            watch.restart_step_count(&counted);
        }
        self.counted = Some((Instant::now(), began.elapsed()));
        events
    }
}

/// The calls of each step in the logs; `None` if they cannot be read or have no steps.
fn count_calls_by_step(paths: Vec<PathBuf>, read: &Read) -> Option<BTreeMap<StepKey, CallsByOp>> {
    let origins: Vec<InputName> = paths.into_iter().map(InputName::Path).collect();
    let tally = tally::Options {
        sizing: SizeKey::Count,
        basis: ByteBasis::Api,
        members: false,
        datatypes: true,
        steps: true,
        exact: false,
        durations: false,
        served: false,
    };
    let mut read = read.clone();
    // Logs that are being written may end in the middle of a line.
    read.log.strict = false;
    let mut report = Report::new("nccl-watch", false, true).silenced();
    let progress = ByteProgressBar::default();
    let counted = calls::count_calls(&origins, &read, &tally, &mut report, &progress).ok()?;
    let mut steps: BTreeMap<StepKey, CallsByOp> = BTreeMap::new();
    for ((step, key), volume) in counted.cells.list_counts() {
        let Some(step) = step else { continue };
        let (_, bytes) = key.elements_and_bytes();
        let made = OpCallTotals::of_equal_calls(volume.calls, bytes);
        let own = steps.entry(step).or_default();
        own.add_totals(counted.ops.name_of_op(key.op), made);
    }
    counted.has_steps.then_some(steps)
}
