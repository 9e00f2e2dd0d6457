//! How a communicator's ranks are arranged in rings and trees.
//!
//! ```text
//! Channel 00/02 :    0   1   2   3            the ring, printed by rank 0; RCCL has no colon
//! Ring 00 : 7 -> 0 -> 1
//! Trees [0] 1/-1/-1->0->-1 [1] ...            children -> rank -> parent
//! Trees [0] 15/-1/-1->12->8|8->12->15/-1/-1   2.5-2.7: up, then down
//! Trees [0] 0->2->3/-1/-1                     2.4: parent -> rank -> children
//! Tree 0 : -1 -> 0 -> 1/-1/-1
//! Connected all rings, use ring PXN 0 GDR 1
//! 16 coll channels, 16 collnet channels, 16 nvls channels, 16 p2p channels, 2 p2p channels per peer
//! Pattern 4, crossNic 0, nChannels 8, bw 20.000000/20.000000, type NVL/PIX, sameChannels 1
//! P2P Chunksize set to 524288
//! ```
//!
//! From `src/init.cc`, `src/graph/{rings,connect,search}.cc` and `src/transport/generic.cc`. NCCL's
//! own buffer cuts the list of trees at 1,022 bytes, RCCL's at 2,047.

use super::tail::{Tail, untailed};
use crate::grammar::token::{
    PResult, blanks, dec_i32, dec_u32, dec_u64, fail, fraction, until, whole, word,
};
use memchr::memmem;

/// A line about the arrangement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Graph<'a> {
    /// The ranks around a ring.
    Ring(Ring<'a>),
    /// A rank's neighbours on a ring.
    Neighbours(Neighbours),
    /// A rank's place in the trees.
    Trees(Trees<'a>),
    /// A rank's place in one tree.
    Tree(Tree),
    /// Connections are up.
    Connected(Connected<'a>),
    /// How many channels there are.
    Channels(Channels),
    /// What the search for rings or trees found.
    Pattern(Pattern<'a>),
    /// Bytes of a piece between two ranks.
    ChunkSize(u64),
}

/// The ranks around a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ring<'a> {
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
pub struct Neighbours {
    /// The ring.
    pub ring: u32,
    /// The rank before.
    pub previous: i32,
    /// The rank.
    pub rank: u32,
    /// The rank behind.
    pub next: i32,
    /// The communicator; printed by RCCL.
    pub of: Option<Tail>,
}

/// A rank's place in the trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trees<'a> {
    list: &'a [u8],
    /// The line was cut: there may be more trees.
    pub cut: bool,
    /// The communicator; printed by RCCL.
    pub of: Option<Tail>,
}

/// A rank's place in one tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tree {
    /// The tree.
    pub index: u32,
    /// The rank.
    pub rank: u32,
    /// The rank it hands on to.
    pub parent: Option<u32>,
    /// The ranks it takes from.
    pub children: [Option<u32>; 3],
}

/// Connections are up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connected<'a> {
    /// `all rings`, `all trees`, `NVLS tree`.
    pub what: &'a [u8],
    /// Another rank's network card is used; printed since 2.21 for rings.
    pub pxn: Option<u32>,
    /// The network cards reach the GPUs' memory; printed since 2.21 for rings.
    pub gdr: Option<u32>,
}

/// How many channels there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channels {
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
pub struct Pattern<'a> {
    /// 1 tree, 2 split tree, 3 balanced tree, 4 ring, 5 NVLS, 6 CollNet direct.
    pub pattern: u32,
    /// Rings may change the network card.
    pub cross_nic: u32,
    /// Channels.
    pub channels: u32,
    /// GB/s of a channel in a node.
    pub bw_intra: f64,
    /// GB/s of a channel between nodes.
    pub bw_inter: f64,
    /// The longest way in a node, `NVL`, `PIX`, `SYS`.
    pub type_intra: &'a [u8],
    /// The longest way to a network card.
    pub type_inter: &'a [u8],
    /// All channels are alike.
    pub same_channels: u32,
}

impl<'a> Ring<'a> {
    /// The ranks in order.
    pub fn ranks(&self) -> impl Iterator<Item = u32> + use<'a> {
        ranks(self.list)
    }
}

impl<'a> Trees<'a> {
    /// The trees in the line's order.
    pub fn iter(&self) -> impl Iterator<Item = Tree> + use<'a> {
        let mut rest = self.list;
        std::iter::from_fn(move || {
            let (after, tree) = tree(rest).ok()?;
            rest = after;
            Some(tree)
        })
    }
}

/// Numbers with blanks between.
pub(super) fn ranks(text: &[u8]) -> impl Iterator<Item = u32> {
    let words = text.split(|&b| b == b' ').filter(|word| !word.is_empty());
    words.map_while(|word| whole(dec_u32(word)))
}

/// True for nothing but numbers with blanks between, at least one.
pub(super) fn are_ranks(text: &[u8]) -> bool {
    let mut words = text.split(|&b| b == b' ').filter(|word| !word.is_empty());
    !text.trim_ascii().is_empty() && words.all(|word| whole(dec_u32(word)).is_some())
}

/// Any of the lines above. `cut` says that the line's end is missing: of a list what is whole is
/// given, of a line that is no list nothing.
pub fn graph(body: &[u8], cut: bool) -> Option<Graph<'_>> {
    if let Some(rest) = body.strip_prefix(b"Trees") {
        return trees(rest, cut).map(Graph::Trees);
    }
    if let Some(rest) = body.strip_prefix(b"Channel ") {
        return ring(rest, cut).map(Graph::Ring);
    }
    if cut {
        return None;
    }
    if let Some(rest) = body.strip_prefix(b"Ring ") {
        return neighbours(rest).map(Graph::Neighbours);
    }
    if let Some(rest) = body.strip_prefix(b"Tree ") {
        return single(rest).map(Graph::Tree);
    }
    if let Some(rest) = body.strip_prefix(b"Connected ") {
        return connected(rest).map(Graph::Connected);
    }
    if let Some(rest) = body.strip_prefix(b"Pattern ") {
        return whole(pattern(rest)).map(Graph::Pattern);
    }
    if let Some(rest) = body.strip_prefix(b"P2P Chunksize set to ") {
        return whole(dec_u64(rest)).map(Graph::ChunkSize);
    }
    whole(channels(body)).map(Graph::Channels)
}

/// Where NCCL's and RCCL's own buffers for the trees end.
const TREES_CUT: usize = 1018;
const RCCL_TREES_CUT: usize = 2040;

fn trees(text: &[u8], cut: bool) -> Option<Trees<'_>> {
    let (list, of) = if cut { (text, None) } else { untailed(text) };
    let longest = if of.is_some() {
        RCCL_TREES_CUT
    } else {
        TREES_CUT
    };
    let mut trees = Trees {
        list,
        cut: cut || list.len() >= longest,
        of,
    };
    let mut rest = list;
    while let Ok((after, _)) = tree(rest) {
        rest = after;
    }
    if trees.cut {
        // The last one may be half a number.
        trees.list = &list[..memmem::rfind(list, b" [")?];
    } else if !rest.is_empty() {
        return None;
    }
    trees.iter().next().map(|_| trees)
}

/// ` [0] 1/-1/-1->0->-1` and the older shapes.
fn tree(input: &[u8]) -> PResult<'_, Tree> {
    let (i, _) = word(" [", "a tree's number")(input)?;
    let (i, index) = dec_u32(i)?;
    let (i, _) = word("] ", "the end of a tree's number")(i)?;
    let (i, tree) = place(i, index, "->")?;
    // Up and down, which say the same twice.
    match i.strip_prefix(b"|") {
        Some(i) => place(i, index, "->"),
        None => Ok((i, tree)),
    }
}

/// `children->rank->parent` or `parent->rank->children`: the children are those with strokes.
fn place<'a>(input: &'a [u8], index: u32, arrow: &'static str) -> PResult<'a, Tree> {
    let (i, left) = side(input)?;
    let (i, _) = word(arrow, "the rank")(i)?;
    let (i, rank) = dec_u32(i)?;
    let (i, _) = word(arrow, "the other side")(i)?;
    let (i, right) = side(i)?;
    let (children, parent) = match (left, right) {
        ((children, true), (parent, false)) | ((parent, false), (children, true)) => {
            (children, parent[0])
        }
        _ => return fail(input, "children and a parent"),
    };
    Ok((
        i,
        Tree {
            index,
            rank,
            parent,
            children,
        },
    ))
}

/// `1/-1/-1` or `-1`, and whether it is three.
fn side(input: &[u8]) -> PResult<'_, ([Option<u32>; 3], bool)> {
    let rank = |input| dec_i32(input).map(|(i, n)| (i, u32::try_from(n).ok()));
    let (i, first) = rank(input)?;
    let Some(i) = i.strip_prefix(b"/") else {
        return Ok((i, ([first, None, None], false)));
    };
    let (i, second) = rank(i)?;
    let (i, _) = word("/", "a third child")(i)?;
    let (i, third) = rank(i)?;
    Ok((i, ([first, second, third], true)))
}

/// `0 : -1 -> 0 -> 1/-1/-1`.
fn single(text: &[u8]) -> Option<Tree> {
    let (text, _) = untailed(text);
    let (i, index) = dec_u32(text).ok()?;
    let (i, _) = word(" : ", "a colon")(i).ok()?;
    whole(place(i, index, " -> "))
}

fn ring(text: &[u8], cut: bool) -> Option<Ring<'_>> {
    let (list, (channel, channels)) = ring_start(text).ok()?;
    let (list, _) = if cut { (list, None) } else { untailed(list) };
    // Of a cut line the last number may be half of one.
    let list = if cut {
        &list[..memchr::memrchr(b' ', list)?]
    } else {
        list
    };
    are_ranks(list).then_some(Ring {
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

fn neighbours(text: &[u8]) -> Option<Neighbours> {
    let (text, of) = untailed(text);
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
            Neighbours {
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

fn connected(text: &[u8]) -> Option<Connected<'_>> {
    let (text, _) = untailed(text);
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
    Some(Connected { what, pxn, gdr })
}

fn channels(input: &[u8]) -> PResult<'_, Channels> {
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
        Channels {
            coll,
            collnet,
            nvls,
            p2p,
            per_peer,
        },
    ))
}

fn pattern(input: &[u8]) -> PResult<'_, Pattern<'_>> {
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
        Pattern {
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

    fn of(text: &'static str) -> Graph<'static> {
        graph(text.as_bytes(), false).unwrap_or_else(|| panic!("{text}"))
    }

    fn trees_of(text: &'static str) -> Vec<Tree> {
        match of(text) {
            Graph::Trees(trees) => trees.iter().collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn trees_of_all_versions_say_parent_and_children() {
        let (index, rank, parent) = (0, 12, Some(8));
        let children = [Some(15), Some(3), None];
        let tree = Tree {
            index,
            rank,
            parent,
            children,
        };
        assert_eq!(trees_of("Trees [0] 15/3/-1->12->8"), [tree]);
        assert_eq!(trees_of("Trees [0] 15/3/-1->12->8|8->12->15/3/-1"), [tree]);
        assert_eq!(trees_of("Trees [0] 8->12->15/3/-1"), [tree]);
        assert_eq!(of("Tree 0 : 8 -> 12 -> 15/3/-1"), Graph::Tree(tree));
        let two = "Trees [0] 1/-1/-1->0->-1 [1] -1/-1/-1->0->1 comm 0x3d nRanks 02 busId 97000";
        let list = trees_of(two);
        assert_eq!(
            (list.len(), list[0].parent, list[1].parent),
            (2, None, Some(1))
        );
    }

    #[test]
    fn of_cut_trees_only_whole_ones_are_given() {
        let line = b"Trees [0] 15/-1/-1->12->8 [1] 8/-1/-1->12->15 [2] 15/-1/-1->12->88";
        let all: Vec<_> = match graph(line, false) {
            Some(Graph::Trees(trees)) => trees.iter().collect(),
            other => panic!("{other:?}"),
        };
        for cut in 0..line.len() {
            if let Some(Graph::Trees(trees)) = graph(&line[..cut], true) {
                let got: Vec<_> = trees.iter().collect();
                assert!(trees.cut && all.starts_with(&got), "{cut} {got:?}");
            }
        }
        // RCCL's own buffer is full, and a tail follows.
        let mut long = b"Trees".to_vec();
        let mut n = 0;
        while long.len() < 2045 {
            long.extend_from_slice(format!(" [{n}] -1/-1/-1->0->12").as_bytes());
            n += 1;
        }
        long.extend_from_slice(b" comm 0x3d nRanks 02 busId 97000");
        match graph(&long, false) {
            Some(Graph::Trees(trees)) => {
                assert_eq!((trees.cut, trees.iter().count()), (true, n - 1))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_ring_is_listed_in_order() {
        for (text, channels) in [
            ("Channel 01/02 :    0   1  10", Some(2)),
            ("Channel 01 :    0   1  10", None),
            ("Channel 01/02      0   1  10 comm 0x3d nRanks 03", Some(2)),
        ] {
            match of(text) {
                Graph::Ring(ring) => {
                    assert_eq!(
                        (ring.channel, ring.channels, ring.cut),
                        (1, channels, false)
                    );
                    assert_eq!(ring.ranks().collect::<Vec<_>>(), [0, 1, 10], "{text}");
                }
                other => panic!("{other:?}"),
            }
        }
        match graph(b"Channel 01/02 :    0   1  10", true) {
            Some(Graph::Ring(ring)) => assert_eq!(ring.ranks().collect::<Vec<_>>(), [0, 1]),
            other => panic!("{other:?}"),
        }
        assert_eq!(graph(b"Channel 00/0 : 0[0] -> 1[1]", false), None);
    }

    #[test]
    fn the_other_lines_are_read_by_field() {
        let near = Neighbours {
            ring: 0,
            previous: 7,
            rank: 0,
            next: -1,
            of: None,
        };
        assert_eq!(of("Ring 00 : 7 -> 0 -> -1"), Graph::Neighbours(near));
        let (what, pxn, gdr) = (&b"all rings"[..], Some(0), Some(1));
        let rings = Graph::Connected(Connected { what, pxn, gdr });
        assert_eq!(of("Connected all rings, use ring PXN 0 GDR 1"), rings);
        assert!(matches!(of("Connected NVLS tree"), Graph::Connected(c) if c.gdr.is_none()));
        assert_eq!(graph(b"Connected to proxy localRank 1", false), None);
        let text = "16 coll channels, 8 nvls channels, 32 p2p channels, 2 p2p channels per peer";
        let (coll, collnet, nvls, p2p, per_peer) = (16, None, Some(8), 32, 2);
        let channels = Channels {
            coll,
            collnet,
            nvls,
            p2p,
            per_peer,
        };
        assert_eq!(of(text), Graph::Channels(channels));
        match of(
            "Pattern 4, crossNic 0, nChannels 8, bw 20.5/24.000000, type NVL/PIX, sameChannels 1",
        ) {
            Graph::Pattern(p) => {
                assert_eq!(
                    (p.pattern, p.bw_intra, p.type_inter),
                    (4, 20.5, &b"PIX"[..])
                );
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(of("P2P Chunksize set to 524288"), Graph::ChunkSize(524_288));
    }
}
