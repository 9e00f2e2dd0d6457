//! How long calls took, and what they moved meanwhile.

use super::durations::CallDurations;
use serde::{Deserialize, Serialize};

/// Bytes of calls that are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct BandwidthBytes {
    calls: u64,
    bytes: u128,
}

impl BandwidthBytes {
    fn add_bytes(&mut self, bytes: Option<u128>) {
        if let Some(bytes) = bytes {
            self.merge(BandwidthBytes { calls: 1, bytes });
        }
    }

    fn merge(&mut self, other: BandwidthBytes) {
        self.calls = self.calls.saturating_add(other.calls);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Calls with a duration of their own.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TimedCalls {
    /// How long they took.
    pub durations: CallDurations,
    message: BandwidthBytes,
    wire: BandwidthBytes,
}

impl TimedCalls {
    /// Adds a call: how long it took, and its bytes on the bases that nccl-tests' two bandwidths are
    /// of.
    pub fn add_call(&mut self, ns: u64, message: Option<u128>, wire: Option<u128>) {
        self.durations.add_call(ns);
        self.message.add_bytes(message);
        self.wire.add_bytes(wire);
    }

    /// Adds calls that were counted apart.
    pub fn merge(&mut self, other: &TimedCalls) {
        self.durations.merge(&other.durations);
        self.message.merge(other.message);
        self.wire.merge(other.wire);
    }

    /// nccl-tests' algorithm and bus bandwidth in GB/s (of 10^9 bytes): the bytes of all calls over
    /// the time of all. `None` where the bytes of a call are not known on that basis, or no time
    /// went by.
    pub fn bandwidths(&self) -> [Option<f64>; 2] {
        let (calls, ns) = (self.durations.count_calls(), self.durations.total_ns());
        [self.message, self.wire]
            .map(|moved| (moved.calls == calls && ns > 0).then(|| moved.bytes as f64 / ns as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bandwidth_is_of_all_bytes_and_all_time_or_unknown() {
        let mut timed = TimedCalls::default();
        assert_eq!(timed.bandwidths(), [None, None]);
        timed.add_call(0, Some(1000), Some(750));
        assert_eq!(timed.bandwidths(), [None, None]);
        timed.add_call(1000, Some(3000), Some(2250));
        assert_eq!(timed.bandwidths(), [Some(4.0), Some(3.0)]);
        let mut other = TimedCalls::default();
        other.add_call(1000, Some(0), None);
        timed.merge(&other);
        assert_eq!(timed.bandwidths(), [Some(2.0), None]);
    }
}
