//! Lets the ranks' last calls on all communicators meet.

use super::Rendezvous;
use crate::calls::wait::{CollectiveId, CollectiveReplay, ProgramCall};
use crate::stages::check::ranks::stopped::step_lines::StepLinePositions;
use crate::stages::check::ranks::stopped::{unusual_lag, whole_steps};
use crate::stages::check::streams::compare::{CommMember, StreamComparison};
use crate::stages::check::streams::last_calls::LastStreamCall;
use crate::stages::check::streams::{CallStreams, StreamKind};
use crate::stages::communicators::{CommunicatorsSummary, JobGpu, gpu_of_side};
use rustc_hash::{FxHashMap, FxHashSet};

/// Lets the last calls meet; `failed` where the log reports that the job failed, `is_watched` where it was watched and
/// stalled.
pub(crate) fn replay_last_calls(
    compared: &StreamComparison,
    found: &CommunicatorsSummary,
    streams: &CallStreams,
    lines: &StepLinePositions,
    failed: bool,
    is_watched: bool,
) -> Rendezvous {
    let calls = streams.list_last_calls();
    let roster = RendezvousRoster::list_members(compared, found);
    let owners = roster.map_streams_to_programs(streams);
    let begun = roster.count_calls_before(calls, streams);
    let most = |all: &Vec<(u32, u64)>| all.iter().map(|(_, made)| *made).max().unwrap_or(0);
    let from: Vec<u64> = begun.iter().map(most).collect();
    let programs = owners.build_programs(calls, &from, roster.numbers.len());
    let replay = CollectiveReplay {
        members: &roster.members,
        programs: &programs.steps,
        ended: &programs.ended,
    };
    let stuck = replay.replay_calls();
    let collectives = |stream: u32| owners.collectives.get(&stream).copied();
    let stopped =
        unusual_lag::find_stopped_communicators(calls, collectives, &begun, lines, is_watched);
    let number = |at: u32| roster.communicators[at as usize].0;
    let stopped = stopped.iter().map(|(&at, &is)| (number(at), is));
    let mut met = Rendezvous {
        stopped: stopped.collect(),
        uneven: whole_steps::find_uneven_jobs(
            calls,
            |stream| owners.owner_of_stream(stream),
            &begun,
        ),
        roster,
        from,
        programs,
        stuck,
        circle: None,
        failed,
    };
    met.circle = met
        .build_replay()
        .find_lasting_circle(&met.stuck, failed)
        .cloned();
    met
}

/// Returns the communicators with known members, and the members.
#[derive(Default)]
pub(super) struct RendezvousRoster {
    /// The communicators, as [`Event`](super::Event)s number them: their number, and their members.
    pub(super) communicators: Vec<(usize, Vec<CommMember>)>,
    /// The members' programs.
    pub(super) members: Vec<Vec<u32>>,
    /// The program of each GPU.
    pub(super) numbers: FxHashMap<JobGpu, u32>,
    /// The place of each communicator in `communicators`.
    places: FxHashMap<usize, usize>,
}

/// What each rank called, in order.
pub(super) struct RankPrograms {
    /// Its collectives.
    pub(super) steps: Vec<Vec<ProgramCall>>,
    /// Its sends and receives: the stream, and how many collectives are before.
    pub(super) between: Vec<Vec<(u32, usize)>>,
    /// Those that are known to have ended: a log has no ends of calls.
    pub(super) ended: FxHashSet<CollectiveId>,
}

/// The owner of the calls of each stream.
struct ProgramOwners {
    /// The communicator and the program of each stream of collectives.
    collectives: FxHashMap<u32, (u32, u32)>,
    /// The program of each stream of sends or receives.
    messages: FxHashMap<u32, u32>,
}

/// The stream of a member's collectives.
fn collective_stream(member: &CommMember, streams: &CallStreams) -> Option<u32> {
    streams
        .at
        .get(&(member.caller?, StreamKind::Collective))
        .copied()
}

impl RendezvousRoster {
    fn list_members(compared: &StreamComparison, found: &CommunicatorsSummary) -> RendezvousRoster {
        // If an address was used again, only the id shows the owner of its calls.
        let mut lives: FxHashMap<(u32, u64), u32> = FxHashMap::default();
        for side in &found.sides {
            *lives.entry((side.process, side.comm)).or_default() += 1;
        }
        let is_clear = |member: &CommMember| {
            let side = &found.sides[member.side];
            side.comm_id.is_some() || lives.get(&(side.process, side.comm)) == Some(&1)
        };
        let mut roster = RendezvousRoster::default();
        for (at, ranked) in &compared.judged {
            // A rank is a GPU; one with two places in a communicator has no one program.
            let gpus: Vec<JobGpu> = ranked
                .iter()
                .map(|m| gpu_of_side(&found.sides[m.side]))
                .collect();
            let distinct: FxHashSet<&JobGpu> = gpus.iter().collect();
            if distinct.len() == gpus.len() && ranked.iter().all(is_clear) {
                let members = gpus
                    .into_iter()
                    .map(|gpu| roster.intern_program(gpu))
                    .collect();
                roster.members.push(members);
                roster.places.insert(*at, roster.communicators.len());
                roster.communicators.push((*at, ranked.clone()));
            }
        }
        roster
    }

    /// The place of a communicator among those of the roster.
    pub(super) fn place_of(&self, communicator: usize) -> Option<usize> {
        self.places.get(&communicator).copied()
    }

    /// The program of a GPU, new or known.
    fn intern_program(&mut self, gpu: JobGpu) -> u32 {
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        *self.numbers.entry(gpu).or_insert(next)
    }

    /// Each member: the communicator, itself, its program.
    fn iter_members(&self) -> impl Iterator<Item = (u32, &CommMember, u32)> {
        let all = (0..).zip(self.communicators.iter().zip(&self.members));
        all.flat_map(|(at, ((_, ranked), programs))| {
            let members = ranked.iter().zip(programs);
            members.map(move |(member, &program)| (at, member, program))
        })
    }

    fn map_streams_to_programs(&self, streams: &CallStreams) -> ProgramOwners {
        let mut owners = ProgramOwners {
            collectives: FxHashMap::default(),
            messages: FxHashMap::default(),
        };
        for (at, member, program) in self.iter_members() {
            let stream = collective_stream(member, streams);
            let own = stream.map(|stream| (stream, (at, program)));
            owners.collectives.extend(own);
            let Some(caller) = member.caller else {
                continue;
            };
            let ways = streams.kinds_of_caller(caller).iter();
            let messages = ways.filter(|way| **way != StreamKind::Collective);
            let known = messages.filter_map(|&way| streams.at.get(&(caller, way)));
            owners
                .messages
                .extend(known.map(|&stream| (stream, program)));
        }
        owners
    }

    /// Returns the members of each communicator, with the number of calls that they made before the
    /// last ones; nothing if calls of a member are not kept.
    fn count_calls_before(
        &self,
        calls: &[LastStreamCall],
        streams: &CallStreams,
    ) -> Vec<Vec<(u32, u64)>> {
        let mut first: FxHashMap<u32, u64> = FxHashMap::default();
        for call in calls {
            first.entry(call.stream).or_insert(call.seq);
        }
        let mut begun = vec![Vec::new(); self.communicators.len()];
        for (at, member, program) in self.iter_members() {
            let stream = collective_stream(member, streams);
            let kept = stream.and_then(|stream| first.get(&stream)).copied();
            begun[at as usize].push((program, kept.unwrap_or(member.before)));
        }
        begun
    }
}

impl ProgramOwners {
    /// The communicator, if a stream is of collectives, and the program.
    fn owner_of_stream(&self, stream: u32) -> Option<(Option<u32>, u32)> {
        let own = self.collectives.get(&stream);
        let own = own.map(|&(at, program)| (Some(at), program));
        own.or_else(|| Some((None, *self.messages.get(&stream)?)))
    }

    /// The programs of `ranks`, with the collectives of each communicator that come at or after its
    /// call `from`.
    fn build_programs(&self, calls: &[LastStreamCall], from: &[u64], ranks: usize) -> RankPrograms {
        let mut steps: Vec<Vec<ProgramCall>> = vec![Vec::new(); ranks];
        let mut between = vec![Vec::new(); ranks];
        for call in calls {
            if let Some(&program) = self.messages.get(&call.stream) {
                let program = program as usize;
                between[program].push((call.stream, steps[program].len()));
            } else if let Some(&(at, program)) = self.collectives.get(&call.stream)
                && call.seq >= from[at as usize]
            {
                steps[program as usize].push(ProgramCall {
                    event: (at, call.seq),
                    mark: call.mark,
                });
            }
        }
        RankPrograms {
            steps,
            between,
            ended: FxHashSet::default(),
        }
    }
}
