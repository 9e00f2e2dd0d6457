//! Collectives in the NVLink switches.
//!
//! ```text
//! NVLS multicast support is available on dev 7
//! NVLS multicast support is not available on dev 1
//! NVLS multicast support is available on dev 2 (NVLS_NCHANNELS 16)                         2.19-2.29
//! NVLS multicast support is available on dev 2, transport NVLS, symmetric multimem yes     2.32
//! NVLS comm 0x7f94 headRank -1 nHeads 4 buffSize 1048576 memSize 2097152 nvlsPerRankSize 100663296
//! nvlsTotalSize 402653184
//! NVLS Head  4:  4 12
//! ```
//!
//! From `src/transport/nvls.cc` and `src/graph/connect.cc`. `memSize` up to 2.21, `nvlsRanks`
//! since 2.29. Of more than 20 nodes a head's line names the first 20.

use super::ring::{are_ranks, split_ranks};
use crate::token::{PResult, blanks, dec_i32, dec_u32, dec_u64, pointer, whole, word};

/// A line about the NVLink switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NvlsMessage<'a> {
    /// Whether a device can use them.
    Support {
        /// It can.
        available: bool,
        /// The CUDA device.
        dev: u32,
        /// Channels; printed by some versions.
        channels: Option<u32>,
    },
    /// A communicator's buffers.
    Comm(NvlsBuffers),
    /// The ranks of one head, one for each node.
    Head(NvlsHead<'a>),
}

/// A communicator's buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NvlsBuffers {
    /// The communicator's address in this process.
    pub comm: u64,
    /// Which head this rank is; -1 for none.
    pub head_rank: i32,
    /// Heads.
    pub heads: u32,
    /// Ranks in the NVLink domain; printed since 2.29.
    pub ranks: Option<u32>,
    /// Bytes of a buffer.
    pub buff_size: u64,
    /// Bytes for each rank.
    pub per_rank_size: u64,
    /// All bytes.
    pub total_size: u64,
}

/// The ranks of one head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NvlsHead<'a> {
    /// The head.
    pub head: u32,
    list: &'a [u8],
    /// The line was cut: there may be more ranks.
    pub cut: bool,
}

impl<'a> NvlsHead<'a> {
    /// The head's rank on each node, in order.
    pub fn ranks(&self) -> impl Iterator<Item = u32> + use<'a> {
        split_ranks(self.list)
    }
}

/// Reads any of the lines above. `cut` is true if the line's end is missing.
pub fn parse_nvls(body: &[u8], cut: bool) -> Option<NvlsMessage<'_>> {
    let body = body.strip_prefix(b"NVLS ")?;
    if let Some(rest) = body.strip_prefix(b"Head ") {
        return parse_nvls_head(rest, cut).map(NvlsMessage::Head);
    }
    if cut {
        return None;
    }
    match body.strip_prefix(b"multicast support is ") {
        Some(rest) => whole(support(rest)),
        None => whole(buffers(body)).map(NvlsMessage::Comm),
    }
}

fn parse_nvls_head(text: &[u8], cut: bool) -> Option<NvlsHead<'_>> {
    let (i, _) = blanks(text).ok()?;
    let (i, head) = dec_u32(i).ok()?;
    let (list, _) = word(":", "a colon")(i).ok()?;
    let end = if cut {
        memchr::memrchr(b' ', list)?
    } else {
        list.len()
    };
    let list = &list[..end];
    are_ranks(list).then_some(NvlsHead { head, list, cut })
}

fn support(input: &[u8]) -> PResult<'_, NvlsMessage<'_>> {
    let (i, available) = match input.strip_prefix(b"not ") {
        Some(i) => (i, false),
        None => (input, true),
    };
    let (i, _) = word("available on dev ", "the device")(i)?;
    let (i, dev) = dec_u32(i)?;
    let (i, channels) = match i.strip_prefix(b" (NVLS_NCHANNELS ") {
        Some(i) => {
            let (i, n) = dec_u32(i)?;
            let (i, _) = word(")", "the end of the channels")(i)?;
            (i, Some(n))
        }
        None => (i, None),
    };
    // What a later version adds comes after a comma.
    let i = if i.starts_with(b", ") { &[] } else { i };
    Ok((
        i,
        NvlsMessage::Support {
            available,
            dev,
            channels,
        },
    ))
}

fn buffers(input: &[u8]) -> PResult<'_, NvlsBuffers> {
    let (i, _) = word("comm ", "comm")(input)?;
    let (i, comm) = pointer(i)?;
    let (i, _) = word(" headRank ", "headRank")(i)?;
    let (i, head_rank) = dec_i32(i)?;
    let (i, _) = word(" nHeads ", "nHeads")(i)?;
    let (i, heads) = dec_u32(i)?;
    let (i, ranks) = match i.strip_prefix(b" nvlsRanks ") {
        Some(i) => {
            let (i, n) = dec_u32(i)?;
            (i, Some(n))
        }
        None => (i, None),
    };
    let (i, _) = word(" buffSize ", "buffSize")(i)?;
    let (i, buff_size) = dec_u64(i)?;
    let i = match i.strip_prefix(b" memSize ") {
        Some(i) => dec_u64(i)?.0,
        None => i,
    };
    let (i, _) = word(" nvlsPerRankSize ", "nvlsPerRankSize")(i)?;
    let (i, per_rank_size) = dec_u64(i)?;
    let (i, _) = word(" nvlsTotalSize ", "nvlsTotalSize")(i)?;
    let (i, total_size) = dec_u64(i)?;
    Ok((
        i,
        NvlsBuffers {
            comm,
            head_rank,
            heads,
            ranks,
            buff_size,
            per_rank_size,
            total_size,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_read_by_field() {
        let of = |text: &'static str| parse_nvls(text.as_bytes(), false).unwrap();
        let (available, dev, channels) = (true, 2, Some(16));
        let text = "NVLS multicast support is available on dev 2 (NVLS_NCHANNELS 16)";
        assert_eq!(
            of(text),
            NvlsMessage::Support {
                available,
                dev,
                channels
            }
        );
        for text in [
            "NVLS multicast support is not available on dev 1, transport none, symmetric multimem no",
            "NVLS multicast support is not available on dev 1, more",
        ] {
            let (available, dev, channels) = (false, 1, None);
            let support = NvlsMessage::Support {
                available,
                dev,
                channels,
            };
            assert_eq!(of(text), support);
        }
        let text = "NVLS multicast support is not available on dev 1";
        assert!(matches!(
            of(text),
            NvlsMessage::Support {
                available: false,
                dev: 1,
                channels: None
            }
        ));
        for (text, ranks) in [
            (
                "NVLS comm 0x7f headRank -1 nHeads 4 buffSize 9 memSize 2 nvlsPerRankSize 100 nvlsTotalSize 400",
                None,
            ),
            (
                "NVLS comm 0x7f headRank -1 nHeads 4 nvlsRanks 6 buffSize 9 nvlsPerRankSize 100 nvlsTotalSize 400",
                Some(6),
            ),
        ] {
            let (comm, head_rank, heads) = (0x7f, -1, 4);
            let (buff_size, per_rank_size, total_size) = (9, 100, 400);
            let buffers = NvlsBuffers {
                comm,
                head_rank,
                heads,
                ranks,
                buff_size,
                per_rank_size,
                total_size,
            };
            assert_eq!(of(text), NvlsMessage::Comm(buffers));
        }
        match of("NVLS Head  4:  4 12") {
            NvlsMessage::Head(head) => assert_eq!(head.ranks().collect::<Vec<_>>(), [4, 12]),
            other => panic!("{other:?}"),
        }
        match parse_nvls(b"NVLS Head  4:  4 12 1", true) {
            Some(NvlsMessage::Head(head)) => {
                assert_eq!((head.cut, head.ranks().collect()), (true, vec![4, 12]));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(parse_nvls(b"NVLS Head  4:", false), None);
    }
}
