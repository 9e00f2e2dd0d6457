//! OLMo-core, Composer, ColossalAI and torchtune's logger: a number in brackets or two, and little
//! else on the line.

use nom::branch::alt;
use nom::bytes::complete::tag;
use nom::combinator::map;
use nom::{IResult, Parser};

use crate::trainer::facts::{STEP, STEP_BEGINS};
use crate::trainer::facts::{SampleLine, TrainerFacts};
use crate::trainer::parts::number::{
    number_after, parse_count, parse_float, prefix_len, skip_blanks, suffix_len,
};
use crate::trainer::parts::piece::{FieldSyntax, LinePiece};
use crate::trainer::parts::prefix::find_logger_prefix;
use crate::trainer::{StepLine, Trainer, TrainerMark, TrainerPace, TrainerRecord};

/// Composer's unit; headers that count samples or tokens are no steps.
pub(crate) const COMPOSER_BATCH_FIELD: &[u8] = b"batch=";
/// The end of the names of Composer's rates.
const COMPOSER_RATE_FIELD: &[u8] = b"er_sec: ";

/// OLMo-core and OLMo.
pub(crate) const OLMO: TrainerFacts = TrainerFacts {
    words: &[(STEP, read_olmo_step)],
    samples: &[SampleLine::new(
        "[2025-02-20 15:18:04] INFO     [x:62, rank=0] [step=1/7,epoch=1]",
        1,
        None,
    )],
    ..TrainerFacts::named("olmo-core")
};
/// Composer and LLM-Foundry.
pub(crate) const COMPOSER: TrainerFacts = TrainerFacts {
    words: &[
        (COMPOSER_BATCH_FIELD, read_composer_batch),
        (COMPOSER_RATE_FIELD, read_composer_rate),
    ],
    every_rank: true,
    samples: &[SampleLine::new(
        "[epoch=1][batch=5/5]:  Train loss: 1",
        5,
        None,
    )],
    ..TrainerFacts::named("composer")
};
/// ColossalAI. Its pipeline demo prints on every rank.
pub(crate) const COLOSSAL: TrainerFacts = TrainerFacts {
    words: &[(STEP_BEGINS, read_colossal_step)],
    every_rank: true,
    samples: &[SampleLine::new(
        "[3/10] Loss:1.2, Step time: 0.5s, TFLOPS: 167.4",
        3,
        Some(0.5),
    )],
    ..TrainerFacts::named("colossalai")
};
/// torchtune.
pub(crate) const TORCHTUNE: TrainerFacts = TrainerFacts {
    words: &[(STEP_BEGINS, read_torchtune_step)],
    samples: &[
        SampleLine::new(
            "1|2|Loss: 1.25:   0%|  | 2/1367 [05:03<49:53:19, 131.58s/it]",
            2,
            None,
        ),
        SampleLine::new("Step 7 | loss:1.75 lr:2e-05 ", 7, None),
    ],
    ..TrainerFacts::named("torchtune")
};

fn step_and_total(input: &[u8]) -> IResult<&[u8], (u64, Option<u64>)> {
    let (rest, (n, _, total)) = (
        parse_count,
        tag("/"),
        alt((map(parse_count, Some), map(tag("???"), |_| None))),
    )
        .parse(input)?;
    Ok((rest, (n, total)))
}

/// `[step=1/7,epoch=1]`, the header of a record of several lines; `hit` is at `step=`. The header
/// with `eta=` is printed by another thread, perhaps late, yet the only one of its step (@fa6c501).
pub(crate) fn read_olmo_step(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let (rest, (step, total)) = step_and_total(piece.text[hit..].strip_prefix(b"step=")?).ok()?;
    let close = prefix_len(&rest[..rest.len().min(64)], |b| {
        b.is_ascii_alphanumeric() || b",=:. ".contains(&b)
    });
    let open = piece.skip_word_back(b"[", hit);
    if rest.get(close) != Some(&b']') || open == hit || !matches!(rest[0], b',' | b']') {
        return None;
    }
    let (start, wall_ms) = find_logger_prefix(piece.text, piece.floor, open);
    let line = StepLine {
        total,
        wall_ms,
        ..StepLine::without_time(Trainer::OlmoCore, step)
    };
    LinePiece::step_record(start, piece.position(rest) + close + 1, line)
}

/// `[batch=1/10]:` and `[epoch=1][batch=5/5]:`, the header of a record of several lines, or of one
/// where the metrics follow (@6405188).
pub(crate) fn read_composer_batch(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let (rest, (step, total)) =
        step_and_total(&piece.text[hit + COMPOSER_BATCH_FIELD.len()..]).ok()?;
    let rest = rest.strip_prefix(b"]")?;
    let end = |rest: &[u8]| {
        let body = skip_blanks(rest);
        let ours = body.starts_with(b"Train ") || body.starts_with(b"Eval ");
        if ours {
            piece.text.len()
        } else {
            piece.position(rest)
        }
    };
    let eval = piece.skip_word_back(b"[Eval ", hit);
    if eval < hit {
        let rest = rest.strip_prefix(b":").unwrap_or(rest);
        return Some(TrainerRecord {
            start: eval,
            end: end(rest),
            mark: TrainerMark::Between,
        });
    }
    let rest = rest.strip_prefix(b":")?;
    let open = piece.skip_word_back(b"[", hit);
    let (before, low) = piece.free_text_before(open);
    let epoch = before.strip_suffix(b"]").and_then(|b| {
        b[..b.len() - suffix_len(b, |b| b.is_ascii_digit())].strip_suffix(b"[epoch=")
    });
    let end = end(rest);
    let record = &piece.text[piece.position(rest)..end];
    let of = |name| number_after(record, name);
    let line = StepLine {
        total,
        tflops: of(COMPOSER_FLOPS_PER_SEC).map(|flops| flops / 1e12),
        pace: of(COMPOSER_BATCHES_PER_SEC)
            .and_then(invert_rate)
            .map(TrainerPace::Smoothed),
        ..StepLine::without_time(Trainer::Composer, step)
    };
    let start = epoch.map_or(open, |b| low + b.len());
    LinePiece::step_record(start, end, line).filter(|_| open < hit)
}

/// Composer's batches a second, over a window of the last 100 (`speed_monitor.py` @6405188).
const COMPOSER_BATCHES_PER_SEC: &[u8] = b" throughput/batches_per_sec: ";
/// Composer's FLOP/s of a device.
const COMPOSER_FLOPS_PER_SEC: &[u8] = b" throughput/device/flops_per_sec: ";

fn invert_rate(rate: f64) -> Option<f64> {
    (rate > 0.0).then(|| rate.recip())
}

/// ` Train throughput/batches_per_sec: 0.0027`, a line of a record; the header came before.
fn read_composer_rate(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let (before, low) = piece.free_text_before(hit + COMPOSER_RATE_FIELD.len());
    let value = &piece.text[hit + COMPOSER_RATE_FIELD.len()..];
    let (rest, number) = parse_float(value);
    let (name, smoothed, tflops) = match number {
        Some(rate) if before.ends_with(COMPOSER_BATCHES_PER_SEC) => {
            (COMPOSER_BATCHES_PER_SEC, invert_rate(rate), None)
        }
        Some(rate) if before.ends_with(COMPOSER_FLOPS_PER_SEC) => {
            (COMPOSER_FLOPS_PER_SEC, None, Some(rate / 1e12))
        }
        _ => return None,
    };
    let start = low + before.strip_suffix(name)?.strip_suffix(b"Train")?.len();
    Some(TrainerRecord {
        start,
        end: piece.position(rest),
        mark: TrainerMark::Metric { smoothed, tflops },
    })
}

/// `[3/10] Loss:1.2, Step time: 0.5s, TFLOPS: 167.430` and `Rank0 , [1/10] , Step time: 0.5s`
/// (@4f9953b). The rich-wrapped `Step time: 22.885` has no number and is no step.
pub(crate) fn read_colossal_step(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    const FIELDS: FieldSyntax = FieldSyntax {
        separator: b", ",
        colon: b": ",
        units: b"s",
    };
    let value = piece.text[hit..].strip_prefix(b"Step time: ")?;
    let (before, low) = piece.free_text_before(hit);
    let at = memchr::memrchr(b'[', before)?;
    let head = |input| -> IResult<&[u8], (u64, Option<u64>)> {
        let (rest, (_, pair, _)) =
            (tag("["), step_and_total, alt((tag("] Loss:"), tag("] ,")))).parse(input)?;
        Ok((rest, pair))
    };
    let (between, (step, total)) = head(&before[at..]).ok()?;
    if !matches!(parse_float(between).0, b", " | b" ") {
        return None;
    }
    let rank = &before[..at];
    let rank = rank
        .strip_suffix(b" , ")
        .and_then(|r| r[..r.len() - suffix_len(r, |b| b.is_ascii_digit())].strip_suffix(b"Rank"));
    let (rest, time_s) = parse_float(value);
    let rest = rest.strip_prefix(b"s")?;
    let record = &rest[..FIELDS.fields_len(rest)];
    let line = StepLine {
        total,
        time_s,
        tflops: number_after(record, b", TFLOPS: "),
        ..StepLine::without_time(Trainer::ColossalAi, step)
    };
    let start = low + rank.map_or(at, <[u8]>::len);
    LinePiece::step_record(start, piece.position(rest) + record.len(), line)
}

/// `Step 7 | loss:1.75 lr:2e-05 ` (@bd2a0fc).
pub(crate) fn read_torchtune_step(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    const FIELDS: FieldSyntax = FieldSyntax {
        separator: b" ",
        colon: b":",
        units: b"",
    };
    let (rest, step) = parse_count(&piece.text[hit + STEP_BEGINS.len()..]).ok()?;
    let rest = rest.strip_prefix(b" |")?;
    if !rest.starts_with(b" loss:") {
        return None;
    }
    let end = piece.position(rest) + FIELDS.fields_len(rest);
    LinePiece::step_record(hit, end, StepLine::without_time(Trainer::Torchtune, step))
        .filter(|_| piece.is_word_start(hit))
}

#[cfg(test)]
mod tests {
    use crate::trainer::tests::{found, one, steps};
    use crate::trainer::{Trainer, TrainerMark, TrainerPace};

    #[test]
    fn olmos_header_has_a_total_or_question_marks() {
        let stamp = "[2025-02-20 15:18:04] INFO     [olmo_core.console_logger:62, rank=0] ";
        for (header, total) in [
            ("[step=3/7,epoch=1]", Some(7)),
            ("[step=3/739328]", Some(739_328)),
            ("[step=3/???,epoch=1,eta=3m 5s]", None),
        ] {
            let (line, text) = one(&format!("x {stamp}{header}y"));
            assert_eq!((line.trainer, line.step), (Trainer::OlmoCore, 3));
            assert_eq!((line.total, line.wall_ms), (total, Some(1_740_064_684_000)));
            assert_eq!(text, format!("{stamp}{header}"));
        }
    }

    #[test]
    fn composers_header_may_have_its_metrics_behind() {
        for text in [
            "[batch=5/10]:",
            "[epoch=1][batch=5/10]:",
            "[batch=5/10]:  Train loss: 1.6",
        ] {
            let (line, got) = one(&format!("0: {text}"));
            assert_eq!(
                (line.trainer, line.step, line.total),
                (Trainer::Composer, 5, Some(10))
            );
            assert_eq!(got, text);
        }
        assert_eq!(one("[batch=5/10]:[batch").1, "[batch=5/10]:");
        let all = found("x[Eval batch=1/10] Eval on eval data");
        assert_eq!(
            (all.len(), all[0].start, all[0].mark),
            (1, 1, TrainerMark::Between)
        );
    }

    #[test]
    fn composers_rates_are_those_of_the_header_before() {
        let (line, _) = one(
            "[batch=5/10]: Train throughput/batches_per_sec: 0.25  Train throughput/device/flops_per_sec: 1.5e14",
        );
        assert_eq!(
            (line.pace, line.tflops),
            (Some(TrainerPace::Smoothed(4.0)), Some(150.0))
        );
        for (text, smoothed, tflops) in [
            ("Train throughput/batches_per_sec: 0.25", Some(4.0), None),
            (
                "Train throughput/device/flops_per_sec: 1.5e14",
                None,
                Some(150.0),
            ),
        ] {
            let all = found(&format!("\t {text}"));
            assert_eq!(
                (all.len(), all[0].mark),
                (1, TrainerMark::Metric { smoothed, tflops })
            );
            assert_eq!((all[0].start, all[0].end), (2, 2 + text.len()));
        }
        for text in [
            "Train throughput/samples_per_sec: 2.7330",
            "Train throughput/device/batches_per_sec: 0.0002",
        ] {
            assert!(found(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn colossalais_demos_print_time_and_speed() {
        for (text, speed) in [
            (
                "[3/10] Loss:1.234, Step time: 0.500s, TFLOPS: 167.430, FWD time: 0.1s",
                Some(167.43),
            ),
            ("Rank0 , [3/10] , Step time: 0.500s", None),
        ] {
            let (line, got) = one(&format!("x {text}[0"));
            assert_eq!(
                (line.trainer, line.step, line.total),
                (Trainer::ColossalAi, 3, Some(10))
            );
            assert_eq!((line.time_s, line.tflops), (Some(0.5), speed));
            assert_eq!(got, text);
        }
    }

    #[test]
    fn torchtunes_logger_numbers_its_steps() {
        let (line, text) = one("x Step 7 | loss:1.75 lr:2e-05 n:5 ");
        assert_eq!((line.trainer, line.step), (Trainer::Torchtune, 7));
        assert_eq!(text, "Step 7 | loss:1.75 lr:2e-05 n:5");
    }

    #[test]
    fn look_alikes_are_refused() {
        for text in [
            "[step=3/7",
            "step=3/7]",
            "[token=1048576/5000000]:",
            "[batch=5]:",
            "minibatch=5/10]:",
            "INFO: Step time: 22.885  ",
            "[1/1] [0% ] Step time: 1s",
            "step | loss:1",
        ] {
            assert_eq!(steps(text), 0, "{text}");
        }
    }
}
