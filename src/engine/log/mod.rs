//! The NCCL debug log: chunks walked on all cores, merged in order.

pub(crate) mod attempts;
mod limits;
pub mod mend;
pub mod placement;
pub mod propose;
mod read;
mod state;
pub mod timeline;
pub mod walk;

use crate::error::{Error, Result};
use crate::formats::format::{InputFormat, InputHead, ProbeAnswer, Provides};
use crate::grammar::trainer::Recogniser;
use crate::report::account::Account;

pub use read::{
    StartedLog, WalkedLog, begin_log, check_unpacked, continue_log, read_log, walk_file_ahead,
    walk_files_ahead, walk_one_chunk,
};
pub use state::{LogState, MergedChunk};

/// The format of any text that no other format claims. A log may be damaged, or wrapped by a collector.
pub(crate) const FORMAT: InputFormat = InputFormat {
    name: "log",
    what: "an NCCL log",
    tells: Provides::CALLS
        .and(Provides::STEPS)
        .and(Provides::STEP_LINES)
        .and(Provides::MEMBERS)
        .and(Provides::MESSAGES)
        .and(Provides::ALGORITHMS)
        .and(Provides::LINES),
    probe: |_| ProbeAnswer::Perhaps,
};

/// The format of a whole text without a line of NCCL.
pub(crate) const PLAIN_TEXT_FORMAT: InputFormat = InputFormat {
    what: "text without a line of NCCL",
    ..FORMAT
};

/// True for a whole text without a line of NCCL.
pub(super) fn is_other(head: &InputHead<'_>) -> bool {
    head.is_whole() && memchr::memmem::find(head.bytes, b"NCCL").is_none()
}

/// How a log is read.
#[derive(Debug, Clone)]
pub struct Options {
    /// Threads.
    pub jobs: usize,
    /// Recognises step lines.
    pub recogniser: Recogniser,
    /// Stop at the first damaged line.
    pub strict: bool,
    /// Keep the byte ranges of INIT lines.
    pub keep_init_lines: bool,
    /// Keep the positions of marks. Stages that do not use steps leave them out to save memory.
    pub keep_marks: bool,
}

/// The error of `--strict`, if a line was damaged.
pub fn first_damage_error(name: &str, account: &Account) -> Result<()> {
    match account.first_damage() {
        Some(place) => Err(Error::Damaged(format!(
            "{name}:{}:{}: expected {}",
            place.line + 1,
            place.column,
            place.what
        ))),
        None => Ok(()),
    }
}
