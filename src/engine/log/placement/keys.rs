//! What two members' calls must have in common to be the same call.

use super::call_list::CallSlice;
use super::limits::NO_SEQUENCE;
use super::streams::StreamsByProcess;
use super::what::CallShape;
use crate::members::OpInterner;
use crate::members::comm_id::CommId;
use crate::members::{CommIdentity, MergedMembers};
use rustc_hash::{FxHashMap, FxHashSet};

/// A sequence of calls that several processes share: a communicator's collectives, or the messages
/// from one of its ranks to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum SequenceId {
    Collectives(u32),
    Messages {
        comm: u32,
        from: i64,
        to: i64,
    },
    /// A rank's messages to itself: Send and Recv count apart.
    Own {
        comm: u32,
        rank: i64,
        sends: bool,
    },
}

/// The keys of all calls, and hashes of their content to compare them.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    /// By what a call is.
    pub(super) of: Vec<u32>,
    /// By call shape: a hash of the content that both sides share.
    pub(super) content: Vec<u16>,
    /// By key: whether it is a communicator's collectives.
    pub(super) is_collective: Vec<bool>,
    /// By key: the communicator's number.
    pub(super) comm: Vec<u32>,
    /// By call shape: the communicator's number, if its id is known.
    pub(super) comm_of: Vec<Option<u32>>,
    /// The communicators' numbers.
    comms: FxHashMap<CommId, u32>,
}

impl Sequences {
    pub(super) fn new(streams: &StreamsByProcess, merged: &MergedMembers) -> Sequences {
        let mut keys = Sequences::default();
        let mut index: FxHashMap<SequenceId, u32> = FxHashMap::default();
        for what in streams.call_shapes() {
            let member = merged.origins.members.get(what.member);
            let identity = merged.identity_of(member);
            let id = identity.and_then(|i| i.comm_id);
            let number = keys.comms.len() as u32;
            let comm = id.map(|id| *keys.comms.entry(id).or_insert(number));
            keys.comm_of.push(comm);
            let key = comm.zip(identity).and_then(|(comm, identity)| {
                sequence_key(&streams.ops, what, comm, i64::from(identity.rank))
            });
            let is_collective = matches!(key, Some(SequenceId::Collectives(_)));
            let content = content_hash(&streams.ops, what, is_collective);
            keys.content.push(content);
            let (Some(key), Some(comm)) = (key, comm) else {
                keys.of.push(NO_SEQUENCE);
                continue;
            };
            let next = index.len() as u32;
            let at = *index.entry(key).or_insert(next);
            if at == next {
                keys.comm.push(comm);
                keys.is_collective.push(is_collective);
            }
            keys.of.push(at);
        }
        keys
    }

    /// Returns by key whether a rank that set the communicator up has not called there yet. `used` has the keys of
    /// the processes that have.
    pub(super) fn find_awaited(
        &self,
        used: &[(u32, Vec<u32>)],
        merged: &MergedMembers,
    ) -> Vec<bool> {
        let used: FxHashSet<(u32, u32)> = used
            .iter()
            .flat_map(|(process, keys)| keys.iter().map(|key| (*process, *key)))
            .collect();
        // By communicator: its collectives' key.
        let mut collectives = vec![NO_SEQUENCE; self.comms.len()];
        for (key, &comm) in (0_u32..).zip(&self.comm) {
            if self.is_collective[key as usize] {
                collectives[comm as usize] = key;
            }
        }
        let key_of = |identity: &CommIdentity| {
            let comm = identity.comm_id.and_then(|id| self.comms.get(&id));
            comm.map_or(NO_SEQUENCE, |&comm| collectives[comm as usize])
        };
        let mut is_awaited = vec![false; self.len()];
        let mut called: FxHashSet<(u32, u32)> = FxHashSet::default();
        for member in merged.origins.members.items() {
            let Some(identity) = merged.identity_of(member) else {
                continue;
            };
            let key = key_of(&identity);
            let process = merged.origins.places.get(member.place).process;
            if used.contains(&(process, key)) {
                called.insert((key, identity.rank));
            } else if let Some(is_awaited) = is_awaited.get_mut(key as usize) {
                *is_awaited = true;
            }
        }
        // A rank without any call is no member so far.
        for identity in merged.identities.items() {
            let key = key_of(identity);
            if let Some(is_awaited) = is_awaited.get_mut(key as usize)
                && !called.contains(&(key, identity.rank))
            {
                *is_awaited = true;
            }
        }
        is_awaited
    }

    /// Returns the key of a call, by the number of its shape.
    pub(super) fn key_of(&self, what: u32) -> u32 {
        self.of.get(what as usize).copied().unwrap_or(NO_SEQUENCE)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.comm.len()
    }
}

fn sequence_key(ops: &OpInterner, what: &CallShape, comm: u32, rank: i64) -> Option<SequenceId> {
    let (from, to, sends) = match ops.name_of_op(what.op) {
        b"Send" => (rank, what.root, true),
        b"Recv" => (what.root, rank, false),
        // One side's alone: the other does not count them.
        b"PutSignal" | b"Signal" | b"WaitSignal" => return None,
        _ => return Some(SequenceId::Collectives(comm)),
    };
    Some(if from == to {
        SequenceId::Own { comm, rank, sends }
    } else {
        SequenceId::Messages { comm, from, to }
    })
}

/// The fingerprints of a call at three levels, the finest first.
pub(super) type Fingerprints = [u64; 3];

/// Spreads the bits of a small number.
pub(super) fn spread_bits(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Fingerprints a call without its caller.
pub(super) fn fingerprint_call(what: &CallShape) -> Fingerprints {
    let op = spread_bits(u64::from(what.op) + 1);
    let size = u64::from(what.nranks.unwrap_or(0)) << 32 | u64::from(what.datatype);
    let class = spread_bits(op ^ size).rotate_left(23) | 1;
    let exact = spread_bits(class ^ what.count).rotate_left(31) | 1;
    [exact, class, op | 1]
}

/// Fingerprints calls in their order, at a level of [`Fingerprints`]; another `seed` gives equal calls another
/// fingerprint.
pub(super) fn fingerprint_calls(
    seed: u64,
    calls: CallSlice<'_>,
    whats: &[CallShape],
    level: usize,
) -> u64 {
    calls.iter().fold(seed, |hash, call| {
        let look = fingerprint_call(&whats[call as usize])[level];
        (hash.rotate_left(5) ^ look).wrapping_mul(0x517c_c1b7_2722_0a95)
    })
}

/// Hashes the content that both sides of a call share: elements and datatype, and a collective's operation.
fn content_hash(ops: &OpInterner, what: &CallShape, is_collective: bool) -> u16 {
    let op = if is_collective {
        let name = ops.name_of_op(what.op);
        let first = name.first().copied().unwrap_or(0);
        u64::from(first) << 8 | name.len() as u64
    } else {
        0
    };
    let mixed = spread_bits(what.count ^ op << 40 ^ u64::from(what.datatype) << 56);
    (mixed >> 48) as u16
}
