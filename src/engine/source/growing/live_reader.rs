//! Reads an input that another process still writes: a signal ends the input, not the program, which
//! then writes its results.

use super::limits::{
    BUSY_PIPE_REPORT_INTERVAL, MAX_BYTES_AFTER_SIGNAL, MIN_BYTES_HANDED_OVER, PIPE_IDLE_TIME,
};
use crate::source::read::read_some;
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

/// The switch of a reader's reports that its input is idle, as [`io::ErrorKind::WouldBlock`]: off at
/// first, and one report for each idle time.
#[derive(Debug, Clone, Default)]
pub(in crate::source) struct IdleReports(Arc<[AtomicBool; 2]>);

impl IdleReports {
    /// Switches the reports on or off.
    pub(in crate::source) fn switch_reports(&self, on: bool) {
        let [is_on, is_reported] = &*self.0;
        is_on.store(on, Ordering::Relaxed);
        is_reported.store(false, Ordering::Relaxed);
    }

    /// Returns true if an idle input is to be reported.
    pub(super) fn are_wanted(&self) -> bool {
        let [is_on, is_reported] = &*self.0;
        is_on.load(Ordering::Relaxed) && !is_reported.load(Ordering::Relaxed)
    }

    /// Notes that the idle input is reported, or that bytes came.
    pub(super) fn record_report(&self, is_reported: bool) {
        self.0[1].store(is_reported, Ordering::Relaxed);
    }
}

/// The bytes that have come since a time, from an input that may never rest.
#[derive(Debug, Default)]
pub(super) struct ArrivalTimer(Option<(Instant, usize)>);

impl ArrivalTimer {
    /// Adds bytes that have come.
    pub(super) fn add_bytes(&mut self, bytes: usize) {
        self.0.get_or_insert_with(|| (Instant::now(), 0)).1 += bytes;
    }

    /// Begins anew: the input is idle.
    pub(super) fn reset_idle(&mut self) {
        self.0 = None;
    }

    /// Returns true if a slow input has had bytes for long enough to report on them.
    pub(super) fn is_due(&mut self) -> bool {
        let is_old =
            |(since, _): &mut (Instant, usize)| since.elapsed() >= BUSY_PIPE_REPORT_INTERVAL;
        self.0
            .take_if(is_old)
            .is_some_and(|(_, bytes)| bytes < MIN_BYTES_HANDED_OVER)
    }
}

/// The state that a signal changes.
struct StopSignal {
    /// The signal that came, if one did.
    signal: Arc<AtomicUsize>,
    /// Can be read once a signal came.
    wake: UnixStream,
    /// A signal ends the program: one came before, or no input is left to be ended.
    ends: Arc<AtomicBool>,
}

static STOP: OnceLock<Option<StopSignal>> = OnceLock::new();

impl StopSignal {
    fn install_handlers() -> io::Result<StopSignal> {
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
        Ok(StopSignal { signal, wake, ends })
    }

    fn has_signal(&self) -> bool {
        self.signal.load(Ordering::Acquire) != 0
    }
}

/// Makes a first signal end the input, and a second one the program.
pub(super) fn install_signal_handlers() {
    // Without handlers a signal ends the program as it always did.
    if let Some(stop) = STOP.get_or_init(|| StopSignal::install_handlers().ok())
        && !stop.has_signal()
    {
        stop.ends.store(false, Ordering::Release);
    }
}

/// Returns true once a signal has come.
pub(super) fn has_signal_come() -> bool {
    matches!(STOP.get(), Some(Some(stop)) if stop.has_signal())
}

/// Makes a signal end the program again: the input has ended.
pub(super) fn restore_signals() {
    if let Some(Some(stop)) = STOP.get() {
        stop.ends.store(true, Ordering::Release);
    }
}

/// Returns the signal that ended an input, if one did.
pub fn ending_signal() -> Option<i32> {
    let stop = STOP.get()?.as_ref()?;
    let number = stop.signal.load(Ordering::Acquire);
    i32::try_from(number).ok().filter(|&number| number != 0)
}

/// The result of waiting for bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LivePollResult {
    /// There are bytes, or the end.
    Some,
    /// A signal came, and nothing is left.
    Ended,
    /// Nothing yet.
    Nothing,
}

/// A pipe, a terminal or another file that may still grow while it is read.
pub(in crate::source) struct LiveReader {
    file: File,
    /// Bytes that may still be read after a signal.
    last: usize,
    idles: IdleReports,
    came: ArrivalTimer,
}

impl LiveReader {
    /// Makes a first signal end this input, and a second one the program.
    pub(in crate::source) fn new(file: File) -> LiveReader {
        install_signal_handlers();
        LiveReader {
            file,
            last: MAX_BYTES_AFTER_SIGNAL,
            idles: IdleReports::default(),
            came: ArrivalTimer::default(),
        }
    }

    /// Returns the switch of the reports that the input is idle.
    pub(in crate::source) fn idle_reports(&self) -> IdleReports {
        self.idles.clone()
    }

    /// Waits until there are bytes or the end, for at most `most`.
    ///
    /// # Errors
    /// The file cannot be waited for.
    pub(super) fn wait_until_readable(&self, most: Duration) -> io::Result<bool> {
        match STOP.get() {
            Some(Some(stop)) => Ok(self.poll_input(stop, Some(most))? != LivePollResult::Nothing),
            _ => Ok(true),
        }
    }

    /// Waits until there are bytes, for at most `most`; without it for any time.
    fn poll_input(&self, stop: &StopSignal, most: Option<Duration>) -> io::Result<LivePollResult> {
        let now = Timespec::default();
        let most = most.and_then(|most| Timespec::try_from(most).ok());
        loop {
            let is_last = stop.has_signal();
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
                return Ok(LivePollResult::Some);
            }
            if is_last {
                return Ok(LivePollResult::Ended);
            }
            if ready == 0 {
                return Ok(LivePollResult::Nothing);
            }
        }
    }
}

impl Read for LiveReader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let Some(Some(stop)) = STOP.get() else {
            return read_some(&mut self.file, to);
        };
        let mut n = 0;
        let is_wanted = self.idles.are_wanted();
        if self.came.is_due() && is_wanted {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let ready = self.poll_input(stop, is_wanted.then_some(PIPE_IDLE_TIME))?;
        self.idles.record_report(ready == LivePollResult::Nothing);
        if ready == LivePollResult::Nothing {
            self.came.reset_idle();
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if ready == LivePollResult::Some {
            let is_last = stop.has_signal();
            let most = if is_last { self.last } else { to.len() };
            let room = to.len().min(most);
            n = read_some(&mut self.file, &mut to[..room])?;
            self.came.add_bytes(n);
            if stop.has_signal() {
                self.last = self.last.saturating_sub(n);
            }
        }
        // A signal that comes with the end, as Ctrl-C to a whole pipe, does not take the results.
        Ok(n)
    }
}
