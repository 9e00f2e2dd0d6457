//! What PyTorch's watchdog says: which call of which process group was waited for in vain, and
//! how far each rank was.

use super::finding::{About, Evidence, Finding, Severity, Sure};
use super::warnings::TEXT;
use crate::grammar::message::c10d::C10d;
use crate::stages::net::fold::First;
use rustc_hash::FxHashSet;
use std::collections::{BTreeMap, BTreeSet};

/// How many lines that differ are kept; more are only counted.
const RECORDS: usize = 1 << 14;

/// A line of the watchdog; one that only repeats another is left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Watched {
    /// Where it stands.
    pub at: First,
    /// The line, at most 300 bytes of it.
    pub text: Box<[u8]>,
    /// The process group as printed, `ID 0 PG GUID 0(default_pg)`; of a timeout, what another
    /// line of the same rank says of it.
    pub group: Option<Box<[u8]>>,
    /// The rank in it.
    pub rank: Option<u32>,
    /// The rank in the job.
    pub global: Option<u32>,
    /// What it says.
    pub what: What,
}

impl Watched {
    /// The rank by which people know it: in the job, or else in the group.
    pub fn named(&self) -> Option<u32> {
        self.global.or(self.rank)
    }
}

/// What a line of the watchdog says.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// A call took too long.
    Timeout(TimedOut),
    /// How far the rank is.
    Work {
        /// The call that failed.
        at: Option<i64>,
        /// The call enqueued last.
        enqueued: i64,
        /// The call completed last.
        completed: i64,
    },
}

/// A call that took too long.
#[derive(Debug, Clone, PartialEq)]
pub struct TimedOut {
    /// PyTorch's number of the call in its process group.
    pub seq: u64,
    /// PyTorch's name of the operation, `ALLREDUCE`.
    pub op: Box<[u8]>,
    /// Elements in.
    pub numel_in: Option<u64>,
    /// Elements out.
    pub numel_out: Option<u64>,
    /// How long it may take, in milliseconds.
    pub timeout_ms: u64,
    /// How long it took, in milliseconds.
    pub ran_ms: f64,
}

/// What makes two lines differ.
type Key = (Option<Box<[u8]>>, Option<u32>, Option<u32>, i64, i64, i64);

/// The lines of the watchdog.
#[derive(Debug, Default)]
pub(super) struct Watchdog {
    records: Vec<Watched>,
    known: FxHashSet<Key>,
    /// Processes that ended in an ordinary way, and the first of those lines.
    ends: u64,
    end: Option<Watched>,
}

impl Watchdog {
    /// Takes a line.
    pub(super) fn line(&mut self, line: &[u8], what: &C10d<'_>, at: First) {
        let who = what.who();
        let made = |what| Watched {
            at,
            text: line[..line.len().min(TEXT)].into(),
            group: who.group.map(Into::into),
            rank: who.rank,
            global: who.global,
            what,
        };
        match *what {
            C10d::Timeout(timeout) => self.keep(made(What::Timeout(TimedOut {
                seq: timeout.seq,
                op: timeout.op.into(),
                numel_in: timeout.numel_in,
                numel_out: timeout.numel_out,
                timeout_ms: timeout.timeout_ms,
                ran_ms: timeout.ran_ms,
            }))),
            C10d::LastWork(last) => self.keep(made(What::Work {
                at: last.at,
                enqueued: last.enqueued,
                completed: last.completed,
            })),
            C10d::NotDestroyed(_) => {
                self.ends += 1;
                self.end.get_or_insert_with(|| {
                    made(What::Work {
                        at: None,
                        enqueued: 0,
                        completed: 0,
                    })
                });
            }
        }
    }

    fn keep(&mut self, record: Watched) {
        let numbers = match &record.what {
            What::Timeout(timeout) => (i64::MIN, timeout.seq as i64, 0),
            What::Work {
                at,
                enqueued,
                completed,
            } => (at.unwrap_or(-1), *enqueued, *completed),
        };
        let key = (
            record.group.clone(),
            record.rank,
            record.global,
            numbers.0,
            numbers.1,
            numbers.2,
        );
        if self.records.len() < RECORDS && self.known.insert(key) {
            self.records.push(record);
        }
    }

    /// Adds a chunk's; `placed` says where its lines stand.
    pub(super) fn add(&mut self, part: Watchdog, placed: impl Fn(First) -> First) {
        let moved = |mut record: Watched| {
            record.at = placed(record.at);
            record
        };
        for record in part.records {
            self.keep(moved(record));
        }
        self.ends += part.ends;
        if self.end.is_none() {
            self.end = part.end.map(moved);
        }
    }

    /// Names the process groups of timeouts, whose own lines do not.
    pub(super) fn settle(&mut self) {
        let mut groups = BTreeMap::new();
        for record in &self.records {
            if let (Some(group), What::Work { at: Some(at), .. }) = (&record.group, &record.what) {
                let call = (record.rank, record.global, *at);
                groups.entry(call).or_insert_with(|| group.clone());
            }
        }
        for record in &mut self.records {
            if let (None, What::Timeout(timeout)) = (&record.group, &record.what) {
                let call = (record.rank, record.global, timeout.seq as i64);
                record.group = groups.get(&call).cloned();
            }
        }
    }

    pub(super) fn records(&self) -> &[Watched] {
        &self.records
    }

    pub(super) fn ordinary_ends(&self) -> (u64, Option<&Watched>) {
        (self.ends, self.end.as_ref())
    }
}

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

/// One finding for each call of each process group that was waited for in vain.
pub(super) fn findings(records: &[Watched]) -> Vec<Finding> {
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
    calls
        .values()
        .filter_map(|waited| finding(waited, records))
        .collect()
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
    let (first, timeout) = waited.lines.first()?;
    let ranks: BTreeSet<u32> = waited.lines.iter().filter_map(|(w, _)| w.named()).collect();
    let group = match waited.group {
        Some(group) => format!(" of process group {}", text(group)),
        None => String::new(),
    };
    let elements = match (timeout.numel_in, timeout.numel_out) {
        (Some(from), Some(to)) if from == to => format!(" of {from} elements"),
        (Some(from), Some(to)) => format!(" of {from} elements in and {to} out"),
        _ => String::new(),
    };
    let who = match ranks.len() {
        0 => String::new(),
        1 => format!(" on rank {}", list(&ranks)),
        _ => format!(" on ranks {}", list(&ranks)),
    };
    let mut says = format!(
        "PyTorch waited {} ms in vain for call {}{group}: {}{elements}{who}",
        timeout.timeout_ms,
        waited.seq,
        text(&timeout.op),
    );
    let far = far(waited.group, records);
    let (behind, why) = behind(&far);
    let (silent, of_job) = silent(waited, records);
    let mut about = About::default();
    match (behind.len(), silent.len()) {
        (0, 0) => {}
        (0, _) => {
            let whose = if of_job { "" } else { " of the group" };
            says += &format!("; no such line of rank {}{whose}", list(&silent));
            about.rank = silent
                .first()
                .copied()
                .filter(|_| of_job && silent.len() == 1);
        }
        _ => {
            says += &format!("; rank {} is behind", list(&behind));
            about.rank = behind.first().copied().filter(|_| behind.len() == 1);
        }
    }
    let mut evidence: Vec<Evidence> = vec![shown(first)];
    evidence.extend(
        behind
            .iter()
            .filter_map(|rank| far.get(rank))
            .map(|f| shown(f.1))
            .take(2),
    );
    evidence.extend(waited.lines.iter().skip(1).map(|(w, _)| shown(w)).take(2));
    let mut seen = BTreeSet::new();
    evidence.retain(|e| seen.insert(e.at));
    Some(Finding {
        id: "watchdog_timeout",
        severity: Severity::Error,
        says,
        about,
        sure: Sure::High,
        why: format!("the watchdog's lines say it; {why}"),
        advice: "find out what the ranks that are behind, or say nothing, did instead: compare \
                 their calls (NCCL_DEBUG_SUBSYS=COLL), look for a crash, an exception or a wait \
                 outside NCCL (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp of \
                 pytorch/pytorch)"
            .to_owned(),
        evidence,
    })
}

/// The ranks that are behind the others, and why they are said to be.
fn behind(far: &BTreeMap<u32, (Far, &Watched)>) -> (BTreeSet<u32>, String) {
    let each: Vec<String> = far
        .iter()
        .take(16)
        .map(|(rank, (far, _))| format!("{rank} ({}, {})", far.enqueued, far.completed))
        .collect();
    let more = far.len().saturating_sub(each.len());
    let mut why = match each.len() {
        0 => return (BTreeSet::new(), "no rank says how far it is".to_owned()),
        _ => format!("rank (last enqueued, last completed): {}", each.join(", ")),
    };
    if more > 0 {
        why += &format!(" and {more} more");
    }
    for of in [|far: &Far| far.enqueued, |far: &Far| far.completed] {
        let most = far.values().map(|(far, _)| of(far)).max().unwrap_or(0);
        let behind: BTreeSet<u32> = far
            .iter()
            .filter(|(_, (far, _))| of(far) < most)
            .map(|(&rank, _)| rank)
            .collect();
        if !behind.is_empty() {
            return (behind, why);
        }
    }
    (BTreeSet::new(), why)
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
        at: watched.at,
        text: Some(watched.text.to_vec()),
    }
}

/// Ranks as `0-2, 5`.
pub(super) fn list(ranks: &BTreeSet<u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks {
        match runs.last_mut() {
            Some((_, end)) if end.checked_add(1) == Some(rank) => *end = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let each: Vec<String> = runs
        .iter()
        .take(16)
        .map(|&(from, to)| match to - from {
            0 => from.to_string(),
            _ => format!("{from}-{to}"),
        })
        .collect();
    let more = match runs.len() - each.len() {
        0 => String::new(),
        more => format!(" and {more} more runs of ranks"),
    };
    each.join(", ") + &more
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
