//! What a hung job recorded of its last calls: which rank did what else, and where.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A call: operation, elements, datatype.
type Kind = (String, u64, String);

/// The collectives of a rank on a group behind the last step that was well.
#[derive(Default)]
struct Stream {
    /// By the call's number on that group, from 0: what it was, and when, in ms since that step.
    calls: BTreeMap<u64, (Kind, u64)>,
}

/// Where the ranks of a group part.
#[derive(Debug)]
pub(crate) struct Parting {
    /// The processes of the group.
    pub(crate) members: BTreeSet<u64>,
    /// The process that does what the others do not.
    pub(crate) pid: u64,
    /// The call's number: the first that differs, or that this process lacks.
    pub(crate) at: u64,
    /// The first call behind the step that was well.
    pub(crate) from: u64,
    /// Whether it lacks the call, or made it when the others had given up.
    pub(crate) missing: bool,
}

/// Where the ranks of each group of three or more part, by what the job recorded.
///
/// The record has no reduction: calls that differ by it alone are the same here.
pub(crate) fn partings(truth: &Value) -> Vec<Parting> {
    let ranks = truth["ranks"].as_array().unwrap();
    let pid = |rank: &Value| rank["pid"].as_u64().unwrap();
    let mut found = Vec::new();
    for group in truth["groups"].as_array().unwrap() {
        let members: Vec<&Value> = group["ranks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|r| &ranks[usize::try_from(r.as_u64().unwrap()).unwrap()])
            .collect();
        if members.len() < 3 {
            continue; // of two no one can tell which is right
        }
        let streams: Vec<(u64, Stream)> = members
            .iter()
            .map(|rank| (pid(rank), stream(rank, &group["name"])))
            .collect();
        let Some(from) = streams
            .iter()
            .filter_map(|(_, s)| s.calls.keys().next().copied())
            .min()
        else {
            continue;
        };
        let last = streams
            .iter()
            .filter_map(|(_, s)| s.calls.keys().last().copied())
            .max()
            .unwrap_or(0);
        found.extend((from..=last).find_map(|at| {
            let (pid, missing) = odd_one(&streams, at)?;
            Some(Parting {
                members: streams.iter().map(|(pid, _)| *pid).collect(),
                pid,
                at,
                from,
                missing,
            })
        }));
    }
    found
}

/// The collectives of a rank on a group.
fn stream(rank: &Value, group: &Value) -> Stream {
    let mut stream = Stream::default();
    for call in rank["order"].as_array().unwrap() {
        if call[0] != *group || call[2] == "Send" || call[2] == "Recv" {
            continue;
        }
        let kind = (
            call[2].as_str().unwrap().to_owned(),
            call[3].as_u64().unwrap(),
            call[4].as_str().unwrap().to_owned(),
        );
        let number = call[1].as_u64().unwrap();
        stream
            .calls
            .insert(number, (kind, call[5].as_u64().unwrap()));
    }
    stream
}

/// The process whose call `at` is not that of the others, or more than 10 s behind theirs.
fn odd_one(streams: &[(u64, Stream)], at: u64) -> Option<(u64, bool)> {
    let earliest = streams
        .iter()
        .filter_map(|(_, s)| Some(s.calls.get(&at)?.1))
        .min()?;
    let does = |s: &Stream| -> Option<Kind> {
        let (kind, when) = s.calls.get(&at)?;
        (*when < earliest + 10_000).then(|| kind.clone())
    };
    let mut by_kind: BTreeMap<Option<Kind>, Vec<u64>> = BTreeMap::new();
    for (pid, stream) in streams {
        by_kind.entry(does(stream)).or_default().push(*pid);
    }
    let fewest = by_kind.iter().min_by_key(|(_, pids)| pids.len())?;
    (by_kind.len() > 1).then(|| (fewest.1[0], fewest.0.is_none()))
}

/// How often a process sent on any group, by the record.
pub(crate) fn sends(truth: &Value, pid: u64) -> u64 {
    let ranks = truth["ranks"].as_array().unwrap();
    let rank = ranks
        .iter()
        .find(|r| r["pid"].as_u64() == Some(pid))
        .unwrap();
    let calls = rank["steps"].as_array().unwrap().iter();
    calls
        .flat_map(|step| step["calls"].as_array().unwrap())
        .filter(|call| call[0] == "Send")
        .map(|call| call[4].as_u64().unwrap())
        .sum()
}
