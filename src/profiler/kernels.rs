//! Kernels on their channels: a task has up to 64, and all of them become two events.

use crate::limits::MAX_OPEN_KERNELS;
use nccl_pipe_recording::KernelSpan;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Kernels that a thread has seen begin and not end. NCCL reports both on one thread.
#[derive(Debug, Default)]
pub(crate) struct OpenKernels {
    /// By communicator and task.
    open: HashMap<(u32, u64), OpenKernel>,
}

#[derive(Debug, Default)]
struct OpenKernel {
    /// Channels that run.
    running: u32,
    /// Not recorded yet.
    unrecorded: KernelSpan,
}

impl OpenKernels {
    /// Begins a channel of a task's kernel; returns a span to record if it is the first.
    pub(crate) fn begin(&mut self, task: (u32, u64), gpu_ns: u64) -> Option<KernelSpan> {
        let span = KernelSpan {
            begun: 1,
            start_ns: gpu_ns,
            ..KernelSpan::default()
        };
        let has_room = self.open.len() < MAX_OPEN_KERNELS;
        match self.open.entry(task) {
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                known.running += 1;
                known.unrecorded.merge(span);
                None
            }
            Entry::Vacant(place) if has_room => {
                place.insert(OpenKernel::default()).running = 1;
                Some(span)
            }
            Entry::Vacant(_) => Some(span),
        }
    }

    /// Takes the time at which a channel stopped, by the GPU.
    pub(crate) fn stop(&mut self, task: (u32, u64), gpu_ns: u64) {
        if let Some(known) = self.open.get_mut(&task) {
            known.unrecorded.stop_ns = known.unrecorded.stop_ns.max(gpu_ns);
        }
    }

    /// Ends a channel; returns a span to record if no channel runs any more.
    pub(crate) fn end(&mut self, task: (u32, u64)) -> Option<KernelSpan> {
        let ended = KernelSpan {
            ended: 1,
            ..KernelSpan::default()
        };
        let Entry::Occupied(mut known) = self.open.entry(task) else {
            return Some(ended);
        };
        let open = known.get_mut();
        open.unrecorded.merge(ended);
        open.running -= 1;
        (open.running == 0).then(|| known.remove().unrecorded)
    }
}
