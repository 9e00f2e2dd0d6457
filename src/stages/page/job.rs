//! The job in a few words, all from lines of the log.

use super::ReportPage;
use crate::stages::check::CheckSummary;
use crate::stages::check::walk::CheckGathered;
use crate::stages::net::fact::NetFactKind;
use std::collections::BTreeSet;

/// Collects the facts in the order in which they are shown; `unknown` if no line has one.
///
/// Hosts are those with lines, as nccl-net counts them. NCCL counts nodes: the log may lack hosts, and
/// `NCCL_HOSTID` may split one. Nodes are shown if they are another number. Of several jobs, the ranks of all are shown.
pub(super) fn job_facts(
    checked: &CheckSummary,
    seen: &CheckGathered,
) -> Vec<(&'static str, String)> {
    let unknown = || "unknown".to_owned();
    let number = |n: Option<u64>| n.map_or_else(unknown, |n| n.to_string());
    let listed = |all: BTreeSet<String>| match all.is_empty() {
        true => unknown(),
        false => all.into_iter().collect::<Vec<_>>().join(", "),
    };
    let facts = seen.net.facts();
    let values = |kind: NetFactKind, names: &[&str]| {
        let is = |name: &[u8]| names.iter().any(|n| n.as_bytes() == name);
        let those = facts
            .keys()
            .filter(|fact| fact.kind == kind && is(&fact.name));
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        those.map(|fact| text(&fact.value)).collect::<BTreeSet<_>>()
    };
    let known = &checked.facts;
    let word = |word: &Option<String>| word.clone().unwrap_or_else(unknown);
    let trainers = seen
        .inputs
        .iter()
        .filter_map(|input| input.timeline.trainer);
    let trainers: BTreeSet<String> = trainers.map(|t| t.name().to_owned()).collect();
    let networks = known.networks.clone().unwrap_or_default();
    let links = known.links.clone().unwrap_or_default();
    let network = match (links.is_empty(), listed(networks)) {
        (false, networks) if networks == "IB" => listed(links),
        (_, networks) => networks,
    };
    let hosts = Some(seen.net.hosts().len() as u64).filter(|&n| n > 0);
    let jobs = Some(checked.judged.jobs).filter(|&jobs| jobs > 1);
    let mut all = Vec::from_iter(jobs.map(|jobs| ("jobs", jobs.to_string())));
    all.push(("hosts", number(hosts.or(known.nodes))));
    if hosts.is_some() && known.nodes != hosts {
        all.push(("nodes", number(known.nodes)));
    }
    let ranks = jobs.map(|_| checked.judged.ranks).or(known.ranks);
    all.extend([
        ("ranks", number(ranks)),
        (
            "nccl",
            listed(values(NetFactKind::Version, &["nccl", "rccl"])),
        ),
        (
            "cuda",
            listed(values(NetFactKind::Version, &["cuda", "hip"])),
        ),
        ("network", network),
        ("gpudirect", word(&known.gdr)),
        ("nvls", word(&known.nvls)),
        ("trainer", listed(trainers)),
    ]);
    all
}

impl ReportPage {
    /// The job's values, each with a name for readers: nodes are those that NCCL counts.
    pub(super) fn named_facts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let name = |name: &'static str| match name {
            "nodes" => "nodes by NCCL",
            name => name,
        };
        self.job.iter().map(move |(of, value)| (name(of), &**value))
    }
}
