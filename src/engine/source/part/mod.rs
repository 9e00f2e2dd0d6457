//! Parts: what `nccl-pack` makes of an input, so that it is small enough to be brought to one machine.
//!
//! A part is one more coding of a text, beside gzip: unpacked, it is the input's text, byte for byte but for
//! the addresses of buffers and streams, which are zeros of the same length if they were not asked for. So every program reads
//! parts as it reads logs.
//!
//! A part has its description ([`PartSource`]), frames (`frame`), and its end ([`PartTotals`]). Each
//! description is JSON behind its length (4 bytes, little endian), each frame its columns behind theirs:
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `\x8aNCP`, the version (4 bytes, little endian) |
//! | | the source |
//! | 1 | `F`, then a frame; again for each frame |
//! | 1 | `E`, then the totals |
//! | 8 | the length of the totals, `NCPE` |

mod columns;
mod digits;
mod frame;
mod known_lines;
mod limits;
mod line_split;
mod line_template;
mod part_reader;
mod part_writer;
mod source_hash;

pub use limits::PART_VERSION;
pub use part_reader::{PartReader, read_part_facts};
pub use part_writer::{PartText, write_part};
pub use source_hash::hash_source;

use super::coded::UnpackDamage;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The first bytes of every part.
pub const PART_MAGIC: [u8; 4] = *b"\x8aNCP";
const END_MAGIC: [u8; 4] = *b"NCPE";

/// Where a part's text comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartSource {
    /// The input's name in messages.
    pub name: String,
    /// The host that packed it.
    pub host: String,
    /// The input's size in bytes, as it lay there.
    pub bytes: u64,
    /// The hash of its size and its first bytes, in hexadecimal.
    pub hash: String,
    /// It was found in a folder: folders hold more than logs.
    pub listed: bool,
    /// It is UTF-16; the part's text is UTF-8.
    pub utf16: bool,
    /// The addresses of buffers and streams are kept.
    pub addresses: bool,
}

/// What a part holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartTotals {
    /// Bytes of text, unpacked.
    pub text_bytes: u64,
    /// Lines, also one without an end.
    pub lines: u64,
    /// What the programs find in the text.
    pub found: PartContents,
    /// The input was itself packed, and damaged: its text ends there.
    pub damage: Option<UnpackDamage>,
}

/// What a walk over the text of a part finds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartContents {
    /// Calls; `None` if the text is no log.
    pub calls: Option<u64>,
    /// Damaged lines.
    pub damaged: u64,
    /// Torn lines that were joined.
    pub torn: u64,
}

/// The facts of a whole part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartFacts {
    /// Where its text comes from.
    pub source: PartSource,
    /// What it holds.
    pub totals: PartTotals,
}

/// The damage of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartDamage {
    /// It has no end.
    Cut,
    /// Another version wrote it.
    Version(u32),
    /// The description in front or at the end is none.
    Facts,
    /// The bytes of a column are not those that were written.
    Checksum,
    /// The columns of a frame do not belong to each other.
    Columns,
    /// Other bytes than a part follow it.
    Followed,
}

impl fmt::Display for PartDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartDamage::Cut => f.write_str("the part is cut, or other bytes follow it"),
            PartDamage::Followed => f.write_str("other bytes follow it"),
            PartDamage::Version(version) => write!(
                f,
                "expected a part of version {PART_VERSION}, found version {version}"
            ),
            PartDamage::Facts => f.write_str("the part's description is damaged"),
            PartDamage::Checksum => f.write_str("the part's bytes are damaged"),
            PartDamage::Columns => f.write_str("the part's columns do not fit together"),
        }
    }
}

impl std::error::Error for PartDamage {}

#[cfg(test)]
mod tests;
