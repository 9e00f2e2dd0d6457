//! The steps of a log that is still being written.
//!
//! Which lines are step lines, and how long steps took, is decided by all lines. So that the work for a
//! new step does not grow with the log, the last lines are resolved alone, from a place well before the
//! new ones: where they tell of the steps before what is known of them, they tell of the new ones what
//! all lines would. Where they do not, all lines are resolved.

use super::{Gap, Marks, Options, Step, Timeline, resolve};
use crate::formats::log::attempts::Begin;

/// So many steps before the new ones are resolved again at least.
const STEPS: usize = 512;

/// Of these the first ones may differ: a rank that prints late is not known, nor what came before.
const BEGIN: usize = 96;

/// So many of the last steps known may still change: their values may be on the next lines.
const END: usize = 80;

/// A timeline that grows.
#[derive(Debug)]
pub struct Growing {
    timeline: Timeline,
    /// Its marks.
    marks: usize,
    begins: Vec<Begin>,
    /// How many steps before the last ones are resolved again.
    steps: usize,
    /// How often all lines were resolved.
    #[cfg(test)]
    pub(super) whole: usize,
}

impl Default for Growing {
    fn default() -> Growing {
        Growing::new(STEPS)
    }
}

/// A place in both timelines: the number of a step, and of its mark.
#[derive(Clone, Copy)]
struct Place {
    known: usize,
    last: usize,
    /// As the known timeline has it.
    mark: usize,
}

impl Growing {
    /// Nothing yet; so many steps are resolved again at least.
    pub(super) fn new(steps: usize) -> Growing {
        Growing {
            timeline: Timeline::default(),
            marks: 0,
            begins: Vec::new(),
            steps,
            #[cfg(test)]
            whole: 0,
        }
    }

    /// The timeline so far, as [`resolve`] gives it but for the number of further lines; `marks` and
    /// `begins` are those of the call before and more.
    pub fn resolve<'m>(
        &mut self,
        marks: impl Into<Marks<'m>>,
        begins: &[Begin],
        options: &Options,
    ) -> &mut Timeline {
        let marks = marks.into();
        if !self.grow(marks, begins, options) {
            self.timeline = resolve(marks, begins, options);
            #[cfg(test)]
            {
                self.whole += 1;
            }
        }
        self.marks = marks.len();
        self.begins = begins.to_vec();
        &mut self.timeline
    }

    /// Resolves the last lines; `false` where that does not tell what all would.
    fn grow(&mut self, marks: Marks<'_>, begins: &[Begin], options: &Options) -> bool {
        let steps = &self.timeline.steps;
        if marks.len() < self.marks || steps.len() < 2 * self.steps + BEGIN + END {
            return false;
        }
        // Of so many steps at once only the last ones are taken for new.
        let begin = steps[steps.len() - self.steps - BEGIN - END].mark + 1;
        let Some(before) = marks.get(begin - 1).map(|mark| mark.start) else {
            return false;
        };
        let known = |begins: &[Begin]| begins.partition_point(|b| b.at <= before);
        let (old, new) = (known(&self.begins), known(begins));
        if self.begins[..old] != begins[..new] {
            return false;
        }
        let last = resolve(marks.part(begin..marks.len()), &begins[new..], options);
        match self.joint(&last, begin) {
            Some((from, to)) => {
                self.take(last, begin, (from, to));
                true
            }
            None => false,
        }
    }

    /// The first step that both must have alike, and the first that the known timeline may have
    /// otherwise, if all between them are alike. The last timeline begins with mark `begin`.
    fn joint(&self, last: &Timeline, begin: usize) -> Option<(Place, Place)> {
        let known = &self.timeline;
        let is_like = known.trainer == last.trainer
            && known.lags == last.lags
            && known.times == last.times
            && known.counted == last.counted
            && known.bursts == last.bursts;
        let to = known.steps.len().checked_sub(END)?;
        let first = to.checked_sub(self.steps)?;
        let mark = known.steps[first].mark;
        let at = last.steps.partition_point(|s| s.mark + begin < mark);
        let from = Place {
            known: first,
            last: at,
            mark,
        };
        let to = Place {
            known: to,
            last: at + to - first,
            mark: known.steps[to].mark,
        };
        let old = &known.steps[from.known..=to.known];
        let new = last.steps.get(from.last..=to.last)?;
        let segment = old[0].segment.wrapping_sub(new[0].segment);
        let is_same = |(old, new): (&Step, &Step)| {
            let new = moved(new, begin, segment);
            let is_last = old.mark == to.mark;
            // Its values may come yet.
            is_last && (old.mark, old.step, old.segment) == (new.mark, new.step, new.segment)
                || *old == new
        };
        if !is_like || !old.iter().zip(new).all(is_same) {
            return None;
        }
        let gaps = &known.gaps[from.mark..to.mark];
        let now = last.gaps.get(from.mark - begin..to.mark - begin)?;
        let gap = |&gap: &Gap| named(gap, from);
        let is_same = gaps.iter().copied().eq(now.iter().map(gap));
        is_same.then_some((from, to))
    }

    /// Takes from the last timeline what comes from the second place on.
    fn take(&mut self, last: Timeline, begin: usize, (from, to): (Place, Place)) {
        let known = &mut self.timeline;
        let segment = known.steps[from.known]
            .segment
            .wrapping_sub(last.steps[from.last].segment);
        known.steps.truncate(to.known);
        let steps = last.steps[to.last..].iter();
        known
            .steps
            .extend(steps.map(|step| moved(step, begin, segment)));
        known.gaps.truncate(to.mark);
        let gaps = &last.gaps[to.mark - begin..];
        known.gaps.extend(gaps.iter().map(|&gap| named(gap, from)));
        let is_before = |&(_, mark): &(u32, u32)| (mark as usize) < to.mark;
        let kept = known.again.partition_point(is_before);
        known.again.truncate(kept);
        let moved = last.again.iter().filter_map(|&(step, mark)| {
            let step = (step as usize + from.known).checked_sub(from.last)?;
            let mark = mark as usize + begin;
            Some((u32::try_from(step).ok()?, u32::try_from(mark).ok()?))
        });
        known.again.extend(moved.filter(|again| !is_before(again)));
        known.by_position = last.by_position;
    }
}

/// A step of a timeline that begins with mark `begin`, so many segments later.
fn moved(step: &Step, begin: usize, segment: u32) -> Step {
    Step {
        segment: step.segment.wrapping_add(segment),
        mark: step.mark + begin,
        ..step.clone()
    }
}

/// A gap of it, where both have a step.
fn named(gap: Gap, place: Place) -> Gap {
    match gap {
        Gap::Step(step) => {
            let step = (step as usize + place.known).saturating_sub(place.last);
            Gap::Step(u32::try_from(step).unwrap_or(u32::MAX))
        }
        gap => gap,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::log::timeline::tests::marks;
    use crate::formats::log::walk::MarkAt;
    use crate::grammar::trainer::{Evaluation, Mark, StepLine, Trainer};
    use proptest::prelude::*;

    /// What a job prints next.
    #[derive(Debug, Clone, Copy)]
    enum Event {
        Steps(u8),
        Evaluation,
        Restart,
        Epoch,
        Launcher,
        Foreign,
        Batch,
        Again,
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            12 => (1..40_u8).prop_map(Event::Steps),
            2 => Just(Event::Evaluation),
            1 => Just(Event::Restart),
            1 => Just(Event::Epoch),
            1 => Just(Event::Launcher),
            1 => Just(Event::Foreign),
            1 => Just(Event::Batch),
            2 => Just(Event::Again),
        ]
    }

    /// The marks of a job, of a trainer that prints times or stamps: whole seconds where steps are shorter.
    fn job(trainer: Trainer, events: &[Event], timed: bool, each_ms: i64) -> Vec<Mark> {
        let (mut step, mut ms, mut epoch) = (0_u64, 0_i64, 0_u64);
        let mut all = Vec::new();
        for event in events {
            match event {
                Event::Steps(n) => {
                    for _ in 0..*n {
                        step += 1;
                        ms += each_ms + (step % 7) as i64;
                        let stamp = if each_ms < 1000 { ms - ms % 1000 } else { ms };
                        all.push(Mark::Step(StepLine {
                            time_s: timed.then_some(1.0 + step as f64 / 1e6),
                            wall_ms: Some(stamp),
                            epoch: Some(epoch),
                            ..StepLine::bare(trainer, step)
                        }));
                    }
                }
                Event::Evaluation => {
                    all.push(Mark::Evaluation(Evaluation::Starts(Some(ms + 10))));
                    ms += 500;
                    all.push(Mark::Evaluation(Evaluation::Stops {
                        wall_ms: Some(ms),
                        samples: None,
                        step: Some(step),
                    }));
                }
                Event::Restart => step = step.saturating_sub(10),
                Event::Epoch => (step, epoch) = (0, epoch + 1),
                Event::Launcher => all.push(Mark::Ended),
                Event::Foreign => {
                    all.push(Mark::Step(StepLine::bare(Trainer::DeepSpeed, 3 * step)));
                }
                Event::Batch => all.push(Mark::BatchSize(8 + step % 3)),
                Event::Again => {
                    for late in step.saturating_sub(3)..=step {
                        all.push(Mark::Step(StepLine {
                            epoch: Some(epoch),
                            ..StepLine::bare(trainer, late)
                        }));
                    }
                }
            }
        }
        all
    }

    fn twin(marks: &[MarkAt], begins: &[Begin], options: &Options) -> Timeline {
        Timeline {
            duplicates: 0,
            ..resolve(marks, begins, options)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Of a job that grows by pieces the steps are those of all of its lines: of the steps that are
        /// old enough for it.
        #[test]
        fn what_grows_is_what_all_lines_tell(
            events in proptest::collection::vec(event(), 40..90),
            trainer in prop_oneof![
                Just(Trainer::Megatron), Just(Trainer::LitGpt), Just(Trainer::MaxText),
                Just(Trainer::Torchtitan),
            ],
            timed: bool,
            each_ms in prop_oneof![Just(1000_i64), Just(130), Just(994)],
            pieces in proptest::collection::vec(1..60_usize, 1..8),
            begin in 0..2000_u64,
        ) {
            let all = marks(job(trainer, &events, timed, each_ms));
            let start = all.get(begin as usize).map(|mark| mark.start);
            let begins: Vec<Begin> = start.into_iter().map(|at| Begin {
                at, sure: true, smaller: false,
            }).collect();
            let options = Options::default();
            let mut growing = Growing::new(40);
            let mut end = 0;
            for piece in pieces.iter().cycle() {
                if end == all.len() {
                    break;
                }
                end = (end + piece).min(all.len());
                let known = &all[..end];
                let until = known.last().map_or(0, |mark| mark.start);
                let begun = begins.partition_point(|begin| begin.at <= until);
                let now = growing.resolve(known, &begins[..begun], &options);
                let now = Timeline { duplicates: 0, ..now.clone() };
                prop_assert_eq!(now, twin(known, &begins[..begun], &options));
            }
        }
    }

    #[test]
    fn of_a_long_job_all_lines_are_resolved_once() {
        let events = [Event::Steps(200), Event::Evaluation].repeat(40);
        let all = marks(job(Trainer::Megatron, &events, true, 1000));
        let mut growing = Growing::new(100);
        for end in 1..=all.len() {
            growing.resolve(&all[..end], &[], &Options::default());
        }
        let first = 2 * 100 + BEGIN + END;
        assert!(growing.whole <= first + 8, "{}", growing.whole);
        let now = Timeline {
            duplicates: 0,
            ..growing.timeline
        };
        assert_eq!(now, twin(&all, &[], &Options::default()));
    }
}
