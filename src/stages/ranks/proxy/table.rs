//! The tables: sums by the chosen columns, and operations that did not end.

use super::{ProxyKey, ProxyOperations, ProxySums};
use crate::formats::profiler::{ProxyOp, ProxyPhases, ProxyWait, TransferSide};
use crate::output::render::{Grid, TableCell};
use std::collections::BTreeMap;

/// A column of the rows' key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyColumn {
    /// The call's operation.
    Op,
    /// The communicator's id.
    CommId,
    /// The rank.
    Rank,
    /// The channel.
    Channel,
    /// The rank at the other end.
    Peer,
}

impl ProxyColumn {
    /// All columns, by name.
    pub const ALL: [(ProxyColumn, &str); 5] = [
        (ProxyColumn::Op, "op"),
        (ProxyColumn::CommId, "comm_id"),
        (ProxyColumn::Rank, "rank"),
        (ProxyColumn::Channel, "channel"),
        (ProxyColumn::Peer, "peer"),
    ];

    /// Its columns: a rank comes with the rank in the job.
    fn columns(self) -> &'static [&'static str] {
        match self {
            ProxyColumn::Op => &["op"],
            ProxyColumn::CommId => &["comm_id"],
            ProxyColumn::Rank => &["rank", "global_rank"],
            ProxyColumn::Channel => &["channel"],
            ProxyColumn::Peer => &["peer"],
        }
    }

    fn cells_of_key(self, key: &ProxyKey) -> Vec<TableCell<'static>> {
        match self {
            ProxyColumn::Op => vec![op_name_cell(&key.op)],
            ProxyColumn::CommId => vec![comm_id_cell(key.comm)],
            ProxyColumn::Rank => vec![key.rank.into(), job_rank_cell(key.global_rank)],
            ProxyColumn::Channel => vec![key.channel.into()],
            ProxyColumn::Peer => vec![key.peer.into()],
        }
    }
}

fn op_name_cell(op: &[u8]) -> TableCell<'static> {
    match op {
        b"" => TableCell::Empty,
        op => op.to_vec().into(),
    }
}

fn job_rank_cell(rank: Option<u32>) -> TableCell<'static> {
    rank.map(u64::from).into()
}

fn comm_id_cell(comm: Option<u64>) -> TableCell<'static> {
    comm.map(|id| format!("{id:#x}")).into()
}

/// The choice of rows.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The columns of the key.
    pub by: Vec<ProxyColumn>,
}

/// The direction's name.
pub(super) fn direction_name(side: TransferSide) -> &'static str {
    match side {
        TransferSide::Send => "send",
        TransferSide::Recv => "recv",
    }
}

/// Converts ns to us.
pub(super) fn ns_to_us(ns: u128) -> f64 {
    ns as f64 / 1e3
}

/// Returns the sums by the columns of `options` and the direction.
pub fn proxy_sums_grid(found: &ProxyOperations, options: &Options) -> Grid {
    let names = options.by.iter().flat_map(|by| by.columns()).copied();
    let own = [
        "side",
        "ops",
        "incomplete",
        "steps",
        "steps_seen",
        "bytes",
        "queue_us",
        "progress_us",
        "mean_us",
        "max_us",
        "buffer_us",
        "gpu_us",
        "peer_us",
        "net_us",
        "flush_us",
        "most",
        "share",
    ];
    let bare = |key: &ProxyKey| {
        let has = |by| options.by.contains(&by);
        ProxyKey {
            op: if has(ProxyColumn::Op) {
                key.op.clone()
            } else {
                Box::default()
            },
            side: key.side,
            comm: key.comm.filter(|_| has(ProxyColumn::CommId)),
            rank: key.rank.filter(|_| has(ProxyColumn::Rank)),
            global_rank: key.global_rank.filter(|_| has(ProxyColumn::Rank)),
            channel: if has(ProxyColumn::Channel) {
                key.channel
            } else {
                0
            },
            peer: if has(ProxyColumn::Peer) { key.peer } else { 0 },
            steps: 0,
        }
    };
    let mut all: BTreeMap<ProxyKey, ProxySums> = BTreeMap::new();
    for (key, sums) in &found.sums {
        all.entry(bare(key)).or_default().merge_sums(sums);
    }
    let row = |(key, sums): (&ProxyKey, &ProxySums)| {
        let timed = (sums.timed > 0).then_some(sums.timed);
        let most = sums.longest_wait();
        let wait = |wait: ProxyWait| match sums.waited[wait as usize] {
            0 => TableCell::Empty,
            _ => ns_to_us(sums.waits[wait as usize]).into(),
        };
        let by = options.by.iter();
        let mut cells: Vec<TableCell<'static>> = by.flat_map(|by| by.cells_of_key(key)).collect();
        cells.extend([
            direction_name(key.side).into(),
            sums.ops.into(),
            sums.incomplete.into(),
            sums.steps.into(),
            sums.seen.into(),
            (sums.sized == sums.ops).then_some(sums.bytes).into(),
            (sums.queued > 0).then(|| ns_to_us(sums.queued)).into(),
            timed.map(|_| ns_to_us(sums.busy)).into(),
            timed.map(|n| ns_to_us(sums.busy / u128::from(n))).into(),
            timed.map(|_| ns_to_us(sums.longest.into())).into(),
        ]);
        cells.extend(ProxyWait::ALL.map(wait));
        cells.push(most.map(|(wait, _)| wait.name()).into());
        cells.push(most.map_or(TableCell::Empty, |(_, share)| TableCell::Share(share)));
        cells
    };
    Grid {
        columns: names.chain(own).map(str::to_owned).collect(),
        rows: all.iter().map(row).collect(),
    }
}

/// Describes the progress of an operation in the trace.
pub(super) fn op_phase(op: &ProxyOp) -> &'static str {
    if let Some(phases) = op.phases {
        return step_phase(op.side, phases);
    }
    match (op.begin, op.last) {
        (None, _) => "scheduled, not taken up by the proxy thread",
        (_, Some(wait)) => match (op.side, wait) {
            (_, ProxyWait::Buffer) => "waits for the buffer",
            (TransferSide::Send, ProxyWait::Gpu) => "waits for the GPU's data",
            (TransferSide::Recv, ProxyWait::Gpu) => "waits for the GPU to take the data",
            (_, ProxyWait::Peer) => "waits for the receiver",
            (TransferSide::Send, ProxyWait::Net) => "waits for the network",
            (TransferSide::Recv, ProxyWait::Net) => "waits for data",
            (_, ProxyWait::Flush) => "waits for the flush into the GPU",
        },
        (Some(_), None) => "taken up, no step seen",
    }
}

/// Describes what the first step that is behind waits for. The steps pass the counters from left to right.
fn step_phase(side: TransferSide, of: ProxyPhases) -> &'static str {
    let waits = [
        of.ready < of.posted,
        of.transmitted < of.ready,
        of.done < of.transmitted,
    ];
    match (side, waits) {
        _ if of.posted == 0 => "nothing posted",
        (TransferSide::Send, [true, ..]) => "posted, waits for the GPU's data",
        (TransferSide::Send, [_, true, _]) => "data is ready, the receiver has no room",
        (TransferSide::Send, [.., true]) => "waits for the network",
        (TransferSide::Recv, [true, ..]) => "posted, waits for data",
        (TransferSide::Recv, [_, true, _]) => "received, waits for the flush into the GPU",
        (TransferSide::Recv, [.., true]) => "waits for the GPU to take the data",
        (_, [false, false, false]) => "the next step is not posted",
    }
}

/// Returns the operations that did not end.
pub fn incomplete_ops_grid(found: &ProxyOperations) -> Grid {
    let columns = [
        "op",
        "comm_id",
        "rank",
        "seq",
        "channel",
        "peer",
        "side",
        "steps",
        "steps_seen",
        "posted",
        "ready",
        "transmitted",
        "done",
        "phase",
        "global_rank",
    ];
    let row = |op: &ProxyOp| {
        let of = op.phases;
        vec![
            op_name_cell(&op.op),
            comm_id_cell(op.comm),
            op.rank.into(),
            op.seq.into(),
            op.channel.into(),
            op.peer.into(),
            direction_name(op.side).into(),
            op.steps.into(),
            op.steps_seen().into(),
            of.map(|of| of.posted).into(),
            of.map(|of| of.ready).into(),
            of.map(|of| of.transmitted).into(),
            of.map(|of| of.done).into(),
            op_phase(op).into(),
            job_rank_cell(found.job_rank_of(op.comm, op.rank)),
        ]
    };
    Grid {
        columns: columns.map(str::to_owned).to_vec(),
        rows: found.open.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_show_what_the_steps_wait_for() {
        let phase = |side, [posted, ready, transmitted, done]: [u64; 4]| {
            let of = ProxyPhases {
                posted,
                ready,
                transmitted,
                done,
            };
            step_phase(side, of)
        };
        let states = [
            ([0, 0, 0, 0], "nothing posted", "nothing posted"),
            (
                [14, 9, 9, 9],
                "posted, waits for the GPU's data",
                "posted, waits for data",
            ),
            (
                [14, 14, 9, 7],
                "data is ready, the receiver has no room",
                "received, waits for the flush into the GPU",
            ),
            (
                [14, 14, 14, 9],
                "waits for the network",
                "waits for the GPU to take the data",
            ),
            (
                [9, 9, 9, 9],
                "the next step is not posted",
                "the next step is not posted",
            ),
        ];
        for (counters, send, recv) in states {
            assert_eq!(phase(TransferSide::Send, counters), send);
            assert_eq!(phase(TransferSide::Recv, counters), recv);
        }
    }
}
