//! Numbers as nsys prints them: with the locale's separators of thousands.

/// Converts a number of units to whole ns. The locale decides the separator of thousands; a number of ns
/// has no fraction.
pub(super) fn parse_whole_ns(text: &[u8], ns: u64) -> Option<u64> {
    if ns != 1 {
        let value = parse_fraction_ns(text, ns)?;
        return (value >= 0.0 && value < u64::MAX as f64).then_some(value.round() as u64);
    }
    let (mut value, mut digits) = (0_u64, 0);
    for c in field_chars(text)? {
        match c.to_digit(10) {
            Some(digit) => {
                value = value.checked_mul(10)?.checked_add(digit.into())?;
                digits += 1;
            }
            None if is_group_separator(c) || c == '.' => {}
            None => return None,
        }
    }
    (digits > 0).then_some(value)
}

/// A number of ns, with a fraction.
pub(super) fn parse_fraction_ns(text: &[u8], ns: u64) -> Option<f64> {
    let all: Vec<char> = field_chars(text)?.collect();
    // The last separator is that of the fraction if no other is like it and not three digits follow.
    let point = all.iter().rposition(|c| matches!(c, '.' | ','));
    let point = point.filter(|&at| {
        let (of, after) = (all.get(at), all.len() - at - 1);
        let before = all.iter().take(at);
        let is_alone = before.clone().all(|c| Some(c) != of);
        let has_other = before
            .filter(|c| is_group_separator(**c) || **c == '.')
            .count()
            > 0;
        is_alone && (of == Some(&'.') || after != 3 || has_other)
    });
    let mut plain = String::new();
    for (at, &c) in all.iter().enumerate() {
        match c {
            _ if Some(at) == point => plain.push('.'),
            '0'..='9' => plain.push(c),
            c if is_group_separator(c) || c == '.' => {}
            _ => return None,
        }
    }
    let value: f64 = plain.parse().ok()?;
    Some(value * ns as f64)
}

/// Three numbers: ` 244    1    6`.
pub(super) fn parse_three(text: &[u8]) -> Option<[u32; 3]> {
    let mut words = text
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let mut next = || u32::try_from(parse_whole_ns(words.next()?, 1)?).ok();
    let three = [next()?, next()?, next()?];
    words.next().is_none().then_some(three)
}

/// The characters of a short field, quotes and blanks around it aside.
fn field_chars(text: &[u8]) -> Option<impl Iterator<Item = char>> {
    let text = std::str::from_utf8(text)
        .ok()?
        .trim()
        .trim_matches('"')
        .trim();
    (!text.is_empty() && text.len() <= 64).then(|| text.chars())
}

/// Returns true for a separator of groups of three digits.
fn is_group_separator(c: char) -> bool {
    matches!(c, ',' | '\'' | '’' | ' ' | '\u{a0}' | '\u{202f}' | '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_are_those_of_the_locale() {
        for (text, expected) in [
            ("267059180", Some(267_059_180)),
            ("267,059,180", Some(267_059_180)),
            ("267.059.180", Some(267_059_180)),
            ("267\u{202f}059\u{202f}180", Some(267_059_180)),
            ("\"1,234\"", Some(1234)),
            ("99999999999999999999", None),
            ("1e3", None),
            ("", None),
        ] {
            assert_eq!(parse_whole_ns(text.as_bytes(), 1), expected, "{text}");
        }
        for (text, expected) in [
            ("7854681.8", 7_854_681.8),
            ("7,854,681.8", 7_854_681.8),
            ("7.854.681,8", 7_854_681.8),
            ("1,234,567", 1_234_567.0),
            ("0.0", 0.0),
            ("12,5", 12.5),
        ] {
            assert_eq!(
                parse_fraction_ns(text.as_bytes(), 1),
                Some(expected),
                "{text}"
            );
        }
        assert_eq!(parse_whole_ns(b"267.059180", 1_000_000), Some(267_059_180));
        assert_eq!(parse_three(b" 244    1    6"), Some([244, 1, 6]));
        assert_eq!(parse_three(b"1 2"), None);
    }
}
