//! Which calls of the inputs are read again.

use super::deadlock::Rendezvous;
use super::mismatch::same_kind::SimilarCallers;
use crate::stages::check::streams::compare::{MemberStream, StreamComparison};
use crate::stages::check::streams::reread::WantedCalls;
use crate::stages::check::streams::wanted_streams::calls_around_block;
use crate::stages::check::streams::{CallStreams, ProcessComm, StreamKind};
use crate::stages::check::watchdog::nccl_call;

/// Lists the stretches in which streams part, and every stream's last calls.
pub(super) fn list_wanted_calls(
    compared: &StreamComparison,
    met: &Rendezvous,
    kin: &SimilarCallers,
    streams: &CallStreams,
) -> WantedCalls {
    let mut wanted = WantedCalls::default();
    for ((caller, way), &at) in &streams.at {
        let calls = streams.calls_until_hang(at);
        let key = (*streams.callers.get(*caller), *way);
        let last = calls.saturating_sub(nccl_call::CALLS_BEFORE_HANG)..calls;
        wanted.entry(key).or_default().push(last);
    }
    for (number, seq) in met.iter_circle_calls() {
        let key = (*streams.callers.get(number), StreamKind::Collective);
        wanted.entry(key).or_default().push(seq..seq + 1);
    }
    let mut want = |caller: ProcessComm, way: StreamKind, block: u64| {
        let ranges = wanted.entry((caller, way)).or_default();
        ranges.insert(0, calls_around_block(block));
    };
    let mut want_stream = |stream: MemberStream<'_>, block: u64| {
        if let Some(caller) = stream.member.caller {
            want(*streams.callers.get(caller), stream.way, block);
        }
    };
    for apart in compared.apart.iter().chain(&compared.few) {
        for member in &apart.members {
            want_stream(member.collectives(), apart.block);
        }
    }
    for pair in &compared.unpaired {
        want_stream(pair.sends(), pair.block);
        want_stream(pair.receives(), pair.block);
    }
    for apart in compared.apart.iter().chain(&compared.few) {
        for &other in kin.get(&apart.communicator).into_iter().flatten() {
            want(other, StreamKind::Collective, apart.block);
        }
    }
    wanted
}
