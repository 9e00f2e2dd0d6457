//! Progress on a terminal, nothing in a pipe.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

/// Progress of a run: told of bytes read.
pub trait Progress: Sync {
    /// `bytes` more were read.
    fn advance(&self, bytes: u64);
    /// All is read: output begins.
    fn finish(&self) {}
}

/// A line on stderr that shows bytes read, if someone can see it.
#[derive(Debug, Clone)]
pub struct ByteProgressBar {
    bar: ProgressBar,
}

impl Default for ByteProgressBar {
    /// One that is never shown.
    fn default() -> ByteProgressBar {
        let bar = ProgressBar::hidden();
        ByteProgressBar { bar }
    }
}

impl ByteProgressBar {
    /// A bar, shown only where stderr is a terminal and `wanted`. `total` is the bytes of all
    /// inputs, where known: asked for only if it is shown, since it costs a call for each file.
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
