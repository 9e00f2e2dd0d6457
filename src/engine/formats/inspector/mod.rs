//! What NCCL Inspector writes: JSON lines, a record for each operation that ended; or Prometheus
//! metrics, which have times and no calls.
//!
//! Facts by version (NCCL's `plugins/profiler/inspector`, before 2.29.7 `ext-profiler/inspector`):
//! format v4.0 to v4.2 has the communicator and the process on every line, the coming v4.3 on the
//! `dump_stats` line before the records of a communicator. Sizes are count × element size of what the
//! caller passed, without the count or the type; `coll_sn` counts each collective of a communicator
//! apart, from 0. The communicator's id is cut to 14 digits ([`CommId::recorded`]). `p2p_sn` counts what one process sends and receives: it is no call's number.

mod lost;
mod metrics;
mod record;
mod scan;
#[cfg(test)]
pub(super) mod tests;

use super::lines::Lines;
use super::{Format, Tells};
use crate::error::Result;
use crate::members::comm_id::CommId;
use crate::output::table::{Lacks, Row};
use crate::report::account::Account;
use lost::Lost;
use memchr::memmem;
use record::{Kind, Member, Record, Section};

pub(super) use metrics::{METRICS, Metrics};

/// Its JSON lines.
pub(super) const FORMAT: Format = Format {
    name: "inspector",
    what: "an NCCL Inspector dump",
    tells: Tells::CALLS
        .and(Tells::RECORDED)
        .and(Tells::STARTS)
        .and(Tells::DURATIONS)
        .and(Tells::ALGORITHMS),
    probe: |head| {
        // The first lines of a file that was cut may be without a header.
        let mut lines = head.lines().take(LOOK);
        let is = |line: &[u8]| {
            line.starts_with(b"{")
                && (memmem::find(line, b"\"inspector_output_format_version\"").is_some()
                    || is_headless(line))
        };
        head.other(lines.any(is))
    },
};

/// How many lines are looked at.
const LOOK: usize = 4;

/// True for a record of v4.3 that goes without a header, as it is written.
fn is_headless(line: &[u8]) -> bool {
    let is = |section: &&[u8]| line.starts_with(section);
    [
        &b"{\"coll_perf\":{\"coll\":"[..],
        b"{\"p2p_perf\":{\"p2p\":",
        b"{\"proxy_trace\":{\"record_type\":",
    ]
    .iter()
    .any(is)
}

/// The reader of its JSON lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inspector;

/// What a reader of a chunk keeps.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Where the record that tells begins, and the member of it that those after it are of.
    told: Option<(usize, Whose)>,
    lost: Lost,
}

/// The [`Member`] of a record that tells.
#[derive(Debug, Default)]
struct Whose {
    member: Member<'static>,
    host: Vec<u8>,
}

impl Lines for Inspector {
    type Scratch = Scratch;
    const CARRIES: bool = true;

    fn begin(_: &[u8], _: &str) -> Result<Inspector> {
        Ok(Inspector)
    }

    fn row(
        &self,
        scratch: &mut Scratch,
        record: &[u8],
        quotes: bool,
        take: &mut impl FnMut(&Row<'_>),
    ) -> Result<(), Lacks> {
        self.row_after(scratch, b"", record, quotes, take)
    }

    /// A record of which the first key is a part that goes without a header tells nothing.
    fn tells(record: &[u8]) -> bool {
        let record = record.trim_ascii_start();
        let Some(key) = record.strip_prefix(b"{") else {
            return !record.is_empty();
        };
        let Some(key) = key.trim_ascii_start().strip_prefix(b"\"") else {
            return true;
        };
        let is = |section: &Section| key.starts_with(section.name());
        !Section::HEADLESS.iter().any(is)
    }

    fn row_after(
        &self,
        scratch: &mut Scratch,
        told: &[u8],
        line: &[u8],
        _quotes: bool,
        take: &mut impl FnMut(&Row<'_>),
    ) -> Result<(), Lacks> {
        let line = line.trim_ascii();
        if let Some(record) = scan::scan(line) {
            return scratch.record(&record, told, take);
        }
        let value: serde_json::Value = serde_json::from_slice(line).map_err(|_| NO_RECORD)?;
        let record = Record::of(&value).ok_or(NO_RECORD)?;
        scratch.record(&record, told, take)
    }

    fn told(scratch: &mut Scratch, account: &mut Account) {
        std::mem::take(&mut scratch.lost).say(account);
    }
}

/// What a line lacks that is no record.
const NO_RECORD: Lacks = "a record of NCCL Inspector";

/// The column `src` of its calls.
const SRC: &[u8] = b"inspector";

/// The clock of its times: the host's, in Unix time.
const CLOCK: &[u8] = b"unix";

impl Scratch {
    /// Gives a record's call to `take`, if it has one.
    #[inline]
    fn record(
        &mut self,
        record: &Record<'_>,
        told: &[u8],
        take: &mut impl FnMut(&Row<'_>),
    ) -> Result<(), Lacks> {
        let own = record.member.is_told.then_some(&record.member);
        let whose = match own {
            Some(_) => None,
            None if told.is_empty() => None,
            None => Some(self.whose(told)),
        };
        let (member, host) = match (own, whose) {
            (Some(member), _) => (*member, member.host),
            (None, Some(whose)) => (whose.member, &whose.host[..]),
            (None, None) => (Member::default(), &b""[..]),
        };
        let timing = record.timing();
        let row = Row {
            host,
            pid: member.pid,
            rank: member.rank,
            nranks: member.nranks,
            comm_id: member.id.map(CommId::printed),
            seq: record.seq(),
            op: record.op,
            only_bytes: record.bytes,
            root: record.peer(),
            calls: 1,
            src: SRC,
            timing: Some(&timing),
            ..Row::default()
        };
        match record.kind {
            Kind::Coll | Kind::P2p if record.op.is_empty() => return Err("a valid coll or p2p"),
            Kind::Coll | Kind::P2p if record.bytes.is_none() => {
                return Err("a valid coll_msg_size_bytes or p2p_msg_size_bytes");
            }
            Kind::Coll | Kind::P2p => take(&row),
            Kind::Stats | Kind::Proxy => {}
            Kind::Unknown if record.member.is_told => {}
            Kind::Unknown => return Err(NO_RECORD),
        }
        let (Some(id), Some(rank)) = (member.id, member.rank) else {
            return Ok(());
        };
        match record.kind {
            Kind::Coll => self.lost.coll((id, rank), record),
            Kind::Stats => self.lost.stats((id, rank), &record.drops),
            _ => {}
        }
        Ok(())
    }

    /// The member that a record tells of, which stays where it is.
    fn whose(&mut self, told: &[u8]) -> &Whose {
        let at = told.as_ptr() as usize;
        if self.told.as_ref().is_none_or(|known| known.0 != at) {
            self.told = Some((at, Whose::of(told.trim_ascii())));
        }
        &self.told.get_or_insert_default().1
    }
}

impl Whose {
    fn of(told: &[u8]) -> Whose {
        let member = |member: &Member<'_>| Whose {
            host: member.host.to_vec(),
            member: Member {
                host: b"",
                ..*member
            },
        };
        if let Some(record) = scan::scan(told) {
            return member(&record.member);
        }
        let value: Option<serde_json::Value> = serde_json::from_slice(told).ok();
        let record = value.as_ref().and_then(Record::of);
        record.map_or_else(Whose::default, |record| member(&record.member))
    }
}
