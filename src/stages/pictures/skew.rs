//! Lateness of each rank.

use crate::output::render::Grid;
use crate::output::render::cells::iter_rows;
use crate::output::render::units::seconds_text;
use crate::output::svg::columns::draw_columns;
use crate::output::svg::plot::{ColumnAxis, Plot, PlotMark};

/// Draws the lateness of each rank at the 95th percentile of its calls.
pub(crate) fn skew_plot(grid: &Grid) -> Option<Plot> {
    let (mut marks, mut labels) = (Vec::new(), Vec::new());
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
        marks.push(PlotMark {
            value: us,
            title: format!("{who}: {} late at 95 of 100 calls", seconds_text(us / 1e6)),
            class: match row.text_of("pattern").is_empty() {
                true => "c1",
                false => "bad",
            },
            ..PlotMark::default()
        });
        labels.push(["rank", "pid"].map(|column| row.text_of(column)));
    }
    // Processes have names of their own where no line gives their ranks.
    let at = usize::from(labels.iter().any(|[rank, _]| rank.is_empty()));
    let axis = ColumnAxis {
        name: ["rank", "pid"][at].to_owned(),
        labels: labels.into_iter().map(|names| names[at].clone()).collect(),
    };
    let name = "Lateness per rank, 95th percentile; red = recurring";
    draw_columns(name, &marks, |us| seconds_text(us / 1e6), &axis)
}
