//! From step lines to steps: which stretch of a log belongs to which step.
//!
//! A log's marks cut it into gaps: gap 0 before the first mark, gap k between mark k-1 and mark
//! k, the last one behind the last mark. [`resolve`] names each gap. A trainer prints its line
//! when the step is over, so the gap before the line of step N is step N's.

use crate::grammar::trainer::{Mark, Pace, StepLine, Trainer};
use crate::log::attempts::Begin;
use choice::{Choice, Shape};
use std::collections::BTreeMap;

pub(crate) mod choice;
pub(crate) mod counting;
pub(crate) mod evaluation;
pub(crate) mod gaps;
mod growing;
mod last_steps;
mod marks;
mod present;
mod recent;
mod seconds;
pub(crate) mod times;
mod voices;
pub(crate) mod window;

pub use crate::report::methods::ByPosition;
pub use counting::Counted;
pub use growing::{Growing, Old, Turn};
pub use last_steps::Since;
pub use marks::{MarkList, Marks};
pub use present::Present;
pub use recent::Recent;
pub use times::Times;
pub use window::Window;

use counting::Counting;
use serde::{Deserialize, Serialize};
use voices::{Heard, REMEMBERED, Voices};

/// Which side of a step line its step's calls are on.
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
    /// Do not look for steps (`--no-steps`).
    pub none: bool,
    /// The rank that prints the step lines, if the user said it (`--printer`).
    pub printer: Option<u32>,
}

/// What a gap is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
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
    /// [`Step::segment`].
    pub segment: u32,
    /// [`Step::step`].
    pub step: u64,
}

impl From<u64> for StepKey {
    /// A step of which nothing but its number is known.
    fn from(step: u64) -> StepKey {
        StepKey { segment: 0, step }
    }
}

impl Step {
    /// Which execution of which step.
    pub fn key(&self) -> StepKey {
        StepKey {
            segment: self.segment,
            step: self.step,
        }
    }
}

/// The steps of one input.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// Whose lines these are.
    pub trainer: Option<Trainer>,
    /// The pipeline stage that prints them, where they say it.
    pub stage: Option<u32>,
    /// The steps, in the order of their lines.
    pub steps: Recent<Step>,
    /// What each gap is; one more than there are marks.
    pub gaps: Recent<Gap>,
    /// Lines of the same step printed by further ranks.
    pub duplicates: u64,
    /// Where every rank prints, the further ranks' lines: index of the step, and of the mark.
    pub again: Vec<(u32, u32)>,
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
    /// Of steps that are forgotten: how many of the lines represent so many steps.
    pub often: BTreeMap<u64, u64>,
}

impl Timeline {
    /// Adds the steps and gaps of another input after its own; the marks of their lines are not known
    /// any more.
    pub(crate) fn follow(&mut self, other: &Timeline) {
        let before = self.steps.len() as u32;
        self.trainer = self.trainer.or(other.trainer);
        self.stage = self.stage.or(other.stage);
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

    /// The last gap of the stretch that a gap is in: one step, or what is between two.
    pub fn stretch_end(&self, gap: u32) -> u32 {
        let own = self.gaps.get(gap as usize);
        let after = self.gaps.part(gap as usize + 1..self.gaps.len());
        let alike = after.iter().take_while(|&other| Some(other) == own);
        gap + alike.count() as u32
    }

    /// How many steps have their values, of a log that is still being written: the last one's may be on
    /// lines after its own, and how many steps a line represents is known by the next.
    pub fn told(&self) -> usize {
        let [.., before, last] = self.steps.left() else {
            return 0;
        };
        // What ended the segment before has none of its own.
        let earlier = self.steps.left().iter().rev().skip(2);
        let earlier = earlier.take(usize::from(before.segment != last.segment));
        let mut usual = earlier.chain([before]);
        let lacks = |before: Option<f64>, last: Option<f64>| before.is_some() && last.is_none();
        let waits = self.lags
            || usual
                .any(|usual| lacks(usual.time_s, last.time_s) || lacks(usual.tflops, last.tflops));
        self.steps.len() - usize::from(waits)
    }

    /// True for a step that no line reports: where lines lag behind, one more step begins
    /// before the last line than there are lines for, unless the job ended.
    pub fn is_only_announced(&self, step: u32) -> bool {
        let of = |at: u32| self.steps.get(at as usize).map(|s| s.segment);
        self.lags && of(step) != of(step + 1)
    }

    /// How many steps apart the lines are, mostly.
    pub fn interval(&self) -> u64 {
        let mut often = self.often.clone();
        each_after(self.steps.left(), |steps| {
            *often.entry(steps).or_default() += 1;
        });
        let most = often
            .into_iter()
            .max_by_key(|(steps, n)| (*n, std::cmp::Reverse(*steps)));
        most.map_or(1, |(steps, _)| steps)
    }

    /// A segment's first line represents as many steps as the others, but for no more than
    /// there are up to it; the first of a later epoch for all of the epoch's up to it.
    fn begin_segments(&mut self, trainer: Trainer, marks: Marks<'_>) {
        let interval = self.interval();
        let epoch = |mark: usize| match marks.get(mark)?.mark {
            Mark::Step(line) => line.epoch,
            _ => None,
        };
        let mut before: Option<(u32, usize)> = None;
        let mut rest = self.steps.left_mut();
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

/// So many different distances between lines are counted of steps that were let go.
const OFTEN: usize = 64;

/// Counts how many steps the lines of steps represent that are let go.
fn count_often(often: &mut BTreeMap<u64, u64>, steps: &[Step]) {
    each_after(steps, |steps| {
        if often.len() < OFTEN || often.contains_key(&steps) {
            *often.entry(steps).or_default() += 1;
        }
    });
}

/// How many steps each line represents that is not the first of its segment.
fn each_after(steps: &[Step], mut sink: impl FnMut(u64)) {
    for pair in steps.windows(2) {
        if pair[0].segment == pair[1].segment {
            sink(pair[1].steps);
        }
    }
}

/// Names the gaps between `marks`; new processes took over where `begins` says.
pub fn resolve<'m>(marks: impl Into<Marks<'m>>, begins: &[Begin], options: &Options) -> Timeline {
    let marks = marks.into();
    let chosen = match options.none {
        true => Choice::Nothing,
        false => choice::choose(marks, begins, options.asked),
    };
    match chosen {
        Choice::Of(shape, by_ranks) => {
            Building::of(shape, by_ranks, marks).build(marks, begins, options)
        }
        nothing => Timeline {
            gaps: vec![Gap::Unknown; marks.len() + 1].into(),
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
    /// A line has a time of several steps.
    has_sums: bool,
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
    fn of(shape: Shape, by_ranks: bool, marks: Marks<'_>) -> Building {
        let counting = Counting::of(marks, shape.trainer);
        Building {
            shape,
            timeline: Timeline {
                trainer: Some(shape.trainer),
                ..Timeline::default()
            },
            counting,
            batch: counting.batch,
            has_sums: false,
            now: Counter {
                by_ranks,
                ..Counter::default()
            },
            timing: None,
            next: Successors::default(),
            cuts: Vec::new(),
        }
    }

    fn build(mut self, marks: Marks<'_>, begins: &[Begin], options: &Options) -> Timeline {
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
        let stretches = evaluation::stretches(marks, t.steps.left());
        let known = (self.counting.batch, self.has_sums);
        times::fill(&mut t, marks, &stretches, known);
        if self.shape.trainer.lags_one_step() && !options.as_printed {
            t.lags = true;
            lag(&mut t);
        }
        t.gaps = gaps::named(
            marks.len(),
            t.steps.left(),
            &stretches,
            &self.cuts,
            options.marker,
        )
        .into();
        t.by_position = match t.trainer {
            _ if options.by_position => Some(ByPosition::Asked),
            Some(trainer) if trainer.prints_late() => Some(ByPosition::Late),
            _ => None,
        };
        t
    }

    fn step(&mut self, at: usize, line: &StepLine) {
        let t = &mut self.timeline;
        let before = self.now.segment;
        t.stage = t.stage.or(line.stage);
        let (step, counted) = self.counting.step(line, self.batch);
        t.counted = t.counted.max(counted);
        let rises = self.now.last.is_some_and(|last| step > last);
        let anew = self.next.are_new(self.now.lines, rises);
        let Some((segment, steps)) = self.now.next(step, line, anew) else {
            t.duplicates += 1;
            if self.now.by_ranks {
                let same = |s: &&(usize, &Step)| s.1.segment == before && s.1.step == step;
                let late = t.steps.numbered().rev().take(REMEMBERED);
                let of = late.into_iter().find(|s| same(&s));
                t.again.extend(of.map(|(of, _)| (of as u32, at as u32)));
            }
            return;
        };
        let next = std::mem::take(&mut self.next);
        self.cuts.extend(next.end().filter(|_| segment != before));
        self.has_sums |= matches!(line.pace, Some(Pace::Sum { .. }));
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

/// Counts segments and log intervals.
#[derive(Debug, Default)]
struct Counter {
    last: Option<u64>,
    epoch: Option<u64>,
    /// Every rank prints.
    by_ranks: bool,
    /// What each printed last.
    voices: Voices,
    segment: u32,
    /// Steps of the segment with a line.
    lines: u64,
}

impl Counter {
    /// The segment of the line of `step` and how many steps it represents; `None` for a line of a
    /// step that was printed already. `anew` says that other processes than before print it.
    fn next(&mut self, step: u64, line: &StepLine, anew: bool) -> Option<(u32, u64)> {
        let (older, newer) = match (self.epoch, line.epoch) {
            (Some(last), Some(epoch)) => (epoch < last, epoch > last),
            _ => (false, false),
        };
        let at = (line.epoch.unwrap_or(0), step);
        let mut anew = anew;
        if self.by_ranks || line.trainer.printed_by_every_rank() {
            if anew {
                self.voices = Voices::default();
            }
            match self.voices.hear(at) {
                Heard::First => {}
                Heard::Again => return None,
                Heard::Back => {
                    anew = true;
                    self.voices = Voices::default();
                    self.voices.hear(at);
                }
            }
        }
        let steps = match self.last {
            None => 1,
            // Numbers begin again in a later epoch, also where its first line's is larger.
            Some(last) if step > last && !anew && !newer => step - last,
            Some(last) if step == last && !anew && !newer && !older => return None,
            Some(_) => {
                self.segment += 1;
                self.lines = 0;
                1
            }
        };
        self.last = Some(step);
        self.epoch = line.epoch;
        self.lines += 1;
        Some((self.segment, steps))
    }
}

/// MaxText prints line N after it dispatched step N+1: what ends at line N is step N+1's, and
/// before its first line are two steps.
fn lag(t: &mut Timeline) {
    let mut first_of_segment = None;
    let steps = t.steps.left_mut();
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
