//! Settings with a known cost, settings that contradict the rest of the log, and settings that NCCL reports not
//! to follow.
//!
//! NCCL prints only variables that it reads: an unknown name never appears.

use super::hosts::fact_meaning::{disables_gpu_peer_access, is_fast_nic, is_nonzero_number};
use super::hosts::odd_hosts::{about_hosts, evidence_of_lines, hosts_of};
use super::job_facts::JobFacts;
use super::setting_effects::{self, SettingEffect};
use crate::stages::check::finding::{Confidence, Finding, Kind, Severity};
use crate::stages::check::wording::{list_names, number_and_noun, quote_text};
use crate::stages::net::fact::{CORRECTED_MARK, NetFact, NetFactKind};
use crate::stages::net::net_stage::FirstReportLine;
use crate::stages::net::table::{FactSpeakers, NetFacts};
use std::collections::BTreeSet;

/// Returns the findings.
pub(super) fn find_bad_settings(job: &JobFacts<'_>) -> Vec<Finding> {
    let facts = job.facts;
    let job = JobSetup::new(facts);
    let mut all = Vec::new();
    for (fact, said) in facts {
        match fact.kind {
            NetFactKind::Setting => judge_setting(&job, fact, said, &mut all),
            NetFactKind::Config => find_overruled(fact, said, &mut all),
            _ => {}
        }
    }
    all
}

/// The facts that settings are compared with, collected once for all settings.
struct JobSetup<'f> {
    /// All hosts with facts.
    hosts: BTreeSet<&'f [u8]>,
    /// Hosts with InfiniBand, RoCE or EFA NICs.
    with_cards: BTreeSet<&'f [u8]>,
    /// Hosts on which NCCL found no InfiniBand or RoCE device.
    without_device: BTreeSet<&'f [u8]>,
    /// Hosts that loaded a network plugin.
    with_plugin: BTreeSet<&'f [u8]>,
    /// Network plugins that were missing or could not be loaded.
    lost_plugins: Vec<(&'f NetFact, &'f FactSpeakers)>,
    /// The networks of connections.
    paths: Vec<(&'f NetFact, &'f FactSpeakers)>,
}

impl<'f> JobSetup<'f> {
    fn new(facts: &'f NetFacts) -> JobSetup<'f> {
        let those = |is: &dyn Fn(&NetFact) -> bool| -> Vec<(&'f NetFact, &'f FactSpeakers)> {
            facts.iter().filter(|(fact, _)| is(fact)).collect()
        };
        let on = |is: &dyn Fn(&NetFact) -> bool| -> BTreeSet<&'f [u8]> {
            let those = those(is).into_iter();
            those.flat_map(|(_, said)| hosts_of(said)).collect()
        };
        let is_lost = |value: &[u8]| {
            value.ends_with(b" not found") || value.ends_with(b" could not be loaded")
        };
        JobSetup {
            hosts: on(&|_| true),
            with_cards: on(&is_fast_nic),
            without_device: on(&|f| {
                f.kind == NetFactKind::Nic && *f.name == *b"IB" && *f.value == *b"no device"
            }),
            with_plugin: on(&|f| {
                f.kind == NetFactKind::Plugin
                    && matches!(&f.name[..], b"net" | b"external")
                    && f.value.ends_with(b" loaded")
            }),
            lost_plugins: those(&|f| {
                f.kind == NetFactKind::Plugin && *f.name == *b"net" && is_lost(&f.value)
            }),
            paths: those(&|f| f.kind == NetFactKind::Transport),
        }
    }
}

/// See [`crate::stages::net::fact`] for values that could not be read.
const INVALID_VALUE_MARK: &[u8] = b"` is invalid";

fn judge_setting(job: &JobSetup<'_>, fact: &NetFact, said: &FactSpeakers, all: &mut Vec<Finding>) {
    let (name, value) = (quote_text(&fact.name), &fact.value[..]);
    let here: BTreeSet<&[u8]> = hosts_of(said).collect();
    let on = describe_hosts_of_setting(job, &here);
    let finding = |kind, severity, says: String, why: &str, advice: &str| Finding {
        about: about_hosts(&here),
        why: why.to_owned(),
        advice: advice.to_owned(),
        evidence: evidence_of_lines([said.first]),
        ..Finding::new(kind, severity, Confidence::High, says)
    };
    if let Some(given) = value.strip_suffix(INVALID_VALUE_MARK) {
        let says = match memchr::memmem::find(given, b" as `") {
            Some(at) => format!(
                "{name}={} is not a valid value: the default {} is used{on}",
                quote_text(&given[at + 5..]),
                quote_text(&given[..at])
            ),
            None => format!("the value of {name} is invalid: the default is used{on}"),
        };
        let why = "NCCL reports it";
        all.push(finding(
            Kind::SettingIgnored,
            Severity::Warning,
            says,
            why,
            "set a number",
        ));
        return;
    }
    // NCCL_DEBUG_TIME is not NCCL's: timestamps are NCCL_DEBUG_TIMESTAMP_LEVELS and _FORMAT
    // (`src/debug.cc`). The setting's line is `ncclParamCheckFlag`'s.
    if value == b"is unused" || name == "NCCL_DEBUG_TIME" {
        let says = format!("{name} is set and has no effect{on}");
        let (why, advice) = match name.as_str() {
            "NCCL_DEBUG_TIME" => (
                "NCCL has no such variable",
                "set NCCL_DEBUG_TIMESTAMP_LEVELS=ALL (NCCL 2.26 or later)",
            ),
            _ => ("NCCL reports that nothing reads it", "unset it"),
        };
        all.push(finding(
            Kind::SettingIgnored,
            Severity::Note,
            says,
            why,
            advice,
        ));
        return;
    }
    if let Some((says, advice)) = setting_contradiction(job, &name, value, &here) {
        let why = "the setting contradicts the facts that the same processes report";
        all.push(finding(
            Kind::SettingBad,
            Severity::Warning,
            says,
            why,
            advice,
        ));
        return;
    }
    if let Some(SettingEffect { effect, advice, .. }) = setting_effects::find_effect(&name, value) {
        let says = format!("{name}={}{on}: {effect}", quote_text(value));
        let why = "this effect of the variable is documented";
        let mut found = finding(Kind::Setting, Severity::Note, says, why, advice);
        if let Some((path, first)) = slower_path_on_hosts(job, fact, &here) {
            found.severity = Severity::Warning;
            found.says = format!("{}; connections within a host use {path}", found.says);
            found.why = format!("{why}, and the lines of the connections show it");
            found.evidence = evidence_of_lines([said.first, first]);
        }
        all.push(found);
    }
}

/// Returns the connections within a host that a setting causes, and a line of one.
fn slower_path_on_hosts(
    job: &JobSetup<'_>,
    setting: &NetFact,
    here: &BTreeSet<&[u8]>,
) -> Option<(String, FirstReportLine)> {
    if !disables_gpu_peer_access(setting) {
        return None;
    }
    let one_host = job.hosts.len() == 1;
    let within = |path: &[u8]| path.starts_with(b"SHM") || (one_host && path.starts_with(b"NET/"));
    let mut paths = job.paths.iter();
    let path =
        paths.find(|(fact, said)| within(&fact.value) && hosts_of(said).any(|h| here.contains(h)));
    path.map(|(fact, said)| (quote_text(&fact.value), said.first))
}

/// Formats ` on n3`, ` on 2 of 5 hosts`; empty for all hosts.
fn describe_hosts_of_setting(job: &JobSetup<'_>, here: &BTreeSet<&[u8]>) -> String {
    match here.len() {
        0 => String::new(),
        n if n == job.hosts.len() => String::new(),
        1..=3 => format!(" on {}", list_names(here)),
        n => format!(" on {n} of {}", number_and_noun(job.hosts.len(), "host")),
    }
}

/// A setting that the hosts' own lines contradict.
fn setting_contradiction(
    job: &JobSetup<'_>,
    name: &str,
    value: &[u8],
    here: &BTreeSet<&[u8]>,
) -> Option<(String, &'static str)> {
    let several = job.hosts.len() > 1;
    match name {
        // Only some hosts must not use the network of the others.
        "NCCL_IB_DISABLE" if is_nonzero_number(value) => {
            let others: BTreeSet<&[u8]> = job.with_cards.difference(here).copied().collect();
            (!others.is_empty()).then(|| {
                let says = format!(
                    "NCCL_IB_DISABLE={} on {} disables InfiniBand and RoCE while {} has such NICs",
                    quote_text(value),
                    list_names(here),
                    list_names(&others)
                );
                (says, "unset it, or set it on all hosts")
            })
        }
        "NCCL_IB_HCA" if several => {
            let both: BTreeSet<&[u8]> = job.without_device.intersection(here).copied().collect();
            (!both.is_empty()).then(|| {
                let says = format!(
                    "NCCL_IB_HCA={} matches no NIC on {}: NCCL found no InfiniBand or RoCE device",
                    quote_text(value),
                    list_names(&both)
                );
                (
                    says,
                    "compare it with the names that ibv_devices prints there",
                )
            })
        }
        "NCCL_NET_PLUGIN" if value != b"none" && !value.is_empty() => {
            let of_name = job
                .lost_plugins
                .iter()
                .filter(|(fact, _)| memchr::memmem::find(&fact.value, value).is_some());
            let missing: BTreeSet<&[u8]> = of_name.flat_map(|(_, said)| hosts_of(said)).collect();
            let both = missing.intersection(here).copied();
            let both: BTreeSet<&[u8]> = both.filter(|h| !job.with_plugin.contains(h)).collect();
            (!both.is_empty()).then(|| {
                let says = format!(
                    "NCCL_NET_PLUGIN={} was not loaded on {}: NCCL uses one of its own networks",
                    quote_text(value),
                    list_names(&both)
                );
                (
                    says,
                    "look for the library and its dependencies (ldd) on the named hosts",
                )
            })
        }
        _ => None,
    }
}

/// Formats the value that a variable overruled, `4 by NCCL_MIN_CTAS`.
fn find_overruled(fact: &NetFact, said: &FactSpeakers, all: &mut Vec<Finding>) {
    if let Some(at) = memchr::memmem::find(&fact.value, CORRECTED_MARK) {
        let given = &fact.value[at + CORRECTED_MARK.len()..];
        all.push(describe_corrected(fact, &fact.value[..at], given, said));
        return;
    }
    let Some(at) = memchr::memmem::find(&fact.value, b" by ") else {
        return;
    };
    let (value, by) = (&fact.value[..at], &fact.value[at + 4..]);
    let here: BTreeSet<&[u8]> = hosts_of(said).collect();
    let says = format!(
        "the program's {} is overridden: {} sets it to {}",
        quote_text(&fact.name),
        quote_text(by),
        quote_text(value)
    );
    all.push(Finding {
        about: about_hosts(&here),
        why: "NCCL reports it".to_owned(),
        advice: "unset the variable if the program's value is intended".to_owned(),
        evidence: evidence_of_lines([said.first]),
        ..Finding::of_kind(Kind::SettingIgnored, Confidence::High, says)
    });
}

/// Describes a value of the program's that NCCL replaced.
fn describe_corrected(fact: &NetFact, value: &[u8], given: &[u8], said: &FactSpeakers) -> Finding {
    let here: BTreeSet<&[u8]> = hosts_of(said).collect();
    let says = format!(
        "the program's {}={} is not possible: NCCL uses {}",
        quote_text(&fact.name),
        quote_text(given),
        quote_text(value)
    );
    Finding {
        about: about_hosts(&here),
        why: "NCCL reports it".to_owned(),
        advice: "set a value that NCCL accepts, in ncclConfig_t or by the variable".to_owned(),
        evidence: evidence_of_lines([said.first]),
        ..Finding::of_kind(Kind::SettingIgnored, Confidence::High, says)
    }
}
