//! The findings of the log and of the dumps as one: one cause, one headline.

use super::DumpFinding;
use crate::stages::check::finding::{Confidence, Finding, Severity};
use std::collections::BTreeSet;

/// Findings that are about the ranks' calls, whoever tells them.
pub(in crate::stages::check) fn is_call_finding(id: &str) -> bool {
    let waits = matches!(
        id,
        "rank_behind"
            | "rank_ahead"
            | "rank_silent"
            | "dead_process"
            | "deadlock"
            | "p2p_wrong_peer"
            | "p2p_missing_counterpart"
            | "rank_exception"
            | "rank_killed"
            | "rank_crashed"
            | "rank_exited"
    );
    waits || id.ends_with("_mismatch")
}

/// Adds what the dumps show: to the log's finding about the same rank, else as one of its own. `rank`
/// gives the rank in the job that a finding of the log is about.
pub(in crate::stages::check) fn merge_dump_finding(
    findings: &mut Vec<Finding>,
    shown: Option<DumpFinding>,
    rank: impl Fn(&Finding) -> Option<u32>,
) {
    let Some(shown) = shown else {
        return;
    };
    let is_error = |f: &&mut Finding| f.severity == Severity::Error && is_call_finding(f.id);
    let same = |f: &&mut Finding| rank(f).is_some_and(|rank| shown.ranks == BTreeSet::from([rank]));
    if let Some(finding) = findings.iter_mut().filter(is_error).find(same) {
        finding.says += &format!("; by the flight recorder {}", shown.clause);
        finding.why += "; the dumps of the flight recorder agree";
        finding.evidence.extend(shown.finding.evidence);
        return;
    }
    // What the log says of who failed is not contradicted by who lacks a dump.
    let mut own = shown.finding;
    let cause = findings
        .iter()
        .find(|f| f.severity == Severity::Error && is_call_finding(f.id));
    if let (Some(cause), "dead_process" | "rank_behind") = (cause, own.id) {
        own.severity = Severity::Note;
        own.sure = own.sure.max(Confidence::Medium);
        own.why += &format!("; the log has {}", cause.id);
    }
    findings.push(own);
}
