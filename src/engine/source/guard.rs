//! Memory maps, and the message for a mapped file that is truncated under us. The only `unsafe` blocks.

#![allow(unsafe_code)]

use super::limits::MAX_FILE_MAPS;
use memmap2::{Advice, Mmap, UncheckedAdvice};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Once, OnceLock};

/// A mapped file.
pub(super) struct FileMap {
    map: Mmap,
    known: &'static GuardedMap,
    _held: HeldMap,
}

/// One of the maps that may exist at a time.
struct HeldMap;

static MAPS_HELD: AtomicUsize = AtomicUsize::new(0);

impl HeldMap {
    fn take_one() -> Option<HeldMap> {
        let held = HeldMap;
        let others = MAPS_HELD.fetch_add(1, Ordering::Relaxed);
        (others < MAX_FILE_MAPS).then_some(held)
    }
}

impl Drop for HeldMap {
    fn drop(&mut self) {
        MAPS_HELD.fetch_sub(1, Ordering::Relaxed);
    }
}

impl FileMap {
    /// Maps `file`; `None` if it cannot be mapped (a pipe, `/proc`), or if [`MAX_FILE_MAPS`] are: then it is
    /// read.
    pub(super) fn new(file: &File, name: String) -> Option<FileMap> {
        explain_sigbus();
        let held = HeldMap::take_one()?;
        // SAFETY: the map is shared and read-only. Another process may still change the file:
        // changed bytes are only ever read as plain bytes, never as anything with an invariant
        // (no `str`, no kept lengths); truncation raises SIGBUS, which `explain_sigbus` turns
        // into a message and exit code 2.
        let map = unsafe { Mmap::map(file) }.ok()?;
        // Only advice: a kernel that does not know it maps all the same.
        let _ = map.advise(Advice::Sequential);
        let known = remember_map(&map, name);
        Some(FileMap {
            map,
            known,
            _held: held,
        })
    }

    /// Asks the kernel to map a range at once: cheaper than a fault for every few pages.
    pub(super) fn prefetch_range(&self, from: usize, len: usize) {
        // Only advice, and only Linux 5.14+ knows it.
        let _ = self.map.advise_range(Advice::PopulateRead, from, len);
    }

    /// Gives the memory of a range back: it is read from the file again if it is needed.
    pub(super) fn release_range(&self, from: usize, len: usize) {
        // SAFETY: the map is of a file, shared and read-only, so that dropped pages come back from the
        // file. Only advice: without it the pages stay.
        let _ = unsafe {
            self.map
                .unchecked_advise_range(UncheckedAdvice::DontNeed, from, len)
        };
    }

    /// The file's bytes as they were when it was mapped.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.map
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        self.known.len.store(0, Ordering::Release);
    }
}

/// Standard input as a file, to ask whether it can be mapped.
pub(super) fn stdin_file() -> io::Result<File> {
    let stdin = io::stdin();
    let fd: BorrowedFd<'_> = stdin.as_fd();
    Ok(File::from(fd.try_clone_to_owned()?))
}

// The maps that exist, for the signal handler: a list that only grows. Nothing is ever freed, so the
// handler can walk it at any moment.
struct GuardedMap {
    start: AtomicUsize,
    len: AtomicUsize,
    name: AtomicPtr<String>,
    next: AtomicPtr<GuardedMap>,
}

/// The program's name, for the message.
static PROGRAM: AtomicPtr<&'static str> = AtomicPtr::new(ptr::null_mut());

static NAME: OnceLock<&'static str> = OnceLock::new();

/// The program's name, for commands in messages.
pub fn program_name() -> &'static str {
    NAME.get().copied().unwrap_or("nccl-pipe")
}

/// Sets the program's name, for the message.
pub fn name_program(name: &'static str) {
    // The first name stays.
    let _ = NAME.set(name);
    PROGRAM.store(Box::into_raw(Box::new(name)), Ordering::Release);
}

static MAPS: AtomicPtr<GuardedMap> = AtomicPtr::new(ptr::null_mut());

fn remember_map(map: &Mmap, name: String) -> &'static GuardedMap {
    let known: &'static GuardedMap = Box::leak(Box::new(GuardedMap {
        start: AtomicUsize::new(map.as_ptr() as usize),
        len: AtomicUsize::new(map.len()),
        name: AtomicPtr::new(Box::into_raw(Box::new(name))),
        next: AtomicPtr::new(ptr::null_mut()),
    }));
    let mut head = MAPS.load(Ordering::Acquire);
    loop {
        known.next.store(head, Ordering::Release);
        let new = ptr::from_ref(known).cast_mut();
        match MAPS.compare_exchange(head, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return known,
            Err(now) => head = now,
        }
    }
}

/// Installs, once, a handler that reports which log shrank and exits with 2. A SIGBUS outside our maps
/// keeps its usual effect.
fn explain_sigbus() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: a zeroed `sigaction` is a valid one (no flags, empty mask); the handler only
        // does what signal-safety(7) allows: atomic loads, write(2), signal(2), raise(3) and
        // _exit(2).
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_sigbus as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGBUS, &action, ptr::null_mut());
        }
    });
}

extern "C" fn on_sigbus(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel hands a valid `siginfo_t` to a handler installed with SA_SIGINFO.
    let address = unsafe { (*info).si_addr() } as usize;
    let mut at = MAPS.load(Ordering::Acquire);
    while !at.is_null() {
        // SAFETY: entries are leaked, so a non-null pointer in the list is always valid, and so
        // is its name.
        let known = unsafe { &*at };
        let start = known.start.load(Ordering::Acquire);
        let len = known.len.load(Ordering::Acquire);
        if len > 0 && (start..start + len.next_multiple_of(1 << 16)).contains(&address) {
            // SAFETY: see above.
            let name = unsafe { &*known.name.load(Ordering::Acquire) };
            let program = PROGRAM.load(Ordering::Acquire);
            if !program.is_null() {
                // SAFETY: a name is leaked before it is stored.
                write_stderr(unsafe { *program }.as_bytes());
                write_stderr(b": ");
            }
            write_stderr(b"error: ");
            write_stderr(name.as_bytes());
            write_stderr(
                b": the file was truncated while it was read (a restarted job truncates its log), or \
                  its disk failed; read it again, or a log that is still being written with --follow\n",
            );
            // SAFETY: ends the process without running anything else.
            unsafe { libc::_exit(2) }
        }
        at = known.next.load(Ordering::Acquire);
    }
    // SAFETY: gives the signal back its usual effect and raises it anew.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

fn write_stderr(text: &[u8]) {
    let stderr = io::stderr();
    // SAFETY: writes initialised bytes of known length; a failure cannot be reported.
    unsafe { libc::write(stderr.as_raw_fd(), text.as_ptr().cast(), text.len()) };
}
