//! Whether ranks seem to call different things only because the line of a call is lost.
//!
//! A rank whose line is lost makes all later calls one place earlier. Calls that are the same again behind
//! the difference were not lost, and neither is what differs: a lost line leaves a call out, and makes no
//! other of it. And the line of a call that was left out can only be lost between the lines of the calls
//! around it.

use crate::error::Result;
use crate::report::account::{Account, PLACES, Place};
use crate::source::Input;
use crate::stages::check::evidence;
use crate::stages::check::finding::{Evidence, Finding};
use crate::stages::check::ranks::Inputs;
use crate::stages::check::ranks::case::Case;
use crate::stages::check::ranks::mismatch::{AHEAD, Calls, spot};
use crate::stages::check::streams::Way;
use crate::stages::check::streams::compare::{Apart, Compared, Ranked};

/// What lost lines have to do with ranks that call different things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
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
pub(super) fn loss<F: Fn(u32) -> Result<Input>>(
    finding: &Finding,
    compared: &Compared,
    case: &Case<'_>,
    inputs: &Inputs<'_, F>,
) -> Result<Option<Loss>> {
    let is_it = |apart: &&Apart| {
        let id = case.names.id(apart.communicator);
        id.is_some() && id == finding.about.comm_id
    };
    let seq = finding.about.seq;
    let seq = seq.filter(|_| finding.id.ends_with("_mismatch"));
    let apart = compared.apart.iter().find(is_it);
    let Some((apart, seq)) = apart.zip(seq) else {
        return Ok(None);
    };
    if inputs.accounts.iter().any(|account| account.dropped > 0) {
        return Ok(Some(Loss::Explains));
    }
    let calls = |member: &Ranked| {
        let key = member.caller.map(|at| (case.caller(at), Way::Collective));
        let list = key.and_then(|key| case.details.get(&key));
        Calls {
            member: *member,
            list: list.map_or(&[][..], |list| list),
        }
    };
    let all: Vec<Calls<'_>> = apart.members.iter().map(calls).collect();
    let damaged = inputs.accounts.iter().map(|account| account.damaged);
    let lost = damaged.fold(0, u64::saturating_add);
    let Some(from) = may_be_lost(seq, finding.about.rank, &all, lost.min(AHEAD)) else {
        // What was put together from pieces is not quite sure where others are lost.
        let is_joined = |calls: &Calls<'_>| calls.at(seq).is_some_and(|call| call.joined);
        return Ok(Some(match all.iter().any(is_joined) {
            true => Loss::Elsewhere,
            false => Loss::No,
        }));
    };
    let Some(before) = from else {
        return Ok(Some(Loss::Explains));
    };
    // The call before it, and where its line is.
    let mut shown = [Finding {
        evidence: vec![before],
        ..finding.clone()
    }];
    evidence::resolve(&mut shown, inputs.walked, &inputs.open)?;
    let [before] = shown;
    let first = |finding: &Finding| finding.evidence.first().map(|evidence| evidence.at);
    let ends = first(&before).zip(first(finding));
    let is_between = ends.is_none_or(|(before, call)| {
        let account = inputs.accounts.get(call.input() as usize);
        let places = account.and_then(places);
        let one = before.input() == call.input();
        let lost =
            |place: &Place| before.line() < Some(place.line) && Some(place.line) < call.line();
        !one || places.is_none_or(|places| places.iter().any(lost))
    });
    Ok(Some(match is_between {
        true => Loss::Explains,
        false => Loss::Elsewhere,
    }))
}

/// The damaged places, where all are known.
pub(super) fn places(account: &Account) -> Option<&[Place]> {
    (account.dropped == 0 && account.places.len() < PLACES).then_some(&account.places)
}

/// `None` where no `lost` lines make the members differ like this. Else the call after which they were
/// lost, where it is known; the rank that is `named` made what the finding is about.
fn may_be_lost(
    seq: u64,
    named: Option<u32>,
    all: &[Calls<'_>],
    lost: u64,
) -> Option<Option<Evidence>> {
    let is_named = |calls: &&Calls<'_>| calls.member.rank == named;
    let Some(one) = all.iter().find(is_named) else {
        return Some(None);
    };
    let is_like = |calls: &&Calls<'_>| calls.same(seq, one, seq);
    let (wrong, right): (Vec<&Calls<'_>>, Vec<&Calls<'_>>) = all.iter().partition(is_like);
    // That each of several ranks lost a line at this place is not to be believed.
    let late = |late: &[&Calls<'_>], others: &[&Calls<'_>]| {
        let ([late], [other, ..]) = (late, others) else {
            return None;
        };
        (1..=lost).find(|&by| goes_on(late, seq, other, seq + by))
    };
    if late(&right, &wrong).is_some() {
        return Some(None);
    }
    let by = late(&wrong, &right)?;
    let (wrong, right) = (wrong.first()?, right.first()?);
    // Where calls are alike, it may be any of them.
    let mut from = seq;
    while from > 0 && right.same(from - 1, right, from - 1 + by) {
        from -= 1;
    }
    let before = from.checked_sub(1).and_then(|before| wrong.at(before));
    Some(before.map(spot))
}

/// True where one rank's calls from a place on are another's from another place on, as far as both are known.
fn goes_on(a: &Calls<'_>, from: u64, b: &Calls<'_>, other: u64) -> bool {
    (0..AHEAD / 2).all(|n| {
        let known = a.at(from + n).is_some() && b.at(other + n).is_some();
        !known || a.same(from + n, b, other + n)
    })
}
