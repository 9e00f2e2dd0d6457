//! What NCCL's RAS subsystem answers (`ncclras`, since NCCL 2.24): the state of a job that runs or hangs. Text, or
//! JSON since 2.28.7; an input may hold several answers, as a loop appends them.

mod json;
mod limits;
mod snapshot;
mod text;
mod tokens;

pub use snapshot::{
    RasCommunicator, RasCountGroup, RasLostProcess, RasMissingRank, RasProcess, RasRank,
    RasRankState, RasSnapshot,
};

use super::ordered;
use super::{InputFormat, InputHead, ProbeAnswer, Provides};
use crate::error::Result;
use crate::source::Input;
use limits::{MAX_LINES_BEFORE_HEADER, MAX_RAS_BYTES, MAX_TIME_LINE_BYTES};
use memchr::memmem;

/// An answer as text.
pub(super) const TEXT: InputFormat = InputFormat {
    name: "ras",
    what: "an answer of NCCL's RAS (ncclras)",
    tells: Provides::LIVE_STATE,
    probe: |head| match find_text_header(head) {
        HeaderSearch::Found => head.probe_recorder(true),
        HeaderSearch::Possible => head.no_once_closed(true),
        HeaderSearch::Missing => ProbeAnswer::No,
    },
};

/// An answer as JSON.
pub(super) const JSON: InputFormat = InputFormat {
    probe: |head| {
        let has = |key: &[u8]| memmem::find(head.bytes, key).is_some();
        let is_object = head.bytes.trim_ascii_start().starts_with(b"{");
        head.probe_recorder(
            is_object && has(b"\"communicators_count\"") && has(b"\"nccl_version\""),
        )
    },
    ..TEXT
};

/// Whether the first lines are those of a text.
enum HeaderSearch {
    Found,
    /// The next line decides.
    Possible,
    Missing,
}

/// Looks for the first lines of an answer: NCCL's version with that of CUDA, or the summary or a communicator where
/// an answer was copied in part.
fn find_text_header(head: &InputHead<'_>) -> HeaderSearch {
    let mut lines = head.lines();
    for _ in 0..MAX_LINES_BEFORE_HEADER {
        let Some(line) = lines.next() else {
            return HeaderSearch::Possible;
        };
        if line == b"Job summary" || is_communicator_line(line) {
            return HeaderSearch::Found;
        }
        let is_version = line.starts_with(b"NCCL version ")
            && memmem::find(line, b" compiled with CUDA ").is_some();
        if is_version {
            return match lines.next() {
                Some(next) if next.starts_with(b"CUDA runtime version ") => HeaderSearch::Found,
                Some(_) => HeaderSearch::Missing,
                None => HeaderSearch::Possible,
            };
        }
        if !is_time_line(line) && !is_logged_line(line) {
            return HeaderSearch::Missing;
        }
    }
    HeaderSearch::Missing
}

/// True for `#0-0 (42f187a69ed99798) MISMATCH`.
fn is_communicator_line(line: &[u8]) -> bool {
    let words = [&b"MISMATCH"[..], b"INCOMPLETE", b"ERROR"];
    let hash = memmem::find(line, b" (").and_then(|at| line.get(at + 2..at + 18));
    line.starts_with(b"#")
        && hash.is_some_and(|hash| hash.iter().all(u8::is_ascii_hexdigit))
        && words.iter().any(|word| line.ends_with(word))
}

/// True for a warning of PyTorch's, as a program prints it that asks RAS itself: `W703 00:59:30.4 x.cpp:981] Warning: ..`,
/// with or without a bracket in front.
fn is_logged_line(line: &[u8]) -> bool {
    let line = line.strip_prefix(b"[").unwrap_or(line);
    let is_level = matches!(line, [b'W' | b'I', b'0'..=b'9', ..]);
    let places = [&b".cpp:"[..], b".py:"];
    is_level
        && places
            .iter()
            .any(|place| memmem::find(line, place).is_some())
}

/// True for a line that has only the time, as `date` prints it.
pub(super) fn is_time_line(line: &[u8]) -> bool {
    let days = [
        b"Mon ", b"Tue ", b"Wed ", b"Thu ", b"Fri ", b"Sat ", b"Sun ",
    ];
    let is_byte = |b: &u8| b.is_ascii_digit() || b"-+:.,TZ/ ".contains(b);
    let is_time = line.iter().all(is_byte) && line.first().is_some_and(u8::is_ascii_digit)
        || days.iter().any(|day| line.starts_with(*day));
    is_time && line.len() <= MAX_TIME_LINE_BYTES
}

/// Reads all answers of a text, in their order. Bytes of any other kind have none.
pub fn parse_ras_snapshots(bytes: &[u8]) -> Vec<RasSnapshot> {
    let is_json = memmem::find(bytes, b"\"communicators\"").is_some();
    match is_json {
        true => json::read_json_snapshots(bytes),
        false => text::read_text_snapshots(bytes),
    }
}

/// Reads one answer; the last, if there are several.
pub fn parse_ras_snapshot(bytes: &[u8]) -> Option<RasSnapshot> {
    parse_ras_snapshots(bytes).pop()
}

/// Reads all answers of an input.
///
/// # Errors
/// It cannot be read, or is too long.
pub fn load_ras_snapshots(input: &Input) -> Result<Vec<RasSnapshot>> {
    Ok(parse_ras_snapshots(&ordered::read_whole(
        input,
        MAX_RAS_BYTES,
    )?))
}
