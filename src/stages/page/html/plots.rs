//! Which plots the page has, and of which tables they are.

use super::super::{Of, Page, Table};
use crate::count::tally::Value;
use crate::error::escape::markup as escaped;
use crate::output::render::cells::{Row, rows};
use crate::output::render::units::{grouped, short_bytes};
use crate::output::svg::plot::{Mark, Plot, Strip, columns, map};
use crate::stages::pictures::{COLOURS, MOST, ends, operations, overlap, sizes, skew, times};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Adds the plots of a part.
pub(super) fn of(page: &Page, of: Of, out: &mut String) {
    let grid = page.grid(of);
    let plots: Vec<Option<Plot>> = match of {
        Of::Steps => vec![step_times(page)],
        Of::StepCalls => step_calls(page),
        Of::Operations => vec![grid.and_then(operations)],
        Of::Sizes => vec![grid.and_then(sizes)],
        Of::Communicators => vec![members(page)],
        Of::Tuning => vec![tuning(page)],
        Of::Overlap => vec![grid.and_then(overlap)],
        Of::Matrix => vec![page.map.1.clone()],
        Of::Skew => vec![grid.and_then(skew)],
        _ => Vec::new(),
    };
    if of == Of::Matrix {
        for note in &page.map.0 {
            let _ = writeln!(out, "<p class=\"note\">{}</p>", escaped(note));
        }
    }
    for plot in plots.into_iter().flatten() {
        let _ = writeln!(out, "<figure>{}</figure>", plot.inline());
    }
}

/// The time of each step; a long one leads to its finding.
fn step_times(page: &Page) -> Option<Plot> {
    let link = |at: usize| {
        let step = page.steps.list.get(at)?.step;
        let is_about = |finding: &super::super::Finding| finding.step == Some(step);
        let finding = page.findings.iter().position(is_about)?;
        Some(format!("#finding-{finding}"))
    };
    times(&page.steps, &link)
}

/// Calls and bytes of each step, over all operations.
fn step_calls(page: &Page) -> Vec<Option<Plot>> {
    let Some(Table::Steps(calls)) = page.table(Of::StepCalls) else {
        return Vec::new();
    };
    let all = calls
        .by_step()
        .filter_map(|(step, all)| Some((step?.step, all)));
    let steps: Vec<(u64, Value)> = all.collect();
    let (Some(&(first, _)), Some(&(last, _))) = (steps.first(), steps.last()) else {
        return Vec::new();
    };
    let marks = |value: fn(&Value) -> f64, words: &dyn Fn(f64) -> String, class| {
        let mark = |(step, all): &(u64, Value)| Mark {
            value: value(all),
            title: format!("step {step}: {}", words(value(all))),
            class,
            ..Mark::default()
        };
        steps.iter().map(mark).collect::<Vec<_>>()
    };
    let calls = |n: f64| format!("{} calls", grouped(n as u128));
    vec![
        columns(
            "Calls of each step",
            &marks(|all| all.calls as f64, &calls, "c2"),
            calls,
            ends(first, last),
        ),
        columns(
            "Bytes of each step",
            &marks(|all| all.bytes as f64, &short_bytes, "c3"),
            short_bytes,
            ends(first, last),
        ),
    ]
}

/// Who is in which communicator: by rank of the job, or by host where there are too many.
fn members(page: &Page) -> Option<Plot> {
    let grid = page.grid(Of::Members)?;
    let is_by_rank =
        rows(grid).all(|row| row.whole("global_rank").is_some_and(|n| n < MOST as u128));
    let place = |row: Row<'_>| match is_by_rank {
        true => format!("{:>6}", row.text("global_rank")),
        false => row.text("host"),
    };
    let places: BTreeSet<String> = rows(grid).map(place).collect();
    if places.len() > MOST || places.iter().any(String::is_empty) {
        return None;
    }
    let at: BTreeMap<&String, usize> = places.iter().zip(0..).collect();
    let mut found: Vec<(String, Strip)> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows(grid) {
        let (id, label) = (row.text("comm_id"), row.text("label"));
        if id.is_empty() {
            continue;
        }
        let here = *known.entry(id.clone()).or_insert_with(|| {
            let marks = vec![Mark::default(); places.len()];
            let name = format!("{label} {id}");
            found.push((id.clone(), Strip { name, marks }));
            found.len() - 1
        });
        let column = place(row);
        if let Some(mark) = at
            .get(&column)
            .and_then(|&at| found[here].1.marks.get_mut(at))
        {
            mark.value += 1.0;
            mark.class = "c1";
            let ranks = if mark.value > 1.0 {
                "members"
            } else {
                "member"
            };
            mark.title = format!("{label} {id}: {} {ranks} at {}", mark.value, column.trim());
        }
    }
    let strips: Vec<Strip> = found
        .into_iter()
        .map(|(_, strip)| strip)
        .take(MOST)
        .collect();
    let columns: Vec<String> = places.iter().map(|name| name.trim().to_owned()).collect();
    let name = match is_by_rank {
        true => "Members of communicators by rank of the job",
        false => "Members of communicators by host",
    };
    map(name, &strips, &columns)
}

/// Which algorithm and protocol serve which sizes, by powers of two.
fn tuning(page: &Page) -> Option<Plot> {
    let grid = page.grid(Of::Tuning)?;
    let power = |bytes: u128| bytes.max(1).ilog2();
    let choice = |row: Row<'_>| format!("{} {}", row.text("algorithm"), row.text("protocol"));
    let choices: BTreeSet<String> = rows(grid).map(choice).collect();
    let colour: BTreeMap<&String, &'static str> =
        choices.iter().zip(COLOURS.into_iter().cycle()).collect();
    let powers = rows(grid).filter_map(|row| {
        let (from, to) = (row.whole("from_bytes")?, row.whole("last_bytes")?);
        Some((power(from), power(to.max(from))))
    });
    let (first, last) = powers.fold((u32::MAX, 0), |(a, b), (from, to)| (a.min(from), b.max(to)));
    if first > last {
        return None;
    }
    let columns: Vec<String> = (first..=last)
        .map(|p| short_bytes(2f64.powi(p as i32)))
        .collect();
    let mut strips: BTreeMap<(String, u128, String), Strip> = BTreeMap::new();
    for row in rows(grid) {
        let (Some(from), Some(to)) = (row.whole("from_bytes"), row.whole("last_bytes")) else {
            continue;
        };
        let (op, nranks, choice) = (
            row.text("op"),
            row.whole("nranks").unwrap_or(0),
            choice(row),
        );
        let strip = strips
            .entry((op.clone(), nranks, choice.clone()))
            .or_insert_with(|| Strip {
                name: format!("{op} {choice}"),
                marks: vec![Mark::default(); columns.len()],
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
    let strips: Vec<Strip> = strips.into_values().take(MOST).collect();
    map("Algorithm and protocol by size", &strips, &columns)
}
