//! What the watchdog's lines mean together: for each call that timed out, who waited
//! and who is behind.

use super::{TimedOutCall, WatchdogMessage, WatchdogRecord};
use crate::stages::check::finding::{About, Confidence, Evidence, Finding, Kind, Reason, Severity};
use crate::stages::check::wording::{quote_text, rank_ranges as ranks_named, verb_form};
use crate::stages::net::net_stage::FirstReportLine;
use memchr::memmem;
use std::collections::{BTreeMap, BTreeSet};

/// How far a rank is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct WatchdogProgress {
    enqueued: i64,
    completed: i64,
}

/// A call that ranks of one process group waited for in vain.
struct TimedOutWait<'a> {
    group: Option<&'a [u8]>,
    seq: u64,
    lines: Vec<(&'a WatchdogRecord, &'a TimedOutCall)>,
}

/// One finding for each call of each process group that timed out.
pub(crate) fn find_timeouts(records: &[WatchdogRecord]) -> Vec<Finding> {
    // Process groups as they speak, and the calls of each in their order.
    let mut groups: BTreeMap<Option<&[u8]>, FirstReportLine> = BTreeMap::new();
    let mut calls: BTreeMap<(FirstReportLine, u64), TimedOutWait<'_>> = BTreeMap::new();
    for record in records {
        if let WatchdogMessage::Timeout(timeout) = &record.what {
            let group = record.group.as_deref();
            let key = (*groups.entry(group).or_insert(record.at), timeout.seq);
            let waited = calls.entry(key).or_insert_with(|| TimedOutWait {
                group,
                seq: timeout.seq,
                lines: Vec::new(),
            });
            waited.lines.push((record, timeout));
        }
    }
    let waits = calls
        .values()
        .filter_map(|waited| timeout_finding(waited, records));
    find_watchdog_exceptions(records)
        .into_iter()
        .chain(waits)
        .collect()
}

/// One finding for each error that the watchdog itself failed with.
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
        Finding {
            kind: Kind::WatchdogException,
            severity: Severity::Error,
            says: format!(
                "PyTorch's watchdog failed{}: {}",
                describe_on_ranks(&ranks),
                quote_text(what)
            ),
            about: About {
                rank,
                ..About::default()
            },
            sure: Confidence::High,
            why: "the watchdog's lines report it".to_owned(),
            advice: "CUDA reports an error to the next caller: run with CUDA_LAUNCH_BLOCKING=1 or \
                     compute-sanitizer to find the kernel, and look for Xid lines in the kernel \
                     log; see vllm-project/vllm#4108"
                .to_owned(),
            evidence: lines
                .iter()
                .take(3)
                .map(|line| watchdog_evidence(line))
                .collect(),
            // C++ reports this of a watchdog whose process is taken down.
            reasons: Vec::from_iter(
                memmem::find(what, b"Broken promise").map(|_| Reason::BrokenPromise),
            ),
        }
    };
    all.iter().map(finding).collect()
}

/// ` on rank 1`, ` on ranks 0-2`.
fn describe_on_ranks(ranks: &BTreeSet<u32>) -> String {
    match ranks.len() {
        0 => String::new(),
        _ => format!(" on {}", describe_ranks(ranks)),
    }
}

/// `rank 1`, `ranks 0-2`.
fn describe_ranks(ranks: &BTreeSet<u32>) -> String {
    let rank = verb_form(ranks.len(), "rank", "ranks");
    format!("{rank} {}", ranks_named(ranks))
}

/// How far each rank of a process group says it is; a rank's last word counts.
fn progress_by_rank<'a>(
    group: Option<&[u8]>,
    records: &'a [WatchdogRecord],
) -> BTreeMap<u32, (WatchdogProgress, &'a WatchdogRecord)> {
    let mut far: BTreeMap<u32, (WatchdogProgress, &WatchdogRecord)> = BTreeMap::new();
    for record in records {
        if let (
            WatchdogMessage::Work {
                enqueued,
                completed,
                ..
            },
            Some(rank),
        ) = (&record.what, record.known_rank())
            && record.group.as_deref() == group
        {
            let now = WatchdogProgress {
                enqueued: *enqueued,
                completed: *completed,
            };
            far.insert(rank, (now, record));
        }
    }
    far
}

fn timeout_finding(waited: &TimedOutWait<'_>, records: &[WatchdogRecord]) -> Option<Finding> {
    let (_, timeout) = waited.lines.first()?;
    let ranks: BTreeSet<u32> = waited
        .lines
        .iter()
        .filter_map(|(w, _)| w.known_rank())
        .collect();
    let mut far = progress_by_rank(waited.group, records);
    let why = describe_progress(&far);
    // Who says that it completed this call is behind no one who waits for it: it came to it later, or
    // was let through.
    let is_past = |rank: &u32, far: &WatchdogProgress| {
        !ranks.contains(rank) && u64::try_from(far.completed).is_ok_and(|n| n >= waited.seq)
    };
    let past: BTreeSet<u32> = far
        .iter()
        .filter(|(rank, (far, _))| is_past(rank, far))
        .map(|(&rank, _)| rank)
        .collect();
    far.retain(|rank, _| !past.contains(rank));
    let behind = ranks_behind(&far, waited.seq);
    let evidence = timeout_evidence(waited, behind.iter().filter_map(|rank| far.get(rank)));
    let odd = match silent_ranks(waited, records) {
        _ if !behind.is_empty() => OddGroupRanks::Behind(behind),
        (silent, of_job) if !silent.is_empty() => OddGroupRanks::Silent(silent, of_job),
        _ => match ranks_ahead(&far) {
            ahead if !ahead.is_empty() => OddGroupRanks::Ahead(ahead),
            _ if !past.is_empty() => OddGroupRanks::Past(past),
            _ => OddGroupRanks::Nobody,
        },
    };
    Some(Finding {
        kind: Kind::WatchdogTimeout,
        severity: Severity::Error,
        says: describe_wait(waited, timeout) + &describe_on_ranks(&ranks) + &odd.describe_odd(),
        about: About {
            rank: odd.rank_to_blame(&ranks),
            ..About::default()
        },
        sure: Confidence::High,
        why: format!("the watchdog's lines report it; {why}"),
        advice: "look at the ranks that are behind the others or silent: compare their \
                 calls (NCCL_DEBUG_SUBSYS=COLL), look for a crash, an exception or a wait outside \
                 NCCL (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp of pytorch/pytorch)"
            .to_owned(),
        evidence,
        reasons: Vec::new(),
    })
}

/// What was waited for, and how long.
fn describe_wait(waited: &TimedOutWait<'_>, timeout: &TimedOutCall) -> String {
    let group = match waited.group {
        Some(group) => format!(" of process group {}", quote_text(group)),
        None => String::new(),
    };
    let elements = match (timeout.numel_in, timeout.numel_out) {
        (Some(from), Some(to)) if from == to => format!(" of {from} elements"),
        (Some(from), Some(to)) => format!(" of {from} elements in and {to} out"),
        _ => String::new(),
    };
    format!(
        "PyTorch's wait for call {}{group} timed out after {} ms: {}{elements}",
        waited.seq,
        timeout.timeout_ms,
        quote_text(&timeout.op),
    )
}

/// The first line of those that waited, those of ranks that are `behind`, and more that waited.
fn timeout_evidence<'a>(
    waited: &TimedOutWait<'_>,
    behind: impl Iterator<Item = &'a (WatchdogProgress, &'a WatchdogRecord)>,
) -> Vec<Evidence> {
    let mut waits = waited
        .lines
        .iter()
        .map(|(watched, _)| watchdog_evidence(watched));
    let first = waits.next();
    let behind = behind
        .map(|(_, watched)| watchdog_evidence(watched))
        .take(2);
    let mut seen = BTreeSet::new();
    let all = first.into_iter().chain(behind).chain(waits.take(2));
    all.filter(|evidence| seen.insert(evidence.at)).collect()
}

/// The ranks that differ from those that wait, in the order in which that explains a wait.
enum OddGroupRanks {
    /// They have not made the call.
    Behind(BTreeSet<u32>),
    /// Nothing is known of them; the ranks are those of the job.
    Silent(BTreeSet<u32>, bool),
    /// All have made the call, and these went on.
    Ahead(BTreeSet<u32>),
    /// These completed it.
    Past(BTreeSet<u32>),
    Nobody,
}

impl OddGroupRanks {
    fn describe_odd(&self) -> String {
        match self {
            OddGroupRanks::Behind(ranks) => {
                let is = verb_form(ranks.len(), "is", "are");
                format!("; {} {is} behind", describe_ranks(ranks))
            }
            OddGroupRanks::Silent(ranks, of_job) => {
                let whose = if *of_job { "" } else { " of the group" };
                format!("; {}{whose} printed no such line", describe_ranks(ranks))
            }
            OddGroupRanks::Ahead(ranks) => {
                let has = verb_form(ranks.len(), "has", "have");
                format!(
                    "; all have made it, but {} {has} gone further than the others",
                    describe_ranks(ranks)
                )
            }
            OddGroupRanks::Past(ranks) => format!("; {} went past it", describe_ranks(ranks)),
            OddGroupRanks::Nobody => String::new(),
        }
    }

    /// The one rank to look at, if it is one, where the ranks `waiting` wait.
    fn rank_to_blame(&self, waiting: &BTreeSet<u32>) -> Option<u32> {
        let ranks = match self {
            OddGroupRanks::Silent(_, false) | OddGroupRanks::Nobody => return None,
            OddGroupRanks::Past(past) if past.len() >= waiting.len() => waiting,
            OddGroupRanks::Behind(ranks)
            | OddGroupRanks::Silent(ranks, _)
            | OddGroupRanks::Ahead(ranks)
            | OddGroupRanks::Past(ranks) => ranks,
        };
        ranks.first().copied().filter(|_| ranks.len() == 1)
    }
}

/// How far each rank says it is.
fn describe_progress(far: &BTreeMap<u32, (WatchdogProgress, &WatchdogRecord)>) -> String {
    let each: Vec<String> = far
        .iter()
        .take(16)
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

/// The ranks that have not made the call.
fn ranks_behind(
    far: &BTreeMap<u32, (WatchdogProgress, &WatchdogRecord)>,
    seq: u64,
) -> BTreeSet<u32> {
    let seq = i64::try_from(seq).unwrap_or(i64::MAX);
    let behind = far.iter().filter(|(_, (far, _))| far.enqueued < seq);
    behind.map(|(&rank, _)| rank).collect()
}

/// The few that made more calls than most, which all made as many.
fn ranks_ahead(far: &BTreeMap<u32, (WatchdogProgress, &WatchdogRecord)>) -> BTreeSet<u32> {
    let least = far.values().map(|(far, _)| far.enqueued).min().unwrap_or(0);
    let ahead = far.iter().filter(|(_, (far, _))| far.enqueued > least);
    let ahead: BTreeSet<u32> = ahead.map(|(&rank, _)| rank).collect();
    match 2 * ahead.len() < far.len() {
        true => ahead,
        false => BTreeSet::new(),
    }
}

/// The ranks of the group, up to the highest that spoke, of which there is no line; and true where
/// its ranks are those of the job.
fn silent_ranks(waited: &TimedOutWait<'_>, records: &[WatchdogRecord]) -> (BTreeSet<u32>, bool) {
    let of_group = |record: &&WatchdogRecord| record.group.as_deref() == waited.group;
    let spoke: BTreeSet<u32> = records
        .iter()
        .filter(of_group)
        .filter_map(|r| r.rank)
        .collect();
    let of_job = |r: &WatchdogRecord| r.global.is_none_or(|global| r.rank == Some(global));
    let of_job = records.iter().filter(of_group).all(of_job);
    // One rank's word alone says nothing of who else there is.
    let most = spoke.last().copied().filter(|_| spoke.len() > 1);
    let silent = match most {
        Some(most) if most < 1 << 20 => (0..most).filter(|r| !spoke.contains(r)).collect(),
        _ => BTreeSet::new(),
    };
    (silent, of_job)
}

fn watchdog_evidence(watched: &WatchdogRecord) -> Evidence {
    Evidence {
        at: watched.at.into(),
        text: Some(watched.text.to_vec()),
    }
}
