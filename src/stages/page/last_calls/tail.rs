//! The last calls of each rank, of those that the walk keeps.

use crate::calls::same::{Content, StreamKind};
use crate::count::calls::CountedCalls;
use crate::members::Interner;
use crate::stages::check::ranks::names::{RankNames, describe_content};
use crate::stages::check::ranks::unmet_calls::SideCallPlace;
use crate::stages::check::streams::CallStreams;
use crate::stages::check::streams::last_steps::list_calls_from_end;
use crate::stages::check::walk::CheckGathered;
use crate::stages::communicators::{CommunicatorsSummary, JobGpu, gpu_of_side};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt::Write as _;

/// A call of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TailCall {
    pub(super) communicator: usize,
    pub(super) place: SideCallPlace,
    /// The mark of its content.
    pub(super) mark: u64,
    /// The trainer's step.
    pub(super) step: Option<u64>,
}

impl TailCall {
    /// The call as it is in words: the same for all ranks that make it.
    pub(super) fn without_side(self) -> TailCall {
        let place = SideCallPlace {
            side: 0,
            ..self.place
        };
        TailCall { place, ..self }
    }

    /// The operation of a message, and its peer.
    fn message(&self) -> (&'static [u8], i64) {
        match self.place.way {
            StreamKind::Collective => (b"collective", 0),
            StreamKind::Send(to) => (b"Send", to),
            StreamKind::Recv(from) => (b"Recv", from),
        }
    }
}

/// Where a caller's calls belong.
#[derive(Debug, Clone, Copy)]
struct CallerPlace {
    communicator: usize,
    side: usize,
}

/// What was gathered, by side.
pub(super) struct SideCalls<'a> {
    pub(super) found: &'a CommunicatorsSummary,
    streams: &'a CallStreams,
    places: Vec<Option<CallerPlace>>,
    callers_of_side: FxHashMap<usize, Vec<u32>>,
    /// Processes with communicators on several devices: each device is a rank.
    split: FxHashSet<u32>,
    /// By communicator: calls of different ranks with one number are one call.
    shared: Vec<bool>,
    /// The communicators in words: thousands of calls name them.
    names: Vec<String>,
}

impl<'a> SideCalls<'a> {
    pub(super) fn new(found: &'a CommunicatorsSummary, streams: &'a CallStreams) -> SideCalls<'a> {
        let mut of_side: FxHashMap<usize, usize> = FxHashMap::default();
        for (at, communicator) in found.communicators.iter().enumerate() {
            of_side.extend(communicator.sides.iter().map(|&side| (side, at)));
        }
        let mut callers_of_side: FxHashMap<usize, Vec<u32>> = FxHashMap::default();
        let mut places = Vec::new();
        for (caller, member) in (0..).zip(&streams.member) {
            let side = found.side_of.get(member).copied();
            let place = side.and_then(|side| {
                let communicator = *of_side.get(&side)?;
                callers_of_side.entry(side).or_default().push(caller);
                Some(CallerPlace { communicator, side })
            });
            places.push(place);
        }
        let mut devices: FxHashMap<u32, FxHashSet<u32>> = FxHashMap::default();
        for side in &found.sides {
            devices.entry(side.process).or_default().extend(side.dev);
        }
        let split = devices.into_iter().filter(|(_, devices)| devices.len() > 1);
        let names = RankNames { found };
        let all = 0..found.communicators.len();
        // If the first calls of all members are there, equal numbers are the same call.
        let begins = |side: &usize| {
            let mut callers = callers_of_side.get(side).into_iter().flatten();
            callers.all(|&caller| streams.begins_at_first_call(caller))
        };
        let communicators = found.communicators.iter();
        SideCalls {
            shared: communicators
                .map(|of| of.sides.iter().all(begins))
                .collect(),
            names: all.map(|at| names.describe_communicator(at)).collect(),
            found,
            streams,
            places,
            callers_of_side,
            split: split.map(|(process, _)| process).collect(),
        }
    }

    /// The rank that a side belongs to.
    pub(super) fn gpu_of(&self, side: usize) -> JobGpu {
        let (process, device) = gpu_of_side(&self.found.sides[side]);
        (process, device.filter(|_| self.split.contains(&process)))
    }

    /// Counts a side's calls of a kind, up to the hang.
    pub(super) fn count_made(&self, side: usize, way: StreamKind) -> u64 {
        let callers = self.callers_of_side.get(&side).into_iter().flatten();
        let streams = callers.filter_map(|&caller| self.streams.at.get(&(caller, way)));
        let made = streams.map(|&stream| self.streams.calls_until_hang(stream));
        made.max().unwrap_or(0)
    }

    /// True if calls of different ranks with one number are one call.
    pub(super) fn is_shared(&self, communicator: usize) -> bool {
        self.shared[communicator]
    }

    /// Returns the members that have not made their part of the call.
    pub(super) fn list_absent_sides(&self, call: &TailCall) -> Vec<usize> {
        let rank = |side: usize| self.found.sides[side].rank.map(i64::from);
        let own = rank(call.place.side);
        let part = |side: usize| match call.place.way {
            StreamKind::Send(to) if rank(side) == Some(to) => Some(StreamKind::Recv(own?)),
            StreamKind::Recv(from) if rank(side) == Some(from) => Some(StreamKind::Send(own?)),
            StreamKind::Collective => Some(StreamKind::Collective),
            StreamKind::Send(_) | StreamKind::Recv(_) => None,
        };
        let members = &self.found.communicators[call.communicator].sides;
        let is_absent = |side: &usize| {
            part(*side).is_some_and(|way| self.count_made(*side, way) <= call.place.seq)
        };
        members.iter().copied().filter(is_absent).collect()
    }

    /// Lists the last calls of each rank in order, the last `most`; the ranks are in no order.
    pub(super) fn list_last_calls(
        &self,
        seen: &CheckGathered,
        most: usize,
    ) -> Vec<(JobGpu, Vec<TailCall>)> {
        let mut gpus: Interner<JobGpu> = Interner::default();
        let places = self.places.iter().map(|place| {
            let place = (*place)?;
            Some((place, gpus.intern(self.gpu_of(place.side)) as usize))
        });
        let places: Vec<Option<(CallerPlace, usize)>> = places.collect();
        let mut ranks = vec![Vec::new(); gpus.items().len()];
        for placed in list_calls_from_end(self.streams) {
            let Some((place, rank)) = places[placed.caller as usize] else {
                continue;
            };
            let calls: &mut Vec<TailCall> = &mut ranks[rank];
            if calls.len() < most {
                calls.push(TailCall {
                    communicator: place.communicator,
                    place: SideCallPlace {
                        side: place.side,
                        way: placed.way,
                        seq: placed.call.seq,
                    },
                    mark: placed.call.mark,
                    step: seen.last_steps.step_of(&placed),
                });
            }
        }
        ranks.iter_mut().for_each(|calls| calls.reverse());
        let ranks = gpus.into_items().into_iter().zip(ranks);
        ranks.filter(|(_, calls)| !calls.is_empty()).collect()
    }
}

/// The words for calls, by the marks of their contents.
pub(super) struct CallWords<'a> {
    of: FxHashMap<u64, Content<'a>>,
}

impl<'a> CallWords<'a> {
    /// Learns the words from all calls, counted with everything that a mark distinguishes.
    pub(super) fn new(counted: &'a CountedCalls) -> CallWords<'a> {
        let mut of = FxHashMap::default();
        for key in counted.cells.keys() {
            let content = Content {
                op: counted.ops.name_of_op(key.op),
                count: key.size,
                datatype: u32::try_from(key.datatype).unwrap_or(u32::MAX),
                redop: key.redop.min(5),
                root: key.root,
            };
            let message = Content {
                op: b"",
                redop: 0,
                root: 0,
                ..content
            };
            of.insert(content.mark(), content);
            of.entry(message.mark()).or_insert(message);
        }
        CallWords { of }
    }

    /// `AllReduce of 1024 fp32 sum`, `Send of 5 int64`.
    pub(super) fn describe(&self, call: &TailCall) -> String {
        let (op, _) = call.message();
        match (self.of.get(&call.mark), call.place.way) {
            (Some(content), StreamKind::Collective) => describe_content(content),
            (Some(&content), _) => describe_content(&Content { op, ..content }),
            (None, _) => String::from_utf8_lossy(op).into_owned(),
        }
    }

    /// As [`CallWords::describe`], with the peer of a message and the communicator: `Send of 5 int64 to rank 44, call 157 of
    /// 0x5aa5 (tensor, 8 ranks)`.
    pub(super) fn describe_in_communicator(
        &self,
        call: &TailCall,
        sides: &SideCalls<'_>,
    ) -> String {
        let names = RankNames { found: sides.found };
        let (op, peer) = call.message();
        let (seq, communicator) = (call.place.seq, &sides.names[call.communicator]);
        let mut text = self.describe(call);
        text += &names.describe_peer(op, call.communicator, peer);
        let _ = write!(text, ", call {seq} of {communicator}");
        text
    }
}
