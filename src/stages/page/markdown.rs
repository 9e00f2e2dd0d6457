//! The page for a ticket, as Markdown.

use super::lists::{BUCKETS, by_bytes, by_label, changes};
use super::text::headline;
use super::{Of, Page};
use crate::output::render::cells::rows;
use crate::output::render::units::{grouped, seconds, short_bytes};
use crate::report::printable;
use std::fmt::Write as _;

/// The page.
pub fn page(page: &Page) -> String {
    let mut out = format!("## {}\n", escaped(&headline(page)));
    if !page.job.is_empty() {
        let job = page.job.iter();
        let job: Vec<_> = job
            .map(|(name, value)| format!("{name} **{}**", escaped(value)))
            .collect();
        let _ = write!(out, "\n{}\n", job.join(" · "));
    }
    steps(page, &mut out);
    operations(page, &mut out);
    communicators(page, &mut out);
    findings(page, &mut out);
    changed(page, &mut out);
    out
}

/// A text of a log in Markdown: none of its characters means anything.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in printable(text, false).chars() {
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

fn missing(page: &Page, of: Of, out: &mut String) {
    let _ = writeln!(
        out,
        "\nunknown: {}",
        escaped(page.missing(of).unwrap_or("there are none"))
    );
}

fn steps(page: &Page, out: &mut String) {
    let steps = &page.steps;
    out.push_str("\n### Steps\n");
    let Some((first, last)) = steps.range() else {
        return missing(page, Of::Timing, out);
    };
    let _ = write!(out, "\n{} step lines, {first}..{last}", steps.list.len());
    match &steps.times {
        Some(times) => {
            let _ = write!(
                out,
                "; step time: median {}, p95 {}, longest {}",
                seconds(times.p50),
                seconds(times.p95),
                seconds(times.max)
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

fn operations(page: &Page, out: &mut String) {
    out.push_str("\n### Calls\n");
    let list = by_bytes(page);
    if list.is_empty() {
        return missing(page, Of::Operations, out);
    }
    out.push_str("\n| operation | calls | bytes | share |");
    let _ = writeln!(
        out,
        " {} |",
        BUCKETS.join(" | ").replace('<', "\\<").replace('>', "\\>")
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
            escaped(&one.op),
            grouped(one.calls)
        );
        for bucket in BUCKETS {
            let n = one.sizes.get(bucket).map_or(String::new(), |n| grouped(*n));
            let _ = write!(out, " {n} |");
        }
        out.push('\n');
    }
}

fn communicators(page: &Page, out: &mut String) {
    out.push_str("\n### Communicators\n");
    let list = by_label(page);
    if list.is_empty() {
        return missing(page, Of::Communicators, out);
    }
    out.push_str(
        "\n| label | communicators | ranks of each | calls | bytes |\n|---|---:|---:|---:|---:|\n",
    );
    for ((label, nranks), one) in list {
        let _ = writeln!(
            out,
            "| {} | {} | {nranks} | {} | {} |",
            escaped(&label),
            one.number,
            grouped(one.calls),
            short_bytes(one.bytes as f64)
        );
    }
}

/// Changes that are listed: a ticket is read, not searched.
const CHANGES: usize = 30;

fn changed(page: &Page, out: &mut String) {
    let list = changes(page);
    match page.missing(Of::Changes) {
        None if list.is_empty() => return,
        None => out.push_str("\n### Changes\n\n"),
        Some(why) => {
            let _ = writeln!(out, "\n### Changes\n\n{}", escaped(why));
        }
    }
    for change in list.iter().take(CHANGES) {
        let _ = writeln!(out, "- {}", escaped(change));
    }
    if list.len() > CHANGES {
        let _ = writeln!(
            out,
            "\n{} more: `{}`",
            list.len() - CHANGES,
            Of::Changes.command()
        );
    }
}

fn findings(page: &Page, out: &mut String) {
    out.push_str("\n### Findings\n");
    let Some(compared) = &page.compared else {
        return missing(page, Of::Findings, out);
    };
    out.push('\n');
    for finding in &page.findings {
        let _ = writeln!(
            out,
            "- **{}** {} (`{}`)",
            finding.severity,
            escaped(&finding.says),
            finding.id
        );
        if !finding.advice.is_empty() {
            let _ = writeln!(out, "  - {}", escaped(&finding.advice));
        }
        for (at, line) in &finding.lines {
            let _ = writeln!(out, "  - {}: {}", escaped(at), escaped(line));
        }
    }
    let _ = writeln!(out, "\n{}.", escaped(compared));
    if let Some(grid) = page.grid(Of::Questions) {
        let no = rows(grid)
            .filter(|row| row.text("answerable") == "no")
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
