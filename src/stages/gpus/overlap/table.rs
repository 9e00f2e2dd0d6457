//! The table: times in ms, which are exact to the ns, and shares of the window.

use super::{By, Label, Options, Row};
use crate::output::render::{Cell, Grid};

/// ns in ms.
fn ms(ns: u64) -> Cell<'static> {
    (ns as f64 / 1e6).into()
}

/// The rows, by the columns of `options`.
pub fn grid(rows: &[Row], options: &Options) -> Grid {
    let by = options.by.map(|by| match by {
        By::Step => "step",
        By::Range => "range",
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
    ];
    Grid {
        columns: by.into_iter().chain(own).map(str::to_owned).collect(),
        rows: rows.iter().map(|row| cells(row, options)).collect(),
    }
}

fn cells(row: &Row, options: &Options) -> Vec<Cell<'static>> {
    let sums = &row.sums;
    let label = match &row.label {
        Label::Step(step) => Cell::from(*step),
        Label::Name(name) => name.to_vec().into(),
        Label::Whole => Cell::Empty,
    };
    let text = |text: &[u8]| (!text.is_empty()).then(|| text.to_vec()).into();
    let share = |ns: u64| Cell::share(ns as f64, sums.window as f64);
    let mut cells: Vec<Cell<'static>> = options.by.map(|_| label).into_iter().collect();
    cells.extend([
        text(&row.host),
        row.rank.map(u64::from).into(),
        row.pid.into(),
        row.device
            .map_or("all".into(), |device| u64::from(device).into()),
        text(row.basis.as_bytes()),
        ms(sums.window),
        ms(sums.active),
        ms(sums.idle()),
        ms(sums.compute),
        ms(sums.comm),
        ms(sums.memory),
        ms(sums.compute_comm),
        ms(sums.compute_memory),
        ms(sums.comm_memory),
        ms(sums.exposed()),
        share(sums.active),
        share(sums.compute),
        share(sums.comm),
        share(sums.memory),
        share(sums.exposed()),
        Cell::share(sums.compute_comm as f64, sums.comm as f64),
    ]);
    cells
}
