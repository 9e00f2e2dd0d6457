//! Rows that are written before the input ends, and the rest of them when it has.
//!
//! What comes at the end is made of the whole input, as it is of a file. The rows that were written
//! before are left out then, and held against it: later lines may tell something else of a step than
//! was known when its line came.

use super::cli::{Format, Output};
use crate::error::{Error, Result};
use crate::output::render::Sheet;
use crate::output::reshape::Reshaped;
use crate::output::written::Written;
use crate::report::Report;
use memchr::memchr_iter;
use std::io::{self, IsTerminal, Write};

/// Rows that were written already.
#[derive(Debug)]
pub struct Early<'o> {
    output: &'o Output,
    lines: u64,
    written: Written,
}

impl<'o> Early<'o> {
    /// None yet.
    pub fn new(output: &'o Output) -> Early<'o> {
        Early {
            output,
            lines: 0,
            written: Written::default(),
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
        self.lines == 0
    }

    /// Writes the next rows at once.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn rows(&mut self, sheet: &Sheet<'_>) -> Result<()> {
        let mut text = Vec::new();
        let has_header = self.is_empty();
        match self.output.format {
            Format::Jsonl => sheet.jsonl(1, &mut text)?,
            _ => sheet.csv(1, &mut text)?,
        }
        let has_no_header = has_header || self.output.format == Format::Jsonl;
        let header = match memchr_iter(b'\n', &text).next() {
            Some(end) if !has_no_header => end + 1,
            _ => 0,
        };
        let text = &text[header..];
        self.lines += memchr_iter(b'\n', text).count() as u64;
        self.written.add(text);
        let mut out = io::stdout();
        if self.output.reshape.is_nothing() {
            out.write_all(text).and_then(|()| out.flush())
        } else {
            let mut rows = Reshaped::new(&self.output.reshape, has_header, &mut out);
            rows.write_all(text).and_then(|()| rows.finish())
        }
        .map_err(Error::Output)
    }

    /// Takes all rows, and gives `out` those that were not written before.
    pub(super) fn rest<'w>(&self, out: &'w mut (dyn Write + Send)) -> Rest<'w> {
        Rest {
            out,
            left: self.lines,
            written: Written::default(),
        }
    }

    /// Reports rows that the whole input tells otherwise: `rest` has taken all rows.
    pub(super) fn hold(&self, rest: &Rest<'_>, report: &Report) {
        if rest.left > 0 || rest.written != self.written {
            report.early();
        }
    }
}

/// Leaves out lines that were written already.
pub(super) struct Rest<'w> {
    out: &'w mut (dyn Write + Send),
    left: u64,
    written: Written,
}

impl Write for Rest<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let before = match usize::try_from(self.left) {
            Ok(0) => 0,
            Ok(left) => memchr_iter(b'\n', bytes)
                .nth(left - 1)
                .map_or(bytes.len(), |end| end + 1),
            Err(_) => bytes.len(),
        };
        let (before, rest) = bytes.split_at(before);
        self.left -= memchr_iter(b'\n', before).count() as u64;
        self.written.add(before);
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
        let all = b"step,calls\n1,3\n2,4\n3,5\n";
        let output = cli::AroundArgs::default().output(Format::Csv);
        let mut early = Early::new(&output);
        early.lines = 3;
        early.written.add(&all[..19]);
        for size in 1..=all.len() {
            let mut out = Vec::new();
            let mut rest = early.rest(&mut out);
            all.chunks(size)
                .for_each(|bytes| rest.write_all(bytes).unwrap());
            assert_eq!((rest.left, rest.written), (0, early.written));
            assert_eq!(out, b"3,5\n");
        }
    }
}
