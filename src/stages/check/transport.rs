//! What the job runs over: sockets where there is something faster, GPUDirect, PXN, NVLink
//! switches, and what stays in a host.
//!
//! Nothing is wrong with sockets where no host has another network, nor with GPUDirect off over
//! sockets. A job on one host has no network.

use super::finding::{Finding, Severity, Sure};
use super::said::{about, count, evidence, hosts, listed, who};
use crate::stages::net::Net;
use crate::stages::net::fact::{Fact, Kind};
use crate::stages::net::fold::First;
use crate::stages::net::pairs::{Shared, shared};
use crate::stages::net::table::{self, Facts};
use std::collections::{BTreeMap, BTreeSet};

/// The findings.
pub fn findings(net: &Net) -> Vec<Finding> {
    let facts = table::collected(net);
    let mut all = Vec::new();
    all.extend(sockets(net, &facts));
    all.extend(gpudirect(net, &facts));
    all.extend(pxn(net));
    all.extend(nvls(net, &facts));
    all.extend(p2p(&facts));
    all.extend(shm(&facts));
    all
}

type Hosts<'f> = BTreeMap<&'f [u8], First>;

/// The hosts that say one of these facts, with where each says it first.
fn saying<'f>(facts: &'f Facts, is: impl Fn(&Fact) -> bool) -> Hosts<'f> {
    let mut all = Hosts::new();
    for (_, said) in facts.iter().filter(|(fact, _)| is(fact)) {
        for (host, (_, first)) in &said.hosts {
            let known = all.entry(&host[..]).or_insert(*first);
            *known = first.min(known).to_owned();
        }
    }
    all
}

fn names<'f>(hosts: &Hosts<'f>) -> BTreeSet<&'f [u8]> {
    hosts.keys().copied().collect()
}

/// A line of each of the first hosts.
fn lines(hosts: &Hosts<'_>, n: usize) -> Vec<First> {
    hosts.values().take(n).copied().collect()
}

fn is_socket(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"Socket")
}

/// A card that is faster than a socket.
pub(super) fn is_fast_card(fact: &Fact) -> bool {
    let ib = fact.name.strip_prefix(b"IB.").and_then(<[u8]>::first);
    match fact.kind {
        Kind::Nic => ib.is_some_and(u8::is_ascii_digit) && !fact.name.ends_with(b".mtu"),
        Kind::Provider => fact.name.is_empty() && fact.value.starts_with(b"efa"),
        _ => false,
    }
}

/// Sockets, by NCCL's own network or by a provider of libfabric's that is one.
pub(super) fn is_over_sockets(fact: &Fact) -> bool {
    let slow = [&b"tcp"[..], b"sockets", b"udp"];
    match fact.kind {
        Kind::Network => is_socket(&fact.value),
        Kind::Transport => fact.value.starts_with(b"NET/Socket"),
        Kind::Provider => {
            fact.name.is_empty() && slow.iter().any(|slow| fact.value.starts_with(slow))
        }
        _ => false,
    }
}

/// A network that is not sockets; aws-ofi-nccl's is what its provider is.
fn is_fast_network(fact: &Fact) -> bool {
    match fact.kind {
        Kind::Network => !is_socket(&fact.value) && *fact.value != *b"AWS Libfabric",
        Kind::Transport => {
            let net = fact.value.starts_with(b"NET/");
            net && !fact.value.starts_with(b"NET/Socket")
                && !fact.value.starts_with(b"NET/AWS Libfabric")
        }
        Kind::Provider => fact.name.is_empty() && fact.value.starts_with(b"efa"),
        _ => false,
    }
}

/// Told to use sockets.
fn is_socket_setting(fact: &Fact) -> bool {
    fact.kind == Kind::Setting
        && match &fact.name[..] {
            b"NCCL_NET" => is_socket(&fact.value),
            b"NCCL_IB_DISABLE" => *fact.value != *b"0",
            _ => false,
        }
}

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
    let advice = "compare the cards and their state on the hosts named with the others \
                  (ibv_devinfo, fi_info), NCCL_IB_HCA, NCCL_NET and NCCL_NET_PLUGIN there, and \
                  whether the container has the devices";
    let (says, why, sure, severity, other) = if !fast.is_empty() && several {
        let says = format!(
            "{} {} over sockets while {} {} a faster network",
            listed(names(&slow)),
            if slow.len() == 1 { "goes" } else { "go" },
            count(fast.len(), "host"),
            if fast.len() == 1 { "uses" } else { "use" },
        );
        let why = "each host says which network it uses";
        (says, why, Sure::High, Severity::Warning, &fast)
    } else if !cards.is_empty() && fast.is_empty() {
        let told = slow.keys().all(|host| meant.contains_key(host));
        let says = format!(
            "data between hosts goes over sockets though {} {} InfiniBand, RoCE or EFA cards{}",
            listed(names(&cards)),
            if cards.len() == 1 { "has" } else { "have" },
            if told { ", as it was set" } else { "" },
        );
        let severity = if told {
            Severity::Note
        } else {
            Severity::Warning
        };
        let why = "the cards are listed, and the network named is sockets";
        (says, why, Sure::High, severity, &cards)
    } else {
        return None;
    };
    Some(Finding {
        id: "socket_fallback",
        severity,
        says,
        about: about(&names(&slow)),
        sure,
        why: why.to_owned(),
        advice: advice.to_owned(),
        evidence: evidence(lines(&slow, 3).into_iter().chain(lines(other, 2))),
    })
}

/// How many channels of a host's network connections reach the GPUs' memory, and how many do not.
#[derive(Default)]
struct Reach {
    on: (usize, Option<First>),
    off: (usize, Option<First>),
    /// Those off, all of which send.
    off_sends: usize,
}

/// By host, of connections that are no sockets.
fn reach(net: &Net) -> BTreeMap<&[u8], Reach> {
    let mut all: BTreeMap<&[u8], Reach> = BTreeMap::new();
    for ((process, _, way), (channels, first)) in &net.all.links {
        let (Some(process), Some(card)) = (net.process(*process), way.via.card()) else {
            continue;
        };
        if is_socket(&card.plugin) {
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

/// Whether a line tells of a card that it reaches the GPUs' memory, and which way.
fn is_card(fact: &Fact, on: bool) -> bool {
    let ways = [&b"by"[..], b"dmabuf", b"gdrcopy"];
    let value: &[u8] = if on { b"on" } else { b"off" };
    fact.kind == Kind::GpuDirect && !ways.contains(&&fact.name[..]) && *fact.value == *value
}

const GDR_ADVICE: &str = "check that nvidia-peermem is loaded or DMA-BUF is available (open kernel \
                          modules, Linux 5.12, CUDA 11.7), that ACS is off, and NCCL_NET_GDR_LEVEL";

fn gpudirect(net: &Net, facts: &Facts) -> Option<Finding> {
    let reach = reach(net);
    if reach.is_empty() {
        return gpudirect_of_cards(net, facts);
    }
    let pick = |is: &dyn Fn(&Reach) -> bool, line: &dyn Fn(&Reach) -> Option<First>| -> Hosts<'_> {
        let those = reach.iter().filter(|(_, r)| is(r));
        those
            .filter_map(|(host, r)| Some((*host, line(r)?)))
            .collect()
    };
    let off = pick(&|r| r.on.0 == 0, &|r| r.off.1);
    let on = pick(&|r| r.on.0 > 0, &|r| r.on.1);
    let part = pick(&|r| r.on.0 > 0 && r.off.0 > 0, &|r| r.off.1);
    let told = |fact: &Fact| {
        let level = fact.kind == Kind::Setting && *fact.name == *b"NCCL_NET_GDR_LEVEL";
        level && matches!(&fact.value[..], b"0" | b"LOC")
    };
    let told = saying(facts, told);
    let told = off.keys().all(|host| told.contains_key(host));
    let severity = if told {
        Severity::Note
    } else {
        Severity::Warning
    };
    let finding = |id, severity, says, who: &Hosts<'_>, other: &Hosts<'_>, why: &str| {
        Some(Finding {
            id,
            severity,
            says,
            about: about(&names(who)),
            sure: Sure::High,
            why: why.to_owned(),
            advice: GDR_ADVICE.to_owned(),
            evidence: evidence(lines(who, 3).into_iter().chain(lines(other, 2))),
        })
    };
    if on.is_empty() {
        let says = format!(
            "GPUDirect RDMA is off: none of the network connections of {} reaches the GPUs' memory",
            count(off.len(), "host")
        );
        let disabled = saying(facts, |fact| is_card(fact, false));
        let why = match disabled.is_empty() {
            true => "a connection that uses it has GDRDMA in its line",
            false => "a connection that uses it has GDRDMA in its line, and the cards say disabled",
        };
        return finding("gpudirect_off", severity, says, &off, &disabled, why);
    }
    if !off.is_empty() {
        let says = format!(
            "GPUDirect RDMA is off on {} and on on {}",
            listed(names(&off)),
            count(on.len(), "other host")
        );
        let why = "a connection that uses it has GDRDMA in its line";
        return finding("gpudirect_mixed", severity, says, &off, &on, why);
    }
    if part.is_empty() {
        return None;
    }
    // A card far from a GPU is reached through the host, and so is what is sent where GPUs have
    // no NVLink (NCCL_NET_GDR_LEVEL, NCCL_NET_GDR_READ): often the machine, not a fault.
    let of = |of: &dyn Fn(&Reach) -> usize| part.keys().map(|host| of(&reach[host])).sum::<usize>();
    let (without, sends) = (of(&|r| r.off.0), of(&|r| r.off_sends));
    let all = without + of(&|r| r.on.0);
    let says = format!(
        "{without} of {all} network connections of {} do not reach the GPUs' memory{}",
        listed(names(&part)),
        if sends == without {
            "; all of them send"
        } else {
            ""
        }
    );
    let mut found = finding(
        "gpudirect_mixed",
        Severity::Note,
        says,
        &part,
        &on,
        "usual where a card is far from a GPU, or GPUs without NVLink send",
    );
    if let Some(found) = &mut found {
        found.sure = Sure::Low;
        found.advice = "compare the distances of cards and GPUs (nvidia-smi topo -m) with \
                        NCCL_NET_GDR_LEVEL and NCCL_NET_GDR_READ"
            .to_owned();
    }
    found
}

/// What the cards say, where no line tells of a connection.
fn gpudirect_of_cards(net: &Net, facts: &Facts) -> Option<Finding> {
    let on = saying(facts, |fact| is_card(fact, true));
    let mut off = saying(facts, |fact| is_card(fact, false));
    let fast = saying(facts, is_fast_network);
    off.retain(|host, _| !on.contains_key(host) && fast.contains_key(host));
    if off.is_empty() || net.hosts().len() < 2 {
        return None;
    }
    let (id, says) = match on.len() {
        0 => (
            "gpudirect_off",
            format!(
                "no card of {} reaches the GPUs' memory",
                listed(names(&off))
            ),
        ),
        n => (
            "gpudirect_mixed",
            format!(
                "no card of {} reaches the GPUs' memory, those of {} do",
                listed(names(&off)),
                count(n, "other host")
            ),
        ),
    };
    Some(Finding {
        id,
        severity: Severity::Warning,
        says,
        about: about(&names(&off)),
        sure: Sure::Medium,
        why: "the cards say so; no line tells of a connection".to_owned(),
        advice: GDR_ADVICE.to_owned(),
        evidence: evidence(lines(&off, 3).into_iter().chain(lines(&on, 2))),
    })
}

/// Sends of a host in a communicator: those through another rank's card, all, and where.
type Sends = (usize, usize, First);

/// Communicators with as many ranks on each of their hosts, some of which send through another
/// rank's card and others do not.
fn pxn(net: &Net) -> Option<Finding> {
    let mut ranks: BTreeMap<(Shared, &[u8]), BTreeSet<u32>> = BTreeMap::new();
    for (process, comm) in &net.all.comms {
        let owner = crate::stages::net::fold::Owner::Comm(*comm);
        if let (Some(host), Some(comm_of)) = (net.process(*process), shared(*process, &owner)) {
            ranks
                .entry((comm_of, &host.host))
                .or_default()
                .insert(comm.rank);
        }
    }
    let mut sends: BTreeMap<Shared, BTreeMap<&[u8], Sends>> = BTreeMap::new();
    for ((process, owner, way), (channels, first)) in &net.all.links {
        let (Some(host), Some(comm)) = (net.process(*process), shared(*process, owner)) else {
            continue;
        };
        let Some(card) = way.via.card().filter(|_| way.receives == Some(false)) else {
            continue;
        };
        let of = sends.entry(comm).or_default();
        let of = of.entry(&host.host).or_insert((0, 0, *first));
        of.0 += card.proxy.map_or(0, |_| channels.len());
        of.1 += channels.len();
        of.2 = of.2.min(*first);
    }
    let (mut with, mut without) = (Hosts::new(), Hosts::new());
    for (comm, of) in &sends {
        let sizes = ranks
            .range((*comm, &b""[..])..)
            .take_while(|((c, _), _)| c == comm);
        let sizes: BTreeSet<usize> = sizes.map(|(_, ranks)| ranks.len()).collect();
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
            "of the hosts of a communicator {} to other hosts through another GPU's card (PXN) and \
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
        why: "hosts of one communicator with as many ranks usually do the same; where the ranks \
              stand in the ring may differ"
            .to_owned(),
        advice: "compare the cards, the GPUs' order and NCCL_PXN_DISABLE on these hosts".to_owned(),
        evidence: evidence(lines(odd, 3).into_iter().chain(lines(other, 2))),
    })
}

/// Ranks of a communicator by host.
fn by_host(net: &Net) -> BTreeMap<Shared, (u32, BTreeMap<&[u8], BTreeSet<u32>>)> {
    let mut all: BTreeMap<Shared, (u32, BTreeMap<&[u8], BTreeSet<u32>>)> = BTreeMap::new();
    for (process, comm) in &net.all.comms {
        let owner = crate::stages::net::fold::Owner::Comm(*comm);
        let (Some(of), Some(comm_of)) = (net.process(*process), shared(*process, &owner)) else {
            continue;
        };
        let entry = all.entry(comm_of).or_insert((comm.nranks, BTreeMap::new()));
        entry.1.entry(&of.host).or_default().insert(comm.rank);
    }
    all
}

fn nvls(net: &Net, facts: &Facts) -> Option<Finding> {
    let of = |name: &str, value: &str| -> Hosts<'_> {
        let fact = Fact::new(Kind::Nvls, name, value);
        saying(facts, move |f| *f == fact)
    };
    let (can, cannot) = (of("support", "available"), of("support", "not available"));
    let mut made = of("buffers", "created");
    made.extend(of("tree", "connected"));
    let finding = |id, says: String, odd: &Hosts<'_>, other: &Hosts<'_>, sure, why: &str| Finding {
        id,
        severity: match id {
            // Where ranks connect at the start NVLS is made for whoever can have it.
            "nvls_not_created" if !connects_at_start(facts) => Severity::Note,
            _ => Severity::Warning,
        },
        says,
        about: about(&names(odd)),
        sure,
        why: why.to_owned(),
        // env.rst on NCCL_NVLS_ENABLE: 2.27 and 2.28 fall back without a word where the resources
        // cannot be had, and hang where that happens on some ranks only.
        advice:
            "look at the fabric manager, the driver and NCCL_NVLS_ENABLE, NCCL_CUMEM_ENABLE on \
                 the hosts named; NCCL 2.27 and 2.28 give NVLS up without a word where they cannot \
                 have it, and can hang where only some ranks do"
                .to_owned(),
        evidence: evidence(lines(odd, 3).into_iter().chain(lines(other, 2))),
    };
    if !can.is_empty() && !cannot.is_empty() {
        let (odd, other, not) = match cannot.len() <= can.len() {
            true => (&cannot, &can, "not "),
            false => (&can, &cannot, ""),
        };
        let says = match odd.keys().all(|host| other.contains_key(host)) {
            true => format!(
                "some GPUs of {} can use the NVLink switches (NVLS) and others cannot",
                listed(names(odd))
            ),
            false => format!(
                "the NVLink switches can {not}be used (NVLS) on {}, unlike on {}",
                listed(names(odd)),
                count(other.len(), "host")
            ),
        };
        let why = "each process says whether its device can";
        return Some(finding("nvls_mixed", says, odd, other, Sure::High, why));
    }
    let sizes = by_host(net);
    // Sizes of communicators that are on one host, by host.
    let mut alone: BTreeMap<&[u8], BTreeSet<u32>> = BTreeMap::new();
    for (nranks, of) in sizes.values() {
        if let (1, Some((host, ranks))) = (of.len(), of.first_key_value())
            && *nranks > 2
            && ranks.len() == *nranks as usize
        {
            alone.entry(host).or_default().insert(*nranks);
        }
    }
    let mut not_made = can.clone();
    not_made.retain(|host, _| !made.contains_key(host));
    if !made.is_empty() {
        let usual: BTreeSet<u32> = made
            .keys()
            .filter_map(|host| alone.get(host))
            .flatten()
            .copied()
            .collect();
        let shares = |host: &[u8]| {
            let mut of = sizes.values().map(|(_, of)| of);
            of.any(|of| {
                let several = of.len() > 1 && of.values().all(|ranks| ranks.len() > 2);
                several && of.contains_key(host) && of.keys().any(|h| made.contains_key(h))
            })
        };
        not_made.retain(|host, _| {
            let alike = alone.get(host).is_some_and(|own| !own.is_disjoint(&usual));
            alike || (alone.is_empty() && shares(host))
        });
        if not_made.is_empty() {
            return None;
        }
        let says = format!(
            "NVLS is available on {} and no buffers were made for it there; {} made them",
            listed(names(&not_made)),
            count(made.len(), "other host")
        );
        let why = match connects_at_start(facts) {
            true => "hosts with communicators of the same size do the same",
            false => {
                "hosts with communicators of the same size do the same; but since 2.22 buffers are \
                 made when a call first needs them, and stages of a pipeline may call different ones"
            }
        };
        return Some(finding(
            "nvls_mixed",
            says,
            &not_made,
            &made,
            Sure::Medium,
            why,
        ));
    }
    let off = saying(facts, |fact| {
        fact.kind == Kind::Setting && *fact.name == *b"NCCL_NVLS_ENABLE" && *fact.value == *b"0"
    });
    let used = facts
        .keys()
        .any(|fact| fact.kind == Kind::Nvls && *fact.name == *b"used");
    not_made.retain(|host, _| alone.contains_key(host) && !off.contains_key(host));
    // Since 2.22 ranks connect when a call first needs it: before that nothing is made.
    if not_made.is_empty() || used || net.all.links.is_empty() {
        return None;
    }
    let says = format!(
        "NVLS is available on {} and was not made for any communicator",
        listed(names(&not_made))
    );
    let why = match connects_at_start(facts) {
        true => "a communicator of more than two ranks of a host connected, and no NVLS line came",
        false => {
            "a communicator of more than two ranks of a host connected, and no NVLS line came; since \
             2.22 it is made when a call first needs it: NCCL_ALGO, or no large AllReduce, do the same"
        }
    };
    let other = Hosts::new();
    Some(finding(
        "nvls_not_created",
        says,
        &not_made,
        &other,
        Sure::Medium,
        why,
    ))
}

/// Before 2.22 ranks connect in all ways when a communicator is made, later when a call first needs
/// it (`NCCL_RUNTIME_CONNECT`).
fn connects_at_start(facts: &Facts) -> bool {
    let versions = facts
        .keys()
        .filter(|fact| fact.kind == Kind::Version && *fact.name == *b"nccl");
    let mut minors = versions.map(|fact| {
        let minor = fact.value.strip_prefix(b"2.")?;
        let minor = minor.split(|b| *b == b'.').next()?;
        std::str::from_utf8(minor).ok()?.parse::<u32>().ok()
    });
    let told = facts.contains_key(&Fact::new(Kind::Setting, "NCCL_RUNTIME_CONNECT", "0"));
    told || minors.next().flatten().is_some_and(|minor| minor < 22)
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
                "GPUs {which} may not reach each other on {}",
                listed(hosts(said))
            ),
            about: about(&hosts(said).collect()),
            sure: Sure::High,
            why: "NCCL says that peer-to-peer is disabled between them".to_owned(),
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
    let off = saying(facts, |fact| {
        let disabled = *fact.name == *b"NCCL_P2P_DISABLE" && *fact.value != *b"0";
        let level = *fact.name == *b"NCCL_P2P_LEVEL" && matches!(&fact.value[..], b"0" | b"LOC");
        fact.kind == Kind::Setting && (disabled || level)
    });
    let mixed = !shm.is_empty() && p2p.len() > shm.len();
    if shm.is_empty() || (!mixed && shm.keys().all(|host| off.contains_key(host))) {
        return None;
    }
    let says = match mixed {
        true => format!(
            "the GPUs of {} reach each other through the host's memory (SHM), those of {} \
             directly (P2P)",
            listed(names(&shm)),
            count(p2p.len(), "host")
        ),
        false => format!(
            "the GPUs of {} reach each other through the host's memory (SHM), none directly (P2P)",
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
                "usual for GPUs without NVLink that are far apart, and in containers that see \
                      one GPU each"
            }
        }
        .to_owned(),
        advice: "look at nvidia-smi topo -m, at ACS and the IOMMU, at NCCL_P2P_DISABLE and \
                 NCCL_P2P_LEVEL, and whether each container sees all GPUs of its host"
            .to_owned(),
        evidence: evidence(lines(&shm, 3).into_iter().chain(lines(&p2p, 2))),
    })
}
