//! The rings of a communicator.
//!
//! ```text
//! Channel 00/02 :    0   1   2   3            the ring, printed by rank 0; RCCL has no colon
//! Ring 00 : 7 -> 0 -> 1                       a rank's neighbours
//! ```
//!
//! From `src/graph/rings.cc` and `src/init.cc`.

use crate::message::communicator::rccl_tail::{RcclTail, split_rccl_tail};
use crate::token::{PResult, dec_i32, dec_u32, fail, whole, word};

/// How many ranks of a ring NCCL lists at most (`MAXWIDTH`, `src/graph/rings.cc`).
pub const MAX_RANKS_OF_LISTED_RING: usize = 20;

/// The ranks around a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingRanks<'a> {
    /// The channel.
    pub channel: u32,
    /// How many there are; printed since 2.5.
    pub channels: Option<u32>,
    list: &'a [u8],
    /// The line was cut: there may be more ranks.
    pub cut: bool,
}

/// A rank's neighbours on a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingNeighbours {
    /// The ring.
    pub ring: u32,
    /// The rank before.
    pub previous: i32,
    /// The rank.
    pub rank: u32,
    /// The rank behind.
    pub next: i32,
    /// The communicator; printed by RCCL.
    pub of: Option<RcclTail>,
}

impl<'a> RingRanks<'a> {
    /// The ranks in order.
    pub fn ranks(&self) -> impl Iterator<Item = u32> + use<'a> {
        split_ranks(self.list)
    }
}

/// Numbers with blanks between.
pub(crate) fn split_ranks(text: &[u8]) -> impl Iterator<Item = u32> {
    let words = text.split(|&b| b == b' ').filter(|word| !word.is_empty());
    words.map_while(|word| whole(dec_u32(word)))
}

/// True for nothing but numbers with blanks between, at least one.
pub(crate) fn are_ranks(text: &[u8]) -> bool {
    let mut words = text.split(|&b| b == b' ').filter(|word| !word.is_empty());
    !text.trim_ascii().is_empty() && words.all(|word| whole(dec_u32(word)).is_some())
}

/// Reads the ring after `Channel `. `cut` is true if the line's end is missing.
pub(crate) fn parse_ring(text: &[u8], cut: bool) -> Option<RingRanks<'_>> {
    let (list, (channel, channels)) = ring_start(text).ok()?;
    let (list, _) = if cut {
        (list, None)
    } else {
        split_rccl_tail(list)
    };
    // Of a cut line the last number may be half of one.
    let list = if cut {
        &list[..memchr::memrchr(b' ', list)?]
    } else {
        list
    };
    are_ranks(list).then_some(RingRanks {
        channel,
        channels,
        list,
        cut,
    })
}

fn ring_start(input: &[u8]) -> PResult<'_, (u32, Option<u32>)> {
    let (i, channel) = dec_u32(input)?;
    let (i, channels) = match i.strip_prefix(b"/") {
        Some(i) => {
            let (i, n) = dec_u32(i)?;
            (i, Some(n))
        }
        None => (i, None),
    };
    match i.strip_prefix(b" :") {
        Some(i) => Ok((i, (channel, channels))),
        // RCCL has blanks alone.
        None if i.starts_with(b"  ") && channels.is_some() => Ok((i, (channel, channels))),
        None => fail(i, "a colon"),
    }
}

/// The neighbours after `Ring `.
pub(crate) fn parse_neighbours(text: &[u8]) -> Option<RingNeighbours> {
    let (text, of) = split_rccl_tail(text);
    let parse = |input| {
        let (i, ring) = dec_u32(input)?;
        let (i, _) = word(" : ", "a colon")(i)?;
        let (i, previous) = dec_i32(i)?;
        let (i, _) = word(" -> ", "the rank")(i)?;
        let (i, rank) = dec_u32(i)?;
        let (i, _) = word(" -> ", "the next rank")(i)?;
        let (i, next) = dec_i32(i)?;
        Ok((
            i,
            RingNeighbours {
                ring,
                previous,
                rank,
                next,
                of,
            },
        ))
    };
    whole(parse(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_listed_in_order() {
        for (text, channels) in [
            ("01/02 :    0   1  10", Some(2)),
            ("01 :    0   1  10", None),
            ("01/02      0   1  10 comm 0x3d nRanks 03", Some(2)),
        ] {
            let ring = parse_ring(text.as_bytes(), false).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(
                (ring.channel, ring.channels, ring.cut),
                (1, channels, false)
            );
            assert_eq!(ring.ranks().collect::<Vec<_>>(), [0, 1, 10], "{text}");
        }
        let half = parse_ring(b"01/02 :    0   1  10", true).unwrap();
        assert_eq!((half.cut, half.ranks().collect()), (true, vec![0, 1]));
        assert_eq!(parse_ring(b"00/0 : 0[0] -> 1[1]", false), None);
    }

    #[test]
    fn neighbours_may_be_none() {
        let (ring, previous, rank, next, of) = (0, 7, 0, -1, None);
        let expected = RingNeighbours {
            ring,
            previous,
            rank,
            next,
            of,
        };
        assert_eq!(parse_neighbours(b"00 : 7 -> 0 -> -1"), Some(expected));
        assert_eq!(parse_neighbours(b"00 : 7 -> 0"), None);
    }
}
