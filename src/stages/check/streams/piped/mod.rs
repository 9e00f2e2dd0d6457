//! The calls of a log that comes through a pipe, kept while it is read as far as they may be asked for
//! again: [`reread`](super::reread) reads a file again, and a pipe can be read only once.
//!
//! A call whose members agree is let go, and its line with it ([`Thin`]). What the second walk over a file
//! finds out beside calls is gathered here, too. So what is kept is as long as ranks may be apart, and
//! not as long as the log.

mod agreed;
mod lines;
#[cfg(test)]
mod tests;

use super::reread::{Calls, Detail, Stretch};
use super::step_ends::{StepEnds, Steps};
use super::{Caller, Streams, Way, caller, way};
use crate::count::calls::Options;
use crate::error::{Error, Result};
use crate::log::Part;
use crate::log::placement::Recorder;
use crate::log::timeline::{Timeline, Turn};
use crate::members::{Merged, Ops};
use crate::source::Thin;
use crate::stages::check::log::job_spans::Silence;
use agreed::Agreed;
use lines::{Lines, each};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io;

/// So many bytes of text lie in memory as they are: most of what is let go is let go of these, and never packed.
/// With half of it most lines are packed first.
const WINDOW: u64 = 16 << 20;

/// And so many more before they are looked through.
const LOOK: u64 = 4 << 20;

/// What is kept is packed anew once so many calls are kept in vain, and more than are not.
const VAIN: u64 = 1 << 16;

/// So many calls that were put together from pieces are few.
const TORN: usize = 1 << 10;

/// More of it is not held, packed, of communicators whose members did not all come.
const MOST: u64 = 1 << 30;

/// The bytes that lie in memory as they are; tests let go of all at once.
fn window() -> u64 {
    #[cfg(test)]
    if let Some(window) = tests::WINDOW.get() {
        return window;
    }
    WINDOW
}

/// A call.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Made {
    /// Its line's first byte.
    at: u64,
    /// Its number among all calls of the input.
    index: u64,
    /// Its number in its stream.
    seq: u64,
    /// The same among all of its process.
    nth: u64,
    stream: u32,
    op: u32,
    count: u64,
    datatype: u32,
    redop: u64,
    root: i64,
    op_count: u64,
    joined: bool,
}

/// The calls of a process: how many, and the first and the last among all of the input.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Span {
    pub(crate) calls: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// A pipe while it is read.
pub(crate) struct Piping<'o> {
    name: String,
    steps: Steps<'o>,
    piped: Piped,
    agreed: Agreed,
    /// Calls whose lines were not looked through, in order.
    fresh: VecDeque<Made>,
    /// By stream, how many of its calls were looked through.
    done: Vec<u64>,
    /// The same of all streams.
    all_done: u64,
    /// Calls whose lines are kept.
    kept: u64,
    /// How many calls that were put together were left when they were last gone through.
    torn: usize,
    /// How many bytes lie in memory as they are.
    window: u64,
}

/// What is kept of a pipe that was read.
pub(crate) struct Piped {
    thin: Thin,
    ops: Ops,
    /// Calls that were put together from pieces: which lines they are is not clear.
    torn: Vec<Made>,
    /// How many calls each stream has, with those of inputs before.
    calls: Vec<u64>,
    /// The same of each process.
    made: FxHashMap<u32, u64>,
    /// Each process's calls here.
    spans: FxHashMap<u32, Span>,
    /// All calls.
    all: u64,
    /// When processes ended their steps.
    ends: StepEnds,
}

impl<'o> Piping<'o> {
    /// Begins with a pipe; `streams` are those of the inputs before it.
    pub(crate) fn new(name: String, thin: Thin, streams: &Streams, options: &'o Options) -> Self {
        let mut made: FxHashMap<u32, u64> = FxHashMap::default();
        for ((caller, _), &stream) in &streams.at {
            let process = streams.callers.get(*caller).process;
            *made.entry(process).or_default() += streams.list[stream as usize].calls;
        }
        let piped = Piped {
            thin,
            ops: Ops::default(),
            torn: Vec::new(),
            calls: streams.list.iter().map(|stream| stream.calls).collect(),
            made,
            spans: FxHashMap::default(),
            all: 0,
            ends: StepEnds::default(),
        };
        Piping {
            name,
            steps: Steps::new(options),
            done: piped.calls.clone(),
            piped,
            agreed: Agreed::default(),
            fresh: VecDeque::new(),
            all_done: 0,
            kept: 0,
            torn: 0,
            window: window(),
        }
    }

    /// Adds a chunk, of which `streams` has the calls already.
    pub(crate) fn add(
        &mut self,
        (calls, placed): (Calls<'_>, Recorder),
        part: &Part<'_, ()>,
        streams: &Streams,
    ) {
        self.steps.add(placed, part);
        let callers: Vec<Option<(u32, Caller)>> = part
            .to
            .members
            .iter()
            .map(|&member| {
                let who = caller(member, part.merged);
                Some((streams.callers.find(&who)?, who))
            })
            .collect();
        let stream = |caller: u32, way: Way| streams.at.get(&(caller, way)).copied();
        let own: Vec<Option<u32>> = callers
            .iter()
            .map(|known| stream(known.as_ref()?.0, Way::Collective))
            .collect();
        let ops: Vec<u32> = calls
            .ops
            .names()
            .map(|name| self.piped.ops.intern(name).0)
            .collect();
        self.piped.calls.resize(streams.list.len(), 0);
        for small in &calls.list {
            let member = small.member as usize;
            let Some(way) = way(&small.coll(calls.ops.name(small.op))) else {
                continue;
            };
            let Some(&Some((number, Caller { process, .. }))) = callers.get(member) else {
                continue;
            };
            let known = match way {
                Way::Collective => own[member],
                way => stream(number, way),
            };
            let Some(stream) = known else { continue };
            let (seq, nth, index) = self.piped.next(stream, process);
            let made = Made {
                at: small.at,
                index,
                seq,
                nth,
                stream,
                op: ops[small.op as usize],
                count: small.count,
                datatype: small.datatype,
                redop: small.redop,
                root: small.root,
                op_count: small.op_count,
                joined: small.joined,
            };
            // Lines are looked through in their order.
            let is_behind = self.fresh.back().is_some_and(|last| last.at > made.at);
            match made.joined || is_behind {
                true => self.piped.torn.push(made),
                false => self.fresh.push_back(made),
            }
        }
    }

    /// At a turn: steps before gap `old` are not asked for any more.
    pub(crate) fn turn(&mut self, turn: Turn, old: usize, part: &Part<'_, ()>) {
        self.steps.turn(turn, old, part);
    }

    /// The input is read up to there, and all calls before it are known: lets go of what will not be asked
    /// for again.
    ///
    /// # Errors
    /// What is kept cannot be written.
    pub(crate) fn look(
        &mut self,
        until: u64,
        streams: &mut Streams,
        merged: &Merged,
    ) -> Result<()> {
        let waiting = self.piped.thin.waiting();
        if waiting < self.window + LOOK.min(self.window) {
            return Ok(());
        }
        if self.piped.thin.packed() > MOST {
            self.agreed.give_up();
        }
        self.agreed.look(streams, merged);
        self.agreed.forget(&mut streams.list);
        // What the last calls of all ranks show, they may be asked for.
        let last = self.piped.all.saturating_sub(streams.last_calls());
        let until = until.min(self.piped.thin.until() + waiting - self.window);
        let agreed = &self.agreed;
        let is_wanted = |made: &Made| made.index >= last || agreed.is_kept(made.stream, made.seq);
        if self.piped.torn.len() > 2 * self.torn + TORN {
            self.piped.torn.retain(is_wanted);
            self.torn = self.piped.torn.len();
        }
        let mut lines = Lines::new(&self.fresh, &is_wanted);
        let at = self.piped.thin.look(until, &mut lines);
        let at = at.map_err(|cause| failed(&self.name, cause))?;
        self.kept += lines.kept;
        self.pass(at);
        self.sift(last)
    }

    /// The lines before `at` were looked through.
    fn pass(&mut self, at: u64) {
        self.done.resize(self.piped.calls.len(), 0);
        let many = self.fresh.partition_point(|made| made.at < at);
        for made in self.fresh.drain(..many) {
            self.done[made.stream as usize] = made.seq + 1;
            self.all_done = made.index + 1;
        }
    }

    /// Packs what is kept anew, if much of it is kept in vain.
    fn sift(&mut self, last: u64) -> Result<()> {
        let agreed = &self.agreed;
        let streams = (0..).zip(&self.done);
        let wanted: u64 = streams
            .map(|(stream, &done)| agreed.kept(stream, done))
            .sum();
        let wanted = wanted + self.all_done.saturating_sub(last);
        let vain = self.kept.saturating_sub(wanted);
        if vain < VAIN.min(self.window) || vain < wanted {
            return Ok(());
        }
        let is_wanted = |made: &Made| made.index >= last || agreed.is_kept(made.stream, made.seq);
        let mut kept = 0;
        let sifted = self.piped.thin.sift(|note| {
            let (mut is_any, mut all) = (false, 0);
            each(note, |made| {
                is_any |= is_wanted(&made);
                all += 1;
            });
            kept += if is_any { all } else { 0 };
            is_any
        });
        sifted.map_err(|cause| failed(&self.name, cause))?;
        self.kept = kept;
        Ok(())
    }

    /// The input is read to its end.
    ///
    /// # Errors
    /// What is kept cannot be written.
    pub(crate) fn end(
        mut self,
        (number, timeline): (u32, &Timeline),
        merged: &Merged,
    ) -> Result<Piped> {
        let mut lines = Lines::new(&self.fresh, &|_| true);
        let looked = self.piped.thin.look_at_all(&mut lines);
        looked.map_err(|cause| failed(&self.name, cause))?;
        let ends = &mut self.piped.ends;
        self.steps.ended((number, timeline), merged, ends);
        Ok(self.piped)
    }
}

impl Piped {
    /// The numbers of the next call: in its stream, of its process, and in the input.
    fn next(&mut self, stream: u32, process: u32) -> (u64, u64, u64) {
        let index = self.all;
        self.all += 1;
        let span = self.spans.entry(process).or_insert(Span {
            first: index,
            ..Span::default()
        });
        (span.calls, span.last) = (span.calls + 1, index);
        let made = self.made.entry(process).or_default();
        let nth = *made;
        *made += 1;
        let calls = &mut self.calls[stream as usize];
        *calls += 1;
        (*calls - 1, nth, index)
    }

    /// Does for the input `number` what reading a file again does: gives the calls that are wanted;
    /// `which` has the place of a stream among `streams`.
    ///
    /// # Errors
    /// What is kept cannot be read.
    pub(super) fn again(
        &self,
        number: u32,
        (which, streams): (&FxHashMap<u32, usize>, &mut [Stretch]),
        made: &mut FxHashMap<u32, u64>,
        (silence, ends): (&mut Silence, Option<&mut StepEnds>),
    ) -> Result<()> {
        let mut take = |call: Made| {
            let stretch = which.get(&call.stream).and_then(|&at| streams.get_mut(at));
            let Some(stretch) = stretch else { return };
            stretch.put(call.seq, || Detail {
                seq: call.seq,
                nth: call.nth,
                op: self.ops.name(call.op).into(),
                count: call.count,
                datatype: call.datatype,
                redop: call.redop,
                root: call.root,
                input: number,
                at: call.at,
                op_count: call.op_count,
                joined: call.joined,
            });
        };
        let noted = self.thin.notes(|note| each(note, &mut take));
        noted.map_err(|cause| failed("the copy of the pipe", cause))?;
        self.torn.iter().cloned().for_each(take);
        for (stream, &calls) in (0..).zip(&self.calls) {
            if let Some(stretch) = which.get(&stream).and_then(|&at| streams.get_mut(at)) {
                stretch.went_on(calls);
            }
        }
        made.extend(&self.made);
        silence.input(number, &self.spans, self.all);
        if let Some(ends) = ends {
            ends.add(&self.ends);
        }
        Ok(())
    }
}

/// The error of a copy that cannot be written or read.
fn failed(name: &str, cause: io::Error) -> Error {
    Error::Input {
        path: name.into(),
        cause,
    }
}
