//! Reads a row of the call table from a line of JSON: its keys are the columns' names. Unknown keys
//! are ignored, known ones may be missing or null.

use super::columns::{COLUMNS, Source};
use super::kinds::Readable;
use super::scalar::Scalar;
use super::{Column, Lacks, Row, Timing};
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// A JSON object by columns.
#[derive(Debug, Default)]
pub struct JsonRow<'j> {
    values: [Scalar<'j>; COLUMNS.len()],
}

impl JsonRow<'_> {
    /// Its row.
    ///
    /// # Errors
    /// What it lacks.
    pub(crate) fn row(&self) -> Result<(Row<'_>, Timing<'_>), Lacks> {
        let has = |column: Column| !matches!(self.values[column as usize], Scalar::Null);
        if !has(Column::op) || !(has(Column::count) || has(Column::bytes)) {
            return Err(NO_JSON_ROW);
        }
        Row::read(self)
    }
}

/// The defect of a line of JSON without a row.
pub const NO_JSON_ROW: Lacks = "a JSON object with op, count and datatype";

impl<'r> Source<'r> for &'r JsonRow<'_> {
    #[inline]
    fn field<T: Readable<'r, K>, K>(self, column: Column) -> Option<T> {
        T::of_json(&self.values[column as usize])
    }
}

impl<'j> Deserialize<'j> for JsonRow<'j> {
    fn deserialize<D: Deserializer<'j>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(JsonRowVisitor)
    }
}

struct JsonRowVisitor;

impl<'j> Visitor<'j> for JsonRowVisitor {
    type Value = JsonRow<'j>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'j>>(self, mut map: A) -> Result<JsonRow<'j>, A::Error> {
        let mut row = JsonRow::default();
        let mut next = 0;
        while let Some(JsonColumnName(key)) = map.next_key()? {
            // Most rows have the columns in their order.
            let at = match COLUMNS.get(next) {
                Some(column) if **column == key => Some(next),
                _ => COLUMNS.iter().position(|column| **column == key),
            };
            let Some(at) = at else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            next = at + 1;
            if !matches!(row.values[at], Scalar::Null) {
                return Err(Error::duplicate_field(COLUMNS[at]));
            }
            row.values[at] = map.next_value()?;
        }
        Ok(row)
    }
}

/// A key, borrowed if it has no escapes.
#[derive(Deserialize)]
struct JsonColumnName<'j>(#[serde(borrow)] Cow<'j, str>);
