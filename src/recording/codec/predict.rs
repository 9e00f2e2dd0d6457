//! What the events before it in a frame suggest of an event. Encoder and decoder go the same way.

use crate::event::{CallBegun, TaskBegun};
use crate::names::{OPS, is_message};
use rustc_hash::FxHashMap;

/// The next values of a communicator.
#[derive(Debug, Default)]
pub(super) struct CommPrediction {
    pub(super) call: u64,
    /// Of collectives, and of messages.
    ordinals: [u64; 2],
    pub(super) task: u64,
    pub(super) parent: u64,
    pub(super) ended: u64,
    /// The last task with an event of its kernel or of a proxy operation.
    pub(super) last: u64,
    seqs: [u64; OPS.len()],
}

impl CommPrediction {
    pub(super) fn predict_ordinal(&self, op: u8) -> u64 {
        self.ordinals[usize::from(is_message(op))]
    }

    /// Returns the `seq` that a task of an operation has; none if it is a message.
    pub(super) fn predict_seq(&self, op: u8) -> Option<u64> {
        let next = self.seqs.get(usize::from(op)).copied();
        next.filter(|_| !is_message(op))
    }

    pub(super) fn learn_call(&mut self, call: &CallBegun) {
        self.call = call.number.wrapping_add(1);
        self.ordinals[usize::from(is_message(call.shape.op))] = call.ordinal.wrapping_add(1);
    }

    pub(super) fn learn_task(&mut self, task: &TaskBegun) {
        self.task = task.number.wrapping_add(1);
        self.parent = task.call.wrapping_add(1);
        if let (Some(next), Some(seq)) = (self.seqs.get_mut(usize::from(task.shape.op)), task.seq) {
            *next = seq.wrapping_add(1);
        }
    }
}

/// The values of a frame.
#[derive(Debug, Default)]
pub(super) struct FramePrediction {
    pub(super) time_ns: u64,
    pub(super) gpu_ns: u64,
    /// The thread of the last event, as the system numbers it.
    pub(super) thread: u32,
    /// The communicator of the last event.
    pub(super) comm: u32,
    comms: FxHashMap<u32, CommPrediction>,
}

impl FramePrediction {
    /// The values at the beginning of a frame.
    pub(super) fn from_base(base_ns: u64) -> FramePrediction {
        FramePrediction {
            time_ns: base_ns,
            ..FramePrediction::default()
        }
    }

    /// Returns the values of a communicator.
    pub(super) fn comm_mut(&mut self, comm: u32) -> &mut CommPrediction {
        self.comms.entry(comm).or_default()
    }
}
