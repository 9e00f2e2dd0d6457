//! A value of a JSON object, as columns have them.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// A value of a JSON object.
#[derive(Debug, Default)]
pub enum Scalar<'j> {
    /// Null, or no value.
    #[default]
    Null,
    /// An integer.
    Number(i128),
    /// A string.
    Text(Cow<'j, str>),
    /// A value that no column has.
    Other,
}

impl<'j> Deserialize<'j> for Scalar<'j> {
    fn deserialize<D: Deserializer<'j>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(JsonScalarVisitor)
    }
}

struct JsonScalarVisitor;

impl<'j> Visitor<'j> for JsonScalarVisitor {
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
