//! Writes rows before the input ends, and the remaining ones at its end.
//!
//! The rows at the end are made of the whole input, as for a file. The rows that were written
//! before are left out then and compared with it: later lines may change a step after
//! its row was written.

use super::cli::{RowFormat, RowOutput};
use crate::error::{Error, Result};
use crate::output::live_rows::LiveBatch;
use crate::output::render::Sheet;
use crate::output::reshape::ReshapeWriter;
use crate::output::write_digest::WriteDigest;
use crate::report::Report;
use memchr::memchr_iter;
use std::io::{self, IsTerminal, Write};
use std::mem;

/// Lines that were written one after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct LineDigest {
    lines: u64,
    written: WriteDigest,
}

impl LineDigest {
    fn add_lines(&mut self, text: &[u8]) {
        self.lines += memchr_iter(b'\n', text).count() as u64;
        self.written.add_bytes(text);
    }
}

/// Rows that were written already.
#[derive(Debug)]
pub struct LiveRowPrinter<'o> {
    output: &'o RowOutput,
    /// Some were.
    is_begun: bool,
    header: LineDigest,
    /// Rows that come again at the input's end: from before the last checkpoint, and from after it.
    old: LineDigest,
    new: LineDigest,
}

impl<'o> LiveRowPrinter<'o> {
    /// None yet.
    pub fn new(output: &'o RowOutput) -> LiveRowPrinter<'o> {
        LiveRowPrinter {
            output,
            is_begun: false,
            header: LineDigest::default(),
            old: LineDigest::default(),
            new: LineDigest::default(),
        }
    }

    /// Whether rows may be written one after the other: a table is drawn as a whole, and which row
    /// is the first of a sort shows at the end.
    pub fn is_possible(&self) -> bool {
        let is_settled = self.output.format.is_rows() && self.output.order.is_nothing();
        is_settled && !io::stdout().is_terminal()
    }

    /// Whether none was written.
    pub(super) fn is_empty(&self) -> bool {
        !self.is_begun
    }

    /// Takes what comes next; `sheet` makes rows of it.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn print_next<'s, T>(
        &mut self,
        next: &'s LiveBatch<T>,
        sheet: impl FnOnce(&'s T) -> Sheet<'s>,
    ) -> Result<()> {
        match next {
            LiveBatch::Rows(rows) => self.write_rows(&sheet(rows)),
            LiveBatch::Turn => {
                self.old = mem::take(&mut self.new);
                Ok(())
            }
        }
    }

    /// Writes the next rows at once.
    fn write_rows(&mut self, sheet: &Sheet<'_>) -> Result<()> {
        let has_header = !mem::replace(&mut self.is_begun, true);
        let mut stdout = io::stdout();
        let mut to = |out: &mut (dyn Write + Send)| {
            let is_csv = self.output.format != RowFormat::Jsonl;
            let mut counted = LineCountWriter {
                out,
                header: (&mut self.header, has_header),
                is_header: is_csv,
                lines: &mut self.new,
            };
            match is_csv {
                true => sheet.write_csv(1, &mut counted),
                false => sheet.write_jsonl(1, &mut counted),
            }
        };
        if self.output.reshape.is_nothing() {
            to(&mut stdout)?;
        } else {
            let mut rows = ReshapeWriter::new(&self.output.reshape, has_header, &mut stdout);
            to(&mut rows)?;
            rows.finish().map_err(Error::Output)?;
        }
        stdout.flush().map_err(Error::Output)
    }

    /// Takes the rows that come again and those after them, and gives `out` those that were not written
    /// before.
    pub(super) fn skip_written<'w>(&self, out: &'w mut (dyn Write + Send)) -> RemainingRows<'w> {
        RemainingRows {
            out,
            before: [self.new, self.old, self.header].into_iter().collect(),
            now: LineDigest::default(),
            is_otherwise: false,
        }
    }

    /// Reports written rows that differ from those of the whole input, after `rest` has taken all rows.
    pub(super) fn report_changes(&self, mut rest: RemainingRows<'_>, report: &Report) {
        rest.finish_blocks();
        if rest.is_otherwise || !rest.before.is_empty() {
            report.warn_rows_changed();
        }
    }
}

/// Counts lines that are written.
struct LineCountWriter<'w> {
    out: &'w mut (dyn Write + Send),
    /// The header, and whether it is wanted.
    header: (&'w mut LineDigest, bool),
    /// It comes next.
    is_header: bool,
    lines: &'w mut LineDigest,
}

impl Write for LineCountWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        if self.is_header {
            let end = memchr_iter(b'\n', bytes).next();
            let header;
            (header, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            self.is_header = end.is_none();
            if self.header.1 {
                self.header.0.add_lines(header);
                self.out.write_all(header)?;
            }
        }
        self.lines.add_lines(rest);
        self.out.write_all(rest)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Leaves out lines that were written already.
pub(super) struct RemainingRows<'w> {
    out: &'w mut (dyn Write + Send),
    /// These, the last ones first.
    before: Vec<LineDigest>,
    /// The rows that have come of those that come first.
    now: LineDigest,
    /// Something else came.
    is_otherwise: bool,
}

impl RemainingRows<'_> {
    /// Ends the blocks that are complete.
    fn finish_blocks(&mut self) {
        while let Some(all) = self.before.pop_if(|all| all.lines == self.now.lines) {
            self.is_otherwise |= mem::take(&mut self.now) != all;
        }
    }
}

impl Write for RemainingRows<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        self.finish_blocks();
        while let (Some(all), false) = (self.before.last(), rest.is_empty()) {
            let left = all.lines - self.now.lines;
            let end = usize::try_from(left - 1).ok();
            let end = end.and_then(|last| memchr_iter(b'\n', rest).nth(last));
            let before;
            (before, rest) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
            self.now.add_lines(before);
            self.finish_blocks();
        }
        self.out.write_all(rest)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::cli;

    #[test]
    fn what_was_written_is_left_out_however_the_rest_is_cut() {
        let output = cli::AroundArgs::default().output(RowFormat::Csv);
        let lines = |text: &[u8]| {
            let mut lines = LineDigest::default();
            lines.add_lines(text);
            lines
        };
        // The row of step 0 was written before the last turn but one.
        let all = b"step,calls\n1,3\n2,4\n3,5\n4,1\n";
        let early = LiveRowPrinter {
            is_begun: true,
            header: lines(&all[..11]),
            old: lines(&all[11..15]),
            new: lines(&all[15..23]),
            ..LiveRowPrinter::new(&output)
        };
        let other = b"step,calls\n1,3\n2,4\n3,6\n4,1\n";
        for (all, is_otherwise) in [(all, false), (other, true)] {
            for size in 1..=all.len() {
                let mut out = Vec::new();
                let mut rest = early.skip_written(&mut out);
                all.chunks(size)
                    .for_each(|bytes| rest.write_all(bytes).unwrap());
                assert!(rest.before.is_empty());
                assert_eq!(rest.is_otherwise, is_otherwise);
                assert_eq!(out, b"4,1\n");
            }
        }
    }
}
