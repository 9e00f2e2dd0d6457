//! The call table as an input, as CSV or as JSON lines: its columns, and how fields are read.

pub(super) mod chain;
mod limits;
pub mod lines;
pub(super) mod ordered;
mod record_format;
mod record_reader;
pub mod table_rows;

use super::{InputFormat, ProbeAnswer, Provides};
use crate::error::{Error, Result};
use crate::grammar::token::bytes_equal_to;
use crate::output::table::{
    COLUMNS, Column, JsonRow, Lacks, NO_JSON_ROW, Readable, Row, Source, TEXTS, Timing,
};
use limits::MAX_PLAIN_FIELDS;
use memchr::{memchr, memmem};
use record_format::{RecordFormat, RecordText};
use record_reader::trim_line_end;

/// The parts that a call table provides.
const TABLE_PROVIDES: Provides = Provides::CALLS
    .and(Provides::STEPS)
    .and(Provides::DURATIONS);

/// The call table as CSV with a header.
pub(super) const CSV: InputFormat = InputFormat {
    name: "csv",
    what: "a call table",
    tells: TABLE_PROVIDES,
    probe: |head| {
        let line = head.first_line();
        // The comma is checked first: it spares 10,000 logs a list of names.
        ProbeAnswer::yes_or_no(line.contains(&b',') && is_header(line))
    },
};

/// The call table as JSON lines.
pub(super) const JSONL: InputFormat = InputFormat {
    name: "jsonl",
    what: "a call table",
    tells: TABLE_PROVIDES,
    probe: |head| {
        let line = head.first_line();
        ProbeAnswer::yes_or_no(line.starts_with(b"{") && memmem::find(line, b"\"op\"").is_some())
    },
};

/// Returns true if most names of a line are columns of the call table.
fn is_header(line: &[u8]) -> bool {
    let is_column = |name: &&&[u8]| COLUMNS.iter().any(|c| c.as_bytes() == **name);
    let names: Vec<&[u8]> = line.split(|&b| b == b',').map(unquote).collect();
    names.iter().filter(is_column).count() * 2 > names.len()
}

/// Returns true if a table that begins with these bytes has the columns of calls.
pub(super) fn has_needed_columns(head: &[u8]) -> bool {
    let line = head.split(|&b| b == b'\n').next().unwrap_or_default();
    CsvCallTable::read_header(line, "").is_ok()
}

fn unquote(name: &[u8]) -> &[u8] {
    name.strip_prefix(b"\"")
        .and_then(|n| n.strip_suffix(b"\""))
        .unwrap_or(name)
}

/// The reader of CSV.
#[derive(Debug, Clone)]
pub struct CsvCallTable(TableColumns);

impl RecordFormat for CsvCallTable {
    type Scratch = csv::ByteRecord;
    const HAS_HEADER: bool = true;
    const HAS_QUOTES: bool = true;

    fn read_header(header: &[u8], name: &str) -> Result<CsvCallTable> {
        let mut record = csv::ByteRecord::new();
        read_quoted(trim_line_end(header), &mut record);
        TableColumns::find(&record, name).map(CsvCallTable)
    }

    #[inline]
    fn read_record(
        &self,
        fields: &mut csv::ByteRecord,
        record: RecordText<'_>,
        take: &mut impl FnMut(&Row<'_>),
    ) -> Result<(), Lacks> {
        let (CsvCallTable(columns), text) = (self, record.bytes);
        let line = match columns.ends_in_text {
            true => trim_line_end(text),
            false => trim_line_end(text).trim_ascii_end(),
        };
        // A last line without an end may lack digits.
        let is_last = !text.ends_with(b"\n");
        let has_quotes = record.may_have_quotes && memchr(b'"', line).is_some();
        let plain = if has_quotes || is_last {
            None
        } else {
            columns.read_plain_line(line)
        };
        let row = match plain {
            Some(row) => row,
            None => {
                read_quoted(line, fields);
                match fields.len() < columns.width && is_last {
                    true => Err("the rest of the row"),
                    false => columns.read_row(|at| fields.get(at)),
                }
            }
        };
        let (row, timing) = row?;
        take_timed_row(row, timing, take);
        Ok(())
    }
}

/// A row and its timing.
type TimedTableRow<'r> = Result<(Row<'r>, Timing<'r>), Lacks>;

/// Gives a row with its timing to `take`.
#[inline(always)]
fn take_timed_row(row: Row<'_>, timing: Timing<'_>, take: &mut impl FnMut(&Row<'_>)) {
    let timing = (timing != Timing::default()).then_some(timing);
    take(&Row {
        timing: timing.as_ref(),
        ..row
    });
}

/// The reader of JSON lines.
#[derive(Debug, Clone, Copy)]
pub struct JsonlCallTable;

impl RecordFormat for JsonlCallTable {
    type Scratch = ();

    fn read_header(_: &[u8], _: &str) -> Result<JsonlCallTable> {
        Ok(JsonlCallTable)
    }

    fn read_record(
        &self,
        (): &mut (),
        record: RecordText<'_>,
        take: &mut impl FnMut(&Row<'_>),
    ) -> Result<(), Lacks> {
        let row: JsonRow<'_> =
            serde_json::from_slice(record.bytes.trim_ascii()).map_err(|_| NO_JSON_ROW)?;
        let (row, timing) = row.row()?;
        take_timed_row(row, timing, take);
        Ok(())
    }
}

/// Reads a record with quotes in it, as the csv crate does.
fn read_quoted(text: &[u8], record: &mut csv::ByteRecord) {
    record.clear();
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(text);
    // Bytes in memory can be read, and any number of fields is taken.
    let _ = reader.read_byte_record(record);
}

/// Where each known column is.
#[derive(Debug, Clone)]
struct TableColumns {
    at: [Option<usize>; COLUMNS.len()],
    /// The last column is a text: blanks at the end of a row are its own.
    ends_in_text: bool,
    /// How many columns there are, known or not.
    width: usize,
}

impl TableColumns {
    fn find(header: &csv::ByteRecord, name: &str) -> Result<TableColumns> {
        let names = || header.iter().map(<[u8]>::trim_ascii);
        let last = names().next_back().unwrap_or_default();
        let mut columns = COLUMNS.iter().zip(TEXTS);
        let columns = TableColumns {
            at: COLUMNS.map(|column| names().position(|name| name == column.as_bytes())),
            ends_in_text: columns.any(|(name, is_text)| is_text && name.as_bytes() == last),
            width: header.len(),
        };
        for needed in [Column::op, Column::count, Column::datatype] {
            if columns.at[needed as usize].is_none() {
                return Err(Error::Content(format!(
                    "{name}: column \"{}\" is missing; it comes from nccl-comms",
                    COLUMNS[needed as usize]
                )));
            }
        }
        Ok(columns)
    }

    /// Reads a line without quotes by its commas; `None` if it has too many fields.
    fn read_plain_line<'r>(&self, line: &'r [u8]) -> Option<TimedTableRow<'r>> {
        let mut fields: [&[u8]; MAX_PLAIN_FIELDS] = [b""; MAX_PLAIN_FIELDS];
        let mut n = 0;
        let mut from = 0;
        let mut field = |end: usize| {
            *fields.get_mut(n)? = line.get(from..end)?;
            (n, from) = (n + 1, end + 1);
            Some(())
        };
        // Fields are short: to look at eight bytes at a time beats a search for each comma.
        let mut words = line.chunks_exact(8);
        let mut at = 0;
        for word in &mut words {
            let mut hits = mark_commas(u64::from_le_bytes(word.try_into().unwrap_or_default()));
            while hits != 0 {
                field(at + hits.trailing_zeros() as usize / 8)?;
                hits &= hits - 1;
            }
            at += 8;
        }
        for (i, _) in words
            .remainder()
            .iter()
            .enumerate()
            .filter(|(_, b)| **b == b',')
        {
            field(at + i)?;
        }
        *fields.get_mut(n)? = &line[from..];
        Some(self.read_row(|at| fields.get(at).copied()))
    }

    fn read_row<'r>(&self, get: impl Fn(usize) -> Option<&'r [u8]>) -> TimedTableRow<'r> {
        let (columns, get) = (self, &get);
        Row::read(RecordFields { columns, get })
    }
}

/// The fields of a record.
struct RecordFields<'f, G> {
    columns: &'f TableColumns,
    get: &'f G,
}

impl<G> Clone for RecordFields<'_, G> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<G> Copy for RecordFields<'_, G> {}

impl<'r, G: Fn(usize) -> Option<&'r [u8]>> Source<'r> for RecordFields<'_, G> {
    #[inline(always)]
    fn field<T: Readable<'r, K>, K>(self, column: Column) -> Option<T> {
        let at = self.columns.at[column as usize];
        T::of_text(at.and_then(self.get).unwrap_or(b""))
    }
}

/// Marks the high bit of each byte of a word that is a comma.
#[inline(always)]
fn mark_commas(word: u64) -> u64 {
    bytes_equal_to(b',', word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::lines::{self, RowVisitor};
    use crate::log::mend::blocks::BLOCK_REJOINER;
    use crate::members::duplicate_inputs::DuplicateInputs;
    use crate::output::table::csv_header;
    use crate::output::table::samples::Samples;
    use crate::report::account::Account;
    use crate::source::{self, Input, InputName};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_line_cut_at_its_commas_is_what_the_csv_crate_reads(
            fields in proptest::collection::vec("[ -~&&[^,\"]]{0,6}", 1..30),
            at in proptest::collection::vec(proptest::option::of(0..40_usize), COLUMNS.len()),
        ) {
            let line = fields.join(",");
            let at = at.try_into().unwrap();
            let columns = TableColumns { at, ends_in_text: true, width: 0 };
            let mut record = csv::ByteRecord::new();
            read_quoted(line.as_bytes(), &mut record);
            let expected = columns.read_row(|at| record.get(at));
            // The csv crate gives no record for an empty line.
            if !line.is_empty() {
                prop_assert_eq!(columns.read_plain_line(line.as_bytes()), Some(expected));
            }
        }
    }

    proptest! {
        #[test]
        fn commas_are_found_among_any_bytes(bytes in any::<[u8; 8]>(), at in 0..9_usize) {
            let mut bytes = bytes;
            if let Some(b) = bytes.get_mut(at) {
                *b = b',';
            }
            let expected = bytes.map(|b| if b == b',' { 0x80 } else { 0 });
            prop_assert_eq!(mark_commas(u64::from_le_bytes(bytes)).to_le_bytes(), expected);
        }
    }

    /// Rows as CSV.
    #[derive(Default)]
    struct Texts(Vec<u8>);

    impl RowVisitor for Texts {
        fn visit_row(&mut self, row: &Row<'_>) {
            row.csv(&mut self.0);
        }
    }

    /// Reads a table and writes it as CSV again.
    fn reread<L: RecordFormat>(table: &[u8]) -> (Vec<u8>, Account) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, table).unwrap();
        let origin = InputName::Path(file.path().to_owned());
        let input = Input::open(&origin, source::Options::default(), BLOCK_REJOINER).unwrap();
        let options = lines::Options {
            jobs: 1,
            strict: false,
        };
        let (mut text, mut twice) = (Vec::new(), DuplicateInputs::default());
        let sink = |Texts(rows)| {
            text.extend(rows);
            Ok(())
        };
        let new = Texts::default;
        let account =
            lines::read_records::<L, _>(&input, options, &mut twice, new, |_| {}, sink).unwrap();
        (text, account)
    }

    proptest! {
        /// Any value of every column: as CSV with the columns in any order, as JSON.
        #[test]
        fn rows_are_read_as_they_were_written(
            numbers in proptest::collection::vec(any::<u64>(), 1..40),
            texts in proptest::collection::vec("\\PC{0,6}|[ ,\"\r\n\t\\\\]{0,4}", 1..9),
            odd in proptest::collection::vec(any::<u8>(), 0..6),
            last in 0..COLUMNS.len(),
        ) {
            let mut texts: Vec<Vec<u8>> = texts.into_iter().map(String::into_bytes).collect();
            let rows = |texts: &[Vec<u8>], write: fn(&Row<'_>, &mut Vec<u8>)| {
                let mut samples = Samples { numbers: &numbers, texts, at: 0 };
                let mut text = Vec::new();
                for _ in 0..3 {
                    let (mut row, timing) = Row::sample(&mut samples);
                    row.timing = Some(&timing);
                    write(&row, &mut text);
                }
                text
            };
            let (csv, json) = (rows(&texts, |row, out| row.csv(out)), rows(&texts, |row, out| row.jsonl(out)));
            let (again, account) = reread::<JsonlCallTable>(&json);
            prop_assert_eq!((again, account.damaged), (csv, 0));
            // JSON has no bytes that are no text.
            texts.push(odd);
            let csv = rows(&texts, |row, out| row.csv(out));
            let table = [csv_header().as_bytes(), &csv].concat();
            let (again, account) = reread::<CsvCallTable>(&table);
            prop_assert_eq!((&again, account.damaged), (&csv, 0));
            let mut turned = csv::Writer::from_writer(Vec::new());
            for record in csv::ReaderBuilder::new().has_headers(false).from_reader(&table[..]).byte_records() {
                let mut fields: Vec<Vec<u8>> = record.unwrap().iter().map(<[u8]>::to_vec).collect();
                fields.rotate_right(last);
                turned.write_record(&fields).unwrap();
            }
            let (again, account) = reread::<CsvCallTable>(&turned.into_inner().unwrap());
            prop_assert_eq!((again, account.damaged), (csv, 0));
        }
    }

    #[test]
    fn a_quoted_field_may_have_a_line_end() {
        let mut record = csv::ByteRecord::new();
        read_quoted(b"a,\"b\nc\",d", &mut record);
        assert_eq!(record.get(1), Some(&b"b\nc"[..]));
    }
}
