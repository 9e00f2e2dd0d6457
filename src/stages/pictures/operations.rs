//! Bytes, or time, by operation.

use super::sizes::{group_name, largest_first, row_name};
use crate::output::render::Grid;
use crate::output::render::cells::{GridRow, iter_rows};
use crate::output::render::units::{group_digits, seconds_text, short_bytes};
use crate::output::svg::plot::{Plot, PlotMark, PlotStrip};
use crate::output::svg::strips::draw_strips;

/// Draws a bar for each row of nccl-ops: bytes, or time.
pub(crate) fn operations_plot(grid: &Grid) -> Option<Plot> {
    let is_time = grid.columns.iter().any(|column| column == "total_us");
    let column = if is_time { "total_us" } else { "total_bytes" };
    let words = |value: f64| match is_time {
        true => seconds_text(value / 1e6),
        false => short_bytes(value),
    };
    let strip = |row: GridRow<'_>| {
        let value = row.number_of(column)?;
        let name = row_name(grid, row, "op");
        let calls = group_digits(row.whole_number_of("calls").unwrap_or(0));
        let title = format!("{name}: {} in {calls} calls", words(value));
        let mark = PlotMark {
            value,
            title,
            class: if is_time { "c3" } else { "c1" },
            ..PlotMark::default()
        };
        let marks = vec![mark];
        Some((group_name(grid, row, "op"), PlotStrip { name, marks }))
    };
    let name = match is_time {
        true => "Time of calls by operation",
        false => "Bytes by operation",
    };
    let (title, list) = largest_first(name, iter_rows(grid).filter_map(strip).collect());
    draw_strips(&title, &list, &[], words)
}
