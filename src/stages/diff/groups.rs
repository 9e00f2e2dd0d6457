//! Communicators of two runs by purpose and size.

use super::measure::Measure;
use super::row::{DiffAspect, DiffRow, DiffValue};
use super::tuning_choices::numbers_value;
use crate::grammar::message::graph::ChannelCounts;
use crate::stages::communicators::{CommunicatorKind, CommunicatorsSummary};
use std::collections::{BTreeMap, BTreeSet};

/// Size and purpose of a communicator.
type CommunicatorUse = (Option<u32>, &'static str);

/// Communicators of one size and purpose.
#[derive(Debug, Default)]
struct SimilarCommunicators {
    count: u64,
    /// Numbers of nodes that they span.
    nodes: BTreeSet<u32>,
}

/// Communicators of a run.
#[derive(Debug, Default)]
pub(super) struct RunCommunicators {
    sized: BTreeMap<CommunicatorUse, SimilarCommunicators>,
    /// Numbers of channels, by size and nodes.
    channels: BTreeMap<(Option<u32>, Option<u32>), BTreeSet<ChannelCounts>>,
    /// Some are only one process's side.
    is_unnamed: bool,
}

impl RunCommunicators {
    pub(super) fn from_found(found: &CommunicatorsSummary) -> RunCommunicators {
        let mut groups = RunCommunicators::default();
        for kind in found.communicator_kinds() {
            let CommunicatorKind {
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

    /// True if the purpose of a communicator is known.
    pub(super) fn has_labels(&self) -> bool {
        self.sized.keys().any(|(_, label)| *label != "unknown")
    }

    /// Compares two runs; numbers of communicators only if both runs name their members.
    pub(super) fn compare_communicators(&self, other: &RunCommunicators, rows: &mut Vec<DiffRow>) {
        if self.are_named() && other.are_named() {
            // Where one run does not have the purpose of all communicators of a size, only their number is compared.
            let mut unlabelled = self.unlabelled_sizes();
            unlabelled.extend(other.unlabelled_sizes());
            let (a, b) = (
                self.group_by_size(&unlabelled),
                other.group_by_size(&unlabelled),
            );
            compare_counts(&a, &b, rows);
        }
        for (of, a) in &self.channels {
            let Some(b) = other.channels.get(of) else {
                continue;
            };
            describe_channels(&describe_size(of.0, of.1), of.0, a, b, rows);
        }
    }

    /// True if all members of each communicator are known.
    pub(super) fn are_named(&self) -> bool {
        !self.sized.is_empty() && !self.is_unnamed
    }

    /// Returns the sizes of communicators of unknown purpose.
    fn unlabelled_sizes(&self) -> BTreeSet<Option<u32>> {
        let unlabelled = self.sized.keys().filter(|(_, label)| *label == "unknown");
        unlabelled.map(|(nranks, _)| *nranks).collect()
    }

    /// Groups communicators by size, and by label but for `unlabelled` sizes.
    fn group_by_size(
        &self,
        unlabelled: &BTreeSet<Option<u32>>,
    ) -> BTreeMap<CommunicatorUse, SimilarCommunicators> {
        let mut all: BTreeMap<CommunicatorUse, SimilarCommunicators> = BTreeMap::new();
        for (&(nranks, label), more) in &self.sized {
            let is_labelled = !unlabelled.contains(&nranks);
            let of = (nranks, if is_labelled { label } else { "" });
            let sized = all.entry(of).or_default();
            sized.count += more.count;
            sized.nodes.extend(&more.nodes);
        }
        all
    }
}

fn compare_counts(
    a: &BTreeMap<CommunicatorUse, SimilarCommunicators>,
    b: &BTreeMap<CommunicatorUse, SimilarCommunicators>,
    rows: &mut Vec<DiffRow>,
) {
    let all: BTreeSet<&CommunicatorUse> = a.keys().chain(b.keys()).collect();
    for of in all {
        let (nranks, label) = *of;
        let name = match label {
            "" => describe_size(nranks, None),
            label => format!("{label} {}", describe_size(nranks, None)),
        };
        let row = |subject: &str, a, b| DiffRow {
            weight: f64::from(nranks.unwrap_or(0)),
            ..DiffRow::new(DiffAspect::Communicators, subject, a, b)
        };
        let none = SimilarCommunicators::default();
        let (a, b) = (a.get(of).unwrap_or(&none), b.get(of).unwrap_or(&none));
        if a.count != b.count {
            let number = |n| DiffValue::Number(Measure::exact(n));
            rows.push(row(&name, number(a.count), number(b.count)));
        }
        if a.nodes != b.nodes && !a.nodes.is_empty() && !b.nodes.is_empty() {
            let (a, b) = (numbers_value(&a.nodes), numbers_value(&b.nodes));
            rows.push(row(&format!("{name}: nodes"), a, b));
        }
    }
}

fn describe_size(nranks: Option<u32>, nodes: Option<u32>) -> String {
    let number = |n: Option<u32>| n.map_or("an unknown number of".to_owned(), |n| n.to_string());
    match nodes {
        None => format!("of {} ranks", number(nranks)),
        Some(1) => format!("of {} ranks on 1 node", number(nranks)),
        _ => format!("of {} ranks on {} nodes", number(nranks), number(nodes)),
    }
}

fn describe_channels(
    of: &str,
    nranks: Option<u32>,
    a: &BTreeSet<ChannelCounts>,
    b: &BTreeSet<ChannelCounts>,
    rows: &mut Vec<DiffRow>,
) {
    type ChannelField = fn(&ChannelCounts) -> Option<u32>;
    let fields: [(&str, ChannelField); 5] = [
        ("coll", |c| Some(c.coll)),
        ("collnet", |c| c.collnet),
        ("nvls", |c| c.nvls),
        ("p2p", |c| Some(c.p2p)),
        ("p2p per peer", |c| Some(c.per_peer)),
    ];
    for (name, field) in fields {
        let of_all = |all: &BTreeSet<ChannelCounts>| all.iter().filter_map(field).collect();
        let (a, b): (BTreeSet<u32>, BTreeSet<u32>) = (of_all(a), of_all(b));
        if a == b || a.is_empty() || b.is_empty() {
            continue;
        }
        rows.push(DiffRow {
            weight: f64::from(nranks.unwrap_or(0)),
            basis: "per communicator",
            ..DiffRow::new(
                DiffAspect::Channels,
                format!("communicators {of}: {name}"),
                numbers_value(&a),
                numbers_value(&b),
            )
        });
    }
}
