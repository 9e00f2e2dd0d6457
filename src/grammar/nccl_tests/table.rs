//! Tables of nccl-tests: the columns of a header, and rows by them.

use super::limits::{MAX_LABEL_WORDS, MAX_TABLE_COLUMNS};
use super::words::{LineWord, parse_value, parse_whole, split_words};
use memchr::memmem;
use std::ops::Range;

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

/// The values of a group: time, algorithm bandwidth, bus bandwidth, wrong elements.
const VALUES_OF_GROUP: usize = 4;

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

/// Where a row's size is: before a count and the name of a datatype.
pub(super) fn row_start(line: &[u8]) -> Option<LineWord<'_>> {
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

/// Where three values in a row begin; the last two have a point.
pub(super) fn values_start(line: &[u8]) -> Option<LineWord<'_>> {
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
    pub(super) fn parse_columns(text: &[u8]) -> Option<TableColumns> {
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

    /// Guesses the columns of rows without a header, by the words that all rows have; the last column is a number
    /// of wrong elements only where all have whole numbers: old versions have the greatest error there.
    pub fn guess_columns(rows: &[&[u8]]) -> Option<TableColumns> {
        let words_of = |line: &'_ [u8]| -> Option<Vec<Vec<u8>>> {
            let first = row_start(line)?;
            let own = split_words(line).filter(|word| word.start >= first.start);
            Some(own.map(|word| word.text.to_vec()).collect())
        };
        let rows: Vec<Vec<Vec<u8>>> = rows
            .iter()
            .map(|row| words_of(row))
            .collect::<Option<_>>()?;
        let first = rows.first()?;
        let is_name = |word: &Vec<u8>| word.iter().all(u8::is_ascii_alphabetic);
        let redop = if first.get(3).is_some_and(is_name) {
            "redop "
        } else {
            ""
        };
        let base = 3 + usize::from(!redop.is_empty());
        let left = first.len().checked_sub(base)?;
        let root = if left % VALUES_OF_GROUP == 1 {
            "root "
        } else {
            ""
        };
        let groups = left / VALUES_OF_GROUP;
        let is_table = left % VALUES_OF_GROUP <= 1 && matches!(groups, 1 | 2);
        if !is_table || rows.iter().any(|row| row.len() != first.len()) {
            return None;
        }
        let is_whole = |row: &Vec<Vec<u8>>| {
            row.last()
                .is_some_and(|word| parse_whole::<u64>(word).is_some())
        };
        let last = if rows.iter().all(is_whole) {
            "#wrong "
        } else {
            "error "
        };
        let group = format!("time algbw busbw {last}");
        let header = format!("size count type {redop}{root}{}", group.repeat(groups));
        let columns = TableColumns::parse_columns(header.as_bytes())?;
        let are_rows = |row: &Vec<Vec<u8>>| {
            let line = row.join(&b' ');
            columns
                .read_row(&line)
                .is_some_and(|row| row.values[0].is_some())
        };
        rows.iter().all(are_rows).then_some(columns)
    }

    /// How far the text of column `to` ends after that of column `from`.
    fn distance(&self, from: usize, to: usize) -> usize {
        self.columns[to].1.saturating_sub(self.columns[from].1)
    }

    /// Cuts what follows the table's own text on a line. `first` is a word of column `from`. NCCL's line
    /// follows without a blank, and its host may begin with a digit: then the columns' widths show
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
