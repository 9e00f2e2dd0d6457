//! When calls of a chunk were made, in a few bytes each: a log's calls wait until it is read to its
//! end, since only then their steps are known.

use super::packed::{Kept, Made, Packed};
use crate::grammar::stamp::Reader;
use crate::grammar::values::Kind;
use crate::log::placement::Recorder;
use crate::log::walk::{Call, Torn, Visit, put_in};
use crate::members::Ops;
use serde::{Deserialize, Serialize};

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
        let (number, kind) = self.ops.intern(op);
        let is_message = kind == Kind::PointToPoint;
        if is_message && matches!(op, b"Send" | b"Recv") {
            return Kept { member, made: None };
        }
        let stamp = match is_message {
            true => None,
            false => self.reader.stamp(time),
        };
        self.step = self.step.max(stamp.map_or(0, |stamp| stamp.step));
        let ns = stamp.map(|stamp| stamp.ns);
        let made = Some(Made { op: number, ns });
        Kept { member, made }
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
