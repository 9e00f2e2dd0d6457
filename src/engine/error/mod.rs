//! The library's one error type: what was expected, where, and what to do.

pub mod escape;
mod limits;
mod nearby;
pub mod phrases;

use crate::error::escape::shown_path;
use crate::error::phrases::without_error_number;
use rustix::io::Errno;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// What can stop a run. Damage in a log is not here: it is counted (see [`crate::report`]).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be opened or read.
    #[error("{}: {}{}", shown_path(path), without_error_number(&cause.to_string()), advice_on_path(path, cause))]
    Input {
        /// The path as the user gave it.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// An input that is not text.
    #[error("{name}: {what}, expected a log as text (plain, gzip or zstd){advice}")]
    NoText {
        /// The input's name.
        name: String,
        /// Its kind.
        what: &'static str,
        /// The command that makes it readable, after a colon, if there is one.
        advice: String,
    },
    /// An input of a known format that no program can read.
    #[error("{name} is {what}: it cannot be read yet")]
    Unread {
        /// The input's name.
        name: String,
        /// Its kind.
        what: &'static str,
    },
    /// A record of calls in a folder, where the log has these calls.
    #[error("{name} is {what}: of a folder only logs are read; name the file itself")]
    Beside {
        /// The input's name.
        name: String,
        /// Its kind.
        what: &'static str,
    },
    /// An input that has times but no calls.
    #[error("{name} is {what}: it has no calls; nccl-ops --time reads its times")]
    NoCalls {
        /// The input's name.
        name: String,
        /// Its kind.
        what: &'static str,
    },
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
    /// The input was read and is not what this program needs.
    #[error("{0}")]
    Content(String),
    /// Steps were asked for and the input has no known step lines. The text has several lines; its
    /// quotes from the log are escaped.
    #[error("{0}")]
    Proposed(String),
    /// The arguments contradict each other or the input.
    #[error("{0}")]
    Usage(String),
    /// `--strict` and a damaged line.
    #[error("{0} (--strict)")]
    Damaged(String),
}

/// The next step after a path that cannot be opened, after a colon.
fn advice_on_path(path: &Path, cause: &io::Error) -> String {
    let text = path.to_string_lossy();
    if text.starts_with("http://") || text.starts_with("https://") {
        return format!(": curl -L {text} | {} -", crate::source::program_name());
    }
    match cause.kind() {
        ErrorKind::NotFound => nearby::advise_on_missing(path),
        _ if Errno::from_io_error(cause) == Some(Errno::MFILE) => {
            ": allow more: ulimit -n 1024".into()
        }
        _ => String::new(),
    }
}

/// An error of a temporary file without its path, which is another one each time.
pub fn without_temporary_path(cause: io::Error) -> io::Error {
    let same = match cause.kind() {
        _ if cause.raw_os_error().is_some() => return cause,
        ErrorKind::NotFound => Errno::NOENT,
        ErrorKind::NotADirectory => Errno::NOTDIR,
        ErrorKind::PermissionDenied => Errno::ACCESS,
        ErrorKind::StorageFull => Errno::NOSPC,
        ErrorKind::QuotaExceeded => Errno::DQUOT,
        ErrorKind::ReadOnlyFilesystem => Errno::ROFS,
        kind => return kind.into(),
    };
    same.into()
}

impl Error {
    /// Returns true if an input cannot be read: other inputs can.
    pub fn is_about_input(&self) -> bool {
        !matches!(self, Error::Output(_) | Error::Damaged(_) | Error::Usage(_))
    }

    /// Returns true if the reader of our pipe closed it, which is no failure.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Error::Output(e) if e.kind() == ErrorKind::BrokenPipe)
    }
}

/// The library's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;
