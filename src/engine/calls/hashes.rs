//! Calls as a running hash: equal hashes are equal streams, and where they differ, the hash after each
//! block shows the block in which they begin to.

pub use super::limits::CALLS_PER_HASH_BLOCK;
use super::same::mix_bits;
use crate::log::timeline::ForgettingList;

/// A stream's calls, hashed.
#[derive(Debug, Clone, Default)]
pub struct HashedCalls {
    /// The number of calls.
    pub calls: u64,
    /// The hash of all of them.
    pub hash: u64,
    /// The hash after each whole block. Blocks of a pipe that are equal in all streams are forgotten.
    pub blocks: ForgettingList<u64>,
    /// The hash after the first block.
    pub begin: Option<u64>,
}

impl HashedCalls {
    /// Adds a call by its [mark](super::same::Content::mark).
    #[inline]
    pub fn push_mark(&mut self, mark: u64) {
        self.hash = mix_bits(self.hash ^ mark);
        self.calls += 1;
        if self.calls.is_multiple_of(CALLS_PER_HASH_BLOCK) {
            self.blocks.push(self.hash);
            self.begin.get_or_insert(self.hash);
        }
    }
}

/// The first block in which the streams differ, or `None` if they are equal.
pub fn find_first_unequal_block(all: &[&HashedCalls]) -> Option<u64> {
    let first = all.first()?;
    if all
        .iter()
        .all(|s| (s.calls, s.hash) == (first.calls, first.hash))
    {
        return None;
    }
    let shortest = all.iter().map(|s| s.calls).min().unwrap_or(0);
    let longest = all.iter().max_by_key(|s| s.blocks.len())?;
    let differs = |block: usize| {
        let mut hashes = all.iter().filter_map(|s| s.blocks.get(block));
        hashes.any(|hash| Some(hash) != longest.blocks.get(block))
    };
    // Forgotten blocks are equal.
    let forgotten = all.iter().map(|s| s.blocks.forgotten_count());
    let begin = forgotten.max().unwrap_or(0);
    let whole = (begin..longest.blocks.len()).find(|&block| differs(block));
    let short = shortest / CALLS_PER_HASH_BLOCK;
    Some(whole.map_or(short, |block| short.min(block as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashed(marks: impl IntoIterator<Item = u64>) -> HashedCalls {
        let mut calls = HashedCalls::default();
        marks.into_iter().for_each(|mark| calls.push_mark(mark));
        calls
    }

    #[test]
    fn the_block_of_the_first_difference_is_found() {
        let usual = hashed(0..1000);
        let odd = |at: u64| hashed((0..1000).map(move |n| n + u64::from(n == at)));
        assert_eq!(find_first_unequal_block(&[&usual, &usual.clone()]), None);
        for at in [0, 255, 256, 700, 999] {
            let block = find_first_unequal_block(&[&usual, &odd(at)]);
            assert_eq!(block, Some(at / CALLS_PER_HASH_BLOCK), "{at}");
        }
        // Fewer calls differ where they end.
        assert_eq!(
            find_first_unequal_block(&[&usual, &hashed(0..600)]),
            Some(2)
        );
        assert_eq!(find_first_unequal_block(&[]), None);
    }
}
