//! The finding on an error that NCCL gave a program, where no line has NCCL's reason.

use super::known_warns::source_areas::find_source_area;
use super::known_warns::{WarnMeaning, WarnRole, look_up_warn};
use super::returned_errors::{ErrorWay, RelayedLine};
use super::warnings::{WarningLines, Warnings};
use crate::members::SpeakerProcess;
use crate::stages::check::finding::{About, Confidence, Evidence, Finding, Kind, Reason};
use crate::stages::check::log::job_ends::JobEnds;
use crate::stages::check::ranks::names;
use crate::stages::check::wording::{name_result, quote_text, rank_ranges, verb_form};
use crate::stages::net::net_stage::FirstReportLine;
use std::collections::BTreeSet;

/// One process's error.
#[derive(Clone, Copy)]
enum ReturnedError<'a> {
    Relayed(&'a RelayedLine),
    Way(u32, &'a ErrorWay),
}

impl<'a> ReturnedError<'a> {
    fn at(self) -> FirstReportLine {
        match self {
            ReturnedError::Relayed(line) => line.at,
            ReturnedError::Way(_, way) => way.first,
        }
    }

    /// The last line of it.
    fn end(self) -> FirstReportLine {
        match self {
            ReturnedError::Relayed(line) => line.at,
            ReturnedError::Way(_, way) => way.last,
        }
    }

    fn text(self) -> &'a [u8] {
        match self {
            ReturnedError::Relayed(line) => &line.text,
            ReturnedError::Way(_, way) => &way.text,
        }
    }
}

/// Returns the finding on the first error of NCCL's that ended a job's work; `processes[p]` names process p.
pub(crate) fn find_nccl_error(all: &Warnings, processes: &[SpeakerProcess]) -> Option<Finding> {
    let relayed = all.returned.relayed_lines().iter();
    let relayed = relayed.filter_map(|line| Some((line.result?, ReturnedError::Relayed(line))));
    // NCCL goes on without what failed, such as a plugin: then its process works after it.
    // A WARN before it gives the reason.
    let lines = all.lines_in_order().into_iter();
    let answered = lines.filter(|(_, _, lines)| lines.result.is_some());
    let answered: BTreeSet<u32> = answered.map(|(process, ..)| process).collect();
    let takes_down = takes_connections_down(all);
    let ways = all.returned.error_ways().filter(|(process, _, way)| {
        !answered.contains(process)
            && (way.has_reached_program || !takes_down)
            && way.calls == 0
            && all.ends.is_idle_after(way.last)
            && !is_after_end(&all.ends, way.first)
    });
    let ways = ways.map(|(process, code, way)| (code, ReturnedError::Way(process, way)));
    let mut errors: Vec<(i32, ReturnedError<'_>)> = relayed.chain(ways).collect();
    errors.sort_by_key(|(_, error)| error.at());
    // A remote error follows from a failure elsewhere.
    let is_own = |&&(result, _): &&(i32, ReturnedError<'_>)| result != 6;
    let &(result, first) = errors.iter().find(is_own).or(errors.first())?;
    let same = errors.iter().filter(|(other, _)| *other == result);
    let same: Vec<ReturnedError<'_>> = same.map(|&(_, error)| error).collect();
    let ranks: BTreeSet<u32> = same
        .iter()
        .filter_map(|error| rank_of_error(*error))
        .collect();
    let way = same.iter().find_map(|error| match error {
        ReturnedError::Way(process, way) => Some((*process, *way)),
        ReturnedError::Relayed(_) => None,
    });
    let named = way.and_then(|(process, _)| processes.get(process as usize));
    let named = named.filter(|process| process.pid.is_some());
    let to = match (ranks.is_empty(), named) {
        (false, _) => format!(
            "{} {}",
            verb_form(ranks.len(), "rank", "ranks"),
            rank_ranges(&ranks)
        ),
        (true, Some(process)) => names::describe_process(process),
        (true, None) => "the program".to_owned(),
    };
    // The line of an asynchronous thread is its last one: those before it are cut off.
    let whole = way.filter(|(_, way)| memchr::memmem::find(&way.text, b"[Async thread]").is_none());
    let begins = whole.map_or(String::new(), |(_, way)| {
        format!(", first in {}", quote_text(&way.place))
    });
    let (reason, advice) = describe_result(result, way.map(|(_, way)| &way.place[..]));
    let last_warn = find_last_warn(all);
    let is_reason =
        |known: &&WarnMeaning| !matches!(known.role, WarnRole::Teardown | WarnRole::Harmless);
    let known = last_warn.and_then(look_up_warn).filter(is_reason);
    let says = format!(
        "{to} got {} from NCCL{begins}: {reason}; {}",
        name_result(result),
        describe_last_warn(last_warn, known)
    );
    let mut finding = Finding {
        about: About {
            host: named.map(|process| process.host.clone()),
            pid: named.and_then(|process| process.pid),
            rank: ranks.first().copied(),
            ..About::default()
        },
        why: match way.is_some() {
            true => "NCCL prints a line for each of its functions that an error leaves".to_owned(),
            false => "the program's own lines report it".to_owned(),
        },
        advice: advise_on_error(advice, known),
        evidence: Vec::from_iter([first].map(|error| Evidence {
            at: error.at().into(),
            text: Some(error.text().to_vec()),
        })),
        ..Finding::of_kind(Kind::NcclError, Confidence::High, says)
    };
    let end = same.iter().map(|error| error.end()).max()?;
    if all.ends.restart_after(end).is_some() {
        finding.excuse(Reason::StartedAgain);
    } else if !all.ends.is_idle_after(end) {
        finding.excuse(Reason::WentOn);
    }
    Some(finding)
}

/// True if all WARN lines are those of connections that are taken down: functions return errors then.
fn takes_connections_down(all: &Warnings) -> bool {
    let lines = all.lines_in_order();
    let is_calm = |lines: &WarningLines| {
        let known = look_up_warn(lines.nccl_text());
        known.is_some_and(|known| matches!(known.role, WarnRole::Teardown | WarnRole::Harmless))
    };
    !lines.is_empty() && lines.iter().all(|(_, _, lines)| is_calm(lines))
}

/// The last WARN that programs relay; one that reports a failure has a finding of its own.
fn find_last_warn(all: &Warnings) -> Option<&[u8]> {
    let relayed = all.returned.relayed_lines().iter();
    let mut texts = relayed.map(|line| &*line.last_warn);
    texts.find(|text| !text.is_empty())
}

fn describe_last_warn(text: Option<&[u8]>, known: Option<&WarnMeaning>) -> String {
    let Some(text) = text else {
        return "no WARN line of NCCL gives the reason".to_owned();
    };
    let means = known.map_or(String::new(), |known| format!(" ({})", known.means));
    format!(
        "NCCL's last WARN, which may be older, is {}{means}",
        quote_text(text)
    )
}

/// The advice of the last WARN, or else that on the result.
fn advise_on_error(advice: &str, known: Option<&WarnMeaning>) -> String {
    match known {
        Some(known) => known.advice.to_owned(),
        None => format!(
            "{advice}; run with NCCL_DEBUG=WARN or INFO for the reason, which NCCL prints as a WARN before it \
             returns the error"
        ),
    }
}

/// True for a line after the job's own end, which no failure follows.
fn is_after_end(ends: &JobEnds, at: FirstReportLine) -> bool {
    ends.done_line_before(at).is_some() && ends.failure_after(at, |_| true).is_none()
}

fn rank_of_error(error: ReturnedError<'_>) -> Option<u32> {
    match error {
        ReturnedError::Relayed(line) => line.rank,
        ReturnedError::Way(..) => None,
    }
}

/// Returns the meaning of a system error that began in a source file of the network, and the advice: no file and no
/// shared memory is meant.
fn describe_network_error(place: &[u8]) -> Option<(&'static str, &'static str)> {
    let path = find_source_area(place)?.path;
    let is_network = path == "bootstrap" || path.contains("net") || path.ends_with("misc/socket");
    is_network.then_some((
        "a call of the system failed as NCCL connected ranks over the network, or sent data",
        "look at whether the hosts reach each other on the interface that NCCL chose (NCCL_SOCKET_IFNAME, \
         NCCL_IB_HCA), on all ports",
    ))
}

/// Returns the meaning of a result of NCCL's functions and the advice, by `docs/userguide` of NCCL on
/// `ncclResult_t`.
fn describe_result(result: i32, place: Option<&[u8]>) -> (&'static str, &'static str) {
    let of_network = place
        .filter(|_| result == 2)
        .and_then(describe_network_error);
    match result {
        2 if of_network.is_some() => of_network.unwrap_or_default(),
        1 => (
            "a call of CUDA failed",
            "look for an error of CUDA in the program's own lines, which may be earlier than NCCL's: out of \
             memory, an illegal memory access, a driver that is too old",
        ),
        2 => (
            "a call of the system failed, of a socket, a file or shared memory",
            "look at whether the hosts reach each other on the interface that NCCL chose \
             (NCCL_SOCKET_IFNAME), and at the size of /dev/shm",
        ),
        3 => (
            "a check inside NCCL failed",
            "look whether all ranks run the same version of NCCL and make the same calls",
        ),
        4 => (
            "an argument of a call is wrong",
            "look at the sizes, data types and devices of the program's call",
        ),
        5 => (
            "the program used NCCL in a wrong way",
            "look whether two ranks use one GPU, whether all ranks have the same version of NCCL, and whether \
             calls are grouped as they must be",
        ),
        6 => (
            "a connection to another process was lost",
            "look for the first failure among the other ranks, whose processes ended or crashed",
        ),
        _ => (
            "an error without a known meaning",
            "look up the result in nccl.h",
        ),
    }
}
