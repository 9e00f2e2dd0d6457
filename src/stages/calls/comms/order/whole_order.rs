//! The order of a log's rows if all calls are placed.

use super::early_lines::EarlyLineCalls;
use crate::log::placement::Placement;
use crate::log::timeline::StepTimeline;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

/// Calls of a chunk that follow each other.
pub(in crate::stages::calls::comms) type ChunkRun<T> = (Arc<T>, Range<usize>);

/// Puts the calls of one chunk after another in order.
pub(in crate::stages::calls::comms) struct WholeLogOrder<'t, T> {
    timeline: &'t StepTimeline,
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
    ahead: EarlyLineCalls<(Arc<T>, usize)>,
    /// Runs that late calls go before, and those that nothing goes before.
    waiting: Vec<ChunkRun<T>>,
    ready: Vec<ChunkRun<T>>,
}

impl<'t, T> WholeLogOrder<'t, T> {
    /// Orders a log with placed calls; a row moves by at most `reach` calls.
    pub(in crate::stages::calls::comms) fn new(
        timeline: &'t StepTimeline,
        placement: &Placement,
        reach: u64,
    ) -> WholeLogOrder<'t, T> {
        let mut left = vec![0; timeline.gaps.len()];
        for (gap, calls) in placement.calls_by_gap() {
            if let Some(left) = left.get_mut(gap as usize) {
                *left += u64::from(calls);
            }
        }
        WholeLogOrder {
            timeline,
            reach,
            left,
            stretch: 0..timeline.stretch_end(0) + 1,
            late: 0,
            others: 0,
            late_until: u64::MAX,
            index: 0,
            ahead: EarlyLineCalls::default(),
            waiting: Vec::new(),
            ready: Vec::new(),
        }
    }

    /// Adds the next chunk's calls: `made` returns the gap in which a call was made (`None`: that of its line),
    /// `lines` are the gaps of the lines.
    pub(in crate::stages::calls::comms) fn add_chunk(
        &mut self,
        chunk: &Arc<T>,
        made: impl Fn(usize) -> Option<u32>,
        lines: &[(u32, usize)],
    ) {
        let mut at = 0;
        for &(line, until) in lines {
            if line >= self.stretch.end {
                self.begin_stretch(line);
            }
            while at < until {
                let gap = made(at);
                let alike = (at + 1..until).take_while(|&next| made(next) == gap);
                let run = at..at + 1 + alike.count();
                at = run.end;
                self.add_run(chunk, run, gap);
            }
        }
    }

    /// Adds calls that were made in one gap.
    fn add_run(&mut self, chunk: &Arc<T>, run: Range<usize>, gap: Option<u32>) {
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
                    append_run(&mut self.ready, (Arc::clone(chunk), run.start..from));
                }
            }
        }
        if from < run.end {
            let ahead = gap.filter(|gap| *gap >= self.stretch.end);
            self.add_run_in_turn(chunk, from..run.end, ahead);
        }
        self.settle_runs();
    }

    /// Adds calls that do not go before others of the stretch; `ahead` is the gap that they wait for.
    fn add_run_in_turn(&mut self, chunk: &Arc<T>, run: Range<usize>, ahead: Option<u32>) {
        let until = self.index + run.len() as u64;
        let is_far = |first: u64| first + self.reach < until;
        if ahead.is_none()
            && !self
                .ahead
                .first_waiting()
                .is_some_and(|(first, _)| is_far(first))
        {
            self.others += run.len() as u64;
            self.index = until;
            return self.push_run((Arc::clone(chunk), run));
        }
        for (index, call) in (self.index..until).zip(run) {
            while let Some((first, _)) = self.ahead.first_waiting()
                && first + self.reach <= index
                && let Some((of, at)) = self.ahead.pop()
            {
                self.push_run((of, at..at + 1));
            }
            self.others += 1;
            match ahead {
                Some(gap) => self.ahead.push(index, Some(gap), (Arc::clone(chunk), call)),
                None => self.push_run((Arc::clone(chunk), call..call + 1)),
            }
        }
        self.index = until;
    }

    /// Adds a run that late calls go before.
    fn push_run(&mut self, run: ChunkRun<T>) {
        append_run(&mut self.waiting, run);
    }

    /// Releases the runs that no late call can go before.
    fn settle_runs(&mut self) {
        if self.late == 0 || self.others >= self.reach || self.index >= self.late_until {
            self.release_waiting();
        }
    }

    fn release_waiting(&mut self) {
        for run in mem::take(&mut self.waiting) {
            append_run(&mut self.ready, run);
        }
    }

    /// Begins the stretch with this gap.
    fn begin_stretch(&mut self, line: u32) {
        self.release_waiting();
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
                .take_until(before, |_, (of, at)| append_run(ready, (of, at..at + 1)));
        }
        let first = self.ahead.first_waiting().map(|(first, _)| first);
        self.late_until = first.map_or(u64::MAX, |first| first + self.reach);
        let waiting = &mut self.waiting;
        self.ahead.take_until(stretch.end - 1, |_, (of, at)| {
            append_run(waiting, (of, at..at + 1));
        });
        self.stretch = stretch;
        self.settle_runs();
    }

    /// Returns the runs in their final order.
    pub(in crate::stages::calls::comms) fn take_ready_runs(&mut self) -> Vec<ChunkRun<T>> {
        mem::take(&mut self.ready)
    }

    /// Returns the rest after the log's end.
    pub(in crate::stages::calls::comms) fn take_remaining_runs(mut self) -> Vec<ChunkRun<T>> {
        self.release_waiting();
        let ready = &mut self.ready;
        self.ahead
            .take_until(u32::MAX, |_, (of, at)| append_run(ready, (of, at..at + 1)));
        self.ready
    }
}

/// Adds a run, to the last one where it goes on.
fn append_run<T>(runs: &mut Vec<ChunkRun<T>>, run: ChunkRun<T>) {
    match runs.last_mut() {
        Some((of, last)) if Arc::ptr_eq(of, &run.0) && last.end == run.1.start => {
            last.end = run.1.end;
        }
        _ => runs.push(run),
    }
}
