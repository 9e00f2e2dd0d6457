//! What NCCL Inspector writes: JSON lines, or Prometheus metrics. Both are recognised, not read yet.

use super::{Format, Tells};
use memchr::memmem;

/// Its JSON lines.
pub(super) const FORMAT: Format = Format {
    name: "inspector",
    what: "an NCCL Inspector dump",
    tells: Tells::NOTHING,
    probe: |head| {
        let line = head.line();
        let is_record = memmem::find(line, b"\"inspector_output_format_version\"").is_some();
        head.other(line.starts_with(b"{") && is_record)
    },
};

/// Its Prometheus metrics.
pub(super) const METRICS: Format = Format {
    name: "inspector",
    what: "a file of NCCL Inspector's metrics",
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::{Head, Is};

    #[test]
    fn both_forms_are_known_by_their_first_line() {
        let is =
            |format: &Format, text: &str| (format.probe)(&Head::of(text.as_bytes())) == Is::Yes;
        let record = "{\"header\":{\"id\":\"0xe6\",\"rank\":4},\"metadata\":\
                      {\"inspector_output_format_version\":\"v4.0\"},\"coll_perf\":{}}\n";
        assert!(is(&FORMAT, record) && !is(&FORMAT, "{\"header\":{\"id\":4}}\n"));
        let metric = "nccl_bus_bandwidth_gbs{version=\"v5.1\",node=\"a\"} 0.621034\n";
        assert!(is(&METRICS, metric) && is(&METRICS, "# HELP nccl_bus_bandwidth_gbs The bus\n"));
        assert!(!is(&METRICS, "nccl_test: started\n") && !is(&METRICS, record));
    }
}
