//! Frames: the units of writing.

use crate::limits::FRAME_HEAD_BYTES;

/// The first bytes of a file. The line end makes a pipe's first bytes decide, and shows a file that was copied as
/// text.
pub const MAGIC: &[u8; 8] = b"\x8bNPREC\r\n";
/// The first bytes of a frame: where reading goes on after damage.
pub(crate) const SYNC: [u8; 3] = [0xf5, b'N', b'F'];

/// What a frame has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// [`crate::ProcessFacts`].
    Process = 1,
    /// Events of a thread.
    Events = 2,
    /// Nothing: the recorder ended in order.
    End = 3,
}

impl FrameKind {
    pub(crate) fn from_byte(byte: u8) -> Option<FrameKind> {
        let all = [FrameKind::Process, FrameKind::Events, FrameKind::End];
        all.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// The head of a frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameFacts {
    pub(crate) kind: u8,
    pub(crate) number: u32,
    pub(crate) length: usize,
    pub(crate) checksum: u32,
}

impl FrameFacts {
    /// Reads the head of a frame; `None` if there is none.
    pub(crate) fn from_bytes(bytes: &[u8; FRAME_HEAD_BYTES]) -> Option<FrameFacts> {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        bytes.starts_with(&SYNC).then(|| FrameFacts {
            kind: bytes[3],
            number: word(4),
            length: word(8) as usize,
            checksum: word(12),
        })
    }
}

/// Appends a frame; its body is shorter than [`crate::limits::MAX_BODY_BYTES`].
pub fn append_frame(out: &mut Vec<u8>, kind: FrameKind, number: u32, body: &[u8]) {
    let from = out.len();
    out.extend_from_slice(&SYNC);
    out.push(kind as u8);
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    let checksum = compute_checksum(&out[from..], body);
    out.extend_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(body);
}

/// Returns the CRC-32 (IEEE 802.3, as gzip has it) of a frame's head before its checksum, and its body.
pub(crate) fn compute_checksum(head: &[u8], body: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for part in [head, body] {
        for &byte in part {
            sum = (sum >> 8) ^ CRC_TABLE[usize::from(sum as u8 ^ byte)];
        }
    }
    !sum
}

static CRC_TABLE: [u32; 256] = make_crc_table();

const fn make_crc_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 {
                (sum >> 1) ^ 0xedb8_8320
            } else {
                sum >> 1
            };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_known_one() {
        assert_eq!(compute_checksum(b"1234", b"56789"), 0xcbf4_3926);
    }
}
