//! Whether the network's connections reach the GPUs' memory (GPUDirect RDMA).

use super::meaning::{Hosts, is_fast_network, is_socket, lines, names, saying};
use super::odd_hosts::{about, evidence};
use crate::stages::check::finding::{Finding, Severity, Sure};
use crate::stages::check::wording::{counted, listed};
use crate::stages::net::Net;
use crate::stages::net::all::First;
use crate::stages::net::fact::{Fact, Kind};
use crate::stages::net::table::Facts;
use std::collections::BTreeMap;

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

/// Whether a line reports that a NIC reaches the GPUs' memory, and which way.
fn is_card(fact: &Fact, on: bool) -> bool {
    let ways = [&b"by"[..], b"dmabuf", b"gdrcopy"];
    let value: &[u8] = if on { b"on" } else { b"off" };
    fact.kind == Kind::GpuDirect && !ways.contains(&&fact.name[..]) && *fact.value == *value
}

const GDR_ADVICE: &str = "check that nvidia-peermem is loaded or DMA-BUF is available (open kernel \
                          modules, Linux 5.12, CUDA 11.7), that ACS is off, and NCCL_NET_GDR_LEVEL";

/// The finding, if there is one.
pub(crate) fn finding(net: &Net, facts: &Facts) -> Option<Finding> {
    let reach = reach(net);
    if reach.is_empty() {
        return of_cards(net, facts);
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
    if on.is_empty() {
        Some(off_everywhere(facts, &off))
    } else if !off.is_empty() {
        Some(off_on_some(facts, &off, &on))
    } else if !part.is_empty() {
        Some(off_for_some_connections(&reach, &part, &on))
    } else {
        None
    }
}

/// No host's connections reach the memory.
fn off_everywhere(facts: &Facts, off: &Hosts<'_>) -> Finding {
    let says = format!(
        "GPUDirect RDMA is disabled: none of the network connections of {} accesses GPU memory \
         directly",
        counted(off.len(), "host")
    );
    let disabled = saying(facts, |fact| is_card(fact, false));
    let why = match disabled.is_empty() {
        true => "a connection that uses it has GDRDMA in its line",
        false => {
            "a connection that uses it has GDRDMA in its line, and the NICs report it as disabled"
        }
    };
    Finding {
        id: "gpudirect_off",
        severity: severity(facts, off),
        ..of_connections(says, off, &disabled, why)
    }
}

/// Those of some hosts do not, unlike those of others.
fn off_on_some(facts: &Facts, off: &Hosts<'_>, on: &Hosts<'_>) -> Finding {
    let says = format!(
        "GPUDirect RDMA is disabled on {} and enabled on {}",
        listed(names(off)),
        counted(on.len(), "other host")
    );
    let why = "a connection that uses it has GDRDMA in its line";
    Finding {
        severity: severity(facts, off),
        ..of_connections(says, off, on, why)
    }
}

/// Some connections of hosts do not, and others of the same hosts do. A NIC far from a GPU is
/// reached through the host, and so is what is sent where GPUs have no NVLink
/// (`NCCL_NET_GDR_LEVEL`, `NCCL_NET_GDR_READ`): often the machine, not a fault.
fn off_for_some_connections(
    reach: &BTreeMap<&[u8], Reach>,
    part: &Hosts<'_>,
    on: &Hosts<'_>,
) -> Finding {
    let of = |of: &dyn Fn(&Reach) -> usize| part.keys().map(|host| of(&reach[host])).sum::<usize>();
    let (without, sends) = (of(&|r| r.off.0), of(&|r| r.off_sends));
    let all = without + of(&|r| r.on.0);
    let says = format!(
        "{without} of {all} network connections of {} do not access GPU memory directly{}",
        listed(names(part)),
        if sends == without {
            "; all of them are sending ends"
        } else {
            ""
        }
    );
    let why = "this is usual where a NIC is far from a GPU, or where GPUs without NVLink send";
    Finding {
        severity: Severity::Note,
        sure: Sure::Low,
        advice: "compare the distances of NICs and GPUs (nvidia-smi topo -m) with \
                 NCCL_NET_GDR_LEVEL and NCCL_NET_GDR_READ"
            .to_owned(),
        ..of_connections(says, part, on, why)
    }
}

/// What is off as it was set is no fault.
fn severity(facts: &Facts, off: &Hosts<'_>) -> Severity {
    let set = saying(facts, |fact: &Fact| {
        let level = fact.kind == Kind::Setting && *fact.name == *b"NCCL_NET_GDR_LEVEL";
        level && matches!(&fact.value[..], b"0" | b"LOC")
    });
    match off.keys().all(|host| set.contains_key(host)) {
        true => Severity::Note,
        false => Severity::Warning,
    }
}

/// Connections of hosts that differ from those of `other` ones.
fn of_connections(says: String, who: &Hosts<'_>, other: &Hosts<'_>, why: &str) -> Finding {
    Finding {
        id: "gpudirect_mixed",
        severity: Severity::Warning,
        says,
        about: about(&names(who)),
        sure: Sure::High,
        why: why.to_owned(),
        advice: GDR_ADVICE.to_owned(),
        evidence: evidence(lines(who, 3).into_iter().chain(lines(other, 2))),
    }
}

/// What the NICs say, where no line reports a connection.
fn of_cards(net: &Net, facts: &Facts) -> Option<Finding> {
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
            format!("no NIC of {} can access GPU memory", listed(names(&off))),
        ),
        n => (
            "gpudirect_mixed",
            format!(
                "no NIC of {} can access GPU memory, and those of {} can",
                listed(names(&off)),
                counted(n, "other host")
            ),
        ),
    };
    Some(Finding {
        id,
        severity: Severity::Warning,
        says,
        about: about(&names(&off)),
        sure: Sure::Medium,
        why: "the NICs report it; no line reports a connection".to_owned(),
        advice: GDR_ADVICE.to_owned(),
        evidence: evidence(lines(&off, 3).into_iter().chain(lines(&on, 2))),
    })
}
