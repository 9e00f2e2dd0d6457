//! Calls of one communicator, matched by their number.

use super::packed::{Made, Unpacked};
use super::together::{Comm, Side};
use crate::stages::skew::late::{Own, middle};
use std::ops::Range;

/// Some calls of a communicator, by their numbers.
pub(super) struct Task<'c> {
    pub(super) comm: &'c Comm<'c>,
    calls: Range<u64>,
}

/// What they show.
pub(super) struct Part {
    /// Calls that were found on two ranks or more, and those of which not on all.
    pub(super) matched: u64,
    pub(super) partly: u64,
    /// Calls that were found on one rank.
    pub(super) alone: u64,
    /// How many ranks came to calls that not all came to.
    pub(super) open: u64,
    /// By rank.
    pub(super) own: Vec<Own>,
}

/// How many calls of ranks a task has, about.
const TASK: u64 = 1 << 17;

/// How many calls of ranks are unpacked at a time: they stay in the core's cache.
const BLOCK: usize = 1 << 12;

/// The work of all communicators.
pub(super) fn tasks<'c>(comms: &'c [Comm<'c>]) -> Vec<Task<'c>> {
    let of = |comm: &'c Comm<'c>| {
        let calls = comm.sides.iter().map(Side::calls);
        let (most, all) = (calls.clone().max().unwrap_or(0), calls.sum::<u64>());
        let each = most.div_ceil(all / TASK + 1).max(1);
        let starts = (0..most).step_by(each as usize);
        starts.map(move |start| Task {
            comm,
            calls: start..most.min(start + each),
        })
    };
    comms.iter().flat_map(of).collect()
}

impl Side<'_> {
    fn calls(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.stream.len()).sum()
    }
}

/// A call of a rank: the operation's number, and when.
pub(super) type Came = (u32, i64);

/// The number of what is no call, or has no time.
pub(super) const NONE: u32 = u32::MAX;

impl Task<'_> {
    /// Matches the calls.
    pub(super) fn run(&self, late_ns: u64) -> Part {
        let n = self.comm.sides.len();
        let mut met = Met {
            part: Part {
                matched: 0,
                partly: 0,
                alone: 0,
                open: 0,
                own: std::iter::repeat_with(Own::default).take(n).collect(),
            },
            nranks: self.comm.nranks,
            late_ns,
            times: Vec::new(),
            group: Vec::new(),
        };
        let mut cursors = Cursors::at(self.comm, self.calls.start);
        cursors.each(self.calls.end, |came, step| {
            came.chunks_exact(n).for_each(|came| met.call(came));
            met.part.own.iter_mut().for_each(|own| own.end(step));
        });
        met.part
    }
}

/// Where the ranks of a communicator are in their calls.
pub(super) struct Cursors<'l> {
    sides: Vec<Cursor<'l>>,
    /// The number of the next call.
    next: u64,
    came: Vec<Came>,
}

impl<'l> Cursors<'l> {
    /// Before the call of this number.
    pub(super) fn at(comm: &'l Comm<'l>, next: u64) -> Cursors<'l> {
        let sides = comm.sides.iter();
        Cursors {
            sides: sides.map(|side| Cursor::at(side, next)).collect(),
            next,
            came: Vec::new(),
        }
    }

    /// The number of the next call.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Gives the calls before the `end`th, call by call with all ranks of each, some of one step at a time.
    pub(super) fn each(&mut self, end: u64, mut sink: impl FnMut(&[Came], Option<u64>)) {
        let n = self.sides.len();
        let block = (BLOCK / n.max(1)).max(8) as u64;
        self.came.resize(block as usize * n, (NONE, 0));
        while self.next < end {
            let most = block.min(end - self.next);
            let len = self.sides.iter().map(Cursor::left).fold(most, u64::min);
            let mut step = None;
            let came = &mut self.came[..len as usize * n];
            for (at, side) in self.sides.iter_mut().enumerate() {
                step = step.into_iter().chain(side.step()).min();
                side.take(came, (at, n));
            }
            sink(came, step);
            self.next += len;
        }
    }
}

/// Where a rank is in its calls.
struct Cursor<'l> {
    side: &'l Side<'l>,
    /// The piece in hand, what is left of it, and how many calls of it were taken.
    piece: usize,
    calls: Unpacked<'l>,
    taken: u64,
    run: usize,
}

impl<'l> Cursor<'l> {
    /// Before the call of this number.
    fn at(side: &'l Side<'l>, number: u64) -> Cursor<'l> {
        let (mut piece, mut left) = (0, number);
        while let Some(known) = side.pieces.get(piece)
            && left >= known.stream.len()
        {
            left -= known.stream.len();
            piece += 1;
        }
        let mut cursor = Cursor {
            side,
            piece,
            calls: Unpacked::none(),
            taken: 0,
            run: 0,
        };
        if let Some(known) = side.pieces.get(piece) {
            cursor.calls = known.stream.calls();
            cursor.taken = cursor.calls.by_ref().take(left as usize).count() as u64;
            cursor.run = known.runs.partition_point(|run| run.end <= left);
        }
        cursor
    }

    /// How many calls are of the step in hand.
    fn left(&self) -> u64 {
        let Some(piece) = self.side.pieces.get(self.piece) else {
            return u64::MAX;
        };
        let run = piece.runs.get(self.run);
        run.map_or(piece.stream.len(), |run| run.end) - self.taken
    }

    /// The step in hand.
    fn step(&self) -> Option<u64> {
        self.side.pieces.get(self.piece)?.runs.get(self.run)?.step
    }

    /// Takes as many calls as there are, each to the `at`th place of `n`.
    fn take(&mut self, to: &mut [Came], (at, n): (usize, usize)) {
        let Some(piece) = self.side.pieces.get(self.piece) else {
            to.iter_mut()
                .skip(at)
                .step_by(n)
                .for_each(|came| came.0 = NONE);
            return;
        };
        self.taken += (to.len() / n) as u64;
        let mut at = at;
        while let Some(to) = to.get_mut(at) {
            at += n;
            *to = match self.calls.next() {
                Some(Made { op, ns: Some(ns) }) => match piece.ops.get(op as usize) {
                    Some(op) => (op.number, ns),
                    None => (NONE, 0),
                },
                _ => (NONE, 0),
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
                self.calls = piece.stream.calls();
            }
        }
    }
}

/// What is added up.
struct Met {
    part: Part,
    nranks: Option<u32>,
    late_ns: u64,
    /// Of the call in hand: when ranks came, and which.
    times: Vec<i64>,
    group: Vec<(u32, usize)>,
}

impl Met {
    /// The calls of one number, a rank each.
    #[inline]
    fn call(&mut self, came: &[Came]) {
        let op = came[0].0;
        let mut is_alike = op != NONE;
        for came in came {
            is_alike &= came.0 == op;
        }
        if !is_alike {
            return self.unlike(came);
        }
        if !self.counts(came.len()) {
            return;
        }
        self.times.resize(came.len(), 0);
        for (at, time) in self.times.iter_mut().enumerate() {
            *time = came[at].1;
        }
        let (middle, last) = middle(&mut self.times);
        for (at, own) in self.part.own.iter_mut().enumerate() {
            own.add(came[at].1, middle, last, self.late_ns);
        }
    }

    /// The same where ranks make different calls, or some make none.
    #[cold]
    fn unlike(&mut self, came: &[Came]) {
        let mut group = std::mem::take(&mut self.group);
        group.clear();
        let known = came.iter().enumerate().filter(|(_, came)| came.0 != NONE);
        group.extend(known.map(|(at, came)| (came.0, at)));
        group.sort_unstable();
        for group in group.chunk_by(|a, b| a.0 == b.0) {
            if !self.counts(group.len()) {
                continue;
            }
            self.times.clear();
            self.times.extend(group.iter().map(|&(_, at)| came[at].1));
            let (middle, last) = middle(&mut self.times);
            for &(_, at) in group {
                self.part.own[at].add(came[at].1, middle, last, self.late_ns);
            }
        }
        self.group = group;
    }

    /// Counts a call that so many ranks came to; false where that is one.
    #[inline]
    fn counts(&mut self, ranks: usize) -> bool {
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
