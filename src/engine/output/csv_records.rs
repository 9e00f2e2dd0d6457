//! CSV that arrives in pieces, row by row.

use csv_core::{ReadRecordResult, Reader};
use std::io;

/// The part of a row that has arrived.
#[derive(Debug)]
pub(super) struct CsvRecords {
    reader: Reader,
    fields: Vec<u8>,
    ends: Vec<usize>,
    /// How much of both is in use.
    begun: (usize, usize),
}

/// The fields of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct CsvFields<'r> {
    text: &'r [u8],
    ends: &'r [usize],
}

impl<'r> CsvFields<'r> {
    /// Each field, without its quotes.
    pub(super) fn iter(self) -> impl Iterator<Item = &'r [u8]> {
        let mut from = 0;
        self.ends.iter().map(move |&end| {
            let field = &self.text[from..end];
            from = end;
            field
        })
    }
}

impl CsvRecords {
    pub(super) fn new() -> CsvRecords {
        CsvRecords {
            reader: Reader::new(),
            fields: Vec::new(),
            ends: Vec::new(),
            begun: (0, 0),
        }
    }

    /// Gives `row` each row that ends in these bytes.
    ///
    /// # Errors
    /// Those of `row`.
    pub(super) fn read_rows(
        &mut self,
        mut bytes: &[u8],
        mut row: impl FnMut(CsvFields<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            bytes = self.read_piece(bytes, &mut row)?;
        }
        Ok(())
    }

    /// Gives `row` the last row, if it has no line end.
    ///
    /// # Errors
    /// Those of `row`.
    pub(super) fn end_rows(
        &mut self,
        mut row: impl FnMut(CsvFields<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.read_piece(&[], &mut row).map(|_| ())
    }

    fn read_piece<'b>(
        &mut self,
        bytes: &'b [u8],
        row: &mut dyn FnMut(CsvFields<'_>) -> io::Result<()>,
    ) -> io::Result<&'b [u8]> {
        // There is always room: a full buffer with no more bytes would look like the end.
        let room = bytes.len() + 1;
        let at_least = |len: usize, begun: usize| len.max(begun + room);
        let (fields, ends) = (&mut self.fields, &mut self.ends);
        fields.resize(at_least(fields.len(), self.begun.0), 0);
        ends.resize(at_least(ends.len(), self.begun.1), 0);
        let (result, read, wrote, ended) = self.reader.read_record(
            bytes,
            &mut fields[self.begun.0..],
            &mut ends[self.begun.1..],
        );
        self.begun = (self.begun.0 + wrote, self.begun.1 + ended);
        if matches!(result, ReadRecordResult::Record) {
            let (text, ends) = (&fields[..self.begun.0], &ends[..self.begun.1]);
            self.begun = (0, 0);
            row(CsvFields { text, ends })?;
        }
        Ok(&bytes[read..])
    }
}
