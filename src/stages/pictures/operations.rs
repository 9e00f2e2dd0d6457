//! Bytes, or time, by operation.

use super::MOST;
use super::sizes::name;
use crate::output::render::Grid;
use crate::output::render::cells::{Row, rows};
use crate::output::render::units::{grouped, seconds, short_bytes};
use crate::output::svg::plot::{Mark, Plot, Strip, strips};

/// A bar for each row of nccl-ops: its bytes, or how long its calls took.
pub(crate) fn operations(grid: &Grid) -> Option<Plot> {
    let is_time = grid.columns.iter().any(|column| column == "total_us");
    let column = if is_time { "total_us" } else { "total_bytes" };
    let words = |value: f64| match is_time {
        true => seconds(value / 1e6),
        false => short_bytes(value),
    };
    let strip = |row: Row<'_>| {
        let value = row.number(column)?;
        let name = name(grid, row, "op");
        let calls = grouped(row.whole("calls").unwrap_or(0));
        let title = format!("{name}: {} in {calls} calls", words(value));
        let mark = Mark {
            value,
            title,
            class: if is_time { "c3" } else { "c1" },
            ..Mark::default()
        };
        let name = format!("{name}, {}", words(value));
        let marks = vec![mark];
        Some(Strip { name, marks })
    };
    let list: Vec<Strip> = rows(grid).take(MOST).filter_map(strip).collect();
    let title = match is_time {
        true => "Time of calls by operation",
        false => "Bytes by operation",
    };
    strips(title, &list, &[])
}
