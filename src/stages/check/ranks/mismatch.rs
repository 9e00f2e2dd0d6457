//! Ranks that call different things: the first call at which a communicator's members part.

use super::names::{self, Names};
use crate::grammar::values::is_known;
use crate::stages::check::finding::{Evidence, Finding, Severity, Spot, Sure};
use crate::stages::check::streams::compare::{Apart, Ranked};
use crate::stages::check::streams::reread::Detail;
use crate::stages::check::streams::why::Why;
use crate::stages::check::streams::{Caller, Way};
use crate::stages::check::wording::{counted, verb};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Stretches of streams that were read again.
pub(crate) type Details = FxHashMap<(Caller, Way), Vec<Detail>>;

/// Calls looked at behind a difference, to say what became of the call that is missing.
pub(crate) const AHEAD: u64 = 16;

/// What a call must be the same in.
type Mark<'a> = (&'a [u8], u64, u32, u64, i64);

/// A reduction by the user has a number of its own in every process.
const USERS: u64 = 5;

fn mark(call: &Detail) -> Mark<'_> {
    let redop = call.redop.min(USERS);
    (&call.op, call.count, call.datatype, redop, call.root)
}

/// Where a communicator's members part.
#[derive(Debug)]
pub(crate) enum Parting {
    /// They make different calls.
    Different(Box<Finding>),
    /// Some have made fewer calls, and the same ones so far.
    Behind,
    /// It may be the log that is not right.
    Unknown(Why),
}

/// A member's calls of the stretch that was read again.
pub(crate) struct Calls<'a> {
    pub(crate) member: Ranked,
    pub(crate) list: &'a [Detail],
}

impl<'a> Calls<'a> {
    pub(crate) fn at(&self, seq: u64) -> Option<&'a Detail> {
        let at = self.list.binary_search_by_key(&seq, |call| call.seq);
        self.list.get(at.ok()?)
    }

    /// The same operation at two places, of any size.
    fn same_op(&self, seq: u64, other: &Calls<'_>, other_seq: u64) -> bool {
        match (self.at(seq), other.at(other_seq)) {
            (Some(a), Some(b)) => a.op == b.op,
            _ => false,
        }
    }

    /// The same call at two places.
    fn same(&self, seq: u64, other: &Calls<'_>, other_seq: u64) -> bool {
        match (self.at(seq), other.at(other_seq)) {
            (Some(a), Some(b)) => mark(a) == mark(b),
            _ => false,
        }
    }
}

/// Finds where the members of `apart` part. `caller` gives the caller of a number, `kin` others that
/// make the same calls.
pub(crate) fn parting(
    apart: &Apart,
    (from, to): (u64, u64),
    details: &Details,
    kin: &[Caller],
    caller: impl Fn(u32) -> Caller,
    names: Names<'_>,
) -> Parting {
    let of = |member: &Ranked| {
        let list = member
            .caller
            .and_then(|c| details.get(&(caller(c), Way::Collective)));
        Calls {
            member: *member,
            list: list.map_or(&[][..], |list| list),
        }
    };
    let all: Vec<Calls<'_>> = apart.members.iter().map(of).collect();
    // Sends and receives count too, and each rank has its own.
    let alone = |(of, way): &(Caller, Way)| {
        let mut members = apart.members.iter().filter_map(|m| m.caller);
        *way == Way::Collective || !members.any(|member| caller(member) == *of)
    };
    let counted = details.keys().all(alone);
    let differ = |seq: u64| {
        let calls = || all.iter().filter_map(|calls| calls.at(seq));
        let first = calls().next().map(|call| call.op_count);
        calls().any(|call| Some(call.op_count) != first)
    };
    // Nor does NCCL count calls for which a rank has no work on the network: where a host has
    // several ranks, the number says nothing to the others.
    let is_number = |seq: u64| {
        let before = all
            .iter()
            .flat_map(|calls| calls.list)
            .filter(|c| c.seq < seq);
        let before: BTreeSet<u64> = before.map(|call| call.seq).collect();
        let rises = |calls: &Calls<'_>| {
            let pairs = calls.list.windows(2).filter(|w| w[1].seq < seq);
            let mut next = pairs.filter(|w| w[1].seq == w[0].seq + 1);
            next.all(|w| w[1].op_count == w[0].op_count + 1)
        };
        !before.into_iter().any(differ) && all.iter().all(rises)
    };
    let numbers = |seq: u64| counted && differ(seq) && is_number(seq);
    let behind = |seq: u64| {
        if seq.checked_sub(1).is_some_and(numbers) {
            Parting::Unknown(Why::Numbers)
        } else {
            Parting::Behind
        }
    };
    // A log that begins in the middle has ranks at different calls: where they were not in step, one
    // that is of another kind than the last shows it.
    let in_step = |seq: u64| {
        let Some(calls) = all.iter().min_by_key(|calls| calls.list.len()) else {
            return false;
        };
        let before = calls.list.windows(2).filter(|w| w[1].seq < seq);
        before.filter(|w| mark(&w[0]) != mark(&w[1])).count() >= 2
    };
    let behind = |seq: u64| match apart.is_late && !in_step(seq) {
        true => Parting::Unknown(Why::Late),
        false => behind(seq),
    };
    for seq in from..to {
        let mut groups: BTreeMap<Mark<'_>, Vec<usize>> = BTreeMap::new();
        for (at, calls) in all.iter().enumerate() {
            if let Some(call) = calls.at(seq) {
                groups.entry(mark(call)).or_default().push(at);
            }
        }
        if groups.len() > 1 {
            // Both ranks have made as many calls before it.
            if numbers(seq) {
                return Parting::Unknown(Why::Numbers);
            }
            if apart.is_late && !in_step(seq) {
                return Parting::Unknown(Why::Late);
            }
            let unknown = groups.keys().any(|(op, ..)| !is_known(op));
            if unknown || is_torn(seq, &all) {
                return Parting::Unknown(Why::Damaged);
            }
            let groups = groups.into_values().collect();
            let kin: Vec<&[Detail]> = kin
                .iter()
                .filter_map(|caller| details.get(&(*caller, Way::Collective)))
                .map(|list| &list[..])
                .collect();
            return match different(apart, seq, groups, &all, &kin, names) {
                Some(finding) => Parting::Different(Box::new(finding)),
                None => behind(seq),
            };
        }
        if all.iter().any(|calls| calls.member.calls <= seq) {
            return behind(seq);
        }
    }
    behind(to)
}

/// True where a rank's two calls stand in the other order only because one of them was torn and the
/// other stands between its pieces.
fn is_torn(seq: u64, all: &[Calls<'_>]) -> bool {
    let torn = |calls: &Calls<'_>| {
        let both = calls.at(seq).zip(calls.at(seq + 1));
        both.is_some_and(|(a, b)| a.joined || b.joined)
    };
    let swapped = |a: &Calls<'_>, b: &Calls<'_>| a.same(seq, b, seq + 1) && a.same(seq + 1, b, seq);
    let mut those = all.iter().filter(|calls| torn(calls));
    those.any(|calls| all.iter().any(|other| swapped(calls, other)))
}

fn different(
    apart: &Apart,
    seq: u64,
    mut groups: Vec<Vec<usize>>,
    all: &[Calls<'_>],
    kin: &[&[Detail]],
    names: Names<'_>,
) -> Option<Finding> {
    groups.sort_by_key(|group| (Reverse(group.len()), group[0]));
    let tied = groups[0].len() == groups[1].len();
    let of_all = format!("on all {} ranks", all.len());
    let mut why = match seq {
        0 => format!("it is the communicator's first call {of_all}"),
        1 => format!("the call before it is the same {of_all}"),
        _ => format!("the {seq} calls before it are the same {of_all}"),
    };
    let mut decided = !tied;
    let mut sure = if tied { Sure::Medium } else { Sure::High };
    if tied && let Some((of_kin, votes)) = of_kin(seq, &groups, all, kin) {
        groups.swap(0, of_kin);
        decided = true;
        sure = Sure::High;
        why += &format!(
            "; {} of the same kind {} the same as the others there",
            counted(votes, "communicator"),
            verb(votes, "calls", "call")
        );
    } else if tied && let Some(usual) = usual(seq, &groups, all) {
        groups.swap(0, usual);
        decided = true;
        why += "; the call of the others has followed the same calls before";
    }
    let right = &all[groups[0][0]];
    let wrong = &all[groups[1][0]];
    let (expected, made) = right.at(seq).zip(wrong.at(seq))?;
    let id = word(expected, made);
    let members =
        |group: &[usize]| -> Vec<Ranked> { group.iter().map(|&at| all[at].member).collect() };
    let outliers: Vec<usize> = groups[1..].iter().flatten().copied().collect();
    let who = names.ranks(&members(&groups[1]));
    let mut says = format!(
        "call {seq} on communicator {}: {who} {} {} where {} {} {}",
        names.communicator(apart.communicator),
        verb(groups[1].len(), "calls", "call"),
        names::call(made),
        names.ranks(&members(&groups[0])),
        verb(groups[0].len(), "calls", "call"),
        names::call(expected),
    );
    if groups.len() > 2 {
        let rest: Vec<Ranked> = groups[2..]
            .iter()
            .flatten()
            .map(|&at| all[at].member)
            .collect();
        let call = verb(rest.len(), "calls", "call");
        says += &format!("; {} {call} something else", names.ranks(&rest));
    }
    // Where one side goes on with a step as before and the other does not, one made a step more.
    let many = groups[1].len();
    match (
        how(seq, right, wrong),
        repeats(seq, right),
        repeats(seq, wrong),
    ) {
        (Some(CROSSED), ..) => {
            says += &format!(
                ": two calls are in crossed order; {} {} first and then {}",
                verb(many, "it makes", "they make"),
                names::call(made),
                names::call(expected),
            );
        }
        (Some(how), ..) => says += &how.replace(": it ", verb(many, ": it ", ": they ")),
        (None, false, true) => {
            says += &format!(
                "; {} one more step than the others, which suggests uneven data",
                verb(many, "it runs", "they run")
            );
        }
        (None, true, false) => {
            says += &format!(
                "; {} with the step that the others continue, which suggests uneven data",
                verb(many, "it is done", "they are done")
            );
        }
        _ => {}
    }
    if !decided {
        why += "; no side has a majority, so the wrong side is unknown";
    }
    let mut evidence: Vec<Evidence> = Vec::new();
    for &at in outliers.iter().take(2).chain(groups[0].iter().take(2)) {
        evidence.extend(all[at].at(seq).map(spot));
    }
    Some(Finding {
        id,
        severity: Severity::Error,
        says,
        about: names.about(&wrong.member, apart.communicator, seq),
        sure,
        why,
        advice: "every rank of a communicator must make the same calls in the same order: look in \
                 the code for a branch that only some ranks take before this call"
            .to_owned(),
        evidence,
    })
}

/// The line of a call.
pub(crate) fn spot(call: &Detail) -> Evidence {
    Evidence {
        at: Spot::Byte {
            input: call.input,
            at: call.at,
        },
        text: None,
    }
}

/// What two calls differ in, by FlagScale's words.
fn word(expected: &Detail, made: &Detail) -> &'static str {
    if expected.op != made.op {
        "op_mismatch"
    } else if expected.count != made.count {
        "count_mismatch"
    } else if expected.datatype != made.datatype {
        "datatype_mismatch"
    } else if expected.redop.min(USERS) != made.redop.min(USERS) {
        "redop_mismatch"
    } else {
        "root_mismatch"
    }
}

/// Of equally large groups the one whose call others of the communicator's kind make there too, and
/// how many; `None` where they make each, or none.
fn of_kin(
    seq: u64,
    groups: &[Vec<usize>],
    all: &[Calls<'_>],
    kin: &[&[Detail]],
) -> Option<(usize, usize)> {
    let tied = groups.iter().take_while(|g| g.len() == groups[0].len());
    let votes: Vec<usize> = tied
        .map(|group| {
            let own = &all[group[0]];
            let same = |list: &&&[Detail]| {
                let other = Calls {
                    member: own.member,
                    list,
                };
                let both = |at: u64| own.same(at, &other, at);
                both(seq) && seq.checked_sub(1).is_none_or(both)
            };
            kin.iter().filter(same).count()
        })
        .collect();
    only(&votes).map(|at| (at, votes[at]))
}

/// The only one that has votes.
fn only(votes: &[usize]) -> Option<usize> {
    let mut those = (0..votes.len()).filter(|&at| votes[at] > 0);
    let first = those.next()?;
    those.next().is_none().then_some(first)
}

/// Of equally large groups the one whose call came before behind most of the same calls, or else of
/// the same operations: the sizes may be those of a batch; `None` where that does not tell.
fn usual(seq: u64, groups: &[Vec<usize>], all: &[Calls<'_>]) -> Option<usize> {
    usual_by(seq, groups, all, Calls::same).or_else(|| usual_by(seq, groups, all, Calls::same_op))
}

fn usual_by<'a>(
    seq: u64,
    groups: &[Vec<usize>],
    all: &[Calls<'a>],
    same: impl Fn(&Calls<'a>, u64, &Calls<'a>, u64) -> bool,
) -> Option<usize> {
    let tied = groups.iter().take_while(|g| g.len() == groups[0].len());
    let alike: Vec<usize> = tied
        .map(|group| {
            let own = &all[group[0]];
            let first = own.list.first().map_or(seq, |call| call.seq);
            // How many calls before the two are the same.
            let before = |at: u64| {
                let back = 1..=AHEAD.min(at - first);
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

/// True where a member's calls from `seq` on repeat those of a step before, as they are behind the
/// same calls.
fn repeats(seq: u64, calls: &Calls<'_>) -> bool {
    let first = calls.list.first().map_or(seq, |call| call.seq);
    let goes_on = |at: u64| {
        let before = (1..=AHEAD / 2).all(|back| {
            at >= first + back && calls.same(at - back, calls, seq.saturating_sub(back))
        });
        let mut compared = 0;
        before
            && (0..AHEAD / 2).all(|n| {
                let known = calls.at(seq + n).is_some();
                compared += u64::from(known);
                !known || calls.same(at + n, calls, seq + n)
            })
            && compared > 0
    };
    (first..seq).any(goes_on)
}

/// One made two calls in another order than the other.
const CROSSED: &str = ": two calls in crossed order";

/// How the calls of `wrong` go on, if that tells what became of the missing one.
fn how(seq: u64, right: &Calls<'_>, wrong: &Calls<'_>) -> Option<&'static str> {
    let equal = |by_right: u64, by_wrong: u64| {
        let mut compared = 0;
        let same = (0..AHEAD / 2).all(|n| {
            let (a, b) = (seq + by_right + n, seq + by_wrong + n);
            let known = right.at(a).is_some() && wrong.at(b).is_some();
            compared += u64::from(known);
            !known || right.same(a, wrong, b)
        });
        same && compared > 0
    };
    let swapped = right.same(seq + 1, wrong, seq) && right.same(seq, wrong, seq + 1);
    let other_order = swapped && (right.at(seq + 2).is_none() || equal(2, 2));
    // Of the two calls alone that is no sign.
    let left_out = equal(1, 0) && (!swapped || right.at(seq + 2).is_some());
    if other_order && left_out {
        Some(": it may have left this call out, or made two calls in the other order")
    } else if other_order {
        Some(CROSSED)
    } else if equal(1, 0) {
        Some(": it may have left this call out")
    } else if equal(0, 1) {
        Some(": it may have made this call in addition")
    } else if equal(1, 1) {
        Some("; the calls after it are the same again")
    } else {
        None
    }
}
