//! Strips under each other.

use super::plot::{
    LegendEntry, Plot, PlotStrip, cut_label, draw_legend, legend_height, measure_names,
    svg_element, svg_mark, svg_text,
};
use crate::output::limits::{CHARACTER_WIDTH, PLOT_WIDTH, STRIP_HEIGHT};
use svg::Node;

/// Draws strips under each other, each from the left, in one scale; `scale` formats the values of the axis and the
/// sum beside each strip.
pub fn draw_strips(
    name: &str,
    strips: &[PlotStrip],
    legend: &[LegendEntry],
    scale: impl Fn(f64) -> String,
) -> Option<Plot> {
    let whole = |strip: &PlotStrip| strip.marks.iter().map(|m| m.value).sum::<f64>();
    let most = strips.iter().map(whole).fold(0.0, f64::max);
    if most <= 0.0 || !most.is_finite() {
        return None;
    }
    let left = measure_names(strips.iter().map(|strip| strip.name.as_str()));
    let sums: Vec<String> = strips.iter().map(|strip| scale(whole(strip))).collect();
    let longest = sums.iter().map(|sum| sum.chars().count()).max();
    let room = PLOT_WIDTH - left - CHARACTER_WIDTH * (longest.unwrap_or(0) + 1) as f64;
    let top = 4.0 + legend_height(legend);
    let bottom = top + STRIP_HEIGHT * strips.len() as f64;
    let mut plot = Plot::new(name, bottom + 24.0);
    draw_legend(legend, &mut plot);
    for part in [0.0, 0.5, 1.0] {
        let x = left + room * part;
        let line = [("x1", x), ("x2", x), ("y1", top), ("y2", bottom)];
        let mut line = svg_element("line", &line);
        line.assign("class", "grid");
        plot.append_element(line);
        let anchor = if part > 0.0 { "middle" } else { "start" };
        plot.append_element(svg_text(x, bottom + 16.0, anchor, &scale(most * part)));
    }
    for (at, (strip, sum)) in strips.iter().zip(&sums).enumerate() {
        let y = top + at as f64 * STRIP_HEIGHT;
        let name = cut_label(&strip.name, left - 8.0);
        plot.append_element(svg_text(left - 8.0, y + 16.0, "end", &name));
        let mut x = left;
        for one in &strip.marks {
            let wide = room * (one.value / most).clamp(0.0, 1.0);
            let place = [
                ("x", x),
                ("y", y + 2.0),
                ("width", wide),
                ("height", STRIP_HEIGHT - 4.0),
            ];
            plot.append_element(svg_mark(one, &place));
            x += wide;
        }
        plot.append_element(svg_text(x + 6.0, y + 16.0, "start", sum));
    }
    Some(plot)
}
