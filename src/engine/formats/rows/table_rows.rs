//! The call table that one stage of this program writes, read as rows for another stage.

use crate::formats::lines::{RecordFormat, RecordText};
use crate::formats::rows::CsvCallTable;
use crate::formats::rows::record_reader::has_open_quote;
use crate::output::table::Row;
use memchr::{memchr_iter, memrchr};
use std::io::{self, Write};

/// The reader of a table after its header.
struct TableReader {
    csv: CsvCallTable,
    scratch: csv::ByteRecord,
}

/// Takes the text of a table, and gives its rows to `take`.
pub struct TableFeed<F> {
    /// The beginning of an incomplete row.
    open: Vec<u8>,
    reader: Option<TableReader>,
    take: F,
}

impl<F> TableFeed<F> {
    /// Gives rows to `take`.
    pub fn new(take: F) -> TableFeed<F> {
        TableFeed {
            open: Vec::new(),
            reader: None,
            take,
        }
    }
}

impl<F: FnMut(&Row<'_>)> Write for TableFeed<F> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.open.extend_from_slice(text);
        let end = whole_rows_len(&self.open);
        let rows: Vec<u8> = self.open.drain(..end).collect();
        feed_rows(&mut self.reader, &rows, &mut self.take);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Counts the bytes of whole rows.
fn whole_rows_len(text: &[u8]) -> usize {
    let mut end = text.len();
    // A quoted field may contain line ends.
    while let Some(at) = text.get(..end).and_then(|text| memrchr(b'\n', text)) {
        if !has_open_quote(&text[..=at]) {
            return at + 1;
        }
        end = at;
    }
    0
}

/// Gives the rows of `text`, which are whole, to `take`; the first one is the header.
fn feed_rows(reader: &mut Option<TableReader>, text: &[u8], take: &mut impl FnMut(&Row<'_>)) {
    let mut rest = text;
    while !rest.is_empty() {
        let mut ends = memchr_iter(b'\n', rest).map(|at| at + 1);
        let end = ends.find(|&end| !has_open_quote(rest.get(..end).unwrap_or(rest)));
        let (row, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        match reader {
            Some(TableReader { csv, scratch }) => {
                // Rows of this program are never damaged.
                let _ = csv.read_record(scratch, RecordText::from_bytes(row), take);
            }
            None => {
                let csv = CsvCallTable::read_header(row, "the call table").ok();
                *reader = csv.map(|csv| TableReader {
                    csv,
                    scratch: csv::ByteRecord::new(),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_as_they_were_written() {
        let text = b"op,count,datatype,host\nSend,1,int8,\"a\nb\"\nRecv,2,int8,c\nSen";
        let end = whole_rows_len(text);
        assert_eq!(&text[end..], b"Sen");
        assert_eq!(whole_rows_len(b"Send,1,int8,\"a\nb"), 0);
        let (mut reader, mut rows) = (None, Vec::new());
        feed_rows(&mut reader, &text[..end], &mut |row| {
            rows.push((row.op.to_vec(), row.host.to_vec()));
        });
        let row = |op: &str, host: &str| (op.as_bytes().to_vec(), host.as_bytes().to_vec());
        assert_eq!(rows, [row("Send", "a\nb"), row("Recv", "c")]);
    }
}
