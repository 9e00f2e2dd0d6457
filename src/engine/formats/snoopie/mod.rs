//! Files of Snoopie (`src/mem_multigpu`): a row for each address of another GPU's memory that a kernel
//! loads or stores, and tables of allocations and of the program's lines by instruction.
//!
//! | | |
//! |---|---|
//! | [`access`] | a row of the main log, in each of its versions |
//! | [`op`] | the width and the direction of an instruction, by its name |
//! | [`tables`] | the tables beside it |
//! | `lines` | accesses as calls |
//!
//! No file has times. The process is only in the files' names: `snoopie_log_4102198.zst`.

pub mod access;
mod limits;
mod lines;
pub mod op;
pub mod tables;

pub(super) use lines::{OLD_LOG, SnoopieFormat};

use super::ordered;
use super::{InputFormat, InputHead, ProbeAnswer, Provides};
use crate::error::Result;
use crate::report::account::{Account, LineClass};
use crate::source::{Input, InputName};
use access::{SnoopieAccess, SnoopieReader};
use limits::{MAX_SNOOPIE_LINE_BYTES, MAX_SNOOPIE_PROBED_LINES, MAX_TABLE_BYTES};
use memchr::memmem;
use std::io::BufReader;
use tables::{SnoopieTable, SnoopieTables};

/// The main log.
pub(super) const LOG: InputFormat = InputFormat {
    name: "snoopie",
    what: "a log of Snoopie's accesses",
    tells: Provides::CALLS.and(Provides::ACCESSES),
    probe: |head| {
        let mut lines = head.lines().take(MAX_SNOOPIE_PROBED_LINES);
        let is = |line: &[u8]| access::is_header(line) || access::parse_row(line).is_some();
        head.probe_recorder(lines.any(is))
    },
};

/// The tables beside it.
pub(super) const TABLE: InputFormat = InputFormat {
    name: "snoopie table",
    what: "a table of Snoopie",
    tells: Provides::ACCESSES,
    probe: |head| head.probe_recorder(tables::table_of_header(head.first_line()).is_some()),
};

/// The kind of a file.
#[derive(Debug)]
pub enum SnoopieFile {
    /// A main log, after its accesses were given to `take`; true if it has a header.
    Log(Account, bool),
    /// A table, after it was added.
    Table(Account),
}

/// The process that wrote a file, by its name.
pub fn process_of_name(origin: &InputName) -> Option<u64> {
    let path = origin.path()?;
    let name = path.file_name()?.to_str()?;
    let stem = name.split('.').next()?;
    let (_, process) = stem.rsplit_once("_log_")?;
    process.parse().ok()
}

/// Reads a file: gives a main log's accesses to `take`, or adds a table to `tables`.
///
/// # Errors
/// It cannot be read.
pub fn read_snoopie(
    input: &Input,
    tables: &mut SnoopieTables,
    take: &mut dyn FnMut(&SnoopieAccess<'_>),
) -> Result<SnoopieFile> {
    let table = {
        let head = input.read_head()?;
        tables::table_of_header(InputHead::from_bytes(&head.bytes).first_line())
    };
    let mut account = Account::default();
    let mut reader = BufReader::with_capacity(1 << 18, input.open_unmapped_reader()?);
    let name = input.name();
    if let Some(kind) = table {
        let mut first = true;
        let mut left = MAX_TABLE_BYTES;
        ordered::for_each_line(&mut reader, &name, MAX_SNOOPIE_LINE_BYTES, &mut |line| {
            left = left.saturating_sub(line.len() as u64);
            let line = line.trim_ascii();
            if std::mem::take(&mut first) || line.is_empty() {
                account.count_line(LineClass::Other);
            } else if left == 0 || !tables.add_row(kind, line) {
                account.count_damaged_line(SnoopieTable::EXPECTED_ROW, line);
            } else {
                account.count_line(LineClass::Other);
            }
            Ok(())
        })?;
        account.broken = input.unpack_damage();
        return Ok(SnoopieFile::Table(account));
    }
    let mut rows = SnoopieReader::default();
    ordered::for_each_line(&mut reader, &name, MAX_SNOOPIE_LINE_BYTES, &mut |line| {
        match rows.read_line(line) {
            access::SnoopieLine::Access(access) => {
                account.calls = account.calls.saturating_add(1);
                account.count_line(LineClass::Call);
                take(&access);
            }
            access::SnoopieLine::Range(device, start, size) => {
                tables.add_allocation(device, start, size);
                account.count_line(LineClass::Other);
            }
            access::SnoopieLine::Other => account.count_line(LineClass::Other),
            access::SnoopieLine::Damaged => {
                account.count_damaged_line(access::EXPECTED_ACCESS, line);
            }
        }
        Ok(())
    })?;
    // A zstd frame without an end is read as far as it goes: the tool ends it only as it exits.
    account.broken = input.unpack_damage();
    Ok(SnoopieFile::Log(account, rows.has_header()))
}

/// A key that each line of the version that wrote JSON has.
const OLD_LINE_KEY: &[u8] = b"\"running_device_id\"";

/// Returns true for a line of the version that wrote JSON.
fn is_old_line(line: &[u8]) -> bool {
    line.starts_with(b"{\"op\"") && memmem::find(line, OLD_LINE_KEY).is_some()
}

/// Probes for the version that wrote JSON: the tool's banner comes first.
fn probe_old_log(head: &InputHead<'_>) -> ProbeAnswer {
    let has_key = memmem::find(head.bytes, OLD_LINE_KEY).is_some();
    head.probe_recorder(has_key && head.lines().any(is_old_line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_known_by_its_header() {
        let log =
            |text: &str| (LOG.probe)(&InputHead::from_bytes(text.as_bytes())) == ProbeAnswer::Yes;
        let table =
            |text: &str| (TABLE.probe)(&InputHead::from_bytes(text.as_bytes())) == ProbeAnswer::Yes;
        let header = "op_code, addr, thread_indx, running_dev_id, mem_dev_id, code_linenum\n";
        let row = "STG.E,0x00007fa571b00500,10240,1,0,125,1586,1,1,0x00007fa571a00000,4\n";
        assert!(log(header) && log(row) && log(&format!("{row}{header}")));
        assert!(table("context_id,call_stack\n1,77<78\n") && !table(row));
        assert!(
            (OLD_LOG.probe)(&InputHead::from_bytes(
                b"-- NVBit --\n{\"op\": \"LDG\", \"addr\": \"0x7f\", \"running_device_id\": 0}\n"
            )) == ProbeAnswer::Yes
        );
        assert!(!log("op,count,datatype\n") && !log("{\"op\":\"Send\",\"count\":1}\n"));
        let of = |name: &str| process_of_name(&InputName::Path(name.into()));
        assert_eq!(of("a/snoopie_log_4102198.zst"), Some(4_102_198));
        assert_eq!(
            (of("snoopie_log.csv"), of("jacobi_4_512x512_1.txt")),
            (None, None)
        );
    }
}
