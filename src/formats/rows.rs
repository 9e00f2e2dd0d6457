//! Tables as inputs: the call table as CSV or JSON lines, and the AWK chain's lines. Row by
//! row, in constant memory.

use super::Format;
use crate::account::{Account, Class};
use crate::error::{Error, Result};
use crate::grammar::token::{dec_i64, dec_u64, hex_u64};
use crate::records::{Datatype, RedOp};
use crate::source::Input;
use crate::table::Row;
use memchr::memchr;
use serde::Deserialize;
use std::borrow::Cow;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

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
    let mut account = Account::default();
    match format {
        Format::Csv => csv_rows(input, strict, &mut account, progress, &mut sink)?,
        Format::Jsonl | Format::Chain | Format::Log => {
            line_rows(input, format, strict, &mut account, progress, &mut sink)?;
        }
    }
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

fn line_rows(
    input: &Input,
    format: Format,
    strict: bool,
    account: &mut Account,
    progress: impl Fn(u64),
    sink: &mut impl FnMut(&Row<'_>) -> Result<()>,
) -> Result<()> {
    let failed = |source| Error::Input {
        path: PathBuf::from(input.name()),
        cause: source,
    };
    let mut reader = BufReader::with_capacity(1 << 20, input.reader()?);
    let mut line = Vec::new();
    let name = input.name();
    loop {
        line.clear();
        let n = reader.read_until(b'\n', &mut line).map_err(failed)?;
        if n == 0 {
            return Ok(());
        }
        progress(n as u64);
        let text = line.trim_ascii();
        if text.is_empty() {
            account.line(Class::Foreign);
            continue;
        }
        let json: JsonRow<'_>;
        let row = if format == Format::Jsonl {
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
        one(row, text, strict, &name, account, sink)?;
    }
}

/// Counts one row and passes it on.
fn one(
    row: std::result::Result<Row<'_>, &'static str>,
    text: &[u8],
    strict: bool,
    name: &str,
    account: &mut Account,
    sink: &mut impl FnMut(&Row<'_>) -> Result<()>,
) -> Result<()> {
    match row {
        Ok(row) => {
            account.calls = account.calls.saturating_add(row.calls);
            account.line(Class::Call);
            if let Some(datatype) = row.datatype.filter(|d| d.size().is_none()) {
                let known = account.unknown_datatypes.entry(datatype.0).or_default();
                *known = known.saturating_add(row.calls);
            }
            sink(&row)
        }
        Err(what) => {
            account.place(account.lines, 0, what, text);
            account.line(Class::Damaged);
            if strict {
                super::log::first_damage(name, account)
            } else {
                Ok(())
            }
        }
    }
}

fn csv_rows(
    input: &Input,
    strict: bool,
    account: &mut Account,
    progress: impl Fn(u64),
    sink: &mut impl FnMut(&Row<'_>) -> Result<()>,
) -> Result<()> {
    let name = input.name();
    let mut record = csv::ByteRecord::new();
    let mut columns: Option<Columns> = None;
    // A record whose quoted field goes on over line ends.
    let mut open: Vec<u8> = Vec::new();
    let mut take =
        |line: &[u8], has_quotes: bool, record: &mut csv::ByteRecord, account: &mut Account| {
            if line.is_empty() {
                return Ok(());
            }
            let Some(columns) = &columns else {
                quoted(line, record);
                columns = Some(Columns::find(record, &name)?);
                account.line(Class::Foreign);
                return Ok(());
            };
            let plain = if has_quotes && memchr(b'"', line).is_some() {
                None
            } else {
                columns.plain(line)
            };
            let row = match plain {
                Some(row) => row,
                None => {
                    quoted(line, record);
                    columns.row(|at| record.get(at))
                }
            };
            one(row, line, strict, &name, account, sink)
        };
    for chunk in input.chunks(CHUNK, |_| true)? {
        let chunk = chunk?;
        progress(chunk.bytes().len() as u64);
        // Few tables have quotes at all.
        let has_quotes = memchr(b'"', chunk.bytes()).is_some();
        for line in lines(chunk.bytes()) {
            let turns = has_quotes && is_open(line);
            if open.is_empty() && !turns {
                take(line.trim_ascii_end(), has_quotes, &mut record, account)?;
                continue;
            }
            // The first line opened a field, the next one with a quote too many closes it.
            let closes = turns && !open.is_empty();
            open.extend_from_slice(line);
            if closes || open.len() > LONGEST_RECORD {
                take(open.trim_ascii_end(), true, &mut record, account)?;
                open.clear();
            }
        }
    }
    take(open.trim_ascii_end(), true, &mut record, account)?;
    match columns {
        Some(_) => Ok(()),
        None => Columns::find(&record, &name).map(|_| ()),
    }
}

/// Bytes of a table that are looked at together.
const CHUNK: usize = 1 << 20;

/// The longest record that is read; a quote that is never closed must not fill the memory.
const LONGEST_RECORD: usize = 1 << 24;

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
    at: [Option<usize>; crate::table::COLUMNS.len()],
}

impl Columns {
    fn find(header: &csv::ByteRecord, name: &str) -> Result<Columns> {
        let at = crate::table::COLUMNS.map(|column| {
            header
                .iter()
                .position(|h| h.trim_ascii() == column.as_bytes())
        });
        let columns = Columns { at };
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
        let index = crate::table::COLUMNS.iter().position(|c| *c == name)?;
        self.at[index]
    }

    /// The row of a line without quotes, cut at its commas; `None` for one with more fields than
    /// are looked at here.
    fn plain<'r>(&self, line: &'r [u8]) -> Option<std::result::Result<Row<'r>, &'static str>> {
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

    fn row<'r>(
        &self,
        get: impl Fn(usize) -> Option<&'r [u8]>,
    ) -> std::result::Result<Row<'r>, &'static str> {
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
            comm_id: pointer(field(9), "a hexadecimal comm_id")?,
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

type Field<T> = std::result::Result<Option<T>, &'static str>;

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
    fn row(&self) -> std::result::Result<Row<'_>, &'static str> {
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
            comm_id: pointer(text(&self.comm_id), "a hexadecimal comm_id")?,
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
            let columns = Columns { at: at.try_into().unwrap() };
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

    #[test]
    fn a_quote_that_is_not_closed_keeps_a_record_open() {
        assert_eq!(lines(b"a\nb").collect::<Vec<_>>(), [&b"a\n"[..], b"b"]);
        assert!(is_open(b"a,\"b\n") && !is_open(b"a,\"b\nc\",d\n"));
        let mut record = csv::ByteRecord::new();
        quoted(b"a,\"b\nc\",d", &mut record);
        assert_eq!(record.get(1), Some(&b"b\nc"[..]));
    }
}
