//! The reading of a log: chunks walked on all cores, merged in order.

use super::limits::MAX_CHUNKS_AHEAD;
use super::state::{LogState, MergedChunk};
use super::{Options, first_damage_error};
use crate::error::{Error, Result};
use crate::log::walk::{self, ChunkResult, FileSpan, LogVisitor};
use crate::members::duplicate_inputs::{EarlierInputs, InputCallsEnd};
use crate::members::{MergedMembers, MergedNumbers};
use crate::pool;
use crate::source::{Input, InputChunk, InputChunks, SmallFileTexts, UnpackDamage};
use std::iter;

/// Walks `input` and gives each chunk to `sink` in order. `progress` receives the number of bytes read.
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

/// A log that may have its first chunks walked already.
pub struct StartedLog<V> {
    walked: Vec<Result<WalkedChunk<V>>>,
    chunks: InputChunks,
}

/// Walks the first chunks of a log, if they are few: a large log is shared out when it is its turn.
///
/// # Errors
/// The input cannot be read.
pub fn begin_log<V: LogVisitor>(
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
    scanned.is_in_blocks = input.rejoin_counts().is_some_and(|seen| !seen.is_turned);
    Ok((scanned, chunk.bytes().len() as u64 + chunk.dropped))
}

/// Reads the rest of a started log; see [`read_log`].
///
/// # Errors
/// As [`read_log`].
pub fn continue_log<V: LogVisitor + Send>(
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
    // One chunk needs no threads; a live input's second chunk may come much later.
    let ahead = if jobs > 1 && !chunks.is_live() { 2 } else { 0 };
    let first: Vec<_> = chunks.by_ref().take(ahead).collect();
    let jobs = if first.len() < ahead { 1 } else { jobs };
    let chunks = first.into_iter().chain(chunks);
    let (name, strict, keep_marks) = (input.name(), options.strict, options.keep_marks);
    let mut log = merge_one_input(&name, strict, keep_marks, merged, progress, sink, |take| {
        walked.into_iter().try_for_each(&mut *take)?;
        pool::map_as_they_come(jobs, chunks, walk, take)
    })?;
    if let Some(seen) = input.rejoin_counts() {
        match seen.is_turned {
            true => log.account.note_turned(),
            false => log.account.add_joined_lines(seen),
        }
        log.is_in_blocks = false;
    }
    log.account.broken = check_unpacked(input, strict)?;
    Ok(log)
}

/// The result of walking a chunk, and the chunk's size in bytes.
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

/// Walks small files as one log, to be merged when it is their turn. Returns the span of each, too; see
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
    /// Merges the walked chunk of the input `name` as [`read_log`] does.
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
        merge_one_input(name, strict, true, merged, progress, sink, |take| {
            self.give_chunk(take)
        })
    }

    /// Merges several inputs that were walked as one, with their spans. Returns the log of all, and for each input
    /// the earlier inputs that have calls of it.
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
        let log = merge_walked_chunks("", false, true, merged, progress, sink, |take| {
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

/// Takes the next walked chunk.
type WalkedChunkSink<'t, V> = &'t mut dyn FnMut(Result<WalkedChunk<V>>) -> Result<()>;

/// Merges the walked chunks of one input, and notes which earlier inputs have calls of it.
fn merge_one_input<V: LogVisitor>(
    name: &str,
    strict: bool,
    keep_marks: bool,
    merged: &mut MergedMembers,
    progress: impl Fn(u64),
    sink: impl FnMut(MergedChunk<'_, V>) -> Result<()>,
    chunks: impl FnOnce(WalkedChunkSink<'_, V>) -> Result<()>,
) -> Result<LogState> {
    merged
        .twice
        .begin_inputs(iter::once((name.to_owned(), u64::MAX)));
    let mut log = merge_walked_chunks(name, strict, keep_marks, merged, progress, sink, chunks)?;
    let end = InputCallsEnd {
        calls: log.account.calls,
        last: log.last,
    };
    log.account.again = merged.end_input(iter::once(end)).pop().flatten();
    Ok(log)
}

/// Merges the walked chunks of the input `name`, which `chunks` hands over in order; stops at the first damaged
/// line if `strict`, and forgets marks unless `keep_marks`.
fn merge_walked_chunks<V: LogVisitor>(
    name: &str,
    strict: bool,
    keep_marks: bool,
    merged: &mut MergedMembers,
    progress: impl Fn(u64),
    mut sink: impl FnMut(MergedChunk<'_, V>) -> Result<()>,
    chunks: impl FnOnce(WalkedChunkSink<'_, V>) -> Result<()>,
) -> Result<LogState> {
    merged.begin_next_input();
    let mut log = LogState::for_members(merged);
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
/// The chunk changed since the pass before.
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

/// Returns the damage of a compressed input that was read to its end.
///
/// # Errors
/// Data is lost, under `strict`.
pub fn check_unpacked(input: &Input, strict: bool) -> Result<Option<UnpackDamage>> {
    match input.unpack_damage() {
        Some(broken) if strict && broken.is_lost => {
            let (name, what) = (input.name(), broken.what);
            Err(Error::Damaged(format!("{name}: {what}")))
        }
        broken => Ok(broken),
    }
}
