//! What the system is asked for.
#![allow(unsafe_code, reason = "calls of libc")]

use std::ffi::c_int;

/// Returns a clock's time in ns; 0 if there is no such clock.
fn read_clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is writable.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut time) } != 0;
    if failed {
        return 0;
    }
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

/// Returns the time since the host started, in ns: the kernel's page answers, without a system call.
pub(crate) fn read_monotonic_ns() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

/// Returns the time since 1970, in ns.
pub(crate) fn read_realtime_ns() -> u64 {
    read_clock(libc::CLOCK_REALTIME)
}

/// Returns the name of this host; empty if it has none.
pub(crate) fn read_host_name() -> Vec<u8> {
    let mut name = [0_u8; 256];
    // SAFETY: the length is that of `name`.
    let failed = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) } != 0;
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    if failed { Vec::new() } else { name.to_vec() }
}

/// Returns the system's number of this thread.
pub(crate) fn read_thread_id() -> u32 {
    // SAFETY: it has no arguments and cannot fail.
    u32::try_from(unsafe { libc::syscall(libc::SYS_gettid) }).unwrap_or(0)
}

/// Calls `child` in each process that is forked from this one.
pub(crate) fn call_in_forks(child: unsafe extern "C" fn()) {
    // SAFETY: `child` only writes an atomic number, which is allowed in a fork. The library is never unloaded.
    unsafe { libc::pthread_atfork(None, None, Some(child)) };
}

/// Calls `end` when the process ends in order.
pub(crate) fn call_at_exit(end: extern "C" fn()) {
    // SAFETY: the library is never unloaded.
    unsafe { libc::atexit(end) };
}

/// Starts a thread that no signal of the program comes to: `start` starts it.
pub(crate) fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are writable, and `all` is filled before it is used.
    let failed = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr())
    };
    let started = start();
    if failed == 0 {
        // SAFETY: the call above has filled `before`.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
        }
    }
    started
}

/// The result of a callback: NCCL's `ncclSuccess`.
pub(crate) const SUCCESS: c_int = 0;
