//! Which of equally large groups of ranks makes the usual call.

use super::MemberCalls;
use crate::stages::check::ranks::limits::CALLS_READ_PAST_DIFFERENCE;
use crate::stages::check::streams::reread::CallDetail;

/// Returns the group with the call that other communicators of this kind make there too, and their number;
/// `None` if they make each call, or none.
pub(super) fn vote_of_similar_callers(
    seq: u64,
    groups: &[Vec<usize>],
    all: &[MemberCalls<'_>],
    kin: &[&[CallDetail]],
) -> Option<(usize, usize)> {
    let tied = groups.iter().take_while(|g| g.len() == groups[0].len());
    let votes: Vec<usize> = tied
        .map(|group| {
            let own = &all[group[0]];
            let same = |list: &&&[CallDetail]| {
                let other = MemberCalls {
                    member: own.member,
                    list,
                };
                let both = |at: u64| own.is_same_call(at, &other, at);
                both(seq) && seq.checked_sub(1).is_none_or(both)
            };
            kin.iter().filter(same).count()
        })
        .collect();
    only_with_votes(&votes).map(|at| (at, votes[at]))
}

/// The only one that has votes.
fn only_with_votes(votes: &[usize]) -> Option<usize> {
    let mut those = (0..votes.len()).filter(|&at| votes[at] > 0);
    let first = those.next()?;
    those.next().is_none().then_some(first)
}

/// Returns the one of two equally large groups that keeps the rhythm of a call: the call comes once
/// in a fixed number of calls. If it comes sooner than ever, calls before it were left out; if it
/// comes as before, the others made additional calls. `None` if the rhythm decides nothing.
pub(super) fn find_group_in_rhythm(
    seq: u64,
    groups: &[Vec<usize>],
    all: &[MemberCalls<'_>],
) -> Option<usize> {
    let [a, b, ..] = groups else { return None };
    if a.len() != b.len() || groups.get(2).is_some_and(|c| c.len() == a.len()) {
        return None;
    }
    // After how many calls the group's call came before, at least and at most; and now.
    let rhythm = |group: &[usize]| {
        let own = &all[group[0]];
        let first = own.list.first()?.seq;
        let came = (first..seq).filter(|&at| own.is_same_call(at, own, seq));
        // What comes first in a communicator has come after its beginning.
        let begin = (first == 0).then_some(0);
        let places: Vec<u64> = begin.into_iter().chain(came.map(|at| at + 1)).collect();
        let now = seq + 1 - places.last()?;
        let apart = || places.windows(2).map(|w| w[1] - w[0]);
        Some((apart().min()?, apart().max()?, now))
    };
    let rhythms = (rhythm(a), rhythm(b));
    let (rare, (least, most, now)) = match rhythms {
        (Some(a), Some(b)) if a.0 > b.1.max(b.2) => (0, a),
        (Some(a), Some(b)) if b.0 > a.1.max(a.2) => (1, b),
        _ => return None,
    };
    if now < least {
        Some(1 - rare)
    } else {
        (now <= most).then_some(rare)
    }
}

/// Returns the group with a call that came before after most of the same calls, or else of the same
/// operations: the sizes may be those of a batch; `None` if that decides nothing.
pub(super) fn find_usual_group(
    seq: u64,
    groups: &[Vec<usize>],
    all: &[MemberCalls<'_>],
) -> Option<usize> {
    find_usual_group_by(seq, groups, all, MemberCalls::is_same_call)
        .or_else(|| find_usual_group_by(seq, groups, all, MemberCalls::is_same_operation))
}

fn find_usual_group_by<'a>(
    seq: u64,
    groups: &[Vec<usize>],
    all: &[MemberCalls<'a>],
    same: impl Fn(&MemberCalls<'a>, u64, &MemberCalls<'a>, u64) -> bool,
) -> Option<usize> {
    let tied = groups.iter().take_while(|g| g.len() == groups[0].len());
    let alike: Vec<usize> = tied
        .map(|group| {
            let own = &all[group[0]];
            let first = own.list.first().map_or(seq, |call| call.seq);
            // How many calls before the two are the same.
            let before = |at: u64| {
                let back = 1..=CALLS_READ_PAST_DIFFERENCE.min(at - first);
                back.take_while(|back| same(own, at - back, own, seq.saturating_sub(*back)))
                    .count()
            };
            let came = (first..seq).filter(|&at| same(own, at, own, seq));
            came.map(before).max().unwrap_or(0)
        })
        .collect();
    let most = alike.iter().max().copied().filter(|&most| most >= 2)?;
    let mut those = (0..alike.len()).filter(|&at| alike[at] == most);
    let first = those.next()?;
    those.next().is_none().then_some(first)
}
