//! The name that a program gave its communicator: `commName` in `ncclConfig_t`.
//!
//! ```text
//! PROFILER/Plugin: init commName: tp_0 commHash: 15845509455638551403 nranks: 4 rank: 0
//! ```
//!
//! NCCL itself prints it nowhere. Its example profiler plugin and Inspector do, when they are
//! initialised (interface v4 and later): on the thread that initialises the communicator, between
//! its Init START and its Init COMPLETE. The hash is the commId in decimal since 2.26.2. The name
//! is empty where none was given, as in all captured logs (PyTorch 2.11).
//!
//! PyTorch's own names of process groups (`PG ID 0 PG GUID 0(default_pg)`) are none: its lines have
//! neither an address nor a commId, and a group may have several communicators.

use crate::token::{PResult, dec_u32, dec_u64, fail, whole, word};
use memchr::memmem;

/// A communicator's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommName<'a> {
    /// As it was given.
    pub name: &'a [u8],
    /// The communicator's hash.
    pub hash: u64,
    /// Its size.
    pub nranks: u32,
    /// The process's rank in it.
    pub rank: u32,
}

/// The line above.
pub(crate) fn parse_comm_name(body: &[u8]) -> Option<CommName<'_>> {
    whole(comm_name_line(body))
}

fn comm_name_line(input: &[u8]) -> PResult<'_, CommName<'_>> {
    const HASH: &[u8] = b" commHash: ";
    let (i, _) = word("PROFILER/Plugin: init commName: ", "a name")(input)?;
    // A name may hold anything; the hash after it does not.
    let Some(at) = memmem::rfind(i, HASH) else {
        return fail(i, "the hash");
    };
    let (name, i) = (&i[..at], &i[at + HASH.len()..]);
    let (i, hash) = dec_u64(i)?;
    let (i, _) = word(" nranks: ", "nranks")(i)?;
    let (i, nranks) = dec_u32(i)?;
    let (i, _) = word(" rank: ", "rank")(i)?;
    let (i, rank) = dec_u32(i)?;
    let named = CommName {
        name,
        hash,
        nranks,
        rank,
    };
    Ok((i, named))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_be_empty_and_have_blanks() {
        let of = |name: &str| {
            let line = format!(
                "PROFILER/Plugin: init commName: {name} commHash: 15845509455638551403 nranks: 4 \
                 rank: 3"
            );
            let named = parse_comm_name(line.as_bytes()).unwrap();
            let (hash, nranks, rank) = (named.hash, named.nranks, named.rank);
            assert_eq!((hash, nranks, rank), (0xdbe6_8ee5_946d_db6b, 4, 3));
            String::from_utf8(named.name.to_vec()).unwrap()
        };
        for name in ["", "tp_0", "my group: commHash: 7 nranks"] {
            assert_eq!(of(name), name);
        }
        assert_eq!(
            parse_comm_name(b"PROFILER/Plugin: init commName: x commHash: 7"),
            None
        );
    }
}
