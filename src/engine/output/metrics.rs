//! Metrics as Prometheus reads them (text format 0.0.4).

use std::fmt::{Display, Write};

/// Metrics with a common beginning of their names.
#[derive(Debug)]
pub struct Metrics {
    prefix: &'static str,
    text: String,
}

impl Metrics {
    /// Begins without metrics; all names begin with `prefix`.
    pub fn new(prefix: &'static str) -> Metrics {
        let text = String::new();
        Metrics { prefix, text }
    }

    /// Begins the next metric.
    pub fn begin_metric(&mut self, name: &str, kind: &str, help: &str) {
        let prefix = self.prefix;
        let _ = writeln!(self.text, "# HELP {prefix}_{name} {help}");
        let _ = writeln!(self.text, "# TYPE {prefix}_{name} {kind}");
    }

    /// Adds a value of it.
    pub fn add_sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.text, "{}_{name}", self.prefix);
        for (at, (label, value)) in labels.iter().enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"");
            let value = value.replace('\n', "\\n");
            let before = if at == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{label}=\"{value}\"");
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{end} {value}");
    }

    /// Adds a metric with one value.
    pub fn add_single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.begin_metric(name, kind, help);
        self.add_sample(name, &[], value);
    }

    /// Returns all of them.
    pub fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_labels_are_escaped() {
        let mut metrics = Metrics::new("nccl");
        metrics.add_single("step", "gauge", "A step.", 7);
        metrics.add_sample("x", &[("a", "\"b\\\n"), ("c", "d")], 1.5);
        let expected = "# HELP nccl_step A step.\n# TYPE nccl_step gauge\nnccl_step 7\n\
                        nccl_x{a=\"\\\"b\\\\\\n\",c=\"d\"} 1.5\n";
        assert_eq!(metrics.finish(), expected);
    }
}
