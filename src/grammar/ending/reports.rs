//! The table of words that report a failure by themselves, `reports.txt`, which describes its rows.

use memchr::memmem;
use std::sync::LazyLock;

const REPORTS_TEXT: &str = include_str!("reports.txt");

/// The kind of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReportKind {
    Crash,
    Setup,
    Nccl,
    Own,
    Raised,
    Spawned,
}

/// The words, each with the kind of its row.
static WORDS: LazyLock<Vec<(&str, ReportKind)>> = LazyLock::new(|| {
    let rows = report_rows().filter_map(|row| Some((row, kind_of_row(row)?)));
    rows.flat_map(|(row, kind)| row_lines(row, "text ").map(move |words| (words, kind)))
        .collect()
});

fn report_rows() -> impl Iterator<Item = &'static str> {
    REPORTS_TEXT.trim_end().split("\n\n").skip(1)
}

fn row_lines(row: &'static str, word: &'static str) -> impl Iterator<Item = &'static str> {
    row.lines().filter_map(move |line| line.strip_prefix(word))
}

fn kind_of_row(row: &str) -> Option<ReportKind> {
    Some(match row.lines().next()? {
        "crash" => ReportKind::Crash,
        "setup" => ReportKind::Setup,
        "nccl" => ReportKind::Nccl,
        "own" => ReportKind::Own,
        "raised" => ReportKind::Raised,
        "spawned" => ReportKind::Spawned,
        _ => return None,
    })
}

/// All words.
pub(super) fn report_words() -> impl Iterator<Item = (&'static str, ReportKind)> {
    WORDS.iter().copied()
}

/// Returns a line's report of one kind, from its first known word on.
pub(super) fn find_report(line: &[u8], kind: ReportKind) -> Option<&[u8]> {
    let own = WORDS.iter().filter(|(_, of)| *of == kind);
    let first = own.filter_map(|(words, _)| memmem::find(line, words.as_bytes()));
    Some(line[first.min()?..].trim_ascii_end())
}

/// Returns a line's report of a crash in the words of the table, without what a program printed in front of them.
pub fn find_crash_report(line: &[u8]) -> Option<&[u8]> {
    find_report(line, ReportKind::Crash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ending::{EndingLine, FailureCause, find_ending};

    #[test]
    fn every_sample_is_read_as_its_row_has_it() {
        for row in report_rows() {
            let kind = kind_of_row(row).unwrap_or_else(|| panic!("{row}"));
            for sample in row_lines(row, "like ") {
                let Some(EndingLine::Failed(failure)) = find_ending(sample.as_bytes()) else {
                    panic!("{sample}");
                };
                let expected = match kind {
                    ReportKind::Crash => FailureCause::Crash,
                    ReportKind::Own => FailureCause::OwnState,
                    ReportKind::Spawned => FailureCause::Signal(11),
                    _ => FailureCause::Nccl,
                };
                assert_eq!(failure.what, expected, "{sample}");
                assert!(find_report(sample.as_bytes(), kind).is_some(), "{sample}");
            }
        }
    }
}
