//! The networks of the job: sockets where a faster network exists, other GPUs' NICs, and traffic within a host;
//! `gpudirect` and `nvls` have the rest.
//!
//! Nothing is wrong with GPUDirect off over sockets. A job on one host has no network.

use super::fact_meaning::{
    FirstLineByHost, disables_gpu_peer_access, host_names, hosts_saying, is_fast_network,
    is_fast_nic, is_nonzero_number, is_over_sockets, is_socket_network, ranks_by_host,
};
use super::odd_hosts::{about_hosts, evidence_of_hosts, evidence_of_lines, find_saying, hosts_of};
use crate::stages::check::finding::{Confidence, Finding, Kind, Severity};
use crate::stages::check::questions::job_facts::JobFacts;
use crate::stages::check::wording::{list_names, number_and_noun};
use crate::stages::net::NetSummary;
use crate::stages::net::fact::{NetFact, NetFactKind};
use crate::stages::net::net_stage::FirstReportLine;
use crate::stages::net::pairs::{SharedCommunicator, find_shared_comm};
use crate::stages::net::table::NetFacts;
use std::collections::{BTreeMap, BTreeSet};

/// A setting asks for sockets.
fn is_socket_setting(fact: &NetFact) -> bool {
    fact.kind == NetFactKind::Setting
        && match &fact.name[..] {
            b"NCCL_NET" => is_socket_network(&fact.value),
            b"NCCL_IB_DISABLE" => is_nonzero_number(&fact.value),
            _ => false,
        }
}

/// Sockets although a faster network exists, or because none was found.
pub(crate) fn find_socket_use(job: &JobFacts<'_>) -> Option<Finding> {
    let (net, facts) = (job.net, job.facts);
    let slow = hosts_saying(facts, is_over_sockets);
    let fast = hosts_saying(facts, is_fast_network);
    let cards = hosts_saying(facts, is_fast_nic);
    let meant = hosts_saying(facts, is_socket_setting);
    let connected = facts
        .keys()
        .any(|fact| fact.kind == NetFactKind::Transport && is_over_sockets(fact));
    let several = net.hosts().len() > 1;
    if slow.is_empty() || !(several || connected) {
        return None;
    }
    let is_set = slow.keys().all(|host| meant.contains_key(host));
    if !fast.is_empty() {
        several.then(|| sockets_unlike_others(&slow, &fast))
    } else if !cards.is_empty() {
        Some(sockets_despite_nics(&slow, &cards, is_set))
    } else if slow.len() > 1 && (connected || has_comm_across_hosts(net)) {
        Some(sockets_without_fast_nics(facts, &slow, is_set))
    } else {
        None
    }
}

/// Other hosts use a faster network.
fn sockets_unlike_others(slow: &FirstLineByHost<'_>, fast: &FirstLineByHost<'_>) -> Finding {
    let says = format!(
        "{} {} sockets while {} {} a faster network",
        list_names(host_names(slow)),
        if slow.len() == 1 { "uses" } else { "use" },
        number_and_noun(fast.len(), "host"),
        if fast.len() == 1 { "uses" } else { "use" },
    );
    let why = "each host reports which network it uses";
    socket_finding(says, slow, fast, false, why)
}

/// The hosts have NICs for a faster network.
fn sockets_despite_nics(
    slow: &FirstLineByHost<'_>,
    cards: &FirstLineByHost<'_>,
    is_set: bool,
) -> Finding {
    let says = format!(
        "data between hosts goes over sockets though {} {} InfiniBand, RoCE or EFA NICs",
        list_names(host_names(cards)),
        if cards.len() == 1 { "has" } else { "have" },
    );
    let why = "the NICs are listed, and the reported network is sockets";
    socket_finding(says, slow, cards, is_set, why)
}

/// No host has a faster network.
fn sockets_without_fast_nics(
    facts: &NetFacts,
    slow: &FirstLineByHost<'_>,
    is_set: bool,
) -> Finding {
    let none = hosts_saying(facts, |fact| {
        fact.kind == NetFactKind::Nic && *fact.value == *b"no device"
    });
    let says = format!(
        "all data between {} goes over sockets (TCP); no host reports a faster network",
        number_and_noun(slow.len(), "host")
    );
    let (why, sure) = match none.is_empty() {
        true => (
            "sockets are the only network they report, and they list no InfiniBand, RoCE or EFA \
             NIC",
            Confidence::Medium,
        ),
        false => (
            "sockets are the only network they report, and NCCL found no InfiniBand or RoCE device",
            Confidence::High,
        ),
    };
    Finding {
        kind: Kind::SocketsOnly,
        sure,
        ..socket_finding(says, slow, &none, is_set, why)
    }
}

/// A setting is no fault.
fn socket_finding(
    says: String,
    slow: &FirstLineByHost<'_>,
    other: &FirstLineByHost<'_>,
    is_set: bool,
    why: &str,
) -> Finding {
    let (severity, as_it_was_set) = match is_set {
        true => (Severity::Note, ", as configured"),
        false => (Severity::Warning, ""),
    };
    let says = says + as_it_was_set;
    Finding {
        about: about_hosts(&host_names(slow)),
        why: why.to_owned(),
        evidence: evidence_of_hosts(slow, other),
        ..Finding::new(Kind::SocketFallback, severity, Confidence::High, says)
    }
}

/// True if a communicator has ranks on several hosts.
fn has_comm_across_hosts(net: &NetSummary) -> bool {
    // Before 2.18, each process knows its own: several hosts have ranks of a size, and not all.
    let mut of_size: BTreeMap<u32, BTreeMap<&[u8], BTreeSet<u32>>> = BTreeMap::new();
    for (comm, (nranks, of)) in ranks_by_host(net) {
        match comm {
            SharedCommunicator::Id(..) if of.len() > 1 => return true,
            SharedCommunicator::Id(..) => {}
            SharedCommunicator::Own(..) => {
                for (host, ranks) in of {
                    let hosts = of_size.entry(nranks).or_default();
                    hosts.entry(host).or_default().extend(ranks);
                }
            }
        }
    }
    let spans = |(&nranks, of): (&u32, &BTreeMap<&[u8], BTreeSet<u32>>)| {
        of.len() > 1 && of.values().any(|ranks| ranks.len() < nranks as usize)
    };
    of_size.iter().any(spans)
}

/// Sends of a host in a communicator: those through another rank's NIC, all, and a line.
type Sends = (usize, usize, FirstReportLine);

/// Communicators with as many ranks on each of their hosts, if some ranks send through another rank's NIC and
/// others do not.
pub(crate) fn find_uneven_pxn(job: &JobFacts<'_>) -> Option<Finding> {
    let net = job.net;
    let ranks = ranks_by_host(net);
    let mut sends: BTreeMap<SharedCommunicator, BTreeMap<&[u8], Sends>> = BTreeMap::new();
    for ((process, owner, way), (channels, first)) in &net.all.links {
        let (Some(host), Some(comm)) = (net.process(*process), find_shared_comm(*process, owner))
        else {
            continue;
        };
        let sent = way.receives == Some(false);
        let card = way
            .via
            .nic()
            .filter(|card| sent && !is_socket_network(&card.plugin));
        let Some(card) = card else { continue };
        let of = sends.entry(comm).or_default();
        let of = of.entry(&host.host).or_insert((0, 0, *first));
        of.0 += card.proxy.map_or(0, |_| channels.len());
        of.1 += channels.len();
        of.2 = of.2.min(*first);
    }
    let (mut with, mut without) = (FirstLineByHost::new(), FirstLineByHost::new());
    for (comm, of) in &sends {
        let sizes = ranks
            .get(comm)
            .map(|(_, of)| of.values().map(BTreeSet::len));
        let sizes: BTreeSet<usize> = sizes.into_iter().flatten().collect();
        let alike = sizes.len() == 1 && sizes.first().is_some_and(|&n| n > 1);
        let uses = of.values().filter(|sends| sends.0 > 0).count();
        if !alike || uses == 0 || uses == of.len() {
            continue;
        }
        for (host, (through, _, first)) in of {
            let to = match through {
                0 => &mut without,
                _ => &mut with,
            };
            to.entry(host).or_insert(*first);
        }
    }
    let (odd, other) = match without.len() <= with.len() {
        true => (&without, &with),
        false => (&with, &without),
    };
    if odd.is_empty() {
        return None;
    }
    let says = format!(
        "of the hosts of a communicator, {} to other hosts through another GPU's NIC (PXN) and \
         {} {} not",
        match with.len() {
            1 => "1 sends".to_owned(),
            n => format!("{n} send"),
        },
        without.len(),
        if without.len() == 1 { "does" } else { "do" },
    );
    Some(Finding {
        about: about_hosts(&host_names(odd)),
        evidence: evidence_of_hosts(odd, other),
        ..Finding::of_kind(Kind::PxnMixed, Confidence::Low, says)
    })
}

/// GPUs of a host that cannot reach each other.
pub(crate) fn find_p2p_off(job: &JobFacts<'_>) -> Vec<Finding> {
    let cases = [
        (
            "disabled between GPUs with NVLink",
            Severity::Error,
            "with NVLink between them",
        ),
        (
            "disabled between connected GPUs",
            Severity::Note,
            "of one NUMA node",
        ),
    ];
    let case = |(value, severity, which): (&str, Severity, &str)| {
        let said = find_saying(job.facts, NetFactKind::P2p, "", value)?;
        let says = format!(
            "peer-to-peer access between GPUs {which} is disabled on {}",
            list_names(hosts_of(said))
        );
        Some(Finding {
            about: about_hosts(&hosts_of(said).collect()),
            evidence: evidence_of_lines([said.first]),
            ..Finding::new(Kind::P2pDisabled, severity, Confidence::High, says)
        })
    };
    cases.into_iter().filter_map(case).collect()
}

/// GPUs of a host that reach each other through the memory of the host.
pub(crate) fn find_shm_off(job: &JobFacts<'_>) -> Option<Finding> {
    let facts = job.facts;
    let transport = |start: &'static [u8], but: &'static [u8]| {
        hosts_saying(facts, move |fact| {
            fact.kind == NetFactKind::Transport
                && fact.value.starts_with(start)
                && *fact.value != *but
        })
    };
    let mut shm = transport(b"SHM", b"");
    let mut p2p = transport(b"P2P/", b"P2P/MNNVL");
    let both: Vec<&[u8]> = shm
        .keys()
        .filter(|h| p2p.contains_key(*h))
        .copied()
        .collect();
    for host in both {
        shm.remove(host);
        p2p.remove(host);
    }
    let off = hosts_saying(facts, disables_gpu_peer_access);
    let mixed = !shm.is_empty() && p2p.len() > shm.len();
    if shm.is_empty() || (!mixed && shm.keys().all(|host| off.contains_key(host))) {
        return None;
    }
    // Several hosts that are alike: so are their machines.
    if !mixed && shm.len() > 1 {
        return None;
    }
    let says = match mixed {
        true => format!(
            "the GPUs of {} communicate through the host's memory (SHM), those of {} directly \
             (P2P)",
            list_names(host_names(&shm)),
            number_and_noun(p2p.len(), "host")
        ),
        false => format!(
            "the GPUs of {} communicate through the host's memory (SHM), none directly (P2P)",
            list_names(host_names(&shm))
        ),
    };
    let (severity, sure) = match mixed {
        true => (Severity::Warning, Confidence::Medium),
        false => (Severity::Note, Confidence::Low),
    };
    Some(Finding {
        about: about_hosts(&host_names(&shm)),
        why: match mixed {
            true => "hosts of one job usually do the same",
            false => {
                "this is usual for GPUs without NVLink that are far apart, and in containers with \
                 one GPU each"
            }
        }
        .to_owned(),
        evidence: evidence_of_hosts(&shm, &p2p),
        ..Finding::new(Kind::ShmInsteadOfP2p, severity, sure, says)
    })
}
