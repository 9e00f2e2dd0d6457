//! Which ranges of the inputs are read again, and their calls.

use super::RereadInputs;
use super::deadlock::Rendezvous;
use super::mismatch::CallDetails;
use super::mismatch::same_kind::SimilarCallers;
use crate::error::Result;
use crate::source::Input;
use crate::stages::check::log::job_spans::JobCallSpans;
use crate::stages::check::ranks::limits::CALLS_READ_PAST_DIFFERENCE;
use crate::stages::check::streams::compare::{CommMember, StreamComparison};
use crate::stages::check::streams::reread::{RereadSources, WantedCalls, reread_wanted};
use crate::stages::check::streams::step_ends::InputStepEnds;
use crate::stages::check::streams::wanted_streams::RereadSinks;
use crate::stages::check::streams::{CALLS_PER_HASH_BLOCK, CallStreams, ProcessComm, StreamKind};
use crate::stages::check::watchdog::nccl_call;
use crate::stages::communicators::CommunicatorsSummary;

/// Reads the stretches in which streams part, and every stream's last call.
pub(super) fn reread_differences<F: Fn(u32) -> Result<Input>>(
    (compared, met): (&StreamComparison, &Rendezvous),
    kin: &SimilarCallers,
    found: &CommunicatorsSummary,
    streams: &CallStreams,
    (inputs, silence, ends): (
        &RereadInputs<'_, F>,
        &mut JobCallSpans,
        Option<&mut InputStepEnds>,
    ),
) -> Result<CallDetails> {
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
    let those = 0..u32::try_from(inputs.processes.len()).unwrap_or(u32::MAX);
    reread_wanted(
        &wanted,
        &found.processes,
        those,
        &inputs.open,
        RereadSources {
            options: inputs.options,
            streams,
            piped: inputs.piped,
        },
        &mut RereadSinks {
            spans: silence,
            ends,
        },
    )
}
