//! Communicators that took long to make: the slow part, and the late ranks.
//!
//! NCCL prints `Init timings` since 2.22: the seconds of each part, for each rank. In `bootstrap` and
//! `allgathers` a rank waits for the others, so a late or slow rank shows as long times of all others there;
//! the ranks that waited least came last.
//!
//! A communicator is slow above ten seconds with most of them in one part. Of the jobs in `testdata` and of
//! public logs, one took 12.7 seconds, because of a late rank, and all others less than 5; jobs that people ask
//! about took 55 seconds (nccl#1646) and two and a half minutes (nccl#1156). A rank alone is slow if a part
//! other than waiting took five times the median of the ranks and more than fifteen seconds: loading the
//! kernels took 12 when five jobs shared a GPU.

use super::limits::{LATE_RANKS_WARNING_S, SLOW_INIT_S, SLOW_RANK_PHASE_S, SLOW_RANK_TIMES_MEDIAN};
use super::odd_hosts::{about_hosts, evidence_of_lines};
use crate::count::spread::SortedValues;
use crate::stages::check::finding::{About, Confidence, Finding, Kind, Severity};
use crate::stages::check::questions::job_facts::JobFacts;
use crate::stages::check::ranks::names::RankNames;
use crate::stages::check::streams::compare::CommMember;
use crate::stages::check::wording::{list_names, number_and_noun, quote_text};
use crate::stages::communicators::facts::CommunicatorMember;
use crate::stages::communicators::view::CommunicatorView;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the findings: the slowest communicator of each cause, and the number of others.
pub(crate) fn find_slow_inits(job: &JobFacts<'_>) -> Vec<Finding> {
    let mut worst: BTreeMap<(Severity, Vec<u8>), (f64, Finding, usize)> = BTreeMap::new();
    let names = RankNames { found: job.found };
    for view in job.found.views() {
        let Some((seconds, phase, finding)) = find_slow_part(&view, names) else {
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
            finding.says += &format!("; {} too", number_and_noun(more, "more communicator"));
        }
        finding
    };
    worst.into_values().map(said).collect()
}

/// A part of an initialisation, from `ncclCommInitRankFunc` and `initTransportsRank` in `src/init.cc`.
struct InitPhase {
    name: &'static str,
    what: &'static str,
    /// A rank waits in it for others.
    waits: bool,
    advice: &'static str,
}

const LATE_RANKS_ADVICE: &str = "find out which ranks start last and why; look at the interface \
                                 that Bootstrap names (NCCL_SOCKET_IFNAME) and at name resolution; \
                                 with thousands of ranks use several roots \
                                 (ncclCommInitRankScalable, NCCL 2.23 or later)";

const COMPARE_RUNS_ADVICE: &str = "compare with a run that was fast";

const SLOW_INIT_PHASES: [InitPhase; 8] = [
    InitPhase {
        name: "kernels",
        what: "loading the kernels",
        waits: false,
        advice: "NCCL's library and the CUDA modules are read and loaded: put them on a fast disk, \
                 and look at CUDA_MODULE_LOADING and at nvidia-persistenced",
    },
    InitPhase {
        name: "alloc",
        what: "allocating",
        waits: false,
        advice: "look at the GPUs' and the hosts' memory and at nvidia-persistenced",
    },
    InitPhase {
        name: "bootstrap",
        what: "waiting for the other ranks",
        waits: true,
        advice: LATE_RANKS_ADVICE,
    },
    InitPhase {
        name: "allgathers",
        what: "exchanging data between ranks",
        waits: true,
        advice: LATE_RANKS_ADVICE,
    },
    InitPhase {
        name: "topo",
        what: "finding the hardware",
        waits: false,
        advice: "look at nvidia-persistenced, the NICs' drivers and NCCL_TOPO_FILE",
    },
    InitPhase {
        name: "graphs",
        what: "searching rings and trees",
        waits: false,
        advice: "save the graph and reuse it (NCCL_GRAPH_DUMP_FILE, NCCL_GRAPH_FILE)",
    },
    InitPhase {
        name: "connections",
        what: "connecting",
        waits: false,
        advice: "look at the network's errors and at NCCL_RUNTIME_CONNECT: since 2.22 ranks \
                 connect when a call first needs it",
    },
    InitPhase {
        name: "rest",
        what: "the rest",
        waits: false,
        advice: COMPARE_RUNS_ADVICE,
    },
];

fn find_phase(phase: &[u8]) -> Option<&'static InitPhase> {
    SLOW_INIT_PHASES
        .iter()
        .find(|known| known.name.as_bytes() == phase)
}

/// True for a part in which a rank waits for others.
fn is_waiting_phase(phase: &[u8]) -> bool {
    find_phase(phase).is_some_and(|known| known.waits)
}

/// A rank's seconds in a part.
fn phase_seconds(seat: &CommunicatorMember<'_>, phase: &[u8]) -> f64 {
    let own = seat.init_phases().filter(|(name, _)| *name == phase);
    own.map(|(_, seconds)| seconds).sum()
}

/// A slow communicator: its seconds, the part, the finding.
type SlowPart = (f64, Vec<u8>, Finding);

/// Finds the part that made a communicator slow.
fn find_slow_part(view: &CommunicatorView<'_>, names: RankNames<'_>) -> Option<SlowPart> {
    let seats: Vec<CommunicatorMember<'_>> =
        view.members().filter(|s| s.init_s().is_some()).collect();
    let total = |seat: &CommunicatorMember<'_>| seat.init_s().map_or(0.0, |(s, _)| s);
    let slowest = seats
        .iter()
        .reduce(|a, b| if total(b) > total(a) { b } else { a })?;
    let seconds = total(slowest);
    let phases: BTreeSet<&[u8]> = seats
        .iter()
        .flat_map(|s| s.init_phases().map(|p| p.0))
        .collect();
    let mut working = phases.iter().filter(|phase| !is_waiting_phase(phase));
    let slow = working.find_map(|phase| find_slow_rank(view, names, &seats, seconds, phase));
    if slow.is_some() {
        return slow;
    }
    let (phase, part) = slowest
        .init_phases()
        .reduce(|a, b| if b.1 > a.1 { b } else { a })?;
    if seconds <= SLOW_INIT_S || part <= seconds / 2.0 {
        return None;
    }
    let share = 100.0 * part / seconds;
    let base = format!(
        "{} took {seconds:.1} s to make, {share:.0} % of it {}",
        describe_communicator(view),
        describe_phase(phase)
    );
    let late: Vec<&CommunicatorMember<'_>> = match is_waiting_phase(phase) {
        true => seats
            .iter()
            .filter(|s| phase_seconds(s, phase) < part / 5.0)
            .collect(),
        false => Vec::new(),
    };
    let (says, severity, odd, why) = match late.len() {
        // Most ranks waited for a few.
        1.. if 2 * late.len() <= seats.len() => (
            format!(
                "{base}; {} came last and the others waited",
                describe_seats(&late, names)
            ),
            match seconds > LATE_RANKS_WARNING_S {
                true => Severity::Warning,
                false => Severity::Note,
            },
            late,
            "each rank waits there for the others, and the last one waits least",
        ),
        _ => (
            format!(
                "{base}, where {} is the slowest",
                describe_seats(&[slowest], names)
            ),
            Severity::Warning,
            vec![slowest],
            "the rank prints the time of each part",
        ),
    };
    let other = Some(slowest);
    let finding = slow_init_finding(view, says, severity, phase, &odd, other, why);
    Some((seconds, phase.to_vec(), finding))
}

/// Ranks that are slow by themselves in a part: they explain the waits of the others.
fn find_slow_rank(
    view: &CommunicatorView<'_>,
    names: RankNames<'_>,
    seats: &[CommunicatorMember<'_>],
    seconds: f64,
    phase: &[u8],
) -> Option<SlowPart> {
    let usual = SortedValues::new(seats.iter().map(|seat| phase_seconds(seat, phase)));
    let usual = usual.median().unwrap_or(0.0);
    let is = |seat: &&CommunicatorMember<'_>| {
        let own = phase_seconds(seat, phase);
        own > SLOW_RANK_PHASE_S && own > SLOW_RANK_TIMES_MEDIAN * usual
    };
    let odd: Vec<&CommunicatorMember<'_>> = seats.iter().filter(is).collect();
    if odd.is_empty() {
        return None;
    }
    let most = odd
        .iter()
        .map(|seat| phase_seconds(seat, phase))
        .fold(0.0, f64::max);
    let says = format!(
        "{} of {} took {most:.1} s of {seconds:.1} s for {}; the median of the ranks is \
         {usual:.1} s",
        describe_seats(&odd, names),
        describe_communicator(view),
        describe_phase(phase),
    );
    let why = "each rank prints the time of each part";
    let severity = Severity::Warning;
    let other = seats.iter().find(|seat| !is(seat));
    let finding = slow_init_finding(view, says, severity, phase, &odd, other, why);
    Some((seconds, phase.to_vec(), finding))
}

fn slow_init_finding(
    view: &CommunicatorView<'_>,
    says: String,
    severity: Severity,
    phase: &[u8],
    odd: &[&CommunicatorMember<'_>],
    other: Option<&CommunicatorMember<'_>>,
    why: &str,
) -> Finding {
    let hosts: BTreeSet<&[u8]> = odd.iter().map(|seat| seat.host).collect();
    let hosts: BTreeSet<&[u8]> = hosts.into_iter().filter(|host| !host.is_empty()).collect();
    let one = odd.first().filter(|_| odd.len() == 1);
    let lines = odd.iter().take(3).copied().chain(other);
    Finding {
        about: About {
            comm_id: view.comm_id.clone(),
            pid: one.and_then(|seat| seat.pid),
            rank: one.and_then(|seat| seat.rank()),
            ..about_hosts(&hosts)
        },
        why: why.to_owned(),
        advice: phase_advice(phase).to_owned(),
        evidence: evidence_of_lines(lines.filter_map(|seat| seat.init_s().map(|(_, at)| at))),
        ..Finding::new(Kind::InitSlow, severity, Confidence::High, says)
    }
}

/// Formats `the communicator 0x1234 of 16 ranks`.
fn describe_communicator(view: &CommunicatorView<'_>) -> String {
    let id = view
        .comm_id
        .as_ref()
        .map_or(String::new(), |id| format!(" {id}"));
    let of = view.nranks.map_or(String::new(), |n| {
        format!(" of {}", number_and_noun(n as usize, "rank"))
    });
    format!("the communicator{id}{of}")
}

/// Formats `rank 11 (n1, GPU 3, pid 4123, its rank 3)`, `ranks 3 and 4 on n1`.
fn describe_seats(seats: &[&CommunicatorMember<'_>], names: RankNames<'_>) -> String {
    let hosts: BTreeSet<&[u8]> = seats.iter().map(|seat| seat.host).collect();
    let members = seats.iter().map(|seat| CommMember {
        rank: seat.rank(),
        side: seat.at,
        ..CommMember::default()
    });
    let ranks = names.describe_members(&Vec::from_iter(members));
    match seats.len() {
        1 => ranks,
        _ => format!("{ranks} on {}", list_names(&hosts)),
    }
}

/// Describes a part.
fn describe_phase(phase: &[u8]) -> String {
    let name = quote_text(phase);
    find_phase(phase).map_or(name.clone(), |known| format!("{} ({name})", known.what))
}

fn phase_advice(phase: &[u8]) -> &'static str {
    find_phase(phase).map_or(COMPARE_RUNS_ADVICE, |known| known.advice)
}
