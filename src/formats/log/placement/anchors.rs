//! Thresholds: how many calls of each sequence were made up to each bound, and what they say of
//! another rank's calls.

use super::bounds::UNKNOWN;
use super::keys::{Keys, NO_KEY};
use super::streams::Stream;

/// What a placed rank's calls of one key tell.
#[derive(Debug, Default)]
struct Told {
    /// (stretch, calls up to its end), both rising.
    ends: Vec<(u32, u32)>,
    /// What each call says, short.
    contents: Vec<u16>,
}

/// What is told so far, by key.
#[derive(Debug, Default)]
pub(super) struct Thresholds {
    told: Vec<Option<Told>>,
    /// The keys that are being told.
    is_new: Vec<bool>,
}

/// Calls next to each other, but for such that are not placed, that belong to one stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) stretch: u32,
}

/// What the thresholds say of a rank's calls.
#[derive(Debug, Default)]
pub(super) struct Anchored {
    pub(super) runs: Vec<Run>,
    /// How many calls are placed.
    pub(super) calls: u64,
}

/// Where a walk is in one key.
#[derive(Debug, Clone, Copy, Default)]
struct At {
    seq: u32,
    end: u32,
    compared: u32,
    differ: u32,
}

/// A walk's memory, used again.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    at: Vec<At>,
    used: Vec<u32>,
}

/// Of the calls that two ranks have in common at most one in so many may differ; else their numbers
/// do not mean the same calls.
const ALIKE: u32 = 16;

impl Thresholds {
    pub(super) fn new(keys: &Keys) -> Thresholds {
        let mut told = Vec::new();
        told.resize_with(keys.len(), || None);
        let is_new = vec![false; keys.len()];
        Thresholds { told, is_new }
    }

    pub(super) fn is_told(&self, key: u32) -> bool {
        self.told.get(key as usize).is_some_and(Option::is_some)
    }

    /// Takes in what a placed rank's calls tell of the keys `new`, of which nothing was told; `cuts`
    /// are (stretch, calls up to its end).
    pub(super) fn tell(&mut self, stream: &Stream, cuts: &[(u32, u32)], keys: &Keys, new: &[u32]) {
        new.iter().for_each(|&key| self.is_new[key as usize] = true);
        let mut from = 0;
        for &(stretch, end) in cuts {
            let range = from as usize..end as usize;
            for &what in &stream.calls[range] {
                let key = keys.of[what as usize] as usize;
                if self.is_new.get(key) != Some(&true) {
                    continue;
                }
                let told = self.told[key].get_or_insert_default();
                told.contents.push(keys.content[what as usize]);
                let calls = told.contents.len() as u32;
                match told.ends.last_mut() {
                    Some(last) if last.0 == stretch => last.1 = calls,
                    _ => told.ends.push((stretch, calls)),
                }
            }
            from = end;
        }
        new.iter()
            .for_each(|&key| self.is_new[key as usize] = false);
    }

    /// Places a rank's calls by what is told.
    pub(super) fn walk(&self, stream: &Stream, keys: &Keys, scratch: &mut Scratch) -> Anchored {
        let mut wrong: Vec<u32> = Vec::new();
        loop {
            let anchored = self.try_walk(stream, keys, scratch, &wrong);
            let before = wrong.len();
            for key in scratch.used.drain(..) {
                let at = std::mem::take(&mut scratch.at[key as usize]);
                if at.differ > at.compared / ALIKE && !wrong.contains(&key) {
                    wrong.push(key);
                }
            }
            if wrong.len() == before {
                return anchored;
            }
        }
    }

    fn try_walk(
        &self,
        stream: &Stream,
        keys: &Keys,
        scratch: &mut Scratch,
        wrong: &[u32],
    ) -> Anchored {
        scratch.at.resize(keys.len(), At::default());
        let mut anchored = Anchored::default();
        for (number, &what) in (0_u32..).zip(&stream.calls) {
            let key = keys.of[what as usize];
            if key == NO_KEY {
                continue;
            }
            let Some(told) = &self.told[key as usize] else {
                continue;
            };
            let at = &mut scratch.at[key as usize];
            if at.seq == 0 {
                scratch.used.push(key);
            }
            let seq = at.seq;
            at.seq += 1;
            let Some(&said) = told.contents.get(seq as usize) else {
                continue;
            };
            at.compared += 1;
            at.differ += u32::from(keys.content[what as usize] != said);
            while told.ends.get(at.end as usize).is_some_and(|e| e.1 <= seq) {
                at.end += 1;
            }
            let Some(&(stretch, _)) = told.ends.get(at.end as usize) else {
                continue;
            };
            if stretch == UNKNOWN {
                continue;
            }
            if !wrong.is_empty() && wrong.contains(&key) {
                continue;
            }
            anchored.calls += 1;
            match anchored.runs.last_mut() {
                // A rank's own calls are in order: a fall is a call that does not match.
                Some(run) if run.stretch >= stretch => run.last = number,
                _ => anchored.runs.push(Run {
                    first: number,
                    last: number,
                    stretch,
                }),
            }
        }
        anchored
    }
}
