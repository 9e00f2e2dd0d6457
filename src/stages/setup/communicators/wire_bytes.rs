//! A model of the bytes that a communicator's calls move between ranks and between nodes.
//!
//! NCCL does not print bytes on the wire. The model: a ring enters and leaves each node once, a tree has
//! one edge fewer between nodes than there are nodes, and each edge carries its best-case bytes (nccl-tests
//! `doc/PERFORMANCE.md`). With n ranks on N nodes, a call of S bytes a rank (API basis) moves
//!
//! | operation | in all | of it between nodes, ring | tree |
//! |---|---|---|---|
//! | AllReduce | 2(n-1) S | N/n | (N-1)/(n-1) |
//! | AllGather, ReduceScatter | n(n-1) S | N/n | N/n |
//! | AlltoAll | n(n-1) S | pairs on different nodes | the same |
//! | Broadcast, Reduce | (n-1) S | (N-1)/(n-1) | the same |
//! | Gather, Scatter | (n-1) S | what ranks on other nodes than the root's send or receive | the same |
//! | Send | S | all, if the peer is on another node | the same |
//!
//! Gather and Scatter are a Send and a Recv between the root and each other rank (`src/enqueue.cc` since
//! 2.28): a star, not a ring. Each rank's part is rounded down to a whole byte.

use super::facts::CommunicatorFacts;
use super::fold::CommunicatorSide;
use crate::count::tally::{CallKey, CallVolume, UNKNOWN_SIZE};
use crate::grammar::values::{OpKind, op_kind};

/// Bytes of all ranks' calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WireBytes {
    /// Between ranks.
    pub(super) all: u128,
    /// Between nodes, if collectives go round rings.
    pub(super) ring: u128,
    /// Between nodes, if AllReduce goes up and down trees and the others round rings.
    pub(super) tree: u128,
}

/// Computes the bytes of a communicator's calls, if all its ranks and their nodes are known and the model
/// has all its operations.
pub(super) fn compute_wire_bytes(of: &CommunicatorFacts<'_>) -> Option<WireBytes> {
    let n = u128::from(of.nranks()?);
    let nodes = of.ranks_by_node()?;
    let mut sum = WireBytes::default();
    for side in of.sides() {
        for (key, value) in &side.uses {
            let one = compute_moved_bytes(of, side, key, value, n, &nodes)?;
            sum.all = sum.all.saturating_add(one.all);
            sum.ring = sum.ring.saturating_add(one.ring);
            sum.tree = sum.tree.saturating_add(one.tree);
        }
    }
    Some(sum)
}

/// Returns the part of one rank in the bytes of all ranks' equal calls.
fn compute_moved_bytes(
    of: &CommunicatorFacts<'_>,
    side: &CommunicatorSide,
    key: &CallKey,
    value: &CallVolume,
    n: u128,
    nodes: &[u128],
) -> Option<WireBytes> {
    if key.size == UNKNOWN_SIZE {
        return None;
    }
    let (bytes, across) = (value.bytes, nodes.len() as u128);
    // A part of `all`; 0 for a communicator of one rank.
    let part = |all: u128, n: u128, of: u128| all.checked_mul(n).map(|x| x / of.max(1));
    let crossing = if across > 1 { across } else { 0 };
    let even = |all: u128, between: u128| WireBytes {
        all,
        ring: between,
        tree: between,
    };
    Some(match op_kind(of.operation_name(key)) {
        OpKind::AllReduce => {
            let all = part(bytes, 2 * (n - 1), n)?;
            WireBytes {
                all,
                ring: part(all, crossing, n)?,
                tree: part(all, across - 1, n - 1)?,
            }
        }
        OpKind::PerRank => {
            let all = bytes.checked_mul(n - 1)?;
            let pairs: u128 = nodes.iter().map(|r| r * n.saturating_sub(*r)).sum();
            if of.operation_name(key).ends_with(b"AlltoAll") {
                even(all, part(all, pairs, n * (n - 1))?)
            } else {
                even(all, part(all, crossing, n)?)
            }
        }
        OpKind::Broadcast | OpKind::Reduce => {
            let all = part(bytes, n - 1, n)?;
            even(all, part(all, across - 1, n - 1)?)
        }
        // Sent bytes equal received bytes and count once.
        OpKind::PointToPoint if of.operation_name(key) == b"Recv" => WireBytes::default(),
        OpKind::PointToPoint => {
            let far = across > 1 && of.is_on_other_node(side, u32::try_from(key.root).ok()?)?;
            even(bytes, if far { bytes } else { 0 })
        }
        // The root's own part stays where it is.
        OpKind::Rooted if i64::from(side.rank?) == key.root => WireBytes::default(),
        OpKind::Rooted => {
            let root = u32::try_from(key.root)
                .ok()
                .filter(|&r| u128::from(r) < n)?;
            let far = across > 1 && of.is_on_other_node(side, root)?;
            even(bytes, if far { bytes } else { 0 })
        }
        OpKind::Other => return None,
    })
}
