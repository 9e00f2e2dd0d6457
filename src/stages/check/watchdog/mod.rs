//! The lines of PyTorch's watchdog: the calls of process groups that timed out, and each rank's last calls; and those by
//! which HCCL, Horovod and PyTorch's own comparison report ranks that wait or differ.

mod differing_calls;
mod group_report;
mod hccl;
mod limits;
pub(super) mod mismatch;
pub(super) mod nccl_call;
mod odd_ranks;
pub(super) mod stalled_tensors;
mod stuck;
pub(super) mod timed_out;
mod timed_out_call;
mod wrapped_lines;

use crate::grammar::message::c10d::C10dMessage;
use crate::grammar::message::group_member::GroupMember;
use crate::grammar::message::hccl::parse_hccl_reports;
use crate::grammar::message::horovod::parse_stalled_tensors;
use crate::stages::check::finding::Evidence;
use crate::stages::check::limits::MAX_LINE_TEXT_BYTES;
use crate::stages::check::wording::{quote_text, rank_ranges, verb_form};
use crate::stages::net::net_stage::FirstReportLine;
use differing_calls::ComparedCalls;
use hccl::HcclError;
use limits::{MAX_LAST_WORDS, MAX_WATCHDOG_LINES};
use memchr::memmem;
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};
use stalled_tensors::TensorWait;
use std::collections::{BTreeMap, BTreeSet};
pub(crate) use timed_out_call::TimedOutCall;
use wrapped_lines::WrappedLines;

/// A line of the watchdog; one that only repeats another is left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct WatchdogRecord {
    /// Where it is.
    pub at: FirstReportLine,
    /// The line, at most 300 bytes of it.
    pub text: Box<[u8]>,
    /// The process group as printed, `ID 0 PG GUID 0(default_pg)`. Timeouts do not print it: it is that of another
    /// line about the call.
    pub group: Option<Box<[u8]>>,
    /// The rank in it.
    pub rank: Option<u32>,
    /// The rank in the job.
    pub global: Option<u32>,
    /// Its message.
    pub what: WatchdogMessage,
}

impl WatchdogRecord {
    fn from_line(
        line: &[u8],
        who: GroupMember<'_>,
        at: FirstReportLine,
        what: WatchdogMessage,
    ) -> WatchdogRecord {
        WatchdogRecord {
            at,
            text: line[..line.len().min(MAX_LINE_TEXT_BYTES)].into(),
            group: who.group.map(Into::into),
            rank: who.rank,
            global: who.global,
            what,
        }
    }

    /// The rank in the job, or else in the group.
    pub(crate) fn known_rank(&self) -> Option<u32> {
        self.global.or(self.rank)
    }

    /// The line as evidence.
    pub(crate) fn to_evidence(&self) -> Evidence {
        Evidence {
            at: self.at.into(),
            text: Some(self.text.to_vec()),
        }
    }
}

/// The message of a line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum WatchdogMessage {
    /// A call took too long.
    Timeout(TimedOutCall),
    /// The rank's last calls.
    Work {
        /// The call that was given up.
        at: Option<i64>,
        /// The call enqueued last.
        enqueued: i64,
        /// The call completed last.
        completed: i64,
        /// The rank in the job that signalled a time-out.
        signalled_by: Option<u32>,
    },
    /// The watchdog failed with this text.
    Exception(Box<[u8]>),
    /// The watchdog made no progress, for this number of seconds.
    Stuck(Option<u64>),
    /// SGLang's scheduler finished no batch, for this number of seconds.
    NoBatch(Option<u64>),
    /// A call took too long, and the line ends before it.
    Cut,
    /// The watchdog ends its process.
    GaveUp,
    /// HCCL reports an error.
    Hccl(HcclError),
    /// Two ranks make different calls.
    Differ(ComparedCalls),
    /// Horovod waits for ranks.
    Stalled(TensorWait),
}

/// `rank 1`, `ranks 0-2`.
pub(super) fn describe_ranks(ranks: &BTreeSet<u32>) -> String {
    let rank = verb_form(ranks.len(), "rank", "ranks");
    format!("{rank} {}", rank_ranges(ranks))
}

/// ` of process group 1`, or nothing.
fn describe_of_group(group: Option<&[u8]>) -> String {
    let named = group.map(|group| format!(" of process group {}", quote_text(group)));
    named.unwrap_or_default()
}

/// ` on rank 1`, ` on ranks 0-2`, or nothing.
fn describe_on_ranks(ranks: &BTreeSet<u32>) -> String {
    match ranks.len() {
        0 => String::new(),
        _ => format!(" on {}", describe_ranks(ranks)),
    }
}

/// The value of each key that has only one.
struct OnlyValues<K, V>(BTreeMap<K, Option<V>>);

impl<K, V> Default for OnlyValues<K, V> {
    fn default() -> Self {
        OnlyValues(BTreeMap::new())
    }
}

impl<K: Ord, V: Copy + PartialEq> OnlyValues<K, V> {
    fn add(&mut self, key: K, value: V) {
        let known = self.0.entry(key).or_insert(Some(value));
        if *known != Some(value) {
            *known = None;
        }
    }

    fn get(&self, key: &K) -> Option<V> {
        *self.0.get(key)?
    }
}

/// The properties in which lines differ.
type WatchdogLineKey = (
    Option<Box<[u8]>>,
    Option<u32>,
    Option<u32>,
    WatchdogMessageKey,
);

/// A message without the properties that only repeat.
#[derive(Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum WatchdogMessageKey {
    Timeout(u64),
    /// A call without a number, by its operation.
    Unnumbered(Box<[u8]>),
    Cut,
    Hccl(HcclError),
    Differ(ComparedCalls),
    Stalled(TensorWait),
    Work(Option<i64>, i64, i64, Option<u32>),
    Exception(Box<[u8]>),
    Stuck(bool),
    NoBatch,
}

/// The lines of the watchdog.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Watchdog {
    records: Vec<WatchdogRecord>,
    known: FxHashSet<WatchdogLineKey>,
    wrapped: WrappedLines,
    /// Lines by which it ends its process, which repeat the others.
    last_words: Vec<WatchdogRecord>,
    /// Processes that ended in an ordinary way, and the first of those lines.
    ends: u64,
    end: Option<WatchdogRecord>,
}

impl Watchdog {
    /// Takes a line.
    pub(super) fn take_line(&mut self, line: &[u8], what: &C10dMessage<'_>, at: FirstReportLine) {
        let who = what.member();
        let made = |what| WatchdogRecord::from_line(line, who, at, what);
        match *what {
            // The pieces of a broken line name the rank.
            C10dMessage::Timeout(timeout)
                if timeout.who.names_nobody() && self.wrapped.ends_at(at) => {}
            C10dMessage::Timeout(timeout) => {
                self.keep_line(made(WatchdogMessage::Timeout(timeout.into())));
            }
            C10dMessage::TimeoutCut(who) => {
                self.wrapped.begin_line(line, at);
                let is_sure = memmem::find(line, b"] Watchdog caught").is_some();
                if is_sure && !who.names_nobody() {
                    self.keep_line(made(WatchdogMessage::Cut));
                }
            }
            C10dMessage::Hccl(_) => {
                for report in parse_hccl_reports(line) {
                    if let Some(error) = HcclError::from_report(&report) {
                        let what = WatchdogMessage::Hccl(error);
                        self.keep_line(WatchdogRecord::from_line(
                            report.line,
                            report.who,
                            at,
                            what,
                        ));
                    }
                }
            }
            C10dMessage::Differ(differ) => {
                self.keep_line(made(WatchdogMessage::Differ((&differ).into())));
            }
            C10dMessage::Stalled(_) => {
                for wait in parse_stalled_tensors(line).filter_map(|t| TensorWait::from_report(&t))
                {
                    self.keep_line(made(WatchdogMessage::Stalled(wait)));
                }
            }
            C10dMessage::LastWork(last) => self.keep_line(made(WatchdogMessage::Work {
                at: last.at,
                enqueued: last.enqueued,
                completed: last.completed,
                signalled_by: last.signalled_by,
            })),
            C10dMessage::Exception(exception) => {
                let what = &exception.what[..exception.what.len().min(MAX_LINE_TEXT_BYTES)];
                self.keep_line(made(WatchdogMessage::Exception(what.into())));
            }
            C10dMessage::Stuck(of) => self.keep_line(made(WatchdogMessage::Stuck(of.seconds))),
            C10dMessage::GaveUp(_) if self.last_words.len() < MAX_LAST_WORDS => {
                self.last_words.push(made(WatchdogMessage::GaveUp));
            }
            C10dMessage::GaveUp(_) => {}
            C10dMessage::NoBatch(of) => self.keep_line(made(WatchdogMessage::NoBatch(of.seconds))),
            C10dMessage::NotDestroyed(_) => {
                self.ends += 1;
                self.end.get_or_insert_with(|| {
                    made(WatchdogMessage::Work {
                        at: None,
                        enqueued: 0,
                        completed: 0,
                        signalled_by: None,
                    })
                });
            }
        }
    }

    /// Takes any line that is not NCCL's, which may be a piece of a broken one; before [`Self::take_line`].
    #[inline]
    pub(super) fn take_piece(&mut self, line: &[u8], at: FirstReportLine) {
        self.wrapped.note_head(line, at);
        if let Some(record) = self.wrapped.take_piece(line, at) {
            self.keep_line(record);
        }
    }

    fn keep_line(&mut self, record: WatchdogRecord) {
        let message = match &record.what {
            WatchdogMessage::Timeout(timeout) => match timeout.seq {
                Some(seq) => WatchdogMessageKey::Timeout(seq),
                None => WatchdogMessageKey::Unnumbered(timeout.op.clone()),
            },
            WatchdogMessage::Cut | WatchdogMessage::GaveUp => WatchdogMessageKey::Cut,
            WatchdogMessage::Hccl(error) => WatchdogMessageKey::Hccl(error.clone()),
            WatchdogMessage::Differ(calls) => WatchdogMessageKey::Differ(calls.clone()),
            WatchdogMessage::Stalled(wait) => WatchdogMessageKey::Stalled(wait.clone()),
            WatchdogMessage::Work {
                at,
                enqueued,
                completed,
                signalled_by,
            } => WatchdogMessageKey::Work(*at, *enqueued, *completed, *signalled_by),
            WatchdogMessage::Exception(what) => WatchdogMessageKey::Exception(what.clone()),
            WatchdogMessage::Stuck(seconds) => WatchdogMessageKey::Stuck(seconds.is_some()),
            WatchdogMessage::NoBatch(_) => WatchdogMessageKey::NoBatch,
        };
        let key = (record.group.clone(), record.rank, record.global, message);
        if self.records.len() < MAX_WATCHDOG_LINES && self.known.insert(key) {
            self.records.push(record);
        }
    }

    /// Adds a chunk's lines; `placed` gives their places in the input.
    pub(super) fn add_chunk(
        &mut self,
        part: Watchdog,
        placed: impl Fn(FirstReportLine) -> FirstReportLine,
    ) {
        let moved = |mut record: WatchdogRecord| {
            record.at = placed(record.at);
            record
        };
        // The pieces of a line may be in two chunks.
        let joined = self.wrapped.add_chunk(part.wrapped, &placed);
        let ends_at = joined.as_ref().map(|joined| joined.ends_at);
        if let Some(joined) = joined {
            self.keep_line(joined.record);
        }
        for record in part.records {
            let record = moved(record);
            let is_piece = Some(record.at) == ends_at && record.known_rank().is_none();
            if !is_piece {
                self.keep_line(record);
            }
        }
        let room = MAX_LAST_WORDS.saturating_sub(self.last_words.len());
        let words = part.last_words.into_iter().take(room);
        self.last_words.extend(words.map(moved));
        self.ends += part.ends;
        if self.end.is_none() {
            self.end = part.end.map(moved);
        }
    }

    /// Names the process groups of timeouts, which their own lines leave out.
    pub(super) fn name_timeout_groups(&mut self) {
        if self.records.is_empty() {
            self.records = std::mem::take(&mut self.last_words);
        }
        self.name_groups_by_rank();
        self.drop_quotes();
        self.drop_joined_lines();
        self.name_groups_by_call();
    }

    /// Drops cut lines of ranks that have a whole one, or one that was joined.
    fn drop_joined_lines(&mut self) {
        let is_timeout =
            |record: &&WatchdogRecord| matches!(record.what, WatchdogMessage::Timeout(_));
        let whole = self.records.iter().filter(is_timeout);
        let whole: BTreeSet<u32> = whole.filter_map(WatchdogRecord::known_rank).collect();
        let is_joined = |record: &WatchdogRecord| {
            record
                .known_rank()
                .is_some_and(|rank| whole.contains(&rank))
        };
        self.records
            .retain(|record| record.what != WatchdogMessage::Cut || !is_joined(record));
    }

    /// Takes the group, and the rank in it, of another line of the same process about the same call. The rank in the
    /// line of a timeout may be that of the job, so the process decides if its lines name only one group.
    fn name_groups_by_rank(&mut self) {
        let records = self.records.clone();
        let mut by_rank = OnlyValues::default();
        let mut by_process = OnlyValues::default();
        for record in &records {
            if let (Some(group), WatchdogMessage::Work { at: Some(at), .. }) =
                (record.group.as_deref(), &record.what)
            {
                by_rank.add((record.rank, record.global, *at), (group, record.rank));
                by_process.add((record.global, *at), (group, record.rank));
            }
        }
        for record in &mut self.records {
            if let (None, WatchdogMessage::Timeout(timeout)) = (&record.group, &record.what) {
                let Some(at) = timeout.seq.map(u64::cast_signed) else {
                    continue;
                };
                let of_process = record
                    .global
                    .and_then(|_| by_process.get(&(record.global, at)));
                let of_rank = by_rank.get(&(record.rank, record.global, at));
                if let Some((group, rank)) = of_rank.or(of_process) {
                    (record.group, record.rank) = (Some(group.into()), rank);
                }
            }
        }
    }

    /// Takes the only group that has an equal call of the same number: the line that names a rank's group may be
    /// cut, and the rank is not a group of its own. Its rank is that in the group only where the group's members
    /// have the ranks that they have in the job.
    fn name_groups_by_call(&mut self) {
        let records = self.records.clone();
        let mut groups = OnlyValues::default();
        let mut renumbered = FxHashSet::default();
        for record in &records {
            if let Some(group) = record.group.as_deref() {
                if let WatchdogMessage::Timeout(timeout) = &record.what
                    && let Some(call) = timeout.numbered_call()
                {
                    groups.add(call, group);
                }
                if record.global.is_some() && record.global != record.rank {
                    renumbered.insert(group);
                }
            }
        }
        for record in &mut self.records {
            if let (None, WatchdogMessage::Timeout(timeout)) = (&record.group, &record.what) {
                let is_too_high = |size| record.rank.is_some_and(|rank| rank >= size);
                let known = timeout.numbered_call().and_then(|call| groups.get(&call));
                if let Some(group) = known
                    && !timeout.group_size().is_some_and(is_too_high)
                {
                    record.rank = record.rank.filter(|_| !renumbered.contains(group));
                    record.group = Some(group.into());
                }
            }
        }
    }

    /// Drops lines that quote a timeout of the same rank, as the exception's `what():` does: they do not name
    /// the rank in the job, and agree in all else to the millisecond.
    fn drop_quotes(&mut self) {
        type Quote = (Option<u32>, Option<u64>, Box<[u8]>, Option<u64>);
        let key = |record: &WatchdogRecord, timeout: &TimedOutCall| -> Quote {
            let TimedOutCall {
                seq, op, ran_ms, ..
            } = timeout;
            (record.rank, *seq, op.clone(), ran_ms.map(f64::to_bits))
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
