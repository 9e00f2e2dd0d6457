//! Rows that are written before the input ends, and the rest of them when it has.
//!
//! What comes at the end is made of the whole input, as it is of a file. The rows that were written
//! before are left out then, and held against it: later lines may tell something else of a step than
//! was known when its line came.

use super::cli::Format;
use crate::error::{Error, Result};
use crate::output::render::Sheet;
use crate::output::written::Written;
use crate::report::Report;
use memchr::memchr_iter;
use std::io::{self, IsTerminal, Write};

/// Rows that were written already.
#[derive(Debug)]
pub struct Early {
    format: Format,
    lines: u64,
    written: Written,
}

impl Early {
    /// None yet, in this format.
    pub fn new(format: Format) -> Early {
        Early {
            format,
            lines: 0,
            written: Written::default(),
        }
    }

    /// Whether rows may be written one after the other: a table is drawn as a whole.
    pub fn is_possible(&self) -> bool {
        matches!(self.format, Format::Csv | Format::Jsonl) && !io::stdout().is_terminal()
    }

    /// Writes the next rows at once.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn rows(&mut self, sheet: &Sheet<'_>) -> Result<()> {
        let mut text = Vec::new();
        match self.format {
            Format::Jsonl => sheet.jsonl(1, &mut text)?,
            _ => sheet.csv(1, &mut text)?,
        }
        let has_header = self.format == Format::Csv && self.lines > 0;
        let header = match memchr_iter(b'\n', &text).next() {
            Some(end) if has_header => end + 1,
            _ => 0,
        };
        let text = &text[header..];
        self.lines += memchr_iter(b'\n', text).count() as u64;
        self.written.add(text);
        let mut out = io::stdout().lock();
        out.write_all(text)
            .and_then(|()| out.flush())
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

    #[test]
    fn what_was_written_is_left_out_however_the_rest_is_cut() {
        let all = b"step,calls\n1,3\n2,4\n3,5\n";
        let mut early = Early::new(Format::Csv);
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
