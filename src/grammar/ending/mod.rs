//! Lines about the end of a job, printed by itself, its launcher, PyTorch or nccl-tests.
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
//! [n1:81] Signal: Segmentation fault (11)                                             Open MPI, a stack after it
//! [n1:81:0:99] Caught signal 11 (Segmentation fault: address not mapped to object)     UCX, a stack after it
//! n1.lab: rank 2 died from signal 6 and dumped core                                    PALS
//! Thread 1 "python" received signal SIGSEGV, Segmentation fault.                        gdb
//! *** SIGSEGV received at time=1700000000 on cpu 3 ***                                  Abseil, as in Ray
//! Process 81 (python3) of user 1000 dumped core.                                        systemd-coredump
//! ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8123): address already in use
//! Worker PID: 81 Worker exit type: SYSTEM_ERROR Worker exit detail: ...                 Ray
//! HW Exception by GPU node-9 (Agent handle: 0x5) reason :GPU Hang                       ROCm
//! Out of memory: Killed process 81 (python) total-vm:8kB                                the kernel
//! NVRM: Xid (PCI:0000:dc:00): 79, pid=81, name=python, GPU has fallen off the bus.      NVIDIA's driver
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
//! `[rank0]: ` in front of Python's report of an exception, vLLM's `pynccl_wrapper.py`, XLA's
//! `nccl_errors.h`, NVIDIA's pages on Xid errors.

mod cluster;
mod exception;
mod launcher;
mod process_label;
mod relayed_error;
mod reports;
mod setup_failure;
mod signal;
mod stack;
mod success;
mod torchrun;

use aho_corasick::AhoCorasick;
pub use process_label::process_of_line;
pub use relayed_error::{
    LastWarn, RelayedError, find_relayed_error, has_nccl_error, read_last_warn_line,
};
pub use reports::find_crash_report;
use reports::{ReportKind, report_words};
use serde::{Deserialize, Serialize};
pub use setup_failure::{MissingClients, SetupFailure, find_setup_failure};
pub use signal::EndSignal;
pub use stack::{KernelAssertion, NcclFrame};
use std::sync::LazyLock;

/// How a job, or one of its processes, ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndingLine<'a> {
    /// It reports that its work is done.
    Done,
    /// It failed.
    Failed(ProcessFailure<'a>),
    /// Python begins to report an exception; the exception's own line follows.
    Traceback(ProcessOfLine<'a>),
    /// Python reports that nothing takes the exception that follows: the process goes on.
    Ignored(ProcessOfLine<'a>),
    /// The exception that follows came while the one before was handled.
    Chained(ProcessOfLine<'a>),
    /// A frame of a stack, in NCCL's code.
    NcclFrame(NcclFrame<'a>),
    /// A frame of the thread of PyTorch's watchdog.
    WatchdogFrame,
    /// A frame of torchrun: its exception follows.
    LauncherFrame,
    /// The reason of the C++ exception that ended a process.
    Reason(&'a [u8]),
    /// An assertion of a kernel that did not hold.
    KernelAssertion(KernelAssertion<'a>),
    /// Part of a launcher's report of one process: the line with its end follows.
    Part(LauncherReport<'a>),
    /// Part of an exception's text: NCCL's last WARN follows, on this line or on the next.
    LastWarn,
}

impl EndingLine<'_> {
    /// True where [`find_relayed_error`] may find an error in the line that NCCL, or the process's own state, gave a program.
    pub fn may_relay_nccl_error(&self) -> bool {
        match self {
            EndingLine::Failed(failure) => failure.what.is_of_surroundings(),
            EndingLine::Reason(reason) => has_nccl_error(reason),
            _ => false,
        }
    }
}

/// A failure of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessFailure<'a> {
    /// What ended it.
    pub what: FailureCause,
    /// The process that ended, as far as the line names it.
    pub who: ProcessOfLine<'a>,
    /// The reason on the line: an exception with its text, or a scheduler's reason. Empty if there is none.
    pub says: &'a [u8],
}

/// What ended a process or a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureCause {
    /// An exception of Python's.
    Exception,
    /// The same of a launcher, which only repeats that a process failed.
    Repeated,
    /// A crash of its own: an abort, a C++ exception.
    Crash,
    /// An error that NCCL's functions gave to the program, or that a connection was lost.
    Nccl,
    /// The same as a warning: it shows a failure only where nothing else is left of one.
    Warned,
    /// A state of the process or its host that its line names: a port in use, a device that cannot be opened.
    OwnState,
    /// An exit code.
    Exit(i32),
    /// A launcher reports that it failed first, and its report ends before the way.
    Unstated,
    /// A signal.
    Signal(i32),
    /// The host had no memory left for it.
    OutOfMemory,
    /// The driver reports an error of a GPU, by this Xid.
    Gpu(u32),
    /// Its host failed.
    Host,
    /// The scheduler ended the job, or a person or program that asked it or the launcher to.
    Cancelled,
    /// A person interrupted it.
    Interrupted,
}

/// How a job failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureMode {
    /// By itself: an exit code, an abort, a crash.
    Itself,
    /// By an error that NCCL's functions gave to the program.
    Nccl,
    /// Something killed it: its launcher, the scheduler, the out-of-memory killer, a person.
    Killed,
}

impl FailureCause {
    /// True for exceptions and errors: their text is in the line.
    fn has_text(self) -> bool {
        let is_told = matches!(
            self,
            FailureCause::Exception | FailureCause::Repeated | FailureCause::Warned
        );
        is_told || self.is_of_surroundings()
    }

    /// True where what the process uses failed: NCCL, another process, a port, a device.
    pub fn is_of_surroundings(self) -> bool {
        matches!(self, FailureCause::Nccl | FailureCause::OwnState)
    }

    /// Whether the job failed by itself or was killed.
    pub fn failure_mode(self) -> FailureMode {
        match self {
            FailureCause::Nccl | FailureCause::Warned => FailureMode::Nccl,
            FailureCause::Signal(1 | 9 | 15) | FailureCause::Exit(137 | 143) => FailureMode::Killed,
            FailureCause::OutOfMemory
            | FailureCause::Host
            | FailureCause::Cancelled
            | FailureCause::Interrupted => FailureMode::Killed,
            FailureCause::Exception
            | FailureCause::Repeated
            | FailureCause::Crash
            | FailureCause::OwnState
            | FailureCause::Exit(_)
            | FailureCause::Unstated
            | FailureCause::Signal(_)
            | FailureCause::Gpu(_) => FailureMode::Itself,
        }
    }
}

/// The process that a line is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessOfLine<'a> {
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
pub enum LauncherReport<'a> {
    /// The process reported next failed first.
    First,
    /// When it ended, as torchrun writes it: `2023-06-03_22:45:52`.
    Time(&'a [u8]),
    /// Its host.
    Host(&'a [u8]),
    /// Its rank.
    Rank(ProcessOfLine<'a>),
    /// The line after the one with its end, in a list.
    ErrorFile,
    /// The end of the list: the process before it failed first.
    ListEnd,
}

/// Reads the text before and after an anchor; `None` if it is no ending.
type EndingReader = for<'a> fn(&'a [u8], &'a [u8]) -> Option<EndingLine<'a>>;

/// Words, each with the reader of the line around it. Every such line contains one of them, or of those of `reports.txt`.
const ENDING_ANCHORS: &[(&str, EndingReader)] = &[
    ("raining complete", success::read_training_complete),
    ("raining finished", success::read_success_sentence),
    ("raining done", success::read_success_sentence),
    ("raining is done", success::read_megatron_success),
    ("inished training", success::read_success_sentence),
    ("one training", success::read_fairseq_success),
    ("`Trainer.fit` stopped:", success::read_success),
    ("# Avg bus bandwidth", success::read_success),
    ("# Collective test concluded", success::read_success),
    ("run_stop\"", success::read_mlperf_success),
    (
        "Traceback (most recent call last)",
        exception::read_traceback,
    ),
    ("Exception ignored in", exception::read_ignored),
    (" exception was never retrieved", exception::read_ignored),
    ("Exception in callback ", exception::read_ignored),
    ("exception was the direct cause of", exception::read_chained),
    ("During handling of the above", exception::read_chained),
    ("\", line ", stack::read_python_frame),
    ("()  /", stack::read_source_frame),
    ("::ncclCommWatchdog", stack::read_watchdog_frame),
    (" what():  ", stack::read_reason),
    ("] Assertion `", stack::read_kernel_assertion),
    ("Error", exception::read_named_error),
    ("Exception", exception::read_exception),
    ("RayTaskError(", cluster::read_ray_task_error),
    ("KeyboardInterrupt", exception::read_exception),
    (".errors.", exception::read_exception_of_module),
    (".exceptions.", exception::read_exception_of_module),
    ("odify QP to RT", exception::read_verbs_error),
    ("srun: error: ", cluster::read_srun),
    ("CANCELLED AT ", cluster::read_slurm_cancel),
    ("oom_kill event", cluster::read_slurm_oom),
    ("oom-kill event", cluster::read_slurm_oom),
    ("ut of memory: Kill", launcher::read_kernel_oom_kill),
    ("NVRM: Xid", launcher::read_kernel_xid),
    ("exited on signal ", launcher::read_mpirun_signal),
    ("exited with non-zero status", launcher::read_mpirun_abort),
    ("] Signal: ", launcher::read_signal_handler),
    ("Signal: ", launcher::read_bare_handler),
    (": rank ", launcher::read_pals),
    ("Caught signal ", launcher::read_ucx_signal),
    (" received signal SIG", launcher::read_named_signal),
    ("*** SIG", launcher::read_named_signal),
    ("*** SIG", launcher::read_glog_signal),
    ("Worker exit type: SYSTEM_ERROR", cluster::read_ray_exit),
    (
        " has been marked dead because the ",
        cluster::read_ray_dead_node,
    ),
    ("the actor's node was ", cluster::read_ray_ended_node),
    (" because its node has died", cluster::read_ray_actor),
    (
        "Per user-direction, the job has been aborted",
        launcher::read_mpirun_abort,
    ),
    ("Process name: [", launcher::read_process_name),
    ("Exit code: ", launcher::read_mpirun_exit_code),
    ("EXIT CODE: ", launcher::read_hydra),
    ("KILLED BY SIGNAL: ", launcher::read_hydra),
    ("exitcode: ", torchrun::read_torchrun),
    ("exitcode  : ", torchrun::read_torchrun),
    ("exitcode : ", torchrun::read_torchrun_row),
    ("Container rank ", launcher::read_paddle),
    (
        " trainers, the trainer process with rank=[",
        launcher::read_paddle_abort,
    ),
    ("rank      : ", torchrun::read_torchrun_rank),
    ("rank : ", torchrun::read_torchrun_rank),
    ("host      : ", torchrun::read_torchrun_host),
    ("host : ", torchrun::read_squeezed_host),
    ("time      : ", torchrun::read_torchrun_time),
    ("time : ", torchrun::read_torchrun_time),
    ("error_file: ", torchrun::read_error_file),
    ("====================", torchrun::read_report_end),
    (
        "Root Cause (first observed failure):",
        torchrun::read_first_failure,
    ),
    ("first process to do so was:", torchrun::read_first_failure),
    (
        " death signal, shutting down workers",
        torchrun::read_death_signal,
    ),
    ("exits with return code = ", launcher::read_deepspeed),
    ("ain process received SIG", launcher::read_deepspeed_signal),
    (" terminated with code ", launcher::read_lightning_child),
    (": line ", launcher::read_shell),
    (" (core dumped)", launcher::read_bare_signal),
    ("Killed", launcher::read_bare_signal),
    (" dumped core", launcher::read_coredump),
    (
        " terminated abnormally with signal ",
        launcher::read_coredump,
    ),
    (" terminated with signal SIG", launcher::read_spawned),
    (
        "Program terminated with signal ",
        launcher::read_core_signal,
    ),
    ("return launch_agent(", torchrun::read_launcher_frame),
    (": not found", launcher::read_missing_program),
    (": command not found", launcher::read_missing_program),
    (" died, exit code: ", launcher::read_died_worker),
    (
        "Child process unexpectedly failed with ",
        launcher::read_sglang_child,
    ),
    (
        "ommand terminated with exit code ",
        launcher::read_remote_command,
    ),
    (
        " died unexpectedly, shutting down executor",
        launcher::read_vllm_worker,
    ),
    (": shepherd died from signal ", launcher::read_pals_helper),
    ("F external/", exception::read_xla_fatal),
    ("] Check failed: ", exception::read_failed_check),
    ("ddress already in use", exception::read_address_in_use),
    ("EADDRINUSE", exception::read_address_in_use),
    (" is already in use", exception::read_port_in_use),
    (
        "terminate called after throwing",
        exception::read_cpp_exception,
    ),
    ("ncclUnhandledCudaError", exception::read_nccl_result_name),
    ("ncclSystemError", exception::read_nccl_result_name),
    ("ncclInternalError", exception::read_nccl_result_name),
    ("ncclInvalidArgument", exception::read_nccl_result_name),
    ("ncclInvalidUsage", exception::read_nccl_result_name),
    ("ncclRemoteError", exception::read_nccl_result_name),
    (relayed_error::CUDA_CHECKS[0], exception::read_cuda_failure),
    (relayed_error::CUDA_CHECKS[1], exception::read_cuda_failure),
    (relayed_error::CUDA_CHECKS[2], exception::read_cuda_failure),
    (relayed_error::CUDA_CHECKS[3], exception::read_cuda_failure),
    (" returned ", exception::read_cuda_return),
    ("NCCL Error ", exception::read_numbered_nccl_error),
    ("NCCL operation ", exception::read_xla_nccl_error),
    (relayed_error::LAST_ERROR, exception::read_last_error),
];

/// How much of a line is looked at.
const MAX_ENDING_LINE_BYTES: usize = 4096;

/// The words of both, in one pass.
static ANCHORS: LazyLock<Option<(AhoCorasick, Vec<EndingReader>)>> = LazyLock::new(|| {
    let more = report_words().filter_map(|(words, kind)| Some((words, reader_of_kind(kind)?)));
    let (words, readers): (Vec<&str>, Vec<EndingReader>) =
        ENDING_ANCHORS.iter().copied().chain(more).unzip();
    Some((AhoCorasick::new(words).ok()?, readers))
});

fn reader_of_kind(kind: ReportKind) -> Option<EndingReader> {
    Some(match kind {
        ReportKind::Crash => exception::read_crash,
        ReportKind::Setup => exception::read_setup_error,
        ReportKind::Nccl => exception::read_nccl_error,
        ReportKind::Own => exception::read_own_report,
        ReportKind::Raised | ReportKind::Spawned => return None,
    })
}

/// Returns the end that a line reports, wherever in the line it begins.
pub fn find_ending(line: &[u8]) -> Option<EndingLine<'_>> {
    let (finder, readers) = ANCHORS.as_ref()?;
    let line = &line[..line.len().min(MAX_ENDING_LINE_BYTES)];
    // A page may have joined a stack and the failure after it to one line.
    let mut stack = None;
    for hit in finder.find_overlapping_iter(line) {
        let read = readers.get(hit.pattern().as_usize());
        let end = read.and_then(|read| read(&line[..hit.start()], &line[hit.end()..]));
        match end {
            None => {}
            // Its name begins in front of the anchor, its text follows.
            Some(EndingLine::Failed(mut failure)) if failure.what.has_text() => {
                failure.says = &line[hit.start() - failure.says.len()..];
                return Some(EndingLine::Failed(failure));
            }
            Some(end @ (EndingLine::Failed(_) | EndingLine::Done | EndingLine::LastWarn)) => {
                return Some(end);
            }
            Some(end) => stack = stack.or(Some(end)),
        }
    }
    stack
}

#[cfg(test)]
mod tests;
