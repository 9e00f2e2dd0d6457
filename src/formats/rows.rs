//! Tables as inputs: the call table as CSV or JSON lines, and the AWK chain's lines. Row by
//! row, in constant memory.

use super::Format;
use crate::error::{Error, Result};
use crate::formats::account::{Account, Class};
use crate::grammar::token::{dec_i64, dec_u64, hex_u64};
use crate::grammar::values::{Datatype, RedOp};
use crate::members::comm_id::CommId;
use crate::members::twice::Twice;
use crate::output::table::Row;
use crate::source::{Chunk, Input, Place};
use memchr::memchr;
use serde::Deserialize;
use std::borrow::Cow;

/// Gives each row of `input` to `sink`, in order.
///
/// # Errors
/// The input cannot be read, a needed column is missing, a damaged row under `strict`, the
/// sink's own.
pub fn read(
    input: &Input,
    format: Format,
    strict: bool,
    progress: impl Fn(u64),
    mut sink: impl FnMut(&Row<'_>) -> Result<()>,
) -> Result<Account> {
    let name = input.name();
    let mut table = Table {
        name: &name,
        strict,
        account: Account::default(),
        sink: &mut sink,
    };
    match format {
        Format::Csv => csv_rows(input, &mut table, progress)?,
        Format::Jsonl | Format::Chain | Format::Log => {
            line_rows(input, format, &mut table, progress)?;
        }
    }
    let mut account = table.account;
    account.end();
    account.broken = super::log::unbroken(input, strict)?;
    Ok(account)
}

/// The same, and in the account whether another input before it has calls of it.
///
/// # Errors
/// As [`read`].
pub fn read_known(
    input: &Input,
    format: Format,
    strict: bool,
    twice: &mut Twice,
    progress: impl Fn(u64),
    mut sink: impl FnMut(&Row<'_>) -> Result<()>,
) -> Result<Account> {
    twice.begin(std::iter::once((input.name(), u64::MAX)));
    let mut account = read(input, format, strict, progress, |row| {
        twice.row(row);
        sink(row)
    })?;
    account.again = twice.end_table(account.calls);
    Ok(account)
}

/// The AWK chain's line: `op count datatype bytes`.
pub(super) fn chain_line(line: &[u8]) -> Option<Row<'_>> {
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|w| !w.is_empty());
    let (op, count, datatype, bytes) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let (Ok((b"", count)), Ok((b"", _))) = (dec_u64(count), dec_u64(bytes)) else {
        return None;
    };
    let datatype = Datatype::from_name(datatype)?;
    if words.next().is_some() || !op.iter().all(|&b| crate::grammar::token::is_name_byte(b)) {
        return None;
    }
    Some(Row {
        op,
        count,
        datatype: Some(datatype),
        calls: 1,
        ..Row::default()
    })
}

/// A table that is read.
struct Table<'t, S> {
    name: &'t str,
    strict: bool,
    account: Account,
    sink: &'t mut S,
}

/// What a line of a table lacks.
type Lacks = &'static str;

impl<S: FnMut(&Row<'_>) -> Result<()>> Table<'_, S> {
    /// Counts one row, which stands on `lines` lines and is `text`, and passes it on.
    fn row(&mut self, row: Result<Row<'_>, Lacks>, text: &[u8], lines: u64) -> Result<()> {
        let account = &mut self.account;
        match row {
            Ok(row) => {
                account.calls = account.calls.saturating_add(row.calls);
                (0..lines).for_each(|_| account.line(Class::Call));
                if let Some(datatype) = row.datatype.filter(|d| d.size().is_none()) {
                    let known = account.unknown_datatypes.entry(datatype.0).or_default();
                    *known = known.saturating_add(row.calls);
                }
                (self.sink)(&row)
            }
            Err(what) => {
                account.place(account.lines, 0, what, text);
                (0..lines).for_each(|_| account.line(Class::Damaged));
                // A last line without an end is not damaged yet.
                if self.strict && (text.ends_with(b"\n") || text.len() > LONGEST_ROW) {
                    super::log::first_damage(self.name, account)
                } else {
                    Ok(())
                }
            }
        }
    }

    /// Lines that are no rows: blank ones, a header.
    fn others(&mut self, lines: u64) {
        (0..lines).for_each(|_| self.account.line(Class::Foreign));
    }

    /// A part of the input that was read.
    fn chunk(&mut self, chunk: &Chunk, progress: &impl Fn(u64)) {
        progress(chunk.bytes().len() as u64 + chunk.dropped);
        self.account.dropped += chunk.dropped;
        let is_open = chunk.bytes().last().is_some_and(|&b| b != b'\n');
        self.account.is_open = is_open && chunk.dropped == 0;
    }
}

/// The longest row that is read: those that are written have a few hundred bytes, and a quote that
/// is never closed must not fill the memory.
const LONGEST_ROW: usize = 1 << 20;

const TOO_LONG: Lacks = "a row of at most 1 MiB";

fn line_rows(
    input: &Input,
    format: Format,
    table: &mut Table<'_, impl FnMut(&Row<'_>) -> Result<()>>,
    progress: impl Fn(u64),
) -> Result<()> {
    for chunk in input.chunks(CHUNK, |_, _| Place::Quiet)? {
        let chunk = chunk?;
        for line in lines(chunk.bytes()) {
            let text = line.trim_ascii();
            let json: JsonRow<'_>;
            let row = if text.is_empty() {
                table.others(1);
                continue;
            } else if line.len() > LONGEST_ROW {
                Err(TOO_LONG)
            } else if format == Format::Jsonl {
                match serde_json::from_slice(text) {
                    Ok(parsed) => {
                        json = parsed;
                        json.row()
                    }
                    Err(_) => Err("a JSON object with op, count and datatype"),
                }
            } else {
                chain_line(text).ok_or("op count datatype bytes")
            };
            table.row(row, line, 1)?;
        }
        table.chunk(&chunk, &progress);
        chunk.walked()?;
    }
    Ok(())
}

fn csv_rows(
    input: &Input,
    table: &mut Table<'_, impl FnMut(&Row<'_>) -> Result<()>>,
    progress: impl Fn(u64),
) -> Result<()> {
    let mut csv = CsvRows {
        record: csv::ByteRecord::new(),
        columns: None,
    };
    // A record whose quoted field goes on over line ends.
    let mut open: Vec<u8> = Vec::new();
    for chunk in input.chunks(CHUNK, |_, _| Place::Quiet)? {
        let chunk = chunk?;
        // Few tables have quotes at all.
        let has_quotes = memchr(b'"', chunk.bytes()).is_some();
        for line in lines(chunk.bytes()) {
            let turns = has_quotes && is_open(line);
            if open.is_empty() && !turns {
                csv.record(line, has_quotes, table)?;
                continue;
            }
            if open.len() + line.len() > LONGEST_ROW {
                csv.one_by_one(&mut open, table)?;
                csv.record(line, true, table)?;
                continue;
            }
            // The first line opened a field, the next one with a quote too many closes it.
            let closes = turns && !open.is_empty();
            open.extend_from_slice(line);
            if closes {
                csv.record(&open, true, table)?;
                open.clear();
            }
        }
        table.chunk(&chunk, &progress);
        chunk.walked()?;
    }
    csv.one_by_one(&mut open, table)?;
    match csv.columns {
        Some(_) => Ok(()),
        None => Columns::find(&csv.record, table.name).map(|_| ()),
    }
}

/// Reads a CSV table record by record.
struct CsvRows {
    record: csv::ByteRecord,
    /// Once the header was read.
    columns: Option<Columns>,
}

impl CsvRows {
    /// A record, with its line's end.
    fn record(
        &mut self,
        text: &[u8],
        has_quotes: bool,
        table: &mut Table<'_, impl FnMut(&Row<'_>) -> Result<()>>,
    ) -> Result<()> {
        let has_quotes = has_quotes && memchr(b'"', text).is_some();
        let lines = if has_quotes { lines(text).count() } else { 1 } as u64;
        let line = ended(text);
        if line.trim_ascii().is_empty() {
            table.others(lines);
            return Ok(());
        }
        if line.len() > LONGEST_ROW {
            return match &self.columns {
                Some(_) => table.row(Err(TOO_LONG), text, lines),
                None => Columns::find(&self.record, table.name).map(|_| ()),
            };
        }
        let Some(columns) = &self.columns else {
            quoted(line, &mut self.record);
            self.columns = Some(Columns::find(&self.record, table.name)?);
            table.others(lines);
            return Ok(());
        };
        let line = match columns.ends_in_text {
            true => line,
            false => line.trim_ascii_end(),
        };
        // What is cut in a last line may be a number's end.
        let is_last = !text.ends_with(b"\n");
        let plain = if has_quotes || is_last {
            None
        } else {
            columns.plain(line)
        };
        let row = match plain {
            Some(row) => row,
            None => {
                quoted(line, &mut self.record);
                match self.record.len() < columns.width && is_last {
                    true => Err("the rest of the row"),
                    false => columns.row(|at| self.record.get(at)),
                }
            }
        };
        table.row(row, text, lines)
    }

    /// Lines behind a quote that is not closed: each by itself, so that one cut row does not take
    /// those behind it along.
    fn one_by_one(
        &mut self,
        open: &mut Vec<u8>,
        table: &mut Table<'_, impl FnMut(&Row<'_>) -> Result<()>>,
    ) -> Result<()> {
        lines(open).try_for_each(|line| self.record(line, true, table))?;
        open.clear();
        Ok(())
    }
}

/// Bytes of a table that are looked at together.
const CHUNK: usize = 1 << 20;

/// The lines of `bytes`, with their ends.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let end = memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        let (line, behind) = rest.split_at(end);
        rest = behind;
        (!line.is_empty()).then_some(line)
    })
}

/// A record without the ends of its last line.
fn ended(record: &[u8]) -> &[u8] {
    let mut record = record;
    while let [rest @ .., b'\n' | b'\r'] = record {
        record = rest;
    }
    record
}

/// True where a quoted field is not closed in `text`.
fn is_open(text: &[u8]) -> bool {
    memchr::memchr_iter(b'"', text).count() % 2 == 1
}

/// Reads a record with quotes in it, as the csv crate does.
fn quoted(text: &[u8], record: &mut csv::ByteRecord) {
    record.clear();
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(text);
    // Bytes in memory can be read, and any number of fields is taken.
    let _ = reader.read_byte_record(record);
}

/// Where each known column stands.
struct Columns {
    at: [Option<usize>; crate::output::table::COLUMNS.len()],
    /// The last column is a text: blanks at the end of a row are its own.
    ends_in_text: bool,
    /// How many columns there are, known or not.
    width: usize,
}

/// The columns that hold whatever was printed.
const TEXTS: [&str; 5] = ["time", "host", "src", "clock", "quality"];

impl Columns {
    fn find(header: &csv::ByteRecord, name: &str) -> Result<Columns> {
        let at = crate::output::table::COLUMNS.map(|column| {
            header
                .iter()
                .position(|h| h.trim_ascii() == column.as_bytes())
        });
        let last = header.iter().next_back().unwrap_or_default();
        let is_last = |name: &&str| last.trim_ascii() == name.as_bytes();
        let columns = Columns {
            at,
            ends_in_text: TEXTS.iter().any(is_last),
            width: header.len(),
        };
        for needed in ["op", "count", "datatype"] {
            if columns.of(needed).is_none() {
                return Err(Error::Content(format!(
                    "{name}: column \"{needed}\" is missing; it comes from nccl-comms"
                )));
            }
        }
        Ok(columns)
    }

    fn of(&self, name: &str) -> Option<usize> {
        let index = crate::output::table::COLUMNS
            .iter()
            .position(|c| *c == name)?;
        self.at[index]
    }

    /// The row of a line without quotes, cut at its commas; `None` for one with more fields than
    /// are looked at here.
    fn plain<'r>(&self, line: &'r [u8]) -> Option<Result<Row<'r>, Lacks>> {
        const FIELDS: usize = 32;
        let mut fields: [&[u8]; FIELDS] = [b""; FIELDS];
        let mut n = 0;
        let mut from = 0;
        let mut field = |end: usize| {
            *fields.get_mut(n)? = line.get(from..end)?;
            (n, from) = (n + 1, end + 1);
            Some(())
        };
        // Fields are short: to look at eight bytes at a time beats a search for each comma.
        let mut words = line.chunks_exact(8);
        let mut at = 0;
        for word in &mut words {
            let mut hits = commas(u64::from_le_bytes(word.try_into().unwrap_or_default()));
            while hits != 0 {
                field(at + hits.trailing_zeros() as usize / 8)?;
                hits &= hits - 1;
            }
            at += 8;
        }
        for (i, _) in words
            .remainder()
            .iter()
            .enumerate()
            .filter(|(_, b)| **b == b',')
        {
            field(at + i)?;
        }
        *fields.get_mut(n)? = &line[from..];
        Some(self.row(|at| fields.get(at).copied()))
    }

    fn row<'r>(&self, get: impl Fn(usize) -> Option<&'r [u8]>) -> Result<Row<'r>, Lacks> {
        // In the order of `table::COLUMNS`.
        let field = |i: usize| self.at[i].and_then(&get).unwrap_or(b"");
        let row = Row {
            step: number(field(0), "a step number")?,
            time: field(1),
            host: field(2),
            pid: number(field(3), "a pid")?,
            tid: number(field(4), "a tid")?,
            dev: small(field(5), "a device")?,
            rank: small(field(6), "a rank")?,
            nranks: small(field(7), "nranks")?,
            comm: pointer(field(8), "a pointer in comm")?,
            comm_id: comm_id(field(9))?,
            seq: number(field(10), "a seq")?,
            op_count: number(field(11), "an op_count")?,
            op: field(12),
            count: number(field(13), "a count")?.ok_or("a count")?,
            datatype: datatype(field(14))?,
            redop: redop(field(15))?,
            root: root(field(16))?,
            stream: pointer(field(18), "a pointer in stream")?,
            calls: number(field(19), "a number of calls")?.unwrap_or(1),
            src: field(20),
            dur_ns: number(field(21), "a dur_ns")?,
            clock: field(22),
            quality: field(23),
        };
        if row.op.is_empty() {
            Err("an operation")
        } else {
            Ok(row)
        }
    }
}

/// The high bit of each byte of a word that is a comma.
#[inline(always)]
fn commas(word: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let other = word ^ u64::from_le_bytes([b','; 8]);
    // No carry goes from one byte to the next.
    !(((other & LOW) + LOW) | other | LOW)
}

type Field<T> = Result<Option<T>, Lacks>;

#[inline(always)]
fn number(text: &[u8], what: &'static str) -> Field<u64> {
    if text.len() > 19 {
        return long_number(text).map(Some).ok_or(what);
    }
    // 19 digits fit.
    let (mut value, mut wrong) = (0, false);
    for &b in text {
        let digit = b.wrapping_sub(b'0');
        wrong |= digit > 9;
        value = u64::from(digit).wrapping_add(10_u64.wrapping_mul(value));
    }
    if wrong {
        return Err(what);
    }
    Ok((!text.is_empty()).then_some(value))
}

#[cold]
fn long_number(text: &[u8]) -> Option<u64> {
    match dec_u64(text) {
        Ok((b"", n)) => Some(n),
        _ => None,
    }
}

fn small(text: &[u8], what: &'static str) -> Field<u32> {
    number(text, what)?
        .map(|n| u32::try_from(n).map_err(|_| what))
        .transpose()
}

fn pointer(text: &[u8], what: &'static str) -> Field<u64> {
    match text {
        b"" => Ok(None),
        _ => match text.strip_prefix(b"0x").map(hex_u64) {
            Some(Ok((b"", p))) => Ok(Some(p)),
            _ => Err(what),
        },
    }
}

fn comm_id(text: &[u8]) -> Field<CommId> {
    match text {
        b"" => Ok(None),
        _ => CommId::parse(text).map(Some).ok_or("a hexadecimal comm_id"),
    }
}

fn root(text: &[u8]) -> Field<i64> {
    match text {
        b"" => Ok(None),
        _ => match dec_i64(text) {
            Ok((b"", n)) => Ok(Some(n)),
            _ => Err("a root"),
        },
    }
}

fn datatype(text: &[u8]) -> Field<Datatype> {
    match text {
        b"" => Ok(None),
        _ => Datatype::from_name(text).map(Some).ok_or("a datatype"),
    }
}

fn redop(text: &[u8]) -> Field<RedOp> {
    match text {
        b"" => Ok(None),
        _ => RedOp::from_name(text).map(Some).ok_or("a redop"),
    }
}

/// A line of JSON. Unknown keys are ignored, known ones may be missing or null.
#[derive(Deserialize)]
struct JsonRow<'a> {
    step: Option<u64>,
    #[serde(borrow)]
    time: Option<Cow<'a, str>>,
    #[serde(borrow)]
    host: Option<Cow<'a, str>>,
    pid: Option<u64>,
    tid: Option<u64>,
    dev: Option<u32>,
    rank: Option<u32>,
    nranks: Option<u32>,
    #[serde(borrow)]
    comm: Option<Cow<'a, str>>,
    #[serde(borrow)]
    comm_id: Option<Cow<'a, str>>,
    seq: Option<u64>,
    op_count: Option<u64>,
    #[serde(borrow)]
    op: Cow<'a, str>,
    count: u64,
    #[serde(borrow)]
    datatype: Option<Cow<'a, str>>,
    #[serde(borrow)]
    redop: Option<Cow<'a, str>>,
    root: Option<i64>,
    #[serde(borrow)]
    stream: Option<Cow<'a, str>>,
    calls: Option<u64>,
    #[serde(borrow)]
    src: Option<Cow<'a, str>>,
    dur_ns: Option<u64>,
    #[serde(borrow)]
    clock: Option<Cow<'a, str>>,
    #[serde(borrow)]
    quality: Option<Cow<'a, str>>,
}

impl JsonRow<'_> {
    fn row(&self) -> Result<Row<'_>, Lacks> {
        fn text<'t>(field: &'t Option<Cow<'_, str>>) -> &'t [u8] {
            field.as_deref().unwrap_or("").as_bytes()
        }
        if self.op.is_empty() {
            return Err("an operation");
        }
        Ok(Row {
            step: self.step,
            time: text(&self.time),
            host: text(&self.host),
            pid: self.pid,
            tid: self.tid,
            dev: self.dev,
            rank: self.rank,
            nranks: self.nranks,
            comm: pointer(text(&self.comm), "a pointer in comm")?,
            comm_id: comm_id(text(&self.comm_id))?,
            seq: self.seq,
            op_count: self.op_count,
            op: self.op.as_bytes(),
            count: self.count,
            datatype: datatype(text(&self.datatype))?,
            redop: redop(text(&self.redop))?,
            root: self.root,
            stream: pointer(text(&self.stream), "a pointer in stream")?,
            calls: self.calls.unwrap_or(1),
            src: text(&self.src),
            dur_ns: self.dur_ns,
            clock: text(&self.clock),
            quality: text(&self.quality),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_line_cut_at_its_commas_is_what_the_csv_crate_reads(
            fields in proptest::collection::vec("[ -~&&[^,\"]]{0,6}", 1..30),
            at in proptest::collection::vec(proptest::option::of(0..40_usize), 24),
        ) {
            let line = fields.join(",");
            let at = at.try_into().unwrap();
            let columns = Columns { at, ends_in_text: true, width: 0 };
            let mut record = csv::ByteRecord::new();
            quoted(line.as_bytes(), &mut record);
            let expected = columns.row(|at| record.get(at));
            // The csv crate gives no record for an empty line.
            if !line.is_empty() {
                prop_assert_eq!(columns.plain(line.as_bytes()), Some(expected));
            }
        }
    }

    proptest! {
        #[test]
        fn a_number_is_what_the_grammar_reads(text in "[0-9]{0,21}|[ -~]{0,4}|[0-9]{1,19}[a:/-]") {
            let expected = match dec_u64(text.as_bytes()) {
                _ if text.is_empty() => Ok(None),
                Ok((b"", n)) => Ok(Some(n)),
                _ => Err("x"),
            };
            prop_assert_eq!(number(text.as_bytes(), "x"), expected);
        }

        #[test]
        fn commas_are_found_among_any_bytes(bytes in any::<[u8; 8]>(), at in 0..9_usize) {
            let mut bytes = bytes;
            if let Some(b) = bytes.get_mut(at) {
                *b = b',';
            }
            let expected = bytes.map(|b| if b == b',' { 0x80 } else { 0 });
            prop_assert_eq!(commas(u64::from_le_bytes(bytes)).to_le_bytes(), expected);
        }
    }

    /// The rows of a table with what its account says.
    fn read_all(text: &str) -> (Vec<String>, Account) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.csv");
        std::fs::write(&path, text).unwrap();
        let origin = crate::source::Origin::Path(path);
        let input = Input::open(&origin, crate::source::Options::default()).unwrap();
        let mut rows = Vec::new();
        let each = |row: &Row<'_>| {
            rows.push(format!(
                "{} {:?} {:?}",
                String::from_utf8_lossy(row.op),
                String::from_utf8_lossy(row.host),
                row.datatype
            ));
            Ok(())
        };
        let account = read(&input, Format::Csv, false, |_| {}, each).unwrap();
        (rows, account)
    }

    #[test]
    fn blanks_at_the_end_belong_to_a_text_and_to_nothing_else() {
        let (rows, _) = read_all("op,count,datatype,host\nSend,1,int8,a \t\r\nSend,1,int8, \n");
        assert_eq!(
            rows,
            [
                "Send \"a \\t\" Some(Datatype(0))",
                "Send \" \" Some(Datatype(0))"
            ]
        );
        let (rows, account) = read_all("op,host,count,datatype\nSend,a,1,int8  \r\n");
        assert_eq!(rows, ["Send \"a\" Some(Datatype(0))"]);
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
        assert_eq!(lines(b"a\nb").collect::<Vec<_>>(), [&b"a\n"[..], b"b"]);
        assert!(is_open(b"a,\"b\n") && !is_open(b"a,\"b\nc\",d\n"));
        let mut record = csv::ByteRecord::new();
        quoted(b"a,\"b\nc\",d", &mut record);
        assert_eq!(record.get(1), Some(&b"b\nc"[..]));
    }
}
