//! Clocks that begin with each process or session.
//!
//! Three ways lead from one to another, the surest first. The start of a kernel on the GPU's clock comes after its
//! enqueue: where the kernel began soonest, by hardly more than a launch. GPUs of one host share that clock, those of two
//! do not; so it is used only where the kernels of each call that keeps its ranks together overlap by it. Clocks that
//! differ by no more than these show, and that no call contradicts, are taken as they are: NCCL 2.28 and later loads its
//! profiler right after all ranks of a process's first communicator have exchanged data (`initTransportsRank`, init.cc).
//! Else the medians of many calls are left.

use super::align::HostClocks;
use super::window::{CallAfterArrival, SkewCall};
use crate::report::{Report, count_phrase};
use std::collections::BTreeMap;

/// How the clocks of processes were aligned, over all stretches of calls.
#[derive(Debug, Default)]
pub(super) struct OwnClocks {
    by_kernels: AlignedCalls,
    as_they_are: AlignedCalls,
    by_medians: u64,
}

/// Calls that were aligned in one way.
#[derive(Debug, Default)]
struct AlignedCalls {
    calls: u64,
    /// By how many ns the clocks may be apart without a call that shows it.
    hidden_ns: i64,
}

/// The least overlaps of the ranks' parts of calls that keep their ranks together. Below 0 the clocks contradict a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeastOverlaps {
    /// By the clocks of the arrivals.
    pub(super) arrivals_ns: Option<i64>,
    /// Of the kernels, by the GPU's clock.
    pub(super) kernels_ns: Option<i64>,
}

/// By how many ns the GPU's clock is ahead of each process's.
struct QuickestLaunches {
    ahead: BTreeMap<u32, i64>,
    /// The greatest difference between the quickest launch of a process and the next one.
    error_ns: i64,
}

impl QuickestLaunches {
    /// None if a process has fewer than two.
    fn of_calls(calls: &[SkewCall]) -> Option<QuickestLaunches> {
        let mut two: BTreeMap<u32, (i64, i64)> = BTreeMap::new();
        for came in calls.iter().flat_map(|call| &call.came) {
            let (first, second) = two.entry(came.who).or_insert((i64::MAX, i64::MAX));
            if let CallAfterArrival::RanOnGpu { late_ns, .. } = came.after {
                *second = late_ns.max(*first).min(*second);
                *first = late_ns.min(*first);
            }
        }
        let mut errors = two.values().map(|(first, second)| match *second {
            i64::MAX => None,
            second => Some(second.saturating_sub(*first)),
        });
        let error_ns = errors.try_fold(0, |most, error| Some(error?.max(most)))?;
        let ahead = two.into_iter().map(|(who, (first, _))| (who, first));
        Some(QuickestLaunches {
            ahead: ahead.collect(),
            error_ns,
        })
    }

    /// Returns true if the processes differ by more than the error.
    fn do_differ(&self) -> bool {
        let (least, most) = (self.ahead.values().min(), self.ahead.values().max());
        let spread = least
            .zip(most)
            .map(|(least, most)| most.saturating_sub(*least));
        spread.is_some_and(|spread| spread > self.error_ns)
    }
}

impl OwnClocks {
    /// Aligns the calls of a stretch.
    pub(super) fn align_calls(&mut self, calls: &mut [SkewCall], overlaps: LeastOverlaps) {
        // A last stretch without calls shows nothing of the clocks.
        if calls.is_empty() {
            return;
        }
        let number = calls.len() as u64;
        let LeastOverlaps {
            arrivals_ns,
            kernels_ns,
        } = overlaps;
        let share_gpu_clock = kernels_ns.is_some_and(|least| least >= 0);
        let launches = QuickestLaunches::of_calls(calls).filter(|_| share_gpu_clock);
        let is_contradicted = arrivals_ns.is_some_and(|least| least < 0);
        match launches {
            Some(launches) if is_contradicted || launches.do_differ() => {
                for came in calls.iter_mut().flat_map(|call| &mut call.came) {
                    let ahead = launches.ahead.get(&came.who).copied().unwrap_or(0);
                    came.ns = came.ns.saturating_add(ahead);
                }
                let known = &mut self.by_kernels;
                // Each stretch is aligned by itself.
                known.hidden_ns = known.hidden_ns.max(launches.error_ns);
                known.calls += number;
            }
            launches if !is_contradicted && (launches.is_some() || arrivals_ns.is_some()) => {
                let error = launches.map(|launches| launches.error_ns);
                let known = &mut self.as_they_are;
                // All stretches show the same clocks.
                let before = (known.calls > 0).then_some(known.hidden_ns);
                let hidden = error.into_iter().chain(arrivals_ns).chain(before).min();
                known.hidden_ns = hidden.unwrap_or(0);
                known.calls += number;
            }
            _ => {
                self.by_medians += number;
                HostClocks::default().align_calls(calls, |who| who, &[]);
            }
        }
    }

    /// Returns true if there were calls by such clocks.
    pub(super) fn has_calls(&self) -> bool {
        self.by_kernels.calls + self.as_they_are.calls + self.by_medians > 0
    }

    pub(super) fn report(&self, report: &Report) {
        let ms = |ns: i64| ns as f64 / 1e6;
        let phrase = |calls: u64| count_phrase(calls, "call");
        let AlignedCalls { calls, hidden_ns } = self.by_kernels;
        if calls > 0 {
            report.warn(&format!(
                "each process has its own clock: {} aligned by the kernels that began soonest after their enqueue, to \
                 about {:.3} ms; that all GPUs share a clock, as those of one host do, is contradicted by no kernel",
                phrase(calls),
                ms(hidden_ns)
            ));
        }
        let AlignedCalls { calls, hidden_ns } = self.as_they_are;
        if calls > 0 {
            report.warn(&format!(
                "each process has its own clock; none of {} contradicts that the clocks began together, so they are \
                 trusted: a difference of less than {:.3} ms would be invisible",
                phrase(calls),
                ms(hidden_ns)
            ));
        }
        if self.by_medians > 0 {
            report.warn(&format!(
                "each process has its own clock: {} aligned by medians, so that a rank which is always late by the same \
                 amount looks punctual",
                phrase(self.by_medians)
            ));
        }
    }

    #[cfg(test)]
    pub(super) fn hidden_ns(&self) -> Option<i64> {
        (self.as_they_are.calls > 0).then_some(self.as_they_are.hidden_ns)
    }
}
