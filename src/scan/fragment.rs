//! Pieces of torn lines. Which belong together is decided at the merge, where all that comes
//! before them is known.

/// A piece of a line that was written in two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// The first 128 bytes of a line, as NCCL 2.29.2+ writes them (`vfprintf` into a pipe).
    Head {
        /// Index of the speaker's place.
        place: u32,
        /// The bytes, header included.
        text: Box<[u8]>,
        /// The time stamp in front, as printed; empty if there is none.
        time: Box<[u8]>,
    },
    /// The end of a line, without a header.
    Tail {
        /// The bytes.
        text: Box<[u8]>,
    },
    /// A whole or a broken line on the face of it, on a line where others are cut at byte 128: its own
    /// first 128 bytes may be followed by the end of another process's line.
    Doubtful {
        /// Index of the speaker's place.
        place: u32,
        /// The bytes, header included.
        text: Box<[u8]>,
        /// The time stamp in front, as printed; empty if there is none.
        time: Box<[u8]>,
        /// Where in the line, and what was expected there, if it is not whole: the beginning of
        /// a line with another's end behind it, or simply cut.
        broken: Option<(usize, &'static str)>,
    },
    /// A step line: no line is joined across it.
    Close,
}

/// A [`Piece`] and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragment {
    /// What it is.
    pub piece: Piece,
    /// Its line, from 0 in the chunk.
    pub line: u64,
    /// Its first byte in that line, from 0.
    pub column: usize,
    /// Its first byte in the input.
    pub at: u64,
    /// How many slots ([`super::Visit::slot`]) were before it.
    pub slot: u32,
    /// Something else on its line is lost whatever becomes of it.
    pub damaged: bool,
    /// How many pieces its line has.
    pub of_line: usize,
}

/// Where NCCL 2.29.2+ tears a line: the size of its pipe writes (`src/debug.cc`).
pub const TEAR: usize = 128;
