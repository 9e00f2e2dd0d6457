//! From step lines to steps: which stretch of a log belongs to which step.
//!
//! A log's marks cut it into gaps: gap 0 before the first mark, gap k between mark k-1 and mark
//! k, the last one behind the last mark. [`resolve`] names each gap. A trainer prints its line
//! when the step is over, so the gap before the line of step N is step N's.

use crate::formats::log::attempts::Begin;
use crate::formats::log::walk::MarkAt;
use crate::grammar::trainer::{Mark, StepLine, Trainer};
use choice::{Choice, Shape};
use std::collections::BTreeMap;

pub(crate) mod choice;
pub(crate) mod counting;
pub(crate) mod evaluation;
pub(crate) mod gaps;
pub(crate) mod times;
pub(crate) mod window;

pub use counting::Counted;
pub use times::Times;
pub use window::{Present, Window};

use counting::Counting;

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
    /// The user said what step lines look like: no line is refused.
    pub asked: bool,
    /// Take the calls between two step lines for the step's, whichever rank made them, and do not
    /// look which step each rank made them in (`--by-position`).
    pub by_position: bool,
    /// The rank that prints the step lines, if the user said it (`--printer`).
    pub printer: Option<u32>,
}

/// Why calls are placed by the positions of their lines alone ([`crate::formats::log::placement`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByPosition {
    /// The user asked for it.
    Asked,
    /// Standard output was block-buffered: a process's lines come late, and together.
    Buffered,
    /// Calls are lost in damaged lines: those after them have other numbers than they should.
    Lost,
    /// The trainer prints its line after further calls of the next step.
    Late,
    /// Several ranks print each line, each at its own time.
    Printers,
    /// More calls lie between two lines than are held.
    Many,
}

impl ByPosition {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            ByPosition::Asked => "--by-position",
            ByPosition::Buffered => "standard output was block-buffered",
            ByPosition::Lost => "calls are lost in damaged lines",
            ByPosition::Late => "the trainer prints its line after calls of the next step",
            ByPosition::Printers => "several ranks print each line",
            ByPosition::Many => "too many calls are between two step lines",
        }
    }
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
    /// After the last step line of a job, or of an attempt that a launcher ended.
    After,
    /// The log has no step lines.
    Unknown,
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// 0, and one more each time the step number falls or new processes take over (a restart, a
    /// new epoch).
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
    /// Where step times come from.
    pub times: Times,
    /// What the numbers on the step lines count.
    pub counted: Counted,
    /// Progress bars that begin again and again beside the log's other lines were not taken for
    /// steps: how often they do.
    pub bursts: Option<u64>,
    /// Why calls are placed by position alone, where they are.
    pub by_position: Option<ByPosition>,
}

impl Timeline {
    /// Adds the steps and gaps of another input after its own; the marks of their lines are not known
    /// any more.
    pub(crate) fn follow(&mut self, other: &Timeline) {
        let before = self.steps.len() as u32;
        self.trainer = self.trainer.or(other.trainer);
        self.steps.extend(other.steps.iter().cloned());
        self.gaps.extend(other.gaps.iter().map(|&gap| match gap {
            Gap::Step(step) => Gap::Step(before + step),
            gap => gap,
        }));
    }

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
    /// there are up to it; the first of a later epoch for all of the epoch's up to it.
    fn begin_segments(&mut self, trainer: Trainer, marks: &[MarkAt]) {
        let interval = self.interval();
        let mut before: Option<(u32, Option<u64>)> = None;
        for step in &mut self.steps {
            let epoch = match marks.get(step.mark).map(|mark| mark.mark) {
                Some(Mark::Step(line)) => line.epoch,
                _ => None,
            };
            let (segment, last) = before.replace((step.segment, epoch)).unzip();
            if segment == Some(step.segment) {
                continue;
            }
            // Where every tenth line is of step 9, 19 ..., counting begins at 0.
            let from_0 = interval > 1 && step.step.saturating_add(1).is_multiple_of(interval);
            let first = if from_0 { 0 } else { trainer.first_step() };
            let all = step.step.saturating_sub(first).saturating_add(1);
            let later = epoch
                .zip(last.flatten())
                .is_some_and(|(epoch, last)| epoch > last);
            step.steps = if later { all } else { interval.min(all) };
        }
    }
}

/// Names the gaps between `marks`; new processes took over where `begins` says.
pub fn resolve(marks: &[MarkAt], begins: &[Begin], options: &Options) -> Timeline {
    match choice::choose(marks, begins, options.asked) {
        Choice::Of(shape) => Building::of(shape, marks).build(marks, begins, options),
        nothing => Timeline {
            gaps: vec![Gap::Unknown; marks.len() + 1],
            bursts: match nothing {
                Choice::Bursts(falls) => Some(falls),
                _ => None,
            },
            ..Timeline::default()
        },
    }
}

/// A timeline while its marks are read.
struct Building {
    shape: Shape,
    timeline: Timeline,
    /// What the lines' numbers count, and how many samples a step has.
    counting: Counting,
    batch: Option<u64>,
    now: Counter,
    /// Time and speed of the next step.
    timing: Option<(Option<f64>, Option<f64>)>,
    /// The processes of the next line.
    next: Successors,
    /// Marks of a launcher that ended an attempt.
    cuts: Vec<usize>,
}

/// What came after a step line that tells whether its processes print the next one.
#[derive(Debug, Default)]
struct Successors {
    /// New processes took over: what is known of them, the best of it if they did several times.
    begun: Option<Begin>,
    /// A launcher ended the processes: the mark.
    ended: Option<usize>,
    /// The same, of the processes before those that took over last.
    cut: Option<usize>,
}

impl Successors {
    fn begin(&mut self, begin: Begin) {
        let before = self.begun.unwrap_or(begin);
        self.begun = Some(Begin {
            sure: before.sure || begin.sure,
            smaller: before.smaller && begin.smaller,
            ..begin
        });
        self.cut = self.ended;
    }

    /// True where the next line is another attempt's, after `lines` of the one before; its number
    /// `rises` or does not.
    fn are_new(&self, lines: u64, rises: bool) -> bool {
        self.begun.is_some_and(|begin| {
            // The processes of a log that begins in the middle of a job are seen one after the
            // other, but all before its second step is over.
            let known = begin.sure || lines > 1 || self.cut.is_some();
            // Beside others a job goes on.
            known && !(begin.smaller && rises)
        })
    }

    /// Where the attempt before ended.
    fn end(&self) -> Option<usize> {
        match self.begun {
            Some(_) => self.cut,
            None => self.ended,
        }
    }
}

impl Building {
    fn of(shape: Shape, marks: &[MarkAt]) -> Building {
        Building {
            shape,
            timeline: Timeline {
                trainer: Some(shape.trainer),
                ..Timeline::default()
            },
            counting: Counting::of(marks, shape.trainer),
            batch: marks.iter().find_map(batch_size),
            now: Counter::default(),
            timing: None,
            next: Successors::default(),
            cuts: Vec::new(),
        }
    }

    fn build(mut self, marks: &[MarkAt], begins: &[Begin], options: &Options) -> Timeline {
        let mut begins = begins.iter().peekable();
        for (at, mark) in marks.iter().enumerate() {
            while let Some(begin) = begins.next_if(|begin| begin.at <= mark.start) {
                self.next.begin(*begin);
            }
            match &mark.mark {
                Mark::Ended => self.next.ended = Some(at),
                Mark::Timing { time_s, tflops } => self.timing = Some((*time_s, *tflops)),
                Mark::Metric { tflops, .. } => {
                    if let Some(step) = self.timeline.steps.last_mut() {
                        step.tflops = step.tflops.or(*tflops);
                    }
                }
                Mark::BatchSize(size) => self.batch = Some(*size),
                Mark::Step(line) if self.shape.takes(line) => self.step(at, line),
                Mark::Step(_) | Mark::Between | Mark::Evaluation(_) => {}
            }
        }
        let mut t = self.timeline;
        t.begin_segments(self.shape.trainer, marks);
        let stretches = evaluation::stretches(marks, &t.steps);
        let pauses = evaluation::pauses(&stretches, &t.steps);
        times::fill(&mut t, marks, &pauses);
        if self.shape.trainer.lags_one_step() && !options.as_printed {
            t.lags = true;
            lag(&mut t);
        }
        t.gaps = gaps::named(
            marks.len(),
            &t.steps,
            &stretches,
            &self.cuts,
            options.marker,
        );
        t.by_position = match t.trainer {
            _ if options.by_position => Some(ByPosition::Asked),
            Some(trainer) if trainer.prints_late() => Some(ByPosition::Late),
            // One rank may print two lines a step, as DeepSpeed's does.
            Some(trainer)
                if trainer.printed_by_every_rank() && t.duplicates > t.steps.len() as u64 / 2 =>
            {
                Some(ByPosition::Printers)
            }
            _ => None,
        };
        t
    }

    fn step(&mut self, at: usize, line: &StepLine) {
        let t = &mut self.timeline;
        let before = self.now.segment;
        let (step, counted) = self.counting.step(line, self.batch);
        t.counted = t.counted.max(counted);
        let rises = self.now.last.is_some_and(|last| step > last);
        let anew = self.next.are_new(self.now.lines, rises);
        let Some((segment, steps)) = self.now.next(step, line, anew) else {
            t.duplicates += 1;
            return;
        };
        let next = std::mem::take(&mut self.next);
        self.cuts.extend(next.end().filter(|_| segment != before));
        // A damaged number may have lost more than it shows.
        let sane = |x: &f64| *x >= 0.0;
        let (mut time_s, mut tflops) = (line.time_s.filter(sane), line.tflops.filter(sane));
        if let Some((aux_time, aux_tflops)) = self.timing.take() {
            time_s = time_s.or(aux_time);
            tflops = tflops.or(aux_tflops);
        }
        t.steps.push(Step {
            segment,
            step,
            steps,
            mark: at,
            time_s,
            tflops,
        });
    }
}

fn batch_size(mark: &MarkAt) -> Option<u64> {
    match mark.mark {
        Mark::BatchSize(size) => Some(size),
        _ => None,
    }
}

/// Counts segments and log intervals.
#[derive(Debug, Default)]
struct Counter {
    last: Option<u64>,
    /// How many steps the last line stands for, and the one before it.
    apart: (u64, u64),
    epoch: Option<u64>,
    segment: u32,
    /// Steps of the segment with a line.
    lines: u64,
}

impl Counter {
    /// The segment of the line of `step` and how many steps it stands for; `None` for a line of a
    /// step that was printed already. `anew` says that other processes than before print it.
    fn next(&mut self, step: u64, line: &StepLine, anew: bool) -> Option<(u32, u64)> {
        let many = line.trainer.printed_by_every_rank() && !anew;
        let (older, newer) = match (self.epoch, line.epoch) {
            (Some(last), Some(epoch)) => (epoch < last, epoch > last),
            _ => (false, false),
        };
        // Where lines come every ten steps, the step before is ten less.
        let before = match self.apart {
            (a, b) if a == b => self.last.and_then(|last| last.checked_sub(a)),
            _ => self.last.and_then(|last| last.checked_sub(1)),
        };
        let steps = match self.last {
            None => 1,
            // A late rank's line of the epoch before.
            Some(_) if many && older => return None,
            // Numbers begin again in a later epoch, also where its first line's is larger.
            Some(last) if step > last && !anew && !newer => step - last,
            Some(last) if step == last && !anew && !newer && !older => return None,
            // A late rank's line of the step before, not a restart.
            Some(_) if many && !newer && Some(step) == before => return None,
            Some(_) => {
                self.segment += 1;
                self.lines = 0;
                1
            }
        };
        self.last = Some(step);
        self.apart = (steps, self.apart.0);
        self.epoch = line.epoch;
        self.lines += 1;
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
            step.steps = step.steps.saturating_add(1);
        }
    }
    // The values of line N are step N's; its calls ended one line earlier.
    let values: Vec<_> = t
        .steps
        .iter()
        .map(|s| (s.segment, s.time_s, s.tflops))
        .collect();
    for (i, step) in t.steps.iter_mut().enumerate() {
        step.step = step.step.saturating_add(1);
        let next = values.get(i + 1).filter(|v| v.0 == step.segment);
        (step.time_s, step.tflops) = next.map_or((None, None), |v| (v.1, v.2));
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::grammar::trainer::{Clock, Counts, Evaluation, Pace};

    fn step(trainer: Trainer, step: u64) -> Mark {
        Mark::Step(StepLine::bare(trainer, step))
    }

    pub(in crate::formats::log::timeline) fn marks(list: Vec<Mark>) -> Vec<MarkAt> {
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
        let t = resolve(&marks(list), &[], options);
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
        let t = resolve(&marks(list.clone()), &[], &Options::default());
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

    /// The times of steps by the stamps of their lines.
    fn stamped(list: &[(u64, i64)], more: &[(usize, Mark)]) -> Vec<Option<f64>> {
        let mut all: Vec<Mark> = list
            .iter()
            .map(|&(step, ms)| {
                Mark::Step(StepLine {
                    wall_ms: Some(ms),
                    ..StepLine::bare(Trainer::Torchtitan, step)
                })
            })
            .collect();
        for &(at, mark) in more {
            all.insert(at, mark);
        }
        let t = resolve(&marks(all), &[], &Options::default());
        t.steps.iter().map(|step| step.time_s).collect()
    }

    #[test]
    fn what_new_processes_print_is_a_segment_of_its_own() {
        let begin = |at: u64, sure| Begin {
            at,
            sure,
            smaller: false,
        };
        let smaller = |at: u64| Begin {
            smaller: true,
            ..begin(at, true)
        };
        let steps = |list: &[Mark], begins: &[Begin]| {
            let t = resolve(&marks(list.to_vec()), begins, &Options::default());
            let of = |gap: &Gap| match gap {
                Gap::Step(i) => {
                    let step = &t.steps[*i as usize];
                    format!("{}:{}", step.segment, step.step)
                }
                other => format!("{other:?}"),
            };
            t.gaps.iter().map(of).collect::<Vec<_>>()
        };
        let of = |s: u64| step(Trainer::Megatron, s);
        let list = [of(5), of(6), of(6), of(7)];
        assert_eq!(steps(&list, &[]), ["0:5", "0:6", "0:7", "0:7", "After"]);
        let again = ["0:5", "0:6", "1:6", "1:7", "After"];
        assert_eq!(steps(&list, &[begin(2, true)]), again);
        assert_eq!(steps(&list, &[begin(2, false)]), again);
        // Who was only counted may be seen late, but not when two steps are over.
        assert_eq!(steps(&list, &[begin(1, false)]), steps(&list, &[]));
        // A smaller job may be beside the first, which goes on.
        assert_eq!(steps(&list, &[smaller(1), smaller(3)]), steps(&list, &[]));
        assert_eq!(steps(&list, &[smaller(2)]), again);
        // Before all step lines, and after them, nothing begins again.
        assert_eq!(
            steps(&list, &[begin(0, true), begin(9, true)]),
            steps(&list, &[])
        );
        // A launcher's word ends what the processes before it made, an evaluation included.
        let list = [
            of(5),
            of(6),
            Mark::Between,
            Mark::Ended,
            Mark::Between,
            of(9),
        ];
        let told = ["0:5", "0:6", "Between", "After", "Between", "1:9", "After"];
        assert_eq!(steps(&list, &[begin(4, true)]), told);
        // What was ended before is not what begins.
        let list = [of(5), Mark::Ended, Mark::Ended, Mark::Ended, of(5)];
        let told = ["0:5", "After", "After", "1:5", "1:5", "After"];
        assert_eq!(steps(&list, &[begin(3, true)]), told);
        // No new process: the job went on.
        assert_eq!(steps(&list[..2], &[]), ["0:5", "After", "After"]);
        assert_eq!(
            steps(&[of(5), Mark::Ended, of(6)], &[]),
            ["0:5", "0:6", "0:6", "After"]
        );
        assert_eq!(
            steps(&[of(5), Mark::Ended, of(2)], &[]),
            ["0:5", "After", "1:2", "After"]
        );
    }

    #[test]
    fn the_largest_number_overflows_nothing() {
        for trainer in [
            Trainer::MaxText,
            Trainer::Torchtitan,
            Trainer::Nemo2,
            Trainer::Custom,
        ] {
            for list in [
                &[u64::MAX][..],
                &[0, u64::MAX],
                &[u64::MAX, 0, u64::MAX],
                &[u64::MAX - 1, u64::MAX, u64::MAX - 1],
            ] {
                let list = list.iter().map(|s| step(trainer, *s)).collect();
                let t = resolve(&marks(list), &[], &Options::default());
                let mut present = Present::default();
                present.add(&t);
                assert!(present.describe().contains("18446744073709551615"));
                let window = "18446744073709551615..".parse().unwrap();
                assert_eq!(present.check(&window), Ok(()));
            }
        }
    }

    #[test]
    fn a_time_between_stamps_prints_as_its_decimals() {
        for (steps, ms, time_s) in [(10, 14_648, 1.4648), (80, 16_897, 0.2112125), (1, 7, 0.007)] {
            let times = stamped(&[(5, 9), (5 + steps, 9 + ms)], &[]);
            assert_eq!(times, [None, Some(time_s)]);
        }
    }

    fn stops(ms: i64, step: Option<u64>) -> Mark {
        Mark::Evaluation(Evaluation::Stops {
            wall_ms: Some(ms),
            samples: None,
            step,
        })
    }

    #[test]
    fn after_an_evaluation_of_a_known_step_its_end_is_where_the_next_begins() {
        let starts = |ms| Mark::Evaluation(Evaluation::Starts(Some(ms)));
        let lines = [(10, 0), (20, 10_000), (30, 45_000), (40, 55_000)];
        // Before the evaluation, which is after step 25, the job does something else for long.
        let times = stamped(&lines, &[(2, starts(30_000)), (3, stops(40_000, Some(25)))]);
        assert_eq!(times, [None, Some(1.0), Some(1.0), Some(1.0)]);
    }

    #[test]
    fn what_is_left_without_an_evaluation_is_like_the_other_times_or_unknown() {
        let starts = |ms| Mark::Evaluation(Evaluation::Starts(Some(ms)));
        let stops = |ms| stops(ms, None);
        let lines = [(10, 0), (20, 10_000), (30, 25_000), (40, 35_000)];
        let alone = [None, Some(1.0), Some(1.5), Some(1.0)];
        assert_eq!(stamped(&lines, &[]), alone);
        // Five seconds of evaluation before step 30.
        let times = stamped(&lines, &[(2, starts(12_000)), (3, stops(17_000))]);
        assert_eq!(times, [None, Some(1.0), Some(1.0), Some(1.0)]);
        // It takes 13 seconds, so that the steps took next to nothing: what they took is unknown.
        let times = stamped(&lines, &[(2, starts(11_000)), (3, stops(24_000))]);
        assert_eq!(times, [None, Some(1.0), None, Some(1.0)]);
        // Nobody says when it began.
        let times = stamped(&lines, &[(2, stops(17_000))]);
        assert_eq!(times, [None, Some(1.0), None, Some(1.0)]);
        let times = stamped(&lines, &[(2, Mark::Between)]);
        assert_eq!(times, [None, Some(1.0), None, Some(1.0)]);
        // It goes on beside the training, and takes no time of it.
        assert_eq!(
            stamped(&lines, &[(1, starts(9_000)), (3, stops(19_000))]),
            alone
        );
    }

    #[test]
    fn an_evaluation_that_says_when_it_begins_is_alone_between() {
        let starts = Mark::Evaluation(Evaluation::Starts(None));
        let stops = stops(0, None);
        let (one, two) = (step(Trainer::MlPerf, 1), step(Trainer::MlPerf, 2));
        let got = gap_steps(vec![one, starts, stops, two], &Options::default());
        assert_eq!(got, ["0:1", "0:2", "Between", "0:2", "After"]);
        // One that is still going on at a step's line runs beside it.
        let got = gap_steps(vec![one, starts, two, stops], &Options::default());
        assert_eq!(got, ["0:1", "0:2", "0:2", "After", "After"]);
        let start = Options {
            marker: Marker::Start,
            ..Options::default()
        };
        let got = gap_steps(vec![one, starts, stops, two], &start);
        assert_eq!(got, ["Before", "0:1", "Between", "0:1", "0:2"]);
    }

    /// The steps of lines, each with its step, how many it stands for, and its time.
    fn timed(list: Vec<Mark>) -> (Times, Vec<(u64, u64, Option<f64>)>) {
        let t = resolve(&marks(list), &[], &Options::default());
        let of = |s: &Step| (s.step, s.steps, s.time_s);
        (t.times, t.steps.iter().map(of).collect())
    }

    fn paced(trainer: Trainer, step: u64, epoch: u64, pace: Pace) -> Mark {
        Mark::Step(StepLine {
            pace: Some(pace),
            epoch: Some(epoch),
            ..StepLine::bare(trainer, step)
        })
    }

    #[test]
    fn samples_a_second_are_a_time_where_the_batch_is_known() {
        let line = |step, ms| {
            Mark::Step(StepLine {
                wall_ms: Some(ms),
                pace: Some(Pace::Samples {
                    per_s: 1000.0,
                    batches: 1,
                }),
                ..StepLine::bare(Trainer::Mxnet, step)
            })
        };
        let list = |batch: u64| vec![Mark::BatchSize(batch), line(20, 0), line(40, 4_000)];
        let (times, got) = timed(list(200));
        assert_eq!(times, Times::Throughput);
        assert_eq!(got, [(20, 20, Some(0.2)), (40, 20, Some(0.2))]);
        // The rate is one process's, as the stamps show.
        let (times, got) = timed(list(1600));
        assert_eq!((times, got[1].2), (Times::Stamps, Some(0.2)));
        let (times, got) = timed(vec![line(20, 0), line(40, 4_000)]);
        assert_eq!(
            (times, got[0].2, got[1].2),
            (Times::Stamps, None, Some(0.2))
        );
    }

    #[test]
    fn a_sum_is_over_its_steps_and_without_its_evaluation() {
        let sum = |time_s, steps| Pace::Sum { time_s, steps };
        let line = |step, time_s| paced(Trainer::HugeCtr, step, 0, sum(time_s, Some(1000)));
        let took = Mark::Evaluation(Evaluation::Took(1.5));
        let (times, got) = timed(vec![line(1000, 2.0), took, line(2000, 3.5)]);
        assert_eq!(times, Times::Printed);
        assert_eq!(got, [(1000, 1000, Some(0.002)), (2000, 1000, Some(0.002))]);
        // Since the line before, or since the epoch began: 456 steps apart, over epochs of 544.
        let line = |epoch, step, time_s| paced(Trainer::DlLogger, step, epoch, sum(time_s, None));
        let times = |list: &[(u64, u64, f64)]| {
            let list = list.iter().map(|&(epoch, step, s)| line(epoch, step, s));
            let (_, got) = timed(list.collect());
            got.iter().map(|s| s.2).collect::<Vec<_>>()
        };
        let got = times(&[(6, 280, 56.0), (8, 192, 38.4), (9, 10, 5.0), (9, 20, 2.0)]);
        assert_eq!(got, [Some(0.2), Some(0.2), Some(0.5), Some(0.2)]);
        // Of a log's first line neither is known, but one is like the other lines.
        assert_eq!(
            times(&[(10, 101, 0.3), (10, 102, 0.25)]),
            [Some(0.3), Some(0.25)]
        );
        assert_eq!(times(&[(10, 101, 0.3)]), [None]);
    }

    #[test]
    fn a_clock_is_taken_where_it_is_clear_and_else_the_moving_average() {
        let bar = |step, seconds, smoothed| {
            Mark::Step(StepLine {
                pace: Some(Pace::Smoothed(smoothed)),
                clock: Some(Clock {
                    seconds,
                    error: 1.0,
                }),
                total: Some(100),
                ..StepLine::bare(Trainer::Hf, step)
            })
        };
        let list = vec![
            bar(1, 264.0, 264.0),
            bar(2, 303.0, 131.6),
            bar(3, 304.0, 72.1),
            bar(4, 344.0, 60.0),
        ];
        let (times, got) = timed(list);
        assert_eq!(times, Times::Clock);
        // The third takes the mean with the second, for one second is not clear.
        let got: Vec<_> = got.iter().map(|s| s.2).collect();
        assert_eq!(got, [Some(264.0), Some(39.0), Some(20.0), Some(40.0)]);
        let (times, got) = timed(vec![bar(1, 0.0, 0.2), bar(2, 0.0, 0.3), bar(3, 1.0, 0.25)]);
        assert_eq!((times, got[2].2), (Times::Smoothed, Some(0.25)));
        // Lightning prints no moving average, but a rate that makes a fine clock.
        let bar = |step: u64, per_s: f64| {
            let seconds = step as f64 / per_s;
            Mark::Step(StepLine {
                clock: Some(Clock {
                    seconds,
                    error: seconds * 0.01 / per_s,
                }),
                ..StepLine::bare(Trainer::Lightning, step)
            })
        };
        let (times, got) = timed(vec![bar(1, 1.0), bar(2, 1.6), bar(3, 2.0)]);
        assert_eq!(times, Times::Clock);
        assert_eq!(got[0].2, Some(1.0));
        assert!((got[1].2.unwrap() - 0.25).abs() < 1e-9 && (got[2].2.unwrap() - 0.25).abs() < 1e-9);
    }

    #[test]
    fn numbers_begin_again_in_each_epoch() {
        let pace = Pace::Smoothed(1.0);
        let line = |epoch, step| paced(Trainer::Mxnet, step, epoch, pace);
        // An epoch of one line has no smaller number before it.
        let list = [(0, 20), (0, 40), (1, 20), (2, 20), (2, 40)];
        let (_, got) = timed(list.map(|(epoch, step)| line(epoch, step)).to_vec());
        let got: Vec<_> = got.iter().map(|s| (s.0, s.1)).collect();
        assert_eq!(got, [(20, 20), (40, 20), (20, 21), (20, 21), (40, 20)]);
        // Late lines of another worker.
        let list = [
            (0, 20),
            (0, 40),
            (0, 60),
            (0, 40),
            (1, 20),
            (0, 60),
            (1, 40),
        ];
        let list = list.map(|(epoch, step)| line(epoch, step)).to_vec();
        let t = resolve(&marks(list), &[], &Options::default());
        assert_eq!((t.steps.len(), t.duplicates), (5, 2));
    }

    #[test]
    fn samples_are_steps_over_the_batch_size() {
        let line = |samples, ms| {
            Mark::Step(StepLine {
                counts: Counts::Samples,
                wall_ms: Some(ms),
                ..StepLine::bare(Trainer::MlPerf, samples)
            })
        };
        let list = [(640, 0), (1280, 8_000), (1920, 16_000), (1930, 16_800)];
        let list = list.map(|(samples, ms)| line(samples, ms)).to_vec();
        let (_, got) = timed([vec![Mark::BatchSize(64)], list.clone()].concat());
        assert_eq!(got[..2], [(10, 10, None), (20, 10, Some(0.8))]);
        // The last batch of an epoch is smaller.
        assert_eq!(got[3], (31, 1, Some(0.8)));
        let t = resolve(&marks(list.clone()), &[], &Options::default());
        assert_eq!((t.counted, t.times), (Counted::Samples, Times::Printed));
        assert_eq!((t.steps[1].step, t.steps[1].time_s), (1280, None));
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
