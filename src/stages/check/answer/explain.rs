//! Explains a kind of finding (`--explain`): its meaning, how it is found, what to do, and real lines. The texts are
//! those of the findings themselves, of the table of known WARNs, and of the program's page.

use crate::error::{Error, Result};
use crate::stages::check::finding::Kind;
use crate::stages::check::warn::known_warns;
use crate::stages::check::words::texts;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The program's page; its section on findings has a point for each kind, or for several.
const PAGE: &str = include_str!("../../../../docs/nccl-check.md");

/// Explains the kind of finding that has the stable word `word`; `list` has all words.
///
/// # Errors
/// No kind has that word.
pub fn explain_finding(word: &str) -> Result<String> {
    if word == "list" {
        return Ok(list_words());
    }
    let kind = Kind::ALL.iter().find(|kind| kind.id() == word);
    let explained = match kind {
        Some(kind) => explain_kind(*kind),
        None => explain_warn(word),
    };
    explained.ok_or_else(|| Error::Usage(refuse_word(word)))
}

fn explain_kind(kind: Kind) -> Option<String> {
    let mut out = format!(
        "{} ({})\n\n{}\n",
        kind.id(),
        kind.usual_severity().name(),
        kind.describe().trim()
    );
    let advice = texts::shared_advice(kind);
    if !advice.is_empty() {
        let _ = write!(out, "\nWhat to do: {advice}.\n");
    }
    for point in points_of_page(kind.id()) {
        let _ = write!(out, "\n{point}\n");
    }
    Some(out)
}

fn explain_warn(word: &str) -> Option<String> {
    let rows: Vec<_> = known_warns::rows_of_kind(word).collect();
    let first = rows.first()?;
    let mut out = format!("{word} ({})\n", first.meaning.severity.name());
    for row in rows {
        let meaning = &row.meaning;
        let _ = write!(
            out,
            "\nA WARN of NCCL: {}. It {}.\nWhat to do: {}.\nSource: {}\nLines:\n",
            meaning.means,
            meaning.role.describe_role(),
            meaning.advice,
            meaning.reference
        );
        for sample in &row.samples {
            let _ = writeln!(out, "    {sample}");
        }
    }
    Some(out)
}

/// The points of the page's section on findings that name a word, without their marks.
fn points_of_page(word: &str) -> impl Iterator<Item = String> {
    let section = PAGE
        .split("\n## ")
        .find(|text| text.starts_with("Findings\n"));
    let name = format!("`{word}`");
    let points = section.unwrap_or_default().split("\n- ").skip(1);
    points
        .filter(move |point| point.contains(&name))
        .map(|point| {
            // The section's last paragraph is about all findings.
            let point = point
                .split("\n\nErrors and warnings")
                .next()
                .unwrap_or(point);
            point
                .replace("**", "")
                .replace("\n  ", "\n")
                .trim_end()
                .to_owned()
        })
}

/// All words with a sentence each.
fn list_words() -> String {
    let kinds = Kind::ALL
        .iter()
        .map(|kind| (kind.id(), kind.describe().trim()));
    let warns = known_warns::rows_of_any_kind().map(|row| (row.meaning.id, row.meaning.means));
    let mut all: BTreeMap<&str, &str> = BTreeMap::new();
    for (word, text) in kinds.chain(warns) {
        all.entry(word).or_insert(text);
    }
    all.iter().fold(String::new(), |mut out, (word, text)| {
        let _ = writeln!(out, "{word:<28} {}", text.trim_end_matches('.'));
        out
    })
}

fn refuse_word(word: &str) -> String {
    let words = list_words();
    let words = words
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    let near: Vec<&str> = words.filter(|known| known.contains(word)).take(5).collect();
    let near = match near.is_empty() || word.is_empty() {
        true => String::new(),
        false => format!(" (similar: {})", near.join(", ")),
    };
    format!("no finding is called {word}{near}: --explain list has all of them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_explained() {
        for line in list_words().lines() {
            let word = line.split_whitespace().next().unwrap();
            let text = explain_finding(word).unwrap();
            assert!(text.starts_with(word) && text.lines().count() > 2, "{text}");
        }
        let behind = explain_finding("rank_behind").unwrap();
        assert!(behind.contains("What to do") && behind.contains("Ranks that stopped"));
        assert!(
            explain_finding("rank")
                .unwrap_err()
                .to_string()
                .contains("rank_ahead")
        );
    }
}
