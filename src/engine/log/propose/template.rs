//! Templates: the words that lines of one kind have in common. Numbers, clocks and the like are
//! places.

use super::limits::MAX_TEMPLATE_PARTS;

/// The kind of a part of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TemplatePartKind {
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
pub(super) struct TemplatePart {
    pub(super) kind: TemplatePartKind,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl TemplatePart {
    pub(super) fn slice_of<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        text.get(self.start..self.end).unwrap_or_default()
    }
}

/// Cuts a line into parts.
pub(super) fn split_into_parts(text: &[u8], out: &mut Vec<TemplatePart>) {
    out.clear();
    let mut from = 0;
    let mut at = 0;
    while at < text.len() && out.len() < MAX_TEMPLATE_PARTS {
        let Some((start, kind, end)) = find_part_at(text, at) else {
            at = if text[at].is_ascii_alphanumeric() {
                word_end(text, at)
            } else {
                at + 1
            };
            continue;
        };
        push_template_part(out, TemplatePartKind::Text, from, start);
        push_template_part(out, kind, start, end);
        (from, at) = (end, end);
    }
    push_template_part(out, TemplatePartKind::Text, from, at);
}

fn push_template_part(
    out: &mut Vec<TemplatePart>,
    kind: TemplatePartKind,
    start: usize,
    end: usize,
) {
    if start < end {
        out.push(TemplatePart { kind, start, end });
    }
}

fn word_end(text: &[u8], at: usize) -> usize {
    at + run_length(&text[at..], |b| b.is_ascii_alphanumeric())
}

fn run_length(text: &[u8], keep: impl Fn(u8) -> bool) -> usize {
    text.iter().position(|&b| !keep(b)).unwrap_or(text.len())
}

fn digits_length(text: &[u8]) -> usize {
    run_length(text, |b| b.is_ascii_digit())
}

/// Returns the place in the word or bar that begins at `at`.
fn find_part_at(text: &[u8], at: usize) -> Option<(usize, TemplatePartKind, usize)> {
    let rest = &text[at..];
    if rest[0] == b'|' {
        let blocks = bar_length(&rest[1..])?;
        return Some((at + 1, TemplatePartKind::Any, at + 1 + blocks));
    }
    if !rest[0].is_ascii_alphanumeric() {
        return None;
    }
    let word = &rest[..word_end(rest, 0)];
    if [&b"nan"[..], b"inf", b"NaN"].contains(&word) {
        return Some((at, TemplatePartKind::Number, at + word.len()));
    }
    let letters = run_length(word, |b| b.is_ascii_alphabetic());
    if letters == word.len() {
        return None;
    }
    if letters == 0
        && let Some(len) = clock_length(rest)
    {
        return Some((at, TemplatePartKind::Clock, at + len));
    }
    let len = letters + number_length(&rest[letters..]);
    let after = word.get(len..).unwrap_or_default();
    // `0x7f`, `22b7ca89`, `a1b2`: an address, an id. `12ms` is a number and its unit.
    let is_id = after.iter().any(u8::is_ascii_digit)
        || (letters > 0 && !after.is_empty())
        || word.starts_with(b"0x");
    Some(if is_id {
        (at, TemplatePartKind::Any, at + word.len())
    } else {
        (at + letters, TemplatePartKind::Number, at + len)
    })
}

/// Returns the length of the number at the front, which has a digit there.
fn number_length(text: &[u8]) -> usize {
    let mut len = digits_length(text);
    while text.get(len) == Some(&b',') && digits_length(&text[len + 1..]) == 3 {
        len += 4;
    }
    if text.get(len) == Some(&b'.') {
        let part = digits_length(&text[len + 1..]);
        len += if part > 0 { 1 + part } else { 0 };
    }
    if let Some(b'e' | b'E') = text.get(len) {
        let sign = usize::from(matches!(text.get(len + 1), Some(b'+' | b'-')));
        let power = digits_length(text.get(len + 1 + sign..).unwrap_or_default());
        len += if power > 0 { 1 + sign + power } else { 0 };
    }
    len
}

/// Returns the length of the date or time at the front.
fn clock_length(text: &[u8]) -> Option<usize> {
    let field = |at: usize| digits_length(text.get(at..).unwrap_or_default());
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

/// Returns the seconds of a time of day.
pub(super) fn seconds_of_clock(clock: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(clock).ok()?.replace(',', ".");
    let mut fields = text.split(':').map(str::parse::<f64>);
    let (hours, minutes, seconds) = (
        fields.next()?.ok()?,
        fields.next()?.ok()?,
        fields.next()?.ok()?,
    );
    Some(3600.0 * hours + 60.0 * minutes + seconds)
}

/// Returns the length of a progress bar up to its closing `|`.
fn bar_length(text: &[u8]) -> Option<usize> {
    let len = run_length(text, |b| !b.is_ascii() || b"#0123456789 =>-.".contains(&b));
    let drawn = &text[..len];
    let is_cell = drawn.iter().any(u8::is_ascii_digit) && !drawn.contains(&b'#');
    (len > 0 && text.get(len) == Some(&b'|') && !is_cell).then_some(len)
}

/// Writes the key of a template: its words and the kinds of its places. Blanks that fill a column
/// vary with its number.
pub(super) fn write_template_key(text: &[u8], parts: &[TemplatePart], out: &mut Vec<u8>) {
    out.clear();
    for part in parts {
        match part.kind {
            TemplatePartKind::Number => {
                out.pop_if(|last| *last == b' ');
                out.push(1);
            }
            TemplatePartKind::Clock => out.push(2),
            TemplatePartKind::Any => out.push(3),
            TemplatePartKind::Text => {
                for &b in part.slice_of(text) {
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
        split_into_parts(text.as_bytes(), &mut all);
        let part = |part: &TemplatePart| match part.kind {
            TemplatePartKind::Text => {
                String::from_utf8_lossy(part.slice_of(text.as_bytes())).into_owned()
            }
            TemplatePartKind::Number => "#".to_owned(),
            TemplatePartKind::Clock => "@".to_owned(),
            TemplatePartKind::Any => "*".to_owned(),
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
        assert_eq!(seconds_of_clock(b"19:07:57,653"), Some(68877.653));
    }

    #[test]
    fn columns_of_blanks_are_one() {
        let of = |text: &str| {
            let (mut all, mut out) = (Vec::new(), Vec::new());
            split_into_parts(text.as_bytes(), &mut all);
            write_template_key(text.as_bytes(), &all, &mut out);
            out
        };
        assert_eq!(of("it [    5/ 10] |  ms"), of("it [10005/10] | ms"));
        assert_ne!(of("it 5"), of("at 5"));
    }
}
