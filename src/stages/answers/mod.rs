//! The answer of a table in one sentence, which a terminal shows before and after the table.

mod limits;

use crate::error::phrases::count_phrase;
use crate::output::render::look::column_text;
use crate::output::render::{Grid, TableCell};
use limits::MAX_CHANGES_NAMED;
use std::cmp::Reverse;

/// A row under the names of its columns.
#[derive(Clone, Copy)]
struct NamedRow<'g> {
    columns: &'g [String],
    cells: &'g [TableCell<'static>],
}

impl<'g> NamedRow<'g> {
    fn cell(self, column: &str) -> Option<&'g TableCell<'static>> {
        let at = self.columns.iter().position(|name| name == column)?;
        self.cells
            .get(at)
            .filter(|cell| !matches!(cell, TableCell::Empty))
    }

    /// The value as a terminal shows it; nothing if it is unknown.
    fn text(self, column: &str) -> String {
        let cell = self.cell(column);
        cell.map_or(String::new(), |cell| column_text(cell, column))
    }

    fn number(self, column: &str) -> f64 {
        match self.cell(column) {
            Some(TableCell::Int(n)) => *n as f64,
            Some(TableCell::Float(x) | TableCell::Share(x)) => *x,
            _ => 0.0,
        }
    }
}

fn has_column(grid: &Grid, name: &str) -> Option<()> {
    grid.columns
        .iter()
        .any(|column| column == name)
        .then_some(())
}

fn name_rows(grid: &Grid) -> impl Iterator<Item = NamedRow<'_>> + Clone {
    let columns = &grid.columns[..];
    grid.rows
        .iter()
        .map(move |cells| NamedRow { columns, cells })
}

/// Groups rows by a text, in the order of the first ones.
fn group_rows<'g>(
    rows: impl Iterator<Item = NamedRow<'g>>,
    key: impl Fn(NamedRow<'g>) -> String,
) -> Vec<(String, Vec<NamedRow<'g>>)> {
    let mut groups: Vec<(String, Vec<NamedRow<'g>>)> = Vec::new();
    for row in rows {
        let key = key(row);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((key, vec![row])),
        }
    }
    groups
}

/// What nccl-diff found: how much of what, then aspects with a single change, with its values.
pub fn answer_changes(grid: &Grid) -> Option<String> {
    let (mut named, mut counted) = (String::new(), Vec::new());
    for (aspect, rows) in group_rows(name_rows(grid), |row| row.text("aspect")) {
        match rows[..] {
            [row] if named.lines().count() <= MAX_CHANGES_NAMED => {
                let name = format!("{aspect} {}", row.text("subject"));
                let [a, b] = ["a", "b"].map(|side| match row.text(side) {
                    none if none.is_empty() => "none".to_owned(),
                    text => text,
                });
                named += &format!("\n  {}: {a} -> {b}", name.trim_end());
            }
            _ => counted.push(format!("{aspect} {}", rows.len())),
        }
    }
    let differences = count_phrase(grid.rows.len() as u64, "difference");
    let counted = match (counted.is_empty(), named.is_empty()) {
        (true, _) => String::new(),
        (_, true) => counted.join(", "),
        (_, false) => format!("{}; and", counted.join(", ")),
    };
    Some(format!("{differences} from A to B: {counted}{named}"))
}

/// The rank with the largest lateness, of nccl-skew's rows.
pub fn answer_lateness(grid: &Grid) -> Option<String> {
    has_column(grid, "late_calls")?;
    if name_rows(grid).all(|row| row.cell("late_calls").is_none()) {
        let unsure = "not judged: the times are not exact enough to show which rank is late";
        return Some(unsure.to_owned());
    }
    let late = name_rows(grid).filter(|row| row.number("late_calls") > 0.0);
    let weight = |row: &NamedRow<'_>| row.number("p95_us").max(row.number("late_us"));
    let Some(worst) = late.max_by(|a, b| weight(a).total_cmp(&weight(b))) else {
        let calls = name_rows(grid).map(|row| row.number("calls"));
        let calls = calls.fold(0.0, f64::max);
        return Some(format!(
            "no rank is late in {calls} calls, as far as the time stamps show"
        ));
    };
    let known = |column: &str| Some(worst.text(column)).filter(|text| !text.is_empty());
    let who = match known("global_rank").or_else(|| known("rank")) {
        Some(rank) => format!("rank {rank}"),
        None => format!("process {}", worst.text("pid")),
    };
    let host = known("host").map_or(String::new(), |host| format!(" on {host}"));
    let pattern = known("pattern").map_or(String::new(), |how| format!(" ({how})"));
    Some(format!(
        "{who}{host} comes latest: {} us or more at 5 of 100 calls, {} us at most; it is late in {} of {} calls{pattern}",
        worst.text("p95_us"),
        worst.text("max_us"),
        worst.text("late_calls"),
        worst.text("calls"),
    ))
}

/// The slowest step; the first of a segment includes the job's start.
pub fn answer_slowest_step(grid: &Grid) -> Option<String> {
    let mut segment = None;
    let timed = name_rows(grid).filter(|row| row.number("time_s") > 0.0);
    let later = timed.filter(|row| {
        let own = Some(row.text("segment"));
        std::mem::replace(&mut segment, own.clone()) == own
    });
    let mut steps = Vec::from_iter(later);
    steps.sort_by(|a, b| a.number("time_s").total_cmp(&b.number("time_s")));
    let (slowest, middle) = (steps.last()?, steps[(steps.len() - 1) / 2]);
    Some(format!(
        "step {} is the slowest of {} steps: {} s, median {} s (first steps left out)",
        slowest.text("step"),
        steps.len(),
        slowest.text("time_s"),
        middle.text("time_s"),
    ))
}

/// The sizes of most calls and of most bytes, of nccl-hist's rows.
pub fn answer_sizes(grid: &Grid) -> Option<String> {
    has_column(grid, "bucket")?;
    let buckets = group_rows(name_rows(grid), |row| row.text("bucket"));
    let largest = |column: &str| {
        let sum = |rows: &[NamedRow<'_>]| rows.iter().map(|row| row.number(column)).sum::<f64>();
        let sums = buckets.iter().map(|(size, rows)| (size, sum(rows)));
        let all: f64 = sums.clone().map(|(_, sum)| sum).sum();
        let (size, most) = sums.max_by(|a, b| a.1.total_cmp(&b.1))?;
        (all > 0.0).then(|| (all, format!("{:.0} %", 100.0 * most / all), size))
    };
    let ((calls, share, size), (_, of_bytes, large)) = (largest("calls")?, largest("total_bytes")?);
    Some(format!(
        "{share} of {calls} calls are of {size}; {of_bytes} of the bytes are in calls of {large}"
    ))
}

/// How many communicators there are of each purpose and size.
pub fn answer_communicators(grid: &Grid) -> Option<String> {
    has_column(grid, "communicator")?;
    let key = |row: NamedRow<'_>| format!("{} of {} ranks", row.text("label"), row.text("ranks"));
    let mut kinds = group_rows(name_rows(grid), key);
    kinds.sort_by_key(|(_, rows)| Reverse(rows[0].text("ranks").parse::<u64>().unwrap_or(0)));
    let kinds = kinds
        .iter()
        .map(|(kind, rows)| format!("{} {kind}", rows.len()));
    let all = count_phrase(grid.rows.len() as u64, "communicator");
    Some(format!("{all}: {}", Vec::from_iter(kinds).join(", ")))
}

/// The ways between GPUs and to their nearest NICs, what NCCL chose, and the inputs that differ.
pub fn answer_topology(grid: &Grid) -> Option<String> {
    let most = name_rows(grid).filter(|row| row.text("minority").is_empty());
    let ways = |rows: &mut dyn Iterator<Item = NamedRow<'_>>| {
        let all = group_rows(rows, |row| row.text("way"));
        Vec::from_iter(all.into_iter().map(|(way, _)| way)).join(" and ")
    };
    let exists = most.clone().filter(|row| row.text("graph").is_empty());
    let is_gpu = |row: &NamedRow<'_>| row.text("to").starts_with("GPU");
    let mut parts = vec![
        ("between GPUs", ways(&mut exists.clone().filter(is_gpu))),
        (
            "to the nearest NICs",
            ways(&mut exists.filter(|row| !row.text("nearest").is_empty())),
        ),
    ];
    let chosen = group_rows(most.filter(|row| !row.text("graph").is_empty()), |row| {
        row.text("graph")
    });
    let chosen = chosen
        .iter()
        .map(|(graph, rows)| (&**graph, ways(&mut rows.iter().copied())));
    parts.extend(chosen);
    let parts = parts.iter().filter(|(_, ways)| !ways.is_empty());
    let mut answer = Vec::from_iter(parts.map(|(what, ways)| format!("{what}: {ways}")));
    let odd = name_rows(grid).filter(|row| !row.text("minority").is_empty());
    let odd = group_rows(odd, |row| row.text("input"));
    if let [(first, rows), ..] = &odd[..] {
        let [from, to, way] = ["from", "to", "way"].map(|column| rows[0].text(column));
        let differs = match odd.len() {
            1 => "1 input differs".to_owned(),
            n => format!("{n} inputs differ"),
        };
        let way = if way.is_empty() { "no way" } else { &way };
        answer.push(format!("{differs}: {first} ({from} to {to}: {way})"));
    }
    (!answer.is_empty()).then(|| answer.join("; "))
}

/// The network, its way to the GPUs' memory and the version, of nccl-net's facts of the job.
pub fn answer_network(grid: &Grid) -> Option<String> {
    let facts = [
        ("hosts", &["job.hosts"][..]),
        ("network", &["network", "job.network"]),
        ("GPUDirect", &["job.gpudirect"]),
        ("transport", &["transport", "job.transport"]),
        ("NCCL", &["version.nccl", "job.version"]),
    ];
    let parts = facts.iter().filter_map(|(noun, subjects)| {
        let of_job = name_rows(grid).filter(|row| row.text("scope") == "job");
        let of_fact = group_rows(of_job, |row| row.text("subject"));
        let known = subjects
            .iter()
            .find_map(|subject| of_fact.iter().find(|(of, _)| of == subject));
        let values = known?.1.iter().map(|row| row.text("value"));
        Some(format!("{noun}: {}", Vec::from_iter(values).join(" and ")))
    });
    let parts = Vec::from_iter(parts);
    (!parts.is_empty()).then(|| parts.join("; "))
}
