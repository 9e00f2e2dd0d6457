//! From step lines to steps: which stretch of a log belongs to which step.
//!
//! A log's marks cut it into gaps: gap 0 before the first mark, gap k between mark k-1 and mark
//! k, the last one behind the last mark. [`resolve`] names each gap. A trainer prints its line
//! when the step is over, so the gap before the line of step N is step N's.

use crate::grammar::trainer::{Mark, StepLine, Trainer};
use crate::scan::MarkAt;
use std::collections::BTreeMap;

mod window;

pub use window::{Present, Window};

/// Which side of a step line its step's calls stand on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Marker {
    /// The line is printed when the step is over (every known trainer).
    #[default]
    End,
    /// The line is printed when the step begins (`--marker start`).
    Start,
}

/// How steps are found.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// See [`Marker`].
    pub marker: Marker,
    /// Take the lines as they are printed, for their values: a line that lags behind its step
    /// is not moved to its calls.
    pub as_printed: bool,
    /// Take the calls between two step lines for the step's, whichever rank made them, and do not
    /// look which step each rank made them in (`--by-position`).
    pub by_position: bool,
}

/// What a gap is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Gap {
    /// A step's: index into [`Timeline::steps`].
    Step(u32),
    /// Evaluation or checkpointing between two steps.
    Between,
    /// Before the first step line where lines begin steps.
    Before,
    /// Behind the last step line.
    After,
    /// The log has no step lines.
    Unknown,
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// 0, and one more each time the step number falls (a restart, a new epoch).
    pub segment: u32,
    /// The trainer's own number.
    pub step: u64,
    /// How many steps the line stands for: more than 1 under a log interval.
    pub steps: u64,
    /// Index of the step's line among the marks.
    pub mark: usize,
    /// Seconds of a step.
    pub time_s: Option<f64>,
    /// TFLOP/s per GPU.
    pub tflops: Option<f64>,
}

/// The steps of one input.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline {
    /// Whose lines these are.
    pub trainer: Option<Trainer>,
    /// The steps, in the order of their lines.
    pub steps: Vec<Step>,
    /// What each gap is; one more than there are marks.
    pub gaps: Vec<Gap>,
    /// Lines of the same step printed by further ranks.
    pub duplicates: u64,
    /// The step lines lag behind the calls: the last step may have none.
    pub lags: bool,
    /// Whether step times are differences of the lines' own time stamps.
    pub times_from_stamps: bool,
}

impl Timeline {
    /// The gap's step, if it is one's.
    pub fn step_of(&self, gap: usize) -> Option<&Step> {
        match self.gaps.get(gap) {
            Some(Gap::Step(index)) => self.steps.get(*index as usize),
            _ => None,
        }
    }

    /// True for a step that no line tells of: where lines lag behind, one more step begins
    /// before the last line than there are lines for, unless the job ended.
    pub fn is_only_announced(&self, step: u32) -> bool {
        let of = |at: u32| self.steps.get(at as usize).map(|s| s.segment);
        self.lags && of(step) != of(step + 1)
    }

    /// How many steps apart the lines are, mostly.
    pub fn interval(&self) -> u64 {
        let mut often: BTreeMap<u64, u64> = BTreeMap::new();
        for pair in self.steps.windows(2) {
            if pair[0].segment == pair[1].segment {
                *often.entry(pair[1].steps).or_default() += 1;
            }
        }
        let most = often
            .into_iter()
            .max_by_key(|(steps, n)| (*n, std::cmp::Reverse(*steps)));
        most.map_or(1, |(steps, _)| steps)
    }

    /// A segment's first line stands for as many steps as the others, but for no more than
    /// there are up to it.
    fn begin_segments(&mut self, trainer: Trainer) {
        let interval = self.interval();
        let base = u64::from(!matches!(
            trainer,
            Trainer::Nemo2 | Trainer::Nemo1 | Trainer::MaxText
        ));
        let mut segment = None;
        for step in &mut self.steps {
            if segment != Some(step.segment) {
                segment = Some(step.segment);
                step.steps = interval.min(step.step.saturating_sub(base) + 1);
            }
        }
    }
}

/// Names the gaps between `marks`.
pub fn resolve(marks: &[MarkAt], options: &Options) -> Timeline {
    let Some(trainer) = choose(marks) else {
        return Timeline {
            gaps: vec![Gap::Unknown; marks.len() + 1],
            ..Timeline::default()
        };
    };
    let total = (trainer == Trainer::Hf).then(|| bar_total(marks)).flatten();
    let ours = |line: &&StepLine| {
        line.trainer == trainer && (trainer != Trainer::Hf || line.total == total)
    };
    let mut t = Timeline {
        trainer: Some(trainer),
        ..Timeline::default()
    };
    // What lies before each mark that counts, as (mark, what ends there).
    let mut ends: Vec<(usize, Gap)> = Vec::new();
    let mut now = Counter::default();
    let mut timing: Option<(Option<f64>, Option<f64>)> = None;
    let mut stamp: Option<(u32, u64, i64)> = None;
    for (at, mark) in marks.iter().enumerate() {
        match &mark.mark {
            Mark::Between => ends.push((at, Gap::Between)),
            Mark::Timing { time_s, tflops } => timing = Some((*time_s, *tflops)),
            Mark::Step(line) if ours(&line) => {
                let Some((segment, steps)) = now.next(line.step, trainer) else {
                    t.duplicates += 1;
                    continue;
                };
                // A damaged number may have lost more than it shows.
                let sane = |x: &f64| *x >= 0.0;
                let (mut time_s, mut tflops) = (line.time_s.filter(sane), line.tflops.filter(sane));
                if let Some((aux_time, aux_tflops)) = timing.take() {
                    time_s = time_s.or(aux_time);
                    tflops = tflops.or(aux_tflops);
                }
                if let (None, Some(ms)) = (time_s, line.wall_ms) {
                    time_s = between_stamps(stamp, segment, line.step, ms);
                    t.times_from_stamps |= time_s.is_some();
                    stamp = Some((segment, line.step, ms));
                }
                ends.push((at, Gap::Step(t.steps.len() as u32)));
                t.steps.push(Step {
                    segment,
                    step: line.step,
                    steps,
                    mark: at,
                    time_s,
                    tflops,
                });
            }
            Mark::Step(_) => {}
        }
    }
    t.begin_segments(trainer);
    if trainer.lags_one_step() && !options.as_printed {
        t.lags = true;
        lag(&mut t);
    }
    t.gaps = gaps(marks.len(), &ends, options.marker);
    t
}

/// The trainer whose lines count: of those whose lines are there the first in [`Trainer`]'s
/// order, since one trainer may print another's lines too (Megatron-DeepSpeed prints DeepSpeed's).
fn choose(marks: &[MarkAt]) -> Option<Trainer> {
    marks
        .iter()
        .filter_map(|m| match &m.mark {
            Mark::Step(line) => Some(line.trainer),
            _ => None,
        })
        .min()
}

/// The total of the training bar: other bars (evaluation, tokenising) have other totals. The
/// one with the most distinct steps is it; of equals the larger.
fn bar_total(marks: &[MarkAt]) -> Option<u64> {
    let mut reached: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for mark in marks {
        if let Mark::Step(StepLine {
            trainer: Trainer::Hf,
            step,
            total: Some(total),
            ..
        }) = &mark.mark
        {
            let (distinct, last) = reached.entry(*total).or_default();
            *distinct += u64::from(*step != *last || *distinct == 0);
            *last = *step;
        }
    }
    reached
        .into_iter()
        .max_by_key(|(total, (distinct, _))| (*distinct, *total))
        .map(|(t, _)| t)
}

fn between_stamps(
    before: Option<(u32, u64, i64)>,
    segment: u32,
    step: u64,
    ms: i64,
) -> Option<f64> {
    let (before_segment, before_step, before_ms) = before?;
    let steps = step
        .checked_sub(before_step)
        .filter(|&n| n > 0 && before_segment == segment)?;
    let ms = ms.checked_sub(before_ms).filter(|&ms| ms >= 0)?;
    // One rounding: 14.648 seconds for ten steps are 1.4648, and print as that.
    Some(ms as f64 / (1000.0 * steps as f64))
}

/// Counts segments and log intervals.
#[derive(Debug, Default)]
struct Counter {
    last: Option<u64>,
    segment: u32,
}

impl Counter {
    /// The segment of a line of `step` and how many steps it stands for; `None` for a line of a
    /// step that was printed already.
    fn next(&mut self, step: u64, trainer: Trainer) -> Option<(u32, u64)> {
        let steps = match self.last {
            None => 1,
            Some(last) if step > last => step - last,
            Some(last) if step == last => return None,
            // A late rank's line of the step before, not a restart.
            Some(last) if trainer.printed_by_every_rank() && step + 1 == last => return None,
            Some(_) => {
                self.segment += 1;
                1
            }
        };
        self.last = Some(step);
        Some((self.segment, steps))
    }
}

/// MaxText prints line N after it dispatched step N+1: what ends at line N is step N+1's, and
/// before its first line stand two steps.
fn lag(t: &mut Timeline) {
    let mut first_of_segment = None;
    for step in &mut t.steps {
        if first_of_segment != Some(step.segment) {
            first_of_segment = Some(step.segment);
            step.steps += 1;
        }
    }
    // The values of line N are step N's; its calls ended one line earlier.
    let values: Vec<_> = t
        .steps
        .iter()
        .map(|s| (s.segment, s.time_s, s.tflops))
        .collect();
    for (i, step) in t.steps.iter_mut().enumerate() {
        step.step += 1;
        let next = values.get(i + 1).filter(|v| v.0 == step.segment);
        (step.time_s, step.tflops) = next.map_or((None, None), |v| (v.1, v.2));
    }
}

/// What each of the `marks + 1` gaps is, from the marks that count and what ends at them.
fn gaps(marks: usize, ends: &[(usize, Gap)], marker: Marker) -> Vec<Gap> {
    let mut gaps = vec![Gap::After; marks + 1];
    match marker {
        Marker::End => {
            let mut from = 0;
            for &(mark, gap) in ends {
                gaps[from..=mark].fill(gap);
                from = mark + 1;
            }
        }
        Marker::Start => {
            gaps.fill(Gap::Before);
            for (i, &(mark, gap)) in ends.iter().enumerate() {
                let to = ends.get(i + 1).map_or(marks, |&(next, _)| next);
                match gap {
                    Gap::Step(_) => gaps[mark + 1..=to].fill(gap),
                    // An evaluation's line still comes at its end; the step goes on behind it.
                    _ => {
                        let before = gaps[mark];
                        gaps[mark] = gap;
                        gaps[mark + 1..=to].fill(before);
                    }
                }
            }
        }
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(trainer: Trainer, step: u64) -> Mark {
        Mark::Step(StepLine {
            trainer,
            step,
            total: None,
            time_s: None,
            tflops: None,
            wall_ms: None,
            time_is_interval_mean: false,
        })
    }

    fn marks(list: Vec<Mark>) -> Vec<MarkAt> {
        (0_u64..)
            .zip(list)
            .map(|(i, mark)| MarkAt {
                start: i,
                cut: i + 1,
                line: i,
                next_line: i + 1,
                mark,
            })
            .collect()
    }

    fn gap_steps(list: Vec<Mark>, options: &Options) -> Vec<String> {
        let t = resolve(&marks(list), options);
        let name = |gap: usize| match t.gaps[gap] {
            Gap::Step(i) => format!(
                "{}:{}",
                t.steps[i as usize].segment, t.steps[i as usize].step
            ),
            other => format!("{other:?}"),
        };
        (0..t.gaps.len()).map(name).collect()
    }

    #[test]
    fn what_stands_before_a_line_is_its_step() {
        let list = [0, 1, 2].map(|s| step(Trainer::Nemo2, s)).to_vec();
        assert_eq!(
            gap_steps(list, &Options::default()),
            ["0:0", "0:1", "0:2", "After"]
        );
    }

    #[test]
    fn a_falling_number_is_a_new_segment_and_a_repeated_one_a_duplicate() {
        let list = [5, 6, 6, 3, 4].map(|s| step(Trainer::Megatron, s)).to_vec();
        let got = gap_steps(list, &Options::default());
        assert_eq!(got, ["0:5", "0:6", "1:3", "1:3", "1:4", "After"]);
        // Where every rank prints, a late line of the step before is no restart.
        let list = [5, 6, 5, 6, 7]
            .map(|s| step(Trainer::Torchtitan, s))
            .to_vec();
        let got = gap_steps(list, &Options::default());
        assert_eq!(got, ["0:5", "0:6", "0:7", "0:7", "0:7", "After"]);
    }

    #[test]
    fn evaluation_is_between_and_another_trainers_line_is_nothing() {
        let list = vec![
            step(Trainer::Megatron, 1),
            Mark::Between,
            step(Trainer::DeepSpeed, 2),
            step(Trainer::Megatron, 2),
        ];
        let got = gap_steps(list, &Options::default());
        assert_eq!(got, ["0:1", "Between", "0:2", "0:2", "After"]);
    }

    #[test]
    fn lines_that_begin_steps_and_lines_that_lag() {
        let list = [1, 2].map(|s| step(Trainer::Custom, s)).to_vec();
        let start = Options {
            marker: Marker::Start,
            ..Options::default()
        };
        assert_eq!(gap_steps(list, &start), ["Before", "0:1", "0:2"]);
        let list = [0, 1, 2].map(|s| step(Trainer::MaxText, s)).to_vec();
        let t = resolve(&marks(list.clone()), &Options::default());
        assert_eq!(
            t.steps
                .iter()
                .map(|s| (s.step, s.steps))
                .collect::<Vec<_>>(),
            [(1, 2), (2, 1), (3, 1)]
        );
        let printed = Options {
            as_printed: true,
            ..Options::default()
        };
        assert_eq!(gap_steps(list, &printed), ["0:0", "0:1", "0:2", "After"]);
    }

    #[test]
    fn a_time_between_stamps_prints_as_its_decimals() {
        for (steps, ms, time_s) in [(10, 14_648, 1.4648), (80, 16_897, 0.2112125), (1, 7, 0.007)] {
            assert_eq!(
                between_stamps(Some((0, 5, 9)), 0, 5 + steps, 9 + ms),
                Some(time_s)
            );
        }
    }

    #[test]
    fn a_window_reads_as_typed() {
        let of = |t: &str| t.parse::<Window>().map(|w| (w.from, w.to));
        assert_eq!(of("45..49"), Ok((45, 49)));
        assert_eq!(of("45..=49"), Ok((45, 49)));
        assert_eq!(of("45"), Ok((45, 45)));
        assert_eq!(of("45.."), Ok((45, u64::MAX)));
        assert_eq!(of("..49"), Ok((0, 49)));
        for bad in ["", "..", "a..b", "9..3", "-1..2", "1..2..3"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_missing_step_names_the_steps_there_are() {
        let mut present = Present::default();
        (0..=55).for_each(|s| present.step(s, 1));
        for ok in ["45..49", "..3", "50..", "0..55", "7"] {
            assert_eq!(present.check(&ok.parse().unwrap()), Ok(()), "{ok}");
        }
        let missing = present.check(&"54..60".parse().unwrap()).unwrap_err();
        assert_eq!(missing, "step 56 is not in the input; steps present: 0..55");
        assert!(present.check(&"80..".parse().unwrap()).is_err());
        let mut every10 = Present::default();
        (1..=9).for_each(|s| every10.step(s * 10, 10));
        for ok in ["41..60", "50", "41..50"] {
            assert_eq!(every10.check(&ok.parse().unwrap()), Ok(()), "{ok}");
        }
        assert!(every10.check(&"45..49".parse().unwrap()).is_err());
        assert!(
            every10
                .check(&"41..55".parse().unwrap())
                .unwrap_err()
                .contains("up to 10")
        );
        let mut holes = Present::default();
        [1, 2, 4].into_iter().for_each(|s| holes.step(s, 1));
        assert!(
            holes
                .check(&"1..4".parse().unwrap())
                .unwrap_err()
                .contains("1..2, 4")
        );
    }
}
