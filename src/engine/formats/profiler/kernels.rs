//! Which kernel times can be those of their calls.
//!
//! The plugin finds a kernel's times by counting the kernels of each channel. Once a count is off, each later
//! call gets the times of another one, and nothing but the order shows it.

use super::call::{GpuSpan, ProfilerCall};
use super::limits::{CLOCK_SLACK_NS, DRIFT_ONE_IN, MAX_REMEMBERED};
use rustc_hash::FxHashMap;

/// The process, communicator and rank of calls.
type KernelOwner = (u64, Option<u64>, Option<u64>);

/// The kernels of each communicator.
#[derive(Debug, Default)]
pub(super) struct TracedKernels(FxHashMap<KernelOwner, KernelOrder>);

impl TracedKernels {
    /// Compares a channel's times with those before; returns false if they cannot be the call's. `group` has the
    /// number of the call's group and when it was made, `seen` is when the plugin saw the channel end.
    pub(super) fn check_channel(
        &mut self,
        call: &ProfilerCall,
        group: (u64, u64),
        span: GpuSpan,
        seen: Option<u64>,
    ) -> bool {
        let owner = call.kernel_owner();
        let has_room = self.0.len() < MAX_REMEMBERED || self.0.contains_key(&owner);
        if span.start == 0 || !has_room {
            return true;
        }
        let order = self.0.entry(owner).or_default();
        order.check_channel(group, span, seen)
    }

    /// Returns true if the times of the call's communicator contradict each other.
    pub(super) fn is_contradicted(&self, call: &ProfilerCall) -> bool {
        let order = self.0.get(&call.kernel_owner());
        order.is_some_and(|order| order.is_contradicted)
    }
}

/// The kernels of a communicator run in the order of its calls: those of one group begin after the last one of
/// the groups before.
#[derive(Debug, Default)]
struct KernelOrder {
    clock: GpuClockLead,
    group: u64,
    /// The latest starts of the groups before, and of this one.
    before: u64,
    latest: u64,
    is_contradicted: bool,
}

impl KernelOrder {
    fn check_channel(&mut self, of: (u64, u64), span: GpuSpan, seen: Option<u64>) -> bool {
        let (group, made) = of;
        if group != self.group {
            self.group = group;
            self.before = self.before.max(std::mem::take(&mut self.latest));
        }
        self.is_contradicted |= span.start <= self.before;
        self.latest = self.latest.max(span.start);
        let follows = self.clock.can_follow(span.start, made);
        if let Some(seen) = seen.filter(|_| span.is_known()) {
            self.clock.add_end(span.stop, seen);
        }
        follows
    }
}

/// The largest known lower bound of the GPU clock's lead over the host's, and when it was found: no kernel
/// ends after its end was seen.
#[derive(Debug, Default)]
struct GpuClockLead(Option<(i128, u64)>);

impl GpuClockLead {
    /// Returns false if a kernel began before the group of its call, which was made at `made`.
    fn can_follow(&self, start: u64, made: u64) -> bool {
        self.0.is_none_or(|(least, at)| {
            let slack = CLOCK_SLACK_NS.saturating_add(made.abs_diff(at) / DRIFT_ONE_IN);
            i128::from(start) - i128::from(made) >= least - i128::from(slack)
        })
    }

    fn add_end(&mut self, stop: u64, seen: u64) {
        let ahead = i128::from(stop) - i128::from(seen);
        if self.0.is_none_or(|(least, _)| ahead > least) {
            self.0 = Some((ahead, seen));
        }
    }
}
