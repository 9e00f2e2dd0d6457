//! The page as one row: a job in a table that grows.

use super::{Of, Page};
use crate::output::render::cells::rows;
use crate::output::render::{Cell, Grid};

/// The row; what is not known is empty.
pub fn row(page: &Page) -> Grid {
    let mut columns = Vec::new();
    let mut row: Vec<Cell<'static>> = Vec::new();
    let mut put = |name: &str, cell: Cell<'static>| {
        columns.push(name.to_owned());
        row.push(cell);
    };
    // Also of an input that is no log, so that rows of different jobs are alike.
    for name in [
        "hosts",
        "ranks",
        "nccl",
        "cuda",
        "network",
        "gpudirect",
        "nvls",
        "trainer",
    ] {
        let known = page.job.iter().find(|(is, _)| *is == name);
        put(name, known.map_or(Cell::Empty, |(_, value)| cell(value)));
    }
    let steps = &page.steps;
    let range = steps.range();
    put("first_step", range.map(|(first, _)| first).into());
    put("last_step", range.map(|(_, last)| last).into());
    put("steps", (steps.list.len() as u64).into());
    let times = steps.times.as_ref();
    put("step_time_p50_s", times.map(|times| times.p50).into());
    put("step_time_p95_s", times.map(|times| times.p95).into());
    put("long_steps", (steps.outliers().len() as u64).into());
    let tflops = steps.tflops.as_ref();
    put("tflops_per_gpu_p50", tflops.map(|all| all.p50).into());
    put("calls", sum(page, "calls"));
    put("total_bytes", sum(page, "total_bytes"));
    let communicators = page.grid(Of::Communicators);
    put(
        "communicators",
        communicators.map(|grid| grid.rows.len() as u64).into(),
    );
    put("exposed_comm", exposed(page));
    let is_checked = page.compared.is_some();
    for (name, severity) in [
        ("errors", "error"),
        ("warnings", "warning"),
        ("notes", "note"),
    ] {
        let count = is_checked.then(|| page.count(severity) as u64);
        put(name, count.into());
    }
    Grid {
        columns,
        rows: vec![row],
    }
}

/// A value of the job as a cell.
fn cell(value: &str) -> Cell<'static> {
    match value.parse::<u64>() {
        Ok(n) => n.into(),
        Err(_) if value == "unknown" => Cell::Empty,
        Err(_) => value.to_owned().into(),
    }
}

/// The sum of a column over all operations; not known where it is not of one.
fn sum(page: &Page, column: &str) -> Cell<'static> {
    let grid = page.grid(Of::Operations);
    let all = grid.and_then(|grid| {
        let mut each = rows(grid).map(|row| row.whole(column));
        each.try_fold(0_u128, |sum, n| Some(sum.saturating_add(n?)))
    });
    all.into()
}

/// The share of the time of all GPUs in which they communicate but do not compute.
fn exposed(page: &Page) -> Cell<'static> {
    let grid = page.grid(Of::Overlap);
    let all = grid.and_then(|grid| rows(grid).last());
    all.and_then(|row| row.number("exposed_comm")).into()
}
