//! What a communicator is used for, from its calls alone.

use super::fold::CommunicatorSide;
use super::identity::MergedCommunicator;
use super::limits::{
    MAX_RARE_CALL_RATIO, MAX_SMALL_CALL_BYTES, MIN_BUCKET_SIZES, MIN_TENSOR_CALLS_PER_STEP,
    MIN_TENSOR_PART_BYTES, MIN_TOKEN_BYTES,
};
use crate::count::tally::{CallKey, CallVolume, UNKNOWN_SIZE};
use crate::grammar::values::{Datatype, OpKind, op_kind};
use crate::members::OpInterner;
use std::collections::{BTreeMap, BTreeSet};

fn is_half_precision(datatype: u64) -> bool {
    Datatype::from_code(datatype).and_then(Datatype::size) == Some(2)
}

/// Most of a communicator's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum TrafficClass {
    /// Only small calls and broadcasts.
    #[default]
    Control,
    /// From every rank to every rank.
    Exchange,
    /// Between neighbours.
    Chain {
        /// All send to the next rank and receive from the previous.
        ring: bool,
    },
    /// Gathers and sums.
    Sums,
    /// Several of these, or something else.
    Mixed,
}

/// Traffic of a communicator.
#[derive(Debug, Clone, Default)]
pub(super) struct CommunicatorTraffic {
    /// The class of most bytes.
    pub(super) class: TrafficClass,
    /// Calls of all members.
    pub(super) calls: u64,
    /// Parts of exchanges differ in size from call to call, as tokens for experts do.
    pub(super) is_uneven: bool,
    /// Large gathers and sums of a member.
    pub(super) sums: f64,
    /// Number of times a member makes its most frequent large call in a step; 0 if steps are unknown.
    pub(super) again: f64,
    /// AllReduces have several sizes, all about as frequent, and hardly more than one a step.
    pub(super) is_buckets: bool,
    /// Besides gathers, AllReduces have several sizes, all about as frequent.
    is_even: bool,
    /// AllReduces of half-precision values are large and small: of a sequence and of a few tokens.
    pub(super) is_tokens: bool,
    /// Sums are averages, or scaled.
    is_average: bool,
    /// Sums are fp32 where gathers are of a smaller type.
    is_master: bool,
    /// A member's large gathers and scatters.
    gathers: f64,
    scatters: f64,
    /// Datatype and size of ReduceScatters, and of AllReduces.
    scattered: BTreeSet<(u64, u64)>,
    reduced: BTreeSet<(u64, u64)>,
    /// Reasons, in words.
    pub(super) evidence: Vec<String>,
}

/// Bytes by class.
#[derive(Debug, Default)]
struct TrafficBytes {
    exchange: u128,
    point: u128,
    /// Messages that come seldom beside the communicator's collectives: a step has none.
    rare_point: u128,
    sums: u128,
    other: u128,
}

/// Returns true if calls come often enough beside the most frequent ones to be made again and again.
fn is_regular_beside(calls: u64, most: u64) -> bool {
    calls.saturating_mul(MAX_RARE_CALL_RATIO) > most
}

/// What the number of equal calls of a communicator's member is compared with.
struct CallScale {
    members: f64,
    /// The most equal collectives that a member makes.
    most: u64,
    /// Steps of the log; 0 if they are unknown.
    steps: u64,
}

impl CallScale {
    /// Returns true if a member makes these calls again and again, and not at the start alone.
    fn is_regular(&self, calls: u64) -> bool {
        is_regular_beside(calls, self.most)
    }

    /// Returns true if a member makes these calls many times a step.
    fn is_many_a_step(&self, calls: u64) -> bool {
        self.steps > 0 && calls >= self.steps.saturating_mul(MIN_TENSOR_CALLS_PER_STEP)
    }
}

/// Sums over the calls of a communicator's members.
#[derive(Debug, Default)]
struct TrafficTotals {
    /// The values that are sums.
    traffic: CommunicatorTraffic,
    bytes: TrafficBytes,
    peers: TrafficPeers,
    /// Large calls, by operation, datatype and size.
    large: BTreeMap<(u32, u64, u64), u64>,
    /// Large calls that sum, and those that average.
    summed: u64,
    averaged: u64,
    /// AllReduces of half-precision values: number with a few tokens, and all sizes.
    few: u64,
    halves: BTreeSet<u64>,
    gather_types: BTreeSet<u64>,
    scatter_types: BTreeSet<u64>,
}

impl TrafficTotals {
    /// Adds equal calls of `side`, one of `members` members.
    fn add_calls(
        &mut self,
        side: &CommunicatorSide,
        key: &CallKey,
        value: &CallVolume,
        name: &[u8],
        scale: &CallScale,
    ) {
        self.traffic.calls = self.traffic.calls.saturating_add(value.calls);
        let kind = op_kind(name);
        if kind.is_message() {
            self.peers
                .add_message(side, kind == OpKind::Send, key.root, key.size);
            let point = match scale.is_regular(value.calls) {
                true => &mut self.bytes.point,
                false => &mut self.bytes.rare_point,
            };
            *point += value.bytes;
            return;
        }
        if kind == OpKind::AllReduce
            && is_half_precision(key.datatype)
            && key.size >= MIN_TOKEN_BYTES
        {
            self.halves.insert(key.size);
            if key.size <= MAX_SMALL_CALL_BYTES {
                self.few = self.few.saturating_add(value.calls);
            }
        }
        // A tensor's size comes many times a step; a flag, a loss or a seed does not.
        let is_large = key.size > MAX_SMALL_CALL_BYTES
            || key.size >= MIN_TENSOR_PART_BYTES && scale.is_many_a_step(value.calls);
        if is_large && key.size != UNKNOWN_SIZE && kind != OpKind::Broadcast {
            self.add_large_calls(key, value, name, scale.members);
        }
    }

    fn add_large_calls(&mut self, key: &CallKey, value: &CallVolume, name: &[u8], members: f64) {
        let traffic = &mut self.traffic;
        let kind = op_kind(name);
        let is = |op: &[u8]| name.ends_with(op);
        let calls = value.calls as f64 / members;
        match kind {
            OpKind::PerRank if is(b"AlltoAll") => self.bytes.exchange += value.bytes,
            OpKind::PerRank | OpKind::AllReduce => self.bytes.sums += value.bytes,
            _ => self.bytes.other += value.bytes,
        }
        if is(b"AllGather") {
            traffic.gathers += calls;
            self.gather_types.insert(key.datatype);
        } else if is(b"ReduceScatter") {
            traffic.scatters += calls;
            traffic.scattered.insert((key.datatype, key.size));
            self.scatter_types.insert(key.datatype);
        } else if kind == OpKind::AllReduce {
            traffic.reduced.insert((key.datatype, key.size));
        } else {
            return;
        }
        if !is(b"AllGather") {
            self.summed = self.summed.saturating_add(value.calls);
            if key.redop >= 4 {
                self.averaged = self.averaged.saturating_add(value.calls);
            }
        }
        traffic.sums += calls;
        let equal = self.large.entry((key.op, key.datatype, key.size));
        let equal = equal.or_default();
        *equal = equal.saturating_add(value.calls);
    }

    /// Turns the sums into traffic of a communicator of `nranks` ranks (0: unknown).
    fn into_traffic(self, nranks: u32, members: f64, steps: u64) -> CommunicatorTraffic {
        let TrafficTotals {
            mut traffic,
            mut bytes,
            peers,
            large,
            ..
        } = self;
        let all_to_all = peers.is_all_to_all(nranks);
        if all_to_all {
            bytes.exchange += std::mem::take(&mut bytes.point) + bytes.rare_point;
        }
        let large_parts =
            bytes.exchange > u128::from(traffic.calls) * u128::from(MIN_TENSOR_PART_BYTES);
        traffic.is_uneven =
            all_to_all && peers.to_itself && peers.has_varying_sizes() && large_parts;
        traffic.is_average = self.averaged > 0 && 2 * self.averaged >= self.summed;
        let size = |code: &u64| Datatype::from_code(*code).and_then(Datatype::size);
        traffic.is_master = self.gather_types.iter().filter_map(size).max()
            < self.scatter_types.iter().filter_map(size).min()
            && !self.gather_types.is_empty();
        let most = large.values().max().copied().unwrap_or(0);
        // A call made once, at the start, is no bucket.
        let regular = || large.values().filter(|&&n| is_regular_beside(n, most));
        let least = regular().min().copied().unwrap_or(0);
        if steps > 0 {
            traffic.again = most as f64 / members / steps as f64;
        }
        traffic.is_buckets = traffic.only_reduces()
            && regular().count() > 1
            && most <= least.saturating_mul(3)
            && traffic.again <= 3.0;
        let reduces = traffic.sums - traffic.gathers - traffic.scatters;
        traffic.is_even = traffic.scatters == 0.0
            && traffic.gathers > 0.0
            && traffic.gathers < reduces
            && regular().count() >= MIN_BUCKET_SIZES
            && most <= least.saturating_mul(8);
        let calls = members * (traffic.sums - traffic.gathers);
        traffic.is_tokens = self.halves.len() >= MIN_BUCKET_SIZES && 16.0 * self.few as f64 > calls;
        traffic.class = bytes.classify(peers.find_chain(nranks));
        traffic.describe_traffic(&bytes, &peers, steps);
        traffic
    }
}

impl CommunicatorTraffic {
    /// Computes a communicator's traffic; the log holds `steps` steps (0: unknown).
    pub(super) fn from_calls(
        own: &MergedCommunicator,
        sides: &[CommunicatorSide],
        ops: &OpInterner,
        steps: u64,
    ) -> CommunicatorTraffic {
        let mut totals = TrafficTotals::default();
        let uses = || own.sides.iter().flat_map(|&at| &sides[at].uses);
        let is_sum = |key: &CallKey| {
            matches!(
                op_kind(ops.name_of_op(key.op)),
                OpKind::AllReduce | OpKind::PerRank
            )
        };
        let most = uses()
            .filter(|(key, _)| is_sum(key))
            .map(|(_, value)| value.calls);
        let scale = CallScale {
            members: own.sides.len().max(1) as f64,
            most: most.max().unwrap_or(0),
            steps,
        };
        for side in own.sides.iter().map(|&at| &sides[at]) {
            for (key, value) in &side.uses {
                totals.add_calls(side, key, value, ops.name_of_op(key.op), &scale);
            }
        }
        totals.into_traffic(own.nranks.unwrap_or(0), scale.members, steps)
    }

    /// True if it sums gradients.
    pub(super) fn sums_gradients(&self) -> bool {
        self.is_average || self.is_master
    }

    /// True if it gathers parameters twice and scatters gradients once: shards of a model.
    pub(super) fn is_sharded(&self) -> bool {
        let ratio = self.gathers / self.scatters;
        (1.8..=2.2).contains(&ratio)
    }

    /// True if its calls fit ranks that train on different data: buckets of gradients and gathers of the
    /// updated parameters (ZeRO-1, ZeRO-2), or gathers of parameters and scatters of their gradients
    /// (ZeRO-3).
    pub(super) fn is_zero(&self) -> bool {
        let ratio = self.gathers / self.scatters;
        let is_sharded = self.reduced.is_empty() && (1.75..=2.5).contains(&ratio);
        !self.is_tokens && (self.is_even || is_sharded)
    }

    /// True if it sums, and neither gathers nor scatters.
    pub(super) fn only_reduces(&self) -> bool {
        self.gathers + self.scatters == 0.0
    }

    /// True if it sums the results that the other scattered.
    pub(super) fn sums_scattered_by(&self, other: &CommunicatorTraffic) -> bool {
        !other.scattered.is_empty() && !self.reduced.is_disjoint(&other.scattered)
    }

    fn describe_traffic(&mut self, bytes: &TrafficBytes, peers: &TrafficPeers, steps: u64) {
        let mut say = |text: String| self.evidence.push(text);
        match self.class {
            TrafficClass::Control if self.calls == 0 => say("no calls".to_owned()),
            TrafficClass::Control => say("only small calls and broadcasts".to_owned()),
            TrafficClass::Exchange if self.is_uneven => {
                say("Send and Recv of uneven parts with every rank".to_owned());
            }
            TrafficClass::Exchange if bytes.point > 0 || peers.to_itself => {
                say("Send and Recv with every rank".to_owned());
            }
            TrafficClass::Exchange => say("AlltoAll".to_owned()),
            TrafficClass::Chain { ring: true } => {
                say("Send to the next rank, Recv from the previous".to_owned());
            }
            TrafficClass::Chain { ring: false } => {
                say("Send and Recv between neighbours".to_owned());
            }
            TrafficClass::Sums => {
                let parts = [
                    (self.gathers > 0.0, "AllGather"),
                    (self.scatters > 0.0, "ReduceScatter"),
                    (!self.reduced.is_empty(), "AllReduce"),
                ];
                let parts: Vec<&str> = parts.iter().filter(|p| p.0).map(|p| p.1).collect();
                let parts = parts.join("+");
                if steps > 0 {
                    let calls = self.sums / steps as f64;
                    say(format!("{parts}, {calls:.1} large calls per rank and step"));
                } else {
                    say(format!("{parts}, {:.0} large calls per rank", self.sums));
                }
                if self.is_average {
                    say("averages".to_owned());
                }
                if self.is_master {
                    say("sums in a wider type than the gathers".to_owned());
                }
                if self.is_buckets {
                    say("buckets of several sizes".to_owned());
                }
            }
            TrafficClass::Mixed => say("several kinds of traffic".to_owned()),
        }
    }
}

impl TrafficBytes {
    fn classify(&self, chain: Option<bool>) -> TrafficClass {
        let all = self.exchange + self.point + self.sums + self.other;
        // A few other calls, such as a loss or a flag, do not change the class.
        let is_most = |part: u128| part > 0 && part.saturating_mul(4) >= all.saturating_mul(3);
        if all == 0 {
            TrafficClass::Control
        } else if is_most(self.exchange) {
            TrafficClass::Exchange
        } else if is_most(self.point) {
            chain.map_or(TrafficClass::Mixed, |ring| TrafficClass::Chain { ring })
        } else if is_most(self.sums) {
            TrafficClass::Sums
        } else {
            TrafficClass::Mixed
        }
    }
}

/// Peers of Send and Recv.
#[derive(Debug, Default)]
struct TrafficPeers {
    /// Rank and peer.
    sent: BTreeSet<(u32, i64)>,
    received: BTreeSet<(u32, i64)>,
    sizes: BTreeSet<u64>,
    /// Number of distinct sizes over all ranks and peers.
    parts: usize,
    to_itself: bool,
}

impl TrafficPeers {
    fn add_message(&mut self, side: &CommunicatorSide, sends: bool, peer: i64, size: u64) {
        let Some(rank) = side.rank else { return };
        self.to_itself |= peer == i64::from(rank);
        if sends {
            self.sent.insert((rank, peer));
            self.sizes.insert(size);
            self.parts += 1;
        } else {
            self.received.insert((rank, peer));
        }
    }

    /// True if the messages of a rank to a peer differ in size. The parts of a layer's sequence have a few
    /// sizes that repeat.
    fn has_varying_sizes(&self) -> bool {
        self.sizes.len() > 2 && self.parts >= MIN_BUCKET_SIZES * self.sent.len()
    }

    /// True if every sending rank sends to every other; of two ranks, also to itself.
    fn is_all_to_all(&self, nranks: u32) -> bool {
        let senders: BTreeSet<u32> = self.sent.iter().map(|s| s.0).collect();
        let each = nranks.saturating_sub(1) as usize + usize::from(self.to_itself);
        !senders.is_empty()
            && (nranks > 2 || self.to_itself)
            && self.sent.len() >= senders.len() * each
    }

    /// Returns whether all send only to the next rank; `None` if some peers are not neighbours.
    fn find_chain(&self, nranks: u32) -> Option<bool> {
        let n = i64::from(nranks);
        let step = |&(rank, peer): &(u32, i64)| (peer - i64::from(rank)).rem_euclid(n.max(1));
        let mut steps = self.sent.iter().map(step);
        let near = |step: i64| step == 1 || step == n - 1;
        if !steps.all(near) || !self.received.iter().map(step).all(near) {
            return None;
        }
        let forward = nranks > 2
            && self.sent.iter().all(|s| step(s) == 1)
            && self.received.iter().all(|s| step(s) == n - 1);
        let round = self
            .sent
            .iter()
            .any(|&(rank, peer)| i64::from(rank) == n - 1 && peer == 0);
        Some(forward && round)
    }
}
