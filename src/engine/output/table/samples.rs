//! Rows of any values of each column's kind, the edges first, for property tests.

use super::kinds::{Id, Name, Number, Pointer, Text, Times, Word};
use crate::grammar::values::{Datatype, RedOp};
use crate::members::comm_id::CommId;

/// The source of values.
pub(crate) struct Samples<'s> {
    /// Numbers, used one after the other, again and again.
    pub(crate) numbers: &'s [u64],
    /// Texts; numbers choose among them.
    pub(crate) texts: &'s [Vec<u8>],
    /// How many numbers are used.
    pub(crate) at: usize,
}

impl<'s> Samples<'s> {
    fn number(&mut self) -> u64 {
        self.at += 1;
        self.numbers[self.at % self.numbers.len()].wrapping_add(self.at as u64)
    }

    /// An edge, or any number.
    fn value(&mut self) -> u64 {
        match self.number() % 5 {
            0 => 0,
            1 => u64::MAX,
            2 => i64::MAX as u64,
            3 => self.number() % 100,
            _ => self.number(),
        }
    }

    fn known<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (!self.number().is_multiple_of(4)).then(|| value(self))
    }

    fn text(&mut self) -> &'s [u8] {
        let at = self.number() as usize % self.texts.len();
        &self.texts[at]
    }
}

/// A value of kind `K`.
pub(super) trait Sampled<'s, K> {
    fn sample(from: &mut Samples<'s>) -> Self;
}

impl<'s> Sampled<'s, Text> for &'s [u8] {
    fn sample(from: &mut Samples<'s>) -> Self {
        from.text()
    }
}

impl<'s> Sampled<'s, Name> for &'s [u8] {
    fn sample(from: &mut Samples<'s>) -> Self {
        // A name has no blanks at its end.
        match from.text().trim_ascii_end() {
            b"" => b"AllReduce",
            text => text,
        }
    }
}

impl Sampled<'_, Number> for Option<u64> {
    fn sample(from: &mut Samples<'_>) -> Self {
        from.known(Samples::value)
    }
}

impl Sampled<'_, Number> for Option<u32> {
    fn sample(from: &mut Samples<'_>) -> Self {
        from.known(|from| from.value() as u32)
    }
}

impl Sampled<'_, Number> for Option<i64> {
    fn sample(from: &mut Samples<'_>) -> Self {
        from.known(|from| from.value().cast_signed())
    }
}

impl Sampled<'_, Times> for u64 {
    fn sample(from: &mut Samples<'_>) -> Self {
        from.value()
    }
}

impl Sampled<'_, Pointer> for Option<u64> {
    fn sample(from: &mut Samples<'_>) -> Self {
        from.known(Samples::value)
    }
}

impl Sampled<'_, Id> for Option<CommId> {
    fn sample(from: &mut Samples<'_>) -> Self {
        let mut id = from.known(|from| CommId::from_printed(from.value()))?;
        for _ in 0..from.number() % 8 {
            id = id.split_child(from.value() as u32, from.value().cast_signed())?;
        }
        Some(id)
    }
}

impl Sampled<'_, Word> for Option<Datatype> {
    fn sample(from: &mut Samples<'_>) -> Self {
        from.known(|from| Datatype((from.value() % 20) as u32))
    }
}

impl Sampled<'_, Word> for Option<RedOp> {
    fn sample(from: &mut Samples<'_>) -> Self {
        from.known(|from| RedOp(from.value()))
    }
}
