//! The page as one row: a job in a table that grows.

use super::{PageSection, ReportPage};
use crate::output::render::cells::iter_rows;
use crate::output::render::{Grid, TableCell};

/// Makes the row; unknown values are empty.
pub fn build_summary(page: &ReportPage) -> Grid {
    let mut columns = Vec::new();
    let mut row: Vec<TableCell<'static>> = Vec::new();
    let mut put = |name: &str, cell: TableCell<'static>| {
        columns.push(name.to_owned());
        row.push(cell);
    };
    // An input without a log has these columns too, so that the rows of different jobs fit together.
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
        put(
            name,
            known.map_or(TableCell::Empty, |(_, value)| job_cell(value)),
        );
    }
    let steps = &page.steps;
    let range = steps.step_range();
    put("first_step", range.map(|(first, _)| first).into());
    put("last_step", range.map(|(_, last)| last).into());
    put("steps", (steps.list.len() as u64).into());
    let times = steps.times.as_ref();
    put("step_time_p50_s", times.map(|times| times.p50).into());
    put("step_time_p95_s", times.map(|times| times.p95).into());
    put("long_steps", (steps.find_outliers().len() as u64).into());
    let tflops = steps.tflops.as_ref();
    put("tflops_per_gpu_p50", tflops.map(|all| all.p50).into());
    put("calls", sum_column(page, "calls"));
    put("total_bytes", sum_column(page, "total_bytes"));
    let communicators = page.grid(PageSection::Communicators);
    put(
        "communicators",
        communicators.map(|grid| grid.rows.len() as u64).into(),
    );
    put("exposed_comm", exposed_share(page));
    let is_checked = page.compared.is_some();
    for (name, severity) in [
        ("errors", "error"),
        ("warnings", "warning"),
        ("notes", "note"),
    ] {
        let count = is_checked.then(|| page.count_findings(severity) as u64);
        put(name, count.into());
    }
    let nodes = |name: &str| page.job.iter().find(|(is, _)| *is == name);
    let nodes = nodes("nodes").or_else(|| nodes("hosts"));
    put(
        "nodes",
        nodes.map_or(TableCell::Empty, |(_, value)| job_cell(value)),
    );
    Grid {
        columns,
        rows: vec![row],
    }
}

/// Turns a value of the job into a cell.
fn job_cell(value: &str) -> TableCell<'static> {
    match value.parse::<u64>() {
        Ok(n) => n.into(),
        Err(_) if value == "unknown" => TableCell::Empty,
        Err(_) => value.to_owned().into(),
    }
}

/// Sums a column over all operations; unknown if one of its values is.
fn sum_column(page: &ReportPage, column: &str) -> TableCell<'static> {
    let grid = page.grid(PageSection::Operations);
    let all = grid.and_then(|grid| {
        let mut each = iter_rows(grid).map(|row| row.whole_number_of(column));
        each.try_fold(0_u128, |sum, n| Some(sum.saturating_add(n?)))
    });
    all.into()
}

/// Returns the share of the time of all GPUs in which they communicate and do not compute.
fn exposed_share(page: &ReportPage) -> TableCell<'static> {
    let grid = page.grid(PageSection::Overlap);
    let all = grid.and_then(|grid| iter_rows(grid).last());
    all.and_then(|row| row.number_of("exposed_comm")).into()
}
