//! How a job says that it ended: in its own words, or its launcher's, PyTorch's or nccl-tests'.
//! These lines have no header of NCCL's.
//!
//! ```text
//! [titan] 2026-02-03 04:05:06,789 - root - INFO - Training completed
//! [after training is done] datetime: 2026-02-03 04:05:06                              Megatron-LM
//! `Trainer.fit` stopped: `max_steps=50` reached.                                      Lightning
//! :::MLLOG {..., "key": "run_stop", ..., "metadata": {..., "status": "success"}}
//! # Avg bus bandwidth    : 19.972                                                     nccl-tests
//!
//! [rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB         Python
//! srun: error: n1: tasks 1-7: Exited with exit code 3
//! slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-02-03T04:05:06 DUE TO TIME LIMIT ***
//! mpirun noticed that process rank 1 with PID 0 on node n1 exited on signal 6 (Aborted).
//! [n1:81] Signal: Segmentation fault (11)                                             Open MPI, a stack behind it
//! Out of memory: Killed process 81 (python) total-vm:8kB                                the kernel
//! train.sh: line 7:    81 Killed                  python train.py                        bash
//! =   EXIT CODE: 9                                                                    MPICH
//! E0626 14:02:46.8 77 api.py:826] failed (exitcode: 1) local_rank: 0 (pid: 81) of binary: python
//! Root Cause (first observed failure):                                                torchrun
//!   host      : n1
//!   rank      : 2 (local_rank: 2)
//!   exitcode  : -9 (pid: 77)
//! Received 15 death signal, shutting down workers                                     torchrun
//! [rank1]: ncclRemoteError: A call failed possibly due to a network error
//! n1: Test NCCL failure common.cu:958 'unhandled system error / '                     nccl-tests
//! ```
//!
//! From `train.py` of torchtitan, `training.py` of Megatron-LM, `fit_loop.py` of Lightning, `common.cu` of
//! nccl-tests, `launch.c` of Slurm's srun, `help-orterun.txt` of Open MPI, `api.py` of
//! `torch.distributed.elastic` and `NCCLUtils.cpp` of PyTorch, `distributed_c10d.py`'s hook that puts
//! `[rank0]: ` in front of what Python says of an exception, vLLM's `pynccl_wrapper.py`, XLA's
//! `nccl_errors.h`.

use crate::grammar::token::{dec_i32, dec_u32, dec_u64};
use aho_corasick::AhoCorasick;
use memchr::memmem;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// How a job, or one of its processes, ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending<'a> {
    /// It says that its work is done.
    Done,
    /// It failed.
    Failed(Failure<'a>),
    /// Python begins to say what it could not handle: the exception's own line follows.
    Traceback(Who<'a>),
    /// Part of a launcher's report of one process: the line with its end follows.
    Part(Part<'a>),
}

/// A failure: what, and whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failure<'a> {
    /// What ended it.
    pub what: What,
    /// Who ended, as far as the line tells.
    pub who: Who<'a>,
    /// What the line says of it: an exception with its text, a scheduler's reason. Else empty.
    pub says: &'a [u8],
}

/// What ended a process or a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum What {
    /// An exception of Python's.
    Exception,
    /// The same of a launcher, which only repeats that a process failed.
    Repeated,
    /// A crash of its own: an abort, a C++ exception.
    Crash,
    /// An error that NCCL's functions gave to the program, or that a connection was lost.
    Nccl,
    /// An exit code.
    Exit(i32),
    /// A signal.
    Signal(i32),
    /// The host had no memory left for it.
    OutOfMemory,
    /// The scheduler, or whoever tells it or the launcher to, ended the job.
    Cancelled,
    /// A person interrupted it.
    Interrupted,
}

/// How a job failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum How {
    /// By itself: an exit code, an abort, a crash.
    Itself,
    /// By an error that NCCL's functions gave to the program.
    Nccl,
    /// Something killed it: its launcher, the scheduler, the out-of-memory killer, a person.
    Killed,
}

impl What {
    /// True for what Python prints behind a traceback.
    fn is_raised(self) -> bool {
        matches!(self, What::Exception | What::Repeated)
    }

    /// Whether the job failed by itself or was killed.
    pub(crate) fn how(self) -> How {
        match self {
            What::Nccl => How::Nccl,
            What::Signal(9 | 15) | What::Exit(137 | 143) => How::Killed,
            What::OutOfMemory | What::Cancelled | What::Interrupted => How::Killed,
            What::Exception | What::Repeated | What::Crash => How::Itself,
            What::Exit(_) | What::Signal(_) => How::Itself,
        }
    }
}

/// Whose a line is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Who<'a> {
    /// The rank in the job.
    pub rank: Option<u32>,
    /// The rank among those of its host.
    pub local_rank: Option<u32>,
    /// The process.
    pub pid: Option<u64>,
    /// The host.
    pub host: Option<&'a [u8]>,
}

/// A line of a launcher's report of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// The process reported next failed first.
    First,
    /// Its host.
    Host(&'a [u8]),
    /// Its rank.
    Rank(Who<'a>),
}

/// Reads what stands around an anchor, or refuses it.
type Reader = for<'a> fn(&'a [u8], &'a [u8]) -> Option<Ending<'a>>;

/// Words of which one stands in every such line, and who reads it.
const ANCHORS: &[(&str, Reader)] = &[
    ("raining complete", completed),
    ("raining finished", sentence),
    ("raining done", sentence),
    ("raining is done", megatron),
    ("inished training", sentence),
    ("one training", fairseq),
    ("`Trainer.fit` stopped:", done),
    ("# Avg bus bandwidth", done),
    ("# Collective test concluded", done),
    ("run_stop\"", mlperf),
    ("Traceback (most recent call last)", traceback),
    ("Error", exception),
    ("Exception", exception),
    ("KeyboardInterrupt", exception),
    ("srun: error: ", srun),
    ("CANCELLED AT ", cancelled),
    ("oom_kill event", oom),
    ("oom-kill event", oom),
    ("ut of memory: Kill", killer),
    ("exited on signal ", signal),
    ("exited with non-zero status", itself),
    ("] Signal: ", handler),
    ("Per user-direction, the job has been aborted", aborted),
    ("Process name: [", named),
    ("Exit code: ", mpirun),
    ("EXIT CODE: ", hydra),
    ("KILLED BY SIGNAL: ", hydra),
    ("failed (exitcode: ", torchrun),
    ("exitcode  : ", torchrun),
    ("rank      : ", rank),
    ("host      : ", host),
    ("Root Cause (first observed failure):", first),
    (" death signal, shutting down workers", told),
    ("exits with return code = ", deepspeed),
    (": line ", shell),
    ("terminate called after throwing", thrown),
    ("Fatal Python error: ", itself),
    ("ncclUnhandledCudaError: ", nccl),
    ("ncclSystemError: ", nccl),
    ("ncclInternalError: ", nccl),
    ("ncclInvalidArgument: ", nccl),
    ("ncclInvalidUsage: ", nccl),
    ("ncclRemoteError: ", nccl),
    ("Test NCCL failure ", nccl),
    ("NCCL error: ", nccl),
    ("NCCL Error ", numbered),
    ("NCCL operation ", xla),
];

/// How much of a line is looked at.
const LONGEST: usize = 4096;

/// The end that a line tells of, wherever it begins.
pub(crate) fn ending(line: &[u8]) -> Option<Ending<'_>> {
    static FINDER: LazyLock<Option<AhoCorasick>> =
        LazyLock::new(|| AhoCorasick::new(ANCHORS.iter().map(|(word, _)| word)).ok());
    let line = &line[..line.len().min(LONGEST)];
    FINDER
        .as_ref()?
        .find_overlapping_iter(line)
        .find_map(|hit| {
            let (_, read) = ANCHORS.get(hit.pattern().as_usize())?;
            let end = read(&line[..hit.start()], &line[hit.end()..])?;
            Some(match end {
                // Its name begins in front of the anchor, its text follows.
                Ending::Failed(mut failure) if failure.what.is_raised() => {
                    failure.says = &line[hit.start() - failure.says.len()..];
                    Ending::Failed(failure)
                }
                end => end,
            })
        })
}

/// The rank whose line it is, by what PyTorch or a launcher puts in front: `[rank3]:` of PyTorch and
/// torchrun, `[default3]:` of torchrun (a rank of the host), `[1,3]<stderr>:` of mpirun, `3: ` of srun.
pub(crate) fn whose(line: &[u8]) -> Who<'_> {
    let rank = |word: &[u8]| {
        let at = memmem::find(line, word)? + word.len();
        let (rest, rank) = dec_u32(&line[at..]).ok()?;
        rest.starts_with(b"]:").then_some(rank)
    };
    let tagged = || {
        let (rest, _) = dec_u32(line.strip_prefix(b"[")?).ok()?;
        let (rest, rank) = dec_u32(rest.strip_prefix(b",")?).ok()?;
        rest.starts_with(b"]<std").then_some(rank)
    };
    let labelled = || {
        let (rest, rank) = dec_u32(line.trim_ascii_start()).ok()?;
        rest.starts_with(b": ").then_some(rank)
    };
    Who {
        rank: rank(b"[rank").or_else(tagged).or_else(labelled),
        local_rank: rank(b"[default"),
        ..Who::default()
    }
}

fn done<'a>(_: &'a [u8], _: &'a [u8]) -> Option<Ending<'a>> {
    Some(Ending::Done)
}

/// A sentence that is all that its line says, behind a logger's prefix; the anchor lacks its first
/// letter. `CUDA graph capture for training complete` is about something else, and so is
/// `training done in 3 s` of one epoch.
fn sentence<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<Ending<'a>> {
    let (letter, prefix) = before.split_last()?;
    let before = prefix.trim_ascii_end().last();
    let begins = before.is_none_or(|last| b"-]:|>)*=".contains(last));
    let ends = matches!(behind.trim_ascii().first(), None | Some(b'.' | b'!'));
    (letter.is_ascii_alphabetic() && begins && ends).then_some(Ending::Done)
}

/// `Training complete`, `Training completed`.
fn completed<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<Ending<'a>> {
    sentence(before, behind.strip_prefix(b"d").unwrap_or(behind))
}

fn megatron<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<Ending<'a>> {
    if before.ends_with(b"[after t") && behind.starts_with(b"]") {
        return Some(Ending::Done);
    }
    sentence(before, behind)
}

fn fairseq<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<Ending<'a>> {
    let of_job = behind.starts_with(b" in ") && behind.trim_ascii_end().ends_with(b" seconds");
    sentence(before, if of_job { b"" } else { behind })
}

fn mlperf<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<Ending<'a>> {
    let is_record = memmem::find(before, b":::MLL").is_some();
    let success = memmem::find(behind, b"\"success\"").is_some();
    (is_record && success).then_some(Ending::Done)
}

/// A failure of whom the line's prefix names.
fn failed<'a>(what: What, before: &'a [u8]) -> Option<Ending<'a>> {
    Some(Ending::Failed(Failure {
        what,
        who: whose(before),
        says: b"",
    }))
}

fn itself<'a>(before: &'a [u8], _: &'a [u8]) -> Option<Ending<'a>> {
    failed(What::Crash, before)
}

fn traceback<'a>(before: &'a [u8], _: &'a [u8]) -> Option<Ending<'a>> {
    Some(Ending::Traceback(whose(before)))
}

/// Exceptions of launchers, without `Error` or `Exception`: a process that they started failed.
const REPEATED: [&[u8]; 3] = [b"ChildFailed", b"CalledProcess", b"ProcessExited"];

/// Exceptions of a process whose peer is gone.
const LOST: [&[u8]; 6] = [
    b"DistBackend",
    b"DistNetwork",
    b"DistStore",
    b"ConnectionRefused",
    b"ConnectionReset",
    b"BrokenPipe",
];

/// `torch.OutOfMemoryError: CUDA out of memory.`, `KeyboardInterrupt`: a name with its parts, behind
/// nothing but a prefix, and its text.
fn exception<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<Ending<'a>> {
    let in_name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.');
    let begin = before
        .iter()
        .rposition(|b| !in_name(b))
        .map_or(0, |at| at + 1);
    let text = behind.trim_ascii_end();
    let is_whole = text.is_empty() || text.starts_with(b":") && !text.starts_with(b"::");
    let prefix = before[..begin].trim_ascii_end();
    let is_first = prefix
        .last()
        .is_none_or(|last| matches!(last, b':' | b')' | b'|'));
    // The anchor is the name's end: what is in front of it is the rest of the name.
    let name = &before[begin..];
    if !is_whole || !is_first || name.first().is_some_and(u8::is_ascii_digit) {
        return None;
    }
    let has = |word: &[u8]| memmem::find(text, word).is_some();
    let ends = |names: &[&[u8]]| names.iter().any(|end| name.ends_with(end));
    let what = if name.is_empty() && text.is_empty() {
        What::Interrupted
    } else if ends(&REPEATED) {
        What::Repeated
    } else if name.ends_with(b"Signal") {
        What::Cancelled
    } else if ends(&LOST)
        || name.starts_with(b"nccl")
        || has(b"NCCL")
        || has(b"nccl")
        || has(b"Connection closed by peer")
    {
        What::Nccl
    } else {
        What::Exception
    };
    Some(Ending::Failed(Failure {
        what,
        who: whose(&before[..begin]),
        says: &before[begin..],
    }))
}

/// C++'s word for an exception that nobody caught; PyTorch throws one for an error of NCCL's.
fn thrown<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<Ending<'a>> {
    let what = match memmem::find(behind, b"DistBackendError") {
        Some(_) => What::Nccl,
        None => What::Crash,
    };
    failed(what, before)
}

fn nccl<'a>(before: &'a [u8], _: &'a [u8]) -> Option<Ending<'a>> {
    let begins = before.last().is_none_or(|b| !b.is_ascii_alphanumeric());
    begins.then(|| failed(What::Nccl, before)).flatten()
}

/// `RuntimeError: NCCL Error 2: unhandled system error`, of older PyTorch.
fn numbered<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<Ending<'a>> {
    let (rest, _) = dec_u32(behind).ok()?;
    rest.starts_with(b": ")
        .then(|| nccl(before, behind))
        .flatten()
}

/// `NCCL operation ncclGroupEnd() failed: unhandled cuda error`, of XLA.
fn xla<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<Ending<'a>> {
    let failed = memmem::find(behind, b" failed: ").is_some();
    failed.then(|| nccl(before, behind)).flatten()
}

/// By its code: shells give 128 and the signal's number, Python the number below zero.
fn code(code: i32) -> Option<What> {
    match code {
        0 => None,
        129..=159 => Some(What::Signal(code - 128)),
        -64..=-1 => Some(What::Signal(-code)),
        _ => Some(What::Exit(code)),
    }
}

fn ended<'a>(what: What, who: Who<'a>) -> Option<Ending<'a>> {
    let what = match what {
        What::Signal(2) => What::Interrupted,
        what => what,
    };
    Some(Ending::Failed(Failure {
        what,
        who,
        says: b"",
    }))
}

fn srun<'a>(_: &'a [u8], behind: &'a [u8]) -> Option<Ending<'a>> {
    // `n1: tasks 1-7: Exited with exit code 3`
    let at = memmem::find(behind, b": task")?;
    let rest = &behind[at + b": task".len()..];
    let colon = memmem::find(rest, b": ")?;
    let what = &rest[colon + 2..];
    let one = rest[..colon].strip_prefix(b" ").map(dec_u32);
    let who = Who {
        rank: one
            .and_then(|one| one.ok())
            .filter(|(rest, _)| rest.is_empty())
            .map(|(_, n)| n),
        host: Some(&behind[..at]),
        ..Who::default()
    };
    if let Some(number) = what.strip_prefix(b"Exited with exit code ") {
        return ended(code(dec_i32(number).ok()?.1)?, who);
    }
    let words: [(&[u8], What); 8] = [
        (b"Killed", What::Signal(9)),
        (b"Terminated", What::Signal(15)),
        (b"Out Of Memory", What::OutOfMemory),
        (b"Aborted", What::Signal(6)),
        (b"Segmentation fault", What::Signal(11)),
        (b"Bus error", What::Signal(7)),
        (b"Floating point exception", What::Signal(8)),
        (b"Illegal instruction", What::Signal(4)),
    ];
    let (_, what) = words.iter().find(|(word, _)| what.starts_with(word))?;
    ended(*what, who)
}

/// `*** STEP 7.0 ON n1 CANCELLED AT 2026-02-03T04:05:06 DUE TO TIME LIMIT ***`
fn cancelled<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<Ending<'a>> {
    let begin = memmem::rfind(before, b"*** ")?;
    let on = memmem::find(&before[begin..], b" ON ").map(|at| &before[begin + at + 4..]);
    let end = memmem::find(behind, b" ***").unwrap_or(behind.len());
    Some(Ending::Failed(Failure {
        what: What::Cancelled,
        who: Who {
            host: on.map(<[u8]>::trim_ascii),
            ..Who::default()
        },
        says: &behind[..end],
    }))
}

fn oom<'a>(_: &'a [u8], _: &'a [u8]) -> Option<Ending<'a>> {
    ended(What::OutOfMemory, Who::default())
}

/// `Out of memory: Killed process 81 (python)`, before Linux 5.3 `Kill process 81 (python) score 9`.
fn killer<'a>(_: &'a [u8], behind: &'a [u8]) -> Option<Ending<'a>> {
    let behind = behind.strip_prefix(b"ed").unwrap_or(behind);
    let (_, pid) = dec_u64(behind.strip_prefix(b" process ")?).ok()?;
    let pid = Some(pid);
    ended(
        What::OutOfMemory,
        Who {
            pid,
            ..Who::default()
        },
    )
}

/// `process rank 1 with PID 0 on node n1 exited on signal 6 (Aborted).`
fn signal<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<Ending<'a>> {
    let (_, number) = dec_i32(behind).ok()?;
    let after = |word: &[u8]| memmem::rfind(before, word).map(|at| &before[at + word.len()..]);
    let rank = after(b"process rank ").and_then(|text| dec_u32(text).ok());
    let pid = after(b" PID ").and_then(|text| dec_u64(text).ok());
    let who = Who {
        rank: rank.map(|(_, rank)| rank),
        pid: pid.map(|(_, pid)| pid).filter(|&pid| pid > 0),
        host: after(b" on node ").map(<[u8]>::trim_ascii),
        ..Who::default()
    };
    ended(What::Signal(number), who)
}

/// Open MPI's handler of signals: `[n1:81] Signal: Segmentation fault (11)`.
fn handler<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<Ending<'a>> {
    let number = &behind[memchr::memrchr(b'(', behind)? + 1..];
    let (rest, number) = dec_i32(number).ok()?;
    let name = &before[memchr::memrchr(b'[', before)? + 1..];
    let colon = memchr::memrchr(b':', name)?;
    let (end, pid) = dec_u64(&name[colon + 1..]).ok()?;
    let who = Who {
        pid: Some(pid),
        host: Some(&name[..colon]),
        ..whose(before)
    };
    let is_whole = end.is_empty() && rest.trim_ascii() == b")";
    is_whole.then(|| ended(What::Signal(number), who)).flatten()
}

/// mpirun's last word, which names no process.
fn aborted<'a>(_: &'a [u8], _: &'a [u8]) -> Option<Ending<'a>> {
    Some(Ending::Failed(Failure {
        what: What::Crash,
        who: Who::default(),
        says: b"a process ended with an error, and mpirun ended the job; its line does not name the process",
    }))
}

/// Of MPICH's block, whose lines begin with `=`.
fn hydra<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<Ending<'a>> {
    let (_, number) = dec_i32(behind).ok()?;
    if !before.trim_ascii().starts_with(b"=") {
        return None;
    }
    let what = match number {
        9 | 15 => What::Signal(number),
        _ => code(number)?,
    };
    ended(what, Who::default())
}

/// Open MPI: `  Process name: [[59473,1],2]`, before the line with the exit code; since version 5
/// `[prterun-n1-81@1,2]`.
fn named<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<Ending<'a>> {
    let name = &behind[..memchr::memrchr(b']', behind)?];
    let comma = memchr::memrchr(b',', name)?;
    let (rest, rank) = dec_u32(&name[comma + 1..]).ok()?;
    let rank = Some(rank).filter(|_| rest.is_empty() && before.trim_ascii().is_empty());
    Some(Ending::Part(Part::Rank(Who {
        rank: Some(rank?),
        ..Who::default()
    })))
}

fn mpirun<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<Ending<'a>> {
    let what = code(dec_i32(behind.trim_ascii_start()).ok()?.1)?;
    before
        .trim_ascii()
        .is_empty()
        .then(|| ended(what, Who::default()))
        .flatten()
}

/// `(exitcode: -9) local_rank: 2 (pid: 77) of binary`, `exitcode  : -9 (pid: 77)`.
fn torchrun<'a>(_: &'a [u8], behind: &'a [u8]) -> Option<Ending<'a>> {
    let (rest, number) = dec_i32(behind.trim_ascii_start()).ok()?;
    let after = |word: &[u8]| memmem::find(rest, word).map(|at| &rest[at + word.len()..]);
    let pid = after(b"(pid: ").and_then(|text| dec_u64(text).ok());
    let local = after(b"local_rank: ").and_then(|text| dec_u32(text).ok());
    let who = Who {
        local_rank: local.map(|(_, rank)| rank),
        pid: pid.map(|(_, pid)| pid),
        ..Who::default()
    };
    ended(code(number)?, who)
}

/// `rank      : 2 (local_rank: 2)`
fn rank<'a>(_: &'a [u8], behind: &'a [u8]) -> Option<Ending<'a>> {
    let (rest, rank) = dec_u32(behind).ok()?;
    let local = rest.strip_prefix(b" (local_rank: ")?;
    Some(Ending::Part(Part::Rank(Who {
        rank: Some(rank),
        local_rank: dec_u32(local).ok().map(|(_, rank)| rank),
        ..Who::default()
    })))
}

fn host<'a>(_: &'a [u8], behind: &'a [u8]) -> Option<Ending<'a>> {
    Some(Ending::Part(Part::Host(behind.trim_ascii())))
}

fn first<'a>(_: &'a [u8], _: &'a [u8]) -> Option<Ending<'a>> {
    Some(Ending::Part(Part::First))
}

/// `Received Signals.SIGTERM death signal, shutting down workers`: torchrun was told to end the job.
fn told<'a>(before: &'a [u8], _: &'a [u8]) -> Option<Ending<'a>> {
    let at = memmem::find(before, b"Received ")? + b"Received ".len();
    let what = match &before[at..] {
        b"2" | b"Signals.SIGINT" => What::Interrupted,
        _ => What::Cancelled,
    };
    ended(what, Who::default())
}

fn deepspeed<'a>(_: &'a [u8], behind: &'a [u8]) -> Option<Ending<'a>> {
    ended(code(dec_i32(behind).ok()?.1)?, Who::default())
}

/// bash: `train.sh: line 7:    81 Killed                  python train.py`
fn shell<'a>(_: &'a [u8], behind: &'a [u8]) -> Option<Ending<'a>> {
    let (rest, _) = dec_u32(behind).ok()?;
    let rest = rest.strip_prefix(b": ")?.trim_ascii_start();
    let (rest, pid) = dec_u64(rest).ok()?;
    let words: [(&[u8], i32); 5] = [
        (b" Killed  ", 9),
        (b" Terminated  ", 15),
        (b" Segmentation fault  ", 11),
        (b" Aborted  ", 6),
        (b" Bus error  ", 7),
    ];
    let (_, number) = words.iter().find(|(word, _)| rest.starts_with(word))?;
    let pid = Some(pid);
    ended(
        What::Signal(*number),
        Who {
            pid,
            ..Who::default()
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_from_what_only_sounds_so() {
        let (done, itself, nccl, killed) = ("done", "itself", "nccl", "killed");
        let told = |line: &str| match ending(line.as_bytes()) {
            Some(Ending::Done) => done,
            Some(Ending::Failed(failure)) => match failure.what.how() {
                How::Itself => itself,
                How::Nccl => nccl,
                How::Killed => killed,
            },
            _ => "none",
        };
        for (line, end) in [
            ("Training completed", done),
            (
                "[rank0]:[titan] 2026-02-03 04:05:06,789 - root - INFO - Training completed",
                done,
            ),
            ("INFO:root:Training complete.", done),
            (
                "Training completed. Do not forget to share your model",
                done,
            ),
            (
                "0: [after training is done] datetime: 2026-02-03 04:05:06 ",
                done,
            ),
            (
                "2026-05-19 | INFO | fairseq_cli.train | done training in 120.4 seconds",
                done,
            ),
            ("`Trainer.fit` stopped: `max_steps=50` reached.", done),
            ("# Avg bus bandwidth    : 19.972 ", done),
            (
                " 0: :::MLLOG {\"key\": \"run_stop\", \"value\": null, \"metadata\": {\"status\": \"success\"}}",
                done,
            ),
            (
                ":::MLLOG {\"key\": \"run_stop\", \"value\": null, \"metadata\": {\"status\": \"aborted\"}}",
                "none",
            ),
            ("CUDA graph capture for training complete", "none"),
            ("epoch 3: training done in 12 s", "none"),
            (
                "Finished training it 128/128028 of epoch 0, 71.86 ms/it",
                "none",
            ),
            ("srun: error: n1: task 7: Exited with exit code 3", itself),
            (
                "srun: error: n1: tasks 1-7: Exited with exit code 143",
                killed,
            ),
            ("srun: error: n1: tasks 4-6: Terminated", killed),
            ("srun: error: n1: task 0: Aborted (core dumped)", itself),
            ("srun: error: Unable to create step", "none"),
            (
                "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-02-03T04:05:06 ***",
                killed,
            ),
            (
                "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.",
                killed,
            ),
            (
                "mpirun noticed that process rank 1 with PID 0 on node n1 exited on signal 6 (Aborted).",
                itself,
            ),
            ("=   EXIT CODE: 9", killed),
            ("=   EXIT CODE: 1", itself),
            ("EXIT CODE: 1", "none"),
            (
                "failed (exitcode: 1) local_rank: 0 (pid: 81) of binary: python",
                itself,
            ),
            ("  exitcode  : -9 (pid: 77)", killed),
            ("  exitcode  : 0 (pid: 77)", "none"),
            (
                "[rank1]: ncclRemoteError: A call failed possibly due to",
                nccl,
            ),
            (
                "ncclSystemError: System call (e.g. socket, malloc) or",
                nccl,
            ),
            (
                "n1: Test NCCL failure common.cu:958 'unhandled system error / '",
                nccl,
            ),
            (
                "terminate called after throwing an instance of 'c10::DistBackendError'",
                nccl,
            ),
            (
                "terminate called after throwing an instance of 'std::bad_alloc'",
                itself,
            ),
            (
                "RuntimeError: NCCL error: unhandled cuda error (run with",
                nccl,
            ),
            ("RuntimeError: NCCL Error 2: unhandled system error", nccl),
            ("the NCCL Error codes", "none"),
            (
                "INTERNAL: NCCL operation ncclGroupEnd() failed: unhandled cuda error",
                nccl,
            ),
            ("step 5 loss 2.1", "none"),
        ] {
            assert_eq!(told(line), end, "{line}");
        }
    }

    #[test]
    fn who_ended_and_how_is_told() {
        let of = |line: &'static str| match ending(line.as_bytes()) {
            Some(Ending::Failed(failure)) => failure,
            other => panic!("{line}: {other:?}"),
        };
        type Told = (What, Option<u32>, Option<u32>, Option<u64>, &'static str);
        let told: [(&str, Told); 17] = [
            (
                "[rank0]: torch.OutOfMemoryError: CUDA out of memory.",
                (
                    What::Exception,
                    Some(0),
                    None,
                    None,
                    "torch.OutOfMemoryError: CUDA out of memory.",
                ),
            ),
            (
                "[default3]:AssertionError",
                (What::Exception, None, Some(3), None, "AssertionError"),
            ),
            (
                "12: my.own.ShapeException: a: b",
                (
                    What::Exception,
                    Some(12),
                    None,
                    None,
                    "my.own.ShapeException: a: b",
                ),
            ),
            (
                "[rank3]: torch.distributed.DistBackendError: NCCL error in: x.cpp:9",
                (
                    What::Nccl,
                    Some(3),
                    None,
                    None,
                    "torch.distributed.DistBackend",
                ),
            ),
            (
                "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
                (
                    What::Repeated,
                    None,
                    None,
                    None,
                    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
                ),
            ),
            (
                "[rank1]: KeyboardInterrupt",
                (What::Interrupted, Some(1), None, None, ""),
            ),
            (
                "x/api.py:986] failed (exitcode: -9) local_rank: 2 (pid: 1609) of binary: python3",
                (What::Signal(9), None, Some(2), Some(1609), ""),
            ),
            (
                "  exitcode  : 1 (pid: 3103)",
                (What::Exit(1), None, None, Some(3103), ""),
            ),
            (
                "srun: error: n1: task 3: Out Of Memory",
                (What::OutOfMemory, Some(3), None, None, ""),
            ),
            (
                "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-02-03T04:05:06 DUE TO TIME LIMIT ***",
                (
                    What::Cancelled,
                    None,
                    None,
                    None,
                    "2026-02-03T04:05:06 DUE TO TIME LIMIT",
                ),
            ),
            (
                "prterun noticed that process rank 3 with PID 123 on node n1 exited on signal 9 (Killed).",
                (What::Signal(9), Some(3), None, Some(123), ""),
            ),
            (
                "  Exit code:    137",
                (What::Signal(9), None, None, None, ""),
            ),
            (
                "[81.2] Memory cgroup out of memory: Killed process 81 (python) total-vm:8kB",
                (What::OutOfMemory, None, None, Some(81), ""),
            ),
            (
                "Out of memory: Kill process 81 (python) score 9 or sacrifice child",
                (What::OutOfMemory, None, None, Some(81), ""),
            ),
            (
                "train.sh: line 7:    81 Killed                  python train.py",
                (What::Signal(9), None, None, Some(81), ""),
            ),
            (
                "W0614 x.py:9] Received Signals.SIGTERM death signal, shutting down workers",
                (What::Cancelled, None, None, None, ""),
            ),
            (
                "[ERROR] [launch.py:322] ['python', 'train.py'] exits with return code = -9",
                (What::Signal(9), None, None, None, ""),
            ),
        ];
        for (line, (what, rank, local_rank, pid, says)) in told {
            let failure = of(line);
            assert_eq!(failure.what, what, "{line}");
            let who = failure.who;
            assert_eq!(
                (who.rank, who.local_rank, who.pid),
                (rank, local_rank, pid),
                "{line}"
            );
            assert_eq!(failure.says, says.as_bytes(), "{line}");
        }
        let host = |line| of(line).who.host;
        assert_eq!(host("srun: error: n1: task 3: Killed"), Some(&b"n1"[..]));
        let cancelled = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-02-03T04:05:06 ***";
        assert_eq!(host(cancelled), Some(&b"n1"[..]));
        let part = |line: &'static str| ending(line.as_bytes());
        let rank = |rank, local_rank| {
            Some(Ending::Part(Part::Rank(Who {
                rank: Some(rank),
                local_rank,
                ..Who::default()
            })))
        };
        assert_eq!(part("  rank      : 9 (local_rank: 1)"), rank(9, Some(1)));
        assert_eq!(part("  Process name: [[59473,1],2]"), rank(2, None));
        assert_eq!(
            part("  host      : n1"),
            Some(Ending::Part(Part::Host(b"n1")))
        );
        for line in [
            "WARNING: an Error occurred",
            "frame #0: c10::Error::Error(c10::SourceLocation)",
            "raise ValueError(\"x\")",
            "step 3: line 7: 12 of 40",
        ] {
            assert_eq!(ending(line.as_bytes()), None, "{line}");
        }
    }
}
