//! Builds communicators: sides get their real processes and their calls.

use super::{CommunicatorSide, CommunicatorSides, CommunicatorsSummary, identity, purpose_rules};
use crate::count::tally::{CallKey, SortBuffer};
use crate::members::comm_id::CommId;
use crate::members::{CommIdentity, MergedMembers, OpInterner, SpeakerComm};
use rustc_hash::FxHashMap;
use std::sync::OnceLock;

/// Builds the communicators of `sides` and `calls` by merged member, of `steps` steps (0: unknown).
pub(crate) fn build_communicators(
    sides: CommunicatorSides,
    calls: SortBuffer<(), CallKey>,
    merged: &MergedMembers,
    ops: OpInterner,
    steps: u64,
) -> CommunicatorsSummary {
    let aliases = merged.process_aliases();
    let unnamed_setups = sides.unnamed.into_open(&aliases);
    let mut sides = resolve_processes(sides.list, &aliases);
    let side_of = attribute_calls(&mut sides, calls, merged, &aliases);
    let processes = merged.origins.processes.items().to_vec();
    let mut communicators = identity::group_sides(&sides);
    identity::place_in_job(&mut communicators, &sides, &processes);
    purpose_rules::label_communicators(&mut communicators, &sides, &ops, steps);
    CommunicatorsSummary {
        ops,
        processes,
        communicators,
        sides,
        side_of,
        unnamed_setups,
        steps,
        inputs: Vec::new(),
        apart: None,
        lookups: OnceLock::new(),
    }
}

/// Gives sides the numbers of their real processes. Two accounts of one side, by a process's name and by
/// a damaged form of it, become one.
pub(crate) fn resolve_processes(
    list: Vec<CommunicatorSide>,
    aliases: &[u32],
) -> Vec<CommunicatorSide> {
    let mut sides: Vec<CommunicatorSide> = Vec::with_capacity(list.len());
    let mut at: Vec<usize> = Vec::with_capacity(list.len());
    let mut known: FxHashMap<(u32, u64, CommId), usize> = FxHashMap::default();
    for mut side in list {
        let glued = aliases[side.process as usize] != side.process;
        side.process = aliases[side.process as usize];
        side.parent = side.parent.and_then(|parent| at.get(parent).copied());
        let key = side.comm_id.map(|id| (side.process, side.comm, id));
        let twin = key.and_then(|key| known.get(&key).copied());
        if let Some(twin) = twin
            && (glued || sides[twin].rank == side.rank)
        {
            at.push(twin);
            sides[twin].merge_account(side);
            continue;
        }
        let here = sides.len();
        if let Some(key) = key {
            known.insert(key, here);
        }
        at.push(here);
        sides.push(side);
    }
    sides
}

/// Gives each call to its side. A call with an unknown or ambiguous side gets a side of its own. Returns
/// the sides by merged member.
fn attribute_calls(
    sides: &mut Vec<CommunicatorSide>,
    calls: SortBuffer<(), CallKey>,
    merged: &MergedMembers,
    aliases: &[u32],
) -> FxHashMap<u32, usize> {
    let mut by_address: FxHashMap<(u32, u64), Vec<usize>> = FxHashMap::default();
    for (at, side) in sides.iter().enumerate() {
        let lives = by_address.entry((side.process, side.comm)).or_default();
        lives.push(at);
    }
    let mut own: FxHashMap<(u32, u64, Option<CommIdentity>), usize> = FxHashMap::default();
    let mut side_of: FxHashMap<u32, usize> = FxHashMap::default();
    for (((), key), value) in calls.into_sorted() {
        let at = *side_of.entry(key.member).or_insert_with(|| {
            let member = merged.origins.members.get(key.member);
            let process = aliases[merged.origins.places.get(member.place).process as usize];
            let identity = merged.identity_as(member, process);
            let lives = by_address.get(&(process, member.comm));
            if let Some(identity) = identity
                && let Some(at) = find_only_life(lives.into_iter().flatten(), sides, &identity)
            {
                return at;
            }
            *own.entry((process, member.comm, identity))
                .or_insert_with(|| {
                    sides.push(make_unnamed_side(process, member, identity));
                    sides.len() - 1
                })
        });
        sides[at].uses.push((key, value));
    }
    side_of
}

/// Finds the only side at an address that has this `identity`.
fn find_only_life<'s>(
    lives: impl Iterator<Item = &'s usize>,
    sides: &[CommunicatorSide],
    identity: &CommIdentity,
) -> Option<usize> {
    let is = |&&at: &&usize| {
        let side = &sides[at];
        let ids = side.comm_id.zip(identity.comm_id);
        (side.rank, side.nranks) == (Some(identity.rank), Some(identity.nranks))
            && ids.is_none_or(|(a, b)| a == b)
    };
    let mut those = lives.filter(is);
    match (those.next(), those.next()) {
        (Some(&at), None) => Some(at),
        _ => None,
    }
}

/// Makes a side that only calls or a torn INIT line name.
fn make_unnamed_side(
    process: u32,
    member: &SpeakerComm,
    identity: Option<CommIdentity>,
) -> CommunicatorSide {
    CommunicatorSide {
        process,
        comm: member.comm,
        rank: identity.map(|i| i.rank),
        nranks: identity.map(|i| i.nranks).or(member.nranks),
        comm_id: identity.and_then(|i| i.comm_id),
        ..CommunicatorSide::default()
    }
}
