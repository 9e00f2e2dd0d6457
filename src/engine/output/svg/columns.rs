//! Columns side by side.

use super::plot::{ColumnAxis, Plot, PlotMark, svg_element, svg_mark, svg_text};
use crate::output::limits::{
    CHARACTER_WIDTH, COLUMNS_HEIGHT, COLUMNS_TOP, HIGH_COLUMN_RATIO, HIGH_COLUMNS_ONE_IN,
    LABEL_WIDTH, MAX_PLOT_COLUMNS, PLOT_WIDTH,
};
use std::cmp::Ordering;
use svg::Node;

/// Draws values from left to right, from 0 on; `scale` formats the largest. Labels of the axis that do not fit are left
/// out.
pub fn draw_columns(
    name: &str,
    marks: &[PlotMark],
    scale: impl Fn(f64) -> String,
    axis: &ColumnAxis,
) -> Option<Plot> {
    let most = marks.iter().map(|m| m.value).fold(0.0, f64::max);
    if marks.is_empty() || most <= 0.0 || !most.is_finite() {
        return None;
    }
    let each = marks.len().div_ceil(MAX_PLOT_COLUMNS).max(1);
    let groups = marks.chunks(each);
    let counts = |mark: &&PlotMark| !mark.is_apart;
    let largest = |group: &[PlotMark]| {
        group
            .iter()
            .filter(counts)
            .map(|m| m.value)
            .fold(0.0, f64::max)
    };
    let top = match upper_edge(groups.clone().map(largest).collect()) {
        top if top > 0.0 => top,
        _ => most,
    };
    let wide = ((PLOT_WIDTH - LABEL_WIDTH) / groups.len() as f64).min(48.0);
    // A plot with links is no single picture.
    let is_linked = marks.iter().any(|mark| mark.link.is_some());
    let mut plot = Plot::new(name, COLUMNS_TOP + COLUMNS_HEIGHT + 26.0);
    if is_linked {
        plot.svg.assign("role", "group");
    }
    for part in [1.0, 0.5, 0.0] {
        let y = COLUMNS_TOP + COLUMNS_HEIGHT * (1.0 - part);
        let line = [
            ("x1", LABEL_WIDTH),
            ("x2", PLOT_WIDTH),
            ("y1", y),
            ("y2", y),
        ];
        let mut line = svg_element("line", &line);
        line.assign("class", "grid");
        plot.append_element(line);
        plot.append_element(svg_text(
            LABEL_WIDTH - 8.0,
            y + 4.0,
            "end",
            &scale(top * part),
        ));
    }
    // The end of the last text above a column.
    let mut written = 0.0;
    for (at, group) in groups.enumerate() {
        let largest = group.iter().max_by(|a, b| {
            (a.is_apart, a.value)
                .partial_cmp(&(b.is_apart, b.value))
                .unwrap_or(Ordering::Equal)
        });
        let Some(largest) = largest else { continue };
        let high = COLUMNS_HEIGHT * (largest.value / top).clamp(0.0, 1.0);
        let x = LABEL_WIDTH + at as f64 * wide;
        let place = [
            ("x", x),
            ("y", COLUMNS_TOP + COLUMNS_HEIGHT - high),
            (
                "width",
                (wide - if wide > 3.0 { 1.0 } else { 0.0 }).max(0.5),
            ),
            ("height", high.max(0.5)),
        ];
        plot.append_element(svg_mark(largest, &place));
        if largest.value > top {
            let words = format!("{} {}", largest.text, scale(largest.value));
            mark_cut_column(&mut plot, x, wide, words.trim(), &mut written);
        }
    }
    draw_axis(&mut plot, axis, each, wide);
    Some(plot)
}

/// Draws the labels below the columns: all, or one in 2, 5, 10 and so on. A column shows `each` marks.
fn draw_axis(plot: &mut Plot, axis: &ColumnAxis, each: usize, wide: f64) {
    let under = COLUMNS_TOP + COLUMNS_HEIGHT + 20.0;
    plot.append_element(svg_text(LABEL_WIDTH - 8.0, under, "end", &axis.name));
    let longest = axis.labels.iter().map(|label| label.chars().count()).max();
    let room = CHARACTER_WIDTH * (longest.unwrap_or(0) + 1) as f64;
    let strides = (0..).flat_map(|power| [1, 2, 5].map(|part| part * 10_usize.pow(power)));
    let fits = |stride: &usize| *stride as f64 * wide >= room;
    let stride = strides.take(18).find(fits).unwrap_or(usize::MAX);
    let labels = axis.labels.iter().step_by(each).enumerate();
    for (at, label) in labels.step_by(stride) {
        let x = LABEL_WIDTH + (at as f64 + 0.5) * wide;
        plot.append_element(svg_text(x, under, "middle", label));
    }
}

/// Returns the upper edge: the largest value, or twice the largest without a few columns that are
/// far above the others, as a job's first step may be. These would leave the rest too small to see.
fn upper_edge(mut columns: Vec<f64>) -> f64 {
    columns.sort_by(f64::total_cmp);
    let most = columns.last().copied().unwrap_or(0.0);
    let few = columns.len() / HIGH_COLUMNS_ONE_IN;
    let usual = columns.iter().rev().nth(few).copied().unwrap_or(most);
    match usual > 0.0 && most > HIGH_COLUMN_RATIO * usual {
        true => 2.0 * usual,
        false => most,
    }
}

/// Marks a column that is higher than the plot: a gap, and its value above it if there is room: beside it, other columns
/// would hide it. `written` is where the last such text ends.
fn mark_cut_column(plot: &mut Plot, x: f64, wide: f64, words: &str, written: &mut f64) {
    let gap = [
        ("x", x),
        ("y", COLUMNS_TOP + 12.0),
        ("width", wide),
        ("height", 4.0),
    ];
    let mut gap = svg_element("rect", &gap);
    gap.assign("class", "paper");
    plot.append_element(gap);
    let end = x + CHARACTER_WIDTH * (words.chars().count() + 1) as f64;
    if x >= *written && end <= PLOT_WIDTH {
        plot.append_element(svg_text(x, COLUMNS_TOP - 6.0, "start", words));
        *written = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_columns_far_above_the_others_are_cut() {
        let steps = |first: f64| {
            let mut all = vec![1.0; 20];
            all[0] = first;
            all
        };
        assert_eq!(upper_edge(steps(20.0)), 2.0);
        assert_eq!(upper_edge(steps(4.0)), 4.0);
        // Of few columns, and where many are high, none is cut.
        assert_eq!(upper_edge(vec![1.0, 1.0, 20.0]), 20.0);
        assert_eq!(upper_edge([[1.0; 4], [20.0; 4]].concat()), 20.0);
        assert_eq!(upper_edge(vec![0.0; 12]), 0.0);
        let mark = |value| PlotMark {
            value,
            ..PlotMark::default()
        };
        let marks: Vec<PlotMark> = steps(20.0).into_iter().map(mark).collect();
        let words = |n: f64| format!("{n} s");
        let drawn = draw_columns("a", &marks, words, &ColumnAxis::default()).unwrap();
        let svg = drawn.inline_svg();
        assert!(
            svg.contains(">\n20 s\n<") || svg.contains(">20 s<"),
            "{svg}"
        );
        assert_eq!(svg.matches("paper").count(), 1, "{svg}");
    }

    #[test]
    fn a_column_apart_leaves_the_scale_to_the_others() {
        let mark = |value: f64| PlotMark {
            value,
            is_apart: value > 9.0,
            text: "warm-up".to_owned(),
            ..PlotMark::default()
        };
        let marks = [20.0, 1.0, 2.0].map(mark);
        let axis = ColumnAxis {
            name: "step".to_owned(),
            labels: ["0", "1", "2"].map(str::to_owned).into(),
        };
        let words = |n: f64| format!("{n} s");
        let drawn = draw_columns("a", &marks, words, &axis).unwrap();
        let svg = drawn.inline_svg();
        let texts = svg
            .split("</text>")
            .filter_map(|part| part.rsplit_once('>'));
        let texts: Vec<&str> = texts
            .map(|(_, text)| text.trim())
            .filter(|text| !text.is_empty())
            .collect();
        assert_eq!(
            texts,
            ["2 s", "1 s", "0 s", "warm-up 20 s", "step", "0", "1", "2"]
        );
    }
}
