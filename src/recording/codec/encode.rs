//! Events into bytes.

use super::predict::FramePrediction;
use super::{FrameHead, flag, kind, other};
use crate::event::{
    CallBegun, CommFacts, Event, KernelSpan, ProcessFacts, ProxyEnded, RecordedShape, TaskBegun,
    TimedEvent,
};
use crate::limits::{
    FORMAT_VERSION, FULL_BODY_BYTES, MAX_NAME_BYTES, MAX_SHAPES, MAX_STALE_FRAMES,
};
use crate::varint::{put_signed, put_text, put_varint};
use rustc_hash::{FxHashMap, FxHashSet};

/// Encodes the events of a file, frame by frame.
#[derive(Debug, Default)]
pub struct EventEncoder {
    body: Vec<u8>,
    shapes: FxHashMap<RecordedShape, u32>,
    comms: FxHashSet<u32>,
    frame: FramePrediction,
    /// Frames since the last fresh one; 0 if the next is fresh.
    age: u32,
}

impl ProcessFacts {
    /// Appends the body of the first frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, FORMAT_VERSION);
        put_varint(out, u64::from(self.pid));
        put_text(out, &self.host, MAX_NAME_BYTES);
        put_varint(out, self.realtime_ns);
        put_varint(out, self.monotonic_ns);
        put_varint(out, u64::from(self.interface));
        put_varint(out, u64::from(self.event_mask));
        for number in [self.rank, self.world_size] {
            put_varint(out, number.map_or(0, |number| u64::from(number) + 1));
        }
    }
}

impl EventEncoder {
    /// Begins a frame.
    pub fn begin_frame(&mut self, base_ns: u64) {
        if self.age >= MAX_STALE_FRAMES || self.shapes.len() >= MAX_SHAPES {
            self.forget_definitions();
        }
        let is_fresh = self.age == 0;
        self.age += 1;
        self.body.clear();
        self.frame = FramePrediction::from_base(base_ns);
        let head = FrameHead { base_ns, is_fresh };
        self.body.push(u8::from(head.is_fresh));
        put_varint(&mut self.body, head.base_ns);
    }

    /// Makes the next frame a fresh one: the last was not written.
    pub fn forget_definitions(&mut self) {
        self.shapes.clear();
        self.comms.clear();
        self.age = 0;
    }

    /// Returns the body of the frame.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Returns true if the frame must be ended before another event.
    pub fn is_full(&self) -> bool {
        self.body.len() >= FULL_BODY_BYTES || self.shapes.len() >= MAX_SHAPES
    }

    /// Adds an event of a thread; `facts` are asked of a communicator that is not defined yet.
    pub fn add_event(
        &mut self,
        thread: u32,
        timed: &TimedEvent,
        facts: impl FnOnce(u32) -> CommFacts,
    ) {
        if thread != self.frame.thread {
            self.put_other(other::THREAD, u64::from(thread));
            self.frame.thread = thread;
        }
        if let Some(comm) = timed.event.comm().filter(|comm| self.comms.insert(*comm)) {
            self.define_comm(comm, &facts(comm));
        }
        match &timed.event {
            Event::CommBegun(comm) => self.put_other(other::COMM_BEGUN, u64::from(*comm)),
            Event::CommEnded(comm) => self.put_other(other::COMM_ENDED, u64::from(*comm)),
            Event::Dropped(count) => self.put_other(other::DROPPED, *count),
            Event::Call(call) => self.put_call(call),
            Event::Task(task) => self.put_task(task),
            Event::TaskEnded { comm, number } => self.put_task_ended(*comm, *number),
            Event::Kernel { comm, number, span } => self.put_kernel(*comm, *number, *span),
            Event::Proxy(ended) => self.put_proxy(ended),
        }
        let since = timed.time_ns.wrapping_sub(self.frame.time_ns) as i64;
        put_signed(&mut self.body, since);
        self.frame.time_ns = timed.time_ns;
    }

    fn define_comm(&mut self, comm: u32, facts: &CommFacts) {
        let out = &mut self.body;
        out.push(kind::OTHER | other::COMM << other::SHIFT);
        put_varint(out, u64::from(comm));
        put_varint(out, facts.id);
        put_text(out, &facts.name, MAX_NAME_BYTES);
        put_varint(out, u64::from(facts.nranks));
        put_varint(out, u64::from(facts.nnodes));
        put_varint(out, facts.rank.map_or(0, |rank| u64::from(rank) + 1));
    }

    /// Returns the number of a shape, which it defines if need be.
    fn number_shape(&mut self, shape: &RecordedShape) -> u32 {
        let next = self.shapes.len() as u32;
        let number = *self.shapes.entry(*shape).or_insert(next);
        if number == next {
            let out = &mut self.body;
            out.push(kind::OTHER | other::SHAPE << other::SHIFT);
            out.extend([
                shape.op,
                shape.datatype,
                shape.redop,
                shape.algo,
                shape.proto,
            ]);
            put_varint(out, u64::from(shape.channels));
            put_varint(out, shape.count);
            put_signed(out, i64::from(shape.peer));
            put_varint(out, shape.stream);
        }
        number
    }

    fn put_other(&mut self, what: u8, value: u64) {
        self.body.push(kind::OTHER | what << other::SHIFT);
        put_varint(&mut self.body, value);
    }

    /// Appends the first byte of an event, and its communicator if that is another than before.
    fn put_tag(&mut self, kind: u8, flags: u8, comm: u32) {
        let is_other = comm != self.frame.comm;
        self.body
            .push(kind | flags | if is_other { flag::COMM } else { 0 });
        if is_other {
            put_varint(&mut self.body, u64::from(comm));
        }
        self.frame.comm = comm;
    }

    fn put_call(&mut self, call: &CallBegun) {
        let shape = self.number_shape(&call.shape);
        let mut flags = 0;
        let next = self.frame.comm_mut(call.comm);
        let number = call.number.wrapping_sub(next.call) as i64;
        let ordinal = call
            .ordinal
            .wrapping_sub(next.predict_ordinal(call.shape.op)) as i64;
        next.learn_call(call);
        flags |= if number == 0 { 0 } else { flag::NUMBER };
        flags |= if ordinal == 0 { 0 } else { flag::SECOND };
        flags |= if call.is_captured { flag::CAPTURED } else { 0 };
        flags |= if call.is_launch { flag::LAUNCH } else { 0 };
        self.put_tag(kind::CALL, flags, call.comm);
        for changed in [number, ordinal] {
            if changed != 0 {
                put_signed(&mut self.body, changed);
            }
        }
        put_varint(&mut self.body, u64::from(shape));
    }

    fn put_task(&mut self, task: &TaskBegun) {
        let shape = self.number_shape(&task.shape);
        let mut flags = 0;
        let next = self.frame.comm_mut(task.comm);
        let number = task.number.wrapping_sub(next.task) as i64;
        let call = task.call.wrapping_sub(next.parent) as i64;
        let has_seq = task.seq != next.predict_seq(task.shape.op);
        next.learn_task(task);
        flags |= if number == 0 { 0 } else { flag::NUMBER };
        flags |= if call == 0 { 0 } else { flag::SECOND };
        flags |= if has_seq { flag::SEQ } else { 0 };
        self.put_tag(kind::TASK, flags, task.comm);
        for changed in [number, call] {
            if changed != 0 {
                put_signed(&mut self.body, changed);
            }
        }
        if has_seq {
            put_varint(
                &mut self.body,
                task.seq.map_or(0, |seq| seq.saturating_add(1)),
            );
        }
        put_varint(&mut self.body, u64::from(shape));
    }

    fn put_task_ended(&mut self, comm: u32, number: u64) {
        let next = self.frame.comm_mut(comm);
        let changed = number.wrapping_sub(next.ended) as i64;
        next.ended = number.wrapping_add(1);
        let flags = if changed == 0 { 0 } else { flag::NUMBER };
        self.put_tag(kind::TASK_ENDED, flags, comm);
        if changed != 0 {
            put_signed(&mut self.body, changed);
        }
    }

    fn put_kernel(&mut self, comm: u32, number: u64, span: KernelSpan) {
        self.put_tag(kind::KERNEL, 0, comm);
        let next = self.frame.comm_mut(comm);
        let changed = number.wrapping_sub(next.last) as i64;
        next.last = number;
        let out = &mut self.body;
        put_signed(out, changed);
        put_varint(out, u64::from(span.begun));
        put_varint(out, u64::from(span.ended));
        for gpu_ns in [span.start_ns, span.stop_ns] {
            put_signed(out, gpu_ns.wrapping_sub(self.frame.gpu_ns) as i64);
            if gpu_ns > 0 {
                self.frame.gpu_ns = gpu_ns;
            }
        }
    }

    fn put_proxy(&mut self, ended: &ProxyEnded) {
        let flags = if ended.task.is_some() {
            flag::SECOND
        } else {
            0
        };
        let send = if ended.is_send { flag::SEND } else { 0 };
        self.put_tag(kind::PROXY, flags | send, ended.comm);
        let next = self.frame.comm_mut(ended.comm);
        let changed = ended.task.map(|task| task.wrapping_sub(next.last) as i64);
        next.last = ended.task.unwrap_or(next.last);
        let out = &mut self.body;
        if let Some(changed) = changed {
            put_signed(out, changed);
        }
        put_signed(out, i64::from(ended.peer));
        out.push(ended.channel);
        for number in [ended.steps, ended.chunk_bytes, ended.ended] {
            put_varint(out, u64::from(number));
        }
        put_varint(out, ended.dur_ns);
        put_varint(out, ended.bytes);
        for wait_ns in ended.waits_ns {
            put_varint(out, wait_ns);
        }
    }
}

impl Event {
    /// Returns the communicator that it is of.
    pub fn comm(&self) -> Option<u32> {
        match self {
            Event::CommBegun(comm)
            | Event::CommEnded(comm)
            | Event::TaskEnded { comm, .. }
            | Event::Kernel { comm, .. } => Some(*comm),
            Event::Call(call) => Some(call.comm),
            Event::Task(task) => Some(task.comm),
            Event::Proxy(ended) => Some(ended.comm),
            Event::Dropped(_) => None,
        }
    }
}
