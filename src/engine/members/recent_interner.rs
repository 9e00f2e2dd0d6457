//! Things by number, of which most are like one before them, as the calls of a job are.

use serde::{Deserialize, Serialize};

/// What has a number of its own, made of all that tells it apart; the high bits are used.
pub trait MixedHashKey {
    /// That number.
    fn mixed_key(&self) -> u64;
}

/// How many places numbers are found again by: few at first, since to clear them takes time. Powers
/// of two.
const INTERNER_SLOTS: std::ops::RangeInclusive<usize> = 512..=1 << 16;

/// How many places next to each other something may be at.
const MAX_INTERNER_PROBES: usize = 8;

/// No number.
const NO_NUMBER: u32 = u32::MAX;

/// What was met, by number. Where very much is met something may get a second number: a table that
/// finds everything again would cost more than it saves.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RecentInterner<T> {
    all: Vec<T>,
    places: Vec<u32>,
}

impl<T> Default for RecentInterner<T> {
    fn default() -> RecentInterner<T> {
        RecentInterner {
            all: Vec::new(),
            places: vec![NO_NUMBER; *INTERNER_SLOTS.start()],
        }
    }
}

impl<T: MixedHashKey + Eq> RecentInterner<T> {
    /// The number of `what`.
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

    /// The number of what is not at its first place, or nowhere.
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
            self.places = vec![NO_NUMBER; 4 * self.places.len()];
            (0..number).for_each(|known| self.put_number(known));
        }
        self.put_number(number);
        number
    }

    /// Gives a number the nearest free place, or its first one.
    fn put_number(&mut self, number: u32) {
        let first = self.first_slot(&self.all[number as usize]);
        let mut near = (first..first + MAX_INTERNER_PROBES).map(|at| at & (self.places.len() - 1));
        let free = near.find(|&at| self.places[at] == NO_NUMBER);
        self.places[free.unwrap_or(first)] = number;
    }

    /// By number.
    pub fn interned_values(&self) -> &[T] {
        &self.all
    }
}
