//! The steps of a log that is still being written.
//!
//! Which lines are step lines, and how long steps took, is decided by all lines. So that the work for a
//! new step does not grow with the log, the last lines are resolved alone, from a place well before the
//! new ones: where they tell of the steps before what is known of them, they tell of the new ones what
//! all lines would. Where they do not, all lines are resolved.
//!
//! So that memory does not grow either, steps that were written long ago are let go, at every
//! [`Turn`]. From then on the lines that are left must do.

use super::{Gap, Marks, Options, Present, Step, Timeline, count_often, resolve};
use crate::log::attempts::Begin;

/// So many steps before the new ones are resolved again at least.
const STEPS: usize = 512;

/// Of these the first ones may differ: a rank that prints late is not known, nor what came before.
const BEGIN: usize = 96;

/// So many of the last steps known may still change: their values may be on the next lines.
const END: usize = 80;

/// From turn to turn there are so many times [`STEPS`] at least.
const TURN: usize = 4;

/// So many steps before a turn stay: a gap's step may have its line before it, and ranks may be some steps
/// behind others.
const BEFORE: usize = 64;

/// A timeline that grows.
#[derive(Debug)]
pub struct Growing {
    timeline: Timeline,
    /// Its marks.
    marks: usize,
    begins: Vec<Begin>,
    /// How many steps before the last ones are resolved again.
    steps: usize,
    /// The last turn, and how many steps there were.
    turn: Option<(Old, usize)>,
    /// The steps that were let go.
    gone: Present,
    /// Of the steps that were let go later lines told something else.
    is_otherwise: bool,
    /// How often all lines were resolved.
    #[cfg(test)]
    pub(super) whole: usize,
}

/// A place in a log up to which all is settled and written, once in so many steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The last gap up to there.
    pub gap: u32,
    /// The place of the turn before: what is up to there need not be kept any more.
    pub before: Option<Old>,
}

/// The place of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Old {
    /// The last gap up to there.
    pub gap: u32,
    /// The same for who writes in the order of the lines: some lines of these steps come later.
    pub in_lines: u32,
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
            turn: None,
            gone: Present::default(),
            is_otherwise: false,
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
            match marks.gone() {
                0 => self.timeline = resolve(marks, begins, options),
                _ => self.follow(marks, begins, options),
            }
            #[cfg(test)]
            {
                self.whole += 1;
            }
        }
        self.marks = marks.len();
        self.begins = begins.to_vec();
        &mut self.timeline
    }

    /// The timeline as it was found last.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Says that all up to the end of `gap` is settled and written: a turn, where enough steps came
    /// since the last one.
    pub fn turn(&mut self, gap: u32) -> Option<Turn> {
        let steps = &self.timeline.steps;
        let until = steps.left().partition_point(|s| s.mark <= gap as usize);
        let until = steps.gone() + until;
        let (before, last) = self.turn.unzip();
        let apart = (TURN * self.steps).max(2 * self.steps + BEGIN + END);
        if until < last.unwrap_or(0) + apart {
            return None;
        }
        let earlier = until.checked_sub(BEFORE).and_then(|at| steps.get(at));
        let in_lines = earlier.map_or(0, |step| gap.min(step.mark as u32));
        self.turn = Some((Old { gap, in_lines }, until));
        Some(Turn { gap, before })
    }

    /// The last turn, as who writes in the order of lines has it.
    pub fn last_turn(&self) -> Option<u32> {
        self.turn.map(|(turn, _)| turn.in_lines)
    }

    /// Forgets the steps up to the end of `gap`.
    pub fn forget(&mut self, gap: u32) {
        let gap = gap as usize;
        let Timeline {
            steps,
            gaps,
            again,
            often,
            ..
        } = &mut self.timeline;
        gaps.forget(gap.saturating_sub(1));
        again.drain(..again.partition_point(|&(_, mark)| (mark as usize) < gap));
        let old = steps.left().partition_point(|step| step.mark < gap);
        let old = old.saturating_sub(BEFORE);
        // The last one is looked at again with the one that follows it.
        let pairs = &steps.left()[..steps.left().len().min(old + 1)];
        count_often(often, pairs);
        let gone = steps.forget(steps.gone() + old);
        gone.for_each(|step| self.gone.step(step.step, step.steps));
    }

    /// The steps that were forgotten.
    pub fn forgotten(&self) -> &Present {
        &self.gone
    }

    /// True where later lines told of steps that were let go something else than was known of them.
    pub fn is_otherwise(&self) -> bool {
        self.is_otherwise
    }

    /// Resolves the last lines; `false` where that does not tell what all would.
    fn grow(&mut self, marks: Marks<'_>, begins: &[Begin], options: &Options) -> bool {
        let steps = &self.timeline.steps;
        if marks.len() < self.marks || steps.len() < 2 * self.steps + BEGIN + END {
            return false;
        }
        // Of so many steps at once only the last ones are taken for new.
        let begin = steps.get(steps.len() - self.steps - BEGIN - END);
        let begin = begin.map(|step| step.mark + 1);
        let before = begin.and_then(|begin| marks.get(begin - 1));
        let (Some(begin), Some(before)) = (begin, before.map(|mark| mark.start)) else {
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
                let of = |t: &Timeline, at| t.steps.get(at).map_or(0, |step| step.segment);
                let segment = of(&self.timeline, from.known).wrapping_sub(of(&last, from.last));
                self.take(last, (begin, segment), (from, to));
                true
            }
            None => false,
        }
    }

    /// Takes what the lines that are left tell of the last steps: those before stay as they are known.
    fn follow(&mut self, marks: Marks<'_>, begins: &[Begin], options: &Options) {
        self.is_otherwise = true;
        let begin = marks.gone();
        let before = marks.get(begin).map_or(0, |mark| mark.start);
        let new = begins.partition_point(|b| b.at < before);
        let last = resolve(marks.part(begin..marks.len()), &begins[new..], options);
        let known = &mut self.timeline;
        let to = known
            .steps
            .len()
            .saturating_sub(END)
            .max(known.steps.gone());
        let mark = known.steps.get(to).map_or(self.marks, |step| step.mark);
        let at = last.steps.left().partition_point(|s| s.mark + begin < mark);
        let place = Place {
            known: to,
            last: at,
            mark,
        };
        (known.trainer, known.stage) = (last.trainer, last.stage);
        (known.lags, known.times) = (last.lags, last.times);
        (known.counted, known.bursts) = (last.counted, last.bursts);
        let first = last.steps.get(at).map_or(0, |step| step.segment);
        let segment = match known.steps.get(to) {
            Some(step) => step.segment.wrapping_sub(first),
            None => 0,
        };
        self.take(last, (begin, segment), (place, place));
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
        let mark = known.steps.get(first)?.mark;
        let at = last.steps.left().partition_point(|s| s.mark + begin < mark);
        let from = Place {
            known: first,
            last: at,
            mark,
        };
        let to = Place {
            known: to,
            last: at + to - first,
            mark: known.steps.get(to)?.mark,
        };
        let old = known.steps.part(from.known..to.known + 1);
        let new = last.steps.part(from.last..to.last + 1);
        if old.len() != new.len() {
            return None;
        }
        let segment = old.first()?.segment.wrapping_sub(new.first()?.segment);
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
        let gaps = known.gaps.part(from.mark..to.mark);
        let now = last.gaps.part(from.mark - begin..to.mark - begin);
        let gap = |&gap: &Gap| named(gap, from);
        let is_same = gaps.iter().copied().eq(now.iter().map(gap));
        is_same.then_some((from, to))
    }

    /// Takes from the last timeline what comes from the second place on; it begins with mark `begin`, and
    /// so many segments later.
    fn take(&mut self, last: Timeline, (begin, segment): (usize, u32), (from, to): (Place, Place)) {
        let known = &mut self.timeline;
        known.steps.truncate(to.known);
        let steps = last.steps.part(to.last..last.steps.len()).iter();
        known
            .steps
            .extend(steps.map(|step| moved(step, begin, segment)));
        known.gaps.truncate(to.mark);
        let gaps = last.gaps.part(to.mark - begin..last.gaps.len());
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
    use crate::grammar::trainer::{Evaluation, Mark, StepLine, Trainer};
    use crate::log::timeline::MarkList;
    use crate::log::timeline::tests::marks;
    use crate::log::walk::MarkAt;
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

    /// What is left after all marks came in pieces and what is old was let go at each turn; its own steps are
    /// those of all lines. Gives how many steps are left, and whether some were told otherwise.
    fn forgetful(all: &[MarkAt], pieces: &[usize], begins: &[Begin]) -> (usize, bool) {
        let options = Options::default();
        let mut growing = Growing::new(20);
        let (mut list, mut end) = (MarkList::default(), 0);
        for piece in pieces.iter().cycle() {
            if end == all.len() {
                break;
            }
            let from = end;
            end = (end + piece).min(all.len());
            list.extend(all[from..end].to_vec());
            list.pack();
            let until = all[end - 1].start;
            let begun = begins.partition_point(|begin| begin.at <= until);
            let now = growing.resolve(&list, &begins[..begun], &options);
            let given = now.steps.left().iter().rev().nth(8).map(|s| s.mark as u32);
            if let Some(turn) = given.and_then(|gap| growing.turn(gap))
                && let Some(before) = turn.before
            {
                growing.forget(before.gap);
                list.forget(before.gap as usize - 1);
            }
        }
        let (now, twin) = (&growing.timeline, resolve(all, begins, &options));
        let is_otherwise = growing.is_otherwise();
        if !is_otherwise {
            assert_eq!(now.steps.len(), twin.steps.len());
            assert_eq!(now.steps.left(), &twin.steps.left()[now.steps.gone()..]);
            assert_eq!(now.gaps.left(), &twin.gaps.left()[now.gaps.gone()..]);
            assert_eq!(now.interval(), twin.interval());
            let (mut present, mut steps) = (growing.forgotten().clone(), Present::default());
            present.add(now);
            steps.add(&twin);
            assert_eq!(present.describe(), steps.describe());
        }
        (now.steps.left().len(), is_otherwise)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Of steps that were let go nothing is needed to tell the later ones.
        #[test]
        fn what_is_left_is_what_all_lines_tell(
            events in proptest::collection::vec(event(), 100..160),
            trainer in prop_oneof![
                Just(Trainer::Megatron), Just(Trainer::LitGpt), Just(Trainer::MaxText),
            ],
            timed: bool,
            pieces in proptest::collection::vec(1..60_usize, 1..8),
            begin in 0..9000_u64,
        ) {
            let all = marks(job(trainer, &events, timed, 1000));
            let begins: Vec<Begin> = all.get(begin as usize).into_iter().map(|mark| Begin {
                at: mark.start, sure: true, smaller: false,
            }).collect();
            forgetful(&all, &pieces, &begins);
        }
    }

    #[test]
    fn a_month_of_steps_is_let_go() {
        let events = [Event::Steps(200), Event::Evaluation].repeat(150);
        for trainer in [Trainer::Megatron, Trainer::LitGpt, Trainer::MaxText] {
            let all = marks(job(trainer, &events, true, 1000));
            let (left, is_otherwise) = forgetful(&all, &[100, 1, 7], &[]);
            assert!(!is_otherwise && left < 1000, "{trainer:?} {left}");
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
