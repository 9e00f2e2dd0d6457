//! Cells of a stage's table by the names of their columns.

use super::text::nine;
use super::{Cell, Grid};

/// A row of a table.
#[derive(Debug, Clone, Copy)]
pub struct Row<'g> {
    grid: &'g Grid,
    cells: &'g [Cell<'static>],
}

/// The rows of a table.
pub fn rows(grid: &Grid) -> impl Iterator<Item = Row<'_>> {
    grid.rows.iter().map(move |cells| Row { grid, cells })
}

impl<'g> Row<'g> {
    /// The cell of a column; empty where there is no such column.
    pub(crate) fn cell(self, column: &str) -> &'g Cell<'static> {
        const EMPTY: &Cell<'static> = &Cell::Empty;
        let at = self.grid.columns.iter().position(|name| name == column);
        at.and_then(|at| self.cells.get(at)).unwrap_or(EMPTY)
    }

    /// A number, whole or not.
    pub fn number(self, column: &str) -> Option<f64> {
        match self.cell(column) {
            Cell::Int(n) => Some(*n as f64),
            Cell::Float(x) | Cell::Share(x) => Some(*x),
            _ => None,
        }
    }

    /// A whole number.
    pub fn whole(self, column: &str) -> Option<u128> {
        match self.cell(column) {
            Cell::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// A text; a number as it is written.
    pub fn text(self, column: &str) -> String {
        plain(self.cell(column))
    }
}

/// A cell as it is written in CSV, without quotes.
pub fn plain(cell: &Cell<'_>) -> String {
    match cell {
        Cell::Int(n) => n.to_string(),
        Cell::Float(x) | Cell::Share(x) => nine(*x),
        Cell::Text(text) => String::from_utf8_lossy(text).into_owned(),
        Cell::Empty => String::new(),
    }
}
