//! One device: what it did, and the times that this takes.

use super::comm::CommKernels;
use super::intervals::{
    Interval, shared_intervals, shared_length, total_length, union, union_length,
};
use crate::formats::gpu::{ActivityKind, GpuActivity};

/// What one device did. Disjoint intervals once it is all there.
#[derive(Debug, Default)]
pub(crate) struct OverlapDevice {
    compute: Vec<Interval>,
    comm: Vec<Interval>,
    memory: Vec<Interval>,
    /// CUDA graphs that are recorded as a whole: what is in them is not known.
    pub(super) graphs: Vec<Interval>,
    /// From its first activity to its last.
    pub(super) span: Option<Interval>,
}

impl OverlapDevice {
    pub(super) fn add_activity(&mut self, activity: &GpuActivity<'_>, comm: &mut CommKernels) {
        let interval = (activity.start_ns, activity.end_ns);
        let list = match activity.kind {
            ActivityKind::Copy | ActivityKind::Set => &mut self.memory,
            ActivityKind::Graph => &mut self.graphs,
            ActivityKind::Kernel if comm.is_comm(activity.name) => &mut self.comm,
            ActivityKind::Kernel => &mut self.compute,
        };
        list.push(interval);
        let (from, to) = self.span.unwrap_or(interval);
        self.span = Some((from.min(interval.0), to.max(interval.1)));
    }

    /// It is all there.
    pub(super) fn finish(&mut self) {
        for list in self.interval_lists_mut() {
            union(list);
        }
    }

    /// All four lists.
    pub(super) fn interval_lists(&self) -> [&[Interval]; 4] {
        [&self.compute, &self.comm, &self.memory, &self.graphs]
    }

    /// The same, to be changed.
    pub(super) fn interval_lists_mut(&mut self) -> [&mut Vec<Interval>; 4] {
        [
            &mut self.compute,
            &mut self.comm,
            &mut self.memory,
            &mut self.graphs,
        ]
    }

    /// Its times within disjoint intervals.
    pub(super) fn compute_sums(&self, window: &[Interval]) -> OverlapSums {
        let is_all = match (window, self.span) {
            (&[(from, to)], Some((first, last))) => from <= first && last <= to,
            _ => false,
        };
        if is_all {
            return OverlapSums::from_intervals(self.interval_lists(), window);
        }
        let within =
            |list: &[Interval]| -> Vec<Interval> { shared_intervals(list, window).collect() };
        let lists = self.interval_lists().map(within);
        OverlapSums::from_intervals(lists.each_ref().map(Vec::as_slice), window)
    }
}

/// Times in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OverlapSums {
    /// What shares are parts of.
    pub window: u64,
    /// Of any activity.
    pub active: u64,
    /// Kernels that do not communicate.
    pub compute: u64,
    /// Kernels that do.
    pub comm: u64,
    /// Copies and sets.
    pub memory: u64,
    /// Of two at the same time.
    pub compute_comm: u64,
    /// See `compute_comm`.
    pub compute_memory: u64,
    /// See `compute_comm`.
    pub comm_memory: u64,
}

impl OverlapSums {
    /// The times of disjoint intervals within a window: computing, communicating, memory, graphs.
    pub(super) fn from_intervals(lists: [&[Interval]; 4], window: &[Interval]) -> OverlapSums {
        let [compute, comm, memory, _] = lists;
        OverlapSums {
            window: total_length(window),
            active: union_length(lists, window),
            compute: total_length(compute),
            comm: total_length(comm),
            memory: total_length(memory),
            compute_comm: shared_length(compute, comm),
            compute_memory: shared_length(compute, memory),
            comm_memory: shared_length(comm, memory),
        }
    }

    /// Without any activity.
    pub fn idle_ns(&self) -> u64 {
        self.window.saturating_sub(self.active)
    }

    /// Communication while nothing is computed.
    pub fn exposed_ns(&self) -> u64 {
        self.comm.saturating_sub(self.compute_comm)
    }

    pub(super) fn add_sums(&mut self, of: &OverlapSums) {
        let pairs = [
            (&mut self.window, of.window),
            (&mut self.active, of.active),
            (&mut self.compute, of.compute),
            (&mut self.comm, of.comm),
            (&mut self.memory, of.memory),
            (&mut self.compute_comm, of.compute_comm),
            (&mut self.compute_memory, of.compute_memory),
            (&mut self.comm_memory, of.comm_memory),
        ];
        for (sum, n) in pairs {
            *sum = sum.saturating_add(n);
        }
    }
}
