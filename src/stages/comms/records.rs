//! A chunk's calls, small, numbered in their sequences, ready to be written as rows.

use crate::join::Joined;
use crate::origin::{Merged, Renumbered};
use crate::records::{Datatype, RedOp, has_redop, has_root};
use crate::scan::{Call, Visit};
use crate::table::Row;
use crate::tally::Ops;
use crate::timeline::Timeline;
use rustc_hash::FxHashMap;

/// How many calls each (process, communicator) made so far; Send and Recv apart, per peer.
pub(super) type Seqs = FxHashMap<SeqKey, Seq>;

/// A sequence's number of calls before the chunk in hand and behind it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seq {
    now: u64,
    next: u64,
}

/// Send or not, and to whom; `None` for collectives.
pub(super) type Peer = Option<(bool, i64)>;

/// The process, the communicator, its identity, and for Send and Recv which and to whom.
pub(super) type SeqKey = (u32, u64, u32, Peer);

/// A call of a chunk, small.
#[derive(Debug, Clone, Copy)]
struct Record {
    member: u32,
    op: u32,
    gap: u32,
    datatype: u32,
    count: u64,
    redop: u64,
    root: i64,
    stream: u64,
    op_count: u64,
    tid: Option<u64>,
    /// Where the time stamp stands: in the chunk, or in `Records::times` for a joined line.
    time: (u32, u32),
    /// Its number among the calls of `sequence` in the chunk.
    seq: u64,
    /// Index into `Records::sequences`.
    sequence: u32,
}

/// A chunk's calls, in line order.
pub(super) struct Records {
    /// Address of the chunk's first byte, to place time stamps in it.
    base: usize,
    ops: Ops,
    gap: u32,
    list: Vec<Record>,
    /// The sequences that calls of this chunk belong to: by member, and for Send and Recv by
    /// peer. How many calls each has here; once merged, how many it had before.
    sequences: Vec<((u32, Peer), u64)>,
    sequence_of: FxHashMap<(u32, Peer), u32>,
    /// Merged member by the chunk's; joined calls' members stand behind.
    members: Vec<u32>,
    /// For each slot: its place in `list` and its gap.
    slots: Vec<(usize, u32)>,
    /// Stamps of joined lines, behind the chunk's bytes.
    times: Vec<u8>,
    len: usize,
}

impl Visit for Records {
    #[inline]
    fn call(&mut self, call: &Call<'_>) {
        let mut record = self.record(call, self.gap);
        self.number(&mut record);
        self.list.push(record);
    }

    fn mark(&mut self) {
        self.gap += 1;
    }

    fn slot(&mut self) {
        self.slots.push((self.list.len(), self.gap));
    }
}

impl Records {
    pub(super) fn new(bytes: &[u8]) -> Records {
        Records {
            base: bytes.as_ptr() as usize,
            ops: Ops::default(),
            gap: 0,
            list: Vec::with_capacity(bytes.len() / 256),
            sequences: Vec::new(),
            sequence_of: FxHashMap::default(),
            members: Vec::new(),
            slots: Vec::new(),
            times: Vec::new(),
            len: bytes.len(),
        }
    }

    fn record(&mut self, call: &Call<'_>, gap: u32) -> Record {
        let (op, _) = self.ops.intern(call.coll.op);
        // A chunk is far below 4 GiB, but for one line of that length: then the stamp is lost.
        let from = (call.time.as_ptr() as usize).wrapping_sub(self.base);
        let time = match (u32::try_from(from), call.time.len()) {
            (Ok(from), len) if len > 0 => (from, from.saturating_add(len as u32)),
            _ => (0, 0),
        };
        let coll = &call.coll;
        Record {
            member: call.member,
            op,
            gap,
            datatype: coll.datatype,
            count: coll.count,
            redop: coll.redop,
            root: coll.root,
            stream: coll.stream,
            op_count: coll.op_count,
            tid: call.tid,
            time,
            seq: 0,
            sequence: 0,
        }
    }

    /// Gives a call its number in its sequence.
    #[inline]
    fn number(&mut self, record: &mut Record) {
        let peer = match self.ops.name(record.op) {
            b"Send" => Some((true, record.root)),
            b"Recv" => Some((false, record.root)),
            _ => None,
        };
        let key = (record.member, peer);
        let next = self.sequences.len() as u32;
        let at = *self.sequence_of.entry(key).or_insert(next);
        if at == next {
            self.sequences.push((key, 0));
        }
        let (_, calls) = &mut self.sequences[at as usize];
        (record.sequence, record.seq) = (at, *calls);
        *calls += 1;
    }

    /// Puts the joined calls in at their slots, and turns each sequence's number of calls into
    /// the number it had before this chunk.
    pub(super) fn put_in(
        &mut self,
        joined: &[Joined],
        to: &Renumbered,
        merged: &Merged,
        seqs: &mut Seqs,
    ) {
        self.members.clone_from(&to.members);
        self.put_joined(joined);
        let key = |(member, peer): (u32, Peer), members: &[u32]| {
            let member = merged.origins.members.get(members[member as usize]);
            let process = merged.origins.places.get(member.place).process;
            (process, member.comm, member.identity, peer)
        };
        // A process whose device changed has two members for one communicator, and a joined
        // call comes in between others: then the numbers of this chunk are counted anew.
        let mut keys: Vec<SeqKey> = self
            .sequences
            .iter()
            .map(|(k, _)| key(*k, &self.members))
            .collect();
        let distinct: rustc_hash::FxHashSet<&SeqKey> = keys.iter().collect();
        if distinct.len() < keys.len() || !joined.is_empty() {
            let mut counts: FxHashMap<SeqKey, u64> = FxHashMap::default();
            for record in &mut self.list {
                let (of, _) = self.sequences[record.sequence as usize];
                let count = counts.entry(key(of, &self.members)).or_default();
                record.seq = *count;
                *count += 1;
            }
            for (key, (_, calls)) in keys.iter().zip(&mut self.sequences) {
                *calls = counts.get(key).copied().unwrap_or(0);
            }
        }
        // Sequences of one key have one number before, and advance it once.
        for (key, (_, calls)) in keys.drain(..).zip(&mut self.sequences) {
            let before = seqs.entry(key).or_default();
            let here = std::mem::replace(calls, before.now);
            before.next = before.now + here;
        }
        for (of, _) in &self.sequences {
            if let Some(seq) = seqs.get_mut(&key(*of, &self.members)) {
                seq.now = seq.next;
            }
        }
    }

    fn put_joined(&mut self, joined: &[Joined]) {
        for call in joined.iter().rev() {
            let Some((coll, tid, time)) = call.call() else {
                continue;
            };
            let slot = self.slots.get(call.slot as usize);
            let (at, gap) = slot.copied().unwrap_or((0, 0));
            let member = self.members.len() as u32;
            self.members.push(call.member);
            let mut record = self.record(
                &Call {
                    coll,
                    member,
                    tid,
                    time: b"",
                },
                gap,
            );
            self.number(&mut record);
            if !time.is_empty() {
                let from = (self.len + self.times.len()) as u32;
                self.times.extend_from_slice(time);
                record.time = (from, from + time.len() as u32);
            }
            self.list.insert(at, record);
        }
    }

    pub(super) fn write(
        &self,
        bytes: &[u8],
        gap: usize,
        merged: &Merged,
        who: (&Merged, &[u32]),
        timeline: &Timeline,
        mut sink: impl FnMut(&Row<'_>),
    ) {
        for r in &self.list {
            let member = self.members[r.member as usize];
            let member = merged.origins.members.get(member);
            let place = merged.origins.places.get(member.place);
            let real = who
                .1
                .get(place.process as usize)
                .copied()
                .unwrap_or(place.process);
            let process = merged.origins.processes.get(real);
            let identity = merged
                .identity_of(member)
                .or_else(|| who.0.sole_identity(place.process, real, member.comm));
            let op = self.ops.name(r.op);
            let (from, until) = (r.time.0 as usize, r.time.1 as usize);
            let time = if from >= self.len {
                &self.times[from - self.len..until - self.len]
            } else {
                &bytes[from..until]
            };
            sink(&Row {
                step: timeline.step_of(gap + r.gap as usize).map(|s| s.step),
                time,
                host: &process.host,
                pid: process.pid,
                tid: r.tid,
                dev: place.dev,
                rank: identity.map(|i| i.rank),
                nranks: member.nranks,
                comm: Some(member.comm),
                comm_id: identity.and_then(|i| i.comm_id),
                seq: Some(self.sequences[r.sequence as usize].1 + r.seq),
                op_count: Some(r.op_count),
                op,
                count: r.count,
                datatype: Some(Datatype(r.datatype)),
                redop: has_redop(op).then_some(RedOp(r.redop)),
                root: has_root(op).then_some(r.root),
                stream: Some(r.stream),
                calls: 1,
                src: b"log",
                ..Row::default()
            });
        }
    }
}
