//! The finding on a circle.

use super::Rendezvous;
use crate::calls::circle::CircleBlame;
use crate::calls::wait::{CollectiveId, WaitCircle};
use crate::stages::check::finding::{Confidence, Finding, Kind};
use crate::stages::check::ranks::difference_context::DifferenceContext;
use crate::stages::check::ranks::mismatch;
use crate::stages::check::ranks::names::{self, RankNames};
use crate::stages::check::streams::compare::CommMember;
use crate::stages::check::streams::wanted_streams::CallDetail;
use crate::stages::check::wording::{number_and_noun, verb_form};

impl Rendezvous {
    /// The finding on the circle.
    pub(in crate::stages::check::ranks) fn report_circle(
        &self,
        case: &DifferenceContext<'_>,
    ) -> Option<Finding> {
        let names = case.names;
        let circle = self.circle.as_ref()?;
        let blamed = self.build_replay().find_circle_blame(circle)?;
        let call = |event: CollectiveId, member: &CommMember| {
            case.calls_of(member.collectives()).call_at(event.1)
        };
        let own = self.waiting_ranks(blamed.own, &blamed.ranks, call)?;
        let others = self.waiting_ranks(blamed.others, &blamed.waiting, call)?;
        // Each by its rank in the communicator on which it lacks the call.
        let lacking = blamed.ranks.iter();
        let lacking = lacking.filter_map(|&rank| self.member_of(blamed.others, rank));
        let lacking: Vec<CommMember> = lacking.copied().collect();
        let lacks = lacking.first();
        let of = lacks.map_or(blamed.own, |_| blamed.others);
        let communicator = self.roster.communicators[of.0 as usize].0;
        let who = *lacks.unwrap_or(&own.first);
        let mut why =
            "no order of the calls lets all ranks complete them, wherever the log ends".to_owned();
        if !blamed.is_sure {
            why += "; both sides have the same number of ranks, so the wrong side is unknown";
        }
        let sure = match blamed.is_sure && (self.failed || !circle.is_made) {
            true => Confidence::High,
            false => Confidence::Medium,
        };
        let says = match lacks {
            Some(_) => describe_lacking_members(&lacking, &own, &others, names),
            None => describe_each_wait(&own, &others, names),
        } + &describe_more_ranks(circle, &blamed);
        Some(Finding {
            about: names.about_call(&who, communicator, of.1),
            why,
            evidence: [&own, &others]
                .into_iter()
                .filter_map(|side| side.call)
                .map(mismatch::show_call)
                .collect(),
            ..Finding::of_kind(Kind::Deadlock, sure, says)
        })
    }

    /// The ranks that wait in a collective, if any of them is its member.
    fn waiting_ranks<'d>(
        &self,
        event: CollectiveId,
        ranks: &[u32],
        call: impl Fn(CollectiveId, &CommMember) -> Option<&'d CallDetail>,
    ) -> Option<WaitingRanks<'d>> {
        let members = ranks.iter().filter_map(|&rank| self.member_of(event, rank));
        let members: Vec<CommMember> = members.copied().collect();
        let first = *members.first()?;
        Some(WaitingRanks {
            call: call(event, &first),
            first,
            members,
            communicator: self.roster.communicators[event.0 as usize].0,
            seq: event.1,
        })
    }
}

/// Ranks that wait in a collective.
struct WaitingRanks<'d> {
    members: Vec<CommMember>,
    first: CommMember,
    communicator: usize,
    seq: u64,
    /// The first one's call, where it was read again.
    call: Option<&'d CallDetail>,
}

impl WaitingRanks<'_> {
    /// `call 7, AllReduce of 1024 fp32 sum, on communicator 0x5aa5 (tensor, 8 ranks)`.
    fn describe_collective(&self, names: RankNames<'_>) -> String {
        let communicator = names.describe_communicator(self.communicator);
        let what = self.call.map(names::describe_call);
        let what = what.map_or_else(String::new, |what| format!(", {what}"));
        format!("call {}{what} on communicator {communicator}", self.seq)
    }

    /// `ranks 1 and 3 wait`.
    fn describe_wait(&self, names: RankNames<'_>) -> String {
        let verb = verb_form(self.members.len(), "waits", "wait");
        format!("{} {verb}", names.describe_members(&self.members))
    }
}

/// The ranks to blame are members of the collective that the others wait in.
fn describe_lacking_members(
    lacking: &[CommMember],
    own: &WaitingRanks<'_>,
    others: &WaitingRanks<'_>,
    names: RankNames<'_>,
) -> String {
    let many = lacking.len();
    format!(
        "{} {} not made {}, and {} for it: a deadlock; {} in {}, which the others have not made: two \
         communicators in crossed order, or a call left out",
        names.describe_members(lacking),
        verb_form(many, "has", "have"),
        others.describe_collective(names),
        others.describe_wait(names),
        verb_form(many, "it waits", "they wait"),
        own.describe_collective(names),
    )
}

/// A circle of more than two collectives.
fn describe_each_wait(
    own: &WaitingRanks<'_>,
    others: &WaitingRanks<'_>,
    names: RankNames<'_>,
) -> String {
    format!(
        "{} in {}, while {} in {}: a deadlock, each waits for the other",
        own.describe_wait(names),
        own.describe_collective(names),
        others.describe_wait(names),
        others.describe_collective(names),
    )
}

/// How many ranks the circle has besides.
fn describe_more_ranks(circle: &WaitCircle, blamed: &CircleBlame) -> String {
    let circled: usize = circle.waits.values().map(Vec::len).sum();
    match circled - blamed.ranks.len() - blamed.waiting.len() {
        0 => String::new(),
        n => format!(
            "; the circle has {}",
            number_and_noun(n as u64, "more rank")
        ),
    }
}
