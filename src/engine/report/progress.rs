//! Progress on a terminal, nothing in a pipe.

use super::limits::FREE_COLUMNS_OF_BAR;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle, TermLike};
use rustix::termios::tcgetwinsize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level;
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Receives the progress of a run.
pub trait Progress: Sync {
    /// Adds bytes that were read.
    fn advance(&self, bytes: u64);
    /// Ends the progress: everything is read, and output begins.
    fn finish(&self) {}
}

/// A line on stderr that shows the bytes read, if stderr is a terminal.
#[derive(Debug, Clone)]
pub struct ByteProgressBar {
    bar: ProgressBar,
}

impl Default for ByteProgressBar {
    /// Returns a bar that is never shown.
    fn default() -> ByteProgressBar {
        let bar = ProgressBar::hidden();
        ByteProgressBar { bar }
    }
}

impl ByteProgressBar {
    /// Returns a bar, which is shown only if it is `wanted` and stderr is a terminal. `total` gives
    /// the bytes of all inputs, if known; it costs a system call for each file and is called only
    /// if the bar is shown.
    pub fn new(total: impl FnOnce() -> Option<u64>, wanted: bool) -> ByteProgressBar {
        if !wanted || !io::stderr().is_terminal() {
            return ByteProgressBar::default();
        }
        let (bar, template) = match total() {
            Some(total) => (
                ProgressBar::new(total),
                "{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
            ),
            None => (
                ProgressBar::new_spinner(),
                "{spinner} {bytes} {bytes_per_sec}",
            ),
        };
        bar.set_draw_target(ProgressDrawTarget::term_like(Box::new(BarTerminal)));
        // The templates are constant; a wrong one would leave the plain style.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        // However the run ends: an error or a signal leaves no bar.
        let bar = bar.with_finish(ProgressFinish::AndClear);
        // A signal ends the input of a pipe, and the program ends in order.
        if bar.length().is_some() {
            // Without this a signal would leave the bar, and nothing worse.
            let _ = clear_at_signals(bar.clone());
        }
        ByteProgressBar { bar }
    }

    /// Takes the bar away while `write` writes to stderr.
    pub fn hide_while<R>(&self, write: impl FnOnce() -> R) -> R {
        self.bar.suspend(write)
    }
}

impl Progress for ByteProgressBar {
    fn advance(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// Takes the bar away, so that what follows is on lines of its own.
    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Makes a signal take the bar away before it ends the program.
fn clear_at_signals(bar: ProgressBar) -> io::Result<()> {
    let signal = Arc::new(AtomicUsize::new(0));
    let (mut wake, waker) = UnixStream::pair()?;
    for number in [SIGINT, SIGTERM] {
        signal_hook::flag::register_usize(number, Arc::clone(&signal), number as usize)?;
        low_level::pipe::register(number, waker.try_clone()?)?;
    }
    std::thread::Builder::new().spawn(move || {
        if wake.read_exact(&mut [0]).is_ok() {
            bar.finish_and_clear();
            let number = signal.load(Ordering::Acquire) as i32;
            let _ = low_level::emulate_default_handler(number);
        }
    })?;
    Ok(())
}

/// The terminal on stderr, a few columns narrower than it is.
#[derive(Debug)]
struct BarTerminal;

impl BarTerminal {
    /// Moves the cursor as the sequence with this letter does; 0 would move it by one.
    fn move_cursor(n: usize, letter: char) -> io::Result<()> {
        match n {
            0 => Ok(()),
            n => BarTerminal::write(format_args!("\x1b[{n}{letter}")),
        }
    }

    fn write(text: std::fmt::Arguments<'_>) -> io::Result<()> {
        io::stderr().write_fmt(text)
    }
}

impl TermLike for BarTerminal {
    fn width(&self) -> u16 {
        let size = tcgetwinsize(io::stderr());
        let columns = size.map_or(0, |size| size.ws_col);
        if columns == 0 { 80 } else { columns }.saturating_sub(FREE_COLUMNS_OF_BAR)
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        BarTerminal::move_cursor(n, 'A')
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        BarTerminal::move_cursor(n, 'B')
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        BarTerminal::move_cursor(n, 'C')
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        BarTerminal::move_cursor(n, 'D')
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        BarTerminal::write(format_args!("{text}\n"))
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        BarTerminal::write(format_args!("{text}"))
    }

    fn clear_line(&self) -> io::Result<()> {
        BarTerminal::write(format_args!("\r\x1b[2K"))
    }

    fn flush(&self) -> io::Result<()> {
        io::stderr().flush()
    }
}
