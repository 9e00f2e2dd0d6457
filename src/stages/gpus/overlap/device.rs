//! A device: its activity, and its times.

use super::comm::CommKernels;
use super::intervals::{
    Interval, shared_intervals, shared_length, total_length, union, union_length,
};
use crate::formats::gpu::{ActivityKind, GpuActivity};

/// Activity of a device; intervals are disjoint once it is complete.
#[derive(Debug, Default)]
pub(crate) struct OverlapDevice {
    compute: Vec<Interval>,
    comm: Vec<Interval>,
    memory: Vec<Interval>,
    /// CUDA graphs recorded as a whole, with unknown contents.
    pub(super) graphs: Vec<Interval>,
    /// Begin of its first activity and end of its last.
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

    /// Makes the intervals disjoint once the activity is complete.
    pub(super) fn finish(&mut self) {
        for list in self.interval_lists_mut() {
            union(list);
        }
    }

    /// Returns all four lists.
    pub(super) fn interval_lists(&self) -> [&[Interval]; 4] {
        [&self.compute, &self.comm, &self.memory, &self.graphs]
    }

    /// Returns all four lists for changes.
    pub(super) fn interval_lists_mut(&mut self) -> [&mut Vec<Interval>; 4] {
        [
            &mut self.compute,
            &mut self.comm,
            &mut self.memory,
            &mut self.graphs,
        ]
    }

    /// Computes its times within disjoint intervals.
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
    /// The window.
    pub window: u64,
    /// Any activity.
    pub active: u64,
    /// Kernels that do not communicate.
    pub compute: u64,
    /// Kernels that do.
    pub comm: u64,
    /// Copies and sets.
    pub memory: u64,
    /// Computation and communication at the same time.
    pub compute_comm: u64,
    /// Two kinds of activity at the same time.
    pub compute_memory: u64,
    /// Two kinds of activity at the same time.
    pub comm_memory: u64,
}

impl OverlapSums {
    /// Computes the times of disjoint intervals within a window: computing, communicating, memory, graphs.
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

    /// Returns the ns without activity.
    pub fn idle_ns(&self) -> u64 {
        self.window.saturating_sub(self.active)
    }

    /// Returns the ns of communication without computation.
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
