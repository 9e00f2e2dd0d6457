//! The marks of a log, of which there is one for each step: of a log that is still being written all but
//! the last ones are packed, since a job may run for a month.

use crate::grammar::trainer::Mark;
use crate::log::walk::MarkAt;
use std::borrow::Cow;
use std::ops::Range;

/// Marks that are packed together.
const BLOCK: usize = 128;

/// So many of the last ones stay as they are: they are looked at again and again.
const LAST: usize = 2048;

/// Marks in their order. The first ones may be forgotten: the others keep their numbers.
#[derive(Debug, Clone, Default)]
pub struct MarkList {
    /// How many are forgotten.
    gone: usize,
    packed: Vec<Box<[u8]>>,
    plain: Vec<MarkAt>,
}

/// Some of a list's marks, in their order.
#[derive(Debug, Clone, Copy)]
pub struct Marks<'a> {
    gone: usize,
    packed: &'a [Box<[u8]>],
    plain: &'a [MarkAt],
    /// Those from here on, up to there.
    from: usize,
    to: usize,
}

impl MarkList {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.gone + self.packed.len() * BLOCK + self.plain.len()
    }

    /// How many are forgotten.
    pub fn gone(&self) -> usize {
        self.gone
    }

    /// True for none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them.
    pub fn all(&self) -> Marks<'_> {
        Marks {
            gone: self.gone,
            packed: &self.packed,
            plain: &self.plain,
            from: 0,
            to: self.len(),
        }
    }

    /// Packs all but the last ones.
    pub(crate) fn pack(&mut self) {
        if self.plain.len() < 2 * LAST {
            return;
        }
        let blocks = (self.plain.len() - LAST) / BLOCK;
        let old = self.plain.drain(..blocks * BLOCK).collect::<Vec<_>>();
        self.packed.extend(old.chunks(BLOCK).map(packed));
        self.plain.shrink_to(2 * LAST);
    }

    /// Forgets packed ones before this number.
    pub(crate) fn forget(&mut self, before: usize) {
        let blocks = before.saturating_sub(self.gone) / BLOCK;
        let blocks = blocks.min(self.packed.len());
        self.packed.drain(..blocks);
        self.gone += blocks * BLOCK;
    }

    /// Forgets all but the last ones, and counts from the first that is left.
    pub fn keep_last(&mut self, most: usize) {
        let blocks = (self.len() - self.gone).saturating_sub(most) / BLOCK;
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

impl Extend<MarkAt> for MarkList {
    fn extend<I: IntoIterator<Item = MarkAt>>(&mut self, marks: I) {
        self.plain.extend(marks);
    }
}

impl<'a> From<&'a [MarkAt]> for Marks<'a> {
    fn from(plain: &'a [MarkAt]) -> Marks<'a> {
        Marks {
            gone: 0,
            packed: &[],
            plain,
            from: 0,
            to: plain.len(),
        }
    }
}

impl<'a> From<&'a Vec<MarkAt>> for Marks<'a> {
    fn from(plain: &'a Vec<MarkAt>) -> Marks<'a> {
        plain.as_slice().into()
    }
}

impl<'a, const N: usize> From<&'a [MarkAt; N]> for Marks<'a> {
    fn from(plain: &'a [MarkAt; N]) -> Marks<'a> {
        plain.as_slice().into()
    }
}

impl<'a> From<&'a MarkList> for Marks<'a> {
    fn from(list: &'a MarkList) -> Marks<'a> {
        list.all()
    }
}

impl<'a> Marks<'a> {
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
    pub fn part(self, part: Range<usize>) -> Marks<'a> {
        let to = self.from + part.end.min(self.len());
        Marks {
            from: (self.from + part.start).min(to),
            to,
            ..self
        }
    }

    /// How many of them are forgotten.
    pub fn gone(self) -> usize {
        self.gone.clamp(self.from, self.to) - self.from
    }

    /// One of them, unless it is forgotten.
    pub fn get(self, at: usize) -> Option<Cow<'a, MarkAt>> {
        let is_there = at >= self.gone();
        is_there.then(|| self.part(at..self.len()).iter().next())?
    }

    /// One after the other, without those that are forgotten.
    pub fn iter(self) -> Iter<'a> {
        Iter {
            marks: self.part(self.gone()..self.len()),
            block: Vec::new(),
            left: 0,
        }
    }

    /// How many of the first ones are so; all that are so come first, and those that are forgotten are.
    pub fn partition_point(self, is: impl Fn(&MarkAt) -> bool) -> usize {
        let (mut least, mut most) = (self.gone(), self.len());
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
pub struct Iter<'a> {
    marks: Marks<'a>,
    /// A block that was packed, and how many of its marks are to come.
    block: Vec<MarkAt>,
    left: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Cow<'a, MarkAt>;

    #[inline]
    fn next(&mut self) -> Option<Cow<'a, MarkAt>> {
        let Marks {
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
        match from.checked_sub(packed.len() * BLOCK) {
            Some(at) => plain.get(at).map(Cow::Borrowed),
            None => self.unpack(from).map(Cow::Owned),
        }
    }
}

impl Iter<'_> {
    /// One of the packed ones.
    #[cold]
    fn unpack(&mut self, at: usize) -> Option<MarkAt> {
        if self.left == 0 {
            unpacked(self.marks.packed.get(at / BLOCK)?, &mut self.block);
            self.left = BLOCK - at % BLOCK;
        }
        self.left -= 1;
        self.block.get(at % BLOCK).cloned()
    }
}

/// What follows from the mark before is left out of a packed one.
fn less(mark: &mut MarkAt, before: &MarkAt) {
    mark.next_line = mark.next_line.wrapping_sub(mark.line);
    mark.cut = mark.cut.wrapping_sub(mark.start);
    mark.line = mark.line.wrapping_sub(before.line);
    mark.start = mark.start.wrapping_sub(before.start);
    if let (Mark::Step(line), Mark::Step(before)) = (&mut mark.mark, &before.mark) {
        line.step = line.step.wrapping_sub(before.step);
        let (now, then) = (&mut line.wall_ms, before.wall_ms);
        *now = now.map(|now| now.wrapping_sub(then.unwrap_or(0)));
    }
}

/// The opposite.
fn more(mark: &mut MarkAt, before: &MarkAt) {
    mark.start = mark.start.wrapping_add(before.start);
    mark.line = mark.line.wrapping_add(before.line);
    mark.cut = mark.cut.wrapping_add(mark.start);
    mark.next_line = mark.next_line.wrapping_add(mark.line);
    if let (Mark::Step(line), Mark::Step(before)) = (&mut mark.mark, &before.mark) {
        line.step = line.step.wrapping_add(before.step);
        let (now, then) = (&mut line.wall_ms, before.wall_ms);
        *now = now.map(|now| now.wrapping_add(then.unwrap_or(0)));
    }
}

/// Before the first of a block.
const NOTHING: MarkAt = MarkAt {
    start: 0,
    cut: 0,
    line: 0,
    next_line: 0,
    mark: Mark::Between,
};

fn packed(marks: &[MarkAt]) -> Box<[u8]> {
    let mut bytes = Vec::new();
    let mut before = &NOTHING;
    for mark in marks {
        let mut small = mark.clone();
        less(&mut small, before);
        // Neither fails: the memory grows, and a mark has nothing that cannot be written.
        bytes = postcard::to_extend(&small, bytes).unwrap_or_default();
        before = mark;
    }
    bytes.into()
}

fn unpacked(mut bytes: &[u8], marks: &mut Vec<MarkAt>) {
    marks.clear();
    while let Ok((mut mark, rest)) = postcard::take_from_bytes::<MarkAt>(bytes) {
        more(&mut mark, marks.last().unwrap_or(&NOTHING));
        marks.push(mark);
        bytes = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::trainer::{Clock, Counts, Evaluation, Pace, StepLine, Trainer};
    use proptest::prelude::*;

    fn mark() -> impl Strategy<Value = Mark> {
        let some = || proptest::option::of(0.0..1e6_f64);
        let step = (any::<u64>(), some(), some(), any::<Option<i64>>(), 0..4_u8);
        prop_oneof![
            6 => step.prop_map(|(step, time_s, tflops, wall_ms, what)| Mark::Step(StepLine {
                time_s,
                tflops,
                wall_ms,
                counts: Counts::Unsaid,
                epoch: (what > 1).then_some(step / 3),
                total: (what > 2).then_some(step),
                pace: time_s.filter(|_| what == 1).map(Pace::Smoothed),
                clock: tflops.map(|seconds| Clock { seconds, error: 0.5 }),
                stage: Some(what.into()),
                ..StepLine::bare(Trainer::Megatron, step)
            })),
            1 => Just(Mark::Between),
            1 => Just(Mark::Ended),
            1 => any::<Option<i64>>().prop_map(|at| Mark::Evaluation(Evaluation::Starts(at))),
            1 => any::<u64>().prop_map(Mark::BatchSize),
            1 => some().prop_map(|smoothed| Mark::Metric { smoothed, tflops: None }),
        ]
    }

    fn at() -> impl Strategy<Value = MarkAt> {
        let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
        (mark(), numbers).prop_map(|(mark, (start, cut, line, next_line))| MarkAt {
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
                let moved = new.enumerate().map(|(n, mark)| MarkAt {
                    line: mark.line ^ n as u64,
                    ..mark
                });
                let moved: Vec<MarkAt> = moved.collect();
                list.extend(moved.clone());
                twin.extend(moved);
                list.pack();
            }
            prop_assert_eq!(list.len(), twin.len());
            prop_assert!(list.plain.len() < 2 * LAST, "{}", list.plain.len());
            let got: Vec<MarkAt> = list.all().iter().map(Cow::into_owned).collect();
            prop_assert!(got == twin);
            let to = part.1.min(twin.len());
            let from = part.0.min(to);
            let got = list.all().part(part.0..part.1).part(0..usize::MAX);
            let got: Vec<MarkAt> = got.iter().map(Cow::into_owned).collect();
            prop_assert!(got == twin[from..to]);
            let one = list.all().get(part.0).map(Cow::into_owned);
            prop_assert!(one.as_ref() == twin.get(part.0));
            list.forget(last);
            let gone = list.gone();
            prop_assert!(gone <= last && gone.is_multiple_of(BLOCK) && list.len() == twin.len());
            prop_assert_eq!(list.all().get(gone.wrapping_sub(1)), None);
            let at = gone + (list.len() - gone) / 2;
            let got = list.all().get(at).map(Cow::into_owned);
            prop_assert!(got.as_ref() == twin.get(at));
            let got = list.all().part(gone / 2..at);
            prop_assert_eq!(got.gone(), gone - gone / 2);
            let got: Vec<MarkAt> = got.iter().map(Cow::into_owned).collect();
            prop_assert!(got == twin[gone..at]);
            twin.drain(..gone);
            list.keep_last(last);
            let kept: Vec<MarkAt> = list.all().iter().map(Cow::into_owned).collect();
            prop_assert!(twin.ends_with(&kept));
            prop_assert!(kept.len() >= last.min(twin.len()) && kept.len() < last + 2 * LAST);
        }
    }

    #[test]
    fn the_place_of_a_line_is_found_in_packed_marks() {
        let mark = |line: u64| MarkAt { line, ..NOTHING };
        let mut list = MarkList::default();
        list.extend((0..9000).map(mark));
        list.pack();
        for line in [0, 1, 127, 128, 6000, 8999, 9000] {
            let at = list.all().partition_point(|mark| mark.line < line);
            assert_eq!(at as u64, line);
        }
    }
}
