//! Inspector's Prometheus metrics (`inspector_prom.cc`): gauges of the last interval. In NCCL 2.29.7 a
//! gauge is of the last collective of each communicator. From 2.30.3 on it is the mean time, or the
//! geometric mean of the bandwidth, of all operations of a range of sizes, without their number. Sizes
//! are rounded (`32.00KB`) or ranges (`32-33KB`), so that no call's bytes are known.
//!
//! Labels are not escaped: a communicator's name may have quotes in it. The labels after the name are
//! searched from the end.

use super::super::lines::{RecordFormat, RecordText};
use super::{InputFormat, Provides};
use crate::error::Result;
use crate::formats::whole_number::{parse_address, parse_decimal};
use crate::members::comm_id::CommId;
use crate::output::table::{Lacks, Row, Timing};
use memchr::memmem;

/// The format. It has times and no calls.
pub(in super::super) const METRICS: InputFormat = InputFormat {
    name: "metrics",
    what: "a file of NCCL Inspector's metrics, which are means over an unknown number of calls",
    tells: Provides::TIMED.and(Provides::DURATIONS),
    probe: |head| {
        let line = head.first_line();
        let line = line.strip_prefix(b"# HELP ").unwrap_or(line);
        let name = line
            .iter()
            .take_while(|b| b.is_ascii_lowercase() || **b == b'_');
        let behind = line.get(name.count());
        head.probe_recorder(line.starts_with(b"nccl_") && matches!(behind, Some(b'{' | b' ')))
    },
};

/// The reader of its lines.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct InspectorMetrics;

/// The meaning of a duration, by version.
const LAST_OF_INTERVAL: &[u8] = b"last of an interval";
const MEAN_OF_INTERVAL: &[u8] = b"mean of an interval";

impl RecordFormat for InspectorMetrics {
    type Scratch = ();

    fn read_header(_: &[u8], _: &str) -> Result<InspectorMetrics> {
        Ok(InspectorMetrics)
    }

    fn read_record(
        &self,
        (): &mut (),
        record: RecordText<'_>,
        take: &mut impl FnMut(&Row<'_>),
    ) -> Result<(), Lacks> {
        let line = record.bytes.trim_ascii();
        if line.starts_with(b"#") {
            return Ok(());
        }
        let sample = MetricSample::parse(line).ok_or("a metric of NCCL Inspector")?;
        if !sample.name.ends_with(b"_exec_time_microseconds") {
            return Ok(());
        }
        let (op, us) = sample.operation_time().ok_or("an operation and its time")?;
        let (algo, proto) = sample.algorithm_and_protocol();
        let seq = sample.numeric_label(b"coll_sn");
        let timing = Timing {
            dur_ns: Some(us),
            quality: if seq.is_some() {
                LAST_OF_INTERVAL
            } else {
                MEAN_OF_INTERVAL
            },
            algo,
            proto,
            ..Timing::default()
        };
        let small = |key| {
            sample
                .numeric_label(key)
                .and_then(|n| u32::try_from(n).ok())
        };
        let id = sample.label_after_name(b"comm_id").and_then(parse_address);
        take(&Row {
            host: sample
                .label_before_name(b"node")
                .or(sample.label_before_name(b"hostname"))
                .unwrap_or_default(),
            comm_id: id.map(CommId::from_printed),
            rank: small(b"rank"),
            nranks: small(b"nranks"),
            seq,
            op,
            calls: 1,
            src: super::FORMAT.name.as_bytes(),
            timing: Some(&timing),
            ..Row::default()
        });
        Ok(())
    }
}

/// A line: `name{key="value",...} value`.
#[derive(Debug, Clone, Copy)]
struct MetricSample<'l> {
    name: &'l [u8],
    labels: &'l [u8],
    value: &'l [u8],
}

impl<'l> MetricSample<'l> {
    fn parse(line: &'l [u8]) -> Option<MetricSample<'l>> {
        let open = memchr::memchr(b'{', line)?;
        let close = memmem::rfind(line, b"\"} ")?;
        let sample = MetricSample {
            name: line.get(..open)?,
            labels: line.get(open + 1..=close)?,
            value: line.get(close + 3..)?.trim_ascii(),
        };
        sample.name.starts_with(b"nccl_").then_some(sample)
    }

    /// Returns the value of the label that begins at `at`.
    fn label_at(self, key: &[u8], at: usize) -> Option<&'l [u8]> {
        let is_first = at == 0 || self.labels.get(at - 1) == Some(&b',');
        let value = self.labels.get(at + key.len()..)?.strip_prefix(b"=\"")?;
        let end = memmem::find(value, b"\",").or(value.len().checked_sub(1))?;
        value.get(..end).filter(|_| is_first)
    }

    /// The value of a label, before a communicator's name.
    fn label_before_name(self, key: &[u8]) -> Option<&'l [u8]> {
        let mut found = memmem::find_iter(self.labels, key);
        found.find_map(|at| self.label_at(key, at))
    }

    /// The value of a label, after a communicator's name.
    fn label_after_name(self, key: &[u8]) -> Option<&'l [u8]> {
        let mut found = memmem::rfind_iter(self.labels, key);
        found.find_map(|at| self.label_at(key, at))
    }

    fn numeric_label(self, key: &[u8]) -> Option<u64> {
        parse_decimal(self.label_after_name(key)?)
    }

    /// The operation, and its time in ns.
    fn operation_time(self) -> Option<(&'l [u8], u64)> {
        let op = self
            .label_after_name(b"collective")
            .or(self.label_after_name(b"p2p_operation"))?;
        let value: f64 = std::str::from_utf8(self.value).ok()?.parse().ok()?;
        let ns = (value * 1000.0).round();
        let is_op = !op.is_empty() && op.iter().all(u8::is_ascii_alphanumeric);
        (is_op && (0.0..1e18).contains(&ns)).then_some((op, ns as u64))
    }

    /// Algorithm and protocol.
    fn algorithm_and_protocol(self) -> (&'l [u8], &'l [u8]) {
        let both = self.label_after_name(b"algo_proto").unwrap_or_default();
        match memchr::memrchr(b'_', both) {
            Some(at) => (&both[..at], &both[at + 1..]),
            None => (b"", b""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(line: &str) -> String {
        let mut text = Vec::new();
        let read = InspectorMetrics.read_record(
            &mut (),
            RecordText::from_bytes(line.as_bytes()),
            &mut |row| {
                row.csv(&mut text);
            },
        );
        let text = String::from_utf8(text).unwrap();
        read.map_or_else(str::to_owned, |()| text.trim_end().to_owned())
    }

    #[test]
    fn a_time_is_a_row_by_each_version() {
        // NCCL 2.30.7, with a name that breaks the labels.
        let line = "nccl_collective_exec_time_microseconds{version=\"v5.1\",slurm_job_id=\"unknown\",\
                    node=\"vm\",gpu=\"GPU0\",comm_name=\"TP/PP \"1\",nranks=\"9\"\",n_nodes=\"1\",nranks=\"4\",\
                    collective=\"AllGather\",message_size=\"32-33KB\",algo_proto=\"RING_LL\"} 64.3333";
        let shown = row(line);
        assert!(
            shown.contains("AllGather") && shown.contains("64333"),
            "{shown}"
        );
        assert!(
            shown.contains("mean of an interval") && shown.contains("RING,LL"),
            "{shown}"
        );
        // The same as 2.29.7 writes it.
        let line = "nccl_collective_exec_time_microseconds{comm_id=\"0xe62dedaa97644a\",hostname=\"vm\",\
                    rank=\"2\",slurm_job=\"unknown\",slurm_job_id=\"unknown\",nranks=\"4\",n_nodes=\"1\",\
                    gpu_device_id=\"0\",collective=\"AllReduce\",coll_sn=\"12\",timestamp=\"2026-01-01T00:00:00Z\",\
                    message_size=\"32.00KB\"} 53";
        let shown = row(line);
        assert!(
            shown.contains("0xe62dedaa97644a") && shown.contains("53000"),
            "{shown}"
        );
        assert!(shown.contains("last of an interval"), "{shown}");
    }

    #[test]
    fn other_lines_are_no_rows() {
        assert_eq!(row("# HELP nccl_bus_bandwidth_gbs The bus bandwidth"), "");
        assert_eq!(
            row("nccl_bus_bandwidth_gbs{version=\"v5.1\",collective=\"Broadcast\"} 0.62"),
            ""
        );
        assert_eq!(
            row("nccl_bus_bandwidth_gbs{version=\"v5."),
            "a metric of NCCL Inspector"
        );
        let no_time = "nccl_p2p_exec_time_microseconds{p2p_operation=\"Send\"} nan";
        assert_eq!(row(no_time), "an operation and its time");
    }
}
