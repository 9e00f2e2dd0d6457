//! Progress bars of tqdm, and the Hugging Face trainer's among them.
//!
//! A bar's rate is a moving average over the last steps, or where the program set that off the mean
//! since the bar began; it is given as what it is, and not as a step's time. A bar with a description before
//! the
//! percentage counts something else (`Map:`, `Loading checkpoint shards:`) unless the description
//! is one of a trainer's; what a launcher puts there is no description.

pub(super) mod described_bars;

use nom::branch::alt;
use nom::bytes::complete::{tag, take_while1};
use nom::character::complete::space0;
use nom::combinator::opt;
use nom::{IResult, Parser};

use super::facts::{SampleLine, TrainerFacts};
use super::parts::number::{parse_count, parse_float, prefix_len, skip_blanks, suffix_len};
use super::parts::piece::LinePiece;
use super::{StepLine, Trainer, TrainerClock, TrainerPace, TrainerRecord};

/// The rate of a bar slower than an iteration a second.
pub(super) const SECONDS_PER_ITERATION: &[u8] = b"s/it";
/// The rate of a bar faster than that.
pub(super) const ITERATIONS_PER_SECOND: &[u8] = b"it/s";
/// The Hugging Face trainer and its kin.
pub(super) const FACTS: TrainerFacts = TrainerFacts {
    words: &[
        (SECONDS_PER_ITERATION, read_bar),
        (ITERATIONS_PER_SECOND, read_bar),
    ],
    aliases: &["accelerate", "axolotl", "diffusers", "tqdm"],
    late: true,
    any_program: true,
    samples: &[SampleLine::new(
        " 40%|████      | 2/5 [00:00<00:00,  6.65it/s]",
        2,
        None,
    )],
    ..TrainerFacts::named("hf")
};
/// Between the percentage and the bar.
const PERCENT: &[u8] = b"%|";

/// Longest postfix looked through for its `]`.
pub(super) const MAX_POSTFIX_BYTES: usize = 1024;

/// Widest bar: each column may be a block of three bytes.
const MAX_BAR_BYTES: usize = 2048;

/// The text right of a bar: ` 281/873 [25:36<52:46,  5.35s/it]`.
pub(super) struct BarStatus<'a> {
    /// How many are done.
    pub(super) n: u64,
    /// Of how many.
    pub(super) total: u64,
    /// What follows the times and the rate up to the `]`.
    pub(super) postfix: &'a [u8],
    /// Just after the bar.
    pub(super) end: usize,
    /// How long it has been drawn, in whole seconds.
    pub(super) elapsed: Option<f64>,
    /// The text in the place of the rate.
    pub(super) rate: Option<BarRate>,
}

/// The rate of a bar; `?` before the first step.
#[derive(Debug, Clone, Copy)]
pub(super) struct BarRate {
    /// Seconds of an iteration.
    time_s: Option<f64>,
    /// How much its last digit is of it.
    digit: f64,
}

impl BarStatus<'_> {
    /// The bar's own clock.
    pub(super) fn clock(&self) -> Option<TrainerClock> {
        self.elapsed.map(|seconds| TrainerClock {
            seconds,
            error: 1.0,
        })
    }

    /// The rate as tqdm smooths it.
    pub(super) fn pace(&self) -> Option<TrainerPace> {
        self.rate?.time_s.map(TrainerPace::Smoothed)
    }

    /// A clock finer than the bar's where the rate is the mean since the bar began: the count
    /// times it. Lightning sets `smoothing=0`.
    pub(super) fn mean_clock(&self) -> Option<TrainerClock> {
        let rate = self.rate?;
        let seconds = self.n as f64 * rate.time_s?;
        Some(TrainerClock {
            seconds,
            error: seconds * rate.digit,
        })
    }
}

impl<'a> BarStatus<'a> {
    /// The text right of a counter without a bar, which has no total.
    pub(super) fn from_counter(n: u64, postfix: &'a [u8], end: usize) -> BarStatus<'a> {
        BarStatus {
            n,
            total: 0,
            postfix,
            end,
            elapsed: None,
            rate: None,
        }
    }
}

fn bar_counter(input: &[u8]) -> IResult<&[u8], (u64, u64, &[u8])> {
    let clock = |b: u8| b.is_ascii_digit() || b == b':' || b == b'?';
    let (rest, (_, n, _, total, _, elapsed, _, _)) = (
        space0,
        parse_count,
        tag("/"),
        parse_count,
        tag(" ["),
        take_while1(clock),
        tag("<"),
        take_while1(clock),
    )
        .parse(input)?;
    Ok((rest, (n, total, elapsed)))
}

/// The seconds of `52:46` and `1:52:09`.
fn parse_clock_seconds(clock: &[u8]) -> Option<f64> {
    let mut all = 0_u64;
    for part in clock.split(|&b| b == b':') {
        let (b"", part) = parse_count(part).ok()? else {
            return None;
        };
        all = all.checked_mul(60)?.checked_add(part)?;
    }
    Some(all as f64)
}

fn rate(input: &[u8]) -> IResult<&[u8], BarRate> {
    let (number, _) = (tag(","), space0, opt(tag("?"))).parse(input)?;
    let (rest, value) = parse_float(number);
    let (left, unit) = alt((tag("s/it"), tag("it/s"))).parse(rest)?;
    let digits = number.len() - rest.len();
    let point = number[..digits].iter().position(|&b| b == b'.');
    let last = 0.1_f64.powi(point.map_or(0, |point| digits - point - 1) as i32);
    let value = value.filter(|value| *value > 0.0);
    let time_s = value.map(|value| match unit {
        b"it/s" => value.recip(),
        _ => value,
    });
    let digit = value.map_or(1.0, |value| last / value);
    Ok((left, BarRate { time_s, digit }))
}

/// The right side after the closing `|`, which is before `from`.
fn parse_bar_status<'a>(piece: &LinePiece<'a>, from: usize) -> Option<BarStatus<'a>> {
    let (rest, (n, total, elapsed)) = bar_counter(&piece.text[from..]).ok()?;
    let (rest, rate) = rate(rest).map_or((rest, None), |(rest, rate)| (rest, Some(rate)));
    let window = &rest[..rest.len().min(MAX_POSTFIX_BYTES)];
    // A piece cut by the terminal's width has no bracket.
    let close = prefix_len(window, |b| b != b']' && b != b'[' && b != b'|');
    let closed = window.get(close) == Some(&b']');
    let postfix = if closed { &rest[..close] } else { b"" };
    let end = piece.position(rest) + if closed { close + 1 } else { 0 };
    Some(BarStatus {
        n,
        total,
        elapsed: parse_clock_seconds(elapsed),
        rate,
        postfix,
        end,
    })
}

/// Whether `text` is what launchers put before a record: `[default0]:`, ` 0: `, `worker-0: `,
/// `(task, pid=6678) `, `ining-demo/0 `. Their names have a digit; descriptions are words.
fn is_launcher_prefix(mut text: &[u8]) -> bool {
    loop {
        text = skip_blanks(text);
        let Some(&first) = text.first() else {
            return true;
        };
        let close = match first {
            b'[' => memchr::memchr(b']', text).map(|at| at + 1),
            b'(' => memchr::memchr(b')', text).map(|at| at + 1),
            _ => {
                let name = prefix_len(text, |b| b.is_ascii_alphanumeric() || b"-_./".contains(&b));
                let digit = text[..name].last().is_some_and(u8::is_ascii_digit);
                // `1/3:` is a count and so a description, `demo/0 ` a replica.
                let counts = text[..name]
                    .iter()
                    .all(|b| b.is_ascii_digit() || *b == b'/')
                    && text[..name].contains(&b'/');
                (digit && !counts).then_some(name)
            }
        };
        let Some(close) = close else { return false };
        text = &text[close..];
        text = text
            .strip_prefix(b"<stdout>")
            .or(text.strip_prefix(b"<stderr>"))
            .unwrap_or(text);
        text = text.strip_prefix(b":").unwrap_or(text);
    }
}

/// Whether `text` is the head of a torn NCCL line: its colon ends no description.
fn is_torn_nccl_head(text: &[u8]) -> bool {
    memchr::memmem::find(text, b" NCCL ").is_some()
}

/// The bar around a rate or a field of its postfix at `hit`.
pub(super) fn read_bar(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let low = piece.floor.max(hit.saturating_sub(MAX_BAR_BYTES)).min(hit);
    let sign = memchr::memrchr(b'%', &piece.text[low..hit]).map(|sign| low + sign);
    sign.and_then(|sign| read_bar_at_percent(piece, sign))
        .or_else(|| described_bars::read_bar_without_total(piece, hit))
        .filter(|found| hit < found.end)
}

/// Reads the bar with its percentage before the sign at `hit`.
fn read_bar_at_percent(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let rest = piece.text[hit..].strip_prefix(PERCENT)?;
    let open = piece.position(rest);
    let bar = memchr::memchr(b'|', &piece.text[open..])?;
    let right = parse_bar_status(piece, open + bar + 1)?;
    let (before, low) = piece.free_text_before(hit);
    // Of three places only 100 has no blank, so digits of a torn line may be before it.
    let digits = suffix_len(before, |b| b.is_ascii_digit());
    let digits = if before.ends_with(b"100") { 3 } else { digits };
    if digits == 0 || digits > 3 {
        return None;
    }
    // tqdm pads the percentage to three places; the blanks are the bar's.
    let number = &before[..before.len() - digits];
    let pad = suffix_len(number, |b| b == b' ').min(3 - digits);
    let start = low + number.len() - pad;
    let left = &number[..number.len() - suffix_len(number, |b| b == b' ')];
    if let Some(text) = left.strip_suffix(b":") {
        return described_bars::read_described_bar(piece, &right, text, low).or_else(|| {
            (is_launcher_prefix(left) || is_torn_nccl_head(left))
                .then(|| read_bare_bar(start, &right))
                .flatten()
        });
    }
    read_bare_bar(start, &right)
}

/// A bar without a description: `transformers`' since `ProgressCallback` sets none.
fn read_bare_bar(start: usize, right: &BarStatus<'_>) -> Option<TrainerRecord> {
    if right.n == 0 || right.rate.is_none() {
        return None;
    }
    let line = StepLine {
        total: Some(right.total),
        pace: right.pace(),
        clock: right.clock(),
        postfix: Some(fingerprint_text(right.postfix)),
        ..StepLine::without_time(Trainer::Hf, right.n)
    };
    LinePiece::step_record(start, right.end, line)
}

/// Fingerprints a text (FNV-1a).
fn fingerprint_text(text: &[u8]) -> u32 {
    text.iter().fold(0x811c_9dc5, |hash, &b| {
        (hash ^ u32::from(b)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{one, steps};
    use super::super::{Trainer, TrainerPace};

    #[test]
    fn bare_bars_are_steps_of_hugging_face() {
        for (text, bar) in [
            (
                " 32%|██▏       | 281/873 [25:36<52:46,  5.35s/it]  ",
                " 32%|",
            ),
            (
                "[rank0]:  0%|          | 1/801 [00:12<2:43:41, 12.28s/it]",
                "  0%|",
            ),
            ("0: 100%|###| 5/5 [00:00<00:00, ?it/s]", "100%|"),
            (
                "worker-0:   8%|#| 5/9 [00:00<00:00, 1.0it/s, loss=1]",
                "  8%|",
            ),
            ("sendbuff 0x7f  8%|#| 5/9 [00:00<?, 1.0it/s", "  8%|"),
        ] {
            let (line, got) = one(text);
            assert_eq!((line.trainer, line.time_s), (Trainer::Hf, None), "{text}");
            assert!(got.starts_with(bar) && !got.ends_with(' '), "{got}");
        }
    }

    #[test]
    fn a_bar_has_a_rate_and_a_clock() {
        for (bar, pace, clock) in [
            ("281/873 [25:36<52:46,  5.35s/it]", Some(5.35), 1536.0),
            (
                "5/9 [1:52:09<20:27:23, 4.00it/s, loss=1]",
                Some(0.25),
                6729.0,
            ),
            ("5/9 [00:12<00:01, ?it/s]", None, 12.0),
        ] {
            let (line, _) = one(&format!(" 32%|██▏ | {bar}"));
            assert_eq!(line.pace, pace.map(TrainerPace::Smoothed), "{bar}");
            assert_eq!(line.clock.map(|clock| clock.seconds), Some(clock), "{bar}");
        }
    }

    #[test]
    fn every_bar_of_a_piece_is_found() {
        let bar = "  0%|  | 1/9 [00:12<2:43:41, 12.28s/it]";
        assert_eq!(steps(&bar.repeat(3)), 3);
        assert_eq!(steps(&format!("\r{bar}\r      \r\r{bar}")), 2);
    }

    #[test]
    fn bars_that_count_something_else_are_refused() {
        for text in [
            "  0%|          | 0/5 [00:00<?, ?it/s]",
            "Loading checkpoint shards: 100%|##| 3/3 [00:05<00:00,  1.9s/it]",
            "Map: 100%|##| 3/3 [00:05<00:00,  1.9it/s]",
            "Epoch 1/17:   6%|# | 1/18 [00:04<01:16, 4.52s/it]",
            "[rank0]:Map:  10%|##| 3/30 [00:05<00:00,  1.9it/s]",
            "Validation DataLoader 0: :  50%|##| 3/6 [00:05<00:00,  1.9it/s]",
            "Epoch 0:  10%|# | 1/10 [00:04<01:16, 4.52s/update]",
            " 10%|# | 1/10 [00:04<01:16, 9.1MB/s]",
            " 10%|# | 1/99999999999999999999 [00:04<01:16, 4.5s/it]",
        ] {
            assert_eq!(steps(text), 0, "{text}");
        }
    }
}
