//! Makes a pattern for `--step-regex` from a template and the place of its step.

use super::limits::MAX_SIDE_TEXT_BYTES;
use super::table::LineTemplate;
use super::template::{TemplatePart, TemplatePartKind};
use regex::bytes::Regex;

/// A place of a template that becomes a group of the pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PatternGroup {
    /// The part of the line.
    pub(super) part: usize,
    /// The group's name.
    pub(super) name: &'static str,
}

/// How much of the line a pattern holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatternWidth {
    /// The words before the step's number.
    Near,
    /// The words after it too.
    Around,
    /// Everything from the line's stamp up to them.
    Left,
    /// The whole line from there on.
    Whole,
}

/// Returns the pattern for the lines of a template, with the step at `part`. `others` are groups
/// that a line may lack.
pub(super) fn build_pattern(
    template: &LineTemplate,
    part: usize,
    others: &[PatternGroup],
    width: PatternWidth,
) -> String {
    let LineTemplate { example, parts, .. } = template;
    let (from, cut) = match width {
        PatternWidth::Near | PatternWidth::Around => words_before(example, parts, part),
        PatternWidth::Left | PatternWidth::Whole => (own_words_start(parts), 0),
    };
    let mut words = String::new();
    push_parts(example, &parts[from.min(part)..part], cut, &mut words);
    // Anything may be in front of all words.
    let any = [r"\s+", r"\s*", r"\S+?", ".*?"];
    while let Some(any) = any.iter().find(|any| words.starts_with(**any)) {
        words.drain(..any.len());
    }
    if words.starts_with(char::is_alphabetic) {
        words.insert_str(0, r"\b");
    }
    let mut out = String::new();
    for group in others.iter().filter(|group| group.part < part) {
        out.push_str("(?:");
        push_number_group(template, group, &mut out);
        out.push_str(".*?)?");
    }
    out += &words;
    out += &format!("(?P<step>{})", step_number_pattern(template, part));
    let rest = &parts[part + 1..];
    match width {
        PatternWidth::Near if is_word(words.as_bytes()) => {}
        PatternWidth::Whole => push_parts(example, rest, 0, &mut out),
        _ => push_words_after(example, rest, &mut out),
    }
    if width != PatternWidth::Whole {
        for group in others.iter().filter(|group| group.part > part) {
            out.push_str("(?:.*?");
            push_number_group(template, group, &mut out);
            out.push_str(")?");
        }
    }
    out
}

/// Appends a number with its name, as a group.
fn push_number_group(template: &LineTemplate, group: &PatternGroup, out: &mut String) {
    let LineTemplate { example, parts, .. } = template;
    let (from, cut) = words_before(example, parts, group.part);
    let mut name = String::new();
    let before = parts.get(from..group.part).unwrap_or_default();
    push_parts(example, before, cut, &mut name);
    if name.starts_with(char::is_alphabetic) {
        out.push_str(r"\b");
    }
    *out += &name;
    *out += &format!(r"(?P<{}>[0-9.,eE+-]+)", group.name);
    // Its unit: a bar prints `35.55s/it` or `1.25it/s`.
    let after = template.text_after(group.part);
    let of_unit = |b: &u8| b.is_ascii_alphabetic() || *b == b'/';
    let end = after.iter().position(|b| !of_unit(b));
    let unit = &after[..end.unwrap_or(after.len())];
    if unit.first().is_some_and(u8::is_ascii_alphabetic) {
        push_literal(unit, out);
        if unit.last().is_some_and(u8::is_ascii_alphabetic) {
            out.push_str(r"\b");
        }
    }
}

/// Appends parts that a number follows, the first without `cut` bytes.
fn push_parts(text: &[u8], parts: &[TemplatePart], cut: usize, out: &mut String) {
    for (at, part) in parts.iter().enumerate() {
        push_part(part, text, if at == 0 { cut } else { 0 }, out);
        // Blanks fill the number's column.
        let is_number = |next: &TemplatePart| next.kind == TemplatePartKind::Number;
        if part.kind == TemplatePartKind::Text && parts.get(at + 1).is_none_or(is_number) {
            let blanks = out.strip_suffix(r"\s+").unwrap_or(out).len();
            if out[..blanks].ends_with(['[', '(', '/', '=', '|', ':']) {
                out.replace_range(blanks.., r"\s*");
            }
        }
    }
}

/// Returns the place where a line's own words begin: after the last stamp in front of any word.
fn own_words_start(parts: &[TemplatePart]) -> usize {
    let clock = parts
        .iter()
        .take(8)
        .rposition(|part| part.kind == TemplatePartKind::Clock);
    clock.map_or(0, |at| at + 1)
}

/// Returns the pattern of the step's number.
fn step_number_pattern(template: &LineTemplate, part: usize) -> &'static str {
    let places = template.parts.iter().take(part);
    let place = places
        .filter(|part| part.kind == TemplatePartKind::Number)
        .count();
    match template.series.get(place) {
        Some(series) if series.pointed => r"[0-9,]+(?:\.0+)?",
        Some(series) if series.grouped => r"[0-9,]+",
        _ => "[0-9]+",
    }
}

fn is_word(text: &[u8]) -> bool {
    let letters = |pair: &[u8]| pair.iter().all(u8::is_ascii_alphabetic);
    text.windows(2).any(letters)
}

/// Returns the words in front of a part: the part where they begin, and how many bytes of it to
/// leave out.
fn words_before(text: &[u8], parts: &[TemplatePart], part: usize) -> (usize, usize) {
    let mut from = part;
    for at in (part.saturating_sub(6)..part).rev() {
        let Some(before) = parts.get(at) else { break };
        if before.kind == TemplatePartKind::Clock {
            break;
        }
        from = at;
        if before.kind == TemplatePartKind::Text && is_word(before.slice_of(text)) {
            return (at, name_start(before.slice_of(text)));
        }
    }
    (from, 0)
}

/// Returns the place in a text where the name at its end begins: `] loss: 2, lr: ` is `lr: `, and
/// `| time (ms): ` is all but the bar.
pub(super) fn name_start(text: &[u8]) -> usize {
    let of_name = |b: &u8| b.is_ascii_alphanumeric() || b"_/-.".contains(b);
    let word = |end: usize| {
        let end = text[..end].iter().rposition(u8::is_ascii_alphabetic);
        let end = end.map_or(0, |at| at + 1);
        let start = text[..end].iter().rposition(|b| !of_name(b));
        (start.map_or(0, |at| at + 1), end)
    };
    let low = text.len().saturating_sub(MAX_SIDE_TEXT_BYTES);
    let (mut start, mut end) = word(text.len());
    // A unit has its name before it.
    while end - start <= 3 || start > 0 && b"([".contains(&text[start - 1]) {
        let before = word(start);
        if before.0 < low || before.0 == before.1 || is_cut(&text[before.1..start]) {
            break;
        }
        (start, end) = before;
    }
    start.max(low.min(end))
}

/// Returns true if words on both sides are not of one name.
fn is_cut(between: &[u8]) -> bool {
    between.iter().any(|b| b"|,;:=]){}\"'".contains(b))
}

/// Appends what follows the last group, up to the end of its first word.
fn push_words_after(text: &[u8], rest: &[TemplatePart], out: &mut String) {
    for part in rest.iter().take(3) {
        let words = part.slice_of(text);
        if part.kind != TemplatePartKind::Text {
            push_part(part, text, 0, out);
            continue;
        }
        let first = words.iter().position(u8::is_ascii_alphabetic);
        let of_word = |b: &u8| b.is_ascii_alphabetic() || *b == b'_';
        let len = first.map_or(words.len(), |first| {
            let len = words[first..].iter().position(|b| !of_word(b));
            len.map_or(words.len(), |len| first + len)
        });
        push_literal(
            words
                .get(..len.min(MAX_SIDE_TEXT_BYTES))
                .unwrap_or_default(),
            out,
        );
        if first.is_some() {
            break;
        }
    }
}

fn push_part(part: &TemplatePart, text: &[u8], cut: usize, out: &mut String) {
    match part.kind {
        TemplatePartKind::Text => {
            push_literal(part.slice_of(text).get(cut..).unwrap_or_default(), out);
        }
        TemplatePartKind::Number | TemplatePartKind::Clock => out.push_str(r"\S+?"),
        TemplatePartKind::Any => out.push_str(".*?"),
    }
}

/// Appends text that matches itself: fit for a shell's single quotes, and any number of blanks
/// for some.
fn push_literal(text: &[u8], out: &mut String) {
    let mut rest = text;
    while let Some(&first) = rest.first() {
        let is_plain = |b: &u8| b.is_ascii_graphic() && *b != b'\'';
        let len = rest.iter().position(|b| !is_plain(b)).unwrap_or(rest.len());
        if len > 0 {
            out.push_str(&regex::escape(&String::from_utf8_lossy(&rest[..len])));
            rest = &rest[len..];
            continue;
        }
        let (same, what): (fn(&u8) -> bool, _) = match first {
            b'\'' => (|b| *b == b'\'', r"\x27+"),
            b if b.is_ascii_whitespace() => (u8::is_ascii_whitespace, r"\s+"),
            _ => (
                |b| !b.is_ascii() || b.is_ascii_control() && !b.is_ascii_whitespace(),
                ".*?",
            ),
        };
        out.push_str(what);
        rest = &rest[rest.iter().position(|b| !same(b)).unwrap_or(rest.len())..];
    }
}

/// Returns the place in a line of the number that a pattern takes for the step, or for another
/// group.
pub(super) fn group_position(regex: &Regex, text: &[u8], group: &str) -> Option<usize> {
    Some(regex.captures(text)?.name(group)?.start())
}
