//! The order of the rows of a log that is still being written.

use super::ahead::Ahead;
use crate::error::Result;
use std::collections::VecDeque;

/// The gap of a call that waited and was then found to be of its line's.
const OF_LINE: u32 = u32::MAX;

/// Where a call was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::stages::calls::comms) enum Gap {
    /// In this gap.
    Of(u32),
    /// In its line's.
    OfLine,
    /// It is not known yet: not in a stretch that is settled.
    Later,
}

/// A chunk's calls.
pub(in crate::stages::calls::comms) trait Chunk: Clone {
    /// How many.
    fn len(&self) -> usize;
    /// The gap of a call's line.
    fn line(&self, call: usize) -> u32;
    /// Who made it.
    fn process(&self, call: usize) -> u32;
}

/// Chunks that wait, in their order.
pub(in crate::stages::calls::comms) trait Calls {
    /// What there is of each.
    type Chunk: Chunk;
    /// The chunk with this number, if it came; those that were let go are not asked for.
    ///
    /// # Errors
    /// It cannot be read.
    fn chunk(&mut self, number: u64) -> Result<Option<Self::Chunk>>;
    /// The chunks before this one are not asked for any more.
    ///
    /// # Errors
    /// The memory that they took cannot be given back.
    fn let_go(&mut self, number: u64) -> Result<()>;
}

/// What is known so far.
pub(in crate::stages::calls::comms) trait Known {
    /// The last gap that is settled.
    fn settled(&self) -> Option<u32>;
    /// The last gap of a gap's stretch.
    fn stretch_end(&self, gap: u32) -> u32;
    /// Where a process made the call with this number, and up to which number it made the next ones there.
    fn cut(&self, process: u32, number: u32) -> (Gap, u32);
}

/// A call of a chunk: which one, who made it, and its number among those of that process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::stages::calls::comms) struct Call {
    pub(in crate::stages::calls::comms) at: usize,
    pub(in crate::stages::calls::comms) process: u32,
    number: u32,
}

/// How far the calls were gone through.
#[derive(Debug, Clone, Default)]
struct Pass {
    chunk: u64,
    at: usize,
    /// The number of the next call in the log.
    index: u64,
    /// By process: how many calls.
    made: Vec<u32>,
    /// By process: where it made the next ones, up to which number. It is asked for but once in a while.
    cuts: Vec<(Gap, u32)>,
}

impl Pass {
    /// Goes on to the next call, which this process made.
    fn next(&mut self, process: u32) -> Call {
        let who = process as usize;
        if self.made.len() <= who {
            self.made.resize(who + 1, 0);
        }
        let (at, number) = (self.at, self.made[who]);
        self.made[who] = number.saturating_add(1);
        self.at += 1;
        self.index += 1;
        Call {
            at,
            process,
            number,
        }
    }

    /// Where a call was made that is the last one gone to.
    fn made(&mut self, call: Call, known: &impl Known) -> Gap {
        let who = call.process as usize;
        if self.cuts.len() <= who {
            self.cuts.resize(who + 1, (Gap::Later, 0));
        }
        let cut = &mut self.cuts[who];
        if cut.1 <= call.number {
            *cut = known.cut(call.process, call.number);
        }
        cut.0
    }

    fn turn(&mut self) {
        (self.chunk, self.at) = (self.chunk + 1, 0);
    }
}

/// What the first pass did with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passed {
    /// It was made in a stretch before, and was taken.
    Taken,
    /// It was made in a stretch before, but its line is too far behind.
    Far,
    Other,
}

/// Puts calls in order as they come and as it becomes known where they were made: the order that
/// [`super::Whole`] gives them.
pub(in crate::stages::calls::comms) struct Growing<C> {
    reach: u64,
    /// The first gap of the stretch in hand.
    stretch: u32,
    /// In it the calls that were made before are looked for first, as soon as they come; then all others are
    /// taken, once the stretch is settled.
    late: Pass,
    rest: Pass,
    /// Whether the second pass is in the stretch.
    is_begun: bool,
    /// How many calls of the stretch the first one left.
    others: u64,
    /// What the first one did with the calls between the two.
    passed: VecDeque<Passed>,
    /// A call turned out to be of a stretch whose calls were all taken: its row comes too late.
    is_otherwise: bool,
    ahead: Ahead<(C, Call)>,
}

impl<C: Chunk> Growing<C> {
    /// Nothing yet; a row moves by so many calls at most.
    pub(in crate::stages::calls::comms) fn new(reach: u64) -> Growing<C> {
        Growing {
            reach,
            stretch: 0,
            late: Pass::default(),
            rest: Pass::default(),
            is_begun: false,
            others: 0,
            passed: VecDeque::new(),
            is_otherwise: false,
            ahead: Ahead::default(),
        }
    }

    /// The first gap of the stretch whose calls are not all taken.
    pub(in crate::stages::calls::comms) fn stretch(&self) -> u32 {
        self.stretch
    }

    /// Gives `take` the calls whose turn has come, each with its gap, `None` for one of its line's.
    ///
    /// # Errors
    /// Those of `calls` and `take`.
    pub(in crate::stages::calls::comms) fn next(
        &mut self,
        calls: &mut impl Calls<Chunk = C>,
        known: &impl Known,
        mut take: impl FnMut(&C, Call, Option<u32>) -> Result<()>,
    ) -> Result<()> {
        self.late.cuts.clear();
        self.rest.cuts.clear();
        self.ahead.learn(|(_, call)| made(known, *call));
        loop {
            let end = known.stretch_end(self.stretch);
            self.find_late(end, calls, known, &mut take)?;
            if known.settled().is_none_or(|settled| settled < end) {
                return Ok(());
            }
            if !self.is_begun {
                self.is_begun = true;
                self.take_ahead(end, &mut take)?;
            }
            if !self.take_rest(end, calls, known, &mut take)? {
                return Ok(());
            }
            if known.settled() == Some(u32::MAX) && calls.chunk(self.rest.chunk)?.is_none() {
                return Ok(());
            }
            (self.stretch, self.is_begun, self.others) = (end.saturating_add(1), false, 0);
        }
    }

    /// The log has ended, and all its calls came: gives `take` the rest. True where all were taken in the order that
    /// is known now.
    ///
    /// # Errors
    /// As [`Growing::next`].
    pub(in crate::stages::calls::comms) fn end(
        mut self,
        calls: &mut impl Calls<Chunk = C>,
        known: &impl Known,
        mut take: impl FnMut(&C, Call, Option<u32>) -> Result<()>,
    ) -> Result<bool> {
        self.next(calls, known, &mut take)?;
        self.take_ahead(u32::MAX, take)?;
        Ok(!self.is_otherwise)
    }

    /// Takes the calls whose lines came before, of stretches up to the one that ends with `gap`.
    fn take_ahead(
        &mut self,
        gap: u32,
        mut take: impl FnMut(&C, Call, Option<u32>) -> Result<()>,
    ) -> Result<()> {
        let mut result = Ok(());
        self.ahead.take_until(gap, |gap, (chunk, call)| {
            self.is_otherwise |= gap < self.stretch;
            if result.is_ok() {
                result = take(&chunk, call, Some(gap).filter(|gap| *gap != OF_LINE));
            }
        });
        result
    }

    /// Takes the calls with lines up to gap `end` that were made before the stretch.
    fn find_late(
        &mut self,
        end: u32,
        calls: &mut impl Calls<Chunk = C>,
        known: &impl Known,
        mut take: impl FnMut(&C, Call, Option<u32>) -> Result<()>,
    ) -> Result<()> {
        // What waits from before the stretch goes first where it has waited for long enough.
        let first = self.ahead.first().map(|(first, _)| first);
        let until = first.map_or(u64::MAX, |first| first + self.reach);
        while let Some(chunk) = calls.chunk(self.late.chunk)? {
            while self.late.at < chunk.len() {
                let at = self.late.at;
                if chunk.line(at) > end {
                    return Ok(());
                }
                let index = self.late.index;
                let call = self.late.next(chunk.process(at));
                let late = match self.late.made(call, known) {
                    Gap::Of(gap) if gap < self.stretch => Some(gap),
                    _ => None,
                };
                let is_near = self.others < self.reach && index < until;
                self.passed.push_back(match late {
                    Some(_) if is_near => Passed::Taken,
                    Some(_) => Passed::Far,
                    None => Passed::Other,
                });
                match late {
                    Some(_) if is_near => take(&chunk, call, late)?,
                    _ => self.others += 1,
                }
            }
            self.late.turn();
        }
        Ok(())
    }

    /// Takes the other calls with lines up to gap `end`; false where one must go first of which it is not
    /// known yet where it was made.
    fn take_rest(
        &mut self,
        end: u32,
        calls: &mut impl Calls<Chunk = C>,
        known: &impl Known,
        mut take: impl FnMut(&C, Call, Option<u32>) -> Result<()>,
    ) -> Result<bool> {
        while let Some(chunk) = calls.chunk(self.rest.chunk)? {
            while self.rest.at < chunk.len() {
                let at = self.rest.at;
                if chunk.line(at) > end {
                    return Ok(true);
                }
                let passed = self.passed.front().copied();
                let is_taken = passed == Some(Passed::Taken);
                while let (false, Some((first, is_known))) = (is_taken, self.ahead.first())
                    && first + self.reach <= self.rest.index
                {
                    if !is_known {
                        return Ok(false);
                    }
                    if let Some((of, call)) = self.ahead.pop() {
                        let gap = made(known, call).filter(|gap| *gap != OF_LINE);
                        self.is_otherwise |= gap.is_some_and(|gap| gap < self.stretch);
                        take(&of, call, gap)?;
                    }
                }
                self.passed.pop_front();
                let index = self.rest.index;
                let call = self.rest.next(chunk.process(at));
                if is_taken {
                    continue;
                }
                let gap = match self.rest.made(call, known) {
                    Gap::Of(gap) if gap <= end => {
                        self.is_otherwise |= gap < self.stretch && passed == Some(Passed::Other);
                        take(&chunk, call, Some(gap))?;
                        continue;
                    }
                    Gap::OfLine => {
                        take(&chunk, call, None)?;
                        continue;
                    }
                    Gap::Of(gap) => Some(gap),
                    Gap::Later => None,
                };
                self.ahead.push(index, gap, (chunk.clone(), call));
            }
            self.rest.turn();
            calls.let_go(self.rest.chunk)?;
        }
        Ok(true)
    }
}

/// The gap that a call was made in, once it is known.
fn made(known: &impl Known, call: Call) -> Option<u32> {
    match known.cut(call.process, call.number).0 {
        Gap::Of(gap) => Some(gap),
        Gap::OfLine => Some(OF_LINE),
        Gap::Later => None,
    }
}
