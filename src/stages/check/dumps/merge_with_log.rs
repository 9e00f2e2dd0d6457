//! Merges the finding of the dumps with the log's: one cause, one headline.

use super::ShownFinding;
use crate::stages::check::finding::{Confidence, Finding, Kind, Reason, Severity, WarnKind};
use std::collections::BTreeSet;

/// True for findings on the ranks' calls, from any source.
pub(in crate::stages::check) fn is_call_finding(kind: Kind) -> bool {
    let waits = matches!(
        kind,
        Kind::RankBehind
            | Kind::RankAhead
            | Kind::RankSilent
            | Kind::DeadProcess
            | Kind::Deadlock
            | Kind::P2pWrongPeer
            | Kind::P2pMissingCounterpart
            | Kind::RankException
            | Kind::RankKilled
            | Kind::RankCrashed
            | Kind::RankExited
            | Kind::Warn(WarnKind::COLLECTIVE_MISMATCH)
    );
    waits || kind.is_mismatch()
}

/// Adds the finding of the dumps, or of other records: to the log's finding about the same rank, with its clause as
/// a reason, else as one of its own. `rank` gives the rank in the job that a finding of the log is about.
pub(in crate::stages::check) fn merge_shown_finding(
    findings: &mut Vec<Finding>,
    shown: Option<ShownFinding>,
    reason: fn(String) -> Reason,
    rank: impl Fn(&Finding) -> Option<u32>,
) {
    let Some(shown) = shown else {
        return;
    };
    let is_error = |f: &&mut Finding| f.severity == Severity::Error && is_call_finding(f.kind);
    let same = |f: &&mut Finding| rank(f).is_some_and(|rank| shown.ranks == BTreeSet::from([rank]));
    if let Some(finding) = findings.iter_mut().filter(is_error).find(same) {
        finding.reasons.push(reason(shown.clause));
        finding.evidence.extend(shown.finding.evidence);
        return;
    }
    let mut own = shown.finding;
    // Any error of the log is more precise.
    let is_error = |f: &Finding| f.severity == Severity::Error;
    let is_unsure = matches!(own.kind, Kind::WatchdogTimeout | Kind::NotChecked);
    if is_unsure && findings.iter().any(is_error) {
        return;
    }
    // A missing dump does not contradict the log's finding of the rank that failed first.
    let cause = findings
        .iter()
        .find(|f| f.severity == Severity::Error && is_call_finding(f.kind));
    if let (Some(cause), Kind::DeadProcess | Kind::RankBehind) = (cause, own.kind) {
        own.sure = own.sure.max(Confidence::Medium);
        own.excuse(Reason::LogHas(cause.kind));
    }
    findings.push(own);
}
