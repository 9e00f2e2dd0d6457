//! Standard output that is closed (`>&-`): output to it is lost, which is an error.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Notes whether standard output is closed. Before `main` Rust's runtime opens `/dev/null` in its place
/// (`library/std/src/sys/pal/unix/mod.rs`), so that the first write no longer shows it.
extern "C" fn note_closed_stdout() {
    let flags = rustix::io::fcntl_getfd(rustix::stdio::stdout());
    IS_CLOSED.store(flags.is_err(), Ordering::Relaxed);
}

// SAFETY: the loader calls each function of this section once, before `main` and without other threads; this one takes
// no arguments, and needs nothing of the runtime.
#[used]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
#[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
static NOTE_CLOSED_STDOUT: extern "C" fn() = note_closed_stdout;

/// Returns true if the output is lost.
pub(super) fn is_stdout_closed() -> bool {
    IS_CLOSED.load(Ordering::Relaxed)
}

/// Notes that a file takes the place of standard output.
pub(super) fn record_replaced_stdout() {
    IS_CLOSED.store(false, Ordering::Relaxed);
}
