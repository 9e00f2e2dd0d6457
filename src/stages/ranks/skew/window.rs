//! Parts of calls on several ranks, put together while rows come.

use crate::members::comm_id::CommId;
use crate::stages::skew::limits::MAX_SPARE_CALL_BUFFERS;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// The key that all ranks' parts of a call share: communicator, operation, number.
pub(super) type SkewCallKey = (u32, u32, u64);

/// A process, or one of its GPUs; if these are unknown, a rank of a communicator.
pub(super) type SkewProcess = (Vec<u8>, Option<u64>, Option<u32>, Option<(CommId, u32)>);

/// The end or the kernel of a call to which a rank came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum CallAfterArrival {
    #[default]
    Unknown,
    /// The call took this long, ns.
    Took(u64),
    /// Its kernel, on the clock of its GPU.
    RanOnGpu {
        /// The kernel's start on that clock, less the arrival on the process's own, ns.
        late_ns: i64,
        /// How long all of the kernel took, ns.
        took_ns: Option<u64>,
    },
}

/// A rank's part of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RankArrival {
    /// The number of a process or GPU.
    pub(super) who: u32,
    /// The time, ns of the host's clock; see [`super::ArrivalSource`].
    pub(super) ns: i64,
    pub(super) after: CallAfterArrival,
}

impl RankArrival {
    /// Returns the call's duration, ns.
    pub(super) fn dur_ns(&self) -> Option<u64> {
        match self.after {
            CallAfterArrival::Took(ns) => Some(ns),
            _ => None,
        }
    }

    /// Returns the end of its kernel on the clock of its GPU, ns.
    pub(super) fn kernel_end_ns(&self) -> Option<i64> {
        match self.after {
            CallAfterArrival::RanOnGpu { late_ns, took_ns } => {
                let begin = self.ns.saturating_add(late_ns);
                Some(begin.saturating_add_unsigned(took_ns?))
            }
            _ => None,
        }
    }
}

/// A part of a call that comes.
#[derive(Debug, Clone, Copy)]
pub(super) struct ArrivingPart {
    pub(super) key: SkewCallKey,
    pub(super) step: Option<u64>,
    /// The communicator's size.
    pub(super) nranks: Option<u32>,
    pub(super) came: RankArrival,
}

/// A call with the ranks that have come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SkewCall {
    pub(super) comm: u32,
    /// The operation's number.
    pub(super) op: u32,
    /// Its number in its communicator.
    pub(super) seq: u64,
    /// The first step of any rank: it does not depend on the order of rows.
    pub(super) step: Option<u64>,
    /// The communicator's size.
    pub(super) nranks: Option<u32>,
    pub(super) came: Vec<RankArrival>,
}

impl SkewCall {
    /// Returns by how much the first rank's end is after the last rank's beginning, ns. Below 0 the clocks contradict
    /// a call that keeps its ranks together.
    pub(super) fn overlap_ns(&self) -> Option<i64> {
        let end = |came: &RankArrival| Some(came.ns.saturating_add_unsigned(came.dur_ns()?));
        let first_end = self.came.iter().filter_map(end).min()?;
        let last = self.came.iter().map(|came| came.ns).max()?;
        Some(first_end.saturating_sub(last))
    }

    /// True if all ranks have come.
    pub(super) fn is_whole(&self) -> bool {
        self.nranks.is_some_and(|n| self.came.len() >= n as usize)
    }
}

/// Calls that wait for ranks.
#[derive(Debug, Default)]
pub(super) struct SkewWindow {
    calls: FxHashMap<SkewCallKey, SkewCall>,
    /// The calls in the order of their first parts.
    order: VecDeque<SkewCallKey>,
    /// The number of parts that are held.
    held: usize,
    /// Buffers of calls that were given, for reuse.
    spare: Vec<Vec<RankArrival>>,
}

impl SkewWindow {
    /// Adds a part of a call. Gives the call when it is whole, and the oldest calls if more than `most` parts would
    /// be held.
    #[inline]
    pub(super) fn add_arrival(
        &mut self,
        part: ArrivingPart,
        most: usize,
        give: &mut Vec<SkewCall>,
    ) {
        let which = part.key;
        let call = self.calls.entry(which).or_insert_with(|| {
            self.order.push_back(which);
            SkewCall {
                comm: which.0,
                op: which.1,
                seq: which.2,
                came: self.spare.pop().unwrap_or_default(),
                ..SkewCall::default()
            }
        });
        // A second part of one rank is a row that came twice.
        if call.came.iter().any(|known| known.who == part.came.who) {
            return;
        }
        call.step = call.step.into_iter().chain(part.step).min();
        call.nranks = call.nranks.or(part.nranks);
        call.came.push(part.came);
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
        // Calls that were given leave their places in the order.
        if self.order.len() > 2 * self.calls.len() + 1024 {
            let calls = &self.calls;
            self.order.retain(|which| calls.contains_key(which));
        }
    }

    /// Takes back the buffer of a call that was given.
    pub(super) fn recycle_call(&mut self, SkewCall { mut came, .. }: SkewCall) {
        if self.spare.len() < MAX_SPARE_CALL_BUFFERS {
            came.clear();
            self.spare.push(came);
        }
    }

    /// Gives all other calls, in the order of their first parts.
    pub(super) fn drain_calls(&mut self) -> Vec<SkewCall> {
        let order = std::mem::take(&mut self.order);
        self.held = 0;
        let left = order.iter().filter_map(|which| self.calls.remove(which));
        left.collect()
    }
}

/// The name of a process's clock; of dumps, and where no process is known, its number is a rank.
pub(super) fn name_process(process: &SkewProcess, is_of_dumps: bool) -> Vec<u8> {
    let (host, pid, _, own) = process;
    let rank = own.map(|(_, rank)| u64::from(rank));
    let kind = if is_of_dumps || pid.is_none() {
        "rank"
    } else {
        "process"
    };
    let number = format!(" {kind} {}", pid.or(rank).unwrap_or_default());
    [host, number.as_bytes()].concat().trim_ascii().to_vec()
}
