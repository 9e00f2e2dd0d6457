//! Messages that are kept to be shown elsewhere, and messages that many inputs have.

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

/// Messages about different inputs that differ in numbers only.
#[derive(Debug)]
struct AlikeKind {
    severity: &'static str,
    /// The text with `N` in the place of each number.
    text: String,
    /// The input of the first message.
    first: String,
    /// The last other input, and its message.
    last: Option<(String, String)>,
    /// The number of other inputs.
    more: u64,
}

impl AlikeMessages {
    /// Adds a message about an input; returns true if it is to be printed: those of the first input of its kind are.
    pub(super) fn add_message(
        &mut self,
        severity: &'static str,
        input: &str,
        message: &str,
    ) -> bool {
        let text = hide_numbers(message);
        let mut kinds = self.kinds.iter_mut();
        let known = kinds.find(|kind| kind.severity == severity && kind.text == text);
        if let Some(known) = known {
            let is_first = known.first == input;
            let is_new = known.last.as_ref().is_none_or(|(last, _)| last != input);
            if !is_first && is_new {
                known.more += 1;
                known.last = Some((input.to_owned(), message.to_owned()));
            }
            return is_first;
        }
        self.kinds.push(AlikeKind {
            severity,
            text,
            first: input.to_owned(),
            last: None,
            more: 0,
        });
        true
    }

    /// Returns a message for each kind that other inputs have too: with their number, or with the one that it is.
    pub(super) fn describe_rest(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.kinds.iter().filter_map(|kind| {
            let (input, message) = kind.last.as_ref()?;
            let text = match kind.more {
                1 => format!("{input}: {message}"),
                n => format!("{n} more inputs (-v lists them): {}", kind.text),
            };
            Some((kind.severity, text))
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
        let mut add = |input: &str, text: &str| alike.add_message("note", input, text);
        let first = [
            add("a", &found(1)),
            add("a", &found(7)),
            add("b", &found(20)),
            add("b", "other"),
            add("c", &found(3)),
            add("d", "other"),
        ];
        assert_eq!(first, [true, true, false, true, false, false]);
        assert!(alike.add_message("warning", "a", "other"));
        let rest: Vec<_> = alike.describe_rest().map(|(_, text)| text).collect();
        let text =
            "2 more inputs (-v lists them): found no calls in N lines (N of N, and more 0x12)";
        assert_eq!(rest, [text, "d: other"]);
    }
}
