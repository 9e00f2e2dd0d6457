//! Whether a message comes before the first failure of the log.

use super::limits::{MAX_LATER_S, NEAR_S, OLD_S, ZONE_SLACK_S, ZONE_STEP_S};
use crate::grammar::machine::{KernelClock, WallTime, find_wall_time};
use crate::stages::check::finding::{Finding, Severity};

/// How a message and the first failure of the log follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeOrder {
    /// It is this number of seconds before it.
    Before(i64),
    /// It is more than a day before it.
    LongBefore,
    /// It is this number of seconds after it.
    After(i64),
    /// Their times cannot be compared.
    Unknown,
}

/// True for a time that can be compared with those of a log.
pub(super) fn is_wall(clock: KernelClock) -> bool {
    matches!(clock, KernelClock::Wall(_))
}

/// Returns the earliest time in the lines of the errors.
pub(super) fn first_failure_time(findings: &[Finding]) -> Option<WallTime> {
    let errors = findings.iter().filter(|f| f.severity == Severity::Error);
    let lines = errors.flat_map(|f| &f.evidence);
    let times = lines.filter_map(|line| find_wall_time(line.text.as_deref()?));
    times.reduce(|first, next| match first.seconds_until(&next) {
        Some(seconds) if seconds < 0 => next,
        _ => first,
    })
}

impl TimeOrder {
    /// Compares the time of a message with that of the first failure.
    pub(super) fn of_message(clock: KernelClock, failed_at: Option<WallTime>) -> TimeOrder {
        let (KernelClock::Wall(time), Some(failed_at)) = (clock, failed_at) else {
            return TimeOrder::Unknown;
        };
        let Some(before) = time.seconds_until(&failed_at) else {
            return TimeOrder::Unknown;
        };
        // The zones of both may differ.
        let rest = -before % ZONE_STEP_S;
        let is_near_step = rest <= ZONE_SLACK_S || rest >= ZONE_STEP_S - ZONE_SLACK_S;
        if is_near_step && (-OLD_S..-ZONE_SLACK_S).contains(&before) {
            return TimeOrder::Unknown;
        }
        match before {
            seconds if seconds < -MAX_LATER_S => TimeOrder::After(-seconds),
            seconds if seconds > OLD_S => TimeOrder::LongBefore,
            seconds => TimeOrder::Before(seconds.max(0)),
        }
    }

    /// True if it is shortly before the failure.
    pub(super) fn is_near(self) -> bool {
        matches!(self, TimeOrder::Before(seconds) if seconds <= NEAR_S)
    }

    /// True if it cannot be the cause.
    pub(super) fn is_excluded(self) -> bool {
        matches!(self, TimeOrder::After(_) | TimeOrder::LongBefore)
    }
}
