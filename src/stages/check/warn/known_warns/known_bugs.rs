//! Known bugs of NCCL: what shows them, and the versions that have them.

use super::source_areas::find_source_file;
use super::{contains_pattern, is_in_file};
use crate::stages::check::finding::{Finding, Kind};
use memchr::memmem;
use std::sync::LazyLock;

/// A version of NCCL: 2.26.2.
type NcclVersion = [u32; 3];

/// A row of the table.
#[derive(Debug, Default, PartialEq, Eq)]
struct KnownBug {
    name: &'static str,
    texts: Vec<&'static str>,
    file: Option<&'static str>,
    /// The first version that has it, as printed.
    since: &'static str,
    /// The first version without it, as printed; empty if none is known.
    gone: &'static str,
    means: &'static str,
    advice: &'static str,
    reference: &'static str,
}

const KNOWN_BUGS_TEXT: &str = include_str!("known_bugs.txt");

static KNOWN_BUGS: LazyLock<Vec<KnownBug>> = LazyLock::new(|| {
    let rows = KNOWN_BUGS_TEXT.split("\n\n").skip(1);
    rows.filter_map(parse_bug).collect()
});

/// Parses a row; `None` if a part of it is missing or unknown.
fn parse_bug(row: &'static str) -> Option<KnownBug> {
    let mut lines = row.lines();
    let mut bug = KnownBug {
        name: lines.next()?,
        ..KnownBug::default()
    };
    for line in lines {
        let (word, rest) = line.split_once(' ')?;
        match word {
            "text" => bug.texts.push(rest),
            "file" => bug.file = Some(rest),
            "since" => bug.since = rest,
            "gone" => bug.gone = rest,
            "means" => bug.means = rest,
            "do" => bug.advice = rest,
            "see" => bug.reference = rest,
            "like" | "from" => {}
            _ => return None,
        }
    }
    parse_version(bug.since.as_bytes())?;
    Some(bug)
}

/// Parses `2.26.2`, also with `+cuda12.2` after it.
fn parse_version(text: &[u8]) -> Option<NcclVersion> {
    let end = text.iter().position(|b| !b.is_ascii_digit() && *b != b'.');
    let text = std::str::from_utf8(&text[..end.unwrap_or(text.len())]).ok()?;
    let mut parts = text.split('.').map(|part| part.parse().ok());
    let mut next = || parts.next().flatten();
    Some([next()?, next()?, next()?])
}

impl KnownBug {
    /// True if a line with this header and these words shows it.
    fn is_shown(&self, source: Option<&[u8]>, words: &[u8]) -> bool {
        let of_file = self
            .file
            .is_none_or(|file| source.is_some_and(|source| is_in_file(source, file)));
        of_file && self.texts.iter().any(|text| contains_pattern(words, text))
    }

    fn has_version(&self, version: NcclVersion) -> bool {
        let since = parse_version(self.since.as_bytes()).is_some_and(|since| version >= since);
        let gone = parse_version(self.gone.as_bytes()).is_some_and(|gone| version >= gone);
        since && !gone
    }

    /// A clause for a log of `versions` of NCCL; none if they do not have the bug.
    fn describe_bug(&self, versions: &[NcclVersion]) -> Option<String> {
        let end = match self.gone {
            "" => "no release without it is known".to_owned(),
            gone => format!("gone in {gone}"),
        };
        let bug = format!("{}, {end} (see {})", self.means, self.reference);
        if versions.is_empty() {
            let before = match self.gone {
                "" => String::new(),
                gone => format!(" and before {gone}"),
            };
            return Some(format!(
                "if NCCL's version is {} or later{before}, which the log does not show, it may be a known bug: {bug}",
                self.since
            ));
        }
        let has = versions.iter().any(|&version| self.has_version(version));
        has.then(|| format!("it may be a known bug of this version of NCCL: {bug}"))
    }
}

/// Adds to findings on WARN lines which known bug of NCCL they may show. `versions` are those that the log prints.
pub(crate) fn note_known_bugs<'v>(
    findings: &mut [Finding],
    versions: impl Iterator<Item = &'v [u8]>,
) {
    let versions: Vec<NcclVersion> = versions.filter_map(parse_version).collect();
    for finding in findings {
        if !matches!(finding.kind, Kind::Warn(_)) {
            continue;
        }
        let texts = finding
            .evidence
            .iter()
            .filter_map(|line| line.text.as_deref());
        let bug = texts.flat_map(find_bug).next();
        if let Some(bug) = bug
            && let Some(clause) = bug.describe_bug(&versions)
        {
            finding.why += &format!("; {clause}");
            finding.advice += &format!("; for the known bug: {}", bug.advice);
        }
    }
}

/// Finds the bug that a line shows.
fn find_bug(line: &[u8]) -> Option<&'static KnownBug> {
    let words = memmem::find(line, b"NCCL WARN ").map_or(0, |at| at + b"NCCL WARN ".len());
    let (header, words) = line.split_at(words);
    let source = find_source_file(header);
    KNOWN_BUGS.iter().find(|bug| bug.is_shown(source, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_whole_and_matches_its_samples() {
        for row in KNOWN_BUGS_TEXT.split("\n\n").skip(1) {
            let bug = parse_bug(row).expect(row);
            assert!(
                !bug.texts.is_empty() && bug.reference.contains(['#', '/']),
                "{row}"
            );
            for clause in [bug.means, bug.advice] {
                assert!(!clause.is_empty() && !clause.ends_with('.'), "{row}");
            }
            let after = |word| row.lines().filter_map(move |line| line.strip_prefix(word));
            let from = after("from ").next().expect(row);
            assert!(after("like ").count() > 0, "{row}");
            for sample in after("like ") {
                let line = format!("n1:1:2 [0] {from} NCCL WARN {sample}");
                assert_eq!(find_bug(line.as_bytes()), Some(&bug), "{line}");
            }
        }
        assert_eq!(find_bug(b"n1:1:2 [0] x.cc:1 NCCL WARN something new"), None);
    }

    #[test]
    fn only_versions_in_the_range_have_a_bug() {
        let bug = find_bug(b"UDS: Binding to socket /tmp/x failed : Address already in use (98)")
            .unwrap();
        let clause = |version: &str| {
            let versions: Vec<_> = parse_version(version.as_bytes()).into_iter().collect();
            bug.describe_bug(&versions)
        };
        for version in ["2.19.4", "2.20.5+cuda12.4", "2.21.5"] {
            assert_eq!(clause(version), None, "{version}");
        }
        let known = clause("2.20.3+cuda12.3").unwrap();
        assert!(
            known.starts_with("it may be a known bug") && known.contains("gone in 2.20.5"),
            "{known}"
        );
        let unknown = clause("").unwrap();
        assert!(
            unknown.starts_with("if NCCL's version is 2.20.3 or later and before 2.20.5"),
            "{unknown}"
        );
    }
}
