//! Messages without another side: a Send without a Recv, a Recv without a Send.

use super::UNFIT_MESSAGE_ADVICE;
use crate::stages::check::finding::{About, Confidence, Finding, Kind};
use crate::stages::check::ranks::difference_context::DifferenceContext;
use crate::stages::check::ranks::mismatch::{MemberCalls, show_call};
use crate::stages::check::ranks::names::{self, RankNames};
use crate::stages::check::streams::CALLS_PER_HASH_BLOCK;
use crate::stages::check::streams::compare::{CommMember, UnpairedMessages};
use crate::stages::check::streams::wanted_streams::CallDetail;
use crate::stages::check::wording::number_of_times;

/// Sends that are not what the other side receives.
pub(super) fn report_unpaired(
    pair: &UnpairedMessages,
    left_out: Option<u64>,
    case: &DifferenceContext<'_>,
) -> Option<Finding> {
    let names = case.names;
    let (sends, receives) = (case.calls_of(pair.sends()), case.calls_of(pair.receives()));
    let seq = left_out.or_else(|| find_first_unfit_message(pair, case))?;
    let (sent, received) = (sends.call_at(seq), receives.call_at(seq));
    let before = match seq {
        0 => "it is the first message of the two".to_owned(),
        1 => "the message before it fits".to_owned(),
        _ => format!("the {seq} messages before it match"),
    };
    let MessageVerdict {
        kind,
        says,
        who,
        why,
    } = if pair.sent == pair.received {
        let (sent, received) = ((&sends, sent?), (&receives, received?));
        describe_size_difference(pair, sent, received, names)
    } else {
        describe_missing_call(pair, seq, names)
    };
    let sure = match who {
        Some(_) => Confidence::High,
        None => Confidence::Medium,
    };
    let is_receiver = who.is_some_and(|who| who.side == pair.to.side);
    let calls = match is_receiver {
        true => [received, sent],
        false => [sent, received],
    };
    Some(Finding {
        about: match who {
            Some(who) => names.about_call(who, pair.communicator, seq),
            None => About {
                comm_id: names.communicator_id(pair.communicator),
                seq: Some(seq),
                ..About::default()
            },
        },
        why: before + why,
        advice: UNFIT_MESSAGE_ADVICE.to_owned(),
        evidence: calls.into_iter().flatten().map(show_call).collect(),
        ..Finding::of_kind(kind, sure, says)
    })
}

/// Returns the number of the first message with two sides that differ, or with only one.
pub(super) fn find_first_unfit_message(
    pair: &UnpairedMessages,
    case: &DifferenceContext<'_>,
) -> Option<u64> {
    let (sends, receives) = (case.calls_of(pair.sends()), case.calls_of(pair.receives()));
    let first = pair.block * CALLS_PER_HASH_BLOCK;
    let most = pair.sent.max(pair.received);
    let mut messages = first..most.min(first + CALLS_PER_HASH_BLOCK);
    messages.find(|&seq| match (sends.call_at(seq), receives.call_at(seq)) {
        (Some(a), Some(b)) => message_size(a) != message_size(b),
        (a, b) => a.or(b).is_some(),
    })
}

/// The sentence of a finding, and the rank that it is about.
struct MessageVerdict<'p> {
    kind: Kind,
    says: String,
    who: Option<&'p CommMember>,
    why: &'static str,
}

/// The two calls have other sizes.
fn describe_size_difference<'p>(
    pair: &'p UnpairedMessages,
    sends: (&MemberCalls<'_>, &CallDetail),
    receives: (&MemberCalls<'_>, &CallDetail),
    names: RankNames<'_>,
) -> MessageVerdict<'p> {
    let (sent, received) = (sends.1, receives.1);
    let who = find_side_with_new_size(pair, sends.0, sent, receives.0, received);
    MessageVerdict {
        kind: match sent.line.count == received.line.count {
            true => Kind::DatatypeMismatch,
            false => Kind::CountMismatch,
        },
        says: format!(
            "message {} on communicator {}: {} calls {}, {} calls {}",
            sent.seq,
            names.describe_communicator(pair.communicator),
            names.describe_member(&pair.from),
            names::describe_call(sent),
            names.describe_member(&pair.to),
            names::describe_call(received)
        ),
        who,
        why: match who {
            Some(_) => "; the other rank's size came before, and this rank's did not",
            None => "; no size shows which side is wrong",
        },
    }
}

/// Blames the side with fewer calls: its call is missing.
fn describe_missing_call<'p>(
    pair: &'p UnpairedMessages,
    seq: u64,
    names: RankNames<'_>,
) -> MessageVerdict<'p> {
    let (lacks, what) = if pair.sent < pair.received {
        (&pair.from, "Send")
    } else {
        (&pair.to, "Recv")
    };
    MessageVerdict {
        kind: Kind::P2pMissingCounterpart,
        says: format!(
            "{} lacks a {what}, message {seq} or an equal one before it, on communicator {}: {} sends {} to {}, \
             which receives {}",
            names.describe_member(lacks),
            names.describe_communicator(pair.communicator),
            names.describe_member(&pair.from),
            number_of_times(pair.sent),
            names.describe_member(&pair.to),
            number_of_times(pair.received)
        ),
        who: Some(lacks),
        why: "",
    }
}

fn message_size(call: &CallDetail) -> (u64, u32) {
    (call.line.count, call.line.datatype)
}

/// Returns the side with a new size, if both had equal sizes before: it is wrong.
fn find_side_with_new_size<'p>(
    pair: &'p UnpairedMessages,
    sends: &MemberCalls<'_>,
    sent: &CallDetail,
    receives: &MemberCalls<'_>,
    received: &CallDetail,
) -> Option<&'p CommMember> {
    let is_new = |calls: &MemberCalls<'_>, own: &CallDetail| {
        let mut before = calls.list.iter().filter(|call| call.seq < own.seq);
        !before.any(|call| message_size(call) == message_size(own))
    };
    match (is_new(sends, sent), is_new(receives, received)) {
        (true, false) => Some(&pair.from),
        (false, true) => Some(&pair.to),
        _ => None,
    }
}
