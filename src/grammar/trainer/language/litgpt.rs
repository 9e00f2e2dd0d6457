//! litGPT's and nanoGPT's lines.
//!
//! litGPT's `iter` is a micro-batch, and so is its time; only a line with ` (step)` closes a step
//! (@2685705). nanoGPT's iteration is a whole step.

use nom::branch::alt;
use nom::bytes::complete::tag;
use nom::{IResult, Parser};

use crate::trainer::facts::LOSS;
use crate::trainer::facts::{SampleLine, TrainerFacts};
use crate::trainer::parts::number::{
    parse_count, parse_float, parse_millis, prefix_len, skip_blanks, suffix_len,
};
use crate::trainer::parts::piece::LinePiece;
use crate::trainer::{StepLine, Trainer, TrainerMark, TrainerRecord};

/// litGPT's field of the micro-batch's time.
pub(crate) const ITER_TIME_FIELD: &[u8] = b"iter time: ";

/// litGPT and nanoGPT.
pub(crate) const FACTS: TrainerFacts = TrainerFacts {
    words: &[
        (ITER_TIME_FIELD, read_litgpt_iteration),
        (LOSS, read_nanogpt_iteration),
        (LOSS, read_litgpt_validation),
    ],
    samples: &[
        SampleLine::new(
            "Epoch 34 | iter 30 step 6 | loss | iter time: 1.2 ms (step) remaining time: 0:01:54",
            6,
            None,
        ),
        SampleLine::new("iter 16: loss 4.0, time 5.9ms, mfu 1.0%", 16, Some(0.0059)),
    ],
    ..TrainerFacts::named("litgpt")
};

fn head(input: &[u8]) -> IResult<&[u8], u64> {
    let (rest, (_, _, _, step)) = (
        tag("iter "),
        parse_count,
        alt((tag(" step "), tag(" | step "))),
        parse_count,
    )
        .parse(input)?;
    Ok((rest, step))
}

/// `Epoch 34 | iter 3050700 step 610140 | loss train: 2.8, val: 2.8 | iter time: 1.2 ms (step)`.
pub(crate) fn read_litgpt_iteration(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let (rest, _) = parse_float(&piece.text[hit + ITER_TIME_FIELD.len()..]);
    let (rest, _) = closing(rest).ok()?;
    // ` | iter time` itself is at the hit, so the nearest before is the head's.
    let at = piece.find_back(b"| iter ", hit.saturating_sub(1))? + 2;
    let (_, step) = head(&piece.text[at..]).ok()?;
    let (before, low) = piece.free_text_before(at);
    let epoch = before.strip_suffix(b" | ").map_or(before, |b| {
        &b[..b.len() - suffix_len(b, |b| b.is_ascii_digit())]
    });
    let words = [&b"Epoch "[..], b"Ep "];
    let start = words.iter().find_map(|word| epoch.strip_suffix(*word));
    let left = rest
        .strip_prefix(b" remaining time: ")
        .map_or(rest, |time| {
            &time[prefix_len(time, |b| b.is_ascii_digit() || b":, days".contains(&b))..]
        });
    let start = start.map_or(at, |start| low + start.len());
    LinePiece::step_record(
        start,
        piece.position(left),
        StepLine::without_time(Trainer::LitGpt, step),
    )
}

fn closing(input: &[u8]) -> IResult<&[u8], &[u8]> {
    // `(opt.step)` was the wording while PR #1055 was open.
    alt((tag(" ms (step)"), tag(" ms (opt.step)"))).parse(input)
}

/// Where `word` and a number are right before `at`.
fn find_number_before(piece: &LinePiece<'_>, word: &[u8], at: usize) -> Option<(usize, u64)> {
    let (before, low) = piece.free_text_before(at);
    let digits = suffix_len(before, |b| b.is_ascii_digit());
    let (word_end, number) = before.split_at(before.len() - digits);
    let start = low + word_end.strip_suffix(word)?.len();
    let (_, step) = parse_count(number).ok()?;
    piece.is_word_start(start).then_some((start, step))
}

/// `iter 1631: loss 4.0863, time 561.94ms`.
pub(crate) fn read_nanogpt_iteration(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let colon = Some(piece.skip_word_back(b":", hit)).filter(|colon| *colon < hit)?;
    let (start, step) = find_number_before(piece, b"iter ", colon)?;
    let (rest, _) = parse_float(&piece.text[hit + LOSS.len()..]);
    let (rest, time_s) = parse_millis(rest.strip_prefix(b", time ")?);
    let rest = rest.strip_prefix(b"ms")?;
    let left = rest.strip_prefix(b", mfu ").map_or(rest, |mfu| {
        let tail = parse_float(mfu).0;
        tail.strip_prefix(b"%").unwrap_or(tail)
    });
    let line = StepLine {
        time_s,
        ..StepLine::without_time(Trainer::LitGpt, step)
    };
    LinePiece::step_record(start, piece.position(left), line)
}

/// `iter 100: val loss 3.1, val time: 1.2 ms` and `step 2000: train loss 1.2, val loss 1.3`.
pub(crate) fn read_litgpt_validation(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let (rest, value) = parse_float(&piece.text[hit + LOSS.len()..]);
    value?;
    let hit = Some(piece.skip_word_back(b"val", hit)).filter(|val| *val < hit)?;
    let left = rest.strip_prefix(b", val time: ").map_or(rest, |time| {
        let tail = skip_blanks(parse_float(time).0);
        tail.strip_prefix(b"ms").unwrap_or(tail)
    });
    let colon = piece.skip_word_back(b": ", hit);
    let start = if colon < hit {
        find_number_before(piece, b"iter ", colon)?.0
    } else {
        let train = piece.find_back(b": train loss ", hit)?;
        let (tail, _) = parse_float(&piece.text[train + b": train loss ".len()..hit]);
        if tail != b", " {
            return None;
        }
        find_number_before(piece, b"step ", train)?.0
    };
    Some(TrainerRecord {
        start,
        end: piece.position(left),
        mark: TrainerMark::Between,
    })
}

#[cfg(test)]
mod tests {
    use crate::trainer::tests::{found, one, steps};
    use crate::trainer::{Trainer, TrainerMark};

    #[test]
    fn only_a_closed_step_counts_and_without_the_micro_batchs_time() {
        let record = "Epoch 34 | iter 3050 step 610 | loss train: 2.8, val: n/a | \
            iter time: 112.20 ms (step) remaining time: 0:01:54";
        let (line, text) = one(&format!("0: {record}[x"));
        assert_eq!(
            (line.trainer, line.step, line.time_s),
            (Trainer::LitGpt, 610, None)
        );
        assert_eq!(text, record);
        assert_eq!(steps(&record.replace(" (step)", "")), 0);
        let (line, _) = one("Ep 1 | iter 4 | step 1: loss train | iter time: 1.3 ms (opt.step)");
        assert_eq!(line.step, 1);
    }

    #[test]
    fn nanogpts_iteration_is_a_step_with_its_time() {
        let (line, text) = one("x iter 1631: loss 4.0863, time 561.94ms, mfu 12.30%h");
        assert_eq!((line.step, line.time_s), (1631, Some(0.56194)));
        assert_eq!(text, "iter 1631: loss 4.0863, time 561.94ms, mfu 12.30%");
    }

    #[test]
    fn validations_end_what_is_between_steps() {
        for text in [
            "iter 100: val loss 3.1234, val time: 1234.56 ms",
            "step 2000: train loss 1.2000, val loss 1.3000",
        ] {
            let all = found(&format!("0: {text}"));
            assert_eq!(
                (all.len(), all[0].mark),
                (1, TrainerMark::Between),
                "{text}"
            );
            assert_eq!((all[0].start, all[0].end), (3, 3 + text.len()));
        }
        for text in [
            "val loss 3.1",
            "iter x: loss 4.0, time 5ms",
            "iter 1: loss 4.0, time 5s",
        ] {
            assert!(found(text).is_empty(), "{text}");
        }
    }
}
