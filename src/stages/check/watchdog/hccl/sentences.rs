//! The sentences of the findings on HCCL's reports: the rank that reports, the rank that it waits for, the difference between two.

use super::told::HcclTold;
use super::{HcclRole, HcclRow};
use crate::grammar::message::hccl::{HcclField, name_tagged_call, read_hccl_ranks};
use crate::stages::check::finding::{About, Confidence, Finding, Kind};
use crate::stages::check::watchdog::limits::{MAX_GROUP_RANKS, MAX_STALLED_RANKS};
use crate::stages::check::watchdog::{describe_on_ranks, describe_ranks};
use crate::stages::check::wording::quote_text;
use std::collections::BTreeSet;

/// Makes the finding of a row; `rest` are lines of errors without a reason.
pub(super) fn hccl_finding(
    row: &HcclRow,
    lines: &[HcclTold<'_>],
    rest: &[HcclTold<'_>],
) -> Finding {
    let own: BTreeSet<u32> = lines.iter().filter_map(|line| line.own).collect();
    let on = describe_on_ranks(&own);
    let means = row.means;
    let only = |ranks: &BTreeSet<u32>| ranks.first().copied().filter(|_| ranks.len() == 1);
    let (kind, sure, rank, says) = match row.role {
        HcclRole::Wait => {
            let missing = missing_ranks(lines, rest, &own);
            let says = describe_wait(means, lines, &own, &missing);
            let rank = only(&missing).filter(|rank| !own.contains(rank));
            (Kind::WatchdogTimeout, Confidence::High, rank, says)
        }
        HcclRole::Link => {
            let ends = lines.iter().find_map(describe_ends);
            let says = format!("HCCL reports{}: {means}", ends.unwrap_or(on));
            (Kind::HcclError, Confidence::Medium, None, says)
        }
        HcclRole::Lost => {
            let says = format!("HCCL reports that {}", describe_lost(means, lines));
            (Kind::HcclError, Confidence::High, None, says)
        }
        HcclRole::Cause => {
            let detail = describe_difference(lines).unwrap_or_else(|| row.plain.to_owned());
            let device = name_device(lines, rest);
            let says = format!("HCCL reports{on}: {means}{device}{detail}");
            (Kind::HcclError, Confidence::High, only(&own), says)
        }
        HcclRole::Inner => {
            let says = describe_inner(means, lines, &own);
            (Kind::HcclError, Confidence::Low, None, says)
        }
    };
    let code = lines.iter().find(|line| !line.error.code.is_empty());
    Finding {
        about: About::of_rank(rank),
        why: match code {
            Some(line) => format!("HCCL's lines report it ({})", quote_text(&line.error.code)),
            None => "HCCL's lines report it".to_owned(),
        },
        advice: row.advice.to_owned(),
        evidence: lines
            .iter()
            .take(3)
            .map(|line| line.record.to_evidence())
            .collect(),
        ..Finding::of_kind(kind, sure, says)
    }
}

/// The values of a name in all lines.
fn all_values<'a>(lines: &[HcclTold<'a>], name: HcclField) -> BTreeSet<&'a [u8]> {
    lines.iter().flat_map(|line| line.values(name)).collect()
}

/// The number of a name, if all lines agree.
fn only_number(lines: &[HcclTold<'_>], name: HcclField) -> Option<u32> {
    let numbers: BTreeSet<u32> = lines.iter().filter_map(|line| line.number(name)).collect();
    numbers.first().copied().filter(|_| numbers.len() == 1)
}

/// The ranks that did not come, without those that wait themselves: these are not the first that were missing.
fn missing_ranks(
    lines: &[HcclTold<'_>],
    rest: &[HcclTold<'_>],
    waiting: &BTreeSet<u32>,
) -> BTreeSet<u32> {
    let lists = all_values(lines, HcclField::Missing).into_iter();
    let mut missing: BTreeSet<u32> = lists
        .flat_map(read_hccl_ranks)
        .take(MAX_STALLED_RANKS)
        .collect();
    missing.extend(
        lines
            .iter()
            .filter_map(|line| line.number(HcclField::OtherRank)),
    );
    if missing.is_empty() {
        return find_absent_ranks(lines, rest).unwrap_or_default();
    }
    let first: BTreeSet<u32> = missing.difference(waiting).copied().collect();
    if first.is_empty() { missing } else { first }
}

/// True if a line names a rank that did not come.
pub(super) fn names_missing_rank(lines: &[HcclTold<'_>]) -> bool {
    !missing_ranks(lines, &[], &BTreeSet::new()).is_empty()
}

/// The ranks that are not among those that came, where the lines list all of these.
fn find_absent_ranks(lines: &[HcclTold<'_>], rest: &[HcclTold<'_>]) -> Option<BTreeSet<u32>> {
    let size = only_number(lines, HcclField::Size).or_else(|| only_number(rest, HcclField::Size));
    let size = size.filter(|size| *size <= MAX_GROUP_RANKS)?;
    let lists = all_values(lines, HcclField::Arrived).into_iter();
    let came: BTreeSet<u32> = lists.flat_map(read_hccl_ranks).collect();
    let is_whole = only_number(lines, HcclField::ArrivedCount)? as usize == came.len();
    is_whole.then(|| (0..size).filter(|rank| !came.contains(rank)).collect())
}

/// `rank 1 (10.0.0.2) did not come, and HCCL's connection to another rank timed out on rank 0 (10.0.0.1) after 120 s`.
fn describe_wait(
    means: &str,
    lines: &[HcclTold<'_>],
    own: &BTreeSet<u32>,
    missing: &BTreeSet<u32>,
) -> String {
    let near = describe_addresses(lines, own, |line| line.own, HcclField::OwnAddress);
    let other = |line: &HcclTold<'_>| line.number(HcclField::OtherRank);
    let far = describe_addresses(lines, missing, other, HcclField::OtherAddress);
    let seconds = only_number(lines, HcclField::Seconds);
    let after = seconds.map_or(String::new(), |seconds| format!(" after {seconds} s"));
    let size = only_number(lines, HcclField::Size)
        .filter(|_| all_values(lines, HcclField::OtherRank).is_empty());
    let of = size.map_or(String::new(), |size| format!(" of {size}"));
    let call = name_only_call(lines).map_or(String::new(), |call| format!(" ({call})"));
    let place = || lines.iter().find_map(|line| describe_place(line, false));
    let on = match lines.iter().find_map(|line| describe_place(line, true)) {
        Some(place) if own.is_empty() => format!(" on {place}"),
        _ => describe_on_ranks(own),
    };
    let wait = format!("HCCL's {means}{call} timed out{on}{near}{after}");
    if missing.is_empty() {
        return match place() {
            Some(place) => format!("{wait}; it could not connect to {place}"),
            None => format!("{wait}; the lines do not name the rank that was missing"),
        };
    }
    if missing.is_subset(own) {
        return format!("{wait}; the ranks that were missing report a wait, too");
    }
    let missing = describe_ranks(missing);
    format!("{missing}{of}{far} did not come, and {wait}")
}

/// The address of the only rank of a set, ` (10.0.0.1)`.
fn describe_addresses(
    lines: &[HcclTold<'_>],
    ranks: &BTreeSet<u32>,
    rank_of: impl Fn(&HcclTold<'_>) -> Option<u32>,
    name: HcclField,
) -> String {
    let of_rank = lines
        .iter()
        .filter(|line| rank_of(line).is_some_and(|rank| ranks.contains(&rank)));
    let addresses: BTreeSet<&[u8]> = of_rank.flat_map(|line| line.values(name)).collect();
    match addresses.first() {
        Some(address) if ranks.len() == 1 && addresses.len() == 1 => {
            format!(" ({})", quote_text(address))
        }
        _ => String::new(),
    }
}

/// The operation that all tags name.
fn name_only_call(lines: &[HcclTold<'_>]) -> Option<String> {
    let calls = all_values(lines, HcclField::Call);
    let call = calls.first().filter(|_| calls.len() == 1)?;
    Some(quote_text(call))
}

/// ` between rank 7 (10.0.0.39) and rank 15 (10.0.0.67)`, ` on the connection to rank 15`.
fn describe_ends(line: &HcclTold<'_>) -> Option<String> {
    let far = describe_place(line, false)?;
    Some(match describe_place(line, true) {
        Some(near) => format!(" between {near} and {far}"),
        None => format!(" on the connection to {far}"),
    })
}

/// `rank 7 (10.0.0.39)`, `device 0 of 10.0.0.39 (10.1.0.1)`.
fn describe_place(line: &HcclTold<'_>, is_own: bool) -> Option<String> {
    let [host, device, address] = match is_own {
        true => [
            HcclField::OwnHost,
            HcclField::OwnDevice,
            HcclField::OwnAddress,
        ],
        false => [
            HcclField::OtherHost,
            HcclField::OtherDevice,
            HcclField::OtherAddress,
        ],
    };
    let rank = match is_own {
        true => line.own,
        false => line.number(HcclField::OtherRank),
    };
    let text = |name| line.values(name).next().map(quote_text);
    let (host, address) = (text(host), text(address));
    let in_brackets =
        |text: Option<String>| text.map_or(String::new(), |text| format!(" ({text})"));
    if let Some(rank) = rank {
        return Some(format!("rank {rank}{}", in_brackets(host.or(address))));
    }
    let place = match line.number(device) {
        Some(device) => format!("device {device} of {}", host?),
        None => host?,
    };
    Some(format!("{place}{}", in_brackets(address)))
}

/// `device 1 of 10.0.0.1 sent no more heartbeats: ...; device 2 of 10.0.0.1 found it`.
fn describe_lost(means: &str, lines: &[HcclTold<'_>]) -> String {
    let place = |is_own: bool| {
        let places: BTreeSet<String> = lines
            .iter()
            .filter_map(|line| describe_place(line, is_own))
            .collect();
        let first = places
            .iter()
            .take(2)
            .cloned()
            .collect::<Vec<_>>()
            .join(" and ");
        match places.len() {
            0 => None,
            1 | 2 => Some(first),
            more => Some(format!("{first} and {} more", more - 2)),
        }
    };
    let lost = place(false).unwrap_or_else(|| "a process".to_owned());
    let found = place(true).map_or(String::new(), |place| format!("; {place} found it"));
    format!("{lost} {means}{found}")
}

/// ` (NPU 0)`.
fn name_device(lines: &[HcclTold<'_>], rest: &[HcclTold<'_>]) -> String {
    let named = all_values(lines, HcclField::Reason);
    let device =
        only_number(lines, HcclField::Device).or_else(|| only_number(rest, HcclField::Device));
    match device {
        Some(device) if !named.is_empty() => format!(" (NPU {device})"),
        _ => String::new(),
    }
}

/// `: AllGather on the rank that reports, AllReduce on the other`, with the ends of connections that failed by it.
fn describe_difference(lines: &[HcclTold<'_>]) -> Option<String> {
    let value = |line: &HcclTold<'_>, name| line.values(name).next().map(<[u8]>::to_vec);
    let each = lines.iter().filter_map(|line| {
        let argument = value(line, HcclField::Argument)?;
        let own = value(line, HcclField::OwnValue)?;
        let other = value(line, HcclField::OtherValue)?;
        let call = value(line, HcclField::Call);
        let of_call = call.map_or(String::new(), |call| format!(" of {}", quote_text(&call)));
        Some(describe_values(&argument, &of_call, &own, &other))
    });
    let each: Vec<(bool, String)> = each.collect();
    // The reduction of another operation differs, too.
    let of_calls = each
        .iter()
        .find(|(is_call, _)| *is_call)
        .map(|(_, said)| said.clone());
    let mut said: Vec<String> = each.into_iter().map(|(_, said)| said).collect();
    said.dedup();
    said.truncate(3);
    let said = of_calls.or_else(|| Some(said.join("; ")).filter(|said| !said.is_empty()))?;
    let others: BTreeSet<u32> = lines
        .iter()
        .filter_map(|line| line.number(HcclField::OtherRank))
        .collect();
    let failed = match others.is_empty() {
        true => String::new(),
        false => format!("; its connection to {} failed", describe_ranks(&others)),
    };
    Some(format!(": {said}{failed}"))
}

/// How two ranks differ in an argument, and whether it is the operation.
fn describe_values(argument: &[u8], of_call: &str, own: &[u8], other: &[u8]) -> (bool, String) {
    let pair = match argument {
        b"tag" => name_tagged_call(own).zip(name_tagged_call(other)),
        b"cmdType" => name_call_type(own).zip(name_call_type(other)),
        _ => None,
    };
    let between = |own: &[u8], other: &[u8]| {
        let (own, other) = (quote_text(own), quote_text(other));
        format!("{own} on the rank that reports, {other} on the other")
    };
    match pair {
        Some((own, other)) if own != other => (true, between(own, other)),
        _ => {
            let (argument, values) = (quote_text(argument), between(own, other));
            (false, format!("{argument}{of_call} is {values}"))
        }
    }
}

/// Names an operation by `HcclCMDType`.
fn name_call_type(number: &[u8]) -> Option<&'static [u8]> {
    let name: &[u8] = match number {
        b"1" => b"Broadcast",
        b"2" => b"AllReduce",
        b"3" => b"Reduce",
        b"4" => b"Send",
        b"5" => b"Receive",
        b"6" => b"AllGather",
        b"7" => b"ReduceScatter",
        b"8" => b"AlltoAllV",
        b"9" => b"AlltoAllVC",
        b"10" => b"AlltoAll",
        b"11" => b"Gather",
        b"12" => b"Scatter",
        b"13" => b"BatchSendRecv",
        _ => return None,
    };
    Some(name)
}

/// `an error in HcclCommInitRootInfo on rank 1 of 4 (result 2: empty pointer); no line gives a reason that is known`.
fn describe_inner(means: &str, lines: &[HcclTold<'_>], own: &BTreeSet<u32>) -> String {
    let call = lines
        .iter()
        .find_map(|line| line.values(HcclField::Call).next());
    let call = call.map_or(String::new(), |call| format!(" in {}", quote_text(call)));
    let size = only_number(lines, HcclField::Size).filter(|_| !own.is_empty());
    let of = size.map_or(String::new(), |size| format!(" of {size}"));
    let result = lines.iter().find_map(|line| line.error.result);
    let result = result.map_or(String::new(), |result| {
        format!(" (result {result}: {})", name_hccl_result(result))
    });
    let reason = lines
        .iter()
        .find_map(|line| line.values(HcclField::Reason).next());
    let reason = match reason {
        Some(reason) => format!("the runtime's reason: {}", quote_text(reason)),
        None => "no line gives a reason that is known".to_owned(),
    };
    let on = describe_on_ranks(own);
    format!("HCCL reports {means}{call}{on}{of}{result}; {reason}")
}

/// Names a result of HCCL's functions, by `HcclResult`.
fn name_hccl_result(result: u32) -> &'static str {
    const NAMES: [&str; 23] = [
        "success",
        "parameter error",
        "empty pointer",
        "memory error",
        "internal error",
        "not supported",
        "not found",
        "resource unavailable",
        "a call of the system failed",
        "timeout",
        "a file could not be opened",
        "a TCP connection failed",
        "a RoCE connection failed",
        "a TCP transfer failed",
        "a RoCE transfer failed",
        "a call of the runtime failed",
        "a call of the driver failed",
        "a call of the profiler failed",
        "a call of CCE failed",
        "a call of the network failed",
        "try again",
        "an error CQE",
        "the communicator is suspended",
    ];
    NAMES
        .get(result as usize)
        .copied()
        .unwrap_or("an unknown result")
}
