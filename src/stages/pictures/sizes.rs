//! Calls by operation and size.

use super::{COLOURS, MOST};
use crate::output::render::Grid;
use crate::output::render::cells::{Row, rows};
use crate::output::render::units::grouped;
use crate::output::svg::plot::{Mark, Plot, Strip, map, strips};

/// What a row is of: the columns up to `last`, which has the operation.
pub(super) fn name(grid: &Grid, row: Row<'_>, last: &str) -> String {
    let end = grid.columns.iter().position(|name| name == last);
    let columns = grid.columns.iter().take(end.unwrap_or(0));
    let front = columns.map(|column| format!("{column} {}", row.text(column)));
    let parts: Vec<String> = front.chain([row.text(last)]).collect();
    parts.join(" ")
}

/// A strip for each operation, with a part for each bucket; of many buckets a map.
pub(crate) fn sizes(grid: &Grid) -> Option<Plot> {
    let mut buckets: Vec<(u128, String)> = rows(grid)
        .map(|row| (row.whole("from_bytes").unwrap_or(0), row.text("bucket")))
        .collect();
    buckets.sort();
    buckets.dedup();
    let mut list: Vec<Strip> = Vec::new();
    for row in rows(grid) {
        let name = name(grid, row, "op");
        if list.last().is_none_or(|strip| strip.name != name) {
            list.push(Strip {
                name: name.clone(),
                marks: vec![Mark::default(); buckets.len()],
            });
        }
        let bucket = row.text("bucket");
        let at = buckets.iter().position(|(_, known)| *known == bucket);
        let calls = row.whole("calls").unwrap_or(0);
        let strip = list.last_mut().and_then(|strip| strip.marks.get_mut(at?));
        if let Some(mark) = strip {
            mark.value = calls as f64;
            mark.class = at.and_then(|at| COLOURS.get(at)).copied().unwrap_or("c1");
            mark.title = format!("{name} {bucket}: {} calls", grouped(calls));
            mark.text = grouped(calls);
        }
    }
    list.truncate(MOST);
    let title = "Calls by operation and message size";
    let names: Vec<String> = buckets.into_iter().map(|(_, name)| name).collect();
    if names.len() > COLOURS.len() {
        for mark in list.iter_mut().flat_map(|strip| &mut strip.marks) {
            mark.class = "c1";
        }
        return map(title, &list, &names);
    }
    let legend: Vec<(&'static str, &str)> = COLOURS
        .into_iter()
        .zip(names.iter().map(String::as_str))
        .collect();
    strips(title, &list, &legend)
}
