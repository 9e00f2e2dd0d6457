//! The JSON form of a dump, as values. If a document is cut, the values before the cut are kept.

use super::value::{DumpValue, DumpValues, ValueId};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Reads a document. Returns its value, and the line and column where it is cut.
pub(super) fn read_json(
    bytes: &[u8],
    values: &mut DumpValues,
) -> (Option<ValueId>, Option<(usize, usize)>) {
    let mut root = None;
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let seed = FlightJsonSeed {
        values,
        keep: &mut |_, id| {
            root = Some(id);
            true
        },
    };
    let read = seed.deserialize(&mut reader);
    let cut = read.err().map(|e| (e.line(), e.column()));
    (root, cut)
}

/// Puts a value into its list or dictionary; returns false if there is no room.
type KeepValue<'k> = &'k mut dyn FnMut(&mut DumpValues, ValueId) -> bool;

/// Reads one value. A list or dictionary is stored before it is filled, so that a document that is
/// cut keeps it; serde_json bounds the depth.
struct FlightJsonSeed<'s> {
    values: &'s mut DumpValues,
    keep: KeepValue<'s>,
}

impl FlightJsonSeed<'_> {
    fn keep_value<E: Error>(self, value: DumpValue) -> Result<ValueId, E> {
        let id = self.values.add_value(value);
        let id = id.map_err(|_| E::custom("more values than a dump has"))?;
        match (self.keep)(self.values, id) {
            true => Ok(id),
            false => Err(E::custom("more items than a dump has")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for FlightJsonSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FlightJsonSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.keep_value(DumpValue::None).map(drop)
    }

    fn visit_bool<E: Error>(self, is: bool) -> Result<(), E> {
        self.keep_value(DumpValue::Bool(is)).map(drop)
    }

    fn visit_i64<E: Error>(self, n: i64) -> Result<(), E> {
        self.keep_value(DumpValue::Int(n)).map(drop)
    }

    fn visit_u64<E: Error>(self, n: u64) -> Result<(), E> {
        let value = i64::try_from(n).map_or(DumpValue::Other, DumpValue::Int);
        self.keep_value(value).map(drop)
    }

    fn visit_f64<E: Error>(self, n: f64) -> Result<(), E> {
        self.keep_value(DumpValue::Float(n)).map(drop)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.keep_value(DumpValue::Text(text.into())).map(drop)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let values = &mut *self.values;
        let list = FlightJsonSeed {
            values,
            keep: self.keep,
        }
        .keep_value(DumpValue::List(Vec::new()))?;
        loop {
            let seed = FlightJsonSeed {
                values: self.values,
                keep: &mut |values, id| values.extend_list(list, &[id]) == Ok(true),
            };
            match seq.next_element_seed(seed) {
                Ok(Some(())) => {}
                Ok(None) => return Ok(()),
                Err(e) => {
                    self.values.mark_cut(list);
                    return Err(e);
                }
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let values = &mut *self.values;
        let dict = FlightJsonSeed {
            values,
            keep: self.keep,
        }
        .keep_value(DumpValue::Dict(Vec::new()))?;
        loop {
            let mut pair = || -> Result<bool, A::Error> {
                let Some(key) = map.next_key::<String>()? else {
                    return Ok(false);
                };
                let key = self.values.add_value(DumpValue::Text(key.into()));
                let key = key.map_err(|_| A::Error::custom("more values than a dump has"))?;
                map.next_value_seed(FlightJsonSeed {
                    values: self.values,
                    keep: &mut |values, id| values.insert_pairs(dict, &[key, id]) == Ok(true),
                })?;
                Ok(true)
            };
            match pair() {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(e) => {
                    self.values.mark_cut(dict);
                    return Err(e);
                }
            }
        }
    }
}
