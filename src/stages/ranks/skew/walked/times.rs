//! The times of a chunk's calls, in a few bytes each: calls wait until their log is read, since their steps are
//! known only then.

use super::packed::{PackedCall, PackedCalls, TimedCollective};
use crate::grammar::stamp::StampReader;
use crate::log::placement::CallRecorder;
use crate::log::walk::{LogCall, LogVisitor, RepairedCall, insert_at_places};
use crate::members::OpInterner;
use serde::{Deserialize, Serialize};

/// A chunk's calls. If one has no time stamp, none is kept.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SkewPartial {
    /// A call has no time stamp.
    pub(super) is_bare: bool,
    pub(super) ops: OpInterner,
    pub(super) calls: PackedCalls,
    /// The number of calls.
    len: usize,
    /// The resolution of the times, ns.
    pub(super) step: i64,
    /// The number of calls before each slot.
    slots: Vec<usize>,
    #[serde(skip)]
    reader: StampReader,
    /// Records calls to place them in steps, if no other stage does.
    pub(super) recorder: Option<CallRecorder>,
}

impl SkewPartial {
    /// Begins a chunk; `places` if no other stage records calls to place them.
    pub(crate) fn new(places: bool) -> SkewPartial {
        SkewPartial {
            is_bare: false,
            ops: OpInterner::default(),
            calls: PackedCalls::default(),
            len: 0,
            step: 0,
            slots: Vec::new(),
            reader: StampReader::default(),
            recorder: places.then(CallRecorder::default),
        }
    }

    /// Packs a call.
    #[inline]
    fn pack_call(&mut self, op: &[u8], member: u32, time: &[u8]) -> PackedCall {
        let (number, kind) = self.ops.intern(op);
        let is_message = kind.is_message();
        if is_message && matches!(op, b"Send" | b"Recv") {
            return PackedCall { member, made: None };
        }
        let stamp = match is_message {
            true => None,
            false => self.reader.stamp(time),
        };
        self.step = self.step.max(stamp.map_or(0, |stamp| stamp.step));
        let ns = stamp.map(|stamp| stamp.ns);
        let made = Some(TimedCollective { op: number, ns });
        PackedCall { member, made }
    }

    // Not inlined, so that logs without stamps do not pay for it.
    #[inline(never)]
    fn keep_call(&mut self, op: &[u8], member: u32, time: &[u8]) {
        let call = self.pack_call(op, member, time);
        self.calls.push(call);
        self.len += 1;
    }

    /// Drops all calls, since one has no stamp.
    #[cold]
    fn drop_all_calls(&mut self) {
        *self = SkewPartial {
            is_bare: true,
            ..SkewPartial::new(false)
        };
    }
}

impl LogVisitor for SkewPartial {
    #[inline(always)]
    fn call(&mut self, call: &LogCall<'_>) {
        if self.is_bare {
            return;
        }
        if call.time.is_empty() {
            return self.drop_all_calls();
        }
        self.keep_call(call.coll.op, call.member, call.time);
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

    fn unify_processes(&mut self, first: &[u32]) {
        self.recorder.unify_processes(first);
    }

    fn insert_torn_calls(&mut self, calls: &[RepairedCall<'_>]) {
        if self.is_bare || calls.is_empty() {
            return;
        }
        if calls.iter().any(|torn| torn.call.time.is_empty()) {
            return self.drop_all_calls();
        }
        self.recorder.insert_torn_calls(calls);
        let mut all: Vec<PackedCall> = self.calls.iter_calls().collect();
        let torn = calls.iter().map(|RepairedCall { slot, call, .. }| {
            let at = self.slots.get(*slot as usize).copied();
            (at.unwrap_or(self.len), call)
        });
        let torn: Vec<(usize, &LogCall<'_>)> = torn.collect();
        let kept = torn.into_iter().map(|(at, call)| {
            let kept = self.pack_call(call.coll.op, call.member, call.time);
            (at, kept)
        });
        let kept: Vec<_> = kept.collect();
        insert_at_places(&mut all, kept);
        self.len = all.len();
        self.calls = PackedCalls::default();
        all.into_iter().for_each(|call| self.calls.push(call));
    }
}
