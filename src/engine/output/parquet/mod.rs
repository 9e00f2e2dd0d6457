//! The call table as a Parquet file, for DuckDB, Polars, Spark and pandas.
//!
//! The columns are those of the call table, by name and in order: there is no second list of them. The file
//! has only what all readers take: numbers with a sign of four or eight bytes, texts, and time stamps in µs.
//! All columns may be null. `docs/formats.md` describes it.

mod group;
mod hybrid;
mod limits;
mod pages;
mod schema;

use crate::output::table::Part;
use crate::output::table::packed::split_part;
use ::parquet::basic::{Compression, Encoding, ZstdLevel};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use ::parquet::file::writer::SerializedFileWriter;
use group::RowGroup;
use std::io::{self, Write};
use std::sync::Arc;

/// Values that the file does not hold; their fields are null.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LostValues {
    /// Time stamps that are not a date and time.
    pub times: u64,
    /// Numbers that the column's four or eight bytes do not hold.
    pub numbers: u64,
}

/// Takes rows of [`Row::packed`](crate::output::table::Row::packed), and writes a Parquet file of them: a group
/// of rows whenever it is full, and the rest at the end.
pub struct ParquetCalls<'w> {
    out: &'w mut (dyn Write + Send),
    /// Nothing is written before the first group.
    file: Option<SerializedFileWriter<Vec<u8>>>,
    group: RowGroup,
    /// The beginning of a row.
    open: Vec<u8>,
    lost: LostValues,
}

impl<'w> ParquetCalls<'w> {
    /// Writes to `out`.
    pub fn new(out: &'w mut (dyn Write + Send)) -> ParquetCalls<'w> {
        ParquetCalls {
            out,
            file: None,
            group: RowGroup::default(),
            open: Vec::new(),
            lost: LostValues::default(),
        }
    }

    /// Writes the rest, and what makes a file of it.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn finish(mut self) -> io::Result<LostValues> {
        self.write_group()?;
        if let Some(file) = &mut self.file {
            file.finish().map_err(parquet_error)?;
        }
        self.pass_on()?;
        self.out.flush()?;
        Ok(self.lost)
    }

    /// Takes the whole rows of `bytes`, and returns the rest.
    fn take_rows<'b>(&mut self, mut bytes: &'b [u8]) -> io::Result<&'b [u8]> {
        while let Some(parts) = split_row(bytes) {
            let (row, rest) = parts;
            self.lost.times += u64::from(!self.group.push_row(&row));
            bytes = rest;
            if self.group.is_full() {
                self.write_group()?;
            }
        }
        Ok(bytes)
    }

    fn write_group(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(new_file().map_err(parquet_error)?),
        };
        if !self.group.is_empty() {
            let numbers = self.group.write_to(file).map_err(parquet_error)?;
            self.lost.numbers += numbers;
        }
        self.pass_on()
    }

    /// Passes on what the file has so far.
    fn pass_on(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        file.flush()?;
        let written = std::mem::take(file.inner_mut());
        self.out.write_all(&written)
    }
}

/// The parts of a row.
type RowParts<'b> = [&'b [u8]; Part::ALL.len()];

/// Divides bytes into the parts of the first row and the rest; `None` if it is not whole.
#[inline]
fn split_row(mut bytes: &[u8]) -> Option<(RowParts<'_>, &[u8])> {
    let mut parts = [&[][..]; Part::ALL.len()];
    for part in &mut parts {
        (*part, bytes) = split_part(bytes)?;
    }
    Some((parts, bytes))
}

impl Write for ParquetCalls<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.open.is_empty() {
            let rest = self.take_rows(bytes)?;
            self.open.extend_from_slice(rest);
            return Ok(bytes.len());
        }
        let mut open = std::mem::take(&mut self.open);
        open.extend_from_slice(bytes);
        let left = self.take_rows(&open)?.len();
        open.drain(..open.len() - left);
        self.open = open;
        Ok(bytes.len())
    }

    /// Nothing: a group of rows is written when it is full.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn parquet_error(cause: ParquetError) -> io::Error {
    io::Error::other(cause)
}

fn new_file() -> Result<SerializedFileWriter<Vec<u8>>, ParquetError> {
    let version = KeyValue::new(
        limits::SCHEMA_VERSION[0].to_owned(),
        limits::SCHEMA_VERSION[1].to_owned(),
    );
    let facts = properties()?.set_key_value_metadata(Some(vec![version]));
    let schema = Arc::new(schema::call_schema()?);
    SerializedFileWriter::new(Vec::new(), schema, Arc::new(facts.build()))
}

/// How the columns that have no dictionary are written.
fn column_properties() -> Result<WriterPropertiesPtr, ParquetError> {
    Ok(Arc::new(properties()?.build()))
}

fn properties() -> Result<::parquet::file::properties::WriterPropertiesBuilder, ParquetError> {
    Ok(WriterProperties::builder()
        .set_created_by(format!("nccl-pipe {}", env!("CARGO_PKG_VERSION")))
        .set_compression(compression()?)
        .set_dictionary_enabled(false)
        .set_encoding(Encoding::DELTA_BINARY_PACKED)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_data_page_row_count_limit(limits::ROWS_PER_GROUP)
        .set_data_page_size_limit(limits::PAGE_BYTES))
}

fn compression() -> Result<Compression, ParquetError> {
    Ok(Compression::ZSTD(ZstdLevel::try_new(limits::ZSTD_LEVEL)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::stamp::parse_stamp;
    use crate::output::table::samples::Samples;
    use crate::output::table::{Column, Row, Timing};
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use ::parquet::record::Field;
    use bytes::Bytes;
    use proptest::prelude::*;
    use schema::ColumnStorage;

    /// What the file should have of a column.
    fn expected(row: &Row<'_>, column: Column) -> String {
        let mut text = Vec::new();
        row.value(column, &mut text);
        let text = String::from_utf8_lossy(&text).into_owned();
        let number = match ColumnStorage::of_column(column) {
            ColumnStorage::Text => return text,
            ColumnStorage::Time => parse_stamp(text.as_bytes()).map(|at| at.ns.div_euclid(1000)),
            ColumnStorage::Small => text.parse::<i32>().ok().map(i64::from),
            ColumnStorage::Large => text.parse().ok(),
        };
        number.map_or(String::new(), |number| number.to_string())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Whatever the rows are, in however many groups, and however their bytes are cut.
        #[test]
        fn rows_are_read_back(
            numbers in proptest::collection::vec(any::<u64>(), 1..40),
            texts in proptest::collection::vec("\\PC{0,6}|2026-04-2[0-9] 14:14:4[0-9]([.][0-9]{1,9})?", 1..9),
            (count, times, cut) in (0..300_usize, 1..30_usize, 1..3000_usize),
        ) {
            let texts: Vec<Vec<u8>> = texts.into_iter().map(String::into_bytes).collect();
            let mut samples = Samples { numbers: &numbers, texts: &texts, at: 0 };
            let all: Vec<(Row<'_>, Timing<'_>)> =
                (0..count).map(|_| Row::sample(&mut samples)).collect();
            let with_timing = |(row, timing)| Row { timing: Some(timing), ..row };
            let rows = all.iter().flat_map(|(row, timing)| {
                std::iter::repeat_n(with_timing((*row, timing)), times)
            });
            let rows: Vec<Row<'_>> = rows.take(count).collect();
            let (mut packed, mut out) = (Vec::new(), Vec::new());
            rows.iter().for_each(|row| row.packed(&mut packed));
            let mut file = ParquetCalls::new(&mut out);
            packed.chunks(cut).for_each(|bytes| file.write_all(bytes).unwrap());
            file.finish().unwrap();
            let file = SerializedFileReader::new(Bytes::from(out)).unwrap();
            prop_assert!(file.num_row_groups() >= count.div_ceil(limits::ROWS_PER_GROUP));
            let mut read = file.get_row_iter(None).unwrap();
            for row in &rows {
                let found = read.next().unwrap().unwrap();
                for (column, (name, field)) in Column::ALL.iter().zip(found.get_column_iter()) {
                    let text = match field {
                        Field::Null => String::new(),
                        Field::Int(number) => number.to_string(),
                        Field::Long(number) | Field::TimestampMicros(number) => number.to_string(),
                        Field::Str(text) => text.clone(),
                        other => panic!("{other:?}"),
                    };
                    prop_assert_eq!(text, expected(row, *column), "{}", name);
                }
            }
            prop_assert!(read.next().is_none());
        }
    }
}
