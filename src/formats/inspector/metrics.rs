//! Inspector's Prometheus metrics: gauges of the last interval. A sample is the mean time or the
//! geometric mean of the bandwidth of all operations of a range of sizes, without their number, so
//! that no call can be made of it.

use super::{Format, Tells};

/// The metrics: recognised, to be refused.
pub(in super::super) const METRICS: Format = Format {
    name: "metrics",
    what: "a file of NCCL Inspector's metrics, which are means over an unknown number of calls",
    tells: Tells::NOTHING,
    probe: |head| {
        let line = head.line();
        let line = line.strip_prefix(b"# HELP ").unwrap_or(line);
        let name = line
            .iter()
            .take_while(|b| b.is_ascii_lowercase() || **b == b'_');
        let behind = line.get(name.count());
        head.other(line.starts_with(b"nccl_") && matches!(behind, Some(b'{' | b' ')))
    },
};
