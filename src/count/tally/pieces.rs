//! A chunk's counts by stretch, in the chunk's own short numbers.

use super::packed::Packed;
use super::{Key, Value};
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

    /// Gives every cell to `sink`.
    pub(crate) fn each(&self, mut sink: impl FnMut(S, Key, Value)) {
        for (at, &(stretch, _)) in self.stretches.iter().enumerate() {
            for (key, value) in self.counts(at) {
                sink(stretch, self.keys[key as usize], value);
            }
        }
    }
}
