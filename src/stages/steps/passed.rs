//! The lines that are passed on: those of the wanted stretches, without the calls that were made in
//! another step, and with those that were made in a wanted step but printed elsewhere.

use crate::error::{Error, Result};
use crate::source::Input;
use memchr::{memchr, memrchr};
use std::io::{BufRead, BufReader, Read, Write};

/// The most bytes of a line that are held; no call is that long.
const LONGEST: u64 = 1 << 24;

/// Copies the bytes of `ranges`, which are sorted and apart, and of the lines in `moved`: where a
/// call is, and whether its line is passed on although it is outside of them, or left out although it
/// is inside. `moved` is sorted.
pub(super) fn copy(
    input: &Input,
    ranges: &[(u64, u64)],
    moved: &[(u64, bool)],
    out: &mut dyn Write,
) -> Result<()> {
    match input.bytes() {
        Some(bytes) => mapped(bytes, ranges, moved, out),
        None => streamed(input, ranges, moved, out),
    }
}

fn mapped(
    bytes: &[u8],
    ranges: &[(u64, u64)],
    moved: &[(u64, bool)],
    out: &mut dyn Write,
) -> Result<()> {
    let len = bytes.len();
    let end = |at: usize| memchr(b'\n', &bytes[at..]).map_or(len, |i| at + i + 1);
    let start = |at: usize| memrchr(b'\n', &bytes[..at]).map_or(0, |i| i + 1);
    let mut done = 0;
    let mut write = |from: usize, to: usize| {
        let from = from.max(done);
        if from < to {
            done = to;
            out.write_all(&bytes[from..to]).map_err(Error::Output)?;
        }
        Ok(())
    };
    let mut moved = moved
        .iter()
        .map(|&(at, passed)| (usize::try_from(at).unwrap_or(len).min(len), passed))
        .peekable();
    for &(from, to) in ranges {
        let from = usize::try_from(from).unwrap_or(len).min(len);
        let to = usize::try_from(to).unwrap_or(len).min(len);
        while let Some((at, passed)) = moved.next_if(|(at, _)| *at < from) {
            if passed {
                write(start(at), end(at).min(from))?;
            }
        }
        let mut at_byte = from;
        while let Some((at, passed)) = moved.next_if(|(at, _)| *at < to) {
            // What shares its line with another is passed on with it.
            if !passed && start(at) == at && at >= at_byte {
                write(at_byte, at)?;
                at_byte = end(at).min(to);
            }
        }
        write(at_byte, to)?;
    }
    for (at, passed) in moved {
        if passed {
            write(start(at), end(at))?;
        }
    }
    Ok(())
}

fn streamed(
    input: &Input,
    ranges: &[(u64, u64)],
    moved: &[(u64, bool)],
    out: &mut dyn Write,
) -> Result<()> {
    let failed = |source| Error::Input {
        path: input.name().into(),
        cause: source,
    };
    let mut reader = BufReader::with_capacity(1 << 20, input.reader()?);
    let (mut ranges, mut moved) = (ranges.iter().peekable(), moved.iter().peekable());
    let (mut line, mut at) = (Vec::new(), 0_u64);
    loop {
        line.clear();
        let mut part = reader.by_ref().take(LONGEST);
        let n = part.read_until(b'\n', &mut line).map_err(failed)?;
        if n == 0 {
            return Ok(());
        }
        let (start, end) = (at, at + n as u64);
        at = end;
        let (mut added, mut left_out) = (false, false);
        while let Some(&&(call, passed)) = moved.peek().filter(|(call, _)| *call < end) {
            moved.next();
            added |= passed;
            left_out |= !passed && call == start;
        }
        if added {
            out.write_all(&line).map_err(Error::Output)?;
            continue;
        }
        while ranges.next_if(|(_, to)| *to <= start).is_some() {}
        // A stretch may begin or end within a line.
        while let Some(&&(from, to)) = ranges.peek().filter(|(from, _)| *from < end) {
            if !left_out {
                let cut = |byte: u64| usize::try_from(byte.clamp(start, end) - start).unwrap_or(n);
                out.write_all(&line[cut(from)..cut(to)])
                    .map_err(Error::Output)?;
            }
            if to > end {
                break;
            }
            ranges.next();
        }
    }
}
