//! Callers, and what recorded their calls.

use crate::members::comm_id::CommId;
use crate::members::job_ranks::JobRanks;
use crate::members::{MergedMembers, SpeakerComm};
use crate::output::table::{Row, Timing};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// The caller of a call, as far as known.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Caller {
    /// The host.
    pub host: Box<[u8]>,
    /// The process.
    pub pid: Option<u64>,
    /// The CUDA device.
    pub dev: Option<u32>,
    /// The communicator's address.
    pub comm: Option<u64>,
    /// The communicator's id.
    pub comm_id: Option<CommId>,
    /// The rank in it.
    pub rank: Option<u32>,
    /// The rank in the job.
    pub global_rank: Option<u32>,
    /// The recorder of its calls, if a tally is exact.
    pub recorded: CallProvenance,
}

impl Caller {
    /// Fills in the caller's columns of a row.
    pub fn fill_row<'r>(&'r self, row: Row<'r>) -> Row<'r> {
        Row {
            host: &self.host,
            pid: self.pid,
            dev: self.dev,
            rank: self.rank,
            global_rank: self.global_rank,
            comm: self.comm,
            comm_id: self.comm_id,
            src: &self.recorded.src,
            ..row
        }
    }
}

/// What recorded calls (columns of the table) and how they were served. Times of two clocks are not comparable.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct CallProvenance {
    /// Their source.
    pub src: Box<[u8]>,
    /// Which clock their times are on.
    pub clock: Box<[u8]>,
    /// The quality of their times.
    pub quality: Box<[u8]>,
    /// NCCL's algorithm.
    pub algo: Box<[u8]>,
    /// NCCL's protocol.
    pub proto: Box<[u8]>,
    /// NCCL's channels.
    pub nchannels: Option<u32>,
    /// PyTorch's name for the process group.
    pub pg_name: Box<[u8]>,
    /// The program's name for it.
    pub pg_desc: Box<[u8]>,
}

impl CallProvenance {
    pub(super) fn new(src: &[u8], timing: &Timing<'_>) -> CallProvenance {
        CallProvenance {
            src: src.into(),
            clock: timing.clock.into(),
            quality: timing.quality.into(),
            algo: timing.algo.into(),
            proto: timing.proto.into(),
            nchannels: timing.nchannels,
            pg_name: timing.pg_name.into(),
            pg_desc: timing.pg_desc.into(),
        }
    }

    /// The timing of calls that took `dur_ns` together.
    pub fn timing_of_calls(&self, dur_ns: Option<u64>) -> Timing<'_> {
        Timing {
            dur_ns,
            clock: &self.clock,
            quality: &self.quality,
            start_ns: None,
            algo: &self.algo,
            proto: &self.proto,
            nchannels: self.nchannels,
            pg_name: &self.pg_name,
            pg_desc: &self.pg_desc,
        }
    }
}

/// Returns a merged member's columns.
pub fn caller_of(
    merged: &MergedMembers,
    renamed: &FxHashMap<u32, u32>,
    ranks: &JobRanks,
    member: &SpeakerComm,
) -> Caller {
    caller_in(merged, merged, renamed, ranks, member)
}

/// Like [`caller_of`] after an earlier walk: `all` is what that walk merged
/// ([`MergedMembers::with_names_after`]), and `renamed` are its
/// [`MergedMembers::renamed_processes`].
pub fn caller_in(
    merged: &MergedMembers,
    all: &MergedMembers,
    renamed: &FxHashMap<u32, u32>,
    ranks: &JobRanks,
    member: &SpeakerComm,
) -> Caller {
    let place = merged.origins.places.get(member.place);
    let process = place.process;
    let real = renamed.get(&process).copied().unwrap_or(process);
    let identity = merged
        .identity_of(member)
        .or_else(|| all.sole_identity(process, real, member.comm));
    let process = merged.origins.processes.get(real);
    Caller {
        host: process.host.clone(),
        pid: process.pid,
        dev: place.dev,
        comm: Some(member.comm),
        comm_id: identity.and_then(|i| i.comm_id),
        rank: identity.map(|i| i.rank),
        global_rank: ranks.rank_of(real, identity.as_ref()),
        recorded: CallProvenance::default(),
    }
}
