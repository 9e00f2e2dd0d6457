//! The records of a run of lines: those with quoted line ends are put together, and every line is counted.

use super::limits::MAX_RECORD_BYTES;
use super::record_format::{RecordFormat, RecordText, RowVisitor};
use crate::error::Result;
use crate::members::duplicate_inputs::{self, CallFingerprint, CallIdentityText, RowFingerprints};
use crate::output::table::{Lacks, Row};
use crate::report::account::{Account, LineClass};
use crate::source::InputChunk;
use memchr::memchr;

const LACKS_SHORT_ROW: Lacks = "a row of at most 1 MiB";

/// The content of a chunk.
pub(super) struct WalkedRecords<R> {
    pub(super) rows: R,
    pub(super) prints: RowFingerprints,
    pub(super) account: Account,
    /// Its last record, if that is not closed.
    pub(super) open: Vec<u8>,
    /// Its last record that set a context.
    pub(super) context: Option<Vec<u8>>,
    pub(super) bytes: u64,
}

impl<R> WalkedRecords<R> {
    /// Adds the facts of the chunk that the content ends.
    pub(super) fn end_chunk(&mut self, chunk: &InputChunk) {
        let is_open = chunk.bytes().last().is_some_and(|&b| b != b'\n');
        self.account.is_open = is_open && chunk.dropped == 0;
        self.account.dropped += chunk.dropped;
        self.bytes += chunk.dropped;
    }
}

/// Reads record after record.
pub(super) struct RowRecordReader<'r, L: RecordFormat, R> {
    name: &'r str,
    /// Once the header was read, if there is one.
    format: &'r mut Option<L>,
    scratch: L::Scratch,
    /// The last record that set a context.
    context: &'r [u8],
    walked: WalkedRecords<R>,
}

impl<'r, L: RecordFormat, R: RowVisitor> RowRecordReader<'r, L, R> {
    pub(super) fn new(
        format: &'r mut Option<L>,
        name: &'r str,
        context: &'r [u8],
        prints: RowFingerprints,
        rows: R,
    ) -> Self {
        RowRecordReader {
            name,
            context,
            format,
            scratch: L::Scratch::default(),
            walked: WalkedRecords {
                rows,
                prints,
                account: Account::default(),
                open: Vec::new(),
                context: None,
                bytes: 0,
            },
        }
    }

    /// Returns the content that was read.
    pub(super) fn finish(mut self) -> WalkedRecords<R> {
        L::report_context(&mut self.scratch, &mut self.walked.account);
        self.walked.context = (!self.context.is_empty()).then(|| self.context.to_vec());
        self.walked
    }

    /// Reads the records of whole lines; the first begins with the bytes of `open`.
    pub(super) fn walk_lines(
        mut self,
        bytes: &'r [u8],
        mut open: Vec<u8>,
    ) -> Result<WalkedRecords<R>> {
        // Few tables have quotes at all.
        let quotes = L::HAS_QUOTES && memchr(b'"', bytes).is_some();
        for line in split_lines(bytes) {
            if L::CARRIES_CONTEXT && L::sets_context(line) {
                self.context = line;
            }
            let turns = quotes && has_open_quote(line);
            if open.is_empty() && !turns {
                self.count_record(line, quotes)?;
                continue;
            }
            if open.len() + line.len() > MAX_RECORD_BYTES {
                self.read_one_by_one(&mut open)?;
                self.count_record(line, true)?;
                continue;
            }
            // The first line opened a field, the next one with a quote too many closes it.
            let closes = turns && !open.is_empty();
            open.extend_from_slice(line);
            if closes {
                self.count_record(&open, true)?;
                open.clear();
            }
        }
        self.walked.open = open;
        self.walked.bytes = bytes.len() as u64;
        Ok(self.finish())
    }

    pub(super) fn read_one_by_one(&mut self, open: &mut Vec<u8>) -> Result<()> {
        split_lines(open).try_for_each(|line| self.count_record(line, true))?;
        open.clear();
        Ok(())
    }

    /// Counts a record, with its lines' ends, and passes it on.
    fn count_record(&mut self, text: &[u8], quotes: bool) -> Result<()> {
        let WalkedRecords {
            rows,
            prints,
            account,
            ..
        } = &mut self.walked;
        let lines = match quotes && L::HAS_QUOTES {
            true => split_lines(text).count(),
            false => 1,
        };
        let count =
            |account: &mut Account, class| (0..lines).for_each(|_| account.count_line(class));
        if text.trim_ascii().is_empty() {
            count(account, LineClass::Foreign);
            return Ok(());
        }
        let is_long = trim_line_end(text).len() > MAX_RECORD_BYTES;
        let Some(format) = self.format else {
            let header = if is_long { b"" } else { text };
            *self.format = Some(L::read_header(header, self.name)?);
            count(account, LineClass::Foreign);
            return Ok(());
        };
        let mut has_rows = false;
        let take = &mut |row: &Row<'_>| {
            has_rows = true;
            account.count_row(row.calls, row.datatype);
            let (comm, number) = match row.op_count {
                None => (row.comm_id.map(duplicate_inputs::nonzero_hash), row.seq),
                count => (row.comm, count),
            };
            prints.add_row(row.step, comm, number, || call_print(row));
            rows.visit_row(row);
        };
        let record = RecordText {
            bytes: text,
            may_have_quotes: quotes,
            context: self.context,
        };
        let row = match is_long {
            true => Err(LACKS_SHORT_ROW),
            false => format.read_record(&mut self.scratch, record, take),
        };
        match row {
            Ok(()) if has_rows => count(account, LineClass::Call),
            Ok(()) => count(account, LineClass::Other),
            Err(what) => {
                account.add_damage_place(account.lines, 0, what, text);
                count(account, LineClass::Damaged);
            }
        }
        Ok(())
    }
}

/// Returns the hash of a row's process and the fingerprint of its call, equal to that of its log line. A record
/// without NCCL's count has its own number, and the communicator's id and rank. `None` if the row represents several calls, or lacks a column.
fn call_print(row: &Row<'_>) -> Option<(u64, CallFingerprint)> {
    let call = match row.op_count {
        None => CallIdentityText {
            op: row.op,
            op_count: row.seq?,
            count: row.rank?.into(),
            datatype: 0,
            comm: duplicate_inputs::nonzero_hash(row.comm_id?),
            stream: 0,
        },
        Some(op_count) => CallIdentityText {
            op: row.op,
            op_count,
            count: row.count?,
            datatype: row.datatype?.0,
            comm: row.comm?,
            stream: row.stream?,
        },
    };
    let who = duplicate_inputs::nonzero_hash((row.host, row.pid?));
    (row.calls == 1).then(|| (who, CallFingerprint::of_call_text(&call)))
}

/// Splits `bytes` into lines with their ends.
fn split_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let end = memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        let (line, after) = rest.split_at(end);
        rest = after;
        (!line.is_empty()).then_some(line)
    })
}

/// Returns a record without the end of its last line.
pub(super) fn trim_line_end(record: &[u8]) -> &[u8] {
    let mut record = record;
    while let [rest @ .., b'\n' | b'\r'] = record {
        record = rest;
    }
    record
}

/// Returns true if a quoted field is not closed in `text`.
pub(super) fn has_open_quote(text: &[u8]) -> bool {
    memchr::memchr_iter(b'"', text).count() % 2 == 1
}

/// Counts the bytes of the lines before the first that sets a context.
pub(super) fn bytes_before_context<L: RecordFormat>(bytes: &[u8]) -> usize {
    if !L::CARRIES_CONTEXT {
        return 0;
    }
    let before = split_lines(bytes).take_while(|line| !L::sets_context(line));
    before.map(<[u8]>::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_that_is_not_closed_keeps_a_record_open() {
        assert_eq!(
            split_lines(b"a\nb").collect::<Vec<_>>(),
            [&b"a\n"[..], b"b"]
        );
        assert!(has_open_quote(b"a,\"b\n") && !has_open_quote(b"a,\"b\nc\",d\n"));
    }

    const CALL: &str = "h:1:2 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x7e2f40000000 recvbuff \
                        0x7e2f48000000 count 64 datatype 7 op 0 root 0 comm 0x55d0a0000000 \
                        [nranks=2] stream 0x5581d0c30001";

    #[test]
    fn a_row_is_known_by_the_line_that_it_comes_from() {
        let row = Row {
            op: b"AllReduce",
            op_count: Some(0),
            count: Some(64),
            datatype: Some(crate::grammar::values::Datatype(7)),
            comm: Some(0x55d0_a000_0000),
            stream: Some(0x5581_d0c3_0001),
            calls: 1,
            pid: Some(1),
            ..Row::default()
        };
        let known = duplicate_inputs::fingerprint_call_line(format!("{CALL}\r\nmore").as_bytes());
        assert_eq!(call_print(&row).map(|(_, print)| print), Some(known));
        assert_eq!(call_print(&Row { calls: 2, ..row }), None);
        assert_ne!(
            duplicate_inputs::fingerprint_call_line(CALL.as_bytes()),
            duplicate_inputs::fingerprint_call_line(CALL.replace("64", "65").as_bytes())
        );
        assert_eq!(
            duplicate_inputs::fingerprint_call_line(b"h:1:2 [0] NCCL INFO NET/IB"),
            CallFingerprint::default()
        );
    }
}
