//! Distinct values by number.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// A table of distinct values, numbered in the order in which they appear.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de> + Eq + std::hash::Hash"))]
pub struct Interner<T> {
    items: Vec<T>,
    index: FxHashMap<T, u32>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Interner {
            items: Vec::new(),
            index: FxHashMap::default(),
        }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Interner<T> {
    /// Returns the number of `item`, new or known.
    pub fn intern(&mut self, item: T) -> u32 {
        if let Some(&at) = self.index.get(&item) {
            return at;
        }
        let at = self.push(item.clone());
        self.index.insert(item, at);
        at
    }

    /// Returns a new number for `item`, which `find` does not return.
    pub(super) fn push(&mut self, item: T) -> u32 {
        let at = u32::try_from(self.items.len()).unwrap_or(u32::MAX);
        self.items.push(item);
        at
    }

    /// Returns the number of `item`, if it is known.
    pub fn find(&self, item: &T) -> Option<u32> {
        self.index.get(item).copied()
    }

    /// Returns all values by number.
    pub fn items(&self) -> &[T] {
        &self.items
    }

    /// Returns all values by number.
    pub fn into_items(self) -> Vec<T> {
        self.items
    }

    /// Returns the value of a number.
    pub fn get(&self, at: u32) -> &T {
        &self.items[at as usize]
    }

    /// Gives a number another value, which has no number yet.
    pub(super) fn rename(&mut self, at: u32, item: T) {
        if let Some(old) = self.items.get_mut(at as usize) {
            self.index.remove(old);
            *old = item.clone();
            self.index.insert(item, at);
        }
    }
}
