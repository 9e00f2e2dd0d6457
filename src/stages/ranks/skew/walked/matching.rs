//! Calls of one communicator, matched by their number.

use super::communicators::{RankSequence, SkewComm};
use super::packed::{TimedCollective, UnpackedCalls};
use crate::stages::skew::lateness::{LatenessPartial, middle_and_last};
use crate::stages::skew::limits::{CALLS_PER_MATCH_TASK, CALLS_PER_UNPACKED_BLOCK, NO_OP_NUMBER};
use std::ops::Range;

/// A task: some calls of a communicator, by number.
pub(super) struct MatchTask<'c> {
    pub(super) comm: &'c SkewComm<'c>,
    calls: Range<u64>,
}

/// The result of a task.
pub(super) struct MatchPartial {
    /// Calls that were found on two ranks or more.
    pub(super) matched: u64,
    /// Calls among these that were not found on all ranks.
    pub(super) partly: u64,
    /// Calls that were found on one rank.
    pub(super) alone: u64,
    /// Parts of calls to which not all ranks came.
    pub(super) open: u64,
    /// The lateness of each rank.
    pub(super) own: Vec<LatenessPartial>,
}

/// Splits the calls of all communicators into tasks.
pub(super) fn split_into_tasks<'c>(comms: &'c [SkewComm<'c>]) -> Vec<MatchTask<'c>> {
    let of = |comm: &'c SkewComm<'c>| {
        let calls = comm.sides.iter().map(RankSequence::call_count);
        let (most, all) = (calls.clone().max().unwrap_or(0), calls.sum::<u64>());
        let each = most.div_ceil(all / CALLS_PER_MATCH_TASK + 1).max(1);
        let starts = (0..most).step_by(each as usize);
        starts.map(move |start| MatchTask {
            comm,
            calls: start..most.min(start + each),
        })
    };
    comms.iter().flat_map(of).collect()
}

impl RankSequence<'_> {
    fn call_count(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.stream.len()).sum()
    }
}

/// A call of a rank: the operation's number, and the time in ns.
pub(super) type OpArrival = (u32, i64);

impl MatchTask<'_> {
    /// Matches the calls.
    pub(super) fn match_calls(&self, late_ns: u64) -> MatchPartial {
        let n = self.comm.sides.len();
        let mut met = CallMatcher {
            part: MatchPartial {
                matched: 0,
                partly: 0,
                alone: 0,
                open: 0,
                own: std::iter::repeat_with(LatenessPartial::default)
                    .take(n)
                    .collect(),
            },
            nranks: self.comm.nranks,
            late_ns,
            times: Vec::new(),
            group: Vec::new(),
        };
        let mut cursors = CommCursors::at_call(self.comm, self.calls.start);
        cursors.for_each_block(self.calls.end, |came, steps| {
            came.chunks_exact(n)
                .for_each(|came| met.add_call(came, steps));
            let step = first_step(steps.iter().copied());
            met.part.own.iter_mut().for_each(|own| own.end_step(step));
        });
        met.part
    }
}

/// Reads the calls of a communicator's ranks.
pub(super) struct CommCursors<'l> {
    sides: Vec<RankCursor<'l>>,
    /// The number of the next call.
    next: u64,
    came: Vec<OpArrival>,
    /// The step of each rank.
    steps: Vec<Option<u64>>,
}

/// The step of a call: the first one of the ranks that made it.
pub(super) fn first_step(steps: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    steps.flatten().min()
}

impl<'l> CommCursors<'l> {
    /// Begins at the call of this number.
    pub(super) fn at_call(comm: &'l SkewComm<'l>, next: u64) -> CommCursors<'l> {
        let sides = comm.sides.iter();
        CommCursors {
            sides: sides.map(|side| RankCursor::at_call(side, next)).collect(),
            next,
            came: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// The number of the next call.
    pub(super) fn next_call_number(&self) -> u64 {
        self.next
    }

    /// Gives the calls before the `end`th in blocks in which each rank is in one step, each call with all ranks.
    pub(super) fn for_each_block(
        &mut self,
        end: u64,
        mut sink: impl FnMut(&[OpArrival], &[Option<u64>]),
    ) {
        let n = self.sides.len();
        let block = (CALLS_PER_UNPACKED_BLOCK / n.max(1)).max(8) as u64;
        self.came.resize(block as usize * n, (NO_OP_NUMBER, 0));
        while self.next < end {
            let most = block.min(end - self.next);
            let len = self
                .sides
                .iter()
                .map(RankCursor::left_in_step)
                .fold(most, u64::min);
            self.steps.clear();
            let came = &mut self.came[..len as usize * n];
            for (at, side) in self.sides.iter_mut().enumerate() {
                self.steps.push(side.current_step());
                side.take_calls(came, at, n);
            }
            sink(came, &self.steps);
            self.next += len;
        }
    }
}

/// Reads the calls of a rank.
struct RankCursor<'l> {
    side: &'l RankSequence<'l>,
    /// The current piece.
    piece: usize,
    /// The piece's other calls.
    calls: UnpackedCalls<'l>,
    /// The piece's calls that were taken.
    taken: u64,
    run: usize,
}

impl<'l> RankCursor<'l> {
    /// Begins at the call of this number.
    fn at_call(side: &'l RankSequence<'l>, number: u64) -> RankCursor<'l> {
        let (mut piece, mut left) = (0, number);
        while let Some(known) = side.pieces.get(piece)
            && left >= known.stream.len()
        {
            left -= known.stream.len();
            piece += 1;
        }
        let mut cursor = RankCursor {
            side,
            piece,
            calls: UnpackedCalls::without_calls(),
            taken: 0,
            run: 0,
        };
        if let Some(known) = side.pieces.get(piece) {
            cursor.calls = known.stream.iter_calls();
            cursor.taken = cursor.calls.by_ref().take(left as usize).count() as u64;
            cursor.run = known.runs.partition_point(|run| run.end <= left);
        }
        cursor
    }

    /// The number of further calls of the current step.
    fn left_in_step(&self) -> u64 {
        let Some(piece) = self.side.pieces.get(self.piece) else {
            return u64::MAX;
        };
        let run = piece.runs.get(self.run);
        run.map_or(piece.stream.len(), |run| run.end) - self.taken
    }

    /// The current step.
    fn current_step(&self) -> Option<u64> {
        self.side.pieces.get(self.piece)?.runs.get(self.run)?.step
    }

    /// Fills the `at`th of every `n` places with the next calls.
    fn take_calls(&mut self, to: &mut [OpArrival], at: usize, n: usize) {
        let Some(piece) = self.side.pieces.get(self.piece) else {
            to.iter_mut()
                .skip(at)
                .step_by(n)
                .for_each(|came| came.0 = NO_OP_NUMBER);
            return;
        };
        self.taken += (to.len() / n) as u64;
        let mut at = at;
        while let Some(to) = to.get_mut(at) {
            at += n;
            *to = match self.calls.next() {
                Some(TimedCollective { op, ns: Some(ns) }) => match piece.ops.get(op as usize) {
                    Some(op) => (op.number, ns),
                    None => (NO_OP_NUMBER, 0),
                },
                _ => (NO_OP_NUMBER, 0),
            };
        }
        if piece
            .runs
            .get(self.run)
            .is_some_and(|run| run.end <= self.taken)
        {
            self.run += 1;
        }
        if self.taken >= piece.stream.len() {
            self.piece += 1;
            (self.taken, self.run) = (0, 0);
            if let Some(piece) = self.side.pieces.get(self.piece) {
                self.calls = piece.stream.iter_calls();
            }
        }
    }
}

/// Matches calls and adds up lateness.
struct CallMatcher {
    part: MatchPartial,
    nranks: Option<u32>,
    late_ns: u64,
    /// Times of the current call's ranks.
    times: Vec<i64>,
    /// Operation and place of the current call's ranks.
    group: Vec<(u32, usize)>,
}

impl CallMatcher {
    /// Adds the calls of one number, one of each rank, which are in these steps.
    #[inline]
    fn add_call(&mut self, came: &[OpArrival], steps: &[Option<u64>]) {
        let op = came[0].0;
        let mut is_alike = op != NO_OP_NUMBER;
        for came in came {
            is_alike &= came.0 == op;
        }
        if !is_alike {
            return self.add_unlike_call(came, steps);
        }
        if !self.count_arrivals(came.len()) {
            return;
        }
        self.times.resize(came.len(), 0);
        for (at, time) in self.times.iter_mut().enumerate() {
            *time = came[at].1;
        }
        let (middle, last) = middle_and_last(&mut self.times);
        for (at, own) in self.part.own.iter_mut().enumerate() {
            own.add_arrival(came[at].1, middle, last, self.late_ns);
        }
    }

    /// Adds calls of one number if ranks make different ones, or some make none.
    #[cold]
    fn add_unlike_call(&mut self, came: &[OpArrival], steps: &[Option<u64>]) {
        let mut group = std::mem::take(&mut self.group);
        group.clear();
        let known = came
            .iter()
            .enumerate()
            .filter(|(_, came)| came.0 != NO_OP_NUMBER);
        group.extend(known.map(|(at, came)| (came.0, at)));
        group.sort_unstable();
        for group in group.chunk_by(|a, b| a.0 == b.0) {
            if !self.count_arrivals(group.len()) {
                continue;
            }
            self.times.clear();
            self.times.extend(group.iter().map(|&(_, at)| came[at].1));
            let (middle, last) = middle_and_last(&mut self.times);
            // Ranks that made another call may be in an earlier step.
            let step = first_step(group.iter().map(|&(_, at)| steps[at]));
            for &(_, at) in group {
                let own = &mut self.part.own[at];
                own.end_step(first_step(steps.iter().copied()));
                own.add_arrival(came[at].1, middle, last, self.late_ns);
                own.end_step(step);
            }
        }
        self.group = group;
    }

    /// Counts a call to which this number of ranks came; false if it is one.
    #[inline]
    fn count_arrivals(&mut self, ranks: usize) -> bool {
        let part = &mut self.part;
        let is_whole = self.nranks.is_some_and(|n| ranks >= n as usize);
        if !is_whole {
            part.open += ranks as u64;
        }
        if ranks < 2 {
            part.alone += u64::from(self.nranks != Some(1));
            return false;
        }
        part.matched += 1;
        part.partly += u64::from(!is_whole);
        true
    }
}
