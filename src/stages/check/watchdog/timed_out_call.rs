//! A call that took too long, as PyTorch's watchdog reports it.

use crate::calls::same::Content;
use crate::grammar::message::c10d::C10dTimeout;
use serde::{Deserialize, Serialize};

/// A call that took too long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TimedOutCall {
    /// The first letter of the library that makes it: `N` of NCCL, `H` of HCCL.
    pub library: u8,
    /// PyTorch's number of the call in its process group; not printed before 1.13.
    pub seq: Option<u64>,
    /// PyTorch's name of the operation, `ALLREDUCE`.
    pub op: Box<[u8]>,
    /// Elements in.
    pub numel_in: Option<u64>,
    /// Elements out.
    pub numel_out: Option<u64>,
    /// The limit, in milliseconds.
    pub timeout_ms: u64,
    /// The time that it took, in milliseconds.
    pub ran_ms: Option<f64>,
}

impl From<C10dTimeout<'_>> for TimedOutCall {
    fn from(timeout: C10dTimeout<'_>) -> TimedOutCall {
        TimedOutCall {
            library: timeout.library,
            seq: timeout.seq,
            op: timeout.op.into(),
            numel_in: timeout.numel_in,
            numel_out: timeout.numel_out,
            timeout_ms: timeout.timeout_ms,
            ran_ms: timeout.ran_ms,
        }
    }
}

/// A call of a process group: number, operation, elements in and out.
pub(super) type NumberedCall = (u64, Box<[u8]>, Option<u64>, Option<u64>);

impl TimedOutCall {
    pub(super) fn numbered_call(&self) -> Option<NumberedCall> {
        Some((self.seq?, self.op.clone(), self.numel_in, self.numel_out))
    }

    /// What the members must agree on: the operation, and the elements if all give equally many.
    pub(super) fn content(&self) -> Content<'_> {
        Content {
            op: &self.op,
            count: super::nccl_call::nccl_op_and_count(self).map_or(0, |(_, count)| count),
            datatype: 0,
            redop: 0,
            root: 0,
        }
    }

    /// True for calls between two ranks, which PyTorch numbers apart.
    pub(super) fn is_message(&self) -> bool {
        matches!(&*self.op, b"SEND" | b"RECV" | b"COALESCED")
    }

    /// The number of members: a call that gathers has the elements of all of them on one side.
    pub(super) fn group_size(&self) -> Option<u32> {
        let (one, all) = match &*self.op {
            b"ALLGATHER" | b"_ALLGATHER_BASE" => (self.numel_in?, self.numel_out?),
            b"REDUCE_SCATTER" | b"_REDUCE_SCATTER_BASE" => (self.numel_out?, self.numel_in?),
            _ => return None,
        };
        let size = all
            .checked_div(one)
            .filter(|size| size * one == all && *size > 1);
        u32::try_from(size?).ok()
    }
}
