//! A page on a terminal of any size. All text of a log passes through [`text`].

use super::WatchPage;
use super::view::PAGE_KEYS;
use crate::error::phrases::count_phrase;
use crate::report::escape_for_terminal;
use crate::stages::check::finding::{Finding, Severity};
use crate::stages::watch::limits::{
    MAX_LABEL_COLUMNS, MAX_NAMED_RANKS, MIN_FULL_ID_COLUMNS, MIN_TWO_PART_COLUMNS,
    NARROW_BEHIND_COLUMNS,
};
use crate::stages::watch::messages::{format_bytes, format_duration};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Sparkline, Table, Wrap};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Draws the page.
pub fn draw_page(page: &mut WatchPage<'_>, frame: &mut Frame<'_>) {
    let area = frame.area();
    if page.view.shows_keys {
        return draw_keys(frame, area);
    }
    let warned = page.told.warned.len();
    let findings = finding_lines(page);
    let tall = area.height >= 40;
    // An empty part takes no room.
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
    draw_title(page, frame, head);
    frame.render_widget(Paragraph::new(number_lines(page)), facts);
    if area.width >= MIN_TWO_PART_COLUMNS {
        let [last, all] = Layout::horizontal([Constraint::Fill(1); 2]).areas(times);
        draw_last_steps(page, frame, last);
        draw_all_steps(page, frame, all);
    } else {
        draw_last_steps(page, frame, times);
    }
    let [calls, ranks] = Layout::horizontal([Constraint::Fill(2), Constraint::Fill(3)]).areas(work);
    draw_operations(page, frame, calls);
    draw_communicators(page, frame, ranks);
    if warned > 0 {
        let newest = page.told.warned.iter().rev();
        let lines: Vec<Line<'_>> = newest.map(|warned| escaped_span(warned).into()).collect();
        let block = titled_block(format!(" WARN: {} ", count_phrase(warned as u64, "kind")));
        frame.render_widget(Paragraph::new(lines).block(block), warns);
    }
    if page.watch.pace().is_stalled() {
        let block = titled_block(" stall: what nccl-check finds ".to_owned());
        let lines = Paragraph::new(findings).wrap(Wrap { trim: false });
        frame.render_widget(lines.block(block), verdict);
    }
}

/// Escapes the control characters of text that may be a log's.
fn escaped_span(text: &str) -> Span<'static> {
    Span::raw(escape_for_terminal(text, false))
}

/// A part with a line above it.
fn titled_block(title: String) -> Block<'static> {
    Block::new().borders(Borders::TOP).title(title)
}

fn draw_title(page: &WatchPage<'_>, frame: &mut Frame<'_>, area: Rect) {
    let rests = page.watch.pace().idle_time(page.now);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let state = match (page.watch.pace().is_stalled(), page.told.checks) {
        (_, true) => Span::styled("the log is being checked", bold.fg(Color::Yellow)),
        (true, _) => Span::styled(
            format!("stalled for {}", format_duration(rests)),
            bold.fg(Color::Red),
        ),
        _ if page.watch.calls().total().calls == 0 => Span::styled("no call yet", bold),
        _ => Span::styled(format!("last call {} ago", format_duration(rests)), bold),
    };
    let keys = "?: keys  q: leave ";
    let [left, right] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(keys.len() as u16)])
            .areas(area);
    let name = escaped_span(page.name);
    let line = Line::from(vec![
        Span::styled("nccl-watch ", bold),
        state,
        Span::raw("  "),
        name,
    ]);
    frame.render_widget(line, left);
    frame.render_widget(Line::from(keys), right);
}

/// Formats seconds with as many digits as a trainer prints.
fn format_seconds(seconds: f64) -> String {
    format!("{seconds:.4} s")
}

fn number_lines(page: &WatchPage<'_>) -> Vec<Line<'static>> {
    let pace = page.watch.pace();
    let mut first = match page.watch.last_step() {
        Some(step) => format!("step {step}"),
        None => "no step line yet".to_owned(),
    };
    if let Some(now) = pace.recent_step_times().last() {
        first += &format!("  {}", format_seconds(now));
    }
    if let Some((median, p95)) = pace.usual_step_time() {
        first += &format!(
            "  median {}  p95 {}",
            format_seconds(median),
            format_seconds(p95)
        );
    }
    let tflops = page.told.last.as_ref().and_then(|last| last.step.tflops);
    if let Some(tflops) = tflops {
        first += &format!("  {tflops} TFLOP/s");
    }
    let second = format!(
        "{}, {}, {}; a stall is {} without a call",
        count_phrase(page.watch.count_steps(), "step"),
        count_phrase(page.watch.calls().total().calls, "call"),
        format_bytes(page.watch.calls().total()),
        format_duration(pace.stall_limit()),
    );
    vec![first.into(), second.into()]
}

fn draw_last_steps(page: &WatchPage<'_>, frame: &mut Frame<'_>, area: Rect) {
    let times: Vec<f64> = page.watch.pace().recent_step_times().collect();
    let title = format!(
        " time of the last {} ",
        count_phrase(times.len() as u64, "step")
    );
    draw_bars(&times, title, frame, area);
}

fn draw_all_steps(page: &WatchPage<'_>, frame: &mut Frame<'_>, area: Rect) {
    let history = page.watch.pace().history();
    let title = match history.steps_per_point() {
        1 => " all steps ".to_owned(),
        each => format!(" all steps, each bar the mean of {each} "),
    };
    draw_bars(history.points(), title, frame, area);
}

/// Draws the newest of `times` that fit, in proportion to the longest.
fn draw_bars(times: &[f64], title: String, frame: &mut Frame<'_>, area: Rect) {
    let highest = 1000.0;
    let shown = &times[times.len().saturating_sub(usize::from(area.width))..];
    let longest = shown.iter().copied().fold(0.0, f64::max);
    let high = |time: &f64| (time / longest * highest).clamp(0.0, highest) as u64;
    let high: Vec<u64> = shown.iter().map(high).collect();
    let bars = Sparkline::default().data(high).max(highest as u64);
    frame.render_widget(bars.block(titled_block(title)), area);
}

fn draw_operations(page: &WatchPage<'_>, frame: &mut Frame<'_>, area: Rect) {
    let last = page.told.last.as_ref();
    let (calls, title) = match last {
        Some(last) if last.left_out > 0 => {
            let all = last.calls.total().calls + last.left_out;
            (
                &last.calls,
                format!(" step {}: of {all} calls ", last.step.step),
            )
        }
        Some(last) => (&last.calls, format!(" step {} ", last.step.step)),
        None => (page.watch.calls(), " calls ".to_owned()),
    };
    let row = |(op, made): (&[u8], _)| {
        let made: crate::stages::watch::OpCallTotals = made;
        Row::new([
            Cell::from(escaped_span(&String::from_utf8_lossy(op))),
            Cell::from(made.calls.to_string()),
            Cell::from(format_bytes(made)),
        ])
    };
    let all = calls.total();
    let rows = calls.each_op().map(row);
    let rows: Vec<Row<'_>> = rows.chain([row((b"all", all))]).collect();
    let widths = [
        Constraint::Fill(2),
        Constraint::Length(8),
        Constraint::Length(9),
    ];
    let header = Row::new(["operation", "calls", "bytes"]).style(Modifier::UNDERLINED);
    let table = Table::new(rows, widths).header(header);
    frame.render_widget(table.block(titled_block(title)), area);
}

/// Draws the list of keys in place of the page.
fn draw_keys(frame: &mut Frame<'_>, area: Rect) {
    let line =
        |(keys, what): &(&'static str, &'static str)| Line::from(format!("{keys:<24} {what}"));
    let lines: Vec<Line<'_>> = PAGE_KEYS.iter().map(line).collect();
    let block = titled_block(" keys ".to_owned());
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn draw_communicators(page: &mut WatchPage<'_>, frame: &mut Frame<'_>, area: Rect) {
    let mut each = page.watch.ranks().largest_first();
    let mut busy: BTreeMap<Option<&str>, u64> = BTreeMap::new();
    for (id, of) in &each {
        *busy.entry(page.watch.comm_label(id)).or_default() += of.calls;
    }
    // Those with ranks behind come first; communicators of one use are together, the busiest use first.
    each.sort_by_key(|(id, of)| {
        let label = page.watch.comm_label(id);
        let is_level = of.ranks_behind().is_empty();
        (is_level, Reverse(of.nranks), Reverse(busy[&label]), label)
    });
    // The title and the header take two lines.
    let room = usize::from(area.height.saturating_sub(2));
    let first = page.view.bound_first_row(each.len(), room);
    let is_narrow = area.width < MIN_FULL_ID_COLUMNS;
    let rows = each.iter().skip(first).take(room).map(|(id, of)| {
        let behind = of.ranks_behind();
        // `3 (-2)`: rank 3 of the job has made two collectives fewer; `its 3` is the communicator's.
        let name = |rank: u32| match page.watch.job_rank(id, rank) {
            Some(job) => job.to_string(),
            None => format!("its {rank}"),
        };
        let mut named: Vec<String> = behind
            .iter()
            .take(MAX_NAMED_RANKS)
            .map(|(rank, by)| format!("{} (-{by})", name(*rank)))
            .collect();
        if behind.len() > MAX_NAMED_RANKS {
            named.push(format!("and {} more", behind.len() - MAX_NAMED_RANKS));
        }
        let mut named = named.join(", ");
        if is_narrow && named.len() > NARROW_BEHIND_COLUMNS {
            named.truncate(NARROW_BEHIND_COLUMNS - 1);
            named.push('…');
        }
        Row::new([
            page.watch.comm_label(id).unwrap_or_default().to_owned(),
            id.to_string(),
            format!("{}/{}", of.ranks_seen(), of.nranks),
            of.calls.to_string(),
            named,
        ])
    });
    let widest = each.iter().map(|(_, of)| of.nranks).max().unwrap_or(0);
    let ranks = 2 * widest.to_string().len() as u16 + 1;
    let widths = [
        Constraint::Length(MAX_LABEL_COLUMNS),
        Constraint::Fill(3),
        Constraint::Length(ranks.max(5)),
        Constraint::Length(7),
        match is_narrow {
            true => Constraint::Length(NARROW_BEHIND_COLUMNS as u16),
            false => Constraint::Fill(3),
        },
    ];
    let header = ["for", "id", "ranks", "calls", "ranks behind"];
    let header = Row::new(header).style(Modifier::UNDERLINED);
    let table = Table::new(rows.collect::<Vec<_>>(), widths).header(header);
    let all = count_phrase(each.len() as u64, "communicator");
    let title = match each.len() > room {
        true => format!(
            " {all}, {} to {} ",
            first + 1,
            (first + room).min(each.len())
        ),
        false => format!(" {all} "),
    };
    frame.render_widget(table.block(titled_block(title)), area);
}

/// Returns the lines of a stall's findings.
fn finding_lines(page: &WatchPage<'_>) -> Vec<Line<'static>> {
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
        let says = escaped_span(&format!(": {} [{}]", finding.says, finding.kind.id()));
        Line::from(vec![name, says])
    };
    let details: Vec<_> = found.findings.iter().filter(wrong).map(line).collect();
    let answer = found.answer();
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut lines = vec![Line::from(escaped_span(&answer.sentence).style(bold))];
    let next = answer.next.map(|next| format!("next: {next}"));
    lines.extend(next.map(|next| Line::from(escaped_span(&next))));
    lines.extend(details);
    lines
}
