//! Writes a dump in its other form, JSON: as text it can be read, searched and redacted.

use super::limits::{MAX_DUMP_JSON_BYTES, MAX_DUMP_JSON_DEPTH};
use super::pickle::{PickleEnd, read_pickle};
use super::value::{DumpValue, DumpValues, ValueId};
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use std::io::{self, Write};

/// Returns the JSON form of a dump that is a whole pickle; `None` for anything else.
pub fn convert_dump_to_json(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut values = DumpValues::default();
    let PickleEnd::Whole(root) = read_pickle(bytes, &mut values) else {
        return None;
    };
    values.dict_pairs(root)?;
    let mut text = BoundedText(Vec::new());
    let values = &values;
    let root = ValueAtDepth {
        values,
        id: root,
        depth: 0,
    };
    serde_json::to_writer(&mut text, &root).ok()?;
    text.0.push(b'\n');
    Some(text.0)
}

/// A text that refuses to grow: a value that is used a thousand times is written as often.
struct BoundedText(Vec<u8>);

impl Write for BoundedText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_DUMP_JSON_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct ValueAtDepth<'v> {
    values: &'v DumpValues,
    id: ValueId,
    depth: usize,
}

impl ValueAtDepth<'_> {
    fn below(&self, id: ValueId) -> ValueAtDepth<'_> {
        ValueAtDepth {
            values: self.values,
            id,
            depth: self.depth + 1,
        }
    }
}

impl Serialize for ValueAtDepth<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.depth > MAX_DUMP_JSON_DEPTH {
            return Err(S::Error::custom("a dump is not as deep"));
        }
        match self.values.get(self.id) {
            DumpValue::None | DumpValue::Other => to.serialize_unit(),
            DumpValue::Bool(is) => to.serialize_bool(*is),
            DumpValue::Int(n) => to.serialize_i64(*n),
            DumpValue::Float(n) => to.serialize_f64(*n),
            DumpValue::Text(text) => to.serialize_str(text),
            DumpValue::List(items) => to.collect_seq(items.iter().map(|&id| self.below(id))),
            DumpValue::Dict(pairs) => {
                let key = |id: ValueId| match self.values.get(id) {
                    DumpValue::Text(text) => text.to_string(),
                    DumpValue::Int(n) => n.to_string(),
                    _ => String::new(),
                };
                to.collect_map(pairs.iter().map(|&(k, id)| (key(k), self.below(id))))
            }
        }
    }
}
