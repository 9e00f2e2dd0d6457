//! What the ranks that are there show where others of their communicator are not.
//!
//! Nothing is judged so: whether the ranks are of one communicator is not known. But if they are,
//! where they part is what the whole log would show, and worth a note (nccl#147: a rank's first
//! Broadcast is another than that of all others, and half of the ranks' lines are enough to see it).

use super::mismatch::{self, Details, Parting};
use super::names::Names;
use crate::stages::check::finding::{Finding, Severity, Sure};
use crate::stages::check::streams::compare::{Apart, Ranked};
use crate::stages::check::streams::{BLOCK, Caller};
use crate::stages::check::wording::counted;

/// The note on ranks that part, where `apart` are some of a communicator's.
pub(crate) fn finding(
    apart: &Apart,
    details: &Details,
    caller: impl Fn(u32) -> Caller,
    names: Names<'_>,
) -> Option<Finding> {
    let of = names.found.communicators[apart.communicator].nranks?;
    let seen = apart.members.len();
    let begins = format!(
        "the log has lines of {seen} of {of} ranks; if they are of one \
                          communicator,"
    );
    let first = apart.block * BLOCK;
    let part = match mismatch::parting(apart, (first, first + BLOCK), details, &[], caller, names) {
        Parting::Different(finding) => Finding {
            says: format!("{begins} {}", finding.says),
            ..*finding
        },
        Parting::Behind => behind(apart, &begins, names)?,
        Parting::Unknown(_) => return None,
    };
    Some(Finding {
        id: "ranks_part",
        severity: Severity::Note,
        sure: Sure::Low,
        why: "no line names the members, and the lines of the other ranks are missing".to_owned(),
        advice: "log every rank, with its INIT lines: NCCL_DEBUG_SUBSYS=INIT,COLL".to_owned(),
        ..part
    })
}

/// Some have made fewer calls.
fn behind(apart: &Apart, begins: &str, names: Names<'_>) -> Option<Finding> {
    let calls = || apart.members.iter().map(|member| member.before);
    let (least, most) = (calls().min()?, calls().max()?);
    let last: Vec<Ranked> = apart
        .members
        .iter()
        .filter(|member| member.before == least)
        .copied()
        .collect();
    (least < most).then(|| Finding {
        id: "",
        severity: Severity::Note,
        says: format!(
            "{begins} {} made {} on {}, and others made up to {most}",
            names.ranks(&last),
            counted(least, "call"),
            names.communicator(apart.communicator),
        ),
        about: crate::stages::check::finding::About::default(),
        sure: Sure::Low,
        why: String::new(),
        advice: String::new(),
        evidence: Vec::new(),
    })
}
