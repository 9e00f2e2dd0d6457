//! The output of nccl-tests and of rccl-tests, which is nccl-tests with another name: the run,
//! the tables with a row for each size, and the verdict at the end.
//!
//! Facts are from nccl-tests `src/common.cu` (2.0 to 2.16) and `src/util.cu` (2.17 to 2.20). A row is
//! printed in three writes: the size and what describes the call before the call is made, then the
//! values out of place, then those in place. NCCL's own lines come between them, right after the
//! last digit. The columns of a table are those of its header, and their widths too.

mod limits;
mod table;
#[cfg(test)]
mod tests;
mod words;

use limits::MAX_LABEL_BYTES;
use memchr::memmem::{self, Finder};
use std::borrow::Cow;
use std::sync::LazyLock;
pub use table::{BenchmarkValues, TableColumns, TableRow};
use table::{row_start, values_start};
use words::{parse_whole, split_words};

/// A line of nccl-tests.
#[derive(Debug, Clone, PartialEq)]
pub enum BenchmarkLine<'a> {
    /// The program that runs, without `_perf`: `# Collective test starting: all_reduce_perf` (since
    /// 2.13), or the command that starts it.
    Program(&'a [u8]),
    /// `# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) ..`.
    Setup(BenchmarkSetup),
    /// The rank of `#  Rank  0 Group  0 Pid 226099 on host device  0 [0x1a] TITAN Xp`.
    Device(u64),
    /// The header of a table, with the names of its columns.
    Columns(TableColumns),
    /// A row, or its beginning: read it with [`TableColumns::read_row`].
    Row,
    /// Values that may belong to a row that was begun: read them with [`TableRow::add_values`].
    Values,
    /// `# Out of bounds values : 6 FAILED`.
    OutOfBounds {
        /// How many values of the table.
        count: u64,
        /// The program's own verdict.
        failed: bool,
    },
    /// `# Avg bus bandwidth    : 354.589 FAILED`.
    AverageBandwidth {
        /// GB/s.
        gb_per_s: f64,
        /// It is below `NCCL_TESTS_MIN_BW`.
        failed: bool,
    },
    /// `host: Test NCCL failure common.cu:958 'unhandled system error'`: the run is over.
    Failure,
}

/// What a run was started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BenchmarkSetup {
    /// The first size in bytes.
    pub min_bytes: u64,
    /// The last size in bytes.
    pub max_bytes: u64,
}

/// Returns false for a line that is certainly none of nccl-tests'.
pub fn may_be_benchmark_line(line: &[u8]) -> bool {
    static PERF: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"_perf"));
    static FAILURE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b" failure "));
    let head = &line[..line.len().min(MAX_LABEL_BYTES)];
    memchr::memchr(b'#', head).is_some()
        || head.first().is_some_and(u8::is_ascii_digit)
        || memchr::memchr_iter(b' ', head).any(|at| {
            let after = &head[at + 1..];
            after.first() == Some(&b' ') && after.get(1).is_some_and(u8::is_ascii_digit)
        })
        || PERF.find(line).is_some()
        || FAILURE.find(line).is_some()
}

/// Returns the line without the tags that `mpirun --tag-output` puts before every write, so that a row
/// is in one piece again: `[1,0]<stdout>:`, `[prterun-host-7@1,0]<stdout>:`.
pub fn remove_output_tags(line: &[u8]) -> Cow<'_, [u8]> {
    static END: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"]<std"));
    if END.find(line).is_none() {
        return Cow::Borrowed(line);
    }
    let mut out = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some(close) = END.find(rest) {
        let after = &rest[close + 1..];
        let tag = [&b"<stdout>:"[..], b"<stderr>:"];
        let after = tag.iter().find_map(|tag| after.strip_prefix(*tag));
        match (memchr::memrchr(b'[', &rest[..close]), after) {
            (Some(open), Some(after)) => {
                out.extend_from_slice(&rest[..open]);
                rest = after;
            }
            _ => {
                out.extend_from_slice(&rest[..=close]);
                rest = &rest[close + 1..];
            }
        }
    }
    out.extend_from_slice(rest);
    Cow::Owned(out)
}

/// Parses a line without output tags.
pub fn parse_benchmark_line(line: &[u8]) -> Option<BenchmarkLine<'_>> {
    let head = &line[..line.len().min(MAX_LABEL_BYTES)];
    let hash = memchr::memchr_iter(b'#', head).find_map(|at| parse_comment(&line[at + 1..]));
    if hash.is_some() {
        return hash;
    }
    if row_start(line).is_some() {
        return Some(BenchmarkLine::Row);
    }
    if values_start(line).is_some() {
        return Some(BenchmarkLine::Values);
    }
    parse_failure(line).or_else(|| parse_command(line))
}

/// Parses what follows `#`.
fn parse_comment(text: &[u8]) -> Option<BenchmarkLine<'_>> {
    let words = text.trim_ascii_start();
    if let Some(name) = words.strip_prefix(b"Collective test starting: ") {
        return strip_perf(name.trim_ascii()).map(BenchmarkLine::Program);
    }
    if words.starts_with(b"nThread ") {
        return parse_setup(words).map(BenchmarkLine::Setup);
    }
    if let Some(rank) = words.strip_prefix(b"Rank ") {
        let mut words = split_words(rank);
        let rank = parse_whole(words.next()?.text)?;
        let is_device = words.any(|word| word.text == b"Pid");
        return is_device.then_some(BenchmarkLine::Device(rank));
    }
    let verdict = |name: &[u8]| {
        let value = words.strip_prefix(name)?.trim_ascii_start();
        let mut words = split_words(value.strip_prefix(b":")?);
        let value = words.next()?.text;
        let failed = words.next().is_some_and(|word| word.text == b"FAILED");
        Some((value, failed))
    };
    if let Some((count, failed)) = verdict(b"Out of bounds values") {
        let count = parse_whole(count)?;
        return Some(BenchmarkLine::OutOfBounds { count, failed });
    }
    if let Some((gb_per_s, failed)) = verdict(b"Avg bus bandwidth") {
        let gb_per_s = parse_whole(gb_per_s).filter(|value: &f64| value.is_finite())?;
        return Some(BenchmarkLine::AverageBandwidth { gb_per_s, failed });
    }
    words
        .starts_with(b"size ")
        .then(|| TableColumns::parse_columns(text))
        .flatten()
        .map(BenchmarkLine::Columns)
}

/// `nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 ..`.
fn parse_setup(text: &[u8]) -> Option<BenchmarkSetup> {
    let after = |name: &[u8]| {
        let mut words = split_words(text);
        words.find(|word| word.text == name)?;
        parse_whole(words.next()?.text)
    };
    Some(BenchmarkSetup {
        min_bytes: after(b"minBytes")?,
        max_bytes: after(b"maxBytes")?,
    })
}

/// The name of a program of nccl-tests, without its folder and `_perf`.
fn strip_perf(path: &[u8]) -> Option<&[u8]> {
    let name = path.rsplit(|b| *b == b'/').next()?;
    let name = name.strip_suffix(b"_perf")?;
    let of_name = |b: &u8| b.is_ascii_lowercase() || *b == b'_';
    (!name.is_empty() && name.iter().all(of_name)).then_some(name)
}

/// A command with options that starts one program: `./build/all_reduce_perf -b 8 -e 128M`.
fn parse_command(line: &[u8]) -> Option<BenchmarkLine<'_>> {
    let perf = memmem::find(line, b"_perf ")?;
    if memmem::find(&line[perf + 1..], b"_perf").is_some() {
        return None;
    }
    let start = line[..perf].iter().rposition(u8::is_ascii_whitespace);
    let name = strip_perf(&line[start.map_or(0, |at| at + 1)..perf + 5])?;
    let option = line[perf + 5..].trim_ascii_start();
    option
        .starts_with(b"-")
        .then_some(BenchmarkLine::Program(name))
}

/// `host: Test NCCL failure common.cu:958 '..'` and `.. pid 7: Test failure common.cu:1080`
/// (`src/common.h`, NCCLCHECK, CUDACHECK and TESTCHECK).
fn parse_failure(line: &[u8]) -> Option<BenchmarkLine<'_>> {
    let at = memmem::find(line, b"Test ")?;
    let rest = &line[at + 5..];
    let kinds = [&b"NCCL failure "[..], b"CUDA failure ", b"failure "];
    let place = kinds.iter().find_map(|kind| rest.strip_prefix(*kind))?;
    let place = split_words(place).next()?.text;
    let is_source = [&b".cu:"[..], b".cc:", b".cpp:", b".h:"];
    let is_source = is_source
        .iter()
        .any(|dot| memmem::find(place, dot).is_some());
    is_source.then_some(BenchmarkLine::Failure)
}
