//! Failures that others report: launchers, schedulers, shells, the kernel.

use super::{
    EndSignal, EndingLine, FailureCause, LauncherReport, ProcessFailure, ProcessOfLine,
    process_of_line,
};
use crate::machine::{ReportNumber, parse_xid};
use crate::token::{dec_i32, dec_u32, dec_u64};
use memchr::memmem;

/// By its code: shells give 128 and the signal's number, Python the number below zero.
pub(super) fn cause_of_exit_code(code: i32) -> Option<FailureCause> {
    match code {
        0 => None,
        129..=159 => Some(FailureCause::Signal(code - 128)),
        -64..=-1 => Some(FailureCause::Signal(-code)),
        _ => Some(FailureCause::Exit(code)),
    }
}

pub(super) fn report_process_failure<'a>(
    what: FailureCause,
    who: ProcessOfLine<'a>,
) -> Option<EndingLine<'a>> {
    let what = match what {
        FailureCause::Signal(2) => FailureCause::Interrupted,
        what => what,
    };
    Some(EndingLine::Failed(ProcessFailure {
        what,
        who,
        says: b"",
    }))
}

/// `Out of memory: Killed process 81 (python)`, before Linux 5.3 `Kill process 81 (python) score 9`.
pub(super) fn read_kernel_oom_kill<'a>(_: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let behind = behind.strip_prefix(b"ed").unwrap_or(behind);
    let (_, pid) = dec_u64(behind.strip_prefix(b" process ")?).ok()?;
    let pid = Some(pid);
    report_process_failure(
        FailureCause::OutOfMemory,
        ProcessOfLine {
            pid,
            ..ProcessOfLine::default()
        },
    )
}

/// `NVRM: Xid (PCI:0000:dc:00): 79, pid=81, GPU has fallen off the bus.`; other numbers may be the program's fault, or follow.
pub(super) fn read_kernel_xid<'a>(_: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let (address, report) = parse_xid(behind)?;
    let Some(ReportNumber::Xid(xid)) = report.number.filter(|_| report.class.is_gpu_failure())
    else {
        return None;
    };
    Some(EndingLine::Failed(ProcessFailure {
        what: FailureCause::Gpu(xid),
        who: ProcessOfLine::default(),
        says: address,
    }))
}

/// `process rank 1 with PID 0 on node n1 exited on signal 6 (Aborted).`
pub(super) fn read_mpirun_signal<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let (_, number) = dec_i32(behind).ok()?;
    let after = |word: &[u8]| memmem::rfind(before, word).map(|at| &before[at + word.len()..]);
    let rank = after(b"process rank ").and_then(|text| dec_u32(text).ok());
    let pid = after(b" PID ").and_then(|text| dec_u64(text).ok());
    let who = ProcessOfLine {
        rank: rank.map(|(_, rank)| rank),
        pid: pid.map(|(_, pid)| pid).filter(|&pid| pid > 0),
        host: after(b" on node ").map(<[u8]>::trim_ascii),
        ..ProcessOfLine::default()
    };
    report_process_failure(FailureCause::Signal(number), who)
}

/// Open MPI's handler of signals: `[n1:81] Signal: Segmentation fault (11)`.
pub(super) fn read_signal_handler<'a>(
    before: &'a [u8],
    behind: &'a [u8],
) -> Option<EndingLine<'a>> {
    let number = &behind[memchr::memrchr(b'(', behind)? + 1..];
    let (rest, number) = dec_i32(number).ok()?;
    let name = &before[memchr::memrchr(b'[', before)? + 1..];
    let colon = memchr::memrchr(b':', name)?;
    let (end, pid) = dec_u64(&name[colon + 1..]).ok()?;
    let who = ProcessOfLine {
        pid: Some(pid),
        host: Some(&name[..colon]),
        ..process_of_line(before)
    };
    let is_whole = end.is_empty() && rest.trim_ascii() == b")";
    is_whole
        .then(|| report_process_failure(FailureCause::Signal(number), who))
        .flatten()
}

/// The same without its label: `Signal: Segmentation fault (11)`.
pub(super) fn read_bare_handler<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let (signal, rest) = EndSignal::parse_words(behind)?;
    let is_whole = before.trim_ascii().is_empty() && rest.starts_with(b" (");
    is_whole
        .then(|| {
            report_process_failure(FailureCause::Signal(signal.number), process_of_line(before))
        })
        .flatten()
}

/// PALS, the launcher of Cray's systems: `n1.lab: rank 2 died from signal 6 and dumped core`, `n1.lab: rank 7 exited with
/// code 1`; `behind` follows `: rank `.
pub(super) fn read_pals<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let (rest, rank) = dec_u32(behind).ok()?;
    let what = match rest.strip_prefix(b" died from signal ") {
        Some(number) => FailureCause::Signal(dec_i32(number).ok()?.1),
        None => cause_of_exit_code(dec_i32(rest.strip_prefix(b" exited with code ")?).ok()?.1)?,
    };
    let host = before.rsplit(|b| b.is_ascii_whitespace()).next()?;
    let who = ProcessOfLine {
        rank: Some(rank),
        host: Some(host).filter(|host| !host.is_empty()),
        ..ProcessOfLine::default()
    };
    report_process_failure(what, who)
}

/// PALS's own process on a host: `n1.lab: shepherd died from signal 9`.
pub(super) fn read_pals_helper<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let (_, number) = dec_i32(behind).ok()?;
    let host = before.rsplit(|b| b.is_ascii_whitespace()).next()?;
    let who = ProcessOfLine {
        host: Some(host).filter(|host| !host.is_empty()),
        ..ProcessOfLine::default()
    };
    report_process_failure(FailureCause::Signal(number), who)
}

/// A shell that has no number of the process: `Segmentation fault (core dumped)`, `Killed`, alone on their line.
pub(super) fn read_bare_signal<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let is_kill = before.trim_ascii().is_empty() && behind.trim_ascii().is_empty();
    let begin = before
        .iter()
        .rposition(|b| !b.is_ascii_alphabetic() && *b != b' ');
    let words = &before[begin.map_or(0, |at| at + 1)..];
    let signal = EndSignal::parse_words(words.trim_ascii_start());
    let number = match signal.filter(|(_, rest)| rest.is_empty()) {
        Some((signal, _)) => signal.number,
        None if is_kill => 9,
        None => return None,
    };
    report_process_failure(FailureCause::Signal(number), process_of_line(before))
}

/// systemd-coredump: `Process 81 (python3) of user 1000 dumped core.`, or `... terminated abnormally with signal 11/SEGV`.
pub(super) fn read_coredump<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let at = memmem::rfind(before, b"Process ")? + b"Process ".len();
    let (rest, pid) = dec_u64(&before[at..]).ok()?;
    memmem::find(rest, b") of user ").filter(|_| rest.starts_with(b" ("))?;
    let what = dec_i32(behind).map_or(FailureCause::Crash, |(_, number)| {
        FailureCause::Signal(number)
    });
    let who = ProcessOfLine {
        pid: Some(pid),
        ..ProcessOfLine::default()
    };
    report_process_failure(what, who)
}

/// torch.multiprocessing: `process 3 terminated with signal SIGSEGV`, with the rank on the host.
pub(super) fn read_spawned<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let at = memmem::rfind(before, b"process ")? + b"process ".len();
    let (rest, local_rank) = dec_u32(&before[at..]).ok()?;
    let (signal, _) = EndSignal::parse_name(behind)?;
    let who = ProcessOfLine {
        local_rank: Some(local_rank),
        ..ProcessOfLine::default()
    };
    rest.is_empty()
        .then(|| report_process_failure(FailureCause::Signal(signal.number), who))
        .flatten()
}

/// vLLM: `Worker VllmWorkerProcess pid 81 died, exit code: -9`.
pub(super) fn read_died_worker<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let at = memmem::rfind(before, b" pid ")? + b" pid ".len();
    let (_, pid) = dec_u64(&before[at..]).ok()?;
    let who = ProcessOfLine {
        pid: Some(pid),
        ..ProcessOfLine::default()
    };
    report_process_failure(cause_of_exit_code(dec_i32(behind).ok()?.1)?, who)
}

/// SGLang: `Child process unexpectedly failed with an exit code 11. pid=81`, later `with exitcode=11. pid=81`: the status
/// that `waitpid` gives, not an exit code (`sigchld_handler` of `engine.py`).
pub(super) fn read_sglang_child<'a>(_: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let status = behind
        .strip_prefix(b"an exit code ")
        .or_else(|| behind.strip_prefix(b"exitcode="))?;
    let (rest, status) = dec_i32(status).ok()?;
    let what = match status & 0x7f {
        0 => cause_of_exit_code(status >> 8)?,
        signal => FailureCause::Signal(signal),
    };
    let who = ProcessOfLine {
        pid: Some(dec_u64(rest.strip_prefix(b". pid=")?).ok()?.1),
        ..ProcessOfLine::default()
    };
    report_process_failure(what, who)
}

/// kubectl: `command terminated with exit code 137`, of the process that it began in a container.
pub(super) fn read_remote_command<'a>(_: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let (rest, code) = dec_i32(behind).ok()?;
    rest.trim_ascii()
        .is_empty()
        .then(|| report_process_failure(cause_of_exit_code(code)?, ProcessOfLine::default()))
        .flatten()
}

/// vLLM's engine: `Worker proc VllmWorker-1 died unexpectedly, shutting down executor.`, `RayWorkerProc rank=[3] died ...`.
pub(super) fn read_vllm_worker<'a>(before: &'a [u8], _: &'a [u8]) -> Option<EndingLine<'a>> {
    let name = before.trim_ascii_end().strip_suffix(b"]").unwrap_or(before);
    let number = name.len() - name.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    Some(EndingLine::Failed(ProcessFailure {
        what: FailureCause::Crash,
        who: ProcessOfLine {
            rank: dec_u32(&name[number..]).ok().map(|(_, rank)| rank),
            ..ProcessOfLine::default()
        },
        says: b"a worker of vLLM's ended: it raised an exception, crashed, or was killed, as by the out-of-memory killer",
    }))
}

/// UCX's handler of signals: `[n1:81:0:99] Caught signal 11 (Segmentation fault: ...)`, of a host, a process, a
/// number and a thread, which may be cut off.
pub(super) fn read_ucx_signal<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let (rest, number) = dec_i32(behind).ok()?;
    let mut who = process_of_line(before);
    if let Some(name) = before.strip_suffix(b"] ") {
        let name = &name[memchr::memrchr(b'[', name)? + 1..];
        let colon = memchr::memchr(b':', name)?;
        let (_, pid) = dec_u64(&name[colon + 1..]).ok()?;
        (who.pid, who.host) = (Some(pid), Some(&name[..colon]));
    }
    let is_whole =
        rest.starts_with(b" (") && before.last().is_none_or(|last| b" \t".contains(last));
    is_whole
        .then(|| report_process_failure(FailureCause::Signal(number), who))
        .flatten()
}

/// A crash with a signal that gdb or Abseil's handler names: `SIGSEGV, Segmentation fault.`, `SIGSEGV received at time=`.
pub(super) fn read_named_signal<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let (signal, rest) = EndSignal::parse_name(behind).filter(|(signal, _)| signal.is_crash())?;
    let is_report = rest.starts_with(b", ") || rest.starts_with(b" received at time=");
    let what = FailureCause::Signal(signal.number);
    is_report
        .then(|| report_process_failure(what, process_of_line(before)))
        .flatten()
}

/// gdb on a core file: `Program terminated with signal SIGSEGV, Segmentation fault.`, `signal 11, ...` in old versions.
pub(super) fn read_core_signal<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let number = match behind.strip_prefix(b"SIG") {
        Some(name) => EndSignal::parse_name(name)?.0.number,
        None => dec_i32(behind).ok()?.1,
    };
    report_process_failure(FailureCause::Signal(number), process_of_line(before))
}

/// Programs without which a launcher's script starts no process.
const START_PROGRAMS: [&[u8]; 11] = [
    b"kubectl",
    b"orted",
    b"prted",
    b"prte",
    b"ssh",
    b"rsh",
    b"srun",
    b"mpirun",
    b"mpiexec",
    b"torchrun",
    b"hydra_pmi_proxy",
];

/// A shell: `/etc/mpi/kubexec.sh: 11: /opt/kube/kubectl: not found`, `start.sh: line 7: torchrun: command not found`.
pub(super) fn read_missing_program<'a>(
    before: &'a [u8],
    behind: &'a [u8],
) -> Option<EndingLine<'a>> {
    let (script, program) = before.split_at(memmem::rfind(before, b": ")?);
    let name = program[2..].rsplit(|&b| b == b'/').next()?;
    let number = &script[memmem::rfind(script, b": ")? + 2..];
    let number = number.strip_prefix(b"line ").unwrap_or(number);
    let is_shell = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
    let is_whole = behind.trim_ascii().is_empty();
    (is_shell && is_whole && START_PROGRAMS.contains(&name)).then_some(EndingLine::Failed(
        ProcessFailure {
            what: FailureCause::Crash,
            who: ProcessOfLine::default(),
            says: b"a script did not find the program with which it starts processes (its line names both)",
        },
    ))
}

/// glog's handler of signals: `*** SIGTERM (@0x51) received by PID 81 (TID 0x7f00aa00) from PID 80 ***`.
pub(super) fn read_glog_signal<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let (signal, rest) = EndSignal::parse_name(behind)?;
    let number = b" received by PID ";
    let at = memmem::find(rest.strip_prefix(b" (@")?, number)? + b" (@".len() + number.len();
    let who = ProcessOfLine {
        pid: Some(dec_u64(&rest[at..]).ok()?.1),
        ..process_of_line(before)
    };
    report_process_failure(FailureCause::Signal(signal.number), who)
}

/// mpirun's last word, which names no process.
pub(super) fn read_mpirun_abort<'a>(_: &'a [u8], _: &'a [u8]) -> Option<EndingLine<'a>> {
    Some(EndingLine::Failed(ProcessFailure {
        what: FailureCause::Crash,
        who: ProcessOfLine::default(),
        says: b"a process ended with an error, and mpirun ended the job; its line does not name the process",
    }))
}

/// A line of MPICH's block; they begin with `=`.
pub(super) fn read_hydra<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let (_, number) = dec_i32(behind).ok()?;
    if !before.trim_ascii().starts_with(b"=") {
        return None;
    }
    let what = match number {
        9 | 15 => FailureCause::Signal(number),
        _ => cause_of_exit_code(number)?,
    };
    report_process_failure(what, ProcessOfLine::default())
}

/// Open MPI: `  Process name: [[59473,1],2]`, before the line with the exit code; since version 5
/// `[prterun-n1-81@1,2]`.
pub(super) fn read_process_name<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let name = &behind[..memchr::memrchr(b']', behind)?];
    let comma = memchr::memrchr(b',', name)?;
    let (rest, rank) = dec_u32(&name[comma + 1..]).ok()?;
    let rank = Some(rank).filter(|_| rest.is_empty() && before.trim_ascii().is_empty());
    Some(EndingLine::Part(LauncherReport::Rank(ProcessOfLine {
        rank: Some(rank?),
        ..ProcessOfLine::default()
    })))
}

pub(super) fn read_mpirun_exit_code<'a>(
    before: &'a [u8],
    behind: &'a [u8],
) -> Option<EndingLine<'a>> {
    let what = cause_of_exit_code(dec_i32(behind.trim_ascii_start()).ok()?.1)?;
    before
        .trim_ascii()
        .is_empty()
        .then(|| report_process_failure(what, ProcessOfLine::default()))
        .flatten()
}

/// Paddle's launcher: `Container rank 0 status failed cmd [...] code 1 log log/workerlog.0`.
pub(super) fn read_paddle<'a>(_: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let (rest, rank) = dec_u32(behind).ok()?;
    let rest = rest.strip_prefix(b" status failed ")?;
    let code = &rest[memmem::rfind(rest, b" code ")? + b" code ".len()..];
    let who = ProcessOfLine {
        rank: Some(rank),
        ..ProcessOfLine::default()
    };
    report_process_failure(cause_of_exit_code(dec_i32(code).ok()?.1)?, who)
}

/// Paddle's older launcher: `ABORT!!! Out of all 4 trainers, the trainer process with rank=[0, 3] was aborted.`
pub(super) fn read_paddle_abort<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    memmem::find(before, b"ABORT!!! Out of all ")?;
    Some(EndingLine::Failed(ProcessFailure {
        what: FailureCause::Crash,
        who: ProcessOfLine {
            rank: Some(dec_u32(behind).ok()?.1),
            ..ProcessOfLine::default()
        },
        says: b"Paddle's launcher reports that it was aborted; the line has all such ranks, and their logs the reason",
    }))
}

/// `Main process received SIGINT, exiting`, of DeepSpeed's launcher.
pub(super) fn read_deepspeed_signal<'a>(_: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let what = match behind.split(|&b| b == b',').next()? {
        b"INT" => FailureCause::Interrupted,
        b"TERM" => FailureCause::Cancelled,
        _ => return None,
    };
    report_process_failure(what, ProcessOfLine::default())
}

/// Lightning: `[rank: 3] Child process with PID 81 terminated with code 1.`
pub(super) fn read_lightning_child<'a>(
    before: &'a [u8],
    behind: &'a [u8],
) -> Option<EndingLine<'a>> {
    let number = |word: &[u8]| {
        let at = memmem::rfind(before, word)? + word.len();
        Some(dec_u64(&before[at..]).ok()?.1)
    };
    let who = ProcessOfLine {
        pid: Some(number(b"Child process with PID ")?),
        rank: number(b"[rank: ").and_then(|rank| u32::try_from(rank).ok()),
        ..ProcessOfLine::default()
    };
    report_process_failure(cause_of_exit_code(dec_i32(behind).ok()?.1)?, who)
}

pub(super) fn read_deepspeed<'a>(_: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    report_process_failure(
        cause_of_exit_code(dec_i32(behind).ok()?.1)?,
        ProcessOfLine::default(),
    )
}

/// bash: `train.sh: line 7:    81 Killed                  python train.py`
pub(super) fn read_shell<'a>(_: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let (rest, _) = dec_u32(behind).ok()?;
    let rest = rest.strip_prefix(b": ")?.trim_ascii_start();
    let (rest, pid) = dec_u64(rest).ok()?;
    let (signal, rest) = EndSignal::parse_words(rest.strip_prefix(b" ")?)?;
    if !rest.starts_with(b"  ") {
        return None;
    }
    let pid = Some(pid);
    report_process_failure(
        FailureCause::Signal(signal.number),
        ProcessOfLine {
            pid,
            ..ProcessOfLine::default()
        },
    )
}
