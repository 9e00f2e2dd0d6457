//! The calls of a dump as rows of the call table.

use super::dump::FlightDump;
use super::entry::FlightOp;
use super::entry::{CallTensors, DumpEntry, FlightCallState};
use super::ops;
use crate::error::Result;
use crate::formats::ordered::RowTaker;
use crate::grammar::values::Datatype;
use crate::output::table::{Row, Timing};
use crate::report::account::LineClass;
use rustc_hash::FxHashMap;

/// The clock of `start_ns`: the host's, in ns since 1970.
const DUMP_CLOCK: &[u8] = b"unix";

/// Finds the rank of the process, from the dump or else from the end of its file's name.
pub(super) fn find_rank(dump: &FlightDump, name: &str) -> Option<u32> {
    let by_peer = dump.entries.iter().find_map(|entry| {
        let (FlightOp::Send { from: own, .. } | FlightOp::Recv { to: own, .. }) = entry.op else {
            return None;
        };
        entry.group.ranks.get(own as usize).copied()
    });
    let mut known = dump.groups.iter().map(|group| &group.ranks);
    let first = known.next().cloned().unwrap_or_default();
    let others: Vec<_> = known.collect();
    let mut shared = first
        .iter()
        .filter(|rank| others.iter().all(|ranks| ranks.contains(rank)));
    let alone = match (shared.next(), shared.next()) {
        (Some(rank), None) => Some(*rank),
        _ => None,
    };
    let of_name = || {
        let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
        let ends = [".gz", ".zst", ".pkl", ".pickle", ".json"];
        let bare = |name| ends.iter().find_map(|end| str::strip_suffix(name, end));
        let mut stem = file;
        while let Some(rest) = bare(stem) {
            stem = rest;
        }
        let digits = stem.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let rank: u32 = stem.get(digits..)?.parse().ok()?;
        let fits = dump.groups.iter().all(|group| group.ranks.contains(&rank));
        fits.then_some(rank)
    };
    by_peer.or(alone).or_else(of_name)
}

/// Hands over the rows of all calls.
pub(super) fn emit_rows(dump: &FlightDump, taking: &mut RowTaker<'_>) -> Result<()> {
    let mut seqs = FlightSequences::from_dump(dump);
    for entry in &dump.entries {
        let Some(name) = entry.op_name() else {
            taking.count_line(match entry.op {
                FlightOp::Foreign => LineClass::Foreign,
                _ => LineClass::Other,
            });
            continue;
        };
        let ranks = &entry.group.ranks;
        let place = |rank: u32| ranks.iter().position(|&r| r == rank);
        let own = dump
            .rank
            .and_then(place)
            .and_then(|at| u32::try_from(at).ok());
        let nranks = u32::try_from(ranks.len()).ok().filter(|&n| n > 0);
        let (rank, root) = match entry.op {
            FlightOp::Send { from, to } => (Some(from), Some(i64::from(to))),
            FlightOp::Recv { to, from } => (Some(to), Some(i64::from(from))),
            _ => (own, None),
        };
        let quality = describe_quality(entry);
        let timing = Timing {
            start_ns: entry.created_ns,
            dur_ns: entry.duration_ns,
            clock: DUMP_CLOCK,
            quality: quality.as_bytes(),
            pg_name: entry.group.name.as_bytes(),
            pg_desc: entry.group.desc.as_bytes(),
            ..Timing::default()
        };
        taking.count_line(LineClass::Call);
        for call in split_calls(entry, name, nranks) {
            taking.take_row(&Row {
                rank,
                nranks,
                global_rank: dump.rank,
                seq: seqs.next_number(entry),
                op: name.as_bytes(),
                count: Some(call.count),
                datatype: call.datatype,
                root,
                calls: 1,
                src: super::PICKLE.name.as_bytes(),
                timing: Some(&timing),
                ..Row::default()
            })?;
        }
    }
    Ok(())
}

impl DumpEntry {
    /// Returns NCCL's name of the operation, or PyTorch's if it is unknown; `None` if the record is no
    /// call of NCCL.
    pub fn op_name(&self) -> Option<&str> {
        match self.op {
            FlightOp::Collective(name) => Some(name),
            FlightOp::Send { .. } => Some("Send"),
            FlightOp::Recv { .. } => Some("Recv"),
            FlightOp::Unknown => Some(self.name.strip_prefix("nccl:").unwrap_or(&self.name)),
            FlightOp::Coalesced | FlightOp::Foreign => None,
        }
    }
}

/// Describes where a call's times come from.
fn describe_quality(entry: &DumpEntry) -> String {
    let state = entry.reached_state().name();
    let group = match entry.coalesced {
        Some(_) => " with its group",
        None => "",
    };
    // The split sizes of one tensor are not recorded.
    let parts = match (entry.op_name(), entry.inputs.shapes.len()) {
        (Some("AlltoAll"), 1) => ", counted as equal parts",
        _ => "",
    };
    let timed = match (entry.is_retired, entry.reached_state(), entry.duration_ns) {
        (true, FlightCallState::Scheduled | FlightCallState::Started, _) => ", timed out",
        (.., Some(_)) => ", duration by CUDA events",
        _ => "",
    };
    format!("{state}{group}{timed}{parts}, start is when it was enqueued")
}

/// The arguments of one call of NCCL.
struct FlightCallArgs {
    count: u64,
    datatype: Option<Datatype>,
}

/// Splits a record into calls of NCCL: a coalesced one into a call for each tensor. The count is
/// NCCL's argument; if that is unknown, the tensor's, without a type, so that no bytes are counted.
fn split_calls(entry: &DumpEntry, name: &str, nranks: Option<u32>) -> Vec<FlightCallArgs> {
    let whole = |tensors: &CallTensors, at: usize| {
        let count = tensors.element_counts().nth(at).flatten();
        let datatype = tensors
            .types
            .get(at)
            .and_then(|name| ops::find_datatype(name));
        FlightCallArgs {
            count: count.unwrap_or(0),
            datatype: datatype.filter(|_| count.is_some()),
        }
    };
    let each = |tensors: &CallTensors| -> Vec<FlightCallArgs> {
        (0..tensors.shapes.len().max(1))
            .map(|at| whole(tensors, at))
            .collect()
    };
    let is_coalesced = entry.name.ends_with("_coalesced");
    match name {
        "ReduceScatter" if is_coalesced => each(&entry.outputs),
        _ if is_coalesced => each(&entry.inputs),
        // NCCL's count is what a rank receives.
        "ReduceScatter" | "Scatter" => vec![whole(&entry.outputs, 0)],
        "AlltoAll" => {
            let one = whole(&entry.inputs, 0);
            let total = entry
                .inputs
                .element_counts()
                .try_fold(0_u64, |n, of| n.checked_add(of?));
            // NCCL has no single count for parts of different sizes.
            let mut counts = entry.inputs.element_counts();
            let part = match (total, nranks.map(u64::from), entry.inputs.shapes.len()) {
                (Some(total), Some(n), 1) if total % n == 0 => Some(total / n),
                (.., 2..) => Some(one.count).filter(|&n| counts.all(|of| of == Some(n))),
                _ => None,
            };
            vec![FlightCallArgs {
                count: part.or(total).unwrap_or(0),
                datatype: one.datatype.filter(|_| part.is_some()),
            }]
        }
        _ => vec![whole(&entry.inputs, 0)],
    }
}

/// Numbers calls as the call table does: a group's collectives, and sends and receives by peer.
struct FlightSequences {
    /// The recorder has every call since the process began.
    is_all: bool,
    next: FxHashMap<(u64, Option<FlightOp>), u64>,
}

impl FlightSequences {
    fn from_dump(dump: &FlightDump) -> FlightSequences {
        let mut ids = dump.entries.iter().map(|entry| entry.record_id);
        FlightSequences {
            is_all: dump.damaged == 0 && (0..).zip(&mut ids).all(|(n, id)| n == id),
            next: FxHashMap::default(),
        }
    }

    fn next_number(&mut self, entry: &DumpEntry) -> Option<u64> {
        let peer = match &entry.op {
            op @ (FlightOp::Send { .. } | FlightOp::Recv { .. }) => Some(op.clone()),
            _ => None,
        };
        if !self.is_all {
            // Only PyTorch's own number is known.
            return match peer {
                Some(_) => None,
                None => entry.collective_seq.checked_sub(1),
            };
        }
        let next = self.next.entry((entry.pg_id, peer)).or_default();
        *next += 1;
        Some(*next - 1)
    }
}
