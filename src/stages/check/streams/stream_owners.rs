//! The owner of each caller's calls: its process, communicator and rank.

use super::{CallStreams, ProcessComm};
use crate::stages::check::ranks::unnamed_communicators;
use crate::stages::communicators::CommunicatorsSummary;
use rustc_hash::FxHashMap;

/// The owner of a caller's calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamOwner {
    /// The process.
    pub(crate) process: u32,
    /// The communicator.
    pub(crate) communicator: usize,
    /// The rank in it, if it is known.
    pub(crate) rank: Option<u32>,
}

/// Finds the owner of each caller's calls, if it is known.
pub(crate) fn find_stream_owners(
    found: &CommunicatorsSummary,
    streams: &CallStreams,
) -> FxHashMap<ProcessComm, StreamOwner> {
    let mut of_side: FxHashMap<usize, usize> = FxHashMap::default();
    for (at, communicator) in found.communicators.iter().enumerate() {
        of_side.extend(communicator.sides.iter().map(|&side| (side, at)));
    }
    let mut all = FxHashMap::default();
    for (caller, member) in streams.callers.items().iter().zip(&streams.member) {
        let Some(&side) = found.side_of.get(member) else {
            continue;
        };
        let rank = found.sides[side].rank;
        let known = |at: &&usize| {
            rank.is_some()
                || unnamed_communicators::grouping_of(&found.communicators[**at]).is_some()
        };
        if let Some(&communicator) = of_side.get(&side).filter(known) {
            let process = found.sides[side].process;
            all.insert(
                *caller,
                StreamOwner {
                    process,
                    communicator,
                    rank,
                },
            );
        }
    }
    all
}
