//! How sure a finding is: what the log itself may be to blame for is no finding.

mod lost_call;
pub(super) mod unjudged;

use super::case::Case;
use super::fewer_calls::End;
use super::{Inputs, unnamed_communicators};
use crate::error::Result;
use crate::report::account::Account;
use crate::source::Input;
use crate::stages::check::finding::{Evidence, Finding, Severity, Spot, Sure};
use crate::stages::check::streams::compare::Compared;
use crate::stages::check::streams::why::Why;
use crate::stages::check::walk::Walked;
use crate::stages::communicators::Found;
use crate::stages::net::all::First;
use lost_call::Loss;
use std::collections::BTreeSet;

/// Drops the findings that the log may be to blame for, and says of the others how sure they are.
///
/// # Errors
/// An input cannot be read again.
pub(super) fn doubt_all<F: Fn(u32) -> Result<Input>>(
    findings: &mut Vec<Finding>,
    compared: &mut Compared,
    doubts: &Option<(Sure, String)>,
    (case, inputs, end): (&Case<'_>, &Inputs<'_, F>, End),
) -> Result<()> {
    let streams = case.streams;
    let mut dropped: BTreeSet<Why> = BTreeSet::new();
    let mut kept = Vec::new();
    for mut finding in findings.drain(..) {
        let loss = match inputs.accounts.iter().any(is_damaged) {
            true => lost_call::loss(&finding, compared, case, inputs)?,
            false => None,
        };
        let is_shown = matches!(loss, Some(Loss::Elsewhere | Loss::No));
        if let Some(why) = doubtful(&finding, inputs, (streams.counts, is_shown), end) {
            dropped.insert(why);
            continue;
        }
        if loss != Some(Loss::No) {
            doubt(&mut finding, inputs.accounts);
        }
        kept.push(finding);
    }
    *findings = kept;
    for finding in findings {
        if !streams.counts {
            doubt_parts(finding, inputs.walked);
        }
        doubt_members(finding, doubts, compared);
    }
    if let Some(why) = dropped.pop_first() {
        let apart = compared.apart.drain(..).map(|apart| apart.communicator);
        let pairs = compared.unpaired.drain(..).map(|pair| pair.communicator);
        let those: BTreeSet<usize> = apart.chain(pairs).collect();
        compared.unjudged.entry(why).or_default().extend(those);
    }
    Ok(())
}

/// Why it may be the log that is not right, if it may be. One that says itself that the job failed
/// was not cut out of the log of a healthy one.
fn doubtful<F: Fn(u32) -> Result<Input>>(
    finding: &Finding,
    inputs: &Inputs<'_, F>,
    (counts, is_shown): (bool, bool),
    end: End,
) -> Option<Why> {
    if !is_shown && !is_certain(finding, inputs) {
        return Some(Why::Damaged);
    }
    if end.said {
        return None;
    }
    let mut used = inputs.walked.iter().filter(|w| w.sums.last_gap().is_some());
    if lacks(finding) && !end.uncut && used.all(|input| input.cuts.at_end) {
        return Some(Why::Edge);
    }
    let is_behind = |evidence: &Evidence| {
        let input = inputs.walked.get(evidence.at.input() as usize);
        let line = evidence.at.line();
        input
            .zip(line)
            .is_some_and(|(input, line)| input.cuts.is_behind(line))
    };
    (!counts && finding.evidence.iter().any(is_behind)).then_some(Why::Seam)
}

/// True for a finding that something was not done: it shows at the end of the log.
fn lacks(finding: &Finding) -> bool {
    matches!(
        finding.id,
        "rank_behind" | "rank_silent" | "p2p_missing_counterpart"
    )
}

/// True where no call can have been lost in front of the lines that show the finding: calls are
/// numbered from the start. What is missing may be lost on any damaged line; of a rank that stopped, on
/// any after its last call.
fn is_certain<F: Fn(u32) -> Result<Input>>(finding: &Finding, inputs: &Inputs<'_, F>) -> bool {
    if lacks(finding) {
        let is_over = |account: &Account| {
            let last = finding.evidence.first().map(|evidence| evidence.at);
            let places = lost_call::places(account);
            finding.id == "rank_behind"
                && inputs.accounts.len() == 1
                && places.zip(last).is_some_and(|(places, last)| {
                    let line = last.line();
                    places.iter().all(|place| Some(place.line) < line)
                })
        };
        let mut damaged = inputs.accounts.iter().filter(|account| is_damaged(account));
        return damaged.all(is_over);
    }
    finding.evidence.iter().all(|evidence| {
        let Spot::Line(First { input, line }) = evidence.at else {
            return false;
        };
        inputs.accounts.get(input as usize).is_some_and(|account| {
            let first = account.places.first().map(|place| place.line);
            account.dropped == 0 && first.is_none_or(|first| line < first)
        })
    })
}

pub(super) fn is_damaged(account: &Account) -> bool {
    account.damaged > 0 || account.dropped > 0
}

/// How sure it is who the members are of what differs, and why: where no line says it, the least.
pub(super) fn doubts(compared: &Compared, found: &Found) -> Option<(Sure, String)> {
    let apart = compared.apart.iter().map(|apart| apart.communicator);
    let pairs = compared.unpaired.iter().map(|pair| pair.communicator);
    let told = apart
        .chain(pairs)
        .filter_map(|at| unnamed_communicators::told(&found.communicators[at]));
    let doubts = told.map(|(told, nranks)| unnamed_communicators::doubt(told, nranks));
    doubts.reduce(|a, b| if b.0 > a.0 { b } else { a })
}

/// Nothing is surer than who the members are; and who is behind may be known only by communicators
/// that are not compared.
fn doubt_members(finding: &mut Finding, doubts: &Option<(Sure, String)>, compared: &Compared) {
    let Some((sure, why)) = doubts else { return };
    let mut least = *sure;
    finding.why += &format!("; {why}");
    let untold = |why: &Why| matches!(why, Why::Unnamed | Why::Few(..) | Why::Several(..));
    let lacks = matches!(finding.id, "rank_behind" | "rank_silent");
    if lacks && compared.unjudged.keys().any(untold) {
        least = Sure::Low;
        finding.why += "; another rank may be behind on communicators that are not compared";
    }
    finding.sure = finding.sure.max(least);
    if *sure == Sure::Low {
        finding.severity = finding.severity.max(Severity::Warning);
    }
}

/// A line may be damaged so that nothing shows that it was a call: where others are damaged, none of
/// what is missing is sure.
fn doubt(finding: &mut Finding, accounts: &[Account]) {
    let is_damaged = |evidence: &Evidence| {
        let account = accounts.get(evidence.at.input() as usize);
        account.is_some_and(|account| account.damaged > 0)
    };
    if finding.sure == Sure::High && finding.evidence.iter().any(is_damaged) {
        finding.sure = Sure::Medium;
        finding.why += "; but other lines are damaged, and one of them may hide a call";
    }
}

/// A file whose step number falls may be put together of parts; where NCCL does not count its calls,
/// nothing else shows that some are missing between them.
fn doubt_parts(finding: &mut Finding, walked: &[Walked]) {
    let is_of_parts = |evidence: &Evidence| {
        let input = walked.get(evidence.at.input() as usize);
        let last = input.and_then(|input| input.timeline.steps.last());
        last.is_some_and(|step| step.segment > 0)
    };
    if finding.sure == Sure::High && finding.evidence.iter().any(is_of_parts) {
        finding.sure = Sure::Medium;
        finding.why += "; but the step number falls, so the file may consist of several parts";
    }
}
