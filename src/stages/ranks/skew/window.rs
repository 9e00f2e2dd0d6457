//! The same call on several ranks, put together while rows come.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// What the same call of all ranks has in common: communicator, operation, number.
pub(super) type SkewCallKey = (u32, u32, u64);

/// A rank's part of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RankArrival {
    /// Who: the number of a process or GPU.
    pub(super) who: u32,
    /// When, in ns of the host's clock; see [`super::From`].
    pub(super) ns: i64,
    /// How long the call took.
    pub(super) dur_ns: Option<u64>,
}

/// A call with those ranks that have come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SkewCall {
    /// The operation's number.
    pub(super) op: u32,
    /// The first step that one of them is in: it does not depend on which came first.
    pub(super) step: Option<u64>,
    /// How many ranks there are.
    pub(super) nranks: Option<u32>,
    pub(super) came: Vec<RankArrival>,
}

impl SkewCall {
    /// True where all ranks have come.
    pub(super) fn is_whole(&self) -> bool {
        self.nranks.is_some_and(|n| self.came.len() >= n as usize)
    }
}

/// Calls that wait for ranks.
#[derive(Debug, Default)]
pub(super) struct SkewWindow {
    calls: FxHashMap<SkewCallKey, SkewCall>,
    /// In the order in which they came first.
    order: VecDeque<SkewCallKey>,
    /// Parts that are held.
    held: usize,
    /// The memory of calls that were given, used again.
    spare: Vec<Vec<RankArrival>>,
}

impl SkewWindow {
    /// A part of a call comes. Gives the call once it is whole; gives up the oldest ones where more
    /// than `most` parts would be held.
    #[inline]
    pub(super) fn add_arrival(
        &mut self,
        which: SkewCallKey,
        came: RankArrival,
        (step, nranks): (Option<u64>, Option<u32>),
        most: usize,
        give: &mut Vec<SkewCall>,
    ) {
        let call = self.calls.entry(which).or_insert_with(|| {
            self.order.push_back(which);
            SkewCall {
                op: which.1,
                came: self.spare.pop().unwrap_or_default(),
                ..SkewCall::default()
            }
        });
        // The same call of the same rank again is a row that came twice.
        if call.came.iter().any(|known| known.who == came.who) {
            return;
        }
        call.step = call.step.into_iter().chain(step).min();
        call.nranks = call.nranks.or(nranks);
        call.came.push(came);
        self.held += 1;
        if call.is_whole()
            && let Some(call) = self.calls.remove(&which)
        {
            self.held = self.held.saturating_sub(call.came.len());
            give.push(call);
        }
        while self.held > most
            && let Some(oldest) = self.order.pop_front()
        {
            if let Some(call) = self.calls.remove(&oldest) {
                self.held = self.held.saturating_sub(call.came.len());
                give.push(call);
            }
        }
        // Those that were given leave their place in the order behind.
        if self.order.len() > 2 * self.calls.len() + 1024 {
            let calls = &self.calls;
            self.order.retain(|which| calls.contains_key(which));
        }
    }

    /// Takes the memory of a call that was given.
    pub(super) fn recycle_call(&mut self, SkewCall { mut came, .. }: SkewCall) {
        if self.spare.len() < MAX_SPARE_CALL_BUFFERS {
            came.clear();
            self.spare.push(came);
        }
    }

    /// Gives all that are left, in their order.
    pub(super) fn drain_calls(&mut self) -> Vec<SkewCall> {
        let order = std::mem::take(&mut self.order);
        self.held = 0;
        let left = order.iter().filter_map(|which| self.calls.remove(which));
        left.collect()
    }
}

/// How many calls' memory is kept.
const MAX_SPARE_CALL_BUFFERS: usize = 1 << 13;
