//! From step lines to steps: which stretch of a log belongs to which step.
//!
//! A log's marks cut it into gaps: gap 0 before the first mark, gap k between mark k-1 and mark
//! k, the last one after the last mark. [`resolve_timeline`] names each gap. A trainer prints its line
//! when the step is over, so the gap before the line of step N is step N's.

use crate::grammar::trainer::{StepLine, Trainer, TrainerMark, TrainerPace};
use crate::log::attempts::AttemptStart;
use choice::{LineShape, ShapeChoice};
use std::collections::BTreeMap;

pub(crate) mod choice;
pub(crate) mod counting;
mod decision;
pub(crate) mod evaluation;
pub(crate) mod gaps;
mod growing;
mod last_steps;
mod limits;
mod marks;
mod present;
mod recent;
mod segments;
pub(crate) mod times;
pub(crate) mod window;

pub use crate::report::methods::PositionOnlyReason;
pub use counting::LineNumberUnit;
pub use decision::StepDecision;
pub use growing::{Checkpoint, CheckpointGaps, LiveTimeline};
pub use last_steps::LastStepsStart;
pub use marks::{MarkList, MarkSlice};
pub use present::PresentSteps;
pub use recent::ForgettingList;
pub use times::StepTimeSource;
pub use window::StepWindow;

use counting::StepNumberReader;
use limits::{MAX_LINE_DISTANCES, MAX_PRINTED_STEPS};
use segments::{AttemptSuccessors, SegmentCounter};
use serde::{Deserialize, Serialize};

/// Which side of a step line its step's calls are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MarkerSide {
    /// The line is printed when the step is over (every known trainer).
    #[default]
    End,
    /// The line is printed when the step begins (`--marker start`).
    Start,
}

/// How steps are found.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// See [`MarkerSide`].
    pub marker: MarkerSide,
    /// Take the lines as they are printed, for their values: a line that lags behind its step
    /// is not moved to its calls.
    pub as_printed: bool,
    /// The user described the step lines: no line is refused.
    pub asked: bool,
    /// Take the calls between two step lines for the step's, whichever rank made them, and do not
    /// look which step each rank made them in (`--by-position`).
    pub by_position: bool,
    /// Do not look for steps (`--no-steps`).
    pub none: bool,
    /// The rank that prints the step lines, if the user named it (`--printer`).
    pub printer: Option<u32>,
}

/// The kind of a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum GapKind {
    /// A step's: index into [`StepTimeline::steps`].
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainStep {
    /// 0, and one more each time the step number falls or new processes take over (a restart, a
    /// new epoch).
    pub segment: u32,
    /// The trainer's own number.
    pub step: u64,
    /// How many steps the line represents: more than 1 under a log interval.
    pub steps: u64,
    /// Index of the step's line among the marks.
    pub mark: usize,
    /// Seconds of a step.
    pub time_s: Option<f64>,
    /// TFLOP/s per GPU.
    pub tflops: Option<f64>,
}

/// One execution of a step: a number that comes again is a step of another segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StepKey {
    /// [`TrainStep::segment`].
    pub segment: u32,
    /// [`TrainStep::step`].
    pub step: u64,
}

impl From<u64> for StepKey {
    /// A step with nothing known but its number.
    fn from(step: u64) -> StepKey {
        StepKey { segment: 0, step }
    }
}

impl TrainStep {
    /// Returns the execution of the step.
    pub fn key(&self) -> StepKey {
        StepKey {
            segment: self.segment,
            step: self.step,
        }
    }
}

/// The steps of one input.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepTimeline {
    /// The trainer that prints the lines.
    pub trainer: Option<Trainer>,
    /// The pipeline stage that prints them, if they name it.
    pub stage: Option<u32>,
    /// The steps, in the order of their lines.
    pub steps: ForgettingList<TrainStep>,
    /// The kind of each gap; one more than there are marks.
    pub gaps: ForgettingList<GapKind>,
    /// Lines of the same step printed by further ranks.
    pub duplicates: u64,
    /// Where every rank prints, the further ranks' lines: index of the step, and of the mark.
    pub again: Vec<(u32, u32)>,
    /// The step lines lag behind the calls: the last step may have none.
    pub lags: bool,
    /// Where step times come from.
    pub times: StepTimeSource,
    /// What the numbers on the step lines count.
    pub counted: LineNumberUnit,
    /// Progress bars that begin again and again beside the log's other lines were not taken for
    /// steps: how often they do.
    pub bursts: Option<u64>,
    /// Why calls are placed by position alone, where they are.
    pub by_position: Option<PositionOnlyReason>,
    /// For forgotten steps: by number of steps, how many lines represent it.
    pub often: BTreeMap<u64, u64>,
    /// The parts of the decision that later lines of a pipe changed, after the first steps were known.
    #[serde(skip)]
    pub redecided: Vec<&'static str>,
}

impl StepTimeline {
    /// Adds the steps and gaps of another input after its own; the marks of their lines are not known
    /// any more.
    pub(crate) fn append_timeline(&mut self, other: &StepTimeline) {
        let before = self.steps.len() as u32;
        self.trainer = self.trainer.or(other.trainer);
        self.stage = self.stage.or(other.stage);
        self.steps.extend(other.steps.iter().cloned());
        self.gaps.extend(other.gaps.iter().map(|&gap| match gap {
            GapKind::Step(step) => GapKind::Step(before + step),
            gap => gap,
        }));
    }

    /// Returns the gap's step, if it is a step's.
    pub fn step_of(&self, gap: usize) -> Option<&TrainStep> {
        match self.gaps.get(gap) {
            Some(GapKind::Step(index)) => self.steps.get(*index as usize),
            _ => None,
        }
    }

    /// Returns the last gap of the stretch that a gap is in: one step, or the part between two.
    pub fn stretch_end(&self, gap: u32) -> u32 {
        let own = self.gaps.get(gap as usize);
        let after = self.gaps.slice(gap as usize + 1..self.gaps.len());
        let alike = after.iter().take_while(|&other| Some(other) == own);
        gap + alike.count() as u32
    }

    /// Counts the steps with final values in a log that is still being written: the last one's may be on lines
    /// after its own, and the next line shows how many steps a line represents.
    pub fn count_known_steps(&self) -> usize {
        let [.., before, last] = self.steps.remaining() else {
            return 0;
        };
        // The last step of a segment may have no values.
        let earlier = self.steps.remaining().iter().rev().skip(2);
        let earlier = earlier.take(usize::from(before.segment != last.segment));
        let mut usual = earlier.chain([before]);
        let lacks = |before: Option<f64>, last: Option<f64>| before.is_some() && last.is_none();
        let waits = self.lags
            || usual
                .any(|usual| lacks(usual.time_s, last.time_s) || lacks(usual.tflops, last.tflops));
        self.steps.len() - usize::from(waits)
    }

    /// True for a step that no line reports: where lines lag, one more step begins
    /// before the last line than there are lines for, unless the job ended.
    pub fn is_only_announced(&self, step: u32) -> bool {
        let of = |at: u32| self.steps.get(at as usize).map(|s| s.segment);
        self.lags && of(step) != of(step + 1)
    }

    /// Returns the most frequent number of steps between lines.
    pub fn line_interval(&self) -> u64 {
        let mut often = self.often.clone();
        each_interval(self.steps.remaining(), |steps| {
            *often.entry(steps).or_default() += 1;
        });
        let most = often
            .into_iter()
            .max_by_key(|(steps, n)| (*n, std::cmp::Reverse(*steps)));
        most.map_or(1, |(steps, _)| steps)
    }

    /// A segment's first line represents as many steps as the others, but for no more than
    /// there are up to it; the first of a later epoch for all of the epoch's up to it.
    fn count_first_intervals(&mut self, trainer: Trainer, marks: MarkSlice<'_>) {
        let interval = self.line_interval();
        let epoch = |mark: usize| match marks.get(mark)?.mark {
            TrainerMark::Step(line) => line.epoch,
            _ => None,
        };
        let mut before: Option<(u32, usize)> = None;
        let mut rest = self.steps.remaining_mut();
        while let Some((step, after)) = rest.split_first_mut() {
            rest = after;
            let (segment, last) = before.replace((step.segment, step.mark)).unzip();
            if segment == Some(step.segment) {
                continue;
            }
            let (epoch, last) = (epoch(step.mark), last.and_then(epoch));
            // Where every tenth line is of step 9, 19 ..., counting begins at 0. A trainer that prints step 1
            // and then every second one counts from 1: the third line shows it, by which a log that grows is
            // judged, too.
            let next = rest.iter().take_while(|next| next.segment == step.segment);
            let is_even = (1..)
                .zip(next.take(2))
                .all(|(n, next)| next.step == interval.saturating_mul(n).saturating_add(step.step));
            let from_0 =
                interval > 1 && is_even && step.step.saturating_add(1).is_multiple_of(interval);
            let first = if from_0 { 0 } else { trainer.first_step() };
            let all = step.step.saturating_sub(first).saturating_add(1);
            let later = epoch.zip(last).is_some_and(|(epoch, last)| epoch > last);
            step.steps = if later { all } else { interval.min(all) };
        }
    }
}

/// Counts how many steps each line represents, of steps that are let go.
fn count_line_intervals(often: &mut BTreeMap<u64, u64>, steps: &[TrainStep]) {
    each_interval(steps, |steps| {
        if often.len() < MAX_LINE_DISTANCES || often.contains_key(&steps) {
            *often.entry(steps).or_default() += 1;
        }
    });
}

/// Gives how many steps each line represents that is not the first of its segment.
fn each_interval(steps: &[TrainStep], mut sink: impl FnMut(u64)) {
    for pair in steps.windows(2) {
        if pair[0].segment == pair[1].segment {
            sink(pair[1].steps);
        }
    }
}

/// Names the gaps between `marks`; new processes took over at `begins`.
pub fn resolve_timeline<'m>(
    marks: impl Into<MarkSlice<'m>>,
    begins: &[AttemptStart],
    options: &Options,
) -> StepTimeline {
    let marks = marks.into();
    let chosen = match options.none {
        true => ShapeChoice::Nothing,
        false => choice::choose_shape(marks, begins, options.asked),
    };
    match chosen {
        ShapeChoice::Of(shape, by_ranks) => TimelineBuilder::for_shape(shape, by_ranks, marks)
            .build_timeline(marks, begins, options),
        nothing => StepTimeline {
            gaps: vec![GapKind::Unknown; marks.len() + 1].into(),
            bursts: match nothing {
                ShapeChoice::Bursts(falls) => Some(falls),
                _ => None,
            },
            ..StepTimeline::default()
        },
    }
}

/// A timeline while its marks are read.
struct TimelineBuilder {
    shape: LineShape,
    timeline: StepTimeline,
    /// What the lines' numbers count, and how many samples a step has.
    counting: StepNumberReader,
    batch: Option<u64>,
    /// A line has a time of several steps.
    has_sums: bool,
    now: SegmentCounter,
    /// Time and speed of the next step.
    timing: Option<(Option<f64>, Option<f64>)>,
    /// The processes of the next line.
    next: AttemptSuccessors,
    /// Marks of a launcher that ended an attempt.
    cuts: Vec<usize>,
}

impl TimelineBuilder {
    fn for_shape(shape: LineShape, by_ranks: bool, marks: MarkSlice<'_>) -> TimelineBuilder {
        let counting = StepNumberReader::read_lines(marks, shape.trainer);
        TimelineBuilder {
            shape,
            timeline: StepTimeline {
                trainer: Some(shape.trainer),
                ..StepTimeline::default()
            },
            counting,
            batch: counting.batch,
            has_sums: false,
            now: SegmentCounter::for_lines(by_ranks),
            timing: None,
            next: AttemptSuccessors::default(),
            cuts: Vec::new(),
        }
    }

    fn build_timeline(
        mut self,
        marks: MarkSlice<'_>,
        begins: &[AttemptStart],
        options: &Options,
    ) -> StepTimeline {
        let mut begins = begins.iter().peekable();
        for (at, mark) in marks.iter().enumerate() {
            while let Some(begin) = begins.next_if(|begin| begin.at <= mark.start) {
                self.next.begin_attempt(*begin);
            }
            match &mark.mark {
                TrainerMark::Ended => self.next.ended = Some(at),
                TrainerMark::Joined => self.next.note_joined(at),
                TrainerMark::Timing { time_s, tflops } => self.timing = Some((*time_s, *tflops)),
                TrainerMark::Metric { tflops, .. } => {
                    if let Some(step) = self.timeline.steps.last_mut() {
                        step.tflops = step.tflops.or(*tflops);
                    }
                }
                TrainerMark::BatchSize(size) => self.batch = Some(*size),
                TrainerMark::Step(line) if self.shape.accepts_line(line) => {
                    self.add_step_line(at, line);
                }
                TrainerMark::Step(_) | TrainerMark::Between | TrainerMark::Evaluation(_) => {}
            }
        }
        let mut t = self.timeline;
        t.count_first_intervals(self.shape.trainer, marks);
        let stretches = evaluation::find_evaluations(marks, t.steps.remaining());
        let batch = self.counting.batch;
        times::fill_step_times(&mut t, marks, &stretches, batch, self.has_sums);
        if self.shape.trainer.lags_one_step() && !options.as_printed {
            t.lags = true;
            shift_lagging_lines(&mut t);
        }
        t.gaps = gaps::name_gaps(
            marks.len(),
            t.steps.remaining(),
            &stretches,
            &self.cuts,
            options.marker,
        )
        .into();
        t.by_position = match t.trainer {
            _ if options.by_position => Some(PositionOnlyReason::Asked),
            // Of several ranks' lines each rank's own are found by its calls.
            Some(trainer) if trainer.prints_late() && !self.now.by_ranks => {
                Some(PositionOnlyReason::Late)
            }
            _ => None,
        };
        t
    }

    fn add_step_line(&mut self, at: usize, line: &StepLine) {
        let t = &mut self.timeline;
        let before = self.now.segment;
        t.stage = t.stage.or(line.stage);
        let (step, counted) = self.counting.step_of_line(line, self.batch);
        t.counted = t.counted.max(counted);
        let rises = self.now.last.is_some_and(|last| step > last);
        let anew = self.next.are_new_processes(self.now.lines, rises);
        let Some((segment, steps)) = self.now.count_line(step, line, anew) else {
            t.duplicates += 1;
            if self.now.by_ranks {
                let same = |s: &&(usize, &TrainStep)| s.1.segment == before && s.1.step == step;
                let late = t.steps.iter_numbered().rev().take(MAX_PRINTED_STEPS);
                let of = late.into_iter().find(|s| same(&s));
                t.again.extend(of.map(|(of, _)| (of as u32, at as u32)));
            }
            return;
        };
        let next = std::mem::take(&mut self.next);
        self.cuts
            .extend(next.attempt_end().filter(|_| segment != before));
        self.has_sums |= matches!(line.pace, Some(TrainerPace::Sum { .. }));
        // A damaged number may have lost more than it shows.
        let sane = |x: &f64| *x >= 0.0;
        let (mut time_s, mut tflops) = (line.time_s.filter(sane), line.tflops.filter(sane));
        if let Some((aux_time, aux_tflops)) = self.timing.take() {
            time_s = time_s.or(aux_time);
            tflops = tflops.or(aux_tflops);
        }
        t.steps.push(TrainStep {
            segment,
            step,
            steps,
            mark: at,
            time_s,
            tflops,
        });
    }
}

/// MaxText prints line N after it dispatched step N+1: what ends at line N is step N+1's, and
/// before its first line are two steps.
fn shift_lagging_lines(t: &mut StepTimeline) {
    let mut first_of_segment = None;
    let steps = t.steps.remaining_mut();
    for step in &mut *steps {
        if first_of_segment != Some(step.segment) {
            first_of_segment = Some(step.segment);
            step.steps = step.steps.saturating_add(1);
        }
    }
    // The values of line N are step N's; its calls ended one line earlier.
    for at in 0..steps.len() {
        let next = steps.get(at + 1).map(|s| (s.segment, s.time_s, s.tflops));
        let step = &mut steps[at];
        step.step = step.step.saturating_add(1);
        let next = next.filter(|next| next.0 == step.segment);
        (step.time_s, step.tflops) = next.map_or((None, None), |next| (next.1, next.2));
    }
}

#[cfg(test)]
pub(crate) mod tests;
