//! The communicators of two runs, by what they are for and how large they are.

use super::measure::Measure;
use super::row::{Aspect, Row, Value};
use super::tuned::numbers;
use crate::grammar::message::graph::Channels;
use crate::stages::communicators::{Found, Kind};
use std::collections::{BTreeMap, BTreeSet};

/// The size of a communicator, and what it is for.
type Of = (Option<u32>, &'static str);

/// Communicators of one size and use.
#[derive(Debug, Default)]
struct Alike {
    count: u64,
    /// How many nodes they span.
    nodes: BTreeSet<u32>,
}

/// Communicators of a run.
#[derive(Debug, Default)]
pub(super) struct Groups {
    sized: BTreeMap<Of, Alike>,
    /// By size and nodes: the numbers of channels.
    channels: BTreeMap<(Option<u32>, Option<u32>), BTreeSet<Channels>>,
    /// Some are one process's side only.
    is_unnamed: bool,
}

impl Groups {
    pub(super) fn of(found: &Found) -> Groups {
        let mut groups = Groups::default();
        for kind in found.kinds() {
            let Kind {
                label,
                nranks,
                nodes,
                named,
                channels,
            } = kind;
            groups.is_unnamed |= !named;
            if named {
                let sized = groups.sized.entry((nranks, label)).or_default();
                sized.count += 1;
                sized.nodes.extend(nodes);
            }
            let known = groups.channels.entry((nranks, nodes)).or_default();
            known.extend(channels);
        }
        groups
    }

    /// True where what one is for is known.
    pub(super) fn knows_labels(&self) -> bool {
        self.sized.keys().any(|(_, label)| *label != "unknown")
    }

    /// What differs. How many there are is compared where both runs name theirs.
    pub(super) fn compare(&self, other: &Groups, rows: &mut Vec<Row>) {
        if self.are_named() && other.are_named() {
            // Where one does not know what they are for, they are compared by size alone.
            let labels = self.knows_labels() && other.knows_labels();
            let (a, b) = (self.sized(labels), other.sized(labels));
            compare_counts(&a, &b, rows);
        }
        for (of, a) in &self.channels {
            let Some(b) = other.channels.get(of) else {
                continue;
            };
            channels(&size(of.0, of.1), of.0, (a, b), rows);
        }
    }

    /// True where all members of each are known to be its members.
    pub(super) fn are_named(&self) -> bool {
        !self.sized.is_empty() && !self.is_unnamed
    }

    /// The communicators by size, and by label if `labels`.
    fn sized(&self, labels: bool) -> BTreeMap<Of, Alike> {
        let mut all: BTreeMap<Of, Alike> = BTreeMap::new();
        for (&(nranks, label), more) in &self.sized {
            let of = (nranks, if labels { label } else { "" });
            let sized = all.entry(of).or_default();
            sized.count += more.count;
            sized.nodes.extend(&more.nodes);
        }
        all
    }
}

fn compare_counts(a: &BTreeMap<Of, Alike>, b: &BTreeMap<Of, Alike>, rows: &mut Vec<Row>) {
    let all: BTreeSet<&Of> = a.keys().chain(b.keys()).collect();
    for of in all {
        let (nranks, label) = *of;
        let name = match label {
            "" => size(nranks, None),
            "unknown" => format!("unlabelled {}", size(nranks, None)),
            label => format!("{label} {}", size(nranks, None)),
        };
        let row = |subject: &str, a, b| Row {
            weight: f64::from(nranks.unwrap_or(0)),
            ..Row::new(Aspect::Communicators, subject, a, b)
        };
        let none = Alike::default();
        let (a, b) = (a.get(of).unwrap_or(&none), b.get(of).unwrap_or(&none));
        if a.count != b.count {
            let number = |n| Value::Number(Measure::exact(n));
            rows.push(row(&name, number(a.count), number(b.count)));
        }
        if a.nodes != b.nodes && !a.nodes.is_empty() && !b.nodes.is_empty() {
            let (a, b) = (numbers(&a.nodes), numbers(&b.nodes));
            rows.push(row(&format!("{name}: nodes"), a, b));
        }
    }
}

fn size(nranks: Option<u32>, nodes: Option<u32>) -> String {
    let number = |n: Option<u32>| n.map_or("an unknown number of".to_owned(), |n| n.to_string());
    match nodes {
        None => format!("of {} ranks", number(nranks)),
        Some(1) => format!("of {} ranks on 1 node", number(nranks)),
        _ => format!("of {} ranks on {} nodes", number(nranks), number(nodes)),
    }
}

fn channels(
    of: &str,
    nranks: Option<u32>,
    (a, b): (&BTreeSet<Channels>, &BTreeSet<Channels>),
    rows: &mut Vec<Row>,
) {
    type Field = fn(&Channels) -> Option<u32>;
    let fields: [(&str, Field); 5] = [
        ("coll", |c| Some(c.coll)),
        ("collnet", |c| c.collnet),
        ("nvls", |c| c.nvls),
        ("p2p", |c| Some(c.p2p)),
        ("p2p per peer", |c| Some(c.per_peer)),
    ];
    for (name, field) in fields {
        let of_all = |all: &BTreeSet<Channels>| all.iter().filter_map(field).collect();
        let (a, b): (BTreeSet<u32>, BTreeSet<u32>) = (of_all(a), of_all(b));
        if a == b || a.is_empty() || b.is_empty() {
            continue;
        }
        rows.push(Row {
            weight: f64::from(nranks.unwrap_or(0)),
            basis: "per communicator",
            ..Row::new(
                Aspect::Channels,
                format!("communicators {of}: {name}"),
                numbers(&a),
                numbers(&b),
            )
        });
    }
}
