//! The functions that NCCL calls. None of them fails: a job does not end because it is recorded.

use super::begun::{ReadDescriptor, handle};
use super::descriptors::StateArgs;
use super::states::read_state;
use super::words::forget_words;
use crate::calls::{Comm, change_event, end_event};
use crate::recorder::{self, Recorder};
use crate::system::SUCCESS;
use nccl_pipe_recording::CommFacts;
use nccl_pipe_recording::limits::MAX_NAME_BYTES;
use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// `ncclDebugLogger_t` (`nccl_common.h`)
pub(super) type Logger =
    Option<unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, ...)>;

/// `NCCL_LOG_INFO` and `NCCL_LOG_WARN`, and the subsystem `NCCL_INIT`, there.
const LOG_INFO: c_int = 3;
const LOG_WARN: c_int = 2;
const SUBSYSTEM_INIT: c_ulong = 1;

/// Calls `work`; a panic ends there.
fn guard(work: impl FnOnce()) -> c_int {
    let _ = catch_unwind(AssertUnwindSafe(work));
    SUCCESS
}

/// Begins a communicator.
///
/// # Safety
/// `context` and `mask` are writable.
pub(super) unsafe fn begin_comm(
    interface: u32,
    context: *mut *mut c_void,
    mask: *mut c_int,
    facts: CommFacts,
    logger: Logger,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { *context = std::ptr::null_mut() };
    guard(|| {
        forget_words();
        let is_known = facts.nranks > 0;
        let (recorder, notice) = recorder::begin_recorder(interface);
        if let Some(notice) = notice {
            report(logger, recorder.is_some(), &notice);
        }
        let Some(recorder) = recorder else {
            return;
        };
        if let Some(comm) = recorder.add_comm(facts) {
            if is_known {
                comm.begin();
            }
            // SAFETY: as the caller promises.
            unsafe { set_active(&recorder, comm, context, mask) };
        }
    })
}

/// # Safety
/// `context` and `mask` are writable.
unsafe fn set_active(
    recorder: &Recorder,
    comm: Arc<Comm>,
    context: *mut *mut c_void,
    mask: *mut c_int,
) {
    // The pointer's reference is never given back: NCCL may use it after `finalize`.
    let comm = Arc::into_raw(comm).cast_mut().cast();
    // SAFETY: as the caller promises.
    unsafe {
        *context = comm;
        *mask = recorder.event_mask() as c_int;
    }
}

/// Returns the facts that `init` has from version 4 on.
///
/// # Safety
/// `name` is null or ends with 0.
pub(super) unsafe fn comm_facts(
    id: u64,
    name: *const c_char,
    nnodes: c_int,
    nranks: c_int,
    rank: c_int,
) -> CommFacts {
    let name = match name.is_null() {
        true => b"",
        // SAFETY: as the caller promises.
        false => unsafe { CStr::from_ptr(name) }.to_bytes(),
    };
    CommFacts {
        id,
        name: name[..name.len().min(MAX_NAME_BYTES)].into(),
        nranks: u32::try_from(nranks).unwrap_or(0),
        nnodes: u32::try_from(nnodes).unwrap_or(0),
        rank: u32::try_from(rank).ok(),
    }
}

/// Writes a notice into NCCL's log, or a failure to standard error where NCCL lends no log.
fn report(logger: Logger, is_recorded: bool, notice: &str) {
    let Some(log) = logger else {
        if !is_recorded {
            let _ = writeln!(std::io::stderr(), "nccl-pipe: {notice}");
        }
        return;
    };
    let text: Vec<u8> = notice
        .bytes()
        .filter(|&byte| byte != 0)
        .chain([0])
        .collect();
    let level = if is_recorded { LOG_INFO } else { LOG_WARN };
    // SAFETY: NCCL's own function, with a format that takes one text; all of them end with 0.
    unsafe {
        log(
            level,
            SUBSYSTEM_INIT,
            c"nccl-pipe".as_ptr(),
            0,
            c"PROFILER/nccl-pipe: %s".as_ptr(),
            text.as_ptr().cast::<c_char>(),
        );
    }
}

/// `startEvent` of a version.
///
/// # Safety
/// `context` is null or from `init`; `out` is writable; `descriptor` is null or as NCCL makes it.
pub(super) unsafe extern "C" fn start_event<D: ReadDescriptor>(
    context: *mut c_void,
    out: *mut *mut c_void,
    descriptor: *const D,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { *out = std::ptr::null_mut() };
    guard(|| {
        // SAFETY: a communicator is never freed.
        let comm = unsafe { context.cast::<Comm>().as_ref() };
        // SAFETY: as the caller promises.
        let descriptor = unsafe { descriptor.as_ref() };
        if let (Some(comm), Some(descriptor)) = (comm, descriptor) {
            // SAFETY: as the caller promises.
            unsafe {
                let begun = comm.begin_event(descriptor.read_event());
                *out = begun.0 as *mut c_void;
            }
        }
    })
}

/// `stopEvent`: all versions have the same one.
pub(super) unsafe extern "C" fn stop_event(event: *mut c_void) -> c_int {
    guard(|| end_event(handle(event)))
}

/// `recordEventState`: all versions, see [`StateArgs`].
///
/// # Safety
/// `args` is null or as NCCL makes it.
pub(super) unsafe extern "C" fn record_state(
    event: *mut c_void,
    state: c_int,
    args: *const StateArgs,
) -> c_int {
    guard(|| {
        // SAFETY: as the caller promises.
        if let Some(changed) = unsafe { read_state(state, args) } {
            change_event(handle(event), changed);
        }
    })
}

/// `finalize`: all versions have the same one.
///
/// # Safety
/// `context` is null or from `init`.
pub(super) unsafe extern "C" fn end_comm(context: *mut c_void) -> c_int {
    guard(|| {
        // SAFETY: a communicator is never freed.
        if let Some(comm) = unsafe { context.cast::<Comm>().as_ref() } {
            comm.end();
            recorder::wake_current_writer();
        }
    })
}
