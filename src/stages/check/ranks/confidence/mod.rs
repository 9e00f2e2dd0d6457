//! How sure a finding is: what the log itself may be to blame for is no finding.

mod lost_lines;
pub(super) mod unjudged;

use super::difference_context::DifferenceContext;
use super::fewer_calls::JobEndSignals;
use super::{RereadInputs, unnamed_communicators};
use crate::error::Result;
use crate::report::account::Account;
use crate::stages::check::finding::{
    Confidence, Evidence, Finding, Kind, LineSpot, Reason, Severity,
};
use crate::stages::check::log::job_processes::JobProcesses;
use crate::stages::check::streams::compare::StreamComparison;
use crate::stages::check::streams::unjudged_reason::UnjudgedReason;
use crate::stages::check::walk::WalkedInput;
use crate::stages::communicators::CommunicatorsSummary;
use crate::stages::net::net_stage::FirstReportLine;
use lost_lines::LostCallVerdict;
use std::collections::BTreeSet;

/// Drops findings that damage to the log can explain, and sets the confidence of the others.
///
/// # Errors
/// An input cannot be read again.
pub(super) fn rate_confidence(
    findings: &mut Vec<Finding>,
    compared: &mut StreamComparison,
    doubts: &Option<(Confidence, String)>,
    case: &DifferenceContext<'_>,
    inputs: &RereadInputs<'_>,
    end: JobEndSignals,
) -> Result<()> {
    let streams = case.streams;
    let mut dropped: BTreeSet<UnjudgedReason> = BTreeSet::new();
    let mut kept = Vec::new();
    for mut finding in findings.drain(..) {
        let loss = match inputs.accounts.iter().any(has_damage) {
            true => lost_lines::judge_lost_lines(&finding, compared, case, inputs)?,
            false => None,
        };
        let is_shown = matches!(loss, Some(LostCallVerdict::Elsewhere | LostCallVerdict::No));
        if let Some(why) =
            find_log_fault(&finding, inputs, case.ranks, streams.counts, is_shown, end)
        {
            dropped.insert(why);
            continue;
        }
        if loss != Some(LostCallVerdict::No) {
            cap_by_damage(&mut finding, inputs.accounts);
        }
        kept.push(finding);
    }
    *findings = kept;
    for finding in findings {
        if !streams.counts {
            cap_by_joined_parts(finding, inputs.walked);
        }
        cap_by_membership(finding, doubts, compared);
    }
    if let Some(why) = dropped.pop_first() {
        let apart = compared.apart.drain(..).map(|apart| apart.communicator);
        let pairs = compared.unpaired.drain(..).map(|pair| pair.communicator);
        let those: BTreeSet<usize> = apart.chain(pairs).collect();
        // A call that is wrong in itself may be on a communicator on which all ranks agree.
        if !those.is_empty() {
            compared.unjudged.entry(why).or_default().extend(those);
        }
    }
    Ok(())
}

/// Returns why the log itself may be at fault. A log that reports that the job failed was not cut
/// out of the log of a healthy one.
fn find_log_fault(
    finding: &Finding,
    inputs: &RereadInputs<'_>,
    processes: &JobProcesses,
    counts: bool,
    is_shown: bool,
    end: JobEndSignals,
) -> Option<UnjudgedReason> {
    if !is_shown && !is_free_of_losses(finding, inputs) {
        return Some(UnjudgedReason::Damaged);
    }
    if end.said {
        return None;
    }
    let mut used = inputs.walked.iter().filter(|w| w.sums.last_gap().is_some());
    if is_about_missing_call(finding) && !end.uncut && used.all(|input| input.cuts.at_end) {
        return Some(UnjudgedReason::Edge);
    }
    let is_behind = |evidence: &Evidence| {
        let LineSpot::Line(at) = evidence.at else {
            return false;
        };
        let begin = processes.begins_of_job_at(at).map_or(0, |(first, _)| first);
        let input = inputs.walked.get(at.input as usize);
        input.is_some_and(|input| input.cuts.is_after_cut(begin, at.line))
    };
    (!counts && finding.evidence.iter().any(is_behind)).then_some(UnjudgedReason::Seam)
}

/// True for a finding that something was not done: it shows at the end of the log.
fn is_about_missing_call(finding: &Finding) -> bool {
    matches!(
        finding.kind,
        Kind::RankBehind | Kind::RankSilent | Kind::P2pMissingCounterpart
    )
}

/// True if no call can be lost before the lines that show the finding: calls are numbered from the
/// start. A missing call may be on any damaged line; that of a rank that stopped on any after its
/// last call.
fn is_free_of_losses(finding: &Finding, inputs: &RereadInputs<'_>) -> bool {
    if is_about_missing_call(finding) {
        let is_over = |account: &Account| {
            let last = finding.evidence.first().map(|evidence| evidence.at);
            let places = lost_lines::damaged_places(account);
            finding.kind == Kind::RankBehind
                && inputs.accounts.len() == 1
                && places.zip(last).is_some_and(|(places, last)| {
                    let line = last.line();
                    places.iter().all(|place| Some(place.line) < line)
                })
        };
        let mut damaged = inputs.accounts.iter().filter(|account| has_damage(account));
        return damaged.all(is_over);
    }
    finding.evidence.iter().all(|evidence| {
        let LineSpot::Line(FirstReportLine { input, line }) = evidence.at else {
            return false;
        };
        inputs.accounts.get(input as usize).is_some_and(|account| {
            let first = account.places.first().map(|place| place.line);
            account.dropped == 0 && first.is_none_or(|first| line < first)
        })
    })
}

pub(super) fn has_damage(account: &Account) -> bool {
    account.damaged > 0 || account.dropped > 0
}

/// Returns the lowest confidence in the members of differing communicators, and why.
pub(super) fn rate_membership(
    compared: &StreamComparison,
    found: &CommunicatorsSummary,
) -> Option<(Confidence, String)> {
    let apart = compared.apart.iter().map(|apart| apart.communicator);
    let pairs = compared.unpaired.iter().map(|pair| pair.communicator);
    let told = apart
        .chain(pairs)
        .filter_map(|at| unnamed_communicators::grouping_of(&found.communicators[at]));
    let doubts =
        told.map(|(told, nranks)| unnamed_communicators::confidence_of_grouping(told, nranks));
    doubts.reduce(|a, b| if b.0 > a.0 { b } else { a })
}

/// Limits the confidence to that in the members. A rank that is behind may be behind only because
/// communicators are not compared.
fn cap_by_membership(
    finding: &mut Finding,
    doubts: &Option<(Confidence, String)>,
    compared: &StreamComparison,
) {
    let Some((sure, why)) = doubts else { return };
    let mut least = *sure;
    finding.reasons.push(Reason::Grouped(why.clone()));
    let untold = |why: &UnjudgedReason| {
        matches!(
            why,
            UnjudgedReason::Unnamed | UnjudgedReason::Few(..) | UnjudgedReason::Several(..)
        )
    };
    let lacks = matches!(finding.kind, Kind::RankBehind | Kind::RankSilent);
    if lacks && compared.unjudged.keys().any(untold) {
        least = Confidence::Low;
        finding.reasons.push(Reason::OthersNotCompared);
    }
    finding.sure = finding.sure.max(least);
    if *sure == Confidence::Low {
        finding.severity = finding.severity.max(Severity::Warning);
    }
}

/// Limits the confidence if lines are damaged: one of them may have been a call.
fn cap_by_damage(finding: &mut Finding, accounts: &[Account]) {
    let is_damaged = |evidence: &Evidence| {
        let account = accounts.get(evidence.at.input() as usize);
        account.is_some_and(|account| account.damaged > 0)
    };
    if finding.sure == Confidence::High && finding.evidence.iter().any(is_damaged) {
        finding.sure = Confidence::Medium;
        finding.reasons.push(Reason::LinesDamaged);
    }
}

/// Limits the confidence if the step number falls: the file may be put together of parts, and
/// without numbers from NCCL nothing else shows calls that are missing between them.
fn cap_by_joined_parts(finding: &mut Finding, walked: &[WalkedInput]) {
    let is_of_parts = |evidence: &Evidence| {
        let input = walked.get(evidence.at.input() as usize);
        let last = input.and_then(|input| input.timeline.steps.last());
        last.is_some_and(|step| step.segment > 0)
    };
    if finding.sure == Confidence::High && finding.evidence.iter().any(is_of_parts) {
        finding.sure = Confidence::Medium;
        finding.reasons.push(Reason::StepNumberFalls);
    }
}
