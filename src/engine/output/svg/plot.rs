//! The parts of plots, and maps. Colours are classes, and the surrounding style sets them for light and dark; the title
//! of each mark has its numbers.

use crate::error::escape::escape_for_xml_text;
use crate::output::limits::{
    CELL_CHARACTER_WIDTH, CHARACTER_WIDTH, LABEL_WIDTHS, LEGEND_LINE_HEIGHT, LEGEND_WIDTH,
    PLOT_WIDTH,
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
    /// The text on it in a map, if there is room; above it if it is a column apart.
    pub text: String,
    /// It is round in a map: a second look that needs no colour.
    pub is_round: bool,
    /// It is a column that does not count for the scale.
    pub is_apart: bool,
}

/// A row of marks side by side, with its name.
#[derive(Debug, Clone, Default)]
pub struct PlotStrip {
    /// The text at its left.
    pub name: String,
    /// Its marks from left to right.
    pub marks: Vec<PlotMark>,
}

/// What a colour means.
#[derive(Debug, Clone, Default)]
pub struct LegendEntry {
    /// The class of the colour.
    pub class: &'static str,
    /// What it means.
    pub words: String,
    /// Marks of this kind are round.
    pub is_round: bool,
}

impl LegendEntry {
    /// Returns an entry for marks that are not round.
    pub fn new(class: &'static str, words: impl Into<String>) -> LegendEntry {
        LegendEntry {
            class,
            words: words.into(),
            is_round: false,
        }
    }
}

pub(super) fn svg_element(name: &str, attributes: &[(&str, f64)]) -> Element {
    let mut element = Element::new(name);
    for (name, value) in attributes {
        // Two digits are a hundredth of a pixel.
        element.assign(*name, (value * 100.0).round() / 100.0);
    }
    element
}

pub(super) fn svg_text(x: f64, y: f64, anchor: &str, words: &str) -> Element {
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
    pub(super) fn new(name: &str, height: f64) -> Plot {
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

    pub(super) fn append_element(&mut self, child: Element) {
        self.svg.append(child);
    }

    /// Returns its description.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the plot as a part of a page. What a log's names have of control characters is escaped here, for
    /// all texts at once.
    pub fn inline_svg(&self) -> String {
        escape_for_xml_text(&self.svg.to_string())
    }
}

/// Draws a rectangle with its title and link.
pub(super) fn svg_mark(of: &PlotMark, place: &[(&str, f64)]) -> Element {
    let mut shape = svg_element("rect", place);
    shape.assign("class", of.class);
    if of.is_round {
        shape.assign("rx", "50%");
    }
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

/// Returns the width of the space at the left of a plot in which these names fit.
pub(super) fn measure_names<'n>(names: impl Iterator<Item = &'n str>) -> f64 {
    let [least, most] = LABEL_WIDTHS;
    let longest = names.map(|name| name.chars().count()).max().unwrap_or(0);
    (CHARACTER_WIDTH * longest as f64 + 16.0).clamp(least, most)
}

/// Cuts a label to one that fits into `wide`.
pub fn cut_label(name: &str, wide: f64) -> String {
    cut_text(name, (wide / CHARACTER_WIDTH) as usize).into_owned()
}

/// Draws a legend at the left, as many entries in a line as fit where a narrow window shows a part of the plot.
/// Returns its height.
pub(super) fn draw_legend(legend: &[LegendEntry], plot: &mut Plot) -> f64 {
    let (mut x, mut y) = (0.0, 0.0);
    for entry in legend {
        let wide = 18.0 + CHARACTER_WIDTH * entry.words.chars().count() as f64 + 24.0;
        if x > 0.0 && x + wide > LEGEND_WIDTH {
            (x, y) = (0.0, y + LEGEND_LINE_HEIGHT);
        }
        let colour = PlotMark {
            class: entry.class,
            is_round: entry.is_round,
            ..PlotMark::default()
        };
        let place = [("x", x), ("y", y + 6.0), ("width", 12.0), ("height", 12.0)];
        plot.append_element(svg_mark(&colour, &place));
        plot.append_element(svg_text(x + 18.0, y + 17.0, "start", &entry.words));
        x += wide;
    }
    if legend.is_empty() {
        0.0
    } else {
        y + LEGEND_LINE_HEIGHT
    }
}

/// Returns the height of a legend.
pub(super) fn legend_height(legend: &[LegendEntry]) -> f64 {
    draw_legend(legend, &mut Plot::new("", 0.0))
}

/// The texts below columns, or above those of a map: what they are (`step`), and one for each column.
#[derive(Debug, Clone, Default)]
pub struct ColumnAxis {
    /// What the columns are.
    pub name: String,
    /// A label for each column.
    pub labels: Vec<String>,
}

/// Draws cells in rows and columns, stronger for larger values, on a logarithmic scale: one large value leaves the others
/// apart. A row's `marks` are its columns.
pub fn draw_map(
    name: &str,
    rows: &[PlotStrip],
    axis: &ColumnAxis,
    legend: &[LegendEntry],
) -> Option<Plot> {
    let columns = &axis.labels;
    let marks = || rows.iter().flat_map(|row| &row.marks);
    let drawn = || marks().map(|mark| mark.value).filter(|value| *value > 0.0);
    let (least, most) = (
        drawn().fold(f64::MAX, f64::min),
        drawn().fold(0.0, f64::max),
    );
    if columns.is_empty() || most <= 0.0 {
        return None;
    }
    let strength = |value: f64| match most > least {
        true => 0.25 + 0.75 * (value / least).ln() / (most / least).ln(),
        false => 1.0,
    };
    let names = rows.iter().map(|row| row.name.as_str());
    let left = measure_names(names.chain([axis.name.as_str()]));
    let wide = ((PLOT_WIDTH - left) / columns.len() as f64).min(60.0);
    let high = wide.clamp(14.0, 24.0);
    let top = legend_height(legend) + 24.0;
    let mut plot = Plot::new(name, top + high * rows.len() as f64 + 6.0);
    draw_legend(legend, &mut plot);
    // The text on a cell must be readable: no cell with text is as dark as one without.
    let longest = marks().map(|mark| mark.text.chars().count()).max();
    let longest = longest.unwrap_or(0);
    let is_written = longest > 0 && CELL_CHARACTER_WIDTH * longest as f64 <= wide - 1.0;
    let strongest = if is_written { 0.55 } else { 1.0 };
    // Labels that do not fit are left out: every cell has a title.
    let longest = columns.iter().map(|column| column.chars().count()).max();
    let label = (CHARACTER_WIDTH * longest.unwrap_or(0) as f64 + 6.0).max(24.0);
    let each = (label / wide).ceil().max(1.0) as usize;
    plot.append_element(svg_text(left - 8.0, top - 8.0, "end", &axis.name));
    for (at, column) in columns.iter().enumerate().step_by(each) {
        let x = left + (at as f64 + 0.5) * wide;
        let half = CHARACTER_WIDTH * column.chars().count() as f64 / 2.0;
        plot.append_element(match x + half > PLOT_WIDTH {
            true => svg_text(PLOT_WIDTH, top - 8.0, "end", column),
            false => svg_text(x, top - 8.0, "middle", column),
        });
    }
    for (at, row) in rows.iter().enumerate() {
        let y = top + at as f64 * high;
        let name = cut_label(&row.name, left - 8.0);
        plot.append_element(svg_text(left - 8.0, y + high / 2.0 + 4.0, "end", &name));
        for (at, one) in row
            .marks
            .iter()
            .enumerate()
            .filter(|(_, one)| one.value > 0.0)
        {
            let place = [
                ("x", left + at as f64 * wide),
                ("y", y),
                ("width", wide - 1.0),
                ("height", high - 1.0),
                ("fill-opacity", strongest * strength(one.value)),
            ];
            plot.append_element(svg_mark(one, &place));
            if is_written && !one.text.is_empty() {
                let (x, y) = (left + (at as f64 + 0.5) * wide, y + high / 2.0 + 4.0);
                plot.append_element(svg_text(x, y, "middle", &one.text));
            }
        }
    }
    Some(plot)
}
