//! Finds NCCL's call for PyTorch's call that timed out. PyTorch's watchdog numbers works of a process group, NCCL
//! prints calls of a communicator; operation and elements join them.

use super::{TimedOutCall, WatchdogMessage, WatchdogRecord};
use crate::stages::check::finding::{About, Confidence, Finding, Kind};
use crate::stages::check::ranks::difference_context::DifferenceContext;
use crate::stages::check::ranks::mismatch::show_call;
use crate::stages::check::ranks::names::RankNames;
use crate::stages::check::streams::ProcessComm;
use crate::stages::check::streams::wanted_streams::CallDetail;
use crate::stages::check::wording::{list_names, quote_text};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) use super::limits::CALLS_BEFORE_HANG;

/// NCCL's operation for PyTorch's, and its elements, if all members give equally many.
pub(super) fn nccl_op_and_count(timeout: &TimedOutCall) -> Option<(&'static [u8], u64)> {
    let (name, count): (&[u8], _) = match &timeout.op[..] {
        b"ALLREDUCE" | b"_ALLREDUCE_SPARSE" => (b"AllReduce", timeout.numel_in),
        b"BROADCAST" | b"_BROADCAST_OOP" => (b"Broadcast", timeout.numel_in),
        b"REDUCE" | b"_REDUCE_OOP" => (b"Reduce", timeout.numel_in),
        b"ALLGATHER" | b"_ALLGATHER_BASE" => (b"AllGather", timeout.numel_in),
        b"REDUCE_SCATTER" | b"_REDUCE_SCATTER_BASE" => (b"ReduceScatter", timeout.numel_out),
        b"SEND" => (b"Send", timeout.numel_in),
        b"RECV" => (b"Recv", timeout.numel_out),
        _ => return None,
    };
    Some((name, count?))
}

/// A call that both print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TimedOutCallKey<'a> {
    /// PyTorch's number and operation.
    number: u64,
    op: &'a [u8],
    /// NCCL's communicator and number.
    communicator: usize,
    seq: u64,
}

/// A line of the watchdog, its call, and the call's caller.
type TimedOutCallMatch<'a> = (&'a WatchdogRecord, &'a CallDetail, ProcessComm);

impl DifferenceContext<'_> {
    /// Makes a finding for each work that timed out: the call, and the ranks that made it.
    pub(crate) fn find_timed_out_nccl_calls(&self) -> Vec<Finding> {
        let (whose, made) = (self.whose, self.count_collectives());
        let mut calls_of: FxHashMap<u32, Vec<_>> = FxHashMap::default();
        for (key, calls) in self.details {
            if let Some(whose) = whose.get(&key.0) {
                let own = calls_of.entry(whose.process).or_default();
                own.push((key, calls));
            }
        }
        let mut joined: BTreeMap<TimedOutCallKey<'_>, Vec<TimedOutCallMatch<'_>>> = BTreeMap::new();
        for record in self.watched {
            let WatchdogMessage::Timeout(timeout) = &record.what else {
                continue;
            };
            let process = record.known_rank();
            let process = process.and_then(|rank| self.ranks.process_of_rank(rank, record.at));
            let call = nccl_op_and_count(timeout).zip(timeout.seq);
            let Some((process, ((op, count), number))) = process.zip(call) else {
                continue;
            };
            let fits = |call: &&CallDetail| *call.op == *op && call.line.count == count;
            // PyTorch counts from 1. Some of its works are no calls: the nearest number is meant.
            let own = calls_of.get(&process).into_iter().flatten();
            let those = own.flat_map(|((caller, way), calls)| {
                let calls = calls.iter().filter(fits);
                calls.map(move |call| (caller, way, call))
            });
            let near = those.min_by_key(|(caller, way, call)| {
                let off = (call.seq + 1).abs_diff(number);
                (off, whose.get(caller).map(|w| w.communicator), **way)
            });
            if let Some((caller, _, call)) = near
                && let Some(whose) = whose.get(caller)
            {
                let both = TimedOutCallKey {
                    number,
                    op: &timeout.op,
                    communicator: whose.communicator,
                    seq: call.seq,
                };
                joined
                    .entry(both)
                    .or_default()
                    .push((record, call, *caller));
            }
        }
        let mut members: FxHashMap<usize, Vec<(ProcessComm, Option<u32>)>> = FxHashMap::default();
        for (caller, whose) in whose {
            let those = members.entry(whose.communicator).or_default();
            those.push((*caller, whose.rank));
        }
        joined
            .into_iter()
            .filter_map(|(both, lines)| {
                nccl_call_finding(both, &lines, &made, &members, self.names)
            })
            .collect()
    }

    /// The processes that report a timeout, if others of their job report none: a rank that waits for a call has made
    /// it, and the others keep it waiting.
    pub(crate) fn list_waiting_processes(&self) -> BTreeSet<u32> {
        let ranks = self.ranks;
        let is_late = |w: &&WatchdogRecord| matches!(w.what, WatchdogMessage::Timeout(_));
        let late = self.watched.iter().filter(is_late);
        let named = late.filter_map(|w| ranks.process_of_rank(w.known_rank()?, w.at));
        let mut waiting: BTreeSet<u32> = named.collect();
        let jobs = ranks.jobs_with_others(|process| waiting.contains(&process));
        waiting.retain(|&process| jobs.contains(&ranks.job_of(process)));
        waiting
    }
}

fn nccl_call_finding(
    call_key: TimedOutCallKey<'_>,
    lines: &[TimedOutCallMatch<'_>],
    made: &FxHashMap<ProcessComm, u64>,
    members: &FxHashMap<usize, Vec<(ProcessComm, Option<u32>)>>,
    names: RankNames<'_>,
) -> Option<Finding> {
    let TimedOutCallKey {
        number,
        op,
        communicator,
        seq,
    } = call_key;
    let (record, call, _) = lines.first()?;
    // A rank that waits for the call has made it, perhaps after another rank's watchdog fired.
    let waits = |caller: &ProcessComm| lines.iter().any(|(_, _, waiting)| waiting == caller);
    let without: Vec<u32> = members[&communicator]
        .iter()
        .filter(|(caller, _)| made.get(caller).is_some_and(|&calls| calls <= seq))
        .filter(|(caller, _)| !waits(caller))
        .filter_map(|(_, rank)| *rank)
        .collect();
    let job_rank = |rank: &u32| {
        let mut sides = names.found.communicators[communicator].sides.iter();
        let side = sides.find(|&&side| names.found.sides[side].rank == Some(*rank))?;
        names.job_rank_of_side(*side)
    };
    let of_job: Option<Vec<u32>> = without.iter().map(job_rank).collect();
    let its = if of_job.is_some() { "" } else { "its " };
    let mut without = of_job.unwrap_or(without);
    without.sort_unstable();
    let ranks: Vec<String> = without.iter().map(u32::to_string).collect();
    let lacking = match ranks.len() {
        0 => "all members whose calls are known had made it".to_owned(),
        1 => format!("{its}rank {} had not made it", ranks[0]),
        _ => format!("{its}ranks {} had not made it", list_names(&ranks)),
    };
    let exact = seq + 1 == number;
    let sure = if exact {
        Confidence::High
    } else {
        Confidence::Medium
    };
    let says = format!(
        "PyTorch's call {number}, {}, is NCCL's call {seq} on communicator {}: {}; {lacking}",
        quote_text(op),
        names.describe_communicator(communicator),
        names.describe_call_on(call, communicator),
    );
    Some(Finding {
        about: About {
            comm_id: names.communicator_id(communicator),
            seq: Some(seq),
            ..About::default()
        },
        why: if exact {
            "operation, elements and number agree".to_owned()
        } else {
            "operation and elements agree; the number is the nearest one, since PyTorch also \
             counts works that are not calls of this communicator"
                .to_owned()
        },
        evidence: vec![show_call(call), record.to_evidence()],
        ..Finding::of_kind(Kind::WatchdogCall, sure, says)
    })
}
