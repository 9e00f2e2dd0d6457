//! Times as users write them.

use std::time::Duration;

/// Reads `90`, `90s`, `5m`, `1h`.
///
/// # Errors
/// It is no number with such a unit, or is 0.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.find(|c: char| c.is_ascii_alphabetic()) {
        Some(at) => text.split_at(at),
        None => (text, "s"),
    };
    let factor = match unit {
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => {
            return Err(format!(
                "invalid time {text}: expected seconds, or a number with s, m or h"
            ));
        }
    };
    let seconds: f64 = number
        .parse()
        .map_err(|_| format!("invalid time {text}: expected a number"))?;
    match Duration::try_from_secs_f64(seconds * factor) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err(format!("invalid time {text}: expected more than 0")),
    }
}
