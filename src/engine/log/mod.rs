//! The NCCL debug log: chunks walked on all cores, merged in order.

pub(crate) mod attempts;
pub mod mend;
pub mod placement;
pub mod propose;
pub mod timeline;
pub mod walk;

use crate::error::{Error, Result};
use crate::formats::format::{InputFormat, InputHead, ProbeAnswer, Provides};
use crate::grammar::trainer::{Recogniser, TrainerMark};
use crate::log::attempts::{AttemptFinder, AttemptStart};
use crate::log::mend::torn::{JoinedCall, TornLineJoiner};
use crate::log::timeline::{LiveTimeline, MarkList, MarkSlice, PositionOnlyReason, StepTimeline};
use crate::log::walk::{
    ChunkResult, FileSpan, LogCall, LogVisitor, MarkPosition, RepairedCall, TornPiece,
};
use crate::members::duplicate_inputs::{CommOpCount, EarlierInputs, InputCallsEnd};
use crate::members::{MergedMembers, MergedNumbers};
use crate::pool;
use crate::report::account::Account;
use crate::source::{FlushReason, Input, InputChunk, InputChunks, SmallFileTexts, UnpackDamage};
use rustc_hash::FxHashMap;
use std::iter;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The format: any text that is no other. A log may be damaged, or wrapped in whatever collected it.
pub(crate) const FORMAT: InputFormat = InputFormat {
    name: "log",
    what: "an NCCL log",
    tells: Provides::CALLS
        .and(Provides::STEPS)
        .and(Provides::STEP_LINES)
        .and(Provides::MEMBERS)
        .and(Provides::MESSAGES)
        .and(Provides::ALGORITHMS)
        .and(Provides::LINES),
    probe: |_| ProbeAnswer::Perhaps,
};

/// The same text where none of it is NCCL's.
pub(crate) const PLAIN_TEXT_FORMAT: InputFormat = InputFormat {
    what: "text without a line of NCCL",
    ..FORMAT
};

/// True for a whole text, of which none is NCCL's.
pub(super) fn is_other(head: &InputHead<'_>) -> bool {
    head.is_whole() && memchr::memmem::find(head.bytes, b"NCCL").is_none()
}

/// How a log is read.
#[derive(Debug, Clone)]
pub struct Options {
    /// Threads.
    pub jobs: usize,
    /// What step lines look like.
    pub recogniser: Recogniser,
    /// Stop at the first damaged line.
    pub strict: bool,
    /// Keep the byte ranges of INIT lines.
    pub keep_init_lines: bool,
    /// Keep where the marks are. Who asks nothing of steps does not need them, and they grow with the log.
    pub keep_marks: bool,
}

/// What is known of one log while it is read.
#[derive(Debug, Default)]
pub struct LogState {
    /// Where its lines went.
    pub account: Account,
    /// Its marks, in order.
    pub marks: MarkList,
    /// Where new processes took over, if it has step lines.
    pub begins: Vec<AttemptStart>,
    /// Byte ranges of its INIT lines, if they were kept.
    pub init_lines: Vec<(u64, u64)>,
    /// Marks that were not kept.
    let_go: usize,
    /// Those before this one are not needed any more.
    needed: AtomicUsize,
    /// The last call.
    last: Option<CommOpCount>,
    /// It was found to be written in blocks, before all that was joined is counted.
    is_in_blocks: bool,
    joiner: TornLineJoiner,
    attempts: AttemptFinder,
}

/// A chunk's part, in order.
pub struct MergedChunk<'a, V> {
    /// What the stage kept of it.
    pub visit: V,
    /// How its numbers read in the merged tables.
    pub to: &'a MergedNumbers,
    /// The input's number of the chunk's first gap.
    pub gap: usize,
    /// The input's number of the chunk's first line, from 0.
    pub line: u64,
    /// Everyone met so far.
    pub merged: &'a MergedMembers,
    /// The input's marks so far.
    pub marks: MarkSlice<'a>,
    /// The log so far, where what is known of it may be written, and why.
    pub so_far: Option<(&'a LogState, FlushReason)>,
}

impl<'a, V> MergedChunk<'a, V> {
    /// What a stage kept, and the part without it: a stage that is made of others hands each
    /// its own by [`MergedChunk::with_visit`].
    pub fn take_visit(self) -> (V, MergedChunk<'a, ()>) {
        let rest = self.with_visit(());
        (self.visit, rest)
    }

    /// The part as one that keeps `visit` has it.
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
    /// An input that is no log, by its account.
    pub(super) fn from_account(account: Account) -> LogState {
        LogState {
            account,
            ..LogState::default()
        }
    }

    /// The log's steps.
    pub fn build_timeline(&self, options: &timeline::Options) -> StepTimeline {
        let mut timeline = timeline::resolve_timeline(&self.marks, &self.begins, options);
        timeline.by_position = timeline.by_position.or(self.position_reason());
        timeline
    }

    /// The same of a log that is still being written; `growing` is what was known of it before.
    pub fn update_growing_timeline<'g>(
        &self,
        growing: &'g mut LiveTimeline,
        options: &timeline::Options,
    ) -> &'g StepTimeline {
        let timeline = growing.resolve_marks(&self.marks, &self.begins, options);
        timeline.by_position = timeline.by_position.or(self.position_reason());
        timeline
    }

    /// The log's steps now that it has ended: of one whose beginning is forgotten those that are left, as they
    /// are known.
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

    /// Says that nobody asks any more for what is up to the end of gap `gap`.
    pub fn forget_gaps_until(&self, gap: u32) {
        // The line that the gap ends with is where the next one begins.
        let needed = (gap as usize).saturating_sub(1);
        self.needed.fetch_max(needed, Ordering::Relaxed);
    }

    /// Why calls are placed by position, by what became of its lines.
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

    /// Adds what a chunk holds; it follows what was added before.
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
        merged
            .twice
            .add_steps(&prints, marks.iter().map(|mark| mark.start));
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

    /// Forgets the marks so far.
    fn drop_marks(&mut self) {
        self.let_go += self.marks.len();
        self.marks.clear();
    }

    /// Finds where new processes took over.
    fn find_attempts(&mut self, merged: &MergedMembers) {
        let is_step = |mark: &MarkPosition| matches!(mark.mark, TrainerMark::Step(_));
        if self.marks.as_slice().iter().any(|mark| is_step(&mark)) {
            self.begins = self.attempts.find_attempt_starts(merged);
        }
    }

    /// The log ended.
    pub fn end_log(&mut self) {
        self.joiner.give_up_all(&mut self.account);
        self.account.end_input();
    }
}

/// For each of a chunk's processes the first that is the same, by the merged ones; `None` where each is
/// another.
fn first_same_processes(merged: &[u32]) -> Option<Vec<u32>> {
    let mut known = FxHashMap::default();
    let first = (0..).zip(merged).map(|(process, &merged)| {
        let first: &mut u32 = known.entry(merged).or_insert(process);
        *first
    });
    let first: Vec<u32> = first.collect();
    (known.len() < first.len()).then_some(first)
}

/// The calls of a chunk that were joined, in the numbers of the chunk, which get more where it has
/// none of the caller.
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

/// A chunk's numbers by the merged ones.
struct LocalNumbers(FxHashMap<u32, u32>);

impl LocalNumbers {
    fn from_merged(merged: &[u32]) -> LocalNumbers {
        let locals = merged.iter().enumerate().rev();
        // Of two that are one the first.
        LocalNumbers(
            locals
                .map(|(local, &merged)| (merged, local as u32))
                .collect(),
        )
    }

    /// The chunk's number of one of `all`, new or known.
    fn intern_local(&mut self, merged: u32, all: &mut Vec<u32>) -> u32 {
        *self.0.entry(merged).or_insert_with(|| {
            all.push(merged);
            (all.len() - 1) as u32
        })
    }
}

/// Walks `input`, giving each chunk's part to `sink` in order. `progress` is told of bytes read.
///
/// # Errors
/// The input cannot be read; a damaged line under `strict`; the sink's own.
pub fn read_log<V: LogVisitor + Send>(
    input: &Input,
    options: &Options,
    merged: &mut MergedMembers,
    new: impl Fn() -> V + Sync,
    progress: impl Fn(u64),
    sink: impl FnMut(MergedChunk<'_, V>) -> Result<()>,
) -> Result<LogState> {
    let begun = StartedLog {
        walked: Vec::new(),
        chunks: input.open_chunks(usize::MAX, walk::classify_cut)?,
    };
    continue_log(input, begun, options, merged, new, progress, sink)
}

/// A log whose first chunks may be walked already.
pub(super) struct StartedLog<V> {
    walked: Vec<Result<WalkedChunk<V>>>,
    chunks: InputChunks,
}

/// Chunks of a file that is unpacked that are walked before it is its turn.
const MAX_CHUNKS_AHEAD: usize = 4;

/// Where more than one line in so many calls is damaged, calls are placed by position.
const MIN_CALLS_PER_DAMAGED_LINE: u64 = 100;

/// So many damaged lines are few in any log.
const MAX_DAMAGED_LINES_IGNORED: u64 = 4;

/// Walks the first chunks of a log, if they are few: a large one is shared out when it is its turn.
///
/// # Errors
/// The input cannot be read.
pub(super) fn begin_log<V: LogVisitor>(
    input: &Input,
    options: &Options,
    new: impl Fn() -> V,
) -> Result<StartedLog<V>> {
    let mut chunks = input.open_chunks(usize::MAX, walk::classify_cut)?;
    let ahead = match chunks.estimate_chunks_left() {
        Some(0 | 1) | None => MAX_CHUNKS_AHEAD,
        Some(_) => 0,
    };
    let walked = chunks.by_ref().take(ahead);
    let walked = walked
        .map(|chunk| walk_next_chunk(input, chunk, options, &new))
        .collect();
    Ok(StartedLog { walked, chunks })
}

fn walk_next_chunk<V: LogVisitor>(
    input: &Input,
    chunk: Result<InputChunk>,
    options: &Options,
    new: impl Fn() -> V,
) -> Result<WalkedChunk<V>> {
    let chunk = chunk?;
    chunk.prefetch();
    let mut scanned = walk_one_chunk(&chunk, options, new())?;
    scanned.account.dropped += chunk.dropped;
    scanned.account.is_open &= chunk.dropped == 0;
    scanned.is_in_blocks = input.rejoin_counts().is_some();
    Ok((scanned, chunk.bytes().len() as u64 + chunk.dropped))
}

/// Goes on with a log that was begun; see [`read`].
///
/// # Errors
/// As [`read`].
pub(super) fn continue_log<V: LogVisitor + Send>(
    input: &Input,
    begun: StartedLog<V>,
    options: &Options,
    merged: &mut MergedMembers,
    new: impl Fn() -> V + Sync,
    progress: impl Fn(u64),
    sink: impl FnMut(MergedChunk<'_, V>) -> Result<()>,
) -> Result<LogState> {
    let StartedLog { walked, mut chunks } = begun;
    let walk = |chunk: Result<InputChunk>| walk_next_chunk(input, chunk, options, &new);
    let jobs = chunks
        .estimate_chunks_left()
        .map_or(options.jobs, |n| options.jobs.min(n));
    // One chunk needs no threads; of a live input the second one may come much later.
    let ahead = if jobs > 1 && !chunks.is_live() { 2 } else { 0 };
    let first: Vec<_> = chunks.by_ref().take(ahead).collect();
    let jobs = if first.len() < ahead { 1 } else { jobs };
    let chunks = first.into_iter().chain(chunks);
    let (name, strict) = (input.name(), options.strict);
    let how = (strict, options.keep_marks);
    let mut log = merge_one_input(&name, how, merged, progress, sink, |take| {
        walked.into_iter().try_for_each(&mut *take)?;
        pool::map_as_they_come(jobs, chunks, walk, take)
    })?;
    if let Some(seen) = input.rejoin_counts() {
        log.account.add_joined_lines(seen);
        log.is_in_blocks = false;
    }
    log.account.broken = check_unpacked(input, strict)?;
    Ok(log)
}

/// What the walk over a chunk found, and the bytes it was.
type WalkedChunk<V> = (ChunkResult<V>, u64);

/// A log of one chunk, or several as one, walked before it is its turn.
pub struct WalkedLog<V>(Option<WalkedChunk<V>>);

/// Walks a small file by itself, to be merged when it is its turn.
pub fn walk_file_ahead<V: LogVisitor>(
    bytes: &[u8],
    options: &Options,
    new: impl Fn() -> V,
) -> WalkedLog<V> {
    let (recogniser, keep) = (&options.recogniser, options.keep_init_lines);
    let place = walk::ChunkPlace {
        offset: 0,
        is_quiet: true,
    };
    let walk = || walk::walk_bytes(bytes, place, recogniser, keep, new());
    WalkedLog((!bytes.is_empty()).then(|| (walk(), bytes.len() as u64)))
}

/// Walks small files as one log, to be merged when it is their turn, and says what each had; see
/// `walk::small_logs`.
pub fn walk_files_ahead<V: LogVisitor>(
    texts: &SmallFileTexts<'_>,
    options: &Options,
    marks: bool,
    visit: V,
) -> Option<(WalkedLog<V>, Vec<FileSpan>)> {
    let (bytes, at) = (texts.bytes(), texts.text_ranges());
    let (scanned, had) = walk::walk_small_files(bytes, at, &options.recogniser, marks, visit)?;
    let read = texts.iter_texts().map(|text| text.len() as u64).sum();
    Some((WalkedLog(Some((scanned, read))), had))
}

impl<V: LogVisitor> WalkedLog<V> {
    /// Does what [`read_log`] does with the walked chunk of the input `name`.
    ///
    /// # Errors
    /// A damaged line under `strict`; the sink's own.
    pub fn merge_file(
        self,
        name: &str,
        strict: bool,
        merged: &mut MergedMembers,
        progress: impl Fn(u64),
        sink: impl FnMut(MergedChunk<'_, V>) -> Result<()>,
    ) -> Result<LogState> {
        merge_one_input(name, (strict, true), merged, progress, sink, |take| {
            self.give_chunk(take)
        })
    }

    /// The same of several inputs that were walked as one: their names, and what each had. With
    /// the log of all of them comes for each the inputs before it that have calls of it.
    ///
    /// # Errors
    /// The sink's own.
    pub fn merge_files(
        self,
        names: impl Iterator<Item = String>,
        had: &[FileSpan],
        merged: &mut MergedMembers,
        progress: impl Fn(u64),
        sink: impl FnMut(MergedChunk<'_, V>) -> Result<()>,
    ) -> Result<(LogState, Vec<Option<EarlierInputs>>)> {
        let ends = had.iter().map(|had| had.end);
        merged.twice.begin_inputs(names.zip(ends));
        // Nothing in them is damaged.
        let log = merge_walked_chunks("", (false, true), merged, progress, sink, |take| {
            self.give_chunk(take)
        })?;
        let ends = had.iter().map(|had| InputCallsEnd {
            calls: had.calls,
            last: had.last,
        });
        Ok((log, merged.end_input(ends)))
    }

    fn give_chunk(self, take: WalkedChunkSink<'_, V>) -> Result<()> {
        self.0.into_iter().map(Ok).try_for_each(take)
    }
}

/// Takes a walked chunk.
type WalkedChunkSink<'t, V> = &'t mut dyn FnMut(Result<WalkedChunk<V>>) -> Result<()>;

/// Merges the walked chunks of one input, and says which inputs before it have calls of it.
fn merge_one_input<V: LogVisitor>(
    name: &str,
    how: (bool, bool),
    merged: &mut MergedMembers,
    progress: impl Fn(u64),
    sink: impl FnMut(MergedChunk<'_, V>) -> Result<()>,
    chunks: impl FnOnce(WalkedChunkSink<'_, V>) -> Result<()>,
) -> Result<LogState> {
    merged
        .twice
        .begin_inputs(iter::once((name.to_owned(), u64::MAX)));
    let mut log = merge_walked_chunks(name, how, merged, progress, sink, chunks)?;
    let end = InputCallsEnd {
        calls: log.account.calls,
        last: log.last,
    };
    log.account.again = merged.end_input(iter::once(end)).pop().flatten();
    Ok(log)
}

/// Merges the walked chunks of the input `name`, which `chunks` hands over in order; stops at damage
/// where it is to be `strict`, and forgets marks that are not to be kept.
fn merge_walked_chunks<V: LogVisitor>(
    name: &str,
    (strict, keep_marks): (bool, bool),
    merged: &mut MergedMembers,
    progress: impl Fn(u64),
    mut sink: impl FnMut(MergedChunk<'_, V>) -> Result<()>,
    chunks: impl FnOnce(WalkedChunkSink<'_, V>) -> Result<()>,
) -> Result<LogState> {
    merged.begin_next_input();
    let mut log = LogState {
        attempts: AttemptFinder::new(merged),
        ..LogState::default()
    };
    let mut to = MergedNumbers::default();
    chunks(&mut |walked| {
        let (scanned, bytes) = walked?;
        progress(bytes);
        sink(log.add_chunk(scanned, merged, &mut to))?;
        if !keep_marks {
            log.drop_marks();
        }
        if strict {
            first_damage_error(name, &log.account)
        } else {
            Ok(())
        }
    })?;
    log.end_log();
    log.find_attempts(merged);
    if log.account.overwritten + log.account.headless > 0 {
        log.account
            .add_overwritten_names(merged.partial_host_names());
        merged.overwritten |= log.account.overwritten > 1;
    }
    if strict {
        first_damage_error(name, &log.account)?;
    }
    Ok(log)
}

/// Walks one chunk.
///
/// # Errors
/// It is not what it was at the pass before.
pub fn walk_one_chunk<V: LogVisitor>(
    chunk: &InputChunk,
    options: &Options,
    visit: V,
) -> Result<ChunkResult<V>> {
    let mut scanned = walk::walk_bytes(
        chunk.bytes(),
        walk::ChunkPlace {
            offset: chunk.offset,
            is_quiet: chunk.quiet,
        },
        &options.recogniser,
        options.keep_init_lines,
        visit,
    );
    chunk.check_unchanged()?;
    scanned.pause = chunk.pause;
    Ok(scanned)
}

/// What is wrong with an input that is packed and was read to its end.
///
/// # Errors
/// Something of it is lost, under `strict`.
pub fn check_unpacked(input: &Input, strict: bool) -> Result<Option<UnpackDamage>> {
    match input.unpack_damage() {
        Some(broken) if strict && broken.is_lost => {
            let (name, what) = (input.name(), broken.what);
            Err(Error::Damaged(format!("{name}: {what}")))
        }
        broken => Ok(broken),
    }
}

/// The error of `--strict`, if a line was damaged.
pub fn first_damage_error(name: &str, account: &Account) -> Result<()> {
    match account.first_damage() {
        Some(place) => Err(Error::Damaged(format!(
            "{name}:{}:{}: expected {}",
            place.line + 1,
            place.column,
            place.what
        ))),
        None => Ok(()),
    }
}
