//! The rows of the two tables.

use super::CommunicatorsSummary;
use super::facts::CommunicatorFacts;
use super::fold::CommunicatorSide;
use super::identity::MergedCommunicator;
use super::purpose::CommunicatorState;
use super::wire_bytes::compute_wire_bytes;
use crate::output::render::{Grid, TableCell};

/// The columns of a communicator's row.
const COMMUNICATOR_COLUMNS: [&str; 27] = [
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

impl CommunicatorsSummary {
    /// The communicators that have a member in the rows.
    fn listed_communicators(&self) -> impl Iterator<Item = &MergedCommunicator> {
        let is_listed = |side: &usize| !self.sides[*side].is_left_out;
        let all = self.communicators.iter();
        all.filter(move |of| of.sides.is_empty() || of.sides.iter().any(is_listed))
    }
}

/// Builds a row for each communicator.
pub fn build_communicator_grid(found: &CommunicatorsSummary) -> Grid {
    let row = |communicator: &MergedCommunicator| {
        let of = CommunicatorFacts::new(found, communicator);
        let label = &communicator.label;
        let text = |text: String| match text.is_empty() {
            true => TableCell::Empty,
            false => text.into(),
        };
        let own = of.only_side();
        let wire = compute_wire_bytes(&of);
        vec![
            communicator.key.format_id().map_or(TableCell::Empty, text),
            label.of.name().into(),
            of.confidence().into(),
            text(label.evidence.join("; ")),
            communicator.nranks.map(u64::from).into(),
            of.count_ranks_seen().map(|n| n as u64).into(),
            of.list_missing_ranks().map_or(TableCell::Empty, text),
            of.count_nodes().map(u64::from).into(),
            of.format_ranks_per_node().map_or(TableCell::Empty, text),
            of.locality().into(),
            communicator.place.known_stride().map(u64::from).into(),
            of.parent().map_or(TableCell::Empty, text),
            of.color().map_or(TableCell::Empty, |c| text(c.to_string())),
            of.created_by().map_or(TableCell::Empty, |c| {
                TableCell::from(String::from_utf8_lossy(c).into_owned())
            }),
            of.find_slowest_init().map(|(_, seconds)| seconds).into(),
            of.find_slowest_init()
                .and_then(|(side, _)| side.rank)
                .map(u64::from)
                .into(),
            text(of.format_init_phases()),
            of.count_calls().into(),
            of.sum_bytes().into(),
            text(of.format_operations()),
            text(of.format_state()),
            own.map_or(TableCell::Empty, |side| build_host_cell(&of, side)),
            own.and_then(|side| of.pid(side)).into(),
            wire.map(|w| w.all).into(),
            wire.map(|w| w.ring).into(),
            wire.map(|w| w.tree).into(),
            of.name().map_or(TableCell::Empty, |name| {
                TableCell::Text(name.to_vec().into())
            }),
        ]
    };
    Grid {
        columns: COMMUNICATOR_COLUMNS.map(str::to_owned).to_vec(),
        rows: found.listed_communicators().map(row).collect(),
    }
}

/// Returns the host of a side; empty without a header.
fn build_host_cell(of: &CommunicatorFacts<'_>, side: &CommunicatorSide) -> TableCell<'static> {
    match of.host(side) {
        host if host.is_empty() => TableCell::Empty,
        host => TableCell::Text(host.into()),
    }
}

/// Builds a row for each member.
pub fn build_member_grid(found: &CommunicatorsSummary) -> Grid {
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
        "phase",
    ];
    let mut rows = Vec::new();
    for communicator in found.listed_communicators() {
        let of = CommunicatorFacts::new(found, communicator);
        let place = &communicator.place;
        for (at, side) in of.sides().enumerate().filter(|(_, side)| !side.is_left_out) {
            let hex = |n: u64, x: &str| TableCell::from(format!("{x}{n:x}"));
            rows.push(vec![
                communicator
                    .key
                    .format_id()
                    .map_or(TableCell::Empty, TableCell::from),
                side.rank.map(u64::from).into(),
                build_host_cell(&of, side),
                of.pid(side).into(),
                side.dev.map(u64::from).into(),
                side.bus_id.map_or(TableCell::Empty, |n| hex(n, "")),
                side.nvml_dev.map(u64::from).into(),
                hex(side.comm, "0x"),
                side.count_calls().into(),
                communicator.nranks.map(u64::from).into(),
                place
                    .known_ranks()
                    .and_then(|ranks| ranks.get(at))
                    .map(|&r| u64::from(r))
                    .into(),
                communicator.label.of.name().into(),
                match side.state {
                    CommunicatorState::Unknown => TableCell::Empty,
                    state => state.name().into(),
                },
                match side.state {
                    CommunicatorState::Started => side.progress.phase.name().into(),
                    _ => TableCell::Empty,
                },
            ]);
        }
    }
    Grid {
        columns: columns.map(str::to_owned).to_vec(),
        rows,
    }
}

/// Builds the rows for a terminal: only columns with values, the longest last.
pub fn build_terminal_grid(found: &CommunicatorsSummary) -> Grid {
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
    let row = |communicator: &MergedCommunicator| {
        let of = CommunicatorFacts::new(found, communicator);
        let text = |text: String| match text.is_empty() {
            true => TableCell::Empty,
            false => text.into(),
        };
        let name = communicator.key.format_id().unwrap_or_else(|| {
            let side = of.only_side();
            let host = side.map(|s| of.host(s)).unwrap_or_default();
            let pid = side.and_then(|s| of.pid(s));
            let comm = side.map_or(0, |s| s.comm);
            let pid = pid.map_or(String::new(), |pid| pid.to_string());
            format!("{}:{pid} {comm:#x}", String::from_utf8_lossy(&host))
        });
        let nranks = communicator.nranks;
        let ranks = match (of.count_ranks_seen(), nranks) {
            (Some(seen), Some(n)) if seen != n as usize => format!("{seen} of {n}"),
            (_, n) => n.map_or(String::new(), |n| n.to_string()),
        };
        let stride = communicator.place.known_stride();
        vec![
            text(name),
            communicator.label.of.name().into(),
            of.confidence().into(),
            text(ranks),
            of.count_nodes().map(u64::from).into(),
            stride.map(u64::from).into(),
            of.parent().map_or(TableCell::Empty, text),
            of.find_slowest_init().map(|(_, seconds)| seconds).into(),
            of.count_calls().into(),
            of.sum_bytes().into(),
            text(of.format_byte_shares()),
            text(communicator.label.evidence.join("; ")),
        ]
    };
    let rows: Vec<Vec<TableCell<'static>>> = found.listed_communicators().map(row).collect();
    let says = |column: &usize| rows.iter().any(|row| row[*column] != TableCell::Empty);
    let kept: Vec<usize> = (0..columns.len()).filter(says).collect();
    Grid {
        columns: kept.iter().map(|&c| columns[c].to_owned()).collect(),
        rows: rows
            .iter()
            .map(|row| kept.iter().map(|&c| row[c].clone()).collect())
            .collect(),
    }
}
