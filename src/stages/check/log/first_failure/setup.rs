//! Processes that could not set up a process group or pass a barrier: they waited for one that did not come, or
//! did not reach it.

use super::FailureEvidence;
use crate::grammar::ending::{
    FailureCause, MissingClients, SetupFailure, find_relayed_error, find_setup_failure,
    has_nccl_error,
};
use crate::grammar::token::dec_u32;
use crate::stages::check::finding::{About, Confidence, Finding, Kind, Reason, Severity};
use crate::stages::check::log::job_end_lines::ReportedFailure;
use crate::stages::check::log::limits::MAX_SETUP_LINES_SHOWN;
use crate::stages::check::wording::{quote_text, rank_ranges as ranks_named};
use std::collections::BTreeSet;

/// The processes that waited for the id of a communicator, as far as lines name them.
struct CommIdWaiters<'f> {
    /// Each with its rank there and the rank that makes the id.
    all: Vec<(&'f ReportedFailure, u32, u32)>,
    /// The job's ranks that waited.
    ranks: BTreeSet<u32>,
}

impl CommIdWaiters<'_> {
    /// The ranks of the job that did not make an id. A group's ranks rise with those of the job: where
    /// a rank has one number in both, so has each below it.
    fn ranks_without_id(&self) -> BTreeSet<u32> {
        let same = self.all.iter().filter(|(f, rank, _)| f.rank == Some(*rank));
        let missing: BTreeSet<u32> = same.map(|&(_, _, from)| from).collect();
        // A rank that waited as well may wait for one that did not.
        match missing.is_subset(&self.ranks) {
            true => missing,
            false => missing.difference(&self.ranks).copied().collect(),
        }
    }
}

/// `ranks 1 and 2`, `a process`.
fn describe_waiters(ranks: &BTreeSet<u32>) -> String {
    match (ranks.first(), ranks.len()) {
        (None, _) => "a process".to_owned(),
        (Some(rank), 1) => format!("rank {rank}"),
        _ => format!("ranks {}", ranks_named(ranks)),
    }
}

/// A setup that failed: the kind, the sentence, the rank to look at and the advice.
struct SetupTexts {
    kind: Kind,
    says: String,
    rank: Option<u32>,
    advice: String,
}

impl SetupTexts {
    fn new(says: String, rank: Option<u32>, advice: impl Into<String>) -> SetupTexts {
        SetupTexts {
            kind: Kind::SetupFailed,
            says,
            rank,
            advice: advice.into(),
        }
    }
}

/// How to find out what a process does instead.
const LOOK_AT_OUTPUT: &str =
    "its own output, whether it waits for a download or an input, a stack (py-spy dump)";

/// The lines among `failures` by which a process was not set up, each with the part that failed.
fn setup_failures(
    failures: &[ReportedFailure],
) -> impl Iterator<Item = (&ReportedFailure, SetupFailure<'_>)> {
    let all = failures.iter().filter(|f| f.what.is_of_surroundings());
    all.filter_map(|f| {
        let what = find_setup_failure(&f.says);
        Some((f, what.or_else(|| find_setup_failure(&f.line.text))?))
    })
}

/// The ranks to which others lost their connection, where that is all that the lines report: how such a rank ended is no
/// consequence of it.
pub(super) fn ranks_that_closed(failures: &[ReportedFailure]) -> BTreeSet<u32> {
    let is_told = |(_, what): (&ReportedFailure, SetupFailure<'_>)| !is_consequence(what);
    if setup_failures(failures).any(is_told) {
        return BTreeSet::new();
    }
    let lost = setup_failures(failures).filter_map(|(_, what)| match what {
        SetupFailure::PeerLost { from, .. } => from,
        _ => None,
    });
    lost.collect()
}

impl FailureEvidence<'_> {
    /// The finding on the processes among `failures` that could not set up a process group.
    pub(super) fn find_setup_failure(&self, failures: &[ReportedFailure]) -> Option<Finding> {
        // A program that NCCL gave an error ends, so the others lose their connections to it.
        let is_lost =
            |what| is_consequence(what) || matches!(what, SetupFailure::Id { waited: false, .. });
        let is_explained = failures.iter().any(has_own_nccl_error);
        let all = setup_failures(failures)
            .filter(|&(f, what)| self.is_setup_cause(f, what) && !(is_explained && is_lost(what)));
        let all: Vec<_> = all.collect();
        // A lost connection follows from what others report.
        let telling = all.iter().find(|(_, what)| !is_consequence(*what));
        let &(first, what) = telling.or(all.first())?;
        let shown = all
            .iter()
            .filter(|(_, other)| is_consequence(*other) == is_consequence(what))
            .take(MAX_SETUP_LINES_SHOWN)
            .map(|(f, _)| f.line.to_evidence());
        let texts = match what {
            SetupFailure::Id { waited, .. } => {
                let all = all.iter().filter_map(|&(f, what)| match what {
                    SetupFailure::Id { rank, from, .. } => Some((f, rank, from)),
                    _ => None,
                });
                let all: Vec<_> = all.collect();
                let ranks = all.iter().filter_map(|(f, ..)| f.rank).collect();
                describe_missing_id(&CommIdWaiters { all, ranks }, waited)
            }
            SetupFailure::Peer(time) => {
                let all = all
                    .iter()
                    .filter(|(_, what)| matches!(what, SetupFailure::Peer(_)));
                describe_peer_wait(&all.filter_map(|(f, _)| f.rank).collect(), time)
            }
            SetupFailure::Port {
                port: None,
                is_store,
            } => {
                let port = all.iter().find_map(|(_, what)| match what {
                    SetupFailure::Port { port, .. } => *port,
                    _ => None,
                });
                describe_setup_failure(SetupFailure::Port { port, is_store }, first.rank)
            }
            what => describe_setup_failure(what, first.rank),
        };
        // The process itself is unknown: it may have no line of NCCL, and then a smaller
        // communicator may be taken for that of all ranks.
        Some(Finding {
            about: About::of_rank(texts.rank),
            advice: texts.advice,
            // Other kinds have their own.
            why: match texts.kind {
                Kind::WatchdogTimeout => "the process's own line reports it".to_owned(),
                _ => String::new(),
            },
            evidence: shown.collect(),
            reasons: Vec::from_iter(
                matches!(what, SetupFailure::Id { waited: true, .. }).then_some(Reason::TimeWasUp),
            ),
            ..Finding::of_kind(texts.kind, Confidence::Medium, texts.says)
        })
    }

    /// False for a setup that was tried again and is complete, and for a lost connection that another failure
    /// explains.
    fn is_setup_cause(&self, failure: &ReportedFailure, what: SetupFailure<'_>) -> bool {
        match what {
            // Where a whole job ends at once, its processes also lose the store.
            SetupFailure::Id { waited: false, .. } => !self.ended_together(),
            SetupFailure::Id { .. } | SetupFailure::Clients(_) => true,
            // NCCL and the watchdog report what happens later.
            SetupFailure::StoreLost | SetupFailure::Value => {
                self.watched.is_empty() && self.found.communicators.is_empty()
            }
            _ => self.ends.is_idle_after(failure.line.at),
        }
    }
}

/// The finding on a warning about the store or a port, where nothing else is left of a failure.
pub(super) fn warned_finding(failures: &[ReportedFailure]) -> Option<Finding> {
    let warned = failures.iter().filter(|f| f.what == FailureCause::Warned);
    let mut warned = warned.filter_map(|f| Some((f, find_setup_failure(&f.says)?)));
    let (failure, what) = warned.next()?;
    let texts = describe_setup_failure(what, failure.rank);
    Some(Finding {
        about: About::of_rank(texts.rank),
        advice: texts.advice,
        why: "only a warning reports it, and jobs that end well print such warnings too".to_owned(),
        evidence: vec![failure.line.to_evidence()],
        ..Finding::new(texts.kind, Severity::Warning, Confidence::Low, texts.says)
    })
}

/// True where the text only shows that another process has gone or did not come.
fn is_consequence(what: SetupFailure<'_>) -> bool {
    matches!(
        what,
        SetupFailure::StoreLost | SetupFailure::Value | SetupFailure::PeerLost { .. }
    )
}

/// True for a process that ended with an error of NCCL's that is not about another process.
fn has_own_nccl_error(failure: &ReportedFailure) -> bool {
    let reason = failure.reason.as_deref().unwrap_or_default();
    let is_nccl = |text: &&[u8]| failure.what == FailureCause::Nccl || has_nccl_error(text);
    let told = [&failure.says[..], reason].into_iter().filter(is_nccl);
    told.filter_map(find_relayed_error)
        .any(|error| error.result.is_some() && !error.is_remote_error())
}

/// Describes what a process, of this rank where its line names it, did not get.
fn describe_setup_failure(what: SetupFailure<'_>, rank: Option<u32>) -> SetupTexts {
    let who = rank.map_or("a process".to_owned(), |rank| format!("rank {rank}"));
    let text = |says, advice| SetupTexts::new(says, None, advice);
    match what {
        SetupFailure::Clients(missing) => describe_missing_clients(missing),
        SetupFailure::Store(address) => {
            let at = match address {
                b"" => String::new(),
                address => format!(" at {}", quote_text(address)),
            };
            text(
                format!("{who} could not connect to the job's store{at}"),
                "look at whether rank 0 runs there (MASTER_ADDR, MASTER_PORT), and whether a \
                 firewall is between the hosts"
                    .to_owned(),
            )
        }
        SetupFailure::Port { port, is_store } => {
            let port = port.map_or("its port".to_owned(), |port| format!("port {port}"));
            let (why, option) = match is_store {
                true => (" for the job's store", "MASTER_PORT, --master-port"),
                false => (": the address is in use", "the server's option, mostly --port"),
            };
            text(
                format!("{who} could not listen at {port}{why}"),
                format!(
                    "end the processes of an earlier run, or choose another port ({option}): another process \
                     mostly has it (ss -tlnp)"
                ),
            )
        }
        SetupFailure::Nodes => text(
            "not all nodes joined torchrun's rendezvous before the time was up".to_owned(),
            "look at whether torchrun runs on each node with the same --nnodes, --rdzv-id and \
             --rdzv-endpoint, and whether each node reaches that address"
                .to_owned(),
        ),
        SetupFailure::Mesh(reason) => text(
            format!(
                "Gloo could not connect {who} to the others of a group: {}",
                quote_text(reason.trim_ascii())
            ),
            "set GLOO_SOCKET_IFNAME to the interface on which all hosts reach each other; look at whether a \
             host's own name resolves to 127.0.1.1 (/etc/hosts), and whether another process ended first"
                .to_owned(),
        ),
        SetupFailure::Barrier(list) => describe_late_barrier(list),
        SetupFailure::PeerLost { of, from } => {
            let (peer, look) = match from {
                Some(rank) => (format!("rank {rank}"), format!("look at rank {rank} first: {LOOK_AT_OUTPUT}")),
                None => (
                    "another process".to_owned(),
                    "look for the first failure among the other processes".to_owned(),
                ),
            };
            SetupTexts::new(
                format!("{who} lost its connection to {peer} ({of}), which ended or closed it"),
                from,
                look,
            )
        }
        SetupFailure::Value => text(
            format!("{who} waited at the job's store for another process until the time was up"),
            format!("look at the processes that did not come there: {LOOK_AT_OUTPUT}"),
        ),
        SetupFailure::StoreLost | SetupFailure::Id { .. } | SetupFailure::Peer(_) => text(
            format!("{who} lost the connection to the job's store, or never connected"),
            "look for the first failure where the store runs (MASTER_ADDR, --rdzv-endpoint): rank 0, or \
             torchrun itself"
                .to_owned(),
        ),
    }
}

/// The processes that came to the start of the job or of a process group, and those to look at.
fn describe_missing_clients(missing: MissingClients) -> SetupTexts {
    let MissingClients { came, all, .. } = missing;
    let later = missing.group.filter(|group| *group > 1);
    let place = later.map_or(String::new(), |group| format!("'s process group {group}"));
    if came > all {
        return SetupTexts::new(
            format!("processes joined the job{place} {came} times, and it has {all} of them"),
            None,
            "look at whether each process has a RANK of its own below WORLD_SIZE, and whether processes of an earlier \
             run or attempt use the same store: choose another port (MASTER_PORT)",
        );
    }
    let order = match later {
        Some(_) => "; all must make the same process groups in the same order (new_group)",
        None => "",
    };
    SetupTexts::new(
        format!("only {came} of {all} processes joined the job{place} before the time was up"),
        None,
        format!("look at the processes that did not join: {LOOK_AT_OUTPUT}{order}"),
    )
}

/// A rank that waits for another's part of a call is no culprit; the lines do not name the one that did not come.
fn describe_peer_wait(waiting: &BTreeSet<u32>, time: Option<u32>) -> SetupTexts {
    let who = describe_waiters(waiting);
    let time = time.map_or(String::new(), |ms| format!(" for {ms} ms"));
    SetupTexts {
        kind: Kind::WatchdogTimeout,
        ..SetupTexts::new(
            format!(
                "{who} waited{time} for another process in a call of Gloo, until the time was up"
            ),
            None,
            format!(
                "look at the ranks without such a line: one did not come to this call; {LOOK_AT_OUTPUT}"
            ),
        )
    }
}

fn describe_late_barrier(list: &[u8]) -> SetupTexts {
    let late = list.split(|&b| b == b',').map(<[u8]>::trim_ascii);
    let late = late.filter_map(|rank| Some(dec_u32(rank).ok()?.1));
    let late: BTreeSet<u32> = late.collect();
    let (who, look) = match late.len() {
        0 => (
            "a rank did not reach PyTorch's monitored barrier in time; a line of rank 0 names it"
                .to_owned(),
            "that rank".to_owned(),
        ),
        1 => (
            format!(
                "rank {} did not come to PyTorch's monitored barrier in time",
                ranks_named(&late)
            ),
            "it".to_owned(),
        ),
        _ => (
            format!(
                "ranks {} did not come to PyTorch's monitored barrier in time",
                ranks_named(&late)
            ),
            "them".to_owned(),
        ),
    };
    SetupTexts {
        kind: Kind::WatchdogTimeout,
        ..SetupTexts::new(
            who,
            late.first().copied().filter(|_| late.len() == 1),
            format!("look at {look}: {LOOK_AT_OUTPUT}"),
        )
    }
}

fn describe_missing_id(waiting: &CommIdWaiters<'_>, waited: bool) -> SetupTexts {
    let (who, missing) = (describe_waiters(&waiting.ranks), waiting.ranks_without_id());
    let end = match waited {
        true => "",
        false => ": the connection to the job's store was lost",
    };
    match (missing.first(), waiting.all.first()) {
        (Some(&rank), _) if missing.len() == 1 => SetupTexts::new(
            format!("rank {rank} did not make the id of a communicator that {who} waited for{end}"),
            Some(rank),
            format!("look at rank {rank} first: {LOOK_AT_OUTPUT}"),
        ),
        (_, Some(&(failure, rank, from))) => {
            let job = failure
                .rank
                .and_then(|of| of.checked_add(from)?.checked_sub(rank));
            let job = job.map_or(String::new(), |job| {
                format!(" (rank {job} of the job, if the communicator's ranks are consecutive)")
            });
            SetupTexts::new(
                format!(
                    "{who} waited for the id of a communicator, which its rank {from} did not \
                     make{end}; no line reports which rank of the job that is"
                ),
                None,
                format!("look at rank {from} of that communicator first{job}: {LOOK_AT_OUTPUT}"),
            )
        }
        (_, None) => SetupTexts::new(
            format!("{who} waited for the id of a communicator"),
            None,
            LOOK_AT_OUTPUT,
        ),
    }
}
