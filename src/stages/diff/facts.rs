//! What the processes of two runs say of network, versions, plugins and settings.

use super::row::{Aspect, Row, Value};
use super::run::Run;
use crate::stages::net::fact::{Fact, Kind};
use crate::stages::net::table::Words;
use memchr::memmem;
use std::collections::{BTreeMap, BTreeSet};

/// Settings that name a run and not how it runs.
const OF_A_RUN: [&[u8]; 5] = [
    b"NCCL_COMM_ID",
    b"NCCL_DEBUG_FILE",
    b"NCCL_GRAPH_DUMP_FILE",
    b"NCCL_HOSTID",
    b"NCCL_TOPO_DUMP_FILE",
];

/// A kind, and which of the kind.
type Subject = (Kind, Box<[u8]>);

/// What a run says, by kind and subject.
pub(super) struct Said {
    facts: BTreeMap<Subject, BTreeSet<Box<[u8]>>>,
    /// What it comes to, where that is known.
    job: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Facts compared as they are printed; of transports and NVLink switches only what it comes to.
fn aspect(kind: Kind) -> Option<Aspect> {
    Some(match kind {
        Kind::Network => Aspect::Network,
        Kind::Interface => Aspect::Interface,
        Kind::Nic => Aspect::Nic,
        Kind::Provider => Aspect::Provider,
        Kind::GpuDirect => Aspect::GpuDirect,
        Kind::Transport => Aspect::Transport,
        Kind::NicUsed => Aspect::NicUsed,
        Kind::Mnnvl => Aspect::Mnnvl,
        Kind::Version => Aspect::Version,
        Kind::Plugin => Aspect::Plugin,
        Kind::Setting => Aspect::Setting,
        Kind::Config => Aspect::Config,
        // Addresses never agree; the others are what the job comes to, or show in its transports.
        Kind::Address | Kind::Pxn | Kind::Nvls | Kind::P2p => return None,
    })
}

/// What a whole job comes to.
const JOB: [(&str, Aspect); 4] = [
    ("gpudirect", Aspect::GpuDirect),
    ("pxn", Aspect::Pxn),
    ("rails", Aspect::Rails),
    ("nvls", Aspect::Nvls),
];

/// Where there are none there is nothing to hold against the other run's: it has other transports.
const NO_NETWORK: &[u8] = b"no network connections";

/// What a summary says of connections, without what NICs could do and for how many it is so.
fn essence(value: &[u8]) -> &[u8] {
    let ends = [&b"; NICs"[..], b" at the ends of"];
    let end = ends.iter().filter_map(|end| memmem::find(value, end)).min();
    &value[..end.unwrap_or(value.len())]
}

impl Said {
    /// What the processes of a run say.
    pub(super) fn of(run: &Run) -> Said {
        let Words { facts, job } = Words::of(&run.net);
        let mut all: BTreeMap<Subject, BTreeSet<_>> = BTreeMap::new();
        for Fact { kind, name, value } in facts {
            if kind == Kind::Setting && OF_A_RUN.contains(&&*name) {
                continue;
            }
            // Each way is one that is there or not.
            let (name, value) = match kind {
                Kind::Transport => (value.clone(), value),
                _ => (name, value),
            };
            all.entry((kind, name)).or_default().insert(value);
        }
        let job = job.into_iter().filter_map(|(subject, value)| {
            let name = subject.strip_prefix(b"job.")?;
            let value = essence(&value);
            let known = !value.starts_with(b"unknown") && *value != *NO_NETWORK;
            known.then(|| (name.to_vec(), value.to_vec()))
        });
        Said {
            job: job.collect(),
            facts: all,
        }
    }

    fn says(&self, kind: Kind) -> bool {
        self.facts.keys().any(|(known, _)| *known == kind)
    }

    /// What it says nothing of and `other` does.
    pub(super) fn lacks(&self, other: &Said) -> Vec<&'static str> {
        let kinds: BTreeSet<Kind> = other.facts.keys().map(|(kind, _)| *kind).collect();
        let lacking = kinds
            .into_iter()
            .filter(|&kind| aspect(kind).is_some() && !self.says(kind))
            .filter(|&kind| kind != Kind::NicUsed || !self.says(Kind::Transport));
        let mut names: Vec<&'static str> = lacking.map(Kind::word).collect();
        for (name, _) in JOB {
            let knows = |said: &Said| said.job.contains_key(name.as_bytes());
            let network = || name == "nvls" || !self.says(Kind::Transport);
            if knows(other) && !knows(self) && network() && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// What differs. A subject that one run does not name is compared where that means something:
    /// it has no such NIC, does not set that variable, makes no such connection.
    pub(super) fn compare(&self, other: &Said, rows: &mut Vec<Row>) {
        let subjects: BTreeSet<_> = self.facts.keys().chain(other.facts.keys()).collect();
        for subject in subjects {
            let (kind, name) = subject;
            let Some(aspect) = aspect(*kind) else {
                continue;
            };
            let listed = kind.is_listed() || *kind == Kind::Transport;
            match (self.facts.get(subject), other.facts.get(subject)) {
                (Some(a), Some(b)) if a == b => {}
                (Some(a), Some(b)) => rows.push(Row::new(aspect, name, joined(a), joined(b))),
                (Some(a), None) if listed && other.says(*kind) => {
                    rows.push(Row::new(aspect, name, joined(a), Value::Nothing));
                }
                (None, Some(b)) if listed && self.says(*kind) => {
                    rows.push(Row::new(aspect, name, Value::Nothing, joined(b)));
                }
                _ => {}
            }
        }
        for (name, aspect) in JOB {
            let of = |said: &Said| said.job.get(name.as_bytes()).cloned();
            if let (Some(a), Some(b)) = (of(self), of(other))
                && a != b
            {
                rows.push(Row::new(aspect, "job", Value::Text(a), Value::Text(b)));
            }
        }
    }
}

/// All that hosts say of one subject.
fn joined(values: &BTreeSet<Box<[u8]>>) -> Value {
    let values: Vec<&[u8]> = values.iter().map(|value| &value[..]).collect();
    Value::Text(values.join(&b"; "[..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_connections_it_counts_what_they_are_and_not_how_many() {
        let of = |text: &'static str| std::str::from_utf8(essence(text.as_bytes())).unwrap();
        assert_eq!(of("on"), "on");
        assert_eq!(of("off; NICs support it"), "off");
        assert_eq!(
            of("different NIC numbers at the ends of 3 of 8 connections"),
            "different NIC numbers"
        );
        assert_eq!(of("unknown; NICs do not support it"), "unknown");
    }
}
