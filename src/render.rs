//! Rows as bytes: CSV, JSON lines, or a table drawn for a terminal. What is drawn never depends
//! on whether someone looks, only on the format asked for.

use crate::calls::Field;
use crate::error::{Error, Result};
use crate::report::printable;
use std::io::Write;

/// One value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// A whole number.
    Int(u128),
    /// A number with a fraction, in its shortest form.
    Float(f64),
    /// A text.
    Text(Vec<u8>),
    /// Not known.
    Empty,
}

impl From<Field> for Cell {
    fn from(field: Field) -> Cell {
        match field {
            Field::Number(n) => Cell::Int(n.into()),
            Field::Text(t) => Cell::Text(t),
            Field::Unknown => Cell::Empty,
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.as_bytes().to_vec())
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::Empty, Into::into)
    }
}

impl From<u64> for Cell {
    fn from(n: u64) -> Cell {
        Cell::Int(n.into())
    }
}

impl From<u128> for Cell {
    fn from(n: u128) -> Cell {
        Cell::Int(n)
    }
}

impl From<f64> for Cell {
    fn from(x: f64) -> Cell {
        if x.is_finite() {
            Cell::Float(x)
        } else {
            Cell::Empty
        }
    }
}

impl Cell {
    fn text(&self) -> Vec<u8> {
        match self {
            Cell::Int(n) => n.to_string().into_bytes(),
            Cell::Float(x) => x.to_string().into_bytes(),
            Cell::Text(t) => t.clone(),
            Cell::Empty => Vec::new(),
        }
    }
}

/// Rows under named columns.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Grid {
    /// The columns' names.
    pub columns: Vec<String>,
    /// The rows, each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

impl Grid {
    /// Writes the rows as CSV with a header.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn csv(&self, out: &mut dyn Write) -> Result<()> {
        let mut writer = csv::WriterBuilder::new().from_writer(out);
        let write = |e: csv::Error| match e.into_kind() {
            csv::ErrorKind::Io(e) => Error::Output(e),
            kind => Error::Output(std::io::Error::other(format!("{kind:?}"))),
        };
        writer.write_record(&self.columns).map_err(write)?;
        for row in &self.rows {
            writer
                .write_byte_record(&row.iter().map(Cell::text).collect())
                .map_err(write)?;
        }
        writer.flush().map_err(Error::Output)
    }

    /// Writes each row as a line of JSON; what is not known is left out.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn jsonl(&self, out: &mut dyn Write) -> Result<()> {
        for row in &self.rows {
            let mut line = Vec::from(*b"{");
            for (name, cell) in self.columns.iter().zip(row) {
                if *cell == Cell::Empty {
                    continue;
                }
                if line.len() > 1 {
                    line.push(b',');
                }
                line.extend_from_slice(format!("\"{name}\":").as_bytes());
                match cell {
                    Cell::Text(t) => {
                        let text = String::from_utf8_lossy(t);
                        // A string into a buffer: neither can fail.
                        let _ = serde_json::to_writer(&mut line, &*text);
                    }
                    number => line.extend_from_slice(&number.text()),
                }
            }
            line.extend_from_slice(b"}\n");
            out.write_all(&line).map_err(Error::Output)?;
        }
        Ok(())
    }

    /// Draws the rows as a table, numbers to the right, large ones in groups of three.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn table(&self, out: &mut dyn Write) -> Result<()> {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        table.set_header(&self.columns);
        for row in &self.rows {
            table.add_row(row.iter().map(|cell| match cell {
                Cell::Int(n) => right(grouped(*n)),
                Cell::Float(x) => right(short(*x)),
                Cell::Text(t) => {
                    comfy_table::Cell::new(printable(&String::from_utf8_lossy(t), false))
                }
                Cell::Empty => comfy_table::Cell::new(""),
            }));
        }
        writeln!(out, "{table}").map_err(Error::Output)
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
        let grid = Grid {
            columns: vec!["op".into(), "calls".into(), "rank".into()],
            rows: vec![vec!["a,b".into(), 1_234_567_u64.into(), Cell::Empty]],
        };
        let text = |f: fn(&Grid, &mut dyn Write) -> Result<()>| {
            let mut out = Vec::new();
            f(&grid, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(Grid::csv), "op,calls,rank\n\"a,b\",1234567,\n");
        assert_eq!(text(Grid::jsonl), "{\"op\":\"a,b\",\"calls\":1234567}\n");
        assert!(text(Grid::table).contains("1 234 567"));
    }
}
