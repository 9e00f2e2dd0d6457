//! Fingerprints of calls and steps, by which another input that has them is recognised.

use crate::grammar::{coll, header, wrap};
use rustc_hash::FxHasher;
use serde::{Deserialize, Serialize};
use std::hash::{Hash, Hasher};

/// The fingerprint of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CallFingerprint {
    /// A hash of its text; 0 if there is no call.
    pub hash: u64,
    /// Its communicator, and its opCount if NCCL counts.
    pub count: CommOpCount,
}

/// The fingerprints of a chunk's steps: hashes of text, whether it was understood or not.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct StepFingerprints {
    /// For each mark: the hash of the first call since the mark before it, if the chunk has one, and the
    /// hash of its own text.
    pub marks: Vec<(Option<u64>, u64)>,
    /// The hash of the first call after the last mark.
    pub call: Option<u64>,
    /// The last call that NCCL counted.
    pub last: Option<InputLastCall>,
}

/// The last counted call of a text, and the process in its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InputLastCall {
    /// A hash of the host and the process id; 0 if the line has no header.
    pub who: u64,
    /// The call.
    pub call: CommOpCount,
}

impl InputLastCall {
    /// Returns the call in the line at the start of `text`.
    #[cold]
    pub fn in_line(text: &[u8]) -> InputLastCall {
        let line = &text[..memchr::memchr(b'\n', text).unwrap_or(text.len())];
        let plain = wrap::unwrap_line(line, &wrap::contains_nccl_line);
        let header = header::find_header(plain.as_ref().map_or(line, |plain| plain.text()), 0);
        InputLastCall {
            who: header.map_or(0, |header| hash_process(header.host, header.pid)),
            call: fingerprint_call_line(text).count,
        }
    }
}

/// Returns the hash of a process, by its host and its process id.
pub(super) fn hash_process(host: &[u8], pid: u64) -> u64 {
    nonzero_hash((host, pid))
}

/// A communicator's address, and the opCount of a call on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CommOpCount {
    /// The address.
    pub comm: u64,
    /// The opCount.
    pub op_count: u64,
}

impl CommOpCount {
    /// Returns true if NCCL counted on from here to `last`.
    pub(super) fn counts_on_to(self, last: CommOpCount) -> bool {
        self.comm == last.comm && self.op_count < last.op_count
    }
}

/// Returns the fingerprint of the first call in the line at the start of `text`.
#[cold]
pub fn fingerprint_call_line(text: &[u8]) -> CallFingerprint {
    // No call is longer. A line may have many calls, and each reads no more than its own part.
    let text = &text[..text.len().min(4096)];
    let line = &text[..memchr::memchr(b'\n', text).unwrap_or(text.len())];
    let Some(anchor) = coll::COLL_ANCHOR_FINDER.find(line) else {
        return CallFingerprint::default();
    };
    match coll::parse_coll_at(line, anchor) {
        Ok((_, call, _)) => CallFingerprint::of_call_text(&CallIdentityText {
            op: call.op,
            op_count: call.op_count,
            count: call.count,
            datatype: call.datatype,
            comm: call.comm,
            stream: call.stream,
        }),
        // A cut line has a fingerprint too.
        Err(_) => CallFingerprint {
            hash: nonzero_hash(line[anchor..].trim_ascii_end()),
            count: CommOpCount::default(),
        },
    }
}

/// The fields that a call has both in its line and in its row of a table.
#[derive(Debug, Clone, Copy, Hash)]
pub struct CallIdentityText<'a> {
    /// The operation.
    pub op: &'a [u8],
    /// The opCount.
    pub op_count: u64,
    /// The number of elements.
    pub count: u64,
    /// The datatype's number.
    pub datatype: u32,
    /// The communicator's address.
    pub comm: u64,
    /// The stream's address.
    pub stream: u64,
}

impl CallFingerprint {
    /// Returns the fingerprint of a call.
    pub fn of_call_text(call: &CallIdentityText<'_>) -> CallFingerprint {
        let (comm, op_count) = (call.comm, call.op_count);
        CallFingerprint {
            hash: nonzero_hash(call),
            count: CommOpCount { comm, op_count },
        }
    }
}

/// Returns a hash of `value`, never 0.
pub(crate) fn nonzero_hash(value: impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    hasher.finish().max(1)
}
