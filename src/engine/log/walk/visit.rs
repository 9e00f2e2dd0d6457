//! The events that a walk over a chunk gives to a stage.
//!
//! A call from a torn line is known only at the merge, when its line is whole again. The stage gets
//! it there, before the chunk's part is added: code that adds parts up knows no torn calls.

use crate::grammar::coll::Coll;
use crate::grammar::message::NcclMessage;

/// A call that the walk met.
#[derive(Debug, Clone, Copy)]
pub struct LogCall<'a> {
    /// The call.
    pub coll: Coll<'a>,
    /// The number of the member that made it.
    pub member: u32,
    /// The process of that member: its index in the chunk.
    pub process: u32,
    /// False if the merge may find that the process is another of the chunk's
    /// ([`LogVisitor::unify_processes`]).
    pub is_sure: bool,
    /// The thread, where the header is there.
    pub tid: Option<u64>,
    /// The time stamp as printed; empty if there is none.
    pub time: &'a [u8],
    /// Where its line begins, in bytes of the input.
    pub at: u64,
}

/// A call from a torn line that became whole in the chunk.
#[derive(Debug, Clone, Copy)]
pub struct RepairedCall<'a> {
    /// The number of the slot that it belongs to.
    pub slot: u32,
    /// The call, as if its line were whole.
    pub call: LogCall<'a>,
    /// It is whole, on one line.
    pub is_own: bool,
}

/// A NCCL line that is not a call.
#[derive(Debug, Clone, Copy)]
pub struct MessageLine<'a> {
    /// Its content.
    pub message: NcclMessage<'a>,
    /// Its text as printed, with NCCL's stamp and header.
    pub text: &'a [u8],
    /// Index of the process in the chunk; a placeholder process if the line has no header.
    pub process: u32,
    /// False if the merge may find that the process is another of the chunk's
    /// ([`LogVisitor::unify_processes`]).
    pub is_sure: bool,
    /// The process with the device that was current.
    pub place: u32,
    /// The thread, where the header is there.
    pub tid: Option<u64>,
    /// The time stamp as printed; empty if there is none.
    pub time: &'a [u8],
    /// Where it begins, in bytes of the input.
    pub at: u64,
    /// Its line, from 0 in the chunk.
    pub line: u64,
}

/// A stage's part of a chunk.
pub trait LogVisitor {
    /// Whether messages are wanted; without them the walk does not read them.
    const MESSAGES: bool = false;
    /// Takes a message, in line order.
    fn message(&mut self, _said: &MessageLine<'_>) {}
    /// Whether lines that are not NCCL's are wanted.
    const FOREIGN: bool = false;
    /// Takes a line that is not NCCL's (`LineClass::Foreign`), without its end, and its number from
    /// 0 in the chunk; in line order.
    fn foreign(&mut self, _line: &[u8], _number: u64) {}
    /// Whether lines of nccl-tests are wanted.
    const BENCHMARKS: bool = false;
    /// Takes a line that may be one of nccl-tests', or may have its text before NCCL's, without its
    /// end, and its number from 0 in the chunk; in line order.
    fn benchmark_line(&mut self, _line: &[u8], _number: u64) {}
    /// Takes a call, in line order.
    fn call(&mut self, call: &LogCall<'_>);
    /// Takes a mark: the next gap begins.
    fn mark(&mut self) {}
    /// Takes a place to which torn lines may add calls, in line order; the first is 0.
    fn slot(&mut self);
    /// Learns that some processes of the chunk are one process: `first` gives for each the first
    /// process that is the same. It is called after the walk, before `insert_torn_calls`. A name that
    /// is sure is met after all the names that turn out to be the same process. What a stage keeps by
    /// process and in order needs it, so there is no default: the answer would depend on chunk edges.
    fn unify_processes(&mut self, first: &[u32]);
    /// Adds the calls from torn lines at their slots, which rise. It is called last: the merge then
    /// sees what whole lines would have left.
    fn insert_torn_calls(&mut self, calls: &[RepairedCall<'_>]);
}

/// Keeps nothing: only the marks and the account are wanted.
impl LogVisitor for () {
    fn call(&mut self, _call: &LogCall<'_>) {}

    fn slot(&mut self) {}

    fn unify_processes(&mut self, _first: &[u32]) {}

    fn insert_torn_calls(&mut self, _calls: &[RepairedCall<'_>]) {}
}

/// Two stages that walk together.
impl<A: LogVisitor, B: LogVisitor> LogVisitor for (A, B) {
    const MESSAGES: bool = A::MESSAGES || B::MESSAGES;
    const FOREIGN: bool = A::FOREIGN || B::FOREIGN;
    const BENCHMARKS: bool = A::BENCHMARKS || B::BENCHMARKS;

    fn message(&mut self, said: &MessageLine<'_>) {
        self.0.message(said);
        self.1.message(said);
    }

    fn foreign(&mut self, line: &[u8], number: u64) {
        self.0.foreign(line, number);
        self.1.foreign(line, number);
    }

    fn benchmark_line(&mut self, line: &[u8], number: u64) {
        self.0.benchmark_line(line, number);
        self.1.benchmark_line(line, number);
    }

    #[inline(always)]
    fn call(&mut self, call: &LogCall<'_>) {
        self.0.call(call);
        self.1.call(call);
    }

    fn mark(&mut self) {
        self.0.mark();
        self.1.mark();
    }

    fn slot(&mut self) {
        self.0.slot();
        self.1.slot();
    }

    fn unify_processes(&mut self, first: &[u32]) {
        self.0.unify_processes(first);
        self.1.unify_processes(first);
    }

    fn insert_torn_calls(&mut self, calls: &[RepairedCall<'_>]) {
        self.0.insert_torn_calls(calls);
        self.1.insert_torn_calls(calls);
    }
}

/// A stage that may be switched off.
impl<V: LogVisitor> LogVisitor for Option<V> {
    const MESSAGES: bool = V::MESSAGES;
    const FOREIGN: bool = V::FOREIGN;
    const BENCHMARKS: bool = V::BENCHMARKS;

    fn message(&mut self, said: &MessageLine<'_>) {
        self.iter_mut().for_each(|visit| visit.message(said));
    }

    fn foreign(&mut self, line: &[u8], number: u64) {
        self.iter_mut()
            .for_each(|visit| visit.foreign(line, number));
    }

    fn benchmark_line(&mut self, line: &[u8], number: u64) {
        self.iter_mut()
            .for_each(|visit| visit.benchmark_line(line, number));
    }

    #[inline(always)]
    fn call(&mut self, call: &LogCall<'_>) {
        self.iter_mut().for_each(|visit| visit.call(call));
    }

    fn mark(&mut self) {
        self.iter_mut().for_each(LogVisitor::mark);
    }

    fn slot(&mut self) {
        self.iter_mut().for_each(LogVisitor::slot);
    }

    fn unify_processes(&mut self, first: &[u32]) {
        self.iter_mut()
            .for_each(|visit| visit.unify_processes(first));
    }

    fn insert_torn_calls(&mut self, calls: &[RepairedCall<'_>]) {
        self.iter_mut()
            .for_each(|visit| visit.insert_torn_calls(calls));
    }
}

/// Inserts `more` into a list: each before the element at the place it names, in order. The places
/// rise.
pub fn insert_at_places<T>(list: &mut Vec<T>, more: impl IntoIterator<Item = (usize, T)>) {
    let mut more = more.into_iter().peekable();
    if more.peek().is_none() {
        return;
    }
    let len = list.len();
    let mut old = std::mem::take(list).into_iter();
    list.reserve(len + more.size_hint().0);
    for (place, new) in more {
        let taken = len - old.len();
        list.extend(old.by_ref().take(place.saturating_sub(taken)));
        list.push(new);
    }
    list.extend(old);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_is_put_before_its_place(
            len in 0..8_usize,
            mut places in proptest::collection::vec(0..10_usize, 0..6),
        ) {
            places.sort_unstable();
            let mut list: Vec<usize> = (0..len).collect();
            let more: Vec<(usize, usize)> = places.iter().copied().zip(100..).collect();
            // The twin: from the last to the first, one by one.
            let mut twin = list.clone();
            more.iter().rev().for_each(|&(place, new)| twin.insert(place.min(len), new));
            insert_at_places(&mut list, more);
            prop_assert_eq!(list, twin);
        }
    }
}
