//! Values gathered in any order and read sorted.

use super::CallVolume;
use serde::{Deserialize, Serialize};

/// Values by stretch and key, gathered in any order and read sorted. What a key adds up to does
/// not depend on the order, so equal keys may lie about until the next sorting. Stretches mostly
/// come in their order: then only each stretch's own keys are sorted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SortBuffer<S, K> {
    list: Vec<((S, K), CallVolume)>,
    /// How many there were after the last sorting.
    distinct: usize,
}

impl<S, K> Default for SortBuffer<S, K> {
    fn default() -> Self {
        SortBuffer {
            list: Vec::new(),
            distinct: 0,
        }
    }
}

impl<S: Ord + Copy, K: Ord> SortBuffer<S, K> {
    /// Adds a value to a key's.
    pub fn push(&mut self, stretch: S, key: K, value: CallVolume) {
        // Memory stays within a few times the number of distinct keys.
        if self.list.len() >= 2 * self.distinct + (1 << 16) {
            self.sort();
        }
        self.list.push(((stretch, key), value));
    }

    /// Changes every key; those that become equal add up.
    pub fn change_keys(&mut self, change: impl Fn(&mut K)) {
        self.list.iter_mut().for_each(|((_, key), _)| change(key));
    }

    fn sort(&mut self) {
        if !self.list.is_sorted_by_key(|((stretch, _), _)| *stretch) {
            self.list.sort_by_key(|((stretch, _), _)| *stretch);
        }
        for stretch in self.list.chunk_by_mut(|a, b| a.0.0 == b.0.0) {
            stretch.sort_unstable_by(|a, b| a.0.1.cmp(&b.0.1));
        }
        self.list.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1.merge(&next.1);
            }
            same
        });
        self.distinct = self.list.len();
    }

    /// Forgets all; the memory is used again.
    pub fn clear(&mut self) {
        self.list.clear();
        self.distinct = 0;
    }

    /// Gives each key once, in order, and forgets it.
    pub fn drain(&mut self, mut sink: impl FnMut(S, K, CallVolume)) {
        self.sort();
        for ((stretch, key), value) in self.list.drain(..) {
            sink(stretch, key, value);
        }
        self.distinct = 0;
    }

    /// Each key once, in order.
    pub fn into_sorted(mut self) -> Vec<((S, K), CallVolume)> {
        self.sort();
        self.list
    }
}
