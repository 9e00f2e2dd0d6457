//! The page for a terminal: at most 80 columns, about 40 lines.

use super::series::Outlier;
use super::{Of, Page};
use crate::output::render::cells::{Row, rows};
use crate::output::render::units::{bar, grouped, seconds, short_bytes};
use crate::report::{counted, printable};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How wide the page is.
pub const WIDTH: usize = 80;
/// How many operations it has, and how many labels of communicators.
const MOST: usize = 5;
/// How many findings.
const FINDINGS: usize = 8;

/// The page.
pub fn page(page: &Page, width: usize) -> String {
    let mut out = Lines::new(width);
    out.push(headline(page));
    out.push(String::new());
    job(page, &mut out);
    steps(page, &mut out);
    operations(page, &mut out);
    communicators(page, &mut out);
    timeline(page, &mut out);
    findings(page, &mut out);
    changed(page, &mut out);
    unknown(page, &mut out);
    let lines = out.lines.iter().map(|line| cut(line, width) + "\n");
    lines.collect()
}

/// The lines of a page.
struct Lines {
    width: usize,
    lines: Vec<String>,
}

impl Lines {
    fn new(width: usize) -> Lines {
        let lines = Vec::new();
        Lines { width, lines }
    }

    fn push(&mut self, line: String) {
        self.lines.push(line);
    }
}

/// A line that fits: what is too much is cut, and shown to be.
pub(super) fn cut(line: &str, width: usize) -> String {
    let line = printable(line, false);
    let line = line.trim_end();
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let mut kept: String = line.chars().take(width.saturating_sub(1)).collect();
    kept.push('…');
    kept
}

/// What the page is about, in a line.
pub(super) fn headline(page: &Page) -> String {
    let inputs = match &page.inputs[..] {
        [] => "no input".to_owned(),
        [one] => one.clone(),
        [first, rest @ ..] => format!("{first} and {}", counted(rest.len() as u64, "other input")),
    };
    let of = |severity, thing| match page.count(severity) {
        0 => None,
        n => Some(counted(n as u64, thing)),
    };
    let found: Vec<_> = [of("error", "error"), of("warning", "warning")]
        .into_iter()
        .flatten()
        .collect();
    let found = match (page.compared.is_some(), found.is_empty()) {
        (false, _) => "not checked".to_owned(),
        (true, true) => "nothing was found to be wrong".to_owned(),
        (true, false) => found.join(", "),
    };
    format!("{inputs}: {found}")
}

fn head(title: &str, out: &mut Lines) {
    out.push(title.to_uppercase());
}

fn job(page: &Page, out: &mut Lines) {
    if page.job.is_empty() {
        return;
    }
    head("Job", out);
    let mut line = String::new();
    for (name, value) in &page.job {
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

fn steps(page: &Page, out: &mut Lines) {
    let steps = &page.steps;
    let Some((first, last)) = steps.range() else {
        head("Steps", out);
        let why = page.missing(Of::Timing).unwrap_or("there are none");
        out.push(format!("  unknown: {why}"));
        out.push(String::new());
        return;
    };
    let n = counted(steps.list.len() as u64, "line");
    head(&format!("Steps {first} to {last}, {n}"), out);
    match &steps.times {
        Some(times) => out.push(format!(
            "  step time  median {}, p95 {}, longest {}",
            seconds(times.p50),
            seconds(times.p95),
            seconds(times.max),
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
    let outliers = steps.outliers();
    if !outliers.is_empty() {
        let of = |o: &Outlier| format!("{} ({})", o.step, seconds(o.time_s));
        let shown: Vec<_> = outliers.iter().take(3).map(of).collect();
        let more = match outliers.len().saturating_sub(3) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        out.push(format!("  long steps {}{more}", shown.join(", ")));
    }
    out.push(String::new());
}

/// The operations with the most bytes: those of nccl-ops, and their sizes of nccl-hist.
pub(super) struct Operation {
    pub(super) op: String,
    pub(super) calls: u128,
    /// Unknown where those of some calls are.
    pub(super) bytes: Option<u128>,
    /// Of all operations.
    pub(super) share: Option<f64>,
    /// Calls by bucket, as nccl-hist names them.
    pub(super) sizes: BTreeMap<String, u128>,
}

/// All operations, those with the most bytes first.
pub(super) fn by_bytes(page: &Page) -> Vec<Operation> {
    let Some(grid) = page.grid(Of::Operations) else {
        return Vec::new();
    };
    let bytes = |row: Row<'_>| row.whole("total_bytes");
    let all: f64 = rows(grid).filter_map(bytes).map(|n| n as f64).sum();
    let mut list: Vec<Operation> = rows(grid)
        .map(|row| {
            let op = row.text("op");
            let sizes = page.grid(Of::Sizes).into_iter().flat_map(rows);
            let sizes = sizes.filter(|size| size.text("op") == op);
            let of_size = |size: Row<'_>| Some((size.text("bucket"), size.whole("calls")?));
            Operation {
                calls: row.whole("calls").unwrap_or(0),
                bytes: bytes(row),
                share: bytes(row).filter(|_| all > 0.0).map(|n| n as f64 / all),
                sizes: sizes.filter_map(of_size).collect(),
                op,
            }
        })
        .collect();
    list.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.op.cmp(&b.op)));
    list
}

/// The buckets of nccl-hist.
pub(super) const BUCKETS: [&str; 4] = ["<64KB", "64KB-1MB", "1MB-16MB", ">=16MB"];

/// A share that is not 0 does not look like it.
fn percent(share: f64) -> String {
    match share {
        _ if share > 0.0 && share < 0.0005 => "<0.1%".to_owned(),
        _ => format!("{:.1}%", share * 100.0),
    }
}

fn operations(page: &Page, out: &mut Lines) {
    head(
        "Calls, bytes over all ranks, and percent of calls by size",
        out,
    );
    let list = by_bytes(page);
    if list.is_empty() {
        let why = page.missing(Of::Operations).unwrap_or("there are none");
        out.push(format!("  unknown: {why}"));
        out.push(String::new());
        return;
    }
    out.push(format!(
        "  {:<13} {:>11} {:>10} {:>6} {:<9} {:>5} {:>5} {:>5} {:>5}",
        "operation", "calls", "bytes", "share", "", "<64K", "<1M", "<16M", ">=16M"
    ));
    for one in list.iter().take(MOST) {
        let share = one.share.map_or(String::new(), percent);
        let sizes: Vec<String> = BUCKETS
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
            cut(&one.op, 13),
            grouped(one.calls),
            one.bytes
                .map_or("unknown".to_owned(), |n| short_bytes(n as f64)),
            bar(one.share.unwrap_or(0.0), 8),
            sizes[0],
            sizes[1],
            sizes[2],
            sizes[3],
        ));
    }
    more(list.len(), MOST, "operation", Of::Operations, out);
    out.push(String::new());
}

/// Says of a list how much of it is left out.
fn more(all: usize, shown: usize, thing: &str, of: Of, out: &mut Lines) {
    if all > shown {
        let rest = counted((all - shown) as u64, &format!("more {thing}"));
        out.push(format!("  ... {rest}: {}", of.command()));
    }
}

/// Communicators of one label and size.
#[derive(Debug, Default)]
pub(super) struct Alike {
    pub(super) number: u64,
    pub(super) calls: u128,
    pub(super) bytes: u128,
}

/// Communicators by label and size, those with the most bytes first.
pub(super) fn by_label(page: &Page) -> Vec<((String, String), Alike)> {
    let mut all: BTreeMap<(String, String), Alike> = BTreeMap::new();
    for row in page.grid(Of::Communicators).into_iter().flat_map(rows) {
        let one = all
            .entry((row.text("label"), row.text("nranks")))
            .or_default();
        one.number += 1;
        one.calls = one.calls.saturating_add(row.whole("calls").unwrap_or(0));
        one.bytes = one
            .bytes
            .saturating_add(row.whole("total_bytes").unwrap_or(0));
    }
    let mut list: Vec<_> = all.into_iter().collect();
    list.sort_by(|a, b| b.1.bytes.cmp(&a.1.bytes).then_with(|| a.0.cmp(&b.0)));
    list
}

fn communicators(page: &Page, out: &mut Lines) {
    head("Communicators", out);
    let list = by_label(page);
    if list.is_empty() {
        let why = page.missing(Of::Communicators).unwrap_or("there are none");
        out.push(format!("  unknown: {why}"));
        out.push(String::new());
        return;
    }
    for ((label, nranks), one) in list.iter().take(MOST) {
        let nranks = if nranks.is_empty() { "?" } else { nranks };
        out.push(format!(
            "  {label:<22} {:>5} of {nranks:>4} ranks {:>13} calls {:>11}",
            one.number,
            grouped(one.calls),
            short_bytes(one.bytes as f64),
        ));
    }
    more(list.len(), MOST, "kind", Of::Communicators, out);
    out.push(String::new());
}

fn timeline(page: &Page, out: &mut Lines) {
    let (overlap, durations) = (page.grid(Of::Overlap), page.grid(Of::Durations));
    if overlap.is_none() && durations.is_none() {
        return;
    }
    head("Time on the GPU", out);
    let devices: Vec<_> = overlap.into_iter().flat_map(rows).collect();
    // The last row is that of all devices, where there are several.
    if let Some(row) = devices.last() {
        let share = |column| {
            let share = row.number(column);
            share.map_or("unknown".to_owned(), |s| format!("{:.1} %", s * 100.0))
        };
        out.push(format!(
            "  computing {}, communicating {}, of it not hidden {} of the time",
            share("compute"),
            share("comm"),
            share("exposed_comm"),
        ));
    }
    for row in durations.into_iter().flat_map(rows).take(MOST) {
        let us = |column| {
            let us = row.number(column);
            us.map_or("unknown".to_owned(), |us| seconds(us / 1e6))
        };
        let busbw = row.number("busbw_gbs");
        let busbw = busbw.map_or(String::new(), |gbs| format!(", busbw {gbs:.1} GB/s"));
        out.push(format!(
            "  {:<13} median {}, longest {}{busbw}",
            cut(&row.text("op"), 13),
            us("p50_us"),
            us("max_us")
        ));
    }
    out.push(String::new());
}

fn findings(page: &Page, out: &mut Lines) {
    head("Findings", out);
    match &page.compared {
        None => out.push(format!(
            "  {}",
            page.missing(Of::Findings).unwrap_or_default()
        )),
        Some(compared) if page.findings.is_empty() => {
            out.push(format!("  nothing was found to be wrong; {compared}"));
        }
        Some(_) => {
            for (at, finding) in page.findings.iter().take(FINDINGS).enumerate() {
                // The worst is read whole, of what is only worth knowing a line.
                let most = if at < 3 && finding.severity != "note" {
                    4
                } else {
                    1
                };
                let begin = format!("  {:<8} ", finding.severity);
                wrapped(&begin, &finding.says, most, out);
            }
            more(page.findings.len(), FINDINGS, "finding", Of::Findings, out);
        }
    }
    out.push(String::new());
}

/// Changes that are shown.
const CHANGES: usize = 6;

/// What changed from the other run to this one.
fn changed(page: &Page, out: &mut Lines) {
    if page.grid(Of::Changes).is_none() && page.missing(Of::Changes).is_none() {
        return;
    }
    head("Changes", out);
    let list = changes(page);
    if let Some(why) = page.missing(Of::Changes) {
        out.push(format!("  {why}"));
    }
    for change in list.iter().take(CHANGES) {
        out.push(format!("  {change}"));
    }
    more(list.len(), CHANGES, "change", Of::Changes, out);
    out.push(String::new());
}

/// What changed, in a line each.
pub(super) fn changes(page: &Page) -> Vec<String> {
    let grid = page.grid(Of::Changes).into_iter();
    let line = |row: Row<'_>| {
        let value = |column| match row.text(column) {
            text if text.is_empty() => "none".to_owned(),
            text => text,
        };
        let what = format!("{} {}", row.text("aspect"), row.text("subject"));
        let times = row
            .number("ratio")
            .map_or(String::new(), |ratio| format!(", {ratio:.3} times"));
        format!(
            "{}: {} before, {} now{times}",
            what.trim_end(),
            value("a"),
            value("b")
        )
    };
    grid.flat_map(rows).map(line).collect()
}

/// `text` behind `begin`, on at most so many lines; what is too much is cut with the last.
fn wrapped(begin: &str, text: &str, most: usize, out: &mut Lines) {
    let under = " ".repeat(begin.chars().count());
    let text = printable(text, false);
    let mut now = begin.to_owned();
    let mut lines = 1;
    for (at, word) in text.split(' ').enumerate() {
        let fits = now.chars().count() + 1 + word.chars().count() <= out.width;
        match (at, fits || lines == most) {
            (0, _) => {}
            (_, true) => now.push(' '),
            (_, false) => {
                out.push(std::mem::replace(&mut now, under.clone()));
                lines += 1;
            }
        }
        now += word;
    }
    out.push(now);
}

fn unknown(page: &Page, out: &mut Lines) {
    let Some(grid) = page.grid(Of::Questions) else {
        return;
    };
    let no: Vec<_> = rows(grid)
        .filter(|row| row.text("answerable") == "no")
        .collect();
    if no.is_empty() {
        return;
    }
    head("Questions that this log does not answer", out);
    for row in no.iter().take(3) {
        out.push(format!("  {}", row.text("question")));
    }
    more(no.len(), 3, "question", Of::Questions, out);
    out.push("  for a log that tells more, set for the next run:".to_owned());
    // It is to be copied, so it is not cut: its words are on as many lines as they need.
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
        let of = [123.45, 1.2345, 0.0012, 0.000_001_5].map(seconds);
        assert_eq!(of, ["123.5 s", "1.234 s", "1.20 ms", "1.50 us"]);
    }

    #[test]
    fn a_finding_is_wrapped_and_then_cut() {
        let of = |most| {
            let mut out = Lines::new(WIDTH);
            wrapped("  error    ", &"word ".repeat(40), most, &mut out);
            out.lines
        };
        let one = of(1);
        assert_eq!(one.len(), 1);
        assert!(cut(&one[0], WIDTH).ends_with('…') && one[0].starts_with("  error    word word"));
        let four = of(4);
        assert_eq!(four.len(), 3, "{four:?}");
        assert!(
            four.iter()
                .all(|line| line.trim_end().chars().count() <= WIDTH)
        );
        assert!(four[1].starts_with("           word"));
        assert_eq!(four.join(" ").matches("word").count(), 40);
    }

    #[test]
    fn a_long_line_is_cut_and_shows_it() {
        assert_eq!(cut("a\u{1b}[31mb   ", 20), "a\\u{1b}[31mb");
        assert_eq!(cut("abcdef", 4), "abc…");
    }
}
