//! Messages: Send and Recv, each counted once, and operations that exchange a part between each pair of ranks.

use super::cells::{TrafficBasis, TrafficMatrix, TrafficSum};
use super::members::{MatrixComm, MatrixMembers};
use super::{EndpointLevel, RankCalls};
use crate::grammar::values::{OpKind, op_kind};
use crate::report::{Report, count_phrase};
use crate::stages::matrix::limits::MAX_EXCHANGED_PAIRS;
use std::collections::{BTreeMap, BTreeSet};

/// Returns an operation's name without the prefix of RCCL's MSCCL++.
fn strip_mscclpp_prefix(op: &[u8]) -> &[u8] {
    op.strip_prefix(b"mscclpp_nccl").unwrap_or(op)
}

/// The records of both ends of a pair.
#[derive(Debug, Default)]
struct PairRecords {
    sent: TrafficSum,
    expected: TrafficSum,
}

/// Returns the ranks with a call in the inputs, by communicator.
pub(super) fn ranks_with_calls(
    calls: &[RankCalls<'_>],
    members: &MatrixMembers,
) -> BTreeSet<(MatrixComm, u32)> {
    let who = calls.iter().map(|made| members.caller_of(made));
    who.filter_map(|(comm, rank)| Some((comm, rank?))).collect()
}

/// Adds Send and Recv. Both ends record a message: the sender's record counts, and the receiver's only if the
/// inputs have no call of the sender on that communicator.
pub(super) fn add_messages(
    matrix: &mut TrafficMatrix,
    ends: EndpointLevel,
    calls: &[RankCalls<'_>],
    members: &mut MatrixMembers,
    report: &Report,
) {
    let heard = ranks_with_calls(calls, members);
    let mut pairs: BTreeMap<(MatrixComm, u32, u32), PairRecords> = BTreeMap::new();
    let mut receives: BTreeSet<(MatrixComm, u32)> = BTreeSet::new();
    let mut nobodys = 0_u64;
    let those = calls.iter().filter(|m| op_kind(m.op).is_message());
    for made in those {
        let sum = TrafficSum::from_calls(made.calls, made.all_bytes());
        let (comm, rank) = members.caller_of(made);
        let peer = made.peer();
        if op_kind(made.op) == OpKind::Send {
            let from = members.endpoint_of_caller(matrix, ends, made);
            let to = members.endpoint_of_rank(matrix, ends, &comm, peer);
            matrix.add_to_cell(made.step, from, to, TrafficBasis::Sent, sum);
            if let (Some(rank), Some(peer)) = (rank, peer) {
                pairs
                    .entry((comm, rank, peer))
                    .or_default()
                    .sent
                    .add_sum(sum);
            }
            continue;
        }
        receives.extend(rank.map(|rank| (comm.clone(), rank)));
        match (rank, peer) {
            (Some(rank), Some(peer)) if !heard.contains(&(comm.clone(), peer)) => {
                let from = members.endpoint_of_rank(matrix, ends, &comm, Some(peer));
                let to = members.endpoint_of_rank(matrix, ends, &comm, Some(rank));
                matrix.add_to_cell(made.step, from, to, TrafficBasis::Received, sum);
            }
            (Some(rank), Some(peer)) => {
                let both = pairs.entry((comm, peer, rank)).or_default();
                both.expected.add_sum(sum);
            }
            // The inputs may have the sender's record.
            _ => nobodys = nobodys.saturating_add(made.calls),
        }
    }
    // Pairs are not compared if an input has only Sends, or a rank's log is missing.
    let known = |(comm, _, to): &(MatrixComm, u32, u32)| {
        comm.is_known() && receives.contains(&(comm.clone(), *to))
    };
    let pairs = pairs.iter().filter(|(pair, _)| known(pair));
    report_pair_differences(pairs, members, report);
    if nobodys > 0 {
        report.warn(&format!(
            "{} not counted: it is not known which rank of its communicator receives, or from whom, \
             so that the sender's records may be in the inputs",
            count_with_verb(nobodys, "Recv")
        ));
    }
}

fn count_with_verb(n: u64, what: &str) -> String {
    format!(
        "{} {}",
        count_phrase(n, what),
        if n == 1 { "is" } else { "are" }
    )
}

/// Reports the pairs of ranks that differ in their records.
fn report_pair_differences<'p>(
    pairs: impl Iterator<Item = (&'p (MatrixComm, u32, u32), &'p PairRecords)>,
    members: &MatrixMembers,
    report: &Report,
) {
    let differs = |both: &PairRecords| both.sent != both.expected;
    let odd: Vec<_> = pairs.filter(|(_, both)| differs(both)).collect();
    let Some(((comm, from, to), both)) = odd.first() else {
        return;
    };
    let text = |sum: &TrafficSum| match sum.all_bytes() {
        Some(bytes) => format!("{} of {bytes} bytes", count_phrase(sum.calls, "message")),
        None => count_phrase(sum.calls, "message"),
    };
    report.warn(&format!(
        "{} of ranks in which the receiver expected something else than what was sent; the first: on \
         communicator {} {} sent {} to {}, which expected {}",
        count_phrase(odd.len() as u64, "pair"),
        comm.to_text(),
        members.describe_member(comm, *from),
        text(&both.sent),
        members.describe_member(comm, *to),
        text(&both.expected)
    ));
}

/// Operations that exchange parts, by step, communicator, rank, operation and root.
type ExchangesByRank = BTreeMap<
    (Option<u64>, MatrixComm, u32),
    BTreeMap<(ExchangeKind, Option<u32>), (TrafficSum, u32)>,
>;

/// An operation that exchanges parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ExchangeKind {
    /// Each rank sends a part to each other rank.
    AlltoAll,
    /// Each rank sends its part to the root.
    Gather,
    /// The root sends a part to each other rank.
    Scatter,
}

/// Adds AlltoAll, Gather and Scatter by their definition, without the parts that ranks keep. A rank without a
/// call in the inputs takes the calls of the lowest rank that has some, since all ranks make equal calls.
pub(super) fn add_pairwise_exchanges(
    matrix: &mut TrafficMatrix,
    ends: EndpointLevel,
    calls: &[RankCalls<'_>],
    members: &mut MatrixMembers,
    report: &Report,
) {
    let heard = ranks_with_calls(calls, members);
    let (all, mut left_out) = collect_exchanges(calls, members);
    let mut budget = MAX_EXCHANGED_PAIRS;
    let mut of_comm: BTreeMap<(Option<u64>, &MatrixComm), Vec<u32>> = BTreeMap::new();
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
        let cost = u64::from(size).saturating_mul(
            match first.keys().any(|k| k.0 == ExchangeKind::AlltoAll) {
                true => u64::from(size),
                false => first.len() as u64,
            },
        );
        if cost > budget {
            let calls = ranks.iter().filter_map(|&rank| of(rank)).flatten();
            let calls = calls.map(|(_, (sum, _))| sum.calls);
            left_out = calls.fold(left_out, u64::saturating_add);
            continue;
        }
        budget -= cost;
        let seats: Vec<_> = (0..size)
            .map(|rank| members.endpoint_of_rank(matrix, ends, comm, Some(rank)))
            .collect();
        for (rank, &from) in (0_u32..).zip(&seats) {
            let own = match heard.contains(&(comm.clone(), rank)) {
                true => of(rank),
                false => Some(first),
            };
            for (&(what, root), &(sum, _)) in own.into_iter().flatten() {
                let root_seat = root.and_then(|root| seats.get(root as usize)).copied();
                match (what, root_seat) {
                    (ExchangeKind::Gather, Some(to)) if root != Some(rank) => {
                        matrix.add_to_cell(step, from, to, TrafficBasis::Pairs, sum);
                    }
                    (ExchangeKind::AlltoAll, _) => for_each_other(&seats, rank, |to| {
                        matrix.add_to_cell(step, from, to, TrafficBasis::Pairs, sum);
                    }),
                    (ExchangeKind::Scatter, _) if root == Some(rank) => {
                        for_each_other(&seats, rank, |to| {
                            matrix.add_to_cell(step, from, to, TrafficBasis::Pairs, sum);
                        });
                    }
                    _ => {}
                }
            }
        }
    }
    if left_out > 0 {
        report.warn(&format!(
            "{} of AlltoAll, Gather and Scatter left out: the rank, the root or the size of the \
             communicator is not known, or there are too many pairs",
            count_with_verb(left_out, "call")
        ));
    }
}

/// Returns the exchanges of each rank, and the number of calls without known ranks or bytes.
fn collect_exchanges(
    calls: &[RankCalls<'_>],
    members: &mut MatrixMembers,
) -> (ExchangesByRank, u64) {
    let mut all = ExchangesByRank::new();
    let mut left_out = 0_u64;
    for made in calls {
        let what = match strip_mscclpp_prefix(made.op) {
            b"AlltoAll" => ExchangeKind::AlltoAll,
            b"Gather" => ExchangeKind::Gather,
            b"Scatter" => ExchangeKind::Scatter,
            _ => continue,
        };
        let root = match what {
            ExchangeKind::AlltoAll => None,
            _ => made.peer(),
        };
        let (comm, rank) = members.caller_of(made);
        let known = rank.zip(made.nranks);
        let Some((rank, nranks)) =
            known.filter(|_| what == ExchangeKind::AlltoAll || root.is_some())
        else {
            left_out = left_out.saturating_add(made.calls);
            continue;
        };
        let of = all.entry((made.step, comm, rank)).or_default();
        let (sum, size) = of
            .entry((what, root))
            .or_insert((TrafficSum::default(), nranks));
        sum.add_sum(TrafficSum::from_calls(made.calls, made.all_bytes()));
        *size = nranks.max(*size);
    }
    (all, left_out)
}

fn for_each_other<T: Copy>(seats: &[T], own: u32, mut take: impl FnMut(T)) {
    for (rank, &to) in (0_u32..).zip(seats) {
        if rank != own {
            take(to);
        }
    }
}
