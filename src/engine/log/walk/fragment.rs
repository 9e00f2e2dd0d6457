//! Pieces of torn lines. Which belong together is decided at the merge, where all that comes
//! before them is known.

use crate::report::account::LineClass;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The beginning of a line: as NCCL 2.29.2+ writes it into a pipe, its first 128 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineHead {
    /// Index of the speaker's place.
    pub place: u32,
    /// What a launcher put in front of it; empty where it put nothing.
    pub label: Box<[u8]>,
    /// The bytes, header included.
    pub text: Box<[u8]>,
    /// The time stamp in front, as printed; empty if there is none.
    pub time: Box<[u8]>,
}

/// Where a line is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineDamage {
    /// The place in the physical line.
    pub at: usize,
    /// What was expected there.
    pub what: Cow<'static, str>,
    /// What is there instead.
    pub text: Box<[u8]>,
}

/// A piece of a line that was written in two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TornPiece {
    /// A beginning; the end comes later.
    Head(LineHead),
    /// The end of a line, without a header.
    Tail {
        /// The bytes, from the beginning of the physical line.
        text: Box<[u8]>,
        /// Whose it may be.
        looks: TailLikeness,
    },
    /// A whole or a broken line on the face of it, where others are cut at byte 128: its own
    /// first 128 bytes may be followed by the end of another process's line.
    Doubtful {
        /// The line, from its own beginning to the physical line's end.
        begun: LineHead,
        /// Where it breaks off, if it is not whole: the beginning of a line with another's end
        /// after it, or simply cut.
        broken: Option<LineDamage>,
    },
    /// A process that may have begun a line before writes the next one: the line before it has
    /// its end.
    Heard {
        /// Index of the process.
        process: u32,
    },
}

/// What the end of a line looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TailLikeness {
    /// It can only be the end of a NCCL line.
    Nccl,
    /// It may be the end of a call's line, if one was begun.
    Call,
    /// It may be anybody's line.
    Any,
}

/// A [`TornPiece`] and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineFragment {
    /// What it is.
    pub piece: TornPiece,
    /// Its line, from 0 in the chunk.
    pub line: u64,
    /// Its first byte in that line, from 0.
    pub column: usize,
    /// Its first byte in the input.
    pub at: u64,
    /// How many slots ([`super::LogVisitor::slot`]) were before it.
    pub slot: u32,
    /// Something else on its line is lost whatever becomes of it.
    pub damaged: bool,
    /// What its line is without it and the others on it.
    pub class: LineClass,
    /// How many pieces its line has.
    pub of_line: usize,
}

/// Where NCCL 2.29.2+ tears a line. It prints with one `vfprintf` (`src/debug.cc`), and where
/// standard output has no buffer glibc 2.37+ writes each 128 bytes by themselves
/// (`PRINTF_BUFFER_SIZE_TO_FILE_STAGE` in `stdio-common/printf_buffer_to_file.h`).
pub const TEAR_STRIDE_BYTES: usize = 128;
