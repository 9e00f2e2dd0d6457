//! Reports whose columns stand under a header: csv, tsv, table and column.

use super::{Field, Row, columns, kernel};

/// How the rows of a report are laid out.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Layout {
    /// Fields between separators; the last is the rest of the line.
    Separated {
        separator: u8,
        columns: Vec<(Field, u64)>,
    },
    /// Cells between bars, at places that the header has.
    Bars(Vec<Cell>),
    /// A header whose columns the rule below it shows.
    Header(Vec<u8>),
    /// Cells under that rule.
    Cells(Vec<Cell>),
}

/// A column: what it holds, its unit, and its first character and that behind it. The last column has no
/// end.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cell {
    of: (Field, u64),
    from: usize,
    to: usize,
}

impl Layout {
    /// The layout of the report that a line is the header of.
    pub(super) fn of(line: &[u8]) -> Option<Layout> {
        let text = line.trim_ascii_start();
        let begins = |with: &[u8]| text.starts_with(with);
        if begins(b"|") && contains_header(text) {
            let bars = bars(line);
            let cells = bars
                .windows(2)
                .filter_map(|pair| Some((*pair.first()? + 1, *pair.last()?)));
            let line = Chars::of(line);
            let cells: Vec<(usize, usize)> = cells.collect();
            let names: Vec<&[u8]> = cells
                .iter()
                .map(|&(from, to)| line.part(from, to))
                .collect();
            let columns = columns(names.into_iter())?;
            return Some(Layout::Bars(places(columns, &cells)));
        }
        if !begins(b"Time") || !contains_header(text) {
            return None;
        }
        for separator in [b',', b'\t'] {
            let names = || text.split(|&b| b == separator).map(unquoted);
            if names().count() > 3 {
                let columns = columns(names())?;
                // What a name has of commas is its own.
                let is_last = columns
                    .last()
                    .is_some_and(|(field, _)| *field == Field::Name);
                return is_last.then_some(Layout::Separated { separator, columns });
            }
        }
        let is_ours = memchr::memmem::find(text, b"Instances").is_some();
        is_ours.then(|| Layout::Header(line.to_vec()))
    }

    /// What the next line is.
    pub(super) fn row(&mut self, line: &[u8]) -> Row {
        let is_blank = line.trim_ascii().is_empty();
        match self {
            Layout::Separated { separator, columns } => {
                // nsys says what it works on in the same stream.
                let is_row = line
                    .first()
                    .is_some_and(|b| b.is_ascii_digit() || *b == b'"');
                if !is_row {
                    return Row::End;
                }
                row(separated(line, *separator, columns))
            }
            Layout::Bars(cells) => {
                let text = line.trim_ascii();
                match text.first() {
                    Some(b'+') => Row::Other,
                    Some(b'|') => row(cut(line, cells)),
                    _ => Row::End,
                }
            }
            Layout::Header(header) => {
                let is_rule = !is_blank && line.iter().all(|b| matches!(b, b'-' | b' '));
                let cells = is_rule.then(|| ruled(header, line)).flatten();
                match cells {
                    Some(cells) => {
                        *self = Layout::Cells(cells);
                        Row::Other
                    }
                    None => Row::End,
                }
            }
            Layout::Cells(_) if is_blank => Row::End,
            Layout::Cells(cells) => {
                let first = line.trim_ascii_start().first();
                match first.is_some_and(u8::is_ascii_digit) {
                    true => row(cut(line, cells)),
                    false => Row::End,
                }
            }
        }
    }
}

fn row(kernel: Option<super::Kernel>) -> Row {
    kernel.map_or(Row::Damaged, |kernel| Row::Kernel(Box::new(kernel)))
}

/// True where a line has the first columns of a summary.
fn contains_header(line: &[u8]) -> bool {
    let has = |key: &[u8]| memchr::memmem::find(line, key).is_some();
    (has(b"Time (%)") || has(b"Time(%)")) && has(b"Total Time") && line.len() < 4096
}

/// A field without the quotes around it.
fn unquoted(field: &[u8]) -> &[u8] {
    let inner = field
        .strip_prefix(b"\"")
        .and_then(|f| f.strip_suffix(b"\""));
    inner.unwrap_or(field)
}

/// The kernel of a row of csv. The name is last, and quoted where it has a comma; quotes in it may be
/// doubled or not.
fn separated(line: &[u8], separator: u8, columns: &[(Field, u64)]) -> Option<super::Kernel> {
    let mut rest = line;
    let mut fields = Vec::new();
    let (last, before) = columns.split_last()?;
    for column in before {
        let end = match rest.strip_prefix(b"\"") {
            // A number with commas.
            Some(inner) => memchr::memchr(b'"', inner)? + 2,
            None => memchr::memchr(separator, rest)?,
        };
        let (field, after) = rest.split_at_checked(end)?;
        rest = after.strip_prefix(&[separator])?;
        fields.push((*column, field));
    }
    let name = unquoted(rest);
    let doubled = memchr::memmem::find(name, b"\"\"").is_some() && name.len() < rest.len();
    let name = match doubled {
        true => replaced(name),
        false => name.to_vec(),
    };
    fields.push((*last, &name));
    kernel(fields.into_iter())
}

/// Each doubled quote as one.
fn replaced(text: &[u8]) -> Vec<u8> {
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
struct Chars<'l> {
    line: &'l [u8],
    /// Where each begins; empty where each is a byte.
    starts: Vec<usize>,
}

impl<'l> Chars<'l> {
    fn of(line: &'l [u8]) -> Chars<'l> {
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
        Chars { line, starts }
    }

    /// The characters `from..to`, as far as there are any.
    fn part(&self, from: usize, to: usize) -> &'l [u8] {
        let len = self.line.len();
        let place = |at: usize| match self.starts.is_empty() {
            true => at.min(len),
            false => self.starts.get(at).copied().unwrap_or(len),
        };
        self.line.get(place(from)..place(to)).unwrap_or_default()
    }
}

/// The characters of a line that are bars.
fn bars(line: &[u8]) -> Vec<usize> {
    let chars = line.iter().filter(|b| **b & 0xc0 != 0x80).enumerate();
    chars
        .filter(|(_, b)| **b == b'|')
        .map(|(at, _)| at)
        .collect()
}

fn places(columns: Vec<(Field, u64)>, cells: &[(usize, usize)]) -> Vec<Cell> {
    let last = columns.len().saturating_sub(1);
    let cells = columns.into_iter().zip(cells).enumerate();
    let cell = |(at, (of, &(from, to)))| Cell {
        of,
        from,
        to: if at == last { usize::MAX } else { to },
    };
    cells.map(cell).collect()
}

/// The columns of a header, by the rule below it.
fn ruled(header: &[u8], rule: &[u8]) -> Option<Vec<Cell>> {
    let mut cells: Vec<(usize, usize)> = Vec::new();
    for (at, &b) in rule.iter().enumerate() {
        match cells.last_mut() {
            Some((_, to)) if b == b'-' && *to == at => *to = at + 1,
            _ if b == b'-' => cells.push((at, at + 1)),
            _ => {}
        }
    }
    let header = Chars::of(header);
    let names: Vec<&[u8]> = cells
        .iter()
        .map(|&(from, to)| header.part(from, to))
        .collect();
    Some(places(columns(names.into_iter())?, &cells))
}

/// The kernel of a row of cells at fixed places.
fn cut(line: &[u8], cells: &[Cell]) -> Option<super::Kernel> {
    let line = line.trim_ascii_end();
    let line = Chars::of(line.strip_suffix(b"|").unwrap_or(line));
    kernel(
        cells
            .iter()
            .map(|cell| (cell.of, line.part(cell.from, cell.to))),
    )
}
