//! Things by number, of which most are like one before them, as the calls of a job are.

use serde::{Deserialize, Serialize};

/// What has a number of its own, made of all that tells it apart; the high bits are used.
pub trait Mixed {
    /// That number.
    fn mixed(&self) -> u64;
}

/// How many places numbers are found again by: few at first, since to clear them takes time. Powers
/// of two.
const PLACES: std::ops::RangeInclusive<usize> = 512..=1 << 16;

/// How many places next to each other something may be at.
const NEAR: usize = 8;

/// No number.
const NONE: u32 = u32::MAX;

/// What was met, by number. Where very much is met something may get a second number: a table that
/// finds everything again would cost more than it saves.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Often<T> {
    all: Vec<T>,
    places: Vec<u32>,
}

impl<T> Default for Often<T> {
    fn default() -> Often<T> {
        Often {
            all: Vec::new(),
            places: vec![NONE; *PLACES.start()],
        }
    }
}

impl<T: Mixed + Eq> Often<T> {
    /// The number of `what`.
    #[inline(always)]
    pub fn number(&mut self, what: T) -> u32 {
        let number = self.places[self.first_place(&what)];
        if self.all.get(number as usize) == Some(&what) {
            number
        } else {
            self.further(what)
        }
    }

    #[inline(always)]
    fn first_place(&self, what: &T) -> usize {
        (what.mixed() >> 40) as usize & (self.places.len() - 1)
    }

    /// The number of what is not at its first place, or nowhere.
    fn further(&mut self, what: T) -> u32 {
        let first = self.first_place(&what);
        for next in 1..NEAR {
            let number = self.places[(first + next) & (self.places.len() - 1)];
            match self.all.get(number as usize) {
                Some(known) if *known == what => return number,
                Some(_) => {}
                None => break,
            }
        }
        let number = self.all.len() as u32;
        self.all.push(what);
        if self.all.len() > self.places.len() / 4 && self.places.len() < *PLACES.end() {
            self.places = vec![NONE; 4 * self.places.len()];
            (0..number).for_each(|known| self.put(known));
        }
        self.put(number);
        number
    }

    /// Gives a number the nearest free place, or its first one.
    fn put(&mut self, number: u32) {
        let first = self.first_place(&self.all[number as usize]);
        let mut near = (first..first + NEAR).map(|at| at & (self.places.len() - 1));
        let free = near.find(|&at| self.places[at] == NONE);
        self.places[free.unwrap_or(first)] = number;
    }

    /// By number.
    pub fn all(&self) -> &[T] {
        &self.all
    }
}
