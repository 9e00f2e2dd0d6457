//! Bursts of a chunk. The merge joins a burst that the edge of a chunk cuts, so the result does not depend
//! on the edges.

use super::burst::{ServingMethod, TunedCall, TuningBurst, TuningLine, TuningMatch};
use crate::grammar::message::NcclMessage;
use crate::grammar::message::tuning::TuningMessage;
use crate::grammar::values::op_kind;
use crate::log::walk::{LogCall, LogVisitor, MessageLine, RepairedCall, insert_at_places};
use crate::members::OpInterner;
use crate::members::recent_interner::{MixedHashKey, RecentInterner};
use crate::stages::setup::thread::SpeakerThread;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Bursts of a thread in a chunk that may be cut.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ThreadBursts {
    /// The first burst, which the chunk's beginning may cut, if another follows.
    pub(super) lead: Option<TuningBurst>,
    /// The last burst, which may continue after the chunk.
    pub(super) open: TuningBurst,
}

/// Operations that NCCL tunes; AlltoAll, Gather and Scatter are made of Send and Recv.
const TUNED_OPERATIONS: [&[u8]; 5] = [
    b"AllReduce",
    b"AllGather",
    b"ReduceScatter",
    b"Broadcast",
    b"Reduce",
];

/// Bursts of a chunk.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct TuningPartial {
    pub(super) names: OpInterner,
    pub(super) threads: FxHashMap<SpeakerThread, ThreadBursts>,
    pub(super) matches: FxHashMap<TuningMatch, u64>,
    /// Number of tuned calls by member.
    pub(super) calls: FxHashMap<u32, u64>,
    /// Number of late lines at each slot.
    slots: Vec<usize>,
    /// Lines after the first slot: a torn call inserted there may change their burst.
    pub(super) late: Vec<TuningSlotLine>,
    /// All lines are late because the order of bursts is wanted.
    in_order: bool,
    /// Calls before the first TUNING line, often all calls: only their numbers matter.
    met: RecentInterner<ThreadCall>,
    /// Number of each of these calls.
    times: Vec<u64>,
    /// The chunk has a TUNING line.
    has_lines: bool,
}

/// A thread's call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct ThreadCall {
    thread: SpeakerThread,
    made: TunedCall,
}

impl MixedHashKey for ThreadCall {
    #[inline(always)]
    fn mixed_key(&self) -> u64 {
        let ThreadCall { thread, made } = self;
        let who = u64::from(made.member) << 32 ^ u64::from(made.op) << 26;
        let how = u64::from(thread.process) << 42 ^ u64::from(made.datatype) << 21;
        let tid = thread.tid.unwrap_or(0);
        let mixed = (who ^ how ^ tid).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ made.count).wrapping_mul(0xc2b2_ae3d_27d4_eb4f)
    }
}

/// A line after a slot.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum TuningSlotLine {
    Call(SpeakerThread, TunedCall),
    Line(SpeakerThread, TuningLine),
}

impl TuningPartial {
    /// Makes parts for [`super::tuning_stage::TuningStage::in_order`].
    pub(crate) fn in_order() -> TuningPartial {
        TuningPartial {
            in_order: true,
            ..TuningPartial::default()
        }
    }

    /// True if the merge decides the burst of the next line.
    fn is_late(&self) -> bool {
        self.in_order || !self.slots.is_empty()
    }

    /// Leaves what comes from now on to the merge if a line's process is not sure: the merge may find
    /// that it is another process of the chunk, and a burst may have lines under both names.
    fn note_process(&mut self, is_sure: bool) {
        self.in_order |= !is_sure;
    }

    /// Returns a call for the join; `None` for Send and Recv.
    #[inline]
    fn tuned_call_of(&mut self, call: &LogCall<'_>) -> Option<TunedCall> {
        let coll = &call.coll;
        let (op, kind) = self.names.intern(coll.op);
        if kind.is_message() {
            return None;
        }
        Some(TunedCall {
            member: call.member,
            op,
            count: coll.count,
            datatype: coll.datatype,
            nranks: coll.nranks,
        })
    }

    /// Counts equal calls, if NCCL tunes them.
    fn count_tuned(&mut self, made: &TunedCall, times: u64) {
        if TUNED_OPERATIONS.contains(&self.names.name_of_op(made.op)) {
            *self.calls.entry(made.member).or_default() += times;
        }
    }

    /// Adds counted calls to their threads' bursts: before a line, and at the end.
    pub(super) fn settle_counted_calls(&mut self) {
        let (met, times) = (
            std::mem::take(&mut self.met),
            std::mem::take(&mut self.times),
        );
        for (of, times) in met.interned_values().iter().zip(times) {
            self.count_tuned(&of.made, times);
            self.add_call(of.thread, of.made, times);
        }
    }

    fn add_call(&mut self, thread: SpeakerThread, made: TunedCall, times: u64) {
        let stretch = self.threads.entry(thread).or_default();
        if stretch.open.is_over() {
            let burst = std::mem::take(&mut stretch.open);
            if stretch.lead.is_none() {
                stretch.lead = Some(burst);
            } else {
                count_matches(&mut self.matches, &burst, &self.names);
            }
        }
        *stretch.open.calls.entry(made).or_default() += times;
    }
}

impl LogVisitor for TuningPartial {
    const MESSAGES: bool = true;

    #[inline]
    fn call(&mut self, call: &LogCall<'_>) {
        let Some(made) = self.tuned_call_of(call) else {
            return;
        };
        self.note_process(call.is_sure);
        let thread = SpeakerThread::new(call.process, call.tid);
        if !self.has_lines && !self.is_late() {
            let number = self.met.intern_value(ThreadCall { thread, made }) as usize;
            match self.times.get_mut(number) {
                Some(times) => *times += 1,
                None => self.times.push(1),
            }
            return;
        }
        self.count_tuned(&made, 1);
        if self.is_late() {
            self.late.push(TuningSlotLine::Call(thread, made));
        } else {
            self.add_call(thread, made, 1);
        }
    }

    fn slot(&mut self) {
        self.slots.push(self.late.len());
    }

    fn insert_torn_calls(&mut self, calls: &[RepairedCall<'_>]) {
        let mut late = Vec::with_capacity(calls.len());
        for RepairedCall { slot, call, .. } in calls {
            let at = self.slots.get(*slot as usize).copied();
            let made = self.tuned_call_of(call);
            if let Some(made) = &made {
                self.count_tuned(made, 1);
            }
            let made = made
                .map(|made| TuningSlotLine::Call(SpeakerThread::new(call.process, call.tid), made));
            late.extend(made.map(|made| (at.unwrap_or(self.late.len()), made)));
        }
        insert_at_places(&mut self.late, late);
    }

    // The merge numbers the processes.
    fn unify_processes(&mut self, _first: &[u32]) {}

    fn message(&mut self, said: &MessageLine<'_>) {
        let NcclMessage::Tuning(tuning) = &said.message else {
            return;
        };
        if !self.has_lines {
            self.has_lines = true;
            self.settle_counted_calls();
        }
        let mut number = |name: &[u8]| self.names.intern(name).0;
        let line = match *tuning {
            TuningMessage::Choice(choice) => TuningLine {
                op: choice.op.map(&mut number),
                bytes: choice.bytes,
                how: ServingMethod::By(choice.algorithm, choice.protocol),
                channels: choice
                    .channels
                    .map(|(first, last)| last.saturating_sub(first) + 1),
                api: choice.channels.is_some(),
            },
            TuningMessage::Symmetric(kernel) => TuningLine {
                op: Some(number(kernel.op)),
                bytes: kernel.bytes,
                how: ServingMethod::Kernel(number(kernel.kernel)),
                channels: Some(kernel.channels),
                api: true,
            },
            TuningMessage::CopyEngine { op, bytes } => TuningLine {
                op: Some(number(op)),
                bytes,
                how: ServingMethod::CopyEngine,
                channels: None,
                api: true,
            },
        };
        self.note_process(said.is_sure);
        let thread = SpeakerThread::new(said.process, said.tid);
        if said.tid.is_none() {
            // The process of a kernel's line is unknown, so its calls are too.
            let (lines, fit) = (1, Vec::new());
            *self
                .matches
                .entry(TuningMatch { line, lines, fit })
                .or_default() += 1;
        } else if self.is_late() {
            self.late.push(TuningSlotLine::Line(thread, line));
        } else {
            let stretch = self.threads.entry(thread).or_default();
            *stretch.open.lines.entry(line).or_default() += 1;
        }
    }
}

fn count_matches(
    matches: &mut FxHashMap<TuningMatch, u64>,
    burst: &TuningBurst,
    names: &OpInterner,
) {
    for found in burst.match_lines(|op| op_kind(names.name_of_op(op))) {
        *matches.entry(found).or_default() += 1;
    }
}
