//! The tables of known texts and reasons, read from `known_warns.txt` and `reasons.txt`. The beginning of each file
//! describes its rows.

use super::{WarnMeaning, WarnRole};
use crate::stages::check::finding::{Confidence, Severity};
use std::sync::LazyLock;

/// What a row recognises.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WarnPattern {
    /// A body with this text; `*` in it matches any bytes.
    Text(&'static str),
    /// A reason that a body gives.
    Reason(ReasonPattern),
}

/// The giver of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReasonGiver {
    Cuda,
    Hip,
    /// A NIC, by the status of a request.
    Nic,
    /// The kernel, by `errno`.
    Kernel,
}

/// A reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReasonPattern {
    pub(super) giver: ReasonGiver,
    /// Its number; none for any that has no other row.
    pub(super) number: Option<u32>,
    /// Its name, `cudaErrorInvalidValue`; may be empty.
    pub(super) name: &'static str,
    /// Its words; may be empty.
    pub(super) words: &'static str,
}

/// A row of a table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KnownWarn {
    pub(super) patterns: Vec<WarnPattern>,
    /// The source files that print its bodies; any if there are none.
    pub(super) files: Vec<&'static str>,
    /// True for a general reason.
    pub(super) is_general: bool,
    pub(crate) meaning: WarnMeaning,
    /// Texts that it matches.
    pub(crate) samples: Vec<&'static str>,
}

/// The text of the table of known bodies.
pub(super) const KNOWN_WARNS_TEXT: &str = include_str!("known_warns.txt");

/// The text of the table of reasons.
pub(super) const KNOWN_REASONS_TEXT: &str = include_str!("reasons.txt");

/// The known bodies.
pub(super) static KNOWN_WARNS: LazyLock<Vec<KnownWarn>> =
    LazyLock::new(|| split_rows(KNOWN_WARNS_TEXT).filter_map(parse_row).collect());

/// The known reasons.
pub(super) static KNOWN_REASONS: LazyLock<Vec<KnownWarn>> = LazyLock::new(|| {
    split_rows(KNOWN_REASONS_TEXT)
        .filter_map(parse_row)
        .collect()
});

/// The rows of both tables.
pub(super) fn all_rows() -> impl Iterator<Item = &'static KnownWarn> {
    KNOWN_WARNS.iter().chain(KNOWN_REASONS.iter())
}

/// Splits a table's text into its rows; the first paragraph describes them.
pub(super) fn split_rows(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.split("\n\n").skip(1)
}

/// Parses a row; `None` if a part of it is missing or unknown.
pub(super) fn parse_row(row: &'static str) -> Option<KnownWarn> {
    let mut lines = row.lines();
    let mut head = lines.next()?.split(' ');
    let mut known = KnownWarn {
        patterns: Vec::new(),
        files: Vec::new(),
        is_general: false,
        samples: Vec::new(),
        meaning: WarnMeaning {
            id: head.next()?,
            role: parse_role(head.next()?)?,
            severity: parse_severity(head.next()?)?,
            sure: parse_confidence(head.next()?)?,
            means: "",
            advice: "",
            reference: "",
        },
    };
    known.is_general = match head.next() {
        None => false,
        Some("general") => true,
        Some(_) => return None,
    };
    for line in lines {
        let (word, rest) = line.split_once(' ')?;
        match word {
            "text" => known.patterns.push(WarnPattern::Text(rest)),
            "file" => known.files.push(rest),
            "means" => known.meaning.means = rest,
            "do" => known.meaning.advice = rest,
            "see" => known.meaning.reference = rest,
            "like" => known.samples.push(rest),
            "from" => {}
            _ => {
                let reason = parse_reason(parse_giver(word)?, rest)?;
                known.patterns.push(WarnPattern::Reason(reason));
            }
        }
    }
    Some(known)
}

/// Parses `N NAME WORDS`, or `*`.
fn parse_reason(giver: ReasonGiver, text: &'static str) -> Option<ReasonPattern> {
    let mut parts = text.splitn(3, ' ');
    let number = match parts.next()? {
        "*" => None,
        number => Some(number.parse().ok()?),
    };
    Some(ReasonPattern {
        giver,
        number,
        name: parts.next().unwrap_or_default(),
        words: parts.next().unwrap_or_default(),
    })
}

fn parse_giver(word: &str) -> Option<ReasonGiver> {
    Some(match word {
        "cuda" => ReasonGiver::Cuda,
        "hip" => ReasonGiver::Hip,
        "wc" => ReasonGiver::Nic,
        "errno" => ReasonGiver::Kernel,
        _ => return None,
    })
}

fn parse_role(word: &str) -> Option<WarnRole> {
    Some(match word {
        "cause" => WarnRole::Cause,
        "setback" => WarnRole::Setback,
        "consequence" => WarnRole::Consequence,
        "teardown" => WarnRole::Teardown,
        "harmless" => WarnRole::Harmless,
        _ => return None,
    })
}

fn parse_severity(word: &str) -> Option<Severity> {
    let all = [Severity::Error, Severity::Warning, Severity::Note];
    all.into_iter().find(|severity| severity.name() == word)
}

fn parse_confidence(word: &str) -> Option<Confidence> {
    let all = [Confidence::High, Confidence::Medium, Confidence::Low];
    all.into_iter().find(|sure| sure.name() == word)
}
