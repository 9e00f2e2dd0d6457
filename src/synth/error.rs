//! Errors of making a log.

use std::io;

/// Why there is no log, or only a part of one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The options contradict each other. The text names the option.
    #[error("{0}")]
    Usage(String),
    /// The log could not be written.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
}

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;
