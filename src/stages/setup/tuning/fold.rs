//! A chunk's bursts. One that the chunk's edge cuts is put together at the merge, so that the
//! result does not depend on where the edges are.

use super::burst::{Burst, How, Line, Made, Match};
use crate::grammar::message::Message;
use crate::grammar::message::tuning::Tuning;
use crate::grammar::values::{Kind, kind};
use crate::log::walk::{Call, Said, Torn, Visit, put_in};
use crate::members::Ops;
use crate::members::often::{Mixed, Often};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// A thread: its process, and its number where the line has one.
pub(super) type Thread = (u32, Option<u64>);

/// What a thread printed in a chunk.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Stretch {
    /// The burst that the chunk's beginning may have cut, if another follows.
    pub(super) lead: Option<Burst>,
    /// The last one, which may go on after the chunk.
    pub(super) open: Burst,
}

/// What NCCL tunes: AlltoAll, Gather and Scatter are sent and received.
const TUNED: [&[u8]; 5] = [
    b"AllReduce",
    b"AllGather",
    b"ReduceScatter",
    b"Broadcast",
    b"Reduce",
];

/// One chunk's bursts.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Partial {
    pub(super) names: Ops,
    pub(super) threads: FxHashMap<Thread, Stretch>,
    pub(super) matches: FxHashMap<Match, u64>,
    /// Calls of each member that NCCL tunes.
    pub(super) calls: FxHashMap<u32, u64>,
    /// How much was late at each slot.
    slots: Vec<usize>,
    /// What comes after the first slot: where a torn call comes in decides which burst it is in.
    pub(super) late: Vec<Late>,
    /// All is late: which burst comes after which is wanted.
    in_order: bool,
    /// Calls before the first TUNING line, which may be all: only how often each was made counts.
    met: Often<Of>,
    /// How often.
    times: Vec<u64>,
    /// A TUNING line was met.
    has_lines: bool,
}

/// A thread's call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Of {
    thread: Thread,
    made: Made,
}

impl Mixed for Of {
    #[inline(always)]
    fn mixed(&self) -> u64 {
        let Of { thread, made } = self;
        let who = u64::from(made.member) << 32 ^ u64::from(made.op) << 26;
        let how = u64::from(thread.0) << 42 ^ u64::from(made.datatype) << 21;
        let tid = thread.1.unwrap_or(0);
        let mixed = (who ^ how ^ tid).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ made.count).wrapping_mul(0xc2b2_ae3d_27d4_eb4f)
    }
}

/// A line after a slot.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Late {
    Call(Thread, Made),
    Line(Thread, Line),
}

impl Partial {
    /// For [`super::all::All::in_order`].
    pub(crate) fn in_order() -> Partial {
        Partial {
            in_order: true,
            ..Partial::default()
        }
    }

    /// Whether what comes now is left to the merge.
    fn is_late(&self) -> bool {
        self.in_order || !self.slots.is_empty()
    }

    /// What a call is to the join, if it is no Send or Recv.
    #[inline]
    fn call_of(&mut self, call: &Call<'_>) -> Option<Made> {
        let coll = &call.coll;
        let (op, kind) = self.names.intern(coll.op);
        if kind == Kind::PointToPoint {
            return None;
        }
        Some(Made {
            member: call.member,
            op,
            count: coll.count,
            datatype: coll.datatype,
            nranks: coll.nranks,
        })
    }

    /// Counts equal calls, if NCCL tunes them.
    fn tuned(&mut self, made: &Made, times: u64) {
        if TUNED.contains(&self.names.name(made.op)) {
            *self.calls.entry(made.member).or_default() += times;
        }
    }

    /// Adds the calls that were only counted to their threads' bursts: before a line, and at the end.
    pub(super) fn settle(&mut self) {
        let (met, times) = (
            std::mem::take(&mut self.met),
            std::mem::take(&mut self.times),
        );
        for (of, times) in met.all().iter().zip(times) {
            self.tuned(&of.made, times);
            self.made(of.thread, of.made, times);
        }
    }

    fn made(&mut self, thread: Thread, made: Made, times: u64) {
        let stretch = self.threads.entry(thread).or_default();
        if stretch.open.is_over() {
            let burst = std::mem::take(&mut stretch.open);
            if stretch.lead.is_none() {
                stretch.lead = Some(burst);
            } else {
                count(&mut self.matches, &burst, &self.names);
            }
        }
        *stretch.open.calls.entry(made).or_default() += times;
    }
}

impl Visit for Partial {
    const MESSAGES: bool = true;

    #[inline]
    fn call(&mut self, call: &Call<'_>) {
        let Some(made) = self.call_of(call) else {
            return;
        };
        let thread = (call.process, call.tid);
        if !self.has_lines && !self.is_late() {
            let number = self.met.number(Of { thread, made }) as usize;
            match self.times.get_mut(number) {
                Some(times) => *times += 1,
                None => self.times.push(1),
            }
            return;
        }
        self.tuned(&made, 1);
        if self.is_late() {
            self.late.push(Late::Call(thread, made));
        } else {
            self.made(thread, made, 1);
        }
    }

    fn slot(&mut self) {
        self.slots.push(self.late.len());
    }

    fn torn(&mut self, calls: &[Torn<'_>]) {
        let mut late = Vec::with_capacity(calls.len());
        for Torn { slot, call, .. } in calls {
            let at = self.slots.get(*slot as usize).copied();
            let made = self.call_of(call);
            if let Some(made) = &made {
                self.tuned(made, 1);
            }
            let made = made.map(|made| Late::Call((call.process, call.tid), made));
            late.extend(made.map(|made| (at.unwrap_or(self.late.len()), made)));
        }
        put_in(&mut self.late, late);
    }

    fn message(&mut self, said: &Said<'_>) {
        let Message::Tuning(tuning) = &said.message else {
            return;
        };
        if !self.has_lines {
            self.has_lines = true;
            self.settle();
        }
        let mut number = |name: &[u8]| self.names.intern(name).0;
        let line = match *tuning {
            Tuning::Choice(choice) => Line {
                op: choice.op.map(&mut number),
                bytes: choice.bytes,
                how: How::By(choice.algorithm, choice.protocol),
                channels: choice
                    .channels
                    .map(|(first, last)| last.saturating_sub(first) + 1),
                api: choice.channels.is_some(),
            },
            Tuning::Symmetric(kernel) => Line {
                op: Some(number(kernel.op)),
                bytes: kernel.bytes,
                how: How::Kernel(number(kernel.kernel)),
                channels: Some(kernel.channels),
                api: true,
            },
            Tuning::CopyEngine { op, bytes } => Line {
                op: Some(number(op)),
                bytes,
                how: How::CopyEngine,
                channels: None,
                api: true,
            },
        };
        let thread = (said.process, said.tid);
        if said.tid.is_none() {
            // Who printed it is not known, nor therefore which calls are its own.
            let (lines, fit) = (1, Vec::new());
            *self.matches.entry(Match { line, lines, fit }).or_default() += 1;
        } else if self.is_late() {
            self.late.push(Late::Line(thread, line));
        } else {
            let stretch = self.threads.entry(thread).or_default();
            *stretch.open.lines.entry(line).or_default() += 1;
        }
    }
}

fn count(matches: &mut FxHashMap<Match, u64>, burst: &Burst, names: &Ops) {
    for found in burst.matches(|op| kind(names.name(op))) {
        *matches.entry(found).or_default() += 1;
    }
}
