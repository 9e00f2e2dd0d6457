//! What Snoopie (`src/mem_multigpu`) writes: a row for each address of another GPU's memory that a
//! kernel loads or stores, and tables beside it of what was allocated where, and which line of the program
//! an instruction belongs to.
//!
//! | | |
//! |---|---|
//! | [`access`] | a row of the main log, in each of its versions |
//! | [`op`] | what the name of an instruction tells: how wide it is, and which way data goes |
//! | [`tables`] | the tables beside it |
//! | `lines` | accesses as calls |
//!
//! No file has times. The process is only in the files' names: `snoopie_log_4102198.zst`.

pub mod access;
mod lines;
pub mod op;
pub mod tables;

pub(super) use lines::{Lines, OLD};

use super::ordered;
use super::{Format, Head, Is, Tells};
use crate::error::Result;
use crate::report::account::{Account, Class};
use crate::source::{Input, Origin};
use access::{Access, Reader};
use std::io::BufReader;
use tables::{Table, Tables};

/// The main log.
pub(super) const LOG: Format = Format {
    name: "snoopie",
    what: "a log of Snoopie's accesses",
    tells: Tells::CALLS.and(Tells::ACCESSES),
    // Rows may come before the header.
    probe: |head| {
        let mut lines = head.lines().take(LOOK);
        let is = |line: &[u8]| access::is_header(line) || access::row(line).is_some();
        head.other(lines.any(is))
    },
};

/// The tables beside it.
pub(super) const TABLE: Format = Format {
    name: "snoopie table",
    what: "a table of Snoopie",
    tells: Tells::ACCESSES,
    probe: |head| head.other(tables::kind(head.line()).is_some()),
};

/// How many lines are looked at.
const LOOK: usize = 64;
/// The longest line that is read: a call stack has some hundred frames of twenty digits.
const LONGEST: u64 = 1 << 16;
/// So many bytes of a table are read at most.
const WHOLE: u64 = 1 << 30;

/// What a file is.
#[derive(Debug)]
pub enum Read {
    /// A main log, whose accesses were given; true where it has a header.
    Log(Account, bool),
    /// A table, which was added.
    Table(Account),
}

/// The process that wrote a file, by its name.
pub fn process(origin: &Origin) -> Option<u64> {
    let path = origin.path()?;
    let name = path.file_name()?.to_str()?;
    let stem = name.split('.').next()?;
    let (_, process) = stem.rsplit_once("_log_")?;
    process.parse().ok()
}

/// Reads a file: a main log's accesses are given to `take`, a table is added to `tables`.
///
/// # Errors
/// It cannot be read.
pub fn read(input: &Input, tables: &mut Tables, take: &mut dyn FnMut(&Access<'_>)) -> Result<Read> {
    let table = {
        let head = input.head()?;
        tables::kind(Head::of(&head).line())
    };
    let mut account = Account::default();
    let mut reader = BufReader::with_capacity(1 << 18, input.stream()?);
    if let Some(kind) = table {
        let mut first = true;
        let mut left = WHOLE;
        let read = ordered::each_line(&mut reader, &input.name(), LONGEST, &mut |line| {
            left = left.saturating_sub(line.len() as u64);
            let line = line.trim_ascii();
            if std::mem::take(&mut first) || line.is_empty() {
                account.line(Class::Other);
            } else if left == 0 || !tables.row(kind, line) {
                account.damage(Table::EXPECTED, line);
            } else {
                account.line(Class::Other);
            }
            Ok(())
        });
        read?;
        account.broken = input.broken();
        return Ok(Read::Table(account));
    }
    let mut rows = Reader::default();
    let read = ordered::each_line(&mut reader, &input.name(), LONGEST, &mut |line| {
        match rows.row(line) {
            access::Line::Access(access) => {
                account.calls = account.calls.saturating_add(1);
                account.line(Class::Call);
                take(&access);
            }
            access::Line::Range(device, start, size) => {
                tables.allocated(device, start, size);
                account.line(Class::Other);
            }
            access::Line::Other => account.line(Class::Other),
            access::Line::Damaged => account.damage(access::EXPECTED, line),
        }
        Ok(())
    });
    read?;
    // A frame that was never ended is read to where it ends: the tool closes it as it exits.
    account.broken = input.broken();
    Ok(Read::Log(account, rows.has_header()))
}

/// Whether a line of the version that wrote JSON.
fn is_old(line: &[u8]) -> bool {
    line.starts_with(b"{\"op\"") && memchr::memmem::find(line, b"\"running_device_id\"").is_some()
}

/// The answer of the probe of the old version: the tool's banner comes first.
fn is_old_log(head: &Head<'_>) -> Is {
    head.other(head.lines().any(is_old))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_known_by_its_header() {
        let log = |text: &str| (LOG.probe)(&Head::of(text.as_bytes())) == Is::Yes;
        let table = |text: &str| (TABLE.probe)(&Head::of(text.as_bytes())) == Is::Yes;
        let header = "op_code, addr, thread_indx, running_dev_id, mem_dev_id, code_linenum\n";
        let row = "STG.E,0x00007fa571b00500,10240,1,0,125,1586,1,1,0x00007fa571a00000,4\n";
        assert!(log(header) && log(row) && log(&format!("{row}{header}")));
        assert!(table("context_id,call_stack\n1,77<78\n") && !table(row));
        assert!(
            (OLD.probe)(&Head::of(
                b"-- NVBit --\n{\"op\": \"LDG\", \"addr\": \"0x7f\", \"running_device_id\": 0}\n"
            )) == Is::Yes
        );
        assert!(!log("op,count,datatype\n") && !log("{\"op\":\"Send\",\"count\":1}\n"));
        let of = |name: &str| process(&Origin::Path(name.into()));
        assert_eq!(of("a/snoopie_log_4102198.zst"), Some(4_102_198));
        assert_eq!(
            (of("snoopie_log.csv"), of("jacobi_4_512x512_1.txt")),
            (None, None)
        );
    }
}
