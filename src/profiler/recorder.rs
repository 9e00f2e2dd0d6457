//! The recorder of the process: begun by the first communicator, ended by the process.

use crate::calls::Comm;
use crate::lane::{Lane, LaneReader, open_lane};
use crate::limits::{EXIT_WAIT, INIT_WAIT, MAX_COMMS, MAX_LANES};
use crate::output::RecordFile;
use crate::settings::{self, Settings};
use crate::{system, writer};
use nccl_pipe_recording::{CommFacts, FrameKind, ProcessFacts};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, TryLockError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// How many forks are between this process and the one that loaded the library.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// The recorder of this process, or of one that it was forked from.
static CURRENT: Mutex<Option<Arc<Recorder>>> = Mutex::new(None);
static HOOKS: Once = Once::new();
/// Events of threads that found `CURRENT` locked when they wanted a ring: NCCL's threads never wait.
static UNHOUSED: AtomicU64 = AtomicU64::new(0);

/// What NCCL's threads and the writer share.
#[derive(Debug)]
pub(crate) struct Recorder {
    generation: u32,
    settings: Settings,
    comms: Mutex<Vec<Arc<Comm>>>,
    /// Rings that the writer has not taken yet.
    new_lanes: Mutex<Vec<LaneReader>>,
    /// Rings that the writer has, or will have.
    lanes: AtomicUsize,
    /// Events of threads without a ring.
    homeless: AtomicU64,
    writer: Mutex<Option<Thread>>,
    is_ending: AtomicBool,
    has_ended: Mutex<bool>,
    end: Condvar,
}

/// Why nothing is recorded, or where to.
pub(crate) type Notice = String;

/// Returns how many forks are between this process and the one that loaded the library.
pub(crate) fn current_generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Returns the recorder, which it begins if need be, and a notice for the user.
pub(crate) fn begin_recorder(interface: u32) -> (Option<Arc<Recorder>>, Option<Notice>) {
    HOOKS.call_once(|| {
        system::call_in_forks(count_fork);
        system::call_at_exit(end_recorder);
    });
    let Some(mut current) = lock_within(&CURRENT, INIT_WAIT) else {
        return (
            None,
            Some("not recorded: the process was forked while it began".to_owned()),
        );
    };
    let known = current
        .as_ref()
        .filter(|known| known.generation == current_generation());
    if let Some(known) = known {
        return (Some(known.clone()), None);
    }
    let settings = Settings::read(interface);
    let path = settings.make_path();
    let begun = RecordFile::create(&path).and_then(|(file, path)| {
        Recorder::begin(settings, interface, file).map(|begun| (begun, path))
    });
    match begun {
        Ok((begun, path)) => {
            *current = Some(begun.clone());
            let notice = format!("records to {}", path.display());
            let refused = begun.settings.refused.as_ref();
            let refused = refused.map_or(String::new(), |refused| format!(" ({refused})"));
            (Some(begun), Some(notice + &refused))
        }
        Err(error) => (
            None,
            Some(format!("not recorded: {}: {error}", path.display())),
        ),
    }
}

/// Makes a ring for this thread.
pub(crate) fn add_lane() -> Option<Lane> {
    let Some(current) = lock_within(&CURRENT, Duration::ZERO) else {
        UNHOUSED.fetch_add(1, Ordering::Relaxed);
        return None;
    };
    let current = current.clone()?;
    let is_own = current.generation == current_generation();
    if !is_own || current.is_ending.load(Ordering::Relaxed) {
        return None;
    }
    if current.lanes.load(Ordering::Relaxed) >= MAX_LANES {
        current.homeless.fetch_add(1, Ordering::Relaxed);
        return None;
    }
    let writer = current.writer.lock().ok()?.clone()?;
    let (lane, reader) = open_lane(writer, current.generation, system::read_thread_id());
    current.new_lanes.lock().ok()?.push(reader);
    current.lanes.fetch_add(1, Ordering::Relaxed);
    Some(lane)
}

impl Recorder {
    fn begin(
        settings: Settings,
        interface: u32,
        mut file: RecordFile,
    ) -> io::Result<Arc<Recorder>> {
        let process = ProcessFacts {
            pid: std::process::id(),
            host: system::read_host_name().into(),
            realtime_ns: system::read_realtime_ns(),
            monotonic_ns: system::read_monotonic_ns(),
            interface,
            event_mask: settings.event_mask,
            rank: settings::read_rank(),
            world_size: settings::read_world_size(),
        };
        let mut body = Vec::new();
        process.encode(&mut body);
        file.write_frame(FrameKind::Process, &body)?;
        let recorder = Arc::new(Recorder {
            generation: current_generation(),
            settings,
            comms: Mutex::default(),
            new_lanes: Mutex::default(),
            lanes: AtomicUsize::new(0),
            homeless: AtomicU64::new(0),
            writer: Mutex::default(),
            is_ending: AtomicBool::new(false),
            has_ended: Mutex::new(false),
            end: Condvar::new(),
        });
        let shared = recorder.clone();
        let builder = thread::Builder::new().name("nccl-pipe".to_owned());
        let writing = move || writer::write_until_end(&shared, file);
        let handle = system::without_signals(|| builder.spawn(writing))?;
        if let Ok(mut writer) = recorder.writer.lock() {
            *writer = Some(handle.thread().clone());
        }
        Ok(recorder)
    }

    /// Returns the mask that NCCL gets.
    pub(crate) fn event_mask(&self) -> u32 {
        self.settings.event_mask
    }

    /// Adds a communicator; `None` if there are too many.
    pub(crate) fn add_comm(&self, facts: CommFacts) -> Option<Arc<Comm>> {
        let mut comms = self.comms.lock().ok()?;
        let number = u32::try_from(comms.len())
            .ok()
            .filter(|_| comms.len() < MAX_COMMS)?;
        let comm = Arc::new(Comm::new(number, self.generation, facts));
        comms.push(comm.clone());
        Some(comm)
    }

    /// Returns the facts of a communicator.
    pub(crate) fn find_facts(&self, number: u32) -> CommFacts {
        let comms = self.comms.lock();
        let comm = comms
            .ok()
            .and_then(|comms| comms.get(number as usize).cloned());
        comm.map_or_else(CommFacts::default, |comm| comm.facts())
    }

    /// Takes the rings that came since the last time.
    pub(crate) fn take_new_lanes(&self) -> Vec<LaneReader> {
        self.new_lanes
            .lock()
            .map_or_else(|_| Vec::new(), |mut new| std::mem::take(&mut *new))
    }

    /// Takes the number of events that had no ring since the last time.
    pub(crate) fn take_homeless(&self) -> u64 {
        self.homeless.swap(0, Ordering::Relaxed) + UNHOUSED.swap(0, Ordering::Relaxed)
    }

    /// Gives back the room of rings after their threads ended.
    pub(crate) fn release_lanes(&self, count: usize) {
        self.lanes.fetch_sub(count, Ordering::Relaxed);
    }

    /// Returns true if the process ends.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    /// Reports to the end of the process that the last frame is written.
    pub(crate) fn end_writer(&self) {
        self.is_ending.store(true, Ordering::Release);
        if let Ok(mut has_ended) = self.has_ended.lock() {
            *has_ended = true;
        }
        self.end.notify_all();
    }

    /// Has the writer write what there is.
    pub(crate) fn wake_writer(&self) {
        if let Some(writer) = self
            .writer
            .try_lock()
            .ok()
            .and_then(|writer| writer.clone())
        {
            writer.unpark();
        }
    }

    fn wait_for_end(&self) {
        self.is_ending.store(true, Ordering::Release);
        self.wake_writer();
        if let Ok(has_ended) = self.has_ended.lock() {
            drop(
                self.end
                    .wait_timeout_while(has_ended, EXIT_WAIT, |has_ended| !*has_ended),
            );
        }
    }
}

/// Has the writer of this process write what there is.
pub(crate) fn wake_current_writer() {
    if let Some(current) = lock_within(&CURRENT, Duration::ZERO).and_then(|current| current.clone())
    {
        current.wake_writer();
    }
}

/// Runs in each fork: nothing of the process before is used there.
extern "C" fn count_fork() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    UNHOUSED.store(0, Ordering::Relaxed);
}

/// Runs at the end of the process. A fork's writer is in another process.
extern "C" fn end_recorder() {
    let current = lock_within(&CURRENT, Duration::ZERO).and_then(|current| current.clone());
    if let Some(current) = current.filter(|current| current.generation == current_generation()) {
        current.wait_for_end();
    }
}

/// Locks, but does not wait for ever: in a fork another thread's lock is never opened.
fn lock_within<T>(mutex: &Mutex<T>, most: Duration) -> Option<MutexGuard<'_, T>> {
    let until = Instant::now() + most;
    loop {
        match mutex.try_lock() {
            Ok(locked) => return Some(locked),
            Err(TryLockError::Poisoned(locked)) => return Some(locked.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() >= until => return None,
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
        }
    }
}
