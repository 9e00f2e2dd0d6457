//! The page for a ticket, as Markdown.

use super::digests::{
    SIZE_BUCKETS, communicators_by_label, list_changes, operations_by_bytes, traffic_by_bytes,
};
use super::limits::{MAX_LISTED_ROWS, MAX_MARKDOWN_CHANGES};
use super::{PageFinding, PageSection, ReportPage};
use crate::output::render::cells::iter_rows;
use crate::output::render::units::{group_digits, seconds_text, short_bytes};
use crate::report::escape_for_terminal;
use std::fmt::Write as _;

/// Writes the page.
pub fn render_markdown(page: &ReportPage) -> String {
    let mut out = format!("## {}\n", escape_markdown(&page.headline()));
    write_answer(page, &mut out);
    if !page.job.is_empty() {
        let job: Vec<_> = page
            .named_facts()
            .map(|(name, value)| format!("{name} **{}**", escape_markdown(value)))
            .collect();
        let _ = write!(out, "\n{}\n", job.join(" · "));
    }
    write_steps(page, &mut out);
    write_operations(page, &mut out);
    write_communicators(page, &mut out);
    write_traffic(page, &mut out);
    write_findings(page, &mut out);
    write_caveats(page, &mut out);
    write_changes(page, &mut out);
    write_answer(page, &mut out);
    out
}

/// Writes the answer and the next command: at the page's start, and at its end.
fn write_answer(page: &ReportPage, out: &mut String) {
    let _ = writeln!(out, "\n**{}**", escape_markdown(&page.answer.sentence));
    if let Some(next) = &page.answer.next {
        let _ = writeln!(out, "\nnext: {}", escape_markdown(next));
    }
}

/// Escapes all punctuation that has a meaning in Markdown.
fn escape_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in escape_for_terminal(text, false).chars() {
        if c.is_ascii_punctuation()
            && !matches!(
                c,
                '.' | ',' | ':' | ';' | '/' | '(' | ')' | '=' | '%' | '\'' | '-' | '+' | '?'
            )
        {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn write_missing(page: &ReportPage, of: PageSection, out: &mut String) {
    let _ = writeln!(
        out,
        "\nunknown: {}",
        escape_markdown(page.missing_reason(of).unwrap_or("there are none"))
    );
}

fn write_steps(page: &ReportPage, out: &mut String) {
    let steps = &page.steps;
    out.push_str("\n### Steps\n");
    let Some((first, last)) = steps.step_range() else {
        return write_missing(page, PageSection::Timing, out);
    };
    let _ = write!(out, "\n{} step lines, {first}..{last}", steps.list.len());
    match &steps.times {
        Some(times) => {
            let _ = write!(
                out,
                "; step time: median {}, p95 {}, longest {}",
                seconds_text(times.p50),
                seconds_text(times.p95),
                seconds_text(times.max)
            );
        }
        None => out.push_str("; step time unknown"),
    }
    if let Some(tflops) = &steps.tflops {
        let _ = write!(out, "; median {:.1} TFLOP/s per GPU", tflops.p50);
    }
    let spark = steps.sparkline(60);
    let _ = writeln!(out, "\n\n`{spark}`");
}

fn write_operations(page: &ReportPage, out: &mut String) {
    out.push_str("\n### Calls\n");
    let list = operations_by_bytes(page);
    if list.is_empty() {
        return write_missing(page, PageSection::Operations, out);
    }
    out.push_str("\n| operation | calls | bytes | share |");
    let _ = writeln!(
        out,
        " {} |",
        SIZE_BUCKETS
            .join(" | ")
            .replace('<', "\\<")
            .replace('>', "\\>")
    );
    out.push_str("|---|---:|---:|---:|---:|---:|---:|---:|\n");
    for one in &list {
        let bytes = one
            .bytes
            .map_or("unknown".to_owned(), |n| short_bytes(n as f64));
        let share = one
            .share
            .map_or(String::new(), |s| format!("{:.1} %", s * 100.0));
        let _ = write!(
            out,
            "| {} | {} | {bytes} | {share} |",
            escape_markdown(&one.op),
            group_digits(one.calls)
        );
        for bucket in SIZE_BUCKETS {
            let n = one
                .sizes
                .get(bucket)
                .map_or(String::new(), |n| group_digits(*n));
            let _ = write!(out, " {n} |");
        }
        out.push('\n');
    }
}

fn write_communicators(page: &ReportPage, out: &mut String) {
    out.push_str("\n### Communicators\n");
    let list = communicators_by_label(page);
    if list.is_empty() {
        return write_missing(page, PageSection::Communicators, out);
    }
    out.push_str(
        "\n| label | communicators | ranks of each | calls | bytes |\n|---|---:|---:|---:|---:|\n",
    );
    for ((label, nranks), one) in list {
        let _ = writeln!(
            out,
            "| {} | {} | {nranks} | {} | {} |",
            escape_markdown(&label),
            one.number,
            group_digits(one.calls),
            short_bytes(one.bytes as f64)
        );
    }
}

/// Writes the busiest cells of the matrix, which a short page has of accesses only.
fn write_traffic(page: &ReportPage, out: &mut String) {
    let list = traffic_by_bytes(page);
    if list.is_empty() && page.missing_reason(PageSection::Matrix).is_none() {
        return;
    }
    let _ = writeln!(out, "\n### {}", PageSection::Matrix.title());
    if list.is_empty() {
        return write_missing(page, PageSection::Matrix, out);
    }
    out.push_str("\n| from | to | calls or accesses | bytes |\n|---|---|---:|---:|\n");
    for one in list.iter().take(MAX_LISTED_ROWS) {
        let bytes = one
            .bytes
            .map_or("unknown".to_owned(), |n| short_bytes(n as f64));
        let _ = writeln!(
            out,
            "| {} | {} | {} | {bytes} |",
            escape_markdown(&one.from),
            escape_markdown(&one.to),
            group_digits(one.calls.into()),
        );
    }
    if list.len() > MAX_LISTED_ROWS {
        let more = list.len() - MAX_LISTED_ROWS;
        let _ = writeln!(out, "\n{more} more: `{}`", PageSection::Matrix.command());
    }
}

/// Writes the messages of the stages.
fn write_caveats(page: &ReportPage, out: &mut String) {
    if page.caveats.is_empty() {
        return;
    }
    out.push_str("\n### Warnings and notes about these numbers\n\n");
    for one in page.caveats.iter().take(MAX_MARKDOWN_CHANGES) {
        let _ = writeln!(out, "- {}: {}", one.severity, escape_markdown(&one.text));
    }
    if page.caveats.len() > MAX_MARKDOWN_CHANGES {
        let more = page.caveats.len() - MAX_MARKDOWN_CHANGES;
        let _ = writeln!(out, "\n{more} more: `nccl-report --format html`");
    }
}

fn write_changes(page: &ReportPage, out: &mut String) {
    let list = list_changes(page);
    match page.missing_reason(PageSection::Changes) {
        None if list.is_empty() => return,
        None => out.push_str("\n### Changes\n\n"),
        Some(why) => {
            let _ = writeln!(out, "\n### Changes\n\n{}", escape_markdown(why));
        }
    }
    for change in list.iter().take(MAX_MARKDOWN_CHANGES) {
        let _ = writeln!(out, "- {}", escape_markdown(change));
    }
    if list.len() > MAX_MARKDOWN_CHANGES {
        let _ = writeln!(
            out,
            "\n{} more: `{}`",
            list.len() - MAX_MARKDOWN_CHANGES,
            PageSection::Changes.command()
        );
    }
}

fn write_findings(page: &ReportPage, out: &mut String) {
    out.push_str("\n### Findings\n");
    let Some(compared) = &page.compared else {
        return write_missing(page, PageSection::Findings, out);
    };
    out.push('\n');
    for group in page.finding_groups() {
        // Notes of one kind are nearly equal: only the first is written.
        let is_note = group[0].severity == "note";
        let shown = if is_note { 1 } else { group.len() };
        for finding in group.iter().take(shown) {
            write_finding(finding, out);
        }
        if group.len() > shown {
            let more = group.len() - shown;
            let _ = writeln!(out, "  - and {more} more like it: `nccl-check --all`");
        }
    }
    let _ = writeln!(out, "\n{}.", escape_markdown(compared));
    write_rerun(page, out);
}

fn write_finding(finding: &PageFinding, out: &mut String) {
    let _ = writeln!(
        out,
        "- **{}** {} (`{}`)",
        finding.severity,
        escape_markdown(&finding.says),
        finding.id
    );
    if !finding.advice.is_empty() {
        let _ = writeln!(out, "  - {}", escape_markdown(&finding.advice));
    }
    for (at, line) in &finding.lines {
        let _ = writeln!(
            out,
            "  - {}: {}",
            escape_markdown(at),
            escape_markdown(line)
        );
    }
}

/// Writes the settings for the next run, if this log leaves questions open.
fn write_rerun(page: &ReportPage, out: &mut String) {
    if let Some(grid) = page.grid(PageSection::Questions) {
        let no = iter_rows(grid)
            .filter(|row| row.text_of("answerable") == "no")
            .count();
        if no > 0 {
            let _ = writeln!(
                out,
                "\nThis log cannot answer {no} of {} questions. For the next run set\n\n```sh\nexport {}\n```",
                grid.rows.len(),
                page.rerun
            );
        }
    }
}
