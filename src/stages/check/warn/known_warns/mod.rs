//! Known WARN bodies: their meaning, advice, and the public source of these.
//!
//! A reference is a thread in which the body is shown and explained, a page of NVIDIA's, or the
//! source file that prints it. `NVIDIA/nccl#426` is issue or pull request 426 of that repository.

mod table;

use crate::grammar::message::warn::{WarnCause, WarnMessage, parse_warn};
use crate::stages::check::finding::{Confidence, Kind, Severity, WarnKind};
use memchr::memmem;
use table::{KNOWN_WARNS, WarnPattern};

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

/// True for a kind of WARN that only follows from a failure elsewhere.
pub(crate) fn is_follower(kind: Kind) -> bool {
    let Kind::Warn(WarnKind(id)) = kind else {
        return false;
    };
    let known = KNOWN_WARNS.iter().find(|known| known.meaning.id == id);
    known.is_some_and(|known| {
        matches!(
            known.meaning.role,
            WarnRole::Consequence | WarnRole::Teardown
        )
    })
}

/// Looks up a WARN's text. The source file that prints it shows where NCCL was, not which part failed, so it
/// is not used.
pub(crate) fn look_up_warn(text: &[u8]) -> Option<&'static WarnMeaning> {
    let WarnMessage { cause, .. } = parse_warn(text);
    let matches_body = |pattern: &WarnPattern| match (pattern, &cause) {
        (WarnPattern::Status(status), WarnCause::IbCompletion(completion)) => {
            status.is_none_or(|status| status == completion.status)
        }
        (WarnPattern::Cuda(words), WarnCause::Cuda { error }) => contains_pattern(error, words),
        (WarnPattern::Text(_), WarnCause::IbCompletion(_) | WarnCause::Cuda { .. }) => false,
        (WarnPattern::Text(words), _) => contains_pattern(text, words),
        _ => false,
    };
    let known = KNOWN_WARNS
        .iter()
        .find(|known| known.patterns.iter().any(matches_body));
    known.map(|known| &known.meaning)
}

/// True if `pattern` is in `text`; `*` in it matches any bytes.
fn contains_pattern(text: &[u8], pattern: &str) -> bool {
    let mut rest = text;
    pattern.split('*').all(|part| {
        let at = memmem::find(rest, part.as_bytes());
        rest = at.map_or(&[], |at| &rest[at + part.len()..]);
        at.is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::table::{KNOWN_WARNS_TEXT, parse_row};
    use super::*;
    use std::collections::BTreeMap;

    /// Each row has all parts and at least one sample, which it matches and no earlier row does.
    #[test]
    fn every_row_is_whole_and_matches_its_samples() {
        let mut rows = 0;
        for row in KNOWN_WARNS_TEXT.split("\n\n").skip(1) {
            let known = parse_row(row).expect(row);
            assert!(!known.patterns.is_empty(), "{row}");
            let samples = row.lines().filter_map(|line| line.strip_prefix("like "));
            assert!(samples.clone().count() > 0, "{row}");
            for sample in samples {
                let found = look_up_warn(sample.as_bytes()).map(|known| known.id);
                assert_eq!(found, Some(known.meaning.id), "{sample}");
            }
            rows += 1;
        }
        assert_eq!((rows, KNOWN_WARNS.len()), (94, 94));
        assert_eq!(look_up_warn(b"something new"), None);
    }

    #[test]
    fn every_kind_has_one_row_and_a_reference() {
        let mut ids: BTreeMap<&str, u32> = BTreeMap::new();
        for known in KNOWN_WARNS.iter().map(|known| &known.meaning) {
            *ids.entry(known.id).or_default() += 1;
            assert!(known.id.starts_with("warn_"), "{}", known.id);
            assert!(known.reference.contains(['#', '/']), "{}", known.id);
            for clause in [known.means, known.advice] {
                assert!(!clause.is_empty() && !clause.ends_with('.'), "{}", known.id);
            }
            let harmless = known.role == WarnRole::Harmless;
            assert_eq!(harmless, known.severity == Severity::Note, "{}", known.id);
        }
        assert!(ids.values().all(|&n| n == 1), "{ids:?}");
    }
}
