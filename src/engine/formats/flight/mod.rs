//! Dumps of PyTorch's flight recorder: the last calls of a process, which every job that hangs leaves
//! behind. A pickle (`_dump_nccl_trace`, the files `nccl_trace_rank_0`) or JSON
//! (`dump_nccl_trace_json`).
//!
//! In the account a record of a call is a line, and so is what is before the records.

mod dump;
mod entry;
mod json;
mod ops;
mod pickle;
mod row;
#[cfg(test)]
mod tests;
mod value;

pub use dump::{Dump, Status};
pub use entry::{Entry, Frame, Group, Op, State, Tensors};
pub use ops::{datatype, op};

use super::ordered::{self, Taking};
use super::{Format, Head, Is, Tells, binary};
use crate::error::{Error, Result};
use crate::output::table::Lacks;
use crate::report::account::Class;
use crate::source::Input;
use dump::Maker;
use memchr::memmem;
use value::Values;

/// What a dump tells.
const TELLS: Tells = Tells::CALLS.and(Tells::STARTS).and(Tells::DURATIONS);

/// A dump as a pickle.
pub(super) const PICKLE: Format = Format {
    name: "flight",
    what: "a dump of PyTorch's flight recorder",
    tells: TELLS,
    probe: |head| {
        // Protocols 0 and 1 have no number.
        let is_plain = || [&b"(dp0\nVversion"[..], b"}q\0(X\x07\0\0\0version"];
        let begins = |with: [&[u8]; 2]| with.iter().any(|with| head.bytes.starts_with(with));
        Is::sure((binary::is_pickle(head) || begins(is_plain())) && has_keys(head))
    },
};

/// A dump as JSON.
pub(super) const JSON: Format = Format {
    probe: |head| {
        let text = head.bytes.trim_ascii_start();
        let has = |key: &[u8]| memmem::find(head.bytes, key).is_some();
        Is::sure(
            text.starts_with(b"{")
                && has(b"\"version\"") | has(b"\"entries\"")
                && has_keys(head)
                && !has(b"NCCL INFO"),
        )
    },
    ..PICKLE
};

/// Keys of a dump; which come first depends on the version.
fn has_keys(head: &Head<'_>) -> bool {
    let has = |key: &[u8]| memmem::find(head.bytes, key).is_some();
    let has_groups = || has(b"pg_config") && (has(b"pg_status") || has(b"comm_lib_version"));
    let has_calls = || has(b"entries") && (has(b"pg_config") || has(b"nccl_version"));
    let has_records = || has(b"profiling_name") && has(b"time_created_ns");
    has_groups() || has_calls() || has_records()
}

/// The longest dump that is read: the recorder keeps some thousands of calls.
const LONGEST: usize = 128 << 20;

/// Why there is no dump in a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is read no further.
    #[error("the pickle is refused at byte {at}: {why}")]
    Pickle {
        /// The byte, from 0.
        at: usize,
        /// Why.
        why: &'static str,
    },
    /// There is nothing in it.
    #[error("it is damaged from its first byte on")]
    Nothing,
}

/// Where a dump ends too soon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Where: `byte 812`, or `line 1, column 812`.
    pub place: String,
}

/// Reads a dump of the file `name`. Each record's result is handed to `told`; damaged ones first.
///
/// # Errors
/// It is no dump, or one that may do harm.
pub fn parse(
    bytes: &[u8],
    name: &str,
    told: impl FnMut(Result<&Entry, Lacks>),
) -> Result<(Dump, Option<Cut>), Refused> {
    let mut values = Values::default();
    let (root, cut) = match bytes.trim_ascii_start().first() {
        Some(b'{') => {
            let (root, cut) = json::read(bytes, &mut values);
            let place = |(line, column)| format!("line {line}, column {column}");
            (root, cut.map(place))
        }
        _ => match pickle::read(bytes, &mut values) {
            pickle::End::Whole(root) => (Some(root), None),
            pickle::End::Cut { root, at } => (root, Some(format!("byte {at}"))),
            pickle::End::Refused { why, at } => return Err(Refused::Pickle { at, why }),
        },
    };
    let root = root.ok_or(Refused::Nothing)?;
    values.dict(root).ok_or(Refused::Nothing)?;
    let mut dump = Maker::new(&values, bytes.len()).dump(root, told);
    dump.rank = row::rank(&dump, name);
    Ok((dump, cut.map(|place| Cut { place })))
}

/// Reads the dump of an input, and where it is cut.
///
/// # Errors
/// It cannot be read, or is refused.
pub fn load(input: &Input) -> Result<(Dump, Option<Cut>)> {
    of(&ordered::whole(input, LONGEST)?, &input.name())
}

fn of(bytes: &[u8], name: &str) -> Result<(Dump, Option<Cut>)> {
    parse(bytes, name, |_| {}).map_err(|why| Error::Content(format!("{name}: {why}")))
}

/// Reads the dump of an input.
pub(super) fn read(input: &Input, taking: &mut Taking<'_>) -> Result<()> {
    let bytes = ordered::whole(input, LONGEST)?;
    let (dump, cut) = of(&bytes, &input.name())?;
    taking.line(Class::Other);
    row::rows(&dump, taking)?;
    for _ in 0..dump.damaged {
        taking.damaged("a whole record of a call", b"");
    }
    if let (Some(_), 0) = (&cut, dump.damaged) {
        taking.damaged("more of the dump, which is cut", b"");
    }
    taking.progress(bytes.len() as u64);
    Ok(())
}
