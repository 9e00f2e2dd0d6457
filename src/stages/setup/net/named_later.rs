//! Connections whose communicator is named only after them.
//!
//! Up to 2.17 NCCL prints no `Init START`: a thread connects, and then says `Init COMPLETE` of
//! which communicator. Its connections wait for that line, unless the thread has called since its
//! last INIT line and no rings or trees show that it begins to initialise another. Anything else
//! that comes first gives them back to what they would be without it.
//!
//! A chunk does not know what its threads did before: what comes before a thread's first event
//! waits for the merge ([`Waiting::lead`]).

use super::link::{Channels, Way};
use super::named::Named;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// What ends the waiting of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Event {
    /// `Init COMPLETE` of a communicator that no line said to begin.
    Complete(Named),
    /// A call, or another INIT line.
    Other,
}

/// What a thread is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) enum State {
    /// What it connects may be what it initialises.
    #[default]
    Waits,
    /// It calls.
    Calls,
}

/// Connections by owner, if nothing names another, and way; with the first line that reports each.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(bound(deserialize = "O: Deserialize<'de> + Ord, L: Deserialize<'de>"))]
pub(crate) struct Held<O, L>(BTreeMap<(O, Way), (Channels, L)>);

impl<O, L> Default for Held<O, L> {
    fn default() -> Self {
        Held(BTreeMap::new())
    }
}

impl<O: Ord, L: Ord + Copy> Held<O, L> {
    /// Adds channels of a way, said at `line`.
    pub(crate) fn add(&mut self, owner: O, way: Way, channels: Channels, line: L) {
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
    pub(crate) fn take(&mut self) -> impl Iterator<Item = (O, Way, Channels, L)> + use<O, L> {
        std::mem::take(&mut self.0)
            .into_iter()
            .map(|((owner, way), (channels, line))| (owner, way, channels, line))
    }
}

/// A thread's connections that wait, in a chunk.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound(deserialize = "O: Deserialize<'de> + Ord"))]
pub(crate) struct Waiting<O> {
    /// Those before its first event in the chunk.
    pub lead: Held<O, u64>,
    /// What ended the waiting first.
    pub first: Option<Event>,
    /// What it is at; none: what it was at before the chunk.
    pub state: Option<State>,
    /// Those that wait at the chunk's end, after the lead.
    pub open: Held<O, u64>,
    /// When it came to its state, as [`super::owner::Threads`] counts.
    since: u64,
}

impl<O> Default for Waiting<O> {
    fn default() -> Self {
        Waiting {
            lead: Held::default(),
            first: None,
            state: None,
            open: Held::default(),
            since: 0,
        }
    }
}

impl<O: Ord> Waiting<O> {
    /// Where a connection waits; `None` where it does not.
    pub(crate) fn place(&mut self) -> Option<&mut Held<O, u64>> {
        match self.state {
            None => Some(&mut self.lead),
            Some(State::Waits) => Some(&mut self.open),
            Some(State::Calls) => None,
        }
    }

    /// The thread called last at `called`, and nothing else of it has come since: gives what does
    /// not wait any more.
    pub(crate) fn called(&mut self, called: u64) -> Option<Held<O, u64>> {
        (called > self.since).then(|| {
            self.since = called;
            self.end(Event::Other, State::Calls)
        })
    }

    /// Rings or trees: the thread begins to initialise.
    pub(crate) fn begins(&mut self, now: u64) {
        self.since = now;
        self.state = Some(State::Waits);
    }

    /// An INIT line: gives what waited for it.
    pub(crate) fn init(&mut self, event: Event, now: u64) -> Held<O, u64> {
        self.since = now;
        self.end(event, State::Waits)
    }

    fn end(&mut self, event: Event, state: State) -> Held<O, u64> {
        self.first.get_or_insert(event);
        self.state = Some(state);
        std::mem::take(&mut self.open)
    }
}
