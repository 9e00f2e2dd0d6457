//! The lines that are passed on: those of the wanted stretches, without the calls that were made in
//! another step, and with those that were made in a wanted step but printed elsewhere.

use crate::error::{Error, Result};
use crate::source::Input;
use crate::stages::trainer::limits::{COPY_BLOCK_BYTES, LINE_SEARCH_BYTES, MAX_CALL_LINE_BYTES};
use memchr::{memchr, memrchr};
use std::io::{BufRead, BufReader, Read, Write};

/// A line that is passed on although it is outside of the wanted stretches, or left out although it
/// is inside: from where to where, and which of both.
type MovedLine = (u64, u64, bool);

/// Copies the bytes of `ranges`, which are sorted and apart, and of the lines in `moved`: where a
/// call is, and whether its line is passed on although it is outside of them, or left out although it
/// is inside. `moved` is sorted.
///
/// # Errors
/// The input cannot be read or changed, the output cannot be written.
pub(super) fn copy_ranges(
    input: &Input,
    ranges: &[(u64, u64)],
    moved: &[(u64, bool)],
    out: &mut dyn Write,
) -> Result<()> {
    if moved.is_empty() {
        return copy_plain(input, ranges, out);
    }
    match moved_lines(input, moved)? {
        Some(lines) => copy_plain(input, &apply_moved(ranges, &lines), out),
        None => copy_streamed(input, ranges, moved, out),
    }
}

/// The whole lines of `moved`; `None` of an input that cannot be mapped.
fn moved_lines(input: &Input, moved: &[(u64, bool)]) -> Result<Option<Vec<MovedLine>>> {
    let mut lines = Vec::with_capacity(moved.len());
    for &(at, passed) in moved {
        let Some(start) = find_line_start(input, at)? else {
            return Ok(None);
        };
        let mut end = at;
        loop {
            let Some(rest) = input.mapped_range(end, end.saturating_add(LINE_SEARCH_BYTES))? else {
                return Ok(None);
            };
            let found = memchr(b'\n', rest);
            end += found.map_or(rest.len(), |i| i + 1) as u64;
            if found.is_some() || rest.is_empty() {
                break;
            }
        }
        // A call that shares its line with another is passed on with it.
        if passed || start == at {
            lines.push((start, end, passed));
        }
    }
    Ok(Some(lines))
}

/// Where the line begins that `at` is in; `None` of an input that cannot be mapped.
fn find_line_start(input: &Input, at: u64) -> Result<Option<u64>> {
    let mut start = at;
    while start > 0 {
        let from = start.saturating_sub(LINE_SEARCH_BYTES);
        let Some(before) = input.mapped_range(from, start)? else {
            return Ok(None);
        };
        if let Some(found) = memrchr(b'\n', before) {
            return Ok(Some(from + found as u64 + 1));
        }
        start = from;
    }
    Ok(Some(0))
}

/// Returns where the line begins that `at` is in; `at` if the input is not mapped.
///
/// # Errors
/// It was changed.
pub(super) fn line_start(input: &Input, at: u64) -> Result<u64> {
    Ok(find_line_start(input, at)?.unwrap_or(at))
}

/// `ranges` without the lines that are left out and with those that are passed on.
fn apply_moved(ranges: &[(u64, u64)], lines: &[MovedLine]) -> Vec<(u64, u64)> {
    let mut out = Vec::with_capacity(ranges.len() + lines.len());
    let mut left_out = lines.iter().filter(|line| !line.2).peekable();
    for &(mut from, to) in ranges {
        while left_out.next_if(|line| line.1 <= from).is_some() {}
        while let Some(&&(start, end, _)) = left_out.peek().filter(|line| line.0 < to) {
            if from < start {
                out.push((from, start));
            }
            from = from.max(end.min(to));
            if end > to {
                break;
            }
            left_out.next();
        }
        if from < to {
            out.push((from, to));
        }
    }
    let passed = lines.iter().filter(|line| line.2);
    out.extend(passed.map(|&(start, end, _)| (start, end)));
    join_ranges(out)
}

fn copy_plain(input: &Input, ranges: &[(u64, u64)], out: &mut dyn Write) -> Result<()> {
    // The kernel finds no more where the log was truncated a moment ago.
    let written = |result: std::io::Result<()>| match result {
        Err(e) if e.raw_os_error() == Some(libc::EFAULT) => Err(input.changed_error()),
        result => result.map_err(Error::Output),
    };
    let mut reader: Option<Box<dyn Read + Send>> = None;
    let mut block = Vec::new();
    let mut at = 0;
    for &(from, to) in ranges {
        let mut next = from;
        while next < to {
            let end = to.min(next.saturating_add(COPY_BLOCK_BYTES));
            if let Some(part) = input.mapped_range(next, end)? {
                if part.is_empty() {
                    break;
                }
                written(out.write_all(part))?;
                next += part.len() as u64;
                continue;
            }
            let failed = |source| Error::Input {
                path: input.name().into(),
                cause: source,
            };
            let reader = match &mut reader {
                Some(reader) => reader,
                none => none.insert(input.open_reader()?),
            };
            // Bytes before the range are skipped.
            let wanted = if at < next { next - at } else { end - at };
            let mut limited = reader.take(wanted.min(COPY_BLOCK_BYTES));
            block.clear();
            let n = limited.read_to_end(&mut block).map_err(failed)?;
            if n == 0 {
                break;
            }
            if at >= next {
                written(out.write_all(&block))?;
                next += n as u64;
            }
            at += n as u64;
        }
    }
    Ok(())
}

fn copy_streamed(
    input: &Input,
    ranges: &[(u64, u64)],
    moved: &[(u64, bool)],
    out: &mut dyn Write,
) -> Result<()> {
    let failed = |source| Error::Input {
        path: input.name().into(),
        cause: source,
    };
    let mut reader = BufReader::with_capacity(1 << 20, input.open_reader()?);
    let (mut ranges, mut moved) = (ranges.iter().peekable(), moved.iter().peekable());
    let (mut line, mut at) = (Vec::new(), 0_u64);
    loop {
        line.clear();
        let mut part = reader.by_ref().take(MAX_CALL_LINE_BYTES);
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

/// Sorted ranges that do not overlap, neighbours made one.
pub(super) fn join_ranges(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut out: Vec<(u64, u64)> = Vec::new();
    for (from, to) in ranges {
        match out.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => out.push((from, to)),
        }
    }
    out
}
