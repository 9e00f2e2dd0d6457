//! The values of a document, by number: a value that is used a thousand times is there once, and
//! nothing is walked deeper than who reads it asks for.

use rustc_hash::FxHashSet;

/// A value's number in its [`Values`].
pub(super) type Id = u32;

/// A value.
#[derive(Debug)]
pub(super) enum Value {
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
    List(Vec<Id>),
    /// A dictionary, in the order of the document.
    Dict(Vec<(Id, Id)>),
    /// Something that no record has: bytes, a number of more than 64 bits.
    Other,
}

/// How many values a document may have: a record of a call takes about 40.
const MOST: usize = 4 << 20;
/// How many items all lists and dictionaries may have together.
const MOST_ITEMS: usize = 16 << 20;

/// There are more values than are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

/// All values of a document.
#[derive(Debug, Default)]
pub(super) struct Values {
    all: Vec<Value>,
    items: usize,
    /// Lists and dictionaries that the document's end, or damage, cut.
    cut: FxHashSet<Id>,
}

impl Values {
    /// Adds a value.
    pub(super) fn add(&mut self, value: Value) -> Result<Id, Full> {
        // Most are one of these three, and they take no memory.
        let common = match value {
            Value::None => Some(0),
            Value::Bool(is) => Some(1 + u32::from(is)),
            _ => None,
        };
        if self.all.is_empty() {
            self.all
                .extend([Value::None, Value::Bool(false), Value::Bool(true)]);
        }
        if let Some(id) = common {
            return Ok(id);
        }
        if self.all.len() >= MOST {
            return Err(Full);
        }
        self.all.push(value);
        Ok(self.all.len() as Id - 1)
    }

    /// The value of that number.
    pub(super) fn get(&self, id: Id) -> &Value {
        self.all.get(id as usize).unwrap_or(&Value::None)
    }

    /// Adds items to a list; false where it is none.
    pub(super) fn extend(&mut self, list: Id, items: &[Id]) -> Result<bool, Full> {
        self.count(items.len())?;
        let Some(Value::List(list)) = self.all.get_mut(list as usize) else {
            return Ok(false);
        };
        list.extend_from_slice(items);
        Ok(true)
    }

    /// Adds keys and values, in turn, to a dictionary; false where it is none. A last key without a
    /// value is left out.
    pub(super) fn insert(&mut self, dict: Id, items: &[Id]) -> Result<bool, Full> {
        self.count(items.len())?;
        let Some(Value::Dict(dict)) = self.all.get_mut(dict as usize) else {
            return Ok(false);
        };
        dict.extend(items.chunks_exact(2).map(|pair| (pair[0], pair[1])));
        Ok(true)
    }

    fn count(&mut self, more: usize) -> Result<(), Full> {
        self.items += more;
        (self.items <= MOST_ITEMS).then_some(()).ok_or(Full)
    }

    /// Marks a list or dictionary that is not whole.
    pub(super) fn cut(&mut self, id: Id) {
        self.cut.insert(id);
    }

    /// True where a list or dictionary is not whole.
    pub(super) fn is_cut(&self, id: Id) -> bool {
        self.cut.contains(&id)
    }

    /// The items of a list.
    pub(super) fn list(&self, id: Id) -> Option<&[Id]> {
        match self.get(id) {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    /// The pairs of a dictionary.
    pub(super) fn dict(&self, id: Id) -> Option<&[(Id, Id)]> {
        match self.get(id) {
            Value::Dict(pairs) => Some(pairs),
            _ => None,
        }
    }

    /// A text.
    pub(super) fn text(&self, id: Id) -> Option<&str> {
        match self.get(id) {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A whole number; the JSON form writes some of them as texts.
    pub(super) fn int(&self, id: Id) -> Option<i64> {
        match self.get(id) {
            Value::Int(n) => Some(*n),
            Value::Text(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// True or false.
    pub(super) fn bool(&self, id: Id) -> Option<bool> {
        match self.get(id) {
            Value::Bool(is) => Some(*is),
            _ => None,
        }
    }

    /// Any number.
    pub(super) fn float(&self, id: Id) -> Option<f64> {
        match self.get(id) {
            Value::Float(n) => Some(*n),
            Value::Int(n) => Some(*n as f64),
            _ => None,
        }
    }

    /// The value of a key. Where one is there twice the last counts, as in Python.
    pub(super) fn of(&self, dict: Id, key: &str) -> Option<Id> {
        let pairs = self.dict(dict)?.iter().rev();
        // No record has as many keys: a longer one is not searched.
        let mut pairs = pairs.take(KEYS);
        pairs
            .find(|(k, _)| self.text(*k) == Some(key))
            .map(|(_, value)| *value)
    }
}

/// Keys of a record that are looked at.
const KEYS: usize = 64;
