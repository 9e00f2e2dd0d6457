//! Columns of a group that many calls leave empty, and what would fill them.

use super::GroupBy;
use crate::count::caller::Caller;
use crate::count::calls::CountedCalls;
use crate::count::cells::CountedStep;
use crate::count::limits::MIN_UNKNOWN_ONE_IN;
use crate::count::tally::CallKey;
use crate::grammar::values::Datatype;
use crate::report::Report;

/// Notes the columns of `by` that are empty for a tenth of the calls or more.
pub fn note_unknown_columns(calls: &CountedCalls, by: &[GroupBy], report: &Report) {
    for &by in by {
        let Some((unknown, all)) = count_unknown(calls, by) else {
            continue;
        };
        if unknown.saturating_mul(MIN_UNKNOWN_ONE_IN) < all {
            continue;
        }
        let column = match by {
            GroupBy::Comm => "comm",
            by => by.columns()[0],
        };
        let why = match by {
            GroupBy::Step if !calls.has_steps => {
                "no step lines were found (name the trainer with --trainer, or describe its lines \
                 with --step-regex)"
            }
            GroupBy::Step => "these belong to no step",
            GroupBy::Rank | GroupBy::GlobalRank => {
                "ranks come from NCCL's INIT lines (NCCL_DEBUG_SUBSYS=INIT,COLL; nccl-steps writes \
                 them under --keep-init)"
            }
            GroupBy::CommId => {
                "ids come from NCCL's INIT lines (NCCL_DEBUG_SUBSYS=INIT,COLL; nccl-steps writes \
                 them under --keep-init), from NCCL 2.18 on"
            }
            GroupBy::Algo | GroupBy::Proto => {
                "it comes from a log's TUNING lines (nccl-comms --tuning) or from records that tell it"
            }
            GroupBy::Comm | GroupBy::Host | GroupBy::Datatype => "the input does not report it",
        };
        report.note(&format!(
            "{column} is unknown for {unknown} of {all} calls: {why}"
        ));
    }
}

/// How many calls leave a column empty, of how many; `None` if none does.
fn count_unknown(calls: &CountedCalls, by: GroupBy) -> Option<(u64, u64)> {
    let nobody = Caller::default();
    let lacks = |key: &CallKey| {
        let who = calls.who.get(key.member as usize).unwrap_or(&nobody);
        match by {
            GroupBy::Step => false,
            GroupBy::Comm => who.comm.is_none(),
            GroupBy::CommId => who.comm_id.is_none(),
            GroupBy::Rank => who.rank.is_none(),
            GroupBy::GlobalRank => who.global_rank.is_none(),
            GroupBy::Host => who.host.is_empty(),
            GroupBy::Datatype => Datatype::from_code(key.datatype).is_none(),
            GroupBy::Algo => who.recorded.algo.is_empty(),
            GroupBy::Proto => who.recorded.proto.is_empty(),
        }
    };
    let lacking: Vec<bool> = calls.cells.keys().iter().map(lacks).collect();
    let given = calls.given.iter();
    let given = given.map(|(key, value)| (lacks(key), value.calls));
    let no_step = |step: CountedStep| by == GroupBy::Step && step.is_none();
    // Mostly there is none, and the cells, which may be millions, are not read.
    let is_given = given.clone().any(|(lacks, _)| lacks);
    if !is_given
        && !lacking.contains(&true)
        && !calls.cells.iter_steps().any(|(step, _)| no_step(step))
    {
        return None;
    }
    let (mut unknown, mut all) = (0_u64, 0_u64);
    for (lacks, calls) in given {
        all = all.saturating_add(calls);
        unknown = unknown.saturating_add(if lacks { calls } else { 0 });
    }
    for (at, (step, _)) in calls.cells.iter_steps().enumerate() {
        calls.cells.each_count(at, |key, value| {
            all = all.saturating_add(value.calls);
            if lacking[key as usize] || no_step(step) {
                unknown = unknown.saturating_add(value.calls);
            }
        });
    }
    Some((unknown, all))
}
