//! The meaning of facts that several checks use: hosts with a fact, sockets, enabled settings.

use crate::stages::net::NetSummary;
use crate::stages::net::fact::{NetFact, NetFactKind};
use crate::stages::net::net_stage::FirstReportLine;
use crate::stages::net::pairs::{SharedCommunicator, find_shared_comm};
use crate::stages::net::table::NetFacts;
use crate::stages::net::thread_states::ConnectionOwner;
use std::collections::{BTreeMap, BTreeSet};

/// Hosts, each with its first line of a fact.
pub(crate) type FirstLineByHost<'f> = BTreeMap<&'f [u8], FirstReportLine>;

/// Returns the hosts with one of these facts, each with its first line.
pub(crate) fn hosts_saying<'f>(
    facts: &'f NetFacts,
    is: impl Fn(&NetFact) -> bool,
) -> FirstLineByHost<'f> {
    let mut all = FirstLineByHost::new();
    for (_, said) in facts.iter().filter(|(fact, _)| is(fact)) {
        for (host, (_, first)) in &said.hosts {
            let known = all.entry(&host[..]).or_insert(*first);
            *known = first.min(known).to_owned();
        }
    }
    all
}

/// Returns the hosts without their lines.
pub(crate) fn host_names<'f>(hosts: &FirstLineByHost<'f>) -> BTreeSet<&'f [u8]> {
    hosts.keys().copied().collect()
}

/// A communicator's size, and its ranks by host.
pub(crate) type CommRanksByHost<'n> = (u32, BTreeMap<&'n [u8], BTreeSet<u32>>);

/// Returns the ranks of communicators by host.
pub(crate) fn ranks_by_host(net: &NetSummary) -> BTreeMap<SharedCommunicator, CommRanksByHost<'_>> {
    let mut all: BTreeMap<SharedCommunicator, CommRanksByHost<'_>> = BTreeMap::new();
    for (process, comm) in &net.all.comms {
        let owner = ConnectionOwner::Comm(*comm);
        let (Some(of), Some(comm_of)) = (net.process(*process), find_shared_comm(*process, &owner))
        else {
            continue;
        };
        let entry = all.entry(comm_of).or_insert((comm.nranks, BTreeMap::new()));
        entry.1.entry(&of.host).or_default().insert(comm.rank);
    }
    all
}

/// NCCL's own network over sockets.
pub(crate) fn is_socket_network(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"Socket")
}

/// A NIC that is faster than a socket.
pub(crate) fn is_fast_nic(fact: &NetFact) -> bool {
    let ib = fact.name.strip_prefix(b"IB.").and_then(<[u8]>::first);
    match fact.kind {
        NetFactKind::Nic => ib.is_some_and(u8::is_ascii_digit) && !fact.name.ends_with(b".mtu"),
        NetFactKind::Provider => fact.name.is_empty() && fact.value.starts_with(b"efa"),
        _ => false,
    }
}

/// True for sockets, by NCCL's own network or by a provider of libfabric.
pub(crate) fn is_over_sockets(fact: &NetFact) -> bool {
    let slow = [&b"tcp"[..], b"sockets", b"udp"];
    match fact.kind {
        NetFactKind::Network => is_socket_network(&fact.value),
        NetFactKind::Transport => fact.value.starts_with(b"NET/Socket"),
        NetFactKind::Provider => {
            fact.name.is_empty() && slow.iter().any(|slow| fact.value.starts_with(slow))
        }
        _ => false,
    }
}

/// True for a network without sockets; the provider decides it for aws-ofi-nccl.
pub(crate) fn is_fast_network(fact: &NetFact) -> bool {
    match fact.kind {
        NetFactKind::Network => !is_socket_network(&fact.value) && *fact.value != *b"AWS Libfabric",
        NetFactKind::Transport => {
            let net = fact.value.starts_with(b"NET/");
            net && !fact.value.starts_with(b"NET/Socket")
                && !fact.value.starts_with(b"NET/AWS Libfabric")
        }
        NetFactKind::Provider => fact.name.is_empty() && fact.value.starts_with(b"efa"),
        _ => false,
    }
}

/// True for a setting that keeps a host's GPUs from reaching each other directly.
pub(crate) fn disables_gpu_peer_access(fact: &NetFact) -> bool {
    let disabled = *fact.name == *b"NCCL_P2P_DISABLE" && is_nonzero_number(&fact.value);
    let level = *fact.name == *b"NCCL_P2P_LEVEL" && matches!(&fact.value[..], b"0" | b"LOC");
    fact.kind == NetFactKind::Setting && (disabled || level)
}

/// True for a number other than 0. NCCL reads these as `strtoll` does (`ncclLoadParam` in `src/misc/param.cc`);
/// the effect of other text is unknown.
pub(crate) fn is_nonzero_number(value: &[u8]) -> bool {
    let text = std::str::from_utf8(value).unwrap_or_default();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    let number = match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16),
        None => format!("{sign}{digits}").parse(),
    };
    number.is_ok_and(|number| number != 0)
}
