//! The time stamp in front of a line, as printed: its value and its resolution in ns.
//!
//! NCCL prints `[%F %T] ` (`NCCL_DEBUG_TIMESTAMP_FORMAT`), whole seconds; `%6f` in the user's format
//! gives a fraction. Launchers and collectors print others.

/// A stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeStamp {
    /// ns since the epoch, as if the zone were UTC; since midnight, where there is no date.
    pub ns: i64,
    /// ns of the last digit that is printed.
    pub step: i64,
}

const NS_PER_SECOND: i64 = 1_000_000_000;

/// Reads `2026-04-28 14:14:49.123`, `2025-05-16T16:39:51.208-07:00`, `19:54:57`, `1763640000.125`.
pub fn parse_stamp(text: &[u8]) -> Option<TimeStamp> {
    let (days, clock) = match text {
        [_, _, _, _, b'-', _, _, b'-', _, _, b' ' | b'T', clock @ ..] => (parse_date(text)?, clock),
        _ => (0, text),
    };
    let Some((seconds, rest)) = parse_time_of_day(clock) else {
        return parse_epoch(text);
    };
    let (fraction, step, rest) = parse_fraction(rest);
    let zone = parse_zone(rest)?;
    let seconds = days.checked_mul(86_400)?.checked_add(seconds - zone)?;
    let ns = seconds.checked_mul(NS_PER_SECOND)?.checked_add(fraction)?;
    Some(TimeStamp { ns, step })
}

/// Reads stamps that come one after the other: mostly of the second of the last one.
#[derive(Debug, Clone, Default)]
pub struct StampReader {
    /// A stamp up to its second, and its ns.
    known: Option<([u8; DATE_TIME_BYTES], i64)>,
}

/// The length of `2026-04-28 14:14:49`.
const DATE_TIME_BYTES: usize = 19;

impl StampReader {
    /// As [`parse_stamp`].
    pub fn stamp(&mut self, text: &[u8]) -> Option<TimeStamp> {
        let Some((second, rest)) = text.split_first_chunk::<DATE_TIME_BYTES>() else {
            return parse_stamp(text);
        };
        if let Some((known, ns)) = &self.known
            && known == second
            && let (fraction, step, []) = parse_fraction(rest)
        {
            let ns = ns.checked_add(fraction)?;
            return Some(TimeStamp { ns, step });
        }
        let is_dated = matches!(second, [_, _, _, _, b'-', ..]);
        if let Some(found) = parse_stamp(second).filter(|_| is_dated) {
            self.known = Some((*second, found.ns));
        }
        parse_stamp(text)
    }
}

/// A number of two digits.
fn parse_two_digits(text: &[u8]) -> Option<i64> {
    match text {
        [a @ b'0'..=b'9', b @ b'0'..=b'9', ..] => Some(i64::from((a - b'0') * 10 + (b - b'0'))),
        _ => None,
    }
}

/// Days since the epoch of `YYYY-mm-dd`.
fn parse_date(text: &[u8]) -> Option<i64> {
    let year = 100 * parse_two_digits(text)? + parse_two_digits(text.get(2..)?)?;
    let (month, day) = (
        parse_two_digits(text.get(5..)?)?,
        parse_two_digits(text.get(8..)?)?,
    );
    let number = |n: i64| i8::try_from(n).ok();
    let year = i16::try_from(year).ok()?;
    let date = jiff::civil::Date::new(year, number(month)?, number(day)?).ok()?;
    let epoch = jiff::civil::Date::new(1970, 1, 1).ok()?;
    Some(i64::from(epoch.until(date).ok()?.get_days()))
}

/// Returns the seconds since midnight of `HH:MM:SS`, and the rest of the text.
fn parse_time_of_day(text: &[u8]) -> Option<(i64, &[u8])> {
    let (hour, minute, second) = match text.get(..8)? {
        [_, _, b':', _, _, b':', _, _] => (
            parse_two_digits(text)?,
            parse_two_digits(text.get(3..)?)?,
            parse_two_digits(text.get(6..)?)?,
        ),
        _ => return None,
    };
    let is = hour < 24 && minute < 60 && second <= 60;
    is.then_some((hour * 3600 + minute * 60 + second, text.get(8..)?))
}

/// Returns the ns of a fraction, the ns of one unit of its last digit, and the rest of the text.
fn parse_fraction(text: &[u8]) -> (i64, i64, &[u8]) {
    let [b'.' | b',', digits @ ..] = text else {
        return (0, NS_PER_SECOND, text);
    };
    let (mut ns, mut step, mut rest) = (0, NS_PER_SECOND, digits);
    while let [digit @ b'0'..=b'9', behind @ ..] = rest {
        // Digits beyond ns are not looked at.
        if step > 1 {
            step /= 10;
            ns += i64::from(digit - b'0') * step;
        }
        rest = behind;
    }
    (ns, step, rest)
}

/// The seconds that a zone is ahead of UTC: `Z`, `-07:00`, nothing.
fn parse_zone(text: &[u8]) -> Option<i64> {
    match text {
        b"" | b"Z" => Some(0),
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let seconds =
                parse_two_digits(text.get(1..)?)? * 3600 + parse_two_digits(text.get(4..)?)? * 60;
            Some(if *sign == b'-' { -seconds } else { seconds })
        }
        _ => None,
    }
}

/// Seconds since the epoch, `1763640000.125`.
fn parse_epoch(text: &[u8]) -> Option<TimeStamp> {
    let whole = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let (digits, rest) = text.split_at_checked(whole)?;
    if !(9..=11).contains(&whole) {
        return None;
    }
    let seconds: i64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    let (fraction, step, rest) = parse_fraction(rest);
    let ns = seconds.checked_mul(NS_PER_SECOND)?.checked_add(fraction)?;
    rest.is_empty().then_some(TimeStamp { ns, step })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stamps_are_ns_and_how_fine_they_are() {
        let of = |text: &str| parse_stamp(text.as_bytes()).map(|s| (s.ns, s.step));
        let noon = 1_777_385_689;
        assert_eq!(
            of("2026-04-28 14:14:49"),
            Some((noon * NS_PER_SECOND, NS_PER_SECOND))
        );
        let ms = noon * NS_PER_SECOND + 123_000_000;
        assert_eq!(of("2026-04-28 14:14:49.123"), Some((ms, 1_000_000)));
        assert_eq!(of("2026-04-28T07:14:49.123-07:00"), Some((ms, 1_000_000)));
        assert_eq!(of("1777385689.123"), Some((ms, 1_000_000)));
        assert_eq!(of("00:00:07,5"), Some((7_500_000_000, 100_000_000)));
        assert_eq!(of("00:00:07.1234567891"), Some((7_123_456_789, 1)));
        for none in [
            "",
            "7",
            "2026-04-28",
            "24:00:00",
            "12:00:00 x",
            "2026-13-01 00:00:00",
        ] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_stamp_or_none(text in "[0-9:T \\-.,+Zx]{0,40}") {
            let _ = parse_stamp(text.as_bytes());
        }

        /// Whatever came before.
        #[test]
        fn a_stamp_after_others_is_what_it_is_alone(
            texts in proptest::collection::vec(
                "2026-04-2[78][ T]14:14:4[89]([.,][0-9]{0,10})?(Z|[+-]07:00)?|[0-9:.]{0,24}", 0..8),
        ) {
            let mut reader = StampReader::default();
            for text in texts {
                prop_assert_eq!(reader.stamp(text.as_bytes()), parse_stamp(text.as_bytes()), "{}", text);
            }
        }
    }
}
