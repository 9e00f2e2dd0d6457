//! The second walk of a log: its rows.
//!
//! Chunks are walked on all cores, their calls numbered in order, and their rows made as text on all cores
//! again, a block at a time: [`RowTaskQueue`] hands out both.

use super::limits::{ROW_CHUNK_BYTES, ROWS_PER_BLOCK, THREADS_PER_CHUNK};
use super::order::{ChunkRun as Calls, WholeLogOrder};
use super::records::{CallInGap, ChunkRecords, RecordBuffers};
use super::row_workers::{RowTask, RowTaskQueue};
use super::sequences::CallSequences;
use super::text::{RowTextBuffer, SpeakerCache, SpeakerColumns};
use super::{CommsRowOrder, CommsRowSink, LogPlan, RowForm, SecondWalk};
use crate::count::calls::Options as Read;
use crate::error::{Error, Result};
use crate::filter::{CallFilter, FilterWatch};
use crate::log;
use crate::log::placement::GapCursor;
use crate::log::timeline::{StepTimeline, StepWindow};
use crate::log::walk::{self, ChunkResult};
use crate::members::{MergedMembers, MergedNumbers};
use crate::output::table::{Row, Timing};
use crate::pool;
use crate::source::InputChunk;
use crate::stages::tuning::call_methods::{CallMethods, MethodColumns};
use rustc_hash::FxHashMap;
use std::io::Write;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A chunk with numbered calls.
struct NumberedChunk {
    chunk: InputChunk,
    records: ChunkRecords,
    /// Speakers by the chunk's members.
    speakers: Vec<Arc<SpeakerColumns>>,
}

impl NumberedChunk {
    /// Gives the rows of some of its calls to `take`.
    fn for_each_row(
        &self,
        wanted: &WantedRows<'_>,
        calls: Range<usize>,
        take: impl FnMut(&Row<'_>, &SpeakerColumns),
    ) {
        let calls = self.records.placed_calls(calls);
        wanted.each_row(
            &self.records,
            self.chunk.bytes(),
            &self.speakers,
            calls,
            take,
        );
    }
}

/// Calls with consecutive rows.
type RowBlock = Vec<Calls<NumberedChunk>>;

enum TaskResult {
    Walked(Box<Result<(InputChunk, ChunkResult<ChunkRecords>)>>),
    Made(Vec<u8>),
}

/// The rows of a log that are wanted, and their columns from elsewhere.
pub(super) struct WantedRows<'r> {
    pub(super) read: &'r Read,
    pub(super) filter: &'r CallFilter,
    pub(super) watch: &'r FilterWatch,
    pub(super) timeline: &'r StepTimeline,
    /// By choice.
    pub(super) timings: &'r [Timing<'r>],
}

impl WantedRows<'_> {
    /// Gives the rows of some calls of a chunk to `take`.
    #[inline]
    pub(super) fn each_row(
        &self,
        records: &ChunkRecords,
        bytes: &[u8],
        speakers: &[Arc<SpeakerColumns>],
        calls: impl Iterator<Item = CallInGap>,
        mut take: impl FnMut(&Row<'_>, &SpeakerColumns),
    ) {
        let in_window = |step: Option<u64>| {
            let inside = |w: &StepWindow| step.is_some_and(|s| w.contains(s));
            self.read.window.as_ref().is_none_or(inside)
        };
        let mut part = self.watch.new_part();
        for (member, row) in records.build_rows(calls, bytes, self.timeline, self.timings) {
            let speaker = &speakers[member];
            let row = speaker.fill_row(row);
            if !in_window(row.step) {
                continue;
            }
            if part.does_pass(&row, self.filter) {
                take(&row, speaker);
            }
        }
        self.watch.add_part(part);
    }
}

/// Divides calls into blocks.
fn split_into_blocks(runs: Vec<Calls<NumberedChunk>>) -> Vec<RowBlock> {
    let (mut blocks, mut last, mut left) = (Vec::new(), Vec::new(), ROWS_PER_BLOCK);
    for (part, calls) in runs {
        let mut from = calls.start;
        while from < calls.end {
            let until = calls.end.min(from + left);
            last.push((Arc::clone(&part), from..until));
            left -= until - from;
            from = until;
            if left == 0 {
                blocks.push(std::mem::take(&mut last));
                left = ROWS_PER_BLOCK;
            }
        }
    }
    blocks.extend(Some(last).filter(|last| !last.is_empty()));
    blocks
}

/// Adds a chunk to `order`, and returns the runs that are then in order; without one the whole chunk.
fn take_ready_runs(
    part: Arc<NumberedChunk>,
    order: Option<&mut WholeLogOrder<'_, NumberedChunk>>,
) -> Vec<Calls<NumberedChunk>> {
    let Some(order) = order else {
        let all = 0..part.records.len();
        return vec![(part, all)];
    };
    let records = &part.records;
    order.add_chunk(
        &part,
        |call| records.gap_of_call(call),
        &records.line_gaps(),
    );
    drop(part);
    order.take_ready_runs()
}

/// Walks chunks and makes rows, on all cores.
struct RowMaker<'r> {
    wanted: &'r WantedRows<'r>,
    form: RowForm,
    /// Buffers of written texts, for reuse.
    spare: Mutex<Vec<Vec<u8>>>,
    /// Buffers of chunks' calls, for reuse: new pages cost the kernel time.
    memories: Mutex<Vec<RecordBuffers>>,
}

fn lock_list<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'r> RowMaker<'r> {
    fn new(wanted: &'r WantedRows<'r>, form: RowForm) -> RowMaker<'r> {
        RowMaker {
            wanted,
            form,
            spare: Mutex::default(),
            memories: Mutex::default(),
        }
    }

    fn run_task(&self, task: RowTask<Result<InputChunk>, RowBlock>) -> TaskResult {
        match task {
            RowTask::Walk(chunk) => TaskResult::Walked(Box::new(chunk.and_then(|chunk| {
                let memory = lock_list(&self.memories).pop().unwrap_or_default();
                let records = ChunkRecords::new(chunk.bytes(), memory);
                let scanned = log::walk_one_chunk(&chunk, &self.wanted.read.log, records)?;
                Ok((chunk, scanned))
            }))),
            RowTask::Make(block) => TaskResult::Made(self.make_text(block)),
        }
    }

    fn make_text(&self, block: RowBlock) -> Vec<u8> {
        let spare = lock_list(&self.spare).pop().unwrap_or_default();
        let mut text = RowTextBuffer::new(self.form, spare);
        for (part, calls) in block {
            part.for_each_row(self.wanted, calls, |row, speaker| {
                text.push_row(row, speaker);
            });
            if let Some(part) = Arc::into_inner(part) {
                lock_list(&self.memories).push(part.records.into_memory());
            }
        }
        text.out
    }

    fn write_text(&self, mut text: Vec<u8>, out: &mut (dyn Write + Send)) -> Result<()> {
        let written = out.write_all(&text).map_err(Error::Output);
        text.clear();
        lock_list(&self.spare).push(text);
        written
    }
}

impl SecondWalk<'_> {
    /// A log's rows.
    pub(super) fn write_log_rows(
        &mut self,
        log: LogPlan,
        sink: &mut CommsRowSink<'_, '_>,
    ) -> Result<()> {
        let LogPlan {
            input,
            survey,
            renamed,
            served,
        } = log;
        self.merged.begin_next_input();
        let (options, read) = (self.options, self.read);
        let choices = served
            .as_ref()
            .map(CallMethods::method_columns)
            .unwrap_or_default();
        let timings: Vec<Timing<'_>> = choices.iter().map(MethodColumns::timing).collect();
        let wanted = WantedRows {
            read,
            filter: &options.filter,
            watch: &self.watch,
            timeline: &survey.timeline,
            timings: &timings,
        };
        let maker = RowMaker::new(&wanted, options.form);
        let chunks = input.open_chunks(ROW_CHUNK_BYTES, walk::classify_cut)?;
        let all = read.log.jobs;
        let jobs = chunks
            .estimate_chunks_left()
            .map_or(all, |n| all.min(n * THREADS_PER_CHUNK));
        let work = RowTaskQueue::new(chunks);
        let mut log = log::LogState::default();
        // Another input's lines do not divide this one.
        let is_in_lines = survey.is_settled || options.order == CommsRowOrder::Line;
        let reach = options.order.max_row_move();
        let mut order =
            (!is_in_lines).then(|| WholeLogOrder::new(&survey.timeline, &survey.placement, reach));
        let mut numbering = ChunkNumbering {
            merged: &mut self.merged,
            surveyed: &self.surveyed,
            renamed: &renamed,
            seqs: &mut self.seqs,
            speakers: SpeakerCache::new(Arc::clone(&self.ranks), options.form),
            gaps: survey.placement.gap_cursor(),
            served,
        };
        pool::map_without_sink_thread(
            jobs,
            &work,
            |task| maker.run_task(task),
            |done| {
                let result = match (done, &mut *sink) {
                    (TaskResult::Walked(walked), sink) => walked.and_then(|(chunk, scanned)| {
                        let part = Arc::new(numbering.number_calls(&mut log, chunk, scanned));
                        let runs = match sink {
                            CommsRowSink::Counted(counting) => {
                                let all = 0..part.records.len();
                                part.for_each_row(&wanted, all, |row, _| counting.count_row(row));
                                Vec::new()
                            }
                            CommsRowSink::Text(_) => take_ready_runs(part, order.as_mut()),
                        };
                        work.add_blocks(split_into_blocks(runs).into_iter());
                        Ok(())
                    }),
                    (TaskResult::Made(text), CommsRowSink::Text(out)) => {
                        maker.write_text(text, *out)
                    }
                    (TaskResult::Made(_), CommsRowSink::Counted(_)) => Ok(()),
                };
                if result.is_err() {
                    work.stop();
                }
                result
            },
        )?;
        if let (Some(order), CommsRowSink::Text(out)) = (order, sink) {
            for block in split_into_blocks(order.take_remaining_runs()) {
                maker.write_text(maker.make_text(block), *out)?;
            }
        }
        Ok(())
    }
}

/// Numbers the calls of one chunk after another.
struct ChunkNumbering<'r> {
    merged: &'r mut MergedMembers,
    surveyed: &'r MergedMembers,
    renamed: &'r FxHashMap<u32, u32>,
    seqs: &'r mut CallSequences,
    /// Speakers so far, by merged member.
    speakers: SpeakerCache,
    /// The gaps that calls were made in.
    gaps: GapCursor<'r>,
    /// How calls were served, if wanted.
    served: Option<CallMethods>,
}

impl ChunkNumbering<'_> {
    fn number_calls(
        &mut self,
        log: &mut log::LogState,
        chunk: InputChunk,
        scanned: ChunkResult<ChunkRecords>,
    ) -> NumberedChunk {
        let mut to = MergedNumbers::default();
        let part = log.add_chunk(scanned, self.merged, &mut to);
        let (gap, mut records) = (part.gap, part.visit);
        records.set_merged_members(&to);
        records.number_in_sequences(self.merged, self.renamed, self.seqs);
        records.place_in_gaps(gap, &to, &mut self.gaps);
        if let Some(served) = &mut self.served {
            records.set_served_choices(self.merged, served);
        }
        let (merged, all) = (&*self.merged, self.surveyed);
        let speaker = |&m: &u32| self.speakers.find_speaker(merged, all, self.renamed, m);
        let speakers = records.members().iter().map(speaker).collect();
        NumberedChunk {
            chunk,
            records,
            speakers,
        }
    }
}
