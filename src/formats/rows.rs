//! Tables as inputs: the call table as CSV or JSON lines, and the AWK chain's lines. Row by
//! row, in constant memory.

use super::Format;
use crate::error::{Error, Result};
use crate::formats::account::{Account, Class};
use crate::grammar::token::dec_u64;
use crate::grammar::values::Datatype;
use crate::members::twice::Twice;
use crate::output::table::{
    COLUMNS, Column, JsonRow, Lacks, NO_ROW, Readable, Row, Source, TEXTS, Timing,
};
use crate::source::{Chunk, Input, Place};
use memchr::memchr;

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

/// A row, and what is to be its timing.
type Read<'r> = Result<(Row<'r>, Timing<'r>), Lacks>;

impl<S: FnMut(&Row<'_>) -> Result<()>> Table<'_, S> {
    /// Counts one row, which stands on `lines` lines and is `text`, and passes it on.
    fn row(&mut self, row: Read<'_>, text: &[u8], lines: u64) -> Result<()> {
        let account = &mut self.account;
        match row {
            Ok((mut row, timing)) => {
                if timing != Timing::default() {
                    row.timing = Some(&timing);
                }
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
                    Err(_) => Err(NO_ROW),
                }
            } else {
                let row = chain_line(text).ok_or("op count datatype bytes");
                row.map(|row| (row, Timing::default()))
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

/// Where each known column is.
struct Columns {
    at: [Option<usize>; COLUMNS.len()],
    /// The last column is a text: blanks at the end of a row are its own.
    ends_in_text: bool,
    /// How many columns there are, known or not.
    width: usize,
}

impl Columns {
    fn find(header: &csv::ByteRecord, name: &str) -> Result<Columns> {
        let names = || header.iter().map(<[u8]>::trim_ascii);
        let last = names().next_back().unwrap_or_default();
        let mut columns = COLUMNS.iter().zip(TEXTS);
        let columns = Columns {
            at: COLUMNS.map(|column| names().position(|name| name == column.as_bytes())),
            ends_in_text: columns.any(|(name, is_text)| is_text && name.as_bytes() == last),
            width: header.len(),
        };
        for needed in [Column::op, Column::count, Column::datatype] {
            if columns.at[needed as usize].is_none() {
                return Err(Error::Content(format!(
                    "{name}: column \"{}\" is missing; it comes from nccl-comms",
                    COLUMNS[needed as usize]
                )));
            }
        }
        Ok(columns)
    }

    /// The row of a line without quotes, cut at its commas; `None` for one with more fields than
    /// are looked at here.
    fn plain<'r>(&self, line: &'r [u8]) -> Option<Read<'r>> {
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

    fn row<'r>(&self, get: impl Fn(usize) -> Option<&'r [u8]>) -> Read<'r> {
        let (columns, get) = (self, &get);
        Row::read(Fields { columns, get })
    }
}

/// The fields of a record.
struct Fields<'f, G> {
    columns: &'f Columns,
    get: &'f G,
}

impl<G> Clone for Fields<'_, G> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<G> Copy for Fields<'_, G> {}

impl<'r, G: Fn(usize) -> Option<&'r [u8]>> Source<'r> for Fields<'_, G> {
    #[inline(always)]
    fn field<T: Readable<'r, K>, K>(self, column: Column) -> Option<T> {
        let at = self.columns.at[column as usize];
        T::of_text(at.and_then(self.get).unwrap_or(b""))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::table::csv_header;
    use crate::output::table::samples::Samples;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_line_cut_at_its_commas_is_what_the_csv_crate_reads(
            fields in proptest::collection::vec("[ -~&&[^,\"]]{0,6}", 1..30),
            at in proptest::collection::vec(proptest::option::of(0..40_usize), COLUMNS.len()),
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
        fn commas_are_found_among_any_bytes(bytes in any::<[u8; 8]>(), at in 0..9_usize) {
            let mut bytes = bytes;
            if let Some(b) = bytes.get_mut(at) {
                *b = b',';
            }
            let expected = bytes.map(|b| if b == b',' { 0x80 } else { 0 });
            prop_assert_eq!(commas(u64::from_le_bytes(bytes)).to_le_bytes(), expected);
        }
    }

    /// What is read of a table, as CSV again.
    fn reread(table: &[u8], format: Format) -> (Vec<u8>, Account) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, table).unwrap();
        let origin = crate::source::Origin::Path(file.path().to_owned());
        let input = Input::open(&origin, crate::source::Options::default()).unwrap();
        let mut text = Vec::new();
        let each = |row: &Row<'_>| {
            row.csv(&mut text);
            Ok(())
        };
        let account = read(&input, format, false, |_| {}, each).unwrap();
        (text, account)
    }

    proptest! {
        /// Every column's value, whatever it is: as CSV with the columns in any order, as JSON.
        #[test]
        fn rows_are_read_as_they_were_written(
            numbers in proptest::collection::vec(any::<u64>(), 1..40),
            texts in proptest::collection::vec("\\PC{0,6}|[ ,\"\r\n\t\\\\]{0,4}", 1..9),
            odd in proptest::collection::vec(any::<u8>(), 0..6),
            last in 0..COLUMNS.len(),
        ) {
            let mut texts: Vec<Vec<u8>> = texts.into_iter().map(String::into_bytes).collect();
            let rows = |texts: &[Vec<u8>], write: fn(&Row<'_>, &mut Vec<u8>)| {
                let mut samples = Samples { numbers: &numbers, texts, at: 0 };
                let mut text = Vec::new();
                for _ in 0..3 {
                    let (mut row, timing) = Row::sample(&mut samples);
                    row.timing = Some(&timing);
                    write(&row, &mut text);
                }
                text
            };
            let (csv, json) = (rows(&texts, |row, out| row.csv(out)), rows(&texts, |row, out| row.jsonl(out)));
            let (again, account) = reread(&json, Format::Jsonl);
            prop_assert_eq!((again, account.damaged), (csv, 0));
            // JSON has no bytes that are no text.
            texts.push(odd);
            let csv = rows(&texts, |row, out| row.csv(out));
            let table = [csv_header().as_bytes(), &csv].concat();
            let (again, account) = reread(&table, Format::Csv);
            prop_assert_eq!((&again, account.damaged), (&csv, 0));
            let mut turned = csv::Writer::from_writer(Vec::new());
            for record in csv::ReaderBuilder::new().has_headers(false).from_reader(&table[..]).byte_records() {
                let mut fields: Vec<Vec<u8>> = record.unwrap().iter().map(<[u8]>::to_vec).collect();
                fields.rotate_right(last);
                turned.write_record(&fields).unwrap();
            }
            let (again, account) = reread(&turned.into_inner().unwrap(), Format::Csv);
            prop_assert_eq!((again, account.damaged), (csv, 0));
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
