//! The reason that CUDA, HIP, a NIC or the kernel gives inside a text, by its number, its name or its words.

use super::limits::{MIN_CUT_WORDS_BYTES, MIN_TELLING_WORDS_BYTES};
use super::table::{KNOWN_REASONS, KnownWarn, ReasonGiver, ReasonPattern, WarnPattern};
use crate::grammar::message::warn::{GpuError, GpuLibrary, WarnCause, parse_warn};
use memchr::memmem;
use std::ops::Range;

/// A reason in a text.
pub(super) struct FoundReason {
    pub(super) row: &'static KnownWarn,
    /// The place of its words; empty if only its number was read.
    pub(super) words: Range<usize>,
}

/// Finds the reason that a text gives; of several the longest one.
pub(super) fn find_reason(text: &[u8]) -> Option<FoundReason> {
    match parse_warn(text).cause {
        WarnCause::Gpu(error) => find_gpu_reason(text, error),
        WarnCause::IbCompletion(completion) => {
            let is = |reason: &ReasonPattern| {
                reason.giver == ReasonGiver::Nic
                    && reason
                        .number
                        .is_none_or(|number| number == completion.status)
            };
            // A row with the number comes before the one for all others.
            let row = find_row(|reason| is(reason) && reason.number.is_some());
            let words = 0..0;
            let row = row.or_else(|| find_row(is))?.0;
            Some(FoundReason { row, words })
        }
        WarnCause::Other => find_spoken_reason(text),
    }
}

/// All reasons with their rows.
fn all_reasons() -> impl Iterator<Item = (&'static KnownWarn, &'static ReasonPattern)> {
    KNOWN_REASONS.iter().flat_map(|row| {
        let reasons = row.patterns.iter().filter_map(|pattern| match pattern {
            WarnPattern::Reason(reason) => Some(reason),
            WarnPattern::Text(_) => None,
        });
        reasons.map(move |reason| (row, reason))
    })
}

fn find_row(
    is: impl Fn(&ReasonPattern) -> bool,
) -> Option<(&'static KnownWarn, &'static ReasonPattern)> {
    all_reasons().find(|(_, reason)| is(reason))
}

/// Finds the reason that a GPU's library states. Its words come before its number, which was another one up to
/// CUDA 10.0; a number without known words decides alone.
fn find_gpu_reason(text: &[u8], error: GpuError<'_>) -> Option<FoundReason> {
    let giver = match error.library {
        GpuLibrary::Cuda => ReasonGiver::Cuda,
        GpuLibrary::Hip => ReasonGiver::Hip,
    };
    let from = (error.words.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    let words = from..from + error.words.len();
    let own = || all_reasons().filter(|(_, reason)| reason.giver == giver);
    let has = |reason: &ReasonPattern| {
        let name = find_any_name(error.words, reason).is_some();
        name || !reason.words.is_empty() && has_words(error.words, reason.words)
    };
    // A line that was cut may have the beginning of the words only.
    let begins = |reason: &ReasonPattern| {
        error.words.len() >= MIN_CUT_WORDS_BYTES && reason.words.as_bytes().starts_with(error.words)
    };
    let by_words = own()
        .filter(|(_, reason)| has(reason))
        .max_by_key(|(_, reason)| reason.words.len());
    let by_number =
        || own().find(|(_, reason)| error.number.is_some() && reason.number == error.number);
    let by_cut = || own().find(|(_, reason)| error.number.is_none() && begins(reason));
    let any = || own().find(|(_, reason)| reason.number.is_none());
    let found = by_words.or_else(by_number).or_else(by_cut).or_else(any);
    found.map(|(row, _)| FoundReason { row, words })
}

/// Finds a reason by name or words in a text without a known form.
fn find_spoken_reason(text: &[u8]) -> Option<FoundReason> {
    // HIP, or one of its functions: hipMalloc.
    let names_function = |at: usize| text.get(at + 3).is_some_and(u8::is_ascii_uppercase);
    let is_hip = has_words(text, "HIP") || memmem::find_iter(text, "hip").any(names_function);
    let spoken = all_reasons().filter_map(|(row, reason)| {
        let words = match reason.giver {
            ReasonGiver::Cuda | ReasonGiver::Hip
                if is_hip != (reason.giver == ReasonGiver::Hip) =>
            {
                None
            }
            ReasonGiver::Cuda | ReasonGiver::Hip => find_numbered_words(text, reason),
            ReasonGiver::Nic | ReasonGiver::Kernel => find_words(text, reason.words),
        };
        let words = words.or_else(|| find_any_name(text, reason))?;
        Some(FoundReason { row, words })
    });
    // The longest words count: "Too many open files in system".
    spoken.max_by_key(|found| (!found.row.is_general, found.words.len()))
}

/// Finds `217 peer access is not supported`: words of a GPU's library behind their number, or words that are so long
/// that nothing else has them.
fn find_numbered_words(text: &[u8], reason: &ReasonPattern) -> Option<Range<usize>> {
    let words = find_words(text, reason.words)?;
    let number = reason.number?.to_string();
    let before = text[..words.start].trim_ascii_end();
    let is_numbered = before
        .strip_suffix(number.as_bytes())
        .is_some_and(|before| !before.last().is_some_and(u8::is_ascii_digit));
    (is_numbered || reason.words.len() >= MIN_TELLING_WORDS_BYTES).then_some(words)
}

fn find_words(text: &[u8], words: &str) -> Option<Range<usize>> {
    if words.is_empty() {
        return None;
    }
    let at = memmem::find(text, words.as_bytes())?;
    Some(at..at + words.len())
}

/// Finds the name of a reason, or that which CUDA's driver has for it: `CUDA_ERROR_SYSTEM_NOT_READY` for
/// `cudaErrorSystemNotReady`.
fn find_any_name(text: &[u8], reason: &ReasonPattern) -> Option<Range<usize>> {
    find_name(text, reason.name).or_else(|| {
        let own = reason.name.strip_prefix("cudaError")?.as_bytes();
        let begin = memmem::find(text, b"CUDA_ERROR_")?;
        let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
        let end = begin + text[begin..].iter().take_while(is_part).count();
        let name = &text[begin + b"CUDA_ERROR_".len()..end];
        let letters = || name.iter().filter(|byte| **byte != b'_');
        let is_same = letters().count() == own.len()
            && letters().zip(own).all(|(a, b)| a.eq_ignore_ascii_case(b));
        is_same.then_some(begin..end)
    })
}

/// Finds a name that is not a part of a longer one.
fn find_name(text: &[u8], name: &str) -> Option<Range<usize>> {
    let name = find_words(text, name)?;
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let before = text[..name.start].last().is_some_and(is_part);
    let after = text.get(name.end).is_some_and(is_part);
    (!before && !after).then_some(name)
}

fn has_words(text: &[u8], words: &str) -> bool {
    memmem::find(text, words.as_bytes()).is_some()
}
