//! The tables: sums by whatever is asked for, and the operations that did not end.

use super::{Found, Key, Sums};
use crate::formats::profiler::{Op, Side, Wait};
use crate::output::render::{Cell, Grid};
use std::collections::BTreeMap;

/// A column that tells rows apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
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

impl By {
    /// All, by the name of the column.
    pub const ALL: [(By, &str); 5] = [
        (By::Op, "op"),
        (By::CommId, "comm_id"),
        (By::Rank, "rank"),
        (By::Channel, "channel"),
        (By::Peer, "peer"),
    ];

    fn cell(self, key: &Key) -> Cell<'static> {
        match self {
            By::Op => name(&key.op),
            By::CommId => id(key.comm),
            By::Rank => key.rank.into(),
            By::Channel => key.channel.into(),
            By::Peer => key.peer.into(),
        }
    }
}

fn name(op: &[u8]) -> Cell<'static> {
    match op {
        b"" => Cell::Empty,
        op => op.to_vec().into(),
    }
}

fn id(comm: Option<u64>) -> Cell<'static> {
    comm.map(|id| format!("{id:#x}")).into()
}

/// Which rows.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The columns in front.
    pub by: Vec<By>,
}

/// The direction's name.
pub(super) fn side(side: Side) -> &'static str {
    match side {
        Side::Send => "send",
        Side::Recv => "recv",
    }
}

/// ns in us.
pub(super) fn us(ns: u128) -> f64 {
    ns as f64 / 1e3
}

/// The sums, by the columns of `options` and the direction.
pub fn grid(found: &Found, options: &Options) -> Grid {
    let names = options.by.iter().filter_map(|by| {
        let known = By::ALL.iter().find(|(known, _)| known == by);
        known.map(|(_, name)| *name)
    });
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
    let bare = |key: &Key| {
        let has = |by| options.by.contains(&by);
        Key {
            op: if has(By::Op) {
                key.op.clone()
            } else {
                Box::default()
            },
            side: key.side,
            comm: key.comm.filter(|_| has(By::CommId)),
            rank: key.rank.filter(|_| has(By::Rank)),
            channel: if has(By::Channel) { key.channel } else { 0 },
            peer: if has(By::Peer) { key.peer } else { 0 },
            steps: 0,
        }
    };
    let mut all: BTreeMap<Key, Sums> = BTreeMap::new();
    for (key, sums) in &found.sums {
        all.entry(bare(key)).or_default().merge(sums);
    }
    let row = |(key, sums): (&Key, &Sums)| {
        let timed = (sums.timed > 0).then_some(sums.timed);
        let most = sums.most();
        let wait = |wait: Wait| match sums.waited[wait as usize] {
            0 => Cell::Empty,
            _ => us(sums.waits[wait as usize]).into(),
        };
        let mut cells: Vec<Cell<'static>> = options.by.iter().map(|by| by.cell(key)).collect();
        cells.extend([
            side(key.side).into(),
            sums.ops.into(),
            sums.incomplete.into(),
            sums.steps.into(),
            sums.seen.into(),
            (sums.sized == sums.ops).then_some(sums.bytes).into(),
            (sums.queued > 0).then(|| us(sums.queued)).into(),
            timed.map(|_| us(sums.busy)).into(),
            timed.map(|n| us(sums.busy / u128::from(n))).into(),
            timed.map(|_| us(sums.longest.into())).into(),
        ]);
        cells.extend(Wait::ALL.map(wait));
        cells.push(most.map(|(wait, _)| wait.name()).into());
        cells.push(most.map_or(Cell::Empty, |(_, share)| Cell::Share(share)));
        cells
    };
    Grid {
        columns: names.chain(own).map(str::to_owned).collect(),
        rows: all.iter().map(row).collect(),
    }
}

/// How far an operation came, as far as the trace shows.
pub(super) fn phase(op: &Op) -> &'static str {
    match (op.phases, op.begin, op.last) {
        (Some(of), ..) if of.posted == 0 => "nothing posted",
        (Some(of), ..) if of.ready < of.posted && op.side == Side::Send => {
            "posted, the receiver has no room"
        }
        (Some(of), ..) if of.ready < of.posted => "posted, nothing received",
        (Some(of), ..) if of.transmitted < of.ready => "waits for the network",
        (Some(of), ..) if of.done < of.transmitted => "transmitted, not done",
        (_, None, _) => "scheduled, not taken up by the proxy thread",
        (_, _, Some(wait)) => match (op.side, wait) {
            (_, Wait::Buffer) => "waits for the buffer",
            (Side::Send, Wait::Gpu) => "waits for the GPU's data",
            (Side::Recv, Wait::Gpu) => "waits for the GPU to take the data",
            (_, Wait::Peer) => "waits for the receiver",
            (Side::Send, Wait::Net) => "waits for the network",
            (Side::Recv, Wait::Net) => "waits for data",
            (_, Wait::Flush) => "waits for the flush into the GPU",
        },
        (_, Some(_), None) => "taken up, no step seen",
    }
}

/// The operations that did not end.
pub fn incomplete(found: &Found) -> Grid {
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
    ];
    let row = |op: &Op| {
        let of = op.phases;
        vec![
            name(&op.op),
            id(op.comm),
            op.rank.into(),
            op.seq.into(),
            op.channel.into(),
            op.peer.into(),
            side(op.side).into(),
            op.steps.into(),
            op.seen().into(),
            of.map(|of| of.posted).into(),
            of.map(|of| of.ready).into(),
            of.map(|of| of.transmitted).into(),
            of.map(|of| of.done).into(),
            phase(op).into(),
        ]
    };
    Grid {
        columns: columns.map(str::to_owned).to_vec(),
        rows: found.open.iter().map(row).collect(),
    }
}
