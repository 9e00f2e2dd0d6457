//! Whatever is a record a line: cut into chunks that are read on all cores and merged in the order of
//! the file, with an account of every line.
//!
//! A quoted field may go on over line ends, so that where a record begins depends on all quotes
//! before it. A chunk is read as if it began with a record, which few do not; such a one is read
//! once more when it is its turn, after what is still open.
//!
//! A record may also need what one before it tells ([`RecordFormat::sets_context`]). The records of a chunk before
//! its first that tells are read when it is its turn.

use crate::error::Result;
use crate::log;
use crate::members::duplicate_inputs::{
    self, CallFingerprint, CallIdentityText, CommOpCount, DuplicateInputs, RowFingerprints,
};
use crate::output::table::{Lacks, Row};
use crate::pool;
use crate::report::account::{Account, LineClass};
use crate::source::{CutPlace, Input, InputChunk};
use memchr::memchr;
use std::sync::OnceLock;

/// A format that is a record a line.
pub trait RecordFormat: Clone + Send + Sync {
    /// Memory that is used again for each record.
    type Scratch: Default;
    /// The first record names the others' fields.
    const HAS_HEADER: bool = false;
    /// A field in quotes may go on over line ends.
    const HAS_QUOTES: bool = false;

    /// Records may need what one before them tells.
    const CARRIES_CONTEXT: bool = false;

    /// The reader of the input `name`, with the header if the format has one.
    ///
    /// # Errors
    /// A field that is needed is missing.
    fn read_header(header: &[u8], name: &str) -> Result<Self>;

    /// Reads a record, which is not blank, with its line's end if it has one; it has `quotes` or has
    /// none.
    ///
    /// # Errors
    /// What it lacks.
    fn read_record(
        &self,
        scratch: &mut Self::Scratch,
        record: &[u8],
        quotes: bool,
        take: &mut impl FnMut(&Row<'_>),
    ) -> Result<(), Lacks>;

    /// True for a record that tells of those after it, up to the next such record. Nothing but its
    /// own bytes decides that.
    fn sets_context(_record: &[u8]) -> bool {
        false
    }

    /// Reads a record after the last one that tells, which is empty where there is none. While a
    /// reader lives, what one has told stays where it is.
    ///
    /// # Errors
    /// As [`RecordFormat::read_record`].
    #[inline]
    fn read_record_after(
        &self,
        scratch: &mut Self::Scratch,
        _told: &[u8],
        record: &[u8],
        quotes: bool,
        take: &mut impl FnMut(&Row<'_>),
    ) -> Result<(), Lacks> {
        self.read_record(scratch, record, quotes, take)
    }

    /// What records tell beside their calls.
    fn report_context(_scratch: &mut Self::Scratch, _account: &mut Account) {}
}

/// How records are read.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Threads.
    pub jobs: usize,
    /// Stop at the first damaged record.
    pub strict: bool,
}

impl From<&log::Options> for Options {
    fn from(options: &log::Options) -> Options {
        Options {
            jobs: options.jobs,
            strict: options.strict,
        }
    }
}

/// What a stage keeps of a chunk of records.
pub trait RowVisitor {
    /// The next row.
    fn visit_row(&mut self, row: &Row<'_>);
}

/// Bytes that are read together.
const RECORD_CHUNK_BYTES: usize = 1 << 20;

/// The longest record that is read: those that are written have a few hundred bytes, and a quote
/// that is never closed must not fill the memory.
const MAX_RECORD_BYTES: usize = 1 << 20;

const LACKS_SHORT_ROW: Lacks = "a row of at most 1 MiB";

/// Gives what a stage keeps of each chunk to `sink`, in the order of the file. In the account is
/// whether another input before it has calls of it.
///
/// # Errors
/// The input cannot be read, a needed column is missing, a damaged row under `--strict`, the sink's
/// own.
pub(in crate::formats) fn read_records<L: RecordFormat, R: RowVisitor + Send>(
    input: &Input,
    options: Options,
    twice: &mut DuplicateInputs,
    new: impl Fn() -> R + Sync,
    progress: impl Fn(u64),
    sink: impl FnMut(R) -> Result<()>,
) -> Result<Account> {
    read_by_chunks::<L, R>(
        input,
        RECORD_CHUNK_BYTES,
        options,
        twice,
        new,
        progress,
        sink,
    )
}

/// The same by chunks of about so many bytes.
fn read_by_chunks<L: RecordFormat, R: RowVisitor + Send>(
    input: &Input,
    chunk: usize,
    options: Options,
    twice: &mut DuplicateInputs,
    new: impl Fn() -> R + Sync,
    progress: impl Fn(u64),
    mut sink: impl FnMut(R) -> Result<()>,
) -> Result<Account> {
    let name = input.name();
    twice.begin_inputs(std::iter::once((name.clone(), u64::MAX)));
    let mut all = RecordAccount::new(&name, options.strict, twice);
    let mut chunks = input.open_chunks(chunk, |_, _| CutPlace::Quiet)?;
    let mut format = match L::HAS_HEADER {
        true => None,
        false => Some(L::read_header(b"", &name)?),
    };
    // Until the format is known, and something of the rows.
    for chunk in chunks.by_ref() {
        let chunk = chunk?;
        let walked = all.walk_chunk(&mut format, &chunk, new())?;
        chunk.check_unchanged()?;
        progress(walked.bytes);
        all.add_walked(walked, &mut sink)?;
        if format.is_some() {
            break;
        }
    }
    if let Some(format) = &format {
        // Known from the first row on, mostly.
        let first: OnceLock<CommOpCount> = OnceLock::new();
        let note =
            |twice: &DuplicateInputs| twice.first_call().map(|call| *first.get_or_init(|| call));
        note(all.twice);
        let ahead = |chunk: Result<InputChunk>| {
            let chunk = chunk?;
            let state = RecordChunkStart {
                open: Vec::new(),
                told: &[],
                prints: RowFingerprints::of_part_ahead(first.get().copied()),
            };
            let (_, rest) = chunk
                .bytes()
                .split_at(bytes_before_context::<L>(chunk.bytes()));
            let walked = walk_lines(
                &mut Some(format.clone()),
                (&chunk, rest),
                &name,
                state,
                new(),
            )?;
            chunk.check_unchanged()?;
            Ok((chunk, walked))
        };
        let jobs = chunks
            .estimate_chunks_left()
            .map_or(options.jobs, |n| options.jobs.min(n));
        pool::map_in_order(
            jobs,
            chunks,
            ahead,
            |walked: Result<(InputChunk, WalkedRecords<R>)>| {
                let (chunk, mut walked) = walked?;
                if !all.open.is_empty() || all.twice.is_doubtful(&walked.prints) {
                    walked = all.walk_chunk(&mut Some(format.clone()), &chunk, new())?;
                } else if let before @ 1.. = bytes_before_context::<L>(chunk.bytes()) {
                    let (before, _) = chunk.bytes().split_at(before);
                    let before = all.walk_first_lines(&mut Some(format.clone()), before, new())?;
                    progress(before.bytes);
                    all.add_walked(before, &mut sink)?;
                }
                progress(walked.bytes);
                all.add_walked(walked, &mut sink)?;
                chunk.release();
                note(all.twice);
                Ok(())
            },
        )?;
    }
    let last = all.read_unclosed(&mut format, new())?;
    all.add_walked(last, &mut sink)?;
    if format.is_none() {
        L::read_header(b"", &name)?;
    }
    all.into_account(input)
}

/// What is known of an input so far.
struct RecordAccount<'g> {
    name: &'g str,
    strict: bool,
    account: Account,
    /// A record that is not closed yet.
    open: Vec<u8>,
    /// The last record that tells.
    told: Vec<u8>,
    twice: &'g mut DuplicateInputs,
}

impl<'g> RecordAccount<'g> {
    fn new(name: &'g str, strict: bool, twice: &'g mut DuplicateInputs) -> RecordAccount<'g> {
        RecordAccount {
            name,
            strict,
            account: Account::default(),
            open: Vec::new(),
            told: Vec::new(),
            twice,
        }
    }

    /// The account of an input that is read.
    fn into_account(self, input: &Input) -> Result<Account> {
        let mut account = self.account;
        account.again = self.twice.end_table(account.calls);
        account.end_input();
        account.broken = log::check_unpacked(input, self.strict)?;
        Ok(account)
    }

    /// Reads a chunk whose turn it is.
    fn walk_chunk<L: RecordFormat, R: RowVisitor>(
        &mut self,
        format: &mut Option<L>,
        chunk: &InputChunk,
        rows: R,
    ) -> Result<WalkedRecords<R>> {
        let state = RecordChunkStart {
            open: std::mem::take(&mut self.open),
            told: &self.told,
            prints: self.twice.row_fingerprints_so_far(),
        };
        walk_lines(format, (chunk, chunk.bytes()), self.name, state, rows)
    }

    /// Reads the first lines of a chunk whose turn it is, which no record of its own tells of.
    fn walk_first_lines<L: RecordFormat, R: RowVisitor>(
        &mut self,
        format: &mut Option<L>,
        bytes: &[u8],
        rows: R,
    ) -> Result<WalkedRecords<R>> {
        let prints = self.twice.row_fingerprints_so_far();
        let mut reader = RowRecordReader::new(format, self.name, &self.told, prints, rows);
        let open = reader.read_lines(bytes, Vec::new())?;
        let mut walked = reader.finish();
        walked.bytes = bytes.len() as u64;
        walked.open = open;
        Ok(walked)
    }

    /// Reads the records that were never closed: each line by itself, so that one cut row does not
    /// take those after it along.
    fn read_unclosed<L: RecordFormat, R: RowVisitor>(
        &mut self,
        format: &mut Option<L>,
        rows: R,
    ) -> Result<WalkedRecords<R>> {
        let mut reader = RowRecordReader::new(
            format,
            self.name,
            &self.told,
            self.twice.row_fingerprints_so_far(),
            rows,
        );
        reader.read_one_by_one(&mut self.open)?;
        let mut walked = reader.finish();
        walked.account.is_open = self.account.is_open;
        Ok(walked)
    }

    /// Adds what follows.
    fn add_walked<R>(
        &mut self,
        walked: WalkedRecords<R>,
        sink: &mut impl FnMut(R) -> Result<()>,
    ) -> Result<()> {
        self.account.merge(&walked.account);
        self.twice.add_rows(walked.prints);
        self.open = walked.open;
        if let Some(told) = walked.told {
            self.told = told;
        }
        if self.strict {
            log::first_damage_error(self.name, &self.account)?;
        }
        sink(walked.rows)
    }
}

/// What a chunk is read after.
struct RecordChunkStart<'s> {
    open: Vec<u8>,
    told: &'s [u8],
    prints: RowFingerprints,
}

/// What a chunk holds.
struct WalkedRecords<R> {
    rows: R,
    prints: RowFingerprints,
    account: Account,
    /// Its last record, if that is not closed.
    open: Vec<u8>,
    /// Its last record that tells.
    told: Option<Vec<u8>>,
    bytes: u64,
}

/// Reads the lines of a chunk, or its last ones.
fn walk_lines<L: RecordFormat, R: RowVisitor>(
    format: &mut Option<L>,
    (chunk, bytes): (&InputChunk, &[u8]),
    name: &str,
    state: RecordChunkStart<'_>,
    rows: R,
) -> Result<WalkedRecords<R>> {
    let mut reader = RowRecordReader::new(format, name, state.told, state.prints, rows);
    let open = reader.read_lines(bytes, state.open)?;
    let mut walked = reader.finish();
    let is_open = chunk.bytes().last().is_some_and(|&b| b != b'\n');
    walked.account.is_open = is_open && chunk.dropped == 0;
    walked.account.dropped += chunk.dropped;
    walked.bytes = bytes.len() as u64 + chunk.dropped;
    walked.open = open;
    Ok(walked)
}

/// How many of these bytes are lines before the first that tells.
fn bytes_before_context<L: RecordFormat>(bytes: &[u8]) -> usize {
    if !L::CARRIES_CONTEXT {
        return 0;
    }
    let before = split_lines(bytes).take_while(|line| !L::sets_context(line));
    before.map(<[u8]>::len).sum()
}

/// Reads record after record.
struct RowRecordReader<'r, L: RecordFormat, R> {
    name: &'r str,
    /// Once the header was read, if there is one.
    format: &'r mut Option<L>,
    scratch: L::Scratch,
    /// The last record that tells.
    told: &'r [u8],
    walked: WalkedRecords<R>,
}

impl<'r, L: RecordFormat, R: RowVisitor> RowRecordReader<'r, L, R> {
    fn new(
        format: &'r mut Option<L>,
        name: &'r str,
        told: &'r [u8],
        prints: RowFingerprints,
        rows: R,
    ) -> Self {
        RowRecordReader {
            name,
            told,
            format,
            scratch: L::Scratch::default(),
            walked: WalkedRecords {
                rows,
                prints,
                account: Account::default(),
                open: Vec::new(),
                told: None,
                bytes: 0,
            },
        }
    }

    /// What it read.
    fn finish(mut self) -> WalkedRecords<R> {
        L::report_context(&mut self.scratch, &mut self.walked.account);
        self.walked.told = (!self.told.is_empty()).then(|| self.told.to_vec());
        self.walked
    }

    /// Reads the records of whole lines; the first begins with what is `open`. Gives what is open at
    /// the end.
    fn read_lines(&mut self, bytes: &'r [u8], mut open: Vec<u8>) -> Result<Vec<u8>> {
        // Few tables have quotes at all.
        let quotes = L::HAS_QUOTES && memchr(b'"', bytes).is_some();
        for line in split_lines(bytes) {
            if L::CARRIES_CONTEXT && L::sets_context(line) {
                self.told = line;
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
        Ok(open)
    }

    fn read_one_by_one(&mut self, open: &mut Vec<u8>) -> Result<()> {
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
            prints.add_row(row.step, row.comm, row.op_count, || call_print(row));
            rows.visit_row(row);
        };
        let row = match is_long {
            true => Err(LACKS_SHORT_ROW),
            false => format.read_record_after(&mut self.scratch, self.told, text, quotes, take),
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

/// Who made a row's call, and by what the call is known again: by the same as its line. `None` where
/// the row represents several calls, or lacks a column.
fn call_print(row: &Row<'_>) -> Option<(u64, CallFingerprint)> {
    let call = CallIdentityText {
        op: row.op,
        op_count: row.op_count?,
        count: row.count?,
        datatype: row.datatype?.0,
        comm: row.comm?,
        stream: row.stream?,
    };
    let who = duplicate_inputs::nonzero_hash((row.host, row.pid?));
    (row.calls == 1).then(|| (who, CallFingerprint::of_call_text(&call)))
}

/// The lines of `bytes`, with their ends.
fn split_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let end = memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        let (line, behind) = rest.split_at(end);
        rest = behind;
        (!line.is_empty()).then_some(line)
    })
}

/// A record without the ends of its last line.
pub(in crate::formats) fn trim_line_end(record: &[u8]) -> &[u8] {
    let mut record = record;
    while let [rest @ .., b'\n' | b'\r'] = record {
        record = rest;
    }
    record
}

/// True where a quoted field is not closed in `text`.
fn has_open_quote(text: &[u8]) -> bool {
    memchr::memchr_iter(b'"', text).count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::chain::ChainFormat;
    use crate::formats::inspector::{InspectorFormat, tests as inspector};
    use crate::formats::rows::{CsvCallTable, JsonlCallTable};
    use crate::log::mend::blocks::BLOCK_REJOINER;
    use crate::source::{self, InputName};
    use proptest::prelude::*;

    /// The rows, each as text.
    #[derive(Default)]
    struct Texts(Vec<String>);

    impl RowVisitor for Texts {
        fn visit_row(&mut self, row: &Row<'_>) {
            let text = String::from_utf8_lossy;
            let (op, host) = (text(row.op), text(row.host));
            self.0.push(format!(
                "{op} {} {:?} {host:?} {:?}",
                row.count.unwrap_or_default(),
                row.datatype,
                row.step
            ));
        }
    }

    /// The rows of a text that is read by chunks of so many bytes, the account, and by what the
    /// text is known again.
    fn read_as<L: RecordFormat>(
        text: &[u8],
        chunk: usize,
        jobs: usize,
    ) -> (Vec<String>, Account, String) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        std::fs::write(&path, text).unwrap();
        let input = Input::open(
            &InputName::Path(path),
            source::Options::default(),
            BLOCK_REJOINER,
        )
        .unwrap();
        let strict = false;
        let options = Options { jobs, strict };
        let (mut all, mut twice) = (Vec::new(), DuplicateInputs::default());
        let sink = |Texts(rows)| {
            all.extend(rows);
            Ok(())
        };
        let new = Texts::default;
        let account =
            read_by_chunks::<L, _>(&input, chunk, options, &mut twice, new, |_| {}, sink).unwrap();
        (
            all,
            account,
            format!("{twice:?}").replace(&input.name(), ""),
        )
    }

    fn read_all(text: &str) -> (Vec<String>, Account) {
        let (rows, account, _) = read_as::<CsvCallTable>(text.as_bytes(), RECORD_CHUNK_BYTES, 1);
        (rows, account)
    }

    /// Lines of a table: rows, such with quotes that go on, damaged ones, blank ones.
    fn line() -> impl Strategy<Value = String> {
        let row = |(step, op, count, host): (Option<u8>, &str, u64, &str)| {
            let step = step.map_or(String::new(), |step| step.to_string());
            format!("{step},{op},{count},int8,{host},7,{count},0x7f00,0x5500")
        };
        let host = prop_oneof![
            Just("a"),
            Just("\"a\nb\""),
            Just("\"a"),
            Just("a\""),
            Just("\"\"\"\n\"")
        ];
        let op = prop_oneof![Just("Send"), Just("Recv"), Just("")];
        prop_oneof![
            8 => (any::<Option<u8>>(), op, 0..9_u64, host).prop_map(row),
            1 => "[ -~\n]{0,20}",
        ]
    }

    proptest! {
        /// Wherever chunks end, and however many threads read them.
        #[test]
        fn chunks_give_what_the_whole_gives(
            lines in proptest::collection::vec(line(), 0..30),
            end in "\n|\r\n|",
            chunk in 1..200_usize,
            jobs in 1..4_usize,
        ) {
            let header = "step,op,count,datatype,host,pid,op_count,comm,stream\n";
            let table = format!("{header}{}{end}", lines.join("\n"));
            let whole = read_as::<CsvCallTable>(table.as_bytes(), RECORD_CHUNK_BYTES, 1);
            prop_assert_eq!(read_as::<CsvCallTable>(table.as_bytes(), chunk, jobs), whole);
        }

        #[test]
        fn chunks_of_lines_give_what_the_whole_gives(
            lines in proptest::collection::vec(
                "(AllReduce|Send) [0-9]{1,3} (bf16|int8) [0-9]{1,3}|[ -~]{0,9}", 0..30),
            chunk in 1..200_usize,
            jobs in 1..4_usize,
        ) {
            let text = lines.join("\n");
            let whole = read_as::<ChainFormat>(text.as_bytes(), RECORD_CHUNK_BYTES, 1);
            prop_assert_eq!(read_as::<ChainFormat>(text.as_bytes(), chunk, jobs), whole);
            let json = lines.iter().map(|line| {
                format!("{{\"op\":\"Send\",\"count\":{},\"step\":{}}}\n{line}\n", line.len(), line.len())
            });
            let json: String = json.collect();
            let whole = read_as::<JsonlCallTable>(json.as_bytes(), RECORD_CHUNK_BYTES, 1);
            prop_assert_eq!(read_as::<JsonlCallTable>(json.as_bytes(), chunk, jobs), whole);
        }
    }

    proptest! {
        /// What a record needs of those before it comes over the ends of chunks.
        #[test]
        fn chunks_carry_what_records_tell(
            lines in inspector::lines(),
            chunk in 1..4000_usize,
            jobs in 1..4_usize,
        ) {
            let text = lines.join("\n");
            let whole = read_as::<InspectorFormat>(text.as_bytes(), RECORD_CHUNK_BYTES, 1);
            let rows = inspector::one_by_one(&lines).into_iter();
            let rows: Vec<String> =
                rows.map(|(op, host)| format!("{op} 0 None {host:?} None")).collect();
            prop_assert_eq!(&whole.0, &rows);
            prop_assert_eq!(whole.1.count_decided_lines(), whole.1.lines);
            prop_assert_eq!(read_as::<InspectorFormat>(text.as_bytes(), chunk, jobs), whole);
        }
    }

    #[test]
    fn blanks_at_the_end_belong_to_a_text_and_to_nothing_else() {
        let (rows, _) = read_all("op,count,datatype,host\nSend,1,int8,a \t\r\nSend,1,int8, \n");
        let row = |host: &str| format!("Send 1 Some(Datatype(0)) {host:?} None");
        assert_eq!(rows, [row("a \t"), row(" ")]);
        let (rows, account) = read_all("op,host,count,datatype\nSend,a,1,int8  \r\n");
        assert_eq!(rows, [row("a")]);
        assert_eq!(account.damaged, 0);
    }

    #[test]
    fn lines_of_a_table_add_up_and_damage_is_where_it_is() {
        let text =
            "op,count,datatype,host\n\n  \nSend,1,int8,\"a\nb\"\nSend,x,int8,c\n\nSend,2,int8,d";
        let (rows, account) = read_all(text);
        assert_eq!(rows.len(), 2);
        assert_eq!((account.lines, account.calls), (8, 2));
        assert_eq!(
            (account.call_lines, account.foreign, account.damaged),
            (3, 4, 1)
        );
        assert_eq!(account.places[0].line, 5);
    }

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
