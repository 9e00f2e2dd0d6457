//! Accesses as rows of the call table: an operation is an instruction or a copy's function, its size that
//! of one access.

use super::access::{self, SnoopieAccess, SnoopieLine};
use crate::error::Result;
use crate::formats::{InputFormat, Provides, lines};
use crate::output::table::{Lacks, Row};

/// The version that wrote JSON, among the program's own output.
pub(in super::super) const OLD_LOG: InputFormat = InputFormat {
    name: "snoopie",
    what: "a log of Snoopie's accesses of 2023",
    tells: Provides::CALLS.and(Provides::ACCESSES),
    probe: super::probe_old_log,
};

/// The header of rows, and its address.
#[derive(Debug, Default)]
pub(in super::super) struct SnoopieHeader {
    at: (usize, usize),
    reader: access::SnoopieReader,
}

/// The reader of the lines of all versions; it ignores the program's own output.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct SnoopieFormat;

impl lines::RecordFormat for SnoopieFormat {
    type Scratch = SnoopieHeader;
    const CARRIES_CONTEXT: bool = true;

    fn read_header(_: &[u8], _: &str) -> Result<SnoopieFormat> {
        Ok(SnoopieFormat)
    }

    fn sets_context(line: &[u8]) -> bool {
        access::is_header(line)
    }

    fn read_record(
        &self,
        scratch: &mut SnoopieHeader,
        record: lines::RecordText<'_>,
        take: &mut impl FnMut(&Row<'_>),
    ) -> Result<(), Lacks> {
        let header = record.context;
        let at = (header.as_ptr().addr(), header.len());
        if scratch.at != at {
            *scratch = SnoopieHeader {
                at,
                reader: access::SnoopieReader::after_header(header),
            };
        }
        let access = match scratch.reader.read_line(record.bytes) {
            SnoopieLine::Access(access) => access,
            SnoopieLine::Range(..) | SnoopieLine::Other => return Ok(()),
            SnoopieLine::Damaged => return Err(access::EXPECTED_ACCESS),
        };
        take(&access.to_row());
        Ok(())
    }
}

impl<'l> SnoopieAccess<'l> {
    /// Returns the row of the call table.
    pub fn to_row(&self) -> Row<'l> {
        Row {
            dev: u32::try_from(self.running).ok(),
            op: self.op,
            only_bytes: self.moved_bytes(),
            calls: 1,
            src: OLD_LOG.name.as_bytes(),
            ..Row::default()
        }
    }
}
