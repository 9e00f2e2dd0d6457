//! Many calls of few keys, counted.

use super::packed::{PackedCounts, PackedTotals};
use super::{CallKey, CallVolume};
use crate::count::limits::RECENT_KEY_PLACES;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Calls by key, for many calls of few keys, one stretch after another. A call touches two short
/// records: the place of its key, and the key's sums while they fit 64 bits. A key keeps its
/// number from stretch to stretch: the steps of a job are alike, and to forget what was met would
/// cost as much as to count a short one.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KeyCounter {
    /// The keys met, by number.
    keys: Vec<CallKey>,
    /// The stretch in hand, by the same number.
    sums: Vec<PackedTotals>,
    /// The `sums` that are not empty.
    touched: Vec<u32>,
    /// Sums of more than 64 bits.
    wide: FxHashMap<u32, CallVolume>,
    index: FxHashMap<CallKey, u32>,
    /// The key met last at each place; a power of two of them.
    recent: Vec<RecentKey>,
}

/// A key's words and its index; two words are enough for a key of a member, an operation and a size.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct RecentKey {
    who: u64,
    size: u64,
    at: u32,
}

/// Marks an empty place.
const NO_RECENT_KEY: RecentKey = RecentKey {
    who: 0,
    size: 0,
    at: u32::MAX,
};

impl KeyCounter {
    pub(super) fn new() -> KeyCounter {
        KeyCounter {
            keys: Vec::new(),
            sums: Vec::new(),
            touched: Vec::new(),
            wide: FxHashMap::default(),
            index: FxHashMap::default(),
            recent: vec![NO_RECENT_KEY; *RECENT_KEY_PLACES.start()],
        }
    }

    /// Counts `calls` equal calls of `bytes` each; `short` if the key has only the fields of [`RecentKey`].
    #[inline]
    pub(super) fn add_calls(&mut self, key: CallKey, calls: u64, bytes: Option<u128>, short: bool) {
        let who = u64::from(key.member) << 32 | u64::from(key.op);
        let mixed =
            who.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ key.size.wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
        let place = (mixed >> 40) as usize & (self.recent.len() - 1);
        let recent = &self.recent[place];
        let known = recent.who == who
            && recent.size == key.size
            && match self.keys.get(recent.at as usize) {
                Some(known) => short || *known == key,
                None => false,
            };
        let at = if known {
            recent.at as usize
        } else {
            self.find_key(key, place, who)
        };
        let sums = &mut self.sums[at];
        let first = sums.calls == 0;
        let all = |bytes: u64| bytes.checked_mul(calls)?.checked_add(sums.bytes);
        match bytes.map(|bytes| u64::try_from(bytes).map(|bytes| (bytes, all(bytes)))) {
            Some(Ok((bytes, Some(all)))) => {
                sums.min = if first { bytes } else { sums.min.min(bytes) };
                sums.max = sums.max.max(bytes);
                sums.bytes = all;
                sums.calls += calls;
            }
            None => sums.calls += calls,
            _ => {
                return self
                    .wide
                    .entry(at as u32)
                    .or_default()
                    .add_calls(calls, bytes);
            }
        }
        if first {
            self.touched.push(at as u32);
        }
    }

    #[cold]
    fn find_key(&mut self, key: CallKey, place: usize, who: u64) -> usize {
        let next = self.keys.len() as u32;
        let at = *self.index.entry(key).or_insert(next);
        if at == next {
            self.keys.push(key);
            self.sums.push(PackedTotals::default());
        }
        self.recent[place] = RecentKey {
            who,
            size: key.size,
            at,
        };
        // Keys find their new places as they come again.
        if self.keys.len() > self.recent.len() / 4 && self.recent.len() < *RECENT_KEY_PLACES.end() {
            self.recent = vec![NO_RECENT_KEY; 4 * self.recent.len()];
        }
        at as usize
    }

    /// Returns the keys met.
    pub(super) fn keys(&self) -> &[CallKey] {
        &self.keys
    }

    /// Ends the stretch: its counts go after `cells`, by their keys' numbers, those that are too
    /// large to `wide`.
    pub(super) fn end_stretch(
        &mut self,
        cells: &mut PackedCounts,
        mut wide: impl FnMut(u32, CallVolume),
    ) {
        for at in self.touched.drain(..) {
            let sums = std::mem::take(&mut self.sums[at as usize]);
            if !cells.push(at, &sums) {
                wide(at, sums.into());
            }
        }
        if !self.wide.is_empty() {
            self.wide.drain().for_each(|(at, value)| wide(at, value));
        }
    }
}
