//! The time of each GPU by activity.

use super::MAX_PICTURE_ROWS;
use super::sizes::title_of_part;
use crate::output::render::Grid;
use crate::output::render::cells::{GridRow, iter_rows};
use crate::output::render::units::seconds_text;
use crate::output::svg::plot::{LegendEntry, Plot, PlotMark, PlotStrip};
use crate::output::svg::strips::draw_strips;

/// Draws a strip for each GPU.
pub(crate) fn overlap_plot(grid: &Grid) -> Option<Plot> {
    const OVERLAP_PARTS: [(&str, &str); 5] = [
        ("c1", "computation alone"),
        ("c2", "computation and communication"),
        ("c3", "communication that nothing hides"),
        ("c4", "copies and other work"),
        ("c0", "idle"),
    ];
    let strip = |row: GridRow<'_>| {
        let ms = |column| row.number_of(column).unwrap_or(0.0);
        let (both, exposed) = (ms("compute_comm_ms"), ms("exposed_comm_ms"));
        let alone = (ms("compute_ms") - both).max(0.0);
        let other = (ms("active_ms") - alone - both - exposed).max(0.0);
        let values = [alone, both, exposed, other, ms("idle_ms")];
        let mark = |(value, (class, words)): (f64, (&'static str, &str))| PlotMark {
            value,
            title: format!("{words}: {}", seconds_text(value / 1e3)),
            class,
            ..PlotMark::default()
        };
        let name = match (row.text_of("rank"), row.text_of("device")) {
            (rank, device) if rank.is_empty() => format!("device {device}"),
            (rank, device) => format!("rank {rank} device {device}"),
        };
        let marks = values.into_iter().zip(OVERLAP_PARTS).map(mark).collect();
        PlotStrip { name, marks }
    };
    // The row of all devices would be as long as all others.
    let one = iter_rows(grid).filter(|row| row.text_of("device") != "all");
    let mut list: Vec<PlotStrip> = one.map(strip).collect();
    let title = title_of_part("What each GPU did", "first", list.len());
    list.truncate(MAX_PICTURE_ROWS);
    let legend = OVERLAP_PARTS.map(|(class, words)| LegendEntry::new(class, words));
    let words = |ms: f64| seconds_text(ms / 1e3);
    draw_strips(&title, &list, &legend, words)
}
