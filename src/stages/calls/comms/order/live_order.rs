//! The order of the rows of a log that is still being written.

use super::early_lines::EarlyLineCalls;
use crate::error::Result;
use crate::stages::calls::comms::limits::FOUND_AT_ITS_LINE;
use std::collections::VecDeque;

/// Where a call was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::stages::calls::comms) enum CallGap {
    /// In this gap.
    Of(u32),
    /// In its line's.
    OfLine,
    /// Not known yet: in no settled stretch.
    Later,
}

/// A chunk's calls.
pub(in crate::stages::calls::comms) trait OrderedChunk:
    Clone
{
    /// The number of calls.
    fn len(&self) -> usize;
    /// The gap of a call's line.
    fn gap_of_line(&self, call: usize) -> u32;
    /// A call's process.
    fn process_of_call(&self, call: usize) -> u32;
}

/// Chunks that wait, in their order.
pub(in crate::stages::calls::comms) trait ChunkQueue {
    /// One of these chunks.
    type Chunk: OrderedChunk;
    /// Returns the chunk with this number, if it came; dropped ones are not requested.
    ///
    /// # Errors
    /// It cannot be read.
    fn get_chunk(&mut self, number: u64) -> Result<Option<Self::Chunk>>;
    /// Drops the chunks before this one.
    ///
    /// # Errors
    /// The memory that they took cannot be given back.
    fn drop_chunks_before(&mut self, number: u64) -> Result<()>;
}

/// The places known so far.
pub(in crate::stages::calls::comms) trait KnownPlaces {
    /// The last gap that is settled.
    fn last_settled_gap(&self) -> Option<u32>;
    /// The last gap of a gap's stretch.
    fn stretch_end(&self, gap: u32) -> u32;
    /// Returns where a process made the call with this number, and up to which number it stayed there.
    fn find_cut(&self, process: u32, number: u32) -> (CallGap, u32);
}

/// A call of a chunk: its index, its process, and its number among the process's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::stages::calls::comms) struct ChunkCall {
    pub(in crate::stages::calls::comms) at: usize,
    pub(in crate::stages::calls::comms) process: u32,
    number: u32,
}

/// How far the calls were gone through.
#[derive(Debug, Clone, Default)]
struct CallCursor {
    chunk: u64,
    at: usize,
    /// The number of the next call in the log.
    index: u64,
    /// By process: how many calls.
    made: Vec<u32>,
    /// By process: where it made the next ones, up to which number. Looked up once for a run of calls.
    cuts: Vec<(CallGap, u32)>,
}

impl CallCursor {
    /// Goes on to the next call, which this process made.
    fn next_call(&mut self, process: u32) -> ChunkCall {
        let who = process as usize;
        if self.made.len() <= who {
            self.made.resize(who + 1, 0);
        }
        let (at, number) = (self.at, self.made[who]);
        self.made[who] = number.saturating_add(1);
        self.at += 1;
        self.index += 1;
        ChunkCall {
            at,
            process,
            number,
        }
    }

    /// Returns where the last call visited was made.
    fn find_gap(&mut self, call: ChunkCall, known: &impl KnownPlaces) -> CallGap {
        let who = call.process as usize;
        if self.cuts.len() <= who {
            self.cuts.resize(who + 1, (CallGap::Later, 0));
        }
        let cut = &mut self.cuts[who];
        if cut.1 <= call.number {
            *cut = known.find_cut(call.process, call.number);
        }
        cut.0
    }

    fn begin_next_chunk(&mut self) {
        (self.chunk, self.at) = (self.chunk + 1, 0);
    }
}

/// The first pass's result for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FirstPassResult {
    /// It was made in a stretch before, and was taken.
    Taken,
    /// It was made in a stretch before, but its line is too late.
    Far,
    Other,
}

/// Orders calls while they come and are placed, in the order of [`super::WholeLogOrder`].
pub(in crate::stages::calls::comms) struct LiveRowOrder<C> {
    reach: u64,
    /// The first gap of the stretch in hand.
    stretch: u32,
    /// In it the calls that were made before are looked for first, as soon as they come; then all others are
    /// taken, once the stretch is settled.
    late: CallCursor,
    rest: CallCursor,
    /// True if the second pass is in the stretch.
    is_begun: bool,
    /// Calls of the stretch that the first pass left.
    others: u64,
    /// Results of the first pass for the calls between the two.
    passed: VecDeque<FirstPassResult>,
    /// A call turned out to belong to a finished stretch: its row comes too late.
    is_otherwise: bool,
    ahead: EarlyLineCalls<(C, ChunkCall)>,
}

impl<C: OrderedChunk> LiveRowOrder<C> {
    /// Starts empty; a row moves by at most `reach` calls.
    pub(in crate::stages::calls::comms) fn new(reach: u64) -> LiveRowOrder<C> {
        LiveRowOrder {
            reach,
            stretch: 0,
            late: CallCursor::default(),
            rest: CallCursor::default(),
            is_begun: false,
            others: 0,
            passed: VecDeque::new(),
            is_otherwise: false,
            ahead: EarlyLineCalls::default(),
        }
    }

    /// Returns the first gap of the stretch in hand.
    pub(in crate::stages::calls::comms) fn first_open_gap(&self) -> u32 {
        self.stretch
    }

    /// Passes the next calls in order to `take`, each with its gap (`None`: that of its line).
    ///
    /// # Errors
    /// Those of `calls` and `take`.
    pub(in crate::stages::calls::comms) fn take_ready(
        &mut self,
        calls: &mut impl ChunkQueue<Chunk = C>,
        known: &impl KnownPlaces,
        mut take: impl FnMut(&C, ChunkCall, Option<u32>) -> Result<()>,
    ) -> Result<()> {
        self.late.cuts.clear();
        self.rest.cuts.clear();
        self.ahead.learn_gaps(|(_, call)| known_gap(known, *call));
        loop {
            let end = known.stretch_end(self.stretch);
            self.find_late(end, calls, known, &mut take)?;
            if known.last_settled_gap().is_none_or(|settled| settled < end) {
                return Ok(());
            }
            if !self.is_begun {
                self.is_begun = true;
                self.take_ahead(end, &mut take)?;
            }
            if !self.take_rest(end, calls, known, &mut take)? {
                return Ok(());
            }
            if known.last_settled_gap() == Some(u32::MAX)
                && calls.get_chunk(self.rest.chunk)?.is_none()
            {
                return Ok(());
            }
            (self.stretch, self.is_begun, self.others) = (end.saturating_add(1), false, 0);
        }
    }

    /// Passes the rest to `take` after the log has ended. True if all calls were taken in the order known now.
    ///
    /// # Errors
    /// As [`LiveRowOrder::take_ready`].
    pub(in crate::stages::calls::comms) fn take_remaining(
        mut self,
        calls: &mut impl ChunkQueue<Chunk = C>,
        known: &impl KnownPlaces,
        mut take: impl FnMut(&C, ChunkCall, Option<u32>) -> Result<()>,
    ) -> Result<bool> {
        self.take_ready(calls, known, &mut take)?;
        self.take_ahead(u32::MAX, take)?;
        Ok(!self.is_otherwise)
    }

    /// Takes the calls with earlier lines, of stretches up to the one that ends with `gap`.
    fn take_ahead(
        &mut self,
        gap: u32,
        mut take: impl FnMut(&C, ChunkCall, Option<u32>) -> Result<()>,
    ) -> Result<()> {
        let mut result = Ok(());
        self.ahead.take_until(gap, |gap, (chunk, call)| {
            self.is_otherwise |= gap < self.stretch;
            if result.is_ok() {
                result = take(
                    &chunk,
                    call,
                    Some(gap).filter(|gap| *gap != FOUND_AT_ITS_LINE),
                );
            }
        });
        result
    }

    /// Takes the calls with lines up to gap `end` that were made before the stretch.
    fn find_late(
        &mut self,
        end: u32,
        calls: &mut impl ChunkQueue<Chunk = C>,
        known: &impl KnownPlaces,
        mut take: impl FnMut(&C, ChunkCall, Option<u32>) -> Result<()>,
    ) -> Result<()> {
        // Calls from before the stretch go first once they have waited for `reach` calls.
        let first = self.ahead.first_waiting().map(|(first, _)| first);
        let until = first.map_or(u64::MAX, |first| first + self.reach);
        while let Some(chunk) = calls.get_chunk(self.late.chunk)? {
            while self.late.at < chunk.len() {
                let at = self.late.at;
                if chunk.gap_of_line(at) > end {
                    return Ok(());
                }
                let index = self.late.index;
                let call = self.late.next_call(chunk.process_of_call(at));
                let late = match self.late.find_gap(call, known) {
                    CallGap::Of(gap) if gap < self.stretch => Some(gap),
                    _ => None,
                };
                let is_near = self.others < self.reach && index < until;
                self.passed.push_back(match late {
                    Some(_) if is_near => FirstPassResult::Taken,
                    Some(_) => FirstPassResult::Far,
                    None => FirstPassResult::Other,
                });
                match late {
                    Some(_) if is_near => take(&chunk, call, late)?,
                    _ => self.others += 1,
                }
            }
            self.late.begin_next_chunk();
        }
        Ok(())
    }

    /// Takes the other calls with lines up to gap `end`; false if a call of an unknown gap must go first.
    fn take_rest(
        &mut self,
        end: u32,
        calls: &mut impl ChunkQueue<Chunk = C>,
        known: &impl KnownPlaces,
        mut take: impl FnMut(&C, ChunkCall, Option<u32>) -> Result<()>,
    ) -> Result<bool> {
        while let Some(chunk) = calls.get_chunk(self.rest.chunk)? {
            while self.rest.at < chunk.len() {
                let at = self.rest.at;
                if chunk.gap_of_line(at) > end {
                    return Ok(true);
                }
                let passed = self.passed.front().copied();
                let is_taken = passed == Some(FirstPassResult::Taken);
                while let (false, Some((first, is_known))) = (is_taken, self.ahead.first_waiting())
                    && first + self.reach <= self.rest.index
                {
                    if !is_known {
                        return Ok(false);
                    }
                    if let Some((of, call)) = self.ahead.pop() {
                        let gap = known_gap(known, call).filter(|gap| *gap != FOUND_AT_ITS_LINE);
                        self.is_otherwise |= gap.is_some_and(|gap| gap < self.stretch);
                        take(&of, call, gap)?;
                    }
                }
                self.passed.pop_front();
                let index = self.rest.index;
                let call = self.rest.next_call(chunk.process_of_call(at));
                if is_taken {
                    continue;
                }
                let gap = match self.rest.find_gap(call, known) {
                    CallGap::Of(gap) if gap <= end => {
                        self.is_otherwise |=
                            gap < self.stretch && passed == Some(FirstPassResult::Other);
                        take(&chunk, call, Some(gap))?;
                        continue;
                    }
                    CallGap::OfLine => {
                        take(&chunk, call, None)?;
                        continue;
                    }
                    CallGap::Of(gap) => Some(gap),
                    CallGap::Later => None,
                };
                self.ahead.push(index, gap, (chunk.clone(), call));
            }
            self.rest.begin_next_chunk();
            calls.drop_chunks_before(self.rest.chunk)?;
        }
        Ok(true)
    }
}

/// Returns the gap in which a call was made, if known.
fn known_gap(known: &impl KnownPlaces, call: ChunkCall) -> Option<u32> {
    match known.find_cut(call.process, call.number).0 {
        CallGap::Of(gap) => Some(gap),
        CallGap::OfLine => Some(FOUND_AT_ITS_LINE),
        CallGap::Later => None,
    }
}
