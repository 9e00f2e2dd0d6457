//! What facts mean to more than one check: which hosts have them, what is a socket, what is on.

use crate::stages::net::Net;
use crate::stages::net::all::{First, Owner};
use crate::stages::net::fact::{Fact, Kind};
use crate::stages::net::pairs::{Shared, shared};
use crate::stages::net::table::Facts;
use std::collections::{BTreeMap, BTreeSet};

/// Hosts, with where each says it first.
pub(crate) type Hosts<'f> = BTreeMap<&'f [u8], First>;

/// The hosts that say one of these facts, with where each says it first.
pub(crate) fn saying<'f>(facts: &'f Facts, is: impl Fn(&Fact) -> bool) -> Hosts<'f> {
    let mut all = Hosts::new();
    for (_, said) in facts.iter().filter(|(fact, _)| is(fact)) {
        for (host, (_, first)) in &said.hosts {
            let known = all.entry(&host[..]).or_insert(*first);
            *known = first.min(known).to_owned();
        }
    }
    all
}

/// The hosts alone.
pub(crate) fn names<'f>(hosts: &Hosts<'f>) -> BTreeSet<&'f [u8]> {
    hosts.keys().copied().collect()
}

/// A line of each of the first hosts.
pub(crate) fn lines(hosts: &Hosts<'_>, n: usize) -> Vec<First> {
    hosts.values().take(n).copied().collect()
}

/// A communicator's size, and its ranks by host.
pub(crate) type Ranks<'n> = (u32, BTreeMap<&'n [u8], BTreeSet<u32>>);

/// Ranks of communicators by host.
pub(crate) fn by_host(net: &Net) -> BTreeMap<Shared, Ranks<'_>> {
    let mut all: BTreeMap<Shared, Ranks<'_>> = BTreeMap::new();
    for (process, comm) in &net.all.comms {
        let owner = Owner::Comm(*comm);
        let (Some(of), Some(comm_of)) = (net.process(*process), shared(*process, &owner)) else {
            continue;
        };
        let entry = all.entry(comm_of).or_insert((comm.nranks, BTreeMap::new()));
        entry.1.entry(&of.host).or_default().insert(comm.rank);
    }
    all
}

/// NCCL's own network over sockets.
pub(crate) fn is_socket(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"Socket")
}

/// A NIC that is faster than a socket.
pub(crate) fn is_fast_card(fact: &Fact) -> bool {
    let ib = fact.name.strip_prefix(b"IB.").and_then(<[u8]>::first);
    match fact.kind {
        Kind::Nic => ib.is_some_and(u8::is_ascii_digit) && !fact.name.ends_with(b".mtu"),
        Kind::Provider => fact.name.is_empty() && fact.value.starts_with(b"efa"),
        _ => false,
    }
}

/// Sockets, by NCCL's own network or by a provider of libfabric's that is one.
pub(crate) fn is_over_sockets(fact: &Fact) -> bool {
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
pub(crate) fn is_fast_network(fact: &Fact) -> bool {
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

/// Whether it is a setting that keeps a host's GPUs from reaching each other directly.
pub(crate) fn keeps_apart(fact: &Fact) -> bool {
    let disabled = *fact.name == *b"NCCL_P2P_DISABLE" && is_on(&fact.value);
    let level = *fact.name == *b"NCCL_P2P_LEVEL" && matches!(&fact.value[..], b"0" | b"LOC");
    fact.kind == Kind::Setting && (disabled || level)
}

/// True for a number that is not 0. NCCL reads these as `strtoll` does (`ncclLoadParam` in
/// `src/misc/param.cc`); of anything else it is not known what it does.
pub(crate) fn is_on(value: &[u8]) -> bool {
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
