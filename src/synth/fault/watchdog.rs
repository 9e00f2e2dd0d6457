//! The lines of PyTorch's watchdog when calls do not end, in the words of
//! `testdata/captured/ddp-*` (PyTorch 2.11, `torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp`).

use crate::clock::{JobClock, write_padded};
use crate::fault::call_counter::CallCounter;
use crate::fault::pending_works::{PendingWorks, TorchWork};
use crate::job::SynthJob;
use crate::rng::hash_parts;

/// PyTorch's default for NCCL (`kProcessGroupNCCLDefaultTimeout`).
const TORCH_TIMEOUT_MS: u64 = 600_000;
/// From the dump of what it knows to the end of the process.
const DUMP_TO_EXIT_US: u64 = 60_000_000;

/// A line of PyTorch's.
pub(super) struct WatchdogLine {
    /// The rank that prints it.
    pub(super) rank: usize,
    /// How long after the line before.
    pub(super) after_us: u64,
    /// The line of the source.
    place: u32,
    text: String,
}

impl WatchdogLine {
    /// As printed: `[rank0]:[E1120 14:02:46.459112080 ProcessGroupNCCL.cpp:689] ...`.
    pub(super) fn format_line(&self, clock: &JobClock) -> String {
        let date = clock.date();
        let mut nanos = Vec::new();
        let below = hash_parts(clock.micros(), &[self.rank as u64, u64::from(self.place)]) % 1000;
        write_padded(&mut nanos, clock.micros() * 1000 + below, 9);
        format!(
            "[rank{}]:[E{}{} {}.{} ProcessGroupNCCL.cpp:{}] {}",
            self.rank,
            date.get(5..7).unwrap_or_default(),
            date.get(8..10).unwrap_or_default(),
            clock.time(),
            String::from_utf8_lossy(&nanos),
            self.place,
            self.text
        )
    }
}

/// Returns all lines until the processes end. Only `alive` ranks print.
pub(super) fn watchdog_lines(
    seed: u64,
    job: &SynthJob,
    watch: &CallCounter,
    pending: &PendingWorks<'_>,
    alive: impl Fn(usize) -> bool,
) -> Vec<WatchdogLine> {
    let mut ranks: Vec<usize> = (0..job.procs.len()).filter(|&rank| alive(rank)).collect();
    // Each rank looks at its own time.
    ranks.sort_by_key(|&rank| hash_parts(seed, &[42, rank as u64]));
    let stuck: Vec<(usize, &TorchWork)> = ranks
        .iter()
        .filter_map(|&rank| Some((rank, pending.stuck_work(rank)?)))
        .collect();
    let first = stuck.first().map(|(rank, _)| *rank);
    let speech = WatchdogWriter {
        seed,
        job,
        watch,
        pending,
    };
    let mut out = Vec::new();
    // How long after the line before each rank begins to speak: the first of a round, and the others.
    let mut round =
        |first_us, next_us, ranks: &mut dyn Iterator<Item = (usize, Vec<TimedWatchdogLine>)>| {
            let mut after = first_us;
            for (rank, lines) in ranks {
                for (after_us, place, text) in lines {
                    out.push(WatchdogLine {
                        rank,
                        after_us: after_us.unwrap_or(after),
                        place,
                        text,
                    });
                }
                after = next_us;
            }
        };
    let mut detections = stuck
        .iter()
        .map(|s| (s.0, speech.detection_lines(s.0, s.1)));
    round(TORCH_TIMEOUT_MS * 1000, 3_000, &mut detections);
    let mut dumps = ranks
        .iter()
        .map(|&rank| (rank, speech.dump_lines(rank, first)));
    round(300_000, 5_000, &mut dumps);
    let mut ends = stuck.iter().map(|s| (s.0, speech.exit_lines(s.0, s.1)));
    round(DUMP_TO_EXIT_US, 3_000, &mut ends);
    out
}

/// A line: how long after the one before if that is of the same rank and round, where in the source,
/// and its text.
type TimedWatchdogLine = (Option<u64>, u32, String);

/// Writes the watchdogs' lines.
struct WatchdogWriter<'a> {
    seed: u64,
    job: &'a SynthJob,
    watch: &'a CallCounter,
    pending: &'a PendingWorks<'a>,
}

impl WatchdogWriter<'_> {
    fn format_rank(&self, rank: usize, slot: usize) -> String {
        format!("[Rank {}]", self.job.procs[rank].members[slot].rank)
    }

    fn format_timeout(&self, rank: usize, work: &TorchWork) -> String {
        let ran = TORCH_TIMEOUT_MS + hash_parts(self.seed, &[43, rank as u64]) % 100;
        format!(
            "{} Watchdog caught collective operation timeout: WorkNCCL(SeqNum={}, \
             OpType={}, NumelIn={}, NumelOut={}, Timeout(ms)={TORCH_TIMEOUT_MS}) ran for {ran} \
             milliseconds before timing out.",
            self.format_rank(rank, work.slot),
            work.seq,
            work.op,
            work.numel_in,
            work.numel_out
        )
    }

    /// A rank finds that its call does not end.
    fn detection_lines(&self, rank: usize, work: &TorchWork) -> Vec<TimedWatchdogLine> {
        let group = format_group(self.job, rank, work.slot);
        let (enqueued, completed) =
            format_status(self.watch, self.pending, rank, work.slot, work.paired);
        let detected = format!(
            "{group}  failure detected by watchdog at work sequence id: {} PG status: last \
             enqueued work: {enqueued}, last completed work: {completed}",
            work.seq
        );
        let no_stack = "Stack trace of the failed collective not found, potentially because FlightRecorder \
             is disabled. You can enable it by setting TORCH_NCCL_TRACE_BUFFER_SIZE to a non-zero \
             value.";
        let signals = format!("{group} First PG on this rank to signal dumping.");
        vec![
            (None, 689, self.format_timeout(rank, work)),
            (Some(210), 2303, detected),
            (Some(350), 736, no_stack.into()),
            (Some(60), 2636, signals),
        ]
    }

    /// Every rank writes down what it knows: the first that was stuck makes the others do so.
    fn dump_lines(&self, rank: usize, first: Option<usize>) -> Vec<TimedWatchdogLine> {
        let world = self.job.procs[rank].world;
        let group = format_group(self.job, rank, world);
        let mut lines = Vec::new();
        let whose = match (self.pending.stuck_work(rank), first) {
            (None, Some(first)) => {
                let text = "Observed flight recorder dump signal from another rank via TCPStore.";
                lines.push((None, 1849, format!("{group} {text}")));
                format!("from  rank {first}")
            }
            _ => "from this local rank".to_owned(),
        };
        let (enqueued, completed) = format_status(self.watch, self.pending, rank, world, false);
        let received = format!(
            "{group} Received a dump signal due to a collective timeout {whose} and we will \
             try our best to dump the debug info. Last enqueued NCCL work: {enqueued}, last \
             completed NCCL work: {completed}.This is most likely caused by incorrect usages \
             of collectives, e.g., wrong sizes used across ranks, the order of collectives is \
             not same for all ranks or the scheduled collective, for some reason, didn't run. \
             Additionally, this can be caused by GIL deadlock or other reasons such as network \
             errors or bugs in the communications library (e.g. NCCL), etc. "
        );
        let prepares = format!(
            "{group} ProcessGroupNCCL preparing to dump debug info. Include stack trace: 1, \
             only active collectives: 0"
        );
        lines.extend([(None, 1914, received), (Some(200), 1628, prepares)]);
        lines
    }

    /// A rank that is stuck ends its process.
    fn exit_lines(&self, rank: usize, work: &TorchWork) -> Vec<TimedWatchdogLine> {
        let own = self.format_rank(rank, work.slot);
        let failed = format!(
            "{own} Some NCCL operations have failed or timed out. Due to the asynchronous \
             nature of CUDA kernels, subsequent GPU operations might run on \
             corrupted/incomplete data."
        );
        let down =
            format!("{own} To avoid data inconsistency, we are taking the entire process down.");
        let terminated = format!(
            "{} Process group watchdog thread terminated with exception: {}",
            format_group(self.job, rank, work.slot),
            self.format_timeout(rank, work)
        );
        vec![
            (None, 750, failed),
            (Some(60), 764, down),
            (Some(900), 2119, terminated),
        ]
    }
}

/// `[PG ID 1 PG GUID 5(TENSOR_MODEL_PARALLEL_GROUP) Rank 1]`: the process's own number of the
/// group, that of all groups of the job, what it is for, and the rank in it.
fn format_group(job: &SynthJob, rank: usize, slot: usize) -> String {
    let member = &job.procs[rank].members[slot];
    // Megatron-LM's names (`megatron/core/parallel_state.py`).
    let name = match job.comms[member.comm].kind.name() {
        "world" => "default_pg",
        "tp" => "TENSOR_MODEL_PARALLEL_GROUP",
        "pp" => "PIPELINE_MODEL_PARALLEL_GROUP",
        "dp" => "DATA_PARALLEL_GROUP",
        "ep" => "EXPERT_MODEL_PARALLEL_GROUP",
        "cp" => "CONTEXT_PARALLEL_GROUP",
        _ => "undefined",
    };
    format!(
        "[PG ID {slot} PG GUID {}({name}) Rank {}]",
        member.comm, member.rank
    )
}

/// The work handed over last and the one that ended last.
fn format_status(
    watch: &CallCounter,
    pending: &PendingWorks<'_>,
    rank: usize,
    slot: usize,
    paired: bool,
) -> (u64, u64) {
    let enqueued = watch.count_works(rank, slot)[usize::from(paired)];
    let first = pending.first_pending_work(rank, slot, paired);
    (enqueued, first.map_or(enqueued, |work| work.seq - 1))
}
