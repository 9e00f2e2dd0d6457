//! Which stretches of the inputs are read again, and what is found there.

use super::Inputs;
use super::deadlock::Met;
use super::mismatch::same_kind::Kin;
use super::mismatch::{AHEAD, Details};
use crate::error::Result;
use crate::source::Input;
use crate::stages::check::log::job_spans::Silence;
use crate::stages::check::streams::compare::{Compared, Ranked};
use crate::stages::check::streams::reread::{Wanted, again};
use crate::stages::check::streams::step_ends::StepEnds;
use crate::stages::check::streams::{BLOCK, Caller, Streams, Way};
use crate::stages::check::watchdog::nccl_call;
use crate::stages::communicators::Found;

/// Reads the stretches in which streams part, and every stream's last call.
pub(super) fn read_again<F: Fn(u32) -> Result<Input>>(
    (compared, met): (&Compared, &Met),
    kin: &Kin,
    found: &Found,
    streams: &Streams,
    (inputs, silence, ends): (&Inputs<'_, F>, &mut Silence, Option<&mut StepEnds>),
) -> Result<Details> {
    let mut wanted = Wanted::default();
    for ((caller, way), &at) in &streams.at {
        let calls = streams.calls(at);
        let key = (*streams.callers.get(*caller), *way);
        let last = calls.saturating_sub(nccl_call::BACK)..calls;
        wanted.entry(key).or_default().push(last);
    }
    for (number, seq) in met.wanted() {
        let key = (*streams.callers.get(number), Way::Collective);
        wanted.entry(key).or_default().push(seq..seq + 1);
    }
    let mut want = |caller: Option<Caller>, way: Way, block: u64| {
        let Some(caller) = caller else { return };
        // Of the block before it is seen what usually comes.
        let first = block.saturating_sub(1) * BLOCK;
        let stretch = first..(block + 1) * BLOCK + AHEAD;
        let ranges = wanted.entry((caller, way)).or_default();
        ranges.insert(0, stretch);
    };
    let caller = |member: &Ranked| member.caller.map(|caller| *streams.callers.get(caller));
    for apart in compared.apart.iter().chain(&compared.few) {
        for member in &apart.members {
            want(caller(member), Way::Collective, apart.block);
        }
        for &other in kin.get(&apart.communicator).into_iter().flatten() {
            want(Some(other), Way::Collective, apart.block);
        }
    }
    for pair in &compared.unpaired {
        want(caller(&pair.from), Way::Send(pair.to.peer()), pair.block);
        want(caller(&pair.to), Way::Recv(pair.from.peer()), pair.block);
    }
    let those = 0..u32::try_from(inputs.processes.len()).unwrap_or(u32::MAX);
    again(
        &wanted,
        &found.processes,
        those,
        &inputs.open,
        (inputs.options, streams, inputs.piped),
        (silence, ends),
    )
}
