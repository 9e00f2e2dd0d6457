//! Sizes as people type them.

use crate::error::{Error, Result};

/// Reads `100M`, `1G`, `4096`, `10MB`. As in GNU programs, `K M G T` are powers of 1024 and
/// `KB MB GB TB` are powers of 1000.
pub fn parse(text: &str) -> Result<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "K" | "KIB" => 1 << 10,
        "M" | "MIB" => 1 << 20,
        "G" | "GIB" => 1 << 30,
        "T" | "TIB" => 1 << 40,
        "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => {
            return Err(Error::Usage(format!(
                "expected a size like 100M or 1G, found \"{text}\""
            )));
        }
    };
    let size = number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(factor));
    match size {
        Some(n) if n > 0 => Ok(n),
        _ => Err(Error::Usage(format!(
            "expected a size like 100M or 1G, found \"{text}\""
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn units_are_those_of_gnu_programs() {
        assert_eq!(parse("100M").unwrap(), 100 << 20);
        assert_eq!(parse("1GB").unwrap(), 1_000_000_000);
        assert_eq!(parse("77").unwrap(), 77);
    }

    #[test]
    fn nonsense_is_refused_not_wrapped() {
        for bad in ["", "M", "0", "1X", "-1", "99999999999T", "1.5G"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
