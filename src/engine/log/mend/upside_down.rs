//! Logs with the newest line first, as consoles of clouds show and export them, turned round.
//!
//! ```text
//! ERROR 2026-04-05T00:01:19.209112405Z Last error:
//! ERROR 2026-04-05T00:01:19.209109067Z ncclSystemError: System call failed
//! ```
//!
//! Only a log whose lines all have a stamp of this form is turned: where several lines have one stamp, nothing shows
//! which of them comes first.

use super::limits::{MAX_TURNED_BYTES, MIN_DESCENTS, STAMP_SEARCH_BYTES, UPSIDE_DOWN_HEAD_BYTES};
use crate::source::{FillEnd, RejoinCounts, RejoinCountsSlot, fill_until_idle};
use std::io::{self, Read};

/// Returns true if the stamps of the first lines descend.
pub(super) fn is_upside_down(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(UPSIDE_DOWN_HEAD_BYTES)];
    let mut lines = head.split(|&b| b == b'\n').map(<[u8]>::trim_ascii);
    let (mut last, mut falls, mut rises) = (None, 0_u32, 0_u32);
    for line in lines.by_ref().filter(|line| !line.is_empty()) {
        let Some(stamp) = find_stamp(line) else {
            // The head may end in the middle of a stamp.
            let is_cut = line.len() < STAMP_SEARCH_BYTES && head.ends_with(line);
            return is_cut && falls >= MIN_DESCENTS && rises * 10 <= falls;
        };
        falls += u32::from(last.is_some_and(|last| stamp < last));
        rises += u32::from(last.is_some_and(|last| stamp > last));
        if rises > falls {
            return false;
        }
        last = Some(stamp);
    }
    falls >= MIN_DESCENTS && rises * 10 <= falls
}

/// Finds `2026-04-05T00:01:19.209112405` among the first bytes of a line. Such stamps compare as their text does.
fn find_stamp(line: &[u8]) -> Option<&[u8]> {
    let head = &line[..line.len().min(STAMP_SEARCH_BYTES)];
    let form = b"0000-00-00 00:00:00";
    let is_there = |text: &[u8]| {
        text.iter().zip(form).all(|(b, form)| match form {
            b'0' => b.is_ascii_digit(),
            b' ' => b" T_".contains(b),
            form => b == form,
        })
    };
    let from = head.windows(form.len()).position(is_there)?;
    let rest = &line[from + form.len()..];
    let fraction = rest
        .iter()
        .take_while(|b| b.is_ascii_digit() || b".,".contains(b));
    Some(&line[from..from + form.len() + fraction.count()])
}

/// A log that is upside down, turned; any other as it is.
pub(super) struct TurningReader<R> {
    inner: R,
    is_decided: bool,
    out: Vec<u8>,
    given: usize,
    seen: RejoinCountsSlot,
    /// The input was idle at the last read: this is reported when everything is given out.
    is_idle: bool,
}

impl<R: Read> TurningReader<R> {
    pub(super) fn new(inner: R, seen: RejoinCountsSlot) -> TurningReader<R> {
        TurningReader {
            inner,
            is_decided: false,
            out: Vec::new(),
            given: 0,
            seen,
            is_idle: false,
        }
    }

    /// Reads the whole log if its head is upside down. One that is too long, or that grows, is passed on as it is.
    fn read_head(&mut self) -> io::Result<()> {
        self.is_decided = true;
        let (mut limit, mut end) = (UPSIDE_DOWN_HEAD_BYTES, FillEnd::Full);
        while end == FillEnd::Full && limit <= MAX_TURNED_BYTES {
            end = fill_until_idle(&mut self.inner, &mut self.out, limit)?;
            limit = match is_upside_down(&self.out) {
                true => limit * 2,
                false => usize::MAX,
            };
        }
        self.is_idle = end == FillEnd::Idle;
        if end == FillEnd::Ended && is_upside_down(&self.out) {
            self.out = turn_lines(&self.out);
            if let Ok(mut seen) = self.seen.lock() {
                *seen = Some(RejoinCounts {
                    is_turned: true,
                    ..RejoinCounts::default()
                });
            }
        }
        Ok(())
    }
}

fn turn_lines(text: &[u8]) -> Vec<u8> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let lines = text.rsplit(|&b| b == b'\n');
    let mut turned = Vec::with_capacity(text.len() + 1);
    for line in lines {
        turned.extend_from_slice(line);
        turned.push(b'\n');
    }
    turned
}

impl<R: Read> Read for TurningReader<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if !self.is_decided {
            self.read_head()?;
        }
        if self.given < self.out.len() {
            let n = (&self.out[self.given..]).read(to)?;
            self.given += n;
            return Ok(n);
        }
        (self.out, self.given) = (Vec::new(), 0);
        match std::mem::take(&mut self.is_idle) {
            true => Err(io::ErrorKind::WouldBlock.into()),
            false => self.inner.read(to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: u32, from: u32) -> String {
        let line = |n| format!("ERROR 2026-04-05T00:01:19.{n:06}Z line {n}\n");
        (0..lines).map(|n| line(from.abs_diff(n))).collect()
    }

    #[test]
    fn a_log_is_turned_if_all_its_stamps_descend() {
        let down = log(40, 99);
        assert!(is_upside_down(down.as_bytes()));
        assert!(!is_upside_down(log(40, 0).as_bytes()));
        assert!(!is_upside_down(log(5, 99).as_bytes()));
        assert!(!is_upside_down(format!("a header\n{down}").as_bytes()));
        let mut read = Vec::new();
        let seen = RejoinCountsSlot::default();
        TurningReader::new(down.as_bytes(), seen.clone())
            .read_to_end(&mut read)
            .unwrap();
        let mut lines: Vec<&str> = down.lines().collect();
        lines.reverse();
        assert_eq!(String::from_utf8(read).unwrap(), lines.join("\n") + "\n");
        assert!(seen.lock().unwrap().unwrap().is_turned);
    }

    #[test]
    fn any_other_log_is_passed_on() {
        for text in [String::new(), "x".into(), log(9000, 0), log(4, 9)] {
            let mut read = Vec::new();
            let reader = TurningReader::new(text.as_bytes(), RejoinCountsSlot::default());
            { reader }.read_to_end(&mut read).unwrap();
            assert_eq!(read, text.as_bytes());
        }
    }
}
