//! The state of a job as NCCL's RAS collected it once.

use crate::members::comm_id::CommId;
use std::collections::BTreeMap;

/// What RAS answered to one query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RasSnapshot {
    /// NCCL's version, as printed.
    pub nccl_version: Option<Box<str>>,
    /// The local time, as printed; in JSON only.
    pub stamp: Option<Box<str>>,
    /// True for JSON, which lists each rank. Text names only the ranks that differ.
    pub lists_all_ranks: bool,
    /// The GPUs of the job, where a text counts them.
    pub gpus: Option<u32>,
    /// The communicators; of a text those with a difference.
    pub communicators: Vec<RasCommunicator>,
    /// The processes that a text names as missing or dead.
    pub lost: Vec<RasLostProcess>,
    /// True where the input ends within it.
    pub is_cut: bool,
}

/// A process, as RAS names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RasProcess {
    /// The address of its host.
    pub host: Box<str>,
    /// Its process id.
    pub pid: u64,
}

/// A communicator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RasCommunicator {
    /// Its id: the `commId` of the log.
    pub id: CommId,
    /// The number of its ranks.
    pub size: Option<u32>,
    /// The ranks that answered; of a text those with a difference.
    pub ranks: Vec<RasRank>,
    /// The ranks that did not answer.
    pub missing: Vec<RasMissingRank>,
    /// Counts of a text without the numbers of their ranks.
    pub unnamed: Vec<RasCountGroup>,
}

/// Ranks with an equal count that a text does not name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RasCountGroup {
    /// The operation.
    pub op: Box<str>,
    /// The operations that they launched.
    pub count: u64,
    /// The number of these ranks.
    pub ranks: u32,
    /// The line, from 0.
    pub line: u64,
}

/// A rank that answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RasRank {
    /// Its rank in the communicator.
    pub rank: u32,
    /// Its process; not known of most ranks of a text.
    pub process: Option<RasProcess>,
    /// Its state.
    pub state: Option<RasRankState>,
    /// The error that NCCL has for it, as `ncclResult_t`.
    pub error: Option<i32>,
    /// The operations that it launched, by name: of a text those in which ranks differ.
    pub counts: BTreeMap<Box<str>, u64>,
    /// The line, from 0.
    pub line: u64,
}

/// How far a rank is in the life of a communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RasRankState {
    /// It is no member, or no member any more.
    NoMember,
    /// It has not completed the initialisation.
    Initialising,
    /// It is a member.
    Running,
    /// It ends its membership.
    Finalising,
    /// It aborts.
    Aborting,
}

/// A rank that did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RasMissingRank {
    /// Its rank in the communicator.
    pub rank: u32,
    /// Its process.
    pub process: Option<RasProcess>,
    /// True if RAS could not reach the process; a text does not show it here.
    pub is_unresponsive: Option<bool>,
    /// True if RAS gave it up.
    pub is_dead: bool,
    /// The line, from 0.
    pub line: u64,
}

/// A process that RAS could not reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RasLostProcess {
    /// The process.
    pub process: RasProcess,
    /// True if RAS gave it up.
    pub is_dead: bool,
    /// The line, from 0.
    pub line: u64,
}

impl RasCommunicator {
    /// A communicator without ranks.
    pub(super) fn of_id(id: CommId) -> RasCommunicator {
        RasCommunicator {
            id,
            size: None,
            ranks: Vec::new(),
            missing: Vec::new(),
            unnamed: Vec::new(),
        }
    }
}
