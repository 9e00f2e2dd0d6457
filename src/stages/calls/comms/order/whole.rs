//! The order of a log's rows where it is known where each call was made.

use super::ahead::Ahead;
use crate::log::placement::Placement;
use crate::log::timeline::Timeline;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

/// Calls of a chunk that follow each other.
pub(in crate::stages::calls::comms) type Run<T> = (Arc<T>, Range<usize>);

/// Puts the calls of one chunk after another in order.
pub(in crate::stages::calls::comms) struct Whole<'t, T> {
    timeline: &'t Timeline,
    reach: u64,
    /// By gap: how many calls were made in it that have not come.
    left: Vec<u64>,
    /// The gaps of the stretch in hand.
    stretch: Range<u32>,
    /// How many calls of stretches before it have not come.
    late: u64,
    /// How many others came in it.
    others: u64,
    /// The number of the first call that no late one goes before, for what waits from before the stretch.
    late_until: u64,
    /// How many calls came in all.
    index: u64,
    ahead: Ahead<(Arc<T>, usize)>,
    /// Runs that late calls go before, and those that nothing goes before.
    waiting: Vec<Run<T>>,
    ready: Vec<Run<T>>,
}

impl<'t, T> Whole<'t, T> {
    /// Of a log whose calls are placed; a row moves by so many calls at most.
    pub(in crate::stages::calls::comms) fn new(
        (timeline, placement): (&'t Timeline, &Placement),
        reach: u64,
    ) -> Whole<'t, T> {
        let mut left = vec![0; timeline.gaps.len()];
        for (gap, calls) in placement.calls() {
            if let Some(left) = left.get_mut(gap as usize) {
                *left += u64::from(calls);
            }
        }
        Whole {
            timeline,
            reach,
            left,
            stretch: 0..timeline.stretch_end(0) + 1,
            late: 0,
            others: 0,
            late_until: u64::MAX,
            index: 0,
            ahead: Ahead::default(),
            waiting: Vec::new(),
            ready: Vec::new(),
        }
    }

    /// The next chunk's calls: `made` are the gaps that they were made in (`None` for one whose line
    /// tells), `line` gives the gap of a call's line.
    pub(in crate::stages::calls::comms) fn add(
        &mut self,
        chunk: &Arc<T>,
        made: impl Fn(usize) -> Option<u32>,
        lines: &[(u32, usize)],
    ) {
        let mut at = 0;
        for &(line, until) in lines {
            if line >= self.stretch.end {
                self.turn(line);
            }
            while at < until {
                let gap = made(at);
                let alike = (at + 1..until).take_while(|&next| made(next) == gap);
                let run = at..at + 1 + alike.count();
                at = run.end;
                self.run(chunk, run, gap);
            }
        }
    }

    /// Calls that were made in one gap.
    fn run(&mut self, chunk: &Arc<T>, run: Range<usize>, gap: Option<u32>) {
        let n = run.len() as u64;
        let left = gap.and_then(|gap| self.left.get_mut(gap as usize));
        if let Some(left) = left {
            *left = left.saturating_sub(n);
        }
        let mut from = run.start;
        if gap.is_some_and(|gap| gap < self.stretch.start) {
            self.late = self.late.saturating_sub(n);
            if self.others < self.reach {
                let most = self.late_until.saturating_sub(self.index).min(n);
                from += most as usize;
                self.index += most;
                if most > 0 {
                    push(&mut self.ready, (Arc::clone(chunk), run.start..from));
                }
            }
        }
        if from < run.end {
            let ahead = gap.filter(|gap| *gap >= self.stretch.end);
            self.in_turn(chunk, from..run.end, ahead);
        }
        self.settle();
    }

    /// Calls that do not go before others of the stretch; `ahead` is the gap that they wait for.
    fn in_turn(&mut self, chunk: &Arc<T>, run: Range<usize>, ahead: Option<u32>) {
        let until = self.index + run.len() as u64;
        let is_far = |first: u64| first + self.reach < until;
        if ahead.is_none() && !self.ahead.first().is_some_and(|(first, _)| is_far(first)) {
            self.others += run.len() as u64;
            self.index = until;
            return self.put((Arc::clone(chunk), run));
        }
        for (index, call) in (self.index..until).zip(run) {
            while let Some((first, _)) = self.ahead.first()
                && first + self.reach <= index
                && let Some((of, at)) = self.ahead.pop()
            {
                self.put((of, at..at + 1));
            }
            self.others += 1;
            match ahead {
                Some(gap) => self.ahead.push(index, Some(gap), (Arc::clone(chunk), call)),
                None => self.put((Arc::clone(chunk), call..call + 1)),
            }
        }
        self.index = until;
    }

    /// A run that late calls go before.
    fn put(&mut self, run: Run<T>) {
        push(&mut self.waiting, run);
    }

    /// Lets the runs go that nothing goes before any more.
    fn settle(&mut self) {
        if self.late == 0 || self.others >= self.reach || self.index >= self.late_until {
            self.release();
        }
    }

    fn release(&mut self) {
        for run in mem::take(&mut self.waiting) {
            push(&mut self.ready, run);
        }
    }

    /// The stretch with this gap begins.
    fn turn(&mut self, line: u32) {
        self.release();
        let mut stretch = self.stretch.clone();
        while line >= stretch.end {
            stretch = stretch.end..self.timeline.stretch_end(stretch.end) + 1;
        }
        let left = self
            .left
            .get(self.stretch.start as usize..)
            .unwrap_or_default();
        let passed = (stretch.start - self.stretch.start) as usize;
        self.late += left.iter().take(passed).sum::<u64>();
        self.others = 0;
        // In the stretches between there is no line.
        if let Some(before) = stretch.start.checked_sub(1) {
            let ready = &mut self.ready;
            self.ahead
                .take_until(before, |_, (of, at)| push(ready, (of, at..at + 1)));
        }
        let first = self.ahead.first().map(|(first, _)| first);
        self.late_until = first.map_or(u64::MAX, |first| first + self.reach);
        let waiting = &mut self.waiting;
        self.ahead.take_until(stretch.end - 1, |_, (of, at)| {
            push(waiting, (of, at..at + 1));
        });
        self.stretch = stretch;
        self.settle();
    }

    /// The runs that are in order by now.
    pub(in crate::stages::calls::comms) fn ready(&mut self) -> Vec<Run<T>> {
        mem::take(&mut self.ready)
    }

    /// The log has ended: the rest.
    pub(in crate::stages::calls::comms) fn end(mut self) -> Vec<Run<T>> {
        self.release();
        let ready = &mut self.ready;
        self.ahead
            .take_until(u32::MAX, |_, (of, at)| push(ready, (of, at..at + 1)));
        self.ready
    }
}

/// Adds a run, to the last one where it goes on.
fn push<T>(runs: &mut Vec<Run<T>>, run: Run<T>) {
    match runs.last_mut() {
        Some((of, last)) if Arc::ptr_eq(of, &run.0) && last.end == run.1.start => {
            last.end = run.1.end;
        }
        _ => runs.push(run),
    }
}
