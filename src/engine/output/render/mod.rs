//! Rows as bytes: CSV, JSON lines, or a table drawn for a terminal. The bytes depend only on the
//! format that was asked for, never on whether the output is a terminal.

pub mod cells;
pub mod cut;
mod fit;
pub mod look;
pub mod order;
pub(crate) mod text;
pub mod units;
pub mod wrap;

use crate::error::{Error, Result};
use crate::output::limits::ROWS_PER_PART;
use crate::pool;
use look::{DrawStyle, DrawnTable};
use std::borrow::Cow;
use std::io::Write;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use text::{CsvSyntax, JsonSyntax, RenderedRows, RowSyntax};

/// One value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum TableCell<'a> {
    /// A whole number.
    Int(u128),
    /// A number with a fraction, in its shortest form.
    Float(f64),
    /// A part of a whole; in percent for people.
    Share(f64),
    /// A text.
    Text(Cow<'a, [u8]>),
    /// An unknown value.
    Empty,
}

impl<'a> From<&'a str> for TableCell<'a> {
    fn from(text: &'a str) -> TableCell<'a> {
        text.as_bytes().into()
    }
}

impl<'a> From<&'a [u8]> for TableCell<'a> {
    fn from(text: &'a [u8]) -> TableCell<'a> {
        TableCell::Text(Cow::Borrowed(text))
    }
}

impl From<Vec<u8>> for TableCell<'_> {
    fn from(text: Vec<u8>) -> Self {
        TableCell::Text(Cow::Owned(text))
    }
}

impl From<String> for TableCell<'_> {
    fn from(text: String) -> Self {
        TableCell::Text(Cow::Owned(text.into_bytes()))
    }
}

impl<'a, T: Into<TableCell<'a>>> From<Option<T>> for TableCell<'a> {
    fn from(value: Option<T>) -> TableCell<'a> {
        value.map_or(TableCell::Empty, Into::into)
    }
}

impl From<u64> for TableCell<'_> {
    fn from(n: u64) -> Self {
        TableCell::Int(n.into())
    }
}

impl From<u128> for TableCell<'_> {
    fn from(n: u128) -> Self {
        TableCell::Int(n)
    }
}

impl From<f64> for TableCell<'_> {
    fn from(x: f64) -> Self {
        if x.is_finite() {
            TableCell::Float(x)
        } else {
            TableCell::Empty
        }
    }
}

impl TableCell<'_> {
    /// Returns the part that `n` is of `whole`; unknown if there is no whole.
    pub fn share_of(n: f64, whole: f64) -> Self {
        let share = n / whole;
        if share.is_finite() {
            TableCell::Share(share)
        } else {
            TableCell::Empty
        }
    }
}

impl TableCell<'_> {
    /// Returns an owned cell.
    pub fn into_owned(self) -> TableCell<'static> {
        match self {
            TableCell::Int(n) => TableCell::Int(n),
            TableCell::Float(x) => TableCell::Float(x),
            TableCell::Share(x) => TableCell::Share(x),
            TableCell::Text(text) => TableCell::Text(Cow::Owned(text.into_owned())),
            TableCell::Empty => TableCell::Empty,
        }
    }
}

/// Owned rows under named columns.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Grid {
    /// The columns' names.
    pub columns: Vec<String>,
    /// The rows, each as long as `columns`.
    pub rows: Vec<Vec<TableCell<'static>>>,
}

impl From<Grid> for Sheet<'_> {
    fn from(grid: Grid) -> Self {
        let Grid { columns, rows } = grid;
        Sheet {
            columns,
            parts: split_rows(rows.len()),
            rows: Box::new(move |part, sink| emit_rows(&rows[part], sink)),
        }
    }
}

impl<'a> From<&'a Grid> for Sheet<'a> {
    fn from(grid: &'a Grid) -> Self {
        Sheet {
            columns: grid.columns.clone(),
            parts: split_rows(grid.rows.len()),
            rows: Box::new(move |part, sink| emit_rows(&grid.rows[part], sink)),
        }
    }
}

impl<'a> Sheet<'a> {
    /// A number of rows; `row` makes each when it is written.
    pub fn from_rows(
        columns: Vec<String>,
        rows: usize,
        row: impl Fn(usize) -> Vec<TableCell<'static>> + Sync + 'a,
    ) -> Sheet<'a> {
        Sheet {
            columns,
            parts: split_rows(rows),
            rows: Box::new(move |part, sink| {
                let rows = |out: &mut dyn FnMut(&[TableCell<'_>])| {
                    part.clone().for_each(|at| out(&row(at)));
                };
                sink.group(&[], &[], &mut { rows });
            }),
        }
    }
}

fn split_rows(rows: usize) -> Vec<Range<usize>> {
    let from = (0..rows).step_by(ROWS_PER_PART);
    from.map(|from| from..rows.min(from + ROWS_PER_PART))
        .collect()
}

/// Gives owned rows as they are.
fn emit_rows(rows: &[Vec<TableCell<'static>>], sink: &mut dyn RowGroupSink) {
    sink.group(&[], &[], &mut |out| rows.iter().for_each(|row| out(row)));
}

/// A receiver of the rows of a part, a group at a time.
pub trait RowGroupSink {
    /// Takes the rows of a group: `columns` are in front of each, and `own` gives the rest, row by
    /// row. `made_of` has a number of the group, which is equal in all parts, and everything that the
    /// rest depends on: equal words give equal rows. It is empty if that is unknown.
    fn group(&mut self, columns: &[TableCell<'_>], made_of: &[u64], own: &mut OwnColumns<'_>);
}

/// Gives each row to a function.
pub type OwnColumns<'a> = dyn FnMut(&mut dyn FnMut(&[TableCell<'_>])) + 'a;

/// Gives the rows of a part.
type PartRows<'a> = dyn Fn(Range<usize>, &mut dyn RowGroupSink) + Sync + 'a;

/// Rows under named columns, made a part at a time when they are written: there may be millions.
pub struct Sheet<'a> {
    /// The columns' names.
    pub columns: Vec<String>,
    /// The parts, in order.
    pub parts: Vec<Range<usize>>,
    /// The rows of a part.
    pub rows: Box<PartRows<'a>>,
}

/// Makes every row anew.
struct EachRow<F>(F);

impl<F: FnMut(&[TableCell<'_>], &[TableCell<'_>])> RowGroupSink for EachRow<F> {
    fn group(&mut self, columns: &[TableCell<'_>], _: &[u64], own: &mut OwnColumns<'_>) {
        own(&mut |cells| (self.0)(columns, cells));
    }
}

/// Makes rows into text.
struct TextRowSink<'t, F> {
    form: &'t F,
    text: &'t mut RenderedRows,
}

impl<F: RowSyntax> RowGroupSink for TextRowSink<'_, F> {
    fn group(&mut self, columns: &[TableCell<'_>], made_of: &[u64], own: &mut OwnColumns<'_>) {
        self.text.append_group(self.form, columns, made_of, own);
    }
}

impl Sheet<'_> {
    /// Returns all rows.
    pub fn to_grid(&self) -> Grid {
        let mut rows = Vec::new();
        for part in &self.parts {
            self.each_row(part, |columns, own| {
                let row = columns.iter().chain(own).cloned();
                rows.push(row.map(TableCell::into_owned).collect());
            });
        }
        Grid {
            columns: self.columns.clone(),
            rows,
        }
    }

    /// Gives each row of a part to `take`, its first columns and the others.
    pub fn each_row(
        &self,
        part: &Range<usize>,
        take: impl FnMut(&[TableCell<'_>], &[TableCell<'_>]),
    ) {
        (self.rows)(part.clone(), &mut EachRow(take));
    }

    /// Writes the rows as CSV with a header.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn write_csv(&self, jobs: usize, out: &mut (dyn Write + Send)) -> Result<()> {
        let header = self.columns.join(",") + "\n";
        out.write_all(header.as_bytes()).map_err(Error::Output)?;
        self.write_rows(jobs, out, &CsvSyntax)
    }

    /// Writes each row as a line of JSON with all columns; unknown values are null.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn write_jsonl(&self, jobs: usize, out: &mut (dyn Write + Send)) -> Result<()> {
        self.write_rows(jobs, out, &JsonSyntax(&self.columns, b"\n"))
    }

    /// Returns the rows as one list of JSON.
    pub fn to_json(&self, jobs: usize) -> Vec<u8> {
        let mut list = b"[".to_vec();
        // Writing to memory cannot fail.
        let _ = self.write_rows(jobs, &mut list, &JsonSyntax(&self.columns, b","));
        list.pop_if(|last| *last == b',');
        list.push(b']');
        list
    }

    /// Makes parts into text on `jobs` threads and writes them in order.
    fn write_rows(
        &self,
        jobs: usize,
        out: &mut (dyn Write + Send),
        form: &(impl RowSyntax + Sync),
    ) -> Result<()> {
        // One part needs no threads.
        let jobs = jobs.min(self.parts.len());
        // Writing leaves its memory and the texts it made to the next part.
        let spare = Mutex::new(Vec::<RenderedRows>::new());
        let spare = || spare.lock().unwrap_or_else(PoisonError::into_inner);
        let text = |part: Range<usize>| {
            let found = spare().pop();
            let mut text = found.unwrap_or_else(RenderedRows::new);
            let mut written = TextRowSink {
                form,
                text: &mut text,
            };
            (self.rows)(part, &mut written);
            text
        };
        let parts = self.parts.iter().cloned();
        pool::map_without_sink_thread(jobs, parts, text, |mut text| {
            out.write_all(&text.text).map_err(Error::Output)?;
            text.text.clear();
            spare().push(text);
            Ok(())
        })
    }

    /// Draws the rows as a table, numbers to the right, large ones in groups of three.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn draw_table(&self, look: &DrawStyle, out: &mut dyn Write) -> Result<()> {
        let mut drawn = DrawnTable::new(&self.columns, *look);
        for part in &self.parts {
            self.each_row(part, |columns, own| {
                drawn.add_row(columns.iter().chain(own));
            });
        }
        let text = drawn.finish_text();
        out.write_all(text.as_bytes()).map_err(Error::Output)
    }
}

/// Formats a number as AWK does: whole ones in full, others with `%.6g`.
pub fn awk_number(x: f64) -> String {
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
            assert_eq!(awk_number(x), text, "{x}");
        }
    }

    #[test]
    fn the_three_forms_of_one_row() {
        let sheet = Sheet::from(Grid {
            columns: vec!["op".into(), "calls".into(), "rank".into()],
            rows: vec![vec!["a,b".into(), 1_234_567_u64.into(), TableCell::Empty]],
        });
        let text = |f: &dyn Fn(&mut (dyn Write + Send)) -> Result<()>| {
            let mut out = Vec::new();
            f(&mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let csv = text(&|out| sheet.write_csv(2, out));
        assert_eq!(csv, "op,calls,rank\n\"a,b\",1234567,\n");
        let jsonl = text(&|out| sheet.write_jsonl(1, out));
        assert_eq!(jsonl, "{\"op\":\"a,b\",\"calls\":1234567,\"rank\":null}\n");
        assert!(text(&|out| sheet.draw_table(&DrawStyle::default(), out)).contains("1 234 567"));
    }
}
