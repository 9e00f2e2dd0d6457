//! The rows of the two tables.

use super::Found;
use super::facts::Facts;
use super::fold::{Side, State};
use super::identity::Communicator;
use super::wire::wire;
use crate::output::render::{Cell, Grid};

/// The columns of a communicator's row.
const COLUMNS: [&str; 27] = [
    "comm_id",
    "label",
    "confidence",
    "evidence",
    "nranks",
    "members_seen",
    "missing",
    "nodes",
    "ranks_per_node",
    "locality",
    "stride",
    "parent",
    "color",
    "created_by",
    "init_s",
    "init_slowest",
    "init_breakdown",
    "calls",
    "total_bytes",
    "ops",
    "state",
    "host",
    "pid",
    "model_wire_bytes",
    "model_inter_ring_bytes",
    "model_inter_tree_bytes",
    "name",
];

/// One row a communicator.
pub fn grid(found: &Found) -> Grid {
    let row = |communicator: &Communicator| {
        let of = Facts::of(found, communicator);
        let label = &communicator.label;
        let text = |text: String| match text.is_empty() {
            true => Cell::Empty,
            false => text.into(),
        };
        let own = of.own();
        let wire = wire(&of);
        vec![
            communicator.key.text().map_or(Cell::Empty, text),
            label.of.name().into(),
            of.confidence().into(),
            text(label.evidence.join("; ")),
            communicator.nranks.map(u64::from).into(),
            of.seen().map(|n| n as u64).into(),
            of.missing().map_or(Cell::Empty, text),
            of.nodes().map(u64::from).into(),
            of.ranks_per_node().map_or(Cell::Empty, text),
            of.locality().into(),
            communicator
                .place
                .stride()
                .filter(|_| communicator.place.sure)
                .map(u64::from)
                .into(),
            of.parent().map_or(Cell::Empty, text),
            of.color().map_or(Cell::Empty, |c| text(c.to_string())),
            of.created_by().map_or(Cell::Empty, |c| {
                Cell::from(String::from_utf8_lossy(c).into_owned())
            }),
            of.slowest().map(|(_, seconds)| seconds).into(),
            of.slowest()
                .and_then(|(side, _)| side.rank)
                .map(u64::from)
                .into(),
            text(of.breakdown()),
            of.calls().into(),
            of.bytes().into(),
            text(of.ops()),
            text(of.state()),
            own.map_or(Cell::Empty, |side| host(&of, side)),
            own.and_then(|side| of.pid(side)).into(),
            wire.map(|w| w.all).into(),
            wire.map(|w| w.ring).into(),
            wire.map(|w| w.tree).into(),
            of.name()
                .map_or(Cell::Empty, |name| Cell::Text(name.to_vec().into())),
        ]
    };
    Grid {
        columns: COLUMNS.map(str::to_owned).to_vec(),
        rows: found.communicators.iter().map(row).collect(),
    }
}

/// The host of a side; a line without a header has none.
fn host(of: &Facts<'_>, side: &Side) -> Cell<'static> {
    match of.host(side) {
        host if host.is_empty() => Cell::Empty,
        host => Cell::Text(host.into()),
    }
}

/// One row a member.
pub fn members(found: &Found) -> Grid {
    let columns = [
        "comm_id",
        "rank",
        "host",
        "pid",
        "dev",
        "bus_id",
        "nvml_dev",
        "comm",
        "calls",
        "nranks",
        "global_rank",
        "label",
        "state",
    ];
    let mut rows = Vec::new();
    for communicator in &found.communicators {
        let of = Facts::of(found, communicator);
        let place = &communicator.place;
        for (at, side) in of.sides().enumerate() {
            let hex = |n: u64, x: &str| Cell::from(format!("{x}{n:x}"));
            rows.push(vec![
                communicator.key.text().map_or(Cell::Empty, Cell::from),
                side.rank.map(u64::from).into(),
                host(&of, side),
                of.pid(side).into(),
                side.dev.map(u64::from).into(),
                side.bus_id.map_or(Cell::Empty, |n| hex(n, "")),
                side.nvml_dev.map(u64::from).into(),
                hex(side.comm, "0x"),
                side.calls().into(),
                communicator.nranks.map(u64::from).into(),
                place
                    .ranks
                    .get(at)
                    .filter(|_| place.sure)
                    .map(|&r| u64::from(r))
                    .into(),
                communicator.label.of.name().into(),
                match side.state {
                    State::Unknown => Cell::Empty,
                    state => state.name().into(),
                },
            ]);
        }
    }
    Grid {
        columns: columns.map(str::to_owned).to_vec(),
        rows,
    }
}

/// The rows as they are looked at: the columns that say something, the longest last.
pub fn look(found: &Found) -> Grid {
    let columns = [
        "communicator",
        "label",
        "confidence",
        "ranks",
        "nodes",
        "stride",
        "parent",
        "init_s",
        "calls",
        "total_bytes",
        "ops by bytes",
        "evidence",
    ];
    let row = |communicator: &Communicator| {
        let of = Facts::of(found, communicator);
        let text = |text: String| match text.is_empty() {
            true => Cell::Empty,
            false => text.into(),
        };
        let name = communicator.key.text().unwrap_or_else(|| {
            let side = of.own();
            let host = side.map(|s| of.host(s)).unwrap_or_default();
            let pid = side.and_then(|s| of.pid(s));
            let comm = side.map_or(0, |s| s.comm);
            let pid = pid.map_or(String::new(), |pid| pid.to_string());
            format!("{}:{pid} {comm:#x}", String::from_utf8_lossy(&host))
        });
        let nranks = communicator.nranks;
        let ranks = match (of.seen(), nranks) {
            (Some(seen), Some(n)) if seen != n as usize => format!("{seen} of {n}"),
            (_, n) => n.map_or(String::new(), |n| n.to_string()),
        };
        let stride = communicator.place.stride();
        vec![
            text(name),
            communicator.label.of.name().into(),
            of.confidence().into(),
            text(ranks),
            of.nodes().map(u64::from).into(),
            stride
                .filter(|_| communicator.place.sure)
                .map(u64::from)
                .into(),
            of.parent().map_or(Cell::Empty, text),
            of.slowest().map(|(_, seconds)| seconds).into(),
            of.calls().into(),
            of.bytes().into(),
            text(of.shares()),
            text(communicator.label.evidence.join("; ")),
        ]
    };
    let rows: Vec<Vec<Cell<'static>>> = found.communicators.iter().map(row).collect();
    let says = |column: &usize| rows.iter().any(|row| row[*column] != Cell::Empty);
    let kept: Vec<usize> = (0..columns.len()).filter(says).collect();
    Grid {
        columns: kept.iter().map(|&c| columns[c].to_owned()).collect(),
        rows: rows
            .iter()
            .map(|row| kept.iter().map(|&c| row[c].clone()).collect())
            .collect(),
    }
}
