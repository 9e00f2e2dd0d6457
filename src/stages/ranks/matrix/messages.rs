//! Messages: Send and Recv, each counted once, and operations in which each pair of ranks exchanges a
//! part by definition.

use super::cells::{Basis, Matrix, Sum};
use super::members::{Comm, Members};
use super::{Ends, Made};
use crate::grammar::values::{Kind, kind};
use crate::report::{Report, counted};
use std::collections::{BTreeMap, BTreeSet};

/// The name of an operation without what RCCL's MSCCL++ puts in front of it.
fn plain(op: &[u8]) -> &[u8] {
    op.strip_prefix(b"mscclpp_nccl").unwrap_or(op)
}

/// What both ends of a pair recorded.
#[derive(Debug, Default)]
struct Both {
    sent: Sum,
    expected: Sum,
}

/// The ranks that have a call in the inputs, by communicator.
pub(super) fn heard(calls: &[Made<'_>], members: &Members) -> BTreeSet<(Comm, u32)> {
    let who = calls.iter().map(|made| members.who(made));
    who.filter_map(|(comm, rank)| Some((comm, rank?))).collect()
}

/// Adds Send and Recv. A message is recorded by both ends: the sender's record counts, and the
/// receiver's only where the inputs have no call of the sender on that communicator.
pub(super) fn add(
    matrix: &mut Matrix,
    ends: Ends,
    calls: &[Made<'_>],
    members: &mut Members,
    report: &Report,
) {
    let heard = heard(calls, members);
    let mut pairs: BTreeMap<(Comm, u32, u32), Both> = BTreeMap::new();
    let mut receives: BTreeSet<(Comm, u32)> = BTreeSet::new();
    let mut nobodys = 0_u64;
    let those = calls.iter().filter(|m| kind(m.op) == Kind::PointToPoint);
    for made in those {
        let sum = Sum::of(made.calls, made.all_bytes());
        let (comm, rank) = members.who(made);
        let peer = made.peer();
        if plain(made.op) == b"Send" {
            let from = members.own_end(matrix, ends, made);
            let to = members.end(matrix, ends, &comm, peer);
            matrix.add(made.step, (from, to), Basis::Sent, sum);
            if let (Some(rank), Some(peer)) = (rank, peer) {
                pairs.entry((comm, rank, peer)).or_default().sent.add(sum);
            }
            continue;
        }
        receives.extend(rank.map(|rank| (comm.clone(), rank)));
        match (rank, peer) {
            (Some(rank), Some(peer)) if !heard.contains(&(comm.clone(), peer)) => {
                let from = members.end(matrix, ends, &comm, Some(peer));
                let to = members.end(matrix, ends, &comm, Some(rank));
                matrix.add(made.step, (from, to), Basis::Received, sum);
            }
            (Some(rank), Some(peer)) => {
                let both = pairs.entry((comm, peer, rank)).or_default();
                both.expected.add(sum);
            }
            // Its sender's record may be in the inputs.
            _ => nobodys = nobodys.saturating_add(made.calls),
        }
    }
    // Where an input has only Sends, or the log of a rank is not there, there is no comparison.
    let known = |(comm, _, to): &(Comm, u32, u32)| {
        comm.is_known() && receives.contains(&(comm.clone(), *to))
    };
    differences(pairs.iter().filter(|(pair, _)| known(pair)), report);
    if nobodys > 0 {
        report.warn(&format!(
            "{} not counted: it is not known which rank of its communicator receives, or from whom, \
             so that the sender's records may be in the inputs",
            are(nobodys, "Recv")
        ));
    }
}

fn are(n: u64, what: &str) -> String {
    format!("{} {}", counted(n, what), if n == 1 { "is" } else { "are" })
}

/// Reports the pairs of ranks of which one sent something else than the other expected.
fn differences<'p>(pairs: impl Iterator<Item = (&'p (Comm, u32, u32), &'p Both)>, report: &Report) {
    let differs = |both: &Both| both.sent != both.expected;
    let odd: Vec<_> = pairs.filter(|(_, both)| differs(both)).collect();
    let Some(((comm, from, to), both)) = odd.first() else {
        return;
    };
    let text = |sum: &Sum| match sum.all_bytes() {
        Some(bytes) => format!("{} of {bytes} bytes", counted(sum.calls, "message")),
        None => counted(sum.calls, "message"),
    };
    report.warn(&format!(
        "{} of ranks in which the receiver expected something else than what was sent; the first: on \
         communicator {} rank {from} sent {} to rank {to}, which expected {}",
        counted(odd.len() as u64, "pair"),
        comm.text(),
        text(&both.sent),
        text(&both.expected)
    ));
}

/// Pairs that are added at most, in all: an AlltoAll of 2,048 ranks has as many. A line may say any size.
const MOST: u64 = 1 << 22;

/// Operations of a rank that exchange a part with others: by step, communicator, rank, operation and root.
type Exchanges = BTreeMap<(Option<u64>, Comm, u32), BTreeMap<(What, Option<u32>), (Sum, u32)>>;

/// What is exchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// Each rank sends a part to each other.
    AlltoAll,
    /// Each rank sends its part to the root.
    Gather,
    /// The root sends a part to each other rank.
    Scatter,
}

/// Adds AlltoAll, Gather and Scatter: what each rank sends to each other, by definition. What a rank
/// keeps is not sent. Of ranks without a call in the inputs those of the lowest rank with some are taken,
/// since all ranks make the same calls.
pub(super) fn pairs(
    matrix: &mut Matrix,
    ends: Ends,
    calls: &[Made<'_>],
    members: &mut Members,
    report: &Report,
) {
    let heard = heard(calls, members);
    let (all, mut left_out) = exchanges(calls, members);
    let mut budget = MOST;
    let mut of_comm: BTreeMap<(Option<u64>, &Comm), Vec<u32>> = BTreeMap::new();
    for (step, comm, rank) in all.keys() {
        of_comm.entry((*step, comm)).or_default().push(*rank);
    }
    for ((step, comm), ranks) in of_comm {
        let Some(&lowest) = ranks.first() else {
            continue;
        };
        let of = |rank: u32| all.get(&(step, comm.clone(), rank));
        let Some(first) = of(lowest) else { continue };
        let size = first.values().map(|(_, size)| *size).max().unwrap_or(0);
        let cost =
            u64::from(size).saturating_mul(match first.keys().any(|k| k.0 == What::AlltoAll) {
                true => u64::from(size),
                false => first.len() as u64,
            });
        if cost > budget {
            let calls = ranks.iter().filter_map(|&rank| of(rank)).flatten();
            let calls = calls.map(|(_, (sum, _))| sum.calls);
            left_out = calls.fold(left_out, u64::saturating_add);
            continue;
        }
        budget -= cost;
        let seats: Vec<_> = (0..size)
            .map(|rank| members.end(matrix, ends, comm, Some(rank)))
            .collect();
        for (rank, &from) in (0_u32..).zip(&seats) {
            let own = match heard.contains(&(comm.clone(), rank)) {
                true => of(rank),
                false => Some(first),
            };
            for (&(what, root), &(sum, _)) in own.into_iter().flatten() {
                let root_seat = root.and_then(|root| seats.get(root as usize)).copied();
                match (what, root_seat) {
                    (What::Gather, Some(to)) if root != Some(rank) => {
                        matrix.add(step, (from, to), Basis::Pairs, sum);
                    }
                    (What::AlltoAll, _) => others(&seats, rank, |to| {
                        matrix.add(step, (from, to), Basis::Pairs, sum);
                    }),
                    (What::Scatter, _) if root == Some(rank) => others(&seats, rank, |to| {
                        matrix.add(step, (from, to), Basis::Pairs, sum);
                    }),
                    _ => {}
                }
            }
        }
    }
    if left_out > 0 {
        report.warn(&format!(
            "{} of AlltoAll, Gather and Scatter left out: the rank, the root or the size of the \
             communicator is not known, or there are too many pairs",
            are(left_out, "call")
        ));
    }
}

/// What each rank exchanges, and how many calls do not tell it.
fn exchanges(calls: &[Made<'_>], members: &mut Members) -> (Exchanges, u64) {
    let mut all = Exchanges::new();
    let mut left_out = 0_u64;
    for made in calls {
        let what = match plain(made.op) {
            b"AlltoAll" => What::AlltoAll,
            b"Gather" => What::Gather,
            b"Scatter" => What::Scatter,
            _ => continue,
        };
        let root = match what {
            What::AlltoAll => None,
            _ => made.peer(),
        };
        let (comm, rank) = members.who(made);
        let known = rank.zip(made.nranks);
        let Some((rank, nranks)) = known.filter(|_| what == What::AlltoAll || root.is_some())
        else {
            left_out = left_out.saturating_add(made.calls);
            continue;
        };
        let of = all.entry((made.step, comm, rank)).or_default();
        let (sum, size) = of.entry((what, root)).or_insert((Sum::default(), nranks));
        sum.add(Sum::of(made.calls, made.all_bytes()));
        *size = nranks.max(*size);
    }
    (all, left_out)
}

fn others<T: Copy>(seats: &[T], own: u32, mut take: impl FnMut(T)) {
    for (rank, &to) in (0_u32..).zip(seats) {
        if rank != own {
            take(to);
        }
    }
}
