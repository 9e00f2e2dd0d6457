//! Calls of a recording as rows of the call table.

use super::limits::{MAX_CAPTURED_CALLS, MAX_PEERS};
use crate::error::Result;
use crate::formats::ordered::RowTaker;
use crate::formats::profiler::GPU_CLOCK;
use crate::formats::quality::WHOLE_KERNEL;
use crate::grammar::values::{Datatype, RedOp, has_root};
use crate::members::comm_id::CommId;
use crate::output::table::{Row, Timing};
use nccl_pipe_recording::names::{ALGOS, OPS, PROTOS, UNKNOWN, find_name, is_message};
use nccl_pipe_recording::{CallJoiner, CommFacts, ProcessFacts, RecordingCall, TimedEvent};
use rustc_hash::{FxHashMap, FxHashSet};

/// The clock of times that the recorder takes on the host, in ns since 1970.
const HOST_CLOCK: &[u8] = b"unix";

/// The process of a recording.
#[derive(Debug, Default)]
pub(super) struct RecordedProcess {
    facts: ProcessFacts,
    comms: FxHashMap<u32, RecordedComm>,
    joiner: Option<CallJoiner>,
    /// Calls captured into a CUDA graph, by communicator and number.
    captured: FxHashSet<(u32, u64)>,
    /// Launches of graphs.
    replays: u64,
    /// Calls with bytes as elements.
    in_bytes: u64,
}

/// A communicator, and the numbers of its next calls.
#[derive(Debug, Default)]
struct RecordedComm {
    facts: CommFacts,
    next: u64,
    /// A call was dropped: later messages have no number of their own.
    has_gap: bool,
    /// The next number of a message, by operation and peer.
    messages: FxHashMap<(u8, i32), u64>,
}

impl RecordedProcess {
    /// Takes the facts of the process, which come first.
    pub(super) fn begin(&mut self, facts: &ProcessFacts) {
        self.facts = facts.clone();
        self.joiner = Some(CallJoiner::new(facts.has_kernels()));
    }

    pub(super) fn add_comm(&mut self, number: u32, facts: CommFacts) {
        self.comms.entry(number).or_default().facts = facts;
    }

    /// Adds an event, and gives the calls that are complete to `take`.
    pub(super) fn add_event(
        &mut self,
        thread: u32,
        timed: &TimedEvent,
        take: impl FnMut(&RecordingCall),
    ) {
        if let Some(joiner) = &mut self.joiner {
            joiner.add_event(thread, timed, take);
        }
    }

    /// Gives the calls that are not complete to `take`.
    pub(super) fn finish(&mut self, take: impl FnMut(&RecordingCall)) {
        if let Some(joiner) = &mut self.joiner {
            joiner.finish(take);
        }
    }

    /// Returns how many launches of graphs have no row.
    pub(super) fn replays(&self) -> u64 {
        self.replays
    }

    /// Returns how many calls have bytes as elements.
    pub(super) fn in_bytes(&self) -> u64 {
        self.in_bytes
    }

    /// Hands over the row of a call. A graph's launch has none.
    pub(super) fn emit_row(
        &mut self,
        joined: &RecordingCall,
        taking: &mut RowTaker<'_>,
    ) -> Result<()> {
        if let Some(call) = joined.call.filter(|call| call.is_captured)
            && self.captured.len() < MAX_CAPTURED_CALLS
        {
            self.captured.insert((call.comm, call.number));
        }
        let is_replay = |call: u64| self.captured.contains(&(joined.comm(), call));
        if joined.call.is_none() && joined.task.is_some_and(|task| is_replay(task.call)) {
            self.replays += 1;
            return Ok(());
        }
        let of_call = joined.call.map(|call| call.shape);
        let of_task = joined.task.map(|task| task.shape);
        let Some(shape) = of_call.or(of_task) else {
            return Ok(());
        };
        let is_launch = joined.call.is_none_or(|call| call.is_launch);
        let op = find_name(&OPS, shape.op);
        self.in_bytes += u64::from(is_launch && matches!(op, "AllGather" | "Broadcast"));
        let mut peers = [of_task, of_call]
            .into_iter()
            .flatten()
            .map(|shape| shape.peer);
        let peer = peers.find(|&peer| peer >= 0);
        let comm = self.comms.entry(joined.comm()).or_default();
        let seq = comm.number_call(joined, peer);
        let served = of_task.unwrap_or_default();
        let (start, dur_ns, clock) = call_times(&self.facts, joined);
        let timing = Timing {
            start_ns: start,
            dur_ns,
            clock,
            quality: describe_quality(joined),
            algo: find_name(&ALGOS, served.algo).as_bytes(),
            proto: find_name(&PROTOS, served.proto).as_bytes(),
            nchannels: Some(u32::from(served.channels)).filter(|&channels| channels > 0),
            pg_desc: &comm.facts.name,
            ..Timing::default()
        };
        let facts = &comm.facts;
        taking.take_row(&Row {
            host: &self.facts.host,
            pid: Some(u64::from(self.facts.pid)),
            tid: Some(u64::from(joined.thread)),
            rank: facts.rank,
            nranks: Some(facts.nranks).filter(|&nranks| nranks > 0),
            comm_id: Some(facts.id)
                .filter(|&id| id > 0)
                .map(CommId::from_printed),
            seq,
            op: op.as_bytes(),
            count: Some(shape.count),
            datatype: known(shape.datatype).map(Datatype),
            redop: known(shape.redop).map(|redop| RedOp(u64::from(redop))),
            root: peer.filter(|_| has_root(op.as_bytes())).map(i64::from),
            stream: Some(shape.stream).filter(|&stream| stream > 0),
            calls: 1,
            src: super::FORMAT.name.as_bytes(),
            global_rank: self.facts.rank,
            enqueue_ns: self.facts.realtime_of(joined.begun_ns),
            timing: Some(&timing),
            ..Row::default()
        })
    }
}

impl RecordedComm {
    /// Returns a call's number as the call table has it: of collectives by communicator, of messages by operation
    /// and peer.
    fn number_call(&mut self, joined: &RecordingCall, peer: Option<i32>) -> Option<u64> {
        let call = joined.call?;
        self.has_gap |= call.number != self.next;
        self.next = call.number.wrapping_add(1);
        if !is_message(call.shape.op) {
            return Some(call.ordinal);
        }
        self.has_gap |= peer.is_none() || self.messages.len() >= MAX_PEERS;
        let key = (call.shape.op, peer.unwrap_or(-1));
        let next = self.messages.entry(key).or_default();
        let seq = *next;
        *next += 1;
        (!self.has_gap).then_some(seq)
    }
}

fn known(number: u8) -> Option<u32> {
    Some(number)
        .filter(|&number| number != UNKNOWN)
        .map(u32::from)
}

/// Returns when a call began, how long it took, and on which clock.
fn call_times(
    process: &ProcessFacts,
    joined: &RecordingCall,
) -> (Option<u64>, Option<u64>, &'static [u8]) {
    let kernel = joined.kernel.unwrap_or_default();
    if kernel.start_ns > 0 && kernel.stop_ns >= kernel.start_ns && joined.has_whole_kernel() {
        let dur_ns = kernel.stop_ns - kernel.start_ns;
        return (Some(kernel.start_ns), Some(dur_ns), GPU_CLOCK);
    }
    let begun_ns = joined.launched_ns.unwrap_or(joined.begun_ns);
    let seen = joined.kernel_seen_ns.filter(|_| joined.has_whole_kernel());
    let dur_ns = seen.and_then(|seen| seen.checked_sub(begun_ns));
    (process.realtime_of(begun_ns), dur_ns, HOST_CLOCK)
}

fn describe_quality(joined: &RecordingCall) -> &'static [u8] {
    let kernel = joined.kernel.unwrap_or_default();
    match (joined.call, joined.task) {
        (Some(call), _) if call.is_captured => b"captured into a CUDA graph",
        (_, None) => b"API call only",
        _ if joined.has_whole_kernel() && kernel.start_ns > 0 => WHOLE_KERNEL.as_bytes(),
        _ if joined.has_whole_kernel() => b"kernel as the host saw it",
        _ if kernel.begun > 0 => b"enqueue only, its kernel did not end",
        _ => b"enqueue only",
    }
}
