//! Calls by operation and size.

use super::{COLOUR_CLASSES, MAX_PICTURE_ROWS};
use crate::output::render::Grid;
use crate::output::render::cells::{GridRow, iter_rows};
use crate::output::render::units::{calls_text, group_digits, short_bytes};
use crate::output::svg::plot::ColumnAxis;
use crate::output::svg::plot::{LegendEntry, Plot, PlotMark, PlotStrip, draw_map};
use crate::output::svg::strips::draw_strips;
use std::collections::{BTreeMap, BTreeSet};

/// Names a row by its columns up to `last`, which has the operation.
pub(super) fn row_name(grid: &Grid, row: GridRow<'_>, last: &str) -> String {
    let group = group_name(grid, row, last);
    format!("{group} {}", row.text_of(last))
        .trim_start()
        .to_owned()
}

/// Names a row's group by its columns before `last`.
pub(super) fn group_name(grid: &Grid, row: GridRow<'_>, last: &str) -> String {
    let end = grid.columns.iter().position(|name| name == last);
    let columns = grid.columns.iter().take(end.unwrap_or(0));
    let parts: Vec<String> = columns
        .map(|column| format!("{column} {}", row.text_of(column)))
        .collect();
    parts.join(" ")
}

/// Keeps the largest strips, and puts those of each group in order, the largest first; the groups keep theirs. Where
/// some are left out, the title `name` reports it.
pub(super) fn largest_first(
    name: &str,
    mut strips: Vec<(String, PlotStrip)>,
) -> (String, Vec<PlotStrip>) {
    let whole = |strip: &PlotStrip| strip.marks.iter().map(|mark| mark.value).sum::<f64>();
    let all = strips.len();
    let mut order: Vec<usize> = (0..all).collect();
    order.sort_by(|&a, &b| whole(&strips[b].1).total_cmp(&whole(&strips[a].1)));
    let kept: BTreeSet<usize> = order.into_iter().take(MAX_PICTURE_ROWS).collect();
    let mut at = 0..;
    strips.retain(|_| at.next().is_some_and(|at| kept.contains(&at)));
    let groups = strips.chunk_by(|(group, _), (next, _)| group == next);
    let sorted = groups.flat_map(|group| {
        let mut group: Vec<PlotStrip> = group.iter().map(|(_, strip)| strip.clone()).collect();
        group.sort_by(|a, b| whole(b).total_cmp(&whole(a)));
        group
    });
    (title_of_part(name, "largest", all), sorted.collect())
}

/// `Bytes by operation; the 64 largest of 171`.
pub(super) fn title_of_part(name: &str, which: &str, all: usize) -> String {
    match all > MAX_PICTURE_ROWS {
        true => format!("{name}; the {MAX_PICTURE_ROWS} {which} of {all}"),
        false => name.to_owned(),
    }
}

/// Lists the buckets of all rows by their first byte. Between buckets that all end at twice their first byte, as powers
/// of two do, the empty ones are listed, too.
fn list_buckets(grid: &Grid) -> BTreeMap<u128, String> {
    let bounds = |row: GridRow<'_>| {
        let from = row.whole_number_of("from_bytes")?;
        Some((from, row.whole_number_of("to_bytes")?))
    };
    let mut buckets: BTreeMap<u128, String> = iter_rows(grid)
        .map(|row| {
            (
                row.whole_number_of("from_bytes").unwrap_or(0),
                row.text_of("bucket"),
            )
        })
        .collect();
    let is_double = |(from, to): (u128, u128)| from.checked_mul(2) == Some(to);
    if iter_rows(grid).all(|row| bounds(row).is_some_and(is_double)) {
        let ends = buckets
            .keys()
            .next()
            .copied()
            .zip(buckets.keys().last().copied());
        let (mut from, last) = ends.unwrap_or_default();
        while from < last {
            buckets.entry(from).or_default();
            from *= 2;
        }
    }
    buckets
}

/// Draws a strip for each operation, with a part for each bucket; a map if there are many buckets.
pub(crate) fn sizes_plot(grid: &Grid) -> Option<Plot> {
    let buckets = list_buckets(grid);
    let mut list: Vec<(String, PlotStrip)> = Vec::new();
    for row in iter_rows(grid) {
        let name = row_name(grid, row, "op");
        if list.last().is_none_or(|(_, strip)| strip.name != name) {
            let marks = vec![PlotMark::default(); buckets.len()];
            let strip = PlotStrip {
                name: name.clone(),
                marks,
            };
            list.push((group_name(grid, row, "op"), strip));
        }
        let bucket = row.text_of("bucket");
        let from = row.whole_number_of("from_bytes").unwrap_or(0);
        let at = buckets.keys().position(|known| *known == from);
        let calls = row.whole_number_of("calls").unwrap_or(0);
        let strip = list
            .last_mut()
            .and_then(|(_, strip)| strip.marks.get_mut(at?));
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
    let (title, mut list) = largest_first("Calls by operation and message size", list);
    if buckets.len() > COLOUR_CLASSES.len() {
        for mark in list.iter_mut().flat_map(|strip| &mut strip.marks) {
            mark.class = "c1";
        }
        // Only the first byte of a bucket has room.
        let first = buckets.keys().map(|&from| short_bytes(from as f64));
        let axis = ColumnAxis {
            name: "size from".to_owned(),
            labels: first
                .map(|name| name.replace(".00", "").replace(".0", ""))
                .collect(),
        };
        let title = format!("{title}; stronger = more calls (logarithmic scale)");
        return draw_map(&title, &list, &axis, &[]);
    }
    let legend: Vec<LegendEntry> = COLOUR_CLASSES
        .into_iter()
        .zip(buckets.into_values())
        .map(|(class, bucket)| LegendEntry::new(class, bucket))
        .collect();
    draw_strips(&title, &list, &legend, calls_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_powers_of_two_are_listed_and_the_largest_come_first() {
        let columns = ["op", "bucket", "from_bytes", "to_bytes", "calls"];
        let row = |op: &'static str, from: u64, calls: u64| {
            let bucket = format!("{from}-{}", 2 * from);
            vec![
                op.into(),
                bucket.into(),
                from.into(),
                (2 * from).into(),
                calls.into(),
            ]
        };
        let grid = Grid {
            columns: columns.map(str::to_owned).into(),
            rows: vec![row("AllGather", 4, 1), row("AllReduce", 32, 9)],
        };
        let buckets: Vec<u128> = list_buckets(&grid).into_keys().collect();
        assert_eq!(buckets, [4, 8, 16, 32]);
        let svg = sizes_plot(&grid).unwrap().inline_svg();
        let at = |op: &str| svg.find(op).unwrap();
        assert!(at(">AllReduce<") < at(">AllGather<"), "{svg}");
        assert!(svg.contains(">9 calls<"), "{svg}");
    }
}
