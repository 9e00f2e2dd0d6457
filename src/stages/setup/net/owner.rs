//! Owners of connections: their lines do not name the communicator, and their thread is at work on one.
//!
//! 1. Between `Init START` and `Init COMPLETE` of a thread, connections are that communicator's.
//! 2. NCCL up to 2.17 has no START: connections before a thread's `Init COMPLETE` are that
//!    communicator's ([`super::pending_connections`]).
//! 3. Later connections (since 2.22 ranks connect when first needed) belong to the communicator of the
//!    thread's last call, or of the process's if the thread makes no calls.
//! 4. The printing rank must be this process's rank there, and both ends must fit. Otherwise the
//!    connection belongs to the only communicator of the process that fits and that had begun and not
//!    ended ([`super::lifetimes`]).
//!
//! Other connections have no owner. A chunk knows only its own lines: a state from before it is
//! [`ChunkOwner::Before`], and the merge resolves it. The merge also resolves calls of torn lines, since
//! one may be the last ([`TornSlotRange`]).

use super::init_line_comm::InitLineComm;
use crate::log::walk::RepairedCall;
use crate::stages::setup::thread::SpeakerThread;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Possible owner of a connection, the number of INIT lines of its process before it in the chunk, and torn
/// lines that may change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct OwnerClaim {
    /// The owner.
    pub owner: ChunkOwner,
    /// The number of INIT lines.
    pub inits: u32,
    /// Torn lines.
    pub late: Option<TornSlotRange>,
}

impl OwnerClaim {
    /// A claim that no other line changes.
    pub(crate) fn of_owner(owner: ChunkOwner) -> OwnerClaim {
        let (inits, late) = (0, None);
        OwnerClaim { owner, inits, late }
    }
}

/// Owner of a connection, as far as the chunk shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum ChunkOwner {
    /// The communicator that the thread initialises.
    Init(InitLineComm),
    /// The communicator of the last call: a member of the chunk.
    Call(u32),
    /// The state of the thread before the chunk.
    Before {
        /// The thread.
        tid: Option<u64>,
        /// It ended no initialisation in the chunk.
        init: bool,
        /// The process's last call in the chunk, and the number of slots before it.
        call: Option<(u32, u32)>,
    },
    /// The communicator at this address, which the line names.
    Address(u64),
}

/// Slots between a connection and the call that decides its owner: torn lines there may hold a later call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct TornSlotRange {
    /// The thread.
    pub tid: Option<u64>,
    /// The first slot.
    pub from: u32,
    /// The slot after the last.
    pub to: u32,
}

/// Call of a torn line.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct OwnerTornCall {
    slot: u32,
    thread: SpeakerThread,
    member: u32,
}

/// Activity of threads in a chunk.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ThreadActivity {
    /// Counter of calls, INIT lines and slots.
    now: u64,
    /// Counter value of each slot.
    slots: Vec<u64>,
    /// Torn calls in the order of their slots.
    torn: Vec<OwnerTornCall>,
    /// Counter value of each thread's last call, by member; the thread of the last call first.
    called: Vec<Vec<(u64, Option<u64>)>>,
    /// Members of each process.
    members: FxHashMap<u32, Vec<u32>>,
    /// The communicator that a thread initialises, if any, and since when.
    init: FxHashMap<SpeakerThread, (u64, Option<InitLineComm>)>,
}

impl ThreadActivity {
    /// Adds a call.
    #[inline(always)]
    pub(crate) fn add_call(&mut self, member: u32, process: u32, tid: Option<u64>) {
        self.now += 1;
        match self
            .called
            .get_mut(member as usize)
            .and_then(|c| c.first_mut())
        {
            Some(called) if called.1 == tid => called.0 = self.now,
            _ => self.record_call(member, process, tid),
        }
    }

    #[cold]
    fn record_call(&mut self, member: u32, process: u32, tid: Option<u64>) {
        // Members come in the order of their numbers.
        if self.called.len() <= member as usize {
            self.called.resize(member as usize + 1, Vec::new());
        }
        let called = &mut self.called[member as usize];
        if called.is_empty() {
            self.members.entry(process).or_default().push(member);
        }
        match called.iter().position(|c| c.1 == tid) {
            Some(at) => {
                called.swap(0, at);
                called[0].0 = self.now;
            }
            None => {
                called.push((self.now, tid));
                let last = called.len() - 1;
                called.swap(0, last);
            }
        }
    }

    /// Adds a slot: the merge may put a call there.
    pub(crate) fn add_slot(&mut self) {
        self.now += 1;
        self.slots.push(self.now);
    }

    /// Keeps the calls of torn lines.
    pub(crate) fn add_torn_calls(&mut self, calls: &[RepairedCall<'_>]) {
        let torn = calls.iter().map(|torn| OwnerTornCall {
            slot: torn.slot,
            thread: SpeakerThread::new(torn.call.process, torn.call.tid),
            member: torn.call.member,
        });
        self.torn.extend(torn);
    }

    /// Returns the member of the last torn call of `own` threads in a range of slots.
    pub(crate) fn last_torn(
        &self,
        late: TornSlotRange,
        own: impl Fn(SpeakerThread) -> bool,
    ) -> Option<u32> {
        let in_slots = |call: &&OwnerTornCall| (late.from..late.to).contains(&call.slot);
        let mut those = self.torn.iter().rev().filter(in_slots);
        those.find(|call| own(call.thread)).map(|call| call.member)
    }

    /// Returns the slots that may hold a later call of a thread than the one at `since`.
    fn slots_since(&self, tid: Option<u64>, since: u64) -> Option<TornSlotRange> {
        let from = self.slots.partition_point(|&at| at <= since);
        let of = |slot: usize| u32::try_from(slot).unwrap_or(u32::MAX);
        let (from, to) = (of(from), of(self.slots.len()));
        (from < to).then_some(TornSlotRange { tid, from, to })
    }

    /// A thread begins or continues to initialise a communicator.
    pub(crate) fn begin_init(&mut self, thread: SpeakerThread, init: InitLineComm) {
        self.now += 1;
        self.init.insert(thread, (self.now, Some(init)));
    }

    /// A thread ends an initialisation.
    pub(crate) fn end_init(&mut self, thread: SpeakerThread) {
        self.now += 1;
        self.init.insert(thread, (self.now, None));
    }

    /// Counts any other line.
    pub(crate) fn count_line(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// True if the thread began an initialisation in this chunk and did not end it.
    pub(crate) fn is_begun(&self, thread: SpeakerThread) -> bool {
        matches!(self.init.get(&thread), Some((_, Some(_))))
    }

    /// Returns the counter value of the thread's last call; 0 without one.
    pub(crate) fn last_call_time(&self, thread: SpeakerThread) -> u64 {
        let members = self.members.get(&thread.process).into_iter().flatten();
        let called = members.flat_map(|&member| &self.called[member as usize]);
        let own = called.filter(|(_, by)| *by == thread.tid);
        own.map(|(at, _)| *at).max().unwrap_or(0)
    }

    /// Returns the owner of a connection that the thread makes now, and the slots with calls that may
    /// change it.
    pub(crate) fn find_owner(&self, thread: SpeakerThread) -> (ChunkOwner, Option<TornSlotRange>) {
        let SpeakerThread { process, tid } = thread;
        let mut own = (0, None);
        let mut any = (0, None);
        for &member in self.members.get(&process).into_iter().flatten() {
            for &(at, by) in &self.called[member as usize] {
                any = any.max((at, Some(member)));
                if by == tid {
                    own = own.max((at, Some(member)));
                }
            }
        }
        let init = self.init.get(&thread);
        match (init, own.1) {
            (Some(&(at, Some(init))), _) if at > own.0 => (ChunkOwner::Init(init), None),
            (_, Some(member)) => (ChunkOwner::Call(member), self.slots_since(tid, own.0)),
            (init, None) => {
                let whose = ChunkOwner::Before {
                    tid,
                    init: init.is_none(),
                    call: any.1.map(|member| (member, self.count_slots_before(any.0))),
                };
                (whose, self.slots_since(tid, 0))
            }
        }
    }

    fn count_slots_before(&self, at: u64) -> u32 {
        let before = self.slots.partition_point(|&slot| slot <= at);
        u32::try_from(before).unwrap_or(u32::MAX)
    }

    /// Returns the last call of each thread and each process, with its counter value.
    pub(crate) fn last_calls(&self) -> impl Iterator<Item = (SpeakerThread, u64, u32)> {
        let torn = self.torn.iter().map(|call| {
            let at = self.slots.get(call.slot as usize).copied();
            (call.thread, at.unwrap_or(0), call.member)
        });
        self.last_whole_calls().chain(torn)
    }

    /// Returns the last calls of whole lines.
    pub(crate) fn last_whole_calls(&self) -> impl Iterator<Item = (SpeakerThread, u64, u32)> {
        let all = &self.called;
        self.members.iter().flat_map(move |(&process, members)| {
            members.iter().flat_map(move |&member| {
                let called = all[member as usize].iter();
                called.map(move |&(at, tid)| (SpeakerThread::new(process, tid), at, member))
            })
        })
    }

    /// Returns what each thread initialises at the end of the chunk.
    pub(crate) fn open_inits(
        &self,
    ) -> impl Iterator<Item = (SpeakerThread, u64, Option<InitLineComm>)> {
        self.init
            .iter()
            .map(|(&thread, &(at, init))| (thread, at, init))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::message::communicator::init::InitEvent;

    #[test]
    fn an_initialisation_comes_before_calls_and_the_last_call_counts() {
        let mut threads = ThreadActivity::default();
        let (a, b) = (
            SpeakerThread::new(0, Some(7)),
            SpeakerThread::new(0, Some(8)),
        );
        let before = |tid, init, call| (ChunkOwner::Before { tid, init, call }, None);
        assert_eq!(threads.find_owner(a), before(Some(7), true, None));
        let init = InitLineComm {
            event: InitEvent::Init,
            comm: 1,
            rank: 0,
            nranks: 2,
            at: 0,
        };
        threads.begin_init(a, init);
        assert!(matches!(
            threads.find_owner(a),
            (ChunkOwner::Init(InitLineComm { comm: 1, .. }), None)
        ));
        threads.end_init(a);
        assert_eq!(threads.find_owner(a), before(Some(7), false, None));
        threads.add_call(0, 0, Some(7));
        threads.add_call(1, 0, Some(7));
        assert_eq!(threads.find_owner(a), (ChunkOwner::Call(1), None));
        assert_eq!(threads.find_owner(b), before(Some(8), true, Some((1, 0))));
        assert_eq!(
            threads.find_owner(SpeakerThread::new(1, Some(9))),
            before(Some(9), true, None)
        );
        threads.add_slot();
        let late = |tid| {
            Some(TornSlotRange {
                tid: Some(tid),
                from: 0,
                to: 1,
            })
        };
        assert_eq!(threads.find_owner(a), (ChunkOwner::Call(1), late(7)));
        assert_eq!(threads.find_owner(b).1, late(8));
        threads.add_call(0, 0, Some(7));
        assert_eq!(threads.find_owner(a), (ChunkOwner::Call(0), None));
    }
}
