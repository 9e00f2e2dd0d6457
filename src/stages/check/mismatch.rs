//! Ranks that call different things: the first call at which a communicator's members part.

use super::again::Detail;
use super::compare::{Apart, Ranked, Unpaired, Why};
use super::finding::{About, Evidence, Finding, Severity, Spot, Sure};
use super::names::{self, Names};
use super::streams::{Caller, Way};
use super::words::{counted, times, verb};
use crate::records::is_known;
use rustc_hash::FxHashMap;
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

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
struct Calls<'a> {
    member: Ranked,
    list: &'a [Detail],
}

impl<'a> Calls<'a> {
    fn at(&self, seq: u64) -> Option<&'a Detail> {
        let at = self.list.binary_search_by_key(&seq, |call| call.seq);
        self.list.get(at.ok()?)
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
    let numbers = |seq: u64| {
        let calls = || all.iter().filter_map(|calls| calls.at(seq));
        let first = calls().next().map(|call| call.op_count);
        counted && calls().any(|call| Some(call.op_count) != first)
    };
    let behind = |seq: u64| {
        if seq.checked_sub(1).is_some_and(numbers) {
            Parting::Unknown(Why::Numbers)
        } else {
            Parting::Behind
        }
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
    if tied && let Some(usual) = usual(seq, &groups, all) {
        groups.swap(0, usual);
        decided = true;
        why += "; what the others call has followed the same calls before";
    } else if tied && let Some((of_kin, votes)) = of_kin(seq, &groups, all, kin) {
        groups.swap(0, of_kin);
        decided = true;
        why += &format!(
            "; {} of the same kind {} there what the others call",
            counted(votes, "communicator"),
            verb(votes, "calls", "call")
        );
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
        says += &format!("; {} {call} yet another thing", names.ranks(&rest));
    }
    if let Some(how) = how(seq, right, wrong) {
        says += &how.replace("it ", verb(groups[1].len(), "it ", "they "));
    }
    if !decided {
        why += "; no side has a majority, so which is wrong is not known";
    }
    let mut evidence: Vec<Evidence> = Vec::new();
    for &at in outliers.iter().take(2).chain(groups[0].iter().take(2)) {
        evidence.extend(all[at].at(seq).map(spot));
    }
    let process = names.process(wrong.member.side);
    Some(Finding {
        id,
        severity: Severity::Error,
        says,
        about: About {
            host: Some(process.host.clone()),
            pid: process.pid,
            rank: wrong.member.rank,
            comm_id: names.id(apart.communicator),
            seq: Some(seq),
            step: None,
        },
        sure: if decided { Sure::High } else { Sure::Medium },
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
    let mut those = (0..votes.len()).filter(|&at| votes[at] > 0);
    let first = those.next()?;
    those.next().is_none().then_some((first, votes[first]))
}

/// Of equally large groups the one whose call came before behind the same two calls; `None` where
/// that does not tell.
fn usual(seq: u64, groups: &[Vec<usize>], all: &[Calls<'_>]) -> Option<usize> {
    let tied = groups.iter().take_while(|g| g.len() == groups[0].len());
    let votes: Vec<u64> = tied
        .map(|group| {
            let own = &all[group[0]];
            let first = own.list.first().map_or(seq, |call| call.seq);
            let before = |at: u64| {
                (1..=2).all(|back| {
                    at >= first + back && own.same(at - back, own, seq.saturating_sub(back))
                })
            };
            let came = (first..seq).filter(|&at| before(at) && own.same(at, own, seq));
            came.count() as u64
        })
        .collect();
    let most = votes.iter().max().copied().filter(|&n| n > 0)?;
    let mut those = (0..votes.len()).filter(|&at| votes[at] > 0);
    let first = those.next().filter(|&at| votes[at] == most);
    first.filter(|_| those.next().is_none())
}

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
    if other_order && equal(1, 0) {
        Some(", as if it left this call out, or made two in the other order")
    } else if other_order {
        Some(": two calls in the other order")
    } else if equal(1, 0) {
        Some(", as if it left this call out")
    } else if equal(0, 1) {
        Some(", as if it made this call in addition")
    } else if equal(1, 1) {
        Some("; the calls behind it are the same again")
    } else {
        None
    }
}

/// Which call of `pair` the rank that made fewer of them left out, if it went on after it; `None`
/// where it may only have stopped. `last` is the place of its last call among all it made.
pub(crate) fn left_out(
    pair: &Unpaired,
    details: &Details,
    caller: impl Fn(u32) -> Caller,
    last: u64,
) -> Option<u64> {
    let (sent, received) = pair.before;
    let (member, way) = if sent < received {
        (&pair.from, Way::Send(pair.to.peer()))
    } else {
        (&pair.to, Way::Recv(pair.from.peer()))
    };
    let calls = details.get(&(caller(member.caller?), way))?;
    let made = sent.min(received);
    let mut before: Vec<&Detail> = calls.iter().filter(|call| call.seq < made).collect();
    // Only what was read without a gap has distances.
    let gap = before.windows(2).rposition(|w| w[1].seq != w[0].seq + 1);
    before.drain(..gap.map_or(0, |gap| gap + 1));
    let places: Vec<u64> = before.iter().map(|call| call.nth).collect();
    Some(before.first()?.seq + gap_at(&places, last)?)
}

/// Calls of one kind stand at `places` among all calls of a process, up to `last`; their distances
/// come again and again. Where one is missing, two distances are one: gives the number of the call
/// that is.
fn gap_at(places: &[u64], last: u64) -> Option<u64> {
    let apart: Vec<u64> = places
        .windows(2)
        .map(|w| w[1].saturating_sub(w[0]))
        .collect();
    let n = apart.len();
    let tail = last.saturating_sub(*places.last()?);
    // A few calls more or less are a step's own.
    let like = |a: u64, b: u64| a.abs_diff(b) <= 2.max(a.min(b) / 4);
    let fits = |p: usize| {
        (p..n)
            .find(|&at| !like(apart[at], apart[at - p]))
            .unwrap_or(n)
    };
    let period = (1..=n / 2).max_by_key(|&p| (fits(p), Reverse(p)));
    let Some(p) = period.filter(|&p| fits(p) >= 2 * p) else {
        let most = apart.iter().max()?;
        return (tail > *most).then_some(n as u64 + 1);
    };
    let at = fits(p);
    let is_missing = if at == n {
        tail > apart[n - p] + 2
    } else {
        apart[at] > apart[at - p] + apart[at + 1 - p] / 2
    };
    // Which one it is all distances say together: where they begin to be others, or at the end.
    let near = (at + 1 - p..=at + 1 + p).chain(n + 1 - p..=n + 1);
    let near = near.filter(|&k| k > p && k <= n + 1);
    let best = near.map(|k| (off(&apart, tail, p, k), Reverse(k))).min();
    let none = off(&apart, tail, p, n + 2);
    let is_better = best.is_some_and(|(off, _)| off.saturating_add(2) < none);
    (is_missing || is_better).then(|| best.map_or(at + 1, |(_, k)| k.0) as u64)
}

/// How far the distances `apart`, and the `tail` behind them, are off what they would be if the
/// `missing`th call had been left out (none, if that is behind the next) and all else were as in the periods of `p` before.
fn off(apart: &[u64], tail: u64, p: usize, missing: usize) -> u64 {
    let n = apart.len();
    // The usual distance behind a call: the middle one of its kind before the one that is missing.
    let middle = |kind: usize| {
        let kinds = apart[..n.min(missing - 1)].iter().skip(kind).step_by(p);
        let mut all: Vec<u64> = kinds.copied().collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied().unwrap_or(0)
    };
    let kinds: Vec<u64> = (0..p).map(middle).collect();
    let usual = |nth: usize| kinds[nth % p];
    let both = |nth: usize| (usual(nth) + usual(nth + 1)).saturating_sub(1);
    let mut off = 0_u64;
    for (at, &seen) in apart.iter().enumerate().skip(p) {
        let expected = match (at + 1).cmp(&missing) {
            Ordering::Less => usual(at),
            Ordering::Equal => both(at),
            Ordering::Greater => usual(at + 1),
        };
        off = off.saturating_add(seen.abs_diff(expected));
    }
    // The rank went on behind its last call for so long without the next.
    let (least, most) = match missing.cmp(&(n + 1)) {
        Ordering::Less => (0, usual(n + 1)),
        Ordering::Equal => (usual(n), both(n)),
        Ordering::Greater => (0, usual(n)),
    };
    let away = least.saturating_sub(tail) + tail.saturating_sub(most);
    off.saturating_add(away)
}

/// Sends that are not what the other side receives.
pub(crate) fn unpaired(
    pair: &Unpaired,
    left_out: Option<u64>,
    details: &Details,
    caller: impl Fn(u32) -> Caller,
    names: Names<'_>,
) -> Option<Finding> {
    let of = |member: &Ranked, way: Way| {
        let list = member.caller.and_then(|c| details.get(&(caller(c), way)));
        Calls {
            member: *member,
            list: list.map_or(&[][..], |list| list),
        }
    };
    let sends = of(&pair.from, Way::Send(pair.to.peer()));
    let receives = of(&pair.to, Way::Recv(pair.from.peer()));
    let first = pair.block * super::streams::BLOCK;
    let last = pair
        .sent
        .max(pair.received)
        .min(first + super::streams::BLOCK);
    let size = |call: &Detail| (call.count, call.datatype);
    let seq = (first..last).find(|&seq| match (sends.at(seq), receives.at(seq)) {
        (Some(a), Some(b)) => size(a) != size(b),
        _ => true,
    })?;
    let seq = left_out.unwrap_or(seq);
    let (sent, received) = (sends.at(seq), receives.at(seq));
    let communicator = names.communicator(pair.communicator);
    let (from, to) = (names.rank(&pair.from), names.rank(&pair.to));
    let (id, says, about) = if pair.sent == pair.received {
        let (sent, received) = sent.zip(received)?;
        let id = if sent.count == received.count {
            "datatype_mismatch"
        } else {
            "count_mismatch"
        };
        let says = format!(
            "message {seq} on communicator {communicator}: {from} calls {}, {to} calls {}",
            names::call(sent),
            names::call(received)
        );
        (id, says, &pair.from)
    } else {
        // Who makes fewer calls is the one whose call is missing.
        let (lacks, what) = if pair.sent < pair.received {
            (&pair.from, "Send")
        } else {
            (&pair.to, "Recv")
        };
        let says = format!(
            "communicator {communicator}: {from} sends {} to {to}, which receives {}: a {what} of {} is \
             missing, message {seq} or one like it before",
            times(pair.sent),
            times(pair.received),
            names.rank(lacks)
        );
        ("p2p_missing_counterpart", says, lacks)
    };
    let process = names.process(about.side);
    Some(Finding {
        id,
        severity: Severity::Error,
        says,
        about: About {
            host: Some(process.host.clone()),
            pid: process.pid,
            rank: about.rank,
            comm_id: names.id(pair.communicator),
            seq: Some(seq),
            step: None,
        },
        sure: Sure::High,
        why: match seq {
            0 => "it is the first message of the two".to_owned(),
            1 => "the message before it fits".to_owned(),
            _ => format!("the {seq} messages before it fit"),
        },
        advice: "a Send completes only with a Recv of the same number of elements on the other \
                 side: compare both ranks' schedules of this step"
            .to_owned(),
        evidence: sent.into_iter().chain(received).map(spot).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_left_out_makes_two_distances_one() {
        // Two a step: 10 calls apart, then 30.
        let whole: Vec<u64> = vec![0, 10, 40, 50, 80, 90, 120, 130];
        assert_eq!(gap_at(&whole, 140), None);
        assert_eq!(gap_at(&whole, 159), None);
        // The step's first is missing, the second made.
        let mut first = whole.clone();
        first.remove(6);
        assert_eq!(gap_at(&first, 140), Some(6));
        // The second is missing, and the rank went on.
        assert_eq!(gap_at(&whole[..7], 135), Some(7));
        // It stopped.
        assert_eq!(gap_at(&whole[..7], 125), None);
        assert_eq!(gap_at(&[], 5), None);
        assert_eq!(gap_at(&[3], 5), None);
        // The first of a step's two is missing, which makes one distance little more than usual;
        // the second is, and all are as usual.
        let two = [2, 8, 38, 44, 73, 79, 108, 114, 148];
        assert_eq!(gap_at(&two, 175), Some(8));
        let two = [2, 8, 38, 44, 73, 79, 108, 114, 143];
        assert_eq!(gap_at(&two, 175), Some(9));
        // The rank went on for several steps without the call.
        let went_on = [2, 8, 38, 44, 73, 79, 108, 114, 148, 177, 183, 212, 218];
        assert_eq!(gap_at(&went_on, 225), Some(8));
        // A call more was made in the step before.
        let two = [10, 13, 31, 34, 51, 54, 71, 74, 91, 94, 112, 115, 134];
        assert_eq!(gap_at(&two, 140), Some(12));
    }
}
