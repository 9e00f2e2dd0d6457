//! Differences between the settings of hosts: other values, and variables that only some hosts print.

use super::fact_meaning::is_over_sockets;
use super::odd_hosts::{about_hosts, evidence_of_lines, hosts_of, split_hosts};
use crate::stages::check::finding::{Confidence, Finding, Kind, Severity};
use crate::stages::check::questions::job_facts::JobFacts;
use crate::stages::check::wording::{list_names, number_and_noun, quote_text, verb_form};
use crate::stages::net::NetSummary;
use crate::stages::net::fact::NetFactKind;
use crate::stages::net::net_stage::FirstReportLine;
use crate::stages::net::table::NetSubject;
use std::collections::{BTreeMap, BTreeSet};

/// Variables of a single host or rank, and variables that only affect printing.
const PER_HOST_VARIABLES: [&str; 15] = [
    "NCCL_SOCKET_IFNAME",
    "NCCL_OOB_NET_IFNAME",
    "NCCL_IB_ADDR_RANGE",
    "NCCL_COMM_ID",
    "NCCL_HOSTID",
    "NCCL_CONF_FILE",
    "NCCL_TOPO_FILE",
    "NCCL_TOPO_DUMP_FILE",
    "NCCL_TOPO_DUMP_FILE_RANK",
    "NCCL_GRAPH_DUMP_FILE",
    "NCCL_GRAPH_DUMP_FILE_RANK",
    "NCCL_GRAPH_FILE",
    "NCCL_RAS_ADDR",
    "NCCL_PROXY_CPUSET",
    "NCCL_MNNVL_CLIQUE_ID",
];

/// True for a variable that may differ by host.
fn is_per_host_variable(name: &[u8]) -> bool {
    name.starts_with(b"NCCL_DEBUG")
        || name.starts_with(b"NCCL_PROFILE")
        || PER_HOST_VARIABLES.iter().any(|own| own.as_bytes() == name)
}

/// The sizes of the communicators of each host's ranks. A process reads a variable for all communicators of a
/// size; a host without that size does not read it.
struct SettingOccasions<'n>(BTreeMap<&'n [u8], BTreeSet<u32>>);

impl<'n> SettingOccasions<'n> {
    fn new(net: &'n NetSummary) -> SettingOccasions<'n> {
        let mut sizes: BTreeMap<&[u8], BTreeSet<u32>> = BTreeMap::new();
        for (process, comm) in &net.all.comms {
            if let Some(process) = net.process(*process) {
                sizes.entry(&process.host).or_default().insert(comm.nranks);
            }
        }
        SettingOccasions(sizes)
    }

    /// True if no communicator is known, so that hosts cannot be distinguished by them.
    fn is_unknown(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the `hosts` with a communicator of a size that another printing host has.
    fn hosts_with_like_comms<'h>(
        &self,
        saying: &BTreeSet<&[u8]>,
        hosts: impl Iterator<Item = &'h [u8]>,
    ) -> BTreeSet<&'h [u8]> {
        let own = |host: &[u8]| self.0.get(host).into_iter().flatten().copied();
        let sizes: BTreeSet<u32> = saying.iter().flat_map(|host| own(host)).collect();
        let is = |host: &&[u8]| self.is_unknown() || own(host).any(|size| sizes.contains(&size));
        hosts.filter(is).collect()
    }
}

/// Hosts that print a setting, hosts that read it and do not print it, and true if each process reads it when
/// it starts.
type PartlyPrintedSetting<'a> = (BTreeSet<&'a [u8]>, BTreeSet<&'a [u8]>, bool);

/// Returns the findings on settings that differ, or that only some hosts print.
pub(crate) fn find_setting_differences(job: &JobFacts<'_>) -> Vec<Finding> {
    let (facts, mut all) = (job.facts, Vec::new());
    // Hosts that print settings, each with its first line.
    let mut speak: BTreeMap<&[u8], (BTreeSet<u32>, FirstReportLine)> = BTreeMap::new();
    for (_, said) in facts
        .iter()
        .filter(|(fact, _)| fact.kind == NetFactKind::Setting)
    {
        for (host, (processes, at)) in &said.hosts {
            let known = speak.entry(host).or_insert((BTreeSet::new(), *at));
            known.0.extend(processes);
            known.1 = known.1.min(*at);
        }
    }
    let compared = job
        .subjects
        .iter()
        .filter(|s| s.kind == NetFactKind::Setting && !is_per_host_variable(s.name));
    let slow = facts.iter().filter(|(fact, _)| is_over_sockets(fact));
    let slow: BTreeSet<&[u8]> = slow.flat_map(|(_, said)| hosts_of(said)).collect();
    let occasions = SettingOccasions::new(job.net);
    // Variables that only some hosts print.
    let mut partly: BTreeMap<PartlyPrintedSetting<'_>, Vec<&NetSubject<'_>>> = BTreeMap::new();
    for subject in compared {
        let saying: BTreeSet<&[u8]> = subject
            .values
            .iter()
            .flat_map(|(_, s)| hosts_of(s))
            .collect();
        if subject.values.len() > 1 {
            find_subject_difference(subject, &mut all);
            continue;
        }
        let by_all = saying.iter().all(|host| {
            let by = subject
                .values
                .iter()
                .filter_map(|(_, said)| said.hosts.get(*host));
            let by: BTreeSet<u32> = by.flat_map(|(by, _)| by).copied().collect();
            speak.get(host).is_some_and(|all| all.0.len() == by.len())
        });
        // Hosts that use sockets do not read the settings of NICs: that is one cause, and not this one.
        let of_cards = [&b"NCCL_IB_"[..], b"NCCL_NET_GDR", b"NCCL_PXN"];
        let of_cards = of_cards.iter().any(|start| subject.name.starts_with(start));
        let without = subject.of.difference(&saying).copied();
        let without = occasions.hosts_with_like_comms(&saying, without);
        if by_all
            && !without.is_empty()
            && !(of_cards && without.iter().all(|host| slow.contains(host)))
        {
            let start = is_read_at_start(subject.name) && !occasions.is_unknown();
            partly
                .entry((saying, without, start))
                .or_default()
                .push(subject);
        }
    }
    for ((saying, without, at_start), subjects) in partly {
        let lacks = without.first().and_then(|host| speak.get(host));
        let lacks = lacks.map(|(_, at)| *at);
        all.push(only_some_hosts_finding(
            &saying, &without, at_start, &subjects, lacks,
        ));
    }
    all
}

/// True for a variable that every process of a job over several hosts reads when it starts; others are read and
/// printed when they are first needed.
fn is_read_at_start(name: &[u8]) -> bool {
    const NAMES: [&str; 18] = [
        "NCCL_ALGO",
        "NCCL_BUFFSIZE",
        "NCCL_COLLNET_ENABLE",
        "NCCL_CROSS_NIC",
        "NCCL_CUMEM_ENABLE",
        "NCCL_MAX_CTAS",
        "NCCL_MAX_NCHANNELS",
        "NCCL_MIN_CTAS",
        "NCCL_MIN_NCHANNELS",
        "NCCL_MNNVL_ENABLE",
        "NCCL_NET",
        "NCCL_NET_GDR_LEVEL",
        "NCCL_NET_PLUGIN",
        "NCCL_NVLS_ENABLE",
        "NCCL_P2P_DISABLE",
        "NCCL_P2P_LEVEL",
        "NCCL_PROTO",
        "NCCL_SHM_DISABLE",
    ];
    name.starts_with(b"NCCL_IB_") || NAMES.iter().any(|known| known.as_bytes() == name)
}

/// Settings that some hosts print in every process, and others in none; `lacks` is a setting's line of one of
/// the others.
fn only_some_hosts_finding(
    saying: &BTreeSet<&[u8]>,
    without: &BTreeSet<&[u8]>,
    at_start: bool,
    subjects: &[&NetSubject<'_>],
    lacks: Option<FirstReportLine>,
) -> Finding {
    let names = list_names(subjects.iter().map(|s| s.name));
    let prints = |hosts: &BTreeSet<&[u8]>| verb_form(hosts.len(), "prints", "print");
    let (odd, says) = match saying.len() > without.len() {
        true => {
            let others = number_and_noun(saying.len(), "host");
            let (on, print) = (list_names(without), prints(without));
            (
                without,
                format!("{on} {print} no {names}; every process of {others} does"),
            )
        }
        false => {
            let others = number_and_noun(without.len(), "host");
            let (on, print) = (list_names(saying), prints(saying));
            (
                saying,
                format!("only {on} {print} {names}; {others} with other settings do not"),
            )
        }
    };
    let has = subjects
        .iter()
        .filter_map(|s| s.values.first())
        .map(|(_, said)| said.first);
    let (severity, sure) = match at_start {
        true => (Severity::Warning, Confidence::Medium),
        false => (Severity::Note, Confidence::Low),
    };
    Finding {
        about: about_hosts(odd),
        evidence: evidence_of_lines(has.take(3).chain(lacks)),
        ..Finding::new(Kind::SettingDiffers, severity, sure, says)
    }
}

fn find_subject_difference(subject: &NetSubject<'_>, all: &mut Vec<Finding>) {
    let Some(split) = split_hosts(subject) else {
        return;
    };
    let usual: BTreeSet<&[u8]> = split
        .most
        .iter()
        .flat_map(|(_, said)| hosts_of(said))
        .collect();
    let odd = split.odd_host_names();
    // A host with both values has ranks that differ: often on purpose.
    let whole = odd.iter().any(|host| !usual.contains(host));
    // NICs have other names on other hosts.
    let severity = match whole && subject.name != b"NCCL_IB_HCA" {
        true => Severity::Warning,
        false => Severity::Note,
    };
    let what = format!("{} differs", quote_text(subject.name));
    all.push(Finding {
        why: "the processes of these hosts print the value they use".to_owned(),
        advice: "set it to the same value on all hosts unless the difference is intended; compare \
                 the environment and /etc/nccl.conf"
            .to_owned(),
        ..split.difference_finding(Kind::SettingDiffers, severity, &what)
    });
}
