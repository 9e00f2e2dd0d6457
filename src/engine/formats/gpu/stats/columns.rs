//! Reports with columns under a header: csv, tsv, table and column.

use super::{StatsField, StatsLine, find_columns, parse_row};

/// How the rows of a report are laid out.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum StatsLayout {
    /// Fields between separators; the last is the rest of the line.
    Separated {
        separator: u8,
        columns: Vec<(StatsField, u64)>,
    },
    /// Cells between bars, at places that the header has.
    Bars(Vec<StatsColumn>),
    /// A header; the rule below it shows its columns.
    Header(Vec<u8>),
    /// Cells under that rule.
    Cells(Vec<StatsColumn>),
}

/// A column: its field and unit, and its range of characters. The last column has no end.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StatsColumn {
    of: (StatsField, u64),
    from: usize,
    to: usize,
}

impl StatsLayout {
    /// The layout of the report that a line is the header of.
    pub(super) fn from_header(line: &[u8]) -> Option<StatsLayout> {
        let text = line.trim_ascii_start();
        if text.starts_with(b"|") && contains_header(text) {
            let bars = find_bars(line);
            let cells = bars
                .windows(2)
                .filter_map(|pair| Some((*pair.first()? + 1, *pair.last()?)));
            let line = LineChars::from_line(line);
            let cells: Vec<(usize, usize)> = cells.collect();
            let names: Vec<&[u8]> = cells
                .iter()
                .map(|&(from, to)| line.slice_chars(from, to))
                .collect();
            let columns = find_columns(names.into_iter())?;
            return Some(StatsLayout::Bars(place_columns(columns, &cells)));
        }
        let first = text.strip_prefix(b"\"").unwrap_or(text);
        if !(first.starts_with(b"Time") || first.starts_with(b"Start")) || !contains_header(text) {
            return None;
        }
        for separator in [b',', b'\t'] {
            let names = || text.split(|&b| b == separator).map(unquote);
            if names().count() > 3 {
                let columns = find_columns(names())?;
                // The name is last: it may have commas.
                let is_last = columns
                    .last()
                    .is_some_and(|(field, _)| *field == StatsField::Name);
                return is_last.then_some(StatsLayout::Separated { separator, columns });
            }
        }
        let has = |key: &[u8]| memchr::memmem::find(text, key).is_some();
        let is_ours = has(b"Instances") || has(b"GrdX");
        is_ours.then(|| StatsLayout::Header(line.to_vec()))
    }

    /// Reads the next line.
    pub(super) fn read_line(&mut self, line: &[u8]) -> StatsLine {
        let is_blank = line.trim_ascii().is_empty();
        match self {
            StatsLayout::Separated { separator, columns } => {
                // nsys prints its progress into the same stream.
                let line = line.trim_ascii_start();
                if !begins_row(line) {
                    return StatsLine::End;
                }
                parse_separated(line, *separator, columns).unwrap_or(StatsLine::Damaged)
            }
            StatsLayout::Bars(cells) => {
                let text = line.trim_ascii();
                match text.first() {
                    Some(b'+') => StatsLine::Other,
                    Some(b'|') => parse_fixed_columns(line, cells),
                    _ => StatsLine::End,
                }
            }
            StatsLayout::Header(header) => {
                let is_rule = !is_blank && line.iter().all(|b| matches!(b, b'-' | b' '));
                let cells = is_rule.then(|| columns_of_rule(header, line)).flatten();
                match cells {
                    Some(cells) => {
                        *self = StatsLayout::Cells(cells);
                        StatsLine::Other
                    }
                    None => StatsLine::End,
                }
            }
            StatsLayout::Cells(_) if is_blank => StatsLine::End,
            StatsLayout::Cells(cells) => {
                let first = line.trim_ascii_start().first();
                match first.is_some_and(u8::is_ascii_digit) {
                    true => parse_fixed_columns(line, cells),
                    false => StatsLine::End,
                }
            }
        }
    }
}

/// Returns true if a line has the first columns of a summary, or of a trace.
pub(super) fn contains_header(line: &[u8]) -> bool {
    let has = |key: &[u8]| memchr::memmem::find(line, key).is_some();
    let is_summary = (has(b"Time (%)") || has(b"Time(%)")) && has(b"Total Time");
    let is_trace = has(b"Start (") && has(b"Duration (") && has(b"CorrId");
    (is_summary || is_trace) && line.len() < 4096
}

/// Returns true if a line of csv begins as a row does: with a number, which may be quoted.
pub(super) fn begins_row(line: &[u8]) -> bool {
    matches!(line, [b'0'..=b'9', ..] | [b'"', b'0'..=b'9' | b' ', ..])
}

/// A field without the quotes around it.
fn unquote(field: &[u8]) -> &[u8] {
    let inner = field
        .strip_prefix(b"\"")
        .and_then(|f| f.strip_suffix(b"\""));
    inner.unwrap_or(field)
}

/// Reads a row of csv. The name is last, and quoted if it has a comma; quotes in it may be doubled or
/// not.
fn parse_separated(line: &[u8], separator: u8, columns: &[(StatsField, u64)]) -> Option<StatsLine> {
    let mut rest = line;
    let mut fields = Vec::new();
    let (last, before) = columns.split_last()?;
    for column in before {
        let end = match rest.strip_prefix(b"\"") {
            // A number with commas, or every field is quoted.
            Some(inner) => memchr::memchr(b'"', inner)? + 2,
            None => memchr::memchr(separator, rest)?,
        };
        let (field, after) = rest.split_at_checked(end)?;
        rest = after.strip_prefix(&[separator])?;
        fields.push((*column, unquote(field)));
    }
    let name = match unquote(rest) {
        inner if inner.len() < rest.len() => replace_doubled_quotes(inner),
        name => name.to_vec(),
    };
    fields.push((*last, &name));
    Some(parse_row(fields.into_iter()))
}

/// Each doubled quote as one.
fn replace_doubled_quotes(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter().peekable();
    while let Some(&b) = bytes.next() {
        out.push(b);
        if b == b'"' {
            bytes.next_if(|next| **next == b'"');
        }
    }
    out
}

/// A line by characters: nsys lays columns out by them, and `…` is one.
struct LineChars<'l> {
    line: &'l [u8],
    /// Where each begins; empty where each is a byte.
    starts: Vec<usize>,
}

impl<'l> LineChars<'l> {
    fn from_line(line: &'l [u8]) -> LineChars<'l> {
        let starts = match line.is_ascii() {
            true => Vec::new(),
            false => {
                let bytes = line.iter().enumerate();
                bytes
                    .filter(|(_, b)| **b & 0xc0 != 0x80)
                    .map(|(at, _)| at)
                    .collect()
            }
        };
        LineChars { line, starts }
    }

    /// The characters `from..to`, as far as there are any.
    fn slice_chars(&self, from: usize, to: usize) -> &'l [u8] {
        let len = self.line.len();
        let place = |at: usize| match self.starts.is_empty() {
            true => at.min(len),
            false => self.starts.get(at).copied().unwrap_or(len),
        };
        self.line.get(place(from)..place(to)).unwrap_or_default()
    }
}

/// The characters of a line that are bars.
fn find_bars(line: &[u8]) -> Vec<usize> {
    let chars = line.iter().filter(|b| **b & 0xc0 != 0x80).enumerate();
    chars
        .filter(|(_, b)| **b == b'|')
        .map(|(at, _)| at)
        .collect()
}

fn place_columns(columns: Vec<(StatsField, u64)>, cells: &[(usize, usize)]) -> Vec<StatsColumn> {
    let last = columns.len().saturating_sub(1);
    let cells = columns.into_iter().zip(cells).enumerate();
    let cell = |(at, (of, &(from, to)))| StatsColumn {
        of,
        from,
        to: if at == last { usize::MAX } else { to },
    };
    cells.map(cell).collect()
}

/// The columns of a header, by the rule below it.
fn columns_of_rule(header: &[u8], rule: &[u8]) -> Option<Vec<StatsColumn>> {
    let mut cells: Vec<(usize, usize)> = Vec::new();
    for (at, &b) in rule.iter().enumerate() {
        match cells.last_mut() {
            Some((_, to)) if b == b'-' && *to == at => *to = at + 1,
            _ if b == b'-' => cells.push((at, at + 1)),
            _ => {}
        }
    }
    let header = LineChars::from_line(header);
    let names: Vec<&[u8]> = cells
        .iter()
        .map(|&(from, to)| header.slice_chars(from, to))
        .collect();
    Some(place_columns(find_columns(names.into_iter())?, &cells))
}

/// Reads a row of cells at fixed places.
fn parse_fixed_columns(line: &[u8], cells: &[StatsColumn]) -> StatsLine {
    let line = line.trim_ascii_end();
    let line = LineChars::from_line(line.strip_suffix(b"|").unwrap_or(line));
    parse_row(
        cells
            .iter()
            .map(|cell| (cell.of, line.slice_chars(cell.from, cell.to))),
    )
}
