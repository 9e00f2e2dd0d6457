//! The table: times in ms, which are exact to the ns, and shares of the window.

use super::{Options, OverlapGrouping, OverlapRow, RangeLabel};
use crate::output::render::{Grid, TableCell};

/// Converts ns to ms.
fn ns_to_ms(ns: u64) -> TableCell<'static> {
    (ns as f64 / 1e6).into()
}

/// Builds the table with the columns of `options`.
pub fn build_grid(rows: &[OverlapRow], options: &Options) -> Grid {
    let by = options.by.map(|by| match by {
        OverlapGrouping::Step => "step",
        OverlapGrouping::Range => "range",
    });
    let own = [
        "host",
        "rank",
        "pid",
        "device",
        "basis",
        "window_ms",
        "active_ms",
        "idle_ms",
        "compute_ms",
        "comm_ms",
        "memory_ms",
        "compute_comm_ms",
        "compute_memory_ms",
        "comm_memory_ms",
        "exposed_comm_ms",
        "active",
        "compute",
        "comm",
        "memory",
        "exposed_comm",
        "hidden_comm",
        "global_rank",
    ];
    Grid {
        columns: by.into_iter().chain(own).map(str::to_owned).collect(),
        rows: rows.iter().map(|row| row_cells(row, options)).collect(),
    }
}

fn row_cells(row: &OverlapRow, options: &Options) -> Vec<TableCell<'static>> {
    let sums = &row.sums;
    let label = match &row.label {
        RangeLabel::Step(step) => TableCell::from(*step),
        RangeLabel::Name(name) => name.to_vec().into(),
        RangeLabel::Whole => TableCell::Empty,
    };
    let text = |text: &[u8]| (!text.is_empty()).then(|| text.to_vec()).into();
    let share = |ns: u64| TableCell::share_of(ns as f64, sums.window as f64);
    let mut cells: Vec<TableCell<'static>> = options.by.map(|_| label).into_iter().collect();
    cells.extend([
        text(&row.host),
        row.rank.map(u64::from).into(),
        row.pid.into(),
        row.device
            .map_or("all".into(), |device| u64::from(device).into()),
        text(row.basis.as_bytes()),
        ns_to_ms(sums.window),
        ns_to_ms(sums.active),
        ns_to_ms(sums.idle_ns()),
        ns_to_ms(sums.compute),
        ns_to_ms(sums.comm),
        ns_to_ms(sums.memory),
        ns_to_ms(sums.compute_comm),
        ns_to_ms(sums.compute_memory),
        ns_to_ms(sums.comm_memory),
        ns_to_ms(sums.exposed_ns()),
        share(sums.active),
        share(sums.compute),
        share(sums.comm),
        share(sums.memory),
        share(sums.exposed_ns()),
        TableCell::share_of(sums.compute_comm as f64, sums.comm as f64),
        // A trace names the rank in the job only.
        row.rank.map(u64::from).into(),
    ]);
    cells
}
