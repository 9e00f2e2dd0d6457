//! Which calls of the inputs are read again.

use super::deadlock::Rendezvous;
use super::mismatch::same_kind::SimilarCallers;
use crate::stages::check::ranks::limits::CALLS_READ_PAST_DIFFERENCE;
use crate::stages::check::streams::compare::{CommMember, StreamComparison};
use crate::stages::check::streams::reread::WantedCalls;
use crate::stages::check::streams::{CALLS_PER_HASH_BLOCK, CallStreams, ProcessComm, StreamKind};
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
    let mut want = |caller: Option<ProcessComm>, way: StreamKind, block: u64| {
        let Some(caller) = caller else { return };
        // Of the block before it is seen what usually comes.
        let first = block.saturating_sub(1) * CALLS_PER_HASH_BLOCK;
        let stretch = first..(block + 1) * CALLS_PER_HASH_BLOCK + CALLS_READ_PAST_DIFFERENCE;
        let ranges = wanted.entry((caller, way)).or_default();
        ranges.insert(0, stretch);
    };
    let caller = |member: &CommMember| member.caller.map(|caller| *streams.callers.get(caller));
    for apart in compared.apart.iter().chain(&compared.few) {
        for member in &apart.members {
            want(caller(member), StreamKind::Collective, apart.block);
        }
        for &other in kin.get(&apart.communicator).into_iter().flatten() {
            want(Some(other), StreamKind::Collective, apart.block);
        }
    }
    for pair in &compared.unpaired {
        want(
            caller(&pair.from),
            StreamKind::Send(pair.to.peer_rank()),
            pair.block,
        );
        want(
            caller(&pair.to),
            StreamKind::Recv(pair.from.peer_rank()),
            pair.block,
        );
    }
    wanted
}
