//! Dumps of PyTorch's flight recorder: the times at which each rank enqueued its last collectives.
//!
//! They name process groups, but no communicators, hosts or processes. Name and members identify a group, and
//! PyTorch's number identifies its calls.

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
/// The dump cannot be read, or the file is not a dump.
pub(super) fn add_dump_calls(
    taken: &mut SkewBuilder,
    input: &Input,
    options: &Options,
    report: &mut Report,
) -> Result<()> {
    let (dump, cut) = flight::load_dump(input)?;
    if let Some(cut) = cut {
        report.warn_damaged(&format!(
            "{}: the dump is cut at {}",
            input.name(),
            cut.place
        ));
    }
    let Some(own) = dump.rank else {
        report.warn(&format!("{}: the rank is unknown", input.name()));
        return Ok(());
    };
    // Coalesced calls share a number, and count once.
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
            // The rank in the job is used as the process number.
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
        if options.filter.does_pass(&row) {
            taken.add_row(&row, options);
        }
    }
    taken.is_of_dumps = true;
    Ok(())
}

/// Returns an id for a group's communicator.
fn group_comm_id(group: &FlightGroup) -> CommId {
    let mut hasher = FxHasher::default();
    (&group.name, &group.ranks).hash(&mut hasher);
    CommId::from_printed(hasher.finish())
}
