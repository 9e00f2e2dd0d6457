//! How far the members of each communicator agree, while a log is read: the calls before that will not be
//! asked for again.
//!
//! Where streams differ, the block in which they begin to is read again, and the block before it
//! ([`Wanted`](crate::stages::check::streams::reread::Wanted)): these are *pinned*, and what comes behind them
//! is not asked for. Whole blocks that are the same for all are only read where a communicator of the same
//! kind differs in the same block: so those whose calls begin alike let go of their calls together.
//!
//! Nothing is let go of a communicator whose members have not all come: the logs of ranks may follow each
//! other in one pipe. Only where too much is held would that grow with the log; then it is let go
//! ([`Agreed::give_up`]), and what is asked for later may be missing.

use super::super::{BLOCK, Caller, Stream, Streams, Way};
use crate::members::comm_id::CommId;
use crate::members::{Identity, Merged};
use crate::stages::check::ranks::mismatch::AHEAD;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::ops::Range;

/// Of calls that are compared with nothing so many blocks are kept, and where it was given up to wait: no rank
/// is further ahead of the others than CUDA's queue of launches is long.
const MARGIN: usize = 1 + 1024 / BLOCK as usize;

/// A communicator that did not make a call for so many looks does not hold others up.
const IDLE: u32 = 64;

/// Communicators of more ranks have a majority: no other is asked what is usual.
const SMALL: usize = 4;

/// Stretches of a stream that are pinned, at most.
const PINS: usize = 64;

/// How far streams agree.
#[derive(Debug, Default)]
pub(super) struct Agreed {
    /// Of those that lines name.
    named: Vec<Group>,
    /// Of the others.
    unnamed: Vec<Group>,
    /// The streams that are in one of those.
    classed: FxHashSet<u32>,
    /// The callers and the streams by which the named were made.
    made_of: (usize, usize),
    /// By stream.
    keep: Vec<Keep>,
    /// Too much is held.
    gives_up: bool,
}

/// Which calls of a stream may be asked for again.
#[derive(Debug, Clone, Default)]
struct Keep {
    /// Those from this one on.
    from: u64,
    /// And these.
    pins: Vec<Range<u64>>,
}

/// Streams that are to be the same.
#[derive(Debug)]
struct Group {
    streams: Vec<u32>,
    kind: Kind,
    /// The ranks that may make these calls, where others may be asked what is usual.
    ranks: usize,
    /// Whole blocks that all have, and that were compared.
    agreed: usize,
    /// They are known to differ.
    parted: bool,
    /// The most calls of a stream when it was last looked at, and how often that was the same.
    calls: u64,
    idle: u32,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// All of them are there.
    Whole,
    /// Others are to come, or it is not clear which.
    Open,
    /// They are compared with nothing.
    Free,
}

impl Agreed {
    /// Whether a call of a stream may be asked for again.
    pub(super) fn is_kept(&self, stream: u32, seq: u64) -> bool {
        let keep = self.keep.get(stream as usize);
        keep.is_none_or(|keep| seq >= keep.from || keep.pins.iter().any(|pin| pin.contains(&seq)))
    }

    /// How many of the first calls of a stream may be.
    pub(super) fn kept(&self, stream: u32, calls: u64) -> u64 {
        let Some(keep) = self.keep.get(stream as usize) else {
            return calls;
        };
        let pins = keep
            .pins
            .iter()
            .map(|pin| pin.end.min(calls).saturating_sub(pin.start));
        calls.saturating_sub(keep.from) + pins.sum::<u64>()
    }

    /// Does not wait for members any more that did not come.
    pub(super) fn give_up(&mut self) {
        self.gives_up = true;
    }

    /// Looks how far the streams agree by now.
    pub(super) fn look(&mut self, streams: &Streams, merged: &Merged) {
        let made_of = (streams.callers.items().len(), streams.list.len());
        if self.made_of != made_of {
            self.made_of = made_of;
            self.named = named(streams);
            // What was forgotten was the same for all.
            let gone = |group: &Group| group.all(streams).map(|own| own.blocks.gone()).max();
            for group in &mut self.named {
                group.agreed = gone(group).unwrap_or(0);
            }
        }
        self.keep.resize(streams.list.len(), Keep::default());
        self.classes(streams, merged);
        let mut parted = Vec::new();
        for group in &mut self.named {
            if let Some(block) = group.look(streams) {
                parted.push((group.first(streams), block));
                pin(&mut self.keep, &group.streams, block);
            }
        }
        let mut more = Vec::new();
        for group in &mut self.unnamed {
            group.split(streams, &mut more, |streams, block| {
                pin(&mut self.keep, streams, block);
            });
        }
        self.unnamed.append(&mut more);
        // Others may be asked what is usual there.
        for (first, block) in parted {
            let is_like = |group: &&Group| first.is_some() && group.first(streams) == first;
            for group in self.named.iter().filter(is_like) {
                pin(&mut self.keep, &group.streams, block);
            }
        }
        self.keep_from(streams);
    }

    /// Forgets the hashes of blocks that are the same in all streams that are to be the same, as lines say.
    pub(super) fn forget(&self, streams: &mut [Stream]) {
        let whole = |group: &&Group| group.kind == Kind::Whole && !group.parted;
        for group in self.named.iter().filter(whole) {
            for &stream in &group.streams {
                if let Some(stream) = streams.get_mut(stream as usize) {
                    drop(stream.blocks.forget(group.agreed.saturating_sub(1)));
                }
            }
        }
    }

    /// Sets from where on calls are kept.
    fn keep_from(&mut self, streams: &Streams) {
        let own = |stream: u32| {
            streams
                .list
                .get(stream as usize)
                .map_or(0, |own| own.blocks.len())
        };
        for (keep, stream) in self.keep.iter_mut().zip(0..) {
            let blocks = match self.gives_up {
                true => own(stream).saturating_sub(MARGIN),
                false => 0,
            };
            keep.from = blocks as u64 * BLOCK;
        }
        let alike = alike(&self.named, streams);
        for group in self.named.iter().chain(&self.unnamed) {
            let together = group.first(streams).and_then(|first| alike.get(&first));
            let agreed = together.map_or(group.agreed, |&all| all.min(group.agreed));
            for &stream in &group.streams {
                let blocks = match group.kind {
                    Kind::Whole => agreed.saturating_sub(1),
                    Kind::Free => own(stream).saturating_sub(MARGIN),
                    Kind::Open => continue,
                };
                let keep = &mut self.keep[stream as usize];
                keep.from = keep.from.max(blocks as u64 * BLOCK);
            }
        }
    }

    /// Puts streams that no line names together that begin alike, once the ranks of the largest communicator
    /// are all there: whoever makes the same calls is then among them.
    fn classes(&mut self, streams: &Streams, merged: &Merged) {
        let is_unnamed = |caller: u32| !is_named(streams.callers.get(caller));
        if !(0..)
            .zip(streams.callers.items())
            .any(|(caller, _)| is_unnamed(caller))
        {
            return;
        }
        let nranks = |&member: &u32| merged.origins.members.get(member).nranks;
        let most = streams.member.iter().filter_map(nranks).max();
        let processes: FxHashSet<u32> = streams
            .callers
            .items()
            .iter()
            .map(|who| who.process)
            .collect();
        if most != u32::try_from(processes.len()).ok() {
            return;
        }
        let mut new: FxHashMap<u64, Vec<u32>> = FxHashMap::default();
        for (&(caller, _), &stream) in &streams.at {
            let first = streams.list[stream as usize].begin;
            if let Some(first) = first.filter(|_| is_unnamed(caller))
                && self.classed.insert(stream)
            {
                new.entry(first).or_default().push(stream);
                pin(&mut self.keep, &[stream], 0);
            }
        }
        for (first, mut list) in new {
            list.sort_unstable();
            let is_it = |group: &&mut Group| {
                let own = group
                    .streams
                    .first()
                    .and_then(|&own| streams.list[own as usize].begin);
                group.agreed <= 1 && own == Some(first)
            };
            match self.unnamed.iter_mut().find(is_it) {
                Some(group) => group.streams.extend(list),
                None => self.unnamed.push(Group::new(list, Kind::Whole, 0)),
            }
        }
    }
}

/// Keeps what is read where streams begin to differ in a block.
fn pin(keep: &mut [Keep], streams: &[u32], block: usize) {
    let block = block as u64;
    let pin = block.saturating_sub(1) * BLOCK..(block + 1) * BLOCK + AHEAD;
    for &stream in streams {
        if let Some(keep) = keep.get_mut(stream as usize)
            && keep.pins.len() < PINS
            && !keep.pins.contains(&pin)
        {
            keep.pins.push(pin.clone());
        }
    }
}

/// True for a caller of whose communicator lines tell the id.
fn is_named(caller: &Caller) -> bool {
    caller.identity.is_some_and(|known| known.comm_id.is_some())
}

/// For small communicators that begin with the same block how far all of them agree, by their size and that
/// block; but for those that make no more calls.
fn alike(groups: &[Group], streams: &Streams) -> FxHashMap<(usize, u64), usize> {
    let mut alike: FxHashMap<(usize, u64), usize> = FxHashMap::default();
    for group in groups.iter().filter(|group| group.idle < IDLE) {
        if let Some(first) = group.first(streams) {
            let least = alike.entry(first).or_insert(group.agreed);
            *least = group.agreed.min(*least);
        }
    }
    alike
}

impl Group {
    fn new(streams: Vec<u32>, kind: Kind, ranks: usize) -> Group {
        Group {
            streams,
            kind,
            ranks,
            agreed: 0,
            parted: false,
            calls: 0,
            idle: 0,
        }
    }

    /// Its streams.
    fn all<'s>(&'s self, streams: &'s Streams) -> impl Iterator<Item = &'s Stream> + 's {
        let all = self.streams.iter();
        all.filter_map(|&stream| streams.list.get(stream as usize))
    }

    /// Its size and its first block, where others may be asked what is usual.
    fn first(&self, streams: &Streams) -> Option<(usize, u64)> {
        let block = self.all(streams).next()?.begin;
        let block = block.filter(|_| (1..=SMALL).contains(&self.ranks));
        block.map(|block| (self.ranks, block))
    }

    /// Whether the next block is the same for all, if all have it.
    fn next(&self, streams: &Streams) -> Option<bool> {
        let mut blocks = self
            .all(streams)
            .map(|stream| stream.blocks.get(self.agreed));
        let first = blocks.next()??;
        let mut is_same = true;
        for block in blocks {
            is_same &= block? == first;
        }
        Some(is_same)
    }

    /// Compares the blocks that came; gives the first one that differs, once.
    fn look(&mut self, streams: &Streams) -> Option<usize> {
        let most = self
            .all(streams)
            .map(|stream| stream.calls)
            .max()
            .unwrap_or(0);
        self.idle = match most == self.calls {
            true => self.idle.saturating_add(1),
            false => 0,
        };
        self.calls = most;
        let mut parted = None;
        while self.kind == Kind::Whole
            && let Some(is_same) = self.next(streams)
        {
            if !is_same && !self.parted {
                self.parted = true;
                parted = Some(self.agreed);
            }
            self.agreed += 1;
        }
        parted
    }

    /// The same of streams that begin alike: where they part they are several groups from there on, the others
    /// of which go to `more`.
    fn split(
        &mut self,
        streams: &Streams,
        more: &mut Vec<Group>,
        mut parted: impl FnMut(&[u32], usize),
    ) {
        while let Some(is_same) = self.next(streams) {
            if !is_same {
                parted(&self.streams, self.agreed);
                let mut parts: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
                for &stream in &self.streams {
                    let block = streams.list[stream as usize].blocks.get(self.agreed);
                    parts
                        .entry(block.copied().unwrap_or(0))
                        .or_default()
                        .push(stream);
                }
                let mut parts = parts.into_values();
                self.streams = parts.next().unwrap_or_default();
                more.extend(parts.map(|part| Group {
                    agreed: self.agreed + 1,
                    ..Group::new(part, Kind::Whole, 0)
                }));
            }
            self.agreed += 1;
        }
    }
}

/// The streams that are to be the same, by what INIT lines say.
fn named(streams: &Streams) -> Vec<Group> {
    let mut members: FxHashMap<(CommId, u32), Vec<(u32, u32)>> = FxHashMap::default();
    let mut order = Vec::new();
    for (caller, who) in (0..).zip(streams.callers.items()) {
        let Some(Identity {
            rank,
            nranks,
            comm_id: Some(id),
        }) = who.identity
        else {
            continue;
        };
        let own = members.entry((id, nranks)).or_default();
        if own.is_empty() {
            order.push((id, nranks));
        }
        own.push((rank, caller));
    }
    let mut groups = Vec::new();
    for key in order {
        let mut own = members.remove(&key).unwrap_or_default();
        own.sort_unstable();
        // Two with one rank: whose calls are whose is not known.
        if own.windows(2).all(|two| two[0].0 != two[1].0) {
            of_communicator(&own, key.1, streams, &mut groups);
        }
    }
    groups
}

/// The same of a communicator of so many ranks, of which these members are known: rank and caller.
fn of_communicator(own: &[(u32, u32)], nranks: u32, streams: &Streams, groups: &mut Vec<Group>) {
    let is_whole = own.len() == nranks as usize;
    let number = |caller: u32, way: Way| streams.at.get(&(caller, way)).copied();
    let collectives: Vec<u32> = own
        .iter()
        .filter_map(|&(_, caller)| number(caller, Way::Collective))
        .collect();
    if !collectives.is_empty() {
        let kind = match collectives.len() == nranks as usize {
            _ if nranks == 1 => Kind::Free,
            true => Kind::Whole,
            false => Kind::Open,
        };
        groups.push(Group::new(collectives, kind, nranks as usize));
    }
    for &(rank, caller) in own {
        for &way in streams.ways(caller) {
            let (peer, other) = match way {
                Way::Collective => continue,
                Way::Send(peer) => (peer, Way::Recv(rank.into())),
                Way::Recv(peer) => (peer, Way::Send(rank.into())),
            };
            let Some(stream) = number(caller, way) else {
                continue;
            };
            let peer = u32::try_from(peer).ok().filter(|&peer| peer < nranks);
            let at = peer.and_then(|peer| own.binary_search_by_key(&peer, |m| m.0).ok());
            let other = at.and_then(|at| number(own[at].1, other));
            let (list, kind) = match (peer, other) {
                (None, _) => (vec![stream], Kind::Free),
                (_, None) => (vec![stream], Kind::Open),
                _ if !is_whole => (vec![stream], Kind::Open),
                // Both are one pair: it is that of the side that sends.
                (_, Some(other)) if matches!(way, Way::Send(_)) => {
                    (vec![stream, other], Kind::Whole)
                }
                _ => continue,
            };
            groups.push(Group::new(list, kind, 0));
        }
    }
}
