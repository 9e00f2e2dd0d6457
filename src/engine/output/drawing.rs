//! A table for people of rows that come as CSV, as the call table does.

use crate::output::records::{Fields, Records};
use crate::output::render::Cell;
use crate::output::render::look::{Drawn, Look};
use std::io::{self, Write};

/// Takes CSV with a header, and draws some of its columns.
#[derive(Debug)]
pub struct Drawing<'c> {
    table: Table<'c>,
    records: Records,
}

#[derive(Debug)]
struct Table<'c> {
    wanted: &'c [String],
    /// Where each of them is in a row, once the header is known.
    places: Option<Vec<Option<usize>>>,
    drawn: Drawn<'c>,
}

impl<'c> Drawing<'c> {
    /// Draws the columns `wanted`.
    pub fn new(wanted: &'c [String], look: Look) -> Drawing<'c> {
        let table = Table {
            wanted,
            places: None,
            drawn: Drawn::new(wanted, look),
        };
        Drawing {
            table,
            records: Records::new(),
        }
    }

    /// The table.
    ///
    /// # Errors
    /// None: a row that ends without a line end is one, too.
    pub fn finish(mut self) -> io::Result<String> {
        self.records.end(|row| self.table.record(row))?;
        Ok(self.table.drawn.text())
    }
}

impl Table<'_> {
    fn record(&mut self, row: Fields<'_>) -> io::Result<()> {
        let Some(places) = &self.places else {
            let place = |name: &String| row.iter().position(|is| is == name.as_bytes());
            self.places = Some(self.wanted.iter().map(place).collect());
            return Ok(());
        };
        let fields: Vec<&[u8]> = row.iter().collect();
        let cells: Vec<Cell<'_>> = places
            .iter()
            .map(|place| {
                cell(
                    place
                        .and_then(|at| fields.get(at))
                        .copied()
                        .unwrap_or_default(),
                )
            })
            .collect();
        self.drawn.row(cells.iter());
        Ok(())
    }
}

/// A field as a value.
fn cell(field: &[u8]) -> Cell<'_> {
    let number = std::str::from_utf8(field).ok().map(str::parse);
    match number {
        _ if field.is_empty() => Cell::Empty,
        Some(Ok(number)) => Cell::Int(number),
        _ => field.into(),
    }
}

impl Write for Drawing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let read = self.records.read(bytes, |row| self.table.record(row));
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
            let mut drawing = Drawing::new(&wanted, Look::default());
            for piece in text.chunks(size) {
                drawing.write_all(piece).unwrap();
            }
            let drawn = drawing.finish().unwrap();
            assert_eq!(drawn, "op    bytes  none\na,b   4 096\nSend\nRecv      7\n");
        }
    }
}
