//! Columns of a group that many calls leave empty, and what would fill them.

use super::By;
use crate::count::calls::Calls;
use crate::count::cells::Step;
use crate::count::tally::Key;
use crate::count::who::Who;
use crate::grammar::values::Datatype;
use crate::report::Report;

/// A column that fewer calls leave empty is not spoken of: some calls come before the INIT lines
/// that tell their rank, and some after the last step.
const SHARE: u64 = 10;

/// Notes the columns of `by` that are empty for a tenth of the calls or more.
pub fn note(calls: &Calls, by: &[By], report: &Report) {
    for &by in by {
        let Some((unknown, all)) = unknown(calls, by) else {
            continue;
        };
        if unknown.saturating_mul(SHARE) < all {
            continue;
        }
        let column = by.columns().last().copied().unwrap_or_default();
        let why = match by {
            By::Step if !calls.has_steps => {
                "no step lines were found (name the trainer with --trainer, or describe its lines \
                 with --step-regex)"
            }
            By::Step => "these belong to no step",
            By::Rank => {
                "ranks come from NCCL's INIT lines (NCCL_DEBUG_SUBSYS=INIT,COLL; nccl-steps writes \
                 them under --keep-init)"
            }
            By::CommId => {
                "ids come from NCCL's INIT lines (NCCL_DEBUG_SUBSYS=INIT,COLL; nccl-steps writes \
                 them under --keep-init), from NCCL 2.18 on"
            }
            By::Algo | By::Proto => {
                "it comes from a log's TUNING lines (nccl-comms --tuning) or from records that tell it"
            }
            By::Comm | By::Host | By::Datatype => "the input does not report it",
        };
        report.note(&format!(
            "{column} is unknown for {unknown} of {all} calls: {why}"
        ));
    }
}

/// How many calls leave a column empty, of how many; `None` if none does.
fn unknown(calls: &Calls, by: By) -> Option<(u64, u64)> {
    let nobody = Who::default();
    let lacks = |key: &Key| {
        let who = calls.who.get(key.member as usize).unwrap_or(&nobody);
        match by {
            By::Step => false,
            By::Comm => who.comm.is_none(),
            By::CommId => who.comm_id.is_none(),
            By::Rank => who.rank.is_none(),
            By::Host => who.host.is_empty(),
            By::Datatype => Datatype::from_code(key.datatype).is_none(),
            By::Algo => who.recorded.algo.is_empty(),
            By::Proto => who.recorded.proto.is_empty(),
        }
    };
    let lacking: Vec<bool> = calls.cells.keys().iter().map(lacks).collect();
    let given = calls.given.iter();
    let given = given.map(|(key, value)| (lacks(key), value.calls));
    let no_step = |step: Step| by == By::Step && step.is_none();
    // Mostly there is none, and the cells, which may be millions, need no look.
    let is_given = given.clone().any(|(lacks, _)| lacks);
    if !is_given && !lacking.contains(&true) && !calls.cells.steps().any(|(step, _)| no_step(step))
    {
        return None;
    }
    let (mut unknown, mut all) = (0_u64, 0_u64);
    for (lacks, calls) in given {
        all = all.saturating_add(calls);
        unknown = unknown.saturating_add(if lacks { calls } else { 0 });
    }
    for (at, (step, _)) in calls.cells.steps().enumerate() {
        calls.cells.each(at, |key, value| {
            all = all.saturating_add(value.calls);
            if lacking[key as usize] || no_step(step) {
                unknown = unknown.saturating_add(value.calls);
            }
        });
    }
    Some((unknown, all))
}
