//! The plots of the page's tables.

use super::super::{PageSection, ReportPage, SectionRows};
use crate::count::tally::CallVolume;
use crate::error::escape::escape_markup as escaped;
use crate::output::render::cells::{GridRow, iter_rows};
use crate::output::render::units::{calls_text, short_bytes};
use crate::output::svg::columns::draw_columns;
use crate::output::svg::plot::{ColumnAxis, LegendEntry, Plot, PlotMark, PlotStrip, draw_map};
use crate::report::count_phrase;
use crate::stages::matrix::cells::TrafficUnit;
use crate::stages::matrix::svg_heat_map::plot_matrix;
use crate::stages::pictures::{
    COLOUR_CLASSES, MAX_PICTURE_ROWS, colour_purposes, operations_plot, overlap_plot, sizes_plot,
    skew_plot, step_axis, times_plot,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Adds the plots of a section. Lateness that nccl-skew warns about is not drawn: a plot has no caveats.
pub(super) fn add_plots(page: &ReportPage, of: PageSection, out: &mut String) {
    let grid = page.grid(of);
    let is_doubted = page.caveats_of(Some(of)).any(|c| c.severity != "note");
    let plots: Vec<Option<Plot>> = match of {
        PageSection::Steps => vec![step_times_plot(page)],
        PageSection::StepCalls => step_calls_plots(page),
        PageSection::Operations => vec![grid.and_then(operations_plot)],
        PageSection::Sizes => vec![grid.and_then(sizes_plot)],
        PageSection::Communicators => vec![members_plot(page)],
        PageSection::Tuning => vec![tuning_plot(page)],
        PageSection::Overlap => vec![grid.and_then(overlap_plot)],
        PageSection::Matrix => vec![matrix_map(page, out)],
        PageSection::Skew if !is_doubted => vec![grid.and_then(skew_plot)],
        _ => Vec::new(),
    };
    for plot in plots.into_iter().flatten() {
        let name = escaped(plot.name());
        let svg = plot.inline_svg();
        let _ = writeln!(out, "<figure><figcaption>{name}</figcaption>{svg}</figure>");
    }
}

/// Draws the matrix, and writes the lines above it.
fn matrix_map(page: &ReportPage, out: &mut String) -> Option<Plot> {
    let Some(SectionRows::Pairs(matrix)) = page.table(PageSection::Matrix) else {
        return None;
    };
    let (notes, plot) = plot_matrix(matrix, TrafficUnit::Bytes);
    for note in notes {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escaped(&note));
    }
    plot
}

/// Draws the time of each step; a long one links to its finding.
fn step_times_plot(page: &ReportPage) -> Option<Plot> {
    let link = |at: usize| {
        let step = page.steps.list.get(at)?.step;
        let is_about = |finding: &super::super::PageFinding| finding.step == Some(step);
        let finding = page.findings.iter().position(is_about)?;
        Some(format!("#finding-{finding}"))
    };
    times_plot(&page.steps, &link)
}

/// Draws calls and bytes of each step, over all operations.
fn step_calls_plots(page: &ReportPage) -> Vec<Option<Plot>> {
    let Some(SectionRows::Steps(calls)) = page.table(PageSection::StepCalls) else {
        return Vec::new();
    };
    let all = calls
        .calls_by_step()
        .filter_map(|(step, all)| Some((step?.step, all)));
    let steps: Vec<(u64, CallVolume)> = all.collect();
    let axis = step_axis(steps.iter().map(|(step, _)| *step));
    let marks = |value: fn(&CallVolume) -> f64, words: &dyn Fn(f64) -> String, class| {
        let mark = |(step, all): &(u64, CallVolume)| PlotMark {
            value: value(all),
            title: format!("step {step}: {}", words(value(all))),
            class,
            ..PlotMark::default()
        };
        steps.iter().map(mark).collect::<Vec<_>>()
    };
    vec![
        draw_columns(
            "Calls of each step",
            &marks(|all| all.calls as f64, &calls_text, "c2"),
            calls_text,
            &axis,
        ),
        draw_columns(
            "Bytes of each step",
            &marks(|all| all.bytes as f64, &short_bytes, "c3"),
            short_bytes,
            &axis,
        ),
    ]
}

/// Draws the members of communicators by rank of the job, or by host if there are too many ranks.
fn members_plot(page: &ReportPage) -> Option<Plot> {
    let grid = page.grid(PageSection::Members)?;
    let is_by_rank = iter_rows(grid).all(|row| {
        row.whole_number_of("global_rank")
            .is_some_and(|n| n < MAX_PICTURE_ROWS as u128)
    });
    let place = |row: GridRow<'_>| match is_by_rank {
        true => format!("{:>6}", row.text_of("global_rank")),
        false => row.text_of("host"),
    };
    let places: BTreeSet<String> = iter_rows(grid).map(place).collect();
    if places.len() > MAX_PICTURE_ROWS || places.iter().any(String::is_empty) {
        return None;
    }
    let at: BTreeMap<&String, usize> = places.iter().zip(0..).collect();
    // By purpose, and by the first place and the size.
    let mut found: BTreeMap<(String, String), PlotStrip> = BTreeMap::new();
    for row in iter_rows(grid) {
        let (id, label) = (row.text_of("comm_id"), row.text_of("label"));
        if id.is_empty() {
            continue;
        }
        let name = format!("{label} {id}");
        let strip = found
            .entry((label.clone(), id.clone()))
            .or_insert_with(|| PlotStrip {
                name: name.clone(),
                marks: vec![PlotMark::default(); places.len()],
            });
        let column = place(row);
        if let Some(mark) = at.get(&column).and_then(|&at| strip.marks.get_mut(at)) {
            mark.value += 1.0;
            let ranks = if mark.value > 1.0 {
                "members"
            } else {
                "member"
            };
            mark.title = format!("{name}: {} {ranks} at {}", mark.value, column.trim());
        }
    }
    let mut labels: Vec<&str> = found.keys().map(|(label, _)| label.as_str()).collect();
    labels.dedup();
    let colours: BTreeMap<&str, &'static str> = labels
        .iter()
        .copied()
        .zip(colour_purposes(&labels))
        .collect();
    let legend = labels.iter().map(|label| {
        let many = found.keys().filter(|(own, _)| own == label).count();
        let many = count_phrase(many as u64, "communicator");
        LegendEntry::new(colours[label], format!("{label}, {many}"))
    });
    let legend: Vec<LegendEntry> = legend.collect();
    let first = |strip: &PlotStrip| strip.marks.iter().position(|mark| mark.value > 0.0);
    let mut strips: Vec<(&str, PlotStrip)> = Vec::new();
    for ((label, _), strip) in &found {
        let mut strip = strip.clone();
        for mark in &mut strip.marks {
            mark.class = colours[label.as_str()];
        }
        strips.push((label, strip));
    }
    strips.sort_by_key(|(label, strip)| (*label, first(strip)));
    let strips: Vec<PlotStrip> = strips
        .into_iter()
        .map(|(_, strip)| strip)
        .take(MAX_PICTURE_ROWS)
        .collect();
    let (name, axis) = match is_by_rank {
        true => ("Members of communicators by rank of the job", "rank"),
        false => ("Members of communicators by host", "host"),
    };
    let axis = ColumnAxis {
        name: axis.to_owned(),
        labels: places.iter().map(|name| name.trim().to_owned()).collect(),
    };
    draw_map(name, &strips, &axis, &legend)
}

/// Draws the algorithm and protocol of each size, by powers of two.
fn tuning_plot(page: &ReportPage) -> Option<Plot> {
    let grid = page.grid(PageSection::Tuning)?;
    let power = |bytes: u128| bytes.max(1).ilog2();
    let choice =
        |row: GridRow<'_>| format!("{} {}", row.text_of("algorithm"), row.text_of("protocol"));
    let choices: BTreeSet<String> = iter_rows(grid).map(choice).collect();
    let colour: BTreeMap<&String, &'static str> = choices
        .iter()
        .zip(COLOUR_CLASSES.into_iter().cycle())
        .collect();
    let powers = iter_rows(grid).filter_map(|row| {
        let (from, to) = (
            row.whole_number_of("from_bytes")?,
            row.whole_number_of("last_bytes")?,
        );
        Some((power(from), power(to.max(from))))
    });
    let (first, last) = powers.fold((u32::MAX, 0), |(a, b), (from, to)| (a.min(from), b.max(to)));
    if first > last {
        return None;
    }
    let powers = (first..=last).map(|p| short_bytes(2f64.powi(p as i32)));
    let axis = ColumnAxis {
        name: "size".to_owned(),
        labels: powers.collect(),
    };
    let mut strips: BTreeMap<(String, u128, String), PlotStrip> = BTreeMap::new();
    for row in iter_rows(grid) {
        let (Some(from), Some(to)) = (
            row.whole_number_of("from_bytes"),
            row.whole_number_of("last_bytes"),
        ) else {
            continue;
        };
        let (op, nranks, choice) = (
            row.text_of("op"),
            row.whole_number_of("nranks").unwrap_or(0),
            choice(row),
        );
        let strip = strips
            .entry((op.clone(), nranks, choice.clone()))
            .or_insert_with(|| PlotStrip {
                name: format!("{op} {choice}"),
                marks: vec![PlotMark::default(); axis.labels.len()],
            });
        for p in power(from)..=power(to.max(from)) {
            let Some(mark) = strip.marks.get_mut((p - first) as usize) else {
                continue;
            };
            mark.value = 1.0;
            mark.class = colour.get(&choice).copied().unwrap_or("c1");
            mark.title = format!("{op} of {nranks} ranks, {from} to {to} bytes: {choice}");
        }
    }
    let strips: Vec<PlotStrip> = strips.into_values().take(MAX_PICTURE_ROWS).collect();
    let legend = colour
        .iter()
        .map(|(choice, class)| LegendEntry::new(class, choice.as_str()));
    draw_map(
        "Algorithm and protocol by size",
        &strips,
        &axis,
        &legend.collect::<Vec<_>>(),
    )
}
