//! Lateness of each rank.

use crate::output::render::Grid;
use crate::output::render::cells::iter_rows;
use crate::output::render::units::seconds_text;
use crate::output::svg::plot::{Plot, PlotMark, draw_columns};

/// Draws the lateness of each rank at the 95th percentile of its calls.
pub(crate) fn skew_plot(grid: &Grid) -> Option<Plot> {
    let mut list: Vec<(f64, PlotMark)> = Vec::new();
    for row in iter_rows(grid) {
        let Some(us) = row.number_of("p95_us") else {
            continue;
        };
        let named = |what: &str, column: &str| match row.text_of(column) {
            none if none.is_empty() => None,
            text => Some(format!("{what} {text}")),
        };
        let words = [("rank", "rank"), ("on", "host"), ("pid", "pid")];
        let known = words
            .iter()
            .filter_map(|(what, column)| named(what, column));
        let who = known.collect::<Vec<_>>().join(" ");
        list.push((
            us,
            PlotMark {
                value: us,
                title: format!("{who}: {} late at 95 of 100 calls", seconds_text(us / 1e6)),
                class: if row.text_of("pattern").is_empty() {
                    "c1"
                } else {
                    "bad"
                },
                ..PlotMark::default()
            },
        ));
    }
    let marks: Vec<PlotMark> = list.into_iter().map(|(_, mark)| mark).collect();
    let n = marks.len();
    let name =
        "How late each rank comes, at 95 of 100 calls; those with a pattern in another colour";
    draw_columns(
        name,
        &marks,
        |us| seconds_text(us / 1e6),
        ("first row".to_owned(), format!("row {n}")),
    )
}
