//! INIT lines that say which communicator an address is.
//!
//! ```text
//! comm 0x7efe60002250 rank 15 nranks 64 cudaDev 0 nvmlDev 0 - Init COMPLETE                 2.4-2.17
//! comm 0x2152b590 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 4f000 commId 0xa6ab - Init START  2.18-2.20
//! ncclCommInitRankConfig comm 0x557a rank 0 nranks 4 ... commId 0x8bde - Init COMPLETE        2.21+
//! [Rank 0] ncclCommInitRankConfig comm 0x557a rank 0 nranks 4 ... - Init START                2.29.2+
//! ncclCommSplit comm 0x556d rank 0 nranks 4 ... parent 0x5567 color 20 key 0- Init START      2.21+
//! comm 0x557a33f321e0 rank 1 nranks 4 cudaDev 1 busId 44000 - Destroy COMPLETE
//! ```
//!
//! From `src/init.cc` of those NCCL versions and RCCL.

use super::token::{PResult, dec_u32, hex_u64, pointer, word};
use memchr::memmem;

/// What an INIT line does to the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The address now names this communicator.
    Init,
    /// The address names nothing any more.
    End,
}

/// A communicator as one rank's INIT line gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Init {
    /// Whether it begins or ends.
    pub event: Event,
    /// Its address in this process.
    pub comm: u64,
    /// This process's rank in it.
    pub rank: u32,
    /// Its size.
    pub nranks: u32,
    /// The id that all members share; printed since 2.18, not on splits of 2.23+.
    pub comm_id: Option<u64>,
}

/// The INIT line's facts, from the message behind the header; `None` for any other message.
pub fn message(body: &[u8]) -> Option<Init> {
    let end = body.trim_ascii_end();
    let event = if end.ends_with(b"Init COMPLETE") || end.ends_with(b"Init START") {
        Event::Init
    } else if end.ends_with(b"Destroy COMPLETE") || end.ends_with(b"Abort COMPLETE") {
        Event::End
    } else {
        return None;
    };
    // The call's name and `[Rank 0]` may stand in front.
    let comm = memmem::find(&end[..end.len().min(120)], b"comm 0x")?;
    let (rest, (comm, rank, nranks)) = member(&end[comm..]).ok()?;
    let comm_id = memmem::find(rest, b" commId 0x")
        .and_then(|at| hex_u64(&rest[at + b" commId 0x".len()..]).ok())
        .map(|(_, id)| id);
    Some(Init {
        event,
        comm,
        rank,
        nranks,
        comm_id,
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
        let of = |text: &str| message(text.as_bytes()).unwrap();
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
                (0x7e, 1, Event::Init),
                "{text}"
            );
        }
        let split = of(
            "ncclCommSplit comm 0x9 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 101d0 \
                        parent 0x5 splitCount 1 color 20 key 0- Init START",
        );
        assert_eq!(split.comm_id, None);
        let end = of("comm 0x9 rank 1 nranks 4 cudaDev 1 busId 44000 - Destroy COMPLETE");
        assert_eq!(end.event, Event::End);
    }

    #[test]
    fn other_lines_and_cut_ones_are_not_init() {
        assert_eq!(
            message(b"comm 0x2152b590 rank 0 nRanks 2 nNodes 1 localRanks 2"),
            None
        );
        assert_eq!(message(b"comm 0x7e rank 1 nra - Init COMPLETE"), None);
        assert_eq!(message(b"Connected all rings"), None);
    }
}
