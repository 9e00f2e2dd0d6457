//! Words of a line, and numbers as nccl-tests prints them.

/// A word of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineWord<'a> {
    pub(super) text: &'a [u8],
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Splits a line into words, each with its place.
pub(super) fn split_words(line: &[u8]) -> impl Iterator<Item = LineWord<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = &line[at..];
        let start = at + rest.iter().position(|b| !b.is_ascii_whitespace())?;
        let len = line[start..].iter().position(u8::is_ascii_whitespace);
        let end = len.map_or(line.len(), |len| start + len);
        at = end;
        let text = &line[start..end];
        Some(LineWord { text, start, end })
    })
}

/// Parses a word that is a number and nothing else.
pub(super) fn parse_whole<T: std::str::FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// A number of a table; `N/A` and the like are words without a value.
pub(super) fn parse_value(word: &[u8]) -> Option<Option<f64>> {
    if matches!(word, b"N/A" | b"nan" | b"-nan" | b"inf" | b"-inf") {
        return Some(None);
    }
    let is_number = word.first().is_some_and(|b| b"0123456789-.".contains(b));
    let value: f64 = parse_whole(word).filter(|_| is_number)?;
    Some(Some(value).filter(|value| value.is_finite()))
}
