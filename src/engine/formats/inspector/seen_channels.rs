//! The channels of a call's kernel, as the host saw them.

use super::limits::{MAX_CHANNEL_GAP_US, MAX_TIMES_SEEN};

/// When the host saw the channels begin and end, in µs; 0 is an end that it did not see.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct SeenChannels {
    first_begin: Option<u64>,
    last_begin: Option<u64>,
    first_end: Option<u64>,
    last_end: Option<u64>,
}

impl SeenChannels {
    #[inline]
    pub(super) fn add_channel(&mut self, begin: Option<u64>, end: Option<u64>) {
        let end = end.filter(|&at| at > 0);
        let least = |a: Option<u64>, b| a.into_iter().chain(b).min();
        self.first_begin = least(self.first_begin, begin);
        self.last_begin = self.last_begin.max(begin);
        self.first_end = least(self.first_end, end);
        self.last_end = self.last_end.max(end);
    }

    /// True if the record has their times.
    pub(super) fn is_seen(&self) -> bool {
        self.first_begin.is_some() && self.last_end.is_some()
    }

    /// True unless they contradict that one kernel ran on all for `dur_us`, or the host saw too little of that time.
    ///
    /// NCCL 2.28 ends a call's record with the times of an earlier call where the communicator's counters are ahead of it:
    /// the host then sees begin and end at once.
    pub(super) fn can_be_kernel_of(&self, dur_us: u64) -> bool {
        let gap = self.last_begin.zip(self.first_end);
        let is_one = gap.is_none_or(|(begin, end)| begin.saturating_sub(end) <= MAX_CHANNEL_GAP_US);
        let seen = self.first_begin.zip(self.last_end);
        let is_seen = seen.is_none_or(|(begin, end)| {
            let seen = end.saturating_sub(begin).saturating_add(1);
            dur_us <= seen.saturating_mul(MAX_TIMES_SEEN)
        });
        is_one && is_seen
    }
}
