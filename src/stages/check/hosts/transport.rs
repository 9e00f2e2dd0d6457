//! What the job runs over: sockets where there is something faster, other GPUs' NICs, and what
//! stays in a host; `gpudirect` and `nvls` have the rest.
//!
//! Nothing is wrong with GPUDirect off over sockets. A job on one host has no network.

use super::meaning::{
    Hosts, by_host, is_fast_card, is_fast_network, is_over_sockets, is_socket, keeps_apart, lines,
    names, saying,
};
use super::odd_hosts::{about, evidence, hosts, who};
use super::{gpudirect, nvls};
use crate::stages::check::finding::{Finding, Severity, Sure};
use crate::stages::check::hosts::meaning::is_on;
use crate::stages::check::wording::{counted, listed};
use crate::stages::net::Net;
use crate::stages::net::all::First;
use crate::stages::net::fact::{Fact, Kind};
use crate::stages::net::pairs::{Shared, shared};
use crate::stages::net::table::{self, Facts};
use std::collections::{BTreeMap, BTreeSet};

/// The findings.
pub(crate) fn findings(net: &Net) -> Vec<Finding> {
    let facts = table::collected(net);
    let mut all = Vec::new();
    all.extend(sockets(net, &facts));
    all.extend(gpudirect::finding(net, &facts));
    all.extend(pxn(net));
    all.extend(nvls::finding(net, &facts));
    all.extend(p2p(&facts));
    all.extend(shm(&facts));
    all
}

/// Told to use sockets.
fn is_socket_setting(fact: &Fact) -> bool {
    fact.kind == Kind::Setting
        && match &fact.name[..] {
            b"NCCL_NET" => is_socket(&fact.value),
            b"NCCL_IB_DISABLE" => is_on(&fact.value),
            _ => false,
        }
}

/// Sockets where a faster network is there, or where none was found.
fn sockets(net: &Net, facts: &Facts) -> Option<Finding> {
    let slow = saying(facts, is_over_sockets);
    let fast = saying(facts, is_fast_network);
    let cards = saying(facts, is_fast_card);
    let meant = saying(facts, is_socket_setting);
    let connected = facts
        .keys()
        .any(|fact| fact.kind == Kind::Transport && is_over_sockets(fact));
    let several = net.hosts().len() > 1;
    if slow.is_empty() || !(several || connected) {
        return None;
    }
    let is_set = slow.keys().all(|host| meant.contains_key(host));
    if !fast.is_empty() {
        several.then(|| unlike_others(&slow, &fast))
    } else if !cards.is_empty() {
        Some(past_cards(&slow, &cards, is_set))
    } else if slow.len() > 1 && (connected || spans_hosts(net)) {
        Some(sockets_only(facts, &slow, is_set))
    } else {
        None
    }
}

/// Other hosts use something faster.
fn unlike_others(slow: &Hosts<'_>, fast: &Hosts<'_>) -> Finding {
    let says = format!(
        "{} {} sockets while {} {} a faster network",
        listed(names(slow)),
        if slow.len() == 1 { "uses" } else { "use" },
        counted(fast.len(), "host"),
        if fast.len() == 1 { "uses" } else { "use" },
    );
    let why = "each host reports which network it uses";
    over_sockets(says, slow, fast, false, why)
}

/// The hosts have NICs for something faster.
fn past_cards(slow: &Hosts<'_>, cards: &Hosts<'_>, is_set: bool) -> Finding {
    let says = format!(
        "data between hosts goes over sockets though {} {} InfiniBand, RoCE or EFA NICs",
        listed(names(cards)),
        if cards.len() == 1 { "has" } else { "have" },
    );
    let why = "the NICs are listed, and the reported network is sockets";
    over_sockets(says, slow, cards, is_set, why)
}

/// No host has anything faster.
fn sockets_only(facts: &Facts, slow: &Hosts<'_>, is_set: bool) -> Finding {
    let none = saying(facts, |fact| {
        fact.kind == Kind::Nic && *fact.value == *b"no device"
    });
    let says = format!(
        "all data between {} goes over sockets (TCP): none of them has a faster network",
        counted(slow.len(), "host")
    );
    let (why, sure) = match none.is_empty() {
        true => (
            "sockets are the only network they report, and they list no InfiniBand, RoCE or EFA \
             NIC",
            Sure::Medium,
        ),
        false => (
            "sockets are the only network they report, and NCCL found no InfiniBand or RoCE device",
            Sure::High,
        ),
    };
    Finding {
        id: "sockets_only",
        sure,
        advice: "look for NICs on these hosts (ibv_devinfo, fi_info -p efa), for their devices in \
                 the container (/dev/infiniband), and for a network plugin of the provider; \
                 without such NICs there is no faster network"
            .to_owned(),
        ..over_sockets(says, slow, &none, is_set, why)
    }
}

/// What was set is no fault.
fn over_sockets(
    says: String,
    slow: &Hosts<'_>,
    other: &Hosts<'_>,
    is_set: bool,
    why: &str,
) -> Finding {
    let (severity, as_it_was_set) = match is_set {
        true => (Severity::Note, ", as configured"),
        false => (Severity::Warning, ""),
    };
    Finding {
        id: "socket_fallback",
        severity,
        says: says + as_it_was_set,
        about: about(&names(slow)),
        sure: Sure::High,
        why: why.to_owned(),
        advice: "compare the NICs and their state on the named hosts with the others \
                 (ibv_devinfo, fi_info), NCCL_IB_HCA, NCCL_NET and NCCL_NET_PLUGIN there, and \
                 whether the container has the devices"
            .to_owned(),
        evidence: evidence(lines(slow, 3).into_iter().chain(lines(other, 2))),
    }
}

/// Whether a communicator has ranks on several hosts.
fn spans_hosts(net: &Net) -> bool {
    // Before 2.18 each process knows its own: several hosts have ranks of a size, and not all.
    let mut of_size: BTreeMap<u32, BTreeMap<&[u8], BTreeSet<u32>>> = BTreeMap::new();
    for (comm, (nranks, of)) in by_host(net) {
        match comm {
            Shared::Id(..) if of.len() > 1 => return true,
            Shared::Id(..) => {}
            Shared::Own(..) => {
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

/// Sends of a host in a communicator: those through another rank's NIC, all, and where.
type Sends = (usize, usize, First);

/// Communicators with as many ranks on each of their hosts, some of which send through another
/// rank's NIC and others do not.
fn pxn(net: &Net) -> Option<Finding> {
    let ranks = by_host(net);
    let mut sends: BTreeMap<Shared, BTreeMap<&[u8], Sends>> = BTreeMap::new();
    for ((process, owner, way), (channels, first)) in &net.all.links {
        let (Some(host), Some(comm)) = (net.process(*process), shared(*process, owner)) else {
            continue;
        };
        let sent = way.receives == Some(false);
        let card = way
            .via
            .card()
            .filter(|card| sent && !is_socket(&card.plugin));
        let Some(card) = card else { continue };
        let of = sends.entry(comm).or_default();
        let of = of.entry(&host.host).or_insert((0, 0, *first));
        of.0 += card.proxy.map_or(0, |_| channels.len());
        of.1 += channels.len();
        of.2 = of.2.min(*first);
    }
    let (mut with, mut without) = (Hosts::new(), Hosts::new());
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
            let to = if *through > 0 {
                &mut with
            } else {
                &mut without
            };
            to.entry(host).or_insert(*first);
        }
    }
    let odd = if without.len() <= with.len() {
        &without
    } else {
        &with
    };
    let other = if without.len() <= with.len() {
        &with
    } else {
        &without
    };
    (!odd.is_empty()).then(|| Finding {
        id: "pxn_mixed",
        severity: Severity::Note,
        says: format!(
            "of the hosts of a communicator, {} to other hosts through another GPU's NIC (PXN) and \
             {} {} not",
            match with.len() {
                1 => "1 sends".to_owned(),
                n => format!("{n} send"),
            },
            without.len(),
            if without.len() == 1 { "does" } else { "do" },
        ),
        about: about(&names(odd)),
        sure: Sure::Low,
        why: "hosts of one communicator with the same number of ranks usually do the same; the \
              positions of the ranks in the ring may differ"
            .to_owned(),
        advice: "compare the NICs, the GPUs' order and NCCL_PXN_DISABLE on these hosts".to_owned(),
        evidence: evidence(lines(odd, 3).into_iter().chain(lines(other, 2))),
    })
}

fn p2p(facts: &Facts) -> Vec<Finding> {
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
        let said = who(facts, Kind::P2p, "", value)?;
        Some(Finding {
            id: "p2p_disabled",
            severity,
            says: format!(
                "peer-to-peer access between GPUs {which} is disabled on {}",
                listed(hosts(said))
            ),
            about: about(&hosts(said).collect()),
            sure: Sure::High,
            why: "NCCL reports that peer-to-peer is disabled between them".to_owned(),
            advice:
                "look at nvidia-smi topo -p2p r, at ACS and the IOMMU, and at the hardware; some \
                     GPUs are sold without peer-to-peer"
                    .to_owned(),
            evidence: evidence([said.first]),
        })
    };
    cases.into_iter().filter_map(case).collect()
}

fn shm(facts: &Facts) -> Option<Finding> {
    let transport = |start: &'static [u8], but: &'static [u8]| {
        saying(facts, move |fact| {
            fact.kind == Kind::Transport && fact.value.starts_with(start) && *fact.value != *but
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
    let off = saying(facts, keeps_apart);
    let mixed = !shm.is_empty() && p2p.len() > shm.len();
    if shm.is_empty() || (!mixed && shm.keys().all(|host| off.contains_key(host))) {
        return None;
    }
    // Several hosts that are alike: so their machines are.
    if !mixed && shm.len() > 1 {
        return None;
    }
    let says = match mixed {
        true => format!(
            "the GPUs of {} communicate through the host's memory (SHM), those of {} directly \
             (P2P)",
            listed(names(&shm)),
            counted(p2p.len(), "host")
        ),
        false => format!(
            "the GPUs of {} communicate through the host's memory (SHM), none directly (P2P)",
            listed(names(&shm))
        ),
    };
    Some(Finding {
        id: "shm_instead_of_p2p",
        severity: if mixed {
            Severity::Warning
        } else {
            Severity::Note
        },
        says,
        about: about(&names(&shm)),
        sure: if mixed { Sure::Medium } else { Sure::Low },
        why: match mixed {
            true => "hosts of one job usually do the same",
            false => {
                "this is usual for GPUs without NVLink that are far apart, and in containers with \
                 one GPU each"
            }
        }
        .to_owned(),
        advice: "look at nvidia-smi topo -m, at ACS and the IOMMU, at NCCL_P2P_DISABLE and \
                 NCCL_P2P_LEVEL, and check that each container sees all GPUs of its host"
            .to_owned(),
        evidence: evidence(lines(&shm, 3).into_iter().chain(lines(&p2p, 2))),
    })
}
