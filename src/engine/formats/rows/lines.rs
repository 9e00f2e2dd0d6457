//! Formats with a record on each line: chunks are read on all cores and merged in the order of the
//! file, with an account of every line.
//!
//! A quoted field may contain line ends, so that the start of a record depends on all quotes before it.
//! A chunk is read as if it began with a record. The few that do not are read again in their turn,
//! after the record that is still open.
//!
//! A record may also need the context that one before it set ([`RecordFormat::sets_context`]). The
//! records of a chunk before its first context are read in its turn.

use super::limits::RECORD_CHUNK_BYTES;
use super::record_reader::{RowRecordReader, WalkedRecords, bytes_before_context};
use crate::error::Result;
use crate::log;
use crate::members::duplicate_inputs::{CommOpCount, DuplicateInputs, RowFingerprints};
use crate::pool;
use crate::report::account::Account;
use crate::source::{CutPlace, Input, InputChunk};
use std::sync::OnceLock;

pub use super::record_format::{RecordFormat, RecordText, RowVisitor};

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

/// Gives what a stage keeps of each chunk to `sink`, in the order of the file. The account also has
/// earlier inputs with the same calls.
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

/// Reads records in chunks of about `chunk` bytes.
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
    // The first chunks, until the header is read.
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
            let prints = RowFingerprints::of_part_ahead(first.get().copied());
            let (_, rest) = chunk
                .bytes()
                .split_at(bytes_before_context::<L>(chunk.bytes()));
            let mut format = Some(format.clone());
            let reader = RowRecordReader::new(&mut format, &name, &[], prints, new());
            let mut walked = reader.walk_lines(rest, Vec::new())?;
            walked.end_chunk(&chunk);
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
                    let before = all.walk_lines(&mut Some(format.clone()), before, new())?;
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

/// The account of an input so far.
struct RecordAccount<'g> {
    name: &'g str,
    strict: bool,
    account: Account,
    /// A record that is not closed yet.
    open: Vec<u8>,
    /// The last record that set a context.
    context: Vec<u8>,
    twice: &'g mut DuplicateInputs,
}

impl<'g> RecordAccount<'g> {
    fn new(name: &'g str, strict: bool, twice: &'g mut DuplicateInputs) -> RecordAccount<'g> {
        RecordAccount {
            name,
            strict,
            account: Account::default(),
            open: Vec::new(),
            context: Vec::new(),
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

    /// Reads a chunk in its turn.
    fn walk_chunk<L: RecordFormat, R: RowVisitor>(
        &mut self,
        format: &mut Option<L>,
        chunk: &InputChunk,
        rows: R,
    ) -> Result<WalkedRecords<R>> {
        let mut walked = self.walk_lines(format, chunk.bytes(), rows)?;
        walked.end_chunk(chunk);
        Ok(walked)
    }

    /// Reads lines in their turn.
    fn walk_lines<L: RecordFormat, R: RowVisitor>(
        &mut self,
        format: &mut Option<L>,
        bytes: &[u8],
        rows: R,
    ) -> Result<WalkedRecords<R>> {
        let open = std::mem::take(&mut self.open);
        self.begin_reading(format, rows).walk_lines(bytes, open)
    }

    /// Reads the records that were never closed: each line by itself, so that one cut row does not
    /// take those after it along.
    fn read_unclosed<L: RecordFormat, R: RowVisitor>(
        &mut self,
        format: &mut Option<L>,
        rows: R,
    ) -> Result<WalkedRecords<R>> {
        let mut open = std::mem::take(&mut self.open);
        let mut reader = self.begin_reading(format, rows);
        reader.read_one_by_one(&mut open)?;
        let mut walked = reader.finish();
        walked.account.is_open = self.account.is_open;
        Ok(walked)
    }

    fn begin_reading<'r, L: RecordFormat, R: RowVisitor>(
        &'r self,
        format: &'r mut Option<L>,
        rows: R,
    ) -> RowRecordReader<'r, L, R> {
        let prints = self.twice.row_fingerprints_so_far();
        RowRecordReader::new(format, self.name, &self.context, prints, rows)
    }

    /// Adds the next part of the input.
    fn add_walked<R>(
        &mut self,
        walked: WalkedRecords<R>,
        sink: &mut impl FnMut(R) -> Result<()>,
    ) -> Result<()> {
        self.account.merge(&walked.account);
        self.twice.add_rows(walked.prints);
        self.open = walked.open;
        if let Some(context) = walked.context {
            self.context = context;
        }
        if self.strict {
            log::first_damage_error(self.name, &self.account)?;
        }
        sink(walked.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::chain::ChainFormat;
    use crate::formats::inspector::{InspectorFormat, tests as inspector};
    use crate::formats::rows::{CsvCallTable, JsonlCallTable};
    use crate::log::mend::blocks::BLOCK_REJOINER;
    use crate::output::table::Row;
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

    /// Reads a text in chunks of `chunk` bytes: its rows, the account, and its fingerprints.
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
}
