//! Sends and receives that do not fit.

mod omitted_message;
mod unpaired;
pub(super) mod wrong_peer;

use super::difference_context::DifferenceContext;
use super::fewer_calls::LaggardFindings;
use super::names::RankNames;
use crate::stages::check::finding::{Confidence, Finding, Kind, Reason};
use crate::stages::check::streams::compare::{CommMember, UnpairedMessages};
use omitted_message::find_omitted_message;
use std::collections::BTreeMap;
use unpaired::report_unpaired;

/// What to do about messages that do not fit.
const UNFIT_MESSAGE_ADVICE: &str = "a Send completes only with a Recv of the same number of elements on the other \
                      rank: compare the schedules of both ranks in this step";

/// Messages that do not fit.
pub(super) struct MessageDifferences<'a> {
    pub(super) unpaired: &'a [UnpairedMessages],
    pub(super) case: &'a DifferenceContext<'a>,
}

/// The side of a pair that made fewer calls.
fn side_with_fewer_calls(pair: &UnpairedMessages) -> &CommMember {
    let (sent, received) = pair.before;
    if sent < received {
        &pair.from
    } else {
        &pair.to
    }
}

impl MessageDifferences<'_> {
    /// Who is behind and which messages lack a side; `told` where something else was found already.
    pub(super) fn report_missing_messages(
        &self,
        behind: LaggardFindings,
        told: bool,
    ) -> Vec<Finding> {
        let all = !told && behind.laggards.is_empty();
        let missing = self.report_pairs(&behind, (!told, all));
        let mut findings = Vec::new();
        if !told
            && missing
                .iter()
                .all(|f| f.kind != Kind::P2pMissingCounterpart)
        {
            findings.extend(behind.findings);
        }
        findings.extend(missing);
        findings
    }

    /// The findings. A message whose other side is missing is one where that rank went on without
    /// it, or where nothing else explains it (`all`): a rank that stopped lacks many.
    fn report_pairs(&self, behind: &LaggardFindings, (shown, all): (bool, bool)) -> Vec<Finding> {
        let case = self.case;
        let caller = |number: u32| case.caller_at(number);
        let process = |member: &CommMember| case.found.sides[member.side].process;
        let last = |member: &CommMember| {
            let last = case.last.get(&process(member));
            last.map_or(0, |(_, _, call)| call.nth)
        };
        let told = |pair: &UnpairedMessages| {
            let lacking = side_with_fewer_calls(pair);
            // Who went on is ahead of somebody; who stopped is of nobody, and behind on much.
            let lags = behind.laggards.get(&process(lacking));
            let stopped = lags.is_some_and(|&lags| lags > 1);
            let left_out = (!stopped && pair.sent != pair.received)
                .then(|| find_omitted_message(pair, case.details, caller, last(lacking)))
                .flatten();
            let is_of_size = pair.sent == pair.received && shown;
            (all || is_of_size || shown && left_out.is_some())
                .then(|| report_unpaired(pair, left_out, case.details, caller, case.names))
                .flatten()
        };
        let all = self.unpaired.iter();
        let all: Vec<_> = all.filter_map(|pair| Some((pair, told(pair)?))).collect();
        let (of_size, mut rest): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|(pair, finding)| pair.sent == pair.received && finding.about.seq.is_some());
        rest.extend(merge_size_differences(of_size, case.names));
        rest.into_iter().map(|(_, finding)| finding).collect()
    }
}

/// Messages whose two sides differ: where one rank of a communicator has a part in all of them, it is
/// one finding about that rank.
fn merge_size_differences<'p>(
    all: Vec<(&'p UnpairedMessages, Finding)>,
    names: RankNames<'_>,
) -> Vec<(&'p UnpairedMessages, Finding)> {
    let mut by: BTreeMap<usize, Vec<(&UnpairedMessages, Finding)>> = BTreeMap::new();
    for (pair, finding) in all {
        by.entry(pair.communicator)
            .or_default()
            .push((pair, finding));
    }
    let mut told = Vec::new();
    for mut those in by.into_values() {
        let in_all = |member: &CommMember| {
            those.iter().all(|(pair, _)| {
                let sides = [pair.from.side, pair.to.side];
                sides.contains(&member.side)
            })
        };
        let common: Vec<CommMember> = those
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
            finding.reasons.push(Reason::InAllPairs {
                member: names.describe_member(who),
                pairs: many,
            });
            let seq = finding.about.seq.unwrap_or(0);
            finding.about = names.about_call(who, pair.communicator, seq);
            finding.sure = Confidence::High;
            told.push((pair, finding));
        }
    }
    told
}
