//! The finding of one kind of line.

use super::{Group, Triage};
use crate::stages::check::finding::{About, Evidence, Finding, Severity, Sure};
use crate::stages::check::warn::warnings::Seen;
use crate::stages::check::wording::{
    NAMED, lines, most, named, of_processes, on_hosts, text, times,
};
use crate::stages::net::all::First;
use std::collections::{BTreeMap, BTreeSet};

impl<'a> Triage<'a> {
    /// A kind's finding; `why` comes before the words for the kind.
    pub(super) fn finding(&self, group: &Group<'a>, mut why: Vec<String>) -> Finding {
        let mut by_host: BTreeMap<&[u8], u64> = BTreeMap::new();
        let mut peers: BTreeMap<&[u8], u64> = BTreeMap::new();
        let mut results: BTreeSet<i32> = BTreeSet::new();
        let mut processes: BTreeSet<u32> = BTreeSet::new();
        for member in &group.members {
            *by_host.entry(self.host(member.process)).or_default() += member.seen.count;
            for (peer, count) in &member.seen.peers {
                *peers.entry(peer).or_default() += count;
            }
            results.extend(member.seen.result);
            processes.insert(member.process);
        }
        if let Some(result) = results.iter().find(|&&result| is_error(result)) {
            why.push(format!(
                "NCCL's functions returned {} after it",
                named(*result)
            ));
        }
        if !peers.is_empty() {
            let peers = most(&peers).map(|(peer, count)| match self.peer_host(peer) {
                Some(host) if host != peer => {
                    format!("{} ({}) {}", text(peer), text(host), times(count))
                }
                _ => format!("{} {}", text(peer), times(count)),
            });
            why.push(format!(
                "it names the peer {}",
                peers.collect::<Vec<_>>().join(", ")
            ));
        }
        let first = group.first();
        let count = lines(group.count());
        let nobody = by_host.keys().all(|host| host.is_empty());
        let on = match nobody {
            true => format!("{count} of an unnamed process"),
            false => format!(
                "{count} of {} on {}",
                of_processes(processes.len()),
                on_hosts(&by_host)
            ),
        };
        let (says, advice, severity, sure) = match group.known {
            Some(known) => (
                format!("{}: {on}", known.means),
                format!("{}; see {}", known.advice, known.reference),
                known.severity,
                known.sure,
            ),
            None => (
                format!("unknown WARN: {}: {on}", text(first.says())),
                "search NVIDIA/nccl's issues for the text, or the source file that the line names"
                    .to_owned(),
                Severity::Warning,
                // That a function gave an error after it is more than words.
                match results.iter().any(|&result| is_error(result)) {
                    true => Sure::Medium,
                    false => Sure::Low,
                },
            ),
        };
        if why.is_empty() {
            why.push("the lines report it".to_owned());
        }
        Finding {
            id: group.id(),
            severity,
            says,
            about: self.about(group.members[0].process),
            sure,
            why: why.join("; "),
            advice,
            evidence: self.evidence(group),
        }
    }

    pub(super) fn about(&self, process: u32) -> About {
        let process = self.processes.get(process as usize);
        let process = process.filter(|process| process.pid.is_some());
        About {
            host: process.map(|process| process.host.clone()),
            pid: process.and_then(|process| process.pid),
            ..About::default()
        }
    }

    /// The first lines of a kind, one of each host.
    pub(super) fn evidence(&self, group: &Group<'a>) -> Vec<Evidence> {
        let mut hosts = BTreeSet::new();
        let one = group
            .members
            .iter()
            .filter(|m| hosts.insert(self.host(m.process)));
        one.take(NAMED).map(|m| shown(m.seen)).collect()
    }
}

/// True for a result of NCCL's functions that is an error; 0 is success, 7 means not done yet.
pub(super) fn is_error(result: i32) -> bool {
    !matches!(result, 0 | 7)
}

pub(super) fn shown(seen: &Seen) -> Evidence {
    let First { input, line } = seen.first;
    Evidence {
        at: First { input, line }.into(),
        text: Some(seen.text.to_vec()),
    }
}
