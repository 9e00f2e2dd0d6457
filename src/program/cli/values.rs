//! Values as people type them: sizes, shares, addresses.

pub use crate::grammar::values::ByteSize;
use crate::members::comm_id::CommId;
use anyhow::bail;
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// Returns sizes as edges of buckets.
///
/// # Errors
/// They do not rise, or one is 0.
pub fn parse_edges(sizes: &[ByteSize]) -> anyhow::Result<Vec<u128>> {
    let edges: Vec<u128> = sizes.iter().map(|s| s.0).collect();
    if edges.first() == Some(&0) || edges.windows(2).any(|w| w[0] >= w[1]) {
        bail!("--edges: expected increasing sizes above 0, such as 64KB,1MB,16MB");
    }
    Ok(edges)
}

/// A share as typed, in percent: `5%`, `0.5%`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PercentShare(pub f64);

impl std::str::FromStr for PercentShare {
    type Err = String;

    fn from_str(text: &str) -> Result<PercentShare, String> {
        let percent = text.strip_suffix('%').and_then(|n| n.parse::<f64>().ok());
        percent
            .filter(|n| n.is_finite() && *n >= 0.0)
            .map(|n| PercentShare(n / 100.0))
            .ok_or_else(|| format!("invalid share `{text}`; expected percent, such as 5% or 0.5%"))
    }
}

/// A communicator's address or id as typed: `0x55d0a0000000`, `0x9f3b/2.7`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommAddress(pub CommId);

impl std::str::FromStr for CommAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<CommAddress, String> {
        CommId::parse(text.as_bytes())
            .map(CommAddress)
            .ok_or_else(|| format!("invalid address or id `{text}`; expected 0x and hexadecimal digits: nccl-communicators lists the ids"))
    }
}

/// One of some values by its name, which shells complete.
pub fn one_of<T>(all: &'static [(T, &'static str)]) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    PossibleValuesParser::new(all.iter().map(|(_, name)| *name)).try_map(move |name| {
        let found = all.iter().find(|(_, known)| *known == name);
        found
            .map(|(value, _)| *value)
            .ok_or("expected one of the names")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_typed() {
        let of = |t: &str| t.parse::<ByteSize>().map(|s| s.0);
        assert_eq!(of("4096"), Ok(4096));
        assert_eq!(of("64KB"), Ok(65536));
        assert_eq!(of("1m"), Ok(1 << 20));
        assert_eq!(of("2GiB"), Ok(2 << 30));
        for bad in ["", "KB", "1.5MB", "-1", "1XB"] {
            assert!(of(bad).is_err(), "{bad}");
        }
        assert!(parse_edges(&[ByteSize(2), ByteSize(1)]).is_err());
        assert!(parse_edges(&[ByteSize(0)]).is_err());
    }

    #[test]
    fn shares_read_as_typed() {
        let of = |t: &str| t.parse::<PercentShare>().map(|s| s.0);
        assert_eq!(
            (of("5%"), of("0.5%"), of("0%")),
            (Ok(0.05), Ok(0.005), Ok(0.0))
        );
        for bad in ["5", "0.05", "%", "-1%", "inf%", "nan%"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
