//! What the ranks that are there show where others of their communicator are not.
//!
//! Nothing is judged so: whether the ranks are of one communicator is not known. But if they are,
//! where they part is what the whole log would show, and worth a note (nccl#147: a rank's first
//! Broadcast is another than that of all others, and half of the ranks' lines are enough to see it).

use super::difference_context::DifferenceContext;
use super::mismatch::{self, FirstDifference};
use super::names::RankNames;
use crate::stages::check::finding::{Confidence, Finding, Kind, Severity};
use crate::stages::check::streams::compare::{CommMember, DifferingComm};
use crate::stages::check::wording::number_and_noun;

/// The note on ranks that part, where `apart` are some of a communicator's.
pub(super) fn note_visible_differences(
    apart: &DifferingComm,
    case: &DifferenceContext<'_>,
) -> Option<Finding> {
    let names = case.names;
    let of = names.found.communicators[apart.communicator].nranks?;
    let seen = apart.members.len();
    let begins =
        format!("the log has lines of {seen} of {of} ranks; if they are of one communicator,");
    let part = match mismatch::find_first_difference(apart, &[], case) {
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
    let says = format!(
        "{begins} {} made {} on {}, and others made up to {most}",
        names.describe_members(&last),
        number_and_noun(least, "call"),
        names.describe_communicator(apart.communicator),
    );
    (least < most).then(|| Finding::of_kind(Kind::RanksPart, Confidence::Low, says))
}
