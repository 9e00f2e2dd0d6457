//! How a communicator's life goes on and ends, beside what [`super::init`] has.
//!
//! ```text
//! comm 0x55 rank 1 nRanks 4 cudaDev 1 busId 44000 commId 0x8b - Finalize START          2.31
//! comm 0x55 rank 1 nranks 4 cudaDev 1 busId 44000 commId 0x8b - Finalize COMPLETE
//! comm 0x55 rank 1 nRanks 4 cudaDev 1 busId 44000 commId 0x8b - Revoke START            2.28
//! comm 0x55 rank 1 nRanks 4 cudaDev 1 busId 44000 commId 0x8b - Revoke COMPLETE, result 0
//! comm 0x55 rank 1 nRanks 4 cudaDev 1 busId 44000 commId 0x8b - Abort START
//! ```
//!
//! From `src/init.cc`. The address names the communicator until `Destroy COMPLETE` or `Abort COMPLETE`.

use crate::token::{PResult, dec_u32, pointer, word};
use memchr::memmem;
use serde::{Deserialize, Serialize};

/// A step in a communicator's life that leaves it at its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommLifeLine {
    /// Its address in this process.
    pub comm: u64,
    /// This process's rank in it.
    pub rank: u32,
    /// Its size.
    pub nranks: u32,
    /// What happened to it.
    pub step: CommLifeStep,
}

/// What happened to a communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommLifeStep {
    /// All that it had to do is done: `Finalize COMPLETE`.
    Finalized,
    /// It takes no more calls: `Revoke COMPLETE, result 0`.
    Revoked,
    /// The program begins to take it down: `Finalize START`, `Destroy START`, `Abort START`.
    TakedownBegun,
    /// `Revoke START`, or a revocation that failed.
    Other,
}

const STEPS: [(&[u8], CommLifeStep); 7] = [
    (b"Finalize COMPLETE", CommLifeStep::Finalized),
    (b"Revoke COMPLETE, result 0", CommLifeStep::Revoked),
    (b"Revoke COMPLETE, result ", CommLifeStep::Other),
    (b"Finalize START", CommLifeStep::TakedownBegun),
    (b"Revoke START", CommLifeStep::Other),
    (b"Abort START", CommLifeStep::TakedownBegun),
    (b"Destroy START", CommLifeStep::TakedownBegun),
];

/// Any of the lines above.
pub(crate) fn parse_life_line(body: &[u8]) -> Option<CommLifeLine> {
    let at = memmem::rfind(body, b" - ")?;
    let end = &body[at + b" - ".len()..];
    let (rest, step) = STEPS
        .iter()
        .find_map(|(words, step)| Some((end.strip_prefix(*words)?, *step)))?;
    // The result's other digits.
    if !rest.iter().all(u8::is_ascii_digit) || (step != CommLifeStep::Other && !rest.is_empty()) {
        return None;
    }
    let (_, (comm, rank, nranks)) = life_member(body).ok()?;
    Some(CommLifeLine {
        comm,
        rank,
        nranks,
        step,
    })
}

fn life_member(input: &[u8]) -> PResult<'_, (u64, u32, u32)> {
    let (i, _) = word("comm ", "comm")(input)?;
    let (i, comm) = pointer(i)?;
    let (i, _) = word(" rank ", "rank")(i)?;
    let (i, rank) = dec_u32(i)?;
    let (i, _) = word(" nranks ", "nranks")(i).or_else(|_| word(" nRanks ", "nRanks")(i))?;
    let (i, nranks) = dec_u32(i)?;
    Ok((i, (comm, rank, nranks)))
}

/// Returns the rank among those of its host that closed its connection to a process's service thread, at its end or by
/// a crash (`src/proxy.cc`).
pub fn read_closed_connection(text: &[u8]) -> Option<u32> {
    let rank = text.strip_prefix(b"[Service thread] Connection closed by localRank ")?;
    Some(dec_u32(rank).ok()?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_names_its_communicator() {
        for (end, step) in [
            (
                "nranks 4 cudaDev 1 busId 44 commId 0x8b - Finalize COMPLETE",
                CommLifeStep::Finalized,
            ),
            (
                "nRanks 4 cudaDev 1 busId 44 commId 0x8b - Revoke COMPLETE, result 0",
                CommLifeStep::Revoked,
            ),
            (
                "nRanks 4 cudaDev 1 busId 44 - Revoke COMPLETE, result 6",
                CommLifeStep::Other,
            ),
            (
                "nRanks 4 cudaDev 1 busId 44 - Abort START",
                CommLifeStep::TakedownBegun,
            ),
            ("nRanks 4 - Destroy START", CommLifeStep::TakedownBegun),
        ] {
            let line = format!("comm 0x55 rank 1 {end}");
            let (comm, rank, nranks) = (0x55, 1, 4);
            let expected = CommLifeLine {
                comm,
                rank,
                nranks,
                step,
            };
            assert_eq!(parse_life_line(line.as_bytes()), Some(expected), "{line}");
        }
        let line = b"comm 0x55 rank 1 nranks 4 cudaDev 1 busId 44 commId 0x8b - Finalize COMPLETE";
        for cut in 0..line.len() {
            assert_eq!(parse_life_line(&line[..cut]), None, "{cut}");
        }
        for none in [
            "comm 0x55 rank 1 nranks 4 - Init COMPLETE",
            "comm 0x55 - Abort START",
            "",
        ] {
            assert_eq!(parse_life_line(none.as_bytes()), None, "{none}");
        }
    }
}
