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
    /// The words of the kinds of findings that it may explain; those on WARN lines if there are none.
    kinds: Vec<&'static str>,
    /// The first version that has it, as printed; empty if it is unknown.
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
            "finding" => bug.kinds.push(rest),
            "since" => bug.since = rest,
            "gone" => bug.gone = rest,
            "means" => bug.means = rest,
            "do" => bug.advice = rest,
            "see" => bug.reference = rest,
            "like" | "from" => {}
            _ => return None,
        }
    }
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
    fn may_explain(&self, kind: Kind) -> bool {
        match self.kinds.is_empty() {
            true => matches!(kind, Kind::Warn(_)),
            false => self.kinds.contains(&kind.id()),
        }
    }

    /// True if a line with this header and these words shows it.
    fn is_shown(&self, source: Option<&[u8]>, words: &[u8]) -> bool {
        let of_file = self
            .file
            .is_none_or(|file| source.is_some_and(|source| is_in_file(source, file)));
        of_file && self.texts.iter().any(|text| contains_pattern(words, text))
    }

    fn has_version(&self, version: NcclVersion) -> bool {
        let since = parse_version(self.since.as_bytes()).is_none_or(|since| version >= since);
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
            let range = match (self.since, self.gone) {
                ("", gone) => format!("before {gone}"),
                (since, "") => format!("{since} or later"),
                (since, gone) => format!("{since} or later and before {gone}"),
            };
            return Some(format!(
                "if NCCL's version is {range}, which the log does not show, it may be a known bug: {bug}"
            ));
        }
        let has = versions.iter().any(|&version| self.has_version(version));
        has.then(|| format!("it may be a known bug of this version of NCCL: {bug}"))
    }
}

/// Adds to findings which known bug of NCCL their lines may show. `versions` are those that the log prints.
pub(crate) fn note_known_bugs<'v>(
    findings: &mut [Finding],
    versions: impl Iterator<Item = &'v [u8]>,
) {
    let versions: Vec<NcclVersion> = versions.filter_map(parse_version).collect();
    for finding in findings {
        let texts = finding
            .evidence
            .iter()
            .filter_map(|line| line.text.as_deref());
        let mut bugs = texts
            .flat_map(find_bugs)
            .filter(|bug| bug.may_explain(finding.kind));
        let found = bugs.find_map(|bug| Some((bug, bug.describe_bug(&versions)?)));
        if let Some((bug, clause)) = found {
            finding.why += &format!("; {clause}");
            finding.advice += &format!("; for the known bug: {}", bug.advice);
        }
    }
}

/// Finds the bugs that a line may show.
fn find_bugs(line: &[u8]) -> impl Iterator<Item = &'static KnownBug> {
    let words = memmem::find(line, b"NCCL WARN ").map_or(0, |at| at + b"NCCL WARN ".len());
    let (header, words) = line.split_at(words);
    let source = find_source_file(header);
    KNOWN_BUGS
        .iter()
        .filter(move |bug| bug.is_shown(source, words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::check::finding::{Confidence, Evidence, WarnKind};
    use crate::stages::net::net_stage::FirstReportLine;

    #[test]
    fn every_row_is_whole_and_matches_its_samples() {
        for row in KNOWN_BUGS_TEXT.split("\n\n").skip(1) {
            let bug = parse_bug(row).expect(row);
            assert!(
                !bug.texts.is_empty() && bug.reference.contains(['#', '/']),
                "{row}"
            );
            let bounds = [bug.since, bug.gone].into_iter().filter(|v| !v.is_empty());
            let versions = bounds.map(|bound| parse_version(bound.as_bytes()).expect(row));
            assert!(versions.count() > 0, "{row}");
            for clause in [bug.means, bug.advice] {
                assert!(!clause.is_empty() && !clause.ends_with('.'), "{row}");
            }
            let after = |word| row.lines().filter_map(move |line| line.strip_prefix(word));
            let from = after("from ").next();
            assert!(from.is_some() || !bug.kinds.is_empty(), "{row}");
            assert!(after("like ").count() > 0, "{row}");
            for sample in after("like ") {
                let line = match from {
                    Some(from) => format!("n1:1:2 [0] {from} NCCL WARN {sample}"),
                    None => sample.to_owned(),
                };
                assert!(
                    find_bugs(line.as_bytes()).any(|found| *found == bug),
                    "{line}"
                );
            }
        }
        let mut unknown = find_bugs(b"n1:1:2 [0] x.cc:1 NCCL WARN something new");
        assert_eq!(unknown.next(), None);
    }

    #[test]
    fn only_versions_in_the_range_have_a_bug() {
        let line = b"UDS: Binding to socket /tmp/x failed : Address already in use (98)";
        let bug = find_bugs(line).next().unwrap();
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
        let aborted = b"Connect to 10.0.0.2<1> failed : Software caused connection abort";
        let bug = find_bugs(aborted).next().unwrap();
        let clause = bug.describe_bug(&[]).unwrap();
        assert!(
            clause.starts_with("if NCCL's version is before 2.24.3,"),
            "{clause}"
        );
        assert_eq!(bug.describe_bug(&[[2, 24, 3]]), None);
    }

    #[test]
    fn a_bug_is_noted_only_at_findings_that_it_may_explain() {
        let noted = |kind, text: &str| {
            let mut finding = Finding::of_kind(kind, Confidence::High, String::new());
            finding.evidence = vec![Evidence {
                at: FirstReportLine { input: 0, line: 0 }.into(),
                text: Some(text.into()),
            }];
            let mut findings = [finding];
            note_known_bugs(&mut findings, [&b"2.18.6"[..]].into_iter());
            findings[0].why.contains("known bug")
        };
        assert!(noted(Kind::RankCrashed, "Bus error (core dumped)"));
        assert!(!noted(Kind::RankKilled, "Bus error (core dumped)"));
        let aborted = "Connect to 10.0.0.2<1> failed : Software caused connection abort";
        assert!(noted(Kind::Warn(WarnKind::UNKNOWN), aborted));
        assert!(!noted(Kind::RankCrashed, aborted));
    }
}
