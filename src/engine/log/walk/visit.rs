//! What a stage is given in the walk over a chunk, and what it must do with it.
//!
//! A call whose line was torn is known only at the merge, when its line is whole again. It is given to
//! the stage there, before the chunk's part is added: a stage adds up parts and knows no torn calls.

use crate::grammar::coll::Coll;
use crate::grammar::message::NcclMessage;

/// A call met in the walk.
#[derive(Debug, Clone, Copy)]
pub struct LogCall<'a> {
    /// What the line says.
    pub coll: Coll<'a>,
    /// Who said it: a member's number.
    pub member: u32,
    /// The process of that member: its index in the chunk.
    pub process: u32,
    /// The process's name is sure: else the merge may find that it is another of the chunk's
    /// ([`LogVisitor::unify_processes`]).
    pub is_sure: bool,
    /// The thread, where the header is there.
    pub tid: Option<u64>,
    /// The time stamp as printed; empty if there is none.
    pub time: &'a [u8],
    /// Where its line begins, in bytes of the input.
    pub at: u64,
}

/// A call whose line was torn, and became whole in the chunk.
#[derive(Debug, Clone, Copy)]
pub struct RepairedCall<'a> {
    /// Where it comes in: the number of a slot.
    pub slot: u32,
    /// The call, as if its line were whole.
    pub call: LogCall<'a>,
    /// It is whole, on one line.
    pub is_own: bool,
}

/// A line of NCCL's that is no call.
#[derive(Debug, Clone, Copy)]
pub struct MessageLine<'a> {
    /// What it says.
    pub message: NcclMessage<'a>,
    /// The same as printed, with NCCL's stamp and header.
    pub text: &'a [u8],
    /// Who says it: index of the process in the chunk; nobody's where the line has no header.
    pub process: u32,
    /// The same with the device that was current.
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

/// What a stage keeps of a chunk.
pub trait LogVisitor {
    /// Whether messages are wanted; those who want none do not pay for reading them.
    const MESSAGES: bool = false;
    /// A message, in line order.
    fn message(&mut self, _said: &MessageLine<'_>) {}
    /// Whether lines that are not NCCL's are wanted.
    const FOREIGN: bool = false;
    /// A line that is not NCCL's (`Class::Foreign`), without its end, and its number from 0 in
    /// the chunk; in line order.
    fn foreign(&mut self, _line: &[u8], _number: u64) {}
    /// A call, in line order.
    fn call(&mut self, call: &LogCall<'_>);
    /// A mark: what follows lies in the next gap.
    fn mark(&mut self) {}
    /// A place where calls whose lines were torn may come in, in line order; the first is 0.
    fn slot(&mut self);
    /// Some of the chunk's processes are one: for each the first that is the same. It comes after the
    /// walk, before the calls whose lines were torn. A name that is sure is met after all that turn out
    /// to be the same.
    fn unify_processes(&mut self, _first: &[u32]) {}
    /// Takes the calls whose lines were torn in at their slots, which rise. It comes after all
    /// else: what the merge then sees is what whole lines would have left.
    fn insert_torn_calls(&mut self, calls: &[RepairedCall<'_>]);
}

/// Keeps nothing: the marks and the account are all that is wanted.
impl LogVisitor for () {
    fn call(&mut self, _call: &LogCall<'_>) {}

    fn slot(&mut self) {}

    fn insert_torn_calls(&mut self, _calls: &[RepairedCall<'_>]) {}
}

/// Two stages that walk together.
impl<A: LogVisitor, B: LogVisitor> LogVisitor for (A, B) {
    const MESSAGES: bool = A::MESSAGES || B::MESSAGES;
    const FOREIGN: bool = A::FOREIGN || B::FOREIGN;

    fn message(&mut self, said: &MessageLine<'_>) {
        self.0.message(said);
        self.1.message(said);
    }

    fn foreign(&mut self, line: &[u8], number: u64) {
        self.0.foreign(line, number);
        self.1.foreign(line, number);
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

/// A stage that walks only where it is wanted.
impl<V: LogVisitor> LogVisitor for Option<V> {
    const MESSAGES: bool = V::MESSAGES;
    const FOREIGN: bool = V::FOREIGN;

    fn message(&mut self, said: &MessageLine<'_>) {
        self.iter_mut().for_each(|visit| visit.message(said));
    }

    fn foreign(&mut self, line: &[u8], number: u64) {
        self.iter_mut()
            .for_each(|visit| visit.foreign(line, number));
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

/// Puts `more` into a list: each before the element at the place it names, in their order. The places
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
