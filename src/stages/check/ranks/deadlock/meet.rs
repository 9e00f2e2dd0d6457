//! Lets the ranks' last calls on all communicators meet.

use super::Met;
use super::replay::{Replay, Step};
use crate::stages::check::ranks::stopped::step_lines::StepLines;
use crate::stages::check::ranks::stopped::{unusual_lag, whole_steps};
use crate::stages::check::streams::compare::{Compared, Ranked};
use crate::stages::check::streams::last_calls::Last;
use crate::stages::check::streams::{Streams, Way};
use crate::stages::communicators::{Found, Gpu, gpu};
use rustc_hash::{FxHashMap, FxHashSet};

/// Lets the last calls meet; `failed` where the log reports that the job failed.
pub(crate) fn meet(
    compared: &Compared,
    found: &Found,
    (streams, lines): (&Streams, &StepLines),
    failed: bool,
) -> Met {
    let calls = streams.tail();
    let roster = Roster::of(compared, found);
    let owners = roster.owners(streams);
    let begun = roster.begun(&calls, streams);
    let most = |all: &Vec<(u32, u64)>| all.iter().map(|(_, made)| *made).max().unwrap_or(0);
    let from: Vec<u64> = begun.iter().map(most).collect();
    let programs = owners.programs(&calls, &from, roster.numbers.len());
    let replay = Replay {
        members: &roster.members,
        programs: &programs.steps,
    };
    let stuck = replay.run();
    let collectives = |stream: u32| owners.collectives.get(&stream).copied();
    let stopped = unusual_lag::stopped(&calls, collectives, &begun, lines);
    let number = |at: u32| roster.communicators[at as usize].0;
    let stopped = stopped.iter().map(|(&at, &is)| (number(at), is));
    let mut met = Met {
        stopped: stopped.collect(),
        uneven: whole_steps::uneven(&calls, |stream| owners.of(stream), &begun),
        roster,
        from,
        programs,
        stuck,
        circle: None,
        failed,
    };
    met.circle = met.last_circle().cloned();
    met
}

/// The communicators whose members are clear, and who the members are.
#[derive(Default)]
pub(super) struct Roster {
    /// The communicators, as [`Event`](super::Event)s number them: their number, and their members.
    pub(super) communicators: Vec<(usize, Vec<Ranked>)>,
    /// The members' programs.
    pub(super) members: Vec<Vec<u32>>,
    /// The program of each GPU.
    pub(super) numbers: FxHashMap<Gpu, u32>,
}

/// What each rank called, in order.
pub(super) struct Programs {
    /// Its collectives.
    pub(super) steps: Vec<Vec<Step>>,
    /// Its sends and receives: the stream, and how many collectives are before.
    pub(super) between: Vec<Vec<(u32, usize)>>,
}

/// Whose calls each stream has.
struct Owners {
    /// Of a stream of collectives the communicator and the program.
    collectives: FxHashMap<u32, (u32, u32)>,
    /// Of a stream of sends or receives the program.
    messages: FxHashMap<u32, u32>,
}

/// The stream of a member's collectives.
fn collectives(member: &Ranked, streams: &Streams) -> Option<u32> {
    streams.at.get(&(member.caller?, Way::Collective)).copied()
}

impl Roster {
    fn of(compared: &Compared, found: &Found) -> Roster {
        // Whose calls those on an address are that was used again is known by the id alone.
        let mut lives: FxHashMap<(u32, u64), u32> = FxHashMap::default();
        for side in &found.sides {
            *lives.entry((side.process, side.comm)).or_default() += 1;
        }
        let is_clear = |member: &Ranked| {
            let side = &found.sides[member.side];
            side.comm_id.is_some() || lives.get(&(side.process, side.comm)) == Some(&1)
        };
        let mut roster = Roster::default();
        for (at, ranked) in &compared.judged {
            // A rank is a GPU; one with two places in a communicator has no one program.
            let gpus: Vec<Gpu> = ranked.iter().map(|m| gpu(&found.sides[m.side])).collect();
            let distinct: FxHashSet<&Gpu> = gpus.iter().collect();
            if distinct.len() == gpus.len() && ranked.iter().all(is_clear) {
                let members = gpus.into_iter().map(|gpu| roster.number(gpu)).collect();
                roster.members.push(members);
                roster.communicators.push((*at, ranked.clone()));
            }
        }
        roster
    }

    /// The program of a GPU, new or known.
    fn number(&mut self, gpu: Gpu) -> u32 {
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        *self.numbers.entry(gpu).or_insert(next)
    }

    /// Each member: the communicator, itself, its program.
    fn each(&self) -> impl Iterator<Item = (u32, &Ranked, u32)> {
        let all = (0..).zip(self.communicators.iter().zip(&self.members));
        all.flat_map(|(at, ((_, ranked), programs))| {
            let members = ranked.iter().zip(programs);
            members.map(move |(member, &program)| (at, member, program))
        })
    }

    fn owners(&self, streams: &Streams) -> Owners {
        let mut owners = Owners {
            collectives: FxHashMap::default(),
            messages: FxHashMap::default(),
        };
        for (at, member, program) in self.each() {
            let stream = collectives(member, streams);
            let own = stream.map(|stream| (stream, (at, program)));
            owners.collectives.extend(own);
            let Some(caller) = member.caller else {
                continue;
            };
            let ways = streams.ways(caller).iter();
            let messages = ways.filter(|way| **way != Way::Collective);
            let known = messages.filter_map(|&way| streams.at.get(&(caller, way)));
            owners
                .messages
                .extend(known.map(|&stream| (stream, program)));
        }
        owners
    }

    /// Of each communicator its members, with how many calls they made before the last ones. Of what
    /// is not kept of all members nothing is known.
    fn begun(&self, calls: &[Last], streams: &Streams) -> Vec<Vec<(u32, u64)>> {
        let mut first: FxHashMap<u32, u64> = FxHashMap::default();
        for call in calls {
            first.entry(call.stream).or_insert(call.seq);
        }
        let mut begun = vec![Vec::new(); self.communicators.len()];
        for (at, member, program) in self.each() {
            let stream = collectives(member, streams);
            let kept = stream.and_then(|stream| first.get(&stream)).copied();
            begun[at as usize].push((program, kept.unwrap_or(member.before)));
        }
        begun
    }
}

impl Owners {
    /// The communicator, if a stream is of collectives, and the program.
    fn of(&self, stream: u32) -> Option<(Option<u32>, u32)> {
        let own = self.collectives.get(&stream);
        let own = own.map(|&(at, program)| (Some(at), program));
        own.or_else(|| Some((None, *self.messages.get(&stream)?)))
    }

    /// The programs of `ranks`, with the collectives of each communicator that come at or after its
    /// call `from`.
    fn programs(&self, calls: &[Last], from: &[u64], ranks: usize) -> Programs {
        let mut steps: Vec<Vec<Step>> = vec![Vec::new(); ranks];
        let mut between = vec![Vec::new(); ranks];
        for call in calls {
            if let Some(&program) = self.messages.get(&call.stream) {
                let program = program as usize;
                between[program].push((call.stream, steps[program].len()));
            } else if let Some(&(at, program)) = self.collectives.get(&call.stream)
                && call.seq >= from[at as usize]
            {
                steps[program as usize].push(Step {
                    event: (at, call.seq),
                    mark: call.mark,
                });
            }
        }
        Programs { steps, between }
    }
}
