//! A table for people: numbers to the right, in groups of three; a terminal gets only as much as
//! fits.

use super::TableCell;
use super::cut::{cut_text, cut_texts_apart};
use super::fit::{self, FittedColumn};
use super::units::{group_digits, percent_text, short_bytes, short_number};
use crate::error::escape::escape_for_terminal;
use crate::output::limits::COLUMN_SPACE;
pub use crate::output::limits::MAX_TERMINAL_ROWS;
use anstyle::{AnsiColor, Style};
use std::fmt::Write;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The place where a table is drawn. By default it is no terminal: all columns and rows are drawn,
/// every number in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DrawStyle {
    /// The characters of a terminal's line. On a terminal, columns are left out until rows fit, and
    /// bytes have units.
    pub width: Option<usize>,
    /// Rows that are drawn.
    pub rows: Option<usize>,
    /// Whether colours are used.
    pub colour: bool,
}

/// A table with rows that come one after the other.
#[derive(Debug)]
pub struct DrawnTable<'c> {
    names: &'c [String],
    look: DrawStyle,
    rows: Vec<Vec<String>>,
    columns: Vec<FittedColumn>,
    /// Rows that are not drawn.
    more: u128,
}

/// Columns with numbers that are names: no groups of three, and no sums.
const NAME_COLUMNS: [&str; 22] = [
    "pid",
    "tid",
    "dev",
    "device",
    "rank",
    "global_rank",
    "nvml_dev",
    "peer",
    "root",
    "step",
    "segment",
    "seq",
    "op_count",
    "line",
    "first_line",
    "last_line",
    "object",
    "number",
    "from",
    "to",
    "from_rank",
    "to_rank",
];

impl<'c> DrawnTable<'c> {
    /// Begins without rows, under these columns.
    pub fn new(names: &'c [String], look: DrawStyle) -> DrawnTable<'c> {
        let columns = names.iter().map(|name| FittedColumn::new(name)).collect();
        DrawnTable {
            names,
            look,
            rows: Vec::new(),
            columns,
            more: 0,
        }
    }

    /// Adds a row.
    pub fn add_row<'r, 'v: 'r>(&mut self, cells: impl Iterator<Item = &'r TableCell<'v>>) {
        if self.look.rows.is_some_and(|most| self.rows.len() >= most) {
            self.more += 1;
            return;
        }
        let has_units = self.look.width.is_some();
        let mut texts = Vec::with_capacity(self.columns.len());
        for (cell, column) in cells.zip(&mut self.columns) {
            let text = cell_text(cell, &column.name, has_units);
            column.is_empty &= text.is_empty();
            column.is_text |= matches!(cell, TableCell::Text(_));
            column.width = column.width.max(text.width());
            texts.push(text);
        }
        self.rows.push(texts);
    }

    /// Draws the table.
    pub fn finish_text(mut self) -> String {
        let left_out = match self.look.width {
            Some(width) => fit::fit_columns(&mut self.columns, COLUMN_SPACE, width),
            None => Vec::new(),
        };
        for (at, column) in self.columns.iter().enumerate() {
            if column.is_kept && column.is_text {
                let texts = self.rows.iter_mut().filter_map(|row| row.get_mut(at));
                cut_texts_apart(&mut texts.collect::<Vec<_>>(), column.width);
            }
        }
        let mut out = String::new();
        let bold = |_: &str| self.look.colour.then(|| Style::new().bold());
        self.push_line(self.names, &bold, &mut out);
        for row in &self.rows {
            let ink = |at: usize, text: &str| match self.look.colour {
                true => value_style(&self.columns[at].name, text),
                false => None,
            };
            self.push_coloured_line(row, &ink, &mut out);
        }
        self.push_left_out(&left_out, &mut out);
        out
    }

    fn push_line(&self, texts: &[String], style: &dyn Fn(&str) -> Option<Style>, out: &mut String) {
        self.push_coloured_line(texts, &|_, text| style(text), out);
    }

    fn push_coloured_line(
        &self,
        texts: &[String],
        style: &dyn Fn(usize, &str) -> Option<Style>,
        out: &mut String,
    ) {
        // Blanks are written when something follows them.
        let mut blanks = 0;
        for (at, (text, column)) in texts.iter().zip(&self.columns).enumerate() {
            if !column.is_kept {
                continue;
            }
            let cut = cut_text(text, column.width);
            let free = column.width.saturating_sub(cut.width());
            let (before, after) = match column.is_text {
                true => (0, free),
                false => (free, 0),
            };
            if !cut.is_empty() {
                out.extend(std::iter::repeat_n(' ', blanks + before));
                match style(at, text) {
                    Some(style) => {
                        let _ = write!(out, "{style}{cut}{style:#}");
                    }
                    None => out.push_str(&cut),
                }
                blanks = 0;
            } else {
                blanks += before;
            }
            blanks += after + COLUMN_SPACE;
        }
        out.push('\n');
    }

    /// Rows and columns that are not drawn.
    fn push_left_out(&self, left_out: &[String], out: &mut String) {
        let mut notes = Vec::new();
        if self.more > 0 {
            let rows = if self.more == 1 { "row" } else { "rows" };
            notes.push(format!("... {} more {rows}", group_digits(self.more)));
        }
        if !left_out.is_empty() {
            let names = left_out.join(", ");
            notes.push(format!("hidden columns (narrow terminal): {names}"));
        }
        let width = self.look.width.unwrap_or(usize::MAX);
        for note in notes {
            for line in wrap_text(&note, width) {
                let style = self.look.colour.then(|| Style::new().dimmed());
                let style = style.unwrap_or_default();
                let _ = writeln!(out, "{style}{line}{style:#}");
            }
        }
    }
}

/// Returns true for a column with numbers that are names.
pub fn is_name_column(name: &str) -> bool {
    NAME_COLUMNS.contains(&name)
}

/// Formats a cell of a column as a terminal shows it.
pub fn column_text(cell: &TableCell<'_>, column: &str) -> String {
    cell_text(cell, column, true)
}

/// Formats a cell for people.
fn cell_text(cell: &TableCell<'_>, name: &str, has_units: bool) -> String {
    let is_bytes = name == "bytes" || name.ends_with("_bytes");
    match cell {
        TableCell::Int(n) if is_name_column(name) => n.to_string(),
        TableCell::Int(n) if has_units && is_bytes => short_bytes(*n as f64),
        TableCell::Float(x) if has_units && is_bytes => short_bytes(*x),
        TableCell::Int(n) => group_digits(*n),
        TableCell::Float(x) => short_number(*x),
        TableCell::Share(x) => percent_text(*x),
        TableCell::Text(t) => escape_for_terminal(&String::from_utf8_lossy(t), false),
        TableCell::Empty => String::new(),
    }
}

/// Returns the colour of a value by its severity or change.
pub(super) fn value_style(column: &str, text: &str) -> Option<Style> {
    let colour = match (column, text) {
        ("severity", "error") | ("verdict", "violated") | ("change", "only-a") => AnsiColor::Red,
        ("severity", "warning") | ("verdict", "unanswerable") => AnsiColor::Yellow,
        ("verdict", "met") | ("change", "only-b") => AnsiColor::Green,
        ("severity", "note") => AnsiColor::Cyan,
        ("change", "more" | "less" | "differs") => AnsiColor::Yellow,
        _ => return None,
    };
    let style = Style::new().fg_color(Some(colour.into()));
    Some(match text {
        "error" => style.bold(),
        _ => style,
    })
}

/// The characters of a line of a terminal; `None` if `out` is none.
pub fn terminal_width(out: &(impl AsFd + IsTerminal)) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(out).ok()?;
    (size.ws_col > 0 && out.is_terminal()).then_some(usize::from(size.ws_col))
}

/// Returns true if a text of so many lines does not fit the terminal.
pub fn is_scrolled(out: &impl AsFd, lines: usize) -> bool {
    rustix::termios::tcgetwinsize(out).is_ok_and(|size| lines >= usize::from(size.ws_row))
}

/// Breaks a sentence into lines of at most `width` characters, between words if they fit.
pub fn wrap_text(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    // The characters of the last line.
    let mut wide = 0;
    for (at, word) in text.split(' ').enumerate() {
        let blank = usize::from(at > 0 && !(wide == 0 && lines.len() > 1));
        if wide > 0 && wide + blank + word.width() > width {
            lines.push(String::new());
            wide = 0;
        } else if let Some(line) = lines.last_mut().filter(|_| blank > 0) {
            line.push(' ');
            wide += 1;
        }
        for c in word.chars() {
            let more = c.width().unwrap_or(0);
            if wide > 0 && wide + more > width {
                lines.push(String::new());
                wide = 0;
            }
            if let Some(line) = lines.last_mut() {
                line.push(c);
            }
            wide += more;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn drawn(names: &[&str], rows: &[Vec<TableCell<'_>>], look: DrawStyle) -> String {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut drawn = DrawnTable::new(&names, look);
        for row in rows {
            drawn.add_row(row.iter());
        }
        drawn.finish_text()
    }

    fn terminal(width: usize) -> DrawStyle {
        DrawStyle {
            width: Some(width),
            rows: Some(2),
            colour: false,
        }
    }

    #[test]
    fn a_terminal_gets_units_and_what_fits() {
        let names = ["op", "pid", "from_bytes", "total_bytes", "share of calls"];
        let row = |op: &str| {
            vec![
                TableCell::from(op.to_owned()),
                5488_u64.into(),
                65_536_u64.into(),
                (12_u64 << 30).into(),
                "█████".into(),
            ]
        };
        let rows = [row("AllReduce"), row("Send"), row("Recv"), row("Recv")];
        let full = "\
op         pid   from_bytes     total_bytes  share of calls
AllReduce  5488      65 536  12 884 901 888  █████
Send       5488      65 536  12 884 901 888  █████
Recv       5488      65 536  12 884 901 888  █████
Recv       5488      65 536  12 884 901 888  █████
";
        // A process's number is a name.
        let full = full.replace("op         pid ", "op          pid");
        assert_eq!(drawn(&names, &rows, DrawStyle::default()), full);
        let narrow = "\
op          pid  total_bytes
AllReduce  5488     12.0 GiB
Send       5488     12.0 GiB
... 2 more rows
hidden columns (narrow
terminal): share of calls,
from_bytes
";
        assert_eq!(drawn(&names, &rows, terminal(28)), narrow);
    }

    #[test]
    fn colours_are_only_there_where_they_are_wanted() {
        let rows = [vec![TableCell::from("error")], vec!["warning".into()]];
        let look = DrawStyle {
            colour: true,
            ..DrawStyle::default()
        };
        let text = drawn(&["severity"], &rows, look);
        assert!(
            text.contains("\u{1b}[1m\u{1b}[31merror\u{1b}[0m"),
            "{text:?}"
        );
        assert!(!drawn(&["severity"], &rows, DrawStyle::default()).contains('\u{1b}'));
    }

    proptest! {
        /// For any cells, no line is wider than the terminal, and no column vanishes without a
        /// note.
        #[test]
        fn no_line_is_wider_than_the_terminal(
            width in 1..220_usize,
            names in proptest::collection::vec("[a-z_ ]{1,14}", 1..12),
            rows in proptest::collection::vec(proptest::collection::vec(prop_oneof![
                "\\PC{0,60}".prop_map(TableCell::from),
                any::<u64>().prop_map(TableCell::from),
                any::<f64>().prop_map(TableCell::from),
                Just(TableCell::Empty),
            ], 12), 0..4),
        ) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let text = drawn(&names, &rows, terminal(width));
            for line in text.lines() {
                prop_assert!(line.width() <= width, "{line:?} in {width}");
            }
            let letters = |text: &str| text.split_whitespace().collect::<String>();
            let told = letters(&text);
            for name in names {
                let is_there = told.contains(&letters(name)) || told.contains('…');
                prop_assert!(is_there, "{name} in {text}");
            }
        }
    }
}
