//! Decides when the results of an input that is read are written.

use super::limits::{
    BUSY_FLUSH_INTERVAL, COPY_FLUSH_INTERVAL, COPY_SPEED_BYTES_PER_MS, COPY_START_TIME,
    MAX_BYTES_BETWEEN_FLUSHES,
};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// The reason why the results so far may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlushReason {
    /// Nothing more had come.
    Idle,
    /// Much has come since the last flush: its results must not all be held.
    Long,
    /// The input never rests.
    Busy,
}

/// The bytes that were read since the last flush.
pub(super) struct FlushTimer {
    bytes: usize,
    begin: Instant,
    /// The time of the last check, and the bytes since then.
    look: Instant,
    new: usize,
}

impl Default for FlushTimer {
    fn default() -> FlushTimer {
        let now = Instant::now();
        FlushTimer {
            bytes: 0,
            begin: now,
            look: now,
            new: 0,
        }
    }
}

impl FlushTimer {
    /// Adds bytes. Returns the reason for a flush after them, if there is one.
    pub(super) fn flush_reason_after(
        &mut self,
        bytes: usize,
        is_idle: bool,
        is_live: bool,
    ) -> Option<FlushReason> {
        self.bytes += bytes;
        self.new += bytes;
        let is_busy = self.is_flush_due() && is_live;
        let pause = match is_idle {
            true => Some(FlushReason::Idle),
            false if is_busy => Some(FlushReason::Busy),
            false => (self.bytes >= MAX_BYTES_BETWEEN_FLUSHES).then_some(FlushReason::Long),
        };
        if pause.is_some() {
            self.bytes = 0;
        }
        pause
    }

    /// Returns true once in a while if bytes come without a rest.
    fn is_flush_due(&mut self) -> bool {
        let since = self.look.elapsed();
        if since < BUSY_FLUSH_INTERVAL {
            return false;
        }
        let is_fast = self.new as u128 > since.as_millis() * COPY_SPEED_BYTES_PER_MS;
        if is_fast && (since < COPY_FLUSH_INTERVAL || self.begin.elapsed() < COPY_START_TIME) {
            return false;
        }
        (self.look, self.new) = (Instant::now(), 0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_that_never_rests_has_pauses_after_a_while() {
        let now = Instant::now();
        let then = now.checked_sub(COPY_FLUSH_INTERVAL).unwrap();
        let since = |look| FlushTimer {
            bytes: 0,
            begin: now.checked_sub(COPY_START_TIME).unwrap(),
            look,
            new: 0,
        };
        let mut old = since(then);
        assert_eq!(
            old.flush_reason_after(1, false, true),
            Some(FlushReason::Busy)
        );
        assert_eq!(old.flush_reason_after(1, false, true), None);
        assert_eq!(
            old.flush_reason_after(1, true, true),
            Some(FlushReason::Idle)
        );
        // A packed file has no such pauses.
        assert_eq!(since(then).flush_reason_after(1, false, false), None);
        // What comes as fast as it can be read has a pause, too, but not as often.
        let mut fast = since(now.checked_sub(BUSY_FLUSH_INTERVAL).unwrap());
        assert_eq!(
            fast.flush_reason_after(MAX_BYTES_BETWEEN_FLUSHES - 1, false, true),
            None
        );
        let mut fast = since(then);
        assert_eq!(
            fast.flush_reason_after(1 << 31, false, true),
            Some(FlushReason::Busy)
        );
        let mut young = FlushTimer {
            begin: then,
            ..since(then)
        };
        assert_eq!(
            young.flush_reason_after(1 << 31, false, true),
            Some(FlushReason::Long)
        );
        let mut new = since(now);
        assert_eq!(
            new.flush_reason_after(MAX_BYTES_BETWEEN_FLUSHES - 1, false, true),
            None
        );
        assert_eq!(
            new.flush_reason_after(1, false, true),
            Some(FlushReason::Long)
        );
    }
}
