//! Pieces of torn lines. The merge decides which belong together: it knows everything before them.

use crate::report::account::LineClass;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The head of a line: its first 128 bytes, as NCCL 2.29.2+ writes it into a pipe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineHead {
    /// Index of the speaker's place.
    pub place: u32,
    /// A launcher's label in front of it; empty if there is none.
    pub label: Box<[u8]>,
    /// The bytes, header included.
    pub text: Box<[u8]>,
    /// The time stamp in front, as printed; empty if there is none.
    pub time: Box<[u8]>,
}

/// The place where a line breaks off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineDamage {
    /// The column in the line of the log.
    pub at: usize,
    /// What was expected there.
    pub what: Cow<'static, str>,
    /// The text there.
    pub text: Box<[u8]>,
}

/// A piece of a line that was written in two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TornPiece {
    /// A head; its tail comes later.
    Head(LineHead),
    /// A tail, which has no header.
    Tail {
        /// The bytes, from the beginning of the line of the log.
        text: Box<[u8]>,
        /// Which lines it may belong to.
        looks: TailLikeness,
    },
    /// What looks like a whole or a broken line, while other lines are torn at byte 128: another
    /// process's tail may follow its own first 128 bytes.
    Doubtful {
        /// The line, from its own beginning to the end of the line of the log.
        begun: LineHead,
        /// Where it breaks off, if it is not whole: it is a head with another line's tail after it,
        /// or simply cut.
        broken: Option<LineDamage>,
    },
    /// A process that may have written a head writes its next line: the line before has its tail.
    Heard {
        /// Index of the process.
        process: u32,
    },
}

/// What a tail looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TailLikeness {
    /// It can only be the tail of a NCCL line.
    Nccl,
    /// It may be a call's tail, if a head waits.
    Call,
    /// Any writer may have written it.
    Any,
}

/// A [`TornPiece`] and its place.
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
    /// Counts the slots before it ([`super::LogVisitor::slot`]).
    pub slot: u32,
    /// Something else on its line is lost in any case.
    pub damaged: bool,
    /// The class of its line without it and the other pieces on it.
    pub class: LineClass,
    /// Counts the pieces on its line.
    pub of_line: usize,
}
