//! Connections that wait for the name of their communicator.
//!
//! NCCL up to 2.17 prints no `Init START`: a thread connects and then prints `Init COMPLETE` of a
//! communicator. Its connections wait for that line, unless the thread has called since its last INIT line
//! and no rings or trees show that it initialises another. Any other event returns them to the owner that
//! they would have without it.
//!
//! A chunk does not know earlier events of its threads: connections before a thread's first event wait for
//! the merge ([`ThreadPending::lead`]).

use super::connection::{ConnectionChannels, ConnectionPath, merge_channels};
use super::init_line_comm::InitLineComm;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Event that ends the wait of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum InitWaitEvent {
    /// `Init COMPLETE` of a communicator without an `Init START`.
    Complete(InitLineComm),
    /// A call, or another INIT line.
    Other,
}

/// Activity of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) enum InitThreadState {
    /// Its connections may be of a communicator that it initialises.
    #[default]
    Waits,
    /// It makes calls.
    Calls,
}

/// Connections by path and the owner that they have unless another is named, with the first line of each.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(bound(deserialize = "O: Deserialize<'de> + Ord, L: Deserialize<'de>"))]
pub(crate) struct PendingConnections<O, L>(BTreeMap<(O, ConnectionPath), (ConnectionChannels, L)>);

impl<O, L> Default for PendingConnections<O, L> {
    fn default() -> Self {
        PendingConnections(BTreeMap::new())
    }
}

impl<O: Ord, L: Ord + Copy> PendingConnections<O, L> {
    /// Adds channels of a path, from `line`.
    pub(crate) fn add_channels(
        &mut self,
        owner: O,
        way: ConnectionPath,
        channels: ConnectionChannels,
        line: L,
    ) {
        let known = self.0.entry((owner, way));
        let known = known.or_insert_with(|| (ConnectionChannels::new(), line));
        merge_channels(known, channels, line);
    }

    /// Takes all connections.
    pub(crate) fn take_all(
        &mut self,
    ) -> impl Iterator<Item = (O, ConnectionPath, ConnectionChannels, L)> + use<O, L> {
        std::mem::take(&mut self.0)
            .into_iter()
            .map(|((owner, way), (channels, line))| (owner, way, channels, line))
    }
}

/// Pending connections of a thread in a chunk.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound(deserialize = "O: Deserialize<'de> + Ord"))]
pub(crate) struct ThreadPending<O> {
    /// Connections before the thread's first event in the chunk.
    pub lead: PendingConnections<O, u64>,
    /// The event that ended the first wait.
    pub first: Option<InitWaitEvent>,
    /// Its activity; `None` if unchanged since before the chunk.
    pub state: Option<InitThreadState>,
    /// Connections after the lead that wait at the end of the chunk.
    pub open: PendingConnections<O, u64>,
    /// Counter value of its last change of activity ([`super::owner::ThreadActivity`]).
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
    /// Returns where a connection waits; `None` if it does not.
    pub(crate) fn pending_mut(&mut self) -> Option<&mut PendingConnections<O, u64>> {
        match self.state {
            None => Some(&mut self.lead),
            Some(InitThreadState::Waits) => Some(&mut self.open),
            Some(InitThreadState::Calls) => None,
        }
    }

    /// Ends the wait if the thread called at `called` after its last event. Returns the connections.
    pub(crate) fn end_by_call(&mut self, called: u64) -> Option<PendingConnections<O, u64>> {
        (called > self.since).then(|| {
            self.since = called;
            self.end_wait(InitWaitEvent::Other, InitThreadState::Calls)
        })
    }

    /// Rings or trees show that the thread begins to initialise.
    pub(crate) fn begin_init(&mut self, now: u64) {
        self.since = now;
        self.state = Some(InitThreadState::Waits);
    }

    /// An INIT line ends the wait. Returns the connections that waited for it.
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
