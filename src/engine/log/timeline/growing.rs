//! The steps of a log that is still being written.
//!
//! Which lines are step lines, and how long steps took, is decided by all lines. So that the work for a
//! new step does not grow with the log, the last lines are resolved alone, from a place well before the
//! new ones. If they give the known steps again, they give the new ones as all lines would. If not, all
//! lines are resolved.
//!
//! So that memory does not grow either, steps that were written long ago are let go, at every
//! [`Checkpoint`]. From then on only the lines that are left are resolved.

use super::limits::{
    CHECKPOINT_STEPS_FACTOR, MIN_STEPS_DECIDED, MIN_STEPS_RESOLVED, STEPS_KEPT_AT_CHECKPOINT,
    UNSURE_FIRST_STEPS, UNSURE_LAST_STEPS,
};
use super::{
    GapKind, MarkSlice, Options, PresentSteps, StepDecision, StepTimeline, TrainStep,
    count_line_intervals, resolve_timeline,
};
use crate::log::attempts::AttemptStart;

/// A timeline that grows.
#[derive(Debug)]
pub struct LiveTimeline {
    timeline: StepTimeline,
    /// Its marks.
    marks: usize,
    begins: Vec<AttemptStart>,
    /// How many steps before the last ones are resolved again.
    steps: usize,
    /// The last checkpoint, and how many steps there were.
    turn: Option<(CheckpointGaps, usize)>,
    /// The steps that were let go.
    gone: PresentSteps,
    /// Later lines may contradict steps that were let go.
    is_otherwise: bool,
    /// The decision so far, once enough steps are known, and the parts that later lines changed.
    decision: Option<StepDecision>,
    redecided: Vec<&'static str>,
    /// How often all lines were resolved.
    #[cfg(test)]
    pub(super) whole: usize,
}

/// A place in a log up to which all is settled and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// The last gap up to there.
    pub gap: u32,
    /// The checkpoint before: nothing up to there needs to be kept any more.
    pub before: Option<CheckpointGaps>,
}

/// The place of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointGaps {
    /// The last gap up to there.
    pub gap: u32,
    /// The last gap for output in the order of the lines: some lines of these steps come later.
    pub in_lines: u32,
}

impl Default for LiveTimeline {
    fn default() -> LiveTimeline {
        LiveTimeline::new(MIN_STEPS_RESOLVED)
    }
}

/// How far the numbers of a timeline that begins later are from those of the known one.
#[derive(Clone, Copy)]
struct TimelineOffset {
    /// The mark it begins with.
    marks: usize,
    segments: u32,
}

impl TimelineOffset {
    /// Returns a step of the later timeline as the known one numbers it.
    fn shift_step(self, step: &TrainStep) -> TrainStep {
        TrainStep {
            segment: step.segment.wrapping_add(self.segments),
            mark: step.mark + self.marks,
            ..step.clone()
        }
    }
}

/// A place in both timelines: the number of a step, and of its mark.
#[derive(Clone, Copy)]
struct StepAndMark {
    known: usize,
    last: usize,
    /// As the known timeline has it.
    mark: usize,
}

impl StepAndMark {
    /// Returns a gap of the later timeline as the known one numbers it.
    fn shift_gap(self, gap: GapKind) -> GapKind {
        match gap {
            GapKind::Step(step) => {
                let step = (step as usize + self.known).saturating_sub(self.last);
                GapKind::Step(u32::try_from(step).unwrap_or(u32::MAX))
            }
            gap => gap,
        }
    }
}

impl LiveTimeline {
    /// An empty timeline that resolves at least `steps` steps again.
    pub(super) fn new(steps: usize) -> LiveTimeline {
        LiveTimeline {
            timeline: StepTimeline::default(),
            marks: 0,
            begins: Vec::new(),
            steps,
            turn: None,
            gone: PresentSteps::default(),
            is_otherwise: false,
            decision: None,
            redecided: Vec::new(),
            #[cfg(test)]
            whole: 0,
        }
    }

    /// Returns the timeline so far, as [`resolve_timeline`](super::resolve_timeline) gives it but for the number of
    /// further lines; `marks` and `begins` are those of the call before and more.
    pub fn resolve_marks<'m>(
        &mut self,
        marks: impl Into<MarkSlice<'m>>,
        begins: &[AttemptStart],
        options: &Options,
    ) -> &mut StepTimeline {
        let marks = marks.into();
        if !self.try_resolve_last(marks, begins, options) {
            match marks.forgotten_count() {
                0 => self.timeline = resolve_timeline(marks, begins, options),
                _ => self.resolve_rest(marks, begins, options),
            }
            #[cfg(test)]
            {
                self.whole += 1;
            }
        }
        self.marks = marks.len();
        self.begins = begins.to_vec();
        let now = self.timeline.decision();
        self.compare_decision(now.filter(|_| self.timeline.steps.len() >= MIN_STEPS_DECIDED));
        &mut self.timeline
    }

    /// Remembers in which parts the decision changed.
    fn compare_decision(&mut self, now: Option<StepDecision>) {
        if let (Some(before), Some(now)) = (self.decision, now) {
            for part in before.changed_parts(&now) {
                if !self.redecided.contains(&part) {
                    self.redecided.push(part);
                }
            }
        }
        self.decision = now.or(self.decision);
    }

    /// Ends with the timeline of the whole log; returns it with the parts of the decision that changed.
    pub fn end_with(&mut self, whole: StepTimeline) -> StepTimeline {
        self.compare_decision(whole.decision());
        let redecided = std::mem::take(&mut self.redecided);
        *self = LiveTimeline::default();
        StepTimeline { redecided, ..whole }
    }

    /// The timeline as it was found last.
    pub fn timeline(&self) -> &StepTimeline {
        &self.timeline
    }

    /// Notes that all up to the end of `gap` is settled and written. Returns a checkpoint if enough steps came since
    /// the last one.
    pub fn checkpoint(&mut self, gap: u32) -> Option<Checkpoint> {
        let steps = &self.timeline.steps;
        let until = steps
            .remaining()
            .partition_point(|s| s.mark <= gap as usize);
        let until = steps.forgotten_count() + until;
        let (before, last) = self.turn.unzip();
        let apart = (CHECKPOINT_STEPS_FACTOR * self.steps)
            .max(2 * self.steps + UNSURE_FIRST_STEPS + UNSURE_LAST_STEPS);
        if until < last.unwrap_or(0) + apart {
            return None;
        }
        let earlier = until
            .checked_sub(STEPS_KEPT_AT_CHECKPOINT)
            .and_then(|at| steps.get(at));
        let in_lines = earlier.map_or(0, |step| gap.min(step.mark as u32));
        self.turn = Some((CheckpointGaps { gap, in_lines }, until));
        Some(Checkpoint { gap, before })
    }

    /// Returns the gap of the last checkpoint for output in the order of the lines.
    pub fn last_checkpoint(&self) -> Option<u32> {
        self.turn.map(|(turn, _)| turn.in_lines)
    }

    /// Forgets the steps up to the end of `gap`.
    pub fn forget_until(&mut self, gap: u32) {
        let gap = gap as usize;
        let StepTimeline {
            steps,
            gaps,
            again,
            often,
            ..
        } = &mut self.timeline;
        gaps.forget_before(gap.saturating_sub(1));
        again.drain(..again.partition_point(|&(_, mark)| (mark as usize) < gap));
        let old = steps.remaining().partition_point(|step| step.mark < gap);
        let old = old.saturating_sub(STEPS_KEPT_AT_CHECKPOINT);
        // The last one is looked at again with the one that follows it.
        let pairs = &steps.remaining()[..steps.remaining().len().min(old + 1)];
        count_line_intervals(often, pairs);
        let gone = steps.forget_before(steps.forgotten_count() + old);
        gone.for_each(|step| self.gone.add_step(step.step, step.steps));
    }

    /// The steps that were forgotten.
    pub fn forgotten_steps(&self) -> &PresentSteps {
        &self.gone
    }

    /// True if later lines may contradict steps that were let go.
    pub fn is_contradicted(&self) -> bool {
        self.is_otherwise
    }

    /// Resolves the last lines; `false` if all lines may give something else.
    fn try_resolve_last(
        &mut self,
        marks: MarkSlice<'_>,
        begins: &[AttemptStart],
        options: &Options,
    ) -> bool {
        let steps = &self.timeline.steps;
        if marks.len() < self.marks
            || steps.len() < 2 * self.steps + UNSURE_FIRST_STEPS + UNSURE_LAST_STEPS
        {
            return false;
        }
        // A place well before the last known steps.
        let begin = steps.get(steps.len() - self.steps - UNSURE_FIRST_STEPS - UNSURE_LAST_STEPS);
        let begin = begin.map(|step| step.mark + 1);
        let before = begin.and_then(|begin| marks.get(begin - 1));
        let (Some(begin), Some(before)) = (begin, before.map(|mark| mark.start)) else {
            return false;
        };
        let known = |begins: &[AttemptStart]| begins.partition_point(|b| b.at <= before);
        let (old, new) = (known(&self.begins), known(begins));
        if self.begins[..old] != begins[..new] {
            return false;
        }
        let last = resolve_timeline(marks.slice(begin..marks.len()), &begins[new..], options);
        let Some((offset, from, to)) = self.find_joint(&last, begin) else {
            return false;
        };
        self.take_from(last, offset, from, to);
        true
    }

    /// Resolves the last steps by the lines that are left: those before stay as they are known.
    fn resolve_rest(&mut self, marks: MarkSlice<'_>, begins: &[AttemptStart], options: &Options) {
        self.is_otherwise = true;
        let begin = marks.forgotten_count();
        let before = marks.get(begin).map_or(0, |mark| mark.start);
        let new = begins.partition_point(|b| b.at < before);
        let last = resolve_timeline(marks.slice(begin..marks.len()), &begins[new..], options);
        let known = &mut self.timeline;
        let to = known
            .steps
            .len()
            .saturating_sub(UNSURE_LAST_STEPS)
            .max(known.steps.forgotten_count());
        let mark = known.steps.get(to).map_or(self.marks, |step| step.mark);
        let at = last
            .steps
            .remaining()
            .partition_point(|s| s.mark + begin < mark);
        let place = StepAndMark {
            known: to,
            last: at,
            mark,
        };
        (known.trainer, known.stage) = (last.trainer, last.stage);
        (known.lags, known.times) = (last.lags, last.times);
        (known.counted, known.bursts) = (last.counted, last.bursts);
        let first = last.steps.get(at).map_or(0, |step| step.segment);
        let known_first = known.steps.get(to);
        let offset = TimelineOffset {
            marks: begin,
            segments: known_first.map_or(0, |step| step.segment.wrapping_sub(first)),
        };
        self.take_from(last, offset, place, place);
    }

    /// Returns how far the numbers of the last timeline, which begins with mark `begin`, are off; and, if all between
    /// them is alike, the first step at which both must be alike, and the first at which the known one may differ.
    fn find_joint(
        &self,
        last: &StepTimeline,
        begin: usize,
    ) -> Option<(TimelineOffset, StepAndMark, StepAndMark)> {
        let known = &self.timeline;
        let is_like = known.trainer == last.trainer
            && known.lags == last.lags
            && known.times == last.times
            && known.counted == last.counted
            && known.bursts == last.bursts;
        let to = known.steps.len().checked_sub(UNSURE_LAST_STEPS)?;
        let first = to.checked_sub(self.steps)?;
        let mark = known.steps.get(first)?.mark;
        let at = last
            .steps
            .remaining()
            .partition_point(|s| s.mark + begin < mark);
        let from = StepAndMark {
            known: first,
            last: at,
            mark,
        };
        let to = StepAndMark {
            known: to,
            last: at + to - first,
            mark: known.steps.get(to)?.mark,
        };
        let old = known.steps.slice(from.known..to.known + 1);
        let new = last.steps.slice(from.last..to.last + 1);
        if old.len() != new.len() {
            return None;
        }
        let offset = TimelineOffset {
            marks: begin,
            segments: old.first()?.segment.wrapping_sub(new.first()?.segment),
        };
        let is_same = |(old, new): (&TrainStep, &TrainStep)| {
            let new = offset.shift_step(new);
            let is_last = old.mark == to.mark;
            // Its values may come yet.
            is_last && (old.mark, old.step, old.segment) == (new.mark, new.step, new.segment)
                || *old == new
        };
        if !is_like || !old.iter().zip(new).all(is_same) {
            return None;
        }
        let gaps = known.gaps.slice(from.mark..to.mark);
        let now = last.gaps.slice(from.mark - begin..to.mark - begin);
        let now = now.iter().map(|&gap| from.shift_gap(gap));
        let is_same = gaps.iter().copied().eq(now);
        is_same.then_some((offset, from, to))
    }

    /// Replaces the known steps and gaps from `to` on by those of the last timeline.
    fn take_from(
        &mut self,
        last: StepTimeline,
        offset: TimelineOffset,
        from: StepAndMark,
        to: StepAndMark,
    ) {
        let known = &mut self.timeline;
        known.steps.truncate(to.known);
        let steps = last.steps.slice(to.last..last.steps.len()).iter();
        known
            .steps
            .extend(steps.map(|step| offset.shift_step(step)));
        known.gaps.truncate(to.mark);
        let gaps = last.gaps.slice(to.mark - offset.marks..last.gaps.len());
        known
            .gaps
            .extend(gaps.iter().map(|&gap| from.shift_gap(gap)));
        let is_before = |&(_, mark): &(u32, u32)| (mark as usize) < to.mark;
        let kept = known.again.partition_point(is_before);
        known.again.truncate(kept);
        let moved = last.again.iter().filter_map(|&(step, mark)| {
            let step = (step as usize + from.known).checked_sub(from.last)?;
            let mark = mark as usize + offset.marks;
            Some((u32::try_from(step).ok()?, u32::try_from(mark).ok()?))
        });
        known.again.extend(moved.filter(|again| !is_before(again)));
        known.by_position = last.by_position;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::trainer::{EvaluationLine, StepLine, Trainer, TrainerMark};
    use crate::log::timeline::MarkList;
    use crate::log::timeline::tests::marks;
    use crate::log::walk::MarkPosition;
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
    fn job(trainer: Trainer, events: &[Event], timed: bool, each_ms: i64) -> Vec<TrainerMark> {
        let (mut step, mut ms, mut epoch) = (0_u64, 0_i64, 0_u64);
        let mut all = Vec::new();
        for event in events {
            match event {
                Event::Steps(n) => {
                    for _ in 0..*n {
                        step += 1;
                        ms += each_ms + (step % 7) as i64;
                        let stamp = if each_ms < 1000 { ms - ms % 1000 } else { ms };
                        all.push(TrainerMark::Step(StepLine {
                            time_s: timed.then_some(1.0 + step as f64 / 1e6),
                            wall_ms: Some(stamp),
                            epoch: Some(epoch),
                            ..StepLine::without_time(trainer, step)
                        }));
                    }
                }
                Event::Evaluation => {
                    all.push(TrainerMark::Evaluation(EvaluationLine::Starts(Some(
                        ms + 10,
                    ))));
                    ms += 500;
                    all.push(TrainerMark::Evaluation(EvaluationLine::Stops {
                        wall_ms: Some(ms),
                        samples: None,
                        step: Some(step),
                    }));
                }
                Event::Restart => step = step.saturating_sub(10),
                Event::Epoch => (step, epoch) = (0, epoch + 1),
                Event::Launcher => all.push(TrainerMark::Ended),
                Event::Foreign => {
                    all.push(TrainerMark::Step(StepLine::without_time(
                        Trainer::DeepSpeed,
                        3 * step,
                    )));
                }
                Event::Batch => all.push(TrainerMark::BatchSize(8 + step % 3)),
                Event::Again => {
                    for late in step.saturating_sub(3)..=step {
                        all.push(TrainerMark::Step(StepLine {
                            epoch: Some(epoch),
                            ..StepLine::without_time(trainer, late)
                        }));
                    }
                }
            }
        }
        all
    }

    fn twin(marks: &[MarkPosition], begins: &[AttemptStart], options: &Options) -> StepTimeline {
        StepTimeline {
            duplicates: 0,
            ..resolve_timeline(marks, begins, options)
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
            let begins: Vec<AttemptStart> = start.into_iter().map(|at| AttemptStart {
                at, sure: true, smaller: false,
            }).collect();
            let options = Options::default();
            let mut growing = LiveTimeline::new(40);
            let mut end = 0;
            for piece in pieces.iter().cycle() {
                if end == all.len() {
                    break;
                }
                end = (end + piece).min(all.len());
                let known = &all[..end];
                let until = known.last().map_or(0, |mark| mark.start);
                let begun = begins.partition_point(|begin| begin.at <= until);
                let now = growing.resolve_marks(known, &begins[..begun], &options);
                let now = StepTimeline { duplicates: 0, ..now.clone() };
                prop_assert_eq!(now, twin(known, &begins[..begun], &options));
            }
        }
    }

    /// What is left after all marks came in pieces and what is old was let go at each turn; its own steps are
    /// those of all lines. Gives how many steps are left, and whether some were told otherwise.
    fn forgetful(all: &[MarkPosition], pieces: &[usize], begins: &[AttemptStart]) -> (usize, bool) {
        let options = Options::default();
        let mut growing = LiveTimeline::new(20);
        let (mut list, mut end) = (MarkList::default(), 0);
        for piece in pieces.iter().cycle() {
            if end == all.len() {
                break;
            }
            let from = end;
            end = (end + piece).min(all.len());
            list.extend(all[from..end].to_vec());
            list.pack_old();
            let until = all[end - 1].start;
            let begun = begins.partition_point(|begin| begin.at <= until);
            let now = growing.resolve_marks(&list, &begins[..begun], &options);
            let given = now
                .steps
                .remaining()
                .iter()
                .rev()
                .nth(8)
                .map(|s| s.mark as u32);
            if let Some(turn) = given.and_then(|gap| growing.checkpoint(gap))
                && let Some(before) = turn.before
            {
                growing.forget_until(before.gap);
                list.forget_before(before.gap as usize - 1);
            }
        }
        let (now, twin) = (&growing.timeline, resolve_timeline(all, begins, &options));
        let is_otherwise = growing.is_contradicted();
        if !is_otherwise {
            assert_eq!(now.steps.len(), twin.steps.len());
            assert_eq!(
                now.steps.remaining(),
                &twin.steps.remaining()[now.steps.forgotten_count()..]
            );
            assert_eq!(
                now.gaps.remaining(),
                &twin.gaps.remaining()[now.gaps.forgotten_count()..]
            );
            assert_eq!(now.line_interval(), twin.line_interval());
            let (mut present, mut steps) =
                (growing.forgotten_steps().clone(), PresentSteps::default());
            present.add_timeline(now);
            steps.add_timeline(&twin);
            assert_eq!(present.describe_steps(), steps.describe_steps());
        }
        (now.steps.remaining().len(), is_otherwise)
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
            let begins: Vec<AttemptStart> = all.get(begin as usize).into_iter().map(|mark| AttemptStart {
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
        let mut growing = LiveTimeline::new(100);
        for end in 1..=all.len() {
            growing.resolve_marks(&all[..end], &[], &Options::default());
        }
        let first = 2 * 100 + UNSURE_FIRST_STEPS + UNSURE_LAST_STEPS;
        assert!(growing.whole <= first + 8, "{}", growing.whole);
        let now = StepTimeline {
            duplicates: 0,
            ..growing.timeline
        };
        assert_eq!(now, twin(&all, &[], &Options::default()));
    }
}
