//! What was written, to be held against what would be written now.

use std::io::{self, Write};

/// Counts and hashes bytes (FNV-1a); neither depends on how they are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    bytes: u64,
    hash: u64,
}

impl Default for Written {
    fn default() -> Written {
        Written {
            bytes: 0,
            hash: 0xcbf2_9ce4_8422_2325,
        }
    }
}

impl Written {
    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.add(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
