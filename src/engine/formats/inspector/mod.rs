//! What NCCL Inspector writes: JSON lines, a record for each operation that ended; or Prometheus
//! metrics, which have times and no calls.
//!
//! Facts by version (NCCL's `plugins/profiler/inspector`, before 2.29.7 `ext-profiler/inspector`):
//! format v4.0 to v4.2 has the communicator and the process on every line, the coming v4.3 on the
//! `dump_stats` line before the records of a communicator. Sizes are count × element size of what the
//! caller passed, without the count or the type; `coll_sn` counts each collective of a communicator
//! apart, from 0. The communicator's id is cut to 14 digits ([`CommId::recorded`]). `p2p_sn` counts what one process sends and receives: it is no call's number.

mod metrics;
mod missing_records;
mod record;
mod scan;
#[cfg(test)]
pub(super) mod tests;

use super::lines::RecordFormat;
use super::{InputFormat, Provides};
use crate::error::Result;
use crate::members::comm_id::CommId;
use crate::output::table::{Lacks, Row};
use crate::report::account::Account;
use memchr::memmem;
use missing_records::MissingRecords;
use record::{InspectorKind, InspectorMember, InspectorRecord, RecordSection};

pub(super) use metrics::{InspectorMetrics, METRICS};

/// Its JSON lines.
pub(super) const FORMAT: InputFormat = InputFormat {
    name: "inspector",
    what: "an NCCL Inspector dump",
    tells: Provides::CALLS
        .and(Provides::RECORDED)
        .and(Provides::STARTS)
        .and(Provides::DURATIONS)
        .and(Provides::ALGORITHMS),
    probe: |head| {
        // The first lines of a file that was cut may be without a header.
        let lines = || head.lines().take(MAX_PROBED_LINES);
        let is = |line: &[u8]| {
            line.starts_with(b"{")
                && (memmem::find(line, b"\"inspector_output_format_version\"").is_some()
                    || is_headless(line))
        };
        let may_be = || lines().count() < MAX_PROBED_LINES && lines().all(|l| l.starts_with(b"{"));
        match lines().any(is) {
            true => head.probe_recorder(true),
            false => head.no_once_closed(may_be()),
        }
    },
};

/// How many lines are looked at.
const MAX_PROBED_LINES: usize = 4;

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
pub(super) struct InspectorFormat;

/// What a reader of a chunk keeps.
#[derive(Debug, Default)]
pub(super) struct InspectorScratch {
    /// Where the record that tells begins, and the member of it that those after it are of.
    told: Option<(usize, RecordOwner)>,
    lost: MissingRecords,
}

/// The [`Member`] of a record that tells.
#[derive(Debug, Default)]
struct RecordOwner {
    member: InspectorMember<'static>,
    host: Vec<u8>,
}

impl RecordFormat for InspectorFormat {
    type Scratch = InspectorScratch;
    const CARRIES_CONTEXT: bool = true;

    fn read_header(_: &[u8], _: &str) -> Result<InspectorFormat> {
        Ok(InspectorFormat)
    }

    fn read_record(
        &self,
        scratch: &mut InspectorScratch,
        record: &[u8],
        quotes: bool,
        take: &mut impl FnMut(&Row<'_>),
    ) -> Result<(), Lacks> {
        self.read_record_after(scratch, b"", record, quotes, take)
    }

    /// A record of which the first key is a part that goes without a header tells nothing.
    fn sets_context(record: &[u8]) -> bool {
        let record = record.trim_ascii_start();
        let Some(key) = record.strip_prefix(b"{") else {
            return !record.is_empty();
        };
        let Some(key) = key.trim_ascii_start().strip_prefix(b"\"") else {
            return true;
        };
        let is = |section: &RecordSection| key.starts_with(section.name());
        !RecordSection::HEADLESS.iter().any(is)
    }

    fn read_record_after(
        &self,
        scratch: &mut InspectorScratch,
        told: &[u8],
        line: &[u8],
        _quotes: bool,
        take: &mut impl FnMut(&Row<'_>),
    ) -> Result<(), Lacks> {
        let line = line.trim_ascii();
        if let Some(record) = scan::scan_record(line) {
            return scratch.take_record(&record, told, take);
        }
        let value: serde_json::Value = serde_json::from_slice(line).map_err(|_| NO_RECORD)?;
        let record = InspectorRecord::from_object(&value).ok_or(NO_RECORD)?;
        scratch.take_record(&record, told, take)
    }

    fn report_context(scratch: &mut InspectorScratch, account: &mut Account) {
        std::mem::take(&mut scratch.lost).add_to_account(account);
    }
}

/// What a line lacks that is no record.
const NO_RECORD: Lacks = "a record of NCCL Inspector";

/// The column `src` of its calls.
const SRC_INSPECTOR: &[u8] = b"inspector";

/// The clock of its times: the host's, in Unix time.
const UNIX_CLOCK: &[u8] = b"unix";

impl InspectorScratch {
    /// Gives a record's call to `take`, if it has one.
    #[inline]
    fn take_record(
        &mut self,
        record: &InspectorRecord<'_>,
        told: &[u8],
        take: &mut impl FnMut(&Row<'_>),
    ) -> Result<(), Lacks> {
        let own = record.member.is_told.then_some(&record.member);
        let whose = match own {
            Some(_) => None,
            None if told.is_empty() => None,
            None => Some(self.find_owner(told)),
        };
        let (member, host) = match (own, whose) {
            (Some(member), _) => (*member, member.host),
            (None, Some(whose)) => (whose.member, &whose.host[..]),
            (None, None) => (InspectorMember::default(), &b""[..]),
        };
        let timing = record.timing();
        let row = Row {
            host,
            pid: member.pid,
            rank: member.rank,
            nranks: member.nranks,
            comm_id: member.id.map(CommId::from_printed),
            seq: record.seq(),
            op: record.op,
            only_bytes: record.bytes,
            root: record.peer(),
            calls: 1,
            src: SRC_INSPECTOR,
            timing: Some(&timing),
            ..Row::default()
        };
        match record.kind {
            InspectorKind::Coll | InspectorKind::P2p if record.op.is_empty() => {
                return Err("a valid coll or p2p");
            }
            InspectorKind::Coll | InspectorKind::P2p if record.bytes.is_none() => {
                return Err("a valid coll_msg_size_bytes or p2p_msg_size_bytes");
            }
            InspectorKind::Coll | InspectorKind::P2p => take(&row),
            InspectorKind::Stats | InspectorKind::Proxy => {}
            InspectorKind::Unknown if record.member.is_told => {}
            InspectorKind::Unknown => return Err(NO_RECORD),
        }
        let (Some(id), Some(rank)) = (member.id, member.rank) else {
            return Ok(());
        };
        match record.kind {
            InspectorKind::Coll => self.lost.add_collective((id, rank), record),
            InspectorKind::Stats => self.lost.add_drops((id, rank), &record.drops),
            _ => {}
        }
        Ok(())
    }

    /// The member that a record tells of, which stays where it is.
    fn find_owner(&mut self, told: &[u8]) -> &RecordOwner {
        let at = told.as_ptr() as usize;
        if self.told.as_ref().is_none_or(|known| known.0 != at) {
            self.told = Some((at, RecordOwner::from_record(told.trim_ascii())));
        }
        &self.told.get_or_insert_default().1
    }
}

impl RecordOwner {
    fn from_record(told: &[u8]) -> RecordOwner {
        let member = |member: &InspectorMember<'_>| RecordOwner {
            host: member.host.to_vec(),
            member: InspectorMember {
                host: b"",
                ..*member
            },
        };
        if let Some(record) = scan::scan_record(told) {
            return member(&record.member);
        }
        let value: Option<serde_json::Value> = serde_json::from_slice(told).ok();
        let record = value.as_ref().and_then(InspectorRecord::from_object);
        record.map_or_else(RecordOwner::default, |record| member(&record.member))
    }
}
