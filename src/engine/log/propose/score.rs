//! Scores how likely a number of a template's lines is the training step.
//!
//! No sign is enough, so their points are added: the number rises by a constant and does not begin
//! again while the log goes on, its name is a step's, its lines span the log, and a total, a time
//! or a rate is beside it. [`super::proposal_ranking`] adds points if other lines count the same.

use super::limits::{MIN_REGULAR_SHARE, MIN_RISES};
use super::pattern::name_start;
use super::series::NumberSeries;
use super::table::LineTemplate;
use super::template::TemplatePartKind;
use memchr::memmem;

/// Words of lines that count something other than training steps.
const OTHER_COUNTER_WORDS: [&[u8]; 14] = [
    b"eval",
    b"evaluation",
    b"evaluating",
    b"valid",
    b"validation",
    b"validating",
    b"val",
    b"test",
    b"testing",
    b"sanity",
    b"loading",
    b"downloading",
    b"tokenizing",
    b"processing",
];

/// Words beside a step's number in most step lines.
const TIMING_WORDS: [&[u8]; 8] = [
    b"s/it", b"it/s", b"sec", b"/s ", b"time", b"ms", b"took", b"speed",
];

/// Returns how likely the number at `part` is the step, in a log of `lines` lines; `None` if it
/// cannot be.
pub(super) fn score_step_number(
    template: &LineTemplate,
    part: usize,
    series: &NumberSeries,
    lines: u64,
) -> Option<f64> {
    let regularity = series.increment_share();
    let is_series =
        series.rises >= MIN_RISES && (regularity >= MIN_REGULAR_SHARE || series.rises == MIN_RISES);
    if !is_series || series.others > series.lines / 10 {
        return None;
    }
    let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
    let changes = series.rises + series.falls;
    let signs = [
        (4.0, regularity),
        (-2.0, share(series.falls, changes)),
        // An epoch's number comes again on every line of the epoch.
        (2.0, share(changes, series.lines - 1)),
        // A number that begins again while the log goes on is an evaluation's.
        (-4.0, share(series.outside, series.outside + series.spans)),
        (2.0, share(series.spans, lines).min(1.0)),
        (1.0, (series.rises as f64).log10().min(3.0)),
        (1.0, words_points(template, part)),
        (1.0, f64::from(has_total(template, part, series))),
        (1.5, f64::from(is_timed(template))),
        (-2.0, f64::from(is_share_or_part(template, part))),
        (-3.0, f64::from(counts_something_else(template, part))),
    ];
    Some(signs.iter().map(|(weight, sign)| weight * sign).sum())
}

/// Returns the points of a word in a number's name.
fn word_points(word: &[u8]) -> f64 {
    match word {
        b"global" => 3.5,
        b"step" | b"steps" | b"iter" | b"iters" | b"iteration" | b"iterations" | b"update"
        | b"updates" | b"globalstep" | b"it" => 3.0,
        b"micro" => 2.5,
        b"batch" | b"batches" | b"minibatch" => 2.0,
        b"rank" | b"ranks" | b"layer" | b"layers" | b"bucket" | b"gpu" | b"device" | b"worker"
        | b"node" | b"group" | b"param" | b"epoch" | b"epochs" => -2.0,
        b"time" | b"ms" | b"sec" | b"elapsed" | b"eta" | b"wall" | b"loss" | b"lr" | b"mem"
        | b"memory" | b"size" | b"tokens" | b"samples" | b"seen" | b"consumed" | b"pid"
        | b"line" => -1.0,
        _ => 0.0,
    }
}

/// Returns the points of a name: `global_step` has more than `step`, `consumed samples per step`
/// none.
fn name_points(name: &[u8]) -> f64 {
    let name = name.to_ascii_lowercase();
    let words = name.split(|b| !b.is_ascii_alphabetic()).map(word_points);
    let words: Vec<f64> = words.filter(|worth| *worth != 0.0).collect();
    let least = words.iter().copied().reduce(f64::min).unwrap_or(0.0);
    let most = words.iter().copied().reduce(f64::max).unwrap_or(0.0);
    if least < 3.0 { least } else { most }
}

/// Returns the points of the words at a number: those before it, or before the range that it ends,
/// else the one after it.
fn words_points(template: &LineTemplate, part: usize) -> f64 {
    let range = part
        .checked_sub(2)
        .filter(|_| template.text_before(part) == b"-");
    let range = range.filter(|&first| template.parts[first].kind == TemplatePartKind::Number);
    let words = template.text_before(range.unwrap_or(part));
    let words = &words[name_start(words)..];
    if words.iter().any(u8::is_ascii_alphabetic) {
        return name_points(words) + if range.is_some() { 0.25 } else { 0.0 };
    }
    let word = template.text_after(part).trim_ascii_start();
    let len = word.iter().position(|b| !b.is_ascii_alphabetic());
    name_points(&word[..len.unwrap_or(word.len())]).max(0.0)
}

/// Returns true if `/43` or ` of 43` follows, which is never less.
fn has_total(template: &LineTemplate, part: usize, series: &NumberSeries) -> bool {
    let numbers = template.parts.iter().take(part + 2);
    let place = numbers
        .filter(|part| part.kind == TemplatePartKind::Number)
        .count();
    let total = template.series.get(place);
    matches!(template.text_after(part).trim_ascii(), b"/" | b"of")
        && template.parts.get(part + 2).map(|part| part.kind) == Some(TemplatePartKind::Number)
        && total.is_some_and(|total| total.rises == 0 && total.last >= series.most)
}

/// Returns true for a number that is a share or part of another thing: `50%`, `file.py:68`,
/// `1:30<2:45`.
fn is_share_or_part(template: &LineTemplate, part: usize) -> bool {
    let (before, after) = (template.text_before(part), template.text_after(part));
    let ends = matches!(before, b":" | b"<" | b".") || before.ends_with(b".py:");
    let begins = after.starts_with(b"%") || matches!(after, b":" | b"<");
    ends || begins
}

/// Returns true if a time or a rate is on the line.
fn is_timed(template: &LineTemplate) -> bool {
    let texts = template
        .parts
        .iter()
        .filter(|part| part.kind == TemplatePartKind::Text);
    let mut texts = texts.map(|part| part.slice_of(&template.example).to_ascii_lowercase());
    texts.any(|text| {
        TIMING_WORDS
            .iter()
            .any(|word| memmem::find(&text, word).is_some())
    })
}

/// Returns true if the words before a number show that it counts something other than training
/// steps.
fn counts_something_else(template: &LineTemplate, part: usize) -> bool {
    let until = template.parts.get(part).map_or(0, |part| part.start);
    let before = template.example[..until].to_ascii_lowercase();
    let mut words = before.split(|b| !b.is_ascii_alphabetic());
    words.any(|word| OTHER_COUNTER_WORDS.contains(&word))
}
