//! A digest of the output, to compare it with what would be written now.

use std::io::{self, Write};

/// Counts and hashes bytes (FNV-1a); neither depends on how they are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteDigest {
    bytes: u64,
    hash: u64,
}

impl Default for WriteDigest {
    fn default() -> WriteDigest {
        WriteDigest {
            bytes: 0,
            hash: 0xcbf2_9ce4_8422_2325,
        }
    }
}

impl WriteDigest {
    /// Adds bytes.
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl Write for WriteDigest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.add_bytes(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
