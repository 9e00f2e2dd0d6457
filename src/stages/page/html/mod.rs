//! The page as one HTML file: plots, findings with their lines, and every table. It needs nothing but
//! itself: its policy forbids loading anything else.
//!
//! | | |
//! |---|---|
//! | `last_calls` | the picture of the ranks' last calls |
//! | `plots` | the plots of the tables |
//! | `tables` | the stages' tables |
//! | `style.css`, `script.js` | light and dark, screen and paper; sorting and saving of tables |

mod last_calls;
mod plots;
mod tables;

use super::limits::MAX_HTML_ROWS;
use super::{PageFinding, PageSection, ReportPage};
use crate::error::escape::escape_markup as escaped;
use crate::error::{Error, Result};
use crate::pool;
use crate::report::{ReportMessage, count_phrase};
use std::fmt::Write as _;
use std::io;

/// A part of the page.
enum PagePart {
    Head,
    Findings,
    LastCalls,
    Caveats,
    Table(PageSection),
    Foot,
}

/// Writes the page; its parts are made on `jobs` threads.
///
/// # Errors
/// `out` cannot be written.
pub fn write_page(page: &ReportPage, jobs: usize, out: &mut dyn io::Write) -> Result<()> {
    let tables = PageSection::ALL.into_iter();
    let tables = tables.filter(|&of| page.table(of).is_some());
    let before = [
        PagePart::Head,
        PagePart::Findings,
        PagePart::LastCalls,
        PagePart::Caveats,
    ];
    let parts = before.into_iter().chain(tables.map(PagePart::Table));
    let write = |part| {
        let mut out = String::new();
        match (part, &page.last_calls) {
            (PagePart::Head, _) => write_head(page, &mut out),
            (PagePart::Findings, _) => write_findings(page, &mut out),
            (PagePart::LastCalls, Some(last)) => last_calls::write_last_calls(last, &mut out),
            (PagePart::LastCalls, None) => {}
            (PagePart::Caveats, _) => write_caveats(page, None, &mut out),
            (PagePart::Table(of), _) => write_section(page, of, jobs, &mut out),
            (PagePart::Foot, _) => write_foot(page, &mut out),
        }
        out
    };
    pool::map_in_order(jobs, parts.chain([PagePart::Foot]), write, |part| {
        out.write_all(part.as_bytes()).map_err(Error::Output)
    })
}

fn write_head(page: &ReportPage, out: &mut String) {
    let title = escaped(&page.headline());
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>\n{}</style>\n</head>\n<body>\n",
        include_str!("style.css")
    );
    let _ = writeln!(out, "<header><h1>{title}</h1>");
    write_answer(page, out);
    write_job(page, out);
    write_contents(page, out);
    out.push_str("</header>\n<main>\n");
}

fn write_foot(page: &ReportPage, out: &mut String) {
    write_missing_sections(page, out);
    out.push_str("</main>\n<footer>");
    write_answer(page, out);
    let _ = write!(
        out,
        "nccl-report {}. Every table has the rows of the program that is named beside \
         it.</footer>\n<script>\n{}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
        include_str!("script.js")
    );
}

/// Writes the answer and the next command.
fn write_answer(page: &ReportPage, out: &mut String) {
    let answer = &page.answer;
    let _ = write!(
        out,
        "<div class=\"answer\"><p>{}</p>",
        escaped(&answer.sentence)
    );
    if let Some(next) = &answer.next {
        let next = escaped(next);
        let _ = match answer.is_command {
            true => write!(out, "<p>next: <code>{next}</code></p>"),
            false => write!(out, "<p>next: {next}</p>"),
        };
    }
    out.push_str("</div>\n");
}

fn write_job(page: &ReportPage, out: &mut String) {
    if page.job.is_empty() {
        return;
    }
    out.push_str("<dl class=\"job\">");
    for (name, value) in page.named_facts() {
        let _ = write!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", escaped(value));
    }
    out.push_str("</dl>\n");
}

/// Writes links to the sections that have a table.
fn write_contents(page: &ReportPage, out: &mut String) {
    out.push_str("<nav aria-label=\"Parts of the page\"><ul>");
    if page.last_calls.is_some() {
        out.push_str("<li><a href=\"#last_calls\">Last calls of the ranks</a></li>");
    }
    for of in PageSection::ALL
        .into_iter()
        .filter(|&of| page.table(of).is_some())
    {
        let _ = write!(out, "<li><a href=\"#{}\">{}</a></li>", of.key(), of.title());
    }
    out.push_str("</ul></nav>\n");
}

fn write_findings(page: &ReportPage, out: &mut String) {
    let Some(compared) = &page.compared else {
        return;
    };
    let is_wrong = page
        .findings
        .iter()
        .any(|finding| finding.severity != "note");
    let title = if is_wrong {
        "What is wrong"
    } else {
        "Findings"
    };
    let _ = writeln!(
        out,
        "<section aria-labelledby=\"what\"><h2 id=\"what\">{title}</h2>"
    );
    if page.findings.is_empty() {
        out.push_str("<p>There is no finding.</p>\n");
    }
    let mut at = 0;
    for group in page.finding_groups() {
        // Notes of one kind are nearly equal: all but the first are folded.
        let open = if group[0].severity == "note" {
            1
        } else {
            group.len()
        };
        for (number, one) in group.iter().enumerate() {
            if number == open {
                let more = group.len() - open;
                let _ = write!(out, "<details><summary>{more} more like it</summary>");
            }
            write_finding(at, one, out);
            at += 1;
        }
        if group.len() > open {
            out.push_str("</details>\n");
        }
    }
    let _ = writeln!(
        out,
        "<p class=\"note\">{}.</p></section>",
        escaped(compared)
    );
}

/// Writes a finding with its lines folded.
fn write_finding(at: usize, one: &PageFinding, out: &mut String) {
    let PageFinding { severity, id, .. } = one;
    let _ = write!(
        out,
        "<article class=\"finding {severity}\" id=\"finding-{at}\"><p><strong>{severity}</strong> {} \
         <code>{id}</code></p>",
        escaped(&one.says)
    );
    if !one.advice.is_empty() {
        let _ = write!(out, "<p class=\"advice\">{}</p>", escaped(&one.advice));
    }
    let _ = write!(
        out,
        "<p class=\"note\">confidence {}</p>",
        escaped(&one.sure)
    );
    if !one.lines.is_empty() {
        let n = count_phrase(one.lines.len() as u64, "line");
        let _ = write!(out, "<details><summary>{n} of the log</summary><dl>");
        for (place, line) in &one.lines {
            let _ = write!(
                out,
                "<dt>{}</dt><dd><code>{}</code></dd>",
                escaped(place),
                escaped(line)
            );
        }
        out.push_str("</dl></details>");
    }
    out.push_str("</article>\n");
}

/// Writes the sections without a table, and why, folded, with the messages of their stages.
fn write_missing_sections(page: &ReportPage, out: &mut String) {
    let missing = |of: PageSection| {
        let why = page.missing_reason(of).filter(|_| page.table(of).is_none());
        why.map(|why| (of, why))
    };
    let missing: Vec<_> = PageSection::ALL.into_iter().filter_map(missing).collect();
    if missing.is_empty() {
        return;
    }
    let n = count_phrase(missing.len() as u64, "table");
    let _ = write!(
        out,
        "<section aria-label=\"Tables that these inputs do not give\"><details><summary>{n} that these inputs do \
         not give</summary><ul>"
    );
    for (of, why) in missing {
        let _ = write!(out, "<li>{}: {}", of.title(), escaped(why));
        write_caveats(page, Some(of), out);
        out.push_str("</li>");
    }
    out.push_str("</ul></details></section>\n");
}

/// Writes a section: its plots and its table, and the messages of its stage.
fn write_section(page: &ReportPage, of: PageSection, jobs: usize, out: &mut String) {
    let (key, title, command) = (of.key(), of.title(), of.command());
    let _ = writeln!(
        out,
        "<section aria-labelledby=\"{key}\"><h2 id=\"{key}\">{title} <code>{command}</code></h2>"
    );
    if let Some(table) = page.table(of) {
        plots::add_plots(page, of, out);
        // What a log without calls has is its network.
        let is_open = of == PageSection::Net && page.table(PageSection::Operations).is_none();
        tables::write_table(&table.sheet(), of, is_open, jobs, out);
    }
    write_caveats(page, Some(of), out);
    if of == PageSection::Questions {
        let _ = writeln!(
            out,
            "<p>For a log that can answer more, set for the next run:</p><pre>export {}</pre>",
            escaped(&page.rerun)
        );
    }
    out.push_str("</section>\n");
}

/// Writes the messages of a section's stage, or those about the inputs: warnings first, notes folded.
fn write_caveats(page: &ReportPage, of: Option<PageSection>, out: &mut String) {
    let (notes, warnings): (Vec<&ReportMessage>, Vec<&ReportMessage>) =
        page.caveats_of(of).partition(|one| one.severity == "note");
    for one in warnings.iter().take(MAX_HTML_ROWS) {
        let (severity, text) = (one.severity, escaped(&one.text));
        let _ = writeln!(
            out,
            "<p class=\"note\"><strong>{severity}</strong> {text}.</p>"
        );
    }
    if warnings.len() > MAX_HTML_ROWS {
        let more = count_phrase((warnings.len() - MAX_HTML_ROWS) as u64, "more warning");
        let _ = writeln!(out, "<p class=\"note\">... {more}</p>");
    }
    if notes.is_empty() {
        return;
    }
    let n = count_phrase(notes.len() as u64, "note");
    let _ = write!(out, "<details><summary>{n} on these numbers</summary><ul>");
    for one in notes.iter().take(MAX_HTML_ROWS) {
        let _ = write!(out, "<li>{}</li>", escaped(&one.text));
    }
    out.push_str("</ul></details>\n");
}
