//! Progress on a terminal, nothing in a pipe.

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use std::io::IsTerminal;

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
        if !wanted || !std::io::stderr().is_terminal() {
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
        // The templates are constant; a wrong one would leave the plain style.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        // However the run ends: an error or a signal leaves no bar.
        let bar = bar.with_finish(ProgressFinish::AndClear);
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
