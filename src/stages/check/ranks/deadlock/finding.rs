//! The finding on a circle.

use super::Met;
use super::blamed::Blamed;
use super::replay::{Circle, Event};
use crate::stages::check::finding::{Finding, Severity, Sure};
use crate::stages::check::ranks::mismatch::{self, Details};
use crate::stages::check::ranks::names::{self, Names};
use crate::stages::check::streams::compare::Ranked;
use crate::stages::check::streams::reread::Detail;
use crate::stages::check::streams::{Caller, Way};
use crate::stages::check::wording::{counted, verb};

impl Met {
    /// The finding on the circle.
    pub(crate) fn finding(
        &self,
        details: &Details,
        caller: impl Fn(u32) -> Caller,
        names: Names<'_>,
    ) -> Option<Finding> {
        let circle = self.circle.as_ref()?;
        let blamed = Blamed::of(self, circle)?;
        let call = |event: Event, member: &Ranked| {
            let key = (caller(member.caller?), Way::Collective);
            details.get(&key)?.iter().find(|call| call.seq == event.1)
        };
        let own = self.waiting(blamed.own, &blamed.ranks, call)?;
        let others = self.waiting(blamed.others, &blamed.waiting, call)?;
        let lacks = self.member(blamed.others, *blamed.ranks.first()?);
        let of = lacks.map_or(blamed.own, |_| blamed.others);
        let communicator = self.roster.communicators[of.0 as usize].0;
        let who = *lacks.unwrap_or(&own.first);
        let mut why =
            "no order of the calls lets all ranks complete them, wherever the log ends".to_owned();
        if !blamed.is_sure {
            why += "; both sides have the same number of ranks, so the wrong side is unknown";
        }
        Some(Finding {
            id: "deadlock",
            severity: Severity::Error,
            says: match lacks {
                Some(_) => lacking(&own, &others, names),
                None => each_waits(&own, &others, names),
            } + &more(circle, &blamed),
            about: names.about(&who, communicator, of.1),
            sure: match blamed.is_sure && (self.failed || !circle.is_made) {
                true => Sure::High,
                false => Sure::Medium,
            },
            why,
            advice:
                "ranks that share two communicators must use them in the same order: look for a \
                     branch that only some ranks take between these two calls, and for calls from \
                     several threads"
                    .to_owned(),
            evidence: [&own, &others]
                .into_iter()
                .filter_map(|side| side.call)
                .map(mismatch::spot)
                .collect(),
        })
    }

    /// The ranks that wait in a collective, if any of them is its member.
    fn waiting<'d>(
        &self,
        event: Event,
        ranks: &[u32],
        call: impl Fn(Event, &Ranked) -> Option<&'d Detail>,
    ) -> Option<Waiting<'d>> {
        let members = ranks.iter().filter_map(|&rank| self.member(event, rank));
        let members: Vec<Ranked> = members.copied().collect();
        let first = *members.first()?;
        Some(Waiting {
            call: call(event, &first),
            first,
            members,
            communicator: self.roster.communicators[event.0 as usize].0,
            seq: event.1,
        })
    }
}

/// Ranks that wait in a collective.
struct Waiting<'d> {
    members: Vec<Ranked>,
    first: Ranked,
    communicator: usize,
    seq: u64,
    /// The first one's call, where it was read again.
    call: Option<&'d Detail>,
}

impl Waiting<'_> {
    /// `call 7, AllReduce of 1024 fp32 sum, on communicator 0x5aa5 (tensor, 8 ranks)`.
    fn place(&self, names: Names<'_>) -> String {
        let communicator = names.communicator(self.communicator);
        let what = self.call.map(names::call);
        let what = what.map_or_else(String::new, |what| format!(", {what}"));
        format!("call {}{what} on communicator {communicator}", self.seq)
    }

    /// `ranks 1 and 3 wait`.
    fn wait(&self, names: Names<'_>) -> String {
        let verb = verb(self.members.len(), "waits", "wait");
        format!("{} {verb}", names.ranks(&self.members))
    }
}

/// The ranks to blame are members of the collective that the others wait in.
fn lacking(own: &Waiting<'_>, others: &Waiting<'_>, names: Names<'_>) -> String {
    let many = own.members.len();
    format!(
        "deadlock: {} {} not made {}, and {} for it; {} in {}, which the others have not made: two \
         communicators in crossed order, or a call left out",
        names.ranks(&own.members),
        verb(many, "has", "have"),
        others.place(names),
        others.wait(names),
        verb(many, "it waits", "they wait"),
        own.place(names),
    )
}

/// A circle of more than two collectives.
fn each_waits(own: &Waiting<'_>, others: &Waiting<'_>, names: Names<'_>) -> String {
    format!(
        "deadlock: {} in {}, while {} in {}: each waits for the other",
        own.wait(names),
        own.place(names),
        others.wait(names),
        others.place(names),
    )
}

/// How many ranks the circle has besides.
fn more(circle: &Circle, blamed: &Blamed) -> String {
    let circled: usize = circle.waits.values().map(Vec::len).sum();
    match circled - blamed.ranks.len() - blamed.waiting.len() {
        0 => String::new(),
        n => format!("; the circle has {}", counted(n as u64, "more rank")),
    }
}
