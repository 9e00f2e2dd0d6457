//! Whether the network's connections reach the GPUs' memory (GPUDirect RDMA).

use super::fact_meaning::{
    FirstLineByHost, host_names, hosts_saying, is_fast_network, is_socket_network,
};
use super::odd_hosts::{about_hosts, evidence_of_hosts};
use crate::stages::check::finding::{Confidence, Finding, Kind, Severity};
use crate::stages::check::questions::job_facts::JobFacts;
use crate::stages::check::wording::{list_names, number_and_noun};
use crate::stages::net::NetSummary;
use crate::stages::net::fact::{NetFact, NetFactKind};
use crate::stages::net::net_stage::FirstReportLine;
use crate::stages::net::table::NetFacts;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The numbers of channels of a host's network connections that reach the GPUs' memory, and that do not.
#[derive(Default)]
struct GdrReach {
    on: (usize, Option<FirstReportLine>),
    off: (usize, Option<FirstReportLine>),
    /// Channels that do not and send.
    off_sends: usize,
}

/// The connections of each host without sockets.
fn gdr_reach_by_host(net: &NetSummary) -> BTreeMap<&[u8], GdrReach> {
    let mut all: BTreeMap<&[u8], GdrReach> = BTreeMap::new();
    for ((process, _, way), (channels, first)) in &net.all.links {
        let (Some(process), Some(card)) = (net.process(*process), way.via.nic()) else {
            continue;
        };
        if is_socket_network(&card.plugin) {
            continue;
        }
        let reach = all.entry(&process.host[..]).or_default();
        let (n, at) = if card.gdr {
            &mut reach.on
        } else {
            &mut reach.off
        };
        *n += channels.len();
        *at = Some(at.map_or(*first, |known| known.min(*first)));
        if !card.gdr && way.receives == Some(false) {
            reach.off_sends += channels.len();
        }
    }
    all
}

/// True or false if a line reports that a NIC reaches the GPUs' memory or not, and the direction.
fn is_nic_gdr_line(fact: &NetFact, on: bool) -> bool {
    let value: &[u8] = if on { b"on" } else { b"off" };
    fact.is_of_nic_gdr() && *fact.value == *value
}

/// Returns the finding, with what a host's lines say of DMA-BUF.
pub(crate) fn find_gdr_off(job: &JobFacts<'_>) -> Option<Finding> {
    let mut finding = judge_gdr(job.net)?;
    for (fact, said) in job.facts {
        if *fact.name == *b"dmabuf" && *fact.value != *b"available" {
            let hosts = said.hosts.keys().map(|host| &host[..]);
            let value = String::from_utf8_lossy(&fact.value);
            let _ = write!(finding.why, "; DMA-BUF on {}: {value}", list_names(hosts));
        }
    }
    Some(finding)
}

fn judge_gdr(net: &NetSummary) -> Option<Finding> {
    let facts = net.facts();
    let reach = gdr_reach_by_host(net);
    if reach.is_empty() {
        return gdr_nics_finding(net);
    }
    let pick = |is: &dyn Fn(&GdrReach) -> bool,
                line: &dyn Fn(&GdrReach) -> Option<FirstReportLine>|
     -> FirstLineByHost<'_> {
        let those = reach.iter().filter(|(_, r)| is(r));
        those
            .filter_map(|(host, r)| Some((*host, line(r)?)))
            .collect()
    };
    let off = pick(&|r| r.on.0 == 0, &|r| r.off.1);
    let on = pick(&|r| r.on.0 > 0, &|r| r.on.1);
    let part = pick(&|r| r.on.0 > 0 && r.off.0 > 0, &|r| r.off.1);
    if on.is_empty() {
        Some(gdr_off_everywhere(facts, &off))
    } else if !off.is_empty() {
        Some(gdr_off_on_some_hosts(facts, &off, &on))
    } else if !part.is_empty() {
        Some(gdr_off_some_connections(&reach, &part, &on))
    } else {
        None
    }
}

/// The connections of no host reach the memory.
fn gdr_off_everywhere(facts: &NetFacts, off: &FirstLineByHost<'_>) -> Finding {
    let says = format!(
        "GPUDirect RDMA is disabled: none of the network connections of {} accesses GPU memory \
         directly",
        number_and_noun(off.len(), "host")
    );
    let disabled = hosts_saying(facts, |fact| is_nic_gdr_line(fact, false));
    let why = match disabled.is_empty() {
        true => "a connection that uses it has GDRDMA in its line",
        false => {
            "a connection that uses it has GDRDMA in its line, and the NICs report it as disabled"
        }
    };
    Finding {
        kind: Kind::GpudirectOff,
        severity: gdr_off_severity(facts, off),
        ..gdr_connections_finding(says, off, &disabled, why)
    }
}

/// Connections of some hosts do not reach it, unlike those of others.
fn gdr_off_on_some_hosts(
    facts: &NetFacts,
    off: &FirstLineByHost<'_>,
    on: &FirstLineByHost<'_>,
) -> Finding {
    let says = format!(
        "GPUDirect RDMA is disabled on {} and enabled on {}",
        list_names(host_names(off)),
        number_and_noun(on.len(), "other host")
    );
    let why = "a connection that uses it has GDRDMA in its line";
    Finding {
        severity: gdr_off_severity(facts, off),
        ..gdr_connections_finding(says, off, on, why)
    }
}

/// Some connections of hosts do not reach it, and others of the same hosts do. A NIC far from a GPU is reached
/// through the host, and so are messages to GPUs without NVLink (`NCCL_NET_GDR_LEVEL`, `NCCL_NET_GDR_READ`):
/// often the machine, not a fault.
fn gdr_off_some_connections(
    reach: &BTreeMap<&[u8], GdrReach>,
    part: &FirstLineByHost<'_>,
    on: &FirstLineByHost<'_>,
) -> Finding {
    let of =
        |of: &dyn Fn(&GdrReach) -> usize| part.keys().map(|host| of(&reach[host])).sum::<usize>();
    let (without, sends) = (of(&|r| r.off.0), of(&|r| r.off_sends));
    let all = without + of(&|r| r.on.0);
    let says = format!(
        "{without} of {all} network connections of {} do not use GPUDirect RDMA{}",
        list_names(host_names(part)),
        if sends == without {
            "; all of them are sending ends"
        } else {
            ""
        }
    );
    let why = "this is usual where a NIC is far from a GPU, or where GPUs without NVLink send";
    Finding {
        severity: Severity::Note,
        sure: Confidence::Low,
        advice: "compare the distances of NICs and GPUs (nvidia-smi topo -m) with \
                 NCCL_NET_GDR_LEVEL and NCCL_NET_GDR_READ"
            .to_owned(),
        ..gdr_connections_finding(says, part, on, why)
    }
}

/// A setting that disables it is no fault.
fn gdr_off_severity(facts: &NetFacts, off: &FirstLineByHost<'_>) -> Severity {
    let set = hosts_saying(facts, |fact: &NetFact| {
        let level = fact.kind == NetFactKind::Setting && *fact.name == *b"NCCL_NET_GDR_LEVEL";
        level && matches!(&fact.value[..], b"0" | b"LOC")
    });
    match off.keys().all(|host| set.contains_key(host)) {
        true => Severity::Note,
        false => Severity::Warning,
    }
}

/// Connections of hosts that differ from those of `other` hosts.
fn gdr_connections_finding(
    says: String,
    who: &FirstLineByHost<'_>,
    other: &FirstLineByHost<'_>,
    why: &str,
) -> Finding {
    Finding {
        about: about_hosts(&host_names(who)),
        why: why.to_owned(),
        evidence: evidence_of_hosts(who, other),
        ..Finding::of_kind(Kind::GpudirectMixed, Confidence::High, says)
    }
}

/// Judges by the lines on NICs, if no line reports a connection.
fn gdr_nics_finding(net: &NetSummary) -> Option<Finding> {
    let facts = net.facts();
    let on = hosts_saying(facts, |fact| is_nic_gdr_line(fact, true));
    let mut off = hosts_saying(facts, |fact| is_nic_gdr_line(fact, false));
    let fast = hosts_saying(facts, is_fast_network);
    off.retain(|host, _| !on.contains_key(host) && fast.contains_key(host));
    if off.is_empty() || net.hosts().len() < 2 {
        return None;
    }
    let (kind, says) = match on.len() {
        0 => (
            Kind::GpudirectOff,
            format!(
                "no NIC of {} can access GPU memory",
                list_names(host_names(&off))
            ),
        ),
        n => (
            Kind::GpudirectMixed,
            format!(
                "no NIC of {} can access GPU memory, and those of {} can",
                list_names(host_names(&off)),
                number_and_noun(n, "other host")
            ),
        ),
    };
    Some(Finding {
        about: about_hosts(&host_names(&off)),
        why: "the NICs report it; no line reports a connection".to_owned(),
        evidence: evidence_of_hosts(&off, &on),
        ..Finding::of_kind(kind, Confidence::Medium, says)
    })
}
