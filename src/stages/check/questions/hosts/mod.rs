//! Differences between hosts of a job that must be alike: versions, plugins, NICs, settings.
//!
//! A host is odd if at most half of the hosts share its fact ([`crate::stages::net::table`]); two hosts that
//! differ are both odd. A line without a header belongs to no host and is not compared.

pub(crate) mod channels;
pub(crate) mod fact_meaning;
pub(crate) mod gpudirect;
pub(crate) mod initialisation;
mod limits;
pub(crate) mod nvls;
pub(crate) mod odd_hosts;
pub(crate) mod plugins;
pub(crate) mod rails;
pub(crate) mod setting_differences;
#[cfg(test)]
mod tests;
pub(crate) mod transport;

use super::job_facts::JobFacts;
use crate::stages::check::finding::{Confidence, Finding, Kind, Severity};
use crate::stages::check::wording::{list_names, number_and_noun, quote_text};
use crate::stages::net::fact::NetFactKind;
use crate::stages::net::net_stage::FirstReportLine;
use crate::stages::net::table::NetSubject;
use fact_meaning::is_fast_nic;
use odd_hosts::{about_hosts, evidence_of_lines, split_hosts};
use std::collections::{BTreeMap, BTreeSet};

/// A version that must be alike: its name in [`NetFactKind::Version`], the finding, its meaning.
type VersionRule = (&'static str, Kind, &'static str);

/// Since 2.23, NCCL refuses ranks of other versions in one communicator (`Mismatched NCCL version detected` in
/// `src/init.cc`); before, and for all others, nothing reports it.
const VERSION_RULES: [VersionRule; 11] = [
    ("nccl", Kind::VersionMixed, "NCCL"),
    ("nccl_git", Kind::VersionMixed, "NCCL's source"),
    ("rccl", Kind::VersionMixed, "RCCL"),
    (
        "cuda",
        Kind::CudaVersionMixed,
        "the CUDA that NCCL was built for",
    ),
    ("cuda_runtime", Kind::CudaVersionMixed, "the CUDA runtime"),
    ("driver", Kind::DriverVersionMixed, "the CUDA driver"),
    ("hip", Kind::DriverVersionMixed, "HIP"),
    ("rocm", Kind::DriverVersionMixed, "ROCm"),
    (
        "kernel",
        Kind::DriverVersionMixed,
        "the operating system's kernel",
    ),
    ("aws-ofi-nccl", Kind::PluginMixed, "aws-ofi-nccl"),
    ("libfabric", Kind::PluginMixed, "Libfabric"),
];

pub(crate) fn find_version_differences(job: &JobFacts<'_>) -> Vec<Finding> {
    let mut all = Vec::new();
    let mut odd_builds: Option<BTreeSet<&[u8]>> = None;
    for (name, kind, what) in VERSION_RULES {
        let is = |s: &&NetSubject<'_>| s.kind == NetFactKind::Version && s.name == name.as_bytes();
        let Some(split) = job.subjects.iter().find(is).and_then(split_hosts) else {
            continue;
        };
        let odd = split.odd_host_names();
        // Another build of NCCL is for another CUDA and from another commit: one cause.
        match name {
            "nccl" => odd_builds = Some(odd.clone()),
            "cuda" | "nccl_git" if odd_builds.as_ref() == Some(&odd) => continue,
            _ => {}
        }
        let severity = match name {
            "nccl_git" | "kernel" => Severity::Note,
            _ => Severity::Warning,
        };
        let what = format!("the version of {what} differs");
        all.push(split.difference_finding(kind, severity, &what));
    }
    all
}

/// A host's NICs.
#[derive(Default)]
struct HostNics<'a> {
    ports: BTreeSet<&'a [u8]>,
    processes: BTreeSet<u32>,
    first: Option<FirstReportLine>,
}

/// Hosts with fewer NICs than most hosts with as many processes. If each rank is given its own NICs, fewer
/// ranks see fewer.
pub(crate) fn find_missing_nics(job: &JobFacts<'_>) -> Vec<Finding> {
    let mut all = Vec::new();
    let mut of: BTreeMap<&[u8], HostNics<'_>> = BTreeMap::new();
    let listed_cards = job
        .facts
        .iter()
        .filter(|(fact, _)| fact.kind == NetFactKind::Nic && is_fast_nic(fact));
    for (fact, said) in listed_cards {
        for (host, (processes, first)) in &said.hosts {
            let cards = of.entry(host).or_default();
            cards.ports.insert(&fact.value);
            cards.processes.extend(processes);
            cards.first = Some(cards.first.map_or(*first, |known| known.min(*first)));
        }
    }
    let mut alike: BTreeMap<usize, BTreeMap<usize, Vec<&[u8]>>> = BTreeMap::new();
    for (host, cards) in &of {
        let by_count = alike.entry(cards.processes.len()).or_default();
        by_count.entry(cards.ports.len()).or_default().push(host);
    }
    for by_count in alike.values() {
        // Of equal counts, the one with more NICs.
        let Some((&usual, peers)) = by_count.iter().max_by_key(|(n, hosts)| (hosts.len(), **n))
        else {
            continue;
        };
        let few: Vec<&[u8]> = by_count
            .range(..usual)
            .flat_map(|(_, h)| h.clone())
            .collect();
        let Some(&least) = few.first() else { continue };
        let (odd, peer) = (&of[least], &of[peers[0]]);
        let missing: Vec<&[u8]> = peer.ports.difference(&odd.ports).copied().collect();
        let hosts: BTreeSet<&[u8]> = few.iter().copied().collect();
        let more = if few.len() > 1 { " or fewer" } else { "" };
        let says = format!(
            "{} {} {}{more} where {} {usual}; {} has no {}",
            list_names(&few),
            if few.len() == 1 { "has" } else { "have" },
            number_and_noun(
                few.iter().map(|h| of[h].ports.len()).max().unwrap_or(0),
                "NIC"
            ),
            match peers.len() {
                1 => format!("{} has", quote_text(peers[0])),
                n => format!("{} have", number_and_noun(n, "host")),
            },
            quote_text(least),
            list_names(&missing),
        );
        all.push(Finding {
            about: about_hosts(&hosts),
            evidence: evidence_of_lines(
                few.iter()
                    .take(3)
                    .filter_map(|host| of[host].first)
                    .chain(peer.first),
            ),
            ..Finding::of_kind(Kind::NicDiffers, Confidence::High, says)
        });
    }
    let is = |s: &&NetSubject<'_>| s.kind == NetFactKind::Provider && s.name == b"nics";
    if let Some(split) = job.subjects.iter().find(is).and_then(split_hosts) {
        let what = "the provider's number of NICs differs";
        all.push(Finding {
            why: "aws-ofi-nccl reports how many it found".to_owned(),
            advice: "compare the NICs of the hosts or containers (fi_info -p efa)".to_owned(),
            ..split.difference_finding(Kind::NicDiffers, Severity::Warning, what)
        });
    }
    all
}
