//! Where the ranks stopped: the last call of each process.

use super::mismatch::{self, CallDetails};
use super::names;
use crate::stages::check::finding::{Confidence, Evidence, Finding, Kind};
use crate::stages::check::streams::stream_owners::StreamOwner;
use crate::stages::check::streams::wanted_streams::CallDetail;
use crate::stages::check::streams::{CallStreams, ProcessComm};
use crate::stages::check::wording::{list_names, number_and_noun};
use crate::stages::communicators::CommunicatorsSummary;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The last call of a process.
#[derive(Clone, Copy)]
pub(crate) struct LastCall<'d> {
    pub(crate) communicator: usize,
    /// The process's rank there.
    pub(crate) rank: Option<u32>,
    pub(crate) call: &'d CallDetail,
}

/// Each process's last call.
pub(crate) type LastCallByProcess<'d> = BTreeMap<u32, LastCall<'d>>;

/// The last call of each process.
pub(super) fn find_last_calls<'d>(
    details: &'d CallDetails,
    streams: &CallStreams,
    whose: &FxHashMap<ProcessComm, StreamOwner>,
) -> LastCallByProcess<'d> {
    let mut last = LastCallByProcess::new();
    for ((number, way), &stream) in &streams.at {
        let caller = *streams.callers.get(*number);
        let made = streams.calls_until_hang(stream);
        let calls = details.get(&(caller, *way)).into_iter().flatten();
        let Some(call) = calls.rev().find(|call| call.seq < made) else {
            continue;
        };
        let Some(whose) = whose.get(&caller) else {
            continue;
        };
        let this = LastCall {
            communicator: whose.communicator,
            rank: whose.rank,
            call,
        };
        let known = last.entry(whose.process).or_insert(this);
        if (known.call.input, known.call.line.at) < (call.input, call.line.at) {
            *known = this;
        }
    }
    last
}

/// Returns the one process of a job with another last call than all others, which made the same one.
pub(super) fn find_odd_process(
    last: &LastCallByProcess<'_>,
    found: &CommunicatorsSummary,
    is_of_job: impl Fn(u32) -> bool,
) -> Option<u32> {
    let mut kinds: BTreeMap<(String, i64, Option<u32>), Vec<u32>> = BTreeMap::new();
    for (&process, last) in last.iter().filter(|(p, _)| is_of_job(**p)) {
        let nranks = found.communicators[last.communicator].nranks;
        let call = names::describe_call(last.call);
        let kind = (call, last.call.line.root, nranks);
        kinds.entry(kind).or_default().push(process);
    }
    let mut kinds: Vec<Vec<u32>> = kinds.into_values().collect();
    kinds.sort_by_key(Vec::len);
    match &kinds[..] {
        [one, others] if one.len() == 1 && others.len() > 1 => one.first().copied(),
        _ => None,
    }
}

/// Where the job stopped: every rank's last call, equal ones together.
pub(super) fn list_last_calls(
    last: &LastCallByProcess<'_>,
    found: &CommunicatorsSummary,
) -> Option<Finding> {
    let mut groups: BTreeMap<(String, &str), Vec<&CallDetail>> = BTreeMap::new();
    for last in last.values() {
        let label = found.communicators[last.communicator].label.of.name();
        let same = groups.entry((names::describe_call(last.call), label));
        same.or_default().push(last.call);
    }
    if groups.len() < 2 {
        return None;
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, group)| Reverse(group.len()));
    let told: Vec<String> = groups
        .iter()
        .map(|((call, label), group)| {
            let on = match *label {
                "unknown" => String::new(),
                label => format!(" on a {label} communicator"),
            };
            format!(
                "{}: {call}{on}",
                number_and_noun(group.len() as u64, "rank")
            )
        })
        .collect();
    let evidence: Vec<Evidence> = groups
        .iter()
        .take(4)
        .filter_map(|(_, group)| Some(mismatch::show_call(group.first()?)))
        .collect();
    let says = format!("the ranks' last calls: {}", list_names(&told));
    Some(Finding {
        evidence,
        ..Finding::of_kind(Kind::LastCalls, Confidence::High, says)
    })
}
