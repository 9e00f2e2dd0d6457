//! What RCCL puts after lines about a communicator: ` comm 0x3d1e3480 nRanks 16 busId 97000`.
//!
//! From `src/transport` and `src/init.cc` of RCCL 2.18 and later.

use crate::token::{PResult, dec_u32, hex_u64, pointer, word};
use memchr::memmem;

/// The communicator a line of RCCL's is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RcclTail {
    /// Its address in this process.
    pub comm: u64,
    /// Its size.
    pub nranks: u32,
    /// The PCI bus id of this rank's GPU.
    pub bus_id: Option<u64>,
}

/// The tail, where there is one.
pub(crate) fn rccl_comm_tail(input: &[u8]) -> PResult<'_, Option<RcclTail>> {
    let Some(i) = input.strip_prefix(b" comm ") else {
        return Ok((input, None));
    };
    let (i, comm) = pointer(i)?;
    let (i, _) = word(" nRanks ", "nRanks")(i)?;
    let (i, nranks) = dec_u32(i)?;
    let (i, bus_id) = match i.strip_prefix(b" busId ") {
        Some(i) => {
            let (i, id) = hex_u64(i)?;
            (i, Some(id))
        }
        None => (i, None),
    };
    let tail = RcclTail {
        comm,
        nranks,
        bus_id,
    };
    Ok((i, Some(tail)))
}

/// Splits a text into its beginning and its tail; returns the text itself if it has no tail after ` comm `.
pub(crate) fn split_rccl_tail(text: &[u8]) -> (&[u8], Option<RcclTail>) {
    match memmem::rfind(text, b" comm 0x") {
        Some(at) => match rccl_comm_tail(&text[at..]) {
            Ok(([], tail)) => (&text[..at], tail),
            _ => (text, None),
        },
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_taken_off_whole_or_not_at_all() {
        let (text, tail) = split_rccl_tail(b"Trees x comm 0x3d nRanks 016 busId 97000");
        let (comm, nranks, bus_id) = (0x3d, 16, Some(0x97000));
        assert_eq!(text, b"Trees x");
        assert_eq!(
            tail,
            Some(RcclTail {
                comm,
                nranks,
                bus_id
            })
        );
        assert_eq!(split_rccl_tail(b"Trees x comm 0x3d nRa").1, None);
        assert_eq!(split_rccl_tail(b"Trees x").1, None);
    }
}
