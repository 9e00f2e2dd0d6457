//! How the jobs of each input ended, by their own word, their launcher's or PyTorch's: what follows
//! a job's own end is of no consequence, and a failure that ended it is more than a warning.
//!
//! An input may hold several jobs, one after the other: an end is only the end of what was at work
//! before it. Of lines of one kind that follow each other the first and the last are kept, so memory
//! follows the changes between kinds.

use super::job_end_lines::{
    FailureLine, FailureLineText, JobEndLine, ReportedFailure, WATCHDOG_FRAME, describe_assertion,
    describe_frame,
};
use super::reported_failures;
use crate::grammar::ending::{
    EndingLine, FailureCause, FailureMode, LauncherReport, find_ending, process_of_line,
};
use crate::grammar::message::NcclMessage;
use crate::grammar::message::communicator::init::InitStage;
use crate::grammar::message::communicator::life_line::read_closed_connection;
use crate::grammar::message::network::net::NetMessage;
use crate::grammar::message::setup::version::Component;
use crate::log::walk::MessageLine;
use crate::stages::check::limits::MAX_LINE_TEXT_BYTES;
use crate::stages::check::log::limits::{
    MAX_FAILURE_LINES, MAX_JOB_EVENTS, MAX_LIST_END_LINES, MAX_RANK_LABEL_BYTES,
    MAX_STEPS_RANKS_AHEAD,
};
use crate::stages::net::net_stage::FirstReportLine;
use memchr::memmem;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The event that a line reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum JobEventKind {
    /// A process begins to use NCCL, or to make a communicator.
    Begins,
    /// A communicator is made: the job goes on.
    GoesOn,
    /// The job is done.
    Done,
    /// It failed.
    Failed(FailureMode),
}

/// Lines of one kind, with none of another between them.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct JobEventLines {
    pub(super) kind: JobEventKind,
    pub(super) first: JobEndLine,
    pub(super) last: JobEndLine,
}

impl JobEventLines {
    pub(super) fn input_number(&self) -> u32 {
        self.first.at.input
    }
}

/// True where PyTorch names NCCL's version at the end of an error: `NCCL error: ..., NCCL version 2.28.9`. Such a
/// line is the program's, not NCCL's.
pub(crate) fn has_version_suffix(line: &[u8]) -> bool {
    memmem::find(line, b", NCCL version ").is_some()
}

/// The ends of a chunk's jobs, or of all inputs', in line order.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct JobEnds {
    pub(super) stretches: Vec<JobEventLines>,
    /// There were more than are kept: of what follows nothing is known.
    full: bool,
    /// By input, the lines that end a training step, and the step.
    steps: BTreeMap<u32, Vec<(u64, u64)>>,
    /// The first message of each process, and its place in bytes of the input.
    begins: BTreeMap<u32, (FirstReportLine, u64)>,
    /// By input, the first lines of processes that took over from others.
    again: BTreeMap<u32, Vec<u64>>,
    /// Lines that report failures.
    told: Vec<FailureLine>,
    /// Lines that begin with a rank, `[rank3]:`.
    spoke: Vec<(FirstReportLine, u32)>,
    /// Connections that a process of the same host closed: the line, the process that reports it, the other's rank
    /// among those of the host.
    closed: Vec<(FirstReportLine, u32, u32)>,
    /// The ranks that print a traceback at the end of the chunk: its frames are noted once.
    #[serde(skip)]
    traced: BTreeSet<Option<u32>>,
    /// The chunk has an assertion of a kernel: one is noted.
    #[serde(skip)]
    has_assertion: bool,
}

impl JobEnds {
    /// Takes a message of NCCL's.
    pub(crate) fn take_message(&mut self, said: &MessageLine<'_>) {
        let at = FirstReportLine::in_chunk(said.line);
        self.begins.entry(said.process).or_insert((at, said.at));
        let kind = match &said.message {
            NcclMessage::Init(init) if init.stage == InitStage::InitStart => JobEventKind::Begins,
            NcclMessage::Init(init) if init.stage == InitStage::InitComplete => {
                JobEventKind::GoesOn
            }
            NcclMessage::Net(NetMessage::Nics(nics)) if nics.by == b"Bootstrap" => {
                JobEventKind::Begins
            }
            NcclMessage::Version(version) if version.of == Component::Nccl => JobEventKind::Begins,
            NcclMessage::Plain(_, text) => {
                let closed = read_closed_connection(text);
                let closed = closed.filter(|_| self.closed.len() < MAX_FAILURE_LINES);
                self.closed
                    .extend(closed.map(|rank| (at, said.process, rank)));
                return;
            }
            _ => return,
        };
        self.push_event(kind, at, b"");
    }

    /// The rank among those of its host that closed its connections after a line, and a process that reports it, if
    /// there is only one such rank.
    pub(crate) fn closed_local_rank_after(
        &self,
        at: FirstReportLine,
        host: impl Fn(u32) -> Box<[u8]>,
    ) -> Option<(u32, Box<[u8]>)> {
        let after = self
            .closed
            .iter()
            .filter(|(line, ..)| line.input == at.input && *line > at);
        let named: BTreeSet<(Box<[u8]>, u32)> =
            after.map(|(_, by, rank)| (host(*by), *rank)).collect();
        match Vec::from_iter(named).as_slice() {
            [(host, rank)] => Some((*rank, host.clone())),
            _ => None,
        }
    }

    /// Takes a line that is not NCCL's; `number` is its line in the chunk, from 0. Returns whether a program
    /// reports an error of NCCL's by it, or announces NCCL's last WARN.
    pub(crate) fn take_foreign_line(&mut self, line: &[u8], number: u64) -> bool {
        let at = FirstReportLine::in_chunk(number);
        self.note_rank_line(line, at);
        match find_ending(line) {
            None => false,
            Some(EndingLine::LastWarn) => true,
            Some(EndingLine::Done) => {
                self.push_event(JobEventKind::Done, at, line);
                false
            }
            Some(end) => {
                self.note_ending(end, at, line);
                end.may_relay_nccl_error()
            }
        }
    }

    /// A line of a rank's own, not of NCCL's.
    pub(crate) fn note_rank_line(&mut self, line: &[u8], at: FirstReportLine) {
        // A launcher's label or a collector's fields may be in front.
        let label = &line[..line.len().min(MAX_RANK_LABEL_BYTES)];
        let begins = |at: usize| at == 0 || b" \t\"'`>;|".contains(&line[at - 1]);
        if memmem::find_iter(label, b"[rank").any(begins)
            && let Some(rank) = process_of_line(line).rank
            && self.spoke.len() < MAX_FAILURE_LINES
        {
            self.spoke.push((at, rank));
        }
    }

    fn note_ending(&mut self, end: EndingLine<'_>, at: FirstReportLine, text: &[u8]) {
        let what = match end {
            EndingLine::Done | EndingLine::LastWarn => return,
            EndingLine::Traceback(who) => match self.traced.insert(who.rank) {
                true => FailureLineText::Traceback(who.rank),
                false => return,
            },
            EndingLine::Ignored(who) => FailureLineText::Ignored(who.rank),
            EndingLine::Chained(who) => FailureLineText::Chained(who.rank),
            EndingLine::NcclFrame(frame) => {
                // The innermost one comes first.
                let last = self.told.last().map(|told| &told.what);
                if matches!(last, Some(FailureLineText::NcclFrame(_))) {
                    return;
                }
                FailureLineText::NcclFrame(describe_frame(frame))
            }
            EndingLine::LauncherFrame => FailureLineText::LauncherFrame,
            EndingLine::WatchdogFrame => FailureLineText::NcclFrame(WATCHDOG_FRAME.into()),
            EndingLine::Reason(reason) => {
                let end = reason.len().min(MAX_LINE_TEXT_BYTES);
                FailureLineText::Reason(reason[..end].into())
            }
            EndingLine::KernelAssertion(assertion) => {
                if std::mem::replace(&mut self.has_assertion, true) {
                    return;
                }
                FailureLineText::Assertion(describe_assertion(assertion))
            }
            EndingLine::Part(LauncherReport::First) => FailureLineText::First,
            EndingLine::Part(LauncherReport::ErrorFile) => FailureLineText::ListEntry,
            EndingLine::Part(LauncherReport::ListEnd) => {
                // The process may be in the chunk before.
                let last = self.told.last().map_or(0, |told| told.line.at.line);
                match at.line <= last + MAX_LIST_END_LINES {
                    true => FailureLineText::ListEnd,
                    false => return,
                }
            }
            EndingLine::Part(LauncherReport::Time(time)) => FailureLineText::Time(time.into()),
            EndingLine::Part(LauncherReport::Host(host)) => FailureLineText::Host(host.into()),
            EndingLine::Part(LauncherReport::Rank(who)) => match who.rank {
                Some(rank) => FailureLineText::Rank(rank, who.local_rank),
                None => return,
            },
            EndingLine::Failed(failure) => {
                self.traced.remove(&failure.who.rank);
                // Only with its traceback is an exception more than words.
                if !matches!(
                    failure.what,
                    FailureCause::Exception | FailureCause::Repeated | FailureCause::Warned
                ) {
                    self.push_event(JobEventKind::Failed(failure.what.failure_mode()), at, text);
                }
                let says = &failure.says[..failure.says.len().min(MAX_LINE_TEXT_BYTES)];
                FailureLineText::Failed(failure.what, failure.who.into(), says.into())
            }
        };
        if self.told.len() < MAX_FAILURE_LINES {
            let line = JobEndLine::keep_line(at, text);
            self.told.push(FailureLine { line, what });
        }
    }

    fn push_event(&mut self, kind: JobEventKind, at: FirstReportLine, text: &[u8]) {
        let line = JobEndLine::keep_line(at, text);
        let first = line.clone();
        let last = line;
        self.join_event(JobEventLines { kind, first, last });
    }

    fn join_event(&mut self, next: JobEventLines) {
        if self.full {
            return;
        }
        match self.stretches.last_mut() {
            Some(last) if last.kind == next.kind && last.input_number() == next.input_number() => {
                last.last = next.last;
            }
            _ => {
                self.full = self.stretches.len() >= MAX_JOB_EVENTS;
                if !self.full {
                    self.stretches.push(next);
                }
            }
        }
    }

    /// Adds the lines of a chunk that follows; `placed` gives the position of its lines, `merged`
    /// the number of its processes.
    pub(crate) fn add_chunk(
        &mut self,
        part: JobEnds,
        placed: impl Fn(FirstReportLine) -> FirstReportLine,
        merged: impl Fn(u32) -> u32,
    ) {
        for mut told in part.told {
            told.line.at = placed(told.line.at);
            if self.told.len() < MAX_FAILURE_LINES {
                self.told.push(told);
            }
        }
        let room = MAX_FAILURE_LINES.saturating_sub(self.spoke.len());
        let spoke = part.spoke.into_iter().take(room);
        self.spoke
            .extend(spoke.map(|(at, rank)| (placed(at), rank)));
        for (at, by, rank) in part.closed {
            if self.closed.len() < MAX_FAILURE_LINES {
                self.closed.push((placed(at), merged(by), rank));
            }
        }
        for (process, (at, byte)) in part.begins {
            let begin = (placed(at), byte);
            let first = self.begins.entry(merged(process)).or_insert(begin);
            *first = begin.min(*first);
        }
        for mut stretch in part.stretches {
            stretch.first.at = placed(stretch.first.at);
            stretch.last.at = placed(stretch.last.at);
            self.join_event(stretch);
        }
        self.full |= part.full;
    }

    /// The first message of a process.
    pub(crate) fn first_message_of(&self, process: u32) -> Option<FirstReportLine> {
        self.begins.get(&process).map(|(at, _)| *at)
    }

    /// The first message of each process.
    pub(crate) fn first_messages(&self) -> impl Iterator<Item = (u32, FirstReportLine)> {
        let begins = self.begins.iter();
        begins.map(|(&process, (at, _))| (process, *at))
    }

    /// Adds the places, in bytes of the input, at which processes took over from others; `speakers` are the
    /// processes with lines in it.
    pub(crate) fn add_takeovers(
        &mut self,
        input: u32,
        speakers: &BTreeSet<u32>,
        bytes: impl Iterator<Item = u64>,
    ) {
        let begins = speakers.iter().filter_map(|own| self.begins.get(own));
        let here = begins.filter(|(at, _)| at.input == input);
        let begins: BTreeMap<u64, u64> = here.map(|(at, byte)| (*byte, at.line)).collect();
        let line = |at: u64| begins.range(at..).next().map(|(_, line)| *line);
        let mut lines: Vec<u64> = bytes.filter_map(line).collect();
        lines.sort_unstable();
        self.again.insert(input, lines);
    }

    /// The ends that lines report, in line order: exceptions with their traceback, and what
    /// launchers, the scheduler and the system report.
    pub(crate) fn collect_reported(&self) -> Vec<ReportedFailure> {
        reported_failures::collect_failures(&self.told, self.is_excerpt(), self.has_steps())
    }

    fn has_steps(&self) -> bool {
        self.steps.values().any(|steps| !steps.is_empty())
    }

    /// True where no process uses NCCL and no step ends: the text may be a few lines of a longer one, so a
    /// traceback may be missing.
    pub(crate) fn is_excerpt(&self) -> bool {
        self.begins.is_empty() && !self.has_steps()
    }

    /// The ranks with a line of their own at or after a line, before the job begins again.
    pub(crate) fn ranks_speaking_after(&self, at: FirstReportLine) -> BTreeSet<u32> {
        let again = self.restart_after(at);
        let first = self.spoke.partition_point(|spoke| spoke.0.input < at.input);
        let here = self.spoke[first..].iter();
        let here = here.take_while(|(line, _)| line.input == at.input);
        let those = here.filter(|(line, _)| *line >= at && again.is_none_or(|again| *line < again));
        those.map(|(_, rank)| *rank).collect()
    }

    /// Returns the line after `at` at which the same input's job is started again.
    pub(crate) fn restart_after(&self, at: FirstReportLine) -> Option<FirstReportLine> {
        let lines = self.again.get(&at.input)?;
        let next = lines.partition_point(|&line| line <= at.line);
        lines.get(next).map(|&line| FirstReportLine { line, ..at })
    }

    /// Adds the lines at which an input's training steps end, in order, with the steps' numbers.
    pub(crate) fn add_step_lines(&mut self, input: u32, lines: Vec<(u64, u64)>) {
        self.steps.entry(input).or_default().extend(lines);
    }

    /// Adds lines of old steps, but only those that answer later questions: whether the job went on
    /// after a failure, or between two lines of its end, and the least and the greatest step. All
    /// events before the next step must be known.
    pub(crate) fn add_old_step_lines(&mut self, input: u32, lines: &[(u64, u64)]) {
        let here = |at: &FirstReportLine| at.input == input;
        let told = self.told.iter().map(|told| told.line.at);
        let stretches = || self.stretches.iter();
        let firsts = || stretches().map(|stretch| stretch.first.at);
        let lasts = stretches().map(|stretch| stretch.last.at);
        let up_to = |at: FirstReportLine| lines.partition_point(|(line, _)| *line <= at.line);
        let asked: BTreeSet<usize> = told.chain(firsts()).filter(here).map(up_to).collect();
        let step = |at: &usize| lines[*at].1;
        let least = (0..lines.len()).min_by_key(step);
        let most = (0..lines.len()).max_by_key(step);
        let mut kept: BTreeSet<usize> = least.into_iter().chain(most).collect();
        // The last step before each event; the last line may be the one of a later event.
        let before = |at: FirstReportLine| up_to(at).checked_sub(1);
        kept.extend(firsts().chain(lasts).filter(here).filter_map(before));
        kept.extend(lines.len().checked_sub(1));
        for next in asked {
            let mut seen = BTreeSet::new();
            for (at, (_, step)) in lines.iter().enumerate().skip(next) {
                if seen.insert(step) {
                    kept.insert(at);
                }
                if seen.len() > MAX_STEPS_RANKS_AHEAD {
                    break;
                }
            }
        }
        let kept = kept.into_iter().map(|at| lines[at]).collect();
        self.add_step_lines(input, kept);
    }

    /// The first and the last step of each input that has any.
    pub(crate) fn first_last_steps(&self) -> impl Iterator<Item = (u32, (u64, u64))> {
        self.steps.iter().filter_map(|(input, lines)| {
            let steps = || lines.iter().map(|(_, step)| *step);
            Some((*input, (steps().min()?, steps().max()?)))
        })
    }

    /// The step lines of the input after `at`.
    fn step_lines_after(&self, at: FirstReportLine) -> &[(u64, u64)] {
        let lines = self.steps.get(&at.input).map_or(&[][..], |lines| lines);
        &lines[lines.partition_point(|&(line, _)| line <= at.line)..]
    }

    /// The first step line of the input after `at`.
    pub(crate) fn next_step_after(&self, at: FirstReportLine) -> Option<u64> {
        self.step_lines_after(at).first().map(|(line, _)| *line)
    }

    /// True if the job went on after `from`, and before `to`: it ended more steps than its ranks
    /// may be ahead. All ranks may print a step's line.
    pub(crate) fn has_gone_on(&self, from: FirstReportLine, to: Option<FirstReportLine>) -> bool {
        let steps = self.step_lines_after(from).iter();
        let steps = steps.take_while(|(line, _)| to.is_none_or(|to| *line < to.line));
        let mut seen = BTreeSet::new();
        steps.map(|(_, step)| step).any(|&step| {
            seen.insert(step);
            seen.len() > MAX_STEPS_RANKS_AHEAD
        })
    }

    /// The place of the first stretch with a line after `at`, and so on.
    pub(super) fn first_event_after(&self, at: FirstReportLine) -> usize {
        self.stretches.partition_point(|s| s.last.at <= at)
    }

    /// Returns the job's own end that is valid at a line: the input shows no work after it, and no
    /// other kind of end.
    pub(crate) fn done_line_before(&self, at: FirstReportLine) -> Option<&JobEndLine> {
        let next = self.first_event_after(at);
        // The stretch around the line, or the one before it.
        let around = self.stretches.get(next).filter(|s| s.first.at < at);
        let before = next.checked_sub(1).and_then(|i| self.stretches.get(i));
        let stretch = around.or(before)?;
        let is_end = stretch.kind == JobEventKind::Done;
        if !is_end || stretch.input_number() != at.input {
            return None;
        }
        let works = self.next_step_after(stretch.first.at);
        let begins = self.stretches[next..]
            .iter()
            .find(|s| matches!(s.kind, JobEventKind::Begins | JobEventKind::GoesOn))
            .filter(|s| s.input_number() == at.input)
            .map(|s| s.first.at.line);
        // A step line that no new start explains: the job had not ended.
        let goes_on = works.is_some_and(|step| begins.is_none_or(|begins| step < begins));
        (!goes_on).then_some(&stretch.first)
    }

    /// True if the input shows no work of the job after a line.
    pub(crate) fn is_idle_after(&self, at: FirstReportLine) -> bool {
        let next = self.stretches[self.first_event_after(at)..].iter();
        let mut here = next.take_while(|s| s.input_number() == at.input);
        let works = here.any(|s| s.kind == JobEventKind::GoesOn);
        !works && self.next_step_after(at).is_none()
    }

    /// The failure that another input than this ends with.
    pub(crate) fn failure_in_other_input(
        &self,
        input: u32,
        is: impl Fn(FailureMode) -> bool,
    ) -> Option<&JobEndLine> {
        let others = self.stretches.iter().filter(|s| s.input_number() != input);
        let mut last: BTreeMap<u32, &JobEventLines> = BTreeMap::new();
        for stretch in others {
            last.insert(stretch.input_number(), stretch);
        }
        let failed = |s: &&&JobEventLines| matches!(s.kind, JobEventKind::Failed(how) if is(how));
        last.values().find(failed).map(|stretch| &stretch.first)
    }

    /// The first failure after a line, if the job of the line did no work between them.
    pub(crate) fn failure_after(
        &self,
        at: FirstReportLine,
        is: impl Fn(FailureMode) -> bool,
    ) -> Option<&JobEndLine> {
        let works = self.next_step_after(at);
        for stretch in &self.stretches[self.first_event_after(at)..] {
            let line = [&stretch.first, &stretch.last]
                .into_iter()
                .find(|line| line.at > at)?;
            if line.at.input != at.input || works.is_some_and(|step| step < line.at.line) {
                return None;
            }
            match stretch.kind {
                JobEventKind::Failed(how) if is(how) => return Some(line),
                JobEventKind::Failed(_) | JobEventKind::Begins => {}
                JobEventKind::GoesOn | JobEventKind::Done => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DONE: JobEventKind = JobEventKind::Done;
    const FAILED: JobEventKind = JobEventKind::Failed(FailureMode::Itself);

    fn at(line: u64) -> FirstReportLine {
        FirstReportLine { input: 0, line }
    }

    fn ends(lines: &[(JobEventKind, u64)], steps: &[u64]) -> JobEnds {
        let mut all = JobEnds::default();
        for &(kind, line) in lines {
            all.push_event(kind, at(line), b"");
        }
        all.add_step_lines(0, steps.iter().map(|&line| (line, line)).collect());
        all
    }

    #[test]
    fn an_end_is_in_force_until_another_job_begins() {
        let all = ends(
            &[
                (JobEventKind::GoesOn, 1),
                (DONE, 10),
                (DONE, 12),
                (JobEventKind::Begins, 20),
                (JobEventKind::GoesOn, 22),
            ],
            &[5, 9, 25],
        );
        let done = |line| all.done_line_before(at(line)).map(|line| line.at.line);
        assert_eq!([4, 9].map(done), [None; 2]);
        assert_eq!([11, 13, 19].map(done), [Some(10); 3]);
        assert_eq!([21, 30].map(done), [None; 2]);
        let to_come = |line| all.done_line_after(at(line)).map(|line| line.at.line);
        assert_eq!([0, 9, 13].map(to_come), [Some(10), Some(10), None]);
        // Nothing is reported of another input.
        assert_eq!(
            all.done_line_before(FirstReportLine { input: 1, line: 13 }),
            None
        );
        // A step line after it: it was an epoch's end.
        let epoch = ends(&[(DONE, 10)], &[5, 20]);
        assert_eq!(epoch.done_line_before(at(12)), None);
        // What failed after its end was not done.
        let failed = ends(&[(DONE, 10), (FAILED, 12)], &[]);
        assert_eq!(failed.done_line_before(at(13)), None);
    }

    #[test]
    fn a_failure_belongs_to_what_did_no_work_since() {
        let all = ends(
            &[(JobEventKind::GoesOn, 1), (FAILED, 10), (FAILED, 14)],
            &[5],
        );
        let failed = |line| all.failure_after(at(line), |_| true).map(|l| l.at.line);
        assert_eq!([4, 6, 11, 14].map(failed), [None, Some(10), Some(14), None]);
        assert!(all.is_idle_after(at(6)) && !all.is_idle_after(at(0)));
        assert!(all.failure_in_other_input(1, |_| true).is_some());
        assert!(all.failure_in_other_input(0, |_| true).is_none());
        let went_on = ends(&[(JobEventKind::GoesOn, 8), (FAILED, 10)], &[]);
        assert_eq!(went_on.failure_after(at(6), |_| true), None);
        assert_eq!(
            all.failure_after(at(6), |how| how == FailureMode::Killed),
            None
        );
    }

    proptest! {
        /// After lines of old steps are dropped, at once or bit by bit, the answers are as from all
        /// lines.
        #[test]
        fn old_steps_tell_what_all_of_them_would(
            kinds in proptest::collection::vec((0..5_u8, 1..30_u64), 0..12),
            steps in proptest::collection::vec((1..4_u64, 0..6_u64), 0..60),
            cuts in proptest::collection::btree_set(0..60_usize, 0..4),
        ) {
            let mut line = 0;
            let tell = |all: &mut JobEnds, kind: u8, line: u64| match kind {
                0 => all.push_event(JobEventKind::Begins, at(line), b""),
                1 => all.push_event(JobEventKind::GoesOn, at(line), b""),
                2 => all.push_event(DONE, at(line), b""),
                3 => all.push_event(FAILED, at(line), b""),
                _ => all.told.push(FailureLine {
                    line: JobEndLine { at: at(line), text: Box::default() },
                    what: FailureLineText::First,
                }),
            };
            let mut whole = JobEnds::default();
            for (kind, more) in kinds {
                line += more;
                tell(&mut whole, kind, line);
            }
            let mut after = 0;
            // No line is of two kinds.
            let lines = steps.into_iter().map(|(more, step)| {
                after += more;
                (after, step)
            });
            let is_free = |line: &(u64, u64)| {
                let told = whole.told.iter().map(|told| &told.line);
                let ends = whole.stretches.iter().flat_map(|s| [&s.first, &s.last]);
                !told.chain(ends).any(|told| told.at.line == line.0)
            };
            let lines: Vec<(u64, u64)> = lines.filter(is_free).collect();
            let again = |all: &JobEnds| JobEnds {
                told: all.told.clone(),
                stretches: all.stretches.iter().map(|s| JobEventLines {
                    kind: s.kind,
                    first: s.first.clone(),
                    last: s.last.clone(),
                }).collect(),
                ..JobEnds::default()
            };
            let mut thin = again(&whole);
            let cuts = cuts.into_iter().filter(|&cut| cut < lines.len());
            let mut done = 0;
            for cut in cuts {
                thin.add_old_step_lines(0, &lines[done..cut]);
                done = cut;
            }
            // The last steps are always kept.
            thin.add_step_lines(0, lines[done..].to_vec());
            whole.add_step_lines(0, lines.clone());
            prop_assert_eq!(Vec::from_iter(thin.first_last_steps()), Vec::from_iter(whole.first_last_steps()));
            let told = || whole.told.iter().map(|told| told.line.at);
            for from in told() {
                prop_assert_eq!(thin.has_gone_on(from, None), whole.has_gone_on(from, None));
                for to in told() {
                    prop_assert_eq!(thin.has_gone_on(from, Some(to)), whole.has_gone_on(from, Some(to)));
                }
            }
            for line in 0..line.max(after) + 2 {
                let of = |all: &JobEnds| {
                    let done = all.done_line_before(at(line)).map(|line| line.at);
                    let behind = all.done_line_after(at(line)).map(|line| line.at);
                    let failed = all.failure_after(at(line), |_| true).map(|line| line.at);
                    (done, behind, failed, all.is_idle_after(at(line)))
                };
                prop_assert_eq!(of(&thin), of(&whole), "{}", line);
            }
        }
    }

    #[test]
    fn a_job_went_on_that_ended_more_steps_than_ranks_are_ahead() {
        let mut all = ends(&[], &[]);
        // Two ranks print.
        let lines = (10..20).map(|line| (line, line / 2));
        all.add_step_lines(0, lines.collect());
        assert!(all.has_gone_on(at(9), None) && all.has_gone_on(at(11), None));
        assert!(!all.has_gone_on(at(13), None) && !all.has_gone_on(at(9), Some(at(16))));
        assert!(!all.has_gone_on(FirstReportLine { input: 1, line: 0 }, None));
    }

    #[test]
    fn chunks_of_any_size_give_the_same() {
        let lines = [
            (JobEventKind::GoesOn, 1),
            (DONE, 3),
            (DONE, 4),
            (FAILED, 5),
            (FAILED, 9),
        ];
        let whole = ends(&lines, &[]);
        for cut in 1..lines.len() {
            let mut all = JobEnds::default();
            for part in [&lines[..cut], &lines[cut..]] {
                all.add_chunk(ends(part, &[]), |at| at, |process| process);
            }
            let seen = |all: &JobEnds| -> Vec<(u64, u64)> {
                let lines = all.stretches.iter();
                lines.map(|s| (s.first.at.line, s.last.at.line)).collect()
            };
            assert_eq!(seen(&all), seen(&whole));
        }
    }
}
