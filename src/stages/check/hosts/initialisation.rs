//! Communicators that took long to make: which part of it, and which ranks.
//!
//! NCCL prints `Init timings` since 2.22: the seconds of each part, for each rank. In `bootstrap` and
//! `allgathers` a rank waits for the others, so that a rank which comes late, or is slow in another
//! part, shows as long times of all others there; the ranks that waited least came last.
//!
//! What is slow: more than ten seconds with most of it in one part. Of the jobs in `testdata` and of
//! public logs one took 12.7 seconds, for a rank that came late, and all others less than 5; what
//! people ask about took 55 seconds (nccl#1646) and two and a half minutes (nccl#1156). A rank alone
//! is slow where a part other than waiting took it five times the median of the ranks and more than
//! fifteen seconds: loading the kernels took 12 where five jobs shared a GPU.

use super::odd_hosts::{about, evidence};
use crate::count::spread::Sorted;
use crate::stages::check::finding::{About, Finding, Severity, Sure};
use crate::stages::check::wording::{counted, listed, text};
use crate::stages::communicators::Found;
use crate::stages::communicators::seat::Seat;
use crate::stages::communicators::view::View;
use std::collections::{BTreeMap, BTreeSet};

/// Seconds above which a communicator is slow to make.
const SLOW_S: f64 = 10.0;

/// Seconds above which ranks that start late are more than worth knowing.
const LATE_S: f64 = 60.0;

/// Seconds above which one rank's part is slow.
const RANK_S: f64 = 15.0;

/// So many times the median of the ranks.
const TIMES: f64 = 5.0;

/// The findings: the slowest communicator of each cause, with how many more there are.
pub(crate) fn findings(found: &Found) -> Vec<Finding> {
    let mut worst: BTreeMap<(Severity, Vec<u8>), (f64, Finding, usize)> = BTreeMap::new();
    for view in found.views() {
        let Some((seconds, phase, finding)) = slow(&view) else {
            continue;
        };
        let key = (finding.severity, phase);
        match worst.get_mut(&key) {
            None => {
                worst.insert(key, (seconds, finding, 0));
            }
            Some(known) => {
                known.2 += 1;
                if seconds > known.0 {
                    (known.0, known.1) = (seconds, finding);
                }
            }
        }
    }
    let said = |(_, mut finding, more): (f64, Finding, usize)| {
        if more > 0 {
            finding.says += &format!("; {} too", counted(more, "more communicator"));
        }
        finding
    };
    worst.into_values().map(said).collect()
}

/// A part of an initialisation, from `ncclCommInitRankFunc` and `initTransportsRank` in
/// `src/init.cc`.
struct Phase {
    name: &'static str,
    what: &'static str,
    /// A rank waits in it for others.
    waits: bool,
    advice: &'static str,
}

const LATE_RANKS: &str = "find out which ranks start last and why; look at the interface that \
                          Bootstrap names (NCCL_SOCKET_IFNAME) and at name resolution; with \
                          thousands of ranks use several roots (ncclCommInitRankScalable, NCCL \
                          2.23 or later)";

const COMPARE: &str = "compare with a run that was fast";

const PHASES: [Phase; 8] = [
    Phase {
        name: "kernels",
        what: "loading the kernels",
        waits: false,
        advice: "NCCL's library and the CUDA modules are read and loaded: put them on a fast disk, \
                 and look at CUDA_MODULE_LOADING and at nvidia-persistenced",
    },
    Phase {
        name: "alloc",
        what: "allocating",
        waits: false,
        advice: "look at the GPUs' and the hosts' memory and at nvidia-persistenced",
    },
    Phase {
        name: "bootstrap",
        what: "waiting for the other ranks",
        waits: true,
        advice: LATE_RANKS,
    },
    Phase {
        name: "allgathers",
        what: "exchanging data between ranks",
        waits: true,
        advice: LATE_RANKS,
    },
    Phase {
        name: "topo",
        what: "finding the hardware",
        waits: false,
        advice: "look at nvidia-persistenced, the NICs' drivers and NCCL_TOPO_FILE",
    },
    Phase {
        name: "graphs",
        what: "searching rings and trees",
        waits: false,
        advice: "save the graph and reuse it (NCCL_GRAPH_DUMP_FILE, NCCL_GRAPH_FILE)",
    },
    Phase {
        name: "connections",
        what: "connecting",
        waits: false,
        advice: "look at the network's errors and at NCCL_RUNTIME_CONNECT: since 2.22 ranks connect \
                 when a call first needs it",
    },
    Phase {
        name: "rest",
        what: "the rest",
        waits: false,
        advice: COMPARE,
    },
];

fn known(phase: &[u8]) -> Option<&'static Phase> {
    PHASES.iter().find(|known| known.name.as_bytes() == phase)
}

/// True for a part in which a rank waits for others.
fn is_waiting(phase: &[u8]) -> bool {
    known(phase).is_some_and(|known| known.waits)
}

/// A rank's seconds in a part.
fn of(seat: &Seat<'_>, phase: &[u8]) -> f64 {
    let own = seat.phases().filter(|(name, _)| *name == phase);
    own.map(|(_, seconds)| seconds).sum()
}

/// What is slow about a communicator: its seconds, the part, the finding.
fn slow(view: &View<'_>) -> Option<(f64, Vec<u8>, Finding)> {
    let seats: Vec<Seat<'_>> = view.seats().filter(|s| s.init_s().is_some()).collect();
    let total = |seat: &Seat<'_>| seat.init_s().map_or(0.0, |(s, _)| s);
    let slowest = seats
        .iter()
        .reduce(|a, b| if total(b) > total(a) { b } else { a })?;
    let seconds = total(slowest);
    let phases: BTreeSet<&[u8]> = seats.iter().flat_map(|s| s.phases().map(|p| p.0)).collect();
    // Ranks that are slow by themselves explain what the others wait for.
    for &phase in phases.iter().filter(|phase| !is_waiting(phase)) {
        let usual = Sorted::new(seats.iter().map(|seat| of(seat, phase)));
        let usual = usual.median().unwrap_or(0.0);
        let is = |seat: &&Seat<'_>| {
            let own = of(seat, phase);
            own > RANK_S && own > TIMES * usual
        };
        let odd: Vec<&Seat<'_>> = seats.iter().filter(is).collect();
        if !odd.is_empty() {
            let most = odd.iter().map(|seat| of(seat, phase)).fold(0.0, f64::max);
            let says = format!(
                "{} of {} took {most:.1} s of {seconds:.1} s for {}; the median of the ranks is \
                 {usual:.1} s",
                ranks(&odd),
                name(view),
                words(phase),
            );
            let why = "each rank prints the time of each part";
            let severity = Severity::Warning;
            let other = seats.iter().find(|seat| !is(seat));
            let finding = finding(view, says, severity, phase, &odd, other, why);
            return Some((seconds, phase.to_vec(), finding));
        }
    }
    let (phase, part) = slowest
        .phases()
        .reduce(|a, b| if b.1 > a.1 { b } else { a })?;
    if seconds <= SLOW_S || part <= seconds / 2.0 {
        return None;
    }
    let share = 100.0 * part / seconds;
    let base = format!(
        "{} took {seconds:.1} s to make, {share:.0} % of it {}",
        name(view),
        words(phase)
    );
    let late: Vec<&Seat<'_>> = match is_waiting(phase) {
        true => seats.iter().filter(|s| of(s, phase) < part / 5.0).collect(),
        false => Vec::new(),
    };
    let (says, severity, odd, why) = match late.len() {
        // Most waited for a few.
        1.. if 2 * late.len() <= seats.len() => (
            format!("{base}; {} came last and the others waited", ranks(&late)),
            match seconds > LATE_S {
                true => Severity::Warning,
                false => Severity::Note,
            },
            late,
            "each rank waits there for the others, and the last one waits least",
        ),
        _ => (
            format!("{base} (slowest {})", ranks(&[slowest])),
            Severity::Warning,
            vec![slowest],
            "the rank prints the time of each part",
        ),
    };
    let other = Some(slowest);
    let finding = finding(view, says, severity, phase, &odd, other, why);
    Some((seconds, phase.to_vec(), finding))
}

fn finding(
    view: &View<'_>,
    says: String,
    severity: Severity,
    phase: &[u8],
    odd: &[&Seat<'_>],
    other: Option<&Seat<'_>>,
    why: &str,
) -> Finding {
    let hosts: BTreeSet<&[u8]> = odd.iter().map(|seat| seat.host).collect();
    let hosts: BTreeSet<&[u8]> = hosts.into_iter().filter(|host| !host.is_empty()).collect();
    let one = odd.first().filter(|_| odd.len() == 1);
    let lines = odd.iter().take(3).copied().chain(other);
    Finding {
        id: "init_slow",
        severity,
        says,
        about: About {
            comm_id: view.comm_id.clone(),
            pid: one.and_then(|seat| seat.pid),
            rank: one.and_then(|seat| seat.rank()),
            ..about(&hosts)
        },
        sure: Sure::High,
        why: why.to_owned(),
        advice: advice(phase).to_owned(),
        evidence: evidence(lines.filter_map(|seat| seat.init_s().map(|(_, at)| at))),
    }
}

/// `the communicator 0x1234 of 16 ranks`.
fn name(view: &View<'_>) -> String {
    let id = view
        .comm_id
        .as_ref()
        .map_or(String::new(), |id| format!(" {id}"));
    let of = view.nranks.map_or(String::new(), |n| {
        format!(" of {}", counted(n as usize, "rank"))
    });
    format!("the communicator{id}{of}")
}

/// `rank 3 on n1`, `ranks 3 and 4 on n1`.
fn ranks(seats: &[&Seat<'_>]) -> String {
    let hosts: BTreeSet<&[u8]> = seats.iter().map(|seat| seat.host).collect();
    let ranks = seats.iter().map(|seat| match seat.rank() {
        Some(rank) => rank.to_string(),
        None => "of unknown number".to_owned(),
    });
    let s = if seats.len() == 1 { "" } else { "s" };
    format!("rank{s} {} on {}", listed(ranks), listed(&hosts))
}

/// What a part is.
fn words(phase: &[u8]) -> String {
    let name = text(phase);
    known(phase).map_or(name.clone(), |known| format!("{} ({name})", known.what))
}

fn advice(phase: &[u8]) -> &'static str {
    known(phase).map_or(COMPARE, |known| known.advice)
}
