//! Facts of two runs: network, versions, plugins and settings.

use super::row::{DiffAspect, DiffRow, DiffValue};
use super::run::DiffRun;
use crate::stages::net::fact::{NetFact, NetFactKind};
use crate::stages::net::table::NetFactsSummary;
use memchr::memmem;
use std::collections::{BTreeMap, BTreeSet};

/// Settings that name a run and not how it runs.
const RUN_SETTINGS: [&[u8]; 5] = [
    b"NCCL_COMM_ID",
    b"NCCL_DEBUG_FILE",
    b"NCCL_GRAPH_DUMP_FILE",
    b"NCCL_HOSTID",
    b"NCCL_TOPO_DUMP_FILE",
];

/// Kind and name of a fact.
type FactSubject = (NetFactKind, Box<[u8]>);

/// Facts of a run.
pub(super) struct RunFacts {
    facts: BTreeMap<FactSubject, BTreeSet<Box<[u8]>>>,
    /// Summaries of the job, if known.
    job: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Returns the aspect of facts that are compared as printed; transports and NVLink switches are compared as
/// summaries.
fn aspect_of_kind(kind: NetFactKind) -> Option<DiffAspect> {
    Some(match kind {
        NetFactKind::Network => DiffAspect::Network,
        NetFactKind::Interface => DiffAspect::Interface,
        NetFactKind::Nic => DiffAspect::Nic,
        NetFactKind::Provider => DiffAspect::Provider,
        NetFactKind::GpuDirect => DiffAspect::GpuDirect,
        NetFactKind::Transport => DiffAspect::Transport,
        NetFactKind::NicUsed => DiffAspect::NicUsed,
        NetFactKind::Mnnvl => DiffAspect::Mnnvl,
        NetFactKind::Version => DiffAspect::Version,
        NetFactKind::Plugin => DiffAspect::Plugin,
        NetFactKind::Setting => DiffAspect::Setting,
        NetFactKind::Config => DiffAspect::Config,
        // Addresses always differ; the others are in summaries or show in the transports.
        NetFactKind::Address | NetFactKind::Pxn | NetFactKind::Nvls | NetFactKind::P2p => {
            return None;
        }
    })
}

/// Summaries of a job.
const JOB_FACTS: [(&str, DiffAspect); 4] = [
    ("gpudirect", DiffAspect::GpuDirect),
    ("pxn", DiffAspect::Pxn),
    ("rails", DiffAspect::Rails),
    ("nvls", DiffAspect::Nvls),
];

/// A run without network connections cannot be compared: it has other transports.
const NO_NETWORK: &[u8] = b"no network connections";

/// Returns the part of a summary about connections, without what NICs support and without counts.
fn essential_part(value: &[u8]) -> &[u8] {
    let ends = [&b"; NICs"[..], b" at the ends of"];
    let end = ends.iter().filter_map(|end| memmem::find(value, end)).min();
    &value[..end.unwrap_or(value.len())]
}

impl RunFacts {
    /// Collects the facts of a run.
    pub(super) fn from_run(run: &DiffRun) -> RunFacts {
        let NetFactsSummary { facts, job } = NetFactsSummary::from_net(&run.net);
        let mut all: BTreeMap<FactSubject, BTreeSet<_>> = BTreeMap::new();
        for NetFact { kind, name, value } in facts {
            if kind == NetFactKind::Setting && RUN_SETTINGS.contains(&&*name) {
                continue;
            }
            // Each path is a fact of its own.
            let (name, value) = match kind {
                NetFactKind::Transport => (value.clone(), value),
                _ => (name, value),
            };
            all.entry((kind, name)).or_default().insert(value);
        }
        let job = job.into_iter().filter_map(|(subject, value)| {
            let name = subject.strip_prefix(b"job.")?;
            let value = essential_part(&value);
            let known = !value.starts_with(b"unknown") && *value != *NO_NETWORK;
            known.then(|| (name.to_vec(), value.to_vec()))
        });
        RunFacts {
            job: job.collect(),
            facts: all,
        }
    }

    fn has_kind(&self, kind: NetFactKind) -> bool {
        self.facts.keys().any(|(known, _)| *known == kind)
    }

    /// True if both runs have facts of a kind.
    pub(super) fn has_common_kind(&self, other: &RunFacts) -> bool {
        self.facts.keys().any(|(kind, _)| other.has_kind(*kind))
    }

    /// Lists the kinds that only `other` has.
    pub(super) fn missing_kinds(&self, other: &RunFacts) -> Vec<&'static str> {
        let kinds: BTreeSet<NetFactKind> = other.facts.keys().map(|(kind, _)| *kind).collect();
        let lacking = kinds
            .into_iter()
            .filter(|&kind| aspect_of_kind(kind).is_some() && !self.has_kind(kind))
            .filter(|&kind| kind != NetFactKind::NicUsed || !self.has_kind(NetFactKind::Transport));
        let mut names: Vec<&'static str> = lacking.map(NetFactKind::word).collect();
        for (name, _) in JOB_FACTS {
            let knows = |said: &RunFacts| said.job.contains_key(name.as_bytes());
            let network = || name == "nvls" || !self.has_kind(NetFactKind::Transport);
            if knows(other) && !knows(self) && network() && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Compares two runs. A subject that only one run has is a change if its absence means something: no
    /// such NIC, variable or connection.
    pub(super) fn compare_facts(&self, other: &RunFacts, rows: &mut Vec<DiffRow>) {
        let subjects: BTreeSet<_> = self.facts.keys().chain(other.facts.keys()).collect();
        for subject in subjects {
            let (kind, name) = subject;
            let Some(aspect) = aspect_of_kind(*kind) else {
                continue;
            };
            let listed = kind.is_listed() || *kind == NetFactKind::Transport;
            match (self.facts.get(subject), other.facts.get(subject)) {
                (Some(a), Some(b)) if a == b => {}
                (Some(a), Some(b)) => {
                    rows.push(DiffRow::new(aspect, name, join_values(a), join_values(b)));
                }
                (Some(a), None) if listed && other.has_kind(*kind) => {
                    rows.push(DiffRow::new(
                        aspect,
                        name,
                        join_values(a),
                        DiffValue::Nothing,
                    ));
                }
                (None, Some(b)) if listed && self.has_kind(*kind) => {
                    rows.push(DiffRow::new(
                        aspect,
                        name,
                        DiffValue::Nothing,
                        join_values(b),
                    ));
                }
                _ => {}
            }
        }
        for (name, aspect) in JOB_FACTS {
            let of = |said: &RunFacts| said.job.get(name.as_bytes()).cloned();
            if let (Some(a), Some(b)) = (of(self), of(other))
                && a != b
            {
                rows.push(DiffRow::new(
                    aspect,
                    "job",
                    DiffValue::Text(a),
                    DiffValue::Text(b),
                ));
            }
        }
    }
}

/// Joins all values of one subject.
fn join_values(values: &BTreeSet<Box<[u8]>>) -> DiffValue {
    let values: Vec<&[u8]> = values.iter().map(|value| &value[..]).collect();
    DiffValue::Text(values.join(&b"; "[..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_connections_it_counts_what_they_are_and_not_how_many() {
        let of = |text: &'static str| std::str::from_utf8(essential_part(text.as_bytes())).unwrap();
        assert_eq!(of("on"), "on");
        assert_eq!(of("off; NICs support it"), "off");
        assert_eq!(
            of("different NIC numbers at the ends of 3 of 8 connections"),
            "different NIC numbers"
        );
        assert_eq!(of("unknown; NICs do not support it"), "unknown");
    }
}
