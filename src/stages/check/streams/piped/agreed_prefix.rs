//! The calls up to which the members of each communicator agree, while a pipe is read: they are not read again.
//!
//! If streams differ, the block in which they begin to differ and the block before it are read again
//! ([`WantedCalls`](crate::stages::check::streams::reread::WantedCalls)): these are *pinned*, and later calls are
//! not needed. An equal block is read again only if a communicator of the same kind differs in that block. So
//! communicators that begin with the same block drop their calls together.
//!
//! A communicator with missing members keeps all its calls: logs of ranks may follow each other in one pipe. If
//! too much is held, its calls are dropped as well ([`AgreedPrefix::stop_waiting`]), and may be missing later.

use super::super::limits::{
    MARGIN_BLOCKS, MAX_IDLE_LOOKS, MAX_PINS_PER_STREAM, MAX_RANKS_TO_ASK_KIND,
};
use super::super::wanted_streams::calls_around_block;
use super::super::{CALLS_PER_HASH_BLOCK, CallStream, CallStreams, ProcessComm, StreamKind};
use crate::members::comm_id::CommId;
use crate::members::{CommIdentity, MergedMembers};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::ops::Range;

/// The calls up to which streams agree.
#[derive(Debug, Default)]
pub(super) struct AgreedPrefix {
    /// Streams that lines name.
    named: Vec<StreamGroup>,
    /// Other streams.
    unnamed: Vec<StreamGroup>,
    /// The streams in `unnamed`.
    classed: FxHashSet<u32>,
    /// The numbers of callers and streams when `named` was made.
    made_of: (usize, usize),
    /// Kept calls by stream.
    keep: Vec<KeptStreamRange>,
    /// True if too much is held.
    gives_up: bool,
}

/// Calls of a stream that may be read again.
#[derive(Debug, Clone, Default)]
struct KeptStreamRange {
    /// Calls from this number on.
    from: u64,
    /// Further calls.
    pins: Vec<Range<u64>>,
}

/// Streams that must be equal.
#[derive(Debug)]
struct StreamGroup {
    streams: Vec<u32>,
    kind: StreamGroupKind,
    /// The ranks of a communicator that others of its kind may resemble, or 0.
    ranks: usize,
    /// Whole blocks that all have and that were compared.
    agreed: usize,
    /// True if they differ.
    parted: bool,
    /// The most calls of a stream at the last look, and the looks since they rose.
    calls: u64,
    idle: u32,
}

/// How a group is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamGroupKind {
    /// All streams are there.
    Whole,
    /// Other streams may come.
    Open,
    /// The streams have nothing to compare with.
    Free,
}

impl AgreedPrefix {
    /// True if a call of a stream may be read again.
    pub(super) fn may_be_wanted(&self, stream: u32, seq: u64) -> bool {
        let keep = self.keep.get(stream as usize);
        keep.is_none_or(|keep| seq >= keep.from || keep.pins.iter().any(|pin| pin.contains(&seq)))
    }

    /// Counts those of a stream's first `calls` calls that may be read again.
    pub(super) fn count_kept_calls(&self, stream: u32, calls: u64) -> u64 {
        let Some(keep) = self.keep.get(stream as usize) else {
            return calls;
        };
        let pins = keep
            .pins
            .iter()
            .map(|pin| pin.end.min(calls).saturating_sub(pin.start));
        calls.saturating_sub(keep.from) + pins.sum::<u64>()
    }

    /// Stops to wait for missing members.
    pub(super) fn stop_waiting(&mut self) {
        self.gives_up = true;
    }

    /// Compares the blocks that came since the last look.
    pub(super) fn compare_new_blocks(&mut self, streams: &CallStreams, merged: &MergedMembers) {
        let made_of = (streams.callers.items().len(), streams.list.len());
        if self.made_of != made_of {
            self.made_of = made_of;
            self.named = group_named_streams(streams);
            // Forgotten blocks were equal.
            let gone = |group: &StreamGroup| {
                group
                    .iter_streams(streams)
                    .map(|own| own.hashed.blocks.forgotten_count())
                    .max()
            };
            for group in &mut self.named {
                group.agreed = gone(group).unwrap_or(0);
            }
        }
        self.keep
            .resize(streams.list.len(), KeptStreamRange::default());
        self.group_unnamed_streams(streams, merged);
        let mut parted = Vec::new();
        for group in &mut self.named {
            if let Some(block) = group.compare_blocks(streams) {
                parted.push((group.size_and_first_block(streams), block));
                pin_around_block(&mut self.keep, &group.streams, block);
            }
        }
        let mut more = Vec::new();
        for group in &mut self.unnamed {
            group.split_by_block(streams, &mut more, |streams, block| {
                pin_around_block(&mut self.keep, streams, block);
            });
        }
        self.unnamed.append(&mut more);
        // Communicators of the same kind show which call is usual there.
        for (first, block) in parted {
            let is_like = |group: &&StreamGroup| {
                first.is_some() && group.size_and_first_block(streams) == first
            };
            for group in self.named.iter().filter(is_like) {
                pin_around_block(&mut self.keep, &group.streams, block);
            }
        }
        self.update_kept_ranges(streams);
    }

    /// Forgets the hashes of blocks that are equal in all streams of a named group.
    pub(super) fn drop_agreed_hashes(&self, streams: &mut [CallStream]) {
        let whole = |group: &&StreamGroup| group.kind == StreamGroupKind::Whole && !group.parted;
        for group in self.named.iter().filter(whole) {
            for &stream in &group.streams {
                if let Some(stream) = streams.get_mut(stream as usize) {
                    drop(
                        stream
                            .hashed
                            .blocks
                            .forget_before(group.agreed.saturating_sub(1)),
                    );
                }
            }
        }
    }

    /// Sets the first call that each stream keeps.
    fn update_kept_ranges(&mut self, streams: &CallStreams) {
        let own = |stream: u32| {
            streams
                .list
                .get(stream as usize)
                .map_or(0, |own| own.hashed.blocks.len())
        };
        for (keep, stream) in self.keep.iter_mut().zip(0..) {
            let blocks = match self.gives_up {
                true => own(stream).saturating_sub(MARGIN_BLOCKS),
                false => 0,
            };
            keep.from = blocks as u64 * CALLS_PER_HASH_BLOCK;
        }
        let alike = blocks_agreed_by_alike(&self.named, streams);
        for group in self.named.iter().chain(&self.unnamed) {
            let together = group
                .size_and_first_block(streams)
                .and_then(|first| alike.get(&first));
            let agreed = together.map_or(group.agreed, |&all| all.min(group.agreed));
            for &stream in &group.streams {
                let blocks = match group.kind {
                    StreamGroupKind::Whole => agreed.saturating_sub(1),
                    StreamGroupKind::Free => own(stream).saturating_sub(MARGIN_BLOCKS),
                    StreamGroupKind::Open => continue,
                };
                let keep = &mut self.keep[stream as usize];
                keep.from = keep.from.max(blocks as u64 * CALLS_PER_HASH_BLOCK);
            }
        }
    }

    /// Groups unnamed streams that begin alike, once all ranks of the largest communicator are there: then no
    /// member of a group is missing.
    fn group_unnamed_streams(&mut self, streams: &CallStreams, merged: &MergedMembers) {
        let is_unnamed = |caller: u32| !has_comm_id(streams.callers.get(caller));
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
            let first = streams.list[stream as usize].hashed.begin;
            if let Some(first) = first.filter(|_| is_unnamed(caller))
                && self.classed.insert(stream)
            {
                new.entry(first).or_default().push(stream);
                pin_around_block(&mut self.keep, &[stream], 0);
            }
        }
        for (first, mut list) in new {
            list.sort_unstable();
            let is_it = |group: &&mut StreamGroup| {
                let own = group
                    .streams
                    .first()
                    .and_then(|&own| streams.list[own as usize].hashed.begin);
                group.agreed <= 1 && own == Some(first)
            };
            match self.unnamed.iter_mut().find(is_it) {
                Some(group) => group.streams.extend(list),
                None => self
                    .unnamed
                    .push(StreamGroup::new(list, StreamGroupKind::Whole, 0)),
            }
        }
    }
}

/// Keeps the calls that are read again if streams begin to differ in a block.
fn pin_around_block(keep: &mut [KeptStreamRange], streams: &[u32], block: usize) {
    let pin = calls_around_block(block as u64);
    for &stream in streams {
        if let Some(keep) = keep.get_mut(stream as usize)
            && keep.pins.len() < MAX_PINS_PER_STREAM
            && !keep.pins.contains(&pin)
        {
            keep.pins.push(pin.clone());
        }
    }
}

/// True if lines name the id of a caller's communicator.
fn has_comm_id(caller: &ProcessComm) -> bool {
    caller.identity.is_some_and(|known| known.comm_id.is_some())
}

/// The blocks up to which all small communicators agree that begin with one block, by size and that block.
/// Idle communicators do not count.
fn blocks_agreed_by_alike(
    groups: &[StreamGroup],
    streams: &CallStreams,
) -> FxHashMap<(usize, u64), usize> {
    let mut alike: FxHashMap<(usize, u64), usize> = FxHashMap::default();
    for group in groups.iter().filter(|group| group.idle < MAX_IDLE_LOOKS) {
        if let Some(first) = group.size_and_first_block(streams) {
            let least = alike.entry(first).or_insert(group.agreed);
            *least = group.agreed.min(*least);
        }
    }
    alike
}

impl StreamGroup {
    fn new(streams: Vec<u32>, kind: StreamGroupKind, ranks: usize) -> StreamGroup {
        StreamGroup {
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
    fn iter_streams<'s>(
        &'s self,
        streams: &'s CallStreams,
    ) -> impl Iterator<Item = &'s CallStream> + 's {
        let all = self.streams.iter();
        all.filter_map(|&stream| streams.list.get(stream as usize))
    }

    /// Its size and its first block, if communicators of its kind are compared.
    fn size_and_first_block(&self, streams: &CallStreams) -> Option<(usize, u64)> {
        let block = self.iter_streams(streams).next()?.hashed.begin;
        let block = block.filter(|_| (1..=MAX_RANKS_TO_ASK_KIND).contains(&self.ranks));
        block.map(|block| (self.ranks, block))
    }

    /// Whether the next block is equal in all streams, if all have it.
    fn is_next_block_equal(&self, streams: &CallStreams) -> Option<bool> {
        let mut blocks = self
            .iter_streams(streams)
            .map(|stream| stream.hashed.blocks.get(self.agreed));
        let first = blocks.next()??;
        let mut is_same = true;
        for block in blocks {
            is_same &= block? == first;
        }
        Some(is_same)
    }

    /// Compares the new blocks, and returns the first that differs, once.
    fn compare_blocks(&mut self, streams: &CallStreams) -> Option<usize> {
        let most = self
            .iter_streams(streams)
            .map(|stream| stream.hashed.calls)
            .max()
            .unwrap_or(0);
        self.idle = match most == self.calls {
            true => self.idle.saturating_add(1),
            false => 0,
        };
        self.calls = most;
        let mut parted = None;
        while self.kind == StreamGroupKind::Whole
            && let Some(is_same) = self.is_next_block_equal(streams)
        {
            if !is_same && !self.parted {
                self.parted = true;
                parted = Some(self.agreed);
            }
            self.agreed += 1;
        }
        parted
    }

    /// Compares the new blocks of unnamed streams. If they differ, the streams are several groups from there on:
    /// this one, and those that go to `more`.
    fn split_by_block(
        &mut self,
        streams: &CallStreams,
        more: &mut Vec<StreamGroup>,
        mut parted: impl FnMut(&[u32], usize),
    ) {
        while let Some(is_same) = self.is_next_block_equal(streams) {
            if !is_same {
                parted(&self.streams, self.agreed);
                let mut parts: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
                for &stream in &self.streams {
                    let block = streams.list[stream as usize].hashed.blocks.get(self.agreed);
                    parts
                        .entry(block.copied().unwrap_or(0))
                        .or_default()
                        .push(stream);
                }
                let mut parts = parts.into_values();
                self.streams = parts.next().unwrap_or_default();
                more.extend(parts.map(|part| StreamGroup {
                    agreed: self.agreed + 1,
                    ..StreamGroup::new(part, StreamGroupKind::Whole, 0)
                }));
            }
            self.agreed += 1;
        }
    }
}

/// Groups streams by the communicators that INIT lines name.
fn group_named_streams(streams: &CallStreams) -> Vec<StreamGroup> {
    let mut members: FxHashMap<(CommId, u32), Vec<(u32, u32)>> = FxHashMap::default();
    let mut order = Vec::new();
    for (caller, who) in (0..).zip(streams.callers.items()) {
        let Some(CommIdentity {
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
        // If two callers have one rank, the owner of its calls is unknown.
        if own.windows(2).all(|two| two[0].0 != two[1].0) {
            add_groups_of_communicator(&own, key.1, streams, &mut groups);
        }
    }
    groups
}

/// Adds the groups of a communicator; `own` has the rank and the caller of its known members.
fn add_groups_of_communicator(
    own: &[(u32, u32)],
    nranks: u32,
    streams: &CallStreams,
    groups: &mut Vec<StreamGroup>,
) {
    let is_whole = own.len() == nranks as usize;
    let number = |caller: u32, way: StreamKind| streams.at.get(&(caller, way)).copied();
    let collectives: Vec<u32> = own
        .iter()
        .filter_map(|&(_, caller)| number(caller, StreamKind::Collective))
        .collect();
    if !collectives.is_empty() {
        let kind = match collectives.len() == nranks as usize {
            _ if nranks == 1 => StreamGroupKind::Free,
            true => StreamGroupKind::Whole,
            false => StreamGroupKind::Open,
        };
        groups.push(StreamGroup::new(collectives, kind, nranks as usize));
    }
    for &(rank, caller) in own {
        for &way in streams.kinds_of_caller(caller) {
            let (peer, other) = match way {
                StreamKind::Collective => continue,
                StreamKind::Send(peer) => (peer, StreamKind::Recv(rank.into())),
                StreamKind::Recv(peer) => (peer, StreamKind::Send(rank.into())),
            };
            let Some(stream) = number(caller, way) else {
                continue;
            };
            let peer = u32::try_from(peer).ok().filter(|&peer| peer < nranks);
            let at = peer.and_then(|peer| own.binary_search_by_key(&peer, |m| m.0).ok());
            let other = at.and_then(|at| number(own[at].1, other));
            let (list, kind) = match (peer, other) {
                (None, _) => (vec![stream], StreamGroupKind::Free),
                (_, None) => (vec![stream], StreamGroupKind::Open),
                _ if !is_whole => (vec![stream], StreamGroupKind::Open),
                // The sender's stream adds the pair.
                (_, Some(other)) if matches!(way, StreamKind::Send(_)) => {
                    (vec![stream, other], StreamGroupKind::Whole)
                }
                _ => continue,
            };
            groups.push(StreamGroup::new(list, kind, 0));
        }
    }
}
