//! How a communicator's ranks are arranged in rings and trees.
//!
//! ```text
//! Connected all rings, use ring PXN 0 GDR 1
//! 16 coll channels, 16 collnet channels, 16 nvls channels, 16 p2p channels, 2 p2p channels per peer
//! Pattern 4, crossNic 0, nChannels 8, bw 20.000000/20.000000, type NVL/PIX, sameChannels 1
//! P2P Chunksize set to 524288
//! ```
//!
//! From `src/init.cc`, `src/graph/search.cc` and `src/transport/generic.cc`. The rings are
//! `ring`'s, the trees `tree`'s.

pub mod nvls;
mod ring;
pub(crate) mod tree;

use super::communicator::rccl_tail::split_rccl_tail;
use crate::token::{PResult, blanks, dec_u32, dec_u64, fraction, until, whole, word};
pub use ring::MAX_RANKS_OF_LISTED_RING;
use ring::{RingNeighbours, RingRanks};
use serde::{Deserialize, Serialize};
use tree::{TreeList, TreePosition};

/// A line about the arrangement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GraphMessage<'a> {
    /// The ranks around a ring.
    Ring(RingRanks<'a>),
    /// A rank's neighbours on a ring.
    Neighbours(RingNeighbours),
    /// A rank's place in the trees.
    Trees(TreeList<'a>),
    /// A rank's place in one tree.
    Tree(TreePosition),
    /// Connections are up.
    Connected(GraphConnection<'a>),
    /// How many channels there are.
    Channels(ChannelCounts),
    /// What the search for rings or trees found.
    Pattern(GraphPattern<'a>),
    /// Bytes of a piece between two ranks.
    ChunkSize(u64),
}

/// Connections are up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphConnection<'a> {
    /// `all rings`, `all trees`, `NVLS tree`.
    pub what: &'a [u8],
    /// Another rank's NIC is used; printed since 2.21 for rings.
    pub pxn: Option<u32>,
    /// The NICs reach the GPUs' memory; printed since 2.21 for rings.
    pub gdr: Option<u32>,
}

/// How many channels there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChannelCounts {
    /// For collectives.
    pub coll: u32,
    /// For those in the network's switches; printed since 2.19.
    pub collnet: Option<u32>,
    /// For those in the NVLink switches; printed since 2.17.
    pub nvls: Option<u32>,
    /// For `Send` and `Recv`.
    pub p2p: u32,
    /// For one peer of `Send` and `Recv`.
    pub per_peer: u32,
}

/// What the search for rings or trees found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GraphPattern<'a> {
    /// 1 tree, 2 split tree, 3 balanced tree, 4 ring, 5 NVLS, 6 CollNet direct.
    pub pattern: u32,
    /// Rings may change the NIC.
    pub cross_nic: u32,
    /// Channels.
    pub channels: u32,
    /// GB/s of a channel in a node.
    pub bw_intra: f64,
    /// GB/s of a channel between nodes.
    pub bw_inter: f64,
    /// The longest way in a node, `NVL`, `PIX`, `SYS`.
    pub type_intra: &'a [u8],
    /// The longest way to a NIC.
    pub type_inter: &'a [u8],
    /// All channels are alike.
    pub same_channels: u32,
}

/// Reads any of the lines above. `cut` is true if the line's end is missing: the whole items of a list are
/// returned, and `None` for a line that is no list.
pub fn parse_graph(body: &[u8], cut: bool) -> Option<GraphMessage<'_>> {
    if let Some(rest) = body.strip_prefix(b"Trees") {
        return tree::parse_trees(rest, cut).map(GraphMessage::Trees);
    }
    if let Some(rest) = body.strip_prefix(b"Channel ") {
        return ring::parse_ring(rest, cut).map(GraphMessage::Ring);
    }
    if cut {
        return None;
    }
    if let Some(rest) = body.strip_prefix(b"Ring ") {
        return ring::parse_neighbours(rest).map(GraphMessage::Neighbours);
    }
    if let Some(rest) = body.strip_prefix(b"Tree ") {
        return tree::parse_single_tree(rest).map(GraphMessage::Tree);
    }
    if let Some(rest) = body.strip_prefix(b"Connected ") {
        return parse_connected(rest).map(GraphMessage::Connected);
    }
    if let Some(rest) = body.strip_prefix(b"Pattern ") {
        return whole(pattern(rest)).map(GraphMessage::Pattern);
    }
    if let Some(rest) = body.strip_prefix(b"P2P Chunksize set to ") {
        return whole(dec_u64(rest)).map(GraphMessage::ChunkSize);
    }
    whole(channels(body)).map(GraphMessage::Channels)
}

fn parse_connected(text: &[u8]) -> Option<GraphConnection<'_>> {
    let (text, _) = split_rccl_tail(text);
    let (what, use_ring) = match until(", use ring ", "what is connected")(text) {
        Ok((rest, what)) => (what, Some(rest)),
        Err(_) => (text, None),
    };
    let known = [
        "all rings",
        "all trees",
        "NVLS tree",
        "binomial trees",
        "collnet",
    ];
    if !known
        .iter()
        .any(|known| known.as_bytes().eq_ignore_ascii_case(what))
    {
        return None;
    }
    let (pxn, gdr) = match use_ring {
        Some(rest) => {
            let (rest, _) = word("PXN ", "PXN")(rest).ok()?;
            let (rest, pxn) = dec_u32(rest).ok()?;
            let (rest, _) = word(" GDR ", "GDR")(rest).ok()?;
            (Some(pxn), Some(whole(dec_u32(rest))?))
        }
        None => (None, None),
    };
    Some(GraphConnection { what, pxn, gdr })
}

fn channels(input: &[u8]) -> PResult<'_, ChannelCounts> {
    let more = |i, name: &'static str| match dec_u32(i).and_then(|(i, n)| {
        let (i, _) = word(name, "a kind of channels")(i)?;
        Ok((i, n))
    }) {
        Ok((i, n)) => (i, Some(n)),
        Err(_) => (i, None),
    };
    let (i, coll) = dec_u32(input)?;
    let (i, _) = word(" coll channels, ", "coll channels")(i)?;
    let (i, collnet) = more(i, " collnet channels, ");
    let (i, nvls) = more(i, " nvls channels, ");
    let (i, p2p) = dec_u32(i)?;
    let (i, _) = word(" p2p channels, ", "p2p channels")(i)?;
    let (i, per_peer) = dec_u32(i)?;
    let (i, _) = word(" p2p channels per peer", "per peer")(i)?;
    Ok((
        i,
        ChannelCounts {
            coll,
            collnet,
            nvls,
            p2p,
            per_peer,
        },
    ))
}

fn pattern(input: &[u8]) -> PResult<'_, GraphPattern<'_>> {
    let (i, pattern) = dec_u32(input)?;
    let (i, _) = word(", crossNic ", "crossNic")(i)?;
    let (i, cross_nic) = dec_u32(i)?;
    let (i, _) = word(", nChannels ", "nChannels")(i)?;
    let (i, channels) = dec_u32(i)?;
    let (i, _) = word(", ", "bw")(i)?;
    // `speed` up to 2.13.
    let (i, _) = word("bw ", "bw")(i).or_else(|_| word("speed ", "bw or speed")(i))?;
    let (i, bw_intra) = fraction(i)?;
    let (i, _) = word("/", "bw between nodes")(i)?;
    let (i, bw_inter) = fraction(i)?;
    let (i, _) = word(", type ", "type")(i)?;
    let (i, type_intra) = until("/", "type")(i)?;
    let (i, type_inter) = until(", sameChannels ", "type between nodes")(i)?;
    let (i, same_channels) = dec_u32(i)?;
    let (i, _) = blanks(i)?;
    Ok((
        i,
        GraphPattern {
            pattern,
            cross_nic,
            channels,
            bw_intra,
            bw_inter,
            type_intra,
            type_inter,
            same_channels,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &'static str) -> GraphMessage<'static> {
        parse_graph(text.as_bytes(), false).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn the_other_lines_are_read_by_field() {
        let (what, pxn, gdr) = (&b"all rings"[..], Some(0), Some(1));
        let rings = GraphMessage::Connected(GraphConnection { what, pxn, gdr });
        assert_eq!(of("Connected all rings, use ring PXN 0 GDR 1"), rings);
        assert!(matches!(of("Connected NVLS tree"), GraphMessage::Connected(c) if c.gdr.is_none()));
        assert_eq!(parse_graph(b"Connected to proxy localRank 1", false), None);
        let text = "16 coll channels, 8 nvls channels, 32 p2p channels, 2 p2p channels per peer";
        let (coll, collnet, nvls, p2p, per_peer) = (16, None, Some(8), 32, 2);
        let channels = ChannelCounts {
            coll,
            collnet,
            nvls,
            p2p,
            per_peer,
        };
        assert_eq!(of(text), GraphMessage::Channels(channels));
        match of(
            "Pattern 4, crossNic 0, nChannels 8, bw 20.5/24.000000, type NVL/PIX, sameChannels 1",
        ) {
            GraphMessage::Pattern(p) => {
                assert_eq!(
                    (p.pattern, p.bw_intra, p.type_inter),
                    (4, 20.5, &b"PIX"[..])
                );
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(
            of("P2P Chunksize set to 524288"),
            GraphMessage::ChunkSize(524_288)
        );
    }
}
