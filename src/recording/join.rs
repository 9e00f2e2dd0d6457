//! Calls, joined from the events of their parts.

use crate::event::{CallBegun, Event, KernelSpan, TaskBegun, TimedEvent};
use crate::limits::MAX_OPEN_CALLS;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// A call, or a task without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordingCall {
    /// The system's number of the thread that made it.
    pub thread: u32,
    /// The call as the program made it; `None` for a task of a call that was dropped, or that a CUDA graph launches
    /// again.
    pub call: Option<CallBegun>,
    /// When it was made, in ns by the host's monotonic clock; of a task without a call, when it was launched.
    pub begun_ns: u64,
    /// The call as NCCL launched it; `None` if it was not launched, or not seen to be.
    pub task: Option<TaskBegun>,
    /// When its launch began.
    pub launched_ns: Option<u64>,
    /// When its launch ended: it was enqueued, nothing more.
    pub enqueued_ns: Option<u64>,
    /// The times of its kernel.
    pub kernel: Option<KernelSpan>,
    /// When the last channel of its kernel was seen to end, by the host's monotonic clock.
    pub kernel_seen_ns: Option<u64>,
}

/// Joins the events of a file to calls, in the order in which they begin in the file.
///
/// A call waits for its later parts while at most [`MAX_OPEN_CALLS`] wait; parts that come after it was handed over
/// are counted.
#[derive(Debug)]
pub struct CallJoiner {
    /// Channels of kernels are recorded.
    has_kernels: bool,
    waiting: VecDeque<RecordingCall>,
    /// How many were handed over: the number of the first that waits.
    gone: u64,
    /// The numbers of calls and of tasks that wait, by communicator and their number there.
    calls: FxHashMap<PartKey, u64>,
    tasks: FxHashMap<PartKey, u64>,
    /// Parts that came after their call was handed over.
    late: u64,
}

/// A part's communicator and its number there.
type PartKey = (u32, u64);

impl CallJoiner {
    /// Nothing has come yet; `has_kernels` if events of kernels are recorded, which calls then wait for.
    pub fn new(has_kernels: bool) -> CallJoiner {
        CallJoiner {
            has_kernels,
            waiting: VecDeque::new(),
            gone: 0,
            calls: FxHashMap::default(),
            tasks: FxHashMap::default(),
            late: 0,
        }
    }

    /// Returns how many parts came after their call was handed over.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Adds an event, and gives the calls that are complete to `take`.
    pub fn add_event(
        &mut self,
        thread: u32,
        timed: &TimedEvent,
        mut take: impl FnMut(&RecordingCall),
    ) {
        let time_ns = timed.time_ns;
        match timed.event {
            Event::Call(call) => {
                self.calls
                    .insert((call.comm, call.number), self.next_number());
                self.waiting
                    .push_back(RecordingCall::from_call(thread, time_ns, call));
            }
            Event::Task(task) => self.add_task(thread, time_ns, task),
            Event::TaskEnded { comm, number } => {
                if let Some(known) = self.task_mut((comm, number)) {
                    known.enqueued_ns = Some(time_ns);
                }
            }
            Event::Kernel { comm, number, span } => {
                if let Some(known) = self.task_mut((comm, number)) {
                    known.kernel.get_or_insert_default().merge(span);
                    if span.ended > 0 {
                        known.kernel_seen_ns = known.kernel_seen_ns.max(Some(time_ns));
                    }
                }
            }
            Event::CommBegun(_) | Event::CommEnded(_) | Event::Proxy(_) | Event::Dropped(_) => {}
        }
        while let Some(first) = self.waiting.front() {
            if !first.is_complete(self.has_kernels) && self.waiting.len() <= MAX_OPEN_CALLS {
                break;
            }
            self.hand_over(&mut take);
        }
    }

    /// Hands over the calls that still wait: they are not complete.
    pub fn finish(&mut self, mut take: impl FnMut(&RecordingCall)) {
        while !self.waiting.is_empty() {
            self.hand_over(&mut take);
        }
    }

    fn next_number(&self) -> u64 {
        self.gone + self.waiting.len() as u64
    }

    fn add_task(&mut self, thread: u32, time_ns: u64, task: TaskBegun) {
        let key = (task.comm, task.number);
        let of_call = self.calls.get(&(task.comm, task.call)).copied();
        let known =
            of_call.and_then(|number| self.waiting_mut(number).map(|known| (number, known)));
        if let Some((number, known)) = known.filter(|(_, known)| known.task.is_none()) {
            (known.task, known.launched_ns) = (Some(task), Some(time_ns));
            self.tasks.insert(key, number);
            return;
        }
        self.tasks.insert(key, self.next_number());
        self.waiting
            .push_back(RecordingCall::from_task(thread, time_ns, task));
    }

    fn waiting_mut(&mut self, number: u64) -> Option<&mut RecordingCall> {
        let at = number.checked_sub(self.gone)?;
        self.waiting.get_mut(usize::try_from(at).ok()?)
    }

    /// Returns the call of a task; counts a part without one.
    fn task_mut(&mut self, key: PartKey) -> Option<&mut RecordingCall> {
        let number = self.tasks.get(&key).copied();
        let at = number.and_then(|number| number.checked_sub(self.gone));
        let known = at.and_then(|at| self.waiting.get_mut(usize::try_from(at).ok()?));
        self.late += u64::from(known.is_none());
        known
    }

    fn hand_over(&mut self, take: &mut impl FnMut(&RecordingCall)) {
        let Some(first) = self.waiting.pop_front() else {
            return;
        };
        self.gone += 1;
        for (key, of) in [
            (
                first.call.map(|call| (call.comm, call.number)),
                &mut self.calls,
            ),
            (
                first.task.map(|task| (task.comm, task.number)),
                &mut self.tasks,
            ),
        ] {
            // A number that came twice belongs to the later one.
            let is_own = |key: &PartKey| of.get(key).is_some_and(|&number| number < self.gone);
            if let Some(key) = key.filter(is_own) {
                of.remove(&key);
            }
        }
        take(&first);
    }
}

impl RecordingCall {
    fn from_call(thread: u32, begun_ns: u64, call: CallBegun) -> RecordingCall {
        RecordingCall {
            thread,
            call: Some(call),
            begun_ns,
            task: None,
            launched_ns: None,
            enqueued_ns: None,
            kernel: None,
            kernel_seen_ns: None,
        }
    }

    fn from_task(thread: u32, begun_ns: u64, task: TaskBegun) -> RecordingCall {
        RecordingCall {
            thread,
            call: None,
            begun_ns,
            task: Some(task),
            launched_ns: Some(begun_ns),
            enqueued_ns: None,
            kernel: None,
            kernel_seen_ns: None,
        }
    }

    /// Returns its communicator's number.
    pub fn comm(&self) -> u32 {
        let of_task = || self.task.map_or(0, |task| task.comm);
        self.call.map_or_else(of_task, |call| call.comm)
    }

    /// Returns true if its kernel was seen to end on all of its channels.
    pub fn has_whole_kernel(&self) -> bool {
        let channels = self.task.map_or(0, |task| u32::from(task.shape.channels));
        let kernel = self.kernel.unwrap_or_default();
        kernel.ended > 0 && kernel.ended >= kernel.begun && kernel.ended >= channels
    }

    fn is_complete(&self, has_kernels: bool) -> bool {
        let is_captured = self.call.is_some_and(|call| call.is_captured);
        let is_enqueued = self.task.is_some() && self.enqueued_ns.is_some();
        is_captured || (is_enqueued && (!has_kernels || self.has_whole_kernel()))
    }
}
