//! Numbers for people: grouped, short, in percent, with units; bars.

/// Formats `1234567` as `1 234 567`.
pub fn group_digits(n: u128) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Formats calls, or the half of a scale of calls.
pub fn calls_text(n: f64) -> String {
    match n.fract() == 0.0 {
        true => format!("{} calls", group_digits(n as u128)),
        false => format!("{n:.1} calls"),
    }
}

/// Formats a fraction with four significant digits.
pub fn short_number(x: f64) -> String {
    if x == 0.0 {
        return "0".to_owned();
    }
    if (1000.0..1e30).contains(&x) {
        return group_digits(x.round() as u128);
    }
    let before = x.abs().log10().floor() as i32 + 1;
    let decimals = usize::try_from(4 - before).unwrap_or(0);
    format!("{x:.decimals$}")
}

/// Formats a part of a whole in percent.
pub(super) fn percent_text(share: f64) -> String {
    if share > 0.0 && share < 0.00005 {
        return "<0.01 %".to_owned();
    }
    format!("{:.2} %", share * 100.0)
}

/// Draws a bar of block characters, `share` of `width` wide, to eighths of a character.
pub fn block_bar(share: f64, width: usize) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = (share.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    let mut text = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        text.push(EIGHTHS[eighths % 8]);
    } else if eighths == 0 && share > 0.0 {
        text.push(EIGHTHS[1]);
    }
    text
}

/// Formats a size in the largest unit of 1024 that is not larger than it.
pub fn short_bytes(bytes: f64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024.0 {
        return format!("{bytes:.0} B");
    }
    let (mut value, mut unit) = (bytes / 1024.0, UNITS[0]);
    for next in &UNITS[1..] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    match value {
        _ if value < 10.0 => format!("{value:.2} {unit}"),
        _ if value < 100.0 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

/// Formats seconds with four digits.
pub fn seconds_text(s: f64) -> String {
    match s {
        _ if s == 0.0 => "0 s".to_owned(),
        _ if s >= 100.0 => format!("{s:.1} s"),
        _ if s >= 1.0 => format!("{s:.3} s"),
        _ if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        _ => format!("{:.2} us", s * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_show_the_smallest_share() {
        assert_eq!(block_bar(1.0, 4), "████");
        assert_eq!(block_bar(0.5, 4), "██");
        assert_eq!(block_bar(0.0001, 4), "▏");
        assert_eq!(block_bar(0.0, 4), "");
    }
}
