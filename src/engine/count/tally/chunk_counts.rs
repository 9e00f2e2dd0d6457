//! A chunk's counts by stretch, in the chunk's own short numbers.

use super::packed::{PackedCounts, PackedTotals};
use super::{CallKey, CallVolume};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What the stretches of a chunk hold: there may be a row for every few calls, so the counts stay
/// as the walk left them until the rows are made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ChunkCounts<S> {
    /// The chunk's keys, by their numbers here; two may be equal.
    pub(crate) keys: Vec<CallKey>,
    cells: PackedCounts,
    /// The stretches, and where their cells are.
    stretches: Vec<(S, Range<usize>)>,
}

impl<S: Copy> ChunkCounts<S> {
    /// `cells` in the order of the stretches, and where each stretch's end.
    pub(super) fn new(
        keys: Vec<CallKey>,
        cells: PackedCounts,
        ends: &[(S, usize)],
    ) -> ChunkCounts<S> {
        let mut from = 0;
        let stretch = |&(stretch, end)| (stretch, std::mem::replace(&mut from, end)..end);
        ChunkCounts {
            keys,
            cells,
            stretches: ends.iter().map(stretch).collect(),
        }
    }

    /// The stretches with how many cells each has at most.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = (S, usize)> {
        self.stretches.iter().map(|(s, cells)| (*s, cells.len()))
    }

    /// The counts of the stretch at `at`, by their keys' numbers.
    pub(crate) fn counts_at(&self, at: usize) -> impl Iterator<Item = (u32, CallVolume)> {
        let (_, cells) = &self.stretches[at];
        let cells = self.cells.counts_in(cells.clone());
        cells.map(|(key, sums)| (key, sums.into()))
    }

    /// The stretches that `name` gives another name to; the others are dropped.
    pub fn rename_stretches<T>(self, name: impl Fn(S) -> Option<T>) -> ChunkCounts<T> {
        let renamed = |(stretch, cells)| Some((name(stretch)?, cells));
        ChunkCounts {
            keys: self.keys,
            cells: self.cells,
            stretches: self.stretches.into_iter().filter_map(renamed).collect(),
        }
    }

    /// Returns each key's counts over all stretches; a key may come more than once.
    pub fn sum_over_stretches(&self) -> impl Iterator<Item = (CallKey, CallVolume)> {
        let mut all = vec![CallVolume::default(); self.keys.len()];
        for (_, cells) in &self.stretches {
            for (key, sums) in self.cells.counts_in(cells.clone()) {
                all[key as usize].merge(&sums.into());
            }
        }
        let all = self.keys.iter().copied().zip(all);
        all.filter(|(_, value)| value.calls > 0)
    }

    /// The same with other keys; those that become equal add up in each stretch. `wide` gets what
    /// then needs more than 64 bits.
    pub fn change_keys(
        &self,
        change: impl Fn(&CallKey) -> CallKey,
        mut wide: impl FnMut(S, CallKey, CallVolume),
    ) -> ChunkCounts<S> {
        let (mut keys, mut numbers) = (Vec::new(), FxHashMap::default());
        let number = |key: &CallKey| {
            let key = change(key);
            *numbers.entry(key).or_insert_with(|| {
                keys.push(key);
                keys.len() - 1
            })
        };
        let to: Vec<usize> = self.keys.iter().map(number).collect();
        let mut sums = vec![PackedTotals::default(); keys.len()];
        let (mut touched, mut cells, mut ends) = (Vec::new(), PackedCounts::default(), Vec::new());
        for (stretch, of) in &self.stretches {
            for (key, more) in self.cells.counts_in(of.clone()) {
                let at = to[key as usize];
                if sums[at].calls == 0 {
                    touched.push(at);
                }
                if !sums[at].merge(&more) {
                    wide(*stretch, keys[at], more.into());
                }
            }
            for at in touched.drain(..) {
                let all = std::mem::take(&mut sums[at]);
                if !cells.push(at as u32, &all) {
                    wide(*stretch, keys[at], all.into());
                }
            }
            ends.push((*stretch, cells.end_offset()));
        }
        ChunkCounts::new(keys, cells, &ends)
    }

    /// Gives every cell to `sink`.
    pub(crate) fn each_count(&self, mut sink: impl FnMut(S, CallKey, CallVolume)) {
        for (at, &(stretch, _)) in self.stretches.iter().enumerate() {
            for (key, value) in self.counts_at(at) {
                sink(stretch, self.keys[key as usize], value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::tally::{NO_REDUCTION, NO_ROOT};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn key(number: u64) -> CallKey {
        CallKey {
            member: 0,
            op: 0,
            datatype: 0,
            size: number,
            nranks: 0,
            redop: NO_REDUCTION,
            root: NO_ROOT,
        }
    }

    /// Even sizes and odd ones are one each.
    fn coarse(key: &CallKey) -> CallKey {
        CallKey {
            size: key.size % 2,
            ..*key
        }
    }

    proptest! {
        /// Stretches of counts by key: how many calls, and the bytes of each, some of which need more than
        /// 64 bits together.
        #[test]
        fn counts_under_other_keys_are_those_of_a_map(
            stretches in proptest::collection::vec(proptest::collection::vec(
                (0..6_u32, 1..4_u64, prop_oneof![0..9_u64, Just(u64::MAX / 4)]), 0..12,
            ), 0..6),
        ) {
            let (mut cells, mut ends) = (PackedCounts::default(), Vec::new());
            let (mut by_key, mut by_stretch) = (BTreeMap::new(), BTreeMap::new());
            for (at, list) in stretches.iter().enumerate() {
                for &(number, calls, each) in list {
                    let sums = PackedTotals { calls, bytes: each * calls, min: each, max: each };
                    prop_assert!(cells.push(number, &sums));
                    let one: &mut CallVolume = by_key.entry(key(number.into())).or_default();
                    one.merge(&sums.into());
                    let place = (at, coarse(&key(number.into())));
                    let one: &mut CallVolume = by_stretch.entry(place).or_default();
                    one.merge(&sums.into());
                }
                ends.push((at, cells.end_offset()));
            }
            let pieces = ChunkCounts::new((0..6).map(key).collect(), cells, &ends);
            let all: BTreeMap<CallKey, CallVolume> = pieces.sum_over_stretches().collect();
            prop_assert_eq!(all, by_key);
            let mut got: BTreeMap<(usize, CallKey), CallVolume> = BTreeMap::new();
            let mut add = |at, key, value: CallVolume| {
                prop_assert!(value.calls > 0);
                got.entry((at, key)).or_default().merge(&value);
                Ok(())
            };
            let mut wide = Vec::new();
            let changed = pieces.change_keys(coarse, |at, key, value| wide.push((at, key, value)));
            for (at, key, value) in wide {
                add(at, key, value)?;
            }
            let mut here = Vec::new();
            changed.each_count(|at, key, value| here.push((at, key, value)));
            let mut places: Vec<_> = here.iter().map(|(at, key, _)| (*at, *key)).collect();
            places.sort_unstable();
            prop_assert!(places.is_sorted_by(|a, b| a < b), "each once");
            for (at, key, value) in here {
                add(at, key, value)?;
            }
            prop_assert_eq!(got, by_stretch);
        }
    }
}
