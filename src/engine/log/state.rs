//! The state of a log while its chunks are merged in order.

use super::limits::{MAX_DAMAGED_LINES_IGNORED, MIN_CALLS_PER_DAMAGED_LINE};
use crate::grammar::trainer::TrainerMark;
use crate::log::attempts::{AttemptFinder, AttemptStart};
use crate::log::mend::torn::{JoinedCall, TornLineJoiner};
use crate::log::timeline::{
    self, LiveTimeline, MarkList, MarkSlice, PositionOnlyReason, StepTimeline,
};
use crate::log::walk::{ChunkResult, LogCall, LogVisitor, MarkPosition, RepairedCall, TornPiece};
use crate::members::duplicate_inputs::InputLastCall;
use crate::members::{MergedMembers, MergedNumbers};
use crate::report::account::Account;
use crate::source::FlushReason;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The state of one log while it is read.
#[derive(Debug, Default)]
pub struct LogState {
    /// Counts its lines by what became of them.
    pub account: Account,
    /// Its marks, in order.
    pub marks: MarkList,
    /// Where new processes took over, if it has step lines.
    pub begins: Vec<AttemptStart>,
    /// Byte ranges of its INIT lines, if they were kept.
    pub init_lines: Vec<(u64, u64)>,
    /// The number of marks that were not kept.
    let_go: usize,
    /// The first mark that is still needed.
    needed: AtomicUsize,
    /// The last call that NCCL counted.
    pub(super) last: Option<InputLastCall>,
    /// True if the log is written in blocks and its rejoined lines are not counted yet.
    pub(super) is_in_blocks: bool,
    joiner: TornLineJoiner,
    attempts: AttemptFinder,
}

/// A chunk's results, in the order of the input.
pub struct MergedChunk<'a, V> {
    /// What the stage kept of it.
    pub visit: V,
    /// Maps the chunk's numbers to the merged ones.
    pub to: &'a MergedNumbers,
    /// The input's number of the chunk's first gap.
    pub gap: usize,
    /// The input's number of the chunk's first line, from 0.
    pub line: u64,
    /// All members met so far.
    pub merged: &'a MergedMembers,
    /// The input's marks so far.
    pub marks: MarkSlice<'a>,
    /// The log so far and the reason, if results may be written now.
    pub so_far: Option<(&'a LogState, FlushReason)>,
}

impl<'a, V> MergedChunk<'a, V> {
    /// Splits off what the stage kept. A stage that is made of others hands each its own by
    /// [`MergedChunk::with_visit`].
    pub fn take_visit(self) -> (V, MergedChunk<'a, ()>) {
        let rest = self.with_visit(());
        (self.visit, rest)
    }

    /// Returns the chunk with `visit` as what the stage kept.
    pub fn with_visit<W>(&self, visit: W) -> MergedChunk<'a, W> {
        MergedChunk {
            visit,
            to: self.to,
            gap: self.gap,
            line: self.line,
            merged: self.merged,
            marks: self.marks,
            so_far: self.so_far,
        }
    }
}

impl LogState {
    /// The state of an input that is no log.
    pub(crate) fn from_account(account: Account) -> LogState {
        LogState {
            account,
            ..LogState::default()
        }
    }

    /// Returns the log's steps.
    pub fn build_timeline(&self, options: &timeline::Options) -> StepTimeline {
        let mut timeline = timeline::resolve_timeline(&self.marks, &self.begins, options);
        timeline.by_position = timeline.by_position.or(self.position_reason());
        timeline
    }

    /// Returns the steps of a log that is still being written; `growing` has those found before.
    pub fn update_growing_timeline<'g>(
        &self,
        growing: &'g mut LiveTimeline,
        options: &timeline::Options,
    ) -> &'g StepTimeline {
        let timeline = growing.resolve_marks(&self.marks, &self.begins, options);
        timeline.by_position = timeline.by_position.or(self.position_reason());
        timeline
    }

    /// Returns the steps of a log that has ended. If its beginning is forgotten, only the later steps are left,
    /// as they are known.
    pub fn build_final_timeline(
        &self,
        growing: &mut LiveTimeline,
        options: &timeline::Options,
    ) -> StepTimeline {
        match self.marks.forgotten_count() {
            0 => growing.end_with(self.build_timeline(options)),
            _ => self.update_growing_timeline(growing, options).clone(),
        }
    }

    /// Marks gaps up to `gap` as no longer needed.
    pub fn forget_gaps_until(&self, gap: u32) {
        // The line that the gap ends with is where the next one begins.
        let needed = (gap as usize).saturating_sub(1);
        self.needed.fetch_max(needed, Ordering::Relaxed);
    }

    /// Returns why calls are placed by position, if the account of the lines shows a reason.
    fn position_reason(&self) -> Option<PositionOnlyReason> {
        match &self.account {
            account if self.is_in_blocks || account.block_writers > 0 => {
                Some(PositionOnlyReason::Buffered)
            }
            // A few lost calls are seen by what comes after them.
            account
                if account.overwritten > 1
                    || account.damaged
                        > MAX_DAMAGED_LINES_IGNORED
                            + account.calls / MIN_CALLS_PER_DAMAGED_LINE =>
            {
                Some(PositionOnlyReason::Lost)
            }
            _ => None,
        }
    }

    /// Adds the next chunk.
    pub fn add_chunk<'a, V: LogVisitor>(
        &'a mut self,
        scanned: ChunkResult<V>,
        merged: &'a mut MergedMembers,
        to: &'a mut MergedNumbers,
    ) -> MergedChunk<'a, V> {
        let ChunkResult {
            mut visit,
            origins,
            inits,
            init_lines,
            marks,
            fragments,
            account,
            prints,
            pause,
            is_in_blocks,
        } = scanned;
        self.is_in_blocks |= is_in_blocks;
        self.marks.forget_before(*self.needed.get_mut());
        let line = self.account.lines;
        let gap = self.let_go + self.marks.len();
        self.last = prints.last.or(self.last);
        self.account.merge(&account);
        merged.overwritten |= self.account.overwritten > 1;
        let mut joined = Vec::new();
        *to = merged.begin_chunk();
        for mut fragment in fragments {
            merged.add_chunk_until(fragment.at, to, &origins, &inits);
            fragment.line += line;
            match &mut fragment.piece {
                TornPiece::Head(begun) | TornPiece::Doubtful { begun, .. } => {
                    begun.place = to.places[begun.place as usize];
                }
                TornPiece::Heard { process } => *process = to.processes[*process as usize],
                TornPiece::Tail { .. } => {}
            }
            self.joiner
                .add_fragment(fragment, merged, &mut self.account, &mut joined);
        }
        merged.add_chunk_until(u64::MAX, to, &origins, &inits);
        self.attempts.add_inits(&inits, to);
        // Two inputs of one job have other ranks' lines of joining.
        let printed = marks.iter().filter(|m| m.mark != TrainerMark::Joined);
        merged.twice.add_steps(&prints, printed.map(|m| m.start));
        if origins.has_glued()
            && let Some(first) = first_same_processes(&to.processes)
        {
            visit.unify_processes(&first);
        }
        if !joined.is_empty() {
            visit.insert_torn_calls(&localize_joined_calls(&joined, merged, to));
        }
        self.init_lines.extend(init_lines);
        let placed = |m: MarkPosition| {
            let next_line = m.next_line + line;
            MarkPosition {
                line: m.line + line,
                next_line,
                ..m
            }
        };
        self.marks.extend(marks.into_iter().map(placed));
        if pause.is_some() {
            self.marks.pack_old();
            self.find_attempts(merged);
        }
        MergedChunk {
            visit,
            to,
            gap,
            line,
            merged,
            marks: self.marks.as_slice(),
            so_far: pause.map(|pause| (&*self, pause)),
        }
    }

    /// The state before the first chunk.
    pub(super) fn for_members(merged: &MergedMembers) -> LogState {
        LogState {
            attempts: AttemptFinder::new(merged),
            ..LogState::default()
        }
    }

    /// Forgets the marks so far.
    pub(super) fn drop_marks(&mut self) {
        self.let_go += self.marks.len();
        self.marks.clear();
    }

    /// Finds where new processes took over.
    pub(super) fn find_attempts(&mut self, merged: &MergedMembers) {
        self.begins = self.attempts.find_attempt_starts(merged);
    }

    /// The log ended.
    pub fn end_log(&mut self) {
        self.joiner.give_up_all(&mut self.account);
        self.account.end_input();
    }
}

/// Returns for each of a chunk's processes the first one with the same merged number; `None` if all differ.
fn first_same_processes(merged: &[u32]) -> Option<Vec<u32>> {
    let mut known = FxHashMap::default();
    let first = (0..).zip(merged).map(|(process, &merged)| {
        let first: &mut u32 = known.entry(merged).or_insert(process);
        *first
    });
    let first: Vec<u32> = first.collect();
    (known.len() < first.len()).then_some(first)
}

/// Returns the joined calls in the chunk's numbers; a caller that the chunk does not have gets a new number.
fn localize_joined_calls<'j>(
    joined: &'j [JoinedCall],
    merged: &mut MergedMembers,
    to: &mut MergedNumbers,
) -> Vec<RepairedCall<'j>> {
    let mut members = LocalNumbers::from_merged(&to.members);
    let mut processes = LocalNumbers::from_merged(&to.processes);
    let torn = joined.iter().map(|call| {
        merged.add_joined_call(call.member, call.joined_text(), call.at);
        let place = merged.origins.members.get(call.member).place;
        let process = merged.origins.places.get(place).process;
        let (tid, time) = call.thread_and_stamp();
        RepairedCall {
            slot: call.slot,
            call: LogCall {
                coll: call.call_line(),
                member: members.intern_local(call.member, &mut to.members),
                process: processes.intern_local(process, &mut to.processes),
                is_sure: true,
                tid,
                time,
                at: call.at,
            },
            is_own: call.is_own,
        }
    });
    torn.collect()
}

/// The chunk's number of each merged one.
struct LocalNumbers(FxHashMap<u32, u32>);

impl LocalNumbers {
    fn from_merged(merged: &[u32]) -> LocalNumbers {
        let locals = merged.iter().enumerate().rev();
        // If two have the same merged number, the first counts.
        LocalNumbers(
            locals
                .map(|(local, &merged)| (merged, local as u32))
                .collect(),
        )
    }

    /// Returns the chunk's number of `merged`; a new one is added to `all`.
    fn intern_local(&mut self, merged: u32, all: &mut Vec<u32>) -> u32 {
        *self.0.entry(merged).or_insert_with(|| {
            all.push(merged);
            (all.len() - 1) as u32
        })
    }
}
