//! Messages whose two sides do not fit, and who is to blame.
//!
//! At the end of a log one side of many messages is only behind. But two ranks that both made a
//! collective have both made what comes before it: messages that do not fit by then never will.
//! Of one that goes to a wrong peer two pairs do not fit, or more; the rank in all of them is to blame.

use super::names::Names;
use crate::stages::check::finding::{Evidence, Finding, Severity, Sure};
use crate::stages::check::streams::compare::{Ranked, Unpaired};
use crate::stages::check::wording::times;
use std::collections::BTreeMap;

/// Who got so many messages of a rank is one that it calls usually.
const USUAL: u64 = 3;

/// A pair with the messages that were to fit: sent, received.
pub(crate) struct Odd<'a> {
    pub(crate) pair: &'a Unpaired,
    pub(crate) counts: (u64, u64),
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
    pub(crate) fn lacking(&self) -> &Ranked {
        match self.counts.0 < self.counts.1 {
            true => &self.pair.from,
            false => &self.pair.to,
        }
    }
}

/// One finding for each communicator: the rank that is in all pairs that do not fit, else the side
/// that lacks a call. Of pairs that are not `settled` only a rank is told of that is in several, and
/// both lacks calls and made others that nobody met: one that is behind only lacks some.
pub(crate) fn findings(
    all: &[Odd<'_>],
    is_settled: bool,
    names: Names<'_>,
    line: impl Fn(&Odd<'_>) -> Option<Evidence>,
) -> Vec<Finding> {
    let mut by: BTreeMap<usize, Vec<&Odd<'_>>> = BTreeMap::new();
    for odd in all {
        by.entry(odd.pair.communicator).or_default().push(odd);
    }
    let finding = |odds: &Vec<&Odd<'_>>| {
        let first = odds.first()?;
        let mut pairs: BTreeMap<usize, (u32, bool, bool, Ranked)> = BTreeMap::new();
        for odd in odds {
            let lacks = odd.lacking().side;
            for member in [odd.pair.from, odd.pair.to] {
                let of = pairs
                    .entry(member.side)
                    .or_insert((0, false, false, member));
                of.0 += 1;
                of.1 |= member.side == lacks;
                of.2 |= member.side != lacks;
            }
        }
        let most = pairs.values().map(|of| of.0).max()?;
        let mut those = pairs.values().filter(|of| of.0 == most);
        let common = those.next().filter(|_| those.next().is_none());
        let is_in_all = most as usize == odds.len();
        let communicator = first.pair.communicator;
        let which = names.communicator(communicator);
        let each: Vec<String> = odds.iter().take(4).map(|odd| odd.says(names)).collect();
        let each = each.join("; ");
        let seq = first.counts.0.min(first.counts.1);
        let (id, who, says) = match common {
            Some((_, true, true, who)) if is_settled || is_in_all => {
                let says = format!(
                    "communicator {which}: {} calls a wrong peer, or in the wrong direction: {each}",
                    names.rank(who)
                );
                ("p2p_wrong_peer", *who, says)
            }
            _ if !is_settled => return None,
            _ => {
                let what = match first.counts.0 < first.counts.1 {
                    true => "Send",
                    false => "Recv",
                };
                let who = common.map_or(*first.lacking(), |(.., who)| *who);
                let says = format!(
                    "communicator {which}: {each}: a {what} of {} is missing, message {seq} or one \
                     before",
                    names.rank(first.lacking())
                );
                ("p2p_missing_counterpart", who, says)
            }
        };
        let (sure, why) = match is_settled {
            true if is_in_all => (
                Sure::High,
                "both ranks of each pair made a later collective, so neither is merely behind",
            ),
            true => (
                Sure::Medium,
                "both ranks of each pair made a later collective, so neither is merely behind",
            ),
            false => (
                Sure::Medium,
                "it is in all pairs of ranks whose messages do not match, and is ahead in some of \
                 them",
            ),
        };
        Some(Finding {
            id,
            severity: Severity::Error,
            says,
            about: names.about(&who, communicator, seq),
            sure,
            why: why.to_owned(),
            advice:
                "a Send completes only with a Recv of the same number of elements on the other \
                 rank: compare the schedules of both ranks in this step"
                    .to_owned(),
            evidence: odds.iter().take(4).filter_map(|odd| line(odd)).collect(),
        })
    };
    by.values().filter_map(finding).collect()
}

/// True for pairs among which a rank called one that it never did before, while one that it calls
/// usually misses a call: no rank that is only behind does so.
pub(crate) fn is_new(all: &[Odd<'_>]) -> bool {
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

/// Messages whose two sides differ: where one rank of a communicator has a part in all of them, it is
/// one finding about that rank.
pub(crate) fn of_sizes<'p>(
    all: Vec<(&'p Unpaired, Finding)>,
    names: Names<'_>,
) -> Vec<(&'p Unpaired, Finding)> {
    let mut by: BTreeMap<usize, Vec<(&Unpaired, Finding)>> = BTreeMap::new();
    for (pair, finding) in all {
        by.entry(pair.communicator)
            .or_default()
            .push((pair, finding));
    }
    let mut told = Vec::new();
    for mut those in by.into_values() {
        let in_all = |member: &Ranked| {
            those.iter().all(|(pair, _)| {
                let sides = [pair.from.side, pair.to.side];
                sides.contains(&member.side)
            })
        };
        let common: Vec<Ranked> = those
            .first()
            .map(|(pair, _)| [pair.from, pair.to].into_iter().filter(in_all).collect())
            .unwrap_or_default();
        let ([who], 2..) = (&common[..], those.len()) else {
            told.append(&mut those);
            continue;
        };
        let many = those.len();
        those.sort_by_key(|(_, finding)| finding.about.seq);
        if let Some((pair, mut finding)) = those.into_iter().next() {
            finding.says += &format!(
                "; {} is in all {many} pairs of ranks whose messages differ",
                names.rank(who)
            );
            let seq = finding.about.seq.unwrap_or(0);
            finding.about = names.about(who, pair.communicator, seq);
            told.push((pair, finding));
        }
    }
    told
}
