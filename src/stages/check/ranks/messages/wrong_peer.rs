//! Messages whose two sides do not fit, and who is to blame.
//!
//! At the end of a log one side of many messages is only behind. But two ranks that both made a
//! collective have both made what comes before it: messages that do not fit by then never will.
//! Of one that goes to a wrong peer two pairs do not fit, or more; the rank in all of them is to blame.

use crate::stages::check::finding::{Evidence, Finding, Severity, Sure};
use crate::stages::check::ranks::case::Case;
use crate::stages::check::ranks::mismatch::spot;
use crate::stages::check::ranks::names::Names;
use crate::stages::check::streams::Way;
use crate::stages::check::streams::compare::{Ranked, Unpaired};
use crate::stages::check::wording::times;
use std::collections::BTreeMap;

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
    let communicator = first.pair.communicator;
    let which = names.communicator(communicator);
    let each: Vec<String> = odds.iter().take(4).map(|odd| odd.says(names)).collect();
    let each = each.join("; ");
    let seq = first.counts.0.min(first.counts.1);
    let (id, who, says) = match common {
        Some(part) if part.lacks && part.is_ahead && (is_settled || is_in_all) => {
            let says = format!(
                "communicator {which}: {} calls a wrong peer, or in the wrong direction: {each}",
                names.rank(&part.member)
            );
            ("p2p_wrong_peer", part.member, says)
        }
        _ if !is_settled => return None,
        _ => {
            let what = match first.counts.0 < first.counts.1 {
                true => "Send",
                false => "Recv",
            };
            let lacking = first.lacking();
            let says = format!(
                "communicator {which}: {each}: a {what} of {} is missing, message {seq} or one \
                 before",
                names.rank(lacking)
            );
            let who = common.map_or(*lacking, |part| part.member);
            ("p2p_missing_counterpart", who, says)
        }
    };
    let why = match is_settled {
        true => "both ranks of each pair made a later collective, so neither is merely behind",
        false => {
            "it is in all pairs of ranks whose messages do not match, and is ahead in some of them"
        }
    };
    Some(Finding {
        id,
        severity: Severity::Error,
        says,
        about: names.about(&who, communicator, seq),
        sure: match is_settled && is_in_all {
            true => Sure::High,
            false => Sure::Medium,
        },
        why: why.to_owned(),
        advice: "a Send completes only with a Recv of the same number of elements on the other \
                 rank: compare the schedules of both ranks in this step"
            .to_owned(),
        evidence: odds
            .iter()
            .take(4)
            .filter_map(|odd| unmet(odd, case))
            .collect(),
    })
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
    let is_first = |odd: &&Odd<'_>| {
        let (sent, received) = odd.counts;
        sent.min(received) == 0 && sent.max(received) <= 2
    };
    let ahead = |odd: &Odd<'_>| match odd.counts.0 < odd.counts.1 {
        true => odd.pair.to.side,
        false => odd.pair.from.side,
    };
    let usual = |side: usize| {
        all.iter()
            .any(|odd| odd.lacking().side == side && odd.counts.0.min(odd.counts.1) >= USUAL)
    };
    all.iter().filter(is_first).any(|odd| usual(ahead(odd)))
}
