//! What each GPU did, as parts of its time.

use super::MOST;
use crate::output::render::Grid;
use crate::output::render::cells::{Row, rows};
use crate::output::svg::plot::{Mark, Plot, Strip, strips};

/// A strip for each GPU.
pub(crate) fn overlap(grid: &Grid) -> Option<Plot> {
    const PARTS: [(&str, &str); 5] = [
        ("c1", "computation alone"),
        ("c2", "computation and communication"),
        ("c3", "communication that nothing hides"),
        ("c4", "copies and other work"),
        ("c0", "idle"),
    ];
    let strip = |row: Row<'_>| {
        let ms = |column| row.number(column).unwrap_or(0.0);
        let (both, exposed) = (ms("compute_comm_ms"), ms("exposed_comm_ms"));
        let alone = (ms("compute_ms") - both).max(0.0);
        let other = (ms("active_ms") - alone - both - exposed).max(0.0);
        let values = [alone, both, exposed, other, ms("idle_ms")];
        let mark = |(value, (class, words)): (f64, (&'static str, &str))| Mark {
            value,
            title: format!("{words}: {value} ms"),
            class,
            ..Mark::default()
        };
        let name = match (row.text("rank"), row.text("device")) {
            (rank, device) if rank.is_empty() => format!("device {device}"),
            (rank, device) => format!("rank {rank} device {device}"),
        };
        let marks = values.into_iter().zip(PARTS).map(mark).collect();
        Strip { name, marks }
    };
    // The row of all devices is as long as all of them.
    let one = rows(grid).filter(|row| row.text("device") != "all");
    let list: Vec<Strip> = one.take(MOST).map(strip).collect();
    strips("What each GPU did", &list, &PARTS)
}
