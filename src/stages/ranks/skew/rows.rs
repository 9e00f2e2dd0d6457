//! The rows of the call table as they come, one after the other.

use super::align::StretchOffsets;
use super::lateness::SkewRankName;
use super::window::{RankArrival, SkewCall, SkewWindow};
use super::{ArrivalSource, Options, SkewSummary};
use crate::grammar::stamp::parse_stamp;
use crate::grammar::values::{OpKind, op_kind};
use crate::members::Interner;
use crate::members::comm_id::CommId;
use crate::output::table::Row;
use rustc_hash::FxHashMap;

/// A process, or one GPU of several of a process; where that is not known, a rank of a communicator.
type SkewProcess = (Vec<u8>, Option<u64>, Option<u32>, Option<(CommId, u32)>);

/// Who makes calls on a communicator, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SkewCaller {
    pub(super) who: u32,
    pub(super) comm: u32,
    pub(super) nranks: Option<u32>,
}

/// Calls whose clocks are aligned together.
pub(super) const CALLS_PER_CLOCK_STRETCH: usize = 4096;

/// What the rows so far show.
#[derive(Default)]
pub(super) struct SkewBuilder {
    comms: Interner<CommId>,
    ops: Interner<Vec<u8>>,
    who: Interner<SkewProcess>,
    hosts: Interner<Vec<u8>>,
    /// The host of each of `who`.
    host_of: Vec<u32>,
    /// Each one's rank in the largest communicator, and the size of that.
    ranks: FxHashMap<u32, (u32, u32)>,
    window: SkewWindow,
    /// Calls that the window gave.
    ready: Vec<SkewCall>,
    stretch: Vec<SkewCall>,
    found: SkewSummary,
    /// Dumps were read: what stands for a process is no process id.
    pub(super) is_of_dumps: bool,
}

impl SkewBuilder {
    /// What all rows show.
    pub(super) fn finish_rows(mut self, options: &Options) -> SkewSummary {
        for call in self.window.drain_calls() {
            self.take_call(call, options);
        }
        self.align_held_calls(options);
        self.found.late.close_steps();
        self.name_ranks();
        self.found
    }

    /// The next row.
    pub(super) fn add_row(&mut self, row: &Row<'_>, options: &Options) {
        // Each peer has its own number of those.
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
        let call = (self.intern_op(row.op), seq, row.step);
        self.add_arrival(caller, call, (ns, row.times().dur_ns), options);
    }

    /// The number of an operation.
    pub(super) fn intern_op(&mut self, name: &[u8]) -> u32 {
        self.ops.intern(name.to_vec())
    }

    /// Who makes a call with a time, if it is known on which communicator, and as which rank.
    pub(super) fn caller_of_row(&mut self, row: &Row<'_>) -> Option<SkewCaller> {
        let (id, rank) = (row.comm_id?, row.rank?);
        let own = row.pid.is_none().then_some((id, rank));
        let who = self.who.intern((row.host.to_vec(), row.pid, row.dev, own));
        if self.host_of.len() <= who as usize {
            self.host_of.push(self.hosts.intern(row.host.to_vec()));
        }
        let size = row.nranks.unwrap_or(0);
        let known = self.ranks.entry(who).or_insert((size, rank));
        if size > known.0 {
            *known = (size, rank);
        }
        Some(SkewCaller {
            who,
            comm: self.comms.intern(id),
            nranks: row.nranks,
        })
    }

    /// A rank comes to a call, by operation, number and step: when, and how long the call takes.
    #[inline]
    pub(super) fn add_arrival(
        &mut self,
        caller: SkewCaller,
        (op, seq, step): (u32, u64, Option<u64>),
        (ns, dur_ns): (i64, Option<u64>),
        options: &Options,
    ) {
        let SkewCaller { who, comm, nranks } = caller;
        let came = RankArrival { who, ns, dur_ns };
        let (which, told) = ((comm, op, seq), (step, nranks));
        self.window
            .add_arrival(which, came, told, options.window, &mut self.ready);
        if !self.ready.is_empty() {
            let mut ready = std::mem::take(&mut self.ready);
            ready
                .drain(..)
                .for_each(|call| self.take_call(call, options));
            self.ready = ready;
        }
    }

    /// Calls were told of elsewhere: so many have a time, which is as fine as this.
    pub(super) fn count_timed_calls(&mut self, calls: u64, step: i64) {
        self.found.timed += calls;
        self.found.step = self.found.step.max(step);
    }

    /// True where all ranks so far are of one host, whose clock they have.
    pub(super) fn is_of_one_host(&self) -> bool {
        self.hosts.items().len() <= 1
    }

    /// The number of the host of each of those who make calls.
    pub(super) fn hosts_of_processes(&self) -> &[u32] {
        &self.host_of
    }

    /// How far hosts were found to be ahead in a stretch of calls.
    pub(super) fn add_stretch_offsets(&mut self, ahead: StretchOffsets) {
        self.found.clocks.add_offsets(ahead, self.hosts.items());
    }

    /// What all rows show so far.
    pub(super) fn summary_mut(&mut self) -> &mut SkewSummary {
        &mut self.found
    }

    /// When a row's rank came.
    fn arrival_time(&mut self, row: &Row<'_>, op: OpKind, options: &Options) -> Option<i64> {
        let Options { from, latency, .. } = *options;
        let times = row.times();
        if latency {
            return times.dur_ns.map(|_| 0);
        }
        if from == ArrivalSource::Durations {
            // Where one rank gives to others, it may end before them.
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

    /// A call comes with all of its ranks that were found.
    fn take_call(&mut self, call: SkewCall, options: &Options) {
        if call.came.len() < 2 {
            self.found.alone += u64::from(!call.came.is_empty() && call.nranks != Some(1));
            self.window.recycle_call(call);
            return;
        }
        self.found.matched += 1;
        self.found.partly += u64::from(!call.is_whole());
        if options.latency {
            let op = self.ops.items().get(call.op as usize);
            let op = op.map_or(&b""[..], |op| op);
            self.found.latencies.add_call(op, &call);
            return;
        }
        self.stretch.push(call);
        if self.stretch.len() >= CALLS_PER_CLOCK_STRETCH {
            self.align_held_calls(options);
        }
    }

    /// Aligns the calls that are held, and adds them up.
    fn align_held_calls(&mut self, options: &Options) {
        let mut calls = std::mem::take(&mut self.stretch);
        if options.align && options.from == ArrivalSource::Starts && self.hosts.items().len() > 1 {
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
        self.stretch = calls;
    }

    /// Names the ranks. A rank in the largest communicator is a rank of the job where that has all
    /// of them.
    fn name_ranks(&mut self) {
        let all = self.who.items().len();
        let mut met = FxHashMap::default();
        for &(size, rank) in self.ranks.values() {
            *met.entry((size, rank)).or_insert(0) += 1;
        }
        let sizes: Vec<u32> = self.ranks.values().map(|(size, _)| *size).collect();
        let one_size = sizes.iter().all(|size| Some(size) == sizes.first());
        let fits = sizes.first().is_some_and(|size| *size as usize >= all);
        let distinct = met.values().all(|times| *times == 1);
        let is_global = one_size && fits && distinct;
        let names = self.who.items().iter().enumerate();
        self.found.late.names = names
            .map(|(number, (host, pid, ..))| {
                let rank = self.ranks.get(&(number as u32)).map(|(_, rank)| *rank);
                SkewRankName {
                    rank: rank.filter(|_| is_global),
                    host: host.clone(),
                    pid: pid.filter(|_| !self.is_of_dumps),
                }
            })
            .collect();
    }
}
