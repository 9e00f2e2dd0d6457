//! Adds labels in front of rows, leaves out their header, or separates their fields by tabs: it
//! reads the CSV or JSON lines that every program writes, as they pass.

use crate::output::csv_records::{CsvFields, CsvRecords};
use crate::output::table::push_csv_text;
use memchr::memchr;
use std::io::{self, Write};

/// A column in front of each row, with the same value in all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelColumn {
    /// The column.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl std::str::FromStr for LabelColumn {
    type Err = String;

    fn from_str(text: &str) -> Result<LabelColumn, String> {
        let parts = text.split_once('=');
        let is_word = |name: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
            !name.is_empty() && name.chars().all(plain)
        };
        match parts.filter(|(name, _)| is_word(name)) {
            Some((name, value)) => Ok(LabelColumn {
                name: name.to_owned(),
                value: value.to_owned(),
            }),
            None => Err(format!(
                "invalid label `{text}`; expected a column and its value, such as job=123"
            )),
        }
    }
}

/// The changes to rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowReshape {
    /// Columns in front.
    pub labels: Vec<LabelColumn>,
    /// Leaves the header out.
    pub no_header: bool,
    /// Separates the fields by tabs.
    pub tabs: bool,
    /// The rows are lines of JSON.
    pub json: bool,
}

impl RowReshape {
    /// Refuses options that only rows can have if something else is written.
    ///
    /// # Errors
    /// There are labels, or the header is to be left out.
    pub fn refuse_row_options(&self) -> Result<(), crate::error::Error> {
        match self.labels.is_empty() && !self.no_header {
            true => Ok(()),
            false => Err(crate::error::Error::Content(
                "--label and --no-header are for rows: use --format csv, tsv or jsonl".to_owned(),
            )),
        }
    }

    /// Returns true if rows stay as they are.
    pub fn is_nothing(&self) -> bool {
        let header = self.no_header && !self.json;
        self.labels.is_empty() && !header && !self.tabs
    }
}

/// Writes rows to `out` with the changes.
pub struct ReshapeWriter<'r> {
    rows: ReshapedRows<'r>,
    records: CsvRecords,
    /// A line of JSON begins.
    is_start: bool,
    /// Its first bytes, until its keys are known.
    first: Option<Vec<u8>>,
}

struct ReshapedRows<'r> {
    reshape: &'r RowReshape,
    out: &'r mut (dyn Write + Send),
    /// The next row is the header.
    has_header: bool,
    row: Vec<u8>,
}

impl<'r> ReshapeWriter<'r> {
    /// Writes to `out`; CSV begins with the header if it `has_header`.
    pub fn new(
        reshape: &'r RowReshape,
        has_header: bool,
        out: &'r mut (dyn Write + Send),
    ) -> ReshapeWriter<'r> {
        let rows = ReshapedRows {
            reshape,
            out,
            has_header,
            row: Vec::new(),
        };
        ReshapeWriter {
            rows,
            records: CsvRecords::new(),
            is_start: true,
            first: Some(Vec::new()).filter(|_| has_header),
        }
    }

    /// Writes the last row, if it has no line end.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        if !self.rows.reshape.json {
            self.records.end_rows(|row| self.rows.write_record(row))?;
        } else if let Some(first) = self.first.take() {
            self.write_json(&first)?;
        }
        self.rows.out.flush()
    }

    /// Writes labels after the brace of each line.
    fn write_json(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let rows = &mut self.rows;
        while !bytes.is_empty() {
            if std::mem::take(&mut self.is_start) && bytes[0] == b'{' {
                rows.row.clear();
                rows.row.push(b'{');
                for label in &rows.reshape.labels {
                    // Writing strings to a buffer cannot fail.
                    let _ = serde_json::to_writer(&mut rows.row, &label.name);
                    rows.row.push(b':');
                    let _ = serde_json::to_writer(&mut rows.row, &label.value);
                    rows.row.push(b',');
                }
                rows.out.write_all(&rows.row)?;
                bytes = &bytes[1..];
            }
            let end = memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1);
            rows.out.write_all(&bytes[..end])?;
            self.is_start = bytes[..end].ends_with(b"\n");
            bytes = &bytes[end..];
        }
        Ok(())
    }

    /// Keeps the first line until it is whole: its keys must not be labels.
    fn buffer_first_line(&mut self, mut first: Vec<u8>, bytes: &[u8]) -> io::Result<()> {
        first.extend_from_slice(bytes);
        let Some(end) = memchr(b'\n', &first) else {
            self.first = Some(first);
            return Ok(());
        };
        if let Ok(serde_json::Value::Object(row)) = serde_json::from_slice(&first[..end]) {
            for key in row.keys() {
                refuse_known_column(&self.rows.reshape.labels, key.as_bytes())?;
            }
        }
        self.write_json(&first)
    }
}

impl ReshapedRows<'_> {
    fn write_record(&mut self, row: CsvFields<'_>) -> io::Result<()> {
        let is_header = std::mem::take(&mut self.has_header);
        if is_header {
            for name in row.iter() {
                refuse_known_column(&self.reshape.labels, name)?;
            }
            if self.reshape.no_header {
                return Ok(());
            }
        }
        let parted = if self.reshape.tabs { b'\t' } else { b',' };
        self.row.clear();
        for label in &self.reshape.labels {
            let text = if is_header { &label.name } else { &label.value };
            push_field(text.as_bytes(), parted, &mut self.row);
        }
        for text in row.iter() {
            push_field(text, parted, &mut self.row);
        }
        self.row.pop();
        self.row.push(b'\n');
        self.out.write_all(&self.row)
    }
}

/// Refuses a label that is a column already.
fn refuse_known_column(labels: &[LabelColumn], column: &[u8]) -> io::Result<()> {
    match labels.iter().find(|label| label.name.as_bytes() == column) {
        None => Ok(()),
        Some(label) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "--label {0}: the rows have a column {0} already",
                label.name
            ),
        )),
    }
}

/// Writes a field with the separator to the next.
fn push_field(text: &[u8], parted: u8, row: &mut Vec<u8>) {
    if parted == b'\t'
        && text.contains(&b'\t')
        && memchr::memchr3(b'"', b'\n', b'\r', text).is_none()
    {
        row.push(b'"');
        row.extend_from_slice(text);
        row.push(b'"');
    } else {
        push_csv_text(text, row);
    }
    row.push(parted);
}

impl Write for ReshapeWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match (self.rows.reshape.json, self.first.take()) {
            (false, _) => self
                .records
                .read_rows(bytes, |row| self.rows.write_record(row))?,
            (true, Some(first)) => self.buffer_first_line(first, bytes)?,
            (true, None) => self.write_json(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.rows.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reshaped(reshape: &RowReshape, text: &[u8], pieces: usize) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut rows = ReshapeWriter::new(reshape, true, &mut out);
        for piece in text.chunks(pieces) {
            rows.write_all(piece)?;
        }
        rows.finish()?;
        Ok(out)
    }

    fn labels(of: &[(&str, &str)]) -> Vec<LabelColumn> {
        let label = |&(name, value): &(&str, &str)| format!("{name}={value}").parse().unwrap();
        of.iter().map(label).collect()
    }

    #[test]
    fn a_label_is_a_name_and_a_value() {
        let label: LabelColumn = "job=a=b, c".parse().unwrap();
        assert_eq!(
            (label.name.as_str(), label.value.as_str()),
            ("job", "a=b, c")
        );
        assert!("job=".parse::<LabelColumn>().is_ok());
        for bad in ["", "job", "=1", "a b=1", "a,b=1"] {
            assert!(bad.parse::<LabelColumn>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_label_must_not_be_a_column() {
        let mut reshape = RowReshape {
            labels: labels(&[("op", "1")]),
            ..RowReshape::default()
        };
        assert!(reshaped(&reshape, b"step,op\n1,Send\n", 3).is_err());
        reshape.json = true;
        assert!(reshaped(&reshape, b"{\"step\":1,\"op\":\"Send\"}\n", 3).is_err());
    }

    proptest! {
        /// For any fields and pieces, the csv crate reads the labels and the same fields.
        #[test]
        fn the_rows_are_the_same_behind_their_labels(
            rows in proptest::collection::vec(
                proptest::collection::vec("[a-c\t,\"\r\n é]{0,6}", 3), 1..5),
            value in "[a-c\t,\"\n]{0,4}",
            pieces in 1..40_usize,
            (tabs, no_header) in any::<(bool, bool)>(),
        ) {
            let mut text = b"a,b,c\n".to_vec();
            for row in &rows {
                for field in row {
                    push_csv_text(field.as_bytes(), &mut text);
                    text.push(b',');
                }
                text.pop();
                text.push(b'\n');
            }
            let reshape = RowReshape {
                labels: labels(&[("job", &value)]),
                no_header,
                tabs,
                json: false,
            };
            let got = reshaped(&reshape, &text, pieces).unwrap();
            let mut reader = csv::ReaderBuilder::new();
            reader.has_headers(false).delimiter(if tabs { b'\t' } else { b',' });
            let got: Vec<Vec<String>> = reader
                .from_reader(&got[..])
                .records()
                .map(|row| row.unwrap().iter().map(str::to_owned).collect())
                .collect();
            let header = ["job", "a", "b", "c"].map(str::to_owned).to_vec();
            let mut expected: Vec<Vec<String>> = Vec::from_iter((!no_header).then_some(header));
            expected.extend(rows.iter().map(|row| {
                [vec![value.clone()], row.clone()].concat()
            }));
            prop_assert_eq!(got, expected);
        }

        #[test]
        fn every_line_of_json_has_the_labels(
            texts in proptest::collection::vec("\\PC{0,5}", 0..5),
            pieces in 1..40_usize,
        ) {
            let mut text = Vec::new();
            for one in &texts {
                serde_json::to_writer(&mut text, &serde_json::json!({ "a": one })).unwrap();
                text.push(b'\n');
            }
            let reshape = RowReshape {
                labels: labels(&[("job", "1\"2")]),
                json: true,
                ..RowReshape::default()
            };
            let got = String::from_utf8(reshaped(&reshape, &text, pieces).unwrap()).unwrap();
            let lines: Vec<serde_json::Value> =
                got.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let expected = texts.iter().map(|one| serde_json::json!({ "job": "1\"2", "a": one }));
            prop_assert_eq!(lines, expected.collect::<Vec<_>>());
        }
    }
}
