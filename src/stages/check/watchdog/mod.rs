//! What PyTorch's watchdog says: which call of which process group timed out, and
//! how far each rank was.

pub(super) mod nccl_call;
pub(super) mod timed_out;

use super::wording::TEXT;
use crate::grammar::message::c10d::C10d;
use crate::stages::net::all::First;
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How many lines that differ are kept; more are only counted.
const RECORDS: usize = 1 << 14;

/// A line of the watchdog; one that only repeats another is left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Watched {
    /// Where it is.
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
    pub(crate) fn named(&self) -> Option<u32> {
        self.global.or(self.rank)
    }
}

/// What a line of the watchdog says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum What {
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
    /// The watchdog failed with these words.
    Exception(Box<[u8]>),
}

/// A call that took too long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TimedOut {
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
type Key = (Option<Box<[u8]>>, Option<u32>, Option<u32>, Said);

/// A record without what only repeats.
#[derive(Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Said {
    Timeout(u64),
    Work(Option<i64>, i64, i64),
    Exception(Box<[u8]>),
}

/// The lines of the watchdog.
#[derive(Debug, Default, Serialize, Deserialize)]
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
            C10d::Exception(exception) => {
                let what = &exception.what[..exception.what.len().min(TEXT)];
                self.keep(made(What::Exception(what.into())));
            }
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
        let said = match &record.what {
            What::Timeout(timeout) => Said::Timeout(timeout.seq),
            What::Work {
                at,
                enqueued,
                completed,
            } => Said::Work(*at, *enqueued, *completed),
            What::Exception(what) => Said::Exception(what.clone()),
        };
        let key = (record.group.clone(), record.rank, record.global, said);
        if self.records.len() < RECORDS && self.known.insert(key) {
            self.records.push(record);
        }
    }

    /// Adds a chunk's; `placed` says where its lines are.
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
        self.drop_quotes();
    }

    /// Leaves out lines that quote a timeout of the same rank, as the exception's `what():` does:
    /// they do not say whose process it is, and all else is the same to the millisecond.
    fn drop_quotes(&mut self) {
        type Quote = (Option<u32>, u64, Box<[u8]>, u64);
        let key = |record: &Watched, timeout: &TimedOut| -> Quote {
            let TimedOut {
                seq, op, ran_ms, ..
            } = timeout;
            (record.rank, *seq, op.clone(), ran_ms.to_bits())
        };
        let mut told: FxHashSet<Quote> = FxHashSet::default();
        for record in &self.records {
            if let (What::Timeout(timeout), Some(_)) = (&record.what, record.global) {
                told.insert(key(record, timeout));
            }
        }
        self.records.retain(|record| match &record.what {
            What::Timeout(timeout) if record.global.is_none() => {
                !told.contains(&key(record, timeout))
            }
            _ => true,
        });
    }

    pub(super) fn records(&self) -> &[Watched] {
        &self.records
    }

    pub(super) fn ordinary_ends(&self) -> (u64, Option<&Watched>) {
        (self.ends, self.end.as_ref())
    }
}
