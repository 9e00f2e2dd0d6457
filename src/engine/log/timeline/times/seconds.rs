//! Step times where stamps have whole seconds and steps are shorter: the difference of two stamps is 0 or
//! 1 then, which is how long no step took.

use super::lines::{StepsSpan, TimedStepLine};
use crate::log::timeline::limits::MIN_MEAN_MS;

/// True where no stamp has a part of a second that is not 0.
pub(super) fn are_whole_seconds(lines: impl Iterator<Item = TimedStepLine>) -> bool {
    let mut stamps = lines.filter_map(|line| line.line.wall_ms);
    stamps.all(|ms| ms % 1000 == 0)
}

/// Returns for each line the mean over the last steps with lines that are enough whole seconds apart. The first
/// line of a second came less than a step after that began: from one such line to another the seconds are those
/// of the steps between them. A later line has the mean of the first one of its second.
pub(super) fn mean_step_times(lines: impl Iterator<Item = TimedStepLine>) -> Vec<Option<f64>> {
    // The first lines of seconds since the segment began, or the last evaluation.
    let mut firsts: Vec<(u64, i64)> = Vec::new();
    let (mut last, mut mean) = (None, None);
    let time = |line: TimedStepLine| {
        let now = line.line.wall_ms?;
        let pause = line.pause;
        let is_paused = pause.unknown || pause.ms != 0 || pause.said != 0.0;
        // A host's clock may be set back.
        let is_back = last.is_some_and(|last| now < last);
        if line.since.is_none() || is_paused || is_back {
            firsts.clear();
            (last, mean) = (None, None);
        }
        if last.replace(now).is_some_and(|last| now > last) {
            let enough = firsts.partition_point(|first| now.saturating_sub(first.1) >= MIN_MEAN_MS);
            let then = enough.checked_sub(1).and_then(|at| firsts.get(at));
            mean = then.and_then(|&(step, ms)| {
                let (ms, steps) = (now.checked_sub(ms)?, line.from_first.checked_sub(step)?);
                StepsSpan { ms, steps }.seconds_per_step()
            });
            firsts.drain(..enough.saturating_sub(1));
            firsts.push((line.from_first, now));
        }
        mean
    };
    lines.map(time).collect()
}
