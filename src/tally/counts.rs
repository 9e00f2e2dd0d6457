//! Many calls of few keys, counted.

use super::{Key, Value};
use rustc_hash::FxHashMap;

/// How many keys a chunk finds again without a hash table: few at first, since a small file has
/// few, and clearing places costs more than using them.
const RECENT: std::ops::RangeInclusive<usize> = 256..=4096;

/// Calls by key, for many calls of few keys. A call touches two short records: the place of its
/// key, and the key's sums while they fit 64 bits.
#[derive(Debug)]
pub(super) struct Counts {
    cells: Vec<(Key, Value)>,
    /// What is not yet in `cells`, by the same index.
    sums: Vec<Sums>,
    index: FxHashMap<Key, u32>,
    /// The key met last at each place; a power of two of them.
    recent: Vec<Recent>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    calls: u64,
    bytes: u64,
    min: u64,
    max: u64,
}

/// A key's words and its index; two words tell keys apart where only members, operations and
/// sizes are told apart.
#[derive(Debug, Clone, Copy)]
struct Recent {
    who: u64,
    size: u64,
    at: u32,
}

/// No key: the place of none.
const NOT_MET: Recent = Recent {
    who: 0,
    size: 0,
    at: u32::MAX,
};

impl Counts {
    pub(super) fn new() -> Counts {
        Counts {
            cells: Vec::new(),
            sums: Vec::new(),
            index: FxHashMap::default(),
            recent: vec![NOT_MET; *RECENT.start()],
        }
    }

    /// Counts one call; `short` says that the key has only the fields of [`Recent`].
    #[inline]
    pub(super) fn add(&mut self, key: Key, bytes: Option<u128>, short: bool) {
        let who = u64::from(key.member) << 32 | u64::from(key.op);
        let mixed =
            who.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ key.size.wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
        let place = (mixed >> 40) as usize & (self.recent.len() - 1);
        let recent = &self.recent[place];
        let known = recent.who == who
            && recent.size == key.size
            && match self.cells.get(recent.at as usize) {
                Some((known, _)) => short || *known == key,
                None => false,
            };
        let at = if known {
            recent.at as usize
        } else {
            self.find(key, place, who)
        };
        let sums = &mut self.sums[at];
        match bytes.map(u64::try_from) {
            Some(Ok(bytes)) if sums.bytes.checked_add(bytes).is_some() => {
                sums.min = if sums.calls == 0 {
                    bytes
                } else {
                    sums.min.min(bytes)
                };
                sums.max = sums.max.max(bytes);
                sums.bytes += bytes;
                sums.calls += 1;
            }
            _ => {
                self.settle(at);
                self.cells[at].1.add(1, bytes);
            }
        }
    }

    #[cold]
    fn find(&mut self, key: Key, place: usize, who: u64) -> usize {
        let next = self.cells.len() as u32;
        let at = *self.index.entry(key).or_insert(next);
        if at == next {
            self.cells.push((key, Value::default()));
            self.sums.push(Sums::default());
        }
        self.recent[place] = Recent {
            who,
            size: key.size,
            at,
        };
        // Keys find their new places as they come again.
        if self.cells.len() > self.recent.len() / 4 && self.recent.len() < *RECENT.end() {
            self.recent = vec![NOT_MET; 4 * self.recent.len()];
        }
        at as usize
    }

    /// Moves a key's sums to where they are exact.
    fn settle(&mut self, at: usize) {
        let Sums {
            calls,
            bytes,
            min,
            max,
        } = std::mem::take(&mut self.sums[at]);
        let (bytes, min, max) = (bytes.into(), min.into(), max.into());
        self.cells[at].1.merge(&Value {
            calls,
            bytes,
            min,
            max,
        });
    }

    /// Nothing was counted.
    pub(super) fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The counts, which begin anew.
    pub(super) fn take(&mut self) -> Vec<(Key, Value)> {
        (0..self.cells.len()).for_each(|at| self.settle(at));
        self.sums.clear();
        self.index.clear();
        self.recent.fill(NOT_MET);
        std::mem::take(&mut self.cells)
    }
}
