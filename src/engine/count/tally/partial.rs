//! The counts of one chunk.

use super::counts::KeyCounter;
use super::packed::PackedCounts;
use super::{CallVolume, Options, SizeKey};
use crate::log::placement::CallRecorder;
use crate::log::walk::{LogCall, LogVisitor, RepairedCall};
use crate::members::OpInterner;
use serde::{Deserialize, Serialize};

/// The counts of a chunk.
#[derive(Debug, Serialize, Deserialize)]
pub struct TallyPartial {
    pub(super) options: Options,
    pub(super) ops: OpInterner,
    pub(super) counts: KeyCounter,
    /// Keys have no more than a member, an operation and a size.
    pub(super) short: bool,
    /// With steps: the calls themselves, to be counted once they are placed.
    pub(super) calls: CallRecorder,
    /// Number of the gap in the chunk.
    pub(super) gap: u32,
    /// The finished gaps' counts, one gap's after the other's.
    pub(super) cells: PackedCounts,
    /// The gaps with counts, and where these end.
    pub(super) ends: Vec<(u32, usize)>,
    /// Counts that need more than 64 bits, by gap.
    pub(super) wide: Vec<(u32, u32, CallVolume)>,
}

impl TallyPartial {
    /// Nothing counted yet.
    pub fn new(options: &Options) -> Self {
        TallyPartial {
            options: options.clone(),
            ops: OpInterner::default(),
            counts: KeyCounter::new(),
            short: !options.exact && !options.datatypes && options.sizing != SizeKey::Count,
            calls: CallRecorder::default(),
            gap: 0,
            cells: PackedCounts::default(),
            ends: Vec::new(),
            wide: Vec::new(),
        }
    }

    /// Ends the gap in hand.
    pub(super) fn close_gap(&mut self) {
        let (gap, wide) = (self.gap, &mut self.wide);
        self.counts
            .end_stretch(&mut self.cells, |key, value| wide.push((gap, key, value)));
        if self.ends.last().map_or(0, |end| end.1) < self.cells.end_offset() {
            self.ends.push((gap, self.cells.end_offset()));
        }
    }
}

impl LogVisitor for TallyPartial {
    #[inline(always)]
    fn call(&mut self, call: &LogCall<'_>) {
        if self.options.steps {
            return self.calls.call(call);
        }
        let (op, kind) = self.ops.intern(call.coll.op);
        let (key, bytes) = self
            .options
            .key_of_logged(op, kind, call.member, &call.coll);
        self.counts.add_calls(key, 1, bytes, self.short);
    }

    fn mark(&mut self) {
        if self.options.steps {
            self.calls.mark();
        }
    }

    fn slot(&mut self) {
        if self.options.steps {
            self.calls.slot();
        }
    }

    fn unify_processes(&mut self, first: &[u32]) {
        if self.options.steps {
            self.calls.unify_processes(first);
        }
    }

    fn insert_torn_calls(&mut self, calls: &[RepairedCall<'_>]) {
        if self.options.steps {
            return self.calls.insert_torn_calls(calls);
        }
        // The place of a call does not matter.
        calls.iter().for_each(|torn| self.call(&torn.call));
    }
}
