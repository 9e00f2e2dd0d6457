//! What PyTorch's watchdog says: which call of which process group timed out, and
//! how far each rank was.

pub(super) mod nccl_call;
pub(super) mod timed_out;

use crate::grammar::message::c10d::C10dMessage;
use crate::stages::check::limits::MAX_LINE_TEXT_BYTES;
use crate::stages::net::net_stage::FirstReportLine;
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How many lines that differ are kept; more are only counted.
const MAX_WATCHDOG_LINES: usize = 1 << 14;

/// A line of the watchdog; one that only repeats another is left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct WatchdogRecord {
    /// Where it is.
    pub at: FirstReportLine,
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
    pub what: WatchdogMessage,
}

impl WatchdogRecord {
    /// The rank by which people know it: in the job, or else in the group.
    pub(crate) fn known_rank(&self) -> Option<u32> {
        self.global.or(self.rank)
    }
}

/// What a line of the watchdog says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum WatchdogMessage {
    /// A call took too long.
    Timeout(TimedOutCall),
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
pub(crate) struct TimedOutCall {
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
type WatchdogLineKey = (
    Option<Box<[u8]>>,
    Option<u32>,
    Option<u32>,
    WatchdogMessageKey,
);

/// A record without what only repeats.
#[derive(Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum WatchdogMessageKey {
    Timeout(u64),
    Work(Option<i64>, i64, i64),
    Exception(Box<[u8]>),
}

/// The lines of the watchdog.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Watchdog {
    records: Vec<WatchdogRecord>,
    known: FxHashSet<WatchdogLineKey>,
    /// Processes that ended in an ordinary way, and the first of those lines.
    ends: u64,
    end: Option<WatchdogRecord>,
}

impl Watchdog {
    /// Takes a line.
    pub(super) fn take_line(&mut self, line: &[u8], what: &C10dMessage<'_>, at: FirstReportLine) {
        let who = what.member();
        let made = |what| WatchdogRecord {
            at,
            text: line[..line.len().min(MAX_LINE_TEXT_BYTES)].into(),
            group: who.group.map(Into::into),
            rank: who.rank,
            global: who.global,
            what,
        };
        match *what {
            C10dMessage::Timeout(timeout) => {
                self.keep_line(made(WatchdogMessage::Timeout(TimedOutCall {
                    seq: timeout.seq,
                    op: timeout.op.into(),
                    numel_in: timeout.numel_in,
                    numel_out: timeout.numel_out,
                    timeout_ms: timeout.timeout_ms,
                    ran_ms: timeout.ran_ms,
                })));
            }
            C10dMessage::LastWork(last) => self.keep_line(made(WatchdogMessage::Work {
                at: last.at,
                enqueued: last.enqueued,
                completed: last.completed,
            })),
            C10dMessage::Exception(exception) => {
                let what = &exception.what[..exception.what.len().min(MAX_LINE_TEXT_BYTES)];
                self.keep_line(made(WatchdogMessage::Exception(what.into())));
            }
            C10dMessage::NotDestroyed(_) => {
                self.ends += 1;
                self.end.get_or_insert_with(|| {
                    made(WatchdogMessage::Work {
                        at: None,
                        enqueued: 0,
                        completed: 0,
                    })
                });
            }
        }
    }

    fn keep_line(&mut self, record: WatchdogRecord) {
        let said = match &record.what {
            WatchdogMessage::Timeout(timeout) => WatchdogMessageKey::Timeout(timeout.seq),
            WatchdogMessage::Work {
                at,
                enqueued,
                completed,
            } => WatchdogMessageKey::Work(*at, *enqueued, *completed),
            WatchdogMessage::Exception(what) => WatchdogMessageKey::Exception(what.clone()),
        };
        let key = (record.group.clone(), record.rank, record.global, said);
        if self.records.len() < MAX_WATCHDOG_LINES && self.known.insert(key) {
            self.records.push(record);
        }
    }

    /// Adds a chunk's; `placed` says where its lines are.
    pub(super) fn add_chunk(
        &mut self,
        part: Watchdog,
        placed: impl Fn(FirstReportLine) -> FirstReportLine,
    ) {
        let moved = |mut record: WatchdogRecord| {
            record.at = placed(record.at);
            record
        };
        for record in part.records {
            self.keep_line(moved(record));
        }
        self.ends += part.ends;
        if self.end.is_none() {
            self.end = part.end.map(moved);
        }
    }

    /// Names the process groups of timeouts, whose own lines do not.
    pub(super) fn name_timeout_groups(&mut self) {
        let mut groups = BTreeMap::new();
        for record in &self.records {
            if let (Some(group), WatchdogMessage::Work { at: Some(at), .. }) =
                (&record.group, &record.what)
            {
                let call = (record.rank, record.global, *at);
                groups.entry(call).or_insert_with(|| group.clone());
            }
        }
        for record in &mut self.records {
            if let (None, WatchdogMessage::Timeout(timeout)) = (&record.group, &record.what) {
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
        let key = |record: &WatchdogRecord, timeout: &TimedOutCall| -> Quote {
            let TimedOutCall {
                seq, op, ran_ms, ..
            } = timeout;
            (record.rank, *seq, op.clone(), ran_ms.to_bits())
        };
        let mut told: FxHashSet<Quote> = FxHashSet::default();
        for record in &self.records {
            if let (WatchdogMessage::Timeout(timeout), Some(_)) = (&record.what, record.global) {
                told.insert(key(record, timeout));
            }
        }
        self.records.retain(|record| match &record.what {
            WatchdogMessage::Timeout(timeout) if record.global.is_none() => {
                !told.contains(&key(record, timeout))
            }
            _ => true,
        });
    }

    pub(super) fn kept_records(&self) -> &[WatchdogRecord] {
        &self.records
    }

    pub(super) fn ordinary_ends(&self) -> (u64, Option<&WatchdogRecord>) {
        (self.ends, self.end.as_ref())
    }
}
