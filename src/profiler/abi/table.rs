//! The symbols that NCCL looks up: a table of functions for each version (`ncclProfiler_vN_t` in `profiler_vN.h`).

use super::begun::ReadDescriptor;
use super::callbacks::{
    Logger, begin_comm, comm_facts, end_comm, record_state, start_event, stop_event,
};
use super::descriptors::{
    DescriptorV1, DescriptorV2, DescriptorV3, DescriptorV4, DescriptorV5, DescriptorV6, StateArgs,
};
use nccl_pipe_recording::CommFacts;
use std::ffi::{c_char, c_int, c_void};

/// The table of a version: its `init` is an `I`, its descriptor a `D`.
#[repr(C)]
pub(super) struct ProfilerTable<I, D> {
    name: *const c_char,
    init: I,
    start_event: unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *const D) -> c_int,
    stop_event: unsafe extern "C" fn(*mut c_void) -> c_int,
    record_state: unsafe extern "C" fn(*mut c_void, c_int, *const StateArgs) -> c_int,
    finalize: unsafe extern "C" fn(*mut c_void) -> c_int,
}

// SAFETY: it points to functions and to a text; all are constant.
unsafe impl<I, D> Sync for ProfilerTable<I, D> {}

/// `init` of versions 1 to 3.
type InitV1 = unsafe extern "C" fn(*mut *mut c_void, *mut c_int) -> c_int;
/// `init` of version 4.
type InitV4 = unsafe extern "C" fn(
    *mut *mut c_void,
    *mut c_int,
    *const c_char,
    u64,
    c_int,
    c_int,
    c_int,
    Logger,
) -> c_int;
/// `init` of versions 5 and 6.
type InitV5 = unsafe extern "C" fn(
    *mut *mut c_void,
    u64,
    *mut c_int,
    *const c_char,
    c_int,
    c_int,
    c_int,
    Logger,
) -> c_int;

/// # Safety
/// Both are writable.
unsafe extern "C" fn init_v1<const INTERFACE: u32>(
    context: *mut *mut c_void,
    mask: *mut c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { begin_comm(INTERFACE, context, mask, CommFacts::default(), None) }
}

/// # Safety
/// `context` and `mask` are writable, `name` is null or ends with 0.
#[allow(clippy::too_many_arguments, reason = "they are NCCL's")]
unsafe extern "C" fn init_v4(
    context: *mut *mut c_void,
    mask: *mut c_int,
    name: *const c_char,
    comm_hash: u64,
    nnodes: c_int,
    nranks: c_int,
    rank: c_int,
    logger: Logger,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        let facts = comm_facts(comm_hash, name, nnodes, nranks, rank);
        begin_comm(4, context, mask, facts, logger)
    }
}

/// # Safety
/// `context` and `mask` are writable, `name` is null or ends with 0.
#[allow(clippy::too_many_arguments, reason = "they are NCCL's")]
unsafe extern "C" fn init_v5<const INTERFACE: u32>(
    context: *mut *mut c_void,
    comm_id: u64,
    mask: *mut c_int,
    name: *const c_char,
    nnodes: c_int,
    nranks: c_int,
    rank: c_int,
    logger: Logger,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        let facts = comm_facts(comm_id, name, nnodes, nranks, rank);
        begin_comm(INTERFACE, context, mask, facts, logger)
    }
}

/// Makes a table.
const fn table<I, D: ReadDescriptor>(init: I) -> ProfilerTable<I, D> {
    ProfilerTable {
        name: c"nccl-pipe".as_ptr(),
        init,
        start_event: start_event::<D>,
        stop_event,
        record_state,
        finalize: end_comm,
    }
}

/// Exports the table of a version.
macro_rules! export {
    ($($symbol:ident: $init:ty = $function:expr, $descriptor:ty;)+) => {
        $(
            #[allow(non_upper_case_globals, reason = "NCCL's name")]
            #[unsafe(no_mangle)]
            pub(super) static $symbol: ProfilerTable<$init, $descriptor> = table($function);
        )+
    };
}

export! {
    ncclProfiler_v1: InitV1 = init_v1::<1>, DescriptorV1;
    ncclProfiler_v2: InitV1 = init_v1::<2>, DescriptorV2;
    ncclProfiler_v3: InitV1 = init_v1::<3>, DescriptorV3;
    ncclProfiler_v4: InitV4 = init_v4, DescriptorV4;
    ncclProfiler_v5: InitV5 = init_v5::<5>, DescriptorV5;
    ncclProfiler_v6: InitV5 = init_v5::<6>, DescriptorV6;
}
