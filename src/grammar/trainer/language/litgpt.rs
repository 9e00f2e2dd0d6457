//! litGPT's and nanoGPT's lines.
//!
//! litGPT's `iter` is a micro-batch, and so is its time; only a line with ` (step)` closes a step
//! (@2685705). nanoGPT's iteration is a whole step.

use nom::branch::alt;
use nom::bytes::complete::tag;
use nom::{IResult, Parser};

use crate::trainer::facts::Facts;
use crate::trainer::facts::LOSS;
use crate::trainer::parts::number::{blanks, count, float, millis, run, run_back};
use crate::trainer::parts::piece::Piece;
use crate::trainer::{Found, Mark, StepLine, Trainer};

/// litGPT's field of the micro-batch's time.
pub(crate) const ANCHOR: &[u8] = b"iter time: ";

/// litGPT and nanoGPT.
pub(crate) const FACTS: Facts = Facts::of(
    Trainer::LitGpt,
    "litgpt",
    &[(ANCHOR, closed), (LOSS, nano), (LOSS, validated)],
);

fn head(input: &[u8]) -> IResult<&[u8], u64> {
    let (rest, (_, _, _, step)) = (
        tag("iter "),
        count,
        alt((tag(" step "), tag(" | step "))),
        count,
    )
        .parse(input)?;
    Ok((rest, step))
}

/// `Epoch 34 | iter 3050700 step 610140 | loss train: 2.8, val: 2.8 | iter time: 1.2 ms (step)`.
pub(crate) fn closed(piece: &Piece<'_>, hit: usize) -> Option<Found> {
    let (rest, _) = float(&piece.text[hit + ANCHOR.len()..]);
    let (rest, _) = closing(rest).ok()?;
    // ` | iter time` itself is at the hit, so the nearest before is the head's.
    let at = piece.find_back(b"| iter ", hit.saturating_sub(1))? + 2;
    let (_, step) = head(&piece.text[at..]).ok()?;
    let (before, low) = piece.before(at);
    let epoch = before.strip_suffix(b" | ").map_or(before, |b| {
        &b[..b.len() - run_back(b, |b| b.is_ascii_digit())]
    });
    let words = [&b"Epoch "[..], b"Ep "];
    let start = words.iter().find_map(|word| epoch.strip_suffix(*word));
    let left = rest
        .strip_prefix(b" remaining time: ")
        .map_or(rest, |time| {
            &time[run(time, |b| b.is_ascii_digit() || b":, days".contains(&b))..]
        });
    let start = start.map_or(at, |start| low + start.len());
    Piece::step(
        start,
        piece.position(left),
        StepLine::bare(Trainer::LitGpt, step),
    )
}

fn closing(input: &[u8]) -> IResult<&[u8], &[u8]> {
    // `(opt.step)` was the wording while PR #1055 was open.
    alt((tag(" ms (step)"), tag(" ms (opt.step)"))).parse(input)
}

/// Where `word` and a number are right before `at`.
fn numbered(piece: &Piece<'_>, word: &[u8], at: usize) -> Option<(usize, u64)> {
    let (before, low) = piece.before(at);
    let digits = run_back(before, |b| b.is_ascii_digit());
    let (word_end, number) = before.split_at(before.len() - digits);
    let start = low + word_end.strip_suffix(word)?.len();
    let (_, step) = count(number).ok()?;
    piece.word_at(start).then_some((start, step))
}

/// `iter 1631: loss 4.0863, time 561.94ms`.
pub(crate) fn nano(piece: &Piece<'_>, hit: usize) -> Option<Found> {
    let colon = Some(piece.over(b":", hit)).filter(|colon| *colon < hit)?;
    let (start, step) = numbered(piece, b"iter ", colon)?;
    let (rest, _) = float(&piece.text[hit + LOSS.len()..]);
    let (rest, time_s) = millis(rest.strip_prefix(b", time ")?);
    let rest = rest.strip_prefix(b"ms")?;
    let left = rest.strip_prefix(b", mfu ").map_or(rest, |mfu| {
        let tail = float(mfu).0;
        tail.strip_prefix(b"%").unwrap_or(tail)
    });
    let line = StepLine {
        time_s,
        ..StepLine::bare(Trainer::LitGpt, step)
    };
    Piece::step(start, piece.position(left), line)
}

/// `iter 100: val loss 3.1, val time: 1.2 ms` and `step 2000: train loss 1.2, val loss 1.3`.
pub(crate) fn validated(piece: &Piece<'_>, hit: usize) -> Option<Found> {
    let (rest, value) = float(&piece.text[hit + LOSS.len()..]);
    value?;
    let hit = Some(piece.over(b"val", hit)).filter(|val| *val < hit)?;
    let left = rest.strip_prefix(b", val time: ").map_or(rest, |time| {
        let tail = blanks(float(time).0);
        tail.strip_prefix(b"ms").unwrap_or(tail)
    });
    let colon = piece.over(b": ", hit);
    let start = if colon < hit {
        numbered(piece, b"iter ", colon)?.0
    } else {
        let train = piece.find_back(b": train loss ", hit)?;
        let (tail, _) = float(&piece.text[train + b": train loss ".len()..hit]);
        if tail != b", " {
            return None;
        }
        numbered(piece, b"step ", train)?.0
    };
    Some(Found {
        start,
        end: piece.position(left),
        mark: Mark::Between,
    })
}

#[cfg(test)]
mod tests {
    use crate::trainer::tests::{found, one, steps};
    use crate::trainer::{Mark, Trainer};

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
            assert_eq!((all.len(), all[0].mark), (1, Mark::Between), "{text}");
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
