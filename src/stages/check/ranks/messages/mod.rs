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

impl MessageDifferences<'_> {
    /// Reports ranks that are behind, and messages without their other side; `has_findings` if
    /// there are other findings.
    pub(super) fn report_missing_messages(
        &self,
        behind: LaggardFindings,
        has_findings: bool,
    ) -> Vec<Finding> {
        let all = !has_findings && behind.laggards.is_empty();
        let missing = self.report_pairs(&behind, !has_findings, all);
        let mut findings = Vec::new();
        if !has_findings
            && missing
                .iter()
                .all(|f| f.kind != Kind::P2pMissingCounterpart)
        {
            findings.extend(behind.findings);
        }
        findings.extend(missing);
        findings
    }

    /// Returns the findings. A message without its other side is reported if that rank went on
    /// without it, or if nothing else explains it (`all`): a rank that stopped lacks many.
    fn report_pairs(&self, behind: &LaggardFindings, shown: bool, all: bool) -> Vec<Finding> {
        let case = self.case;
        let process = |member: &CommMember| case.found.sides[member.side].process;
        let last = |member: &CommMember| {
            let last = case.last.get(&process(member));
            last.map_or(0, |last| last.call.nth)
        };
        let waits = case.list_waiting_processes();
        let told = |pair: &UnpairedMessages| {
            let lacking = pair.more_and_fewer(pair.before)[1].member;
            // A rank that waits in another call makes none.
            let may_wait = waits.contains(&process(lacking)) && !case.is_settled(pair);
            // A rank that went on is ahead of another; one that stopped is ahead of none, and
            // behind in many calls.
            let lags = behind.laggards.get(&process(lacking));
            let stopped = lags.is_some_and(|&lags| lags > 1);
            let left_out = (!stopped && pair.sent != pair.received)
                .then(|| find_omitted_message(pair, pair.before, case, last(lacking)))
                .flatten();
            let is_of_size = pair.sent == pair.received && shown;
            (all && !may_wait || is_of_size || shown && left_out.is_some())
                .then(|| report_unpaired(pair, left_out, case))
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

/// Joins messages with different sides: if one rank of a communicator is in all of them, that is
/// one finding about the rank.
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
