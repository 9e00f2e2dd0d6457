//! The page as one HTML file: plots, findings with their lines, and every table. It needs nothing but
//! itself: its policy forbids loading anything else.
//!
//! | | |
//! |---|---|
//! | `plots` | the plots of the tables |
//! | `tables` | the stages' tables |
//! | `style.css`, `script.js` | light and dark, screen and paper; sorting and saving of tables |

mod plots;
mod tables;

use super::limits::MAX_HTML_ROWS;
use super::text::headline;
use super::{PageFinding, PageSection, ReportPage};
use crate::error::escape::escape_markup as escaped;
use crate::report::{ReportMessage, count_phrase};
use std::fmt::Write as _;

/// Writes the page.
pub fn render_html(page: &ReportPage) -> String {
    let title = escaped(&headline(page));
    let mut out = String::with_capacity(1 << 16);
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
    write_job(page, &mut out);
    write_contents(page, &mut out);
    out.push_str("</header>\n<main>\n");
    write_findings(page, &mut out);
    write_caveats(page, None, &mut out);
    let is_there =
        |of: &PageSection| page.table(*of).is_some() || page.missing_reason(*of).is_some();
    for of in PageSection::ALL.into_iter().filter(is_there) {
        write_section(page, of, &mut out);
    }
    let _ = write!(
        out,
        "</main>\n<footer>nccl-report {}. Every table has the rows of the program that is named beside \
         it.</footer>\n<script>\n{}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
        include_str!("script.js")
    );
    out
}

fn write_job(page: &ReportPage, out: &mut String) {
    if page.job.is_empty() {
        return;
    }
    out.push_str("<dl class=\"job\">");
    for (name, value) in &page.job {
        let _ = write!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", escaped(value));
    }
    out.push_str("</dl>\n");
}

/// Writes links to the sections that have a table.
fn write_contents(page: &ReportPage, out: &mut String) {
    out.push_str("<nav aria-label=\"Parts of the page\"><ul>");
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
    out.push_str("<section aria-labelledby=\"what\"><h2 id=\"what\">What is wrong</h2>\n");
    if page.findings.is_empty() {
        out.push_str("<p>Nothing was found to be wrong.</p>\n");
    }
    for (at, one) in page.findings.iter().enumerate() {
        write_finding(at, one, out);
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

/// Writes a section: its plots and its table, or why it has none, and the messages of its stage.
fn write_section(page: &ReportPage, of: PageSection, out: &mut String) {
    let (key, title, command) = (of.key(), of.title(), of.command());
    let _ = writeln!(
        out,
        "<section aria-labelledby=\"{key}\"><h2 id=\"{key}\">{title} <code>{command}</code></h2>"
    );
    match page.table(of) {
        Some(table) => {
            plots::add_plots(page, of, out);
            tables::write_table(&table.sheet(), of, out);
        }
        None => {
            let why = escaped(page.missing_reason(of).unwrap_or_default());
            let _ = writeln!(out, "<p class=\"note\">None: {why}.</p>");
        }
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
