//! Parts of sentences: numbers and names of things.

use super::limits::MAX_NAMES_IN_SENTENCE;
use crate::error::escape::escape_for_terminal;

/// Returns a number of things: `1 line`, `2 lines`; `thing` takes an s.
pub fn count_phrase(n: u64, thing: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{n} {thing}{s}")
}

/// Returns a system's error in its words, without its number: `No such file or directory (os error 2)`.
pub fn without_error_number(text: &str) -> String {
    let end = text.split_once(" (os error ");
    let rest = end.and_then(|(words, rest)| Some((words, rest.split_once(')')?.1)));
    rest.map_or_else(|| text.to_owned(), |(words, rest)| format!("{words}{rest}"))
}

/// Returns rising numbers as ranges: `0..7, 9`. Of many it gives the first ones and the last.
pub fn ranges_phrase(numbers: impl IntoIterator<Item = u64>) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let text = |&(a, b): &(u64, u64)| {
        if a == b {
            a.to_string()
        } else {
            format!("{a}..{b}")
        }
    };
    let mut parts: Vec<String> = ranges
        .iter()
        .take(MAX_NAMES_IN_SENTENCE)
        .map(text)
        .collect();
    if let (true, Some(last)) = (ranges.len() > MAX_NAMES_IN_SENTENCE, ranges.last()) {
        parts.push(format!("... {}", text(last)));
    }
    parts.join(", ")
}

/// Returns names of a log, escaped: `a, b and 3 more`.
pub fn names_phrase<'n>(names: impl IntoIterator<Item = &'n [u8]>) -> String {
    let mut names = names.into_iter();
    let text = |name: &[u8]| escape_for_terminal(&String::from_utf8_lossy(name), false);
    let shown: Vec<String> = names
        .by_ref()
        .take(MAX_NAMES_IN_SENTENCE)
        .map(text)
        .collect();
    match names.count() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_has_no_s() {
        assert_eq!(count_phrase(1, "line"), "1 line");
        assert_eq!(count_phrase(0, "line"), "0 lines");
    }

    #[test]
    fn of_many_numbers_or_names_some_are_shown() {
        assert_eq!(
            ranges_phrase([0, 1, 2, 5, u64::MAX - 1, u64::MAX]),
            format!("0..2, 5, {}..{}", u64::MAX - 1, u64::MAX)
        );
        assert_eq!(
            ranges_phrase((0..40).step_by(2)),
            "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, ... 38"
        );
        assert_eq!(names_phrase([&b"a"[..], b"b\x1b"]), "a, b\\u{1b}");
        assert_eq!(
            names_phrase([&b"x"[..]; 15]),
            format!("{} and 3 more", ["x"; 12].join(", "))
        );
    }
}
