//! Communicators with different calls that are not judged.

use crate::stages::check::streams::compare::{
    CommMember, DifferingComm, StreamComparison, UnpairedMessages,
};
use crate::stages::check::streams::unjudged_reason::UnjudgedReason;
use crate::stages::communicators::CommunicatorsSummary;
use std::collections::BTreeMap;

/// Drops pairs if the side with more calls ended the communicator in order, and nothing shows that
/// the lines of the other side do not end early.
pub(in crate::stages::check::ranks) fn drop_ended_pairs(
    unpaired: &mut Vec<UnpairedMessages>,
    found: &CommunicatorsSummary,
    is_settled: impl Fn(&UnpairedMessages) -> bool,
) -> Vec<(UnjudgedReason, usize)> {
    let mut unjudged = Vec::new();
    unpaired.retain(|pair| {
        let more = if pair.sent > pair.received {
            &pair.from
        } else {
            &pair.to
        };
        let ended =
            pair.sent != pair.received && has_ended_in_order(more, found) && !is_settled(pair);
        if ended {
            unjudged.push((UnjudgedReason::Ended, pair.communicator));
        }
        !ended
    });
    unjudged
}

/// The communicators on which some made fewer calls or one side of messages is missing, while the
/// job goes on.
pub(in crate::stages::check::ranks) fn list_running_communicators(
    late: &[&DifferingComm],
    unpaired: &[UnpairedMessages],
    goes_on: impl Fn(usize) -> bool,
    is_settled: impl Fn(&UnpairedMessages) -> bool,
) -> Vec<(UnjudgedReason, usize)> {
    let late = late.iter().map(|apart| apart.communicator);
    let lacking = unpaired.iter().filter(|pair| pair.sent != pair.received);
    let lacking = lacking.filter(|pair| !is_settled(pair));
    let those = late.chain(lacking.map(|pair| pair.communicator));
    those
        .filter(|&at| goes_on(at))
        .map(|at| (UnjudgedReason::Running, at))
        .collect()
}

/// Takes communicators out of those that differ. Each is reported once, with what was found first.
pub(in crate::stages::check::ranks) fn move_to_unjudged(
    compared: &mut StreamComparison,
    unjudged: Vec<(UnjudgedReason, usize)>,
) {
    let mut unsure: BTreeMap<usize, UnjudgedReason> = BTreeMap::new();
    for (why, at) in unjudged {
        unsure.entry(at).or_insert(why);
    }
    compared
        .apart
        .retain(|a| !unsure.contains_key(&a.communicator));
    for (communicator, why) in unsure {
        compared.unjudged.entry(why).or_default().push(communicator);
    }
}

/// True if the member ended the communicator in order: it waits for no other.
fn has_ended_in_order(member: &CommMember, found: &CommunicatorsSummary) -> bool {
    found.sides[member.side].state.is_ended_in_order()
}

/// True where a member that made more calls than others was not kept waiting by them.
pub(in crate::stages::check::ranks) fn has_ended_ahead(
    apart: &DifferingComm,
    found: &CommunicatorsSummary,
) -> bool {
    let least = apart.members.iter().map(|m| m.before).min();
    let mut ahead = apart.members.iter().filter(|m| Some(m.before) > least);
    ahead.any(|member| has_ended_in_order(member, found))
}
