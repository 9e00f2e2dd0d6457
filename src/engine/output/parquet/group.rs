//! Rows that wait until their group is full.
//!
//! The columns of a part change together, so a row has the number of the part's values: mostly they are those of
//! an earlier row. A row is looked up a few times, not once for each column.

use super::RowParts;
use super::limits::{DICTIONARY_NUMBERS, GROUP_BYTES, NO_VALUE, ROWS_PER_GROUP, VALUES_PER_NUMBER};
use super::pages::{ColumnPages, PageDictionary, RowIndices, dictionary_pages, difference_pages};
use super::schema::ColumnStorage;
use crate::grammar::stamp::StampReader;
use crate::output::table::packed::{PackedValue, PackedValues};
use crate::output::table::{Column, Part};
use ::parquet::errors::ParquetError;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::ColumnDescPtr;
use bytes::Bytes;
use rustc_hash::FxHashMap;
use std::hash::Hash;

/// Rows of a group.
pub(super) struct RowGroup {
    rows: usize,
    /// The bytes of different values.
    bytes: usize,
    parts: Vec<PartValues>,
    stamps: StampReader,
    /// Numbers that their column does not hold.
    lost: u64,
}

/// The values of a part's columns.
enum PartValues {
    /// Each row has its own.
    Own(Vec<NumberColumn>),
    Shared(SharedValues),
}

/// A column of numbers: those that are known, and for each row whether it is.
#[derive(Default)]
struct NumberColumn {
    numbers: Vec<i64>,
    known: Vec<u8>,
}

/// The different values of a part, and which of them each row has.
#[derive(Default)]
struct SharedValues {
    known: FxHashMap<Box<[u8]>, u32>,
    /// Those of the last row, and their number.
    last: Option<(Vec<u8>, u32)>,
    of_row: Vec<u32>,
}

impl Default for RowGroup {
    fn default() -> RowGroup {
        let part = |&part: &Part| match part {
            // Time stamps and sequence numbers.
            Part::When | Part::Order => {
                let columns = part.columns().iter();
                PartValues::Own(columns.map(|_| NumberColumn::default()).collect())
            }
            _ => PartValues::Shared(SharedValues::default()),
        };
        RowGroup {
            rows: 0,
            bytes: 0,
            parts: Part::ALL.iter().map(part).collect(),
            stamps: StampReader::default(),
            lost: 0,
        }
    }
}

impl NumberColumn {
    #[inline]
    fn push_number(&mut self, number: Option<i64>) {
        self.numbers.extend(number);
        self.known.push(u8::from(number.is_some()));
    }
}

impl SharedValues {
    /// Adds a row, and returns the bytes that it takes.
    #[inline]
    fn push_values(&mut self, values: &[u8]) -> usize {
        if let Some((last, number)) = &self.last
            && last == values
        {
            self.of_row.push(*number);
            return 0;
        }
        let next = self.known.len() as u32;
        let (number, bytes) = match self.known.get(values) {
            Some(number) => (*number, 0),
            None => {
                self.known.insert(values.into(), next);
                (next, values.len() + size_of::<(Box<[u8]>, u32, usize)>())
            }
        };
        self.of_row.push(number);
        let last = self.last.get_or_insert_default();
        last.0.clear();
        last.0.extend_from_slice(values);
        last.1 = number;
        bytes
    }

    /// The different values, in the order of their numbers.
    fn values(&self) -> Vec<&[u8]> {
        let mut values = vec![&[][..]; self.known.len()];
        for (bytes, number) in &self.known {
            values[*number as usize] = bytes;
        }
        values
    }
}

/// Reads a number; an error if the column does not hold it.
#[inline]
fn number_of(value: Option<PackedValue<'_>>, storage: ColumnStorage) -> Result<Option<i64>, ()> {
    match value {
        Some(PackedValue::Number(number)) => {
            let is_held = storage != ColumnStorage::Small || i32::try_from(number).is_ok();
            is_held.then_some(Some(number)).ok_or(())
        }
        Some(PackedValue::TooLarge) => Err(()),
        _ => Ok(None),
    }
}

/// Numbers the different ones of some values; `None` if there are more than `most`.
fn number_values<T: Hash + Eq + Copy>(
    values: impl Iterator<Item = Option<T>>,
    most: usize,
) -> Option<(Vec<T>, Vec<u32>)> {
    let mut numbers: FxHashMap<T, u32> = FxHashMap::default();
    let (mut different, mut of_value) = (Vec::new(), Vec::with_capacity(values.size_hint().0));
    let mut last = (None, NO_VALUE);
    for value in values {
        if value != last.0 {
            let number = value.map(|value| {
                *numbers.entry(value).or_insert_with(|| {
                    different.push(value);
                    different.len() as u32 - 1
                })
            });
            last = (value, number.unwrap_or(NO_VALUE));
            if different.len() > most {
                return None;
            }
        }
        of_value.push(last.1);
    }
    Some((different, of_value))
}

/// The indices of rows: each has one of the values with the indices `of_value`.
fn indices_of_rows(of_value: &[u32], of_row: &[u32]) -> RowIndices {
    let first = of_value.first().copied().unwrap_or(NO_VALUE);
    if of_value.iter().all(|index| *index == first) {
        let index = Some(first).filter(|index| *index != NO_VALUE);
        let rows = of_row.len();
        return RowIndices::Same { index, rows };
    }
    let all = of_row.iter().map(|value| of_value[*value as usize]);
    let has_unknown = of_value.contains(&NO_VALUE);
    RowIndices::Each {
        known: has_unknown.then(|| all.clone().map(|i| u8::from(i != NO_VALUE)).collect()),
        indices: match has_unknown {
            true => all.filter(|index| *index != NO_VALUE).collect(),
            false => all.collect(),
        },
    }
}

impl RowGroup {
    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.rows >= ROWS_PER_GROUP || self.bytes >= GROUP_BYTES
    }

    /// Adds a row; false if its time stamp is not a date and time.
    #[inline]
    pub(super) fn push_row(&mut self, row: &RowParts<'_>) -> bool {
        self.rows += 1;
        let mut is_time = true;
        for (values, part) in row.iter().zip(&mut self.parts) {
            let columns = match part {
                PartValues::Shared(shared) => {
                    self.bytes += shared.push_values(values);
                    continue;
                }
                PartValues::Own(columns) => columns,
            };
            let mut values = PackedValues(values);
            for column in columns {
                let number = match values.next() {
                    Some(PackedValue::Text(time)) => {
                        let stamp = self.stamps.stamp(time);
                        is_time = stamp.is_some();
                        stamp.map(|stamp| stamp.ns.div_euclid(1000))
                    }
                    value => number_of(value, ColumnStorage::Large).unwrap_or_else(|()| {
                        self.lost += 1;
                        None
                    }),
                };
                column.push_number(number);
            }
        }
        is_time
    }

    /// Writes the rows as a group of the file, and returns how many numbers were lost.
    pub(super) fn write_to(
        &mut self,
        file: &mut SerializedFileWriter<Vec<u8>>,
    ) -> Result<u64, ParquetError> {
        let group = std::mem::take(self);
        let schema = file.schema_descr().columns().to_vec();
        let mut lost = group.lost;
        let mut to = file.next_row_group()?;
        for (part, rows) in Part::ALL.iter().zip(&group.parts) {
            let shared = match rows {
                PartValues::Own(_) => Vec::new(),
                PartValues::Shared(shared) => shared.values(),
            };
            for (place, column) in part.columns().iter().enumerate() {
                let descr = &schema[*column as usize];
                let pages = match rows {
                    PartValues::Own(columns) => columns[place].write_pages(descr, *column)?,
                    PartValues::Shared(rows) => {
                        let column = SharedColumn {
                            storage: ColumnStorage::of_column(*column),
                            place,
                            values: &shared,
                            of_row: &rows.of_row,
                        };
                        lost += column.count_lost();
                        column.write_pages(descr)?
                    }
                };
                to.append_column(&Bytes::from(pages.bytes), pages.facts)?;
            }
        }
        to.close()?;
        Ok(lost)
    }
}

/// How many different numbers a dictionary may have.
fn most_numbers(values: usize) -> usize {
    DICTIONARY_NUMBERS.min(values / VALUES_PER_NUMBER)
}

impl NumberColumn {
    fn write_pages(
        &self,
        descr: &ColumnDescPtr,
        column: Column,
    ) -> Result<ColumnPages, ParquetError> {
        let storage = ColumnStorage::of_column(column);
        let numbers = self.numbers.iter().map(|number| Some(*number));
        let most = most_numbers(self.numbers.len()).max(1);
        let Some((different, indices)) = number_values(numbers, most) else {
            let known: Vec<i16> = self.known.iter().map(|is| i16::from(*is)).collect();
            return difference_pages(descr, storage, &self.numbers, &known);
        };
        let rows = match (&different[..], self.numbers.len(), self.known.len()) {
            ([], _, rows) => RowIndices::Same { index: None, rows },
            ([_], numbers, rows) if numbers == rows => RowIndices::Same {
                index: Some(0),
                rows,
            },
            (_, numbers, rows) => RowIndices::Each {
                indices,
                known: (numbers < rows).then(|| self.known.clone()),
            },
        };
        dictionary_pages(descr, &PageDictionary::Numbers(different, storage), &rows)
    }
}

/// A column of a part with shared values.
struct SharedColumn<'c> {
    storage: ColumnStorage,
    /// Its place in the part.
    place: usize,
    values: &'c [&'c [u8]],
    of_row: &'c [u32],
}

impl<'c> SharedColumn<'c> {
    fn values(&self) -> impl ExactSizeIterator<Item = Option<PackedValue<'c>>> {
        let place = self.place;
        self.values
            .iter()
            .map(move |values| PackedValues(values).nth(place))
    }

    fn numbers(&self) -> impl ExactSizeIterator<Item = Option<i64>> {
        let storage = self.storage;
        self.values()
            .map(move |value| number_of(value, storage).ok().flatten())
    }

    /// How many rows have a number that the column does not hold.
    fn count_lost(&self) -> u64 {
        if self.storage == ColumnStorage::Text {
            return 0;
        }
        let lost: Vec<bool> = self
            .values()
            .map(|value| number_of(value, self.storage).is_err())
            .collect();
        if !lost.contains(&true) {
            return 0;
        }
        let rows = self.of_row.iter();
        rows.filter(|value| lost[**value as usize]).count() as u64
    }

    fn write_pages(&self, descr: &ColumnDescPtr) -> Result<ColumnPages, ParquetError> {
        if self.storage == ColumnStorage::Text {
            let texts = self.values().map(|value| match value {
                Some(PackedValue::Text(text)) => Some(text),
                _ => None,
            });
            let (texts, indices) = number_values(texts, usize::MAX).unwrap_or_default();
            let rows = indices_of_rows(&indices, self.of_row);
            return dictionary_pages(descr, &PageDictionary::Texts(texts), &rows);
        }
        let most = most_numbers(self.of_row.len()).max(1);
        if let Some((numbers, indices)) = number_values(self.numbers(), most) {
            let rows = indices_of_rows(&indices, self.of_row);
            let dictionary = PageDictionary::Numbers(numbers, self.storage);
            return dictionary_pages(descr, &dictionary, &rows);
        }
        let numbers: Vec<Option<i64>> = self.numbers().collect();
        let rows = self.of_row.iter().map(|value| numbers[*value as usize]);
        let known: Vec<i16> = rows.clone().map(|n| i16::from(n.is_some())).collect();
        let numbers: Vec<i64> = rows.flatten().collect();
        difference_pages(descr, self.storage, &numbers, &known)
    }
}
