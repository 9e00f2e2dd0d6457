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
use std::time::{Duration, Instant};

/// What is read at most after a signal, of what is in the pipe already: a kernel's pipe holds
/// 64 KiB, and one that asks for more gets 1 MiB.
const LAST: usize = 1 << 20;

/// How long a pipe without new bytes is waited for before what has come is looked at.
pub(super) const IDLE: Duration = Duration::from_millis(20);

/// How long a pipe that never rests is read before what has come is looked at, unless so much comes in
/// that time that it is handed over anyway.
const PATIENT: Duration = Duration::from_millis(40);
const MUCH: usize = 1 << 20;

/// Whether a reader reports that its input is idle, as [`io::ErrorKind::WouldBlock`]: off at first, and
/// once for each time that it is.
#[derive(Debug, Clone, Default)]
pub(super) struct Idles(Arc<[AtomicBool; 2]>);

impl Idles {
    /// Switches the reports on or off.
    pub(super) fn switch(&self, on: bool) {
        let [is_on, is_reported] = &*self.0;
        is_on.store(on, Ordering::Relaxed);
        is_reported.store(false, Ordering::Relaxed);
    }

    /// True where it is to be reported that nothing comes.
    pub(super) fn are_wanted(&self) -> bool {
        let [is_on, is_reported] = &*self.0;
        is_on.load(Ordering::Relaxed) && !is_reported.load(Ordering::Relaxed)
    }

    /// It is reported, or something came.
    pub(super) fn reported(&self, is_reported: bool) {
        self.0[1].store(is_reported, Ordering::Relaxed);
    }
}

/// What has come of an input that may never rest.
#[derive(Debug, Default)]
pub(super) struct Came(Option<(Instant, usize)>);

impl Came {
    /// So many bytes have come.
    pub(super) fn add(&mut self, bytes: usize) {
        self.0.get_or_insert_with(|| (Instant::now(), 0)).1 += bytes;
    }

    /// The input is idle.
    pub(super) fn rests(&mut self) {
        self.0 = None;
    }

    /// True where what has come is to be looked at.
    pub(super) fn is_due(&mut self) -> bool {
        let is_old = |(since, _): &mut (Instant, usize)| since.elapsed() >= PATIENT;
        self.0
            .take_if(is_old)
            .is_some_and(|(_, bytes)| bytes < MUCH)
    }
}

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

/// From now on a first signal ends the input, and a second one the program.
pub(super) fn listen() {
    // Without handlers a signal ends the program as it always did.
    if let Some(stop) = STOP.get_or_init(|| Stop::listen().ok())
        && !stop.has_come()
    {
        stop.ends.store(false, Ordering::Release);
    }
}

/// True once a signal has come.
pub(super) fn has_come() -> bool {
    matches!(STOP.get(), Some(Some(stop)) if stop.has_come())
}

/// The input has ended: a signal ends the program.
pub(super) fn over() {
    if let Some(Some(stop)) = STOP.get() {
        stop.ends.store(true, Ordering::Release);
    }
}

/// The signal that ended an input, if one did.
pub fn signal() -> Option<i32> {
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
    idles: Idles,
    came: Came,
}

impl Live {
    /// From now on a first signal ends this input, and a second one the program.
    pub(super) fn new(file: File) -> Live {
        listen();
        Live {
            file,
            last: LAST,
            idles: Idles::default(),
            came: Came::default(),
        }
    }

    /// Switches the reports of an idle input on and off.
    pub(super) fn idles(&self) -> Idles {
        self.idles.clone()
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
        let is_wanted = self.idles.are_wanted();
        if self.came.is_due() && is_wanted {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let ready = self.wait(stop, is_wanted.then_some(IDLE))?;
        self.idles.reported(ready == Ready::Nothing);
        if ready == Ready::Nothing {
            self.came.rests();
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if ready == Ready::Some {
            let most = if stop.has_come() {
                to.len().min(self.last)
            } else {
                to.len()
            };
            n = self.file.read(&mut to[..most])?;
            self.came.add(n);
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
