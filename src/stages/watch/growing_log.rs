//! One log that grows: whole lines of it are walked as they come.

use super::calls::{CallsByOp, WatchChunk, WatchedMemberCalls};
use crate::log::timeline::{self, StepTimeline, TrainStep};
use crate::log::walk;
use crate::log::{LogState, Options};
use crate::members::{CommIdentity, MergedMembers, MergedNumbers, SpeakerProcess};
use crate::source::CutPlace;
use memchr::memrchr;

/// A line of more bytes is not waited for.
const MAX_WAITING_LINE_BYTES: usize = 16 << 20;

/// Marks by which steps are named: the last ones.
const MARKS_KEPT: usize = 512;

/// A step's line has come.
#[derive(Debug, Clone, PartialEq)]
pub struct StepEvent {
    /// The step.
    pub step: TrainStep,
    /// What was called since the step line before.
    pub calls: CallsByOp,
}

/// What new lines tell.
#[derive(Debug, Default)]
pub(super) struct GrowthNews {
    /// Steps whose lines have come, in their order, with the calls of this log before each.
    pub(super) ended: Vec<StepEvent>,
    /// Calls after the last of them.
    pub(super) calls: CallsByOp,
    /// Texts of WARN lines.
    pub(super) warned: Vec<Vec<u8>>,
    /// Calls by member: its process, and its communicator and rank where they are known.
    pub(super) by_member: Vec<(SpeakerProcess, Option<CommIdentity>, WatchedMemberCalls)>,
    /// Lines that identify communicators.
    pub(super) inits: Vec<u8>,
    /// A call or a mark was among them.
    pub(super) moves: bool,
}

/// A log that grows.
#[derive(Debug)]
pub(super) struct GrowingLog {
    log: LogState,
    merged: MergedMembers,
    /// The beginning of a line.
    rest: Vec<u8>,
    /// Bytes walked.
    offset: u64,
    /// No line waits for its end.
    quiet: bool,
    /// Marks whose steps were told.
    told: usize,
}

impl Default for GrowingLog {
    fn default() -> GrowingLog {
        GrowingLog {
            log: LogState::default(),
            merged: MergedMembers::default(),
            rest: Vec::new(),
            offset: 0,
            quiet: true,
            told: 0,
        }
    }
}

impl GrowingLog {
    /// Takes what has come; `anew` where it is the beginning of another file.
    pub(super) fn read_growth(
        &mut self,
        bytes: &[u8],
        anew: bool,
        (options, steps): (&Options, &timeline::Options),
    ) -> GrowthNews {
        if anew && !self.rest.is_empty() {
            self.rest.push(b'\n');
        }
        let before = self.rest.len();
        self.rest.extend_from_slice(bytes);
        let end = match memrchr(b'\n', &self.rest[before..]) {
            Some(end) => before + end + 1,
            None if anew => before,
            None if self.rest.len() > MAX_WAITING_LINE_BYTES => self.rest.len(),
            None => return GrowthNews::default(),
        };
        let rest = self.rest.split_off(end);
        let piece = std::mem::replace(&mut self.rest, rest);
        self.walk_piece(&piece, (options, steps))
    }

    /// Takes a last line without an end.
    pub(super) fn read_last_line(&mut self, options: (&Options, &timeline::Options)) -> GrowthNews {
        let piece = std::mem::take(&mut self.rest);
        self.walk_piece(&piece, options)
    }

    fn walk_piece(
        &mut self,
        piece: &[u8],
        (options, steps): (&Options, &timeline::Options),
    ) -> GrowthNews {
        let place = walk::ChunkPlace {
            offset: self.offset,
            is_quiet: self.quiet,
        };
        let scanned = walk::walk_bytes(
            piece,
            place,
            &options.recogniser,
            true,
            WatchChunk::default(),
        );
        let mut inits = Vec::new();
        for (begin, end) in &scanned.init_lines {
            let within = |at: &u64| usize::try_from(at.saturating_sub(place.offset)).ok();
            let line = within(begin)
                .zip(within(end))
                .map(|(begin, end)| begin..end);
            inits.extend_from_slice(line.and_then(|line| piece.get(line)).unwrap_or_default());
            if inits.last().is_some_and(|&last| last != b'\n') {
                inits.push(b'\n');
            }
        }
        self.offset += piece.len() as u64;
        self.quiet = walk::classify_cut(piece, self.quiet) == CutPlace::Quiet;
        let mut to = MergedNumbers::default();
        let before = self.log.account.calls;
        let part = self.log.add_chunk(scanned, &mut self.merged, &mut to);
        let WatchChunk {
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
        let each = each.filter(|(_, turns)| *turns != WatchedMemberCalls::default());
        let by_member = each.map(who);
        let by_member = by_member.collect();
        self.log.init_lines.clear();
        let moves = self.log.account.calls > before || gaps.len() > 1;
        let mut news = GrowthNews {
            warned,
            by_member,
            inits,
            moves,
            ..GrowthNews::default()
        };
        if gaps.len() == 1 {
            gaps.iter().for_each(|calls| news.calls.add_calls(calls));
            return news;
        }
        let timeline = timeline::resolve_timeline(&self.log.marks, &[], steps);
        let first = self.told;
        for (at, calls) in gaps.iter().enumerate() {
            news.calls.add_calls(calls);
            if let Some(step) = step_of_mark(&timeline, first + at) {
                news.ended.push(StepEvent {
                    step: step.clone(),
                    calls: std::mem::take(&mut news.calls),
                });
            }
        }
        self.told = self.log.marks.len();
        self.forget_marks();
        news
    }

    /// The line that has no end yet.
    pub(super) fn unfinished_line(&self) -> &[u8] {
        &self.rest
    }

    /// Forgets marks that are no longer needed.
    fn forget_marks(&mut self) {
        let marks = &mut self.log.marks;
        if marks.len() >= 2 * MARKS_KEPT {
            marks.keep_last(MARKS_KEPT);
            self.told = marks.len();
        }
    }
}

/// The step whose first line is the mark `at`.
fn step_of_mark(timeline: &StepTimeline, at: usize) -> Option<&TrainStep> {
    let steps = timeline.steps.remaining();
    let found = steps.binary_search_by_key(&at, |step| step.mark);
    found.ok().map(|found| &steps[found])
}
