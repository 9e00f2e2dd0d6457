//! Files of NCCL Inspector: JSON lines, a record for each operation that ended; or Prometheus metrics,
//! which have times and no calls.
//!
//! Facts by version (NCCL's `plugins/profiler/inspector`, before 2.29.7 `ext-profiler/inspector`):
//! format v4.0 to v4.2 has the communicator and the process on every line, the coming v4.3 on the
//! `dump_stats` line before the records of a communicator. Sizes are the caller's count × element size,
//! without the count or the type. `coll_sn` numbers the collectives of a communicator by name, from 0.
//! The communicator's id is cut to 14 digits ([`CommId::as_inspector_prints`]). `p2p_sn` counts the sends and
//! receives of one process: it is no call's number.

mod limits;
mod metrics;
mod missing_records;
mod record;
mod scan;
mod seen_channels;
#[cfg(test)]
pub(super) mod tests;

use super::lines::{RecordFormat, RecordText};
use super::{InputFormat, Provides};
use crate::error::Result;
use crate::members::comm_id::CommId;
use crate::output::table::{Lacks, Row};
use crate::report::account::Account;
use limits::MAX_PROBED_LINES;
use memchr::memmem;
use missing_records::MissingRecords;
use record::{InspectorKind, InspectorMember, InspectorRecord, RecordSection};

pub(super) use metrics::{InspectorMetrics, METRICS};

/// Its JSON lines.
pub(super) const FORMAT: InputFormat = InputFormat {
    name: "inspector",
    what: "an NCCL Inspector dump",
    tells: Provides::CALLS
        .and(Provides::STARTS)
        .and(Provides::DURATIONS)
        .and(Provides::ALGORITHMS),
    probe: |head| {
        // The first lines of a cut file may have no header.
        let lines = || head.lines().take(MAX_PROBED_LINES);
        let has_version =
            |line: &[u8]| memmem::find(line, b"\"inspector_output_format_version\"").is_some();
        let is = |line: &[u8]| line.starts_with(b"{") && (has_version(line) || is_headless(line));
        let may_be = || {
            // The first line may be the rest of one.
            let first = lines().take(1).filter(|line| has_version(line)).count();
            let is_open = lines().count() < MAX_PROBED_LINES;
            is_open && lines().skip(first).all(|line| line.starts_with(b"{"))
        };
        match lines().any(is) {
            true => head.probe_recorder(true),
            false => head.no_once_closed(may_be()),
        }
    },
};

/// Returns true for a record that v4.3 writes without a header.
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

/// The state of a chunk's reader.
#[derive(Debug, Default)]
pub(super) struct InspectorScratch {
    /// The address of the record with the current context, and its member.
    owner: Option<(usize, RecordOwner)>,
    lost: MissingRecords,
}

/// The [`InspectorMember`] of a record with context, with its own host name.
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

    /// False for a record that begins with a section of those without a header.
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

    fn read_record(
        &self,
        scratch: &mut InspectorScratch,
        record: RecordText<'_>,
        take: &mut impl FnMut(&Row<'_>),
    ) -> Result<(), Lacks> {
        let RecordText { bytes, context, .. } = record;
        let line = bytes.trim_ascii();
        if let Some(record) = scan::scan_record(line) {
            return scratch.take_record(&record, context, take);
        }
        let value: serde_json::Value = serde_json::from_slice(line).map_err(|_| NO_RECORD)?;
        let record = InspectorRecord::from_object(&value).ok_or(NO_RECORD)?;
        scratch.take_record(&record, context, take)
    }

    fn report_context(scratch: &mut InspectorScratch, account: &mut Account) {
        std::mem::take(&mut scratch.lost).add_to_account(account);
    }
}

/// The part that a line lacks if it is no record.
const NO_RECORD: Lacks = "a record of NCCL Inspector";

/// The clock of its times: the host's, in Unix time.
const UNIX_CLOCK: &[u8] = b"unix";

impl InspectorScratch {
    /// Gives a record's call to `take`, if it has one.
    #[inline]
    fn take_record(
        &mut self,
        record: &InspectorRecord<'_>,
        context: &[u8],
        take: &mut impl FnMut(&Row<'_>),
    ) -> Result<(), Lacks> {
        let own = record.member.is_known.then_some(&record.member);
        let whose = match own {
            Some(_) => None,
            None if context.is_empty() => None,
            None => Some(self.find_owner(context)),
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
            src: FORMAT.name.as_bytes(),
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
            InspectorKind::Unknown if record.member.is_known => {}
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

    /// Returns the member of a record with context, which must stay in its place.
    fn find_owner(&mut self, context: &[u8]) -> &RecordOwner {
        let at = context.as_ptr() as usize;
        if self.owner.as_ref().is_none_or(|known| known.0 != at) {
            self.owner = Some((at, RecordOwner::from_record(context.trim_ascii())));
        }
        &self.owner.get_or_insert_default().1
    }
}

impl RecordOwner {
    fn from_record(context: &[u8]) -> RecordOwner {
        let member = |member: &InspectorMember<'_>| RecordOwner {
            host: member.host.to_vec(),
            member: InspectorMember {
                host: b"",
                ..*member
            },
        };
        if let Some(record) = scan::scan_record(context) {
            return member(&record.member);
        }
        let value: Option<serde_json::Value> = serde_json::from_slice(context).ok();
        let record = value.as_ref().and_then(InspectorRecord::from_object);
        record.map_or_else(RecordOwner::default, |record| member(&record.member))
    }
}
