//! metrics.log: how often each function was called since the start, and how long the host was in it.
//! A line each (`name:cuInit,count:3,burst:4349618`), before ef43322 three lines each, and by the older
//! interceptor `pid:`, `kernel-cnt:`, `mem-used:`, `token-cnt:`.
//!
//! count and burst are 32 bits wide: burst starts again at 0 after 71.6 minutes.

use super::limits::MAX_FUNCTIONS;
use crate::formats::whole_number::parse_decimal;
use crate::grammar::token::dec_u64;

/// The sums of a function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CudaFunctionSum {
    /// Calls that returned, and for cuMemcpyH2D and D2H lookups of the function too.
    pub count: u64,
    /// µs in all, modulo 2^32.
    pub burst_us: Option<u64>,
}

/// A snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CudaSnapshot {
    /// By function, in the order of the file.
    pub of: Vec<(Box<[u8]>, CudaFunctionSum)>,
    /// Bytes requested from cuMemAlloc so far; a free does not lower it.
    pub(crate) allocated: Option<u64>,
    /// The process, by the older interceptor.
    pub(crate) pid: Option<i64>,
}

/// Returns true for a file that begins with these lines.
pub(super) fn is_snapshot(first: &[u8], second: Option<&[u8]>) -> bool {
    let second = second.unwrap_or_default();
    let is_pid = parse_number(first, b"pid:-")
        .or(parse_number(first, b"pid:"))
        .is_some();
    let is_block = first.strip_prefix(b"name:cu").is_some_and(is_name);
    parse_number(first, b"name:mem_used,count:").is_some()
        || parse_sum(first).is_some()
        || is_pid && parse_number(second, b"kernel-cnt:").is_some()
        || is_block && parse_number(second, b"count:").is_some()
}

fn is_token(line: &[u8]) -> bool {
    [&b"token-cnt:"[..], b"token-cnt:-"]
        .iter()
        .any(|key| parse_number(line, key).is_some())
}

fn is_name(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
}

fn parse_number(line: &[u8], key: &[u8]) -> Option<u64> {
    parse_decimal(line.strip_prefix(key)?)
}

/// `name:cuInit,count:3,burst:4349618`.
fn parse_sum(line: &[u8]) -> Option<(&[u8], CudaFunctionSum)> {
    let rest = line.strip_prefix(b"name:")?;
    let end = memchr::memchr(b',', rest)?;
    let (name, rest) = rest.split_at(end);
    let (rest, count) = dec_u64(rest.strip_prefix(b",count:")?).ok()?;
    let burst_us = Some(parse_number(rest, b",burst:")?);
    is_name(name).then_some((name, CudaFunctionSum { count, burst_us }))
}

/// Reads a snapshot. Gives `count` each line that is not blank, and whether it is sound.
pub(crate) fn parse_snapshot(text: &[u8], count: &mut dyn FnMut(&[u8], bool)) -> CudaSnapshot {
    let mut all = CudaSnapshot::default();
    let lines = text.split(|&b| b == b'\n').map(<[u8]>::trim_ascii);
    let mut lines = lines.filter(|line| !line.is_empty()).peekable();
    while let Some(line) = lines.next() {
        let next = lines.peek().copied().unwrap_or_default();
        count(line, is_token(line) || add_line(&mut all, line, next));
    }
    all
}

fn add_line(all: &mut CudaSnapshot, line: &[u8], next: &[u8]) -> bool {
    let is_full = all.of.len() >= MAX_FUNCTIONS;
    if let Some(bytes) =
        parse_number(line, b"name:mem_used,count:").or(parse_number(line, b"mem-used:"))
    {
        all.allocated = Some(bytes);
    } else if let Some(pid) = parse_number(line, b"pid:").or(parse_number(line, b"pid:-")) {
        let sign = if line.starts_with(b"pid:-") { -1 } else { 1 };
        all.pid = i64::try_from(pid).ok().map(|pid| sign * pid);
    } else if let Some(count) = parse_number(line, b"kernel-cnt:") {
        let sum = CudaFunctionSum {
            count,
            burst_us: None,
        };
        all.of.push((b"cuLaunchKernel"[..].into(), sum));
    } else if let (Some((name, sum)), false) = (parse_sum(line), is_full) {
        all.of.push((name.into(), sum));
    } else if let (Some(name), false) = (line.strip_prefix(b"name:"), is_full) {
        // A line of one of three: else a sum that is cut.
        if !is_name(name) || parse_number(next, b"count:").is_none() {
            return false;
        }
        all.of.push((name.into(), CudaFunctionSum::default()));
    } else if let (Some(count), Some((_, sum))) = (parse_number(line, b"count:"), all.of.last_mut())
    {
        sum.count = count;
    } else if let (Some(us), Some((_, sum))) = (parse_number(line, b"burst:"), all.of.last_mut()) {
        sum.burst_us = Some(us);
    } else {
        return false;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_has_its_sums() {
        let of = |text: &str| {
            let mut lines = text.lines().map(str::as_bytes);
            assert!(is_snapshot(lines.next().unwrap(), lines.next()));
            let all = parse_snapshot(text.as_bytes(), &mut |_, is_sound| assert!(is_sound));
            let (name, sum) = all.of.last().unwrap().clone();
            (
                String::from_utf8(name.into()).unwrap(),
                sum.count,
                sum.burst_us,
                all.allocated,
            )
        };
        let v1 = "pid:-2\nkernel-cnt:97068\nmem-used:0\ntoken-cnt:0\n";
        assert_eq!(of(v1), ("cuLaunchKernel".to_owned(), 97068, None, Some(0)));
        let v2 = "name:cuInit\ncount:4\nburst:4213891\n";
        assert_eq!(of(v2), ("cuInit".to_owned(), 4, Some(4_213_891), None));
        let v4 = "name:mem_used,count:421527552\nname:cuInit,count:4,burst:6202325\n";
        assert_eq!(
            of(v4),
            ("cuInit".to_owned(), 4, Some(6_202_325), Some(421_527_552))
        );
        let mut sound = Vec::new();
        parse_snapshot(b"name:mem_used,count:1\nname:cuInit,coun", &mut |_, is| {
            sound.push(is);
        });
        assert_eq!(sound, [true, false]);
    }
}
