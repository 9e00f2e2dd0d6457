//! Words for processes and jobs that failed or were ended.

use crate::grammar::ending::{EndSignal, FailureCause, find_crash_report};
use crate::members::SpeakerProcess;
use crate::stages::check::finding::{DeadRanks, Kind};
use crate::stages::check::log::job_end_lines::{ReportedFailure, WATCHDOG_FRAME};
use crate::stages::check::ranks::names;
use crate::stages::check::warn::known_warns::{WarnMeaning, look_up_gpu_reason};
use crate::stages::check::wording::{quote_text, rank_ranges};
use crate::stages::check::words::number_and_noun;
use std::collections::BTreeSet;

/// Returns the sentence for a job that a scheduler or a person ended.
pub(in crate::stages::check) fn describe_outside_end(end: &ReportedFailure) -> String {
    let words = quote_text(&end.says);
    match words.split_once(" DUE TO ") {
        _ if end.what == FailureCause::Interrupted => {
            "the job was interrupted (SIGINT, Ctrl-C)".to_owned()
        }
        _ if end.what == FailureCause::Signal(15) => format!(
            "{} was ended from outside by SIGTERM: the launcher, the scheduler or a person sent it",
            name_failed_process(None, end.rank, end.pid, end.host.as_deref())
        ),
        _ if end.what == FailureCause::Signal(1) => format!(
            "{} was ended from outside by SIGHUP: its terminal or its connection (ssh) was closed",
            name_failed_process(None, end.rank, end.pid, end.host.as_deref())
        ),
        _ if words.is_empty() => "the job was ended from outside".to_owned(),
        Some((at, why)) => format!(
            "the scheduler cancelled the job at {at}: {}",
            why.to_lowercase()
        ),
        None => format!("the scheduler cancelled the job at {}", words.trim()),
    }
}

/// Returns the name of a process that failed, as far as it is known; `named` is the process and its GPU.
pub(in crate::stages::check) fn name_failed_process(
    named: Option<(&SpeakerProcess, Option<u32>)>,
    rank: Option<u32>,
    pid: Option<u64>,
    host: Option<&[u8]>,
) -> String {
    let place = match (named, pid, host) {
        (Some((process, gpu)), ..) if rank.is_some() => {
            names::describe_process_and_gpu(process, gpu)
        }
        (Some((process, _)), ..) => names::describe_process(process),
        (None, Some(pid), Some(host)) => format!("{}:{pid}", quote_text(host)),
        (None, Some(pid), None) => format!("process {pid}"),
        (None, None, Some(host)) => format!("on {}", quote_text(host)),
        (None, None, None) => String::new(),
    };
    match (rank, place.is_empty()) {
        (Some(rank), false) => format!("rank {rank} ({place})"),
        (Some(rank), true) => format!("rank {rank}"),
        (None, false) if pid.is_some() => place,
        (None, false) => format!("a process {place}"),
        (None, true) => "a process".to_owned(),
    }
}

/// Returns the sentence for ranks that printed nothing after the failure; `spoke` are the others.
pub(in crate::stages::check) fn describe_dead_ranks(
    dead: &DeadRanks,
    named: Option<(&SpeakerProcess, Option<u32>)>,
    rank: u32,
    silent: &BTreeSet<u32>,
    spoke: &BTreeSet<u32>,
) -> String {
    let who = match named {
        Some((process, _)) if dead.is_host => format!(
            "ranks {}, all of host {},",
            rank_ranges(silent),
            quote_text(&process.host)
        ),
        _ => name_failed_process(named, Some(rank), None, None),
    };
    format!(
        "{who} printed nothing after the job failed, and all other ranks did ({}): {}",
        rank_ranges(spoke),
        dead.describe_outcome()
    )
}

impl DeadRanks {
    /// Returns what became of them.
    pub(super) fn describe_outcome(&self) -> String {
        let is = match self.is_host {
            true => "the host or all its processes are dead",
            false => "its process is dead",
        };
        let elsewhere = match (self.is_connection_lost, self.are_many) {
            (true, _) => "",
            (false, false) => " or waits elsewhere",
            (false, true) => " or wait elsewhere",
        };
        format!("{is}{elsewhere}")
    }
}

/// `signal 9 (SIGKILL)`.
fn describe_signal(number: i32) -> String {
    match EndSignal::of_number(number) {
        Some(signal) => format!("signal {number} ({})", signal.name),
        None => format!("signal {number}"),
    }
}

/// Returns the first row of the table that has words of an exception.
fn find_exception_row(says: &[u8]) -> Option<&'static str> {
    let mut rows = include_str!("exceptions.txt").split("\n\n").skip(1);
    let has = |line: &str| {
        let words = line.strip_prefix("text ");
        words.is_some_and(|words| memchr::memmem::find(says, words.as_bytes()).is_some())
    };
    rows.find(|row| row.lines().any(has))
}

/// Returns the meaning of the error of a GPU's library that an exception names, unless the table of exceptions has it.
fn find_gpu_error(says: &[u8]) -> Option<&'static WarnMeaning> {
    let row = find_exception_row(says);
    let is_open = row.is_none_or(|row| row.starts_with("general "));
    is_open.then(|| look_up_gpu_reason(says)).flatten()
}

/// Returns the advice on an exception, if a table has its words.
pub(in crate::stages::check) fn find_advice_on_exception(says: &[u8]) -> Option<&'static str> {
    find_gpu_error(says).map(|known| known.advice).or_else(|| {
        let mut lines = find_exception_row(says)?.lines();
        lines.find_map(|line| line.strip_prefix("do "))
    })
}

/// Returns the advice on an exception. One of another kind is its process's own.
fn advise_by_exception(says: &[u8]) -> &'static str {
    find_advice_on_exception(says)
        .unwrap_or("look at its traceback; errors of other ranks after it may only follow from it")
}

/// `, as did 3 other ranks`: a launcher's first one is first by chance.
pub(in crate::stages::check) fn describe_others_alike(ranks: usize) -> String {
    match ranks {
        0 | 1 => String::new(),
        _ => format!(", as did {}", number_and_noun(ranks - 1, "other rank")),
    }
}

/// Quotes the line of a crash, without what a program printed in front of the report.
fn quote_crash(failure: &ReportedFailure) -> String {
    if let Some(report) = find_crash_report(&failure.line.text) {
        return quote_text(report);
    }
    let quoted = failure.line.quote();
    // mpirun's tag: the rank is in the sentence.
    match quoted.split_once("]<stderr>:") {
        Some((_, text)) if quoted.starts_with('[') => text.to_owned(),
        _ => quoted,
    }
}

/// Returns the kind of a failure of a host or a GPU, its sentence and the advice.
fn describe_hardware_failure(failure: &ReportedFailure) -> (Kind, String, &'static str) {
    match failure.what {
        FailureCause::Gpu(xid) => (
            Kind::GpuFailed,
            format!(
                "the driver reports Xid {xid} of GPU {}: {}",
                quote_text(&failure.says),
                failure.line.quote()
            ),
            "take its host out of the job, boot it or reset the GPU, and test it (dcgmi diag) before it is used \
             again; https://docs.nvidia.com/deploy/xid-errors explains the numbers",
        ),
        _ if names_ray_node(&failure.line.text) => (
            Kind::RankKilled,
            match &failure.host {
                Some(host) => format!(
                    "Ray marked the node {} as dead: it missed too many heartbeats",
                    quote_text(host)
                ),
                None if memchr::memmem::find(&failure.line.text, b"marked dead").is_some() => {
                    "Ray marked a node as dead: it missed too many heartbeats".to_owned()
                }
                None => format!(
                    "a node of the job was {}, as Ray reports",
                    quote_text(&failure.says)
                ),
            },
            "find out how that node ended: whether it was taken away (preempted, drained), failed, or lost its network; \
             raylet.out there and its kernel log have more",
        ),
        _ => (
            Kind::RankKilled,
            match &failure.host {
                Some(host) if !failure.says.is_empty() => format!(
                    "Slurm could not start a task on host {}: {}",
                    quote_text(host),
                    quote_text(&failure.says)
                ),
                Some(host) => format!(
                    "the host {} failed, as the scheduler reports",
                    quote_text(host)
                ),
                None => "a host failed, as the scheduler reports".to_owned(),
            },
            "look at the scheduler's reason (scontrol show node) and at the kernel log of the host, and take it out \
             of the next job",
        ),
    }
}

/// True for the exception of another process, which Ray relays and names.
fn is_of_ray_task(says: &[u8]) -> bool {
    memchr::memmem::find(says, b"RayTaskError(").is_some()
}

/// True for Ray's words for a node that is gone.
fn names_ray_node(line: &[u8]) -> bool {
    let words = [&b"The node with "[..], b"the actor's node was "];
    words
        .iter()
        .any(|words| memchr::memmem::find(line, words).is_some())
}

/// Returns what the kernel of an exception asserts, or nothing.
fn describe_assertion(failure: &ReportedFailure) -> String {
    match &failure.inside {
        Some(assertion) => format!("; the kernel's assertion: {}", quote_text(assertion)),
        None => String::new(),
    }
}

const CRASH_IN_NCCL_ADVICE: &str = "search NVIDIA/nccl's issues for the function with NCCL's version, and try the newest NCCL; two NCCL libraries in one process (ldd, LD_PRELOAD) or memory that the program overwrote can also cause this crash";

/// Returns the kind of a failure, its sentence and the advice.
pub(in crate::stages::check) fn describe_failure(
    failure: &ReportedFailure,
    who: &str,
) -> (Kind, String, &'static str) {
    match failure.what {
        FailureCause::Exception => (
            Kind::RankException,
            format!(
                "{who} raised {}{}{}",
                quote_text(failure.says.trim_ascii()),
                find_gpu_error(&failure.says)
                    .map_or(String::new(), |known| format!(": {}", known.means)),
                describe_assertion(failure)
            ),
            advise_by_exception(&failure.says),
        ),
        FailureCause::Repeated if is_of_ray_task(&failure.says) => (
            Kind::RankException,
            format!("{who} failed: {}", quote_text(failure.says.trim_ascii())),
            "look for the first error in its own output: Ray relays the exception, and these lines lack its text",
        ),
        FailureCause::Repeated => (
            Kind::RankException,
            format!(
                "a process failed, as {who} reports: {}",
                quote_text(failure.says.trim_ascii())
            ),
            "look for the first error in the output of the process that failed, which these lines lack",
        ),
        FailureCause::OutOfMemory => describe_lack_of_memory(failure, who),
        FailureCause::Host | FailureCause::Gpu(_) => describe_hardware_failure(failure),
        FailureCause::Signal(9) => (
            Kind::RankKilled,
            format!("{who} was killed by {}", describe_signal(9)),
            "look at the kernel log of its host (dmesg) for the out-of-memory killer, and for \
             another process that may have killed it",
        ),
        FailureCause::Exit(code) => (
            Kind::RankExited,
            format!("{who} ended with exit code {code}"),
            "look at its own output",
        ),
        FailureCause::Unstated => (
            Kind::RankExited,
            format!(
                "{who} failed first, as the launcher reports; the line with its exit code is cut off"
            ),
            "look at its own output",
        ),
        _ => {
            let (says, advice) = describe_crash(failure, who);
            (Kind::RankCrashed, says, advice)
        }
    }
}

/// Returns the kind, the sentence and the advice for a process that a lack of memory ended. Slurm reports its own limit
/// for a step, and the kernel that of the host.
fn describe_lack_of_memory(failure: &ReportedFailure, who: &str) -> (Kind, String, &'static str) {
    let names = |word: &[u8]| memchr::memmem::find(&failure.line.text, word).is_some();
    let kind = Kind::HostOutOfMemory;
    match names(b"srun: error") || names(b"StepId=") || names(b"cgroup") {
        true => (
            kind,
            format!(
                "{who} was killed: it reached the memory limit of its Slurm step, or the host had no memory left"
            ),
            "ask for more memory (--mem, --mem-per-gpu), and look at the job's own buffers and data-loading workers",
        ),
        false => (
            kind,
            format!("{who} was killed: the host was out of memory"),
            "look for other users of the memory of the host, and at the size of the job's own buffers and workers there",
        ),
    }
}

/// Returns the sentence of a crash and the advice.
fn describe_crash(failure: &ReportedFailure, who: &str) -> (String, &'static str) {
    let is_of_watchdog = failure.inside.as_deref() == Some(WATCHDOG_FRAME);
    let inside = match &failure.inside {
        Some(_) if is_of_watchdog => {
            " in PyTorch's watchdog, which ends its process when a call of NCCL failed or \
                                      timed out"
                .to_owned()
        }
        Some(frame) => format!(" in NCCL's {}", quote_text(frame)),
        None => String::new(),
    };
    let crash_advice = match failure.inside {
        Some(_) if is_of_watchdog => {
            "look for the line before it that names the call ('Watchdog caught', 'terminated with exception') in the \
             output of all ranks"
        }
        Some(_) => CRASH_IN_NCCL_ADVICE,
        None => {
            let known = failure.reason.as_deref().and_then(find_advice_on_exception);
            known
                .unwrap_or("look at its own output (a stack may follow the line) and its core file")
        }
    };
    let reason = match &failure.reason {
        Some(reason) => format!(": {}", quote_text(reason)),
        None => String::new(),
    };
    match failure.what {
        FailureCause::Signal(7) => (
            format!("{who} crashed with {}", describe_signal(7)),
            "look at the free space in /dev/shm first (docker run --shm-size): writing to a file there \
             that has no space ends a process so; then at its own output and its core file",
        ),
        FailureCause::Signal(number) => (
            format!("{who} crashed with {}{inside}", describe_signal(number)),
            crash_advice,
        ),
        FailureCause::Crash if !failure.says.is_empty() => (
            match failure.pid.is_some() || failure.rank.is_some() {
                true => format!("{who}: {}", quote_text(&failure.says)),
                false => quote_text(&failure.says),
            },
            "look at the lines before this one for the first process that reports an error",
        ),
        _ => (
            format!("{who} crashed{inside}: {}{reason}", quote_crash(failure)),
            crash_advice,
        ),
    }
}
