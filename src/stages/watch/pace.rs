//! A job's step times, and whether it has stopped.

use crate::count::spread::SortedValues;
use crate::stages::watch::limits::{
    MAX_HISTORY_POINTS, MIN_STALL_TIME, SETUP_STALL_TIME, STALL_STEP_MULTIPLE, STEP_TIMES_KEPT,
};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// All steps' times, as points: the longer the job runs, the more steps a point is the mean of.
#[derive(Debug)]
pub struct StepTimeHistory {
    points: Vec<f64>,
    /// Steps in a point.
    each: u64,
    /// Sum and number of the steps after the last point, seconds.
    begun: (f64, u64),
}

impl Default for StepTimeHistory {
    fn default() -> StepTimeHistory {
        StepTimeHistory {
            points: Vec::new(),
            each: 1,
            begun: (0.0, 0),
        }
    }
}

impl StepTimeHistory {
    fn add_step_time(&mut self, seconds: f64) {
        self.begun.0 += seconds;
        self.begun.1 += 1;
        if self.begun.1 < self.each {
            return;
        }
        let (sum, n) = std::mem::take(&mut self.begun);
        self.points.push(sum / n as f64);
        if self.points.len() == MAX_HISTORY_POINTS {
            let pairs = self.points.chunks_exact(2);
            self.points = pairs.map(|pair| f64::midpoint(pair[0], pair[1])).collect();
            self.each = self.each.saturating_mul(2);
        }
    }

    /// The means, in their order.
    pub fn points(&self) -> &[f64] {
        &self.points
    }

    /// Steps of a point.
    pub fn steps_per_point(&self) -> u64 {
        self.each
    }
}

/// The last steps' times, and the time of the last call or step line.
#[derive(Debug)]
pub struct JobPace {
    /// The user's time after which a job has stopped.
    asked: Option<Duration>,
    times: VecDeque<f64>,
    history: StepTimeHistory,
    moved: Instant,
    /// A call or a step line has come.
    begun: bool,
    stalled: bool,
}

impl JobPace {
    pub(super) fn new(asked: Option<Duration>, now: Instant) -> JobPace {
        JobPace {
            asked,
            times: VecDeque::new(),
            history: StepTimeHistory::default(),
            moved: now,
            begun: false,
            stalled: false,
        }
    }

    /// Adds the time of a step.
    pub(super) fn add_step_time(&mut self, seconds: f64) {
        if self.times.len() == STEP_TIMES_KEPT {
            self.times.pop_front();
        }
        self.times.push_back(seconds);
        self.history.add_step_time(seconds);
    }

    /// The last steps' times, in seconds.
    pub fn recent_step_times(&self) -> impl ExactSizeIterator<Item = f64> {
        self.times.iter().copied()
    }

    /// All steps' times, thinned out.
    pub fn history(&self) -> &StepTimeHistory {
        &self.history
    }

    /// Notes that the job's set-up is over.
    pub(super) fn note_first_call(&mut self) {
        self.begun = true;
    }

    /// Notes that the job moves. Returns the time since it last moved if that was a stall.
    pub(super) fn note_activity(&mut self, now: Instant) -> Option<Duration> {
        let rested = now.saturating_duration_since(self.moved);
        self.moved = now;
        std::mem::take(&mut self.stalled).then_some(rested)
    }

    /// The median and the 95th percentile of the last steps' times, in seconds.
    pub fn usual_step_time(&self) -> Option<(f64, f64)> {
        let sorted = SortedValues::new(self.times.iter().copied());
        sorted.median().zip(sorted.percentile(0.95))
    }

    /// The time without a call or a step line after which the job has stopped.
    pub fn stall_limit(&self) -> Duration {
        let usual = || {
            let (median, _) = self.usual_step_time()?;
            Duration::try_from_secs_f64(f64::from(STALL_STEP_MULTIPLE) * median).ok()
        };
        match self.asked {
            Some(asked) if self.begun => asked,
            Some(asked) => {
                asked.max(SETUP_STALL_TIME.min(asked.saturating_mul(STALL_STEP_MULTIPLE)))
            }
            None => usual().map_or(SETUP_STALL_TIME, |usual| usual.max(MIN_STALL_TIME)),
        }
    }

    /// The time since the job last moved.
    pub fn idle_time(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.moved)
    }

    /// True once for each stall.
    pub(super) fn detect_stall(&mut self, now: Instant) -> bool {
        let new = !self.stalled && self.idle_time(now) >= self.stall_limit();
        self.stalled |= new;
        new
    }

    /// True while nothing moves for longer than is expected.
    pub fn is_stalled(&self) -> bool {
        self.stalled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_of_a_month_is_thinned_out() {
        let mut history = StepTimeHistory::default();
        for step in 0..3_000_000_u32 {
            history.add_step_time(f64::from(step));
        }
        let points = history.points();
        assert!((MAX_HISTORY_POINTS / 2..MAX_HISTORY_POINTS).contains(&points.len()));
        let each = history.steps_per_point() as f64;
        for (at, point) in points.iter().enumerate() {
            // The mean of each steps that follow one another.
            assert_eq!(*point, at as f64 * each + (each - 1.0) / 2.0);
        }
    }

    #[test]
    fn a_stall_is_ten_usual_steps_and_a_minute_at_least() {
        let start = Instant::now();
        let at = |s: u64| start + Duration::from_secs(s);
        let mut pace = JobPace::new(None, start);
        pace.add_step_time(1.0);
        assert_eq!(pace.stall_limit(), MIN_STALL_TIME);
        assert!(!pace.detect_stall(at(59)));
        assert!(pace.detect_stall(at(60)));
        assert!(!pace.detect_stall(at(90)), "once");
        assert_eq!(pace.note_activity(at(100)), Some(Duration::from_secs(100)));
        assert_eq!(pace.note_activity(at(101)), None);
        for seconds in [10.0, 10.0, 11.0] {
            pace.add_step_time(seconds);
        }
        assert_eq!(pace.usual_step_time().map(|usual| usual.0), Some(10.0));
        assert_eq!(pace.stall_limit(), Duration::from_secs(100));
        assert!(!pace.detect_stall(at(200)));
        assert!(pace.detect_stall(at(201)) && pace.is_stalled());
        // Only the last steps count.
        (0..STEP_TIMES_KEPT).for_each(|_| pace.add_step_time(1.0));
        assert_eq!(pace.stall_limit(), MIN_STALL_TIME);
    }

    #[test]
    fn a_job_that_is_being_set_up_has_more_time() {
        let start = Instant::now();
        let mut pace = JobPace::new(None, start);
        assert_eq!(
            (pace.usual_step_time(), pace.stall_limit()),
            (None, SETUP_STALL_TIME)
        );
        // Its first calls do not show the usual time of a step.
        pace.note_first_call();
        assert_eq!(pace.stall_limit(), SETUP_STALL_TIME);
        for (asked, limit) in [(3, 30), (90, 300), (3600, 3600)] {
            let [asked, limit] = [asked, limit].map(Duration::from_secs);
            let mut pace = JobPace::new(Some(asked), start);
            assert_eq!(pace.stall_limit(), limit);
            pace.note_first_call();
            assert_eq!(pace.stall_limit(), asked);
        }
    }
}
