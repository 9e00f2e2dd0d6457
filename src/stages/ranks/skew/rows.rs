//! Gathers the rows of the call table as they come.

use super::align::StretchOffsets;
use super::jumps::find_clock_jumps;
use super::kinds::{CallsOfKind, TimeKind, calls_of_kind, op_of_number, pick_kind};
use super::lateness::SkewRankName;
use super::untimed::UntimedCalls;
use super::window::{
    ArrivingPart, CallAfterArrival, RankArrival, SkewCall, SkewProcess, SkewWindow, name_process,
};
use super::{ArrivalSource, Options, SkewSummary};
use crate::formats::profiler::GPU_CLOCK;
use crate::formats::quality::is_whole_kernel;
use crate::grammar::stamp::parse_stamp;
use crate::grammar::values::{OpKind, op_kind};
use crate::members::Interner;
use crate::members::comm_id::CommId;
use crate::output::table::Row;
use crate::stages::skew::limits::CALLS_PER_CLOCK_STRETCH;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

/// A process or GPU that makes calls on a communicator, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SkewCaller {
    pub(super) who: u32,
    pub(super) comm: u32,
    pub(super) nranks: Option<u32>,
}

/// A rank's call with a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimedCall {
    /// The operation's number.
    pub(super) op: u32,
    /// The call's number in its communicator.
    pub(super) seq: u64,
    pub(super) step: Option<u64>,
    pub(super) ns: i64,
    pub(super) after: CallAfterArrival,
}

/// Gathers rows.
#[derive(Default)]
pub(super) struct SkewBuilder {
    comms: Interner<CommId>,
    /// Operations, each with the number of the kind of its times.
    ops: Interner<(Vec<u8>, u32)>,
    kinds: Interner<TimeKind>,
    who: Interner<SkewProcess>,
    hosts: Interner<Vec<u8>>,
    /// The host of each caller.
    host_of: Vec<u32>,
    /// By caller and communicator: the size if known, and the rank.
    ranks: FxHashMap<(u32, u32), (Option<u32>, u32)>,
    /// By communicator: one more than its highest rank. Traces of the profiler plugin do not have the size.
    least_size: FxHashMap<u32, u32>,
    window: SkewWindow,
    /// Calls that the window gave.
    ready: Vec<SkewCall>,
    /// By kind.
    calls: Vec<CallsOfKind>,
    /// The processes of collectives with a time; their ranks where these are unknown.
    owners: FxHashSet<u64>,
    /// Collectives with a time.
    timed: u64,
    /// Collectives without one.
    untimed: UntimedCalls,
    /// The resolution of the times, ns.
    step: i64,
    /// Dumps were read: process numbers are ranks, not process ids.
    pub(super) is_of_dumps: bool,
}

impl SkewBuilder {
    /// Returns the summary of all rows.
    pub(super) fn finish_rows(mut self, options: &Options) -> SkewSummary {
        for call in self.window.drain_calls() {
            self.take_call(call, options);
        }
        (0..self.calls.len()).for_each(|kind| self.align_held_calls(kind, options));
        let calls = std::mem::take(&mut self.calls);
        let mut found = pick_kind(self.kinds.items().iter().zip(calls));
        if found.matched == 0 && self.owners.len() == 1 {
            found.alone = self.timed;
        }
        (found.timed, found.step) = (self.timed, self.step);
        found.untimed += self.untimed.number;
        found.are_gaps_known &= !self.untimed.are_some_unknown;
        found.names_no_host = self.hosts.items().iter().all(Vec::is_empty);
        found.late.resolution_ns = self.step;
        found.late.error_ns = found.own_clocks.error_ns();
        found.late.close_steps();
        found.late.names = self.name_ranks();
        found
    }

    /// Adds a row.
    pub(super) fn add_row(&mut self, row: &Row<'_>, options: &Options) {
        // Messages are numbered by peer.
        let op = op_kind(row.op);
        if op.is_message() || row.calls != 1 {
            return;
        }
        let Some((kind, ns, after)) = self.find_arrival(row, op, options) else {
            self.untimed.add_row(row);
            return;
        };
        self.timed += 1;
        self.owners.extend(row.pid.or(row.rank.map(u64::from)));
        let Some(seq) = row.seq else { return };
        let Some(caller) = self.caller_of_row(row) else {
            return;
        };
        let kind = self.kinds.intern(kind);
        let call = TimedCall {
            op: self.ops.intern((row.op.to_vec(), kind)),
            seq,
            step: row.step,
            ns,
            after,
        };
        self.add_arrival(caller, call, options);
    }

    /// Returns the number of an operation.
    pub(super) fn intern_op(&mut self, name: &[u8]) -> u32 {
        let kind = self.kinds.intern(TimeKind::Starts(Box::default()));
        self.ops.intern((name.to_vec(), kind))
    }

    /// Returns the caller of a row with a time, if its communicator and rank are known.
    pub(super) fn caller_of_row(&mut self, row: &Row<'_>) -> Option<SkewCaller> {
        let (id, rank) = (row.comm_id?, row.rank?);
        let own = row.pid.is_none().then_some((id, rank));
        let who = self.who.intern((row.host.to_vec(), row.pid, row.dev, own));
        if self.host_of.len() <= who as usize {
            self.host_of.push(self.hosts.intern(row.host.to_vec()));
        }
        let comm = self.comms.intern(id);
        let known = self.ranks.entry((who, comm)).or_insert((None, rank));
        known.0 = known.0.or(row.nranks);
        let least = self.least_size.entry(comm).or_default();
        *least = (*least).max(rank.saturating_add(1));
        Some(SkewCaller {
            who,
            comm,
            nranks: row.nranks,
        })
    }

    /// Adds a rank's call.
    #[inline]
    pub(super) fn add_arrival(&mut self, caller: SkewCaller, call: TimedCall, options: &Options) {
        let SkewCaller { who, comm, nranks } = caller;
        let part = ArrivingPart {
            key: (comm, call.op, call.seq),
            step: call.step,
            nranks,
            came: RankArrival {
                who,
                ns: call.ns,
                after: call.after,
            },
        };
        self.window
            .add_arrival(part, options.window, &mut self.ready);
        if !self.ready.is_empty() {
            let mut ready = std::mem::take(&mut self.ready);
            ready
                .drain(..)
                .for_each(|call| self.take_call(call, options));
            self.ready = ready;
        }
    }

    /// Counts calls with a time that were added elsewhere; `step` is the resolution of their times, ns.
    pub(super) fn count_timed_calls(&mut self, calls: u64, step: i64) {
        self.timed += calls;
        self.step = self.step.max(step);
    }

    /// True if all ranks so far are on one host, so that they share a clock.
    pub(super) fn is_of_one_host(&self) -> bool {
        self.hosts.items().len() <= 1
    }

    /// The number of each caller's host.
    pub(super) fn hosts_of_processes(&self) -> &[u32] {
        &self.host_of
    }

    /// Adds the differences of clocks in a stretch of calls.
    pub(super) fn add_stretch_offsets(&mut self, ahead: StretchOffsets) {
        let (calls, hosts) = (&mut self.calls, self.hosts.items());
        calls_of_kind(calls, 0)
            .found
            .clocks
            .add_offsets(&ahead, |host| hosts.get(host as usize).cloned());
    }

    /// The summary of a log's calls so far: all of one kind.
    pub(super) fn summary_mut(&mut self) -> &mut SkewSummary {
        &mut calls_of_kind(&mut self.calls, 0).found
    }

    /// Returns the time at which a row's rank came, and its kind.
    fn find_arrival(
        &mut self,
        row: &Row<'_>,
        op: OpKind,
        options: &Options,
    ) -> Option<(TimeKind, i64, CallAfterArrival)> {
        let times = row.times();
        let starts = || TimeKind::Starts(times.clock.into());
        let took = times
            .dur_ns
            .map_or(CallAfterArrival::Unknown, CallAfterArrival::Took);
        if options.latency {
            return times.dur_ns.map(|_| (starts(), 0, took));
        }
        let signed = |ns: u64| i64::try_from(ns).ok();
        match (options.from, times.start_ns, row.enqueue_ns) {
            (ArrivalSource::Durations, ..) => {
                // A root may end before its receivers.
                let together = matches!(op, OpKind::AllReduce | OpKind::PerRank);
                let dur = times.dur_ns.filter(|_| together)?;
                Some((starts(), -signed(dur)?, took))
            }
            (ArrivalSource::Kernels, Some(start), Some(enqueue)) if start != enqueue => {
                Some((starts(), signed(start)?, took))
            }
            (ArrivalSource::Kernels, ..) => None,
            (ArrivalSource::Starts, start, Some(enqueue)) => {
                let (kind, at) = (TimeKind::of_enqueue(enqueue), signed(enqueue)?);
                let after = match start.and_then(signed) {
                    Some(start) if start == at => took,
                    Some(start) if times.clock == GPU_CLOCK && kind.has_own_clock() => {
                        CallAfterArrival::RanOnGpu {
                            late_ns: start.saturating_sub(at),
                            took_ns: times.dur_ns.filter(|_| is_whole_kernel(times.quality)),
                        }
                    }
                    // The duration is the kernel's: when it ended for the host is unknown.
                    _ => CallAfterArrival::Unknown,
                };
                Some((kind, at, after))
            }
            (ArrivalSource::Starts, Some(start), None) => {
                // The host's launch, and not the call, took so long.
                let after = match times.quality {
                    b"collective_cpu" => CallAfterArrival::Unknown,
                    _ => took,
                };
                Some((starts(), signed(start)?, after))
            }
            (ArrivalSource::Starts, None, None) => {
                let stamp = parse_stamp(row.time)?;
                self.step = self.step.max(stamp.step);
                Some((TimeKind::Starts(Box::default()), stamp.ns, took))
            }
        }
    }

    /// Takes a call with all of its ranks that were found.
    fn take_call(&mut self, call: SkewCall, options: &Options) {
        let (_, kind) = op_of_number(&self.ops, call.op);
        let CallsOfKind { found, held } = calls_of_kind(&mut self.calls, kind);
        if call.came.len() < 2 {
            found.alone += u64::from(!call.came.is_empty() && call.nranks != Some(1));
            return self.window.recycle_call(call);
        }
        found.matched += 1;
        if options.latency {
            let size = call
                .nranks
                .or_else(|| self.least_size.get(&call.comm).copied());
            // The last rank, which does not wait, may be one that is not there.
            if self.count_gaps(&call, size, kind) {
                let (op, _) = op_of_number(&self.ops, call.op);
                self.calls[kind].found.latencies.add_call(op, &call);
            }
            return self.window.recycle_call(call);
        }
        held.push(call);
        if held.len() >= CALLS_PER_CLOCK_STRETCH {
            self.align_held_calls(kind, options);
        }
    }

    /// Counts what ranks of a call of this size lack; true if none is missing.
    fn count_gaps(&mut self, call: &SkewCall, size: Option<u32>, kind: usize) -> bool {
        let missing = size.map_or(0, |size| (size as usize).saturating_sub(call.came.len()));
        if missing == 0 {
            return true;
        }
        let comm = self.comms.items().get(call.comm as usize);
        let untimed = comm.filter(|_| !self.untimed.is_empty()).map(|id| {
            let ranks = call.came.iter();
            let ranks = ranks.filter_map(|came| Some(self.ranks.get(&(came.who, call.comm))?.1));
            let (op, _) = op_of_number(&self.ops, call.op);
            self.untimed.count_ranks(*id, op, call.seq, ranks)
        });
        let untimed = untimed.unwrap_or(0);
        let found = &mut self.calls[kind].found;
        found.partly += 1;
        found.lack_times += u64::from(untimed > 0);
        found.lack_ranks += u64::from(untimed < missing);
        false
    }

    /// Aligns the calls that are held of a kind, and adds their lateness.
    fn align_held_calls(&mut self, kind: usize, options: &Options) {
        let Some(of_kind) = self.calls.get_mut(kind) else {
            return;
        };
        let mut calls = std::mem::take(&mut of_kind.held);
        let is_start = options.from != ArrivalSource::Durations;
        let kind_of_times = self.kinds.items().get(kind);
        let ops = self.ops.items();
        // No rank ends such a call before another begins it, and all end it together.
        let keeps_together = |call: &&SkewCall| {
            let name = ops.get(call.op as usize).map_or(&b""[..], |(op, _)| op);
            matches!(op_kind(name), OpKind::AllReduce | OpKind::PerRank)
        };
        if is_start && kind_of_times.is_some_and(TimeKind::has_own_clock) {
            let own_clocks = &mut self.calls[kind].found.own_clocks;
            own_clocks.align_calls(&mut calls, keeps_together);
        } else if options.align && is_start {
            let (host_of, hosts) = (&self.host_of, self.hosts.items());
            let host = |who: u32| host_of.get(who as usize).copied().unwrap_or(0);
            let clocks = &mut self.calls[kind].found.clocks;
            let together = calls.iter().filter(keeps_together);
            let disproved = clocks.disproved_hosts(together, host);
            // The clocks of processes follow those of hosts.
            let clock = |who: u32| match disproved.contains(&host(who)) {
                true => who.saturating_add(hosts.len() as u32),
                false => host(who),
            };
            let name = |clock: u32| match hosts.get(clock as usize) {
                None => {
                    let process = self.who.items().get(clock as usize - hosts.len())?;
                    Some(name_process(process, self.is_of_dumps))
                }
                host => host.cloned(),
            };
            let jumps = find_clock_jumps(&calls, keeps_together, clock);
            clocks.align_between_jumps(&mut calls, &jumps, keeps_together, clock, name);
        }
        for call in calls.drain(..) {
            self.count_gaps(&call, call.nranks, kind);
            let late = &mut self.calls[kind].found.late;
            late.add_call(&call, options.late_ns);
            self.window.recycle_call(call);
        }
        self.calls[kind].held = calls;
    }

    /// Names the ranks. A rank in the largest communicator is a rank of the job if that communicator has all
    /// ranks.
    fn name_ranks(&self) -> Vec<SkewRankName> {
        let all = self.who.items().len();
        let mut largest: FxHashMap<u32, (u32, Reverse<u32>, u32)> = FxHashMap::default();
        for (&(who, comm), &(size, rank)) in &self.ranks {
            let least = self.least_size.get(&comm).copied().unwrap_or(0);
            // Of several with the same size the first.
            let of = (size.unwrap_or(least), Reverse(comm), rank);
            let known = largest.entry(who).or_insert(of);
            *known = (*known).max(of);
        }
        let mut met = FxHashMap::default();
        for &(size, _, rank) in largest.values() {
            *met.entry((size, rank)).or_insert(0) += 1;
        }
        let sizes: Vec<u32> = largest.values().map(|(size, ..)| *size).collect();
        let one_size = sizes.iter().all(|size| Some(size) == sizes.first());
        let fits = sizes.first().is_some_and(|size| *size as usize >= all);
        let distinct = met.values().all(|times| *times == 1);
        let is_global = one_size && fits && distinct;
        let names = self.who.items().iter().enumerate();
        names
            .map(|(number, (host, pid, ..))| {
                let rank = largest.get(&(number as u32)).map(|(.., rank)| *rank);
                SkewRankName {
                    rank: rank.filter(|_| is_global),
                    host: host.clone(),
                    pid: pid.filter(|_| !self.is_of_dumps),
                }
            })
            .collect()
    }
}
