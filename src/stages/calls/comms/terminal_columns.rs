//! The call table on a terminal: the columns that are looked at most.

use crate::output::table::{COLUMNS, Column, Row};

/// The columns to look at, and how wide.
const TERMINAL_COLUMNS: [(Column, usize); 13] = [
    (Column::step, 6),
    (Column::host, 18),
    (Column::pid, 8),
    (Column::global_rank, 11),
    (Column::rank, 5),
    (Column::nranks, 6),
    (Column::comm, 15),
    (Column::seq, 7),
    (Column::op, 14),
    (Column::count, 12),
    (Column::datatype, 9),
    (Column::bytes, 13),
    (Column::calls, 6),
];

/// What `--tuning` adds.
const TERMINAL_TUNING_COLUMNS: [(Column, usize); 3] = [
    (Column::algo, 14),
    (Column::proto, 7),
    (Column::nchannels, 9),
];

/// Their names.
pub fn terminal_column_names(tuning: bool) -> Vec<String> {
    let names = terminal_columns(tuning).map(|(column, _)| COLUMNS[column as usize].to_owned());
    names.collect()
}

fn terminal_columns(tuning: bool) -> impl Iterator<Item = (Column, usize)> {
    let more = if tuning {
        &TERMINAL_TUNING_COLUMNS[..]
    } else {
        &[]
    };
    TERMINAL_COLUMNS.iter().chain(more).copied()
}

pub(super) fn terminal_header(tuning: bool) -> Vec<u8> {
    let mut line = String::new();
    for (column, width) in terminal_columns(tuning) {
        push_padded_cell(COLUMNS[column as usize], width, &mut line);
    }
    end_line(&line)
}

pub(super) fn write_terminal_row(row: &Row<'_>, tuning: bool, out: &mut Vec<u8>) {
    let (mut line, mut value) = (String::new(), Vec::new());
    for (column, width) in terminal_columns(tuning) {
        value.clear();
        row.value(column, &mut value);
        let text = crate::report::escape_for_terminal(&String::from_utf8_lossy(&value), false);
        push_padded_cell(&text, width, &mut line);
    }
    out.extend(end_line(&line));
}

fn push_padded_cell(cell: &str, width: usize, line: &mut String) {
    line.push_str(&format!("{cell:>width$}  "));
}

fn end_line(line: &str) -> Vec<u8> {
    [line.trim_end().as_bytes(), b"\n"].concat()
}
