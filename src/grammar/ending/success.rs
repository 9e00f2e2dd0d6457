//! Lines that report that the work is done.

use super::EndingLine;
use memchr::memmem;

pub(super) fn read_success<'a>(_: &'a [u8], _: &'a [u8]) -> Option<EndingLine<'a>> {
    Some(EndingLine::Done)
}

/// A sentence alone on its line, after a logger's prefix; the anchor lacks its first
/// letter. `CUDA graph capture for training complete` is about something else, and so is
/// `training done in 3 s` of one epoch.
pub(super) fn read_success_sentence<'a>(
    before: &'a [u8],
    behind: &'a [u8],
) -> Option<EndingLine<'a>> {
    let (letter, prefix) = before.split_last()?;
    let before = prefix.trim_ascii_end().last();
    let begins = before.is_none_or(|last| b"-]:|>)*=".contains(last));
    let ends = matches!(behind.trim_ascii().first(), None | Some(b'.' | b'!'));
    (letter.is_ascii_alphabetic() && begins && ends).then_some(EndingLine::Done)
}

/// `Training complete`, `Training completed`.
pub(super) fn read_training_complete<'a>(
    before: &'a [u8],
    behind: &'a [u8],
) -> Option<EndingLine<'a>> {
    read_success_sentence(before, behind.strip_prefix(b"d").unwrap_or(behind))
}

pub(super) fn read_megatron_success<'a>(
    before: &'a [u8],
    behind: &'a [u8],
) -> Option<EndingLine<'a>> {
    if before.ends_with(b"[after t") && behind.starts_with(b"]") {
        return Some(EndingLine::Done);
    }
    read_success_sentence(before, behind)
}

pub(super) fn read_fairseq_success<'a>(
    before: &'a [u8],
    behind: &'a [u8],
) -> Option<EndingLine<'a>> {
    let of_job = behind.starts_with(b" in ") && behind.trim_ascii_end().ends_with(b" seconds");
    read_success_sentence(before, if of_job { b"" } else { behind })
}

pub(super) fn read_mlperf_success<'a>(
    before: &'a [u8],
    behind: &'a [u8],
) -> Option<EndingLine<'a>> {
    let is_record = memmem::find(before, b":::MLL").is_some();
    let success = memmem::find(behind, b"\"success\"").is_some();
    (is_record && success).then_some(EndingLine::Done)
}
