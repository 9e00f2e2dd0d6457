//! The counted calls of all inputs, by step and key.
//!
//! There may be a row for every few calls, so nothing is put in order before its rows are made:
//! what the workers counted stays as it is, and a few steps at a time are gathered from it.

use crate::count::limits::MAX_WAITING_CELLS;
use crate::count::tally::{CallKey, CallVolume, ChunkCounts, SortBuffer};
use crate::log::timeline::StepKey;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A step; `None` if unknown or not asked for.
pub type CountedStep = Option<StepKey>;

/// Orders known steps first.
fn known_first(step: CountedStep) -> (bool, CountedStep) {
    (step.is_none(), step)
}

/// Calls that are being counted.
#[derive(Debug, Default)]
pub struct CellGatherer {
    pieces: Vec<ChunkCounts<CountedStep>>,
    /// How many cells the pieces have.
    waiting: usize,
    bag: SortBuffer<CountedStep, CallKey>,
}

impl CellGatherer {
    /// Adds calls.
    pub fn push(&mut self, step: CountedStep, key: CallKey, value: CallVolume) {
        self.bag.push(step, key, value);
    }

    /// Begins the next input: memory grows with distinct counts, not with inputs.
    pub fn next_input(&mut self) {
        if self.waiting > MAX_WAITING_CELLS {
            self.waiting = 0;
            let bag = &mut self.bag;
            for pieces in self.pieces.drain(..) {
                pieces.each_count(|step, key, value| bag.push(step, key, value));
            }
        }
    }

    /// Adds a chunk's calls.
    pub fn push_chunk(&mut self, pieces: ChunkCounts<CountedStep>) {
        let cells: usize = pieces.stretches().map(|(_, cells)| cells).sum();
        if cells > 0 {
            self.waiting += cells;
            self.pieces.push(pieces);
        }
    }

    /// Changes every key; those that become equal add up.
    pub(crate) fn change_keys(&mut self, change: impl Fn(&mut CallKey)) {
        let keys = self.pieces.iter_mut().flat_map(|pieces| &mut pieces.keys);
        keys.for_each(&change);
        self.bag.change_keys(change);
    }

    /// All that was counted.
    pub(crate) fn into_cells(self) -> CountCells {
        let mut others = self.bag.into_sorted();
        let mut numbers: FxHashMap<CallKey, u32> = FxHashMap::default();
        let met = self.pieces.iter().flat_map(|pieces| &pieces.keys);
        for key in met.chain(others.iter().map(|((_, key), _)| key)) {
            numbers.entry(*key).or_default();
        }
        let mut keys: Vec<CallKey> = numbers.keys().copied().collect();
        keys.sort_unstable();
        for (number, key) in (0_u32..).zip(&keys) {
            numbers.insert(*key, number);
        }
        // Counts without a step come last.
        let unknown = others.partition_point(|((step, _), _)| step.is_none());
        others.rotate_left(unknown);
        let numbered = |pieces: ChunkCounts<CountedStep>| {
            let to = pieces.keys.iter().map(|key| numbers[key]).collect();
            (pieces, to)
        };
        let mut cells = CountCells {
            pieces: self.pieces.into_iter().map(numbered).collect(),
            others: others
                .into_iter()
                .map(|((step, key), value)| (step, numbers[&key], value))
                .collect(),
            keys,
            places: Vec::new(),
            stretches: Vec::new(),
        };
        cells.find_stretches();
        cells
    }
}

/// Counted calls by step and key.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct CountCells {
    /// The distinct keys, sorted.
    keys: Vec<CallKey>,
    /// The counts of chunks, with the numbers of their keys in `keys`.
    pieces: Vec<(ChunkCounts<CountedStep>, Vec<u32>)>,
    /// Calls of no chunk, by step.
    others: Vec<(CountedStep, u32, CallVolume)>,
    /// Where each step's pieces are: which, and which stretch of it. By step.
    places: Vec<(u32, u32)>,
    stretches: Vec<PieceRange>,
}

/// Where the calls of a step are.
#[derive(Debug, Serialize, Deserialize)]
struct PieceRange {
    step: CountedStep,
    /// How many cells there are; a key may have several.
    size: usize,
    places: Range<usize>,
    others: Range<usize>,
}

impl CountCells {
    fn find_stretches(&mut self) {
        let mut places: Vec<(CountedStep, usize, (u32, u32))> = Vec::new();
        for (chunk, (pieces, _)) in (0_u32..).zip(&self.pieces) {
            let stretches = (0_u32..).zip(pieces.stretches());
            places.extend(stretches.map(|(at, (step, size))| (step, size, (chunk, at))));
        }
        places.sort_unstable_by_key(|&(step, _, of)| (known_first(step), of));
        let (mut here, mut other) = (0, 0);
        while here < places.len() || other < self.others.len() {
            let first = places.get(here).map(|p| known_first(p.0));
            let second = self.others.get(other).map(|o| known_first(o.0));
            let Some((_, step)) = first.into_iter().chain(second).min() else {
                break;
            };
            let pieces = places[here..].iter().take_while(|p| p.0 == step);
            let (mut to, mut size) = (here, 0);
            for (_, cells, _) in pieces {
                (to, size) = (to + 1, size + cells);
            }
            let others = self.others[other..].iter();
            let until = other + others.take_while(|o| o.0 == step).count();
            self.stretches.push(PieceRange {
                step,
                size: size + until - other,
                places: here..to,
                others: other..until,
            });
            (here, other) = (to, until);
        }
        self.places = places.into_iter().map(|(_, _, of)| of).collect();
    }

    /// Returns the distinct keys, sorted.
    pub fn keys(&self) -> &[CallKey] {
        &self.keys
    }

    /// Returns the steps in order, unknown last, each with the most counts it can have.
    pub fn iter_steps(&self) -> impl Iterator<Item = (CountedStep, usize)> {
        self.iter_steps_from(0)
    }

    /// As [`CountCells::iter_steps`], from one on.
    pub fn iter_steps_from(&self, at: usize) -> impl Iterator<Item = (CountedStep, usize)> {
        self.stretches[at..].iter().map(|s| (s.step, s.size))
    }

    /// Gives the counts of the step at `at` of [`CountCells::iter_steps`] by their keys' numbers, in any
    /// order; a key may come more than once.
    pub fn each_count(&self, at: usize, mut sink: impl FnMut(u32, CallVolume)) {
        let stretch = &self.stretches[at];
        for &(chunk, at) in &self.places[stretch.places.clone()] {
            let (pieces, to) = &self.pieces[chunk as usize];
            for (key, value) in pieces.counts_at(at as usize) {
                sink(to[key as usize], value);
            }
        }
        for &(_, key, value) in &self.others[stretch.others.clone()] {
            sink(key, value);
        }
    }

    /// Adds the counts of the step at `at` to `out`, each key once, in the order that `order`
    /// gives the keys: a number each, none twice.
    pub fn sorted_counts(&self, at: usize, order: &[u32], mut out: impl FnMut(u32, CallVolume)) {
        let size = self.stretches[at].size;
        let (mut list, mut places) = (Vec::with_capacity(size), Vec::with_capacity(size));
        self.each_count(at, |key, value| {
            places.push(u64::from(order[key as usize]) << 32 | list.len() as u64);
            list.push((key, value));
        });
        places.sort_unstable();
        let of = |place: u64| list[(place & u64::from(u32::MAX)) as usize];
        for same in places.chunk_by(|a, b| a >> 32 == b >> 32) {
            let (key, mut value) = of(same[0]);
            same[1..].iter().for_each(|&more| value.merge(&of(more).1));
            out(key, value);
        }
    }

    /// All counts by step and key, each once, in order.
    pub fn list_counts(&self) -> Vec<((CountedStep, CallKey), CallVolume)> {
        let order: Vec<u32> = (0..self.keys.len() as u32).collect();
        let mut list = Vec::new();
        for (at, (step, _)) in self.iter_steps().enumerate() {
            self.sorted_counts(at, &order, |key, value| {
                list.push(((step, self.keys[key as usize]), value));
            });
        }
        list
    }

    /// Like [`CountCells::list_counts`] by step number: adds up the executions of a repeated step.
    pub fn counts_by_number(&self) -> Vec<((Option<u64>, CallKey), CallVolume)> {
        let number = |((step, key), value): ((CountedStep, CallKey), CallVolume)| {
            ((step.map(|s| s.step), key), value)
        };
        let mut list: Vec<_> = self.list_counts().into_iter().map(number).collect();
        let order =
            |((step, key), _): &((Option<u64>, CallKey), CallVolume)| (step.is_none(), *step, *key);
        if !list.is_sorted_by_key(order) {
            list.sort_by_key(order);
        }
        list.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1.merge(&next.1);
            }
            is_same
        });
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::tally::{Options, SizeKey, Tally, TallyPartial};
    use crate::grammar::coll::Coll;
    use crate::grammar::trainer::TrainerMark;
    use crate::grammar::values::ByteBasis;
    use crate::log::MergedChunk;
    use crate::log::timeline::{self, StepTimeline};
    use crate::log::walk::{LogCall, LogVisitor, MarkPosition};
    use crate::members::duplicate_inputs::CallFingerprint;
    use crate::members::{MergedMembers, MergedNumbers, SpeakerComm};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn coll(op: &'static [u8], count: u64) -> Coll<'static> {
        Coll {
            op,
            op_count: 0,
            count,
            datatype: 8,
            redop: 0,
            root: 0,
            comm: 0,
            nranks: None,
            stream: 0,
        }
    }

    /// A process with three communicators of which nothing is known.
    fn merged() -> MergedMembers {
        let mut merged = MergedMembers::default();
        let process = merged.origins.intern_process(b"a", Some(1), true);
        let place = merged.origins.intern_device(process, None);
        for comm in 0..3 {
            let member = SpeakerComm {
                place,
                comm,
                nranks: None,
                identity: 0,
            };
            merged
                .origins
                .intern_member(member, 0, CallFingerprint::default);
        }
        merged
    }

    fn mark() -> MarkPosition {
        MarkPosition {
            start: 0,
            cut: 0,
            line: 0,
            next_line: 0,
            mark: TrainerMark::Between,
        }
    }

    proptest! {
        /// Calls of a few chunks, each with the number of marks after it, and a few rows.
        #[test]
        fn counts_of_many_chunks_are_those_of_one_map(
            chunks in proptest::collection::vec(proptest::collection::vec(
                (0..3_u32, prop_oneof![0..4_u64, (u64::MAX - 2)..=u64::MAX], 0..2_usize), 0..40,
            ), 0..5),
            rows in proptest::collection::vec((proptest::option::of(0..6_u64), 0..3_u32), 0..8),
            inputs in 1..3_usize,
        ) {
            let options = Options {
                members: true,
                steps: true,
                ..Options::by_size(SizeKey::Count, ByteBasis::Api)
            };
            // Two gaps are one step's, each third is between steps; two members are one.
            let step_of = |gap: usize| (gap % 3 != 2).then_some(StepKey {
                segment: gap as u32 / 8,
                step: gap as u64 / 4 % 2,
            });
            let one = |key: &mut CallKey| key.member /= 2;
            let wanted = |gap: usize| gap != 1;
            let ops = [&b"Send"[..], b"Recv", b"AllReduce"];
            let mut naive: BTreeMap<_, CallVolume> = BTreeMap::new();
            let mut gathering = CellGatherer::default();
            for _ in 0..inputs {
                let mut tally = Tally::new(options.clone(), 1, 2);
                let steps = timeline::Options::default();
                let (merged, mut passed) = (merged(), Vec::new());
                let mut gap = 0;
                for calls in &chunks {
                    let mut partial = TallyPartial::new(&options);
                    let to = MergedNumbers { members: vec![2, 0, 1], processes: vec![0], ..MergedNumbers::default() };
                    let first = gap;
                    for &(member, count, marks) in calls {
                        let coll = coll(ops[member as usize], count);
                        partial.call(&LogCall { coll, member, process: 0, is_sure: true, tid: None, time: b"", at: 0 });
                        if wanted(gap) {
                            let member = to.members[member as usize];
                            let key = (known_first(step_of(gap)), member / 2, coll.op, count);
                            naive.entry(key).or_default().add_calls(1, Some(u128::from(count) * 8));
                        }
                        for _ in 0..marks {
                            partial.mark();
                            passed.push(mark());
                            gap += 1;
                        }
                    }
                    let part = MergedChunk {
                        visit: partial,
                        to: &to,
                        gap: first,
                        line: 0,
                        merged: &merged,
                        marks: (&passed).into(),
                        so_far: None,
                    };
                    tally.add_chunk(part, &steps);
                }
                let gaps = (0..=passed.len() as u32).map(timeline::GapKind::Step).collect();
                tally.place_input(&StepTimeline { gaps, ..StepTimeline::default() }, &merged, wanted);
                gathering.next_input();
                let mut more = Vec::new();
                let found = tally.drain_gaps(wanted, |gap, key, value| more.push((gap, key, value)));
                let names = tally.ops.clone();
                // One numbering of operations for all inputs.
                let named = |key: &mut CallKey| {
                    let name = names.name_of_op(key.op);
                    key.op = ops.iter().position(|op| *op == name).unwrap() as u32;
                };
                for (gap, mut key, value) in more {
                    named(&mut key);
                    gathering.push(step_of(gap), key, value);
                }
                for mut pieces in found {
                    pieces.keys.iter_mut().for_each(named);
                    gathering.push_chunk(pieces.rename_stretches(|gap| wanted(gap).then(|| step_of(gap))));
                }
            }
            for &(step, member) in &rows {
                let key = options.key_of_call(&crate::count::tally::TallyCall {
                    op: 0,
                    member,
                    datatype: 0,
                    count: 1,
                    nranks: None,
                    redop: 0,
                    root: 0,
                    bytes: Some(3),
                });
                let mut value = CallVolume::default();
                value.add_calls(1, Some(3));
                let step = step.map(StepKey::from);
                gathering.push(step, key, value);
                let key = (known_first(step), member / 2, &b"Send"[..], 1);
                naive.entry(key).or_default().add_calls(1, Some(3));
            }
            gathering.change_keys(one);
            let list = gathering.into_cells().list_counts();
            let got: BTreeMap<_, CallVolume> = list.iter().map(|((step, key), value)| {
                ((known_first(*step), key.member, ops[key.op as usize], key.size), *value)
            }).collect();
            prop_assert_eq!(got.len(), list.len());
            prop_assert!(list.is_sorted_by_key(|((step, key), _)| (known_first(*step), *key)));
            prop_assert_eq!(got, naive);
        }
    }
}
