//! Numbers values that mostly repeat recent ones, as the calls of a job do.

use super::limits::{INTERNER_SLOTS, MAX_INTERNER_PROBES};
use serde::{Deserialize, Serialize};

/// A value with a hash of all its parts; the high bits are used.
pub trait MixedHashKey {
    /// Returns the hash.
    fn mixed_key(&self) -> u64;
}

/// Values by number. Among very many a value may get a second number: a table that finds every value
/// again would cost more than it saves.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RecentInterner<T> {
    all: Vec<T>,
    /// Numbers by slot; an empty slot has `u32::MAX`.
    places: Vec<u32>,
}

impl<T> Default for RecentInterner<T> {
    fn default() -> RecentInterner<T> {
        RecentInterner {
            all: Vec::new(),
            places: vec![u32::MAX; *INTERNER_SLOTS.start()],
        }
    }
}

impl<T: MixedHashKey + Eq> RecentInterner<T> {
    /// Returns the number of `what`.
    #[inline(always)]
    pub fn intern_value(&mut self, what: T) -> u32 {
        let number = self.places[self.first_slot(&what)];
        if self.all.get(number as usize) == Some(&what) {
            number
        } else {
            self.intern_at_later_slot(what)
        }
    }

    #[inline(always)]
    fn first_slot(&self, what: &T) -> usize {
        (what.mixed_key() >> 40) as usize & (self.places.len() - 1)
    }

    /// Returns the number of a value that is not in its first slot; adds it if it is new.
    fn intern_at_later_slot(&mut self, what: T) -> u32 {
        let first = self.first_slot(&what);
        for next in 1..MAX_INTERNER_PROBES {
            let number = self.places[(first + next) & (self.places.len() - 1)];
            match self.all.get(number as usize) {
                Some(known) if *known == what => return number,
                Some(_) => {}
                None => break,
            }
        }
        let number = self.all.len() as u32;
        self.all.push(what);
        if self.all.len() > self.places.len() / 4 && self.places.len() < *INTERNER_SLOTS.end() {
            self.places = vec![u32::MAX; 4 * self.places.len()];
            (0..number).for_each(|known| self.put_number(known));
        }
        self.put_number(number);
        number
    }

    /// Puts a number into the nearest free slot, or into its first one.
    fn put_number(&mut self, number: u32) {
        let first = self.first_slot(&self.all[number as usize]);
        let mut near = (first..first + MAX_INTERNER_PROBES).map(|at| at & (self.places.len() - 1));
        let free = near.find(|&at| self.places[at] == u32::MAX);
        self.places[free.unwrap_or(first)] = number;
    }

    /// Returns all values by number.
    pub fn interned_values(&self) -> &[T] {
        &self.all
    }
}
