//! The output of nccl-tests and of rccl-tests, which is nccl-tests with another name: what is run,
//! the tables with a row for each size, and the verdict at the end.
//!
//! Facts are from nccl-tests `src/common.cu` (2.0 to 2.16) and `src/util.cu` (2.17 to 2.20). A row is
//! printed in three writes: the size and what describes the call before the call is made, then the
//! values out of place, then those in place. NCCL's own lines come between them, right after the
//! last digit. The columns of a table are those of its header, and their widths too.

use memchr::memmem::{self, Finder};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

/// Bytes of a line in which its first word of nccl-tests is: launchers and collectors put text before
/// it.
const MAX_LABEL_BYTES: usize = 96;

/// Words that a launcher or a collector puts before a row.
const MAX_LABEL_WORDS: usize = 6;

/// Columns of a table; the widest has 23.
const MAX_TABLE_COLUMNS: usize = 40;

/// How the names of datatypes begin: `float`, `f8e4m3` (`test_typenames`), rccl-tests' `fp8_e4m3`.
const DATATYPE_BEGINNINGS: [&[u8]; 9] = [
    b"int",
    b"uint",
    b"half",
    b"float",
    b"double",
    b"bfloat16",
    b"f8e",
    b"fp8",
    b"char",
];

/// A line of nccl-tests.
#[derive(Debug, Clone, PartialEq)]
pub enum BenchmarkLine<'a> {
    /// The program that runs, without `_perf`: `# Collective test starting: all_reduce_perf` (since
    /// 2.13), or the command that starts it.
    Program(&'a [u8]),
    /// `# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) ..`.
    Setup(BenchmarkSetup),
    /// The rank of `#  Rank  0 Group  0 Pid 226099 on host device  0 [0x1a] TITAN Xp`.
    Device(u64),
    /// The header of a table, with the names of its columns.
    Columns(TableColumns),
    /// A row, or its beginning: read it with [`TableColumns::read_row`].
    Row,
    /// Values that may belong to a row that was begun: read them with [`TableRow::add_values`].
    Values,
    /// `# Out of bounds values : 6 FAILED`.
    OutOfBounds {
        /// How many values of the table.
        count: u64,
        /// The program's own verdict.
        failed: bool,
    },
    /// `# Avg bus bandwidth    : 354.589 FAILED`.
    AverageBandwidth {
        /// GB/s.
        gb_per_s: f64,
        /// It is below `NCCL_TESTS_MIN_BW`.
        failed: bool,
    },
    /// `host: Test NCCL failure common.cu:958 'unhandled system error'`: the run is over.
    Failure,
}

/// What a run was started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BenchmarkSetup {
    /// The first size in bytes.
    pub min_bytes: u64,
    /// The last size in bytes.
    pub max_bytes: u64,
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnKind {
    Size,
    Count,
    Type,
    Redop,
    Root,
    /// Microseconds; a group of values begins with it.
    Time,
    Algbw,
    Busbw,
    /// How many elements are wrong.
    Wrong,
    Other,
}

/// The columns of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableColumns {
    /// What each holds, and where its text ends.
    columns: Vec<(ColumnKind, usize)>,
    /// Out of place, in place: the columns of each.
    groups: Vec<Range<usize>>,
}

/// The values of a row, out of place or in place.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct BenchmarkValues {
    /// Microseconds.
    pub time_us: Option<f64>,
    /// Algorithm bandwidth in GB/s.
    pub algbw: Option<f64>,
    /// Bus bandwidth in GB/s.
    pub busbw: Option<f64>,
    /// Wrong elements; `None` if results were not checked.
    pub wrong: Option<f64>,
}

/// A row, which may still lack values.
#[derive(Debug, Clone, PartialEq)]
pub struct TableRow<'a> {
    /// Bytes.
    pub size: u64,
    /// Elements.
    pub count: u64,
    /// `float`, `bfloat16`.
    pub datatype: &'a [u8],
    /// `sum`, `none`; empty if the table has no such column.
    pub redop: &'a [u8],
    /// The root; -1 where the operation has none.
    pub root: Option<i64>,
    /// Out of place and in place.
    pub values: [Option<BenchmarkValues>; 2],
}

/// A word of a line.
#[derive(Debug, Clone, Copy)]
struct LineWord<'a> {
    text: &'a [u8],
    start: usize,
    end: usize,
}

fn split_words(line: &[u8]) -> impl Iterator<Item = LineWord<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = &line[at..];
        let start = at + rest.iter().position(|b| !b.is_ascii_whitespace())?;
        let len = line[start..].iter().position(u8::is_ascii_whitespace);
        let end = len.map_or(line.len(), |len| start + len);
        at = end;
        let text = &line[start..end];
        Some(LineWord { text, start, end })
    })
}

fn parse_whole<T: std::str::FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// A number of a table; `N/A` and the like are words without a value.
fn parse_value(word: &[u8]) -> Option<Option<f64>> {
    if matches!(word, b"N/A" | b"nan" | b"-nan" | b"inf" | b"-inf") {
        return Some(None);
    }
    let is_number = word.first().is_some_and(|b| b"0123456789-.".contains(b));
    let value: f64 = parse_whole(word).filter(|_| is_number)?;
    Some(Some(value).filter(|value| value.is_finite()))
}

/// Returns false for a line that is certainly none of nccl-tests'.
pub fn may_be_benchmark_line(line: &[u8]) -> bool {
    static PERF: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"_perf"));
    static FAILURE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b" failure "));
    let head = &line[..line.len().min(MAX_LABEL_BYTES)];
    memchr::memchr(b'#', head).is_some()
        || head.first().is_some_and(u8::is_ascii_digit)
        || memchr::memchr_iter(b' ', head).any(|at| {
            let after = &head[at + 1..];
            after.first() == Some(&b' ') && after.get(1).is_some_and(u8::is_ascii_digit)
        })
        || PERF.find(line).is_some()
        || FAILURE.find(line).is_some()
}

/// Returns the line without the tags that `mpirun --tag-output` puts before every write, so that a row
/// is in one piece again: `[1,0]<stdout>:`, `[prterun-host-7@1,0]<stdout>:`.
pub fn remove_output_tags(line: &[u8]) -> Cow<'_, [u8]> {
    static END: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"]<std"));
    if END.find(line).is_none() {
        return Cow::Borrowed(line);
    }
    let mut out = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some(close) = END.find(rest) {
        let after = &rest[close + 1..];
        let tag = [&b"<stdout>:"[..], b"<stderr>:"];
        let after = tag.iter().find_map(|tag| after.strip_prefix(*tag));
        match (memchr::memrchr(b'[', &rest[..close]), after) {
            (Some(open), Some(after)) => {
                out.extend_from_slice(&rest[..open]);
                rest = after;
            }
            _ => {
                out.extend_from_slice(&rest[..=close]);
                rest = &rest[close + 1..];
            }
        }
    }
    out.extend_from_slice(rest);
    Cow::Owned(out)
}

/// Parses a line without output tags.
pub fn parse_benchmark_line(line: &[u8]) -> Option<BenchmarkLine<'_>> {
    let head = &line[..line.len().min(MAX_LABEL_BYTES)];
    let hash = memchr::memchr_iter(b'#', head).find_map(|at| parse_comment(&line[at + 1..]));
    if hash.is_some() {
        return hash;
    }
    if row_start(line).is_some() {
        return Some(BenchmarkLine::Row);
    }
    if values_start(line).is_some() {
        return Some(BenchmarkLine::Values);
    }
    parse_failure(line).or_else(|| parse_command(line))
}

/// Parses what follows `#`.
fn parse_comment(text: &[u8]) -> Option<BenchmarkLine<'_>> {
    let words = text.trim_ascii_start();
    if let Some(name) = words.strip_prefix(b"Collective test starting: ") {
        return strip_perf(name.trim_ascii()).map(BenchmarkLine::Program);
    }
    if words.starts_with(b"nThread ") {
        return parse_setup(words).map(BenchmarkLine::Setup);
    }
    if let Some(rank) = words.strip_prefix(b"Rank ") {
        let mut words = split_words(rank);
        let rank = parse_whole(words.next()?.text)?;
        let is_device = words.any(|word| word.text == b"Pid");
        return is_device.then_some(BenchmarkLine::Device(rank));
    }
    let verdict = |name: &[u8]| {
        let value = words.strip_prefix(name)?.trim_ascii_start();
        let mut words = split_words(value.strip_prefix(b":")?);
        let value = words.next()?.text;
        let failed = words.next().is_some_and(|word| word.text == b"FAILED");
        Some((value, failed))
    };
    if let Some((count, failed)) = verdict(b"Out of bounds values") {
        let count = parse_whole(count)?;
        return Some(BenchmarkLine::OutOfBounds { count, failed });
    }
    if let Some((gb_per_s, failed)) = verdict(b"Avg bus bandwidth") {
        let gb_per_s = parse_whole(gb_per_s).filter(|value: &f64| value.is_finite())?;
        return Some(BenchmarkLine::AverageBandwidth { gb_per_s, failed });
    }
    words
        .starts_with(b"size ")
        .then(|| TableColumns::parse_columns(text))
        .flatten()
        .map(BenchmarkLine::Columns)
}

/// `nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 ..`.
fn parse_setup(text: &[u8]) -> Option<BenchmarkSetup> {
    let after = |name: &[u8]| {
        let mut words = split_words(text);
        words.find(|word| word.text == name)?;
        parse_whole(words.next()?.text)
    };
    Some(BenchmarkSetup {
        min_bytes: after(b"minBytes")?,
        max_bytes: after(b"maxBytes")?,
    })
}

/// The name of a program of nccl-tests, without its folder and `_perf`.
fn strip_perf(path: &[u8]) -> Option<&[u8]> {
    let name = path.rsplit(|b| *b == b'/').next()?;
    let name = name.strip_suffix(b"_perf")?;
    let of_name = |b: &u8| b.is_ascii_lowercase() || *b == b'_';
    (!name.is_empty() && name.iter().all(of_name)).then_some(name)
}

/// A command with options that starts one program: `./build/all_reduce_perf -b 8 -e 128M`.
fn parse_command(line: &[u8]) -> Option<BenchmarkLine<'_>> {
    let perf = memmem::find(line, b"_perf ")?;
    if memmem::find(&line[perf + 1..], b"_perf").is_some() {
        return None;
    }
    let start = line[..perf].iter().rposition(u8::is_ascii_whitespace);
    let name = strip_perf(&line[start.map_or(0, |at| at + 1)..perf + 5])?;
    let option = line[perf + 5..].trim_ascii_start();
    option
        .starts_with(b"-")
        .then_some(BenchmarkLine::Program(name))
}

/// `host: Test NCCL failure common.cu:958 '..'` and `.. pid 7: Test failure common.cu:1080`
/// (`src/common.h`, NCCLCHECK, CUDACHECK and TESTCHECK).
fn parse_failure(line: &[u8]) -> Option<BenchmarkLine<'_>> {
    let at = memmem::find(line, b"Test ")?;
    let rest = &line[at + 5..];
    let kinds = [&b"NCCL failure "[..], b"CUDA failure ", b"failure "];
    let place = kinds.iter().find_map(|kind| rest.strip_prefix(*kind))?;
    let place = split_words(place).next()?.text;
    let is_source = [&b".cu:"[..], b".cc:", b".cpp:", b".h:"];
    let is_source = is_source
        .iter()
        .any(|dot| memmem::find(place, dot).is_some());
    is_source.then_some(BenchmarkLine::Failure)
}

/// Where a row's size is: before a count and the name of a datatype.
fn row_start(line: &[u8]) -> Option<LineWord<'_>> {
    let digits = |word: &LineWord<'_>| word.text.iter().all(u8::is_ascii_digit);
    let mut words = split_words(line).take(MAX_LABEL_WORDS + 3);
    let mut two = [words.next()?, words.next()?];
    for word in words {
        let name = word.text;
        // NCCL's line may follow right after a name, where a table has no reduction and no root.
        if digits(&two[0])
            && digits(&two[1])
            && DATATYPE_BEGINNINGS
                .iter()
                .any(|begin| name.starts_with(begin))
        {
            return Some(two[0]);
        }
        two = [two[1], word];
    }
    None
}

/// Where three values in a row begin, of which the last two have a point.
fn values_start(line: &[u8]) -> Option<LineWord<'_>> {
    let mut words = split_words(line).take(MAX_LABEL_WORDS + 3);
    let is_value = |word: &LineWord<'_>| parse_value(word.text).is_some();
    let pointed = |word: &LineWord<'_>| is_value(word) && word.text.contains(&b'.');
    let mut two = [words.next()?, words.next()?];
    for word in words {
        if is_value(&two[0]) && pointed(&two[1]) && pointed(&word) {
            return Some(two[0]);
        }
        two = [two[1], word];
    }
    None
}

impl TableColumns {
    /// `size count type redop root time algbw busbw #wrong time algbw busbw #wrong`, with fewer columns
    /// in old versions and more with options of new ones.
    fn parse_columns(text: &[u8]) -> Option<TableColumns> {
        let mut columns = Vec::new();
        let mut groups: Vec<Range<usize>> = Vec::new();
        for word in split_words(text).take(MAX_TABLE_COLUMNS) {
            let kind = match word.text {
                b"size" => ColumnKind::Size,
                b"count" => ColumnKind::Count,
                b"type" => ColumnKind::Type,
                b"redop" => ColumnKind::Redop,
                b"root" => ColumnKind::Root,
                b"time" | b"cputime" => ColumnKind::Time,
                b"algbw" => ColumnKind::Algbw,
                b"busbw" => ColumnKind::Busbw,
                b"#wrong" | b"wrong" => ColumnKind::Wrong,
                _ => ColumnKind::Other,
            };
            let at = columns.len();
            if kind == ColumnKind::Time {
                groups.push(at..at);
            }
            if let Some(group) = groups.last_mut() {
                group.end = at + 1;
            }
            columns.push((kind, word.end));
        }
        let has = |range: Range<usize>, kind| columns[range].iter().any(|(k, _)| *k == kind);
        let base = groups.first()?.start;
        let is_whole = [ColumnKind::Size, ColumnKind::Count, ColumnKind::Type]
            .iter()
            .enumerate()
            .all(|(at, kind)| at < base && columns[at].0 == *kind);
        let is_whole = is_whole && groups.iter().all(|g| has(g.clone(), ColumnKind::Busbw));
        (is_whole && groups.len() <= 2).then_some(TableColumns { columns, groups })
    }

    /// How far the text of column `to` ends after that of column `from`.
    fn distance(&self, from: usize, to: usize) -> usize {
        self.columns[to].1.saturating_sub(self.columns[from].1)
    }

    /// Cuts what follows the table's own text on a line. `first` is a word of column `from`. NCCL's line
    /// follows without a blank, and its host may begin with a digit: then the columns' widths tell
    /// where the table's text ends.
    fn cut_glued<'a>(&self, line: &'a [u8], first: &LineWord<'a>, from: usize) -> &'a [u8] {
        let Some(nccl) = memmem::find(line, b"NCCL ").filter(|&at| at >= first.end) else {
            return line;
        };
        let before = &line[..nccl];
        let Some(glued) = split_words(before)
            .filter(|word| word.start >= first.start)
            .find(|word| word.text.contains(&b':'))
        else {
            return before;
        };
        let ends = [self.groups[0].start.checked_sub(1)];
        let ends = ends.into_iter().flatten();
        let ends = ends.chain(self.groups.iter().map(|group| group.end - 1));
        let mut places = ends
            .filter(|&to| to >= from)
            .map(|to| first.end + self.distance(from, to));
        let cut = places.find(|&at| glued.start < at && at <= glued.end);
        &line[..cut.unwrap_or(glued.start).min(line.len())]
    }

    /// Reads a row, or as much of it as is on the line.
    pub fn read_row<'a>(&self, line: &'a [u8]) -> Option<TableRow<'a>> {
        let first = row_start(line)?;
        let line = self.cut_glued(line, &first, 0);
        let base = self.groups[0].start;
        let words: Vec<LineWord<'a>> = split_words(line)
            .filter(|word| word.start >= first.start)
            .take(MAX_TABLE_COLUMNS)
            .collect();
        let mut row = TableRow {
            size: parse_whole(first.text)?,
            count: 0,
            datatype: b"",
            redop: b"",
            root: None,
            values: [None; 2],
        };
        for (word, (kind, _)) in words.iter().zip(&self.columns[..base]) {
            match kind {
                ColumnKind::Count => row.count = parse_whole(word.text)?,
                ColumnKind::Type => row.datatype = word.text,
                ColumnKind::Redop => row.redop = word.text,
                ColumnKind::Root => row.root = Some(parse_whole(word.text)?),
                _ => {}
            }
        }
        let values = words.get(base..)?;
        // Only in place: the place of out of place is blank.
        let in_place = self.groups.get(1).is_some_and(|group| {
            let out = first.end + self.distance(0, group.start - 1);
            values.first().is_some_and(|word| word.start >= out) && values.len() <= group.len()
        });
        if !values.is_empty() {
            self.take_values(&mut row, values, usize::from(in_place))?;
        }
        Some(row)
    }

    /// Fills groups from `group` on; `None` if a word is no value.
    fn take_values(
        &self,
        row: &mut TableRow<'_>,
        words: &[LineWord<'_>],
        group: usize,
    ) -> Option<()> {
        let mut words = words;
        for (at, group) in self.groups.iter().enumerate().skip(group) {
            if words.is_empty() {
                return Some(());
            }
            let columns = &self.columns[group.clone()];
            let known = |kind: ColumnKind| kind != ColumnKind::Other;
            let least = columns.iter().rposition(|(kind, _)| known(*kind))? + 1;
            if words.len() < least {
                return None;
            }
            let mut values = BenchmarkValues::default();
            for (word, (kind, _)) in words.iter().zip(columns) {
                let value = match kind {
                    ColumnKind::Other => None,
                    _ => parse_value(word.text)?,
                };
                match kind {
                    ColumnKind::Time => values.time_us = value,
                    ColumnKind::Algbw => values.algbw = value,
                    ColumnKind::Busbw => values.busbw = value,
                    ColumnKind::Wrong => values.wrong = value,
                    _ => {}
                }
            }
            row.values[at] = Some(values);
            words = words.get(columns.len()..).unwrap_or_default();
        }
        Some(())
    }

    /// How many groups of values a row has: out of place, in place.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }
}

impl TableRow<'_> {
    /// Adds the values of a line to a row that lacks them. Returns false if they are not the row's.
    pub fn add_values(&mut self, columns: &TableColumns, line: &[u8]) -> bool {
        let next = self.values[..columns.groups.len()]
            .iter()
            .position(Option::is_none);
        let (Some(next), Some(first)) = (next, values_start(line)) else {
            return false;
        };
        let line = columns.cut_glued(line, &first, columns.groups[next].start);
        let words: Vec<LineWord<'_>> = split_words(line)
            .filter(|word| word.start >= first.start)
            .take(MAX_TABLE_COLUMNS)
            .collect();
        let before = self.values;
        let taken = columns.take_values(self, &words, next).is_some();
        if !taken {
            self.values = before;
        }
        taken
    }
}

#[cfg(test)]
mod tests;
