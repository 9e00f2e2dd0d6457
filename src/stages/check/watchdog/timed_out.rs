//! What the watchdog's lines mean together: for each call that timed out, who waited
//! and who is behind.

use super::{TimedOut, Watched, What};
use crate::stages::check::finding::{About, Evidence, Finding, Severity, Sure};
use crate::stages::check::wording::{ranks as ranks_named, text, verb};
use crate::stages::net::all::First;
use std::collections::{BTreeMap, BTreeSet};

/// How far a rank is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Far {
    enqueued: i64,
    completed: i64,
}

/// A call that ranks of one process group waited for in vain.
struct Waited<'a> {
    group: Option<&'a [u8]>,
    seq: u64,
    lines: Vec<(&'a Watched, &'a TimedOut)>,
}

/// One finding for each call of each process group that timed out.
pub(crate) fn findings(records: &[Watched]) -> Vec<Finding> {
    // Process groups as they speak, and the calls of each in their order.
    let mut groups: BTreeMap<Option<&[u8]>, First> = BTreeMap::new();
    let mut calls: BTreeMap<(First, u64), Waited<'_>> = BTreeMap::new();
    for record in records {
        if let What::Timeout(timeout) = &record.what {
            let group = record.group.as_deref();
            let key = (*groups.entry(group).or_insert(record.at), timeout.seq);
            let waited = calls.entry(key).or_insert_with(|| Waited {
                group,
                seq: timeout.seq,
                lines: Vec::new(),
            });
            waited.lines.push((record, timeout));
        }
    }
    let waits = calls.values().filter_map(|waited| finding(waited, records));
    exceptions(records).into_iter().chain(waits).collect()
}

/// One finding for each error that the watchdog itself failed with.
fn exceptions(records: &[Watched]) -> Vec<Finding> {
    let mut all: BTreeMap<(First, &[u8]), Vec<&Watched>> = BTreeMap::new();
    let mut first: BTreeMap<&[u8], First> = BTreeMap::new();
    for record in records {
        if let What::Exception(what) = &record.what {
            let at = *first.entry(what).or_insert(record.at);
            all.entry((at, what)).or_default().push(record);
        }
    }
    let finding = |((_, what), lines): (&(First, &[u8]), &Vec<&Watched>)| {
        let ranks: BTreeSet<u32> = lines.iter().filter_map(|line| line.named()).collect();
        let rank = ranks.first().copied().filter(|_| ranks.len() == 1);
        Finding {
            id: "watchdog_exception",
            severity: Severity::Error,
            says: format!("PyTorch's watchdog failed{}: {}", on(&ranks), text(what)),
            about: About {
                rank,
                ..About::default()
            },
            sure: Sure::High,
            why: "the watchdog's lines report it".to_owned(),
            advice: "CUDA reports an error to the next caller: run with CUDA_LAUNCH_BLOCKING=1 or \
                     compute-sanitizer to find the kernel, and look for Xid lines in the kernel \
                     log; see vllm-project/vllm#4108"
                .to_owned(),
            evidence: lines.iter().take(3).map(|line| shown(line)).collect(),
        }
    };
    all.iter().map(finding).collect()
}

/// ` on rank 1`, ` on ranks 0-2`.
fn on(ranks: &BTreeSet<u32>) -> String {
    match ranks.len() {
        0 => String::new(),
        _ => format!(" on {}", named(ranks)),
    }
}

/// `rank 1`, `ranks 0-2`.
fn named(ranks: &BTreeSet<u32>) -> String {
    let rank = verb(ranks.len(), "rank", "ranks");
    format!("{rank} {}", ranks_named(ranks))
}

/// How far each rank of a process group says it is; a rank's last word counts.
fn far<'a>(group: Option<&[u8]>, records: &'a [Watched]) -> BTreeMap<u32, (Far, &'a Watched)> {
    let mut far: BTreeMap<u32, (Far, &Watched)> = BTreeMap::new();
    for record in records {
        if let (
            What::Work {
                enqueued,
                completed,
                ..
            },
            Some(rank),
        ) = (&record.what, record.named())
            && record.group.as_deref() == group
        {
            let now = Far {
                enqueued: *enqueued,
                completed: *completed,
            };
            far.insert(rank, (now, record));
        }
    }
    far
}

fn finding(waited: &Waited<'_>, records: &[Watched]) -> Option<Finding> {
    let (_, timeout) = waited.lines.first()?;
    let ranks: BTreeSet<u32> = waited.lines.iter().filter_map(|(w, _)| w.named()).collect();
    let mut far = far(waited.group, records);
    let why = how_far(&far);
    // Who says that it completed this call is behind no one who waits for it: it came to it later, or
    // was let through.
    let is_past = |rank: &u32, far: &Far| {
        !ranks.contains(rank) && u64::try_from(far.completed).is_ok_and(|n| n >= waited.seq)
    };
    let past: BTreeSet<u32> = far
        .iter()
        .filter(|(rank, (far, _))| is_past(rank, far))
        .map(|(&rank, _)| rank)
        .collect();
    far.retain(|rank, _| !past.contains(rank));
    let behind = behind(&far, waited.seq);
    let evidence = evidence(waited, behind.iter().filter_map(|rank| far.get(rank)));
    let odd = match silent(waited, records) {
        _ if !behind.is_empty() => Odd::Behind(behind),
        (silent, of_job) if !silent.is_empty() => Odd::Silent(silent, of_job),
        _ => match ahead(&far) {
            ahead if !ahead.is_empty() => Odd::Ahead(ahead),
            _ if !past.is_empty() => Odd::Past(past),
            _ => Odd::Nobody,
        },
    };
    Some(Finding {
        id: "watchdog_timeout",
        severity: Severity::Error,
        says: call(waited, timeout) + &on(&ranks) + &odd.says(),
        about: About {
            rank: odd.rank(&ranks),
            ..About::default()
        },
        sure: Sure::High,
        why: format!("the watchdog's lines report it; {why}"),
        advice: "look at the ranks that are behind the others or silent: compare their \
                 calls (NCCL_DEBUG_SUBSYS=COLL), look for a crash, an exception or a wait outside \
                 NCCL (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp of pytorch/pytorch)"
            .to_owned(),
        evidence,
    })
}

/// What was waited for, and how long.
fn call(waited: &Waited<'_>, timeout: &TimedOut) -> String {
    let group = match waited.group {
        Some(group) => format!(" of process group {}", text(group)),
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
        text(&timeout.op),
    )
}

/// The first line of those that waited, those of ranks that are `behind`, and more that waited.
fn evidence<'a>(
    waited: &Waited<'_>,
    behind: impl Iterator<Item = &'a (Far, &'a Watched)>,
) -> Vec<Evidence> {
    let mut waits = waited.lines.iter().map(|(watched, _)| shown(watched));
    let first = waits.next();
    let behind = behind.map(|(_, watched)| shown(watched)).take(2);
    let mut seen = BTreeSet::new();
    let all = first.into_iter().chain(behind).chain(waits.take(2));
    all.filter(|evidence| seen.insert(evidence.at)).collect()
}

/// The ranks that differ from those that wait, in the order in which that explains a wait.
enum Odd {
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

impl Odd {
    fn says(&self) -> String {
        match self {
            Odd::Behind(ranks) => {
                let is = verb(ranks.len(), "is", "are");
                format!("; {} {is} behind", named(ranks))
            }
            Odd::Silent(ranks, of_job) => {
                let whose = if *of_job { "" } else { " of the group" };
                format!("; {}{whose} printed no such line", named(ranks))
            }
            Odd::Ahead(ranks) => {
                let has = verb(ranks.len(), "has", "have");
                format!(
                    "; all have made it, but {} {has} gone further than the others",
                    named(ranks)
                )
            }
            Odd::Past(ranks) => format!("; {} went past it", named(ranks)),
            Odd::Nobody => String::new(),
        }
    }

    /// The one rank to look at, if it is one, where the ranks `waiting` wait.
    fn rank(&self, waiting: &BTreeSet<u32>) -> Option<u32> {
        let ranks = match self {
            Odd::Silent(_, false) | Odd::Nobody => return None,
            Odd::Past(past) if past.len() >= waiting.len() => waiting,
            Odd::Behind(ranks) | Odd::Silent(ranks, _) | Odd::Ahead(ranks) | Odd::Past(ranks) => {
                ranks
            }
        };
        ranks.first().copied().filter(|_| ranks.len() == 1)
    }
}

/// How far each rank says it is.
fn how_far(far: &BTreeMap<u32, (Far, &Watched)>) -> String {
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
fn behind(far: &BTreeMap<u32, (Far, &Watched)>, seq: u64) -> BTreeSet<u32> {
    let seq = i64::try_from(seq).unwrap_or(i64::MAX);
    let behind = far.iter().filter(|(_, (far, _))| far.enqueued < seq);
    behind.map(|(&rank, _)| rank).collect()
}

/// The few that made more calls than most, which all made as many.
fn ahead(far: &BTreeMap<u32, (Far, &Watched)>) -> BTreeSet<u32> {
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
fn silent(waited: &Waited<'_>, records: &[Watched]) -> (BTreeSet<u32>, bool) {
    let of_group = |record: &&Watched| record.group.as_deref() == waited.group;
    let spoke: BTreeSet<u32> = records
        .iter()
        .filter(of_group)
        .filter_map(|r| r.rank)
        .collect();
    let of_job = |r: &Watched| r.global.is_none_or(|global| r.rank == Some(global));
    let of_job = records.iter().filter(of_group).all(of_job);
    // One rank's word alone says nothing of who else there is.
    let most = spoke.last().copied().filter(|_| spoke.len() > 1);
    let silent = match most {
        Some(most) if most < 1 << 20 => (0..most).filter(|r| !spoke.contains(r)).collect(),
        _ => BTreeSet::new(),
    };
    (silent, of_job)
}

fn shown(watched: &Watched) -> Evidence {
    Evidence {
        at: watched.at.into(),
        text: Some(watched.text.to_vec()),
    }
}
