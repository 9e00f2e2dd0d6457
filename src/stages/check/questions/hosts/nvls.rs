//! The use of NVLink switches: whether hosts that have them use them.

use super::fact_meaning::{FirstLineByHost, host_names, hosts_saying, ranks_by_host};
use super::odd_hosts::{about_hosts, evidence_of_hosts};
use crate::stages::check::finding::{Confidence, Finding, Kind, Severity};
use crate::stages::check::questions::job_facts::JobFacts;
use crate::stages::check::wording::{list_names, number_and_noun};
use crate::stages::communicators::CommunicatorsSummary;
use crate::stages::net::NetSummary;
use crate::stages::net::fact::{NetFact, NetFactKind};
use crate::stages::net::table::NetFacts;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the finding.
pub(crate) fn find_nvls_unused(job: &JobFacts<'_>) -> Option<Finding> {
    let (net, facts) = (job.net, job.facts);
    let of = |name: &str, value: &str| -> FirstLineByHost<'_> {
        let fact = NetFact::new(NetFactKind::Nvls, name, value);
        hosts_saying(facts, move |f| *f == fact)
    };
    let (can, cannot) = (of("support", "available"), of("support", "not available"));
    let mut made = of("buffers", "created");
    made.extend(of("tree", "connected"));
    if !can.is_empty() && !cannot.is_empty() {
        return Some(nvls_support_differs(&can, &cannot));
    }
    let sizes = CommSizesByHost::from_net(net);
    let mut not_made = can;
    // Where a communicator is still being made, its buffers may follow.
    let open = list_hosts_with_open_setups(job.found);
    not_made.retain(|host, _| !made.contains_key(host) && !open.contains(host));
    if made.is_empty() {
        not_made.retain(|host, _| sizes.alone.contains_key(host));
        nvls_never_set_up(net, not_made)
    } else {
        sizes.keep_hosts_like(&mut not_made, &made);
        nvls_set_up_elsewhere(facts, &not_made, &made)
    }
}

/// The hosts on which the initialisation of a communicator began and was not seen to end.
fn list_hosts_with_open_setups(found: &CommunicatorsSummary) -> BTreeSet<&[u8]> {
    let open = found
        .sides
        .iter()
        .filter(|side| side.progress.began.is_some() && !side.state.is_set_up());
    let hosts = open.map(|side| &*found.processes[side.process as usize].host);
    hosts.collect()
}

/// Some devices can use the switches and others cannot.
fn nvls_support_differs(can: &FirstLineByHost<'_>, cannot: &FirstLineByHost<'_>) -> Finding {
    let (odd, other, not) = match cannot.len() <= can.len() {
        true => (cannot, can, "not"),
        false => (can, cannot, ""),
    };
    let says = match odd.keys().all(|host| other.contains_key(host)) {
        true => format!(
            "some GPUs of {} can use the NVLink switches (NVLS) and others cannot",
            list_names(host_names(odd))
        ),
        false => format!(
            "the NVLink switches (NVLS) can{not} be used on {}, unlike on {}",
            list_names(host_names(odd)),
            number_and_noun(other.len(), "host")
        ),
    };
    let why = "each process reports whether its device can";
    Finding {
        sure: Confidence::High,
        ..nvls_mixed_finding(says, odd, other, why)
    }
}

/// Hosts that can use the switches set nothing up, unlike others.
fn nvls_set_up_elsewhere(
    facts: &NetFacts,
    not_made: &FirstLineByHost<'_>,
    made: &FirstLineByHost<'_>,
) -> Option<Finding> {
    let says = format!(
        "NVLS is available on {} but no buffers were made for it there; {} made them",
        list_names(host_names(not_made)),
        number_and_noun(made.len(), "other host")
    );
    let why = match connects_at_start(facts) {
        true => "hosts with communicators of the same size do the same",
        false => {
            "hosts with communicators of the same size do the same; but since 2.22 buffers are \
             made when a call first needs them, and stages of a pipeline may call different ones"
        }
    };
    (!not_made.is_empty()).then(|| nvls_mixed_finding(says, not_made, made, why))
}

/// No host set anything up.
fn nvls_never_set_up(net: &NetSummary, mut not_made: FirstLineByHost<'_>) -> Option<Finding> {
    let facts = net.facts();
    let off = hosts_saying(facts, |fact| {
        fact.kind == NetFactKind::Setting
            && *fact.name == *b"NCCL_NVLS_ENABLE"
            && *fact.value == *b"0"
    });
    let used = facts
        .keys()
        .any(|fact| fact.kind == NetFactKind::Nvls && *fact.name == *b"used");
    not_made.retain(|host, _| !off.contains_key(host));
    // Since 2.22, ranks connect when a call first needs it: before that nothing is made.
    if not_made.is_empty() || used || net.all.links.is_empty() {
        return None;
    }
    let says = format!(
        "NVLS is available on {} but was not set up for any communicator",
        list_names(host_names(&not_made))
    );
    // If ranks connect at the start, NVLS is made on all hosts that can have it.
    let (severity, why) = match connects_at_start(facts) {
        true => (
            Severity::Warning,
            "a communicator of more than two ranks of a host connected, and no NVLS line \
             appeared",
        ),
        false => (
            Severity::Note,
            "a communicator of more than two ranks of a host connected, and no NVLS line appeared; \
             since 2.22 NVLS is set up when a call first needs it: NCCL_ALGO, or a job without a \
             large AllReduce, has the same effect",
        ),
    };
    Some(Finding {
        kind: Kind::NvlsNotCreated,
        severity,
        ..nvls_mixed_finding(says, &not_made, &FirstLineByHost::new(), why)
    })
}

/// Hosts that differ from `other` hosts.
fn nvls_mixed_finding(
    says: String,
    odd: &FirstLineByHost<'_>,
    other: &FirstLineByHost<'_>,
    why: &str,
) -> Finding {
    Finding {
        about: about_hosts(&host_names(odd)),
        why: why.to_owned(),
        evidence: evidence_of_hosts(odd, other),
        ..Finding::of_kind(Kind::NvlsMixed, Confidence::Medium, says)
    }
}

/// The communicators of hosts by size: buffers depend on it.
struct CommSizesByHost<'n> {
    /// Sizes of communicators on one host, by host.
    alone: BTreeMap<&'n [u8], BTreeSet<u32>>,
    /// The hosts of each communicator that has more than two ranks on each of several hosts.
    across: Vec<BTreeSet<&'n [u8]>>,
}

impl<'n> CommSizesByHost<'n> {
    fn from_net(net: &'n NetSummary) -> CommSizesByHost<'n> {
        let mut sizes = CommSizesByHost {
            alone: BTreeMap::new(),
            across: Vec::new(),
        };
        for (nranks, of) in ranks_by_host(net).into_values() {
            if of.len() > 1 && of.values().all(|ranks| ranks.len() > 2) {
                sizes.across.push(of.keys().copied().collect());
            }
            if let (1, Some((host, ranks))) = (of.len(), of.first_key_value())
                && nranks > 2
                && ranks.len() == nranks as usize
            {
                sizes.alone.entry(host).or_default().insert(nranks);
            }
        }
        sizes
    }

    /// Keeps the `hosts` with communicators like those of the hosts that `made` something.
    fn keep_hosts_like(&self, hosts: &mut FirstLineByHost<'_>, made: &FirstLineByHost<'_>) {
        let sizes = made.keys().filter_map(|host| self.alone.get(host));
        let usual: BTreeSet<u32> = sizes.flatten().copied().collect();
        let shares = |host: &[u8]| {
            let mut with = self.across.iter().filter(|of| of.contains(host));
            with.any(|of| of.iter().any(|host| made.contains_key(host)))
        };
        hosts.retain(|host, _| {
            let own = self.alone.get(host);
            let alike = own.is_some_and(|own| !own.is_disjoint(&usual));
            alike || (self.alone.is_empty() && shares(host))
        });
    }
}

/// Before 2.22 ranks connect in all ways when a communicator is made, later when a call first needs
/// it (`NCCL_RUNTIME_CONNECT`).
fn connects_at_start(facts: &NetFacts) -> bool {
    let versions = facts
        .keys()
        .filter(|fact| fact.kind == NetFactKind::Version && *fact.name == *b"nccl");
    let mut minors = versions.map(|fact| {
        let minor = fact.value.strip_prefix(b"2.")?;
        let minor = minor.split(|b| *b == b'.').next()?;
        std::str::from_utf8(minor).ok()?.parse::<u32>().ok()
    });
    let told = facts.contains_key(&NetFact::new(
        NetFactKind::Setting,
        "NCCL_RUNTIME_CONNECT",
        "0",
    ));
    told || minors.next().flatten().is_some_and(|minor| minor < 22)
}
