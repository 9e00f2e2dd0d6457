//! nccl-watch: a job while it runs. Each step as its line comes, and what nccl-check finds once
//! nothing moves any more.
//!
//! Calls are assigned to steps by position here: calls since the step line before. Which calls
//! each rank made in it is known only later (nccl-comms tells).

mod calls;
mod grown;
mod labels;
mod metrics;
mod pace;
pub mod page;
pub mod processes;
mod ranks;
pub mod run;
mod spool;
pub mod words;

pub use calls::{Calls, Made};
pub use grown::Ended;
pub use metrics::metrics;
pub use pace::Pace;
pub use ranks::{Communicator, Ranks};

use crate::count::calls::Options as Read;
use crate::log::timeline;
use crate::members::comm_id::CommId;
use crate::source::Grown;
use crate::stages::check::warn::known::known;
use grown::{Growing, News};
use labels::Labels;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The most different WARN lines that are reported.
const WARNS: usize = 256;

/// Something to tell of.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A step's line has come.
    Step(Ended),
    /// NCCL warned of something that it had not warned of before: its text, and what it means.
    Warned(Vec<u8>, Option<&'static str>),
    /// The job moves again after a stall of so long.
    Moves(Duration),
}

/// A job that is watched.
pub struct Watch<'o> {
    read: &'o Read,
    timeline: timeline::Options,
    /// By input.
    logs: Vec<Growing>,
    /// Segment and number of the last step that was told of.
    last: Option<(u32, u64)>,
    /// When its line came.
    came: Option<Instant>,
    /// Calls since its line.
    since: Calls,
    /// All calls.
    all: Calls,
    /// Collectives by communicator and rank.
    ranks: Ranks,
    /// What communicators are for.
    labels: Labels,
    /// Lines that identify communicators, of what came last.
    inits: Vec<u8>,
    steps: u64,
    pace: Pace,
    /// WARN lines by their kind, and how often each came.
    warned: BTreeMap<Vec<u8>, u64>,
}

impl<'o> Watch<'o> {
    /// Nothing seen yet; `stall` is after how long without a call or a step line the job has
    /// stopped, if the user said it.
    pub fn new(read: &'o Read, stall: Option<Duration>, now: Instant) -> Watch<'o> {
        Watch {
            read,
            // A line's values are its own step's, also where it lags behind the calls.
            timeline: timeline::Options {
                as_printed: true,
                ..read.timeline.clone()
            },
            logs: Vec::new(),
            last: None,
            came: None,
            since: Calls::default(),
            all: Calls::default(),
            ranks: Ranks::default(),
            labels: Labels::new(),
            inits: Vec::new(),
            steps: 0,
            pace: Pace::new(stall, now),
            warned: BTreeMap::new(),
        }
    }

    /// Takes what has come of an input.
    pub fn grow(&mut self, grown: &Grown<'_>, now: Instant) -> Vec<Event> {
        if self.logs.len() <= grown.input {
            self.logs.resize_with(grown.input + 1, Growing::default);
        }
        let options = (&self.read.log, &self.timeline);
        let news = self.logs[grown.input].grow(grown.bytes, grown.anew, options);
        self.news(news, now)
    }

    /// The inputs ended: takes their last lines, where these have no end.
    pub fn end(&mut self, now: Instant) -> Vec<Event> {
        let options = (&self.read.log, &self.timeline);
        let news: Vec<News> = self.logs.iter_mut().map(|log| log.end(options)).collect();
        let events = news.into_iter().map(|news| self.news(news, now));
        events.collect::<Vec<_>>().concat()
    }

    fn news(&mut self, news: News, now: Instant) -> Vec<Event> {
        let mut events = Vec::new();
        // Before the first call a job is set up: whatever it prints shows that it moves.
        let is_new = self.all.all().calls == 0 && self.steps == 0;
        if news.moves {
            self.pace.begins();
        }
        if (news.moves || is_new)
            && let Some(rested) = self.pace.moves(now)
        {
            events.push(Event::Moves(rested));
        }
        for (process, identity, turns) in news.by_member {
            self.ranks.add(process, identity.as_ref(), turns);
        }
        self.inits = news.inits;
        for text in news.warned {
            events.extend(self.warns(text));
        }
        for ended in news.ended {
            self.since.add(&ended.calls);
            self.all.add(&ended.calls);
            let number = (ended.step.segment, ended.step.step);
            // Of a line that each rank prints the first counts.
            if self.last.is_some_and(|last| number <= last) {
                continue;
            }
            self.last = Some(number);
            self.steps += 1;
            let came = self.came.replace(now);
            let by_clock = || came.map(|came| now.saturating_duration_since(came).as_secs_f64());
            // A line that stands for several steps gives the time of one.
            let seconds = ended.step.time_s.map(|s| s * ended.step.steps as f64);
            if let Some(seconds) = seconds.or_else(by_clock) {
                self.pace.step(seconds);
            }
            events.push(Event::Step(Ended {
                step: ended.step,
                calls: std::mem::take(&mut self.since),
            }));
        }
        self.since.add(&news.calls);
        self.all.add(&news.calls);
        events
    }

    /// The event of a WARN line, if it is of a new kind.
    fn warns(&mut self, text: Vec<u8>) -> Option<Event> {
        let known = known(&text);
        let kind = known.map_or(&text[..], |known| known.id.as_bytes());
        if let Some(n) = self.warned.get_mut(kind) {
            *n += 1;
            return None;
        }
        if self.warned.len() >= WARNS {
            return None;
        }
        self.warned.insert(kind.to_vec(), 1);
        let means = known.map(|known| known.means);
        Some(Event::Warned(text, means))
    }

    /// True once for each stall: no call and no step line have come for longer than is expected.
    pub fn stalls(&mut self, now: Instant) -> bool {
        self.pace.stalls(now)
    }

    /// How fast the job goes.
    pub fn pace(&self) -> &Pace {
        &self.pace
    }

    /// All calls so far.
    pub fn calls(&self) -> &Calls {
        &self.all
    }

    /// Collectives by communicator and rank.
    pub fn ranks(&self) -> &Ranks {
        &self.ranks
    }

    /// What a communicator is for, `tensor`, or `tensor?` where that is not quite sure; as far as it is
    /// known.
    pub fn label(&self, id: &CommId) -> Option<&str> {
        self.labels.get(id).map(String::as_str)
    }

    /// Lines that identify communicators, of what came last.
    fn inits(&self) -> &[u8] {
        &self.inits
    }

    /// An input's line that has no end yet.
    fn begun(&self, input: usize) -> &[u8] {
        self.logs.get(input).map_or(&[], Growing::begun)
    }

    /// The number of the last step whose line came.
    pub fn step(&self) -> Option<u64> {
        self.last.map(|(_, step)| step)
    }

    /// How many steps' lines came.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// WARN lines by their kind: how many.
    pub fn warnings(&self) -> impl Iterator<Item = u64> {
        self.warned.values().copied()
    }
}
