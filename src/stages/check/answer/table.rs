//! Findings as text to read and as rows.

use super::coverage::{Answerable, Question, list_questions, rerun_environment, rerun_remarks};
use super::expect::ExpectAnswer;
use crate::output::render::{Grid, TableCell};
use crate::stages::check::CheckSummary;
use crate::stages::check::finding::{Evidence, Finding, Kind, LineSpot, Severity};
use crate::stages::check::wording::number_and_noun;
use std::io::{self, Write};

/// The findings as rows, one each.
pub fn findings_grid(checked: &CheckSummary) -> Grid {
    let columns = [
        "severity",
        "finding",
        "says",
        "host",
        "pid",
        "rank",
        "comm_id",
        "seq",
        "step",
        "sure",
        "why",
        "advice",
        "input",
        "line",
        "text",
        "global_rank",
        "stage",
    ];
    let text = |text: &str| TableCell::from(text.as_bytes().to_vec());
    let row = |finding: &Finding| -> Vec<TableCell<'static>> {
        let about = &finding.about;
        let (input, line, shown) = match finding.evidence.first() {
            Some(evidence) => {
                let (name, line) = evidence_place(checked, evidence);
                let shown = evidence.text.clone().unwrap_or_default();
                (text(name), line.into(), TableCell::from(shown))
            }
            None => (TableCell::Empty, TableCell::Empty, TableCell::Empty),
        };
        vec![
            finding.severity.name().into(),
            finding.kind.id().into(),
            text(&finding.says),
            about
                .host
                .as_ref()
                .map_or(TableCell::Empty, |h| TableCell::from(h.to_vec())),
            about.pid.into(),
            about.rank.map(u64::from).into(),
            about.comm_id.as_deref().map_or(TableCell::Empty, text),
            about.seq.into(),
            about.step.into(),
            finding.sure.name().into(),
            text(&finding.why),
            text(&finding.advice),
            input,
            line,
            shown,
            about.global_rank.map(u64::from).into(),
            about
                .stage
                .map_or(TableCell::Empty, |stage| text(&stage.describe_stage())),
        ]
    };
    Grid {
        columns: columns.map(str::to_owned).to_vec(),
        rows: checked.shown_findings().map(row).collect(),
    }
}

/// Where a piece of evidence is: the input's name and the line from 1.
pub(crate) fn evidence_place<'c>(
    checked: &'c CheckSummary,
    evidence: &Evidence,
) -> (&'c str, Option<u64>) {
    let input = evidence.at.input() as usize;
    let name = checked.inputs.get(input).map_or("", |name| name);
    match evidence.at {
        LineSpot::Line(first) => (name, Some(first.line + 1)),
        LineSpot::Byte { .. } => (name, None),
    }
}

/// Returns the answers to expectations, as rows.
pub fn answers_grid(answers: &[ExpectAnswer]) -> Grid {
    let text = |text: &str| TableCell::from(text.as_bytes().to_vec());
    let row = |answer: &ExpectAnswer| -> Vec<TableCell<'static>> {
        vec![
            text(&answer.expectation),
            answer.found.as_deref().map_or(TableCell::Empty, text),
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
pub fn coverage_grid(checked: &CheckSummary) -> Grid {
    let row = |question: &Question| -> Vec<TableCell<'static>> {
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
        rows: list_questions(&checked.known).iter().map(row).collect(),
    }
}

/// Which calls were compared, which were not, and why.
pub(crate) fn describe_compared(checked: &CheckSummary) -> String {
    let those = match checked.judged.compared {
        0 => {
            let parts = checked.judged.list_parts();
            match parts.is_empty() {
                true => "no calls were compared across ranks".to_owned(),
                false if !checked.judged.records.is_nothing() => {
                    format!("judged: {}", parts.join(", "))
                }
                false => format!(
                    "no calls were compared across ranks; judged: {}",
                    parts.join(", ")
                ),
            }
        }
        n => format!(
            "calls of {} were compared across ranks",
            number_and_noun(n, "communicator")
        ),
    };
    // Where nothing is found, the finding that nothing was judged has it.
    let setting = match checked.known.calls
        || !checked.judged.records.is_nothing()
        || !checked.is_wrong()
        || checked.is_empty()
    {
        true => "",
        false => {
            "; the log has no calls: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL,NET logs them"
        }
    };
    those + &describe_unjudged(checked) + setting
}

/// What was not compared, and why.
fn describe_unjudged(checked: &CheckSummary) -> String {
    // The last calls were judged where a rank stopped.
    let is_stop = |f: &Finding| {
        let stops = [Kind::RankBehind, Kind::RankSilent, Kind::Deadlock];
        f.severity == Severity::Error && stops.contains(&f.kind)
    };
    let is_stopped = checked.findings.iter().any(is_stop);
    let open = checked.unjudged.iter();
    let open = open.filter(|of| !(is_stopped && of.is_of_last_calls));
    let each = open.map(|of| {
        let those = number_and_noun(of.number, "communicator");
        let why = &of.why;
        let were = if of.number == 1 { "was" } else { "were" };
        match of.is_of_last_calls {
            true => format!("; the last calls of {those} were not: {why}"),
            false => format!("; {those} {were} not compared: {why}"),
        }
    });
    each.collect()
}

/// Which of the questions people ask the log answers, and how the next one can answer more.
///
/// # Errors
/// The output cannot be written.
pub fn write_coverage_text(checked: &CheckSummary, out: &mut dyn Write) -> io::Result<()> {
    let questions = list_questions(&checked.known);
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
        rerun_environment()
    )?;
    for remark in rerun_remarks(&checked.known) {
        writeln!(out, "    - {remark}")?;
    }
    Ok(())
}
