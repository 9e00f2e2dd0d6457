//! The job's processes on this host, and which of them no longer run.
//!
//! A rank that stops after it has enqueued all calls of its step leaves no trace in the log: the others have
//! made the same calls. If the job runs on this host, the kernel shows it, in Linux' `/proc` (proc(5)).

use super::CollectiveCounts;
use crate::error::phrases::count_phrase;
use crate::members::SpeakerProcess;
use crate::members::comm_id::CommId;
use crate::stages::check::CheckSummary;
use crate::stages::check::finding::{About, Confidence, Finding, Kind, Severity};
use crate::stages::watch::limits::MAX_NAMED_PROCESSES;
use std::collections::BTreeSet;
use std::fs;

/// A process's state in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProcessState {
    Runs,
    /// By a signal: SIGSTOP, or Ctrl-Z.
    Stopped,
    /// By a debugger.
    Traced,
    Ended,
}

/// One of the job's processes, and its rank in its largest communicator.
struct HostProcessSeat<'a> {
    rank: u32,
    comm_id: &'a CommId,
    host: &'a [u8],
    pid: u64,
    state: ProcessState,
}

/// Adds findings on the processes of `ranks` on this host. They come first: the kernel's state of a process is
/// surer than conclusions from its calls.
pub(super) fn add_process_findings(ranks: &CollectiveCounts, findings: &mut Vec<Finding>) {
    // Without /proc, no process is known to have ended.
    if !matches!(
        process_state(std::process::id().into()),
        Some(ProcessState::Runs)
    ) {
        return;
    }
    let host = rustix::system::uname();
    let state = |pid| match process_state(pid)? {
        ProcessState::Ended => Some(ProcessState::Ended),
        now => runs_rank(pid).map(|is| if is { now } else { ProcessState::Ended }),
    };
    let shown = judge_processes(&processes_on_host(host.nodename().to_bytes(), ranks, state));
    let is_note = |finding: &Finding| finding.severity == Severity::Note;
    let (notes, errors) = shown.into_iter().partition(is_note);
    findings.splice(0..0, errors);
    findings.extend::<Vec<_>>(notes);
}

/// Adds the errors on processes that a stall's check found, to be reported again at the end of the pipe: by
/// then the processes have ended.
pub(super) fn keep_process_findings(stalled: CheckSummary, findings: &mut Vec<Finding>) {
    let of_processes =
        |finding: &Finding| matches!(finding.kind, Kind::ProcessStopped | Kind::ProcessEnded);
    let kept = stalled.findings.into_iter().filter(of_processes);
    findings.splice(0..0, kept);
}

/// Returns the processes of `ranks` on the host `host`.
fn processes_on_host<'a>(
    host: &[u8],
    ranks: &'a CollectiveCounts,
    state: impl Fn(u64) -> Option<ProcessState>,
) -> Vec<HostProcessSeat<'a>> {
    let mut seen = BTreeSet::new();
    let each = ranks.largest_first().into_iter();
    let seats = each.flat_map(|(id, of)| of.processes().map(move |(rank, own)| (id, rank, own)));
    let own = seats.filter_map(|(comm_id, rank, SpeakerProcess { host: its, pid })| {
        let pid = (*pid).filter(|pid| is_same_host(host, its) && seen.insert(*pid))?;
        let state = state(pid)?;
        Some(HostProcessSeat {
            rank,
            comm_id,
            host: its,
            pid,
            state,
        })
    });
    own.collect()
}

/// NCCL prints a host's name up to its first dot (getHostName in misc/utils.cc, 2.18 to 2.28).
fn is_same_host(host: &[u8], its: &[u8]) -> bool {
    let short = |name: &[u8]| name.split(|&b| b == b'.').next().map(<[u8]>::to_vec);
    !its.is_empty() && short(host) == short(its)
}

/// Returns the state of a process of this host; `None` if it cannot be read.
fn process_state(pid: u64) -> Option<ProcessState> {
    let stat = match fs::read(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Some(ProcessState::Ended),
        Err(_) => return None,
    };
    // The program's name is in brackets and may contain brackets.
    let name = stat.iter().rposition(|&b| b == b')')?;
    Some(match stat.get(name + 2)? {
        b'T' => ProcessState::Stopped,
        b't' => ProcessState::Traced,
        b'Z' | b'X' | b'x' => ProcessState::Ended,
        _ => ProcessState::Runs,
    })
}

/// True if a process has NCCL, RCCL or a GPU's driver in its memory. Otherwise its number was reused, or the log
/// is of another host of this name. `None` if its memory map cannot be read.
fn runs_rank(pid: u64) -> Option<bool> {
    let maps = fs::read(format!("/proc/{pid}/maps")).ok()?;
    let has = |name: &str| memchr::memmem::find(&maps, name.as_bytes()).is_some();
    Some(["nccl", "rccl", "libcuda", "libhsa"].into_iter().any(has))
}

/// Returns the findings on processes of this host.
fn judge_processes(own: &[HostProcessSeat<'_>]) -> Vec<Finding> {
    let in_state = |state| own.iter().filter(move |own| own.state == state);
    let ended = in_state(ProcessState::Ended).count();
    if ended == own.len() {
        return find_all_ended(own).into_iter().collect();
    }
    let others = own.len() - ended;
    let stopped = in_state(ProcessState::Stopped)
        .map(|own| own.stopped_finding("is stopped (SIGSTOP or Ctrl-Z)"));
    let traced =
        in_state(ProcessState::Traced).map(|own| own.stopped_finding("is held by a debugger"));
    let ended = in_state(ProcessState::Ended).map(|own| own.ended_finding(others));
    stopped
        .chain(traced)
        .chain(ended)
        .take(MAX_NAMED_PROCESSES)
        .collect()
}

/// The kind of the finding that no process is left, as when an old log is followed.
pub const ALL_ENDED: Kind = Kind::ProcessesEnded;

fn find_all_ended(own: &[HostProcessSeat<'_>]) -> Option<Finding> {
    let many = count_phrase(own.len() as u64, "rank");
    let says = format!("none of the {many} of this log on this host runs any more");
    own.first().map(|_| Finding {
        why: "/proc does not have them; a job in another container has other numbers there".into(),
        ..Finding::of_kind(ALL_ENDED, Confidence::Medium, says)
    })
}

impl HostProcessSeat<'_> {
    fn build_finding(&self, kind: Kind, does: &str) -> Finding {
        let HostProcessSeat {
            rank,
            comm_id,
            host,
            pid,
            ..
        } = self;
        let name = String::from_utf8_lossy(host);
        let says = format!("rank {rank} of communicator {comm_id} ({name}:{pid}) {does}");
        Finding {
            about: About {
                host: Some((*host).into()),
                pid: Some(*pid),
                rank: Some(*rank),
                comm_id: Some(comm_id.to_string()),
                ..About::default()
            },
            why: "/proc of this host shows it at the stall".to_owned(),
            ..Finding::of_kind(kind, Confidence::High, says)
        }
    }

    fn stopped_finding(&self, how: &str) -> Finding {
        Finding {
            advice: format!(
                "the other ranks wait for it; if nobody stopped it on purpose: kill -CONT {}",
                self.pid
            ),
            ..self.build_finding(Kind::ProcessStopped, how)
        }
    }

    fn ended_finding(&self, others: usize) -> Finding {
        let others = count_phrase(others as u64, "other rank");
        let does = format!("has ended, and {others} of the job on this host did not");
        Finding {
            advice: "look at its own output and exit code, and at dmesg (out of memory)".to_owned(),
            ..self.build_finding(Kind::ProcessEnded, &does)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::CommIdentity;
    use crate::stages::watch::calls::WatchedMemberCalls;
    use crate::stages::watch::growing_log::MemberNews;

    fn ranks(hosts: &[&str]) -> CollectiveCounts {
        let mut ranks = CollectiveCounts::default();
        for (id, nranks) in [(1, 2), (2, hosts.len() as u32)] {
            for (rank, host) in (0..nranks).zip(hosts) {
                let process = SpeakerProcess {
                    host: host.as_bytes().into(),
                    pid: Some(100 + u64::from(rank)),
                };
                let identity = CommIdentity {
                    rank,
                    nranks,
                    comm_id: Some(CommId::from_printed(id)),
                };
                ranks.add_calls(MemberNews {
                    process,
                    identity: Some(identity),
                    calls: WatchedMemberCalls::default(),
                });
            }
        }
        ranks
    }

    fn told(hosts: &[&str], states: &[(u64, ProcessState)]) -> Vec<(Kind, Option<u32>)> {
        let ranks = ranks(hosts);
        let state = |pid| {
            let known = states.iter().find(|(own, _)| *own == pid);
            Some(known.map_or(ProcessState::Runs, |(_, state)| *state))
        };
        let findings = judge_processes(&processes_on_host(b"node1.cluster", &ranks, state));
        findings.iter().map(|f| (f.kind, f.about.rank)).collect()
    }

    #[test]
    fn who_does_not_run_is_named_once() {
        let hosts = ["node1", "node1", "node2", "node1"];
        assert_eq!(told(&hosts, &[]), []);
        let states = [
            (100, ProcessState::Ended),
            (101, ProcessState::Stopped),
            (102, ProcessState::Stopped),
            (103, ProcessState::Traced),
        ];
        let expected = [
            (Kind::ProcessStopped, Some(1)),
            (Kind::ProcessStopped, Some(3)),
            (Kind::ProcessEnded, Some(0)),
        ];
        // Processes of another host are unknown.
        assert_eq!(told(&hosts, &states), expected);
        assert_eq!(told(&["node2", "node2"], &states), []);
        // An old log.
        let all = [100, 101].map(|pid| (pid, ProcessState::Ended));
        assert_eq!(told(&["node1", "node1"], &all), [(ALL_ENDED, None)]);
    }

    #[test]
    fn the_kernel_tells_what_a_process_does() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = child.id();
        let own = rustix::process::Pid::from_child(&child);
        let send = |signal| rustix::process::kill_process(own, signal).unwrap();
        let becomes = |wanted| {
            let now = || process_state(pid.into()) == Some(wanted);
            let mut tries = 0..2000;
            tries.any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(5));
                now()
            })
        };
        assert!(becomes(ProcessState::Runs));
        send(rustix::process::Signal::STOP);
        assert!(becomes(ProcessState::Stopped));
        send(rustix::process::Signal::KILL);
        // It is a zombie until it is waited for.
        assert!(becomes(ProcessState::Ended));
        child.wait().unwrap();
        assert!(becomes(ProcessState::Ended));
    }
}
