//! When calls of a chunk were made, in a few bytes each: a log's calls wait until it is read to its
//! end, since only then their steps are known.

use crate::formats::log::placement::Recorder;
use crate::formats::log::walk::{Call, Torn, Visit, put_in};
use crate::grammar::stamp::Reader;
use crate::grammar::values::Kind;
use crate::members::Ops;
use serde::{Deserialize, Serialize};

/// A call, as the chunk numbers its member and operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) member: u32,
    pub(super) op: u32,
    /// When it was made; `None` for a message between two ranks, and where the stamp tells nothing.
    pub(super) ns: Option<i64>,
}

/// Calls in line order: numbers of seven bits a byte, and of a time what it is after the last one.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Packed {
    bytes: Vec<u8>,
    last: i64,
}

impl Packed {
    fn push(&mut self, call: Kept) {
        let has_time = u64::from(call.ns.is_some());
        self.number(u64::from(call.member) << 1 | has_time);
        self.number(call.op.into());
        if let Some(ns) = call.ns {
            let after = ns.wrapping_sub(self.last);
            self.number((after << 1 ^ after >> 63).cast_unsigned());
            self.last = ns;
        }
    }

    #[inline]
    fn number(&mut self, mut number: u64) {
        while number >= 128 {
            self.bytes.push(number as u8 | 128);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// The calls.
    pub(super) fn calls(&self) -> Unpacked<'_> {
        Unpacked {
            rest: &self.bytes,
            last: 0,
        }
    }

    /// Without the memory that is not used.
    pub(super) fn trimmed(mut self) -> Packed {
        self.bytes.shrink_to_fit();
        self
    }
}

/// What is left of packed calls.
pub(super) struct Unpacked<'p> {
    rest: &'p [u8],
    last: i64,
}

impl Unpacked<'_> {
    #[inline]
    fn number(&mut self) -> Option<u64> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            number |= u64::from(byte & 127).checked_shl(shift).unwrap_or(0);
            if byte < 128 {
                return Some(number);
            }
            shift += 7;
        }
    }
}

impl Iterator for Unpacked<'_> {
    type Item = Kept;

    #[inline]
    fn next(&mut self) -> Option<Kept> {
        let who = self.number()?;
        let op = self.number()? as u32;
        let mut ns = None;
        if who & 1 == 1 {
            let after = self.number()?;
            let after = (after >> 1).cast_signed() ^ -(after & 1).cast_signed();
            self.last = self.last.wrapping_add(after);
            ns = Some(self.last);
        }
        let member = (who >> 1) as u32;
        Some(Kept { member, op, ns })
    }
}

/// What is kept of a chunk. Where a call has no time stamp nothing is.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Partial {
    /// A call has none.
    pub(super) is_bare: bool,
    pub(super) ops: Ops,
    pub(super) calls: Packed,
    /// How many calls.
    len: usize,
    /// How fine their times are, in ns.
    pub(super) step: i64,
    /// How many calls there were before each slot.
    slots: Vec<usize>,
    #[serde(skip)]
    reader: Reader,
    /// What their steps follow from, where nobody else keeps it.
    pub(super) recorder: Option<Recorder>,
}

impl Partial {
    /// Nothing yet; `places` says that nobody else keeps what calls' steps follow from.
    pub(crate) fn new(places: bool) -> Partial {
        Partial {
            is_bare: false,
            ops: Ops::default(),
            calls: Packed::default(),
            len: 0,
            step: 0,
            slots: Vec::new(),
            reader: Reader::default(),
            recorder: places.then(Recorder::default),
        }
    }

    /// A call as it is kept.
    #[inline]
    fn kept(&mut self, op: &[u8], member: u32, time: &[u8]) -> Kept {
        let (op, kind) = self.ops.intern(op);
        let stamp = match kind {
            Kind::PointToPoint => None,
            _ => self.reader.stamp(time),
        };
        self.step = self.step.max(stamp.map_or(0, |stamp| stamp.step));
        let ns = stamp.map(|stamp| stamp.ns);
        Kept { member, op, ns }
    }

    // A log without stamps must not pay for what is done here.
    #[inline(never)]
    fn keep(&mut self, op: &[u8], member: u32, time: &[u8]) {
        let call = self.kept(op, member, time);
        self.calls.push(call);
        self.len += 1;
    }

    /// A call has no stamp: what was kept is of no use.
    #[cold]
    fn bare(&mut self) {
        *self = Partial {
            is_bare: true,
            ..Partial::new(false)
        };
    }
}

impl Visit for Partial {
    #[inline(always)]
    fn call(&mut self, call: &Call<'_>) {
        if self.is_bare {
            return;
        }
        if call.time.is_empty() {
            return self.bare();
        }
        self.keep(call.coll.op, call.member, call.time);
        if let Some(recorder) = &mut self.recorder {
            recorder.call(call);
        }
    }

    fn mark(&mut self) {
        self.recorder.mark();
    }

    fn slot(&mut self) {
        self.slots.push(self.len);
        self.recorder.slot();
    }

    fn torn(&mut self, calls: &[Torn<'_>]) {
        if self.is_bare || calls.is_empty() {
            return;
        }
        if calls.iter().any(|torn| torn.call.time.is_empty()) {
            return self.bare();
        }
        self.recorder.torn(calls);
        let mut all: Vec<Kept> = self.calls.calls().collect();
        let torn = calls.iter().map(|Torn { slot, call, .. }| {
            let at = self.slots.get(*slot as usize).copied();
            (at.unwrap_or(self.len), call)
        });
        let torn: Vec<(usize, &Call<'_>)> = torn.collect();
        let kept = torn.into_iter().map(|(at, call)| {
            let kept = self.kept(call.coll.op, call.member, call.time);
            (at, kept)
        });
        let kept: Vec<_> = kept.collect();
        put_in(&mut all, kept);
        self.len = all.len();
        self.calls = Packed::default();
        all.into_iter().for_each(|call| self.calls.push(call));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packed_calls_are_the_calls(
            calls in proptest::collection::vec(
                (any::<u32>(), any::<u32>(), any::<Option<i64>>()), 0..40),
        ) {
            let kept = calls.into_iter().map(|(member, op, ns)| Kept { member, op, ns });
            let kept: Vec<Kept> = kept.collect();
            let mut packed = Packed::default();
            kept.iter().for_each(|&call| packed.push(call));
            prop_assert_eq!(packed.calls().collect::<Vec<_>>(), kept);
        }
    }
}
