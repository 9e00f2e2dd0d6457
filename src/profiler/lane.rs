//! A ring for each thread: the way from NCCL's threads to the one that writes.

use crate::kernels::OpenKernels;
use crate::limits::{EVENTS_PER_LOOK, RING_EVENTS};
use crate::proxies::OpenProxies;
use crate::recorder;
use nccl_pipe_recording::{Event, TimedEvent};
use rtrb::{Consumer, Producer, RingBuffer};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;

/// The end of a ring that a thread of NCCL has.
#[derive(Debug)]
pub(crate) struct Lane {
    events: Producer<TimedEvent>,
    /// Events without room so far.
    dropped: Arc<AtomicU64>,
    /// Events until the room is looked at.
    unlooked: u32,
    writer: Thread,
    /// The process that it is of: a fork's is another one.
    generation: u32,
    /// The proxy operations that this thread has open.
    pub(crate) proxies: OpenProxies,
    /// The kernels that it has.
    pub(crate) kernels: OpenKernels,
}

/// The end that the writer has.
#[derive(Debug)]
pub(crate) struct LaneReader {
    events: Consumer<TimedEvent>,
    dropped: Arc<AtomicU64>,
    /// Drops that are in the file.
    reported: u64,
    /// The system's number of its thread.
    pub(crate) thread: u32,
}

/// Makes a ring.
pub(crate) fn open_lane(writer: Thread, generation: u32, thread: u32) -> (Lane, LaneReader) {
    let (producer, consumer) = RingBuffer::new(RING_EVENTS);
    let dropped = Arc::new(AtomicU64::new(0));
    let lane = Lane {
        events: producer,
        dropped: dropped.clone(),
        unlooked: EVENTS_PER_LOOK,
        writer,
        generation,
        proxies: OpenProxies::default(),
        kernels: OpenKernels::default(),
    };
    let reader = LaneReader {
        events: consumer,
        dropped,
        reported: 0,
        thread,
    };
    (lane, reader)
}

impl Lane {
    /// Puts an event into the ring, or counts it.
    pub(crate) fn push_event(&mut self, time_ns: u64, event: Event) {
        if self.events.push(TimedEvent { time_ns, event }).is_err() {
            // Only this thread writes it.
            let before = self.dropped.load(Ordering::Relaxed);
            self.dropped.store(before + 1, Ordering::Relaxed);
        }
        self.unlooked -= 1;
        if self.unlooked == 0 {
            self.unlooked = EVENTS_PER_LOOK;
            if self.events.slots() < RING_EVENTS / 2 {
                self.writer.unpark();
            }
        }
    }
}

impl LaneReader {
    /// Returns the time of the next event, in ns; the end of time if there is none.
    pub(crate) fn next_ns(&self) -> u64 {
        self.events.peek().map_or(u64::MAX, |next| next.time_ns)
    }

    /// Takes the next event if it was before a time.
    pub(crate) fn take_event(&mut self, until_ns: u64) -> Option<TimedEvent> {
        let is_due = self.events.peek().is_ok_and(|next| next.time_ns < until_ns);
        if is_due { self.events.pop().ok() } else { None }
    }

    /// Returns how many events had no room since the last time.
    pub(crate) fn take_drops(&mut self) -> u64 {
        let dropped = self.dropped.load(Ordering::Relaxed);
        let new = dropped - self.reported;
        self.reported = dropped;
        new
    }

    /// Returns true if nothing comes any more: its thread ended.
    pub(crate) fn is_done(&self) -> bool {
        self.events.is_abandoned() && self.events.is_empty()
    }
}

thread_local! {
    static LANE: RefCell<Option<Lane>> = const { RefCell::new(None) };
}

/// Gives this thread's ring to `use_it`; not if the process records nothing, or the thread is ending.
pub(crate) fn with_lane<T>(use_it: impl FnOnce(&mut Lane) -> T) -> Option<T> {
    let generation = recorder::current_generation();
    let used = LANE.try_with(|lane| {
        let mut lane = lane.try_borrow_mut().ok()?;
        if lane
            .as_ref()
            .is_none_or(|lane| lane.generation != generation)
        {
            *lane = Some(recorder::add_lane()?);
        }
        lane.as_mut().map(use_it)
    });
    used.ok().flatten()
}
