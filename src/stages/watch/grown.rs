//! One log that grows: whole lines of it are walked as they come.

use super::calls::{Calls, Kept, Turns};
use crate::log::timeline::{self, Step, Timeline};
use crate::log::walk;
use crate::log::{Log, Options};
use crate::members::{Identity, Merged, Process, Renumbered};
use crate::source::Place;
use memchr::memrchr;

/// A line of more bytes is not waited for.
const LONGEST_LINE: usize = 16 << 20;

/// Marks by which steps are named: the last ones.
const MARKS: usize = 512;

/// A step's line has come.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// The step.
    pub step: Step,
    /// What was called since the step line before.
    pub calls: Calls,
}

/// What new lines tell.
#[derive(Debug, Default)]
pub(super) struct News {
    /// Steps whose lines have come, in their order, with the calls of this log before each.
    pub(super) ended: Vec<Ended>,
    /// Calls after the last of them.
    pub(super) calls: Calls,
    /// Texts of WARN lines.
    pub(super) warned: Vec<Vec<u8>>,
    /// Calls by member: its process, and its communicator and rank where they are known.
    pub(super) by_member: Vec<(Process, Option<Identity>, Turns)>,
    /// Lines that identify communicators.
    pub(super) inits: Vec<u8>,
    /// A call or a mark was among them.
    pub(super) moves: bool,
}

/// A log that grows.
#[derive(Debug)]
pub(super) struct Growing {
    log: Log,
    merged: Merged,
    /// The beginning of a line.
    rest: Vec<u8>,
    /// Bytes walked.
    offset: u64,
    /// No line waits for its end.
    quiet: bool,
    /// Marks whose steps were told.
    told: usize,
}

impl Default for Growing {
    fn default() -> Growing {
        Growing {
            log: Log::default(),
            merged: Merged::default(),
            rest: Vec::new(),
            offset: 0,
            quiet: true,
            told: 0,
        }
    }
}

impl Growing {
    /// Takes what has come; `anew` where it is the beginning of another file.
    pub(super) fn grow(
        &mut self,
        bytes: &[u8],
        anew: bool,
        (options, steps): (&Options, &timeline::Options),
    ) -> News {
        if anew && !self.rest.is_empty() {
            self.rest.push(b'\n');
        }
        let before = self.rest.len();
        self.rest.extend_from_slice(bytes);
        let end = match memrchr(b'\n', &self.rest[before..]) {
            Some(end) => before + end + 1,
            None if anew => before,
            None if self.rest.len() > LONGEST_LINE => self.rest.len(),
            None => return News::default(),
        };
        let rest = self.rest.split_off(end);
        let piece = std::mem::replace(&mut self.rest, rest);
        self.walk(&piece, (options, steps))
    }

    /// Takes a last line without an end.
    pub(super) fn end(&mut self, options: (&Options, &timeline::Options)) -> News {
        let piece = std::mem::take(&mut self.rest);
        self.walk(&piece, options)
    }

    fn walk(&mut self, piece: &[u8], (options, steps): (&Options, &timeline::Options)) -> News {
        let place = (self.offset, self.quiet);
        let scanned = walk::scan(piece, place, &options.recogniser, true, Kept::default());
        let mut inits = Vec::new();
        for (begin, end) in &scanned.init_lines {
            let within = |at: &u64| usize::try_from(at.saturating_sub(place.0)).ok();
            let line = within(begin)
                .zip(within(end))
                .map(|(begin, end)| begin..end);
            inits.extend_from_slice(line.and_then(|line| piece.get(line)).unwrap_or_default());
            if inits.last().is_some_and(|&last| last != b'\n') {
                inits.push(b'\n');
            }
        }
        self.offset += piece.len() as u64;
        self.quiet = walk::place(piece, self.quiet) == Place::Quiet;
        let mut to = Renumbered::default();
        let before = self.log.account.calls;
        let part = self.log.add(scanned, &mut self.merged, &mut to);
        let Kept {
            gaps,
            warned,
            by_member,
        } = part.visit;
        let merged = part.merged;
        let who = |(&member, turns)| {
            let member = merged.origins.members.get(member);
            let place = merged.origins.places.get(member.place);
            let process = merged.origins.processes.get(place.process);
            (process.clone(), merged.identity_of(member), turns)
        };
        let each = part.to.members.iter().zip(by_member);
        let each = each.filter(|(_, turns)| *turns != Turns::default());
        let by_member = each.map(who);
        let by_member = by_member.collect();
        self.log.init_lines.clear();
        let moves = self.log.account.calls > before || gaps.len() > 1;
        let mut news = News {
            warned,
            by_member,
            inits,
            moves,
            ..News::default()
        };
        if gaps.len() == 1 {
            gaps.iter().for_each(|calls| news.calls.add(calls));
            return news;
        }
        let timeline = timeline::resolve(&self.log.marks, &[], steps);
        let first = self.told;
        for (at, calls) in gaps.iter().enumerate() {
            news.calls.add(calls);
            if let Some(step) = step_of(&timeline, first + at) {
                news.ended.push(Ended {
                    step: step.clone(),
                    calls: std::mem::take(&mut news.calls),
                });
            }
        }
        self.told = self.log.marks.len();
        self.forget();
        news
    }

    /// The line that has no end yet.
    pub(super) fn begun(&self) -> &[u8] {
        &self.rest
    }

    /// Forgets marks that are no longer needed.
    fn forget(&mut self) {
        let marks = &mut self.log.marks;
        if marks.len() >= 2 * MARKS {
            marks.keep_last(MARKS);
            self.told = marks.len();
        }
    }
}

/// The step whose first line is the mark `at`.
fn step_of(timeline: &Timeline, at: usize) -> Option<&Step> {
    let steps = timeline.steps.left();
    let found = steps.binary_search_by_key(&at, |step| step.mark);
    found.ok().map(|found| &steps[found])
}
