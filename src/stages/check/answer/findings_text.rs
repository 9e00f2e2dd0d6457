//! The findings as text to read: the answer first and last, then errors and warnings with their lines, then a line
//! for each kind of note.

use super::expect::ExpectAnswer;
use super::headline::first_clause;
use super::table::{describe_compared, evidence_place};
use crate::report::escape_for_terminal;
use crate::stages::check::CheckSummary;
use crate::stages::check::finding::{Finding, JobStage, Severity};
use crate::stages::check::limits::MAX_FULL_FINDINGS_OF_A_KIND;
use crate::stages::check::wording::{group_alike, number_and_noun};
use std::io::{self, Write};

/// Which findings are shown.
#[derive(Debug, Clone, Copy, Default)]
pub struct ShownFindings {
    /// All of them, with all their lines.
    pub all: bool,
    /// No notes.
    pub quiet: bool,
    /// The first few.
    pub top: Option<usize>,
}

/// Writes the findings as text; with expectations, the answers.
///
/// # Errors
/// The output cannot be written.
pub fn write_findings_text(
    checked: &CheckSummary,
    expected: &[ExpectAnswer],
    shown: ShownFindings,
    out: &mut dyn Write,
) -> io::Result<()> {
    for answer in expected {
        write_expectation(answer, out)?;
    }
    if !expected.is_empty() {
        writeln!(out)?;
    }
    write_answer(checked, out)?;
    let top = shown.top.unwrap_or(usize::MAX);
    let kept = checked.shown_findings().take(top);
    let kept: Vec<&Finding> = kept
        .filter(|f| !(shown.quiet && f.severity == Severity::Note))
        .collect();
    let groups = group_alike(kept, |finding| (finding.severity, finding.kind));
    for group in &groups {
        write_group(checked, group, shown.all, out)?;
    }
    let of = |severity| checked.count_findings(severity);
    writeln!(
        out,
        "\n{}, {}, {}; {}",
        number_and_noun(of(Severity::Error), "error"),
        number_and_noun(of(Severity::Warning), "warning"),
        number_and_noun(of(Severity::Note), "note"),
        describe_compared(checked),
    )?;
    write_answer(checked, out)
}

fn write_expectation(answer: &ExpectAnswer, out: &mut dyn Write) -> io::Result<()> {
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
    )
}

/// Writes the answer and the next command.
fn write_answer(checked: &CheckSummary, out: &mut dyn Write) -> io::Result<()> {
    let answer = checked.answer();
    writeln!(out, "{}", escape_for_terminal(&answer.sentence, false))?;
    match answer.next {
        Some(next) => writeln!(out, "next: {}", escape_for_terminal(&next, false)),
        None => Ok(()),
    }
}

/// Writes the findings of one kind: errors and warnings with their lines, of notes one line.
fn write_group(
    checked: &CheckSummary,
    group: &[&Finding],
    all: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let is_note = group[0].severity == Severity::Note;
    let full = match (all, is_note) {
        (true, _) => group.len(),
        (false, true) => 0,
        (false, false) => MAX_FULL_FINDINGS_OF_A_KIND,
    };
    for finding in group.iter().take(full) {
        writeln!(out)?;
        write_finding(checked, finding, out)?;
    }
    let rest = &group[full.min(group.len())..];
    let Some(first) = rest.first() else {
        return Ok(());
    };
    let says = escape_for_terminal(first_clause(&first.says), false);
    let head = format!("{}: {says} [{}]", first.severity.name(), first.kind.id());
    match rest.len() {
        1 => writeln!(out, "\n{head}"),
        n => writeln!(out, "\n{head}\n    + {} more like it: --all", n - 1),
    }
}

fn write_finding(checked: &CheckSummary, finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
    let escape = |text: &str| escape_for_terminal(text, false);
    writeln!(
        out,
        "{}: {} [{}]",
        finding.severity.name(),
        escape(&finding.says),
        finding.kind.id()
    )?;
    let stage = finding.about.stage.map(JobStage::describe_stage);
    if let Some(stage) = stage.filter(|stage| !finding.says.contains(stage)) {
        writeln!(out, "    when  {stage}")?;
    }
    for evidence in &finding.evidence {
        let (name, line) = evidence_place(checked, evidence);
        let line = line.map_or(String::new(), |line| format!(":{line}"));
        let text = evidence.text.as_deref().unwrap_or_default();
        let text = escape(&String::from_utf8_lossy(text));
        writeln!(out, "    at    {name}{line}: {text}")?;
    }
    writeln!(
        out,
        "    sure  {}: {}",
        finding.sure.name(),
        escape(&finding.why)
    )?;
    match finding.advice.is_empty() {
        true => Ok(()),
        false => writeln!(out, "    do    {}", escape(&finding.advice)),
    }
}
