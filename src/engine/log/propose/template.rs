//! What lines of one kind have in common: their words. Numbers, clocks and the like are places.

/// Longest line that is looked at; the rest is left out.
pub(super) const LONGEST: usize = 1024;

/// Most parts of a line that are told apart.
const PARTS: usize = 96;

/// What a part of a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Words and punctuation.
    Text,
    /// A number: `43`, `1,152`, `31.0`, `1e-05`, `nan`.
    Number,
    /// A date or a time of day: `2022-05-18`, `19:07:57,653`, `0:41:22`.
    Clock,
    /// Something else that varies: `0x7f2a`, `22b7ca89`, the blocks of a bar.
    Any,
}

/// A part of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) kind: Kind,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Part {
    pub(super) fn of<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        text.get(self.start..self.end).unwrap_or_default()
    }
}

/// Cuts a line into parts.
pub(super) fn parts(text: &[u8], out: &mut Vec<Part>) {
    out.clear();
    let mut from = 0;
    let mut at = 0;
    while at < text.len() && out.len() < PARTS {
        let Some((start, kind, end)) = place(text, at) else {
            at = if text[at].is_ascii_alphanumeric() {
                word_end(text, at)
            } else {
                at + 1
            };
            continue;
        };
        push(out, Kind::Text, from, start);
        push(out, kind, start, end);
        (from, at) = (end, end);
    }
    push(out, Kind::Text, from, at);
}

fn push(out: &mut Vec<Part>, kind: Kind, start: usize, end: usize) {
    if start < end {
        out.push(Part { kind, start, end });
    }
}

fn word_end(text: &[u8], at: usize) -> usize {
    at + run(&text[at..], |b| b.is_ascii_alphanumeric())
}

fn run(text: &[u8], keep: impl Fn(u8) -> bool) -> usize {
    text.iter().position(|&b| !keep(b)).unwrap_or(text.len())
}

fn digits(text: &[u8]) -> usize {
    run(text, |b| b.is_ascii_digit())
}

/// The place in the word or bar that begins at `at`.
fn place(text: &[u8], at: usize) -> Option<(usize, Kind, usize)> {
    let rest = &text[at..];
    if rest[0] == b'|' {
        let blocks = blocks(&rest[1..])?;
        return Some((at + 1, Kind::Any, at + 1 + blocks));
    }
    if !rest[0].is_ascii_alphanumeric() {
        return None;
    }
    let word = &rest[..word_end(rest, 0)];
    if [&b"nan"[..], b"inf", b"NaN"].contains(&word) {
        return Some((at, Kind::Number, at + word.len()));
    }
    let letters = run(word, |b| b.is_ascii_alphabetic());
    if letters == word.len() {
        return None;
    }
    if letters == 0
        && let Some(len) = clock(rest)
    {
        return Some((at, Kind::Clock, at + len));
    }
    let len = letters + number(&rest[letters..]);
    let after = word.get(len..).unwrap_or_default();
    // `0x7f`, `22b7ca89`, `a1b2`: an address, an id. `12ms` is a number and its unit.
    let is_id = after.iter().any(u8::is_ascii_digit)
        || (letters > 0 && !after.is_empty())
        || word.starts_with(b"0x");
    Some(if is_id {
        (at, Kind::Any, at + word.len())
    } else {
        (at + letters, Kind::Number, at + len)
    })
}

/// Length of the number at the front, which has a digit there.
fn number(text: &[u8]) -> usize {
    let mut len = digits(text);
    while text.get(len) == Some(&b',') && digits(&text[len + 1..]) == 3 {
        len += 4;
    }
    if text.get(len) == Some(&b'.') {
        let part = digits(&text[len + 1..]);
        len += if part > 0 { 1 + part } else { 0 };
    }
    if let Some(b'e' | b'E') = text.get(len) {
        let sign = usize::from(matches!(text.get(len + 1), Some(b'+' | b'-')));
        let power = digits(text.get(len + 1 + sign..).unwrap_or_default());
        len += if power > 0 { 1 + sign + power } else { 0 };
    }
    len
}

/// Length of the date or time at the front.
fn clock(text: &[u8]) -> Option<usize> {
    let field = |at: usize| digits(text.get(at..).unwrap_or_default());
    let first = field(0);
    let sign = *text.get(first)?;
    let second = field(first + 1);
    if second == 0 || text.get(first + 1 + second) != Some(&sign) {
        return None;
    }
    let third = field(first + 2 + second);
    let len = first + 2 + second + third;
    match (sign, first, second, third) {
        (b':', 1..=3, 2, 2) => {
            let part = match text.get(len) {
                Some(b'.' | b',') => field(len + 1),
                _ => 0,
            };
            Some(len + if part > 0 { 1 + part } else { 0 })
        }
        (b'-' | b'/', 4, 2, 2) | (b'/', 1..=2, 1..=2, 2 | 4) => Some(len),
        _ => None,
    }
}

/// Seconds of a time of day.
pub(super) fn seconds(clock: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(clock).ok()?.replace(',', ".");
    let mut fields = text.split(':').map(str::parse::<f64>);
    let (hours, minutes, seconds) = (
        fields.next()?.ok()?,
        fields.next()?.ok()?,
        fields.next()?.ok()?,
    );
    Some(3600.0 * hours + 60.0 * minutes + seconds)
}

/// Length of what a progress bar draws up to its closing `|`.
fn blocks(text: &[u8]) -> Option<usize> {
    let len = run(text, |b| !b.is_ascii() || b"#0123456789 =>-.".contains(&b));
    let drawn = &text[..len];
    let is_cell = drawn.iter().any(u8::is_ascii_digit) && !drawn.contains(&b'#');
    (len > 0 && text.get(len) == Some(&b'|') && !is_cell).then_some(len)
}

/// What all lines of the template have in common, as a key: the words, and what the places are.
/// Blanks that fill a column vary with its number.
pub(super) fn key(text: &[u8], parts: &[Part], out: &mut Vec<u8>) {
    out.clear();
    for part in parts {
        match part.kind {
            Kind::Number => {
                out.pop_if(|last| *last == b' ');
                out.push(1);
            }
            Kind::Clock => out.push(2),
            Kind::Any => out.push(3),
            Kind::Text => {
                for &b in part.of(text) {
                    if !b.is_ascii_whitespace() {
                        out.push(b.max(b' '));
                    } else if out.last() != Some(&b' ') {
                        out.push(b' ');
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line with its places shown.
    fn shown(text: &str) -> String {
        let mut all = Vec::new();
        parts(text.as_bytes(), &mut all);
        let part = |part: &Part| match part.kind {
            Kind::Text => String::from_utf8_lossy(part.of(text.as_bytes())).into_owned(),
            Kind::Number => "#".to_owned(),
            Kind::Clock => "@".to_owned(),
            Kind::Any => "*".to_owned(),
        };
        all.iter().map(part).collect()
    }

    #[test]
    fn numbers_clocks_and_ids_are_places() {
        for (line, want) in [
            (
                "step 1,152 of 3000: loss 1.5e-05, nan",
                "step # of #: loss #, #",
            ),
            (
                "2022-05-18 19:07:57,653 it: 50, eta 0:41:22",
                "@ @ it: #, eta @",
            ),
            (
                "[default0]: 01/17/2024 took 12ms 4.71K",
                "[default#]: @ took #ms #K",
            ),
            (
                "comm 0x7f2a id 22b7ca89 a1b2 rank3 v2.30.",
                "comm * id * * rank# v#.",
            ),
            (
                " 8%|▍# | 9/9 [00:12<1:02:03, 1.0it/s]",
                " #%|*| #/# [#:#<@, #it/s]",
            ),
            ("| 991 | 4 | lr 1.E x 1.", "| # | # | lr #.E x #."),
            ("", ""),
        ] {
            assert_eq!(shown(line), want, "{line}");
        }
        assert_eq!(seconds(b"19:07:57,653"), Some(68877.653));
    }

    #[test]
    fn columns_of_blanks_are_one() {
        let of = |text: &str| {
            let (mut all, mut out) = (Vec::new(), Vec::new());
            parts(text.as_bytes(), &mut all);
            key(text.as_bytes(), &all, &mut out);
            out
        };
        assert_eq!(of("it [    5/ 10] |  ms"), of("it [10005/10] | ms"));
        assert_ne!(of("it 5"), of("at 5"));
    }
}
