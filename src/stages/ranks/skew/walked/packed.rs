//! The calls of a chunk in a few bytes each: the members in line order, and each member's operations and times.

use crate::stages::skew::limits::{OPS_OF_ONE_NUMBER, PACKED_NS_PER_US};
use serde::{Deserialize, Serialize};

/// A call, with the chunk's numbers of member and operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PackedCall {
    pub(super) member: u32,
    /// `None` for a Send or Recv: messages are numbered by peer, and no other rank waits.
    pub(super) made: Option<TimedCollective>,
}

/// A call of the sequence of collectives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TimedCollective {
    pub(super) op: u32,
    /// The time; `None` for a message between two ranks, and if the stamp is unknown.
    pub(super) ns: Option<i64>,
}

/// The calls of a chunk.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct PackedCalls {
    /// Twice the number of each call's member, in line order, plus 1 for a call in the member's stream.
    order: Vec<u8>,
    streams: Vec<PackedStream>,
    /// The members with times, in the order of their first time.
    timed: Vec<u32>,
}

/// A member's calls in order.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct PackedStream {
    /// A number for each call: see [`PackedStream::push_collective`].
    bytes: Vec<u8>,
    last: i64,
    calls: u64,
    timed: u64,
    /// Sends and Recvs, which are not in the stream.
    messages: u64,
}

impl PackedCalls {
    #[inline]
    pub(super) fn push(&mut self, PackedCall { member, made }: PackedCall) {
        let (who, at) = (u64::from(member) << 1, member as usize);
        if self.streams.len() <= at {
            self.streams.resize_with(at + 1, PackedStream::default);
        }
        let stream = &mut self.streams[at];
        let Some(made) = made else {
            stream.messages += 1;
            return append_number(&mut self.order, who);
        };
        append_number(&mut self.order, who | 1);
        if made.ns.is_some() && stream.timed == 0 {
            self.timed.push(member);
        }
        stream.push_collective(made);
    }

    /// Iterates over the calls in line order: the member, and true if the call is in its stream.
    pub(super) fn iter_order(&self) -> impl Iterator<Item = (u32, bool)> {
        let mut rest = PackedNumbers(&self.order);
        std::iter::from_fn(move || rest.next_number()).map(|who| ((who >> 1) as u32, who & 1 == 1))
    }

    /// The stream of each member.
    pub(super) fn streams(&self) -> &[PackedStream] {
        &self.streams
    }

    /// The members with times, in the order of their first time.
    pub(super) fn members_with_times(&self) -> &[u32] {
        &self.timed
    }

    /// Iterates over the calls in line order.
    pub(super) fn iter_calls(&self) -> impl Iterator<Item = PackedCall> {
        let mut streams: Vec<UnpackedCalls<'_>> =
            self.streams.iter().map(PackedStream::iter_calls).collect();
        self.iter_order().map(move |(member, is_made)| {
            let stream = is_made.then(|| streams.get_mut(member as usize));
            let made = stream.flatten().and_then(Iterator::next);
            PackedCall { member, made }
        })
    }

    /// Gives back unused memory.
    pub(super) fn into_trimmed(mut self) -> PackedCalls {
        self.order.shrink_to_fit();
        let streams = self.streams.iter_mut();
        streams.for_each(|stream| stream.bytes.shrink_to_fit());
        self
    }
}

impl PackedStream {
    /// Most calls take one number: the time since the last call, in microseconds if it has no smaller part, the
    /// operation, and that unit as one bit. Other calls take [`OPS_OF_ONE_NUMBER`] with the operation and a bit for
    /// a time, and then the time.
    #[inline]
    fn push_collective(&mut self, TimedCollective { op, ns }: TimedCollective) {
        self.calls += 1;
        let after = ns.map(|ns| ns.wrapping_sub(self.last));
        if let Some(ns) = ns {
            self.timed += 1;
            self.last = ns;
            let after = encode_interval(after.unwrap_or(0));
            if op < OPS_OF_ONE_NUMBER && after.0 < 1 << 58 {
                let what = u64::from(op) << 1 | after.1;
                return append_number(&mut self.bytes, after.0 << 6 | what);
            }
        }
        let has_time = u64::from(after.is_some());
        let what = u64::from(op) << 1 | has_time;
        append_number(
            &mut self.bytes,
            what << 6 | u64::from(OPS_OF_ONE_NUMBER) << 1,
        );
        if let Some(after) = after {
            append_number(&mut self.bytes, encode_zigzag(after));
        }
    }

    /// The number of calls.
    pub(super) fn len(&self) -> u64 {
        self.calls
    }

    /// The number of calls with a time.
    pub(super) fn timed_count(&self) -> u64 {
        self.timed
    }

    /// The number of Sends and Recvs.
    pub(super) fn message_count(&self) -> u64 {
        self.messages
    }

    /// Iterates over the calls.
    pub(super) fn iter_calls(&self) -> UnpackedCalls<'_> {
        UnpackedCalls {
            rest: PackedNumbers(&self.bytes),
            last: 0,
        }
    }
}

/// Returns the written form of a difference of times, and 1 if its unit is microseconds.
#[inline]
fn encode_interval(after: i64) -> (u64, u64) {
    match after % PACKED_NS_PER_US {
        0 => (encode_zigzag(after / PACKED_NS_PER_US), 1),
        _ => (encode_zigzag(after), 0),
    }
}

/// Maps values near 0 to small numbers.
#[inline]
fn encode_zigzag(n: i64) -> u64 {
    (n << 1 ^ n >> 63).cast_unsigned()
}

#[inline]
fn decode_zigzag(n: u64) -> i64 {
    (n >> 1).cast_signed() ^ -(n & 1).cast_signed()
}

/// Appends a number with seven bits a byte; the first byte ends in one 1 bit for each byte after it.
#[inline(always)]
fn append_number(bytes: &mut Vec<u8>, number: u64) {
    if number < 1 << 7 {
        return bytes.push((number << 1) as u8);
    }
    let len = (70 - number.leading_zeros() as usize) / 7;
    if len > 8 {
        bytes.push(u8::MAX);
        return bytes.extend_from_slice(&number.to_le_bytes());
    }
    let word = number << len | ((1 << (len - 1)) - 1);
    let end = bytes.len() + len;
    // Eight bytes at once are cheaper than one by one.
    bytes.extend_from_slice(&word.to_le_bytes());
    bytes.truncate(end);
}

/// The numbers that were not read yet.
struct PackedNumbers<'p>(&'p [u8]);

impl PackedNumbers<'_> {
    #[inline]
    fn next_number(&mut self) -> Option<u64> {
        let word = match self.0.first_chunk::<8>() {
            Some(word) => u64::from_le_bytes(*word),
            None => self.read_last_bytes()?,
        };
        let len = word.trailing_ones() as usize + 1;
        if len > 8 {
            let (word, rest) = self.0.get(1..)?.split_first_chunk::<8>()?;
            self.0 = rest;
            return Some(u64::from_le_bytes(*word));
        }
        self.0 = self.0.get(len..)?;
        Some((word & (u64::MAX >> (64 - 8 * len))) >> len)
    }

    /// Reads a number from the last few bytes.
    #[cold]
    fn read_last_bytes(&self) -> Option<u64> {
        let mut word = [0; 8];
        word.get_mut(..self.0.len())?.copy_from_slice(self.0);
        (!self.0.is_empty()).then(|| u64::from_le_bytes(word))
    }
}

/// A member's calls that were not read yet.
pub(super) struct UnpackedCalls<'p> {
    rest: PackedNumbers<'p>,
    last: i64,
}

impl Iterator for UnpackedCalls<'_> {
    type Item = TimedCollective;

    #[inline]
    fn next(&mut self) -> Option<TimedCollective> {
        let number = self.rest.next_number()?;
        let (op, what) = ((number >> 1) as u32 & OPS_OF_ONE_NUMBER, number >> 6);
        if op == OPS_OF_ONE_NUMBER {
            return self.decode_long_call(what);
        }
        let after = decode_zigzag(what);
        let after = match number & 1 {
            1 => after.wrapping_mul(PACKED_NS_PER_US),
            _ => after,
        };
        self.last = self.last.wrapping_add(after);
        let ns = Some(self.last);
        Some(TimedCollective { op, ns })
    }
}

impl UnpackedCalls<'_> {
    /// No calls.
    pub(super) fn without_calls() -> Self {
        let rest = PackedNumbers(&[]);
        UnpackedCalls { rest, last: 0 }
    }

    /// Decodes a call that takes two numbers, or has no time.
    #[cold]
    fn decode_long_call(&mut self, what: u64) -> Option<TimedCollective> {
        let op = (what >> 1) as u32;
        if what & 1 == 0 {
            return Some(TimedCollective { op, ns: None });
        }
        let after = decode_zigzag(self.rest.next_number()?);
        self.last = self.last.wrapping_add(after);
        let ns = Some(self.last);
        Some(TimedCollective { op, ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Numbers of any size, most of them small.
    fn sized() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0..64_u32).prop_map(|(n, small)| n >> small)
    }

    proptest! {
        #[test]
        fn numbers_are_read_as_they_were_written(list in proptest::collection::vec(sized(), 0..40)) {
            let mut bytes = Vec::new();
            list.iter().for_each(|&n| append_number(&mut bytes, n));
            let mut numbers = PackedNumbers(&bytes);
            let read: Vec<u64> = std::iter::from_fn(|| numbers.next_number()).collect();
            prop_assert_eq!(read, list);
        }

        #[test]
        fn packed_calls_are_the_calls(
            calls in proptest::collection::vec(
                (0..300_u32, prop_oneof![0..40_u32, any::<u32>()], any::<bool>(), any::<bool>(), sized()),
                0..60),
        ) {
            let calls = calls.into_iter().map(|(member, op, is_made, is_timed, ns)| {
                let ns = is_timed.then_some(ns.cast_signed());
                PackedCall { member, made: is_made.then_some(TimedCollective { op, ns }) }
            });
            let calls: Vec<PackedCall> = calls.collect();
            let mut packed = PackedCalls::default();
            calls.iter().for_each(|&call| packed.push(call));
            let packed = packed.into_trimmed();
            prop_assert_eq!(packed.iter_calls().collect::<Vec<_>>(), calls.clone());
            let of = |member: u32| calls.iter().filter(move |c| c.member == member).filter_map(|c| c.made);
            for (member, stream) in (0..).zip(packed.streams()) {
                prop_assert_eq!(stream.iter_calls().collect::<Vec<_>>(), of(member).collect::<Vec<_>>());
                prop_assert_eq!(stream.len(), of(member).count() as u64);
                prop_assert_eq!(stream.timed_count(), of(member).filter(|made| made.ns.is_some()).count() as u64);
            }
        }

        /// A state may come from another machine.
        #[test]
        fn any_bytes_are_numbers(bytes: Vec<u8>) {
            let mut numbers = PackedNumbers(&bytes);
            while numbers.next_number().is_some() {}
        }
    }
}
