//! Bars, strips and maps as SVG. Colours are classes, and the surrounding style sets them for light
//! and dark; the title of each mark has its numbers.

use crate::output::limits::{
    CHARACTER_WIDTH, COLUMNS_HEIGHT, HIGH_COLUMN_RATIO, HIGH_COLUMNS_ONE_IN, LABEL_WIDTH,
    MAX_PLOT_COLUMNS, PLOT_WIDTH, STRIP_HEIGHT,
};
use crate::output::render::cut::cut_text;
use svg::node::element::Element;
use svg::node::{Node, Text};

/// A mark: its size, text, class and link.
#[derive(Debug, Clone, Default)]
pub struct PlotMark {
    /// Its size, in the plot's unit.
    pub value: f64,
    /// The text under a pointer.
    pub title: String,
    /// The class that gives it its colour.
    pub class: &'static str,
    /// Its link.
    pub link: Option<String>,
    /// The text on it in a map, if there is room.
    pub text: String,
}

/// A row of marks side by side, with its name.
#[derive(Debug, Clone, Default)]
pub struct PlotStrip {
    /// The text at its left.
    pub name: String,
    /// Its marks from left to right.
    pub marks: Vec<PlotMark>,
}

fn svg_element(name: &str, attributes: &[(&str, f64)]) -> Element {
    let mut element = Element::new(name);
    for (name, value) in attributes {
        // Two digits are a hundredth of a pixel.
        element.assign(*name, (value * 100.0).round() / 100.0);
    }
    element
}

fn svg_text(x: f64, y: f64, anchor: &str, words: &str) -> Element {
    let mut element = svg_element("text", &[("x", x), ("y", y)]);
    element.assign("text-anchor", anchor);
    element.append(Text::new(words));
    element
}

/// A drawn plot.
#[derive(Debug, Clone)]
pub struct Plot {
    /// A description, also for people with a screen reader.
    pub(super) name: String,
    pub(super) height: f64,
    pub(super) svg: Element,
}

impl Plot {
    fn new(name: &str, height: f64) -> Plot {
        let mut svg = Element::new("svg");
        svg.assign("viewBox", format!("0 0 {PLOT_WIDTH} {height}"));
        svg.assign("role", "img");
        svg.assign("aria-label", name);
        Plot {
            name: name.to_owned(),
            height,
            svg,
        }
    }

    fn append_element(&mut self, child: Element) {
        self.svg.append(child);
    }

    /// Returns the plot as a part of a page.
    pub fn inline_svg(&self) -> String {
        self.svg.to_string()
    }
}

/// Draws a rectangle with its title and link.
fn svg_mark(of: &PlotMark, place: &[(&str, f64)]) -> Element {
    let mut shape = svg_element("rect", place);
    shape.assign("class", of.class);
    if !of.title.is_empty() {
        let mut title = Element::new("title");
        title.append(Text::new(of.title.as_str()));
        shape.append(title);
    }
    match &of.link {
        None => shape,
        Some(link) => {
            let mut a = Element::new("a");
            a.assign("href", link.as_str());
            a.assign("aria-label", of.title.as_str());
            a.append(shape);
            a
        }
    }
}

/// Draws values from left to right, from 0 on; `scale` formats the largest, `ends` are the texts
/// below the first and the last.
pub fn draw_columns(
    name: &str,
    marks: &[PlotMark],
    scale: impl Fn(f64) -> String,
    ends: (String, String),
) -> Option<Plot> {
    let most = marks.iter().map(|m| m.value).fold(0.0, f64::max);
    if marks.is_empty() || most <= 0.0 || !most.is_finite() {
        return None;
    }
    let each = marks.len().div_ceil(MAX_PLOT_COLUMNS).max(1);
    let groups = marks.chunks(each);
    let largest = |group: &[PlotMark]| group.iter().map(|m| m.value).fold(0.0, f64::max);
    let top = upper_edge(groups.clone().map(largest).collect());
    let wide = ((PLOT_WIDTH - LABEL_WIDTH) / groups.len() as f64).min(48.0);
    let end = LABEL_WIDTH + wide * groups.len() as f64;
    // A plot with links is no single picture.
    let is_linked = marks.iter().any(|mark| mark.link.is_some());
    let mut plot = Plot::new(name, COLUMNS_HEIGHT + 30.0);
    if is_linked {
        plot.svg.assign("role", "group");
    }
    for part in [1.0, 0.5, 0.0] {
        let y = 10.0 + COLUMNS_HEIGHT * (1.0 - part);
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
    // The end of the last text beside a column.
    let mut written = 0.0;
    let groups_are_many = end - LABEL_WIDTH > 160.0;
    for (at, group) in groups.enumerate() {
        let largest = group.iter().max_by(|a, b| a.value.total_cmp(&b.value));
        let Some(largest) = largest else { continue };
        let high = COLUMNS_HEIGHT * (largest.value / top).clamp(0.0, 1.0);
        let x = LABEL_WIDTH + at as f64 * wide;
        let place = [
            ("x", x),
            ("y", 10.0 + COLUMNS_HEIGHT - high),
            (
                "width",
                (wide - if wide > 3.0 { 1.0 } else { 0.0 }).max(0.5),
            ),
            ("height", high.max(0.5)),
        ];
        plot.append_element(svg_mark(largest, &place));
        if largest.value > top {
            mark_cut_column(&mut plot, x, wide, &scale(largest.value), &mut written);
        }
    }
    let under = COLUMNS_HEIGHT + 26.0;
    plot.append_element(svg_text(LABEL_WIDTH, under, "start", &ends.0));
    if groups_are_many {
        plot.append_element(svg_text(end, under, "end", &ends.1));
    }
    Some(plot)
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

/// Marks a column that is higher than the plot: a gap, and its value beside it if there is room;
/// `written` is where the last such text ends.
fn mark_cut_column(plot: &mut Plot, x: f64, wide: f64, words: &str, written: &mut f64) {
    let gap = [("x", x), ("y", 22.0), ("width", wide), ("height", 4.0)];
    let mut gap = svg_element("rect", &gap);
    gap.assign("class", "paper");
    plot.append_element(gap);
    let from = x + wide + 4.0;
    let long = CHARACTER_WIDTH * words.chars().count() as f64;
    if from >= *written && from + long <= PLOT_WIDTH {
        plot.append_element(svg_text(from, 22.0, "start", words));
        *written = from + long;
    }
}

/// Draws strips under each other, each from the left, in one scale.
pub fn draw_strips(
    name: &str,
    strips: &[PlotStrip],
    legend: &[(&'static str, &str)],
) -> Option<Plot> {
    let whole = |strip: &PlotStrip| strip.marks.iter().map(|m| m.value).sum::<f64>();
    let most = strips.iter().map(whole).fold(0.0, f64::max);
    if most <= 0.0 || !most.is_finite() {
        return None;
    }
    let places = place_legend(legend);
    let top = match places.last() {
        Some((_, line)) => 4.0 + STRIP_HEIGHT * (line + 1.0),
        None => 4.0,
    };
    let mut plot = Plot::new(name, top + STRIP_HEIGHT * strips.len() as f64 + 4.0);
    for ((class, words), (x, line)) in legend.iter().zip(places) {
        let y = STRIP_HEIGHT * line;
        let colour = PlotMark {
            class,
            ..PlotMark::default()
        };
        let place = [("x", x), ("y", y + 6.0), ("width", 12.0), ("height", 12.0)];
        plot.append_element(svg_mark(&colour, &place));
        plot.append_element(svg_text(x + 18.0, y + 17.0, "start", words));
    }
    for (at, strip) in strips.iter().enumerate() {
        let y = top + at as f64 * STRIP_HEIGHT;
        plot.append_element(svg_text(
            LABEL_WIDTH - 8.0,
            y + 16.0,
            "end",
            &shorten_label(&strip.name),
        ));
        let mut x = LABEL_WIDTH;
        for one in &strip.marks {
            let wide = (PLOT_WIDTH - LABEL_WIDTH) * (one.value / most).clamp(0.0, 1.0);
            let place = [
                ("x", x),
                ("y", y + 2.0),
                ("width", wide),
                ("height", STRIP_HEIGHT - 4.0),
            ];
            plot.append_element(svg_mark(one, &place));
            x += wide;
        }
    }
    Some(plot)
}

/// Returns the place and line of each entry of a legend: as many in a line as fit.
fn place_legend(legend: &[(&'static str, &str)]) -> Vec<(f64, f64)> {
    let (mut x, mut line) = (LABEL_WIDTH, 0.0);
    let place = |(_, words): &(&'static str, &str)| {
        let wide = 18.0 + CHARACTER_WIDTH * words.chars().count() as f64 + 24.0;
        if x > LABEL_WIDTH && x + wide > PLOT_WIDTH {
            (x, line) = (LABEL_WIDTH, line + 1.0);
        }
        let at = (x, line);
        x += wide;
        at
    };
    legend.iter().map(place).collect()
}

/// Draws cells in rows and columns, darker for larger values; a row's `marks` are its columns.
pub fn draw_map(name: &str, rows: &[PlotStrip], columns: &[String]) -> Option<Plot> {
    let most = rows.iter().flat_map(|row| &row.marks);
    let most = most.map(|mark| mark.value).fold(0.0, f64::max);
    if columns.is_empty() || most <= 0.0 {
        return None;
    }
    let wide = ((PLOT_WIDTH - LABEL_WIDTH) / columns.len() as f64).min(60.0);
    let high = wide.clamp(14.0, 24.0);
    let top = 24.0;
    let mut plot = Plot::new(name, top + high * rows.len() as f64 + 6.0);
    // The text on a cell must be readable: no cell with text is as dark as one without.
    let is_written = wide > 44.0
        && rows
            .iter()
            .flat_map(|row| &row.marks)
            .any(|one| !one.text.is_empty());
    let strongest = if is_written { 0.6 } else { 1.0 };
    // Labels that do not fit are left out: every cell has a title.
    let each = (40.0 / wide).ceil().max(1.0) as usize;
    for (at, column) in columns.iter().enumerate().step_by(each) {
        let x = LABEL_WIDTH + (at as f64 + 0.5) * wide;
        let half = CHARACTER_WIDTH * column.chars().count() as f64 / 2.0;
        plot.append_element(match x + half > PLOT_WIDTH {
            true => svg_text(PLOT_WIDTH, 16.0, "end", column),
            false => svg_text(x, 16.0, "middle", column),
        });
    }
    for (at, row) in rows.iter().enumerate() {
        let y = top + at as f64 * high;
        plot.append_element(svg_text(
            LABEL_WIDTH - 8.0,
            y + high / 2.0 + 4.0,
            "end",
            &shorten_label(&row.name),
        ));
        for (at, one) in row
            .marks
            .iter()
            .enumerate()
            .filter(|(_, one)| one.value > 0.0)
        {
            let place = [
                ("x", LABEL_WIDTH + at as f64 * wide),
                ("y", y),
                ("width", wide - 1.0),
                ("height", high - 1.0),
                ("fill-opacity", strongest * (0.25 + 0.75 * one.value / most)),
            ];
            plot.append_element(svg_mark(one, &place));
            if is_written && !one.text.is_empty() {
                let (x, y) = (LABEL_WIDTH + (at as f64 + 0.5) * wide, y + high / 2.0 + 4.0);
                plot.append_element(svg_text(x, y, "middle", &one.text));
            }
        }
    }
    Some(plot)
}

/// Cuts a label to one that fits into `wide`.
pub fn cut_label(name: &str, wide: f64) -> String {
    cut_text(name, (wide / CHARACTER_WIDTH) as usize).into_owned()
}

/// Draws a label that fits to the left of a plot.
fn shorten_label(name: &str) -> String {
    cut_label(name, LABEL_WIDTH - 8.0)
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
        let drawn = draw_columns("a", &marks, words, Default::default()).unwrap();
        let svg = drawn.inline_svg();
        assert!(
            svg.contains(">\n20 s\n<") || svg.contains(">20 s<"),
            "{svg}"
        );
        assert_eq!(svg.matches("paper").count(), 1, "{svg}");
    }
}
