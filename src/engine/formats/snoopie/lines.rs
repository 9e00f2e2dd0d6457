//! Accesses as rows of the call table: an operation is an instruction or a copy's function, its size that
//! of one access.

use super::access::{self, Line};
use crate::error::Result;
use crate::formats::{Format, Tells, lines};
use crate::output::table::{Lacks, Row};

/// The version that wrote JSON, beside what the program prints.
pub(in super::super) const OLD: Format = Format {
    name: "snoopie",
    what: "a log of Snoopie's accesses of 2023",
    tells: Tells::CALLS.and(Tells::ACCESSES),
    probe: super::is_old_log,
};

/// The header that rows come after, and where it lies.
#[derive(Debug, Default)]
pub(in super::super) struct Header {
    at: (usize, usize),
    reader: access::Reader,
}

/// The reader of the lines of all versions: what a program prints beside them is none.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Lines;

impl lines::Lines for Lines {
    type Scratch = Header;
    const CARRIES: bool = true;

    fn begin(_: &[u8], _: &str) -> Result<Lines> {
        Ok(Lines)
    }

    fn row(
        &self,
        scratch: &mut Header,
        line: &[u8],
        quotes: bool,
        take: &mut impl FnMut(&Row<'_>),
    ) -> Result<(), Lacks> {
        self.row_after(scratch, b"", line, quotes, take)
    }

    fn tells(line: &[u8]) -> bool {
        access::is_header(line)
    }

    fn row_after(
        &self,
        scratch: &mut Header,
        header: &[u8],
        line: &[u8],
        _quotes: bool,
        take: &mut impl FnMut(&Row<'_>),
    ) -> Result<(), Lacks> {
        // While a reader lives, a header stays where it is.
        let at = (header.as_ptr().addr(), header.len());
        if scratch.at != at {
            *scratch = Header {
                at,
                reader: access::Reader::after(header),
            };
        }
        let access = match scratch.reader.row(line) {
            Line::Access(access) => access,
            Line::Range(..) | Line::Other => return Ok(()),
            Line::Damaged => return Err(access::EXPECTED),
        };
        take(&Row {
            dev: u32::try_from(access.running).ok(),
            op: access.op,
            only_bytes: access.bytes(),
            calls: 1,
            src: b"snoopie",
            ..Row::default()
        });
        Ok(())
    }
}
