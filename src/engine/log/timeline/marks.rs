//! The marks of a log, at least one for each step. In a log that is still being written all but the last ones are
//! packed, since a job may run for a month.

use super::limits::{MARKS_PER_BLOCK, UNPACKED_MARKS};
use crate::grammar::trainer::TrainerMark;
use crate::log::walk::MarkPosition;
use std::borrow::Cow;
use std::ops::Range;

/// Marks in their order. The first ones may be forgotten: the others keep their numbers.
#[derive(Debug, Clone, Default)]
pub struct MarkList {
    /// How many are forgotten.
    gone: usize,
    packed: Vec<Box<[u8]>>,
    plain: Vec<MarkPosition>,
}

/// Some of a list's marks, in their order.
#[derive(Debug, Clone, Copy)]
pub struct MarkSlice<'a> {
    gone: usize,
    packed: &'a [Box<[u8]>],
    plain: &'a [MarkPosition],
    /// Those from here on, up to there.
    from: usize,
    to: usize,
}

impl MarkList {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.gone + self.packed.len() * MARKS_PER_BLOCK + self.plain.len()
    }

    /// How many are forgotten.
    pub fn forgotten_count(&self) -> usize {
        self.gone
    }

    /// True for none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them.
    pub fn as_slice(&self) -> MarkSlice<'_> {
        MarkSlice {
            gone: self.gone,
            packed: &self.packed,
            plain: &self.plain,
            from: 0,
            to: self.len(),
        }
    }

    /// Packs all but the last ones.
    pub(crate) fn pack_old(&mut self) {
        if self.plain.len() < 2 * UNPACKED_MARKS {
            return;
        }
        let blocks = (self.plain.len() - UNPACKED_MARKS) / MARKS_PER_BLOCK;
        let old = self
            .plain
            .drain(..blocks * MARKS_PER_BLOCK)
            .collect::<Vec<_>>();
        self.packed
            .extend(old.chunks(MARKS_PER_BLOCK).map(pack_marks));
        self.plain.shrink_to(2 * UNPACKED_MARKS);
    }

    /// Forgets packed ones before this number.
    pub(crate) fn forget_before(&mut self, before: usize) {
        let blocks = before.saturating_sub(self.gone) / MARKS_PER_BLOCK;
        let blocks = blocks.min(self.packed.len());
        self.packed.drain(..blocks);
        self.gone += blocks * MARKS_PER_BLOCK;
    }

    /// Forgets all but the last ones, and counts from the first that is left.
    pub fn keep_last(&mut self, most: usize) {
        let blocks = (self.len() - self.gone).saturating_sub(most) / MARKS_PER_BLOCK;
        self.gone = 0;
        self.packed.drain(..blocks.min(self.packed.len()));
        if self.packed.is_empty() {
            let more = self.plain.len().saturating_sub(most);
            self.plain.drain(..more);
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.gone = 0;
        self.packed.clear();
        self.plain.clear();
    }
}

impl Extend<MarkPosition> for MarkList {
    fn extend<I: IntoIterator<Item = MarkPosition>>(&mut self, marks: I) {
        self.plain.extend(marks);
    }
}

impl<'a> From<&'a [MarkPosition]> for MarkSlice<'a> {
    fn from(plain: &'a [MarkPosition]) -> MarkSlice<'a> {
        MarkSlice {
            gone: 0,
            packed: &[],
            plain,
            from: 0,
            to: plain.len(),
        }
    }
}

impl<'a> From<&'a Vec<MarkPosition>> for MarkSlice<'a> {
    fn from(plain: &'a Vec<MarkPosition>) -> MarkSlice<'a> {
        plain.as_slice().into()
    }
}

impl<'a, const N: usize> From<&'a [MarkPosition; N]> for MarkSlice<'a> {
    fn from(plain: &'a [MarkPosition; N]) -> MarkSlice<'a> {
        plain.as_slice().into()
    }
}

impl<'a> From<&'a MarkList> for MarkSlice<'a> {
    fn from(list: &'a MarkList) -> MarkSlice<'a> {
        list.as_slice()
    }
}

impl<'a> MarkSlice<'a> {
    /// How many there are.
    pub fn len(self) -> usize {
        self.to - self.from
    }

    /// True for none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Some of them, as far as they are there.
    #[must_use]
    pub fn slice(self, part: Range<usize>) -> MarkSlice<'a> {
        let to = self.from + part.end.min(self.len());
        MarkSlice {
            from: (self.from + part.start).min(to),
            to,
            ..self
        }
    }

    /// How many of them are forgotten.
    pub fn forgotten_count(self) -> usize {
        self.gone.clamp(self.from, self.to) - self.from
    }

    /// One of them, unless it is forgotten.
    pub fn get(self, at: usize) -> Option<Cow<'a, MarkPosition>> {
        let is_there = at >= self.forgotten_count();
        is_there.then(|| self.slice(at..self.len()).iter().next())?
    }

    /// One after the other, without those that are forgotten.
    pub fn iter(self) -> MarkIter<'a> {
        MarkIter {
            marks: self.slice(self.forgotten_count()..self.len()),
            block: Vec::new(),
            left: 0,
        }
    }

    /// How many of the first ones are so; all that are so come first, and those that are forgotten are.
    pub fn partition_point(self, is: impl Fn(&MarkPosition) -> bool) -> usize {
        let (mut least, mut most) = (self.forgotten_count(), self.len());
        while least < most {
            let at = least.midpoint(most);
            match self.get(at) {
                Some(mark) if is(&mark) => least = at + 1,
                _ => most = at,
            }
        }
        least
    }
}

/// Marks, one after the other.
#[derive(Debug, Clone)]
pub struct MarkIter<'a> {
    marks: MarkSlice<'a>,
    /// A block that was packed, and how many of its marks are to come.
    block: Vec<MarkPosition>,
    left: usize,
}

impl<'a> Iterator for MarkIter<'a> {
    type Item = Cow<'a, MarkPosition>;

    #[inline]
    fn next(&mut self) -> Option<Cow<'a, MarkPosition>> {
        let MarkSlice {
            gone,
            packed,
            plain,
            from,
            to,
        } = self.marks;
        if from >= to {
            return None;
        }
        self.marks.from += 1;
        let from = from.checked_sub(gone)?;
        match from.checked_sub(packed.len() * MARKS_PER_BLOCK) {
            Some(at) => plain.get(at).map(Cow::Borrowed),
            None => self.unpack_mark(from).map(Cow::Owned),
        }
    }
}

impl MarkIter<'_> {
    /// One of the packed ones.
    #[cold]
    fn unpack_mark(&mut self, at: usize) -> Option<MarkPosition> {
        if self.left == 0 {
            unpack_marks(
                self.marks.packed.get(at / MARKS_PER_BLOCK)?,
                &mut self.block,
            );
            self.left = MARKS_PER_BLOCK - at % MARKS_PER_BLOCK;
        }
        self.left -= 1;
        self.block.get(at % MARKS_PER_BLOCK).cloned()
    }
}

/// What follows from the mark before is left out of a packed one.
fn subtract_previous(mark: &mut MarkPosition, before: &MarkPosition) {
    mark.next_line = mark.next_line.wrapping_sub(mark.line);
    mark.cut = mark.cut.wrapping_sub(mark.start);
    mark.line = mark.line.wrapping_sub(before.line);
    mark.start = mark.start.wrapping_sub(before.start);
    if let (TrainerMark::Step(line), TrainerMark::Step(before)) = (&mut mark.mark, &before.mark) {
        line.step = line.step.wrapping_sub(before.step);
        let (now, then) = (&mut line.wall_ms, before.wall_ms);
        *now = now.map(|now| now.wrapping_sub(then.unwrap_or(0)));
    }
}

/// The opposite.
fn add_previous(mark: &mut MarkPosition, before: &MarkPosition) {
    mark.start = mark.start.wrapping_add(before.start);
    mark.line = mark.line.wrapping_add(before.line);
    mark.cut = mark.cut.wrapping_add(mark.start);
    mark.next_line = mark.next_line.wrapping_add(mark.line);
    if let (TrainerMark::Step(line), TrainerMark::Step(before)) = (&mut mark.mark, &before.mark) {
        line.step = line.step.wrapping_add(before.step);
        let (now, then) = (&mut line.wall_ms, before.wall_ms);
        *now = now.map(|now| now.wrapping_add(then.unwrap_or(0)));
    }
}

/// Before the first of a block.
const ZERO_MARK: MarkPosition = MarkPosition {
    start: 0,
    cut: 0,
    line: 0,
    next_line: 0,
    mark: TrainerMark::Between,
};

fn pack_marks(marks: &[MarkPosition]) -> Box<[u8]> {
    let mut bytes = Vec::new();
    let mut before = &ZERO_MARK;
    for mark in marks {
        let mut small = mark.clone();
        subtract_previous(&mut small, before);
        // Neither fails: the memory grows, and a mark has nothing that cannot be written.
        bytes = postcard::to_extend(&small, bytes).unwrap_or_default();
        before = mark;
    }
    bytes.into()
}

fn unpack_marks(mut bytes: &[u8], marks: &mut Vec<MarkPosition>) {
    marks.clear();
    while let Ok((mut mark, rest)) = postcard::take_from_bytes::<MarkPosition>(bytes) {
        add_previous(&mut mark, marks.last().unwrap_or(&ZERO_MARK));
        marks.push(mark);
        bytes = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::trainer::{
        EvaluationLine, StepLine, StepNumberUnit, Trainer, TrainerClock, TrainerPace,
    };
    use proptest::prelude::*;

    fn mark() -> impl Strategy<Value = TrainerMark> {
        let some = || proptest::option::of(0.0..1e6_f64);
        let step = (any::<u64>(), some(), some(), any::<Option<i64>>(), 0..4_u8);
        prop_oneof![
            6 => step.prop_map(|(step, time_s, tflops, wall_ms, what)| TrainerMark::Step(StepLine {
                time_s,
                tflops,
                wall_ms,
                counts: StepNumberUnit::Unsaid,
                epoch: (what > 1).then_some(step / 3),
                total: (what > 2).then_some(step),
                pace: time_s.filter(|_| what == 1).map(TrainerPace::Smoothed),
                clock: tflops.map(|seconds| TrainerClock { seconds, error: 0.5 }),
                stage: Some(what.into()),
                ..StepLine::without_time(Trainer::Megatron, step)
            })),
            1 => Just(TrainerMark::Between),
            1 => Just(TrainerMark::Ended),
            1 => Just(TrainerMark::Joined),
            1 => any::<Option<i64>>().prop_map(|at| TrainerMark::Evaluation(EvaluationLine::Starts(at))),
            1 => any::<u64>().prop_map(TrainerMark::BatchSize),
            1 => some().prop_map(|smoothed| TrainerMark::Metric { smoothed, tflops: None }),
        ]
    }

    fn at() -> impl Strategy<Value = MarkPosition> {
        let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
        (mark(), numbers).prop_map(|(mark, (start, cut, line, next_line))| MarkPosition {
            start,
            cut,
            line,
            next_line,
            mark,
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// However often marks are packed while they come, they are those of a plain list.
        #[test]
        fn packed_marks_are_the_marks(
            some in proptest::collection::vec(at(), 1..9),
            pieces in proptest::collection::vec(1..3000_usize, 1..6),
            part in (0..9000_usize, 0..9000_usize),
            last in 0..5000_usize,
        ) {
            let (mut list, mut twin) = (MarkList::default(), Vec::new());
            for piece in pieces {
                let new = some.iter().cycle().take(piece).cloned();
                let moved = new.enumerate().map(|(n, mark)| MarkPosition {
                    line: mark.line ^ n as u64,
                    ..mark
                });
                let moved: Vec<MarkPosition> = moved.collect();
                list.extend(moved.clone());
                twin.extend(moved);
                list.pack_old();
            }
            prop_assert_eq!(list.len(), twin.len());
            prop_assert!(list.plain.len() < 2 * UNPACKED_MARKS, "{}", list.plain.len());
            let got: Vec<MarkPosition> = list.as_slice().iter().map(Cow::into_owned).collect();
            prop_assert!(got == twin);
            let to = part.1.min(twin.len());
            let from = part.0.min(to);
            let got = list.as_slice().slice(part.0..part.1).slice(0..usize::MAX);
            let got: Vec<MarkPosition> = got.iter().map(Cow::into_owned).collect();
            prop_assert!(got == twin[from..to]);
            let one = list.as_slice().get(part.0).map(Cow::into_owned);
            prop_assert!(one.as_ref() == twin.get(part.0));
            list.forget_before(last);
            let gone = list.forgotten_count();
            prop_assert!(gone <= last && gone.is_multiple_of(MARKS_PER_BLOCK) && list.len() == twin.len());
            prop_assert_eq!(list.as_slice().get(gone.wrapping_sub(1)), None);
            let at = gone + (list.len() - gone) / 2;
            let got = list.as_slice().get(at).map(Cow::into_owned);
            prop_assert!(got.as_ref() == twin.get(at));
            let got = list.as_slice().slice(gone / 2..at);
            prop_assert_eq!(got.forgotten_count(), gone - gone / 2);
            let got: Vec<MarkPosition> = got.iter().map(Cow::into_owned).collect();
            prop_assert!(got == twin[gone..at]);
            twin.drain(..gone);
            list.keep_last(last);
            let kept: Vec<MarkPosition> = list.as_slice().iter().map(Cow::into_owned).collect();
            prop_assert!(twin.ends_with(&kept));
            prop_assert!(kept.len() >= last.min(twin.len()) && kept.len() < last + 2 * UNPACKED_MARKS);
        }
    }

    #[test]
    fn the_place_of_a_line_is_found_in_packed_marks() {
        let mark = |line: u64| MarkPosition { line, ..ZERO_MARK };
        let mut list = MarkList::default();
        list.extend((0..9000).map(mark));
        list.pack_old();
        for line in [0, 1, 127, 128, 6000, 8999, 9000] {
            let at = list.as_slice().partition_point(|mark| mark.line < line);
            assert_eq!(at as u64, line);
        }
    }
}
