//! INIT lines, which name the communicator of an address.
//!
//! ```text
//! comm 0x7efe60002250 rank 15 nranks 64 cudaDev 0 nvmlDev 0 - Init COMPLETE                 2.4-2.17
//! comm 0x2152b590 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 4f000 commId 0xa6ab - Init START  2.18-2.20
//! ncclCommInitRankConfig comm 0x557a rank 0 nranks 4 ... commId 0x8bde - Init COMPLETE        2.21+
//! [Rank 0] ncclCommInitRankConfig comm 0x557a rank 0 nranks 4 ... - Init START                2.29.2+
//! ncclCommSplit comm 0x556d rank 0 nranks 4 ... parent 0x5567 color 20 key 0- Init START      2.21+
//! comm 0x557a33f321e0 rank 1 nranks 4 cudaDev 1 busId 44000 - Destroy COMPLETE
//! comm 0x2152b590 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0                   2.19+
//! ```
//!
//! From `src/init.cc` of those NCCL versions and RCCL, which puts `localSize 384 used 1594278466
//! bytes on core 28` in front of `- Init COMPLETE`. `splitCount` came with 2.24 and is
//! `childCount` in 2.30.

use crate::token::{PResult, dec_i64, dec_u32, hex_u64, is_name_byte, pointer, whole, word};
use memchr::memmem;
use serde::{Deserialize, Serialize};

/// What an INIT line does to the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum InitEvent {
    /// The address now names this communicator.
    Init,
    /// The address names nothing any more.
    End,
}

/// A communicator as one rank's INIT line gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommInit {
    /// Whether it begins or ends.
    pub event: InitEvent,
    /// Its address in this process.
    pub comm: u64,
    /// This process's rank in it.
    pub rank: u32,
    /// Its size.
    pub nranks: u32,
    /// The CUDA device.
    pub dev: Option<u32>,
    /// The id that all members share; printed since 2.18, not on splits of 2.23 to 2.28.
    pub comm_id: Option<u64>,
    /// What it was split from.
    pub split: Option<CommSplit>,
    /// It begins to begin: `Init START`.
    pub start: bool,
}

/// How a communicator was split from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CommSplit {
    /// The other's address.
    pub parent: u64,
    /// How many were split from it before, counted from 1; printed since 2.24.
    pub child: Option<u32>,
    /// Ranks of one color are together.
    pub color: Option<i64>,
}

impl CommInit {
    /// True where the next line of the same address is about the same life of it.
    pub fn is_same_life(&self, next: &CommInit) -> bool {
        let again = next.start && next.comm_id.is_none() && next.split.is_some();
        let member = |init: &CommInit| (init.event, init.rank, init.nranks);
        member(self) == member(next)
            && !again
            && (next.comm_id.is_none() || next.comm_id == self.comm_id)
            && (next.split.is_none() || next.split == self.split)
    }

    /// True where the next line completes what this one began, but for its id: one of the two is glued
    /// to another line's rest.
    pub fn completes(&self, next: &CommInit) -> bool {
        let end = CommInit {
            comm_id: self.comm_id,
            ..*next
        };
        self.start && !next.start && self.comm_id.is_some() && self.is_same_life(&end)
    }
}

/// How far a communicator's life is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum InitStage {
    /// `Init START`.
    InitStart,
    /// `Init COMPLETE`.
    InitComplete,
    /// `Destroy COMPLETE`.
    DestroyComplete,
    /// `Abort COMPLETE`.
    AbortComplete,
}

/// The contents of an INIT line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InitLine<'a> {
    /// Which communicator, and which rank of it.
    pub init: CommInit,
    /// The end of the line.
    pub stage: InitStage,
    /// The function the program called, such as `ncclCommInitRankConfig`; printed since 2.21.
    pub call: Option<&'a [u8]>,
    /// The device's number to NVML, which `CUDA_VISIBLE_DEVICES` does not change.
    pub nvml_dev: Option<u32>,
    /// The PCI bus id, printed in hex.
    pub bus_id: Option<u64>,
    /// The split's key.
    pub key: Option<i64>,
}

/// Where a communicator's ranks are: `comm .. rank .. nRanks .. nNodes ..`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommLayout {
    /// Its address in this process.
    pub comm: u64,
    /// This process's rank in it.
    pub rank: u32,
    /// Its size.
    pub nranks: u32,
    /// Nodes it spans.
    pub nodes: u32,
    /// Its ranks on this node.
    pub local_ranks: u32,
    /// This rank among them.
    pub local_rank: u32,
    /// Whether NVLink goes from node to node (`MNNVL`).
    pub mnnvl: Option<u32>,
}

/// The INIT line's facts, from the message after the header; `None` for any other message.
pub fn parse_init(body: &[u8]) -> Option<CommInit> {
    split_init_line(body).map(|parts| parts.init)
}

/// Reads an INIT line; `None` for any other message.
pub(crate) fn parse_init_line(body: &[u8]) -> Option<InitLine<'_>> {
    let InitLineParts {
        stage,
        init,
        before,
        behind,
    } = split_init_line(body)?;
    let call = before.trim_ascii();
    let call = match call.strip_prefix(b"[Rank ") {
        Some(rest) => memchr::memchr(b' ', rest).map_or(&b""[..], |i| rest[i..].trim_ascii()),
        None => call,
    };
    let mut line = InitLine {
        init,
        stage,
        call: (!call.is_empty() && call.iter().all(|&b| is_name_byte(b))).then_some(call),
        nvml_dev: None,
        bus_id: None,
        key: None,
    };
    let mut words = behind.split(|&b| b == b' ').filter(|word| !word.is_empty());
    while let Some(name) = words.next() {
        let mut value = || words.next().unwrap_or_default();
        match name {
            b"nvmlDev" => line.nvml_dev = whole(dec_u32(value())),
            b"busId" => line.bus_id = whole(hex_u64(value())),
            b"key" => line.key = whole(dec_i64(value())),
            _ => {}
        }
    }
    Some(line)
}

/// Reads the line about how a communicator is spread over its nodes.
pub(crate) fn parse_layout(body: &[u8]) -> Option<CommLayout> {
    whole(layout_line(body))
}

fn layout_line(input: &[u8]) -> PResult<'_, CommLayout> {
    let number = |name: &'static str, input| {
        let (i, _) = word(name, "the next field of the layout")(input)?;
        dec_u32(i)
    };
    let (i, _) = word("comm ", "comm")(input)?;
    let (i, comm) = pointer(i)?;
    let (i, rank) = number(" rank ", i)?;
    let (i, nranks) = number(" nRanks ", i)?;
    let (i, nodes) = number(" nNodes ", i)?;
    let (i, local_ranks) = number(" localRanks ", i)?;
    let (i, local_rank) = number(" localRank ", i)?;
    let (i, mnnvl) = match number(" MNNVL ", i) {
        Ok((i, n)) => (i, Some(n)),
        Err(_) => (i, None),
    };
    Ok((
        i,
        CommLayout {
            comm,
            rank,
            nranks,
            nodes,
            local_ranks,
            local_rank,
            mnnvl,
        },
    ))
}

/// An INIT line taken apart at what all versions print.
struct InitLineParts<'a> {
    stage: InitStage,
    init: CommInit,
    /// The text in front of `comm`.
    before: &'a [u8],
    /// The text between `nranks N` and the stage.
    behind: &'a [u8],
}

const INIT_STAGES: [(&[u8], InitStage, InitEvent); 4] = [
    (b"Init COMPLETE", InitStage::InitComplete, InitEvent::Init),
    (b"Init START", InitStage::InitStart, InitEvent::Init),
    (
        b"Destroy COMPLETE",
        InitStage::DestroyComplete,
        InitEvent::End,
    ),
    (b"Abort COMPLETE", InitStage::AbortComplete, InitEvent::End),
];

/// What a line that ends as an INIT line does is about.
pub fn event_of_line_end(text: &[u8]) -> Option<InitEvent> {
    split_line_end(text.trim_ascii_end()).map(|(_, _, event)| event)
}

fn split_line_end(end: &[u8]) -> Option<(&[u8], InitStage, InitEvent)> {
    INIT_STAGES
        .iter()
        .find_map(|(word, stage, event)| Some((end.strip_suffix(*word)?, *stage, *event)))
}

fn split_init_line(body: &[u8]) -> Option<InitLineParts<'_>> {
    let end = body.trim_ascii_end();
    let (text, stage, event) = split_line_end(end)?;
    // The call's name and `[Rank 0]` may be in front.
    let at = memmem::find(&end[..end.len().min(120)], b"comm 0x")?;
    let (rest, (comm, rank, nranks)) = member(text.get(at..)?).ok()?;
    let value = |name: &[u8]| memmem::find(rest, name).map(|at| &rest[at + name.len()..]);
    let comm_id = value(b" commId 0x").and_then(|text| hex_u64(text).ok());
    let dev = value(b" cudaDev ").and_then(|text| dec_u32(text).ok());
    let behind = rest.trim_ascii_end();
    // `key 0- Init START` has no blank there.
    let behind = behind.strip_suffix(b"-").unwrap_or(behind);
    Some(InitLineParts {
        stage,
        init: CommInit {
            event,
            comm,
            rank,
            nranks,
            dev: dev.map(|(_, dev)| dev),
            comm_id: comm_id.map(|(_, id)| id),
            split: parse_split(behind),
            start: stage == InitStage::InitStart,
        },
        before: &text[..at],
        behind,
    })
}

fn parse_split(behind: &[u8]) -> Option<CommSplit> {
    let at = memmem::find(behind, b" parent 0x")?;
    let mut words = behind[at..].split(|&b| b == b' ').filter(|w| !w.is_empty());
    let (mut parent, mut child, mut color) = (None, None, None);
    while let Some(name) = words.next() {
        let mut value = || words.next().unwrap_or_default();
        match name {
            b"parent" => parent = whole(pointer(value())),
            b"splitCount" | b"childCount" => child = whole(dec_u32(value())),
            b"color" => color = whole(dec_i64(value())),
            _ => {}
        }
    }
    Some(CommSplit {
        parent: parent?,
        child,
        color,
    })
}

fn member(input: &[u8]) -> PResult<'_, (u64, u32, u32)> {
    let (i, _) = word("comm ", "comm")(input)?;
    let (i, comm) = pointer(i)?;
    let (i, _) = word(" rank ", "rank")(i)?;
    let (i, rank) = dec_u32(i)?;
    let (i, _) = word(" nranks ", "nranks")(i)?;
    let (i, nranks) = dec_u32(i)?;
    Ok((i, (comm, rank, nranks)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_versions_line_names_the_member() {
        let of = |text: &str| parse_init(text.as_bytes()).unwrap();
        let old = of("comm 0x7e rank 15 nranks 64 cudaDev 0 nvmlDev 0 - Init COMPLETE");
        assert_eq!(
            (old.comm, old.rank, old.nranks, old.comm_id),
            (0x7e, 15, 64, None)
        );
        for text in [
            "comm 0x7e rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 4f000 commId 0xa6 - Init START",
            "ncclCommInitRank comm 0x7e rank 1 nranks 2 cudaDev 3 nvmlDev 1 busId 17000 commId \
             0xa6 localSize 384 used 159 bytes on core 28 - Init COMPLETE",
            "[Rank 1] ncclCommInitRankConfig comm 0x7e rank 1 nranks 2 cudaDev 0 commId 0xa6 - \
             Init START",
            "ncclCommSplit comm 0x7e rank 1 nranks 2 cudaDev 0 parent 0x5 color 16 key 0 commId \
             0xa6 - Init START",
        ] {
            let got = of(text);
            assert_eq!(got.comm_id, Some(0xa6), "{text}");
            assert_eq!(
                (got.comm, got.rank, got.event),
                (0x7e, 1, InitEvent::Init),
                "{text}"
            );
        }
        let split = of(
            "ncclCommSplit comm 0x9 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 101d0 \
                        parent 0x5 splitCount 1 color 20 key 0- Init START",
        );
        assert_eq!(split.comm_id, None);
        let end = of("comm 0x9 rank 1 nranks 4 cudaDev 1 busId 44000 - Destroy COMPLETE");
        assert_eq!(end.event, InitEvent::End);
    }

    #[test]
    fn other_lines_and_cut_ones_are_not_init() {
        assert_eq!(
            parse_init(b"comm 0x2152b590 rank 0 nRanks 2 nNodes 1 localRanks 2"),
            None
        );
        assert_eq!(parse_init(b"comm 0x7e rank 1 nra - Init COMPLETE"), None);
        assert_eq!(parse_init(b"Connected all rings"), None);
    }

    #[test]
    fn a_line_says_what_its_version_prints() {
        let new = parse_init_line(
            b"[Rank 0] ncclCommInitRankConfig comm 0x557a rank 0 nranks 4 cudaDev 1 nvmlDev 3 \
              busId 4f000 commId 0x8b - Init START",
        )
        .unwrap();
        assert_eq!(new.call, Some(&b"ncclCommInitRankConfig"[..]));
        assert_eq!((new.init.dev, new.nvml_dev), (Some(1), Some(3)));
        assert_eq!(
            (new.bus_id, new.stage),
            (Some(0x4f000), InitStage::InitStart)
        );
        let split = parse_init_line(
            b"ncclCommSplit comm 0x9 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 101d0 parent 0x5 \
              splitCount 1 color 2003953581 key -7- Init START",
        )
        .unwrap();
        let of = CommSplit {
            parent: 5,
            child: Some(1),
            color: Some(2_003_953_581),
        };
        assert_eq!((split.init.split, split.key), (Some(of), Some(-7)));
        let rccl = parse_init_line(
            b"ncclCommInitRank comm 0x7e rank 1 nranks 2 cudaDev 3 nvmlDev 1 busId 17000 commId \
              0xa6 localSize 384 used 159 bytes on core 28 - Init COMPLETE",
        )
        .unwrap();
        assert_eq!(
            (rccl.bus_id, rccl.init.comm_id),
            (Some(0x17000), Some(0xa6))
        );
        let old = parse_init_line(b"comm 0x7e rank 1 nranks 2 cudaDev 0 nvmlDev 0 - Init COMPLETE")
            .unwrap();
        assert_eq!((old.call, old.bus_id, old.key), (None, None, None));
        let end =
            parse_init_line(b"comm 0x9 rank 1 nranks 4 cudaDev 1 busId 44000 - Abort COMPLETE")
                .unwrap();
        assert_eq!(
            (end.stage, end.init.dev),
            (InitStage::AbortComplete, Some(1))
        );
    }

    #[test]
    fn the_layout_says_how_many_nodes() {
        let of =
            parse_layout(b"comm 0x2 rank 3 nRanks 8 nNodes 2 localRanks 4 localRank 3 MNNVL 0");
        let of = of.unwrap();
        assert_eq!((of.rank, of.nranks, of.nodes, of.local_ranks), (3, 8, 2, 4));
        assert_eq!((of.local_rank, of.mnnvl), (3, Some(0)));
        let old = parse_layout(b"comm 0x2 rank 3 nRanks 8 nNodes 2 localRanks 4 localRank 3");
        assert_eq!(old.unwrap().mnnvl, None);
        assert_eq!(
            parse_layout(b"comm 0x2 rank 3 nRanks 8 nNodes 2 localRanks 4 local"),
            None
        );
    }
}
