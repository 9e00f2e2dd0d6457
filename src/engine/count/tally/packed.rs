//! Counts in few bytes: there may be one for every few calls, and all stay until the rows are made.

use super::CallVolume;
use crate::count::limits::UNEVEN_SIZES_BIT;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A [`CallVolume`] in 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct PackedTotals {
    pub(super) calls: u64,
    pub(super) bytes: u64,
    pub(super) min: u64,
    pub(super) max: u64,
}

impl PackedTotals {
    /// Adds others; `false`, and adds nothing, if they do not fit.
    pub(super) fn merge(&mut self, other: &PackedTotals) -> bool {
        let calls = self.calls.checked_add(other.calls);
        let bytes = self.bytes.checked_add(other.bytes);
        let (Some(calls), Some(bytes)) = (calls, bytes) else {
            return false;
        };
        *self = PackedTotals {
            calls,
            bytes,
            min: match self.calls {
                0 => other.min,
                _ => self.min.min(other.min),
            },
            max: self.max.max(other.max),
        };
        true
    }
}

impl From<PackedTotals> for CallVolume {
    fn from(sums: PackedTotals) -> CallVolume {
        CallVolume {
            calls: sums.calls,
            bytes: sums.bytes.into(),
            min: sums.min.into(),
            max: sums.max.into(),
        }
    }
}

/// Counts by their keys' numbers. Mostly a key's calls in a stretch are all of one size: then they
/// take 16 bytes, else 32.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct PackedCounts {
    /// The key and the calls of a count, and the bytes of one; where [`UNEVEN_SIZES_BIT`] is set the bytes of
    /// all, and after them the smallest and the largest.
    pairs: Vec<[u64; 2]>,
}

impl PackedCounts {
    /// Adds a count; `false` where it is too large for it.
    pub(super) fn push(&mut self, key: u32, sums: &PackedTotals) -> bool {
        let PackedTotals {
            calls,
            bytes,
            min,
            max,
        } = *sums;
        let first = u64::from(key) << 32 | calls;
        if calls > u64::from(u32::MAX) || first & UNEVEN_SIZES_BIT != 0 {
            return false;
        }
        if min == max && min.checked_mul(calls) == Some(bytes) {
            self.pairs.push([first, min]);
        } else {
            self.pairs
                .extend([[first | UNEVEN_SIZES_BIT, bytes], [min, max]]);
        }
        true
    }

    /// Where the next count begins.
    pub(super) fn end_offset(&self) -> usize {
        self.pairs.len()
    }

    /// The counts between two such places.
    pub(super) fn counts_in(
        &self,
        range: Range<usize>,
    ) -> impl Iterator<Item = (u32, PackedTotals)> {
        let mut pairs = self.pairs[range].iter();
        std::iter::from_fn(move || {
            let &[first, bytes] = pairs.next()?;
            let (key, calls) = (
                (first & !UNEVEN_SIZES_BIT) >> 32,
                first & u64::from(u32::MAX),
            );
            let (bytes, min, max) = match first & UNEVEN_SIZES_BIT {
                0 => (bytes * calls, bytes, bytes),
                _ => {
                    let &[min, max] = pairs.next()?;
                    (bytes, min, max)
                }
            };
            let sums = PackedTotals {
                calls,
                bytes,
                min,
                max,
            };
            Some((key as u32, sums))
        })
    }

    /// All counts.
    pub(super) fn all_counts(&self) -> impl Iterator<Item = (u32, PackedTotals)> {
        self.counts_in(0..self.end_offset())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_fits_reads_back(
            list in proptest::collection::vec((
                prop_oneof![0..9_u32, any::<u32>()],
                prop_oneof![1..9_u64, (u64::from(u32::MAX) - 1)..(1 << 33)],
                prop_oneof![0..9_u64, any::<u64>()],
                prop_oneof![0..9_u64, any::<u64>()],
                any::<bool>(),
            ), 0..20),
        ) {
            let (mut packed, mut fit, mut ends) = (PackedCounts::default(), Vec::new(), Vec::new());
            for (key, calls, size, other, even) in list {
                let (min, max) = if even { (size, size) } else { (size.min(other), size.max(other)) };
                let bytes = if even { size.wrapping_mul(calls) } else { other };
                let sums = PackedTotals { calls, bytes, min, max };
                let fits = packed.push(key, &sums);
                prop_assert_eq!(fits, key < 1 << 31 && calls < 1 << 32);
                if fits {
                    fit.push((key, sums));
                    ends.push(packed.end_offset());
                }
            }
            prop_assert_eq!(packed.all_counts().collect::<Vec<_>>(), fit.clone());
            let mut from = 0;
            for (one, end) in fit.into_iter().zip(ends) {
                prop_assert_eq!(packed.counts_in(from..end).collect::<Vec<_>>(), vec![one]);
                from = end;
            }
        }
    }
}
