//! Dumps of PyTorch's flight recorder: the last calls of a process, written when a job hangs. A
//! pickle (`_dump_nccl_trace`, the files `nccl_trace_rank_0`) or JSON (`dump_nccl_trace_json`).
//!
//! In the account each record of a call is a line, and all before the records is one line.

mod dump;
mod entry;
mod json;
mod json_text;
mod limits;
mod ops;
mod pickle;
mod row;
#[cfg(test)]
mod tests;
mod value;

pub use dump::{FlightDump, GroupStatus};
pub use entry::{CallTensors, DumpEntry, FlightCallState, FlightGroup, FlightOp, StackFrame};
pub use json_text::convert_dump_to_json;
pub use limits::MAX_DUMP_BYTES;
pub use ops::{find_datatype, find_op};

use super::ordered::{self, RowTaker};
use super::{InputFormat, InputHead, ProbeAnswer, Provides, binary};
use crate::error::{Error, Result};
use crate::output::table::Lacks;
use crate::report::account::LineClass;
use crate::source::Input;
use dump::DumpBuilder;
use memchr::memmem;
use value::DumpValues;

/// The parts that a dump provides.
const FLIGHT_PROVIDES: Provides = Provides::CALLS
    .and(Provides::STARTS)
    .and(Provides::DURATIONS);

/// A dump as a pickle.
pub(super) const PICKLE: InputFormat = InputFormat {
    name: "flight",
    what: "a dump of PyTorch's flight recorder",
    tells: FLIGHT_PROVIDES,
    probe: |head| {
        // Protocols 0 and 1 have no number.
        let is_plain = || [&b"(dp0\nVversion"[..], b"}q\0(X\x07\0\0\0version"];
        let begins = |with: [&[u8]; 2]| with.iter().any(|with| head.bytes.starts_with(with));
        let is_pickle = binary::is_pickle(head) || begins(is_plain());
        match is_pickle && has_dump_keys(head) {
            true => ProbeAnswer::Yes,
            false => head.no_once_closed(is_pickle),
        }
    },
};

/// A dump as JSON.
pub(super) const JSON: InputFormat = InputFormat {
    probe: |head| {
        let text = head.bytes.trim_ascii_start();
        let has = |key: &[u8]| memmem::find(head.bytes, key).is_some();
        head.yes_once_closed(
            text.starts_with(b"{")
                && has(b"\"version\"") | has(b"\"entries\"")
                && has_dump_keys(head)
                && !has(b"NCCL INFO"),
        )
    },
    ..PICKLE
};

/// Keys of a dump; which come first depends on the version.
fn has_dump_keys(head: &InputHead<'_>) -> bool {
    let has = |key: &[u8]| memmem::find(head.bytes, key).is_some();
    // A group of 10,000 ranks fills the whole head.
    let has_group = || has(b"version") && has(b"desc") && has(b"ranks");
    let has_status = || has(b"pg_status") || has(b"comm_lib_version");
    let has_groups = || has(b"pg_config") && (has_status() || has_group());
    let has_calls = || has(b"entries") && (has(b"pg_config") || has(b"nccl_version"));
    let has_records = || has(b"profiling_name") && has(b"time_created_ns");
    has_groups() || has_calls() || has_records()
}

/// Why there is no dump in a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DumpRefusal {
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

/// The place where a dump ends too early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DumpCut {
    /// `byte 812`, or `line 1, column 812`.
    pub place: String,
}

/// Reads a dump of the file `name`. Gives each record's result to `take`, damaged ones first.
///
/// # Errors
/// It is no dump, or its pickle could run code.
pub fn parse_dump(
    bytes: &[u8],
    name: &str,
    take: impl FnMut(Result<&DumpEntry, Lacks>),
) -> Result<(FlightDump, Option<DumpCut>), DumpRefusal> {
    let mut values = DumpValues::default();
    let (root, cut) = match bytes.trim_ascii_start().first() {
        Some(b'{') => {
            let (root, cut) = json::read_json(bytes, &mut values);
            let place = |(line, column)| format!("line {line}, column {column}");
            (root, cut.map(place))
        }
        _ => match pickle::read_pickle(bytes, &mut values) {
            pickle::PickleEnd::Whole(root) => (Some(root), None),
            pickle::PickleEnd::Cut { root, at } => (root, Some(format!("byte {at}"))),
            pickle::PickleEnd::Refused { why, at } => return Err(DumpRefusal::Pickle { at, why }),
        },
    };
    let root = root.ok_or(DumpRefusal::Nothing)?;
    values.dict_pairs(root).ok_or(DumpRefusal::Nothing)?;
    let mut dump = DumpBuilder::new(&values, bytes.len()).build_dump(root, take);
    dump.rank = row::find_rank(&dump, name);
    Ok((dump, cut.map(|place| DumpCut { place })))
}

/// Reads the dump of an input, and where it is cut.
///
/// # Errors
/// It cannot be read, or is refused.
pub fn load_dump(input: &Input) -> Result<(FlightDump, Option<DumpCut>)> {
    parse_whole_dump(&ordered::read_whole(input, MAX_DUMP_BYTES)?, &input.name())
}

fn parse_whole_dump(bytes: &[u8], name: &str) -> Result<(FlightDump, Option<DumpCut>)> {
    parse_dump(bytes, name, |_| {}).map_err(|why| Error::Content(format!("{name}: {why}")))
}

/// Reads the dump of an input.
pub(super) fn read_calls(input: &Input, taking: &mut RowTaker<'_>) -> Result<()> {
    let bytes = ordered::read_whole(input, MAX_DUMP_BYTES)?;
    let (dump, cut) = parse_whole_dump(&bytes, &input.name())?;
    taking.count_line(LineClass::Other);
    row::emit_rows(&dump, taking)?;
    for _ in 0..dump.damaged {
        taking.count_damaged("a whole record of a call", b"");
    }
    if let (Some(_), 0) = (&cut, dump.damaged) {
        taking.count_damaged("more of the dump, which is cut", b"");
    }
    taking.add_progress(bytes.len() as u64);
    Ok(())
}
