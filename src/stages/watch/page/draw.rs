//! A page on a terminal of any size. All text of a log passes through [`text`].

use super::Page;
use crate::error::phrases::counted;
use crate::report::printable;
use crate::stages::check::finding::{Finding, Severity};
use crate::stages::watch::words::{bytes, duration};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Sparkline, Table, Wrap};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Of ranks that are behind so many are named.
const NAMED: usize = 4;

/// The longest label: `embedding?`.
const LABEL: u16 = 10;

/// Below this width of their own part the ids of communicators are cut, and not the ranks that are behind.
const NARROW: u16 = 60;

/// From this width on two parts are beside each other.
const WIDE: u16 = 120;

/// Draws the page.
pub fn draw(page: &Page<'_>, frame: &mut Frame<'_>) {
    let area = frame.area();
    let warned = page.told.warned.len();
    let findings = findings(page);
    let tall = area.height >= 40;
    // What there is none of takes no room.
    let some = |any: bool, room: u16| Constraint::Fill(if any { room } else { 0 });
    let parts = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Length(if tall { 7 } else { 4 }),
        Constraint::Fill(4),
        some(warned > 0, 2),
        some(page.watch.pace().is_stalled(), 4),
    ]);
    let [head, facts, times, work, warns, verdict] = parts.areas(area);
    title(page, frame, head);
    frame.render_widget(Paragraph::new(numbers(page)), facts);
    if area.width >= WIDE {
        let [last, all] = Layout::horizontal([Constraint::Fill(1); 2]).areas(times);
        last_steps(page, frame, last);
        all_steps(page, frame, all);
    } else {
        last_steps(page, frame, times);
    }
    let [calls, ranks] = Layout::horizontal([Constraint::Fill(2), Constraint::Fill(3)]).areas(work);
    operations(page, frame, calls);
    communicators(page, frame, ranks);
    if warned > 0 {
        let newest = page.told.warned.iter().rev();
        let lines: Vec<Line<'_>> = newest.map(|warned| text(warned).into()).collect();
        let block = part(format!(" WARN: {} ", counted(warned as u64, "kind")));
        frame.render_widget(Paragraph::new(lines).block(block), warns);
    }
    if page.watch.pace().is_stalled() {
        let block = part(" stall: what nccl-check finds ".to_owned());
        let lines = Paragraph::new(findings).wrap(Wrap { trim: false });
        frame.render_widget(lines.block(block), verdict);
    }
}

/// Text that may be a log's: what a terminal would act on is escaped.
fn text(text: &str) -> Span<'static> {
    Span::raw(printable(text, false))
}

/// A part with a line above it.
fn part(title: String) -> Block<'static> {
    Block::new().borders(Borders::TOP).title(title)
}

fn title(page: &Page<'_>, frame: &mut Frame<'_>, area: Rect) {
    let rests = page.watch.pace().rests(page.now);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let state = match (page.watch.pace().is_stalled(), page.told.checks) {
        (_, true) => Span::styled("the log is being checked", bold.fg(Color::Yellow)),
        (true, _) => Span::styled(
            format!("stalled for {}", duration(rests)),
            bold.fg(Color::Red),
        ),
        _ => Span::styled(format!("last call {} ago", duration(rests)), bold),
    };
    let keys = "q: leave ";
    let [left, right] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(keys.len() as u16)])
            .areas(area);
    let name = text(page.name);
    let line = Line::from(vec![
        Span::styled("nccl-watch ", bold),
        state,
        Span::raw("  "),
        name,
    ]);
    frame.render_widget(line, left);
    frame.render_widget(Line::from(keys), right);
}

/// Seconds with as many digits as a trainer prints.
fn seconds(seconds: f64) -> String {
    format!("{seconds:.4} s")
}

fn numbers(page: &Page<'_>) -> Vec<Line<'static>> {
    let pace = page.watch.pace();
    let mut first = match page.watch.step() {
        Some(step) => format!("step {step}"),
        None => "no step line yet".to_owned(),
    };
    if let Some(now) = pace.times().last() {
        first += &format!("  {}", seconds(now));
    }
    if let Some((median, p95)) = pace.usual() {
        first += &format!("  median {}  p95 {}", seconds(median), seconds(p95));
    }
    let tflops = page.told.last.as_ref().and_then(|last| last.step.tflops);
    if let Some(tflops) = tflops {
        first += &format!("  {tflops} TFLOP/s");
    }
    let second = format!(
        "{}, {}, {}; a stall is {} without a call",
        counted(page.watch.steps(), "step"),
        counted(page.watch.calls().all().calls, "call"),
        bytes(page.watch.calls().all()),
        duration(pace.limit()),
    );
    vec![first.into(), second.into()]
}

fn last_steps(page: &Page<'_>, frame: &mut Frame<'_>, area: Rect) {
    let times: Vec<f64> = page.watch.pace().times().collect();
    let title = format!(" time of the last {} ", counted(times.len() as u64, "step"));
    bars(&times, title, frame, area);
}

fn all_steps(page: &Page<'_>, frame: &mut Frame<'_>, area: Rect) {
    let history = page.watch.pace().history();
    let title = match history.each() {
        1 => " all steps ".to_owned(),
        each => format!(" all steps, each bar the mean of {each} "),
    };
    bars(history.points(), title, frame, area);
}

/// The newest of `times` that have room, each as high as its part of the longest.
fn bars(times: &[f64], title: String, frame: &mut Frame<'_>, area: Rect) {
    const HIGHEST: f64 = 1000.0;
    let shown = &times[times.len().saturating_sub(usize::from(area.width))..];
    let longest = shown.iter().copied().fold(0.0, f64::max);
    let high = |time: &f64| (time / longest * HIGHEST).clamp(0.0, HIGHEST) as u64;
    let high: Vec<u64> = shown.iter().map(high).collect();
    let bars = Sparkline::default().data(high).max(HIGHEST as u64);
    frame.render_widget(bars.block(part(title)), area);
}

fn operations(page: &Page<'_>, frame: &mut Frame<'_>, area: Rect) {
    let last = page.told.last.as_ref();
    let (calls, title) = match last {
        Some(last) => (&last.calls, format!(" step {} ", last.step.step)),
        None => (page.watch.calls(), " calls ".to_owned()),
    };
    let row = |(op, made): (&[u8], _)| {
        let made: crate::stages::watch::Made = made;
        Row::new([
            Cell::from(text(&String::from_utf8_lossy(op))),
            Cell::from(made.calls.to_string()),
            Cell::from(bytes(made)),
        ])
    };
    let all = calls.all();
    let rows = calls.each().map(row);
    let rows: Vec<Row<'_>> = rows.chain([row((b"all", all))]).collect();
    let widths = [
        Constraint::Fill(2),
        Constraint::Length(8),
        Constraint::Length(9),
    ];
    let header = Row::new(["operation", "calls", "bytes"]).style(Modifier::UNDERLINED);
    let table = Table::new(rows, widths).header(header);
    frame.render_widget(table.block(part(title)), area);
}

fn communicators(page: &Page<'_>, frame: &mut Frame<'_>, area: Rect) {
    let mut each = page.watch.ranks().each();
    let mut busy: BTreeMap<Option<&str>, u64> = BTreeMap::new();
    for (id, of) in &each {
        *busy.entry(page.watch.label(id)).or_default() += of.calls;
    }
    // Those of one kind stand together, the busiest kind first.
    each.sort_by_key(|(id, of)| {
        let label = page.watch.label(id);
        (Reverse(of.nranks), Reverse(busy[&label]), label)
    });
    let rows = each.iter().take(usize::from(area.height)).map(|(id, of)| {
        let behind = of.behind();
        let mut named: Vec<String> = behind.iter().take(NAMED).map(behind_by).collect();
        if behind.len() > NAMED {
            named.push(format!("and {} more", behind.len() - NAMED));
        }
        Row::new([
            page.watch.label(id).unwrap_or_default().to_owned(),
            id.to_string(),
            format!("{}/{}", of.seen(), of.nranks),
            of.calls.to_string(),
            named.join(", "),
        ])
    });
    let widths = [
        Constraint::Length(LABEL),
        Constraint::Fill(3),
        Constraint::Length(6),
        Constraint::Length(7),
        match area.width < NARROW {
            true => Constraint::Length(12),
            false => Constraint::Fill(3),
        },
    ];
    let header = ["for", "id", "ranks", "calls", "ranks behind"];
    let header = Row::new(header).style(Modifier::UNDERLINED);
    let table = Table::new(rows.collect::<Vec<_>>(), widths).header(header);
    let title = format!(" {} ", counted(each.len() as u64, "communicator"));
    frame.render_widget(table.block(part(title)), area);
}

/// `3 (-2)`: rank 3 has made two collectives fewer.
fn behind_by((rank, by): &(u32, u64)) -> String {
    format!("{rank} (-{by})")
}

/// What a stall's check came to.
fn findings(page: &Page<'_>) -> Vec<Line<'static>> {
    if page.told.checks {
        return vec!["the log is being checked".into()];
    }
    let Some(found) = page.found else {
        return Vec::new();
    };
    let wrong = |finding: &&Finding| finding.severity != Severity::Note;
    let line = |finding: &Finding| {
        let colour = match finding.severity {
            Severity::Error => Color::Red,
            Severity::Warning => Color::Yellow,
            Severity::Note => Color::Reset,
        };
        let name = Span::styled(finding.severity.name(), Style::new().fg(colour));
        let says = text(&format!(": {} [{}]", finding.says, finding.id));
        Line::from(vec![name, says])
    };
    let lines: Vec<_> = found.findings.iter().filter(wrong).map(line).collect();
    match lines.is_empty() {
        true => vec!["nothing is wrong in the log up to here".into()],
        false => lines,
    }
}
