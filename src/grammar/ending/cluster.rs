//! Failures that the manager of a cluster's jobs reports: Slurm, Ray.

use super::launcher::{cause_of_exit_code, report_process_failure};
use super::{EndSignal, EndingLine, FailureCause, ProcessFailure, ProcessOfLine, process_of_line};
use crate::token::{dec_i32, dec_u32, dec_u64};
use memchr::memmem;

pub(super) fn read_srun<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    // The answer to another command begins where that command's text ends.
    if before.last().is_some_and(|last| !b" \t:]>|".contains(last)) {
        return None;
    }
    if let Some(host) = behind.strip_prefix(b"Node failure on ") {
        let who = ProcessOfLine {
            host: Some(host.trim_ascii()),
            ..ProcessOfLine::default()
        };
        return report_process_failure(FailureCause::Host, who);
    }
    // `Task launch for 7.0 failed on node n1: Job credential expired`
    if behind.starts_with(b"Task launch for ") {
        let words = b" failed on node ";
        let place = &behind[memmem::find(behind, words)? + words.len()..];
        let colon = memmem::find(place, b": ")?;
        return Some(EndingLine::Failed(ProcessFailure {
            what: FailureCause::Host,
            who: ProcessOfLine {
                host: Some(&place[..colon]),
                ..ProcessOfLine::default()
            },
            says: place[colon + 2..].trim_ascii(),
        }));
    }
    // `n1: tasks 1-7: Exited with exit code 3`
    let at = memmem::find(behind, b": task")?;
    let rest = &behind[at + b": task".len()..];
    let colon = memmem::find(rest, b": ")?;
    let what = &rest[colon + 2..];
    let one = rest[..colon].strip_prefix(b" ").map(dec_u32);
    let who = ProcessOfLine {
        rank: one
            .and_then(|one| one.ok())
            .filter(|(rest, _)| rest.is_empty())
            .map(|(_, n)| n),
        host: Some(&behind[..at]),
        ..ProcessOfLine::default()
    };
    if let Some(number) = what.strip_prefix(b"Exited with exit code ") {
        return report_process_failure(cause_of_exit_code(dec_i32(number).ok()?.1)?, who);
    }
    let what = match what.starts_with(b"Out Of Memory") {
        true => FailureCause::OutOfMemory,
        false => FailureCause::Signal(EndSignal::parse_words(what)?.0.number),
    };
    report_process_failure(what, who)
}

/// `*** STEP 7.0 ON n1 CANCELLED AT 2026-02-03T04:05:06 DUE TO TIME LIMIT ***`
pub(super) fn read_slurm_cancel<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    let begin = memmem::rfind(before, b"*** ")?;
    // The step ran on this host and others; which of them failed is on another line.
    if memmem::find(behind, b"DUE TO NODE FAILURE").is_some() {
        return report_process_failure(FailureCause::Host, ProcessOfLine::default());
    }
    let on = memmem::find(&before[begin..], b" ON ").map(|at| &before[begin + at + 4..]);
    let end = memmem::find(behind, b" ***").unwrap_or(behind.len());
    Some(EndingLine::Failed(ProcessFailure {
        what: FailureCause::Cancelled,
        who: ProcessOfLine {
            host: on.map(<[u8]>::trim_ascii),
            ..ProcessOfLine::default()
        },
        says: &behind[..end],
    }))
}

pub(super) fn read_slurm_oom<'a>(_: &'a [u8], _: &'a [u8]) -> Option<EndingLine<'a>> {
    report_process_failure(FailureCause::OutOfMemory, ProcessOfLine::default())
}

/// Ray's report of a worker that is gone, which names three possible reasons.
pub(super) fn read_ray_exit<'a>(before: &'a [u8], _: &'a [u8]) -> Option<EndingLine<'a>> {
    let pid =
        memmem::rfind(before, b"Worker PID: ").map(|at| &before[at + b"Worker PID: ".len()..]);
    let words = b"Worker IP address: ";
    let host = memmem::rfind(before, words).map(|at| &before[at + words.len()..]);
    Some(EndingLine::Failed(ProcessFailure {
        what: FailureCause::Crash,
        who: ProcessOfLine {
            pid: pid.and_then(|text| dec_u64(text).ok()).map(|(_, pid)| pid),
            host: host.and_then(|text| text.split(|&b| b == b' ').next()),
            ..ProcessOfLine::default()
        },
        says: b"a worker of Ray's ended: it crashed, or was killed, as by the out-of-memory killer",
    }))
}

/// Ray: `The node with node id: 8f20 and ip: 10.0.0.1 has been marked dead because the detector has missed ...`, with
/// `address: 10.0.0.1` since 2.0.
pub(super) fn read_ray_dead_node<'a>(before: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    memmem::find(before, b"The node with ")?;
    let after = |words: &[u8]| memmem::find(before, words).map(|at| &before[at + words.len()..]);
    let host = after(b" and ip: ").or_else(|| after(b" and address: "));
    Some(EndingLine::Failed(ProcessFailure {
        what: FailureCause::Host,
        who: ProcessOfLine {
            host: host.and_then(|text| text.split(|&b| b == b' ').next()),
            ..ProcessOfLine::default()
        },
        says: behind,
    }))
}

/// Ray: `the actor's node was preempted: REASON`, or `terminated unexpectedly: health check failed ...`.
pub(super) fn read_ray_ended_node<'a>(_: &'a [u8], behind: &'a [u8]) -> Option<EndingLine<'a>> {
    Some(EndingLine::Failed(ProcessFailure {
        what: FailureCause::Host,
        who: ProcessOfLine::default(),
        says: behind.trim_ascii_end(),
    }))
}

/// Ray: `The actor died because its node has died. Node Id: b157`; the reason may follow.
pub(super) fn read_ray_actor<'a>(before: &'a [u8], _: &'a [u8]) -> Option<EndingLine<'a>> {
    memmem::find(before, b"he actor ")?;
    Some(EndingLine::Failed(ProcessFailure {
        what: FailureCause::Crash,
        who: ProcessOfLine::default(),
        says: b"an actor of Ray's ended because its node is dead, as Ray reports",
    }))
}

/// `ray.exceptions.RayTaskError(ValueError): ray::Worker.run() (pid=81, ip=10.0.0.1)`: Ray relays the exception of another
/// process; the traceback follows.
pub(super) fn read_ray_task_error<'a>(
    before: &'a [u8],
    behind: &'a [u8],
) -> Option<EndingLine<'a>> {
    let module = b"ray.exceptions.";
    let place = &behind[memmem::find(behind, b"): ray::")?..];
    let place = &place[memmem::find(place, b"(pid=")?..];
    Some(EndingLine::Failed(ProcessFailure {
        what: FailureCause::Repeated,
        who: process_of_line(place),
        says: match before.ends_with(module) {
            true => module,
            false => b"",
        },
    }))
}
