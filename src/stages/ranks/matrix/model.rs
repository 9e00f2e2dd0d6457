//! Models the traffic of collectives over the rings and trees of their communicators, by definition of the
//! algorithms.
//!
//! Over a ring of `n` ranks each rank sends to the next, for each call of `x` bytes: AllReduce
//! `2(n-1)/n x`; AllGather and ReduceScatter `(n-1) x`, where `x` is one rank's part; Broadcast and Reduce `x`,
//! except over the hop that closes the ring at the root. Over a tree an AllReduce sends `x` up and `x` down
//! each edge. A call is spread equally over the channels of its communicator. Each channel has one ring and one
//! tree.

use super::cells::{EndpointId, TrafficBasis, TrafficMatrix, TrafficSum};
use super::members::{MatrixComm, MatrixMembers};
use super::messages::ranks_with_calls;
use super::{EndpointLevel, RankCalls};
use crate::grammar::message::graph::MAX_RANKS_OF_LISTED_RING;
use crate::grammar::message::tuning::Algorithm;
use crate::grammar::values::{ByteBasis as Bytes, OpKind, op_kind};
use crate::report::{Report, count_phrase};
use crate::stages::net::NetSummary;
use crate::stages::net::hops::{HopGraph, list_known_hops};
use crate::stages::net::pairs::SharedCommunicator;
use crate::stages::tuning::burst::ServingMethod;
use crate::stages::tuning::tuning_stage::TuningStage as Tuning;
use std::collections::{BTreeMap, BTreeSet};

/// The hops of a communicator by first rank: channel and next rank.
#[derive(Debug, Default)]
struct ChannelHops {
    rings: BTreeMap<u32, Vec<(u32, u32)>>,
    /// Hops up and down.
    trees: BTreeMap<u32, Vec<(u32, u32)>>,
    /// Channels with a tree.
    channels: BTreeSet<u32>,
    nranks: u32,
}

/// The algorithm of a call in the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ModelRoute {
    Ring,
    Tree,
    /// Not modelled.
    Other,
}

impl ModelRoute {
    fn from_algorithm(algorithm: &[u8]) -> ModelRoute {
        match algorithm {
            a if a.eq_ignore_ascii_case(b"ring") => ModelRoute::Ring,
            a if a.eq_ignore_ascii_case(b"tree") => ModelRoute::Tree,
            _ => ModelRoute::Other,
        }
    }
}

/// The traffic from a rank to each next rank, over all channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct HopTraffic {
    kind: OpKind,
    root: Option<u32>,
    way: ModelRoute,
}

/// Numbers of calls by the source of their algorithm.
#[derive(Debug, Default)]
struct ModelCoverage {
    tuned: u64,
    assumed: u64,
    other: u64,
    without: u64,
    unknown: u64,
    /// Communicators with rings that lack ranks.
    cut: BTreeSet<MatrixComm>,
}

/// Adds modelled traffic.
pub(super) fn add_modelled_traffic(
    matrix: &mut TrafficMatrix,
    ends: EndpointLevel,
    calls: &[RankCalls<'_>],
    net: &NetSummary,
    tuning: &Tuning,
    members: &mut MatrixMembers,
    report: &Report,
) {
    let all = collect_channel_hops(net);
    let heard = ranks_with_calls(calls, members);
    let (sent, mut told) =
        model_collectives(calls, &all, &TunedRoutes::from_tuning(tuning), members);
    // A rank without a call takes the calls of the lowest rank that has some.
    let mut lowest: BTreeMap<(Option<u64>, &MatrixComm), u32> = BTreeMap::new();
    for (step, comm, rank) in sent.keys() {
        lowest.entry((*step, comm)).or_insert(*rank);
    }
    for ((step, comm), rank) in lowest {
        let Some(hops) = all.get(comm) else { continue };
        if !hops.are_rings_whole() {
            told.cut.insert(comm.clone());
        }
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
                let mut end = |rank| members.endpoint_of_rank(matrix, ends, comm, Some(rank));
                let edges = hops.traffic_by_next_rank(from, what, *sum);
                let edges: Vec<_> = edges
                    .into_iter()
                    .map(|(to, sum)| (end(from), end(to), sum))
                    .collect();
                add_modelled_edges(matrix, step, what.way, edges);
            }
        }
    }
    report_model_coverage(&told, report);
}

/// The traffic of each rank of a communicator in a step.
type ModelledTraffic = BTreeMap<(Option<u64>, MatrixComm, u32), BTreeMap<HopTraffic, TrafficSum>>;

/// Returns the traffic over rings and trees, and the calls with and without a model.
fn model_collectives(
    calls: &[RankCalls<'_>],
    all: &BTreeMap<MatrixComm, ChannelHops>,
    tuned: &TunedRoutes,
    members: &mut MatrixMembers,
) -> (ModelledTraffic, ModelCoverage) {
    let mut told = ModelCoverage::default();
    let mut sent = ModelledTraffic::new();
    for made in calls {
        let kind = match op_kind(made.op) {
            OpKind::PerRank if made.op.ends_with(b"AlltoAll") => continue,
            kind @ (OpKind::AllReduce | OpKind::PerRank | OpKind::Broadcast | OpKind::Reduce) => {
                kind
            }
            OpKind::Rooted | OpKind::Send | OpKind::Recv | OpKind::OneSided | OpKind::Other => {
                continue;
            }
        };
        if made.nranks == Some(1) {
            continue;
        }
        let (comm, rank) = members.caller_of(made);
        let (Some(rank), Some(hops)) = (rank, all.get(&comm)) else {
            told.without = told.without.saturating_add(made.calls);
            continue;
        };
        let chosen = tuned.route_of(made, hops.rings.is_empty());
        let (way, count) = match chosen {
            Some(ModelRoute::Other) => (ModelRoute::Other, &mut told.other),
            Some(way) => (way, &mut told.tuned),
            None => (ModelRoute::Ring, &mut told.assumed),
        };
        // Only an AllReduce uses a tree.
        let way = match kind {
            OpKind::AllReduce => way,
            _ if way == ModelRoute::Tree => ModelRoute::Ring,
            _ => way,
        };
        let root = match kind {
            OpKind::Broadcast | OpKind::Reduce => made.peer(),
            _ => None,
        };
        let bytes = made.bytes.and_then(|api| match way {
            ModelRoute::Tree => Some(api),
            _ => Bytes::Wire.bytes_on_basis(kind, api, made.nranks),
        });
        let is_rootless = root.is_none() && matches!(kind, OpKind::Broadcast | OpKind::Reduce);
        let Some(bytes) = bytes.filter(|_| !is_rootless) else {
            told.unknown = told.unknown.saturating_add(made.calls);
            continue;
        };
        *count = count.saturating_add(made.calls);
        if way == ModelRoute::Other {
            continue;
        }
        let all = bytes.saturating_mul(made.calls.into());
        let of = sent.entry((made.step, comm, rank)).or_default();
        of.entry(HopTraffic { kind, root, way })
            .or_default()
            .add_sum(TrafficSum::from_calls(made.calls, Some(all)));
    }
    (sent, told)
}

fn add_modelled_edges(
    matrix: &mut TrafficMatrix,
    step: Option<u64>,
    way: ModelRoute,
    edges: Vec<(EndpointId, EndpointId, TrafficSum)>,
) {
    let basis = match way {
        ModelRoute::Tree => TrafficBasis::Tree,
        _ => TrafficBasis::Ring,
    };
    for (from, to, sum) in edges {
        matrix.add_to_cell(step, from, to, basis, sum);
    }
}

impl ChannelHops {
    /// False if ranks have no next rank on a ring: of a large communicator NCCL lists the first ranks of each ring.
    fn are_rings_whole(&self) -> bool {
        self.rings.is_empty() || self.rings.len() >= self.nranks as usize
    }

    /// Returns the traffic from a rank to each other rank; `all` is that over all channels.
    fn traffic_by_next_rank(
        &self,
        from: u32,
        what: &HopTraffic,
        all: TrafficSum,
    ) -> BTreeMap<u32, TrafficSum> {
        let mut edges: BTreeMap<u32, TrafficSum> = BTreeMap::new();
        let hops = match what.way {
            ModelRoute::Tree => self.trees.get(&from),
            _ => self.rings.get(&from),
        };
        let hops = hops.map_or(&[][..], |hops| hops);
        let of_channel: BTreeSet<u32> = match what.way {
            ModelRoute::Tree => self.channels.clone(),
            _ => hops.iter().map(|(channel, _)| *channel).collect(),
        };
        let channels = of_channel.len() as u128;
        for (n, channel) in (0_u128..).zip(&of_channel) {
            let share = all.bytes / channels + u128::from(n < all.bytes % channels);
            for (_, to) in hops.iter().filter(|(of, _)| of == channel) {
                let closes = match what.kind {
                    OpKind::Broadcast => what.root == Some(*to),
                    OpKind::Reduce => what.root == Some(from),
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

/// Returns the rings and trees of communicators with an id.
fn collect_channel_hops(net: &NetSummary) -> BTreeMap<MatrixComm, ChannelHops> {
    let mut all: BTreeMap<MatrixComm, ChannelHops> = BTreeMap::new();
    for graph in [HopGraph::Rings, HopGraph::Trees] {
        for (shared, index, from, to) in list_known_hops(net, graph) {
            let SharedCommunicator::Id(id, _) = shared else {
                continue;
            };
            let of = all.entry(MatrixComm::Id(id)).or_default();
            of.nranks = shared.nranks();
            match graph {
                HopGraph::Rings => of.rings.entry(from).or_default().push((index, to)),
                HopGraph::Trees => {
                    of.channels.insert(index);
                    of.trees.entry(from).or_default().push((index, to));
                    of.trees.entry(to).or_default().push((index, from));
                }
            }
        }
    }
    all
}

/// The number of lines of each route, by operation, size of communicator and bytes.
struct TunedRoutes<'t>(BTreeMap<(&'t [u8], u32, u64), BTreeMap<ModelRoute, u64>>);

impl<'t> TunedRoutes<'t> {
    fn from_tuning(all: &'t Tuning) -> TunedRoutes<'t> {
        let mut of: BTreeMap<_, BTreeMap<ModelRoute, u64>> = BTreeMap::new();
        for (key, counts) in &all.found {
            let (Some(op), Some(nranks)) = (key.op, key.nranks) else {
                continue;
            };
            let op = all.names.name_of_op(op);
            // Up to NCCL 2.23, the lines have all ranks' bytes of a gather.
            let bytes = match op_kind(op) {
                OpKind::PerRank if !key.is_api() => key.bytes / u64::from(nranks.max(1)),
                _ => key.bytes,
            };
            let way = match key.how {
                ServingMethod::By(Algorithm::Ring, _) => ModelRoute::Ring,
                ServingMethod::By(Algorithm::Tree, _) => ModelRoute::Tree,
                _ => ModelRoute::Other,
            };
            let ways = of.entry((op, nranks, bytes)).or_default();
            *ways.entry(way).or_default() += counts.lines;
        }
        TunedRoutes(of)
    }

    /// Returns the route of calls: by the input's algorithm, or by most TUNING lines of such calls.
    fn route_of(&self, made: &RankCalls<'_>, has_no_ring: bool) -> Option<ModelRoute> {
        let told = &made.who.recorded.algo;
        if !told.is_empty() {
            return Some(ModelRoute::from_algorithm(told));
        }
        let bytes = u64::try_from(made.bytes?).ok()?;
        let ways = self.0.get(&(made.op, made.nranks?, bytes));
        let most = ways.and_then(|ways| {
            let most = ways.values().max()?;
            ways.iter().find(|(_, n)| *n == most)
        });
        let way = most.map(|(way, _)| *way);
        way.or(has_no_ring.then_some(ModelRoute::Other))
    }
}

fn report_model_coverage(told: &ModelCoverage, report: &Report) {
    let ModelCoverage {
        tuned,
        assumed,
        other,
        without,
        unknown,
        cut,
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
            count_phrase(tuned + assumed, "call")
        ));
    }
    if !cut.is_empty() {
        report.note(&format!(
            "the model has no traffic of some ranks of {}: the log does not have their rings whole (of a ring NCCL lists \
             {MAX_RANKS_OF_LISTED_RING} ranks at most)",
            count_phrase(cut.len() as u64, "communicator")
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
