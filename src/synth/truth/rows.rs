//! The shapes of the truth's JSON.

use serde::Serialize;
use std::collections::BTreeMap;

/// Calls and their bytes. Bytes are written as decimal strings: JSON readers that keep numbers
/// as doubles would round them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TruthCallSum {
    /// How many.
    pub calls: u64,
    /// Count times element size.
    #[serde(serialize_with = "as_string")]
    pub bytes: u128,
}

impl TruthCallSum {
    /// Adds calls with their bytes.
    pub fn add_calls(&mut self, calls: u64, bytes: u128) {
        self.calls += calls;
        self.bytes += bytes;
    }
}

fn as_string<S: serde::Serializer>(n: &u128, s: S) -> Result<S::Ok, S::Error> {
    s.collect_str(n)
}

/// One printed step line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepTruthRow {
    /// Restarts before it.
    pub segment: u64,
    /// The trainer's number of the (last) step.
    pub step: u64,
    /// How many steps it covers.
    pub steps: u64,
    /// Their calls.
    #[serde(flatten)]
    pub sum: TruthCallSum,
    /// Time of a step as printed.
    pub time_s: Option<f64>,
    /// TFLOP/s per GPU as printed.
    pub tflops: Option<f64>,
}

/// Calls that belong to no step, and the step they follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BetweenStepsRow {
    /// Restarts before it.
    pub segment: u64,
    /// The step they follow.
    pub after_step: u64,
    /// `eval`, `checkpoint`, or `unfinished`: steps without a line because of a restart.
    pub what: &'static str,
    /// The calls.
    #[serde(flatten)]
    pub sum: TruthCallSum,
}

/// An operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct OpRow {
    /// Its calls.
    #[serde(flatten)]
    pub sum: TruthCallSum,
    /// The smallest.
    #[serde(serialize_with = "as_string")]
    pub min_bytes: u128,
    /// The largest.
    #[serde(serialize_with = "as_string")]
    pub max_bytes: u128,
}

/// Equal calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CellRow {
    /// Operation as printed.
    pub op: &'static str,
    /// Elements.
    pub count: u64,
    /// Their type.
    pub datatype: &'static str,
    /// The communicator's purpose.
    pub comm_kind: &'static str,
    /// How many.
    pub calls: u64,
    /// Bytes of one.
    #[serde(serialize_with = "as_string")]
    pub bytes: u128,
}

/// Calls of an operation by size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BucketRow {
    /// Operation as printed.
    pub op: &'static str,
    /// Its name in `nccl-hist`.
    pub bucket: &'static str,
    /// The calls.
    #[serde(flatten)]
    pub sum: TruthCallSum,
}

/// A process's side of a communicator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemberRow {
    /// Rank in the communicator.
    pub rank: usize,
    /// Rank in the job.
    pub global_rank: usize,
    /// Host name as printed.
    pub host: String,
    /// Process id.
    pub pid: u64,
    /// CUDA device.
    pub dev: usize,
    /// The pointer its lines print.
    pub comm: String,
}

/// A communicator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CommRow {
    /// Restarts before it.
    pub segment: u64,
    /// The id its members share; of a split that prints none `parent/child.color`.
    pub comm_id: String,
    /// The id of the one it was split from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The split's color.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color: Option<u64>,
    /// `world`, `tp`, `dp`, `pp` or `ep`.
    pub kind: &'static str,
    /// Members.
    pub nranks: usize,
    /// Hosts.
    pub nodes: usize,
    /// The calls of all members.
    #[serde(flatten)]
    pub sum: TruthCallSum,
    /// By rank.
    pub members: Vec<MemberRow>,
}

/// Lines a kind of damage hit, and calls among them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DamageHits {
    /// Lines.
    pub lines: u64,
    /// COLL lines.
    pub calls: u64,
}

/// Calls that can no longer be read whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LostCallsRow {
    /// How many.
    pub calls: u64,
    /// Those of them that lack only the end of the stream pointer: such a line
    /// looks whole. Only overwriting does that.
    pub in_stream_only: u64,
    /// How many, by operation.
    pub by_op: BTreeMap<&'static str, u64>,
}

/// Calls with a line in two pieces that can be joined again.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct JoinableCalls {
    /// Cut after 128 bytes, tail later.
    pub torn: u64,
    /// The step line stands in its middle.
    pub spliced: u64,
    /// Header and body on different lines.
    pub orphan: u64,
}

/// The lines of the file, by what wrote them. They count records: a torn line is one.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RecordCounts {
    /// COLL, one a call.
    pub coll: u64,
    /// CALL twins and group calls.
    pub call: u64,
    /// Other INFO, WARN and VERSION lines.
    pub other: u64,
    /// Step lines with a step's number.
    pub step: u64,
    /// Everything else the trainer prints; empty lines too.
    pub foreign: u64,
    /// COLL records directly after a progress bar that ended without a newline.
    pub behind_a_bar: u64,
}
