//! The second walk of a log: its rows.
//!
//! Chunks are walked on all cores, their calls numbered in order, and their rows made as text on
//! all cores again, a block at a time: [`Work`] hands out both.

use super::filter::{Filter, Watch};
use super::order::{Run as Calls, Whole};
use super::records::{Memory, Placed, Records, Seqs};
use super::text::{Speaker, Text};
use super::work::{Task, Work};
use super::{Form, LogPlan, Order, Run, Sink};
use crate::count::calls::Options as Read;
use crate::count::who;
use crate::error::{Error, Result};
use crate::log;
use crate::log::placement::Again;
use crate::log::timeline::{Timeline, Window};
use crate::log::walk::{self, Scanned};
use crate::members::{Merged, Renumbered};
use crate::output::table::{Row, Timing};
use crate::pool;
use crate::source::Chunk;
use crate::stages::tuning::served::{Columns, Served};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a chunk whose rows are made at a time: its calls are in memory.
const CHUNK: usize = 2 << 20;

/// Rows that are written at a time: their text is still in a core's own cache when the kernel
/// copies it. Writing 1 MB at a time took four times as long.
const BLOCK: usize = 1024;

/// How many threads a chunk has work for: one that walks it, or some that make its rows.
const PER_CHUNK: usize = 8;

/// A chunk whose calls are numbered.
struct Numbered {
    chunk: Chunk,
    records: Records,
    /// Who speaks, by the chunk's members.
    speakers: Vec<Arc<Speaker>>,
}

impl Numbered {
    /// Gives the rows of some of its calls to `take`.
    fn rows(&self, wanted: &Wanted<'_>, calls: Range<usize>, take: impl FnMut(&Row<'_>, &Speaker)) {
        let known = (&self.records, self.chunk.bytes(), &self.speakers[..]);
        wanted.rows(known, self.records.placed(calls), take);
    }
}

/// Calls whose rows follow each other.
type Block = Vec<Calls<Numbered>>;

enum Done {
    Walked(Box<Result<(Chunk, Scanned<Records>)>>),
    Made(Vec<u8>),
}

/// Which rows of a log are wanted, and what they have beside their calls.
pub(super) struct Wanted<'r> {
    pub(super) read: &'r Read,
    pub(super) filter: &'r Filter,
    pub(super) watch: &'r Watch,
    pub(super) timeline: &'r Timeline,
    /// By choice.
    pub(super) timings: &'r [Timing<'r>],
}

impl Wanted<'_> {
    /// Gives the rows of some calls of a chunk to `take`.
    #[inline]
    pub(super) fn rows(
        &self,
        (records, bytes, speakers): (&Records, &[u8], &[Arc<Speaker>]),
        calls: impl Iterator<Item = Placed>,
        mut take: impl FnMut(&Row<'_>, &Speaker),
    ) {
        let in_window = |step: Option<u64>| {
            let inside = |w: &Window| step.is_some_and(|s| w.contains(s));
            self.read.window.as_ref().is_none_or(inside)
        };
        let (mut passed, mut others) = (false, self.watch.part());
        for (member, row) in records.rows(calls, bytes, self.timeline, self.timings) {
            let speaker = &speakers[member];
            let row = speaker.says(row);
            if !in_window(row.step) {
                continue;
            }
            if self.filter.passes(&row) {
                passed = true;
                take(&row, speaker);
            } else if let (false, Some(others)) = (passed, &mut others) {
                others.add(&row, self.filter);
            }
        }
        self.watch.add(others, passed);
    }
}

/// Divides calls into blocks.
fn blocks(runs: Vec<Calls<Numbered>>) -> Vec<Block> {
    let (mut blocks, mut last, mut left) = (Vec::new(), Vec::new(), BLOCK);
    for (part, calls) in runs {
        let mut from = calls.start;
        while from < calls.end {
            let until = calls.end.min(from + left);
            last.push((Arc::clone(&part), from..until));
            left -= until - from;
            from = until;
            if left == 0 {
                blocks.push(std::mem::take(&mut last));
                left = BLOCK;
            }
        }
    }
    blocks.extend(Some(last).filter(|last| !last.is_empty()));
    blocks
}

/// What the cores do: they walk chunks, and make rows.
struct Maker<'r> {
    wanted: &'r Wanted<'r>,
    form: Form,
    /// Texts that were written, whose memory is used again.
    spare: Mutex<Vec<Vec<u8>>>,
    /// The same of chunks' calls: else each chunk's would be new pages to the kernel.
    memories: Mutex<Vec<Memory>>,
}

fn taken<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Maker<'_> {
    fn make(&self, task: Task<Result<Chunk>, Block>) -> Done {
        match task {
            Task::Walk(chunk) => Done::Walked(Box::new(chunk.and_then(|chunk| {
                let memory = taken(&self.memories).pop().unwrap_or_default();
                let records = Records::new(chunk.bytes(), memory);
                let scanned = log::scan(&chunk, &self.wanted.read.log, records)?;
                Ok((chunk, scanned))
            }))),
            Task::Make(block) => {
                let spare = taken(&self.spare).pop().unwrap_or_default();
                let mut text = Text::new(self.form, spare);
                for (part, calls) in block {
                    part.rows(self.wanted, calls, |row, speaker| text.row(row, speaker));
                    if let Some(part) = Arc::into_inner(part) {
                        taken(&self.memories).push(part.records.into_memory());
                    }
                }
                Done::Made(text.out)
            }
        }
    }
}

impl Run<'_> {
    /// A log's rows.
    pub(super) fn log(&mut self, log: LogPlan, sink: &mut Sink<'_, '_>) -> Result<()> {
        let LogPlan {
            input,
            survey,
            aliases,
            served,
        } = log;
        self.merged.next_input();
        let (options, read) = (self.options, self.read);
        let choices = served.as_ref().map(Served::columns).unwrap_or_default();
        let timings: Vec<Timing<'_>> = choices.iter().map(Columns::timing).collect();
        let wanted = Wanted {
            read,
            filter: &options.filter,
            watch: &self.watch,
            timeline: &survey.timeline,
            timings: &timings,
        };
        let maker = Maker {
            wanted: &wanted,
            form: options.form,
            spare: Mutex::default(),
            memories: Mutex::default(),
        };
        let chunks = input.chunks(CHUNK, walk::place)?;
        let all = read.log.jobs;
        let jobs = chunks.about().map_or(all, |n| all.min(n * PER_CHUNK));
        let work = Work::new(chunks);
        let mut log = log::Log::default();
        // Another input's lines do not divide this one.
        let is_in_lines = survey.is_settled || options.order == Order::Line;
        let placed = (&*survey.timeline, &survey.placement);
        let order = || Whole::new(placed, options.order.reach());
        let mut order = (!is_in_lines).then(order);
        let mut numbering = Numbering {
            merged: &mut self.merged,
            surveyed: &self.surveyed,
            aliases: &aliases,
            seqs: &mut self.seqs,
            speakers: Vec::new(),
            gaps: survey.placement.again(),
            served,
        };
        pool::in_turn(
            jobs,
            &work,
            |task| maker.make(task),
            |done| {
                let result = match (done, &mut *sink) {
                    (Done::Walked(walked), sink) => walked.and_then(|(chunk, scanned)| {
                        let part = Arc::new(numbering.number(&mut log, chunk, scanned));
                        let all = 0..part.records.len();
                        let runs = match (sink, &mut order) {
                            (Sink::Counted(counting), _) => {
                                part.rows(&wanted, all, |row, _| counting.row(row));
                                Vec::new()
                            }
                            (Sink::Text(_), Some(order)) => {
                                let records = &part.records;
                                order.add(&part, |call| records.made(call), &records.lines());
                                drop(part);
                                order.ready()
                            }
                            (Sink::Text(_), None) => vec![(part, all)],
                        };
                        work.walked(blocks(runs).into_iter());
                        Ok(())
                    }),
                    (Done::Made(mut text), Sink::Text(out)) => {
                        let written = out.write_all(&text).map_err(Error::Output);
                        text.clear();
                        taken(&maker.spare).push(text);
                        written
                    }
                    (Done::Made(_), Sink::Counted(_)) => Ok(()),
                };
                if result.is_err() {
                    work.stop();
                }
                result
            },
        )?;
        let rest = order.map(Whole::end).unwrap_or_default();
        for block in blocks(rest) {
            if let (Done::Made(text), Sink::Text(out)) = (maker.make(Task::Make(block)), &mut *sink)
            {
                out.write_all(&text).map_err(Error::Output)?;
            }
        }
        Ok(())
    }
}

/// What numbers the calls of one chunk after another.
struct Numbering<'r> {
    merged: &'r mut Merged,
    surveyed: &'r Merged,
    aliases: &'r [u32],
    seqs: &'r mut Seqs,
    /// Those met so far, by merged member.
    speakers: Vec<Option<Arc<Speaker>>>,
    /// The gaps that calls were made in.
    gaps: Again<'r>,
    /// How calls were served, if that is wanted.
    served: Option<Served>,
}

impl Numbering<'_> {
    fn number(&mut self, log: &mut log::Log, chunk: Chunk, scanned: Scanned<Records>) -> Numbered {
        let mut to = Renumbered::default();
        let part = log.add(scanned, self.merged, &mut to);
        let (gap, mut records) = (part.gap, part.visit);
        records.follow(&to, self.merged, self.seqs);
        records.place(gap, &to, &mut self.gaps);
        if let Some(served) = &mut self.served {
            records.serve(self.merged, served);
        }
        let speakers = records.members().iter().map(|&m| self.speaker(m)).collect();
        Numbered {
            chunk,
            records,
            speakers,
        }
    }

    fn speaker(&mut self, member: u32) -> Arc<Speaker> {
        let at = member as usize;
        if self.speakers.len() <= at {
            self.speakers.resize(at + 1, None);
        }
        let new = || {
            let member = self.merged.origins.members.get(member);
            let who = who::who_as(self.merged, self.surveyed, self.aliases, member);
            Arc::new(Speaker::new(who, member.nranks))
        };
        Arc::clone(self.speakers[at].get_or_insert_with(new))
    }
}
