//! Dumps of PyTorch's flight recorder: when each rank enqueued its last collectives.
//!
//! They name process groups and no communicators, and neither hosts nor processes. A group is the same on
//! all its ranks by its name and members, and its calls by PyTorch's number.

use super::{Options, SkewBuilder};
use crate::error::Result;
use crate::formats::flight::{self, FlightGroup, FlightOp};
use crate::members::comm_id::CommId;
use crate::output::table::{Row, Timing};
use crate::report::Report;
use crate::source::Input;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};

/// Adds the calls of a dump.
///
/// # Errors
/// It cannot be read, or is none.
pub(super) fn add_dump_calls(
    taken: &mut SkewBuilder,
    input: &Input,
    options: &Options,
    report: &Report,
) -> Result<()> {
    let (dump, cut) = flight::load_dump(input)?;
    if let Some(cut) = cut {
        report.warn(&format!(
            "{}: the dump is cut at {}",
            input.name(),
            cut.place
        ));
    }
    let Some(own) = dump.rank else {
        report.warn(&format!("{}: the rank is unknown", input.name()));
        return Ok(());
    };
    // Calls that are coalesced are one.
    let mut last: FxHashMap<CommId, u64> = FxHashMap::default();
    for entry in &dump.entries {
        let FlightOp::Collective(name) = entry.op else {
            continue;
        };
        let (id, seq) = (group_comm_id(&entry.group), entry.collective_seq);
        if last.insert(id, seq) == Some(seq) {
            continue;
        }
        let ranks = &entry.group.ranks;
        let at = ranks.iter().position(|&rank| rank == own);
        let small = |n: usize| u32::try_from(n).ok();
        let timing = Timing {
            start_ns: entry.created_ns,
            dur_ns: entry.duration_ns,
            ..Timing::default()
        };
        let row = Row {
            // The rank in the job stands for the process.
            pid: Some(own.into()),
            rank: at.and_then(small),
            nranks: small(ranks.len()),
            comm_id: Some(id),
            seq: Some(seq),
            op: name.as_bytes(),
            calls: 1,
            timing: Some(&timing),
            ..Row::default()
        };
        taken.add_row(&row, options);
    }
    taken.is_of_dumps = true;
    Ok(())
}

/// What stands for a group's communicator.
fn group_comm_id(group: &FlightGroup) -> CommId {
    let mut hasher = FxHasher::default();
    (&group.name, &group.ranks).hash(&mut hasher);
    CommId::from_printed(hasher.finish())
}
