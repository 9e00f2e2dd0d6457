//! The watched job as Prometheus reads it (text format 0.0.4).

use super::JobWatch;
use crate::output::metrics::Metrics;
use crate::stages::check::CheckSummary;
use std::collections::BTreeMap;
use std::time::Instant;

/// Returns all metrics; `found` are the findings of the last check.
pub fn format_metrics(watch: &JobWatch<'_>, found: Option<&CheckSummary>, now: Instant) -> String {
    let mut all = Metrics::new("nccl_watch");
    if let Some(step) = watch.last_step() {
        all.add_single(
            "step",
            "gauge",
            "Number of the last step that was printed.",
            step,
        );
    }
    all.add_single("steps_total", "counter", "Step lines.", watch.count_steps());
    if let Some((median, p95)) = watch.pace().usual_step_time() {
        let help = "Median time of the last steps, up to 64.";
        all.add_single("step_median_seconds", "gauge", help, median);
        let help = "95th percentile of their times.";
        all.add_single("step_p95_seconds", "gauge", help, p95);
    }
    let name = |op: &[u8]| String::from_utf8_lossy(op).into_owned();
    let calls: Vec<_> = watch.calls().each_op().collect();
    if !calls.is_empty() {
        all.begin_metric("calls_total", "counter", "NCCL calls by operation.");
        for (op, made) in &calls {
            all.add_sample("calls_total", &[("op", &name(op))], made.calls);
        }
        let help = "Bytes of NCCL calls by operation: elements times the size of the datatype.";
        all.begin_metric("call_bytes_total", "counter", help);
        for (op, made) in &calls {
            all.add_sample("call_bytes_total", &[("op", &name(op))], made.bytes);
        }
    }
    let help = "WARN lines of NCCL.";
    all.add_single(
        "warnings_total",
        "counter",
        help,
        watch.warning_counts().sum::<u64>(),
    );
    let help = "Seconds since the last call or step line.";
    let rests = watch.pace().idle_time(now).as_secs_f64();
    all.add_single(
        "seconds_since_last_call",
        "gauge",
        help,
        format!("{rests:.3}"),
    );
    let help = "1 while no call and no step line come for longer than is expected.";
    let stalled = u8::from(watch.pace().is_stalled());
    all.add_single("stalled", "gauge", help, stalled);
    if let Some(found) = found {
        let mut by: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for finding in &found.findings {
            *by.entry((finding.severity.name(), finding.kind.id()))
                .or_default() += 1;
        }
        all.begin_metric("findings", "gauge", "Findings of the last check.");
        for ((severity, id), n) in by {
            let labels = [("severity", severity), ("finding", id)];
            all.add_sample("findings", &labels, n);
        }
    }
    all.finish()
}
