//! How the jobs of each input ended, by their own word, their launcher's or PyTorch's: what follows
//! a job's own end is of no consequence, and a failure that ended it is more than a warning.
//!
//! An input may hold several jobs, one after the other: an end is only the end of what was at work
//! before it. Of lines of one kind that follow each other the first and the last are kept, so memory
//! follows the changes between kinds.

use super::finding::Evidence;
use super::warnings::TEXT;
use super::words::text;
use crate::grammar::ending::{Ending, How, ending};
use crate::grammar::message::Message;
use crate::grammar::message::init::Stage;
use crate::grammar::message::net::Net;
use crate::grammar::message::version::Component;
use crate::scan::Said;
use crate::stages::net::all::First;
use std::collections::BTreeMap;

/// How many stretches of lines of one kind are kept.
const STRETCHES: usize = 1 << 16;

/// What a line tells of its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A process begins to use NCCL, or to make a communicator.
    Begins,
    /// A communicator is made: the job goes on.
    GoesOn,
    /// The job is done, or failed.
    Ends(Ending),
}

/// A line that tells of an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// Where it stands.
    pub(super) at: First,
    /// What it says; at most 300 bytes.
    pub(super) text: Box<[u8]>,
}

impl Line {
    /// In a sentence.
    pub(super) fn quoted(&self) -> String {
        let end = |c: char| c == '.' || c.is_whitespace();
        text(&self.text).trim_end_matches(end).to_owned()
    }

    /// As evidence.
    pub(super) fn shown(&self) -> Evidence {
        Evidence {
            at: self.at.into(),
            text: Some(self.text.to_vec()),
        }
    }
}

/// Lines of one kind, with none of another between them.
#[derive(Debug)]
struct Stretch {
    kind: Kind,
    first: Line,
    last: Line,
}

impl Stretch {
    fn input(&self) -> u32 {
        self.first.at.input
    }
}

/// The ends of a chunk's jobs, or of all inputs', in line order.
#[derive(Debug, Default)]
pub(super) struct Ends {
    stretches: Vec<Stretch>,
    /// There were more than are kept: of what follows nothing is known.
    full: bool,
    /// By input, the lines that end a training step.
    steps: Vec<(u32, Vec<u64>)>,
}

impl Ends {
    /// Takes a message of NCCL's.
    pub(super) fn message(&mut self, said: &Said<'_>) {
        let kind = match &said.message {
            Message::Init(init) if init.stage == Stage::InitStart => Kind::Begins,
            Message::Init(init) if init.stage == Stage::InitComplete => Kind::GoesOn,
            Message::Net(Net::Nics(nics)) if nics.by == b"Bootstrap" => Kind::Begins,
            Message::Version(version) if version.of == Component::Nccl => Kind::Begins,
            _ => return,
        };
        let at = First {
            input: 0,
            line: said.line,
        };
        self.push(kind, at, b"");
    }

    /// Takes a line that is not NCCL's; `number` is its line in the chunk, from 0.
    pub(super) fn foreign(&mut self, line: &[u8], number: u64) {
        if let Some(end) = ending(line) {
            let at = First {
                input: 0,
                line: number,
            };
            self.push(Kind::Ends(end), at, line);
        }
    }

    fn push(&mut self, kind: Kind, at: First, text: &[u8]) {
        let line = Line {
            at,
            text: text[..text.len().min(TEXT)].into(),
        };
        let first = line.clone();
        let last = line;
        self.join(Stretch { kind, first, last });
    }

    fn join(&mut self, next: Stretch) {
        if self.full {
            return;
        }
        match self.stretches.last_mut() {
            Some(last) if last.kind == next.kind && last.input() == next.input() => {
                last.last = next.last;
            }
            _ => {
                self.full = self.stretches.len() >= STRETCHES;
                if !self.full {
                    self.stretches.push(next);
                }
            }
        }
    }

    /// Adds those of a chunk that follows; `placed` says where its lines stand.
    pub(super) fn add(&mut self, part: Ends, placed: impl Fn(First) -> First) {
        for mut stretch in part.stretches {
            stretch.first.at = placed(stretch.first.at);
            stretch.last.at = placed(stretch.last.at);
            self.join(stretch);
        }
        self.full |= part.full;
    }

    /// Where the training steps of an input end, its lines in order.
    pub(super) fn steps(&mut self, input: u32, lines: Vec<u64>) {
        self.steps.push((input, lines));
    }

    /// The first step line of the input behind `at`.
    fn next_step(&self, at: First) -> Option<u64> {
        let (_, lines) = self.steps.iter().find(|(input, _)| *input == at.input)?;
        lines
            .get(lines.partition_point(|&line| line <= at.line))
            .copied()
    }

    /// The place of the first stretch with a line behind `at`, and so on.
    fn behind(&self, at: First) -> usize {
        self.stretches.partition_point(|s| s.last.at <= at)
    }

    /// The job's own end that is in force at a line: the job did no work since, as far as the
    /// input tells, and no end of another kind followed.
    pub(super) fn done_before(&self, at: First) -> Option<&Line> {
        let next = self.behind(at);
        // The stretch around the line, or the one before it.
        let around = self.stretches.get(next).filter(|s| s.first.at < at);
        let before = next.checked_sub(1).and_then(|i| self.stretches.get(i));
        let stretch = around.or(before)?;
        let is_end = stretch.kind == Kind::Ends(Ending::Done);
        if !is_end || stretch.input() != at.input {
            return None;
        }
        let works = self.next_step(stretch.first.at);
        let begins = self.stretches[next..]
            .iter()
            .find(|s| matches!(s.kind, Kind::Begins | Kind::GoesOn))
            .filter(|s| s.input() == at.input)
            .map(|s| s.first.at.line);
        // A step line that no new start explains: the job had not ended.
        let goes_on = works.is_some_and(|step| begins.is_none_or(|begins| step < begins));
        (!goes_on).then_some(&stretch.first)
    }

    /// The job's own end behind a line, if no other job began and nothing failed between them.
    pub(super) fn done_behind(&self, at: First) -> Option<&Line> {
        let mut next = self.stretches[self.behind(at)..].iter();
        let next = next.find(|s| s.kind != Kind::GoesOn)?;
        let is_end = next.kind == Kind::Ends(Ending::Done) && next.input() == at.input;
        is_end.then_some(&next.first).filter(|line| line.at > at)
    }

    /// True where the input tells of no work of the job behind a line.
    pub(super) fn is_idle_behind(&self, at: First) -> bool {
        let mut next = self.stretches[self.behind(at)..].iter();
        let works = next.any(|s| s.input() == at.input && s.kind == Kind::GoesOn);
        !works && self.next_step(at).is_none()
    }

    /// The failure that another input than this ends with.
    pub(super) fn failed_elsewhere(&self, input: u32, is: impl Fn(How) -> bool) -> Option<&Line> {
        let others = self.stretches.iter().filter(|s| s.input() != input);
        let mut last: BTreeMap<u32, &Stretch> = BTreeMap::new();
        for stretch in others {
            last.insert(stretch.input(), stretch);
        }
        let failed = |s: &&&Stretch| matches!(s.kind, Kind::Ends(Ending::Failed(how)) if is(how));
        last.values().find(failed).map(|stretch| &stretch.first)
    }

    /// The first failure behind a line, if the job of the line did no work between them.
    pub(super) fn failed_behind(&self, at: First, is: impl Fn(How) -> bool) -> Option<&Line> {
        let works = self.next_step(at);
        for stretch in &self.stretches[self.behind(at)..] {
            let line = [&stretch.first, &stretch.last]
                .into_iter()
                .find(|line| line.at > at)?;
            if line.at.input != at.input || works.is_some_and(|step| step < line.at.line) {
                return None;
            }
            match stretch.kind {
                Kind::Ends(Ending::Failed(how)) if is(how) => return Some(line),
                Kind::Ends(Ending::Failed(_)) | Kind::Begins => {}
                Kind::GoesOn | Kind::Ends(Ending::Done) => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: Kind = Kind::Ends(Ending::Done);
    const FAILED: Kind = Kind::Ends(Ending::Failed(How::Itself));

    fn at(line: u64) -> First {
        First { input: 0, line }
    }

    fn ends(lines: &[(Kind, u64)], steps: &[u64]) -> Ends {
        let mut all = Ends::default();
        for &(kind, line) in lines {
            all.push(kind, at(line), b"");
        }
        all.steps(0, steps.to_vec());
        all
    }

    #[test]
    fn an_end_is_in_force_until_another_job_begins() {
        let all = ends(
            &[
                (Kind::GoesOn, 1),
                (DONE, 10),
                (DONE, 12),
                (Kind::Begins, 20),
                (Kind::GoesOn, 22),
            ],
            &[5, 9, 25],
        );
        let done = |line| all.done_before(at(line)).map(|line| line.at.line);
        assert_eq!([4, 9].map(done), [None; 2]);
        assert_eq!([11, 13, 19].map(done), [Some(10); 3]);
        assert_eq!([21, 30].map(done), [None; 2]);
        let to_come = |line| all.done_behind(at(line)).map(|line| line.at.line);
        assert_eq!([0, 9, 13].map(to_come), [Some(10), Some(10), None]);
        // Of another input nothing is said.
        assert_eq!(all.done_before(First { input: 1, line: 13 }), None);
        // A step line behind it: it was an epoch's end.
        let epoch = ends(&[(DONE, 10)], &[5, 20]);
        assert_eq!(epoch.done_before(at(12)), None);
        // What failed behind its end was not done.
        let failed = ends(&[(DONE, 10), (FAILED, 12)], &[]);
        assert_eq!(failed.done_before(at(13)), None);
    }

    #[test]
    fn a_failure_belongs_to_what_did_no_work_since() {
        let all = ends(&[(Kind::GoesOn, 1), (FAILED, 10), (FAILED, 14)], &[5]);
        let failed = |line| all.failed_behind(at(line), |_| true).map(|l| l.at.line);
        assert_eq!([4, 6, 11, 14].map(failed), [None, Some(10), Some(14), None]);
        assert!(all.is_idle_behind(at(6)) && !all.is_idle_behind(at(0)));
        assert!(all.failed_elsewhere(1, |_| true).is_some());
        assert!(all.failed_elsewhere(0, |_| true).is_none());
        let went_on = ends(&[(Kind::GoesOn, 8), (FAILED, 10)], &[]);
        assert_eq!(went_on.failed_behind(at(6), |_| true), None);
        assert_eq!(all.failed_behind(at(6), |how| how == How::Killed), None);
    }

    #[test]
    fn chunks_of_any_size_give_the_same() {
        let lines = [
            (Kind::GoesOn, 1),
            (DONE, 3),
            (DONE, 4),
            (FAILED, 5),
            (FAILED, 9),
        ];
        let whole = ends(&lines, &[]);
        for cut in 1..lines.len() {
            let mut all = Ends::default();
            for part in [&lines[..cut], &lines[cut..]] {
                all.add(ends(part, &[]), |at| at);
            }
            let seen = |all: &Ends| -> Vec<(u64, u64)> {
                let lines = all.stretches.iter();
                lines.map(|s| (s.first.at.line, s.last.at.line)).collect()
            };
            assert_eq!(seen(&all), seen(&whole));
        }
    }
}
