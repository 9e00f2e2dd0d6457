//! A list that grows without end and can forget its first items.

use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A list that can forget its first items. The others keep their numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgettingList<T> {
    gone: usize,
    list: Vec<T>,
}

impl<T> Default for ForgettingList<T> {
    fn default() -> ForgettingList<T> {
        Vec::new().into()
    }
}

impl<T> From<Vec<T>> for ForgettingList<T> {
    fn from(list: Vec<T>) -> ForgettingList<T> {
        ForgettingList { gone: 0, list }
    }
}

impl<T> FromIterator<T> for ForgettingList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> ForgettingList<T> {
        items.into_iter().collect::<Vec<T>>().into()
    }
}

impl<T> Extend<T> for ForgettingList<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        self.list.extend(items);
    }
}

impl<T> IntoIterator for ForgettingList<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a ForgettingList<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

impl<T> ForgettingList<T> {
    /// How many there are, with those that are forgotten.
    pub fn len(&self) -> usize {
        self.gone + self.list.len()
    }

    /// True where there never was any.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many are forgotten.
    pub fn forgotten_count(&self) -> usize {
        self.gone
    }

    /// Those that are left.
    pub fn remaining(&self) -> &[T] {
        &self.list
    }

    /// Those that are left, to be changed.
    pub fn remaining_mut(&mut self) -> &mut [T] {
        &mut self.list
    }

    /// The one with this number, unless it is forgotten.
    pub fn get(&self, at: usize) -> Option<&T> {
        self.list.get(at.checked_sub(self.gone)?)
    }

    /// Those with these numbers that are there and not forgotten.
    pub fn slice(&self, part: Range<usize>) -> &[T] {
        let to = part.end.saturating_sub(self.gone).min(self.list.len());
        let from = part.start.saturating_sub(self.gone).min(to);
        &self.list[from..to]
    }

    /// The last one.
    pub fn last(&self) -> Option<&T> {
        self.list.last()
    }

    /// The last one, to be changed.
    pub fn last_mut(&mut self) -> Option<&mut T> {
        self.list.last_mut()
    }

    /// Those that are left.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.list.iter()
    }

    /// Those that are left, with their numbers.
    pub fn iter_numbered(&self) -> impl DoubleEndedIterator<Item = (usize, &T)> {
        let list = self.list.iter().enumerate();
        list.map(|(at, item)| (self.gone + at, item))
    }

    /// Adds one.
    pub fn push(&mut self, item: T) {
        self.list.push(item);
    }

    /// Keeps the first `len` items.
    pub fn truncate(&mut self, len: usize) {
        self.list.truncate(len.saturating_sub(self.gone));
    }

    /// Forgets the items before this number and returns them.
    pub fn forget_before(&mut self, before: usize) -> std::vec::Drain<'_, T> {
        let n = before.saturating_sub(self.gone).min(self.list.len());
        self.gone += n;
        self.list.drain(..n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What is not forgotten is what a list has that forgets nothing.
        #[test]
        fn numbers_stay(
            done in proptest::collection::vec((0..9_usize, 0..40_usize, 0..60_usize), 1..30),
        ) {
            let (mut recent, mut twin) = (ForgettingList::default(), Vec::new());
            let mut forgotten = 0;
            for (more, before, len) in done {
                for n in 0..more {
                    recent.push(n);
                    twin.push(n);
                }
                if len >= forgotten {
                    recent.truncate(len);
                    twin.truncate(len);
                }
                let n = before.min(twin.len()).max(forgotten);
                let given: Vec<usize> = recent.forget_before(before).collect();
                prop_assert_eq!(&given[..], &twin[forgotten..n]);
                forgotten = n;
                prop_assert_eq!((recent.len(), recent.forgotten_count()), (twin.len(), forgotten));
                prop_assert_eq!(recent.remaining(), &twin[forgotten..]);
                prop_assert_eq!(recent.get(len), twin.get(len).filter(|_| len >= forgotten));
                let to = len.min(twin.len()).max(forgotten);
                let from = before.clamp(forgotten, to);
                prop_assert_eq!(recent.slice(before..len), &twin[from..to]);
                let numbered = recent.iter_numbered().all(|(at, n)| twin[at] == *n);
                prop_assert!(numbered);
            }
        }
    }
}
