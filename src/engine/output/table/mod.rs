//! The wire between the programs: the call table, one row a call, found by column name.
//!
//! `columns` declares the columns, `kinds` has the bytes of each kind of field.

mod columns;
mod json;
mod kinds;
pub mod packed;
mod scalar;

pub use columns::{COLUMNS, Column, MEANINGS, Part, Row, Timing};
pub use columns::{Source, TEXTS};
pub use json::{JsonRow, NO_JSON_ROW};
pub use kinds::{ComparedAs, FieldValue, Readable, push_csv_text};

/// The defect of a line of a table.
pub(crate) type Lacks = &'static str;

impl Row<'_> {
    /// Bytes on the API basis: count × element size, or the source's own number if it has no count.
    pub fn bytes(&self) -> Option<u128> {
        let Some(count) = self.count else {
            return self.only_bytes.map(u128::from);
        };
        let size = self.datatype?.size()?;
        Some(u128::from(count) * u128::from(size))
    }

    /// Appends the row as CSV.
    pub fn csv(&self, out: &mut Vec<u8>) {
        for &part in Part::ALL {
            self.csv_part(part, out);
        }
    }

    /// Appends the row as typed values.
    pub fn packed(&self, out: &mut Vec<u8>) {
        for &part in Part::ALL {
            self.packed_part(part, out);
        }
    }

    /// Appends the row as the AWK chain's second script prints it: `op count datatype bytes`.
    pub fn chain(&self, out: &mut Vec<u8>) {
        for (column, end) in [
            (Column::op, b' '),
            (Column::count, b' '),
            (Column::datatype, b' '),
            (Column::bytes, b'\n'),
        ] {
            self.value(column, out);
            out.push(end);
        }
    }
}

impl Timing<'_> {
    /// How a call was served, without its time.
    pub fn without_times(self) -> Self {
        Timing {
            algo: self.algo,
            proto: self.proto,
            ..Timing::default()
        }
    }

    /// The common values of several calls that are one row.
    pub fn shared(self) -> Self {
        let (start_ns, dur_ns) = (None, None);
        Timing {
            start_ns,
            dur_ns,
            ..self
        }
    }
}

/// The header line of the call table.
pub fn csv_header() -> String {
    COLUMNS.join(",") + "\n"
}

#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;
