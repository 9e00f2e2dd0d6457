//! Communicators that have fewer channels than others of their kind.
//!
//! NCCL prints the number of channels that a communicator got; all its ranks agree on it. Communicators of one
//! kind have as many ranks, on as many nodes, on the same GPUs of their hosts: the first four GPUs of a host
//! may be better connected than the last four.

use super::limits::MAX_EVIDENCE_LINES;
use super::odd_hosts::{about_hosts, evidence_of_lines};
use crate::stages::check::finding::{About, Confidence, Finding, Kind};
use crate::stages::check::questions::job_facts::JobFacts;
use crate::stages::check::wording::{list_names, number_and_noun};
use crate::stages::net::net_stage::FirstReportLine;
use std::collections::{BTreeMap, BTreeSet};

/// The kind of communicators: ranks, nodes, and the GPUs of the members.
type CommShape = (u32, Option<u32>, Vec<u64>);

/// The hosts of a communicator's members.
type CommHosts<'f> = BTreeSet<&'f [u8]>;

/// Communicators of one kind on the same hosts: the most channels of one, the line that reports it, and its
/// number.
type MostChannels = (u32, FirstReportLine, Option<String>);

/// Returns the findings.
pub(crate) fn find_fewer_channels(job: &JobFacts<'_>) -> Vec<Finding> {
    let mut kinds: BTreeMap<CommShape, BTreeMap<CommHosts<'_>, MostChannels>> = BTreeMap::new();
    for view in job.found.views() {
        let (mut gpus, mut hosts, mut channels) = (Vec::new(), CommHosts::new(), None);
        for seat in view.members() {
            gpus.push(seat.gpu());
            hosts.insert(seat.host);
            if let Some((n, at)) = seat.channels() {
                let least: (u32, FirstReportLine) = channels.unwrap_or((n.coll, at));
                channels = Some(least.min((n.coll, at)));
            }
        }
        let gpus: Option<Vec<u64>> = gpus.into_iter().collect();
        let (Some(nranks), Some(mut gpus), Some((n, at))) = (view.nranks, gpus, channels) else {
            continue;
        };
        gpus.sort_unstable();
        let of = kinds.entry((nranks, view.nodes, gpus)).or_default();
        let most = of.entry(hosts).or_insert((n, at, view.comm_id.clone()));
        if n > most.0 {
            *most = (n, at, view.comm_id);
        }
    }
    let mut all: Vec<Finding> = Vec::new();
    for finding in kinds
        .iter()
        .filter_map(|(kind, of)| fewer_channels_finding(kind, of))
    {
        // The first four GPUs of a host and the last four have one cause.
        match all.iter_mut().find(|known| known.says == finding.says) {
            Some(known) => {
                known.about.comm_id = None;
                known.evidence.extend(finding.evidence);
                known.evidence.truncate(MAX_EVIDENCE_LINES);
            }
            None => all.push(finding),
        }
    }
    all
}

fn fewer_channels_finding(
    kind: &CommShape,
    of: &BTreeMap<CommHosts<'_>, MostChannels>,
) -> Option<Finding> {
    let mut by_count: BTreeMap<u32, usize> = BTreeMap::new();
    for most in of.values() {
        *by_count.entry(most.0).or_default() += 1;
    }
    // Of equal counts, the one with more channels.
    let (&usual, &n) = by_count
        .iter()
        .max_by_key(|(channels, n)| (**n, **channels))?;
    let few: Vec<(&CommHosts<'_>, &MostChannels)> =
        of.iter().filter(|(_, most)| most.0 < usual).collect();
    let peer = of.values().find(|most| most.0 == usual)?;
    let worst = few.iter().map(|(_, most)| most.0).min()?;
    let all: CommHosts<'_> = few
        .iter()
        .flat_map(|(hosts, _)| hosts.iter().copied())
        .collect();
    let others = of.iter().filter(|(_, most)| most.0 >= usual);
    let others: CommHosts<'_> = others
        .flat_map(|(hosts, _)| hosts.iter().copied())
        .collect();
    let odd: CommHosts<'_> = all.difference(&others).copied().collect();
    let odd = if odd.is_empty() { all } else { odd };
    let (nranks, nodes, _) = kind;
    let on = match nodes {
        Some(nodes) if *nodes > 1 => format!(" on {nodes} nodes"),
        _ => String::new(),
    };
    let sure = if 2 * n > of.len() {
        Confidence::High
    } else {
        Confidence::Medium
    };
    let says = format!(
        "communicators of {nranks} ranks{on} have {} on {} where {} of that kind {} {usual}",
        number_and_noun(worst as usize, "channel"),
        list_names(&odd),
        n,
        if n == 1 { "has" } else { "have" },
    );
    Some(Finding {
        about: About {
            comm_id: few
                .first()
                .filter(|_| few.len() == 1)
                .and_then(|(_, m)| m.2.clone()),
            ..about_hosts(&odd)
        },
        evidence: evidence_of_lines(few.iter().take(3).map(|(_, most)| most.1).chain([peer.1])),
        ..Finding::of_kind(Kind::ChannelsFewer, sure, says)
    })
}
