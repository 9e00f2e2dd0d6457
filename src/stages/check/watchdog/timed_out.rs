//! The findings on the watchdog's lines: for each call that timed out the ranks that waited, and those that are
//! behind, silent or ahead.

use super::group_report::{GroupReport, WatchdogProgress, collect_group_reports};
use super::limits::MAX_RANKS_DESCRIBED;
use super::odd_ranks::{
    AbsentRank, OddGroupRanks, ranks_ahead, ranks_behind, ranks_with_fewest_calls,
};
use super::{TimedOutCall, WatchdogMessage, WatchdogRecord, describe_of_group, describe_on_ranks};
use super::{differing_calls, hccl, stuck};
use crate::grammar::ending::find_relayed_error;
use crate::stages::check::finding::{About, Confidence, Evidence, Finding, Kind, Reason};
use crate::stages::check::ranks::names::RankNames;
use crate::stages::check::wording::{number_and_noun, quote_text};
use crate::stages::check::words::failures::find_advice_on_exception;
use crate::stages::net::net_stage::FirstReportLine;
use memchr::memmem;
use std::collections::{BTreeMap, BTreeSet};

/// A call that ranks of one process group waited for in vain.
pub(super) struct TimedOutWait<'a> {
    pub(super) group: Option<&'a [u8]>,
    /// PyTorch's number of the call; none where it is not printed.
    pub(super) seq: Option<u64>,
    /// Lines that name the call's operation.
    pub(super) timeouts: Vec<(&'a WatchdogRecord, &'a TimedOutCall)>,
    /// Lines that have only the call's number.
    given_up: Vec<&'a WatchdogRecord>,
}

impl<'a> TimedOutWait<'a> {
    /// The first letter of the library that makes the call.
    fn library(&self) -> u8 {
        self.timeouts
            .first()
            .map_or(b'N', |(_, timeout)| timeout.library)
    }

    fn new(group: Option<&'a [u8]>, seq: Option<u64>) -> TimedOutWait<'a> {
        TimedOutWait {
            group,
            seq,
            timeouts: Vec::new(),
            given_up: Vec::new(),
        }
    }

    /// All lines, those that name the operation first.
    fn lines(&self) -> impl Iterator<Item = &WatchdogRecord> {
        let timeouts = self.timeouts.iter().map(|(record, _)| *record);
        timeouts.chain(self.given_up.iter().copied())
    }
}

/// The calls that timed out: groups by their first line, and the calls of each in order.
pub(super) fn collect_waits(records: &[WatchdogRecord]) -> Vec<TimedOutWait<'_>> {
    let mut groups: BTreeMap<Option<&[u8]>, FirstReportLine> = BTreeMap::new();
    let mut calls: BTreeMap<(FirstReportLine, Option<u64>), TimedOutWait<'_>> = BTreeMap::new();
    for record in records {
        if let WatchdogMessage::Timeout(timeout) = &record.what {
            let group = record.group.as_deref();
            let key = (*groups.entry(group).or_insert(record.at), timeout.seq);
            let wait = calls
                .entry(key)
                .or_insert_with(|| TimedOutWait::new(group, timeout.seq));
            wait.timeouts.push((record, timeout));
        }
    }
    for record in records {
        if let WatchdogMessage::Work { at: Some(at), .. } = record.what
            && let Ok(seq) = u64::try_from(at)
        {
            let group = record.group.as_deref();
            let key = (*groups.entry(group).or_insert(record.at), Some(seq));
            let wait = calls
                .entry(key)
                .or_insert_with(|| TimedOutWait::new(group, Some(seq)));
            wait.given_up.push(record);
        }
    }
    calls.into_values().collect()
}

/// Makes one finding for each call of each process group that timed out; `names` has the processes of ranks.
pub(crate) fn find_timeouts(records: &[WatchdogRecord], names: RankNames<'_>) -> Vec<Finding> {
    let mut waits = collect_waits(records);
    // A line that has only the number of a call repeats others, unless it is all that is left of them.
    let is_full = |record: &WatchdogRecord| {
        !matches!(
            record.what,
            WatchdogMessage::Work { .. }
                | WatchdogMessage::Stuck(_)
                | WatchdogMessage::Cut
                | WatchdogMessage::GaveUp
        )
    };
    let is_any_full = records.iter().any(is_full);
    if is_any_full {
        waits.retain(|wait| !wait.timeouts.is_empty());
    }
    let mut groups = collect_group_reports(records);
    let absent = AbsentRank::find(records, names);
    let timeouts = waits.iter().map(|wait| {
        let group = groups.entry(wait.group).or_default();
        timeout_finding(wait, group, absent.as_ref())
    });
    find_watchdog_exceptions(records)
        .into_iter()
        .chain(timeouts)
        .chain(stuck::find_cut_lines(records, waits.is_empty()))
        .chain(stuck::find_signals(
            records,
            !is_any_full && waits.is_empty(),
        ))
        .chain(hccl::find_hccl_errors(records))
        .chain(differing_calls::find_differing_calls(records))
        .chain(stuck::find_stuck_watchdogs(records))
        .chain(stuck::find_last_words(records))
        .chain(stuck::find_idle_schedulers(records))
        .collect()
}

/// Makes one finding for each error with which the watchdog itself failed.
fn find_watchdog_exceptions(records: &[WatchdogRecord]) -> Vec<Finding> {
    let mut all: BTreeMap<(FirstReportLine, &[u8]), Vec<&WatchdogRecord>> = BTreeMap::new();
    let mut first: BTreeMap<&[u8], FirstReportLine> = BTreeMap::new();
    for record in records {
        if let WatchdogMessage::Exception(what) = &record.what {
            let at = *first.entry(what).or_insert(record.at);
            all.entry((at, what)).or_default().push(record);
        }
    }
    let finding = |((_, what), lines): (&(FirstReportLine, &[u8]), &Vec<&WatchdogRecord>)| {
        let ranks: BTreeSet<u32> = lines.iter().filter_map(|line| line.known_rank()).collect();
        let rank = ranks.first().copied().filter(|_| ranks.len() == 1);
        let says = format!(
            "PyTorch's watchdog failed{}: {}",
            describe_on_ranks(&ranks),
            quote_text(what)
        );
        let is_of_end = is_error_of_end(what);
        let (sure, advice) = match is_of_end {
            true => (
                Confidence::Medium,
                "another process ended first, or the network failed: look at the process that closed the connection, \
                 and for the first failure in the output of all ranks",
            ),
            false => (
                Confidence::High,
                find_advice_on_exception(what).unwrap_or_default(),
            ),
        };
        Finding {
            about: About::of_rank(rank.filter(|_| !is_of_end)),
            advice: advice.to_owned(),
            evidence: lines
                .iter()
                .take(3)
                .map(|line| line.to_evidence())
                .collect(),
            reasons: Vec::from_iter(is_of_end.then_some(Reason::ErrorOfEnd)),
            ..Finding::of_kind(Kind::WatchdogException, sure, says)
        }
    };
    all.iter().map(finding).collect()
}

/// True for what a watchdog reports where another process ended (`ncclRemoteError`), or where its own process is
/// taken down (C++'s `std::future_error`).
fn is_error_of_end(what: &[u8]) -> bool {
    find_relayed_error(what).is_some_and(|error| error.is_remote_error())
        || memmem::find(what, b"Broken promise").is_some()
}

fn timeout_finding(
    waited: &TimedOutWait<'_>,
    group: &mut GroupReport<'_>,
    absent: Option<&AbsentRank>,
) -> Finding {
    let ranks: BTreeSet<u32> = waited
        .lines()
        .filter_map(WatchdogRecord::known_rank)
        .collect();
    let mut far = group.far.clone();
    let why = describe_progress(&far);
    // A rank that completed this call is not behind those that wait for it: it came later, or was let through.
    let is_past = |rank: &u32, far: &WatchdogProgress| {
        !ranks.contains(rank)
            && u64::try_from(far.completed).is_ok_and(|n| waited.seq.is_some_and(|seq| n >= seq))
    };
    let (mut past, mut behind) = waited
        .seq
        .map(|seq| group.split_other_waits(seq, &ranks))
        .unwrap_or_default();
    past.extend(
        far.iter()
            .filter(|(rank, (far, _))| is_past(rank, far))
            .map(|(&rank, _)| rank),
    );
    far.retain(|rank, _| !past.contains(rank));
    behind.retain(|rank| !far.contains_key(rank));
    behind.extend(waited.seq.iter().flat_map(|&seq| ranks_behind(&far, seq)));
    let evidence = timeout_evidence(waited, behind.iter().filter_map(|rank| far.get(rank)));
    let odd = match group.find_silent(group_size(waited)) {
        _ if !behind.is_empty() => OddGroupRanks::Behind(behind),
        silent if !silent.is_empty() => match absent
            .filter(|_| group.is_part_of_job)
            // A group that lacks the lines of several ranks shows that more than one is missing.
            .filter(|absent| !absent.is_silent || silent.len() == 1)
        {
            Some(absent) => OddGroupRanks::Absent(absent),
            None => OddGroupRanks::Silent(silent, !group.is_part_of_job),
        },
        _ => match ranks_ahead(&far) {
            ahead if !ahead.is_empty() => OddGroupRanks::Ahead(ahead),
            _ if !past.is_empty() => OddGroupRanks::Past(past),
            _ => ranks_with_fewest_calls(&far),
        },
    };
    let is_first =
        waited.seq == Some(1) && matches!(odd, OddGroupRanks::Silent(..) | OddGroupRanks::Unknown);
    let mut says = describe_wait(waited) + &describe_on_ranks(&ranks) + &odd.describe_odd();
    if let OddGroupRanks::Absent(absent) = &odd {
        says.insert_str(0, &absent.describe_absence());
    }
    Finding {
        about: About::of_rank(odd.rank_to_blame(&ranks)),
        why: format!("the watchdog's lines report it; {why}"),
        advice: match waited.library() {
            b'H' => hccl::TIMEOUT_ADVICE.to_owned(),
            _ if is_first => FIRST_CALL_ADVICE.to_owned(),
            _ => String::new(),
        },
        evidence,
        ..Finding::of_kind(Kind::WatchdogTimeout, Confidence::High, says)
    }
}

/// PyTorch counts the calls of a group from 1.
const FIRST_CALL_ADVICE: &str = "it is the first call of its group, so these ranks never communicated in it: look at whether all \
    processes came to it, and at NCCL's own lines (NCCL_DEBUG=INFO) for the interface and the way between the GPUs; \
    NCCL_SOCKET_IFNAME names the interface, NCCL_P2P_DISABLE=1 tests the way";

/// The call, and how long ranks waited for it.
fn describe_wait(waited: &TimedOutWait<'_>) -> String {
    let group = describe_of_group(waited.group);
    let call = match waited.seq {
        Some(seq) => format!("call {seq}"),
        None => "a call".to_owned(),
    };
    let call = match waited.library() {
        b'N' => call,
        letter => format!("{call} of {}CCL", char::from(letter)),
    };
    let Some((_, timeout)) = waited.timeouts.first() else {
        return format!("PyTorch's watchdog gave up {call}{group}");
    };
    let after = timeout.timeout_ms;
    let wait = format!("PyTorch's wait for {call}{group} timed out after {after} ms");
    let mut contents = waited.timeouts.iter().map(|(_, timeout)| timeout.content());
    let first = contents.next();
    match contents.all(|content| Some(content) == first) {
        true => format!("{wait}: {}", describe_timed_out_call(timeout)),
        false => wait,
    }
}

/// `ALLREDUCE of 4 elements`, `_ALLGATHER_BASE of 4 elements in and 16 out`.
pub(super) fn describe_timed_out_call(timeout: &TimedOutCall) -> String {
    let elements = match (timeout.numel_in, timeout.numel_out) {
        (Some(from), Some(to)) if from == to => format!(" of {}", number_and_noun(from, "element")),
        (Some(from), Some(to)) => {
            format!(" of {} in and {to} out", number_and_noun(from, "element"))
        }
        (None, Some(to)) => format!(" of {} out", number_and_noun(to, "element")),
        _ => String::new(),
    };
    format!("{}{elements}", quote_text(&timeout.op))
}

/// The first line of those that waited, lines of ranks that are `behind`, and more that waited.
fn timeout_evidence<'a>(
    waited: &TimedOutWait<'_>,
    behind: impl Iterator<Item = &'a (WatchdogProgress, &'a WatchdogRecord)>,
) -> Vec<Evidence> {
    let mut waits = waited.lines().map(WatchdogRecord::to_evidence);
    let first = waits.next();
    let behind = behind.map(|(_, watched)| watched.to_evidence()).take(2);
    let mut seen = BTreeSet::new();
    let all = first.into_iter().chain(behind).chain(waits.take(2));
    all.filter(|evidence| seen.insert(evidence.at)).collect()
}

/// Describes the progress that ranks report.
fn describe_progress(far: &BTreeMap<u32, (WatchdogProgress, &WatchdogRecord)>) -> String {
    let each: Vec<String> = far
        .iter()
        .take(MAX_RANKS_DESCRIBED)
        .map(|(rank, (far, _))| format!("{rank} ({}, {})", far.enqueued, far.completed))
        .collect();
    let more = far.len().saturating_sub(each.len());
    match (each.len(), more) {
        (0, _) => "no rank reports its progress".to_owned(),
        (_, 0) => format!("rank (last enqueued, last completed): {}", each.join(", ")),
        _ => format!(
            "rank (last enqueued, last completed): {} and {more} more",
            each.join(", ")
        ),
    }
}

/// The number of a group's members, by the elements of a call that gathers or scatters.
fn group_size(waited: &TimedOutWait<'_>) -> Option<u32> {
    let mut sizes = waited
        .timeouts
        .iter()
        .map(|(_, timeout)| timeout.group_size());
    let first = sizes.next()??;
    sizes.all(|size| size == Some(first)).then_some(first)
}
