//! Clocks that begin with each process or session.
//!
//! Three ways lead from one to another, the surest first. The start of a kernel on its GPU's clock comes after its
//! enqueue: where the kernel began soonest, by hardly more than a launch. The GPUs' clocks differ too, by microseconds on
//! one host: calls that keep their ranks together end at all of them at once. Clocks that differ by no more than these
//! show, and that no call contradicts, are taken as they are: NCCL 2.28 and later loads its profiler right after all ranks
//! of a process's first communicator have exchanged data (`initTransportsRank`, init.cc). Else the medians of many calls
//! are left.

use super::align::{HostClocks, HostPairOffsets, collect_host_pairs, compute_host_offsets};
use super::limits::MIN_KERNEL_PAIRS;
use super::window::{CallAfterArrival, RankArrival, SkewCall};
use crate::report::{Report, count_phrase};
use std::collections::{BTreeMap, BTreeSet};

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

/// By how many ns one clock, the first GPU's, is ahead of each process's.
struct KernelClock {
    ahead: BTreeMap<u32, i64>,
    /// The greatest difference between the quickest launch of a process and the next one, and the median deviation of the
    /// GPUs' clocks.
    error_ns: i64,
}

impl KernelClock {
    /// None if a process has fewer than two kernels, or the GPUs' clocks cannot be compared.
    fn of_calls<'c>(
        calls: &[SkewCall],
        together: impl Iterator<Item = &'c SkewCall>,
    ) -> Option<KernelClock> {
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
        let launch_ns = errors.try_fold(0, |most, error| Some(error?.max(most)))?;
        let mut ends = collect_host_pairs(together, |who| who, RankArrival::kernel_end_ns);
        ends.retain(|_, apart| apart.len() >= MIN_KERNEL_PAIRS);
        if !are_connected(&ends, &two) {
            return None;
        }
        let gpus = compute_host_offsets(&mut ends);
        let deviation = gpus.values().map(|(_, error)| *error).max().unwrap_or(0);
        let ahead = two.into_iter().map(|(who, (first, _))| {
            let gpu = gpus.get(&who).map_or(0, |(ahead, _)| *ahead);
            (who, first.saturating_sub(gpu))
        });
        Some(KernelClock {
            ahead: ahead.collect(),
            error_ns: launch_ns.saturating_add(deviation),
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

/// Returns true if each process is reached from the first one over pairs.
fn are_connected<T>(pairs: &HostPairOffsets, processes: &BTreeMap<u32, T>) -> bool {
    let mut reached: BTreeSet<u32> = processes.keys().take(1).copied().collect();
    loop {
        let before = reached.len();
        for &(a, b) in pairs.keys() {
            if reached.contains(&a) || reached.contains(&b) {
                reached.extend([a, b]);
            }
        }
        if reached.len() == before {
            return processes.keys().all(|who| reached.contains(who));
        }
    }
}

impl OwnClocks {
    /// Aligns the calls of a stretch. No rank ends a call for which `keeps_together` is true before another begins it,
    /// and all end it at once.
    pub(super) fn align_calls(
        &mut self,
        calls: &mut [SkewCall],
        keeps_together: impl Fn(&&SkewCall) -> bool,
    ) {
        // A last stretch without calls shows nothing of the clocks.
        if calls.is_empty() {
            return;
        }
        let number = calls.len() as u64;
        let together = || calls.iter().filter(&keeps_together);
        let least_overlap = together().filter_map(SkewCall::overlap_ns).min();
        let kernels = KernelClock::of_calls(calls, together());
        let is_contradicted = least_overlap.is_some_and(|least| least < 0);
        match kernels {
            Some(kernels) if is_contradicted || kernels.do_differ() => {
                for came in calls.iter_mut().flat_map(|call| &mut call.came) {
                    let ahead = kernels.ahead.get(&came.who).copied().unwrap_or(0);
                    came.ns = came.ns.saturating_add(ahead);
                }
                let known = &mut self.by_kernels;
                // Each stretch is aligned by itself.
                known.hidden_ns = known.hidden_ns.max(kernels.error_ns);
                known.calls += number;
            }
            kernels if !is_contradicted && (kernels.is_some() || least_overlap.is_some()) => {
                let error = kernels.map(|kernels| kernels.error_ns);
                let known = &mut self.as_they_are;
                // All stretches show the same clocks.
                let before = (known.calls > 0).then_some(known.hidden_ns);
                let hidden = error.into_iter().chain(least_overlap).chain(before).min();
                known.hidden_ns = hidden.unwrap_or(0);
                known.calls += number;
            }
            _ => {
                self.by_medians += number;
                HostClocks::default().align_calls(calls, |who| who, |_| None);
            }
        }
    }

    /// Returns true if there were calls by such clocks.
    pub(super) fn has_calls(&self) -> bool {
        self.by_kernels.calls + self.as_they_are.calls + self.by_medians > 0
    }

    /// By how many ns times may be wrong that were aligned by kernels.
    pub(super) fn error_ns(&self) -> u64 {
        u64::try_from(self.by_kernels.hidden_ns).unwrap_or(0)
    }

    pub(super) fn report(&self, report: &Report) {
        let ms = |ns: i64| ns as f64 / 1e6;
        let phrase = |calls: u64| count_phrase(calls, "call");
        let AlignedCalls { calls, hidden_ns } = self.by_kernels;
        if calls > 0 {
            report.warn(&format!(
                "each process has its own clock: {} aligned by the kernels that began soonest after their enqueue, and \
                 by the ends of kernels, to about {:.3} ms",
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
