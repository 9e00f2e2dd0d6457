//! The kinds of field that columns have: how a value is written, and how it is read.
//!
//! Written by hand into the worker's buffer instead of through the csv crate's writer: a row is
//! mostly integers, there are millions of them, and the text fields are quoted by the same rule
//! (a property test reads the rows back with the csv crate).

use super::scalar::Scalar;
use crate::grammar::token::{dec_i64, dec_u64, hex_u64};
use crate::grammar::values::{Datatype, RedOp};
use crate::members::comm_id::CommId;
use std::fmt::Display;
use std::io::Write;

/// A kind of field.
pub(super) trait FieldKind {
    /// Blanks at the end are the field's own.
    const IS_TEXT: bool = false;
    /// What its values are compared as.
    const COMPARES: ComparedAs = ComparedAs::Number;
}

/// What the values of a column are compared as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparedAs {
    /// Numbers, which have an order.
    Number,
    /// Texts, byte by byte.
    Text,
    /// Names, in upper or lower case.
    Name,
    /// Addresses.
    Pointer,
    /// Communicators' ids.
    Id,
    /// Values that mostly have a name.
    Word,
}

/// A field's value, to be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValue<'a> {
    /// Not known.
    Unknown,
    /// A number, an address or the code of a word.
    Number(i128),
    /// A text or a name.
    Text(&'a [u8]),
    /// A communicator's id.
    Id(CommId),
}

/// A value of kind `K`, as it is compared.
pub(super) trait Compared<'a, K> {
    /// A number of four bytes.
    const IS_SMALL: bool = false;

    fn field_value(self) -> FieldValue<'a>;
}

impl<'a> Compared<'a, Text> for &'a [u8] {
    fn field_value(self) -> FieldValue<'a> {
        match self {
            b"" => FieldValue::Unknown,
            text => FieldValue::Text(text),
        }
    }
}

impl<'a> Compared<'a, Name> for &'a [u8] {
    fn field_value(self) -> FieldValue<'a> {
        Compared::<Text>::field_value(self)
    }
}

impl<N: TryInto<i128>> Compared<'_, Number> for Option<N> {
    const IS_SMALL: bool = size_of::<N>() == 4;

    fn field_value(self) -> FieldValue<'static> {
        let number = |n: N| FieldValue::Number(n.try_into().unwrap_or(i128::MAX));
        self.map_or(FieldValue::Unknown, number)
    }
}

impl Compared<'_, Times> for u64 {
    fn field_value(self) -> FieldValue<'static> {
        FieldValue::Number(self.into())
    }
}

impl Compared<'_, Pointer> for Option<u64> {
    fn field_value(self) -> FieldValue<'static> {
        Compared::<Number>::field_value(self)
    }
}

impl Compared<'_, Id> for Option<CommId> {
    fn field_value(self) -> FieldValue<'static> {
        self.map_or(FieldValue::Unknown, FieldValue::Id)
    }
}

impl<N: NamedCode> Compared<'_, Word> for Option<N> {
    fn field_value(self) -> FieldValue<'static> {
        self.map_or(FieldValue::Unknown, |word| FieldValue::Number(word.code()))
    }
}

/// Makes the kinds.
macro_rules! kinds {
    ($( $(#[$about:meta])* $kind:ident { $( $rest:tt )* } )*) => {
        $( $(#[$about])* pub(super) enum $kind {} impl FieldKind for $kind { $( $rest )* } )*
    };
}

kinds! {
    /// Text as printed; empty if it is unknown.
    Text { const IS_TEXT: bool = true; const COMPARES: ComparedAs = ComparedAs::Text; }
    /// A name that every row has.
    Name { const COMPARES: ComparedAs = ComparedAs::Name; }
    /// An integer.
    Number {}
    /// Counts the calls of a row; one if the field is empty.
    Times {}
    /// An address.
    Pointer { const COMPARES: ComparedAs = ComparedAs::Pointer; }
    /// A communicator's id.
    Id { const COMPARES: ComparedAs = ComparedAs::Id; }
    /// A value that mostly has a name.
    Word { const COMPARES: ComparedAs = ComparedAs::Word; }
}

/// A value of kind `K`, as it is written.
pub(crate) trait Written<K>: Copy {
    /// Appends the value, or nothing if it is unknown.
    fn write(self, out: &mut Vec<u8>);

    /// Appends it as a field of CSV.
    #[inline(always)]
    fn csv(self, out: &mut Vec<u8>) {
        self.write(out);
    }

    /// Appends it as JSON; null if it is unknown.
    fn json(self, out: &mut Vec<u8>);
}

/// A value of kind `K`, as it is read; `None` if the field has no such value.
pub trait Readable<'r, K>: Sized {
    /// Reads a field of CSV.
    fn of_text(text: &'r [u8]) -> Option<Self>;

    /// Reads a value of JSON.
    #[inline]
    fn of_json(value: &'r Scalar<'_>) -> Option<Self> {
        match value {
            Scalar::Null => Self::of_text(b""),
            Scalar::Text(text) => Self::of_text(text.as_bytes()),
            Scalar::Number(_) | Scalar::Other => None,
        }
    }
}

impl Written<Text> for &[u8] {
    #[inline(always)]
    fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    #[inline(always)]
    fn csv(self, out: &mut Vec<u8>) {
        push_csv_text(self, out);
    }

    fn json(self, out: &mut Vec<u8>) {
        match self {
            b"" => out.extend_from_slice(JSON_NULL),
            text => {
                // Writing a string to a buffer cannot fail.
                let _ = serde_json::to_writer(out, &*String::from_utf8_lossy(text));
            }
        }
    }
}

impl<'r> Readable<'r, Text> for &'r [u8] {
    #[inline(always)]
    fn of_text(text: &'r [u8]) -> Option<Self> {
        Some(text)
    }
}

impl Written<Name> for &[u8] {
    #[inline(always)]
    fn write(self, out: &mut Vec<u8>) {
        Written::<Text>::write(self, out);
    }

    #[inline(always)]
    fn csv(self, out: &mut Vec<u8>) {
        Written::<Text>::csv(self, out);
    }

    fn json(self, out: &mut Vec<u8>) {
        Written::<Text>::json(self, out);
    }
}

impl<'r> Readable<'r, Name> for &'r [u8] {
    #[inline(always)]
    fn of_text(text: &'r [u8]) -> Option<Self> {
        (!text.is_empty()).then_some(text)
    }
}

/// Integers that are read.
trait TableInteger: Sized {
    fn of(text: &[u8]) -> Option<Self>;
}

impl TableInteger for u64 {
    #[inline(always)]
    fn of(text: &[u8]) -> Option<u64> {
        parse_number(text)
    }
}

impl TableInteger for u32 {
    #[inline(always)]
    fn of(text: &[u8]) -> Option<u32> {
        parse_number(text).and_then(|n| u32::try_from(n).ok())
    }
}

impl TableInteger for i64 {
    #[inline(always)]
    fn of(text: &[u8]) -> Option<i64> {
        match dec_i64(text) {
            Ok((b"", n)) => Some(n),
            _ => None,
        }
    }
}

impl<N: itoa::Integer + Copy> Written<Number> for Option<N> {
    #[inline(always)]
    fn write(self, out: &mut Vec<u8>) {
        if let Some(value) = self {
            integer(value, out);
        }
    }

    fn json(self, out: &mut Vec<u8>) {
        match self {
            Some(value) => integer(value, out),
            None => out.extend_from_slice(JSON_NULL),
        }
    }
}

impl<N: TableInteger + TryFrom<i128>> Readable<'_, Number> for Option<N> {
    #[inline(always)]
    fn of_text(text: &[u8]) -> Option<Self> {
        match text {
            b"" => Some(None),
            _ => N::of(text).map(Some),
        }
    }

    fn of_json(value: &Scalar<'_>) -> Option<Self> {
        match value {
            Scalar::Null => Some(None),
            Scalar::Number(n) => N::try_from(*n).ok().map(Some),
            Scalar::Text(_) | Scalar::Other => None,
        }
    }
}

/// A number that is always there is one that may be unknown, and is not.
macro_rules! known {
    ($kind:ident, $read:expr) => {
        impl Written<$kind> for u64 {
            #[inline(always)]
            fn write(self, out: &mut Vec<u8>) {
                integer(self, out);
            }

            fn json(self, out: &mut Vec<u8>) {
                integer(self, out);
            }
        }

        impl Readable<'_, $kind> for u64 {
            #[inline(always)]
            fn of_text(text: &[u8]) -> Option<u64> {
                $read(Readable::<Number>::of_text(text)?)
            }

            fn of_json(value: &Scalar<'_>) -> Option<u64> {
                $read(Readable::<Number>::of_json(value)?)
            }
        }
    };
}

known!(Times, |n: Option<u64>| Some(n.unwrap_or(1)));

impl Written<Pointer> for Option<u64> {
    #[inline(always)]
    fn write(self, out: &mut Vec<u8>) {
        if let Some(value) = self {
            push_hex(value, out);
        }
    }

    fn json(self, out: &mut Vec<u8>) {
        push_quoted(self, out, push_hex);
    }
}

impl Readable<'_, Pointer> for Option<u64> {
    #[inline(always)]
    fn of_text(text: &[u8]) -> Option<Self> {
        match text {
            b"" => Some(None),
            _ => match text.strip_prefix(b"0x").map(hex_u64) {
                Some(Ok((b"", p))) => Some(Some(p)),
                _ => None,
            },
        }
    }
}

impl Written<Id> for Option<CommId> {
    #[inline(always)]
    fn write(self, out: &mut Vec<u8>) {
        if let Some(value) = self {
            push_display(value, out);
        }
    }

    fn json(self, out: &mut Vec<u8>) {
        push_quoted(self, out, push_display);
    }
}

impl Readable<'_, Id> for Option<CommId> {
    #[inline(always)]
    fn of_text(text: &[u8]) -> Option<Self> {
        match text {
            b"" => Some(None),
            _ => CommId::parse(text).map(Some),
        }
    }
}

/// A value that mostly has a name, which is copied and not formatted.
trait NamedCode: Display + Copy {
    fn name(self) -> Option<&'static str>;
    fn of(name: &[u8]) -> Option<Self>;
    fn code(self) -> i128;
}

impl NamedCode for Datatype {
    #[inline(always)]
    fn name(self) -> Option<&'static str> {
        Datatype::name(self)
    }

    #[inline(always)]
    fn of(name: &[u8]) -> Option<Self> {
        Datatype::from_name(name)
    }

    fn code(self) -> i128 {
        self.0.into()
    }
}

impl NamedCode for RedOp {
    #[inline(always)]
    fn name(self) -> Option<&'static str> {
        RedOp::name(self)
    }

    #[inline(always)]
    fn of(name: &[u8]) -> Option<Self> {
        RedOp::from_name(name)
    }

    fn code(self) -> i128 {
        self.0.into()
    }
}

impl<N: NamedCode> Written<Word> for Option<N> {
    #[inline(always)]
    fn write(self, out: &mut Vec<u8>) {
        match self.map(|value| (value.name(), value)) {
            Some((Some(name), _)) => out.extend_from_slice(name.as_bytes()),
            Some((None, value)) => push_display(value, out),
            None => {}
        }
    }

    fn json(self, out: &mut Vec<u8>) {
        push_quoted(self, out, |value, out| Some(value).write(out));
    }
}

impl<N: NamedCode> Readable<'_, Word> for Option<N> {
    #[inline(always)]
    fn of_text(text: &[u8]) -> Option<Self> {
        match text {
            b"" => Some(None),
            _ => N::of(text).map(Some),
        }
    }
}

const JSON_NULL: &[u8] = b"null";

/// Appends what `write` writes as a JSON string: nothing in it needs an escape.
fn push_quoted<T>(value: Option<T>, out: &mut Vec<u8>, write: impl FnOnce(T, &mut Vec<u8>)) {
    match value {
        Some(value) => {
            out.push(b'"');
            write(value, out);
            out.push(b'"');
        }
        None => out.extend_from_slice(JSON_NULL),
    }
}

/// Writes to a buffer, which cannot fail.
fn push_display(value: impl Display, out: &mut Vec<u8>) {
    let _ = write!(out, "{value}");
}

#[inline(always)]
fn integer(value: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends `0x` and the pointer in hexadecimal.
fn push_hex(value: u64, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'0'; 18];
    let mut at = text.len();
    let mut rest = value;
    loop {
        at -= 1;
        text[at] = DIGITS[(rest & 15) as usize];
        rest >>= 4;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(b"0x");
    out.extend_from_slice(&text[at..]);
}

/// Appends a field of CSV, in quotes if it needs them.
pub fn push_csv_text(text: &[u8], out: &mut Vec<u8>) {
    if text
        .iter()
        .any(|b| matches!(b, b',' | b'"' | b'\n' | b'\r'))
    {
        out.push(b'"');
        for &b in text {
            if b == b'"' {
                out.push(b'"');
            }
            out.push(b);
        }
        out.push(b'"');
    } else {
        out.extend_from_slice(text);
    }
}

/// Reads a number of at least one digit.
#[inline(always)]
fn parse_number(text: &[u8]) -> Option<u64> {
    if text.len() > 19 {
        return parse_long_number(text);
    }
    // 19 digits fit.
    let (mut value, mut wrong) = (0, text.is_empty());
    for &b in text {
        let digit = b.wrapping_sub(b'0');
        wrong |= digit > 9;
        value = u64::from(digit).wrapping_add(10_u64.wrapping_mul(value));
    }
    (!wrong).then_some(value)
}

#[cold]
fn parse_long_number(text: &[u8]) -> Option<u64> {
    match dec_u64(text) {
        Ok((b"", n)) => Some(n),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_number_is_what_the_grammar_reads(text in "[0-9]{0,21}|[ -~]{0,4}|[0-9]{1,19}[a:/-]") {
            let expected = match dec_u64(text.as_bytes()) {
                Ok((b"", n)) => Some(n),
                _ => None,
            };
            prop_assert_eq!(parse_number(text.as_bytes()), expected);
        }
    }
}
