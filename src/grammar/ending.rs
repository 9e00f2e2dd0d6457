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
//! srun: error: n1: tasks 1-7: Exited with exit code 3
//! slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-02-03T04:05:06 DUE TO TIME LIMIT ***
//! mpirun noticed that process rank 1 with PID 0 on node n1 exited on signal 6 (Aborted).
//! =   EXIT CODE: 9                                                                    MPICH
//! E0626 14:02:46.8 77 api.py:826] failed (exitcode: 1) local_rank: 0 (pid: 81) of binary: python
//!   exitcode  : -9 (pid: 77)                                                          torchrun
//! [rank1]: ncclRemoteError: A call failed possibly due to a network error
//! n1: Test NCCL failure common.cu:958 'unhandled system error / '                     nccl-tests
//! ```
//!
//! From `train.py` of torchtitan, `training.py` of Megatron-LM, `fit_loop.py` of Lightning, `common.cu` of
//! nccl-tests, `launch.c` of Slurm's srun, `help-orterun.txt` of Open MPI, `api.py` of
//! `torch.distributed.elastic` and `NCCLUtils.cpp` of PyTorch, vLLM's `pynccl_wrapper.py`, XLA's
//! `nccl_errors.h`.

use crate::grammar::token::{dec_i32, dec_u32};
use aho_corasick::AhoCorasick;
use memchr::memmem;
use std::sync::LazyLock;

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It says that its work is done.
    Done,
    /// It failed.
    Failed(How),
}

/// How a job failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// By itself: an exit code, an abort, a crash.
    Itself,
    /// By an error that NCCL's functions gave to the program.
    Nccl,
    /// Something killed it: its launcher, the scheduler, the out-of-memory killer, a person.
    Killed,
}

/// Reads what stands around an anchor, or refuses it.
type Reader = fn(&[u8], &[u8]) -> Option<Ending>;

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
    ("srun: error: ", srun),
    ("slurmstepd: error: ", slurmstepd),
    ("exited on signal ", signal),
    ("exited with non-zero status", itself),
    ("Per user-direction, the job has been aborted", itself),
    ("EXIT CODE: ", hydra),
    ("KILLED BY SIGNAL: ", hydra),
    ("failed (exitcode: ", torchrun),
    ("exitcode  : ", torchrun),
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
pub fn ending(line: &[u8]) -> Option<Ending> {
    static FINDER: LazyLock<Option<AhoCorasick>> =
        LazyLock::new(|| AhoCorasick::new(ANCHORS.iter().map(|(word, _)| word)).ok());
    let line = &line[..line.len().min(LONGEST)];
    FINDER.as_ref()?.find_iter(line).find_map(|hit| {
        let (_, read) = ANCHORS.get(hit.pattern().as_usize())?;
        read(&line[..hit.start()], &line[hit.end()..])
    })
}

fn done(_: &[u8], _: &[u8]) -> Option<Ending> {
    Some(Ending::Done)
}

/// A sentence that is all that its line says, behind a logger's prefix; the anchor lacks its first
/// letter. `CUDA graph capture for training complete` is about something else, and so is
/// `training done in 3 s` of one epoch.
fn sentence(before: &[u8], behind: &[u8]) -> Option<Ending> {
    let (letter, prefix) = before.split_last()?;
    let before = prefix.trim_ascii_end().last();
    let begins = before.is_none_or(|last| b"-]:|>)*=".contains(last));
    let ends = matches!(behind.trim_ascii().first(), None | Some(b'.' | b'!'));
    (letter.is_ascii_alphabetic() && begins && ends).then_some(Ending::Done)
}

/// `Training complete`, `Training completed`.
fn completed(before: &[u8], behind: &[u8]) -> Option<Ending> {
    sentence(before, behind.strip_prefix(b"d").unwrap_or(behind))
}

fn megatron(before: &[u8], behind: &[u8]) -> Option<Ending> {
    if before.ends_with(b"[after t") && behind.starts_with(b"]") {
        return Some(Ending::Done);
    }
    sentence(before, behind)
}

fn fairseq(before: &[u8], behind: &[u8]) -> Option<Ending> {
    let of_job = behind.starts_with(b" in ") && behind.trim_ascii_end().ends_with(b" seconds");
    sentence(before, if of_job { b"" } else { behind })
}

fn mlperf(before: &[u8], behind: &[u8]) -> Option<Ending> {
    let is_record = memmem::find(before, b":::MLL").is_some();
    let success = memmem::find(behind, b"\"success\"").is_some();
    (is_record && success).then_some(Ending::Done)
}

fn itself(_: &[u8], _: &[u8]) -> Option<Ending> {
    Some(Ending::Failed(How::Itself))
}

/// C++'s word for an exception that nobody caught; PyTorch throws one for an error of NCCL's.
fn thrown(_: &[u8], behind: &[u8]) -> Option<Ending> {
    Some(Ending::Failed(
        match memmem::find(behind, b"DistBackendError") {
            Some(_) => How::Nccl,
            None => How::Itself,
        },
    ))
}

fn nccl(before: &[u8], _: &[u8]) -> Option<Ending> {
    let begins = before.last().is_none_or(|b| !b.is_ascii_alphanumeric());
    begins.then_some(Ending::Failed(How::Nccl))
}

/// `RuntimeError: NCCL Error 2: unhandled system error`, of older PyTorch.
fn numbered(before: &[u8], behind: &[u8]) -> Option<Ending> {
    let (rest, _) = dec_u32(behind).ok()?;
    rest.starts_with(b": ")
        .then(|| nccl(before, behind))
        .flatten()
}

/// `NCCL operation ncclGroupEnd() failed: unhandled cuda error`, of XLA.
fn xla(before: &[u8], behind: &[u8]) -> Option<Ending> {
    let failed = memmem::find(behind, b" failed: ").is_some();
    failed.then(|| nccl(before, behind)).flatten()
}

/// By its code: shells give 128 and the signal's number, Python the number below zero.
fn code(code: i32) -> Option<Ending> {
    match code {
        0 => None,
        137 | 143 | -9 | -15 => Some(Ending::Failed(How::Killed)),
        _ => Some(Ending::Failed(How::Itself)),
    }
}

fn srun(_: &[u8], behind: &[u8]) -> Option<Ending> {
    // `n1: tasks 1-7: Exited with exit code 3`
    let at = memmem::find(behind, b": task")?;
    let rest = &behind[at + b": task".len()..];
    let what = &rest[memmem::find(rest, b": ")? + 2..];
    if let Some(number) = what.strip_prefix(b"Exited with exit code ") {
        return code(dec_i32(number).ok()?.1);
    }
    let starts = |words: &[&[u8]]| words.iter().any(|word| what.starts_with(word));
    if starts(&[b"Killed", b"Terminated", b"Out Of Memory"]) {
        return Some(Ending::Failed(How::Killed));
    }
    let crash: [&[u8]; 5] = [
        b"Aborted",
        b"Segmentation fault",
        b"Bus error",
        b"Floating point exception",
        b"Illegal instruction",
    ];
    starts(&crash).then_some(Ending::Failed(How::Itself))
}

fn slurmstepd(_: &[u8], behind: &[u8]) -> Option<Ending> {
    let words: [&[u8]; 3] = [b" CANCELLED AT ", b"oom_kill event", b"oom-kill event"];
    let killed = words
        .iter()
        .any(|word| memmem::find(behind, word).is_some());
    killed.then_some(Ending::Failed(How::Killed))
}

fn signal(_: &[u8], behind: &[u8]) -> Option<Ending> {
    let (_, number) = dec_u32(behind).ok()?;
    Some(Ending::Failed(match number {
        9 | 15 => How::Killed,
        _ => How::Itself,
    }))
}

/// Of MPICH's block, whose lines begin with `=`.
fn hydra(before: &[u8], behind: &[u8]) -> Option<Ending> {
    let (_, number) = dec_i32(behind).ok()?;
    let of_block = before.trim_ascii().starts_with(b"=");
    match number {
        9 | 15 if of_block => Some(Ending::Failed(How::Killed)),
        _ => code(number).filter(|_| of_block),
    }
}

fn torchrun(_: &[u8], behind: &[u8]) -> Option<Ending> {
    code(dec_i32(behind.trim_ascii_start()).ok()?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_from_what_only_sounds_so() {
        let (itself, nccl, killed) = (
            Some(Ending::Failed(How::Itself)),
            Some(Ending::Failed(How::Nccl)),
            Some(Ending::Failed(How::Killed)),
        );
        let done = Some(Ending::Done);
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
                None,
            ),
            ("CUDA graph capture for training complete", None),
            ("epoch 3: training done in 12 s", None),
            (
                "Finished training it 128/128028 of epoch 0, 71.86 ms/it",
                None,
            ),
            ("srun: error: n1: task 7: Exited with exit code 3", itself),
            (
                "srun: error: n1: tasks 1-7: Exited with exit code 143",
                killed,
            ),
            ("srun: error: n1: tasks 4-6: Terminated", killed),
            ("srun: error: n1: task 0: Aborted (core dumped)", itself),
            ("srun: error: Unable to create step", None),
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
            ("EXIT CODE: 1", None),
            (
                "failed (exitcode: 1) local_rank: 0 (pid: 81) of binary: python",
                itself,
            ),
            ("  exitcode  : -9 (pid: 77)", killed),
            ("  exitcode  : 0 (pid: 77)", None),
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
            ("the NCCL Error codes", None),
            (
                "INTERNAL: NCCL operation ncclGroupEnd() failed: unhandled cuda error",
                nccl,
            ),
            ("step 5 loss 2.1", None),
        ] {
            assert_eq!(ending(line.as_bytes()), end, "{line}");
        }
    }
}
