//! Interfaces that cannot serve a job on several hosts.
//!
//! NCCL leaves out `lo` and `docker*` unless it finds nothing else (`ncclFindInterfaces` in
//! `src/misc/socket.cc`), and knows no other virtual interface. Where ranks of several hosts completed a
//! communicator, they reached each other over any interface. A job on one host needs none that
//! reaches another.

use super::SetupContext;
use super::interface_kind::{AddressRange, InterfaceFault};
use super::limits::MAX_SETUP_EVIDENCE;
use crate::stages::check::finding::{Confidence, Evidence, Finding, Kind, Severity};
use crate::stages::check::questions::hosts::odd_hosts::about_hosts;
use crate::stages::check::wording::{list_names, quote_text, verb_form};
use crate::stages::communicators::{CommunicatorSide, CommunicatorState};
use crate::stages::net::connection::ConnectionTransport;
use crate::stages::net::fact::NetFactKind;
use crate::stages::net::net_stage::FirstReportLine;
use crate::stages::net::sockets::{InterfaceRole, InterfaceUse};
use std::collections::{BTreeMap, BTreeSet};

/// Whether the job has several hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostSpan {
    One,
    Several,
    /// The log has lines of one host, and they do not show whether there are others.
    Unknown,
}

/// The hosts that use an interface, each with its first line.
type InterfaceHosts<'s> = BTreeMap<&'s [u8], FirstReportLine>;

/// Returns the findings.
pub(super) fn find_unsuitable_interfaces(
    context: &SetupContext<'_>,
    is_troubled: bool,
) -> Vec<Finding> {
    let span = find_host_span(context);
    // Damage may hide that ranks of several hosts completed a communicator.
    let is_hidden = context.is_damaged() && !is_troubled;
    if span == HostSpan::One || has_completed_across(context) || is_hidden {
        return Vec::new();
    }
    let uses = InterfaceUses::collect(context);
    let mut all = Vec::from_iter(find_shared_address(context, &uses, is_troubled));
    all.extend(find_split_network(&uses, is_troubled));
    for role in [InterfaceRole::Bootstrap, InterfaceRole::Data] {
        all.extend(find_faulty_interface(
            context,
            &uses,
            role,
            span,
            is_troubled,
        ));
    }
    // An interface may be named by each: the worst is enough, and of equal ones the first.
    all.sort_by_key(|finding| (finding.severity, finding.sure));
    all.truncate(1);
    all
}

/// The interfaces of all hosts.
struct InterfaceUses<'s> {
    by_interface: BTreeMap<&'s InterfaceUse, InterfaceHosts<'s>>,
    /// Data goes over sockets, as far as the log shows.
    over_sockets: bool,
}

impl<'s> InterfaceUses<'s> {
    fn collect(context: &SetupContext<'s>) -> InterfaceUses<'s> {
        let net = context.net;
        let mut by_interface: BTreeMap<&InterfaceUse, InterfaceHosts<'_>> = BTreeMap::new();
        for ((process, used), line) in &net.all.sockets.interfaces {
            let host = net
                .process(*process)
                .map_or(&b""[..], |process| &process.host);
            let hosts = by_interface.entry(used).or_default();
            let first = hosts.entry(host).or_insert(*line);
            *first = line.min(first).to_owned();
        }
        let networks = || {
            let facts = net.all.facts.items().iter();
            facts.filter(|fact| fact.kind == NetFactKind::Network)
        };
        let is_socket = |fact: &crate::stages::net::fact::NetFact| *fact.value == *b"Socket";
        InterfaceUses {
            by_interface,
            over_sockets: networks().all(is_socket),
        }
    }

    /// Returns the names of the interfaces without a fault, those of most hosts first.
    fn list_good_names(&self) -> Vec<&'s [u8]> {
        let mut hosts: BTreeMap<&[u8], BTreeSet<&[u8]>> = BTreeMap::new();
        for (used, of) in &self.by_interface {
            // NCCL's own check of the speed names no address.
            let is_good = !used.address.is_empty()
                && InterfaceFault::of_interface(&used.name, &used.address).is_none();
            if is_good {
                hosts.entry(&used.name).or_default().extend(of.keys());
            }
        }
        let mut names: Vec<(&[u8], usize)> = hosts
            .into_iter()
            .map(|(name, of)| (name, of.len()))
            .collect();
        names.sort_by_key(|&(name, of)| (std::cmp::Reverse(of), name));
        names.into_iter().map(|(name, _)| name).collect()
    }

    /// Answers which interface NCCL should use, from what the log lists.
    fn advise_interface(&self, context: &SetupContext<'_>) -> String {
        let set =
            context.net.all.facts.items().iter().find(|fact| {
                fact.kind == NetFactKind::Setting && *fact.name == *b"NCCL_SOCKET_IFNAME"
            });
        let set = set.map_or(String::new(), |fact| {
            format!(" (it is set to {})", quote_text(&fact.value))
        });
        match self.list_good_names().first() {
            Some(name) => format!(
                "set NCCL_SOCKET_IFNAME={}{set}: the log lists this interface, and it is none of these \
                 kinds; look at its address on each host (ip addr)",
                quote_text(name)
            ),
            None => format!(
                "set NCCL_SOCKET_IFNAME{set} to the interface that reaches the other hosts (ip addr, ip \
                 route get ADDRESS), or exclude the others: NCCL_SOCKET_IFNAME=^docker,lo,virbr,veth,br-"
            ),
        }
    }
}

/// Two hosts that are found by one address: the bootstrap of one reaches itself.
fn find_shared_address(
    context: &SetupContext<'_>,
    uses: &InterfaceUses<'_>,
    is_troubled: bool,
) -> Option<Finding> {
    let mut shared: BTreeMap<&[u8], (&InterfaceUse, InterfaceHosts<'_>)> = BTreeMap::new();
    for (used, hosts) in &uses.by_interface {
        if used.role == InterfaceRole::Bootstrap && !used.address.is_empty() {
            let known = shared
                .entry(&used.address)
                .or_insert((used, BTreeMap::new()));
            known.1.extend(hosts);
        }
    }
    let (used, hosts) = shared.into_values().find(|(_, hosts)| hosts.len() > 1)?;
    let names: BTreeSet<&[u8]> = hosts.keys().copied().collect();
    if reach_each_other(context, &names) {
        return None;
    }
    let fault = InterfaceFault::of_interface(&used.name, &used.address);
    // Containers of one machine may share its network, and then its addresses.
    let (severity, sure) = match (fault, is_troubled) {
        (Some(InterfaceFault::Bridge), true) => (Severity::Error, Confidence::High),
        (Some(InterfaceFault::Bridge), false) | (Some(_), true) => {
            (Severity::Error, Confidence::Medium)
        }
        (None, true) => (Severity::Warning, Confidence::Medium),
        (_, false) => (Severity::Note, Confidence::Low),
    };
    let says = format!(
        "{} use one address for the bootstrap, {}:{}: each reaches itself there and not the others",
        list_names(&names),
        quote_text(&used.name),
        quote_text(&used.address)
    );
    Some(Finding {
        about: about_hosts(&names),
        why: match fault {
            Some(fault) => format!(
                "the interface {}, and no line shows that ranks of these hosts found each other",
                fault.describe_fault()
            ),
            None => {
                "the addresses of two hosts must differ, unless they are containers of one machine"
                    .to_owned()
            }
        },
        advice: uses.advise_interface(context),
        evidence: evidence_of(hosts.values().copied()),
        ..Finding::new(Kind::InterfaceUnsuitable, severity, sure, says)
    })
}

/// Two hosts with bootstraps in ranges of addresses that no subnet has in common. Of two addresses in one range the
/// lines do not show whether they are in one subnet.
fn find_split_network(uses: &InterfaceUses<'_>, is_troubled: bool) -> Option<Finding> {
    type RangeUse<'s> = (&'s InterfaceUse, &'s [u8], FirstReportLine);
    let mut ranges: BTreeMap<AddressRange, RangeUse<'_>> = BTreeMap::new();
    let mut hosts_of_range: BTreeMap<AddressRange, BTreeSet<&[u8]>> = BTreeMap::new();
    for (used, hosts) in &uses.by_interface {
        let range = AddressRange::of_address(&used.address);
        let range = range.filter(|_| used.role == InterfaceRole::Bootstrap);
        // An unusable interface is a finding of its own.
        let fault = InterfaceFault::of_interface(&used.name, &used.address);
        if let (Some(range), None, Some((host, line))) = (range, fault, hosts.first_key_value()) {
            ranges.entry(range).or_insert((used, host, *line));
            hosts_of_range
                .entry(range)
                .or_default()
                .extend(hosts.keys());
        }
    }
    let mut pairs = ranges.iter().zip(ranges.iter().skip(1));
    let (one, other) = pairs
        .find(|((one, _), (other, _))| hosts_of_range[one].is_disjoint(&hosts_of_range[other]))?;
    let names = BTreeSet::from([one.1.1, other.1.1]);
    let place = |&(used, host, _): &RangeUse<'_>| {
        format!(
            "{} ({}:{})",
            quote_text(host),
            quote_text(&used.name),
            quote_text(&used.address)
        )
    };
    let (severity, sure) = match is_troubled {
        true => (Severity::Warning, Confidence::Medium),
        false => (Severity::Note, Confidence::Low),
    };
    let says = format!(
        "the bootstraps of {} and {} are in different networks: no subnet has both addresses",
        place(one.1),
        place(other.1)
    );
    Some(Finding {
        about: about_hosts(&names),
        why: "the addresses are in different ranges; they reach each other only through a router, and no \
              line shows that ranks of these hosts found each other"
            .to_owned(),
        advice: "set NCCL_SOCKET_IFNAME to an interface whose addresses are in one network on all hosts \
                 (ip addr)"
            .to_owned(),
        evidence: evidence_of([one.1.2, other.1.2].into_iter()),
        ..Finding::new(Kind::InterfaceUnsuitable, severity, sure, says)
    })
}

/// An interface that cannot reach other hosts.
fn find_faulty_interface(
    context: &SetupContext<'_>,
    uses: &InterfaceUses<'_>,
    role: InterfaceRole,
    span: HostSpan,
    is_troubled: bool,
) -> Option<Finding> {
    if role == InterfaceRole::Data && !uses.over_sockets {
        return None;
    }
    let of_role = uses
        .by_interface
        .iter()
        .filter(|(used, _)| used.role == role);
    let faulty = of_role.filter_map(|(used, hosts)| {
        Some((
            InterfaceFault::of_interface(&used.name, &used.address)?,
            used,
            hosts,
        ))
    });
    let (fault, used, _) = faulty
        .clone()
        .min_by_key(|(fault, used, _)| (*fault, *used))?;
    let mut lines = InterfaceHosts::new();
    let mut names = BTreeSet::new();
    for (_, used, hosts) in faulty {
        lines.extend(hosts);
        names.insert(&used.name[..]);
    }
    let hosts: BTreeSet<&[u8]> = lines
        .keys()
        .copied()
        .filter(|host| !host.is_empty())
        .collect();
    let sure = match (span, is_troubled) {
        (HostSpan::Several, true) => Confidence::High,
        (HostSpan::Several, false) | (_, true) => Confidence::Medium,
        _ => Confidence::Low,
    };
    // A job on one host may well use these; tunnels and link-local addresses serve none.
    let usual = matches!(fault, InterfaceFault::Loopback | InterfaceFault::Bridge);
    let severity = match span == HostSpan::Several || is_troubled || !usual {
        true => Severity::Warning,
        false => Severity::Note,
    };
    let tries_own = is_own_address_tried(context, used);
    let address = match &used.address[..] {
        b"" => String::new(),
        address => format!(" ({})", quote_text(address)),
    };
    let what = match role {
        InterfaceRole::Bootstrap => "the bootstrap goes",
        _ => "NCCL's sockets go",
    };
    let says = format!(
        "{what} over {}{address} on {}, which {}",
        list_names(&names),
        match hosts.is_empty() {
            true => "a host".to_owned(),
            false => list_names(&hosts),
        },
        fault.describe_fault(),
    ) + match tries_own {
        true => "; the address that it still tries to reach is its own",
        false => "",
    };
    let span_known = match span {
        HostSpan::Several => "the job has several hosts",
        _ => "the log does not show whether the job has several hosts; on one host it is harmless",
    };
    Some(Finding {
        about: about_hosts(&hosts),
        why: format!(
            "NCCL lists the {} that it uses; {span_known}",
            verb_form(names.len(), "interface", "interfaces")
        ),
        advice: uses.advise_interface(context),
        evidence: evidence_of(lines.values().copied()),
        ..Finding::new(Kind::InterfaceUnsuitable, severity, sure, says)
    })
}

/// True if a process still tries to reach the address of this interface, which is its own or another host's.
fn is_own_address_tried(context: &SetupContext<'_>, used: &InterfaceUse) -> bool {
    let open = context.net.all.sockets.open_retries();
    let mut peers = open.iter().filter_map(|(_, peer, _)| peer.peer.as_deref());
    let is_own = |peer: &[u8]| peer.split(|&b| b == b'<').next() == Some(&used.address[..]);
    !used.address.is_empty() && peers.any(is_own)
}

fn evidence_of(lines: impl Iterator<Item = FirstReportLine>) -> Vec<Evidence> {
    let lines: BTreeSet<FirstReportLine> = lines.collect();
    lines
        .into_iter()
        .take(MAX_SETUP_EVIDENCE)
        .map(Evidence::from)
        .collect()
}

/// Finds out whether the job has several hosts, by all lines that show it.
fn find_host_span(context: &SetupContext<'_>) -> HostSpan {
    let (net, found) = (context.net, context.found);
    if net.hosts().len() > 1 {
        return HostSpan::Several;
    }
    let mut over_net = net.all.links.keys().map(|link| &link.2.via);
    let has_net = over_net.any(|via| matches!(via, ConnectionTransport::Net(_)));
    let nodes = found.sides.iter().filter_map(|side| side.layout);
    let nodes: BTreeSet<u32> = nodes.map(|(nodes, _)| nodes).collect();
    if nodes.last().is_some_and(|&n| n > 1) || (nodes.is_empty() && has_net) {
        return HostSpan::Several;
    }
    let is_whole = |side: &CommunicatorSide| {
        let size = side.nranks.unwrap_or(u32::MAX) as usize;
        let of_size = found
            .sides
            .iter()
            .filter(|other| other.nranks == side.nranks);
        of_size
            .filter_map(|other| other.rank)
            .collect::<BTreeSet<u32>>()
            .len()
            >= size
    };
    let largest = found.sides.iter().max_by_key(|side| side.nranks);
    let known = !nodes.is_empty() || largest.is_some_and(is_whole);
    match known {
        true => HostSpan::One,
        false => HostSpan::Unknown,
    }
}

/// True if a side shows that its rank found all others.
fn has_found_others(side: &CommunicatorSide) -> bool {
    let complete = matches!(
        side.state,
        CommunicatorState::Ready | CommunicatorState::Destroyed | CommunicatorState::Aborted
    );
    complete || side.count_calls() > 0 || side.layout.is_some()
}

/// True if a communicator on several hosts is complete.
fn has_completed_across(context: &SetupContext<'_>) -> bool {
    let found = context.found;
    let by_lines = found.communicators.iter().any(|communicator| {
        let sides = communicator.sides.iter().map(|&at| &found.sides[at]);
        let hosts = sides
            .clone()
            .map(|side| &found.processes[side.process as usize].host);
        let hosts: BTreeSet<&Box<[u8]>> = hosts.collect();
        let mut sides = sides;
        hosts.len() > 1 && sides.any(has_found_others)
    });
    let by_layout = || {
        let mut sides = found.sides.iter();
        sides.any(|side| side.layout.is_some_and(|(nodes, _)| nodes > 1))
    };
    // Up to 2.17 no line shows which hosts a communicator has.
    let without_id = || {
        let mut sides = found.sides.iter();
        context.net.hosts().len() > 1
            && sides.any(|side| side.comm_id.is_none() && has_found_others(side))
    };
    by_lines || by_layout() || without_id()
}

/// True if ranks of two of the hosts are in one communicator and have found each other.
fn reach_each_other(context: &SetupContext<'_>, hosts: &BTreeSet<&[u8]>) -> bool {
    let found = context.found;
    found.communicators.iter().any(|communicator| {
        let sides = communicator.sides.iter().map(|&at| &found.sides[at]);
        let found_others = sides.filter(|side| has_found_others(side));
        let own = found_others.map(|side| &found.processes[side.process as usize].host[..]);
        let own: BTreeSet<&[u8]> = own.filter(|host| hosts.contains(host)).collect();
        own.len() > 1
    })
}
