//! Changes of an event's state (`ncclProfilerEventState_t` in `nccl_profiler.h` of NCCL 2.30).

use super::descriptors::StateArgs;
use crate::calls::ChangedState;
use crate::proxies::{ProxyState, StepWait};
use std::ffi::c_int;

/// Returns the content of a state, if it is recorded.
///
/// # Safety
/// `args` is null, or as NCCL makes it for the state.
pub(super) unsafe fn read_state(state: c_int, args: *const StateArgs) -> Option<ChangedState> {
    // SAFETY: as the caller promises; both members are integers.
    let (bytes, gpu_ns) = unsafe {
        let args = args.as_ref();
        args.map_or((0, 0), |args| (args.trans_size as u64, args.p_timer))
    };
    let step = |wait| {
        Some(ChangedState::Proxy(ProxyState {
            wait: Some(wait),
            bytes,
        }))
    };
    match state {
        // The operation's own states: interfaces 1 to 3, with the bytes so far.
        0..=7 => Some(ChangedState::Proxy(ProxyState { wait: None, bytes })),
        8 | 12 => step(StepWait::Gpu),
        20 | 11 => step(StepWait::Peer),
        9 | 10 => step(StepWait::Network),
        22 => Some(ChangedState::KernelStopped { gpu_ns }),
        _ => None,
    }
}
