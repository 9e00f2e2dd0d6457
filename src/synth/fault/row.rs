//! The fault in the truth's JSON. A field that means nothing for the kind is null.

use serde::Serialize;

/// The fault, and where the log shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FaultRow {
    /// Its name in `--fault`.
    pub kind: &'static str,
    /// The rank in the job; null for a fact of a host.
    pub rank: Option<usize>,
    /// The host, as printed.
    pub host: String,
    /// The process; null for a fact of a host.
    pub pid: Option<u64>,
    /// The step, in the trainer's numbers.
    pub step: Option<u64>,
    /// The communicator of the wrong or missing call, as in `communicators`.
    pub comm_id: Option<String>,
    /// Its purpose.
    pub comm_kind: Option<&'static str>,
    /// The rank in it.
    pub comm_rank: Option<usize>,
    /// The call's number among the collectives of this rank on this communicator, from 0; of
    /// Send and Recv, among those in this direction with this peer.
    pub seq: Option<u64>,
    /// The call as it should be.
    pub expected: Option<CallRow>,
    /// The call made in its place; null where it is missing.
    pub made: Option<CallRow>,
    /// Where it was made, if on another communicator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made_comm_id: Option<String>,
    /// The ranks that make another number of steps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<usize>,
    /// The fact of the host, or the phase of the initialisation.
    pub fact: Option<HostFactRow>,
    /// The first line that is wrong, from 1; of a missing call, the rank's last call before it.
    /// Null in a stream written in blocks.
    pub line: Option<u64>,
    /// Its file; null where there is one stream.
    pub file: Option<String>,
    /// The last call of a rank that ends.
    pub last_call: Option<LastCallRow>,
    /// The job does not end.
    pub hangs: bool,
}

/// A call as on its line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallRow {
    /// As printed.
    pub op: &'static str,
    /// Elements.
    pub count: u64,
    /// Their type.
    pub datatype: &'static str,
    /// `ncclRedOp_t`.
    pub redop: u32,
    /// Root, or peer of Send and Recv.
    pub root: usize,
}

/// The last call of a rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastCallRow {
    /// The call.
    #[serde(flatten)]
    pub call: CallRow,
    /// Its communicator.
    pub comm_id: String,
    /// Its number, as [`FaultRow::seq`].
    pub seq: u64,
    /// Its line, from 1.
    pub line: u64,
}

/// A fact of a host, or of a starting rank, that differs from the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostFactRow {
    /// Which fact it is.
    pub what: String,
    /// The value of the others.
    pub expected: String,
    /// Its own value.
    pub made: String,
}
