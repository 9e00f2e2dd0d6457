//! Gathers the rows of the call table as they come.

use super::align::{HostClocks, StretchOffsets};
use super::lateness::SkewRankName;
use super::window::{ArrivingPart, RankArrival, SkewCall, SkewWindow};
use super::{ArrivalSource, Options, SkewSummary};
use crate::grammar::stamp::parse_stamp;
use crate::grammar::values::{OpKind, op_kind};
use crate::members::Interner;
use crate::members::comm_id::CommId;
use crate::output::table::Row;
use crate::stages::skew::limits::CALLS_PER_CLOCK_STRETCH;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// A process, or one of its GPUs; if these are unknown, a rank of a communicator.
type SkewProcess = (Vec<u8>, Option<u64>, Option<u32>, Option<(CommId, u32)>);

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
    pub(super) dur_ns: Option<u64>,
}

/// Gathers rows.
#[derive(Default)]
pub(super) struct SkewBuilder {
    comms: Interner<CommId>,
    /// Operations, each with the number of the clock of its times: times of two clocks are not compared.
    ops: Interner<(Vec<u8>, u32)>,
    clocks: Interner<Vec<u8>>,
    who: Interner<SkewProcess>,
    hosts: Interner<Vec<u8>>,
    /// The host of each caller.
    host_of: Vec<u32>,
    /// By caller and communicator: the size if known, and the rank.
    ranks: FxHashMap<(u32, u32), (Option<u32>, u32)>,
    window: SkewWindow,
    /// Calls that the window gave.
    ready: Vec<SkewCall>,
    /// Calls that are held, by clock.
    stretches: Vec<Vec<SkewCall>>,
    found: SkewSummary,
    /// Dumps were read: process numbers are ranks, not process ids.
    pub(super) is_of_dumps: bool,
}

impl SkewBuilder {
    /// Returns the summary of all rows.
    pub(super) fn finish_rows(mut self, options: &Options) -> SkewSummary {
        for call in self.window.drain_calls() {
            self.take_call(call, options);
        }
        (0..self.stretches.len()).for_each(|clock| self.align_held_calls(clock, options));
        self.found.late.close_steps();
        self.name_ranks();
        self.found
    }

    /// Adds a row.
    pub(super) fn add_row(&mut self, row: &Row<'_>, options: &Options) {
        // Messages are numbered by peer.
        let op = op_kind(row.op);
        if op.is_message() || row.calls != 1 {
            return;
        }
        let Some(ns) = self.arrival_time(row, op, options) else {
            return;
        };
        self.found.timed += 1;
        let Some(seq) = row.seq else { return };
        let Some(caller) = self.caller_of_row(row) else {
            return;
        };
        let is_start = options.from == ArrivalSource::Starts && !options.latency;
        let start = row.times().start_ns.filter(|_| is_start);
        let clock = start.map_or(&b""[..], |_| row.times().clock);
        let clock = self.clocks.intern(clock.to_vec());
        let call = TimedCall {
            op: self.ops.intern((row.op.to_vec(), clock)),
            seq,
            step: row.step,
            ns,
            dur_ns: row.times().dur_ns,
        };
        self.add_arrival(caller, call, options);
    }

    /// Returns the number of an operation.
    pub(super) fn intern_op(&mut self, name: &[u8]) -> u32 {
        let clock = self.clocks.intern(Vec::new());
        self.ops.intern((name.to_vec(), clock))
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
                dur_ns: call.dur_ns,
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
        self.found.timed += calls;
        self.found.step = self.found.step.max(step);
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
        self.found.clocks.add_offsets(ahead, self.hosts.items());
    }

    /// The summary of the rows so far.
    pub(super) fn summary_mut(&mut self) -> &mut SkewSummary {
        &mut self.found
    }

    /// Returns the time at which a row's rank came.
    fn arrival_time(&mut self, row: &Row<'_>, op: OpKind, options: &Options) -> Option<i64> {
        let Options { from, latency, .. } = *options;
        let times = row.times();
        if latency {
            return times.dur_ns.map(|_| 0);
        }
        if from == ArrivalSource::Durations {
            // A root may end before its receivers.
            let together = matches!(op, OpKind::AllReduce | OpKind::PerRank);
            let dur = times.dur_ns.filter(|_| together)?;
            return i64::try_from(dur).ok().map(|ns| -ns);
        }
        if let Some(start) = times.start_ns {
            return i64::try_from(start).ok();
        }
        let stamp = parse_stamp(row.time)?;
        self.found.step = self.found.step.max(stamp.step);
        Some(stamp.ns)
    }

    /// Takes a call with all of its ranks that were found.
    fn take_call(&mut self, call: SkewCall, options: &Options) {
        if call.came.len() < 2 {
            self.found.alone += u64::from(!call.came.is_empty() && call.nranks != Some(1));
            return self.window.recycle_call(call);
        }
        self.found.matched += 1;
        self.found.partly += u64::from(call.nranks.is_some() && !call.is_whole());
        let op = self.ops.items().get(call.op as usize);
        let (op, clock) = op.map_or((&b""[..], 0), |(op, clock)| (op, *clock as usize));
        if options.latency {
            return self.found.latencies.add_call(op, &call);
        }
        if self.stretches.len() <= clock {
            self.stretches.resize_with(clock + 1, Vec::new);
        }
        self.stretches[clock].push(call);
        if self.stretches[clock].len() >= CALLS_PER_CLOCK_STRETCH {
            self.align_held_calls(clock, options);
        }
    }

    /// Aligns the calls that are held of a clock, and adds their lateness.
    fn align_held_calls(&mut self, clock: usize, options: &Options) {
        let mut calls = std::mem::take(&mut self.stretches[clock]);
        let name = self.clocks.items().get(clock);
        if name.is_some_and(|name| is_own_clock(name)) {
            let number = calls.len() as u64;
            match self.least_overlap(&calls).filter(|least| *least >= 0) {
                Some(least) => self.found.believed.add_calls(number, least),
                None => {
                    self.found.own_clock_calls += number;
                    HostClocks::default().align_calls(&mut calls, |who| who, &[]);
                }
            }
        } else if options.align
            && options.from == ArrivalSource::Starts
            && self.hosts.items().len() > 1
        {
            let hosts = &self.host_of;
            let host = |who: u32| hosts.get(who as usize).copied().unwrap_or(0);
            self.found
                .clocks
                .align_calls(&mut calls, host, self.hosts.items());
        }
        let late_ns = options.late_ns;
        for call in calls.drain(..) {
            self.found.late.add_call(&call, late_ns);
            self.window.recycle_call(call);
        }
        self.stretches[clock] = calls;
    }

    /// The least [`SkewCall::overlap_ns`] of calls that keep their ranks together. From 0 on no rank ends such a call
    /// before another begins it, so that the clocks may have begun together. NCCL 2.28 and later loads its profiler right
    /// after all ranks of a process's first communicator have exchanged data (`initTransportsRank`, init.cc).
    fn least_overlap(&self, calls: &[SkewCall]) -> Option<i64> {
        let ops = self.ops.items();
        let keeps_together = |call: &&SkewCall| {
            let name = ops.get(call.op as usize).map_or(&b""[..], |(op, _)| op);
            matches!(op_kind(name), OpKind::AllReduce | OpKind::PerRank)
        };
        let together = calls.iter().filter(keeps_together);
        together.filter_map(SkewCall::overlap_ns).min()
    }

    /// Names the ranks. A rank in the largest communicator is a rank of the job if that communicator has all
    /// ranks.
    fn name_ranks(&mut self) {
        let all = self.who.items().len();
        // Traces of the profiler plugin do not have the size.
        let mut highest: FxHashMap<u32, u32> = FxHashMap::default();
        for (&(_, comm), &(_, rank)) in &self.ranks {
            let most = highest.entry(comm).or_default();
            *most = (*most).max(rank);
        }
        let mut largest: FxHashMap<u32, (u32, Reverse<u32>, u32)> = FxHashMap::default();
        for (&(who, comm), &(size, rank)) in &self.ranks {
            let least = highest.get(&comm).map_or(0, |rank| rank.saturating_add(1));
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
        self.found.late.names = names
            .map(|(number, (host, pid, ..))| {
                let rank = largest.get(&(number as u32)).map(|(.., rank)| *rank);
                SkewRankName {
                    rank: rank.filter(|_| is_global),
                    host: host.clone(),
                    pid: pid.filter(|_| !self.is_of_dumps),
                }
            })
            .collect();
    }
}

/// Returns true for a clock that begins with each process or session.
fn is_own_clock(name: &[u8]) -> bool {
    matches!(name, b"plugin" | b"kineto" | b"nsys")
}
