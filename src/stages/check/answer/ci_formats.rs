//! Findings and answers as other services read them: JUnit's XML (CI servers), the commands of GitHub's
//! workflows, metrics for Prometheus.

use super::expect::{ExpectAnswer, ExpectVerdict};
use super::table::evidence_place;
use crate::error::escape::{escape_for_terminal, escape_markup};
use crate::output::metrics::Metrics;
use crate::output::reshape::LabelColumn;
use crate::stages::check::CheckSummary;
use crate::stages::check::finding::{Finding, Severity};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A suite with a case for each finding, or for each answer where something is `expected`. Errors and
/// warnings are failures, notes are cases that passed; an answer that the log does not have is an error.
/// Without a finding there is one case that passed: a server takes a suite without cases for a mistake.
pub fn write_junit(
    checked: &CheckSummary,
    expected: Option<&[ExpectAnswer]>,
    labels: &[LabelColumn],
) -> String {
    let mut cases = String::new();
    let (mut all, mut failures, mut errors) = (0_u64, 0_u64, 0_u64);
    match expected {
        Some(answers) => {
            for answer in answers {
                all += 1;
                let found = answer.found.as_deref().unwrap_or("unknown");
                let says = format!("{} is {found}", answer.expectation);
                let kind = match answer.verdict {
                    ExpectVerdict::Met => None,
                    ExpectVerdict::Violated => Some("failure"),
                    ExpectVerdict::Unanswerable => Some("error"),
                };
                failures += u64::from(kind == Some("failure"));
                errors += u64::from(kind == Some("error"));
                let case = JunitCase {
                    class: "expect",
                    name: &answer.expectation,
                    kind,
                    word: answer.verdict.name(),
                    message: &says,
                    body: &answer.why,
                };
                case.write(&mut cases);
            }
        }
        None if checked.findings.is_empty() => {
            all = 1;
            let case = JunitCase {
                class: "findings",
                name: "nothing is wrong",
                ..JunitCase::default()
            };
            case.write(&mut cases);
        }
        None => {
            for finding in checked.shown_findings() {
                all += 1;
                let kind = match finding.severity {
                    Severity::Note => None,
                    Severity::Error | Severity::Warning => Some("failure"),
                };
                failures += u64::from(kind.is_some());
                let case = JunitCase {
                    class: finding.kind.id(),
                    name: &finding.says,
                    kind,
                    word: finding.severity.name(),
                    message: &finding.says,
                    body: &format_failure_body(checked, finding),
                };
                case.write(&mut cases);
            }
        }
    }
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites><testsuite name=\"nccl-check\" tests=\"{all}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"0\">\n"
    );
    if !labels.is_empty() {
        out.push_str("<properties>");
        for label in labels {
            let (name, value) = (escape_markup(&label.name), escape_markup(&label.value));
            let _ = write!(out, "<property name=\"{name}\" value=\"{value}\"/>");
        }
        out.push_str("</properties>\n");
    }
    out + &cases + "</testsuite></testsuites>\n"
}

/// A case of JUnit: an expectation or a finding.
#[derive(Default)]
struct JunitCase<'a> {
    class: &'a str,
    name: &'a str,
    /// `failure` or `error`, if it is one.
    kind: Option<&'a str>,
    word: &'a str,
    message: &'a str,
    body: &'a str,
}

impl JunitCase<'_> {
    fn write(&self, out: &mut String) {
        let [class, name, message, body] =
            [self.class, self.name, self.message, self.body].map(escape_markup);
        let word = self.word;
        let _ = write!(
            out,
            "<testcase classname=\"nccl-check.{class}\" name=\"{name}\">"
        );
        let _ = match self.kind {
            Some(kind) => write!(
                out,
                "<{kind} type=\"{word}\" message=\"{message}\">{body}</{kind}>"
            ),
            None => write!(out, "<system-out>{body}</system-out>"),
        };
        out.push_str("</testcase>\n");
    }
}

/// What else is known of a finding.
fn format_failure_body(checked: &CheckSummary, finding: &Finding) -> String {
    let mut text = format!("confidence {}: {}\n", finding.sure.name(), finding.why);
    if !finding.advice.is_empty() {
        let _ = writeln!(text, "{}", finding.advice);
    }
    for evidence in &finding.evidence {
        let (name, line) = evidence_place(checked, evidence);
        let line = line.map_or(String::new(), |line| format!(":{line}"));
        let shown = evidence.text.as_deref().unwrap_or_default();
        let _ = writeln!(text, "{name}{line}: {}", String::from_utf8_lossy(shown));
    }
    text
}

/// A command of GitHub's workflows for each finding, at its first line, or for each answer.
pub fn write_github(checked: &CheckSummary, expected: Option<&[ExpectAnswer]>) -> String {
    let mut out = String::new();
    for answer in expected.unwrap_or_default() {
        let level = match answer.verdict {
            ExpectVerdict::Met => "notice",
            ExpectVerdict::Violated | ExpectVerdict::Unanswerable => "error",
        };
        let found = answer.found.as_deref().unwrap_or("unknown");
        let says = format!("{} is {found}\n{}", answer.verdict.name(), answer.why);
        let title = escape_github_property(&answer.expectation);
        let _ = writeln!(
            out,
            "::{level} title={title}::{}",
            escape_github_data(says.trim_end())
        );
    }
    let findings = checked.shown_findings().filter(|_| expected.is_none());
    for finding in findings {
        let level = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "notice",
        };
        let _ = write!(
            out,
            "::{level} title={}",
            escape_github_property(finding.kind.id())
        );
        if let Some(evidence) = finding.evidence.first() {
            let (name, line) = evidence_place(checked, evidence);
            let _ = write!(out, ",file={}", escape_github_property(name));
            if let Some(line) = line {
                let _ = write!(out, ",line={line}");
            }
        }
        let says = format!("{}\n{}", finding.says, finding.advice);
        let _ = writeln!(out, "::{}", escape_github_data(says.trim_end()));
    }
    out
}

/// A text in a command: it has no line end, and no sign that begins an escape.
fn escape_github_data(text: &str) -> String {
    let text = escape_for_terminal(text, true);
    text.replace('%', "%25").replace('\n', "%0A")
}

/// Escapes a text where a comma and a colon have a meaning.
fn escape_github_property(text: &str) -> String {
    escape_github_data(text)
        .replace(':', "%3A")
        .replace(',', "%2C")
}

/// Gauges: findings by severity and kind, how many of each severity, answers, calls compared. `labels` are
/// on each.
///
/// # Errors
/// The name of a label that Prometheus does not take.
pub fn write_prometheus(
    checked: &CheckSummary,
    expected: Option<&[ExpectAnswer]>,
    labels: &[LabelColumn],
) -> Result<String, String> {
    for label in labels {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let name = &label.name;
        if name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(is_word) {
            return Err(format!(
                "--label {name}: Prometheus takes letters, digits and _, and a letter first"
            ));
        }
    }
    let sample = |metrics: &mut Metrics, name: &str, more: &[(&str, &str)], value: u64| {
        let own = labels
            .iter()
            .map(|label| (&label.name[..], &label.value[..]));
        let labels: Vec<(&str, &str)> = own.chain(more.iter().copied()).collect();
        metrics.add_sample(name, &labels, value);
    };
    let mut by: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for finding in checked.shown_findings() {
        *by.entry((finding.severity.name(), finding.kind.id()))
            .or_default() += 1;
    }
    let mut metrics = Metrics::new("nccl_check");
    metrics.begin_metric("findings", "gauge", "Findings by severity and kind.");
    for ((severity, finding), n) in &by {
        let of = [("severity", *severity), ("finding", *finding)];
        sample(&mut metrics, "findings", &of, *n);
    }
    metrics.begin_metric("severity", "gauge", "Findings of each severity.");
    for severity in [Severity::Error, Severity::Warning, Severity::Note] {
        let those = checked.shown_findings().filter(|f| f.severity == severity);
        let of = [("severity", severity.name())];
        sample(&mut metrics, "severity", &of, those.count() as u64);
    }
    let help = "Communicators whose calls were compared across ranks.";
    metrics.begin_metric("compared_communicators", "gauge", help);
    sample(
        &mut metrics,
        "compared_communicators",
        &[],
        checked.judged.compared,
    );
    if let Some(answers) = expected {
        let help =
            "1 where what is expected is met, 0 where not; none where the log has no answer.";
        metrics.begin_metric("expectation_met", "gauge", help);
        for answer in answers {
            let of = [("expectation", answer.expectation.as_str())];
            match answer.verdict {
                ExpectVerdict::Met => sample(&mut metrics, "expectation_met", &of, 1),
                ExpectVerdict::Violated => sample(&mut metrics, "expectation_met", &of, 0),
                ExpectVerdict::Unanswerable => {}
            }
        }
    }
    Ok(metrics.finish())
}
