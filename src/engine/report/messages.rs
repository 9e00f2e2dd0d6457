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
    /// It is about what a filter kept.
    pub is_of_filter: bool,
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
    /// The messages of this input: each is printed once, however often the input is read.
    of_first: FxHashSet<String>,
    /// The last other input, and the text of all others: with a range for each number in which they differ.
    others: Option<(String, String)>,
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
            let is_new = known.others.as_ref().is_none_or(|(last, _)| last != input);
            if !is_first && is_new {
                known.more += 1;
                let text = match known.others.take() {
                    None => message.to_owned(),
                    Some((_, text)) => widen_ranges(&text, message),
                };
                known.others = Some((input.to_owned(), text));
            }
            return is_first && known.of_first.insert(message.to_owned());
        }
        self.kinds.push(AlikeKind {
            severity,
            text,
            first: input.to_owned(),
            of_first: FxHashSet::from_iter([message.to_owned()]),
            others: None,
            more: 0,
        });
        true
    }

    /// Returns a message for each kind that other inputs have too: with their number, or with the one that it is.
    pub(super) fn describe_rest(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.kinds.iter().filter_map(|kind| {
            let (input, text) = kind.others.as_ref()?;
            let text = match kind.more {
                1 => format!("{input}: {text}"),
                n => format!("{n} more inputs (-v lists them): {text}"),
            };
            Some((kind.severity, text))
        })
    }
}

/// Returns `text` with `N` for each word that is a number.
fn hide_numbers(text: &str) -> String {
    text.split(' ')
        .map(hide_number)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns `text` with a range, such as `3..20`, for each number that is another one in `other`, a text with the same words.
fn widen_ranges(text: &str, other: &str) -> String {
    let pairs = text.split(' ').zip(other.split(' '));
    let words = pairs.map(
        |(word, same)| match (split_number(word), split_number(same)) {
            (Some((before, known, after)), Some((_, new, _))) if word != same => {
                let (low, high) = known.split_once("..").unwrap_or((known, known));
                let value = |number: &str| number.replace(',', "").parse().unwrap_or(f64::MAX);
                let low = if value(new) < value(low) { new } else { low };
                let high = if value(new) > value(high) { new } else { high };
                format!("{before}{low}..{high}{after}")
            }
            _ => word.to_owned(),
        },
    );
    words.collect::<Vec<_>>().join(" ")
}

fn hide_number(word: &str) -> String {
    match split_number(word) {
        Some((before, _, after)) => format!("{before}N{after}"),
        None => word.to_owned(),
    }
}

/// Splits a word that is a number, or a range of them, from the signs around it.
fn split_number(word: &str) -> Option<(&str, &str, &str)> {
    let number = word.trim_start_matches('(');
    let is_number = number.starts_with(|c: char| c.is_ascii_digit())
        && (number.chars()).all(|c| c.is_ascii_digit() || ",.%".contains(c));
    let (before, number) = word.split_at(word.len() - number.len());
    let (number, after) = number.split_at(number.trim_end_matches([',', '.', '%']).len());
    is_number.then_some((before, number, after))
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
            add("a", &found(1)),
            add("b", &found(20)),
            add("b", "other"),
            add("c", &found(3)),
            add("d", "other"),
        ];
        assert_eq!(first, [true, true, false, false, true, false, false]);
        assert!(alike.add_message("warning", "a", "other"));
        let rest: Vec<_> = alike.describe_rest().map(|(_, text)| text).collect();
        let text =
            "2 more inputs (-v lists them): found no calls in 3..20 lines (12 of 3, and more 0x12)";
        assert_eq!(rest, [text, "d: other"]);
    }
}
