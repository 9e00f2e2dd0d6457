//! Comparison of printed time stamps.

/// True if both stamps have one form, and text of that form sorts by time.
pub(crate) fn are_stamps_comparable(a: &[u8], b: &[u8]) -> bool {
    let same = |(x, y): (&u8, &u8)| match (x.is_ascii_digit(), y.is_ascii_digit()) {
        (true, true) => true,
        (false, false) => x == y,
        _ => false,
    };
    is_sortable_stamp(a) && a.len() == b.len() && a.iter().zip(b).all(same)
}

/// True for digits with the largest unit first: `2026-04-28 14:14:49`, `0614 11:26:37.75`, `14:14:49`, an
/// epoch. `28/04/26 14:14` and `Apr 28` do not sort; with several points it is an address.
fn is_sortable_stamp(stamp: &[u8]) -> bool {
    let first = stamp.iter().position(|b| !b.is_ascii_digit());
    let unit = first.unwrap_or(stamp.len());
    let letters = stamp
        .iter()
        .any(|b| b.is_ascii_alphabetic() && !matches!(b, b'T' | b'Z'));
    let big = match first.map(|at| stamp[at]) {
        Some(b'-' | b'/') => unit == 4,
        _ => unit > 0,
    };
    big && !letters && stamp.iter().filter(|&&b| b == b'.').count() < 2
}

#[cfg(test)]
mod tests {
    use super::are_stamps_comparable;

    #[test]
    fn only_stamps_of_one_form_are_compared() {
        for (a, b, can) in [
            ("2026-04-28 14:14:49", "2026-04-28 14:14:50", true),
            ("2026-04-28 14:14:49", "2026-04-28 14:14:49.5", false),
            ("28/04/2026 14:14", "29/04/2026 14:14", false),
            ("0614 11:26:37.758169", "0614 11:26:38.758169", true),
            ("1763640000.5", "1763640001.5", true),
            ("10.10.23.10:", "10.10.23.11:", false),
            ("", "", false),
        ] {
            assert_eq!(
                are_stamps_comparable(a.as_bytes(), b.as_bytes()),
                can,
                "{a} {b}"
            );
        }
    }
}
