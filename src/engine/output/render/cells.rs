//! Cells of a stage's table by the names of their columns.

use super::text::format_fraction;
use super::{Grid, TableCell};

/// A row of a table.
#[derive(Debug, Clone, Copy)]
pub struct GridRow<'g> {
    grid: &'g Grid,
    cells: &'g [TableCell<'static>],
}

/// Iterates over the rows of a table.
pub fn iter_rows(grid: &Grid) -> impl Iterator<Item = GridRow<'_>> {
    grid.rows.iter().map(move |cells| GridRow { grid, cells })
}

impl<'g> GridRow<'g> {
    /// Returns the cell of a column; empty if there is no such column.
    pub(crate) fn cell_of(self, column: &str) -> &'g TableCell<'static> {
        const EMPTY: &TableCell<'static> = &TableCell::Empty;
        let at = self.grid.columns.iter().position(|name| name == column);
        at.and_then(|at| self.cells.get(at)).unwrap_or(EMPTY)
    }

    /// Returns a number, whole or not.
    pub fn number_of(self, column: &str) -> Option<f64> {
        match self.cell_of(column) {
            TableCell::Int(n) => Some(*n as f64),
            TableCell::Float(x) | TableCell::Share(x) => Some(*x),
            _ => None,
        }
    }

    /// Returns a whole number.
    pub fn whole_number_of(self, column: &str) -> Option<u128> {
        match self.cell_of(column) {
            TableCell::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// Returns a text; a number as it is written.
    pub fn text_of(self, column: &str) -> String {
        plain_text(self.cell_of(column))
    }
}

/// Returns a cell as it is written in CSV, without quotes.
pub fn plain_text(cell: &TableCell<'_>) -> String {
    match cell {
        TableCell::Int(n) => n.to_string(),
        TableCell::Float(x) | TableCell::Share(x) => format_fraction(*x),
        TableCell::Text(text) => String::from_utf8_lossy(text).into_owned(),
        TableCell::Empty => String::new(),
    }
}
