//! Thresholds: how many calls of each sequence were made up to each bound. They place another rank's calls.

mod align;
mod limits;

use super::keys::Sequences;
use super::limits::UNKNOWN_STRETCH;
use super::streams::ProcessStream;
use align::{align_calls, shifted_number};
use rustc_hash::FxHashMap;
use std::slice;

/// The thresholds of one key, learned from a placed rank.
#[derive(Debug, Default)]
struct ThresholdsOfKey {
    /// (stretch, calls up to its end), both rising.
    ends: Vec<(u32, u32)>,
    /// A short hash of each call's content.
    contents: Vec<u16>,
    /// The stretch of further calls, if that is known.
    after: Option<u32>,
}

/// The thresholds learned so far, by key.
#[derive(Debug, Default)]
pub(super) struct Thresholds {
    told: Vec<Option<ThresholdsOfKey>>,
    /// By key: whether it is being learned.
    is_new: Vec<bool>,
}

/// Calls of one stretch in a row; calls between them may be unplaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AnchoredRun {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) stretch: u32,
}

/// A rank's calls as the thresholds place them.
#[derive(Debug, Default)]
pub(super) struct AnchoredCalls {
    pub(super) runs: Vec<AnchoredRun>,
    /// How many calls are placed.
    pub(super) calls: u64,
}

/// The position of a walk in one key.
#[derive(Debug, Clone, Default)]
struct KeyCursor<'t> {
    /// The content hashes of the calls to come.
    contents: slice::Iter<'t, u16>,
    /// The stretches to come.
    ends: slice::Iter<'t, (u32, u32)>,
    /// The stretch in hand, the calls up to its end, and how many of these are to come.
    stretch: u32,
    end: u32,
    left: u32,
    /// The stretch of further calls, or [`UNKNOWN_STRETCH`].
    after: u32,
    /// A call's content differed from the placed rank's.
    differs: bool,
}

impl<'t> KeyCursor<'t> {
    /// The beginning of a key on which the rank makes `calls` calls.
    fn for_calls(told: &'t ThresholdsOfKey, calls: u64) -> KeyCursor<'t> {
        KeyCursor {
            contents: told.contents.iter(),
            ends: told.ends.iter(),
            after: told.stretch_beyond(calls),
            ..KeyCursor::default()
        }
    }

    /// The cursor of a key without thresholds.
    fn without_thresholds() -> KeyCursor<'t> {
        KeyCursor {
            after: UNKNOWN_STRETCH,
            ..KeyCursor::default()
        }
    }

    /// Goes on to the next stretch.
    fn next_stretch(&mut self) {
        if let Some(&(stretch, end)) = self.ends.next() {
            self.left = end - self.end;
            (self.stretch, self.end) = (stretch, end);
        }
    }
}

/// The memory of a walk, to be reused.
#[derive(Debug, Default)]
pub(super) struct AnchorScratch<'t> {
    at: Vec<KeyCursor<'t>>,
}

impl Thresholds {
    pub(super) fn new(keys: &Sequences) -> Thresholds {
        let mut told = Vec::new();
        told.resize_with(keys.len(), || None);
        let is_new = vec![false; keys.len()];
        Thresholds { told, is_new }
    }

    pub(super) fn has_thresholds(&self, key: u32) -> bool {
        self.told.get(key as usize).is_some_and(Option::is_some)
    }

    /// Counts the placed rank's calls of a key.
    pub(super) fn count_calls(&self, key: u32) -> u64 {
        self.thresholds_of(key)
            .map_or(0, |told| told.contents.len() as u64)
    }

    /// Notes that the printing rank made no call in the last stretch, `after`, on keys of `uses` with their last
    /// threshold before it: further calls of other ranks are placed there.
    pub(super) fn end_at_last_line(&mut self, uses: &[(u32, u64)], after: u32) {
        for &(key, _) in uses {
            if let Some(Some(told)) = self.told.get_mut(key as usize)
                && told.ends.last().is_some_and(|last| last.0 < after)
            {
                told.after = Some(after);
            }
        }
    }

    /// Learns the thresholds of the keys `new`, which have none yet, from a placed rank's calls; `cuts` are
    /// (stretch, calls up to its end).
    pub(super) fn learn_thresholds(
        &mut self,
        stream: &ProcessStream,
        cuts: &[(u32, u32)],
        keys: &Sequences,
        new: &[u32],
    ) {
        new.iter().for_each(|&key| self.is_new[key as usize] = true);
        let mut from = 0;
        for &(stretch, end) in cuts {
            let range = from as usize..end as usize;
            for what in stream.calls.slice(range) {
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

    fn thresholds_of(&self, key: u32) -> Option<&ThresholdsOfKey> {
        self.told.get(key as usize)?.as_ref()
    }

    /// Places the calls of a rank, which `uses` these keys, by the thresholds.
    pub(super) fn anchor_calls<'t>(
        &'t self,
        stream: &ProcessStream,
        uses: &[(u32, u64)],
        keys: &Sequences,
        scratch: &mut AnchorScratch<'t>,
    ) -> AnchoredCalls {
        scratch.begin_walk(keys, uses, |key| self.thresholds_of(key));
        let anchored = try_anchor(stream, keys, scratch);
        let differs = |key: u32| scratch.at.get(key as usize).is_some_and(|at| at.differs);
        let renumber = |key: u32| {
            let told = self.thresholds_of(key)?;
            Some((key, told.renumber_for(stream, keys, key)))
        };
        let apart = uses.iter().map(|u| u.0).filter(|&key| differs(key));
        let apart: FxHashMap<u32, ThresholdsOfKey> = apart.filter_map(renumber).collect();
        if apart.is_empty() {
            return anchored;
        }
        let mut scratch = AnchorScratch::default();
        scratch.begin_walk(keys, uses, |key| {
            apart.get(&key).or_else(|| self.thresholds_of(key))
        });
        try_anchor(stream, keys, &mut scratch)
    }
}

impl ThresholdsOfKey {
    /// Returns the stretch of the calls beyond the placed rank's, of a rank that makes `calls` calls. If they are
    /// less than a step, they may be of any stretch: [`UNKNOWN_STRETCH`].
    fn stretch_beyond(&self, calls: u64) -> u32 {
        let told = self.contents.len() as u64;
        let ends = |n: usize| self.ends.iter().rev().nth(n).map_or(0, |e| u64::from(e.1));
        let step = ends(0).saturating_sub(ends(1)).max(1);
        let is_more = calls >= told.saturating_add(step);
        self.after.filter(|_| is_more).unwrap_or(UNKNOWN_STRETCH)
    }

    /// Returns the thresholds in the numbers of a rank that made other calls than the placed one.
    fn renumber_for(&self, stream: &ProcessStream, keys: &Sequences, key: u32) -> ThresholdsOfKey {
        let own = stream.calls.all().iter().map(|what| what as usize);
        let own = own.filter(|&what| keys.of[what] == key);
        let contents: Vec<u16> = own.map(|what| keys.content[what]).collect();
        let pieces = align_calls(&self.contents, &contents);
        let after = self.stretch_beyond(contents.len() as u64);
        let (mut piece, mut end) = (0, 0);
        let mut ends: Vec<(u32, u32)> = Vec::new();
        for number in 0..contents.len() as u32 {
            let told = shifted_number(&pieces, number, &mut piece);
            let stretch = told.map_or(UNKNOWN_STRETCH, |told| {
                while self.ends.get(end).is_some_and(|e| e.1 <= told) {
                    end += 1;
                }
                self.ends.get(end).map_or(after, |e| e.0)
            });
            match ends.last_mut() {
                Some(last) if last.0 == stretch => last.1 = number + 1,
                _ => ends.push((stretch, number + 1)),
            }
        }
        ThresholdsOfKey {
            ends,
            contents,
            after: None,
        }
    }
}

impl<'t> AnchorScratch<'t> {
    /// Moves the cursors of the keys in `uses` to their beginnings.
    fn begin_walk(
        &mut self,
        keys: &Sequences,
        uses: &[(u32, u64)],
        told: impl Fn(u32) -> Option<&'t ThresholdsOfKey>,
    ) {
        self.at.resize(keys.len(), KeyCursor::default());
        for &(key, calls) in uses {
            if let Some(at) = self.at.get_mut(key as usize) {
                *at = told(key).map_or_else(KeyCursor::without_thresholds, |told| {
                    KeyCursor::for_calls(told, calls)
                });
            }
        }
    }
}

/// Walks a rank's calls from the beginning of each key; calls without a threshold stay unplaced.
fn try_anchor(
    stream: &ProcessStream,
    keys: &Sequences,
    scratch: &mut AnchorScratch<'_>,
) -> AnchoredCalls {
    let mut anchored = AnchoredCalls::default();
    for (number, what) in (0_u32..).zip(stream.calls.all()) {
        // A call without a key has no cursor.
        let key = keys.of[what as usize];
        let Some(at) = scratch.at.get_mut(key as usize) else {
            continue;
        };
        let stretch = match at.contents.next() {
            Some(&said) => {
                at.differs |= keys.content[what as usize] != said;
                if at.left == 0 {
                    at.next_stretch();
                }
                at.left = at.left.saturating_sub(1);
                at.stretch
            }
            None => at.after,
        };
        if stretch == UNKNOWN_STRETCH {
            continue;
        }
        anchored.calls += 1;
        match anchored.runs.last_mut() {
            // A rank's own calls are in order: a fall is a call that does not match.
            Some(run) if run.stretch >= stretch => run.last = number,
            _ => anchored.runs.push(AnchoredRun {
                first: number,
                last: number,
                stretch,
            }),
        }
    }
    anchored
}
