//! Calls by operation and size.

use super::{COLOUR_CLASSES, MAX_PICTURE_ROWS};
use crate::output::render::Grid;
use crate::output::render::cells::{GridRow, iter_rows};
use crate::output::render::units::group_digits;
use crate::output::svg::plot::{Plot, PlotMark, PlotStrip, draw_map, draw_strips};

/// Names a row by its columns up to `last`, which has the operation.
pub(super) fn row_name(grid: &Grid, row: GridRow<'_>, last: &str) -> String {
    let end = grid.columns.iter().position(|name| name == last);
    let columns = grid.columns.iter().take(end.unwrap_or(0));
    let front = columns.map(|column| format!("{column} {}", row.text_of(column)));
    let parts: Vec<String> = front.chain([row.text_of(last)]).collect();
    parts.join(" ")
}

/// Draws a strip for each operation, with a part for each bucket; a map if there are many buckets.
pub(crate) fn sizes_plot(grid: &Grid) -> Option<Plot> {
    let mut buckets: Vec<(u128, String)> = iter_rows(grid)
        .map(|row| {
            (
                row.whole_number_of("from_bytes").unwrap_or(0),
                row.text_of("bucket"),
            )
        })
        .collect();
    buckets.sort();
    buckets.dedup();
    let mut list: Vec<PlotStrip> = Vec::new();
    for row in iter_rows(grid) {
        let name = row_name(grid, row, "op");
        if list.last().is_none_or(|strip| strip.name != name) {
            list.push(PlotStrip {
                name: name.clone(),
                marks: vec![PlotMark::default(); buckets.len()],
            });
        }
        let bucket = row.text_of("bucket");
        let at = buckets.iter().position(|(_, known)| *known == bucket);
        let calls = row.whole_number_of("calls").unwrap_or(0);
        let strip = list.last_mut().and_then(|strip| strip.marks.get_mut(at?));
        if let Some(mark) = strip {
            mark.value = calls as f64;
            mark.class = at
                .and_then(|at| COLOUR_CLASSES.get(at))
                .copied()
                .unwrap_or("c1");
            mark.title = format!("{name} {bucket}: {} calls", group_digits(calls));
            mark.text = group_digits(calls);
        }
    }
    list.truncate(MAX_PICTURE_ROWS);
    let title = "Calls by operation and message size";
    let names: Vec<String> = buckets.into_iter().map(|(_, name)| name).collect();
    if names.len() > COLOUR_CLASSES.len() {
        for mark in list.iter_mut().flat_map(|strip| &mut strip.marks) {
            mark.class = "c1";
        }
        return draw_map(title, &list, &names);
    }
    let legend: Vec<(&'static str, &str)> = COLOUR_CLASSES
        .into_iter()
        .zip(names.iter().map(String::as_str))
        .collect();
    draw_strips(title, &list, &legend)
}
