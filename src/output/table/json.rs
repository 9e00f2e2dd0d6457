//! A row of the call table as a line of JSON that is read: its keys are the columns' names. Unknown
//! keys are ignored, known ones may be missing or null.

use super::columns::{COLUMNS, Source};
use super::kinds::Readable;
use super::{Column, Lacks, Row, Timing};
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// A value of a JSON object.
#[derive(Debug, Default)]
pub(crate) enum Scalar<'j> {
    /// Null, or no value.
    #[default]
    Null,
    /// An integer.
    Number(i128),
    /// A string.
    Text(Cow<'j, str>),
    /// What no column has.
    Other,
}

impl<'j> Deserialize<'j> for Scalar<'j> {
    fn deserialize<D: Deserializer<'j>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Any)
    }
}

struct Any;

impl<'j> Visitor<'j> for Any {
    type Value = Scalar<'j>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Scalar<'j>, E> {
        Ok(Scalar::Null)
    }

    fn visit_u64<E>(self, n: u64) -> Result<Scalar<'j>, E> {
        Ok(Scalar::Number(n.into()))
    }

    fn visit_i64<E>(self, n: i64) -> Result<Scalar<'j>, E> {
        Ok(Scalar::Number(n.into()))
    }

    fn visit_borrowed_str<E>(self, text: &'j str) -> Result<Scalar<'j>, E> {
        Ok(Scalar::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar<'j>, E> {
        Ok(Scalar::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Scalar<'j>, E> {
        Ok(Scalar::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Scalar<'j>, E> {
        Ok(Scalar::Other)
    }

    fn visit_seq<A: SeqAccess<'j>>(self, mut seq: A) -> Result<Scalar<'j>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }

    fn visit_map<A: MapAccess<'j>>(self, mut map: A) -> Result<Scalar<'j>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }
}

/// A JSON object by columns.
#[derive(Debug, Default)]
pub(crate) struct JsonRow<'j> {
    values: [Scalar<'j>; COLUMNS.len()],
}

impl JsonRow<'_> {
    /// Its row.
    ///
    /// # Errors
    /// What it lacks.
    pub(crate) fn row(&self) -> Result<(Row<'_>, Timing<'_>), Lacks> {
        let has = |column: Column| !matches!(self.values[column as usize], Scalar::Null);
        if !has(Column::op) || !has(Column::count) {
            return Err(NO_ROW);
        }
        Row::read(self)
    }
}

/// What a line of JSON lacks that has no row.
pub(crate) const NO_ROW: Lacks = "a JSON object with op, count and datatype";

impl<'r> Source<'r> for &'r JsonRow<'_> {
    #[inline]
    fn field<T: Readable<'r, K>, K>(self, column: Column) -> Option<T> {
        T::of_json(&self.values[column as usize])
    }
}

impl<'j> Deserialize<'j> for JsonRow<'j> {
    fn deserialize<D: Deserializer<'j>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Object)
    }
}

struct Object;

impl<'j> Visitor<'j> for Object {
    type Value = JsonRow<'j>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'j>>(self, mut map: A) -> Result<JsonRow<'j>, A::Error> {
        let mut row = JsonRow::default();
        let mut next = 0;
        while let Some(Key(key)) = map.next_key()? {
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

/// A key, borrowed where it has no escapes.
#[derive(Deserialize)]
struct Key<'j>(#[serde(borrow)] Cow<'j, str>);
