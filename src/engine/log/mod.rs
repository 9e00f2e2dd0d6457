//! The NCCL debug log: chunks walked on all cores, merged in order.

pub(crate) mod attempts;
pub mod mend;
pub mod placement;
pub mod propose;
pub mod timeline;
pub mod walk;

use crate::error::{Error, Result};
use crate::formats::{Format, Head, Is, Tells};
use crate::grammar::trainer::{Mark, Recogniser};
use crate::log::attempts::{Attempts, Begin};
use crate::log::mend::torn::{Joined, Joiner};
use crate::log::timeline::{ByPosition, Growing, MarkList, Marks, Timeline};
use crate::log::walk::{Call, Had, MarkAt, Piece, Scanned, Torn, Visit};
use crate::members::twice::{Again, Count, End};
use crate::members::{Merged, Renumbered};
use crate::pool;
use crate::report::account::Account;
use crate::source::{Broken, Chunk, Chunks, Input, Pause, Texts};
use rustc_hash::FxHashMap;
use std::iter;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The format: any text that is no other. A log may be damaged, or wrapped in whatever collected it.
pub(crate) const FORMAT: Format = Format {
    name: "log",
    what: "an NCCL log",
    tells: Tells::CALLS
        .and(Tells::STEPS)
        .and(Tells::STEP_LINES)
        .and(Tells::MEMBERS)
        .and(Tells::MESSAGES)
        .and(Tells::ALGORITHMS)
        .and(Tells::LINES),
    probe: |_| Is::Perhaps,
};

/// The same text where none of it is NCCL's.
pub(crate) const OTHER: Format = Format {
    what: "text without a line of NCCL",
    ..FORMAT
};

/// True for a whole text, of which none is NCCL's.
pub(super) fn is_other(head: &Head<'_>) -> bool {
    head.is_whole && memchr::memmem::find(head.bytes, b"NCCL").is_none()
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
pub struct Log {
    /// Where its lines went.
    pub account: Account,
    /// Its marks, in order.
    pub marks: MarkList,
    /// Where new processes took over, if it has step lines.
    pub begins: Vec<Begin>,
    /// Byte ranges of its INIT lines, if they were kept.
    pub init_lines: Vec<(u64, u64)>,
    /// Marks that were not kept.
    let_go: usize,
    /// Those before this one are not needed any more.
    needed: AtomicUsize,
    /// The last call.
    last: Option<Count>,
    /// It was found to be written in blocks, before all that was joined is counted.
    is_in_blocks: bool,
    joiner: Joiner,
    attempts: Attempts,
}

/// A chunk's part, in order.
pub struct Part<'a, V> {
    /// What the stage kept of it.
    pub visit: V,
    /// How its numbers read in the merged tables.
    pub to: &'a Renumbered,
    /// The input's number of the chunk's first gap.
    pub gap: usize,
    /// The input's number of the chunk's first line, from 0.
    pub line: u64,
    /// Everyone met so far.
    pub merged: &'a Merged,
    /// The input's marks so far.
    pub marks: Marks<'a>,
    /// The log so far, where what is known of it may be written, and why.
    pub so_far: Option<(&'a Log, Pause)>,
}

impl<'a, V> Part<'a, V> {
    /// What a stage kept, and the part without it: a stage that is made of others hands each
    /// its own by [`Part::with`].
    pub fn taken(self) -> (V, Part<'a, ()>) {
        let rest = self.with(());
        (self.visit, rest)
    }

    /// The part as one that keeps `visit` has it.
    pub fn with<W>(&self, visit: W) -> Part<'a, W> {
        Part {
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

impl Log {
    /// An input that is no log, by its account.
    pub(super) fn of_records(account: Account) -> Log {
        Log {
            account,
            ..Log::default()
        }
    }

    /// The log's steps.
    pub fn timeline(&self, options: &timeline::Options) -> Timeline {
        let mut timeline = timeline::resolve(&self.marks, &self.begins, options);
        timeline.by_position = timeline.by_position.or(self.by_account());
        timeline
    }

    /// The same of a log that is still being written; `growing` is what was known of it before.
    pub fn growing<'g>(
        &self,
        growing: &'g mut Growing,
        options: &timeline::Options,
    ) -> &'g Timeline {
        let timeline = growing.resolve(&self.marks, &self.begins, options);
        timeline.by_position = timeline.by_position.or(self.by_account());
        timeline
    }

    /// The log's steps now that it has ended: of one whose beginning is forgotten those that are left, as they
    /// are known.
    pub fn ended(&self, growing: &mut Growing, options: &timeline::Options) -> Timeline {
        match self.marks.gone() {
            0 => {
                *growing = Growing::default();
                self.timeline(options)
            }
            _ => self.growing(growing, options).clone(),
        }
    }

    /// Says that nobody asks any more for what is up to the end of gap `gap`.
    pub fn forget(&self, gap: u32) {
        // The line that the gap ends with is where the next one begins.
        let needed = (gap as usize).saturating_sub(1);
        self.needed.fetch_max(needed, Ordering::Relaxed);
    }

    /// Why calls are placed by position, by what became of its lines.
    fn by_account(&self) -> Option<ByPosition> {
        match &self.account {
            account if self.is_in_blocks || account.block_writers > 0 => Some(ByPosition::Buffered),
            // A few lost calls are seen by what comes after them.
            account if account.overwritten > 1 || account.damaged > FEW + account.calls / LOST => {
                Some(ByPosition::Lost)
            }
            _ => None,
        }
    }

    /// Adds what a chunk holds; it follows what was added before.
    pub fn add<'a, V: Visit>(
        &'a mut self,
        scanned: Scanned<V>,
        merged: &'a mut Merged,
        to: &'a mut Renumbered,
    ) -> Part<'a, V> {
        let Scanned {
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
        self.marks.forget(*self.needed.get_mut());
        let line = self.account.lines;
        let gap = self.let_go + self.marks.len();
        self.last = prints.last.or(self.last);
        self.account.merge(&account);
        merged.overwritten |= self.account.overwritten > 1;
        let mut joined = Vec::new();
        *to = merged.begin();
        for mut fragment in fragments {
            merged.until(fragment.at, to, &origins, &inits);
            fragment.line += line;
            match &mut fragment.piece {
                Piece::Head(begun) | Piece::Doubtful { begun, .. } => {
                    begun.place = to.places[begun.place as usize];
                }
                Piece::Heard { process } => *process = to.processes[*process as usize],
                Piece::Tail { .. } => {}
            }
            self.joiner
                .feed(fragment, merged, &mut self.account, &mut joined);
        }
        merged.until(u64::MAX, to, &origins, &inits);
        self.attempts.add(&inits, to);
        merged
            .twice
            .steps(&prints, marks.iter().map(|mark| mark.start));
        if origins.has_glued()
            && let Some(first) = same(&to.processes)
        {
            visit.same(&first);
        }
        if !joined.is_empty() {
            visit.torn(&torn(&joined, merged, to));
        }
        self.init_lines.extend(init_lines);
        let placed = |m: MarkAt| {
            let next_line = m.next_line + line;
            MarkAt {
                line: m.line + line,
                next_line,
                ..m
            }
        };
        self.marks.extend(marks.into_iter().map(placed));
        if pause.is_some() {
            self.marks.pack();
            self.begin_attempts(merged);
        }
        Part {
            visit,
            to,
            gap,
            line,
            merged,
            marks: self.marks.all(),
            so_far: pause.map(|pause| (&*self, pause)),
        }
    }

    /// Forgets the marks so far.
    fn forget_marks(&mut self) {
        self.let_go += self.marks.len();
        self.marks.clear();
    }

    /// Finds where new processes took over.
    fn begin_attempts(&mut self, merged: &Merged) {
        let is_step = |mark: &MarkAt| matches!(mark.mark, Mark::Step(_));
        if self.marks.all().iter().any(|mark| is_step(&mark)) {
            self.begins = self.attempts.begins(merged);
        }
    }

    /// The log ended.
    pub fn end(&mut self) {
        self.joiner.close(&mut self.account);
        self.account.end();
    }
}

/// For each of a chunk's processes the first that is the same, by the merged ones; `None` where each is
/// another.
fn same(merged: &[u32]) -> Option<Vec<u32>> {
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
fn torn<'j>(joined: &'j [Joined], merged: &mut Merged, to: &mut Renumbered) -> Vec<Torn<'j>> {
    let mut members = Locals::of(&to.members);
    let mut processes = Locals::of(&to.processes);
    let torn = joined.iter().map(|call| {
        merged.joined_call(call.member, call.text(), call.at);
        let place = merged.origins.members.get(call.member).place;
        let process = merged.origins.places.get(place).process;
        let (tid, time) = call.header();
        Torn {
            slot: call.slot,
            call: Call {
                coll: call.coll(),
                member: members.number(call.member, &mut to.members),
                process: processes.number(process, &mut to.processes),
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
struct Locals(FxHashMap<u32, u32>);

impl Locals {
    fn of(merged: &[u32]) -> Locals {
        let locals = merged.iter().enumerate().rev();
        // Of two that are one the first.
        Locals(
            locals
                .map(|(local, &merged)| (merged, local as u32))
                .collect(),
        )
    }

    /// The chunk's number of one of `all`, new or known.
    fn number(&mut self, merged: u32, all: &mut Vec<u32>) -> u32 {
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
pub fn read<V: Visit + Send>(
    input: &Input,
    options: &Options,
    merged: &mut Merged,
    new: impl Fn() -> V + Sync,
    progress: impl Fn(u64),
    sink: impl FnMut(Part<'_, V>) -> Result<()>,
) -> Result<Log> {
    let begun = Begun {
        walked: Vec::new(),
        chunks: input.chunks(usize::MAX, walk::place)?,
    };
    read_on(input, begun, options, merged, new, progress, sink)
}

/// A log whose first chunks may be walked already.
pub(super) struct Begun<V> {
    walked: Vec<Result<Walked<V>>>,
    chunks: Chunks,
}

/// Chunks of a file that is unpacked that are walked before it is its turn.
const AHEAD: usize = 4;

/// Where more than one line in so many calls is damaged, calls are placed by position.
const LOST: u64 = 100;

/// So many damaged lines are few in any log.
const FEW: u64 = 4;

/// Walks the first chunks of a log, if they are few: a large one is shared out when it is its turn.
///
/// # Errors
/// The input cannot be read.
pub(super) fn begin<V: Visit>(
    input: &Input,
    options: &Options,
    new: impl Fn() -> V,
) -> Result<Begun<V>> {
    let mut chunks = input.chunks(usize::MAX, walk::place)?;
    let ahead = match chunks.about() {
        Some(0 | 1) | None => AHEAD,
        Some(_) => 0,
    };
    let walked = chunks.by_ref().take(ahead);
    let walked = walked
        .map(|chunk| walk_chunk(input, chunk, options, &new))
        .collect();
    Ok(Begun { walked, chunks })
}

fn walk_chunk<V: Visit>(
    input: &Input,
    chunk: Result<Chunk>,
    options: &Options,
    new: impl Fn() -> V,
) -> Result<Walked<V>> {
    let chunk = chunk?;
    chunk.expect();
    let mut scanned = scan(&chunk, options, new())?;
    scanned.account.dropped += chunk.dropped;
    scanned.account.is_open &= chunk.dropped == 0;
    scanned.is_in_blocks = input.joined().is_some();
    Ok((scanned, chunk.bytes().len() as u64 + chunk.dropped))
}

/// Goes on with a log that was begun; see [`read`].
///
/// # Errors
/// As [`read`].
pub(super) fn read_on<V: Visit + Send>(
    input: &Input,
    begun: Begun<V>,
    options: &Options,
    merged: &mut Merged,
    new: impl Fn() -> V + Sync,
    progress: impl Fn(u64),
    sink: impl FnMut(Part<'_, V>) -> Result<()>,
) -> Result<Log> {
    let Begun { walked, mut chunks } = begun;
    let walk = |chunk: Result<Chunk>| walk_chunk(input, chunk, options, &new);
    let jobs = chunks.about().map_or(options.jobs, |n| options.jobs.min(n));
    // One chunk needs no threads; of a live input the second one may come much later.
    let ahead = if jobs > 1 && !chunks.is_live() { 2 } else { 0 };
    let first: Vec<_> = chunks.by_ref().take(ahead).collect();
    let jobs = if first.len() < ahead { 1 } else { jobs };
    let chunks = first.into_iter().chain(chunks);
    let (name, strict) = (input.name(), options.strict);
    let how = (strict, options.keep_marks);
    let mut log = one(&name, how, merged, progress, sink, |take| {
        walked.into_iter().try_for_each(&mut *take)?;
        pool::as_they_come(jobs, chunks, walk, take)
    })?;
    if let Some(seen) = input.joined() {
        log.account.joined(seen);
        log.is_in_blocks = false;
    }
    log.account.broken = unbroken(input, strict)?;
    Ok(log)
}

/// What the walk over a chunk found, and the bytes it was.
type Walked<V> = (Scanned<V>, u64);

/// A log of one chunk, or several as one, walked before it is its turn.
pub struct Ahead<V>(Option<Walked<V>>);

/// Walks a small file by itself, to be merged when it is its turn.
pub fn ahead<V: Visit>(bytes: &[u8], options: &Options, new: impl Fn() -> V) -> Ahead<V> {
    let (recogniser, keep) = (&options.recogniser, options.keep_init_lines);
    let walk = || walk::scan(bytes, (0, true), recogniser, keep, new());
    Ahead((!bytes.is_empty()).then(|| (walk(), bytes.len() as u64)))
}

/// Walks small files as one log, to be merged when it is their turn, and says what each had; see
/// [`walk::together`].
pub fn together<V: Visit>(
    texts: &Texts<'_>,
    options: &Options,
    marks: bool,
    visit: V,
) -> Option<(Ahead<V>, Vec<Had>)> {
    let (bytes, at) = (texts.bytes(), texts.at());
    let (scanned, had) = walk::together(bytes, at, &options.recogniser, marks, visit)?;
    let read = texts.each().map(|text| text.len() as u64).sum();
    Some((Ahead(Some((scanned, read))), had))
}

impl<V: Visit> Ahead<V> {
    /// Does what [`read`] does with the walked chunk of the input `name`.
    ///
    /// # Errors
    /// A damaged line under `strict`; the sink's own.
    pub fn merge(
        self,
        name: &str,
        strict: bool,
        merged: &mut Merged,
        progress: impl Fn(u64),
        sink: impl FnMut(Part<'_, V>) -> Result<()>,
    ) -> Result<Log> {
        one(name, (strict, true), merged, progress, sink, |take| {
            self.give(take)
        })
    }

    /// The same of several inputs that were walked as one: their names, and what each had. With
    /// the log of all of them comes for each the inputs before it that have calls of it.
    ///
    /// # Errors
    /// The sink's own.
    pub fn merge_all(
        self,
        names: impl Iterator<Item = String>,
        had: &[Had],
        merged: &mut Merged,
        progress: impl Fn(u64),
        sink: impl FnMut(Part<'_, V>) -> Result<()>,
    ) -> Result<(Log, Vec<Option<Again>>)> {
        let ends = had.iter().map(|had| had.end);
        merged.twice.begin(names.zip(ends));
        // Nothing in them is damaged.
        let log = gather("", (false, true), merged, progress, sink, |take| {
            self.give(take)
        })?;
        let ends = had.iter().map(|had| End {
            calls: had.calls,
            last: had.last,
        });
        Ok((log, merged.end_input(ends)))
    }

    fn give(self, take: Take<'_, V>) -> Result<()> {
        self.0.into_iter().map(Ok).try_for_each(take)
    }
}

/// Takes a walked chunk.
type Take<'t, V> = &'t mut dyn FnMut(Result<Walked<V>>) -> Result<()>;

/// Merges the walked chunks of one input, and says which inputs before it have calls of it.
fn one<V: Visit>(
    name: &str,
    how: (bool, bool),
    merged: &mut Merged,
    progress: impl Fn(u64),
    sink: impl FnMut(Part<'_, V>) -> Result<()>,
    chunks: impl FnOnce(Take<'_, V>) -> Result<()>,
) -> Result<Log> {
    merged.twice.begin(iter::once((name.to_owned(), u64::MAX)));
    let mut log = gather(name, how, merged, progress, sink, chunks)?;
    let end = End {
        calls: log.account.calls,
        last: log.last,
    };
    log.account.again = merged.end_input(iter::once(end)).pop().flatten();
    Ok(log)
}

/// Merges the walked chunks of the input `name`, which `chunks` hands over in order; stops at damage
/// where it is to be `strict`, and forgets marks that are not to be kept.
fn gather<V: Visit>(
    name: &str,
    (strict, keep_marks): (bool, bool),
    merged: &mut Merged,
    progress: impl Fn(u64),
    mut sink: impl FnMut(Part<'_, V>) -> Result<()>,
    chunks: impl FnOnce(Take<'_, V>) -> Result<()>,
) -> Result<Log> {
    merged.next_input();
    let mut log = Log {
        attempts: Attempts::new(merged),
        ..Log::default()
    };
    let mut to = Renumbered::default();
    chunks(&mut |walked| {
        let (scanned, bytes) = walked?;
        progress(bytes);
        sink(log.add(scanned, merged, &mut to))?;
        if !keep_marks {
            log.forget_marks();
        }
        if strict {
            first_damage(name, &log.account)
        } else {
            Ok(())
        }
    })?;
    log.end();
    log.begin_attempts(merged);
    if log.account.overwritten + log.account.headless > 0 {
        log.account.haunted(merged.ghosts());
        merged.overwritten |= log.account.overwritten > 1;
    }
    if strict {
        first_damage(name, &log.account)?;
    }
    Ok(log)
}

/// Walks one chunk.
///
/// # Errors
/// It is not what it was at the pass before.
pub fn scan<V: Visit>(chunk: &Chunk, options: &Options, visit: V) -> Result<Scanned<V>> {
    let mut scanned = walk::scan(
        chunk.bytes(),
        (chunk.offset, chunk.quiet),
        &options.recogniser,
        options.keep_init_lines,
        visit,
    );
    chunk.walked()?;
    scanned.pause = chunk.pause;
    Ok(scanned)
}

/// What is wrong with an input that is packed and was read to its end.
///
/// # Errors
/// Something of it is lost, under `strict`.
pub fn unbroken(input: &Input, strict: bool) -> Result<Option<Broken>> {
    match input.broken() {
        Some(broken) if strict && broken.is_lost => {
            let (name, what) = (input.name(), broken.what);
            Err(Error::Damaged(format!("{name}: {what}")))
        }
        broken => Ok(broken),
    }
}

/// The error of `--strict`, if a line was damaged.
pub fn first_damage(name: &str, account: &Account) -> Result<()> {
    match account.first_place() {
        Some(place) => Err(Error::Damaged(format!(
            "{name}:{}:{}: expected {}",
            place.line + 1,
            place.column,
            place.what
        ))),
        None => Ok(()),
    }
}
