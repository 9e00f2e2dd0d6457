//! How late each rank comes.

use crate::output::render::Grid;
use crate::output::render::cells::rows;
use crate::output::render::units::seconds;
use crate::output::svg::plot::{Mark, Plot, columns};

/// How late each rank came, of its calls 95 in 100.
pub(crate) fn skew(grid: &Grid) -> Option<Plot> {
    let mut list: Vec<(f64, Mark)> = Vec::new();
    for row in rows(grid) {
        let Some(us) = row.number("p95_us") else {
            continue;
        };
        let named = |what: &str, column: &str| match row.text(column) {
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
            Mark {
                value: us,
                title: format!("{who}: {} late at 95 of 100 calls", seconds(us / 1e6)),
                class: if row.text("pattern").is_empty() {
                    "c1"
                } else {
                    "bad"
                },
                ..Mark::default()
            },
        ));
    }
    let marks: Vec<Mark> = list.into_iter().map(|(_, mark)| mark).collect();
    let n = marks.len();
    let name =
        "How late each rank comes, at 95 of 100 calls; those with a pattern in another colour";
    columns(
        name,
        &marks,
        |us| seconds(us / 1e6),
        ("first row".to_owned(), format!("row {n}")),
    )
}
