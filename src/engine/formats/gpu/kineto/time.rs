//! Times of a trace: µs, as decimal numbers with a fraction, converted to ns exactly.

/// Converts µs to the nearest ns: `4449896540446.311`, `17`, `1.5e3`. `None` if the text is no number
/// or too large.
pub(super) fn parse_ns(text: &[u8]) -> Option<i64> {
    let (negative, rest) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let at = rest.iter().position(|b| matches!(b, b'e' | b'E'));
    let (mantissa, exponent) = match at {
        Some(at) => (rest.get(..at)?, parse_exponent(rest.get(at + 1..)?)?),
        None => (rest, 0),
    };
    let point = mantissa.iter().position(|&b| b == b'.');
    let (whole, fraction) = match point {
        Some(at) => (mantissa.get(..at)?, mantissa.get(at + 1..)?),
        None => (mantissa, &b""[..]),
    };
    if whole.is_empty() || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
        return None;
    }
    // The digits before the point of the number in ns.
    let kept = i32::try_from(whole.len())
        .ok()?
        .checked_add(exponent)?
        .checked_add(3)?;
    let kept = usize::try_from(kept.max(-1)).ok();
    let mut digits = whole.iter().chain(fraction).map(|b| i64::from(b - b'0'));
    let Some(kept) = kept else {
        return Some(0);
    };
    if kept > 40 {
        return digits.all(|digit| digit == 0).then_some(0);
    }
    let mut ns = 0_i64;
    for _ in 0..kept {
        ns = ns
            .checked_mul(10)?
            .checked_add(digits.next().unwrap_or(0))?;
    }
    let ns = ns.checked_add(i64::from(digits.next().unwrap_or(0) >= 5))?;
    Some(if negative { -ns } else { ns })
}

fn parse_exponent(text: &[u8]) -> Option<i32> {
    let exponent: i32 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (-99..=99).contains(&exponent).then_some(exponent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_fraction_is_not_rounded() {
        let of = |text: &str| parse_ns(text.as_bytes());
        assert_eq!(of("4449896540446.311"), Some(4_449_896_540_446_311));
        assert_eq!(of("1790857026000000.001"), Some(1_790_857_026_000_000_001));
        assert_eq!(of("17"), Some(17_000));
        assert_eq!(of("0.0004"), Some(0));
        assert_eq!(of("0.0005"), Some(1));
        assert_eq!(of("-1.25"), Some(-1_250));
        assert_eq!(of("1.5e3"), Some(1_500_000));
        assert_eq!(of("15E-1"), Some(1_500));
        assert_eq!(of("5e-4"), Some(1));
        assert_eq!(of("5e-5"), Some(0));
        assert_eq!(of("9e-99"), Some(0));
        assert_eq!(of("0e99"), Some(0));
        for bad in [
            "",
            "-",
            ".5",
            "NaN",
            "1e",
            "1e100",
            "1.2.3",
            "9e30",
            "99999999999999999",
            "\"1\"",
        ] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn ns_are_those_that_were_written(ns_ in -4_000_000_000_000_000_000_i64..4_000_000_000_000_000_000) {
            let text = format!("{}{}.{:03}", if ns_ < 0 { "-" } else { "" }, ns_.abs() / 1000, ns_.abs() % 1000);
            prop_assert_eq!(parse_ns(text.as_bytes()), Some(ns_));
        }

        #[test]
        fn any_text_is_read_calmly(text in "[-+.eE0-9]{0,60}") {
            parse_ns(text.as_bytes());
        }
    }
}
