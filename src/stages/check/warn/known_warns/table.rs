//! The table of known bodies, read from `known_warns.txt`. The beginning of that file describes its rows.

use super::{WarnMeaning, WarnRole};
use crate::stages::check::finding::{Confidence, Severity};
use std::sync::LazyLock;

/// The bodies that a row matches.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WarnPattern {
    /// A NIC's request with this `ibv_wc_status`; any status if none.
    Status(Option<u32>),
    /// An error of CUDA with this text in its words.
    Cuda(&'static str),
    /// Another body with this text.
    Text(&'static str),
}

/// A row of the table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KnownWarn {
    pub(super) patterns: Vec<WarnPattern>,
    pub(super) meaning: WarnMeaning,
}

/// The table's text.
pub(super) const KNOWN_WARNS_TEXT: &str = include_str!("known_warns.txt");

/// All rows, in the order in which they are tried.
pub(super) static KNOWN_WARNS: LazyLock<Vec<KnownWarn>> = LazyLock::new(|| {
    let rows = KNOWN_WARNS_TEXT.split("\n\n").skip(1);
    rows.filter_map(parse_row).collect()
});

/// Parses a row; `None` if a part of it is missing or unknown.
pub(super) fn parse_row(row: &'static str) -> Option<KnownWarn> {
    let mut lines = row.lines();
    let mut head = lines.next()?.split(' ');
    let mut known = KnownWarn {
        patterns: Vec::new(),
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
    for line in lines {
        let (word, rest) = line.split_once(' ')?;
        match word {
            "status" if rest == "*" => known.patterns.push(WarnPattern::Status(None)),
            "status" => known
                .patterns
                .push(WarnPattern::Status(Some(rest.parse().ok()?))),
            "cuda" => known.patterns.push(WarnPattern::Cuda(rest)),
            "text" => known.patterns.push(WarnPattern::Text(rest)),
            "means" => known.meaning.means = rest,
            "do" => known.meaning.advice = rest,
            "see" => known.meaning.reference = rest,
            "like" => {}
            _ => return None,
        }
    }
    Some(known)
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
