//! Values by the number of a process or a member.

use serde::{Deserialize, Serialize};
use std::iter::Zip;
use std::ops::{Index, IndexMut, RangeFrom};

/// A value for each number from the first to the last that has one. Of many inputs each has few processes, with
/// numbers near each other: such a list takes room for these, and not for all that were met before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByNumber<T> {
    first: u32,
    list: Vec<T>,
}

impl<T> From<Vec<T>> for ByNumber<T> {
    /// The values of the first numbers.
    fn from(list: Vec<T>) -> ByNumber<T> {
        ByNumber { first: 0, list }
    }
}

impl<T> ByNumber<T> {
    /// The number after the last one with a value.
    pub fn end_number(&self) -> u32 {
        self.first + self.list.len() as u32
    }

    /// The value of a number, if it has one.
    pub fn get(&self, process: u32) -> Option<&T> {
        self.list.get(process.checked_sub(self.first)? as usize)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, process: u32) -> Option<&mut T> {
        let at = process.checked_sub(self.first)?;
        self.list.get_mut(at as usize)
    }

    /// All numbers with a value, in order.
    pub fn iter_numbered(&self) -> impl Iterator<Item = (u32, &T)> {
        (self.first..).zip(&self.list)
    }

    /// The same, to be changed.
    pub fn iter_numbered_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        (self.first..).zip(&mut self.list)
    }

    /// All values, in order.
    pub fn all_values(&self) -> impl Iterator<Item = &T> {
        self.list.iter()
    }

    /// The same, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.list.iter_mut()
    }

    /// Other values for the same numbers.
    pub fn map_values<U>(&self, of: impl Fn(u32, &T) -> U) -> ByNumber<U> {
        ByNumber {
            first: self.first,
            list: self
                .iter_numbered()
                .map(|(process, value)| of(process, value))
                .collect(),
        }
    }

    /// Other values for the same numbers, taken out of these.
    pub fn map_mut<U>(&mut self, of: impl FnMut(&mut T) -> U) -> ByNumber<U> {
        ByNumber {
            first: self.first,
            list: self.list.iter_mut().map(of).collect(),
        }
    }
}

impl<T: Default> ByNumber<T> {
    /// The value of a number; one that has none gets it.
    pub fn entry(&mut self, process: u32) -> &mut T {
        if self.list.is_empty() {
            self.first = process;
        }
        if process < self.first {
            // The room doubles, as at the other end.
            let first = process.min(self.first.saturating_sub(self.list.len() as u32));
            let before = (first..self.first).map(|_| T::default());
            self.list.splice(..0, before);
            self.first = first;
        }
        let at = (process - self.first) as usize;
        if self.list.len() <= at {
            self.list.resize_with(at + 1, T::default);
        }
        &mut self.list[at]
    }
}

impl<T> Index<u32> for ByNumber<T> {
    type Output = T;

    fn index(&self, process: u32) -> &T {
        &self.list[(process - self.first) as usize]
    }
}

impl<T> IndexMut<u32> for ByNumber<T> {
    fn index_mut(&mut self, process: u32) -> &mut T {
        &mut self.list[(process - self.first) as usize]
    }
}

impl<T> IntoIterator for ByNumber<T> {
    type Item = (u32, T);
    type IntoIter = Zip<RangeFrom<u32>, std::vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        (self.first..).zip(self.list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_taken_from_the_first_number_to_the_last() {
        let mut all = ByNumber::default();
        *all.entry(9000) = 1;
        *all.entry(9002) = 3;
        assert_eq!((all.list.len(), all.end_number()), (3, 9003));
        assert_eq!(
            [8999, 9000, 9001].map(|at| all.get(at).copied()),
            [None, Some(1), Some(0)]
        );
        *all.entry(8999) = 7;
        assert_eq!((all[8999], all[9002], all.get(9003)), (7, 3, None));
        let named = all.map_values(|process, value| u64::from(process) + value);
        assert_eq!(named[9002], 9005);
        *all.entry(0) = 4;
        assert_eq!((all[0], all[8999], all.end_number()), (4, 7, 9003));
        let rest = all.into_iter().filter(|(_, value)| *value > 0);
        assert_eq!(
            Vec::from_iter(rest),
            [(0, 4), (8999, 7), (9000, 1), (9002, 3)]
        );
    }
}
