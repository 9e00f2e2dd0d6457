//! Whether ranks seem to call different things only because the line of a call is lost.
//!
//! If a line is lost, all later calls of the rank count one place too early. Calls that are equal
//! again after the difference were not lost, nor was the differing one: a lost line removes a call
//! and does not change it. The line of a removed call can only be lost between the lines of the
//! calls around it.

use crate::error::Result;
use crate::report::account::{Account, DamagePlace, MAX_DAMAGE_PLACES};
use crate::stages::check::evidence;
use crate::stages::check::finding::{Evidence, Finding};
use crate::stages::check::ranks::RereadInputs;
use crate::stages::check::ranks::difference_context::DifferenceContext;
use crate::stages::check::ranks::limits::CALLS_READ_PAST_DIFFERENCE;
use crate::stages::check::ranks::mismatch::{MemberCalls, show_call};
use crate::stages::check::streams::compare::{CommMember, DifferingComm, StreamComparison};

/// What lost lines have to do with ranks that call different things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LostCallVerdict {
    /// They may be all that makes them differ.
    Explains,
    /// They were lost elsewhere.
    Elsewhere,
    /// No lost line makes such a difference.
    No,
}

/// What lost lines have to do with a finding that shows its lines; `None` where it is not one on calls
/// that differ.
///
/// # Errors
/// An input cannot be read again.
pub(super) fn judge_lost_lines(
    finding: &Finding,
    compared: &StreamComparison,
    case: &DifferenceContext<'_>,
    inputs: &RereadInputs<'_>,
) -> Result<Option<LostCallVerdict>> {
    let is_it = |apart: &&DifferingComm| {
        let id = case.names.communicator_id(apart.communicator);
        id.is_some() && id == finding.about.comm_id
    };
    let seq = finding.about.seq;
    let seq = seq.filter(|_| finding.kind.is_mismatch());
    let apart = compared.apart.iter().find(is_it);
    let Some((apart, seq)) = apart.zip(seq) else {
        return Ok(None);
    };
    if inputs.accounts.iter().any(|account| account.dropped > 0) {
        return Ok(Some(LostCallVerdict::Explains));
    }
    let calls = |member: &CommMember| case.calls_of(member.collectives());
    let all: Vec<MemberCalls<'_>> = apart.members.iter().map(calls).collect();
    // Where blocks could not be put together, each process may have lost a line at one place.
    let has_loose_blocks = |account: &Account| account.block_lines > 0 && account.damaged > 0;
    let is_loose = inputs.accounts.iter().any(has_loose_blocks);
    let damaged = inputs.accounts.iter().map(|account| account.damaged);
    let lost = damaged.fold(0, u64::saturating_add);
    let Some(from) = find_lost_call(
        seq,
        finding.about.rank,
        &all,
        lost.min(CALLS_READ_PAST_DIFFERENCE),
        is_loose,
    ) else {
        // A call that was joined from pieces is less sure if other lines are lost.
        let is_joined =
            |calls: &MemberCalls<'_>| calls.call_at(seq).is_some_and(|call| call.line.joined);
        return Ok(Some(match all.iter().any(is_joined) {
            true => LostCallVerdict::Elsewhere,
            false => LostCallVerdict::No,
        }));
    };
    let Some(before) = from else {
        return Ok(Some(LostCallVerdict::Explains));
    };
    // The call before it, and where its line is.
    let mut shown = [Finding {
        evidence: vec![before],
        ..finding.clone()
    }];
    evidence::resolve_evidence(&mut shown, inputs.open)?;
    let [before] = shown;
    let first = |finding: &Finding| finding.evidence.first().map(|evidence| evidence.at);
    let ends = first(&before).zip(first(finding));
    let is_between = ends.is_none_or(|(before, call)| {
        let account = inputs.accounts.get(call.input() as usize);
        let places = account.and_then(damaged_places);
        let one = before.input() == call.input();
        let lost = |place: &DamagePlace| {
            before.line() < Some(place.line) && Some(place.line) < call.line()
        };
        !one || places.is_none_or(|places| places.iter().any(lost))
    });
    Ok(Some(match is_between {
        true => LostCallVerdict::Explains,
        false => LostCallVerdict::Elsewhere,
    }))
}

/// The damaged places, where all are known.
pub(super) fn damaged_places(account: &Account) -> Option<&[DamagePlace]> {
    (account.dropped == 0 && account.places.len() < MAX_DAMAGE_PLACES).then_some(&account.places)
}

/// `None` where no `lost` lines make the members differ like this. Else the call after which they were
/// lost, where it is known; the rank that is `named` made what the finding is about. In `is_loose` blocks several ranks
/// may have lost a line at one place.
fn find_lost_call(
    seq: u64,
    named: Option<u32>,
    all: &[MemberCalls<'_>],
    lost: u64,
    is_loose: bool,
) -> Option<Option<Evidence>> {
    let is_named = |calls: &&MemberCalls<'_>| calls.member.rank == named;
    let Some(one) = all.iter().find(is_named) else {
        return Some(None);
    };
    let is_like = |calls: &&MemberCalls<'_>| calls.is_same_call(seq, one, seq);
    let (wrong, right): (Vec<&MemberCalls<'_>>, Vec<&MemberCalls<'_>>) =
        all.iter().partition(is_like);
    if is_loose && wrong.len() > 1 {
        return Some(None);
    }
    // Several ranks do not each lose a line at one place.
    let late = |late: &[&MemberCalls<'_>], others: &[&MemberCalls<'_>]| {
        let ([late], [other, ..]) = (late, others) else {
            return None;
        };
        (1..=lost).find(|&by| continues_alike(late, seq, other, seq + by))
    };
    if late(&right, &wrong).is_some() {
        return Some(None);
    }
    let by = late(&wrong, &right)?;
    let (wrong, right) = (wrong.first()?, right.first()?);
    // Where calls are alike, it may be any of them.
    let mut from = seq;
    while from > 0 && right.is_same_call(from - 1, right, from - 1 + by) {
        from -= 1;
    }
    let before = from.checked_sub(1).and_then(|before| wrong.call_at(before));
    Some(before.map(show_call))
}

/// True where one rank's calls from a place on are another's from another place on, as far as both are known.
fn continues_alike(a: &MemberCalls<'_>, from: u64, b: &MemberCalls<'_>, other: u64) -> bool {
    (0..CALLS_READ_PAST_DIFFERENCE / 2).all(|n| {
        let known = a.call_at(from + n).is_some() && b.call_at(other + n).is_some();
        !known || a.is_same_call(from + n, b, other + n)
    })
}
