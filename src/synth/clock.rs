//! The job's own clock: it starts at a fixed moment, so that the same seed gives the same bytes.

use crate::options::Timestamps;
use jiff::{Timestamp, tz::TimeZone};

/// 2025-10-01 12:00:00 UTC.
const JOB_START_UNIX_S: i64 = 1_759_320_000;

/// A moment, and its date kept as text, because millions of lines share a second.
#[derive(Debug, Clone)]
pub(crate) struct JobClock {
    us: u64,
    second: u64,
    /// `2025-10-01 12:00:00`
    text: String,
}

impl Default for JobClock {
    fn default() -> Self {
        let mut clock = Self {
            us: 0,
            second: u64::MAX,
            text: String::new(),
        };
        clock.advance(0);
        clock
    }
}

impl JobClock {
    /// Lets time pass.
    pub(crate) fn advance(&mut self, us: u64) {
        self.us += us;
        let second = self.us / 1_000_000;
        if second != self.second {
            self.second = second;
            // A clock past year 9999 keeps its last date; no test log is that long.
            if let Ok(at) = Timestamp::from_second(self.unix()) {
                let at = at.to_zoned(TimeZone::UTC);
                self.text = at.strftime("%Y-%m-%d %H:%M:%S").to_string();
            }
        }
    }

    /// Microseconds since the start.
    pub(crate) fn us(&self) -> u64 {
        self.us
    }

    /// It becomes that late, if it is not later already.
    pub(crate) fn advance_to(&mut self, us: u64) {
        self.advance(us.saturating_sub(self.us));
    }

    fn unix(&self) -> i64 {
        JOB_START_UNIX_S.saturating_add_unsigned(self.second)
    }

    /// `2025-10-01`
    pub(crate) fn date(&self) -> &str {
        self.text.get(..10).unwrap_or_default()
    }

    /// `12:00:00`
    pub(crate) fn time(&self) -> &str {
        self.text.get(11..).unwrap_or_default()
    }

    /// `2025-10-01 12:00:00`
    pub(crate) fn date_time(&self) -> &str {
        &self.text
    }

    /// Milliseconds of the second.
    pub(crate) fn ms(&self) -> u64 {
        self.us / 1_000 % 1_000
    }

    /// Microseconds of the second.
    pub(crate) fn micros(&self) -> u64 {
        self.us % 1_000_000
    }

    /// Writes what NCCL puts in front of a line (`src/debug.cc`, from 2.26: the format is the
    /// user's strftime text with its closing blank; subseconds by `%<n>f`).
    pub(crate) fn write_nccl_stamp(&self, buf: &mut Vec<u8>, format: Timestamps) {
        match format {
            Timestamps::None => {}
            Timestamps::Default => {
                buf.push(b'[');
                buf.extend_from_slice(self.text.as_bytes());
                buf.extend_from_slice(b"] ");
            }
            Timestamps::Iso => {
                buf.extend_from_slice(self.date().as_bytes());
                buf.push(b'T');
                buf.extend_from_slice(self.time().as_bytes());
                buf.push(b'.');
                write_padded(buf, self.micros(), 6);
                buf.push(b' ');
            }
            Timestamps::Time => {
                buf.push(b'[');
                buf.extend_from_slice(self.time().as_bytes());
                buf.extend_from_slice(b"] ");
            }
            Timestamps::Epoch => {
                buf.extend_from_slice(itoa::Buffer::new().format(self.unix()).as_bytes());
                buf.push(b' ');
            }
        }
    }
}

/// `n` in decimal with leading zeros.
pub(crate) fn write_padded(buf: &mut Vec<u8>, n: u64, width: usize) {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(n).as_bytes();
    buf.extend(std::iter::repeat_n(
        b'0',
        width.saturating_sub(digits.len()),
    ));
    buf.extend_from_slice(digits);
}

#[cfg(test)]
mod tests {
    use super::{JobClock, Timestamps};

    #[test]
    fn formats_are_those_of_strftime() {
        let mut clock = JobClock::default();
        clock.advance(3_661_000_042);
        let written = |format| {
            let mut buf = Vec::new();
            clock.write_nccl_stamp(&mut buf, format);
            String::from_utf8(buf).unwrap()
        };
        assert_eq!(written(Timestamps::Default), "[2025-10-01 13:01:01] ");
        assert_eq!(written(Timestamps::Iso), "2025-10-01T13:01:01.000042 ");
        assert_eq!(written(Timestamps::Time), "[13:01:01] ");
        assert_eq!(written(Timestamps::Epoch), "1759323661 ");
        assert_eq!(written(Timestamps::None), "");
    }
}
