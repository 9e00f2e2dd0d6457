//! Draws a table for people from rows that come as CSV, such as the call table.

use crate::output::csv_records::{CsvFields, CsvRecords};
use crate::output::render::TableCell;
use crate::output::render::look::{DrawStyle, DrawnTable};
use std::io::{self, Write};

/// Takes CSV with a header, and draws some of its columns.
#[derive(Debug)]
pub struct CsvDrawing<'c> {
    table: CsvTable<'c>,
    records: CsvRecords,
}

#[derive(Debug)]
struct CsvTable<'c> {
    wanted: &'c [String],
    /// The place of each of them in a row, once the header is known.
    places: Option<Vec<Option<usize>>>,
    drawn: DrawnTable<'c>,
}

impl<'c> CsvDrawing<'c> {
    /// Draws the columns `wanted`.
    pub fn new(wanted: &'c [String], look: DrawStyle) -> CsvDrawing<'c> {
        let table = CsvTable {
            wanted,
            places: None,
            drawn: DrawnTable::new(wanted, look),
        };
        CsvDrawing {
            table,
            records: CsvRecords::new(),
        }
    }

    /// The table.
    ///
    /// # Errors
    /// None: a row that ends without a line end is one, too.
    pub fn finish(mut self) -> io::Result<String> {
        self.records.end_rows(|row| self.table.add_record(row))?;
        Ok(self.table.drawn.finish_text())
    }
}

impl CsvTable<'_> {
    fn add_record(&mut self, row: CsvFields<'_>) -> io::Result<()> {
        let Some(places) = &self.places else {
            let place = |name: &String| row.iter().position(|is| is == name.as_bytes());
            self.places = Some(self.wanted.iter().map(place).collect());
            return Ok(());
        };
        let fields: Vec<&[u8]> = row.iter().collect();
        let cells: Vec<TableCell<'_>> = places
            .iter()
            .map(|place| {
                parse_cell(
                    place
                        .and_then(|at| fields.get(at))
                        .copied()
                        .unwrap_or_default(),
                )
            })
            .collect();
        self.drawn.add_row(cells.iter());
        Ok(())
    }
}

/// Reads a field as a value.
fn parse_cell(field: &[u8]) -> TableCell<'_> {
    let number = std::str::from_utf8(field).ok().map(str::parse);
    match number {
        _ if field.is_empty() => TableCell::Empty,
        Some(Ok(number)) => TableCell::Int(number),
        _ => field.into(),
    }
}

impl Write for CsvDrawing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let read = self
            .records
            .read_rows(bytes, |row| self.table.add_record(row));
        read.map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name_however_the_rows_are_cut() {
        let wanted = ["op", "bytes", "none"].map(str::to_owned);
        let text = b"bytes,op\n4096,\"a,b\"\n,Send\n7,Recv";
        for size in 1..=text.len() {
            let mut drawing = CsvDrawing::new(&wanted, DrawStyle::default());
            for piece in text.chunks(size) {
                drawing.write_all(piece).unwrap();
            }
            let drawn = drawing.finish().unwrap();
            assert_eq!(drawn, "op    bytes  none\na,b   4 096\nSend\nRecv      7\n");
        }
    }
}
