//! Names that NCCL hands over as texts, as numbers.

use crate::limits::{KNOWN_WORDS, MAX_WORD_BYTES};
use nccl_pipe_recording::names::{ALGOS, DATATYPES, OPS, PROTOS, UNKNOWN, find_number};
use std::ffi::c_char;
use std::sync::atomic::{AtomicU64, Ordering};

/// Names of one kind. NCCL's texts are constants, so that a text is read once and then known by its address.
pub(super) struct WordList {
    names: &'static [&'static str],
    /// The number of a text that is none of the names.
    other: u8,
    /// An address above its number; a place is found by the address.
    known: [AtomicU64; KNOWN_WORDS],
}

/// `ncclUint8` (`nccl.h`)
const UINT8: u8 = 1;

/// Operations.
pub(super) static OP_NAMES: WordList = WordList::new(&OPS, UNKNOWN);
/// Types. NCCL 2.24 to 2.30 has a name for each but `ncclUint8`, which it calls `Unknown` (`ncclDatatypeToString` in
/// `collectives.cc`).
pub(super) static DATATYPE_NAMES: WordList = WordList::new(&DATATYPES, UINT8);
/// Algorithms.
pub(super) static ALGO_NAMES: WordList = WordList::new(&ALGOS, UNKNOWN);
/// Protocols.
pub(super) static PROTO_NAMES: WordList = WordList::new(&PROTOS, UNKNOWN);

impl WordList {
    const fn new(names: &'static [&'static str], other: u8) -> WordList {
        WordList {
            names,
            other,
            known: [const { AtomicU64::new(0) }; KNOWN_WORDS],
        }
    }

    /// Returns the number of a name.
    ///
    /// # Safety
    /// The text ends with 0, if there is one, and is constant until [`forget_words`].
    pub(super) unsafe fn number(&self, name: *const c_char) -> u8 {
        if name.is_null() {
            return UNKNOWN;
        }
        // An address has 57 bits at most where it has a process.
        let address = (name as u64) << u8::BITS;
        let place = &self.known[(name as usize >> 3) % KNOWN_WORDS];
        let known = place.load(Ordering::Relaxed);
        if known & !u64::from(u8::MAX) == address {
            return known as u8;
        }
        // SAFETY: as the caller promises.
        let number = unsafe { self.read_number(name) };
        // The top bits of an address that has them would make it another's.
        if address >> u8::BITS == name as u64 {
            place.store(address | u64::from(number), Ordering::Relaxed);
        }
        number
    }

    /// # Safety
    /// The text ends with 0.
    unsafe fn read_number(&self, name: *const c_char) -> u8 {
        let mut bytes = [0_u8; MAX_WORD_BYTES];
        for (at, byte) in bytes.iter_mut().enumerate() {
            // SAFETY: no byte before this one was the last.
            *byte = unsafe { *name.cast::<u8>().add(at) };
            if *byte == 0 {
                let found = find_number(self.names, &bytes[..at]);
                let is_other = found == UNKNOWN && &bytes[..at] == b"Unknown";
                return if is_other { self.other } else { found };
            }
        }
        UNKNOWN
    }
}

/// Forgets the addresses: NCCL may have been loaded again.
pub(super) fn forget_words() {
    for list in [&OP_NAMES, &DATATYPE_NAMES, &ALGO_NAMES, &PROTO_NAMES] {
        for place in &list.known {
            place.store(0, Ordering::Relaxed);
        }
    }
}
