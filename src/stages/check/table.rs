//! Findings as text to read and as rows.

use super::Checked;
use super::finding::{Evidence, Finding, Severity, Spot};
use crate::render::{Cell, Grid};
use crate::report::printable;
use std::io::{self, Write};

/// The findings as rows, one each.
pub fn grid(checked: &Checked) -> Grid {
    let columns = [
        "severity", "finding", "says", "host", "pid", "rank", "comm_id", "seq", "step", "sure",
        "why", "advice", "input", "line", "text",
    ];
    let text = |text: &str| Cell::from(text.as_bytes().to_vec());
    let row = |finding: &Finding| -> Vec<Cell<'static>> {
        let about = &finding.about;
        let (input, line, shown) = match finding.evidence.first() {
            Some(evidence) => {
                let (name, line) = place(checked, evidence);
                let shown = evidence.text.clone().unwrap_or_default();
                (text(name), line.into(), Cell::from(shown))
            }
            None => (Cell::Empty, Cell::Empty, Cell::Empty),
        };
        vec![
            finding.severity.name().into(),
            finding.id.into(),
            text(&finding.says),
            about
                .host
                .as_ref()
                .map_or(Cell::Empty, |h| Cell::from(h.to_vec())),
            about.pid.into(),
            about.rank.map(u64::from).into(),
            about.comm_id.as_deref().map_or(Cell::Empty, text),
            about.seq.into(),
            about.step.into(),
            finding.sure.name().into(),
            text(&finding.why),
            text(&finding.advice),
            input,
            line,
            shown,
        ]
    };
    Grid {
        columns: columns.map(str::to_owned).to_vec(),
        rows: checked.findings.iter().map(row).collect(),
    }
}

/// Where a piece of evidence stands: the input's name and the line from 1.
fn place<'c>(checked: &'c Checked, evidence: &Evidence) -> (&'c str, Option<u64>) {
    let input = evidence.at.input() as usize;
    let name = checked.inputs.get(input).map_or("", |name| name);
    match evidence.at {
        Spot::Line(first) => (name, Some(first.line + 1)),
        Spot::Byte { .. } => (name, None),
    }
}

/// The findings as text.
///
/// # Errors
/// The output cannot be written.
pub fn text(checked: &Checked, out: &mut dyn Write) -> io::Result<()> {
    for finding in &checked.findings {
        let word = finding.severity.name();
        writeln!(out, "{word}: {} [{}]", finding.says, finding.id)?;
        if let Some(step) = finding.about.step {
            writeln!(out, "    step    {step}")?;
        }
        for evidence in &finding.evidence {
            let (name, line) = place(checked, evidence);
            let line = line.map_or(String::new(), |line| format!(":{line}"));
            let shown = evidence.text.as_deref().unwrap_or_default();
            let shown = printable(&String::from_utf8_lossy(shown), false);
            writeln!(out, "    at      {name}{line}: {shown}")?;
        }
        writeln!(out, "    sure    {}: {}", finding.sure.name(), finding.why)?;
        writeln!(out, "    do      {}", finding.advice)?;
        writeln!(out)?;
    }
    let of = |severity| {
        checked
            .findings
            .iter()
            .filter(|f| f.severity == severity)
            .count()
    };
    let (errors, warnings, notes) = (
        of(Severity::Error),
        of(Severity::Warning),
        of(Severity::Note),
    );
    writeln!(out, "{errors} errors, {warnings} warnings, {notes} notes")
}
