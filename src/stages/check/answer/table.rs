//! Findings as text to read and as rows.

use super::coverage::{Answerable, Question, questions, remarks, rerun};
use super::expect::Answer;
use crate::output::render::{Cell, Grid};
use crate::report::printable;
use crate::stages::check::Checked;
use crate::stages::check::finding::{Evidence, Finding, Severity, Spot};
use crate::stages::check::wording::counted;
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

/// Where a piece of evidence is: the input's name and the line from 1.
pub(crate) fn place<'c>(checked: &'c Checked, evidence: &Evidence) -> (&'c str, Option<u64>) {
    let input = evidence.at.input() as usize;
    let name = checked.inputs.get(input).map_or("", |name| name);
    match evidence.at {
        Spot::Line(first) => (name, Some(first.line + 1)),
        Spot::Byte { .. } => (name, None),
    }
}

/// The answers to what is expected, as rows.
pub fn answers(answers: &[Answer]) -> Grid {
    let text = |text: &str| Cell::from(text.as_bytes().to_vec());
    let row = |answer: &Answer| -> Vec<Cell<'static>> {
        vec![
            text(&answer.expectation),
            answer.found.as_deref().map_or(Cell::Empty, text),
            answer.verdict.name().into(),
            text(&answer.why),
        ]
    };
    Grid {
        columns: ["expectation", "found", "verdict", "why"]
            .map(str::to_owned)
            .to_vec(),
        rows: answers.iter().map(row).collect(),
    }
}

/// Which questions the log can answer, as rows.
pub fn coverage(checked: &Checked) -> Grid {
    let row = |question: &Question| -> Vec<Cell<'static>> {
        vec![
            u64::from(question.number).into(),
            question.text.into(),
            question.answerable.name().into(),
            question.by.into(),
            question.missing.into(),
        ]
    };
    Grid {
        columns: ["number", "question", "answerable", "by", "missing"]
            .map(str::to_owned)
            .to_vec(),
        rows: questions(&checked.known).iter().map(row).collect(),
    }
}

/// The findings as text; of what is expected the answers.
///
/// # Errors
/// The output cannot be written.
pub fn text(checked: &Checked, expected: &[Answer], out: &mut dyn Write) -> io::Result<()> {
    for answer in expected {
        let found = answer.found.as_deref().unwrap_or("unknown");
        let why = match &answer.why[..] {
            "" => String::new(),
            why => format!(" ({why})"),
        };
        let verdict = answer.verdict.name();
        writeln!(
            out,
            "{verdict:<12} {:<24} is {found}{why}",
            answer.expectation
        )?;
    }
    if !expected.is_empty() {
        writeln!(out)?;
    }
    for finding in &checked.findings {
        one(checked, finding, out)?;
    }
    let of = |severity| {
        let those = checked.findings.iter().filter(|f| f.severity == severity);
        those.count() as u64
    };
    writeln!(
        out,
        "{}, {}, {}; {}",
        counted(of(Severity::Error), "error"),
        counted(of(Severity::Warning), "warning"),
        counted(of(Severity::Note), "note"),
        compared(checked),
    )
}

/// Which calls were compared, which were not, and why.
pub(crate) fn compared(checked: &Checked) -> String {
    let those = match checked.compared {
        0 => "no calls were compared across ranks".to_owned(),
        n => format!(
            "calls of {} were compared across ranks",
            counted(n, "communicator")
        ),
    };
    those + &unjudged(checked)
}

/// What was not compared, and why.
fn unjudged(checked: &Checked) -> String {
    let each = checked.unjudged.iter().map(|(why, n)| {
        let those = counted(*n, "communicator");
        let were = if *n == 1 { "was" } else { "were" };
        format!("; {those} {were} not compared: {why}")
    });
    each.collect()
}

fn one(checked: &Checked, finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
    let says = printable(&finding.says, false);
    writeln!(out, "{}: {says} [{}]", finding.severity.name(), finding.id)?;
    if let Some(step) = finding.about.step.filter(|_| finding.about.seq.is_some()) {
        writeln!(out, "    step  {step}")?;
    }
    for evidence in &finding.evidence {
        let (name, line) = place(checked, evidence);
        let line = line.map_or(String::new(), |line| format!(":{line}"));
        let shown = evidence.text.as_deref().unwrap_or_default();
        let shown = printable(&String::from_utf8_lossy(shown), false);
        writeln!(out, "    at    {name}{line}: {shown}")?;
    }
    let why = printable(&finding.why, false);
    writeln!(out, "    sure  {}: {why}", finding.sure.name())?;
    if !finding.advice.is_empty() {
        writeln!(out, "    do    {}", printable(&finding.advice, false))?;
    }
    writeln!(out)
}

/// Which of the questions people ask the log answers, and how the next one can answer more.
///
/// # Errors
/// The output cannot be written.
pub fn coverage_text(checked: &Checked, out: &mut dyn Write) -> io::Result<()> {
    let questions = questions(&checked.known);
    let of = |answerable| questions.iter().filter(move |q| q.answerable == answerable);
    writeln!(
        out,
        "\nof the {} questions that users ask most about these logs, this log answers {}, and {} \
         in part:",
        questions.len(),
        of(Answerable::Yes).count(),
        of(Answerable::Partly).count(),
    )?;
    for question in &questions {
        let Question {
            number,
            text,
            answerable,
            by,
            missing,
        } = question;
        let how = match (by.is_empty(), missing.is_empty()) {
            (_, false) => format!(" ({missing})"),
            (false, true) => format!(" ({by})"),
            (true, true) => String::new(),
        };
        writeln!(out, "    {:<6} {number:>2} {text}{how}", answerable.name())?;
    }
    writeln!(
        out,
        "\nfor a log that can answer more, run the job with\n    {}",
        rerun()
    )?;
    for remark in remarks(&checked.known) {
        writeln!(out, "    - {remark}")?;
    }
    Ok(())
}
