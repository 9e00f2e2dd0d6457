//! Messages without another side: a Send that nobody receives, a Recv that nobody sends.

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
    let size = |call: &Detail| (call.count, call.datatype);
    let seq = (first..last).find(|&seq| match (sends.at(seq), receives.at(seq)) {
        (Some(a), Some(b)) => size(a) != size(b),
        _ => true,
    })?;
    let seq = left_out.unwrap_or(seq);
    let (sent, received) = (sends.at(seq), receives.at(seq));
    let communicator = names.communicator(pair.communicator);
    let (from, to) = (names.rank(&pair.from), names.rank(&pair.to));
    let mut sure = Sure::High;
    let mut why = match seq {
        0 => "it is the first message of the two".to_owned(),
        1 => "the message before it fits".to_owned(),
        _ => format!("the {seq} messages before it fit"),
    };
    let (id, says, who) = if pair.sent == pair.received {
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
        // Before it both had the same sizes: the side is wrong whose size is new.
        let is_new = |calls: &Calls<'_>, own: &Detail| {
            let mut before = calls.list.iter().filter(|call| call.seq < seq);
            !before.any(|call| size(call) == size(own))
        };
        let who = match (is_new(&sends, sent), is_new(&receives, received)) {
            (true, false) => Some(&pair.from),
            (false, true) => Some(&pair.to),
            _ => None,
        };
        if who.is_some() {
            why += "; the other rank's size came before, and this rank's did not";
        } else {
            sure = Sure::Medium;
            why += "; no size shows which side is wrong";
        }
        (id, says, who)
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
        ("p2p_missing_counterpart", says, Some(lacks))
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
        sure,
        why,
        advice: "a Send completes only with a Recv of the same number of elements on the other \
                 rank: compare the schedules of both ranks in this step"
            .to_owned(),
        evidence: sent.into_iter().chain(received).map(spot).collect(),
    })
}
