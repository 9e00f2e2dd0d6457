//! What the ranks that are there show where others of their communicator are not.
//!
//! Nothing is judged so: whether the ranks are of one communicator is not known. But if they are,
//! where they part is what the whole log would show, and worth a note (nccl#147: a rank's first
//! Broadcast is another than that of all others, and half of the ranks' lines are enough to see it).

use super::mismatch::{self, CallDetails, FirstDifference};
use super::names::RankNames;
use crate::stages::check::finding::{Confidence, Finding, Kind, Severity};
use crate::stages::check::streams::compare::{CommMember, DifferingComm};
use crate::stages::check::streams::{CALLS_PER_HASH_BLOCK, ProcessComm};
use crate::stages::check::wording::number_and_noun;

/// The note on ranks that part, where `apart` are some of a communicator's.
pub(crate) fn note_visible_differences(
    apart: &DifferingComm,
    details: &CallDetails,
    caller: impl Fn(u32) -> ProcessComm,
    names: RankNames<'_>,
) -> Option<Finding> {
    let of = names.found.communicators[apart.communicator].nranks?;
    let seen = apart.members.len();
    let begins = format!(
        "the log has lines of {seen} of {of} ranks; if they are of one \
                          communicator,"
    );
    let first = apart.block * CALLS_PER_HASH_BLOCK;
    let part = match mismatch::find_first_difference(
        apart,
        first..first + CALLS_PER_HASH_BLOCK,
        details,
        &[],
        caller,
        names,
    ) {
        FirstDifference::Different(finding) => Finding {
            says: format!("{begins} {}", finding.says),
            ..*finding
        },
        FirstDifference::Behind => note_fewer_calls(apart, &begins, names)?,
        FirstDifference::Unknown(_) => return None,
    };
    Some(Finding {
        kind: Kind::RanksPart,
        severity: Severity::Note,
        sure: Confidence::Low,
        why: "no line names the members, and the lines of the other ranks are missing".to_owned(),
        advice: "log every rank, with its INIT lines: NCCL_DEBUG_SUBSYS=INIT,COLL".to_owned(),
        ..part
    })
}

/// Some have made fewer calls.
fn note_fewer_calls(apart: &DifferingComm, begins: &str, names: RankNames<'_>) -> Option<Finding> {
    let calls = || apart.members.iter().map(|member| member.before);
    let (least, most) = (calls().min()?, calls().max()?);
    let last: Vec<CommMember> = apart
        .members
        .iter()
        .filter(|member| member.before == least)
        .copied()
        .collect();
    (least < most).then(|| Finding {
        kind: Kind::RanksPart,
        severity: Severity::Note,
        says: format!(
            "{begins} {} made {} on {}, and others made up to {most}",
            names.describe_members(&last),
            number_and_noun(least, "call"),
            names.describe_communicator(apart.communicator),
        ),
        about: crate::stages::check::finding::About::default(),
        sure: Confidence::Low,
        why: String::new(),
        advice: String::new(),
        evidence: Vec::new(),
        reasons: Vec::new(),
    })
}
