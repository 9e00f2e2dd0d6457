//! Pictures as SVG: in a page, or files of their own.
//!
//! | | |
//! |---|---|
//! | `plot` | the parts of plots, and maps |
//! | `columns` | columns side by side |
//! | `strips` | strips under each other |
//! | `style.css` | the colours of a picture that is a file |

pub mod columns;
pub mod plot;
pub mod strips;

use crate::error::escape::escape_for_xml_text;
use crate::output::limits::{LINE_HEIGHT, PICTURE_MARGIN, PLOT_WIDTH};
use plot::Plot;
use std::fmt::Write as _;
use svg::node::Value;

/// A picture that is a file of its own: `plots` under each other, with their names, and `notes` above.
pub fn draw_picture(notes: &[String], plots: &[Plot]) -> String {
    let above = PICTURE_MARGIN + LINE_HEIGHT * notes.len() as f64;
    let heights = plots
        .iter()
        .map(|plot| LINE_HEIGHT + plot.height + PICTURE_MARGIN);
    let (wide, high) = (
        PLOT_WIDTH + 2.0 * PICTURE_MARGIN,
        above + heights.sum::<f64>() + PICTURE_MARGIN,
    );
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{wide}\" height=\"{high}\" \
         viewBox=\"0 0 {wide} {high}\">\n<style>{}</style>\n\
         <rect class=\"paper\" width=\"{wide}\" height=\"{high}\"/>\n",
        include_str!("style.css")
    );
    let mut y = PICTURE_MARGIN;
    for note in notes {
        push_text_line(y, note, "note", &mut out);
        y += LINE_HEIGHT;
    }
    for plot in plots {
        push_text_line(y, &plot.name, "name", &mut out);
        y += LINE_HEIGHT;
        let mut one = plot.svg.clone();
        for (name, value) in [
            ("x", PICTURE_MARGIN),
            ("y", y),
            ("width", PLOT_WIDTH),
            ("height", plot.height),
        ] {
            svg::Node::assign(&mut one, name, Value::from(value));
        }
        let _ = writeln!(out, "{one}");
        y += plot.height + PICTURE_MARGIN;
    }
    escape_for_xml_text(&(out + "</svg>\n"))
}

fn push_text_line(y: f64, words: &str, class: &str, out: &mut String) {
    let mut text = svg::node::element::Text::new(words)
        .set("x", PICTURE_MARGIN)
        .set("y", y + 12.0);
    text = text.set("class", class);
    let _ = writeln!(out, "{text}");
}

#[cfg(test)]
mod tests {
    use super::plot::ColumnAxis;
    use super::plot::{PlotMark, PlotStrip, draw_map};
    use super::*;

    #[test]
    fn a_picture_needs_nothing_else_and_escapes_what_it_shows() {
        let marks = vec![
            PlotMark {
                value: 2.0,
                title: "<2>\u{1b}".to_owned(),
                class: "c1",
                text: "2K".to_owned(),
                ..PlotMark::default()
            },
            PlotMark::default(),
        ];
        let rows = [PlotStrip {
            name: "<a\u{1}&b>".to_owned(),
            marks,
        }];
        let axis = ColumnAxis {
            name: "to".to_owned(),
            labels: ["0", "1"].map(str::to_owned).into(),
        };
        let plot = draw_map("bytes & calls", &rows, &axis, &[]).unwrap();
        let svg = draw_picture(&["a <note>\u{7}".to_owned()], &[plot]);
        assert!(
            svg.starts_with("<svg xmlns") && svg.ends_with("</svg>\n"),
            "{svg}"
        );
        for text in [
            r"&lt;a\u{1}&amp;b&gt;",
            r"a &lt;note&gt;\u{7}",
            ">2K<",
            r"&lt;2&gt;\u{1b}",
            "bytes &amp; calls",
        ] {
            assert!(svg.contains(text), "{text} in {svg}");
        }
        assert!(!svg.contains("<a&") && !svg.contains("href"), "{svg}");
        assert!(
            !svg.contains(|c: char| c.is_control() && c != '\n'),
            "{svg}"
        );
        assert!(draw_map("", &[], &axis, &[]).is_none());
    }
}
