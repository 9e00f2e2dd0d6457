//! Messages with two sides that do not fit, and the rank to blame.
//!
//! At the end of a log one side of many messages is only behind. But if two ranks both made a
//! collective, both made their calls before it: messages that do not fit by then never will. If one
//! goes to a wrong peer, two pairs or more do not fit; the rank in all of them is to blame.

use super::UNFIT_MESSAGE_ADVICE;
use super::omitted_message::find_omitted_message;
use super::unpaired::find_first_unfit_message;
use crate::stages::check::finding::{Confidence, Evidence, Finding, Kind};
use crate::stages::check::ranks::difference_context::DifferenceContext;
use crate::stages::check::ranks::limits::{MAX_PAIRS_SHOWN, MIN_CALLS_OF_USUAL_PEER};
use crate::stages::check::ranks::mismatch::show_call;
use crate::stages::check::ranks::names::RankNames;
use crate::stages::check::streams::StreamKind;
use crate::stages::check::streams::compare::{CommMember, MemberStream, UnpairedMessages};
use crate::stages::check::wording::number_of_times;
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;

/// A pair with the messages that were to fit: sent, received.
struct MismatchedPair<'a> {
    pair: &'a UnpairedMessages,
    counts: (u64, u64),
}

impl MismatchedPair<'_> {
    /// In words.
    fn describe_pair(&self, names: RankNames<'_>) -> String {
        let (from, to) = (&self.pair.from, &self.pair.to);
        format!(
            "{} sends {} to {}, which receives {}",
            names.describe_member(from),
            number_of_times(self.counts.0),
            names.describe_member(to),
            number_of_times(self.counts.1)
        )
    }

    fn has_member(&self, member: &CommMember) -> bool {
        [self.pair.from.side, self.pair.to.side].contains(&member.side)
    }

    fn more_and_fewer(&self) -> [MemberStream<'_>; 2] {
        self.pair.more_and_fewer(self.counts)
    }

    /// The side that made more calls.
    fn side_ahead(&self) -> &CommMember {
        self.more_and_fewer()[0].member
    }

    /// The side that made fewer calls.
    fn side_behind(&self) -> &CommMember {
        self.more_and_fewer()[1].member
    }

    /// The side that is wrong, by its calls with its other peers or by the rhythm of its own calls.
    fn find_wrong_side(&self, case: &DifferenceContext<'_>) -> Option<&CommMember> {
        let [more, fewer] = self.more_and_fewer();
        let one_more = self.counts.0.abs_diff(self.counts.1) == 1;
        match [more, fewer].map(|calls| is_even_over_peers(calls, case)) {
            [None | Some(false), Some(true)] if one_more => Some(more.member),
            [None | Some(true), Some(false)] => Some(fewer.member),
            _ => {
                let process = case.found.sides[fewer.member.side].process;
                let last = case.last.get(&process).map_or(0, |last| last.call.nth);
                find_omitted_message(self.pair, self.counts, case, last).map(|_| fewer.member)
            }
        }
    }

    /// No rank met it, and it is the first of its kind.
    fn is_first_unmet(&self) -> bool {
        let (sent, received) = self.counts;
        sent.min(received) == 0 && sent.max(received) <= 2
    }

    /// True where a side lacks a call that it usually makes.
    fn lacks_usual_call(&self) -> bool {
        self.counts.0.min(self.counts.1) >= MIN_CALLS_OF_USUAL_PEER
    }
}

/// Finds messages to a wrong peer: first the settled ones; their consequences are left out.
pub(in crate::stages::check::ranks) fn find_wrong_peers(
    case: &DifferenceContext<'_>,
    unpaired: &[UnpairedMessages],
    goes_on: impl Fn(usize) -> bool,
) -> Vec<Finding> {
    let counts = |pair: &UnpairedMessages| {
        case.met
            .count_settled_messages(pair, case.found, case.streams)
    };
    let settled: Vec<MismatchedPair<'_>> = unpaired
        .iter()
        .filter_map(|pair| counts(pair).map(|counts| MismatchedPair { pair, counts }))
        .filter(|odd| odd.counts.0 != odd.counts.1)
        .collect();
    if !settled.is_empty() {
        return report_by_communicator(&settled, true, case);
    }
    let all: Vec<MismatchedPair<'_>> = unpaired
        .iter()
        .filter(|pair| pair.before.0 != pair.before.1)
        .map(|pair| MismatchedPair {
            pair,
            counts: pair.before,
        })
        .collect();
    if all.iter().any(|odd| !goes_on(odd.pair.communicator)) || has_new_and_missing_call(&all) {
        return report_by_communicator(&all, false, case);
    }
    Vec::new()
}

/// One finding for each communicator.
fn report_by_communicator(
    all: &[MismatchedPair<'_>],
    is_settled: bool,
    case: &DifferenceContext<'_>,
) -> Vec<Finding> {
    let mut by: BTreeMap<usize, Vec<&MismatchedPair<'_>>> = BTreeMap::new();
    for odd in all {
        by.entry(odd.pair.communicator).or_default().push(odd);
    }
    by.values()
        .filter_map(|odds| report_communicator(odds, is_settled, case))
        .collect()
}

/// Returns the finding on the pairs of a communicator: the rank in all pairs that do not fit, else
/// the side that lacks a call. In pairs that are not settled, only a rank in several of them is
/// reported that lacks calls and also made others that no rank met: a rank that is behind only
/// lacks some.
fn report_communicator(
    odds: &[&MismatchedPair<'_>],
    is_settled: bool,
    case: &DifferenceContext<'_>,
) -> Option<Finding> {
    let first = odds.first()?;
    let names = case.names;
    let (common, most) = find_common_rank(odds)?;
    let is_in_all = most == odds.len();
    let by_all = common.filter(|part| part.lacks && part.is_ahead && (is_settled || is_in_all));
    let wrong = match by_all {
        Some(part) => Some(part.member),
        None if is_settled => None,
        None => find_rank_with_new_peers(odds),
    };
    let communicator = first.pair.communicator;
    // The rank's own pairs; the others follow from them.
    let own: Vec<&MismatchedPair<'_>> = match (wrong, is_in_all) {
        (Some(who), false) => {
            let own = odds.iter().filter(|odd| odd.has_member(&who));
            own.copied().collect()
        }
        _ => odds.to_vec(),
    };
    let is_ended = odds
        .iter()
        .all(|odd| odd.pair.is_ended_on_both_sides(case.found));
    let seq = own.first().map_or(0, |odd| {
        let fewer = odd.counts.0.min(odd.counts.1);
        find_first_unfit_message(odd.pair, case).map_or(fewer, |seq| seq.min(fewer))
    });
    let (kind, who, says, is_shown) = match wrong {
        Some(who) => {
            let (rank, each) = (names.describe_member(&who), describe_pairs(&own, names));
            let says = format!("{rank} calls a wrong peer, or in the wrong direction: {each}");
            (Kind::P2pWrongPeer, who, says, true)
        }
        None if !is_settled => return None,
        None => {
            let in_all = common.filter(|_| is_in_all && odds.len() > 1);
            let (who, says, is_shown) = describe_extra_or_missing(odds, in_all, seq, case)?;
            (Kind::P2pMissingCounterpart, who, says, is_shown)
        }
    };
    let sure = match is_settled && is_in_all && is_shown {
        true => Confidence::High,
        false => Confidence::Medium,
    };
    let says = format!(
        "communicator {}: {says}",
        names.describe_communicator(communicator)
    );
    Some(Finding {
        about: names.about_call(&who, communicator, seq),
        why: reason_for_wrong_peer(is_ended, is_settled, is_in_all).to_owned(),
        advice: UNFIT_MESSAGE_ADVICE.to_owned(),
        evidence: own
            .iter()
            .take(MAX_PAIRS_SHOWN)
            .filter_map(|odd| show_unmet_call(odd, case))
            .collect(),
        ..Finding::of_kind(kind, sure, says)
    })
}

/// The pairs in words, the first ones.
fn describe_pairs(odds: &[&MismatchedPair<'_>], names: RankNames<'_>) -> String {
    let each: Vec<String> = odds
        .iter()
        .take(MAX_PAIRS_SHOWN)
        .map(|odd| odd.describe_pair(names))
        .collect();
    each.join("; ")
}

/// The rank to blame where none is known to call a wrong peer, the words, and whether the calls show that it is this
/// one; `in_all` is the rank in all of several pairs.
fn describe_extra_or_missing(
    odds: &[&MismatchedPair<'_>],
    in_all: Option<RankInPairs>,
    seq: u64,
    case: &DifferenceContext<'_>,
) -> Option<(CommMember, String, bool)> {
    let (first, names) = (odds.first()?, case.names);
    let each = describe_pairs(odds, names);
    let (more, less) = match first.counts.0 < first.counts.1 {
        true => ("Recv", "Send"),
        false => ("Send", "Recv"),
    };
    let (ahead, behind) = (*first.side_ahead(), *first.side_behind());
    let of_one = first.find_wrong_side(case).filter(|_| odds.len() == 1);
    let [lagging, leading] = [&behind, &ahead].map(|who| names.describe_member(who));
    let lacks = format!("{lagging} lacks a {less}");
    let (who, what, is_shown) = match (in_all, of_one) {
        (Some(part), _) if !part.lacks => (ahead, format!("{leading} made calls too many"), true),
        (_, Some(side)) if side.side == ahead.side => {
            (ahead, format!("{leading} made one {more} too many"), true)
        }
        (None, None) => {
            let what = format!("{lacks}, or {leading} made a {more} too many");
            (behind, what, false)
        }
        _ => (behind, lacks, true),
    };
    let says = format!("{what}, message {seq} or one before: {each}");
    Some((who, says, is_shown))
}

fn reason_for_wrong_peer(is_ended: bool, is_settled: bool, is_in_all: bool) -> &'static str {
    match (is_settled, is_in_all) {
        (true, _) if is_ended => {
            "both ranks of each pair ended the communicator in order, so neither is just behind: each later message of the pair was received in place of the one before"
        }
        (true, _) => "both ranks of each pair made a later collective, so neither is merely behind",
        (false, true) => {
            "it is in all pairs of ranks whose messages do not match, and is ahead in some of them"
        }
        (false, false) => {
            "it alone called ranks that it never called before, and lacks calls that it usually \
             made"
        }
    }
}

/// True where a member made as many calls with each other peer in this direction as with this one; `None` where it has
/// no other peer.
fn is_even_over_peers(stream: MemberStream<'_>, case: &DifferenceContext<'_>) -> Option<bool> {
    let MemberStream { member, way } = stream;
    let streams = case.streams;
    let caller = member.caller?;
    let calls = |way: StreamKind| {
        let stream = streams.at.get(&(caller, way))?;
        Some(streams.calls_until_hang(*stream))
    };
    let same = |other: &&StreamKind| std::mem::discriminant(*other) == std::mem::discriminant(&way);
    let others = streams.kinds_of_caller(caller).iter().filter(same);
    let mut others = others.filter(|other| **other != way).peekable();
    others.peek()?;
    Some(others.all(|&other| calls(other) == calls(way)))
}

/// A rank's part in the pairs that do not fit.
#[derive(Clone, Copy)]
struct RankInPairs {
    member: CommMember,
    /// How many of the pairs are its.
    pairs: usize,
    /// In one of them it made fewer calls.
    lacks: bool,
    /// In one of them it made more.
    is_ahead: bool,
}

/// The only rank that is in most of the pairs, if it is one, and in how many the most are.
fn find_common_rank(odds: &[&MismatchedPair<'_>]) -> Option<(Option<RankInPairs>, usize)> {
    let mut parts: BTreeMap<usize, RankInPairs> = BTreeMap::new();
    for odd in odds {
        let lacks = odd.side_behind().side;
        for member in [odd.pair.from, odd.pair.to] {
            let part = parts.entry(member.side).or_insert(RankInPairs {
                member,
                pairs: 0,
                lacks: false,
                is_ahead: false,
            });
            part.pairs += 1;
            part.lacks |= member.side == lacks;
            part.is_ahead |= member.side != lacks;
        }
    }
    let most = parts.values().map(|part| part.pairs).max()?;
    let mut those = parts.values().filter(|part| part.pairs == most);
    let common = those.next().filter(|_| those.next().is_none());
    Some((common.copied(), most))
}

/// Returns the call that no rank met, from the side that made it.
fn show_unmet_call(odd: &MismatchedPair<'_>, case: &DifferenceContext<'_>) -> Option<Evidence> {
    let calls = case.calls_of(odd.more_and_fewer()[0]).list;
    let met = odd.counts.0.min(odd.counts.1);
    let at = calls.iter().rev().find(|call| call.seq <= met);
    at.or(calls.last()).map(show_call)
}

/// True for pairs among which a rank called one that it never did before, while one that it calls
/// usually misses a call: no rank that is only behind does so.
fn has_new_and_missing_call(all: &[MismatchedPair<'_>]) -> bool {
    let lacking: FxHashSet<usize> = (all.iter())
        .filter(|odd| odd.lacks_usual_call())
        .map(|odd| odd.side_behind().side)
        .collect();
    let mut first = all.iter().filter(|odd| odd.is_first_unmet());
    first.any(|odd| lacking.contains(&odd.side_ahead().side))
}

/// The rank that alone called ranks that it never did before, and misses usual calls. In a ring all
/// ranks come to a halt one after another, so that it is not in all pairs that do not fit.
fn find_rank_with_new_peers(odds: &[&MismatchedPair<'_>]) -> Option<CommMember> {
    let mut first = odds.iter().filter(|odd| odd.is_first_unmet());
    let who = *first.next()?.side_ahead();
    let alone = first.all(|odd| odd.side_ahead().side == who.side);
    let lacks =
        |odd: &&MismatchedPair<'_>| odd.lacks_usual_call() && odd.side_behind().side == who.side;
    (alone && odds.iter().any(lacks)).then_some(who)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(side: u32) -> CommMember {
        CommMember {
            rank: Some(side),
            side: side as usize,
            caller: None,
            calls: 0,
            before: 0,
        }
    }

    fn pair((from, to): (u32, u32), before: (u64, u64)) -> UnpairedMessages {
        UnpairedMessages {
            communicator: 0,
            from: member(from),
            to: member(to),
            sent: before.0,
            received: before.1,
            before,
            block: 0,
        }
    }

    fn strange(pairs: &[UnpairedMessages]) -> Option<usize> {
        let odds = pairs.iter().map(|pair| MismatchedPair {
            pair,
            counts: pair.before,
        });
        let odds: Vec<MismatchedPair<'_>> = odds.collect();
        let odds: Vec<&MismatchedPair<'_>> = odds.iter().collect();
        find_rank_with_new_peers(&odds).map(|who| who.side)
    }

    #[test]
    fn in_a_ring_the_rank_is_to_blame_that_called_strangers() {
        // Rank 2 of six sends to the one before it; the ranks around the ring come to a halt.
        let ring = [
            pair((1, 2), (70, 52)),
            pair((2, 1), (2, 0)),
            pair((3, 2), (0, 2)),
            pair((2, 3), (52, 70)),
            pair((5, 0), (70, 60)),
        ];
        assert_eq!(strange(&ring), Some(2));
        // Two did, or it lacks nothing that it called usually.
        assert_eq!(strange(&ring[1..3]), None);
        assert_eq!(strange(&ring[3..]), None);
        let two: Vec<UnpairedMessages> = ring.into_iter().chain([pair((5, 4), (1, 0))]).collect();
        assert_eq!(strange(&two), None);
    }
}
