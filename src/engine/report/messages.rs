//! Messages that are kept to be shown elsewhere, and messages that many inputs have.

use crate::error::phrases::count_phrase;
use rustc_hash::FxHashSet;

/// A message as it was reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportMessage {
    /// The stage that reported it, for messages of `Report::absorb`.
    pub stage: Option<&'static str>,
    /// `error`, `warning` or `note`.
    pub severity: &'static str,
    /// The message without the program's name.
    pub text: String,
}

/// Messages without repeats, in their order.
#[derive(Debug, Default)]
pub(super) struct KeptMessages {
    pub(super) list: Vec<ReportMessage>,
    known: FxHashSet<(&'static str, String)>,
}

impl KeptMessages {
    /// Adds a message; returns false if it is known.
    pub(super) fn push(&mut self, message: &ReportMessage) -> bool {
        let is_new = self.known.insert((message.severity, message.text.clone()));
        if is_new {
            self.list.push(message.clone());
        }
        is_new
    }
}

/// The kinds of messages about inputs, in the order of their first ones.
#[derive(Debug, Default)]
pub(super) struct AlikeMessages {
    kinds: Vec<AlikeKind>,
}

/// Messages that differ in numbers only.
#[derive(Debug)]
struct AlikeKind {
    severity: &'static str,
    /// The text with `N` in the place of each number.
    text: String,
    inputs: u64,
}

impl AlikeMessages {
    /// Adds a message about an input; returns true for the first of its kind.
    pub(super) fn add(&mut self, severity: &'static str, text: &str) -> bool {
        let text = hide_numbers(text);
        let mut kinds = self.kinds.iter_mut();
        let known = kinds.find(|kind| kind.severity == severity && kind.text == text);
        if let Some(known) = known {
            known.inputs += 1;
            return false;
        }
        self.kinds.push(AlikeKind {
            severity,
            text,
            inputs: 1,
        });
        true
    }

    /// Returns a message for each kind of which only the first was printed.
    pub(super) fn describe_rest(&self) -> impl Iterator<Item = (&'static str, String)> {
        let repeated = self.kinds.iter().filter(|kind| kind.inputs > 1);
        repeated.map(|kind| {
            let more = count_phrase(kind.inputs - 1, "more input");
            (
                kind.severity,
                format!("{more} (-v lists them): {}", kind.text),
            )
        })
    }
}

/// The text with `N` for each number in it that is a word of its own.
fn hide_numbers(text: &str) -> String {
    let is_number = |word: &str| {
        let digits = |c: char| c.is_ascii_digit() || ",.%".contains(c);
        word.starts_with(|c: char| c.is_ascii_digit()) && word.chars().all(digits)
    };
    let hide = |word: &str| match is_number(word.trim_start_matches('(')) {
        true => {
            let from = word.len() - word.trim_start_matches('(').len();
            let to = word.trim_end_matches([',', '.', '%']).len();
            format!("{}N{}", &word[..from], &word[to..])
        }
        false => word.to_owned(),
    };
    text.split(' ').map(hide).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_differ_in_numbers_are_counted() {
        let mut alike = AlikeMessages::default();
        let found = |n: u64| format!("found no calls in {n} lines (12 of 3, and more 0x12)");
        let first: Vec<bool> = [found(1), found(20), found(3), "other".into()]
            .iter()
            .map(|text| alike.add("note", text))
            .collect();
        assert_eq!(first, [true, false, false, true]);
        assert!(alike.add("warning", "other"));
        let rest: Vec<_> = alike.describe_rest().collect();
        let text =
            "2 more inputs (-v lists them): found no calls in N lines (N of N, and more 0x12)";
        assert_eq!(rest, [("note", text.to_owned())]);
    }
}
