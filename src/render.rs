//! Rows as bytes: CSV, JSON lines, or a table drawn for a terminal. What is drawn never depends
//! on whether someone looks, only on the format asked for.

use crate::error::{Error, Result};
use crate::fold;
use crate::report::printable;
use crate::table::csv_text;
use std::borrow::Cow;
use std::io::Write;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// One value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell<'a> {
    /// A whole number.
    Int(u128),
    /// A number with a fraction, in its shortest form.
    Float(f64),
    /// A part of a whole; in percent where people look at it.
    Share(f64),
    /// A text.
    Text(Cow<'a, [u8]>),
    /// Not known.
    Empty,
}

impl<'a> From<&'a str> for Cell<'a> {
    fn from(text: &'a str) -> Cell<'a> {
        text.as_bytes().into()
    }
}

impl<'a> From<&'a [u8]> for Cell<'a> {
    fn from(text: &'a [u8]) -> Cell<'a> {
        Cell::Text(Cow::Borrowed(text))
    }
}

impl From<Vec<u8>> for Cell<'_> {
    fn from(text: Vec<u8>) -> Self {
        Cell::Text(Cow::Owned(text))
    }
}

impl From<String> for Cell<'_> {
    fn from(text: String) -> Self {
        Cell::Text(Cow::Owned(text.into_bytes()))
    }
}

impl<'a, T: Into<Cell<'a>>> From<Option<T>> for Cell<'a> {
    fn from(value: Option<T>) -> Cell<'a> {
        value.map_or(Cell::Empty, Into::into)
    }
}

impl From<u64> for Cell<'_> {
    fn from(n: u64) -> Self {
        Cell::Int(n.into())
    }
}

impl From<u128> for Cell<'_> {
    fn from(n: u128) -> Self {
        Cell::Int(n)
    }
}

impl From<f64> for Cell<'_> {
    fn from(x: f64) -> Self {
        if x.is_finite() {
            Cell::Float(x)
        } else {
            Cell::Empty
        }
    }
}

impl Cell<'_> {
    /// What part `n` is of `whole`; not known where there is no whole.
    pub fn share(n: f64, whole: f64) -> Self {
        let share = n / whole;
        if share.is_finite() {
            Cell::Share(share)
        } else {
            Cell::Empty
        }
    }
}

impl Cell<'_> {
    fn into_owned(self) -> Cell<'static> {
        match self {
            Cell::Int(n) => Cell::Int(n),
            Cell::Float(x) => Cell::Float(x),
            Cell::Share(x) => Cell::Share(x),
            Cell::Text(text) => Cell::Text(Cow::Owned(text.into_owned())),
            Cell::Empty => Cell::Empty,
        }
    }
}

/// Rows under named columns, kept.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Grid {
    /// The columns' names.
    pub columns: Vec<String>,
    /// The rows, each as long as `columns`.
    pub rows: Vec<Vec<Cell<'static>>>,
}

impl From<Grid> for Sheet<'_> {
    fn from(grid: Grid) -> Self {
        let Grid { columns, rows } = grid;
        Sheet {
            columns,
            group: 0,
            parts: std::iter::once(0..rows.len()).collect(),
            rows: Box::new(move |part, sink| rows[part].iter().for_each(|row| sink(row, false))),
        }
    }
}

/// Gives each row of a part to what it is handed, and whether its group is that of the row before
/// in the part.
type Rows<'a> = dyn Fn(Range<usize>, &mut dyn FnMut(&[Cell<'_>], bool)) + Sync + 'a;

/// Rows under named columns, made a part at a time when they are written: there may be millions.
pub struct Sheet<'a> {
    /// The columns' names.
    pub columns: Vec<String>,
    /// How many columns in front say which group a row is of.
    pub group: usize,
    /// The parts, in order.
    pub parts: Vec<Range<usize>>,
    /// The rows of a part.
    pub rows: Box<Rows<'a>>,
}

impl Sheet<'_> {
    /// All rows.
    pub fn grid(&self) -> Grid {
        let mut rows = Vec::new();
        for part in &self.parts {
            (self.rows)(part.clone(), &mut |row, _| {
                rows.push(row.iter().cloned().map(Cell::into_owned).collect());
            });
        }
        Grid {
            columns: self.columns.clone(),
            rows,
        }
    }

    /// Writes the rows as CSV with a header.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn csv(&self, jobs: usize, out: &mut (dyn Write + Send)) -> Result<()> {
        let header = self.columns.join(",") + "\n";
        out.write_all(header.as_bytes()).map_err(Error::Output)?;
        self.write(jobs, out, |row, again, shown| {
            let Shown {
                text,
                numbers,
                group,
            } = shown;
            let from = text.len();
            let (groups, own) = row.split_at(self.group.min(row.len()));
            let mut show = |cells: &[Cell<'_>], text: &mut Vec<u8>| {
                for cell in cells {
                    match cell {
                        Cell::Text(t) => csv_text(t, text),
                        cell => numbers.show(cell, text),
                    }
                    text.push(b',');
                }
            };
            if again {
                text.extend_from_within(group.clone());
            } else {
                show(groups, text);
            }
            *group = from..text.len();
            show(own, text);
            text.pop();
            text.push(b'\n');
        })
    }

    /// Writes each row as a line of JSON; what is not known is left out.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn jsonl(&self, jobs: usize, out: &mut (dyn Write + Send)) -> Result<()> {
        self.write(jobs, out, |row, _, shown| {
            let (line, numbers) = (&mut shown.text, &mut shown.numbers);
            line.push(b'{');
            let mut first = true;
            for (name, cell) in self.columns.iter().zip(row) {
                if *cell == Cell::Empty {
                    continue;
                }
                if !std::mem::take(&mut first) {
                    line.push(b',');
                }
                line.push(b'"');
                line.extend_from_slice(name.as_bytes());
                line.extend_from_slice(b"\":");
                match cell {
                    Cell::Text(t) => {
                        let text = String::from_utf8_lossy(t);
                        // A string into a buffer: neither can fail.
                        let _ = serde_json::to_writer(&mut *line, &*text);
                    }
                    cell => numbers.show(cell, line),
                }
            }
            line.extend_from_slice(b"}\n");
        })
    }

    /// Makes parts into text on `jobs` threads and writes them in order.
    fn write(
        &self,
        jobs: usize,
        out: &mut (dyn Write + Send),
        show: impl Fn(&[Cell<'_>], bool, &mut Shown) + Sync,
    ) -> Result<()> {
        // One part needs no threads.
        let jobs = jobs.min(self.parts.len());
        // What is written leaves its memory and the fractions it met to the next part.
        let spare = Mutex::new(Vec::<Shown>::new());
        let spare = || spare.lock().unwrap_or_else(PoisonError::into_inner);
        let text = |part: Range<usize>| {
            let found = spare().pop();
            let mut shown = found.unwrap_or_else(Shown::new);
            (self.rows)(part, &mut |row, again| show(row, again, &mut shown));
            shown
        };
        let parts = self.parts.iter().cloned();
        fold::in_turn(jobs, parts, text, |mut shown| {
            out.write_all(&shown.text).map_err(Error::Output)?;
            shown.text.clear();
            spare().push(shown);
            Ok(())
        })
    }

    /// Draws the rows as a table, numbers to the right, large ones in groups of three.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn table(&self, out: &mut dyn Write) -> Result<()> {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        table.set_header(&self.columns);
        for part in &self.parts {
            (self.rows)(part.clone(), &mut |row, _| {
                table.add_row(row.iter().map(|cell| match cell {
                    Cell::Int(n) => right(grouped(*n)),
                    Cell::Float(x) => right(short(*x)),
                    Cell::Share(x) => right(percent(*x)),
                    Cell::Text(t) => {
                        comfy_table::Cell::new(printable(&String::from_utf8_lossy(t), false))
                    }
                    Cell::Empty => comfy_table::Cell::new(""),
                }));
            });
        }
        writeln!(out, "{table}").map_err(Error::Output)
    }
}

/// Rows of a part as text.
struct Shown {
    text: Vec<u8>,
    numbers: Numbers,
    /// Where the text of the last row's group is.
    group: Range<usize>,
}

impl Shown {
    fn new() -> Shown {
        Shown {
            text: Vec::new(),
            numbers: Numbers::new(),
            group: 0..0,
        }
    }
}

/// Fractions as text. The steps of a job are alike and so are their shares: to look one up is
/// cheaper than to find its shortest form again.
struct Numbers {
    known: Vec<(u64, String)>,
}

impl Numbers {
    const PLACES: usize = 256;

    fn new() -> Numbers {
        // No finite number has these bits.
        Numbers {
            known: vec![(u64::MAX, String::new()); Numbers::PLACES],
        }
    }

    /// Appends a number; nothing for what is none.
    fn show(&mut self, cell: &Cell<'_>, out: &mut Vec<u8>) {
        match cell {
            Cell::Int(n) => match u64::try_from(*n) {
                Ok(n) => out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes()),
                Err(_) => out.extend_from_slice(itoa::Buffer::new().format(*n).as_bytes()),
            },
            Cell::Float(x) | Cell::Share(x) => {
                let bits = x.to_bits();
                let place = bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
                let (known, text) = &mut self.known[place as usize];
                if *known != bits {
                    (*known, *text) = (bits, x.to_string());
                }
                out.extend_from_slice(text.as_bytes());
            }
            Cell::Text(_) | Cell::Empty => {}
        }
    }
}

fn right(text: String) -> comfy_table::Cell {
    comfy_table::Cell::new(text).set_alignment(comfy_table::CellAlignment::Right)
}

/// `1234567` as `1 234 567`.
fn grouped(n: u128) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A fraction to look at: four significant digits.
fn short(x: f64) -> String {
    if x == 0.0 {
        return "0".to_owned();
    }
    if (1000.0..1e30).contains(&x) {
        return grouped(x.round() as u128);
    }
    let before = x.abs().log10().floor() as i32 + 1;
    let decimals = usize::try_from(4 - before).unwrap_or(0);
    format!("{x:.decimals$}")
}

/// A part of a whole to look at.
fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.00005 {
        return "<0.01 %".to_owned();
    }
    format!("{:.2} %", share * 100.0)
}

/// A bar of block characters, `share` of `width` wide, to eighths of a character.
pub fn bar(share: f64, width: usize) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = (share.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    let mut text = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        text.push(EIGHTHS[eighths % 8]);
    } else if eighths == 0 && share > 0.0 {
        text.push(EIGHTHS[1]);
    }
    text
}

/// A number as AWK prints it: whole ones in full, others with `%.6g`.
pub fn awk(x: f64) -> String {
    if x == x.trunc() && x.abs() < 1e16 {
        return format!("{x:.0}");
    }
    let text = format!("{x:.5e}");
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return text;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |t: &str| match t.contains('.') {
        true => t.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => t.to_owned(),
    };
    if (-5..6).contains(&exponent) && exponent != -5 {
        let decimals = usize::try_from(5 - exponent).unwrap_or(0);
        return trim(&format!("{x:.decimals$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim(mantissa), exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_awk_prints_them() {
        let cases = [
            (19131.333333, "19131.3"),
            (1037.4166, "1037.42"),
            (30734815.1785, "3.07348e+07"),
            (17512416.0, "17512416"),
            (0.5, "0.5"),
            (0.00001234, "1.234e-05"),
            (123456.5, "123456"),
            (999999.5, "1e+06"),
        ];
        for (x, text) in cases {
            assert_eq!(awk(x), text, "{x}");
        }
    }

    #[test]
    fn bars_show_the_smallest_share() {
        assert_eq!(bar(1.0, 4), "████");
        assert_eq!(bar(0.5, 4), "██");
        assert_eq!(bar(0.0001, 4), "▏");
        assert_eq!(bar(0.0, 4), "");
    }

    #[test]
    fn the_three_forms_of_one_row() {
        let sheet = Sheet::from(Grid {
            columns: vec!["op".into(), "calls".into(), "rank".into()],
            rows: vec![vec!["a,b".into(), 1_234_567_u64.into(), Cell::Empty]],
        });
        let text = |f: &dyn Fn(&mut (dyn Write + Send)) -> Result<()>| {
            let mut out = Vec::new();
            f(&mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let csv = text(&|out| sheet.csv(2, out));
        assert_eq!(csv, "op,calls,rank\n\"a,b\",1234567,\n");
        let jsonl = text(&|out| sheet.jsonl(1, out));
        assert_eq!(jsonl, "{\"op\":\"a,b\",\"calls\":1234567}\n");
        assert!(text(&|out| sheet.table(out)).contains("1 234 567"));
    }
}
