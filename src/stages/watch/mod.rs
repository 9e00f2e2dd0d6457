//! nccl-watch: a job while it runs. Reports each step as its line comes, and the findings of nccl-check
//! when nothing moves any more.
//!
//! A step has the calls that nccl-ops gives it (`waiting_steps`).

mod calls;
mod growing_log;
mod labels;
mod limits;
pub mod messages;
pub mod metrics;
mod pace;
pub mod page;
pub mod processes;
mod ranks;
pub mod ras;
pub mod run;
mod spool;
mod waiting_steps;

pub use calls::{CallsByOp, OpCallTotals};
pub use metrics::format_metrics;
pub use pace::JobPace;
pub use ranks::{CollectiveCounts, WatchedComm};

use crate::count::calls::{GrowingCounts, Options as Read};
use crate::count::tally;
use crate::grammar::values::ByteBasis;
use crate::log::timeline::{self, TrainStep};
use crate::members::MergedMembers;
use crate::members::comm_id::CommId;
use crate::members::jobs::SeparateJob;
use crate::source::AppendedBytes;
use crate::stages::check::warn::known_warns::look_up_warn;
use crate::stages::watch::limits::MAX_WARN_KINDS;
use growing_log::{GrowingLog, GrowthNews, GrowthOptions};
use labels::KnownComms;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Something to report.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchEvent {
    /// A step's line has come.
    Step(StepEvent),
    /// NCCL warned of something new: its text, and its meaning if it is known.
    Warned(Vec<u8>, Option<&'static str>),
    /// The job moves again after a stall of this length.
    Moves(Duration),
    /// Bytes of a line over the limit that were not read.
    Dropped(u64),
    /// The inputs are of several jobs.
    SeveralJobs(String),
    /// Later lines changed the calls of steps that were reported.
    StepsChanged,
}

/// A step's line has come.
#[derive(Debug, Clone, PartialEq)]
pub struct StepEvent {
    /// The step.
    pub step: TrainStep,
    /// Its calls that pass the filter.
    pub calls: CallsByOp,
    /// How many calls do not.
    pub left_out: u64,
    /// Some ranks have made fewer calls than others: more may come.
    pub is_open: bool,
}

/// How the calls of steps are counted.
pub(crate) static STEP_TALLY: tally::Options = tally::Options {
    sizing: tally::SizeKey::Count,
    basis: ByteBasis::Api,
    members: false,
    datatypes: true,
    steps: true,
    exact: false,
    durations: false,
    served: false,
};

/// A job that is watched.
pub struct JobWatch<'o> {
    read: &'o Read,
    timeline: timeline::Options,
    /// Bytes of files that were there before the watch, and are not read yet.
    backlog: u64,
    /// More has come.
    has_grown: bool,
    /// By input.
    logs: Vec<GrowingLog>,
    /// Segment and number of the last step that was reported.
    last: Option<(u32, u64)>,
    /// When the last step's line came.
    came: Option<Instant>,
    /// The calls of steps.
    counts: GrowingCounts<'o>,
    /// All calls.
    all: CallsByOp,
    /// Collectives by communicator and rank.
    ranks: CollectiveCounts,
    /// What else is known of communicators.
    known: KnownComms,
    /// Lines of the last piece that identify communicators.
    inits: Vec<u8>,
    steps: u64,
    /// An over-long line was not read to its end.
    has_dropped: bool,
    pace: JobPace,
    /// WARN lines by their kind, and how often each came.
    warned: BTreeMap<Vec<u8>, u64>,
}

impl<'o> JobWatch<'o> {
    /// Begins a watch; `stall` is the user's time without a call or a step line after which the job has
    /// stopped.
    pub fn new(read: &'o Read, stall: Option<Duration>, now: Instant) -> JobWatch<'o> {
        JobWatch::with_tally(read, &STEP_TALLY, stall, now)
    }

    /// [`JobWatch::new`], with the calls of steps counted as a filter needs it.
    pub(crate) fn with_tally(
        read: &'o Read,
        tally: &'o tally::Options,
        stall: Option<Duration>,
        now: Instant,
    ) -> JobWatch<'o> {
        JobWatch {
            read,
            // A line's values belong to its own step, even if the line lags behind the calls.
            timeline: timeline::Options {
                as_printed: true,
                ..read.timeline.clone()
            },
            backlog: 0,
            has_grown: false,
            logs: Vec::new(),
            last: None,
            came: None,
            counts: GrowingCounts::new(read, tally),
            all: CallsByOp::default(),
            ranks: CollectiveCounts::default(),
            known: KnownComms::new(),
            inits: Vec::new(),
            steps: 0,
            has_dropped: false,
            pace: JobPace::new(stall, now),
            warned: BTreeMap::new(),
        }
    }

    /// Expects bytes that were there before the watch.
    pub fn expect_backlog(&mut self, bytes: u64) {
        self.backlog = bytes;
    }

    /// True if a log grew while it was watched. Else it may be that of a job which is over.
    pub fn has_grown(&self) -> bool {
        self.has_grown
    }

    /// The number of inputs that had bytes.
    pub(super) fn count_inputs(&self) -> usize {
        self.logs.len()
    }

    /// The jobs of the inputs, which have these names in their order, if there are several.
    fn find_separate_jobs(&self, names: impl Iterator<Item = String>) -> Vec<SeparateJob> {
        let mut all = MergedMembers::default();
        for (log, name) in self.logs.iter().zip(names) {
            all.merge_input(name, log.members());
        }
        all.find_separate_jobs()
    }

    /// Reads the new bytes of an input.
    pub fn read_growth(&mut self, grown: &AppendedBytes<'_>, now: Instant) -> Vec<WatchEvent> {
        let bytes = grown.bytes.len() as u64;
        self.has_grown |= bytes > self.backlog;
        self.backlog = self.backlog.saturating_sub(bytes);
        if self.logs.len() <= grown.input {
            self.logs.resize_with(grown.input + 1, GrowingLog::default);
        }
        let options = GrowthOptions {
            log: &self.read.log,
            steps: &self.timeline,
        };
        let news = self.logs[grown.input].read_growth(grown.bytes, grown.anew, options);
        self.take_news(news, now)
    }

    /// Reads the last lines of the inputs, which have no line end.
    pub fn read_last_lines(&mut self, now: Instant) -> Vec<WatchEvent> {
        let options = GrowthOptions {
            log: &self.read.log,
            steps: &self.timeline,
        };
        let news: Vec<GrowthNews> = self
            .logs
            .iter_mut()
            .map(|log| log.read_last_line(options))
            .collect();
        let events = news.into_iter().map(|news| self.take_news(news, now));
        events.collect::<Vec<_>>().concat()
    }

    fn take_news(&mut self, news: GrowthNews, now: Instant) -> Vec<WatchEvent> {
        let mut events = Vec::new();
        if news.dropped > 0 {
            self.has_dropped = true;
            events.push(WatchEvent::Dropped(news.dropped));
        }
        // While a job is set up, any line shows that it moves. Lines after a stall may be the launcher's.
        let is_set_up = self.all.total().calls == 0 && self.steps == 0 && !self.pace.is_stalled();
        // Each rank may print a step's line, and the rest of an old one may come late.
        let is_new = |ended: &TrainStep| self.last.is_none_or(|last| number_of_step(ended) > last);
        let moves = news.has_calls || news.ended.iter().any(is_new);
        if moves {
            self.pace.note_first_call();
        }
        if (moves || is_set_up)
            && let Some(rested) = self.pace.note_activity(now)
        {
            events.push(WatchEvent::Moves(rested));
        }
        for member in news.by_member {
            self.ranks.add_calls(member);
        }
        self.inits = news.inits;
        for text in news.warned {
            events.extend(self.count_warning(text));
        }
        self.counts.add_text(&news.text);
        for step in news.ended {
            let number = number_of_step(&step);
            // If each rank prints the line, the first counts.
            if self.last.is_some_and(|last| number <= last) {
                continue;
            }
            self.last = Some(number);
            self.steps += 1;
            let came = self.came.replace(now);
            let by_clock = || came.map(|came| now.saturating_duration_since(came).as_secs_f64());
            // A line of several steps gives the time of one step.
            let seconds = step.time_s.map(|s| s * step.steps as f64);
            if let Some(seconds) = seconds.or_else(by_clock) {
                self.pace.add_step_time(seconds);
            }
            events.push(WatchEvent::Step(StepEvent {
                step,
                calls: CallsByOp::default(),
                left_out: 0,
                is_open: false,
            }));
        }
        self.all.add_calls(&news.calls);
        events
    }

    /// Counts a WARN line, and returns its event if it is of a new kind.
    fn count_warning(&mut self, text: Vec<u8>) -> Option<WatchEvent> {
        let known = look_up_warn(&text);
        let kind = known.map_or(&text[..], |known| known.id.as_bytes());
        if let Some(n) = self.warned.get_mut(kind) {
            *n += 1;
            return None;
        }
        if self.warned.len() >= MAX_WARN_KINDS {
            return None;
        }
        self.warned.insert(kind.to_vec(), 1);
        let means = known.map(|known| known.means);
        Some(WatchEvent::Warned(text, means))
    }

    /// True once for each stall: no call and no step line have come for longer than is expected.
    pub fn detect_stall(&mut self, now: Instant) -> bool {
        self.pace.detect_stall(now)
    }

    /// The job's step times and stalls.
    pub fn pace(&self) -> &JobPace {
        &self.pace
    }

    /// All calls so far.
    pub fn calls(&self) -> &CallsByOp {
        &self.all
    }

    /// Collectives by communicator and rank.
    pub fn ranks(&self) -> &CollectiveCounts {
        &self.ranks
    }

    /// The use of a communicator, if it is known: `tensor`, or `tensor?` if that is unsure.
    pub fn comm_label(&self, id: &CommId) -> Option<&str> {
        let label = self.known.get(id).map(|of| of.label.as_str());
        label.filter(|label| !label.is_empty())
    }

    /// The rank in the job of a communicator's rank, if it is known.
    pub fn job_rank(&self, id: &CommId, rank: u32) -> Option<u32> {
        self.known.get(id)?.job_ranks.get(&rank).copied()
    }

    /// Lines of the last piece that identify communicators.
    fn init_lines(&self) -> &[u8] {
        &self.inits
    }

    /// Returns an input's line that has no end yet.
    fn unfinished_line(&self, input: usize) -> &[u8] {
        self.logs
            .get(input)
            .map_or(&[], GrowingLog::unfinished_line)
    }

    /// The number of the last step with a line.
    pub fn last_step(&self) -> Option<u64> {
        self.last.map(|(_, step)| step)
    }

    /// The number of steps with a line.
    pub fn count_steps(&self) -> u64 {
        self.steps
    }

    /// The number of WARN lines of each kind.
    pub fn warning_counts(&self) -> impl Iterator<Item = u64> {
        self.warned.values().copied()
    }
}

/// Segment and step.
fn number_of_step(step: &TrainStep) -> (u32, u64) {
    (step.segment, step.step)
}

#[cfg(test)]
mod tests;
