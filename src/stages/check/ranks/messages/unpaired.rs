//! Messages without another side: a Send that nobody receives, a Recv that nobody sends.

use super::ADVICE;
use crate::stages::check::finding::{About, Finding, Severity, Sure};
use crate::stages::check::ranks::mismatch::{Calls, Details, spot};
use crate::stages::check::ranks::names::{self, Names};
use crate::stages::check::streams::compare::{Ranked, Unpaired};
use crate::stages::check::streams::reread::Detail;
use crate::stages::check::streams::{BLOCK, Caller, Way};
use crate::stages::check::wording::times;

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
    let first = pair.block * BLOCK;
    let last = pair.sent.max(pair.received).min(first + BLOCK);
    let seq = (first..last).find(|&seq| match (sends.at(seq), receives.at(seq)) {
        (Some(a), Some(b)) => size(a) != size(b),
        _ => true,
    })?;
    let seq = left_out.unwrap_or(seq);
    let (sent, received) = (sends.at(seq), receives.at(seq));
    let before = match seq {
        0 => "it is the first message of the two".to_owned(),
        1 => "the message before it fits".to_owned(),
        _ => format!("the {seq} messages before it fit"),
    };
    let Said { id, says, who, why } = if pair.sent == pair.received {
        let (sent, received) = ((&sends, sent?), (&receives, received?));
        other_sizes(pair, sent, received, names)
    } else {
        missing(pair, seq, names)
    };
    Some(Finding {
        id,
        severity: Severity::Error,
        says,
        about: match who {
            Some(who) => names.about(who, pair.communicator, seq),
            None => About {
                comm_id: names.id(pair.communicator),
                seq: Some(seq),
                ..About::default()
            },
        },
        sure: match who {
            Some(_) => Sure::High,
            None => Sure::Medium,
        },
        why: before + why,
        advice: ADVICE.to_owned(),
        evidence: sent.into_iter().chain(received).map(spot).collect(),
    })
}

/// What a finding says, and of whom.
struct Said<'p> {
    id: &'static str,
    says: String,
    who: Option<&'p Ranked>,
    why: &'static str,
}

/// The two calls have other sizes.
fn other_sizes<'p>(
    pair: &'p Unpaired,
    sends: (&Calls<'_>, &Detail),
    receives: (&Calls<'_>, &Detail),
    names: Names<'_>,
) -> Said<'p> {
    let (sent, received) = (sends.1, receives.1);
    let who = new_size(pair, sends, receives);
    Said {
        id: match sent.count == received.count {
            true => "datatype_mismatch",
            false => "count_mismatch",
        },
        says: format!(
            "message {} on communicator {}: {} calls {}, {} calls {}",
            sent.seq,
            names.communicator(pair.communicator),
            names.rank(&pair.from),
            names::call(sent),
            names.rank(&pair.to),
            names::call(received)
        ),
        who,
        why: match who {
            Some(_) => "; the other rank's size came before, and this rank's did not",
            None => "; no size shows which side is wrong",
        },
    }
}

/// Who makes fewer calls is the one whose call is missing.
fn missing<'p>(pair: &'p Unpaired, seq: u64, names: Names<'_>) -> Said<'p> {
    let (lacks, what) = if pair.sent < pair.received {
        (&pair.from, "Send")
    } else {
        (&pair.to, "Recv")
    };
    Said {
        id: "p2p_missing_counterpart",
        says: format!(
            "communicator {}: {} sends {} to {}, which receives {}: a {what} of {} is missing, message \
             {seq} or one like it before",
            names.communicator(pair.communicator),
            names.rank(&pair.from),
            times(pair.sent),
            names.rank(&pair.to),
            times(pair.received),
            names.rank(lacks)
        ),
        who: Some(lacks),
        why: "",
    }
}

fn size(call: &Detail) -> (u64, u32) {
    (call.count, call.datatype)
}

/// The side whose size is new, where both had the same sizes before: it is wrong.
fn new_size<'p>(
    pair: &'p Unpaired,
    (sends, sent): (&Calls<'_>, &Detail),
    (receives, received): (&Calls<'_>, &Detail),
) -> Option<&'p Ranked> {
    let is_new = |calls: &Calls<'_>, own: &Detail| {
        let mut before = calls.list.iter().filter(|call| call.seq < own.seq);
        !before.any(|call| size(call) == size(own))
    };
    match (is_new(sends, sent), is_new(receives, received)) {
        (true, false) => Some(&pair.from),
        (false, true) => Some(&pair.to),
        _ => None,
    }
}
