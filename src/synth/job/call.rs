//! A call in a rank's program: operation, datatype, count, group.

use crate::options::Options;
use crate::rng::hash_parts;

/// An operation, named as NCCL's COLL lines name it (`src/collectives.cc`; note `AlltoAll`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallOp {
    AllReduce,
    AllGather,
    ReduceScatter,
    Broadcast,
    Reduce,
    AlltoAll,
    Gather,
    Scatter,
    Send,
    Recv,
}

impl CallOp {
    /// As printed.
    pub fn name(self) -> &'static str {
        match self {
            CallOp::AllReduce => "AllReduce",
            CallOp::AllGather => "AllGather",
            CallOp::ReduceScatter => "ReduceScatter",
            CallOp::Broadcast => "Broadcast",
            CallOp::Reduce => "Reduce",
            CallOp::AlltoAll => "AlltoAll",
            CallOp::Gather => "Gather",
            CallOp::Scatter => "Scatter",
            CallOp::Send => "Send",
            CallOp::Recv => "Recv",
        }
    }
}

/// NCCL's number of a datatype (`ncclDataType_t`, nccl.h.in).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallDtype {
    Int8 = 0,
    Uint8 = 1,
    Int32 = 2,
    Int64 = 4,
    Fp16 = 6,
    Fp32 = 7,
    Fp64 = 8,
    Bf16 = 9,
    Fp8E4m3 = 10,
}

impl CallDtype {
    /// The name in the call table.
    pub fn name(self) -> &'static str {
        match self {
            CallDtype::Int8 => "int8",
            CallDtype::Uint8 => "uint8",
            CallDtype::Int32 => "int32",
            CallDtype::Int64 => "int64",
            CallDtype::Fp16 => "fp16",
            CallDtype::Fp32 => "fp32",
            CallDtype::Fp64 => "fp64",
            CallDtype::Bf16 => "bf16",
            CallDtype::Fp8E4m3 => "fp8_e4m3",
        }
    }

    /// Bytes of an element.
    pub fn size(self) -> u64 {
        match self {
            CallDtype::Int8 | CallDtype::Uint8 | CallDtype::Fp8E4m3 => 1,
            CallDtype::Fp16 | CallDtype::Bf16 => 2,
            CallDtype::Int32 | CallDtype::Fp32 => 4,
            CallDtype::Int64 | CallDtype::Fp64 => 8,
        }
    }
}

/// How many different counts a token exchange can have; few, so that the truth stays small.
pub(crate) const DISTINCT_TOKEN_COUNTS: u64 = 24;

/// Elements of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CallCount {
    /// Always the same.
    Fixed(u64),
    /// Tokens routed from one rank to another in this place of the step: sender and receiver
    /// work it out from the same numbers.
    Tokens {
        /// The place in the step.
        place: u64,
        /// Global rank.
        from: u64,
        /// Global rank.
        to: u64,
    },
}

/// A call in a rank's program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScheduledCall {
    /// What.
    pub op: CallOp,
    /// Slot in `members` of its process.
    pub slot: usize,
    /// Elements.
    pub count: CallCount,
    /// Of what.
    pub dtype: CallDtype,
    /// `ncclRedOp_t`: 0 sum, 2 max, 4 avg; 0 where it means nothing.
    pub redop: u32,
    /// Root, or peer of Send and Recv, as a rank in the communicator.
    pub root: usize,
    /// Made by autograd's thread.
    pub backward: bool,
    /// Place in its group; calls of a group share an opCount.
    pub task: u32,
    /// The group goes on after this call.
    pub more: bool,
    /// Made in every step, or only in every fourth.
    pub every: u64,
    /// Where it is counted; for token exchanges the first of [`TOKEN_COUNTS`] + 1 cells.
    pub cell: usize,
}

impl ScheduledCall {
    /// The elements in this step, and the cell to count the call in.
    pub(crate) fn count_and_cell(&self, options: &Options, step: u64) -> (u64, usize) {
        match self.count {
            CallCount::Fixed(count) => (count, self.cell),
            CallCount::Tokens { place, from, to } => {
                let h = hash_parts(options.seed, &[step, place, from, to]);
                if options.zero_counts && (h >> 40) & 7 == 0 {
                    return (0, self.cell);
                }
                let i = 1 + h % DISTINCT_TOKEN_COUNTS;
                (token_count(i), self.cell + i as usize)
            }
        }
    }
}

/// Elements of the so-manyth count of a token exchange.
pub(crate) fn token_count(i: u64) -> u64 {
    4096 * i * i
}
