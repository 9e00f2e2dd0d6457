//! Evaluates the ranks' last calls on all communicators together: which differences come first, and
//! which ranks wait for each other in a circle.

mod finding;
mod rendezvous;

use super::stopped::whole_steps::UnevenSides;
use crate::calls::wait::{CollectiveId, CollectiveReplay, ReplayOutcome, WaitCircle};
use crate::stages::check::streams::CallStreams;
use crate::stages::check::streams::compare::{CommMember, MemberStream, UnpairedMessages};
use crate::stages::communicators::{CommunicatorsSummary, gpu_of_side};
pub(crate) use rendezvous::replay_last_calls;
use rendezvous::{RankPrograms, RendezvousRoster};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What the last calls show.
pub(crate) struct Rendezvous {
    /// The ranks and communicators of the replay.
    roster: RendezvousRoster,
    /// The first call of each communicator that was let meet.
    from: Vec<u64>,
    programs: RankPrograms,
    stuck: ReplayOutcome,
    /// The circle that keeps the ranks for good, if there is one.
    circle: Option<WaitCircle>,
    /// The log reports that the job failed.
    failed: bool,
    /// Whether a communicator's slowest members stopped, by their lines.
    stopped: BTreeMap<usize, bool>,
    /// Jobs with two sides that are whole steps apart.
    uneven: Vec<UnevenSides>,
}

impl Rendezvous {
    fn build_replay(&self) -> CollectiveReplay<'_> {
        CollectiveReplay {
            members: &self.roster.members,
            programs: &self.programs.steps,
            ended: &self.programs.ended,
        }
    }

    /// True where ranks wait for each other in a circle.
    pub(crate) fn is_circle(&self) -> bool {
        self.circle.is_some()
    }

    /// Returns whether a communicator's slowest members stopped, if their lines show it.
    pub(crate) fn has_stopped(&self, communicator: usize) -> Option<bool> {
        self.stopped.get(&communicator).copied()
    }

    /// True where nothing went wrong before this call, as far as the last calls show it.
    pub(crate) fn is_first_difference(&self, communicator: usize, seq: u64) -> bool {
        let at = self.roster.place_of(communicator);
        at.is_none_or(|at| {
            let event = (u32::try_from(at).unwrap_or(u32::MAX), seq);
            seq < self.from[at] || self.stuck.different.contains(&event)
        })
    }

    /// The two sides of a communicator's job, where they are whole steps apart.
    pub(crate) fn uneven_sides_of(&self, communicator: usize) -> Option<&UnevenSides> {
        let is_it = |&at: &u32| self.roster.communicators[at as usize].0 == communicator;
        let mut all = self.uneven.iter();
        all.find(|uneven| uneven.communicators.iter().any(is_it))
    }

    /// How many messages of a pair were sent and received before both ranks ended the communicator
    /// in order, or before the last collective that both made; `None` where neither is known.
    pub(crate) fn count_settled_messages(
        &self,
        pair: &UnpairedMessages,
        found: &CommunicatorsSummary,
        streams: &CallStreams,
    ) -> Option<(u64, u64)> {
        if pair.is_ended_on_both_sides(found) {
            return Some((pair.sent, pair.received));
        }
        let program = |member: &CommMember| {
            let at = self
                .roster
                .numbers
                .get(&gpu_of_side(&found.sides[member.side]))?;
            Some(*at as usize)
        };
        let (from, to) = (program(&pair.from)?, program(&pair.to)?);
        let steps = self.programs.steps[to].iter().enumerate();
        let places: FxHashMap<CollectiveId, usize> =
            steps.map(|(at, step)| (step.event, at)).collect();
        let (at_from, at_to) = (0..self.programs.steps[from].len()).rev().find_map(|at| {
            let event = self.programs.steps[from][at].event;
            Some((at, *places.get(&event)?))
        })?;
        let before = |made: MemberStream<'_>, program: usize, at: usize| {
            let stream = streams.at.get(&(made.member.caller?, made.way));
            let Some(&stream) = stream else {
                return Some(0);
            };
            let later = self.programs.between[program].iter();
            let later = later.filter(|(of, place)| *of == stream && *place > at);
            Some(streams.calls_until_hang(stream) - later.count() as u64)
        };
        let sent = before(pair.sends(), from, at_from)?;
        Some((sent, before(pair.receives(), to, at_to)?))
    }

    /// True where both ranks of a pair are past the place at which their numbers of messages differ.
    pub(crate) fn is_settled_difference(
        &self,
        pair: &UnpairedMessages,
        found: &CommunicatorsSummary,
        streams: &CallStreams,
    ) -> bool {
        let counts = self.count_settled_messages(pair, found, streams);
        counts.is_some_and(|(sent, received)| sent != received)
    }

    fn member_of(&self, event: CollectiveId, rank: u32) -> Option<&CommMember> {
        let at = event.0 as usize;
        let place = self
            .roster
            .members
            .get(at)?
            .iter()
            .position(|&m| m == rank)?;
        self.roster.communicators.get(at)?.1.get(place)
    }

    /// Returns the calls of a circle's ranks, by stream.
    pub(crate) fn iter_circle_calls(&self) -> impl Iterator<Item = (u32, u64)> {
        let waits = self.circle.iter().flat_map(|circle| &circle.waits);
        waits.flat_map(move |(&event, ranks)| {
            let caller = move |&(rank, _): &(u32, usize)| self.member_of(event, rank)?.caller;
            ranks.iter().filter_map(caller).map(move |c| (c, event.1))
        })
    }
}
