//! Where the ranks stopped: the last call of each process.

use super::mismatch::{self, Details};
use super::names;
use crate::stages::check::finding::{About, Evidence, Finding, Severity, Sure};
use crate::stages::check::streams::compare::Whose;
use crate::stages::check::streams::reread::Detail;
use crate::stages::check::streams::{Caller, Streams};
use crate::stages::check::wording::{counted, listed};
use crate::stages::communicators::Found;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Each process's last call: its communicator, the process's rank there, the call.
pub(crate) type LastCalls<'d> = BTreeMap<u32, (usize, Option<u32>, &'d Detail)>;

/// The last call of each process.
pub(super) fn last_calls<'d>(
    details: &'d Details,
    streams: &Streams,
    whose: &FxHashMap<Caller, Whose>,
) -> LastCalls<'d> {
    let mut last = LastCalls::new();
    for ((number, way), &stream) in &streams.at {
        let caller = *streams.callers.get(*number);
        let made = streams.calls(stream);
        let calls = details.get(&(caller, *way)).into_iter().flatten();
        let Some(call) = calls.rev().find(|call| call.seq < made) else {
            continue;
        };
        let Some(whose) = whose.get(&caller) else {
            continue;
        };
        let this = (whose.communicator, whose.rank, call);
        let known = last.entry(whose.process).or_insert(this);
        if (known.2.input, known.2.at) < (call.input, call.at) {
            *known = this;
        }
    }
    last
}

/// The one process of a job whose last call is of another kind than that of all others, who made the same.
pub(super) fn odd_one(
    last: &LastCalls<'_>,
    found: &Found,
    is_of_job: impl Fn(u32) -> bool,
) -> Option<u32> {
    let mut kinds: BTreeMap<(String, Option<u32>), Vec<u32>> = BTreeMap::new();
    for (&process, (communicator, _, call)) in last.iter().filter(|(p, _)| is_of_job(**p)) {
        let kind = (names::call(call), found.communicators[*communicator].nranks);
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
pub(super) fn finding(last: &LastCalls<'_>, found: &Found) -> Option<Finding> {
    type Group<'a> = Vec<&'a (usize, Option<u32>, &'a Detail)>;
    let mut groups: BTreeMap<(String, String), Group<'_>> = BTreeMap::new();
    for at in last.values() {
        let (communicator, _, call) = at;
        let label = found.communicators[*communicator].label.of.name();
        groups
            .entry((names::call(call), label.to_owned()))
            .or_default()
            .push(at);
    }
    if groups.len() < 2 {
        return None;
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, group)| Reverse(group.len()));
    let told: Vec<String> = groups
        .iter()
        .map(|((call, label), group)| {
            let on = match &label[..] {
                "unknown" => String::new(),
                label => format!(" on a {label} communicator"),
            };
            format!("{}: {call}{on}", counted(group.len() as u64, "rank"))
        })
        .collect();
    let evidence: Vec<Evidence> = groups
        .iter()
        .take(4)
        .filter_map(|(_, group)| Some(mismatch::spot(group.first()?.2)))
        .collect();
    Some(Finding {
        id: "last_calls",
        severity: Severity::Note,
        says: format!("the ranks' last calls: {}", listed(&told)),
        about: About::default(),
        sure: Sure::High,
        why:
            "they are the last calls in the lines of their processes; a call is logged when it is \
              enqueued, and it might not have begun"
                .to_owned(),
        advice: "look first at the calls of the fewest ranks".to_owned(),
        evidence,
    })
}
