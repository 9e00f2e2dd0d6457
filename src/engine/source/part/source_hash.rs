//! The identity of a packed input: it differs from that of another one, and of itself after a change.

use super::PartSource;
use super::limits::HASHED_SOURCE_BYTES;
use crate::source::read::read_first_bytes;
use std::fs::File;
use std::io;
use std::path::Path;
use twox_hash::XxHash3_64;

impl PartSource {
    /// Returns the hash in the part's file name. Two inputs with one name have two parts, and so do equal
    /// inputs with two names; the same input has one, whichever host packs it.
    pub fn file_hash(&self) -> String {
        let identity = format!(
            "{} {} {} {}",
            self.bytes, self.hash, self.addresses, self.name
        );
        format!("{:016x}", XxHash3_64::oneshot(identity.as_bytes()))
    }
}

/// Returns a file's size in bytes, and the hash of its size and its first bytes in hexadecimal: a log begins
/// with its host and process, and only grows.
///
/// # Errors
/// It cannot be read.
pub fn hash_source(path: &Path) -> io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let mut head = read_first_bytes(&mut file, HASHED_SOURCE_BYTES)?;
    head.extend_from_slice(&bytes.to_le_bytes());
    Ok((bytes, format!("{:016x}", XxHash3_64::oneshot(&head))))
}
