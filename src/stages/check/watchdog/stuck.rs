//! The findings on watchdogs that make no progress themselves, since PyTorch then ends the process, and on lines that end
//! before their call.

use super::limits::MAX_STALLED_RANKS;
use super::{
    WatchdogMessage, WatchdogRecord, describe_of_group, describe_on_ranks, describe_ranks,
};
use crate::stages::check::finding::{About, Confidence, Finding, Kind};
use std::collections::BTreeSet;

/// Makes the finding on ranks with watchdogs that report no more than that: after a time-out, PyTorch also waits in vain
/// for the end of NCCL's own calls.
pub(super) fn find_stuck_watchdogs(records: &[WatchdogRecord]) -> Option<Finding> {
    let seconds = |record: &WatchdogRecord| match record.what {
        WatchdogMessage::Stuck(seconds) => Some(seconds),
        _ => None,
    };
    let reports_more = |record: &&WatchdogRecord| {
        !matches!(
            record.what,
            WatchdogMessage::Stuck(_) | WatchdogMessage::GaveUp
        )
    };
    let more = records.iter().filter(reports_more);
    let more: BTreeSet<Option<u32>> = more.map(WatchdogRecord::known_rank).collect();
    let is_all = |record: &WatchdogRecord| match record.known_rank() {
        Some(rank) => !more.contains(&Some(rank)) && !more.contains(&None),
        None => more.is_empty(),
    };
    let all: Vec<(&WatchdogRecord, Option<u64>)> = records
        .iter()
        .filter_map(|record| Some((record, seconds(record)?)))
        .filter(|(record, _)| is_all(record))
        .collect();
    let &(first, _) = all.first()?;
    let ranks: BTreeSet<u32> = all
        .iter()
        .filter_map(|(line, _)| line.known_rank())
        .collect();
    let on = describe_on_ranks(&ranks);
    let time = all.iter().find_map(|(_, seconds)| *seconds);
    let time = time.map_or(String::new(), |time| format!(" for {time} s"));
    Some(Finding {
        about: About::of_rank(ranks.first().copied().filter(|_| ranks.len() == 1)),
        why: "the lines report it, and none of these processes names a call that timed out".to_owned(),
        advice: "take the stacks of these processes while they hang (py-spy dump --native, gdb): a call of CUDA or \
                 NCCL does not return, or a thread in one holds Python's lock; compare the \
                 ranks' calls"
            .to_owned(),
        evidence: vec![first.to_evidence()],
        ..Finding::of_kind(
            Kind::WatchdogTimeout,
            if more.is_empty() { Confidence::High } else { Confidence::Medium },
            format!("PyTorch's watchdog made no progress{time}{on}: a call of CUDA or NCCL hangs"),
        )
    })
}

/// Makes the finding on schedulers of SGLang that finished no batch in time. Their ranks are numbered without gaps, so a
/// rank among them without such a line may be the one that ended or hangs elsewhere.
pub(super) fn find_idle_schedulers(records: &[WatchdogRecord]) -> Option<Finding> {
    let seconds = |record: &WatchdogRecord| match record.what {
        WatchdogMessage::NoBatch(seconds) => Some(seconds),
        _ => None,
    };
    let all: Vec<_> = records
        .iter()
        .filter_map(|record| Some((record, seconds(record)?)))
        .collect();
    let (first, time) = all.first()?;
    let ranks: BTreeSet<u32> = all
        .iter()
        .filter_map(|(line, _)| line.known_rank())
        .collect();
    let last = ranks
        .last()
        .map_or(0, |&last| last.min(MAX_STALLED_RANKS as u32));
    let missing: BTreeSet<u32> = (0..last).filter(|rank| !ranks.contains(rank)).collect();
    let time = time.map_or(String::new(), |time| format!(" for {time} s"));
    let on = describe_on_ranks(&ranks);
    // One rank that is left out, among several that wait.
    let one = missing.first().copied();
    let one = one.filter(|_| missing.len() == 1 && ranks.len() > 2);
    let (says, look) = match one {
        Some(rank) => (
            format!("SGLang finished no batch{time}{on}; rank {rank} printed no such line"),
            format!("look at rank {rank} first: its process may have ended, or hang elsewhere"),
        ),
        None => (
            format!("SGLang finished no batch{time}{on}"),
            "look for the first exception or crash before these lines".to_owned(),
        ),
    };
    Some(Finding {
        about: About::of_rank(one.or(ranks.first().copied().filter(|_| ranks.len() == 1))),
        why: "the watchdog of SGLang's scheduler reports it; the cause may be in a kernel, in a transfer between ranks, or in a rank \
              that ended"
            .to_owned(),
        advice: format!("{look}; take stacks of all ranks while they hang (py-spy dump --native)"),
        evidence: vec![first.to_evidence()],
        ..Finding::of_kind(
            Kind::WatchdogTimeout,
            if one.is_some() { Confidence::Medium } else { Confidence::High },
            says,
        )
    })
}

/// Makes a finding of lines that end before the call that timed out, if no other line names a call.
pub(super) fn find_cut_lines(records: &[WatchdogRecord], are_alone: bool) -> Option<Finding> {
    let cut = records
        .iter()
        .filter(|record| record.what == WatchdogMessage::Cut);
    let cut: Vec<&WatchdogRecord> = cut.filter(|_| are_alone).collect();
    let ranks: BTreeSet<u32> = cut
        .iter()
        .filter_map(|record| record.known_rank())
        .collect();
    let says = format!(
        "PyTorch's wait for a call timed out{}",
        describe_on_ranks(&ranks)
    );
    Some(Finding {
        why: "the watchdog's line reports it; it ends before the call".to_owned(),
        evidence: vec![cut.first()?.to_evidence()],
        ..Finding::of_kind(Kind::WatchdogTimeout, Confidence::High, says)
    })
}

/// Makes a finding of the lines by which ranks learn that a call timed out on one of them, if no line names the call.
pub(super) fn find_signals(records: &[WatchdogRecord], are_alone: bool) -> Option<Finding> {
    let signal = |record| match record {
        &WatchdogRecord {
            what:
                WatchdogMessage::Work {
                    at: None,
                    enqueued,
                    completed,
                    signalled_by: Some(by),
                },
            ..
        } => Some((record, by, (completed < enqueued).then_some(completed + 1))),
        _ => None,
    };
    let all: Vec<_> = records
        .iter()
        .filter(|_| are_alone)
        .filter_map(signal)
        .collect();
    let by: BTreeSet<u32> = all.iter().map(|(_, by, _)| *by).collect();
    let &(first, ..) = all.first()?;
    // Each group has numbers of its own.
    let waits = all.iter().filter_map(|(record, _, call)| {
        Some(((record.group.as_deref(), (*call)?), record.known_rank()?))
    });
    let waits: BTreeSet<_> = waits.collect();
    let at = match waits.first() {
        Some(&((group, call), _)) => {
            let those = waits.iter().filter(|(of, _)| *of == (group, call));
            let ranks = those.map(|(_, rank)| *rank).collect();
            let group = describe_of_group(group);
            format!(
                ", and {} waited for call {call}{group}",
                describe_ranks(&ranks)
            )
        }
        None => "; the ranks of these lines had completed all calls of their group".to_owned(),
    };
    Some(Finding {
        about: About::default(),
        why: "lines of PyTorch's watchdog report the signal".to_owned(),
        advice: format!(
            "look in the output of {} for the line that names the call (Watchdog caught collective operation timeout); \
             compare the dumps of the flight recorder",
            describe_ranks(&by)
        ),
        evidence: vec![first.to_evidence()],
        ..Finding::of_kind(
            Kind::WatchdogTimeout,
            Confidence::Medium,
            format!(
                "PyTorch's wait for a call timed out{}{at}",
                describe_on_ranks(&by)
            ),
        )
    })
}

/// Makes the finding on watchdogs that ended their processes, where no other line of them is left: the call is elsewhere.
pub(super) fn find_last_words(records: &[WatchdogRecord]) -> Option<Finding> {
    let is_last = |record: &WatchdogRecord| record.what == WatchdogMessage::GaveUp;
    let first = records.first().filter(|_| records.iter().all(is_last))?;
    let ranks: BTreeSet<u32> = records
        .iter()
        .filter_map(WatchdogRecord::known_rank)
        .collect();
    Some(Finding {
        why: "only the end of its report is here".to_owned(),
        advice: "look for the line before it that names the call, 'Watchdog caught collective operation timeout' or \
                 'terminated with exception', in the output of all ranks"
            .to_owned(),
        evidence: vec![first.to_evidence()],
        ..Finding::of_kind(
            Kind::WatchdogTimeout,
            Confidence::Medium,
            format!(
                "PyTorch's watchdog ended the process{}: a call of NCCL failed or timed out, and the line that names it is \
                 not here",
                describe_on_ranks(&ranks)
            ),
        )
    })
}
