//! What collectives would send over the rings and trees of their communicators: a model, by definition of
//! the algorithms.
//!
//! Over a ring of `n` ranks each rank sends to the next, for each call of `x` bytes: AllReduce
//! `2(n-1)/n x`; AllGather and ReduceScatter `(n-1) x`, where `x` is what one rank gives or gets; Broadcast and
//! Reduce `x`, but for the hop that would close the ring at the root. Over a tree an AllReduce sends `x` up and
//! `x` down each edge. A call is spread equally over the channels of its communicator, each of which has
//! one ring and one tree.

use super::cells::{Basis, EndId, Matrix, Sum};
use super::members::{Comm, Members};
use super::messages::heard;
use super::{Ends, Made};
use crate::grammar::message::tuning::Algorithm;
use crate::grammar::values::{Basis as Bytes, Kind, kind};
use crate::report::{Report, counted};
use crate::stages::net::Net;
use crate::stages::net::hops::{Graph, hops};
use crate::stages::net::pairs::Shared;
use crate::stages::tuning::all::All as Tuning;
use crate::stages::tuning::burst::How;
use std::collections::{BTreeMap, BTreeSet};

/// The hops of a communicator, by the rank that they begin at: channel and next rank.
#[derive(Debug, Default)]
struct Hops {
    rings: BTreeMap<u32, Vec<(u32, u32)>>,
    /// Up and down.
    trees: BTreeMap<u32, Vec<(u32, u32)>>,
    /// Channels that have a tree.
    channels: BTreeSet<u32>,
}

/// What serves calls, as far as a model knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Ring,
    Tree,
    /// No model has it.
    Other,
}

impl Way {
    fn of(algorithm: &[u8]) -> Way {
        match algorithm {
            a if a.eq_ignore_ascii_case(b"ring") => Way::Ring,
            a if a.eq_ignore_ascii_case(b"tree") => Way::Tree,
            _ => Way::Other,
        }
    }
}

/// What a rank sends to each next one, over all channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Sent {
    kind: Kind,
    root: Option<u32>,
    way: Way,
}

/// How many calls there are, and on which basis.
#[derive(Debug, Default)]
struct Told {
    tuned: u64,
    assumed: u64,
    other: u64,
    without: u64,
    unknown: u64,
}

/// Adds what rings and trees would carry.
pub(super) fn add(
    matrix: &mut Matrix,
    ends: Ends,
    calls: &[Made<'_>],
    (net, tuning): (&Net, &Tuning),
    members: &mut Members,
    report: &Report,
) {
    let all = of_communicators(net);
    let heard = heard(calls, members);
    let (sent, told) = carried(calls, &all, &Tuned::of(tuning), members);
    // Of ranks without a call those of the lowest rank with one are taken.
    let mut lowest: BTreeMap<(Option<u64>, &Comm), u32> = BTreeMap::new();
    for (step, comm, rank) in sent.keys() {
        lowest.entry((*step, comm)).or_insert(*rank);
    }
    for ((step, comm), rank) in lowest {
        let Some(hops) = all.get(comm) else { continue };
        let ranks: BTreeSet<u32> = hops
            .rings
            .keys()
            .chain(hops.trees.keys())
            .copied()
            .collect();
        for from in ranks {
            let whose = match heard.contains(&(comm.clone(), from)) {
                true => from,
                false => rank,
            };
            let of = sent.get(&(step, comm.clone(), whose));
            for (what, sum) in of.into_iter().flatten() {
                let mut end = |rank| members.end(matrix, ends, comm, Some(rank));
                let edges = hops.edges(from, what, *sum);
                let edges: Vec<_> = edges
                    .into_iter()
                    .map(|(to, sum)| ((end(from), end(to)), sum))
                    .collect();
                put(matrix, step, what.way, edges);
            }
        }
    }
    said(&told, report);
}

/// What each rank of a communicator would send in a step.
type Carried = BTreeMap<(Option<u64>, Comm, u32), BTreeMap<Sent, Sum>>;

/// What goes over rings and trees, and which calls are in it and which are not.
fn carried(
    calls: &[Made<'_>],
    all: &BTreeMap<Comm, Hops>,
    tuned: &Tuned,
    members: &mut Members,
) -> (Carried, Told) {
    let mut told = Told::default();
    let mut sent = Carried::new();
    for made in calls {
        let kind = match kind(made.op) {
            Kind::PerRank if made.op.ends_with(b"AlltoAll") => continue,
            kind @ (Kind::AllReduce | Kind::PerRank | Kind::Broadcast | Kind::Reduce) => kind,
            Kind::Rooted | Kind::PointToPoint | Kind::Other => continue,
        };
        if made.nranks == Some(1) {
            continue;
        }
        let (comm, rank) = members.who(made);
        let (Some(rank), Some(hops)) = (rank, all.get(&comm)) else {
            told.without = told.without.saturating_add(made.calls);
            continue;
        };
        let chosen = tuned.way(made, hops.rings.is_empty());
        let (way, count) = match chosen {
            Some(Way::Other) => (Way::Other, &mut told.other),
            Some(way) => (way, &mut told.tuned),
            None => (Way::Ring, &mut told.assumed),
        };
        // Only an AllReduce goes over a tree.
        let way = match kind {
            Kind::AllReduce => way,
            _ if way == Way::Tree => Way::Ring,
            _ => way,
        };
        let root = match kind {
            Kind::Broadcast | Kind::Reduce => made.peer(),
            _ => None,
        };
        let bytes = made.bytes.and_then(|api| match way {
            Way::Tree => Some(api),
            _ => Bytes::Wire.of(kind, api, made.nranks),
        });
        let is_rootless = root.is_none() && matches!(kind, Kind::Broadcast | Kind::Reduce);
        let Some(bytes) = bytes.filter(|_| !is_rootless) else {
            told.unknown = told.unknown.saturating_add(made.calls);
            continue;
        };
        *count = count.saturating_add(made.calls);
        if way == Way::Other {
            continue;
        }
        let all = bytes.saturating_mul(made.calls.into());
        let of = sent.entry((made.step, comm, rank)).or_default();
        of.entry(Sent { kind, root, way })
            .or_default()
            .add(Sum::of(made.calls, Some(all)));
    }
    (sent, told)
}

fn put(matrix: &mut Matrix, step: Option<u64>, way: Way, edges: Vec<((EndId, EndId), Sum)>) {
    let basis = match way {
        Way::Tree => Basis::Tree,
        _ => Basis::Ring,
    };
    for (ends, sum) in edges {
        matrix.add(step, ends, basis, sum);
    }
}

impl Hops {
    /// What a rank sends to each other one: `all` over all channels.
    fn edges(&self, from: u32, what: &Sent, all: Sum) -> BTreeMap<u32, Sum> {
        let mut edges: BTreeMap<u32, Sum> = BTreeMap::new();
        let hops = match what.way {
            Way::Tree => self.trees.get(&from),
            _ => self.rings.get(&from),
        };
        let hops = hops.map_or(&[][..], |hops| hops);
        let of_channel: BTreeSet<u32> = match what.way {
            Way::Tree => self.channels.clone(),
            _ => hops.iter().map(|(channel, _)| *channel).collect(),
        };
        let channels = of_channel.len() as u128;
        for (n, channel) in (0_u128..).zip(&of_channel) {
            let share = all.bytes / channels + u128::from(n < all.bytes % channels);
            for (_, to) in hops.iter().filter(|(of, _)| of == channel) {
                let closes = match what.kind {
                    Kind::Broadcast => what.root == Some(*to),
                    Kind::Reduce => what.root == Some(from),
                    _ => false,
                };
                if !closes {
                    let edge = edges.entry(*to).or_default();
                    edge.calls = all.calls;
                    edge.bytes = edge.bytes.saturating_add(share);
                }
            }
        }
        edges
    }
}

/// The rings and trees of communicators that have an id.
fn of_communicators(net: &Net) -> BTreeMap<Comm, Hops> {
    let mut all: BTreeMap<Comm, Hops> = BTreeMap::new();
    for graph in [Graph::Rings, Graph::Trees] {
        for (shared, index, from, to) in hops(net, graph) {
            let Shared::Id(id, _) = shared else { continue };
            let of = all.entry(Comm::Id(id)).or_default();
            match graph {
                Graph::Rings => of.rings.entry(from).or_default().push((index, to)),
                Graph::Trees => {
                    of.channels.insert(index);
                    of.trees.entry(from).or_default().push((index, to));
                    of.trees.entry(to).or_default().push((index, from));
                }
            }
        }
    }
    all
}

/// How often each way serves an operation, a size of communicator and bytes.
struct Tuned<'t>(BTreeMap<(&'t [u8], u32, u64), BTreeMap<Way, u64>>);

impl<'t> Tuned<'t> {
    fn of(all: &'t Tuning) -> Tuned<'t> {
        let mut of: BTreeMap<_, BTreeMap<Way, u64>> = BTreeMap::new();
        for (key, counts) in &all.found {
            let (Some(op), Some(nranks)) = (key.op, key.nranks) else {
                continue;
            };
            let op = all.names.name(op);
            // Up to NCCL 2.23 the lines give all ranks' bytes of a gather.
            let bytes = match kind(op) {
                Kind::PerRank if !key.is_api() => key.bytes / u64::from(nranks.max(1)),
                _ => key.bytes,
            };
            let way = match key.how {
                How::By(Algorithm::Ring, _) => Way::Ring,
                How::By(Algorithm::Tree, _) => Way::Tree,
                _ => Way::Other,
            };
            let ways = of.entry((op, nranks, bytes)).or_default();
            *ways.entry(way).or_default() += counts.lines;
        }
        Tuned(of)
    }

    /// What serves calls: what the input says of them, or most TUNING lines of such calls.
    fn way(&self, made: &Made<'_>, has_no_ring: bool) -> Option<Way> {
        let told = &made.who.recorded.algo;
        if !told.is_empty() {
            return Some(Way::of(told));
        }
        let bytes = u64::try_from(made.bytes?).ok()?;
        let ways = self.0.get(&(made.op, made.nranks?, bytes));
        let most = ways.and_then(|ways| {
            let most = ways.values().max()?;
            ways.iter().find(|(_, n)| *n == most)
        });
        let way = most.map(|(way, _)| *way);
        way.or(has_no_ring.then_some(Way::Other))
    }
}

fn said(told: &Told, report: &Report) {
    let Told {
        tuned,
        assumed,
        other,
        without,
        unknown,
    } = told;
    if tuned + assumed > 0 {
        let how = match (tuned, assumed) {
            (_, 0) => "over rings or trees, as the inputs tell".to_owned(),
            (0, _) => "over rings: which algorithm served them is not known \
                       (NCCL_DEBUG_SUBSYS=INIT,COLL,TUNING prints it)"
                .to_owned(),
            (tuned, assumed) => format!(
                "{tuned} over rings or trees, as the inputs tell, and {assumed} over rings: which \
                 algorithm served them is not known"
            ),
        };
        report.note(&format!(
            "the model has {} of collectives, {how}; it is what they would send by definition of \
             the algorithms, and --recorded omits it",
            counted(tuned + assumed, "call")
        ));
    }
    if *other > 0 {
        report.note(&format!(
            "{other} calls of collectives are in no row: another algorithm than RING or TREE served \
             them, or their communicator has no ring"
        ));
    }
    if *without > 0 {
        report.note(&format!(
            "{without} calls of collectives are in no row: the rings of their communicators are not \
             known (a log has them with NCCL_DEBUG_SUBSYS=INIT,COLL,GRAPH)"
        ));
    }
    if *unknown > 0 {
        report.note(&format!(
            "{unknown} calls of collectives are in no row: their bytes or their roots are not known"
        ));
    }
}
