//! Connections whose communicator is named only after them.
//!
//! Up to 2.17 NCCL prints no `Init START`: a thread connects, and then says `Init COMPLETE` of
//! which communicator. Its connections wait for that line, unless the thread has called since its
//! last INIT line and no rings or trees show that it begins to initialise another. Anything else
//! that comes first gives them back to what they would be without it.
//!
//! A chunk does not know what its threads did before: what comes before a thread's first event
//! waits for the merge ([`Waiting::lead`]).

use super::connection::{ConnectionChannels, ConnectionPath};
use super::init_line_comm::InitLineComm;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// What ends the waiting of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum InitWaitEvent {
    /// `Init COMPLETE` of a communicator that no line said to begin.
    Complete(InitLineComm),
    /// A call, or another INIT line.
    Other,
}

/// What a thread is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) enum InitThreadState {
    /// What it connects may be what it initialises.
    #[default]
    Waits,
    /// It calls.
    Calls,
}

/// Connections by owner, if nothing names another, and way; with the first line that reports each.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(bound(deserialize = "O: Deserialize<'de> + Ord, L: Deserialize<'de>"))]
pub(crate) struct PendingConnections<O, L>(BTreeMap<(O, ConnectionPath), (ConnectionChannels, L)>);

impl<O, L> Default for PendingConnections<O, L> {
    fn default() -> Self {
        PendingConnections(BTreeMap::new())
    }
}

impl<O: Ord, L: Ord + Copy> PendingConnections<O, L> {
    /// Adds channels of a way, said at `line`.
    pub(crate) fn add_channels(
        &mut self,
        owner: O,
        way: ConnectionPath,
        channels: ConnectionChannels,
        line: L,
    ) {
        match self.0.entry((owner, way)) {
            Entry::Vacant(entry) => {
                entry.insert((channels, line));
            }
            Entry::Occupied(mut entry) => {
                let known = entry.get_mut();
                known.0.extend(channels);
                known.1 = line.min(known.1);
            }
        }
    }

    /// All of them, and none is left.
    pub(crate) fn take_all(
        &mut self,
    ) -> impl Iterator<Item = (O, ConnectionPath, ConnectionChannels, L)> + use<O, L> {
        std::mem::take(&mut self.0)
            .into_iter()
            .map(|((owner, way), (channels, line))| (owner, way, channels, line))
    }
}

/// A thread's connections that wait, in a chunk.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound(deserialize = "O: Deserialize<'de> + Ord"))]
pub(crate) struct ThreadPending<O> {
    /// Those before its first event in the chunk.
    pub lead: PendingConnections<O, u64>,
    /// What ended the waiting first.
    pub first: Option<InitWaitEvent>,
    /// What it is at; none: what it was at before the chunk.
    pub state: Option<InitThreadState>,
    /// Those that wait at the chunk's end, after the lead.
    pub open: PendingConnections<O, u64>,
    /// When it came to its state, as [`super::owner::Threads`] counts.
    since: u64,
}

impl<O> Default for ThreadPending<O> {
    fn default() -> Self {
        ThreadPending {
            lead: PendingConnections::default(),
            first: None,
            state: None,
            open: PendingConnections::default(),
            since: 0,
        }
    }
}

impl<O: Ord> ThreadPending<O> {
    /// Where a connection waits; `None` where it does not.
    pub(crate) fn pending_mut(&mut self) -> Option<&mut PendingConnections<O, u64>> {
        match self.state {
            None => Some(&mut self.lead),
            Some(InitThreadState::Waits) => Some(&mut self.open),
            Some(InitThreadState::Calls) => None,
        }
    }

    /// The thread called last at `called`, and nothing else of it has come since: gives what does
    /// not wait any more.
    pub(crate) fn end_by_call(&mut self, called: u64) -> Option<PendingConnections<O, u64>> {
        (called > self.since).then(|| {
            self.since = called;
            self.end_wait(InitWaitEvent::Other, InitThreadState::Calls)
        })
    }

    /// Rings or trees: the thread begins to initialise.
    pub(crate) fn begin_init(&mut self, now: u64) {
        self.since = now;
        self.state = Some(InitThreadState::Waits);
    }

    /// An INIT line: gives what waited for it.
    pub(crate) fn end_by_init_line(
        &mut self,
        event: InitWaitEvent,
        now: u64,
    ) -> PendingConnections<O, u64> {
        self.since = now;
        self.end_wait(event, InitThreadState::Waits)
    }

    fn end_wait(
        &mut self,
        event: InitWaitEvent,
        state: InitThreadState,
    ) -> PendingConnections<O, u64> {
        self.first.get_or_insert(event);
        self.state = Some(state);
        std::mem::take(&mut self.open)
    }
}
