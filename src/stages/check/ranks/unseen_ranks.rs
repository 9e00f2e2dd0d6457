//! Ranks without lines, for which a rank that is behind may wait: then it is not the one that stopped.

use super::names::RankNames;
use crate::stages::check::finding::{Confidence, Finding, Kind, Reason};
use crate::stages::check::wording::{list_ranks, number_and_noun};
use crate::stages::communicators::{
    CommunicatorSide, CommunicatorsSummary, MergedCommunicator, Named,
};
use std::collections::BTreeSet;

/// The ranks without lines of the largest communicator on which a process made calls: `rank 8`, if it has all ranks of
/// the job, otherwise `rank 8 of communicator 0x5aa5 (12 ranks)`.
pub(super) fn describe_unseen_ranks(found: &CommunicatorsSummary, process: u32) -> Option<String> {
    let seen = |of: &MergedCommunicator| -> Option<BTreeSet<u32>> {
        let nranks = of.nranks.filter(|_| !matches!(of.key, Named::Own(_)))?;
        let sides = || of.sides.iter().map(|&side| &found.sides[side]);
        let is_used = |side: &&CommunicatorSide| {
            let is_open = side.count_calls() > 0 && !side.state.is_ended_in_order();
            side.process == process && is_open
        };
        sides().find(is_used)?;
        // Without the lines that name its members, nothing shows which of them are missing.
        let seen: BTreeSet<u32> = sides().map(|side| side.rank).collect::<Option<_>>()?;
        ((nranks as usize) > seen.len()).then_some(seen)
    };
    let all = found.communicators.iter().enumerate();
    let open = all.filter_map(|(at, of)| Some((at, seen(of)?, of.nranks?)));
    let (at, seen, nranks) =
        open.max_by_key(|(at, _, nranks)| (*nranks, std::cmp::Reverse(*at)))?;
    // A damaged line may name billions of ranks.
    let who = match nranks as usize - seen.len() {
        1..=64 => list_ranks(&(0..nranks).filter(|rank| !seen.contains(rank)).collect()),
        n => number_and_noun(n as u64, "rank"),
    };
    if found.communicators[at].is_world() {
        return Some(who);
    }
    let communicator = RankNames { found }.describe_communicator(at);
    Some(format!("{who} of communicator {communicator}"))
}

/// Lowers the confidence in ranks that are behind, if they may wait for one without lines.
pub(super) fn doubt_by_unseen_ranks(findings: &mut [Finding], found: &CommunicatorsSummary) {
    let is_behind =
        |finding: &&mut Finding| matches!(finding.kind, Kind::RankBehind | Kind::RankSilent);
    for finding in findings.iter_mut().filter(is_behind) {
        let about = &finding.about;
        let host = about.host.as_deref();
        let side = host.and_then(|host| found.sides_of_process(host, about.pid).first());
        let process = side.map(|&side| found.sides[side].process);
        let Some(unseen) = process.and_then(|at| describe_unseen_ranks(found, at)) else {
            continue;
        };
        finding.sure = Confidence::Low;
        finding.advice = format!("give the log of {unseen} too");
        finding.reasons.push(Reason::MayWaitForUnseen(unseen));
    }
}
