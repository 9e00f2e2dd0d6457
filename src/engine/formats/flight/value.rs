//! The values of a document, by number: a value that is used a thousand times is stored once, and
//! no value is read deeper than needed.

use super::limits::{MAX_LIST_ITEMS, MAX_RECORD_KEYS, MAX_VALUES};
use rustc_hash::FxHashSet;

/// A value's number in its [`DumpValues`].
pub(super) type ValueId = u32;

/// A value.
#[derive(Debug)]
pub(super) enum DumpValue {
    /// `None` or `null`.
    None,
    /// True or false.
    Bool(bool),
    /// A whole number of 64 bits.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// A text.
    Text(Box<str>),
    /// A list or tuple.
    List(Vec<ValueId>),
    /// A dictionary, in the order of the document.
    Dict(Vec<(ValueId, ValueId)>),
    /// Something that no record has: bytes, a number of more than 64 bits.
    Other,
}

/// There are more values than are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ValuesFull;

/// All values of a document.
#[derive(Debug, Default)]
pub(super) struct DumpValues {
    all: Vec<DumpValue>,
    items: usize,
    /// Lists and dictionaries that the document's end, or damage, cut.
    cut: FxHashSet<ValueId>,
}

impl DumpValues {
    /// Adds a value.
    pub(super) fn add_value(&mut self, value: DumpValue) -> Result<ValueId, ValuesFull> {
        // Most values are one of these three: they share three places.
        let common = match value {
            DumpValue::None => Some(0),
            DumpValue::Bool(is) => Some(1 + u32::from(is)),
            _ => None,
        };
        if self.all.is_empty() {
            self.all.extend([
                DumpValue::None,
                DumpValue::Bool(false),
                DumpValue::Bool(true),
            ]);
        }
        if let Some(id) = common {
            return Ok(id);
        }
        if self.all.len() >= MAX_VALUES {
            return Err(ValuesFull);
        }
        self.all.push(value);
        Ok(self.all.len() as ValueId - 1)
    }

    /// The value of that number.
    pub(super) fn get(&self, id: ValueId) -> &DumpValue {
        self.all.get(id as usize).unwrap_or(&DumpValue::None)
    }

    /// Adds items to a list; returns false if it is none.
    pub(super) fn extend_list(
        &mut self,
        list: ValueId,
        items: &[ValueId],
    ) -> Result<bool, ValuesFull> {
        let Some(DumpValue::List(list)) = self.all.get_mut(list as usize) else {
            return Ok(false);
        };
        count_items(&mut self.items, items.len())?;
        list.extend_from_slice(items);
        Ok(true)
    }

    /// Adds keys and values, in turn, to a dictionary; returns false if it is none. A last key without
    /// a value is left out.
    pub(super) fn insert_pairs(
        &mut self,
        dict: ValueId,
        items: &[ValueId],
    ) -> Result<bool, ValuesFull> {
        let Some(DumpValue::Dict(dict)) = self.all.get_mut(dict as usize) else {
            return Ok(false);
        };
        count_items(&mut self.items, items.len())?;
        dict.extend(items.chunks_exact(2).map(|pair| (pair[0], pair[1])));
        Ok(true)
    }

    /// Marks a list or dictionary that is not whole.
    pub(super) fn mark_cut(&mut self, id: ValueId) {
        self.cut.insert(id);
    }

    /// Returns true if a list or dictionary is not whole.
    pub(super) fn is_cut(&self, id: ValueId) -> bool {
        self.cut.contains(&id)
    }

    /// The items of a list.
    pub(super) fn list_items(&self, id: ValueId) -> Option<&[ValueId]> {
        match self.get(id) {
            DumpValue::List(items) => Some(items),
            _ => None,
        }
    }

    /// The pairs of a dictionary.
    pub(super) fn dict_pairs(&self, id: ValueId) -> Option<&[(ValueId, ValueId)]> {
        match self.get(id) {
            DumpValue::Dict(pairs) => Some(pairs),
            _ => None,
        }
    }

    /// A text.
    pub(super) fn text(&self, id: ValueId) -> Option<&str> {
        match self.get(id) {
            DumpValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A whole number; the JSON form writes some of them as texts.
    pub(super) fn int(&self, id: ValueId) -> Option<i64> {
        match self.get(id) {
            DumpValue::Int(n) => Some(*n),
            DumpValue::Text(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// True or false.
    pub(super) fn bool(&self, id: ValueId) -> Option<bool> {
        match self.get(id) {
            DumpValue::Bool(is) => Some(*is),
            _ => None,
        }
    }

    /// Any number.
    pub(super) fn float(&self, id: ValueId) -> Option<f64> {
        match self.get(id) {
            DumpValue::Float(n) => Some(*n),
            DumpValue::Int(n) => Some(*n as f64),
            _ => None,
        }
    }

    /// Returns the value of a key; of repeated keys the last, as in Python.
    pub(super) fn value_of_key(&self, dict: ValueId, key: &str) -> Option<ValueId> {
        let pairs = self.dict_pairs(dict)?.iter().rev();
        // No record has as many keys: only the last ones are searched.
        let mut pairs = pairs.take(MAX_RECORD_KEYS);
        pairs
            .find(|(k, _)| self.text(*k) == Some(key))
            .map(|(_, value)| *value)
    }
}

/// Counts the items that a list or dictionary takes.
fn count_items(items: &mut usize, more: usize) -> Result<(), ValuesFull> {
    *items += more;
    (*items <= MAX_LIST_ITEMS).then_some(()).ok_or(ValuesFull)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_counted_once_and_where_they_are_kept() {
        let mut values = DumpValues::default();
        let mut add = |value| values.add_value(value).unwrap();
        let list = add(DumpValue::List(Vec::new()));
        let dict = add(DumpValue::Dict(Vec::new()));
        let int = add(DumpValue::Int(7));
        let items = [int, int];
        assert_eq!(values.extend_list(dict, &items), Ok(false));
        assert_eq!(values.insert_pairs(dict, &items), Ok(true));
        assert_eq!(values.items, 2);
        assert_eq!(values.extend_list(list, &items), Ok(true));
        assert_eq!(values.insert_pairs(int, &items), Ok(false));
        assert_eq!(values.items, 4);
    }
}
