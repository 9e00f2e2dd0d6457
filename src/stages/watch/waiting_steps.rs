//! Steps that wait for the calls of all ranks.
//!
//! A step has the calls that nccl-ops gives it, once all members of each communicator have made as many: mostly with its
//! line. Of several logs, also in one pipe, one is read after the other. So the calls are counted where nothing more
//! comes, or once a second. Logs that were there before the watch, or that are copied, are first read to their ends.

use super::calls::{CallsByOp, OpCallTotals};
use super::{JobWatch, WatchEvent};
use crate::count::calls::CountedCalls;
use crate::count::filtered::CountFilter;
use crate::log::placement::SettleRule;
use crate::log::timeline::StepKey;
use crate::members::jobs::describe_added_jobs;
use crate::source::GrowingFiles;
use crate::stages::watch::limits::{COPY_PAUSE, MAX_COPY_WAIT, MAX_STEP_WAIT, MAX_UNCLAIMED_STEPS};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// What one reading of all inputs has brought.
#[derive(Debug, Clone, Copy)]
pub(super) struct InputNews {
    /// Any input has grown.
    pub(super) has_grown: bool,
    /// There are new files.
    pub(super) has_files: bool,
    /// There are several files, or may be.
    pub(super) is_of_several: bool,
}

/// Events in their order, from the first step on that waits.
#[derive(Debug)]
pub(super) struct WaitingSteps {
    /// Each with the time when it came.
    events: Vec<(WatchEvent, Instant)>,
    /// The calls of steps, in order.
    counted: VecDeque<CountedStep>,
    /// The last step that is settled, with calls or without, and whether its row may still wait.
    settled: (Option<StepKey>, bool),
    /// By which rules the calls were counted since text came.
    counted_by: Option<SettleRule>,
    /// What was there before the watch is not read to its end.
    is_first_reading: bool,
    /// Since when nothing came.
    quiet: Option<Instant>,
    /// When steps began to wait, or the calls were counted last.
    began: Option<Instant>,
    /// How long they wait where text comes without a pause.
    longest: Duration,
    /// It was reported that the calls of earlier steps are others.
    is_changed: bool,
}

/// The calls of a step.
#[derive(Debug)]
struct CountedStep {
    step: u64,
    /// Those that pass the filter, and how many do not.
    calls: CallsByOp,
    left_out: u64,
    /// Some ranks have made fewer calls than others.
    is_open: bool,
}

impl WaitingSteps {
    pub(super) fn new() -> WaitingSteps {
        WaitingSteps {
            events: Vec::new(),
            counted: VecDeque::new(),
            settled: (None, false),
            counted_by: None,
            is_first_reading: true,
            quiet: None,
            began: None,
            longest: Duration::ZERO,
            is_changed: false,
        }
    }

    pub(super) fn add_events(&mut self, events: Vec<WatchEvent>, now: Instant) {
        self.events
            .extend(events.into_iter().map(|event| (event, now)));
    }

    /// True while steps wait, or logs of before the watch are read.
    pub(super) fn is_open(&self) -> bool {
        self.is_first_reading || self.has_steps()
    }

    fn has_steps(&self) -> bool {
        self.events.iter().any(|(event, _)| is_step(event))
    }

    /// Notes what a reading has brought. Returns by which rule the calls of steps are to be counted now.
    pub(super) fn find_due_count(&mut self, news: InputNews, now: Instant) -> Option<SettleRule> {
        let is_at_rest = !news.has_grown && !news.has_files;
        if news.has_grown {
            self.counted_by = None;
        }
        self.quiet = is_at_rest.then(|| self.quiet.unwrap_or(now));
        let rested = self.quiet.map(|since| now - since);
        let is_quiet = rested >= Some(COPY_PAUSE);
        let is_first = self.is_first_reading;
        self.is_first_reading &= !is_quiet;
        if !self.has_steps() {
            self.began = None;
            return None;
        }
        let began = *self.began.get_or_insert(now);
        self.longest = match news.has_files {
            true => MAX_COPY_WAIT,
            false => self.longest.max(MAX_STEP_WAIT),
        };
        let is_held = is_first && news.is_of_several;
        if !is_quiet && (is_held || now - began < self.longest) {
            return None;
        }
        let is_long = rested >= Some(MAX_STEP_WAIT);
        let rule = match is_quiet && (is_first || is_long) {
            true => SettleRule::Whole,
            false => SettleRule::Usual,
        };
        (self.counted_by != Some(rule)).then_some(rule)
    }

    /// Counts the calls of all steps with a line: nothing more is expected.
    pub(super) fn count_last_calls(
        &mut self,
        watch: &mut JobWatch<'_>,
        filter: &CountFilter<'_>,
        now: Instant,
    ) {
        self.count_calls(watch, filter, SettleRule::Whole);
        self.count_calls(watch, filter, SettleRule::Lines);
        if !self.is_changed && watch.counts.has_changed() {
            self.is_changed = true;
            self.add_events(vec![WatchEvent::StepsChanged], now);
        }
    }

    /// Counts the calls of the steps that wait.
    pub(super) fn count_calls(
        &mut self,
        watch: &mut JobWatch<'_>,
        filter: &CountFilter<'_>,
        rule: SettleRule,
    ) {
        let (settled, last) = watch.counts.take_settled(rule);
        self.settled = (last, self.settled.1 || last != self.settled.0);
        for settled in settled {
            let all = calls_by_step(&settled);
            let mut kept = calls_by_step(&filter.keep_calls(settled).0);
            self.counted.extend(all.into_iter().map(|(step, all)| {
                let kept = kept.remove(&step).unwrap_or_default();
                let left_out = all.total().calls - kept.total().calls;
                CountedStep {
                    step: step.step,
                    calls: kept,
                    left_out,
                    is_open: rule == SettleRule::Lines,
                }
            }));
        }
        (self.counted_by, self.began, self.longest) = (Some(rule), None, Duration::ZERO);
    }

    /// Returns the events that wait no more, in their order. Where there are no calls, none waits, and events other
    /// than steps wait a second at most.
    pub(super) fn take_ready(&mut self, watch: &JobWatch<'_>, now: Instant) -> Vec<WatchEvent> {
        let has_calls = watch.calls().total().calls > 0;
        let takes_all = self.counted_by == Some(SettleRule::Lines);
        let mut ready = match takes_all || !has_calls {
            true => self.events.len(),
            false => self
                .events
                .iter()
                .take_while(|(event, _)| !is_step(event))
                .count(),
        };
        for (at, (event, _)) in self.events.iter_mut().enumerate() {
            let WatchEvent::Step(ended) = event else {
                continue;
            };
            let number = ended.step.step;
            let mut counted = self.counted.iter();
            // Earlier ones are of steps that the last lines alone did not show.
            if let Some(known) = counted.position(|known| known.step == number)
                && let Some(known) = self.counted.drain(..=known).next_back()
            {
                (ended.calls, ended.left_out) = (known.calls, known.left_out);
                ended.is_open = known.is_open;
                ready = ready.max(at + 1);
            }
            if self.settled.1 && self.settled.0.is_some_and(|last| last.step == number) {
                ready = ready.max(at + 1);
            }
        }
        self.settled.1 = false;
        let unclaimed = self.counted.len().saturating_sub(MAX_UNCLAIMED_STEPS);
        self.counted.drain(..unclaimed);
        let later = self.events.split_off(ready);
        let waits =
            |(event, came): &(WatchEvent, Instant)| is_step(event) || now - *came < MAX_STEP_WAIT;
        let (waiting, late): (Vec<_>, Vec<_>) = later.into_iter().partition(waits);
        let ready = std::mem::replace(&mut self.events, waiting).into_iter();
        ready.chain(late).map(|(event, _)| event).collect()
    }
}

/// The inputs and the jobs at the last report.
#[derive(Debug, Default)]
pub(super) struct ReportedJobs {
    inputs: usize,
    jobs: usize,
}

impl ReportedJobs {
    /// Reports before the next step that is shown that there are several jobs, or more than before. Files alone are of
    /// several: the members of what came through a pipe share it.
    pub(super) fn report_jobs(
        &mut self,
        mut ready: Vec<WatchEvent>,
        watch: &JobWatch<'_>,
        follow: &GrowingFiles,
    ) -> Vec<WatchEvent> {
        let has_steps = ready.iter().any(is_step);
        if !has_steps || follow.has_pipe() || watch.count_inputs() == self.inputs {
            return ready;
        }
        self.inputs = watch.count_inputs();
        let names = follow.files().map(|path| path.display().to_string());
        let found = watch.find_separate_jobs(names);
        if found.len() > self.jobs {
            self.jobs = found.len();
            let says = describe_added_jobs(&found, "nccl-watch", 1);
            ready.insert(0, WatchEvent::SeveralJobs(says));
        }
        ready
    }
}

fn is_step(event: &WatchEvent) -> bool {
    matches!(event, WatchEvent::Step(_))
}

/// The calls of each step.
pub(super) fn calls_by_step(counted: &CountedCalls) -> BTreeMap<StepKey, CallsByOp> {
    let mut steps: BTreeMap<StepKey, CallsByOp> = BTreeMap::new();
    for ((step, key), volume) in counted.cells.list_counts() {
        let Some(step) = step else { continue };
        let (_, bytes) = key.elements_and_bytes();
        let made = OpCallTotals::of_equal_calls(volume.calls, bytes);
        let own = steps.entry(step).or_default();
        own.add_totals(counted.ops.name_of_op(key.op), made);
    }
    steps
}
