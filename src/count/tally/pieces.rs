//! A chunk's counts by stretch, in the chunk's own short numbers.

use super::packed::{Packed, Sums};
use super::{Key, Value};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What the stretches of a chunk hold: there may be a row for every few calls, so the counts stay
/// as the walk left them until the rows are made.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Pieces<S> {
    /// The chunk's keys, by their numbers here; two may be equal.
    pub(crate) keys: Vec<Key>,
    cells: Packed,
    /// The stretches, and where their cells are.
    stretches: Vec<(S, Range<usize>)>,
}

impl<S: Copy> Pieces<S> {
    /// `cells` in the order of the stretches, and where each stretch's end.
    pub(super) fn new(keys: Vec<Key>, cells: Packed, ends: &[(S, usize)]) -> Pieces<S> {
        let mut from = 0;
        let stretch = |&(stretch, end)| (stretch, std::mem::replace(&mut from, end)..end);
        Pieces {
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
    pub(crate) fn counts(&self, at: usize) -> impl Iterator<Item = (u32, Value)> {
        let (_, cells) = &self.stretches[at];
        let cells = self.cells.counts(cells.clone());
        cells.map(|(key, sums)| (key, sums.into()))
    }

    /// The stretches that `name` gives another name to; the others are dropped.
    pub(crate) fn renamed<T>(self, name: impl Fn(S) -> Option<T>) -> Pieces<T> {
        let renamed = |(stretch, cells)| Some((name(stretch)?, cells));
        Pieces {
            keys: self.keys,
            cells: self.cells,
            stretches: self.stretches.into_iter().filter_map(renamed).collect(),
        }
    }

    /// What each key counts over all stretches; a key may come more than once.
    pub(crate) fn over_all(&self) -> impl Iterator<Item = (Key, Value)> {
        let mut all = vec![Value::default(); self.keys.len()];
        for (_, cells) in &self.stretches {
            for (key, sums) in self.cells.counts(cells.clone()) {
                all[key as usize].merge(&sums.into());
            }
        }
        let all = self.keys.iter().copied().zip(all);
        all.filter(|(_, value)| value.calls > 0)
    }

    /// The same with other keys; those that become equal add up in each stretch. `wide` gets what
    /// then needs more than 64 bits.
    pub(crate) fn changed(
        &self,
        change: impl Fn(&Key) -> Key,
        mut wide: impl FnMut(S, Key, Value),
    ) -> Pieces<S> {
        let (mut keys, mut numbers) = (Vec::new(), FxHashMap::default());
        let number = |key: &Key| {
            let key = change(key);
            *numbers.entry(key).or_insert_with(|| {
                keys.push(key);
                keys.len() - 1
            })
        };
        let to: Vec<usize> = self.keys.iter().map(number).collect();
        let mut sums = vec![Sums::default(); keys.len()];
        let (mut touched, mut cells, mut ends) = (Vec::new(), Packed::default(), Vec::new());
        for (stretch, of) in &self.stretches {
            for (key, more) in self.cells.counts(of.clone()) {
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
            ends.push((*stretch, cells.end()));
        }
        Pieces::new(keys, cells, &ends)
    }

    /// Gives every cell to `sink`.
    pub(crate) fn each(&self, mut sink: impl FnMut(S, Key, Value)) {
        for (at, &(stretch, _)) in self.stretches.iter().enumerate() {
            for (key, value) in self.counts(at) {
                sink(stretch, self.keys[key as usize], value);
            }
        }
    }
}
