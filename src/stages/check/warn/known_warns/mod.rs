//! Known WARN bodies: their meaning, advice, and the public source of these.
//!
//! A text has up to two parts that are known. Its *frame* is what NCCL tried, a row of `known_warns.txt`. Its *reason* is
//! what CUDA, HIP, a NIC or the kernel gave as the error, a row of `reasons.txt`. Of the frames that match, the one with
//! the most letters that had to agree counts, so the order of the rows does not matter. A reason decides unless it is one
//! that is general, such as "invalid argument", or the frame is about this very reason, or nothing fails by the frame.
//!
//! A reference is a thread in which the body is shown and explained, a page of NVIDIA's, or the source file that prints
//! it. `NVIDIA/nccl#426` is issue or pull request 426 of that repository.

pub(crate) mod known_bugs;
mod limits;
mod reason;
pub(crate) mod source_areas;
mod table;

use crate::stages::check::finding::{Confidence, Kind, Severity, WarnKind};
use memchr::memmem;
use reason::find_reason;
use std::ops::Range;
use table::{KNOWN_WARNS, KnownWarn, WarnPattern, all_rows};

/// The role of a body in the job's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WarnRole {
    /// It may be where a failure begins.
    Cause,
    /// The job is slower than it could be; no failure elsewhere begins there.
    Setback,
    /// It follows from a failure elsewhere.
    Consequence,
    /// NCCL takes its connections down: at the end of a job, or after a failure.
    Teardown,
    /// Nothing fails by it.
    Harmless,
}

/// The meaning of a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WarnMeaning {
    /// Its finding's kind.
    pub id: &'static str,
    /// Its role in a failure.
    pub role: WarnRole,
    /// Its severity by itself.
    pub severity: Severity,
    /// The confidence of that.
    pub sure: Confidence,
    /// Its meaning: a clause.
    pub means: &'static str,
    /// The advice: a clause.
    pub advice: &'static str,
    /// The source of these.
    pub reference: &'static str,
}

impl WarnRole {
    /// A clause: `mostly follows from a failure elsewhere`.
    pub(crate) fn describe_role(self) -> &'static str {
        match self {
            WarnRole::Cause => "may be where a failure begins",
            WarnRole::Setback => "makes the job slower; no failure elsewhere begins there",
            WarnRole::Consequence => "mostly follows from an earlier failure",
            WarnRole::Teardown => {
                "comes when connections are taken down, at the end or after a failure"
            }
            WarnRole::Harmless => "makes nothing fail",
        }
    }
}

/// The rows of one kind, by its stable word.
pub(crate) fn rows_of_kind(id: &str) -> impl Iterator<Item = &'static KnownWarn> {
    all_rows().filter(move |row| row.meaning.id == id)
}

/// The rows of all kinds.
pub(crate) fn rows_of_any_kind() -> impl Iterator<Item = &'static KnownWarn> {
    all_rows()
}

/// True for a kind of WARN that only follows from a failure elsewhere.
pub(crate) fn is_follower(kind: Kind) -> bool {
    let Kind::Warn(WarnKind(id)) = kind else {
        return false;
    };
    let known = all_rows().find(|known| known.meaning.id == id);
    known.is_some_and(|known| {
        matches!(
            known.meaning.role,
            WarnRole::Consequence | WarnRole::Teardown
        )
    })
}

/// Looks up a WARN's text without a known source file.
pub(crate) fn look_up_warn(text: &[u8]) -> Option<&'static WarnMeaning> {
    look_up_sourced_warn(text, None)
}

/// Looks up a WARN's text. The source file that prints it, if known, decides only between rows that name one: it shows
/// where NCCL was, not what failed.
pub(crate) fn look_up_sourced_warn(
    text: &[u8],
    source: Option<&[u8]>,
) -> Option<&'static WarnMeaning> {
    let reason = find_reason(text);
    let frame =
        find_frames(text, source).reduce(|best, frame| match frame.letters > best.letters {
            true => frame,
            false => best,
        });
    let row = match (&frame, &reason) {
        (Some(frame), Some(reason)) => {
            let calm = matches!(
                frame.row.meaning.role,
                WarnRole::Harmless | WarnRole::Teardown
            );
            match calm || reason.row.is_general || frame.shares(text, &reason.words) {
                true => frame.row,
                false => reason.row,
            }
        }
        (Some(frame), None) => frame.row,
        (None, reason) => reason.as_ref()?.row,
    };
    Some(&row.meaning)
}

/// Looks up a reason that does not decide what a text means, but has more than that a call failed.
pub(crate) fn look_up_added_reason(text: &[u8]) -> Option<&'static WarnMeaning> {
    let reason = find_reason(text)?.row;
    let is_vague = reason.meaning.sure == Confidence::Low;
    (reason.is_general && !is_vague).then_some(&reason.meaning)
}

/// Looks up the error of CUDA's or HIP's that a program's words name, where it shows surely what failed.
pub(crate) fn look_up_gpu_reason(text: &[u8]) -> Option<&'static WarnMeaning> {
    let row = find_reason(text)?.row;
    let is_of_gpu =
        row.meaning.id.starts_with("warn_cuda_") || row.meaning.id.starts_with("warn_hip_");
    let is_sure = row.meaning.sure == Confidence::High && !row.is_general;
    (is_of_gpu && is_sure).then_some(&row.meaning)
}

/// A row that matches a text.
struct FoundFrame {
    row: &'static KnownWarn,
    /// Its pattern with the most letters.
    pattern: &'static str,
    /// The letters that had to agree, in the text and the name of the source file.
    letters: usize,
}

impl FoundFrame {
    /// True if the pattern covers a part of `words`: the frame is about this very reason.
    fn shares(&self, text: &[u8], words: &Range<usize>) -> bool {
        match_pattern(text, self.pattern).is_some_and(|parts| {
            let mut parts = parts.iter();
            parts.any(|part| part.start < words.end && words.start < part.end)
        })
    }
}

/// The rows that match a text.
fn find_frames<'t>(
    text: &'t [u8],
    source: Option<&'t [u8]>,
) -> impl Iterator<Item = FoundFrame> + 't {
    KNOWN_WARNS.iter().filter_map(move |row| {
        let file = match row.files.is_empty() {
            true => "",
            false => {
                let is_own = |file: &&&str| source.is_some_and(|source| is_in_file(source, file));
                row.files.iter().find(is_own)?
            }
        };
        let texts = row.patterns.iter().filter_map(|pattern| match pattern {
            WarnPattern::Text(pattern) => Some(*pattern),
            WarnPattern::Reason(_) => None,
        });
        let matching = texts.filter(|pattern| contains_pattern(text, pattern));
        let pattern = matching.max_by_key(|pattern| count_letters(pattern))?;
        Some(FoundFrame {
            row,
            pattern,
            letters: count_letters(pattern) + file.len(),
        })
    })
}

/// True if `source`, as a line prints it (`src/ras/client.cc:12`), is the file `file` (`ras/client.cc`), or in the folder
/// `file` (`ras/`).
fn is_in_file(source: &[u8], file: &str) -> bool {
    memmem::find(source, file.as_bytes()).is_some_and(|at| {
        let begins = at == 0 || source[at - 1] == b'/';
        let ends = source.get(at + file.len()).is_none_or(|&b| b == b':');
        begins && (ends || file.ends_with('/'))
    })
}

fn count_letters(pattern: &str) -> usize {
    pattern.len() - pattern.matches('*').count()
}

/// True if `pattern` is in `text`; `*` in it matches any bytes.
pub(in crate::stages::check) fn contains_pattern(text: &[u8], pattern: &str) -> bool {
    let mut rest = text;
    pattern.split('*').all(|part| {
        let at = memmem::find(rest, part.as_bytes());
        rest = at.map_or(&[], |at| &rest[at + part.len()..]);
        at.is_some()
    })
}

/// The places of the parts of `pattern` in `text`.
fn match_pattern(text: &[u8], pattern: &str) -> Option<Vec<Range<usize>>> {
    let mut from = 0;
    let mut find = |part: &str| {
        let at = from + memmem::find(&text[from..], part.as_bytes())?;
        from = at + part.len();
        Some(at..from)
    };
    pattern.split('*').map(&mut find).collect()
}

#[cfg(test)]
mod tests;
