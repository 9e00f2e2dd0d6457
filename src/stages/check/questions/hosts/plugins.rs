//! Hosts that load other plugins: what serves each in the end is compared, not the lines on the way there.

use super::odd_hosts::split_hosts;
use crate::stages::check::finding::{Finding, Kind, Severity};
use crate::stages::check::questions::job_facts::JobFacts;
use crate::stages::check::wording::quote_text;
use crate::stages::net::fact::{NetFact, NetFactKind, PluginStage};
use crate::stages::net::table::{FactSpeakers, NetSubject};
use std::collections::BTreeSet;

/// Finds hosts that load other plugins than the others.
pub(crate) fn find_plugin_differences(job: &JobFacts<'_>) -> Vec<Finding> {
    let of_plugins = |s: &&NetSubject<'_>| s.kind == NetFactKind::Plugin;
    let subjects = job.subjects.iter().filter(of_plugins);
    subjects.filter_map(find_difference).collect()
}

/// Finds whether hosts differ in one kind of plugin, at the first stage of loading at which they do.
fn find_difference(subject: &NetSubject<'_>) -> Option<Finding> {
    let differing = PluginStage::SERVING.iter().find_map(|&stage| {
        let values = list_served(subject, stage);
        let hosts = values.iter().flat_map(|(_, said)| said.hosts.keys());
        let served = NetSubject {
            kind: subject.kind,
            name: subject.name,
            of: hosts.map(|host| &host[..]).collect(),
            values: values.iter().map(|(fact, said)| (*fact, said)).collect(),
        };
        let split = split_hosts(&served)?;
        // Network and tuner plugins change the work of a process; a profiler only observes it.
        let decides = matches!(
            subject.name,
            b"net" | b"external" | b"p2p" | b"tuner" | b"collnet"
        );
        let severity = match decides {
            true => Severity::Warning,
            false => Severity::Note,
        };
        let what = format!("the {} plugin differs", quote_text(subject.name));
        Some(split.difference_finding(Kind::PluginMixed, severity, &what))
    })?;
    Some(Finding {
        why: "the processes of these hosts report its state".to_owned(),
        advice:
            "look for the library and its dependencies on the named hosts; compare LD_LIBRARY_PATH \
                 and NCCL_NET_PLUGIN, NCCL_TUNER_PLUGIN"
                .to_owned(),
        ..differing
    })
}

/// Lists what serves hosts at a stage, with those hosts: plugins, and one value for all that is left to NCCL's own
/// code. Where no plugin serves any host, what NCCL's own code is called is all that can differ.
fn list_served<'a>(
    subject: &NetSubject<'a>,
    stage: PluginStage,
) -> Vec<(&'a NetFact, FactSpeakers)> {
    let values = || subject.values.iter().copied();
    let is_plugin = |fact: &NetFact| PluginStage::is_plugin(fact);
    let has_plugin = values().filter(|(fact, _)| is_plugin(fact));
    let has_plugin: BTreeSet<&Box<[u8]>> =
        has_plugin.flat_map(|(_, said)| said.hosts.keys()).collect();
    let of_stage = values().filter(|(fact, _)| PluginStage::of_fact(fact) == Some(stage));
    let (plugins, own): (Vec<_>, Vec<_>) = of_stage.partition(|(fact, _)| is_plugin(fact));
    let cloned = |(fact, said): (&'a NetFact, &FactSpeakers)| (fact, said.clone());
    if plugins.is_empty() {
        return own.into_iter().map(cloned).collect();
    }
    let mut all: Vec<(&NetFact, FactSpeakers)> = plugins.into_iter().map(cloned).collect();
    let mut left: Option<(&NetFact, FactSpeakers)> = None;
    for (fact, said) in values().filter(|(fact, _)| PluginStage::of_fact(fact).is_some()) {
        let mut said = said.clone();
        said.hosts.retain(|host, _| !has_plugin.contains(host));
        // The first line of all may be of a host that a plugin serves.
        let Some(first) = said.hosts.values().map(|(_, first)| *first).min() else {
            continue;
        };
        said.first = first;
        match &mut left {
            Some((_, known)) => known.hosts.extend(said.hosts),
            None => left = Some((fact, said)),
        }
    }
    all.extend(left);
    all.sort_by_key(|(_, said)| std::cmp::Reverse(said.hosts.len()));
    all
}
