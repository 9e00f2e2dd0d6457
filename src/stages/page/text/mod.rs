//! The page for a terminal: at most 80 columns, about 40 lines.

mod page_lines;

use super::digests::{
    SIZE_BUCKETS, communicators_by_label, list_changes, operations_by_bytes, traffic_by_bytes,
};
use super::limits::{MAX_LISTED_FINDINGS, MAX_LISTED_ROWS, MAX_TEXT_CHANGES};
use super::series::StepOutlier;
use super::{PageSection, ReportPage};
use crate::output::render::cells::iter_rows;
use crate::output::render::units::{block_bar, group_digits, seconds_text, short_bytes};
use crate::report::{count_phrase, escape_for_terminal};
use crate::stages::check::finding::Kind;
use page_lines::{PageLines, cut_to_width, write_wrapped};
use std::fmt::Write as _;

pub use super::limits::PAGE_WIDTH_CHARS;

/// Writes the page; `is_quiet` without notes.
pub fn render_text(page: &ReportPage, width: usize, is_quiet: bool) -> String {
    let mut out = PageLines::new(width);
    write_answer(page, &mut out);
    out.push(fit_headline(page, width));
    out.push(String::new());
    write_job(page, &mut out);
    write_steps(page, &mut out);
    write_operations(page, &mut out);
    write_communicators(page, &mut out);
    write_timeline(page, &mut out);
    write_traffic(page, &mut out);
    write_findings(page, is_quiet, &mut out);
    write_warnings(page, &mut out);
    write_changes(page, &mut out);
    write_unknown(page, &mut out);
    write_answer(page, &mut out);
    let lines = out
        .lines
        .iter()
        .map(|line| cut_to_width(line, width) + "\n");
    lines.collect()
}

/// Writes the answer and the next command: at the page's start, and at its end, where a terminal stands.
fn write_answer(page: &ReportPage, out: &mut PageLines) {
    write_wrapped("", &page.answer.sentence, usize::MAX, out);
    if let Some(next) = &page.answer.next {
        write_wrapped("next: ", next, usize::MAX, out);
    }
    out.push(String::new());
}

/// Fits the headline into `width` characters: of a long name it keeps the end.
fn fit_headline(page: &ReportPage, width: usize) -> String {
    let (inputs, found) = page.describe_inputs();
    let (inputs, free) = (
        escape_for_terminal(&inputs, false),
        width.saturating_sub(found.len() + 2),
    );
    let more = inputs.chars().count().saturating_sub(free);
    match more {
        0 => format!("{inputs}: {found}"),
        _ => format!(
            "…{}: {found}",
            inputs.chars().skip(more + 1).collect::<String>()
        ),
    }
}

fn write_heading(title: &str, out: &mut PageLines) {
    out.push(title.to_uppercase());
}

/// Writes why a section has no rows.
fn write_unknown_section(page: &ReportPage, of: PageSection, out: &mut PageLines) {
    let why = page.missing_reason(of).unwrap_or("there are none");
    out.push(format!("  unknown: {why}"));
    out.push(String::new());
}

fn write_job(page: &ReportPage, out: &mut PageLines) {
    if page.job.is_empty() {
        return;
    }
    write_heading("Job", out);
    let mut line = String::new();
    for (name, value) in page.named_facts() {
        let next = format!("{name} {value}");
        let fits = line.chars().count() + next.chars().count() + 4 < out.width;
        if !line.is_empty() && !fits {
            out.push(std::mem::take(&mut line));
        }
        let gap = if line.is_empty() { "  " } else { "   " };
        let _ = write!(line, "{gap}{next}");
    }
    out.push(line);
    out.push(String::new());
}

fn write_steps(page: &ReportPage, out: &mut PageLines) {
    let steps = &page.steps;
    let Some((first, last)) = steps.step_range() else {
        write_heading("Steps", out);
        return write_unknown_section(page, PageSection::Timing, out);
    };
    let n = count_phrase(steps.list.len() as u64, "line");
    write_heading(&format!("Steps {first} to {last}, {n}"), out);
    match &steps.times {
        Some(times) => out.push(format!(
            "  step time  median {}, p95 {}, longest {}",
            seconds_text(times.p50),
            seconds_text(times.p95),
            seconds_text(times.max),
        )),
        None => out.push("  step time  unknown: no line prints it".to_owned()),
    }
    if let Some(tflops) = &steps.tflops {
        out.push(format!(
            "  TFLOP/s    median {:.1} per GPU, lowest {:.1}",
            tflops.p50, tflops.min
        ));
    }
    let spark = steps.sparkline(out.width - 4);
    if !spark.is_empty() {
        out.push(format!("  {spark}"));
    }
    let outliers = steps.find_outliers();
    if !outliers.is_empty() {
        let of = |o: &StepOutlier| format!("{} ({})", o.step, seconds_text(o.time_s));
        let shown: Vec<_> = outliers.iter().take(3).map(of).collect();
        let more = match outliers.len().saturating_sub(3) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        out.push(format!("  long steps {}{more}", shown.join(", ")));
    }
    out.push(String::new());
}

/// Formats a share; one above 0 is never `0.0%`.
fn format_percent(share: f64) -> String {
    match share {
        _ if share > 0.0 && share < 0.0005 => "<0.1%".to_owned(),
        _ => format!("{:.1}%", share * 100.0),
    }
}

fn write_operations(page: &ReportPage, out: &mut PageLines) {
    write_heading(
        "Calls, bytes over their ranks, and percent of calls by size",
        out,
    );
    let changes = Some(PageSection::Changes.key());
    let of_filter = page.caveats.iter().filter(|one| one.is_of_filter);
    for one in of_filter.filter(|one| one.stage != changes) {
        write_wrapped("  ", &one.text, 2, out);
    }
    let list = operations_by_bytes(page);
    if list.is_empty() {
        return write_unknown_section(page, PageSection::Operations, out);
    }
    out.push(format!(
        "  {:<13} {:>11} {:>10} {:>6} {:<9} {:>5} {:>5} {:>5} {:>5}",
        "operation", "calls", "bytes", "share", "", "<64K", "<1M", "<16M", ">=16M"
    ));
    for one in list.iter().take(MAX_LISTED_ROWS) {
        let share = one.share.map_or(String::new(), format_percent);
        let sizes: Vec<String> = SIZE_BUCKETS
            .iter()
            .map(|bucket| match one.sizes.get(*bucket) {
                Some(&n) if one.calls > 0 => {
                    format!("{:.0}%", n as f64 / one.calls as f64 * 100.0)
                }
                _ => String::new(),
            })
            .collect();
        out.push(format!(
            "  {:<13} {:>11} {:>10} {share:>6} {:<9} {:>5} {:>5} {:>5} {:>5}",
            cut_to_width(&one.op, 13),
            group_digits(one.calls),
            one.bytes
                .map_or("unknown".to_owned(), |n| short_bytes(n as f64)),
            block_bar(one.share.unwrap_or(0.0), 8),
            sizes[0],
            sizes[1],
            sizes[2],
            sizes[3],
        ));
    }
    write_left_out(
        list.len(),
        MAX_LISTED_ROWS,
        "operation",
        PageSection::Operations,
        out,
    );
    out.push(String::new());
}

/// Writes how many entries of a list are left out.
fn write_left_out(all: usize, shown: usize, thing: &str, of: PageSection, out: &mut PageLines) {
    if all > shown {
        let rest = count_phrase((all - shown) as u64, &format!("more {thing}"));
        out.push(format!("  ... {rest}: {}", of.command()));
    }
}

fn write_communicators(page: &ReportPage, out: &mut PageLines) {
    // The filter keeps rows of the tables of calls only.
    let is_filtered = page.caveats.iter().any(|one| one.is_of_filter);
    let title = if is_filtered {
        "Communicators, with all calls"
    } else {
        "Communicators"
    };
    write_heading(title, out);
    let list = communicators_by_label(page);
    if list.is_empty() {
        return write_unknown_section(page, PageSection::Communicators, out);
    }
    for ((label, nranks), one) in list.iter().take(MAX_LISTED_ROWS) {
        let nranks = if nranks.is_empty() { "?" } else { nranks };
        out.push(format!(
            "  {label:<22} {:>5} of {nranks:>4} ranks {:>13} calls {:>11}",
            one.number,
            group_digits(one.calls),
            short_bytes(one.bytes as f64),
        ));
    }
    write_left_out(
        list.len(),
        MAX_LISTED_ROWS,
        "kind",
        PageSection::Communicators,
        out,
    );
    out.push(String::new());
}

fn write_timeline(page: &ReportPage, out: &mut PageLines) {
    let (overlap, durations) = (
        page.grid(PageSection::Overlap),
        page.grid(PageSection::Durations),
    );
    if overlap.is_none() && durations.is_none() {
        return;
    }
    write_heading("Time on the GPU", out);
    let devices: Vec<_> = overlap.into_iter().flat_map(iter_rows).collect();
    // Of several devices the last row is their sum.
    if let Some(row) = devices.last() {
        let share = |column| {
            let share = row.number_of(column);
            share.map_or("unknown".to_owned(), |s| format!("{:.1} %", s * 100.0))
        };
        out.push(format!(
            "  computing {}, communicating {}, communicating alone {} of the time",
            share("compute"),
            share("comm"),
            share("exposed_comm"),
        ));
    }
    for row in durations
        .into_iter()
        .flat_map(iter_rows)
        .take(MAX_LISTED_ROWS)
    {
        let us = |column| {
            let us = row.number_of(column);
            us.map_or("unknown".to_owned(), |us| seconds_text(us / 1e6))
        };
        let busbw = row.number_of("busbw_gbs");
        let busbw = busbw.map_or(String::new(), |gbs| format!(", busbw {gbs:.1} GB/s"));
        out.push(format!(
            "  {:<13} median {}, longest {}{busbw}",
            cut_to_width(&row.text_of("op"), 13),
            us("p50_us"),
            us("max_us")
        ));
    }
    out.push(String::new());
}

/// Writes the busiest cells of the matrix, which a short page has of accesses only.
fn write_traffic(page: &ReportPage, out: &mut PageLines) {
    if page.missing_reason(PageSection::Matrix).is_some() {
        write_heading(PageSection::Matrix.title(), out);
        return write_unknown_section(page, PageSection::Matrix, out);
    }
    let list = traffic_by_bytes(page);
    if list.is_empty() {
        return;
    }
    write_heading(PageSection::Matrix.title(), out);
    for one in list.iter().take(MAX_LISTED_ROWS) {
        out.push(format!(
            "  {:>11} of {:<11} {} to {}",
            group_digits(one.calls.into()),
            one.bytes
                .map_or("unknown".to_owned(), |n| short_bytes(n as f64)),
            one.from,
            one.to,
        ));
    }
    write_left_out(
        list.len(),
        MAX_LISTED_ROWS,
        "pair",
        PageSection::Matrix,
        out,
    );
    out.push(String::new());
}

fn write_findings(page: &ReportPage, is_quiet: bool, out: &mut PageLines) {
    write_heading("Findings", out);
    match &page.compared {
        None => out.push(format!(
            "  {}",
            page.missing_reason(PageSection::Findings)
                .unwrap_or_default()
        )),
        Some(compared) if page.findings.is_empty() => {
            let none = format!("{}; {compared}", page.verdict);
            write_wrapped("  ", &none, 2, out);
        }
        Some(_) => {
            let mut groups = page.finding_groups();
            groups.retain(|group| !is_quiet || group[0].severity != "note");
            for (at, group) in groups.iter().take(MAX_LISTED_FINDINGS).enumerate() {
                let finding = group[0];
                // Only the first errors and warnings get several lines.
                // All numbers of the page are of several jobs then.
                let is_basis = finding.id == Kind::SeveralJobs.id();
                let most = if is_basis || at < 3 && finding.severity != "note" {
                    4
                } else {
                    1
                };
                let begin = format!("  {:<8} ", finding.severity);
                write_wrapped(&begin, &finding.says, most, out);
                if group.len() > 1 {
                    let more = group.len() - 1;
                    out.push(format!(
                        "           + {more} more like it: nccl-check --all"
                    ));
                }
            }
            write_left_out(
                groups.len(),
                MAX_LISTED_FINDINGS,
                "finding",
                PageSection::Findings,
                out,
            );
        }
    }
    out.push(String::new());
}

/// Writes the warnings of the stages: an HTML or JSON page has their notes too.
fn write_warnings(page: &ReportPage, out: &mut PageLines) {
    let all: Vec<&str> = page.warnings().map(|one| &*one.text).collect();
    if all.is_empty() {
        return;
    }
    write_heading("Warnings about these numbers", out);
    for text in all.iter().take(MAX_LISTED_FINDINGS) {
        write_wrapped("  ", text, 2, out);
    }
    if all.len() > MAX_LISTED_FINDINGS {
        let rest = count_phrase((all.len() - MAX_LISTED_FINDINGS) as u64, "more warning");
        out.push(format!("  ... {rest}: --format html"));
    }
    out.push(String::new());
}

/// Writes the changes from the other run to this one.
fn write_changes(page: &ReportPage, out: &mut PageLines) {
    if page.grid(PageSection::Changes).is_none()
        && page.missing_reason(PageSection::Changes).is_none()
    {
        return;
    }
    write_heading("Changes", out);
    let list = list_changes(page);
    if let Some(why) = page.missing_reason(PageSection::Changes) {
        out.push(format!("  {why}"));
    }
    for change in list.iter().take(MAX_TEXT_CHANGES) {
        out.push(format!("  {change}"));
    }
    write_left_out(
        list.len(),
        MAX_TEXT_CHANGES,
        "change",
        PageSection::Changes,
        out,
    );
    out.push(String::new());
}

fn write_unknown(page: &ReportPage, out: &mut PageLines) {
    let Some(grid) = page.grid(PageSection::Questions) else {
        return;
    };
    let no: Vec<_> = iter_rows(grid)
        .filter(|row| row.text_of("answerable") == "no")
        .collect();
    if no.is_empty() {
        return;
    }
    write_heading("Questions that this log does not answer", out);
    for row in no.iter().take(3) {
        out.push(format!("  {}", row.text_of("question")));
    }
    write_left_out(no.len(), 3, "question", PageSection::Questions, out);
    out.push("  to get more from the next run, set:".to_owned());
    // Users copy this, so it is never cut.
    let mut line = "   ".to_owned();
    for word in page.rerun.split(' ') {
        if line.chars().count() + word.chars().count() + 3 > out.width && line.trim() != "" {
            out.push(line + " \\");
            line = "   ".to_owned();
        }
        line += " ";
        line += word;
    }
    out.push(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_have_units() {
        let of = [0.0, 1023.0, 1536.0, 12.8 * (1 << 30) as f64, 2e20];
        let of = of.map(short_bytes);
        assert_eq!(of, ["0 B", "1023 B", "1.50 KiB", "12.8 GiB", "173 EiB"]);
        let of = [123.45, 1.2345, 0.0012, 0.000_001_5].map(seconds_text);
        assert_eq!(of, ["123.5 s", "1.234 s", "1.20 ms", "1.50 us"]);
    }

    #[test]
    fn a_finding_is_wrapped_and_then_cut() {
        let of = |most| {
            let mut out = PageLines::new(PAGE_WIDTH_CHARS);
            write_wrapped("  error    ", &"word ".repeat(40), most, &mut out);
            out.lines
        };
        let one = of(1);
        assert_eq!(one.len(), 1);
        assert!(
            cut_to_width(&one[0], PAGE_WIDTH_CHARS).ends_with('…')
                && one[0].starts_with("  error    word word")
        );
        let four = of(4);
        assert_eq!(four.len(), 3, "{four:?}");
        assert!(
            four.iter()
                .all(|line| line.trim_end().chars().count() <= PAGE_WIDTH_CHARS)
        );
        assert!(four[1].starts_with("           word"));
        assert_eq!(four.join(" ").matches("word").count(), 40);
    }

    #[test]
    fn a_long_line_is_cut_and_shows_it() {
        assert_eq!(cut_to_width("a\u{1b}[31mb   ", 20), "a\\u{1b}[31mb");
        assert_eq!(cut_to_width("abcdef", 4), "abc…");
    }
}
