//! Findings and answers as other services read them: JUnit's XML (CI servers), the commands of GitHub's
//! workflows, metrics for Prometheus.

use super::expect::{Answer, Verdict};
use super::table::place;
use crate::error::escape::{markup, printable};
use crate::output::metrics::Metrics;
use crate::output::reshape::Label;
use crate::stages::check::Checked;
use crate::stages::check::finding::{Finding, Severity};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A suite with a case for each finding, or for each answer where something is `expected`. Errors and
/// warnings are failures, notes are cases that passed; an answer that the log does not have is an error.
/// Without a finding there is one case that passed: a server takes a suite without cases for a mistake.
pub fn junit(checked: &Checked, expected: Option<&[Answer]>, labels: &[Label]) -> String {
    let mut cases = String::new();
    let (mut all, mut failures, mut errors) = (0_u64, 0_u64, 0_u64);
    match expected {
        Some(answers) => {
            for answer in answers {
                all += 1;
                let found = answer.found.as_deref().unwrap_or("unknown");
                let says = format!("{} is {found}", answer.expectation);
                let kind = match answer.verdict {
                    Verdict::Met => None,
                    Verdict::Violated => Some("failure"),
                    Verdict::Unanswerable => Some("error"),
                };
                failures += u64::from(kind == Some("failure"));
                errors += u64::from(kind == Some("error"));
                let name = ("expect", answer.expectation.as_str());
                let what = (answer.verdict.name(), says.as_str(), answer.why.as_str());
                case(name, kind, what, &mut cases);
            }
        }
        None if checked.findings.is_empty() => {
            all = 1;
            let name = ("findings", "nothing is wrong");
            case(name, None, ("", "", ""), &mut cases);
        }
        None => {
            for finding in &checked.findings {
                all += 1;
                let kind = match finding.severity {
                    Severity::Note => None,
                    Severity::Error | Severity::Warning => Some("failure"),
                };
                failures += u64::from(kind.is_some());
                let name = (finding.id, finding.says.as_str());
                let body = body(checked, finding);
                let what = (finding.severity.name(), finding.says.as_str(), &body[..]);
                case(name, kind, what, &mut cases);
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
            let (name, value) = (markup(&label.name), markup(&label.value));
            let _ = write!(out, "<property name=\"{name}\" value=\"{value}\"/>");
        }
        out.push_str("</properties>\n");
    }
    out + &cases + "</testsuite></testsuites>\n"
}

fn case(
    (class, name): (&str, &str),
    kind: Option<&str>,
    (word, says, more): (&str, &str, &str),
    out: &mut String,
) {
    let (class, name) = (markup(class), markup(name));
    let (says, more) = (markup(says), markup(more));
    let _ = write!(
        out,
        "<testcase classname=\"nccl-check.{class}\" name=\"{name}\">"
    );
    let _ = match kind {
        Some(kind) => write!(
            out,
            "<{kind} type=\"{word}\" message=\"{says}\">{more}</{kind}>"
        ),
        None => write!(out, "<system-out>{more}</system-out>"),
    };
    out.push_str("</testcase>\n");
}

/// What else is known of a finding.
fn body(checked: &Checked, finding: &Finding) -> String {
    let mut text = format!("confidence {}: {}\n", finding.sure.name(), finding.why);
    if !finding.advice.is_empty() {
        let _ = writeln!(text, "{}", finding.advice);
    }
    for evidence in &finding.evidence {
        let (name, line) = place(checked, evidence);
        let line = line.map_or(String::new(), |line| format!(":{line}"));
        let shown = evidence.text.as_deref().unwrap_or_default();
        let _ = writeln!(text, "{name}{line}: {}", String::from_utf8_lossy(shown));
    }
    text
}

/// A command of GitHub's workflows for each finding, at its first line, or for each answer.
pub fn github(checked: &Checked, expected: Option<&[Answer]>) -> String {
    let mut out = String::new();
    for answer in expected.unwrap_or_default() {
        let level = match answer.verdict {
            Verdict::Met => "notice",
            Verdict::Violated | Verdict::Unanswerable => "error",
        };
        let found = answer.found.as_deref().unwrap_or("unknown");
        let says = format!("{} is {found}\n{}", answer.verdict.name(), answer.why);
        let title = property(&answer.expectation);
        let _ = writeln!(out, "::{level} title={title}::{}", data(says.trim_end()));
    }
    let findings = checked.findings.iter().filter(|_| expected.is_none());
    for finding in findings {
        let level = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "notice",
        };
        let _ = write!(out, "::{level} title={}", property(finding.id));
        if let Some(evidence) = finding.evidence.first() {
            let (name, line) = place(checked, evidence);
            let _ = write!(out, ",file={}", property(name));
            if let Some(line) = line {
                let _ = write!(out, ",line={line}");
            }
        }
        let says = format!("{}\n{}", finding.says, finding.advice);
        let _ = writeln!(out, "::{}", data(says.trim_end()));
    }
    out
}

/// A text in a command: it has no line end, and no sign that begins an escape.
fn data(text: &str) -> String {
    let text = printable(text, true);
    text.replace('%', "%25").replace('\n', "%0A")
}

/// The same where a comma and a colon mean something.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// Gauges: findings by severity and kind, how many of each severity, answers, calls compared. `labels` are
/// on each.
///
/// # Errors
/// The name of a label that Prometheus does not take.
pub fn prometheus(
    checked: &Checked,
    expected: Option<&[Answer]>,
    labels: &[Label],
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
        metrics.sample(name, &labels, value);
    };
    let mut by: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for finding in &checked.findings {
        *by.entry((finding.severity.name(), finding.id)).or_default() += 1;
    }
    let mut metrics = Metrics::new("nccl_check");
    metrics.begin("findings", "gauge", "Findings by severity and kind.");
    for ((severity, finding), n) in &by {
        let of = [("severity", *severity), ("finding", *finding)];
        sample(&mut metrics, "findings", &of, *n);
    }
    metrics.begin("severity", "gauge", "Findings of each severity.");
    for severity in [Severity::Error, Severity::Warning, Severity::Note] {
        let those = checked.findings.iter().filter(|f| f.severity == severity);
        let of = [("severity", severity.name())];
        sample(&mut metrics, "severity", &of, those.count() as u64);
    }
    let help = "Communicators whose calls were compared across ranks.";
    metrics.begin("compared_communicators", "gauge", help);
    sample(
        &mut metrics,
        "compared_communicators",
        &[],
        checked.compared,
    );
    if let Some(answers) = expected {
        let help =
            "1 where what is expected is met, 0 where not; none where the log has no answer.";
        metrics.begin("expectation_met", "gauge", help);
        for answer in answers {
            let of = [("expectation", answer.expectation.as_str())];
            match answer.verdict {
                Verdict::Met => sample(&mut metrics, "expectation_met", &of, 1),
                Verdict::Violated => sample(&mut metrics, "expectation_met", &of, 0),
                Verdict::Unanswerable => {}
            }
        }
    }
    Ok(metrics.finish())
}
