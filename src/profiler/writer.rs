//! The thread that writes.

use crate::lane::LaneReader;
use crate::limits::FLUSH_PERIOD;
use crate::output::RecordFile;
use crate::recorder::Recorder;
use crate::system;
use nccl_pipe_recording::{Event, EventEncoder, FrameKind, KernelSpan, TimedEvent};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

/// Writes what comes, until the process ends.
pub(crate) fn write_until_end(recorder: &Recorder, file: RecordFile) {
    let writing = || {
        let mut writer = Writer {
            recorder,
            file,
            encoder: EventEncoder::default(),
            events: 0,
            lost: 0,
            lanes: Vec::new(),
            kernels: BTreeMap::new(),
        };
        loop {
            thread::park_timeout(FLUSH_PERIOD);
            // What came before the end is written after it was seen.
            let is_ending = recorder.is_ending();
            writer.drain_lanes(is_ending);
            if is_ending {
                let _ = writer.file.write_frame(FrameKind::End, &[]);
                return;
            }
        }
    };
    // A panic ends the recording, not the job.
    let _ = catch_unwind(AssertUnwindSafe(writing));
    recorder.end_writer();
}

struct Writer<'r> {
    recorder: &'r Recorder,
    file: RecordFile,
    encoder: EventEncoder,
    /// Events in the frame that is being made.
    events: u64,
    /// Events of frames that could not be written, not reported yet.
    lost: u64,
    lanes: Vec<LaneReader>,
    /// The times of kernels since the last pass, by communicator and task: one event for all channels.
    kernels: BTreeMap<(u32, u64), (u64, KernelSpan)>,
}

impl Writer<'_> {
    /// Writes what all threads did up to now, in the order of time.
    ///
    /// What happens later waits for the next pass: a thread that was looked at earlier may have done what led to it.
    fn drain_lanes(&mut self, is_last: bool) {
        let now_ns = system::read_monotonic_ns();
        let until_ns = if is_last { u64::MAX } else { now_ns };
        self.lanes.append(&mut self.recorder.take_new_lanes());
        let mut lanes = std::mem::take(&mut self.lanes);
        let mut waiting: Vec<&mut LaneReader> = lanes
            .iter_mut()
            .filter(|lane| lane.next_ns() < until_ns)
            .collect();
        let first = waiting.iter().map(|lane| lane.next_ns()).min();
        self.encoder.begin_frame(first.unwrap_or(now_ns));
        while let Some((at, lane)) = waiting
            .iter_mut()
            .enumerate()
            .min_by_key(|(_, lane)| lane.next_ns())
        {
            match lane.take_event(until_ns) {
                Some(timed) => {
                    let thread = lane.thread;
                    self.take_event(thread, &timed);
                }
                None => _ = waiting.swap_remove(at),
            }
        }
        for ((comm, number), (time_ns, span)) in std::mem::take(&mut self.kernels) {
            let event = Event::Kernel { comm, number, span };
            self.add_event(0, &TimedEvent { time_ns, event });
        }
        let other = std::mem::take(&mut self.lost) + self.recorder.take_homeless();
        self.add_drops(0, now_ns, other);
        for lane in &mut lanes {
            let drops = lane.take_drops();
            self.add_drops(lane.thread, now_ns, drops);
        }
        self.write_frame();
        let before = lanes.len();
        lanes.retain(|lane| !lane.is_done());
        self.recorder.release_lanes(before - lanes.len());
        self.lanes = lanes;
    }

    /// Takes an event: the channels of a kernel are summed, the others go into the frame.
    fn take_event(&mut self, thread: u32, timed: &TimedEvent) {
        let Event::Kernel { comm, number, span } = timed.event else {
            self.add_event(thread, timed);
            return;
        };
        let known = self.kernels.entry((comm, number)).or_default();
        known.0 = timed.time_ns;
        known.1.merge(span);
    }

    fn add_drops(&mut self, thread: u32, time_ns: u64, drops: u64) {
        if drops > 0 {
            let event = Event::Dropped(drops);
            self.add_event(thread, &TimedEvent { time_ns, event });
            // A frame that is lost loses the drops that it reports.
            self.events += drops - 1;
        }
    }

    fn add_event(&mut self, thread: u32, timed: &TimedEvent) {
        if self.encoder.is_full() {
            self.write_frame();
            self.encoder.begin_frame(timed.time_ns);
        }
        let facts = |comm| self.recorder.find_facts(comm);
        self.encoder.add_event(thread, timed, facts);
        self.events += 1;
    }

    fn write_frame(&mut self) {
        let events = std::mem::take(&mut self.events);
        if events == 0 {
            return;
        }
        let written = self
            .file
            .write_frame(FrameKind::Events, self.encoder.body());
        if written.is_err() {
            self.encoder.forget_definitions();
            self.lost += events;
        }
    }
}
