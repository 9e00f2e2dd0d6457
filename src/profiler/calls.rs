//! What NCCL's events become: numbers are given, and an event goes into the thread's ring.

use crate::lane::with_lane;
use crate::proxies::{ProxyBegun, ProxyState};
use crate::recorder::current_generation;
use crate::system::read_monotonic_ns;
use nccl_pipe_recording::{
    CallBegun, CommFacts, Event, RecordedShape, TaskBegun, names::is_message,
};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// A communicator. It is never freed, since events may come after its end.
#[derive(Debug)]
pub(crate) struct Comm {
    number: u32,
    generation: u32,
    facts: CommFacts,
    /// Known only from the events of interfaces 1 to 3 there.
    id: AtomicU64,
    rank: AtomicI32,
    /// The numbers of the next call, of the next collective and message, and of the next task.
    calls: AtomicU64,
    ordinals: [AtomicU64; 2],
    tasks: AtomicU64,
    has_ended: AtomicBool,
}

/// What an event is of, as NCCL holds it: a number that is no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handle(pub(crate) u64);

/// The kinds of handles. 0 is no handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandleKind {
    /// Of a group, which NCCL wants to have, but which is not recorded.
    Group = 1,
    Call = 2,
    Task = 3,
    Kernel = 4,
    Proxy = 5,
    Step = 6,
}

impl Handle {
    /// No event.
    pub(crate) const NONE: Handle = Handle(0);
    /// Bits of a communicator's number, and of a number in it: 2^40 calls are ten days at a million a second.
    const COMM_BITS: u32 = 20;
    const NUMBER_BITS: u32 = 40;

    pub(crate) fn new(kind: HandleKind, comm: u32, number: u64) -> Handle {
        let comm = u64::from(comm) & ((1 << Handle::COMM_BITS) - 1);
        let number = number & ((1 << Handle::NUMBER_BITS) - 1);
        let kind = (kind as u64) << (Handle::COMM_BITS + Handle::NUMBER_BITS);
        Handle(kind | comm << Handle::NUMBER_BITS | number)
    }

    pub(crate) fn kind(self) -> Option<HandleKind> {
        use HandleKind::{Call, Group, Kernel, Proxy, Step, Task};
        let kind = self.0 >> (Handle::COMM_BITS + Handle::NUMBER_BITS);
        let all = [Group, Call, Task, Kernel, Proxy, Step];
        all.into_iter().find(|known| *known as u64 == kind)
    }

    pub(crate) fn comm(self) -> u32 {
        (self.0 >> Handle::NUMBER_BITS) as u32 & ((1 << Handle::COMM_BITS) - 1)
    }

    pub(crate) fn number(self) -> u64 {
        self.0 & ((1 << Handle::NUMBER_BITS) - 1)
    }

    /// Returns the number if it is of a kind.
    pub(crate) fn number_of(self, kind: HandleKind) -> Option<u64> {
        (self.kind() == Some(kind)).then(|| self.number())
    }
}

/// An event that begins, in all versions of the interface.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BegunEvent {
    /// Calls of a group.
    Group,
    /// A call as the program made it (interface 5 on).
    Call {
        shape: RecordedShape,
        is_captured: bool,
    },
    /// A call as NCCL launches it.
    Task {
        /// The call's handle, from interface 5 on.
        call: Handle,
        seq: Option<u64>,
        shape: RecordedShape,
        /// The communicator's hash: interface 1 to 3.
        comm_id: u64,
        rank: i32,
    },
    /// A kernel on a channel.
    Kernel {
        task: Handle,
        /// The GPU's clock; 0 in interface 3.
        gpu_ns: u64,
    },
    /// An operation of the proxy thread.
    Proxy(ProxyBegun),
    /// A step of it.
    Step { proxy: Handle },
    /// Not recorded.
    Other,
}

/// The content of a change of an event's state.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ChangedState {
    /// A channel's kernel stopped, by the GPU's clock.
    KernelStopped { gpu_ns: u64 },
    /// Of an operation of the proxy thread, or a step of it.
    Proxy(ProxyState),
}

impl Comm {
    pub(crate) fn new(number: u32, generation: u32, facts: CommFacts) -> Comm {
        Comm {
            number,
            generation,
            id: AtomicU64::new(facts.id),
            rank: AtomicI32::new(facts.rank.map_or(-1, |rank| rank as i32)),
            facts,
            calls: AtomicU64::new(0),
            ordinals: Default::default(),
            tasks: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
        }
    }

    /// Returns the facts that are known by now.
    pub(crate) fn facts(&self) -> CommFacts {
        CommFacts {
            id: self.id.load(Ordering::Relaxed),
            rank: u32::try_from(self.rank.load(Ordering::Relaxed)).ok(),
            ..self.facts.clone()
        }
    }

    /// Records its beginning.
    pub(crate) fn begin(&self) {
        push_event(Event::CommBegun(self.number));
    }

    /// Records its end.
    pub(crate) fn end(&self) {
        if self.is_own() && !self.has_ended.swap(true, Ordering::Relaxed) {
            push_event(Event::CommEnded(self.number));
        }
    }

    /// Returns true if it is of this process, not of one that this was forked from.
    fn is_own(&self) -> bool {
        self.generation == current_generation()
    }

    /// Records the beginning of an event.
    pub(crate) fn begin_event(&self, begun: BegunEvent) -> Handle {
        if !self.is_own() {
            return Handle::NONE;
        }
        match begun {
            BegunEvent::Group => Handle::new(HandleKind::Group, self.number, 0),
            BegunEvent::Call { shape, is_captured } => {
                let now_ns = read_monotonic_ns();
                let number = self.begin_call(now_ns, shape, is_captured, false);
                Handle::new(HandleKind::Call, self.number, number)
            }
            BegunEvent::Task {
                call,
                seq,
                shape,
                comm_id,
                rank,
            } => {
                if comm_id != 0 && self.facts.id == 0 {
                    self.id.store(comm_id, Ordering::Relaxed);
                    self.rank.store(rank, Ordering::Relaxed);
                }
                let now_ns = read_monotonic_ns();
                let call = call.number_of(HandleKind::Call);
                let call = call.unwrap_or_else(|| self.begin_call(now_ns, shape, false, true));
                let number = self.tasks.fetch_add(1, Ordering::Relaxed);
                let comm = self.number;
                push_event_at(
                    now_ns,
                    Event::Task(TaskBegun {
                        comm,
                        number,
                        call,
                        seq,
                        shape,
                    }),
                );
                Handle::new(HandleKind::Task, comm, number)
            }
            BegunEvent::Kernel { task, gpu_ns } => {
                let Some(number) = task.number_of(HandleKind::Task) else {
                    return Handle::NONE;
                };
                let comm = self.number;
                with_lane(|lane| {
                    if let Some(span) = lane.kernels.begin((comm, number), gpu_ns) {
                        lane.push_event(read_monotonic_ns(), Event::Kernel { comm, number, span });
                    }
                });
                Handle::new(HandleKind::Kernel, comm, number)
            }
            BegunEvent::Proxy(begun) => {
                let now_ns = read_monotonic_ns();
                with_lane(|lane| lane.proxies.begin(self.number, begun, now_ns))
                    .unwrap_or(Handle::NONE)
            }
            BegunEvent::Step { proxy } => {
                let now_ns = read_monotonic_ns();
                with_lane(|lane| lane.proxies.begin_step(proxy, now_ns)).unwrap_or(Handle::NONE)
            }
            BegunEvent::Other => Handle::NONE,
        }
    }

    fn begin_call(
        &self,
        now_ns: u64,
        shape: RecordedShape,
        is_captured: bool,
        is_launch: bool,
    ) -> u64 {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let ordinals = &self.ordinals[usize::from(is_message(shape.op))];
        let ordinal = ordinals.fetch_add(1, Ordering::Relaxed);
        let comm = self.number;
        push_event_at(
            now_ns,
            Event::Call(CallBegun {
                comm,
                number,
                ordinal,
                shape,
                is_captured,
                is_launch,
            }),
        );
        number
    }
}

/// Records the end of an event.
pub(crate) fn end_event(handle: Handle) {
    let (comm, number) = (handle.comm(), handle.number());
    match handle.kind() {
        Some(HandleKind::Task) => push_event(Event::TaskEnded { comm, number }),
        Some(HandleKind::Proxy) => {
            let now_ns = read_monotonic_ns();
            with_lane(|lane| {
                if let Some(ended) = lane.proxies.end(handle, now_ns) {
                    lane.push_event(now_ns, Event::Proxy(ended));
                }
            });
        }
        Some(HandleKind::Step) => {
            with_lane(|lane| lane.proxies.end_step(handle, read_monotonic_ns()));
        }
        Some(HandleKind::Kernel) => {
            with_lane(|lane| {
                if let Some(span) = lane.kernels.end((comm, number)) {
                    lane.push_event(read_monotonic_ns(), Event::Kernel { comm, number, span });
                }
            });
        }
        Some(HandleKind::Group | HandleKind::Call) | None => {}
    }
}

/// Records a change of an event's state.
pub(crate) fn change_event(handle: Handle, changed: ChangedState) {
    let (comm, number) = (handle.comm(), handle.number());
    match (changed, handle.kind()) {
        (ChangedState::KernelStopped { gpu_ns }, Some(HandleKind::Kernel)) => {
            with_lane(|lane| lane.kernels.stop((comm, number), gpu_ns));
        }
        (ChangedState::Proxy(state), Some(HandleKind::Proxy | HandleKind::Step)) => {
            with_lane(|lane| lane.proxies.change(handle, state, read_monotonic_ns()));
        }
        _ => {}
    }
}

fn push_event(event: Event) {
    push_event_at(read_monotonic_ns(), event);
}

fn push_event_at(time_ns: u64, event: Event) {
    with_lane(|lane| lane.push_event(time_ns, event));
}
