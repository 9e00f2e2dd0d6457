//! Reading what another process still writes: a signal ends the input, not the program, which then
//! writes what it has.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What is read at most after a signal, of what is in the pipe already: a kernel's pipe holds
/// 64 KiB, and one that asks for more gets 1 MiB.
const LAST: usize = 1 << 20;

/// What a signal does.
struct Stop {
    /// The signal that came, if one did.
    signal: Arc<AtomicUsize>,
    /// Can be read once a signal came.
    wake: UnixStream,
    /// A signal ends the program: one came before, or no input is left to be ended.
    ends: Arc<AtomicBool>,
}

static STOP: OnceLock<Option<Stop>> = OnceLock::new();

impl Stop {
    fn listen() -> io::Result<Stop> {
        let signal = Arc::new(AtomicUsize::new(0));
        let ends = Arc::new(AtomicBool::new(false));
        let (wake, waker) = UnixStream::pair()?;
        for number in [SIGINT, SIGTERM] {
            // They run in this order.
            flag::register_conditional_shutdown(number, 128 + number, Arc::clone(&ends))?;
            flag::register(number, Arc::clone(&ends))?;
            flag::register_usize(number, Arc::clone(&signal), number as usize)?;
            low_level::pipe::register(number, waker.try_clone()?)?;
        }
        Ok(Stop { signal, wake, ends })
    }

    fn has_come(&self) -> bool {
        self.signal.load(Ordering::Acquire) != 0
    }
}

/// The signal that ended an input, if one did.
pub(crate) fn signal() -> Option<i32> {
    let stop = STOP.get()?.as_ref()?;
    let number = stop.signal.load(Ordering::Acquire);
    i32::try_from(number).ok().filter(|&number| number != 0)
}

/// What there is to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ready {
    /// Something, or the end.
    Some,
    /// A signal came, and nothing is left.
    Ended,
    /// Nothing yet.
    Nothing,
}

/// A pipe, a terminal or another file that may still grow while it is read.
pub(super) struct Live {
    file: File,
    /// What may still be read after a signal.
    last: usize,
}

impl Live {
    /// From now on a first signal ends this input, and a second one the program.
    pub(super) fn new(file: File) -> Live {
        // Without handlers a signal ends the program as it always did.
        if let Some(stop) = STOP.get_or_init(|| Stop::listen().ok())
            && !stop.has_come()
        {
            stop.ends.store(false, Ordering::Release);
        }
        Live { file, last: LAST }
    }

    /// Waits for so long until there is something to read, or the end.
    ///
    /// # Errors
    /// The file cannot be waited for.
    pub(super) fn waits(&self, most: Duration) -> io::Result<bool> {
        match STOP.get() {
            Some(Some(stop)) => Ok(self.wait(stop, Some(most))? != Ready::Nothing),
            _ => Ok(true),
        }
    }

    /// Waits until there is something to read, for as long as is given at `most`.
    fn wait(&self, stop: &Stop, most: Option<Duration>) -> io::Result<Ready> {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let most = most.and_then(|most| Timespec::try_from(most).ok());
        loop {
            let is_last = stop.has_come();
            let mut both = [
                PollFd::from_borrowed_fd(self.file.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(stop.wake.as_fd(), PollFlags::IN),
            ];
            let until = if is_last { Some(&now) } else { most.as_ref() };
            let ready = match poll(&mut both, until) {
                Err(Errno::INTR) => continue,
                ready => ready?,
            };
            if !both[0].revents().is_empty() {
                return Ok(Ready::Some);
            }
            if is_last {
                return Ok(Ready::Ended);
            }
            if ready == 0 {
                return Ok(Ready::Nothing);
            }
        }
    }
}

impl Read for Live {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let Some(Some(stop)) = STOP.get() else {
            return self.file.read(to);
        };
        let mut n = 0;
        if self.wait(stop, None)? == Ready::Some {
            let most = if stop.has_come() {
                to.len().min(self.last)
            } else {
                to.len()
            };
            n = self.file.read(&mut to[..most])?;
            if stop.has_come() {
                self.last = self.last.saturating_sub(n);
            }
        }
        if n == 0 {
            stop.ends.store(true, Ordering::Release);
        }
        Ok(n)
    }
}
