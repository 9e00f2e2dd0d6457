//! What PyTorch says when calls do not end: its watchdog's lines, in the words of
//! `testdata/captured/ddp-*` (PyTorch 2.11, `torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp`).

use crate::synth::clock::{Clock, padded};
use crate::synth::fault::pending::{Pending, Work};
use crate::synth::fault::watch::Watch;
use crate::synth::job::Job;
use crate::synth::rng::hash;

/// PyTorch's default for NCCL (`kProcessGroupNCCLDefaultTimeout`).
const TIMEOUT_MS: u64 = 600_000;
/// From the dump of what it knows to the end of the process.
const GRACE_US: u64 = 60_000_000;

/// A line of PyTorch's.
pub(super) struct Saying {
    /// Who says it.
    pub(super) rank: usize,
    /// How long after the line before.
    pub(super) after_us: u64,
    /// The line of the source.
    place: u32,
    text: String,
}

impl Saying {
    /// As printed: `[rank0]:[E1120 14:02:46.459112080 ProcessGroupNCCL.cpp:689] ...`.
    pub(super) fn line(&self, clock: &Clock) -> String {
        let date = clock.date();
        let mut nanos = Vec::new();
        let below = hash(clock.micros(), &[self.rank as u64, u64::from(self.place)]) % 1000;
        padded(&mut nanos, clock.micros() * 1000 + below, 9);
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

/// Everything said until the processes end. `alive` ranks speak.
pub(super) fn sayings(
    seed: u64,
    job: &Job,
    watch: &Watch,
    pending: &Pending<'_>,
    alive: impl Fn(usize) -> bool,
) -> Vec<Saying> {
    let mut ranks: Vec<usize> = (0..job.procs.len()).filter(|&rank| alive(rank)).collect();
    // Each rank looks at its own time.
    ranks.sort_by_key(|&rank| hash(seed, &[42, rank as u64]));
    let mut out = Vec::new();
    let mut say = |rank, after_us, place, text: String| {
        out.push(Saying {
            rank,
            after_us,
            place,
            text,
        });
    };
    let stuck: Vec<(usize, &Work)> = ranks
        .iter()
        .filter_map(|&rank| Some((rank, pending.stuck(rank)?)))
        .collect();
    let first = stuck.first().map(|(rank, _)| *rank);
    let mut after = TIMEOUT_MS * 1000;
    let caught = |rank: usize, work: &Work| {
        let member = &job.procs[rank].members[work.slot];
        let ran = TIMEOUT_MS + hash(seed, &[43, rank as u64]) % 100;
        format!(
            "[Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={}, \
             OpType={}, NumelIn={}, NumelOut={}, Timeout(ms)={TIMEOUT_MS}) ran for {ran} \
             milliseconds before timing out.",
            member.rank, work.seq, work.op, work.numel_in, work.numel_out
        )
    };
    for &(rank, work) in &stuck {
        let group = group(job, rank, work.slot);
        let (enqueued, completed) = status(watch, pending, rank, work.slot, work.paired);
        say(rank, after, 689, caught(rank, work));
        say(
            rank,
            210,
            2303,
            format!(
                "{group}  failure detected by watchdog at work sequence id: {} PG status: last \
                 enqueued work: {enqueued}, last completed work: {completed}",
                work.seq
            ),
        );
        say(
            rank,
            350,
            736,
            "Stack trace of the failed collective not found, potentially because FlightRecorder \
             is disabled. You can enable it by setting TORCH_NCCL_TRACE_BUFFER_SIZE to a non-zero \
             value."
                .into(),
        );
        say(
            rank,
            60,
            2636,
            format!("{group} First PG on this rank to signal dumping."),
        );
        after = 3_000;
    }
    after = 300_000;
    for &rank in &ranks {
        let group = group(job, rank, job.procs[rank].world);
        let whose = match (pending.stuck(rank), first) {
            (None, Some(first)) => {
                let text = "Observed flight recorder dump signal from another rank via TCPStore.";
                say(rank, after, 1849, format!("{group} {text}"));
                format!("from  rank {first}")
            }
            _ => "from this local rank".to_owned(),
        };
        let (enqueued, completed) = status(watch, pending, rank, job.procs[rank].world, false);
        say(
            rank,
            after,
            1914,
            format!(
                "{group} Received a dump signal due to a collective timeout {whose} and we will \
                 try our best to dump the debug info. Last enqueued NCCL work: {enqueued}, last \
                 completed NCCL work: {completed}.This is most likely caused by incorrect usages \
                 of collectives, e.g., wrong sizes used across ranks, the order of collectives is \
                 not same for all ranks or the scheduled collective, for some reason, didn't run. \
                 Additionally, this can be caused by GIL deadlock or other reasons such as network \
                 errors or bugs in the communications library (e.g. NCCL), etc. "
            ),
        );
        say(
            rank,
            200,
            1628,
            format!(
                "{group} ProcessGroupNCCL preparing to dump debug info. Include stack trace: 1, \
                 only active collectives: 0"
            ),
        );
        after = 5_000;
    }
    after = GRACE_US;
    for &(rank, work) in &stuck {
        let member = &job.procs[rank].members[work.slot];
        let own = format!("[Rank {}]", member.rank);
        say(
            rank,
            after,
            750,
            format!(
                "{own} Some NCCL operations have failed or timed out. Due to the asynchronous \
                 nature of CUDA kernels, subsequent GPU operations might run on \
                 corrupted/incomplete data."
            ),
        );
        say(
            rank,
            60,
            764,
            format!("{own} To avoid data inconsistency, we are taking the entire process down."),
        );
        say(
            rank,
            900,
            2119,
            format!(
                "{} Process group watchdog thread terminated with exception: {}",
                group(job, rank, work.slot),
                caught(rank, work)
            ),
        );
        after = 3_000;
    }
    out
}

/// `[PG ID 1 PG GUID 5(TENSOR_MODEL_PARALLEL_GROUP) Rank 1]`: the process's own number of the
/// group, that of all groups of the job, what it is for, and the rank in it.
fn group(job: &Job, rank: usize, slot: usize) -> String {
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
fn status(
    watch: &Watch,
    pending: &Pending<'_>,
    rank: usize,
    slot: usize,
    paired: bool,
) -> (u64, u64) {
    let enqueued = watch.works(rank, slot)[usize::from(paired)];
    let first = pending.first(rank, slot, paired);
    (enqueued, first.map_or(enqueued, |work| work.seq - 1))
}
