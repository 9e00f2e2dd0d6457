//! Messages whose two sides do not fit, and who is to blame.
//!
//! At the end of a log one side of many messages is only behind. But two ranks that both made a
//! collective have both made what comes before it: messages that do not fit by then never will.
//! Of one that goes to a wrong peer two pairs do not fit, or more; the rank in all of them is to blame.

use super::ADVICE;
use crate::stages::check::finding::{Evidence, Finding, Severity, Sure};
use crate::stages::check::ranks::case::Case;
use crate::stages::check::ranks::mismatch::spot;
use crate::stages::check::ranks::names::Names;
use crate::stages::check::streams::Way;
use crate::stages::check::streams::compare::{Ranked, Unpaired};
use crate::stages::check::wording::times;
use std::collections::BTreeMap;

/// How many pairs are in a finding's words and lines.
const SHOWN: usize = 4;

/// Who got so many messages of a rank is one that it calls usually.
const USUAL: u64 = 3;

/// A pair with the messages that were to fit: sent, received.
struct Odd<'a> {
    pair: &'a Unpaired,
    counts: (u64, u64),
}

impl Odd<'_> {
    /// In words.
    fn says(&self, names: Names<'_>) -> String {
        let (from, to) = (&self.pair.from, &self.pair.to);
        format!(
            "{} sends {} to {}, which receives {}",
            names.rank(from),
            times(self.counts.0),
            names.rank(to),
            times(self.counts.1)
        )
    }

    fn has(&self, member: &Ranked) -> bool {
        [self.pair.from.side, self.pair.to.side].contains(&member.side)
    }

    /// The side that made more calls.
    fn ahead(&self) -> &Ranked {
        match self.counts.0 < self.counts.1 {
            true => &self.pair.to,
            false => &self.pair.from,
        }
    }

    /// True where the side that made fewer calls made as many with each of its other peers, and the
    /// other side did not: it made one in addition.
    fn is_extra(&self, case: &Case<'_>) -> bool {
        let (from, to) = (&self.pair.from, &self.pair.to);
        let send = (from, Way::Send(to.peer()));
        let recv = (to, Way::Recv(from.peer()));
        let (ahead, lacking) = match self.counts.0 < self.counts.1 {
            true => (recv, send),
            false => (send, recv),
        };
        let one_more = self.counts.0.abs_diff(self.counts.1) == 1;
        one_more && is_even(lacking, case) && !is_even(ahead, case)
    }

    /// Nobody met it, and it is the first of its kind.
    fn is_first(&self) -> bool {
        let (sent, received) = self.counts;
        sent.min(received) == 0 && sent.max(received) <= 2
    }

    /// The side that made fewer calls.
    fn lacking(&self) -> &Ranked {
        match self.counts.0 < self.counts.1 {
            true => &self.pair.from,
            false => &self.pair.to,
        }
    }
}

/// Messages that went to a wrong peer: what is settled first; what follows from it is left out.
pub(in crate::stages::check::ranks) fn wrong_peers(
    case: &Case<'_>,
    unpaired: &[Unpaired],
    goes_on: impl Fn(usize) -> bool,
) -> Vec<Finding> {
    let counts = |pair: &Unpaired| case.met.settled(pair, case.found, case.streams);
    let settled: Vec<Odd<'_>> = unpaired
        .iter()
        .filter_map(|pair| counts(pair).map(|counts| Odd { pair, counts }))
        .filter(|odd| odd.counts.0 != odd.counts.1)
        .collect();
    if !settled.is_empty() {
        return findings(&settled, true, case);
    }
    let all: Vec<Odd<'_>> = unpaired
        .iter()
        .filter(|pair| pair.before.0 != pair.before.1)
        .map(|pair| Odd {
            pair,
            counts: pair.before,
        })
        .collect();
    if all.iter().any(|odd| !goes_on(odd.pair.communicator)) || is_new(&all) {
        return findings(&all, false, case);
    }
    Vec::new()
}

/// One finding for each communicator.
fn findings(all: &[Odd<'_>], is_settled: bool, case: &Case<'_>) -> Vec<Finding> {
    let mut by: BTreeMap<usize, Vec<&Odd<'_>>> = BTreeMap::new();
    for odd in all {
        by.entry(odd.pair.communicator).or_default().push(odd);
    }
    by.values()
        .filter_map(|odds| finding(odds, is_settled, case))
        .collect()
}

/// The finding on a communicator's pairs: the rank that is in all that do not fit, else the side
/// that lacks a call. Of pairs that are not settled only a rank is reported that is in several, and
/// both lacks calls and made others that nobody met: one that is behind only lacks some.
fn finding(odds: &[&Odd<'_>], is_settled: bool, case: &Case<'_>) -> Option<Finding> {
    let first = odds.first()?;
    let names = case.names;
    let (common, most) = common(odds)?;
    let is_in_all = most == odds.len();
    let by_all = common.filter(|part| part.lacks && part.is_ahead && (is_settled || is_in_all));
    let wrong = match by_all {
        Some(part) => Some(part.member),
        None if is_settled => None,
        None => stranger(odds),
    };
    let communicator = first.pair.communicator;
    // Of a rank's own pairs; the others follow from them.
    let own: Vec<&Odd<'_>> = match (wrong, is_in_all) {
        (Some(who), false) => {
            let own = odds.iter().filter(|odd| odd.has(&who));
            own.copied().collect()
        }
        _ => odds.to_vec(),
    };
    let seq = own.first().map_or(0, |odd| odd.counts.0.min(odd.counts.1));
    let (id, who, says) = match wrong {
        Some(who) => ("p2p_wrong_peer", who, calls_a_wrong_peer(&who, &own, names)),
        None if !is_settled => return None,
        None => {
            let (who, says) = lacks_or_has_one_more(odds, seq, case)?;
            let who = who.or(common.map(|part| part.member));
            (
                "p2p_missing_counterpart",
                who.unwrap_or(*first.lacking()),
                says,
            )
        }
    };
    Some(Finding {
        id,
        severity: Severity::Error,
        says: format!("communicator {}: {says}", names.communicator(communicator)),
        about: names.about(&who, communicator, seq),
        sure: match is_settled && is_in_all {
            true => Sure::High,
            false => Sure::Medium,
        },
        why: why(is_settled, is_in_all).to_owned(),
        advice: ADVICE.to_owned(),
        evidence: own
            .iter()
            .take(SHOWN)
            .filter_map(|odd| unmet(odd, case))
            .collect(),
    })
}

/// The pairs in words, the first ones.
fn each(odds: &[&Odd<'_>], names: Names<'_>) -> String {
    let each: Vec<String> = odds.iter().take(SHOWN).map(|odd| odd.says(names)).collect();
    each.join("; ")
}

fn calls_a_wrong_peer(who: &Ranked, own: &[&Odd<'_>], names: Names<'_>) -> String {
    let each = each(own, names);
    format!(
        "{} calls a wrong peer, or in the wrong direction: {each}",
        names.rank(who)
    )
}

/// The words where no rank is known to call a wrong peer, and the rank that made a call too many, if
/// that is what happened.
fn lacks_or_has_one_more(
    odds: &[&Odd<'_>],
    seq: u64,
    case: &Case<'_>,
) -> Option<(Option<Ranked>, String)> {
    let (first, names) = (odds.first()?, case.names);
    let each = each(odds, names);
    let (more, less) = match first.counts.0 < first.counts.1 {
        true => ("Recv", "Send"),
        false => ("Send", "Recv"),
    };
    if odds.len() == 1 && first.is_extra(case) {
        let who = *first.ahead();
        let rank = names.rank(&who);
        let says = format!("{each}: {rank} made one {more} too many, message {seq} or one before");
        return Some((Some(who), says));
    }
    let rank = names.rank(first.lacking());
    let says = format!("{each}: a {less} of {rank} is missing, message {seq} or one before");
    Some((None, says))
}

fn why(is_settled: bool, is_in_all: bool) -> &'static str {
    match (is_settled, is_in_all) {
        (true, _) => "both ranks of each pair made a later collective, so neither is merely behind",
        (false, true) => {
            "it is in all pairs of ranks whose messages do not match, and is ahead in some of them"
        }
        (false, false) => {
            "it alone called ranks that it never called before, and lacks calls that it usually made"
        }
    }
}

/// True where a member made as many calls with each other peer in this direction as with this one.
fn is_even((member, way): (&Ranked, Way), case: &Case<'_>) -> bool {
    let streams = case.streams;
    let Some(caller) = member.caller else {
        return false;
    };
    let calls = |way: Way| {
        let stream = streams.at.get(&(caller, way))?;
        Some(streams.calls(*stream))
    };
    let same = |other: &&Way| std::mem::discriminant(*other) == std::mem::discriminant(&way);
    let others = streams.ways(caller).iter().filter(same);
    let mut others = others.filter(|other| **other != way).peekable();
    others.peek().is_some() && others.all(|&other| calls(other) == calls(way))
}

/// A rank's part in the pairs that do not fit.
#[derive(Clone, Copy)]
struct Part {
    member: Ranked,
    /// How many of the pairs are its.
    pairs: usize,
    /// In one of them it made fewer calls.
    lacks: bool,
    /// In one of them it made more.
    is_ahead: bool,
}

/// The only rank that is in most of the pairs, if it is one, and in how many the most are.
fn common(odds: &[&Odd<'_>]) -> Option<(Option<Part>, usize)> {
    let mut parts: BTreeMap<usize, Part> = BTreeMap::new();
    for odd in odds {
        let lacks = odd.lacking().side;
        for member in [odd.pair.from, odd.pair.to] {
            let part = parts.entry(member.side).or_insert(Part {
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

/// The call that nobody met, by the side that made it.
fn unmet(odd: &Odd<'_>, case: &Case<'_>) -> Option<Evidence> {
    let (pair, (sent, received)) = (odd.pair, odd.counts);
    let (member, way) = match sent < received {
        true => (&pair.to, Way::Recv(pair.from.peer())),
        false => (&pair.from, Way::Send(pair.to.peer())),
    };
    let calls = case.details.get(&(case.caller(member.caller?), way))?;
    let at = calls
        .iter()
        .rev()
        .find(|call| call.seq <= sent.min(received));
    at.or(calls.last()).map(spot)
}

/// True for pairs among which a rank called one that it never did before, while one that it calls
/// usually misses a call: no rank that is only behind does so.
fn is_new(all: &[Odd<'_>]) -> bool {
    let first = all.iter().filter(|odd| odd.is_first());
    first
        .map(|odd| odd.ahead().side)
        .any(|side| misses_usual(side, all.iter()))
}

/// True where a rank lacks a call to or from one that it calls usually.
fn misses_usual<'o>(side: usize, mut all: impl Iterator<Item = &'o Odd<'o>>) -> bool {
    all.any(|odd| odd.lacking().side == side && odd.counts.0.min(odd.counts.1) >= USUAL)
}

/// The rank that alone called ranks that it never did before, and misses usual calls. In a ring all
/// ranks come to a halt one after another, so that it is not in all pairs that do not fit.
fn stranger(odds: &[&Odd<'_>]) -> Option<Ranked> {
    let mut first = odds.iter().filter(|odd| odd.is_first());
    let who = *first.next()?.ahead();
    let alone = first.all(|odd| odd.ahead().side == who.side);
    (alone && misses_usual(who.side, odds.iter().copied())).then_some(who)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(side: u32) -> Ranked {
        Ranked {
            rank: Some(side),
            side: side as usize,
            caller: None,
            calls: 0,
            before: 0,
        }
    }

    fn pair((from, to): (u32, u32), before: (u64, u64)) -> Unpaired {
        Unpaired {
            communicator: 0,
            from: member(from),
            to: member(to),
            sent: before.0,
            received: before.1,
            before,
            block: 0,
        }
    }

    fn strange(pairs: &[Unpaired]) -> Option<usize> {
        let odds = pairs.iter().map(|pair| Odd {
            pair,
            counts: pair.before,
        });
        let odds: Vec<Odd<'_>> = odds.collect();
        let odds: Vec<&Odd<'_>> = odds.iter().collect();
        stranger(&odds).map(|who| who.side)
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
        let two: Vec<Unpaired> = ring.into_iter().chain([pair((5, 4), (1, 0))]).collect();
        assert_eq!(strange(&two), None);
    }
}
