//! Values gathered in any order and read sorted.

use super::Value;

/// Values by key, gathered in any order and read sorted. What a key adds up to does not depend
/// on the order, so equal keys may lie about until the next sorting.
#[derive(Debug, Clone)]
pub struct Bag<K> {
    list: Vec<(K, Value)>,
    /// How many there were after the last sorting.
    distinct: usize,
}

impl<K> Default for Bag<K> {
    fn default() -> Self {
        Bag {
            list: Vec::new(),
            distinct: 0,
        }
    }
}

impl<K: Ord> Bag<K> {
    /// Adds a value to a key's.
    pub fn push(&mut self, key: K, value: Value) {
        // Memory stays within a few times the number of distinct keys.
        if self.list.len() >= 2 * self.distinct + (1 << 16) {
            self.sort();
        }
        self.list.push((key, value));
    }

    fn sort(&mut self) {
        self.list.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        self.list.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1.merge(&next.1);
            }
            same
        });
        self.distinct = self.list.len();
    }

    /// Each key once, in order.
    pub fn into_sorted(mut self) -> Vec<(K, Value)> {
        self.sort();
        self.list
    }
}
