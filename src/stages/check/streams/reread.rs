//! Stretches of streams, read again: what the calls are and where they stand.

use super::piped::Piped;
use super::step_ends::{StepEnds, Steps};
use super::{Caller, Streams, Way, caller, way};
use crate::count::calls::Options;
use crate::error::Result;
use crate::grammar::coll::Coll;
use crate::log;
use crate::log::placement::Recorder;
use crate::log::walk::{Call, Torn, Visit, put_in};
use crate::members::Ops;
use crate::members::{Identity, Merged, Process};
use crate::source::Input;
use crate::stages::check::log::job_spans::Silence;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::ops::Range;

/// A call of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Detail {
    /// Its number in the stream.
    pub(crate) seq: u64,
    /// Its number among all of the process's calls on the communicators that are read.
    pub(crate) nth: u64,
    /// The operation.
    pub(crate) op: Box<[u8]>,
    /// Elements.
    pub(crate) count: u64,
    /// The datatype's code.
    pub(crate) datatype: u32,
    /// The reduction's code.
    pub(crate) redop: u64,
    /// The root, or the peer.
    pub(crate) root: i64,
    /// The input.
    pub(crate) input: u32,
    /// Its line's first byte.
    pub(crate) at: u64,
    /// The number that NCCL gave it; all 0 in some versions.
    pub(crate) op_count: u64,
    /// It was put together from pieces: another call's line stands between them, and which of the
    /// two was made first is not known.
    pub(crate) joined: bool,
}

/// Which calls of which streams; ranges in order.
pub(crate) type Wanted = FxHashMap<(Caller, Way), Vec<Range<u64>>>;

/// A stream as it is known in every walk: a walk's own numbers mean nothing in another.
type Name = (Process, u64, Option<Identity>, Way);

/// Reads the calls of the streams in `wanted` again. `open` opens an input by its number; `inputs`
/// are those to read, in order: all that the streams' processes have lines in. Of those that came through
/// a pipe `piped` has what was kept. `silence` hears of every call.
///
/// # Errors
/// An input cannot be read.
pub(crate) fn again(
    wanted: &Wanted,
    processes: &[Process],
    inputs: impl Iterator<Item = u32>,
    open: impl Fn(u32) -> Result<Input>,
    (options, all, piped): (&Options, &Streams, &BTreeMap<u32, Piped>),
    (silence, mut ends): (&mut Silence, Option<&mut StepEnds>),
) -> Result<FxHashMap<(Caller, Way), Vec<Detail>>> {
    let name = |(caller, way): &(Caller, Way)| -> Name {
        let process = processes[caller.process as usize].clone();
        (process, caller.comm, caller.identity, *way)
    };
    let mut streams: Vec<Stretch> = Vec::with_capacity(wanted.len());
    let mut index: FxHashMap<Name, usize> = FxHashMap::default();
    for (key, ranges) in wanted {
        index.insert(name(key), streams.len());
        streams.push(Stretch::of(ranges));
    }
    let place = |(&(caller, way), &stream): (&(u32, Way), &u32)| {
        let at = index.get(&name(&(*all.callers.get(caller), way)))?;
        Some((stream, *at))
    };
    let which: FxHashMap<u32, usize> = match piped.is_empty() {
        true => FxHashMap::default(),
        false => all.at.iter().filter_map(place).collect(),
    };
    // Who has any is found by the address, before anything of a name is looked at.
    let comms: FxHashSet<u64> = wanted.keys().map(|(caller, _)| caller.comm).collect();
    let mut merged = Merged::after_names(processes);
    // How many calls each process made.
    let mut made: FxHashMap<u32, u64> = FxHashMap::default();
    // The stream of a merged member's calls of a way, if it is wanted.
    let mut known: FxHashMap<(u32, Way), Option<usize>> = FxHashMap::default();
    for number in inputs {
        if let Some(piped) = piped.get(&number) {
            let streams = (&which, &mut streams[..]);
            piped.again(number, streams, &mut made, (silence, ends.as_deref_mut()))?;
            continue;
        }
        let input = open(number)?;
        let mut steps = ends.is_some().then(|| Steps::new(options));
        let recorder = || ends.is_some().then(Recorder::default);
        let log = log::read(
            &input,
            &options.log,
            &mut merged,
            || (Calls::new(Some(&comms)), recorder()),
            |_| {},
            |part| {
                let ((Calls { ops, list, .. }, recorder), part) = part.taken();
                if let (Some(steps), Some(recorder)) = (&mut steps, recorder) {
                    steps.add(recorder, &part);
                }
                for call in &list {
                    let coll = call.coll(ops.name(call.op));
                    let member = part.to.members[call.member as usize];
                    let Some(way) = way(&coll) else { continue };
                    let stream = *known.entry((member, way)).or_insert_with(|| {
                        let name = name_of(member, way, part.merged);
                        index.get(&name).copied()
                    });
                    if let Some(stream) = stream {
                        let member = part.merged.origins.members.get(member);
                        let process = part.merged.origins.places.get(member.place).process;
                        let nth = made.entry(process).or_default();
                        streams[stream].push(|| Detail {
                            joined: call.joined,
                            ..Detail::of(&coll, (number, call.at), *nth)
                        });
                        *nth += 1;
                        silence.call(process, number);
                    }
                }
                Ok(())
            },
        )?;
        if let (Some(steps), Some(ends)) = (steps, &mut ends) {
            steps.end((number, &log), &merged, ends);
        }
    }
    let kept = streams.into_iter().map(Stretch::kept);
    Ok(wanted.keys().copied().zip(kept).collect())
}

/// What a merged member's stream is called in every walk.
fn name_of(member: u32, way: Way, merged: &Merged) -> Name {
    let Caller {
        process,
        comm,
        identity,
    } = caller(member, merged);
    let process = merged.origins.processes.get(process).clone();
    (process, comm, identity, way)
}

impl Detail {
    fn of(coll: &Coll<'_>, (input, at): (u32, u64), nth: u64) -> Detail {
        Detail {
            seq: 0,
            nth,
            op: coll.op.into(),
            count: coll.count,
            datatype: coll.datatype,
            redop: coll.redop,
            root: coll.root,
            input,
            at,
            op_count: coll.op_count,
            joined: false,
        }
    }
}

/// A stream as it is read: how far it is, and what of it is kept.
#[derive(Debug, Default)]
pub(super) struct Stretch {
    ranges: Vec<Range<u64>>,
    calls: u64,
    kept: Vec<Detail>,
}

impl Stretch {
    fn of(ranges: &[Range<u64>]) -> Stretch {
        Stretch {
            ranges: ranges.to_vec(),
            ..Stretch::default()
        }
    }

    fn push(&mut self, call: impl FnOnce() -> Detail) {
        let seq = self.calls;
        self.calls += 1;
        self.put(seq, call);
    }

    /// Takes the call of this number.
    pub(super) fn put(&mut self, seq: u64, call: impl FnOnce() -> Detail) {
        if self.ranges.iter().any(|range| range.contains(&seq)) {
            self.kept.push(Detail { seq, ..call() });
        }
    }

    /// So many calls were made by now.
    pub(super) fn went_on(&mut self, calls: u64) {
        self.calls = calls;
    }

    /// What was kept, in order: calls that were put together from pieces may have come late.
    fn kept(mut self) -> Vec<Detail> {
        self.kept.sort_by_key(|call| call.seq);
        self.kept
    }
}

/// A chunk's calls, all or on some addresses.
pub(crate) struct Calls<'w> {
    comms: Option<&'w FxHashSet<u64>>,
    pub(super) ops: Ops,
    pub(super) list: Vec<Small>,
    /// How many there were before each slot.
    slots: Vec<usize>,
}

/// A call, small.
pub(super) struct Small {
    pub(super) member: u32,
    pub(super) op: u32,
    pub(super) count: u64,
    pub(super) datatype: u32,
    pub(super) redop: u64,
    pub(super) root: i64,
    pub(super) at: u64,
    pub(super) op_count: u64,
    pub(super) joined: bool,
}

impl Small {
    pub(super) fn coll<'o>(&self, op: &'o [u8]) -> Coll<'o> {
        Coll {
            op,
            op_count: self.op_count,
            count: self.count,
            datatype: self.datatype,
            redop: self.redop,
            root: self.root,
            comm: 0,
            nranks: None,
            stream: 0,
        }
    }
}

impl<'w> Calls<'w> {
    pub(crate) fn new(comms: Option<&'w FxHashSet<u64>>) -> Self {
        Calls {
            comms,
            ops: Ops::default(),
            list: Vec::new(),
            slots: Vec::new(),
        }
    }
}

impl Calls<'_> {
    /// A call, if it is on one of the addresses.
    fn small(&mut self, call: &Call<'_>, joined: bool) -> Option<Small> {
        let coll = &call.coll;
        let is_wanted = self.comms.is_none_or(|comms| comms.contains(&coll.comm));
        is_wanted.then(|| Small {
            member: call.member,
            op: self.ops.intern(coll.op).0,
            count: coll.count,
            datatype: coll.datatype,
            redop: coll.redop,
            root: coll.root,
            at: call.at,
            op_count: coll.op_count,
            joined,
        })
    }
}

impl Visit for Calls<'_> {
    fn call(&mut self, call: &Call<'_>) {
        let small = self.small(call, false);
        self.list.extend(small);
    }

    fn slot(&mut self) {
        self.slots.push(self.list.len());
    }

    fn torn(&mut self, calls: &[Torn<'_>]) {
        let mut torn = Vec::new();
        for Torn { slot, call, .. } in calls {
            let at = self.slots.get(*slot as usize).copied();
            let at = at.unwrap_or(self.list.len());
            torn.extend(self.small(call, true).map(|small| (at, small)));
        }
        put_in(&mut self.list, torn);
    }
}
