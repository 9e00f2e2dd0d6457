//! Times as the clock of a host shows them, in the forms of the kernel, of syslog and of logs. The zone is left out:
//! both sides print that of their host.

/// A time of day on a date; the year is not in every form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallTime {
    year: Option<i16>,
    month: i8,
    day: i8,
    /// Seconds since midnight.
    second: i32,
}

const SECONDS_PER_DAY: i64 = 86_400;

impl WallTime {
    /// Returns how many seconds `later` is after it; negative if it is before. Without a year the nearer of two is meant.
    pub fn seconds_until(&self, later: &WallTime) -> Option<i64> {
        let both = self.year.zip(later.year);
        let (own, other) = both.unwrap_or((2024, 2024));
        let date = |year, of: &WallTime| jiff::civil::Date::new(year, of.month, of.day).ok();
        let from = date(own, self)?;
        let days = i64::from(from.until(date(other, later)?).ok()?.get_days());
        let seconds = days * SECONDS_PER_DAY + i64::from(later.second - self.second);
        let half = 183 * SECONDS_PER_DAY;
        Some(match both {
            None if seconds > half => seconds - 366 * SECONDS_PER_DAY,
            None if seconds < -half => seconds + 366 * SECONDS_PER_DAY,
            _ => seconds,
        })
    }

    /// Reads the time at the beginning of a text: `2026-11-27T20:56:54.1+00:00`, `2026-11-27 20:56:54`,
    /// `Nov 27 20:56:54`, `Nov 27 2026 20:56:54`, `Fri Nov 27 20:56:54 2026`, `1127 20:56:54.1`. Returns the text after it too.
    pub fn parse_prefix(text: &[u8]) -> Option<(WallTime, &[u8])> {
        parse_iso(text)
            .or_else(|| parse_with_month(text))
            .or_else(|| parse_glog(text))
    }
}

/// Returns the time in the first bytes of a line: at its beginning, or after a bracket, a letter of glog, or a launcher's
/// prefix.
pub fn find_wall_time(line: &[u8]) -> Option<WallTime> {
    let line = &line[..line.len().min(96)];
    let begins = (0..line.len()).filter(|&at| {
        at == 0 || !line[at - 1].is_ascii_digit() && line[at].is_ascii_alphanumeric()
    });
    let mut found = begins.filter_map(|at| WallTime::parse_prefix(&line[at..]));
    found.next().map(|(time, _)| time)
}

fn parse_iso(text: &[u8]) -> Option<(WallTime, &[u8])> {
    let [
        a,
        b,
        c,
        d,
        b'-',
        e,
        f,
        b'-',
        g,
        h,
        b' ' | b'T' | b'_',
        clock @ ..,
    ] = text
    else {
        return None;
    };
    let year = 100 * number(&[*a, *b])? + number(&[*c, *d])?;
    let (second, rest) = parse_clock(clock)?;
    let time = WallTime {
        year: i16::try_from(year).ok(),
        month: i8::try_from(number(&[*e, *f])?).ok()?,
        day: i8::try_from(number(&[*g, *h])?).ok()?,
        second,
    };
    let is_zone = |b: &u8| b.is_ascii_digit() || b".,+-:Z".contains(b);
    let end = rest.iter().position(|b| !is_zone(b));
    Some((time, &rest[end.unwrap_or(rest.len())..]))
}

fn parse_with_month(text: &[u8]) -> Option<(WallTime, &[u8])> {
    let place = |names: &str, word: &[u8]| {
        let at = memchr::memmem::find(names.as_bytes(), word)?;
        (at % 4 == 0).then_some(at / 4)
    };
    let name = text.get(..3)?;
    let is_day = place("Mon Tue Wed Thu Fri Sat Sun ", name).is_some();
    let text = match is_day {
        true => text.get(3..)?.strip_prefix(b" ")?,
        false => text,
    };
    let months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec ";
    let month = place(months, text.get(..3)?)? + 1;
    let rest = text[3..].trim_ascii_start();
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let day = number(rest.get(..digits.min(2))?)?;
    let rest = rest.get(digits..)?.strip_prefix(b" ")?;
    let year_of = |text: &[u8]| i16::try_from(number(text.get(..4)?)?).ok();
    let early = year_of(rest).filter(|_| rest.get(4) == Some(&b' '));
    let (second, rest) = parse_clock(&rest[early.map_or(0, |_| 5)..])?;
    let year = rest.strip_prefix(b" ").and_then(|rest| {
        let year = year_of(rest).filter(|_| is_day)?;
        Some((year, &rest[4..]))
    });
    let time = WallTime {
        year: early.or(year.map(|(year, _)| year)),
        month: i8::try_from(month).ok()?,
        day: i8::try_from(day).ok()?,
        second,
    };
    Some((time, year.map_or(rest, |(_, rest)| rest)))
}

/// `1127 20:56:54.123456`, after the letter of its level.
fn parse_glog(text: &[u8]) -> Option<(WallTime, &[u8])> {
    let [a, b, c, d, b' ', clock @ ..] = text else {
        return None;
    };
    let (second, rest) = parse_clock(clock)?;
    let time = WallTime {
        year: None,
        month: i8::try_from(number(&[*a, *b])?).ok()?,
        day: i8::try_from(number(&[*c, *d])?).ok()?,
        second,
    };
    Some((time, rest))
}

/// Returns the seconds of `20:56:54.123`, and the text after the seconds' digits.
fn parse_clock(text: &[u8]) -> Option<(i32, &[u8])> {
    let [a, b, b':', c, d, b':', e, f, rest @ ..] = text else {
        return None;
    };
    let (hour, minute, second) = (number(&[*a, *b])?, number(&[*c, *d])?, number(&[*e, *f])?);
    (hour < 24 && minute < 60 && second <= 60).then_some((hour * 3600 + minute * 60 + second, rest))
}

fn number(digits: &[u8]) -> Option<i32> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| {
        digits
            .iter()
            .fold(0, |sum, digit| sum * 10 + i32::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_all_forms_are_compared() {
        let of = |text: &str| find_wall_time(text.as_bytes()).unwrap();
        let first = of("[2026-11-27 20:56:54] n1:81:81 [0] NCCL INFO x");
        for (text, after) in [
            ("Nov 27 20:57:04 n1 kernel: x", 10),
            ("[Fri Nov 27 20:56:44 2026] x", -10),
            ("[Nov 28 2026 20:56:44] x", SECONDS_PER_DAY - 10),
            ("[rank3]:[E1127 20:57:54.123456 x.cpp:9]", 60),
            ("2026-11-28T20:56:54.5+09:00 n1 kernel: x", SECONDS_PER_DAY),
            ("2026-11-27T20:56:54,123456+00:00 x", 0),
            ("Jan  1 20:56:54 n1 kernel: x", 35 * SECONDS_PER_DAY),
        ] {
            assert_eq!(first.seconds_until(&of(text)), Some(after), "{text}");
        }
        for none in [
            "",
            "Nov 99 x",
            "[  12.5] x",
            "20:56:54",
            "Nov",
            "2026-11-27T",
        ] {
            assert_eq!(find_wall_time(none.as_bytes()), None, "{none}");
        }
        let never = of("2026-02-31 00:00:00");
        assert_eq!(first.seconds_until(&never), None);
    }
}
