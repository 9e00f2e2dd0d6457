//! All calls that are still to be placed, by process, in line order.

use super::CutsByProcess;
use super::call_list::{CallList, CallSlice};
use super::limits::{NO_CODE, NO_LINE_POSITION};
use super::record::{CallRecorder, ProcessCalls, calls_until};
use super::what::{CallShape, CallShapes};
use crate::by_number::ByNumber;
use crate::grammar::values::{Datatype, RedOp, has_redop, has_root};
use crate::members::{MergedNumbers, OpInterner};
use crate::output::table::Row;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One process's calls.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct ProcessStream {
    /// The shape of each call, by number.
    pub(super) calls: CallList,
    /// Where each call is in the input, if that was kept; [`NO_LINE_POSITION`] for a joined one.
    at: Vec<u64>,
    /// (gap, calls up to its end) by position; of gaps with calls, both rising.
    pub(super) ends: Vec<(u32, u32)>,
}

impl ProcessStream {
    pub(super) fn len(&self) -> u32 {
        self.calls.len() as u32
    }

    /// How many calls appear up to the end of `gap`.
    pub(super) fn calls_until(&self, gap: u32) -> u32 {
        calls_until(&self.ends, gap)
    }

    /// The bytes that the calls and their places take.
    fn memory_bytes(&self) -> u64 {
        self.calls.memory_bytes() + 8 * (self.at.len() + self.ends.len()) as u64
    }

    fn end_gap(&mut self, gap: u32, end: u32) {
        match self.ends.last_mut() {
            Some(last) if last.0 == gap => last.1 = end,
            _ => self.ends.push((gap, end)),
        }
    }

    /// Drops the first `n` calls.
    fn drop_first(&mut self, n: u32) {
        self.calls.drop_first(n as usize);
        self.at.drain(..self.at.len().min(n as usize));
        self.ends.retain_mut(|(_, end)| {
            let is_left = *end > n;
            *end = end.saturating_sub(n);
            is_left
        });
    }
}

/// The calls of a process in a gap.
#[derive(Debug, Clone, Copy)]
pub struct GapCalls {
    /// The gap.
    pub gap: u32,
    process: u32,
    /// The number of the first call, and of the first one after them.
    from: u32,
    end: u32,
}

impl GapCalls {
    /// How many there are.
    pub fn count_calls(self) -> usize {
        self.end.saturating_sub(self.from) as usize
    }
}

/// The calls of one input by process.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct StreamsByProcess {
    /// Operations by number.
    pub ops: OpInterner,
    /// The shapes of calls; members are merged.
    whats: CallShapes,
    /// By merged process.
    pub(super) streams: ByNumber<ProcessStream>,
}

impl StreamsByProcess {
    /// How many calls there are.
    pub fn count_calls(&self) -> u64 {
        self.streams.all_values().map(|s| u64::from(s.len())).sum()
    }

    /// The bytes that the calls and their places take.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.streams
            .all_values()
            .map(ProcessStream::memory_bytes)
            .sum()
    }

    /// Adds a chunk that begins with gap `gap` of the input. Returns the number of calls by gap.
    pub(super) fn add_chunk(
        &mut self,
        part: &mut CallRecorder,
        gap: usize,
        to: &MergedNumbers,
    ) -> Vec<(u32, u64)> {
        let last = part.close_gap();
        let gap = gap as u32;
        let ops: Vec<u32> = part.ops.op_names().map(|n| self.ops.intern(n).0).collect();
        let of = |numbers: &[u32], at: u32| numbers.get(at as usize).copied().unwrap_or(0);
        let whats = part.whats.interned_values().iter().map(|what| {
            self.whats.intern_value(CallShape {
                member: of(&to.members, what.member),
                op: of(&ops, what.op),
                ..*what
            })
        });
        let whats: Vec<u32> = whats.collect();
        let mut codes = vec![NO_CODE; whats.len()];
        for (&process, list) in to.processes.iter().zip(&part.lists) {
            self.streams
                .entry(process)
                .append_chunk(list, &whats, &mut codes, gap);
        }
        count_by_gap(part, gap, last)
    }

    /// Calls by gap, by position.
    pub(super) fn calls_by_gap(&self) -> BTreeMap<u32, u64> {
        let mut by_gap = BTreeMap::new();
        for stream in self.streams.all_values() {
            let mut from = 0;
            for &(gap, end) in &stream.ends {
                *by_gap.entry(gap).or_default() += u64::from(end - from);
                from = end;
            }
        }
        by_gap
    }

    /// Takes out the calls that appear after the end of `gap`; `self` keeps their shapes.
    pub(super) fn split_after(&mut self, gap: u32) -> StreamsByProcess {
        let split = |stream: &mut ProcessStream| {
            let at = stream.calls_until(gap);
            let later = stream.ends.partition_point(|&(g, _)| g <= gap);
            let ends = stream.ends.split_off(later);
            ProcessStream {
                calls: stream.calls.split_off(at as usize),
                at: stream.at.split_off(stream.at.len().min(at as usize)),
                ends: ends.into_iter().map(|(g, end)| (g, end - at)).collect(),
            }
        };
        StreamsByProcess {
            streams: self.streams.map_mut(split),
            ..StreamsByProcess::default()
        }
    }

    /// Puts back what [`StreamsByProcess::split_after`] took out.
    pub(super) fn append_later(&mut self, later: StreamsByProcess) {
        for (process, later) in later.streams {
            let stream = self.streams.entry(process);
            let before = stream.len();
            stream.calls.append(&later.calls);
            stream.at.extend(later.at);
            let ends = later.ends.into_iter();
            stream
                .ends
                .extend(ends.map(|(gap, end)| (gap, before + end)));
        }
    }

    /// Gives the calls of each process that lie in the gaps of `cuts`, in order.
    pub fn each_gap_calls<'a>(
        &self,
        cuts: &'a CutsByProcess,
    ) -> impl Iterator<Item = GapCalls> + use<'a> {
        cuts.iter_numbered().flat_map(|(process, cuts)| {
            let mut from = 0;
            cuts.iter().map(move |&(gap, end)| {
                let calls = GapCalls {
                    gap,
                    process,
                    from,
                    end,
                };
                from = end;
                calls
            })
        })
    }

    /// Returns the shapes of a process's calls in a gap, by number.
    pub fn calls_of(&self, of: GapCalls) -> CallSlice<'_> {
        let stream = self.streams.get(of.process);
        stream.map_or(CallSlice::default(), |stream| {
            stream.calls.slice(of.from as usize..of.end as usize)
        })
    }

    /// Gives each call with its line in another gap than the one it was made in: the line's position, the line's
    /// gap, the call's gap.
    pub fn each_moved(&self, cuts: &CutsByProcess, mut sink: impl FnMut(u64, u32, u32)) {
        let streams = self.streams.iter_numbered();
        let streams = streams.filter_map(|(process, stream)| Some((stream, cuts.get(process)?)));
        for (stream, cuts) in streams.filter(|(stream, _)| !stream.at.is_empty()) {
            let (mut from, mut ends) = (0, stream.ends.iter().peekable());
            for &(gap, end) in cuts {
                for number in from..end {
                    while ends.next_if(|(_, end)| *end <= number).is_some() {}
                    let (Some(&&(line, _)), Some(&at)) =
                        (ends.peek(), stream.at.get(number as usize))
                    else {
                        continue;
                    };
                    if line != gap && at != NO_LINE_POSITION {
                        sink(at, line, gap);
                    }
                }
                from = end;
            }
        }
    }

    /// Adds another input's calls: those of a process to the end of the stream that `slot` names.
    /// `member` gives a member's number here. Gives the streams that got some, with how many calls
    /// each has then.
    pub(super) fn absorb_input(
        &mut self,
        other: StreamsByProcess,
        member: impl Fn(u32) -> u32,
        mut slot: impl FnMut(u32) -> u32,
    ) -> Vec<(u32, u32)> {
        let ops: Vec<u32> = other.ops.op_names().map(|n| self.ops.intern(n).0).collect();
        let whats = other.whats.interned_values().iter().map(|what| {
            let op = ops.get(what.op as usize).copied().unwrap_or(0);
            let member = member(what.member);
            self.whats.intern_value(CallShape {
                op,
                member,
                ..*what
            })
        });
        let whats: Vec<u32> = whats.collect();
        let mut got = Vec::new();
        for (process, mut stream) in other.streams {
            if stream.len() == 0 {
                continue;
            }
            stream
                .calls
                .renumber(|what| *what = whats.get(*what as usize).copied().unwrap_or(0));
            let at = slot(process);
            let to = self.streams.entry(at);
            if to.len() == 0 {
                *to = stream;
            } else {
                to.calls.append(&stream.calls);
                to.calls.forget_index();
                to.at.append(&mut stream.at);
            }
            // Where the lines are is no matter any more.
            let end = to.len();
            to.ends = vec![(0, end)];
            got.push((at, end));
        }
        got
    }

    /// Returns a stream's call by its number: its shape, and its line's position if that was kept.
    pub(super) fn call_at(&self, stream: u32, number: u32) -> Option<(&CallShape, Option<u64>)> {
        let stream = self.streams.get(stream)?;
        let what = stream.calls.get(number as usize)?;
        let at = stream.at.get(number as usize).copied();
        Some((
            self.call_shapes().get(what as usize)?,
            at.filter(|&at| at != NO_LINE_POSITION),
        ))
    }

    /// Returns the position in the input of a process's first call from `number` on with its line in a gap that is
    /// `wanted`.
    pub(super) fn first_position_from(
        &self,
        process: u32,
        number: u32,
        wanted: impl Fn(u32) -> bool,
    ) -> u64 {
        let Some(stream) = self.streams.get(process) else {
            return u64::MAX;
        };
        let (mut from, mut first) = (number, u64::MAX);
        let later = stream.ends.partition_point(|&(_, end)| end <= number);
        for &(gap, end) in &stream.ends[later..] {
            let own = stream.at.get(from as usize..end as usize);
            if wanted(gap) {
                let own = own
                    .into_iter()
                    .flatten()
                    .filter(|at| **at != NO_LINE_POSITION);
                first = own.fold(first, |first, &at| first.min(at));
            }
            from = end;
        }
        first
    }

    /// Cuts all calls into the first gap, if no gap is known.
    pub fn unplaced_cuts(&self) -> CutsByProcess {
        self.streams.map_values(|_, stream| vec![(0, stream.len())])
    }

    /// Returns the shapes of calls, by number.
    pub fn call_shapes(&self) -> &[CallShape] {
        self.whats.interned_values()
    }

    /// Returns `calls` of a shape as a row of the call table, without their member's columns.
    pub fn row_of_shape(&self, what: &CallShape, calls: u64) -> Row<'_> {
        let op = self.ops.name_of_op(what.op);
        Row {
            op,
            count: Some(what.count),
            datatype: Some(Datatype(what.datatype)),
            nranks: what.nranks,
            redop: has_redop(op).then_some(RedOp(what.redop)),
            root: has_root(op).then_some(what.root),
            calls,
            ..Row::default()
        }
    }

    /// Drops the first `of(process)` calls of each process.
    pub(super) fn drop_first(&mut self, of: impl Fn(u32) -> u32) {
        for (process, stream) in self.streams.iter_numbered_mut() {
            stream.drop_first(of(process).min(stream.len()));
        }
    }

    /// Forgets the shapes that neither a call nor one of `others` has, if there are more shapes than calls.
    pub(super) fn forget_unused<'o>(&mut self, others: impl Iterator<Item = &'o mut Vec<u32>>) {
        if self.call_shapes().len() as u64 <= self.count_calls() {
            return;
        }
        let old = std::mem::take(&mut self.whats);
        let whats = &mut self.whats;
        let mut renumber = |what: &mut u32| {
            if let Some(is) = old.interned_values().get(*what as usize) {
                *what = whats.intern_value(*is);
            }
        };
        for stream in self.streams.values_mut() {
            stream.calls.forget_unused();
            stream.calls.renumber(&mut renumber);
        }
        others.flatten().for_each(renumber);
    }
}

/// A chunk's calls by gap of the input.
fn count_by_gap(part: &CallRecorder, gap: u32, last: u32) -> Vec<(u32, u64)> {
    let mut made = vec![0_u64; last as usize + 1];
    let mut add = |at: u32, n: u64| {
        if let Some(made) = made.get_mut(at as usize) {
            *made += n;
        }
    };
    for list in &part.lists {
        let mut from = 0;
        for &(at, end) in &list.ends {
            add(at, u64::from(end - from));
            from = end;
        }
    }
    let all = (gap..).zip(made);
    all.filter(|(_, n)| *n > 0).collect()
}

impl ProcessStream {
    /// Adds the calls of a chunk that begins with gap `gap`.
    fn append_chunk(&mut self, list: &ProcessCalls, whats: &[u32], codes: &mut [u32], gap: u32) {
        let before = self.len();
        self.calls.extend_renumbered(&list.calls, whats, codes);
        self.at.extend(&list.at);
        for &(in_gap, end) in &list.ends {
            self.end_gap(gap + in_gap, before + end);
        }
    }
}

#[cfg(test)]
impl StreamsByProcess {
    /// One process's calls, all in the first gap.
    pub(super) fn of_calls(calls: &[u32]) -> StreamsByProcess {
        StreamsByProcess {
            streams: vec![ProcessStream {
                calls: CallList::from(calls),
                at: Vec::new(),
                ends: vec![(0, calls.len() as u32)],
            }]
            .into(),
            ..StreamsByProcess::default()
        }
    }
}
