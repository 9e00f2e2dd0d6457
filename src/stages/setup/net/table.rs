//! The facts as a table: for each subject the job's value, and after it the hosts that differ.
//!
//! A host differs if at most half of the hosts have its value (`yes`), or if it has no other value of the
//! subject and lacks the majority's (`lacks`). Only hosts with a value of the subject count; for NICs and
//! settings those that list any, since a host that lists some and not this one lacks it. NCCL reads most
//! settings when a communicator is made, so a host that made none lacks no setting.

use super::NetSummary;
use super::connection::ConnectionTransport;
use super::fact::{NetFact, NetFactKind};
use super::net_stage::FirstReportLine;
use super::rails;
use crate::output::render::{Grid, TableCell};
use std::collections::{BTreeMap, BTreeSet};

/// Options of the table.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Shows every host's facts instead of the job's and those of hosts that differ; default no.
    pub hosts: bool,
}

/// Speakers of a fact.
#[derive(Debug, Clone)]
pub struct FactSpeakers {
    /// Processes of each host, and the first line.
    pub hosts: BTreeMap<Box<[u8]>, (BTreeSet<u32>, FirstReportLine)>,
    /// The first line of all.
    pub first: FirstReportLine,
    /// Processes that report it; lines without a header have none.
    pub processes: BTreeSet<u32>,
}

/// A row in words.
struct NetFactRow<'a> {
    host: Option<&'a [u8]>,
    subject: Vec<u8>,
    value: Vec<u8>,
    hosts: Option<u64>,
    of_hosts: Option<u64>,
    processes: Option<u64>,
    minority: &'static str,
    first: Option<FirstReportLine>,
}

/// Builds the table.
pub fn build_net_grid(net: &NetSummary, options: &Options) -> Grid {
    let columns = [
        "scope",
        "host",
        "subject",
        "value",
        "hosts",
        "of_hosts",
        "processes",
        "minority",
        "line",
        "input",
    ];
    let several = net.inputs.len() > 1;
    let row = |line: NetFactRow<'_>| -> Vec<TableCell<'static>> {
        let first = line.first;
        let input = first.filter(|_| several).map(|first| {
            let name = net.inputs.get(first.input as usize);
            TableCell::from(name.map_or(Vec::new(), |n| n.clone().into_bytes()))
        });
        vec![
            if line.host.is_some() { "host" } else { "job" }.into(),
            line.host
                .map_or(TableCell::Empty, |h| TableCell::from(h.to_vec())),
            TableCell::from(line.subject),
            TableCell::from(line.value),
            line.hosts.into(),
            line.of_hosts.into(),
            line.processes.into(),
            line.minority.into(),
            first.map(|first| first.line + 1).into(),
            input.unwrap_or(TableCell::Empty),
        ]
    };
    let lines = match options.hosts {
        true => list_by_host(net.facts()),
        false => list_by_job(net),
    };
    Grid {
        columns: columns.map(str::to_owned).to_vec(),
        rows: lines.into_iter().map(row).collect(),
    }
}

/// Facts with their speakers.
pub type NetFacts = BTreeMap<NetFact, FactSpeakers>;

/// All facts of a job.
#[derive(Debug)]
pub(in crate::stages) struct NetFactsSummary {
    /// The facts.
    pub(in crate::stages) facts: BTreeSet<NetFact>,
    /// Summaries of the job: `job.gpudirect`, ...
    pub(in crate::stages) job: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl NetFactsSummary {
    /// Collects the facts of a job.
    pub(in crate::stages) fn from_net(net: &NetSummary) -> NetFactsSummary {
        let summary = summarize_job(net).into_iter();
        NetFactsSummary {
            job: summary.map(|line| (line.subject, line.value)).collect(),
            facts: net.facts().keys().cloned().collect(),
        }
    }
}

/// Facts of one subject.
type SubjectFacts<'a> = Vec<(&'a NetFact, &'a FactSpeakers)>;

/// Facts of one subject, and the hosts that count.
#[derive(Debug)]
pub struct NetSubject<'a> {
    /// Its kind.
    pub kind: NetFactKind,
    /// Its name within the kind; may be empty.
    pub name: &'a [u8],
    /// The hosts that count.
    pub of: BTreeSet<&'a [u8]>,
    /// The facts, those of most hosts first.
    pub values: SubjectFacts<'a>,
}

impl NetSubject<'_> {
    /// True if more than half of the hosts report the fact, and if hosts cannot be compared because lines
    /// have no headers.
    pub fn is_majority(&self, fact: &NetFact, said: &FactSpeakers) -> bool {
        2 * said.hosts.len() > self.of.len() || !fact.is_compared() || said.hosts.is_empty()
    }
}

/// Groups the facts by subject.
pub fn group_by_subject(net: &NetSummary) -> Vec<NetSubject<'_>> {
    let facts = net.facts();
    let made = net.hosts_with_communicators();
    let mut listing: BTreeMap<NetFactKind, BTreeSet<&[u8]>> = BTreeMap::new();
    let mut saying: BTreeMap<(NetFactKind, &[u8]), BTreeSet<&[u8]>> = BTreeMap::new();
    for (fact, said) in facts {
        let hosts = || said.hosts.keys().map(|host| &host[..]);
        listing.entry(fact.kind).or_default().extend(hosts());
        saying
            .entry((fact.kind, &fact.name))
            .or_default()
            .extend(hosts());
    }
    if let Some(listing) = listing.get_mut(&NetFactKind::Setting)
        && !made.is_empty()
    {
        listing.retain(|host| made.contains(host));
    }
    let mut subjects: BTreeMap<(NetFactKind, &[u8]), SubjectFacts<'_>> = BTreeMap::new();
    for (fact, said) in facts
        .iter()
        .filter(|(fact, _)| fact.kind != NetFactKind::Address)
    {
        let subject = (fact.kind, &fact.name[..]);
        subjects.entry(subject).or_default().push((fact, said));
    }
    let mut all = Vec::with_capacity(subjects.len());
    for ((kind, name), mut values) in subjects {
        let saying = &saying[&(kind, name)];
        let of = match kind.is_listed() {
            true => listing[&kind].union(saying).copied().collect(),
            false => saying.clone(),
        };
        values.sort_by_key(|(_, said)| std::cmp::Reverse(said.hosts.len()));
        all.push(NetSubject {
            kind,
            name,
            of,
            values,
        });
    }
    all
}

/// Collects what [`NetSummary::facts`] keeps.
pub(super) fn collect_facts(net: &NetSummary) -> NetFacts {
    let mut all = NetFacts::new();
    let mut add = |fact: NetFact, lines: &[(u32, FirstReportLine)]| {
        if let Some(&(_, first)) = lines.first() {
            let said = all.entry(fact).or_insert_with(|| FactSpeakers {
                hosts: BTreeMap::new(),
                first,
                processes: BTreeSet::new(),
            });
            for &(process, first) in lines {
                said.add_line(net, process, first);
            }
        }
    };
    // Many processes report the same: each fact is looked up once.
    let mut naming: BTreeSet<u32> = BTreeSet::new();
    let mut of_fact: BTreeMap<u32, Vec<(u32, FirstReportLine)>> = BTreeMap::new();
    for (&(process, fact), &first) in &net.all.said {
        of_fact.entry(fact).or_default().push((process, first));
        if net.all.facts.get(fact).kind == NetFactKind::Network {
            naming.insert(process);
        }
    }
    for (fact, lines) in of_fact {
        add(net.all.facts.get(fact).clone(), &lines);
    }
    let mut of_way: BTreeMap<&ConnectionTransport, Vec<(u32, FirstReportLine)>> = BTreeMap::new();
    for ((process, _, way), (_, first)) in &net.all.links {
        of_way.entry(&way.via).or_default().push((*process, *first));
    }
    for (via, mut lines) in of_way {
        add(
            NetFact::new(NetFactKind::Transport, "", via.format_transport()),
            &lines,
        );
        if let Some(card) = via.nic() {
            let nic = format!("/{}", card.nic).into_bytes();
            let value = [&card.plugin, &nic[..]].concat();
            add(NetFact::new(NetFactKind::NicUsed, "", value), &lines);
            if card.proxy.is_some() {
                add(NetFact::new(NetFactKind::Pxn, "", "used"), &lines);
            }
        }
        if let ConnectionTransport::Net(card) = via {
            lines.retain(|(process, _)| !naming.contains(process));
            add(NetFact::new(NetFactKind::Network, "", &card.plugin), &lines);
        }
    }
    all
}

impl FactSpeakers {
    fn add_line(&mut self, net: &NetSummary, process: u32, first: FirstReportLine) {
        self.first = first.min(self.first);
        if let Some(known) = net.process(process) {
            self.processes.insert(process);
            if !self.hosts.contains_key(&known.host) {
                let none = (BTreeSet::new(), first);
                self.hosts.insert(known.host.clone(), none);
            }
            if let Some((processes, at)) = self.hosts.get_mut(&known.host) {
                processes.insert(process);
                *at = first.min(*at);
            }
        }
    }
}

/// Lists every host's facts.
fn list_by_host(facts: &NetFacts) -> Vec<NetFactRow<'_>> {
    let mut lines: BTreeMap<&[u8], Vec<NetFactRow<'_>>> = BTreeMap::new();
    for (fact, said) in facts {
        for (host, (processes, first)) in &said.hosts {
            lines.entry(host).or_default().push(NetFactRow {
                host: Some(host),
                subject: fact.subject(),
                value: fact.value.to_vec(),
                hosts: None,
                of_hosts: None,
                processes: Some(processes.len() as u64),
                minority: "",
                first: Some(*first),
            });
        }
    }
    lines.into_values().flatten().collect()
}

/// Lists the job's facts after their summary, each followed by the hosts that differ.
fn list_by_job(net: &NetSummary) -> Vec<NetFactRow<'_>> {
    let mut lines = summarize_job(net);
    for subject in group_by_subject(net) {
        let (of, values) = (&subject.of, &subject.values);
        // A host with another value is not listed again as lacking the majority's.
        let others = values
            .iter()
            .filter(|(fact, said)| !subject.is_majority(fact, said));
        let others: BTreeSet<&[u8]> = others
            .flat_map(|(_, said)| said.hosts.keys().map(|host| &host[..]))
            .collect();
        for &(fact, said) in values {
            let most = subject.is_majority(fact, said);
            lines.push(NetFactRow {
                host: None,
                subject: fact.subject(),
                value: fact.value.to_vec(),
                hosts: nonzero_count(said.hosts.len()),
                of_hosts: nonzero_count(of.len()),
                processes: nonzero_count(said.processes.len()),
                minority: if most { "" } else { "yes" },
                first: Some(said.first),
            });
            if !fact.is_compared() || said.hosts.is_empty() {
                continue;
            }
            for host in of {
                let own = said.hosts.get(*host);
                if own.is_some() == most || (most && others.contains(host)) {
                    continue;
                }
                lines.push(NetFactRow {
                    host: Some(host),
                    subject: fact.subject(),
                    value: fact.value.to_vec(),
                    hosts: None,
                    of_hosts: None,
                    processes: own.map(|own| own.0.len() as u64),
                    minority: if most { "lacks" } else { "yes" },
                    first: own.map(|own| own.1),
                });
            }
        }
    }
    lines
}

/// Returns a count; `None` for 0, since lines without headers have no count.
fn nonzero_count(n: usize) -> Option<u64> {
    (n > 0).then_some(n as u64)
}

/// Summarises the job in words.
fn summarize_job(net: &NetSummary) -> Vec<NetFactRow<'_>> {
    let processes: Vec<_> = net.real.iter().filter_map(|&p| net.process(p)).collect();
    let hosts = net.hosts();
    let line = |subject: &str, value: String| NetFactRow {
        host: None,
        subject: subject.as_bytes().to_vec(),
        value: value.into_bytes(),
        hosts: nonzero_count(hosts.len()),
        of_hosts: nonzero_count(hosts.len()),
        processes: nonzero_count(processes.len()),
        minority: "",
        first: None,
    };
    let hosts = nonzero_count(hosts.len()).map_or("unknown".to_owned(), |n| n.to_string());
    let mut lines = vec![line("job.hosts", hosts)];
    let has = |kind: NetFactKind| net.facts().keys().any(|fact| fact.kind == kind);
    for (subject, known) in [
        ("job.network", has(NetFactKind::Network)),
        ("job.transport", has(NetFactKind::Transport)),
        ("job.version", has(NetFactKind::Version)),
        ("job.plugin", has(NetFactKind::Plugin)),
        ("job.setting", has(NetFactKind::Setting)),
    ] {
        if !known {
            lines.push(line(subject, "unknown".to_owned()));
        }
    }
    lines.push(line("job.gpudirect", describe_gpudirect(net)));
    lines.push(line("job.pxn", describe_pxn(net)));
    lines.push(line("job.rails", describe_rails(net)));
    lines.push(line("job.nvls", describe_nvls(net)));
    lines
}

/// Describes whether network connections reach the GPUs' memory.
pub fn describe_gpudirect(net: &NetSummary) -> String {
    let mut all = (0, 0);
    for ((_, _, way), (channels, _)) in &net.all.links {
        if let Some(card) = way.via.nic() {
            all.0 += if card.gdr { channels.len() } else { 0 };
            all.1 += channels.len();
        }
    }
    let cards = || {
        let cards = || net.facts().keys().filter(|fact| fact.is_of_nic_gdr());
        let on = cards().any(|fact| fact.value.starts_with(b"on"));
        match (cards().next().is_some(), on) {
            (false, _) => "",
            (true, true) => "; NICs support it",
            (true, false) => "; NICs do not support it",
        }
    };
    match all {
        (0, 0) if net.all.links.is_empty() => format!("unknown{}", cards()),
        (0, 0) => format!("no network connections{}", cards()),
        (on, of) if on == of => "on".to_owned(),
        (0, _) => "off".to_owned(),
        (on, of) => format!("on for {on} of {of} network connections"),
    }
}

/// Describes whether GPUs use other GPUs' NICs.
pub fn describe_pxn(net: &NetSummary) -> String {
    let cards = || net.all.links.keys().filter_map(|link| link.2.via.nic());
    let word = match (net.all.links.is_empty(), cards().count()) {
        (true, _) => "unknown",
        (false, 0) => "no network connections",
        _ if cards().any(|card| card.proxy.is_some()) => "used",
        _ => "not used",
    };
    word.to_owned()
}

/// Describes whether connections have the same NIC number at both ends.
fn describe_rails(net: &NetSummary) -> String {
    let both = rails::join_ends(net);
    let crossing = both.iter().filter(|ends| ends.is_crossed()).count();
    match (both.len(), crossing) {
        (0, _) if net.all.links.is_empty() => "unknown".to_owned(),
        (0, _) if net.all.links.keys().all(|link| link.2.via.nic().is_none()) => {
            "no network connections".to_owned()
        }
        (0, _) => "unknown: no connection is known by the lines of both its ends".to_owned(),
        (_, 0) => "same NIC number at both ends".to_owned(),
        (of, n) => format!("different NIC numbers at the ends of {n} of {of} connections"),
    }
}

/// Describes the use of NVLink switches.
pub fn describe_nvls(net: &NetSummary) -> String {
    let facts = net.facts();
    let says = |name: &str, value: &str| {
        let fact = NetFact::new(NetFactKind::Nvls, name, value);
        facts.contains_key(&fact)
    };
    let created = says("buffers", "created") || says("tree", "connected");
    let used = facts
        .keys()
        .any(|fact| fact.kind == NetFactKind::Nvls && *fact.name == *b"used");
    let off = facts.contains_key(&NetFact::new(NetFactKind::Setting, "NCCL_NVLS_ENABLE", "0"));
    let support = (
        says("support", "available"),
        says("support", "not available"),
    );
    let word = match (used, created, net.all.tuned) {
        (true, ..) => "used",
        (_, true, true) => "created; it served no call",
        (_, true, false) => "created; its use is unknown",
        _ => match (support, off) {
            ((true, true), _) => "available on some devices, not created",
            ((true, false), _) => "available, not created",
            ((false, true), _) => "not available",
            (_, true) => "disabled by NCCL_NVLS_ENABLE=0",
            _ => "unknown",
        },
    };
    word.to_owned()
}
