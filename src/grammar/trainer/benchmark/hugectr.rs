//! HugeCTR's lines (`HugeCTR/src/pybind/model.cpp`, 2.x to 23.x).
//!
//! The time is the sum of the iterations that the line names and of the evaluation between them, which has a
//! line
//! of its own with its time.

use nom::bytes::complete::tag;
use nom::{IResult, Parser};

use crate::trainer::facts::ITER;
use crate::trainer::facts::{SampleLine, TrainerFacts};
use crate::trainer::parts::number::{parse_count, parse_float};
use crate::trainer::parts::piece::LinePiece;
use crate::trainer::{EvaluationLine, StepLine, Trainer, TrainerMark, TrainerPace, TrainerRecord};

/// How an evaluation's line begins.
const HUGECTR_EVAL_TIME: &[u8] = b"Eval Time for ";

/// HugeCTR.
pub(crate) const FACTS: TrainerFacts = TrainerFacts {
    words: &[
        (ITER, read_hugectr_iterations),
        (HUGECTR_EVAL_TIME, read_hugectr_evaluation),
    ],
    samples: &[SampleLine::new(
        "[HCTR][06:43:51.335][INFO][RK0][main]: Iter: 1000 Time(1000 iters): 3.118911s Loss: 0.1 lr:0.4",
        1000,
        None,
    )],
    ..TrainerFacts::named("hugectr")
};

/// Length of `text` without `[HUGECTR][00:08:24][INFO][RANK0]: ` at its end, or
/// `[20d02h08m31s][HUGECTR][INFO]: `, or `[HCTR][06:43:51.335][INFO][RK0][main]: `.
fn len_without_prefix(text: &[u8]) -> Option<usize> {
    let mut left = text.strip_suffix(b": ")?;
    loop {
        let (before, inside) = split_last_group(left)?;
        left = before;
        if matches!(inside, b"HUGECTR" | b"HCTR") {
            break;
        }
    }
    let stamped = split_last_group(left).filter(|(_, inside)| {
        inside.ends_with(b"s")
            && inside
                .iter()
                .all(|b| b.is_ascii_digit() || b"dhms".contains(b))
    });
    Some(stamped.map_or(left.len(), |(before, _)| before.len()))
}

/// Splits `text` into the part before a group in brackets at its end and the contents of the brackets.
fn split_last_group(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let group = text.strip_suffix(b"]")?;
    let open = memchr::memrchr(b'[', group)?;
    Some((&group[..open], &group[open + 1..]))
}

/// Where HugeCTR's prefix before `at` begins.
fn find_prefix_start(piece: &LinePiece<'_>, at: usize) -> usize {
    let (before, low) = piece.free_text_before(at);
    len_without_prefix(before).map_or(at, |length| low + length)
}

fn head(input: &[u8]) -> IResult<&[u8], (u64, u64)> {
    let (rest, (_, step, _, n, _)) = (
        tag("Iter: "),
        parse_count,
        tag(" Time("),
        parse_count,
        tag(" iters): "),
    )
        .parse(input)?;
    Ok((rest, (step, n)))
}

/// `Iter: 1000 Time(1000 iters): 3.118911s Loss: 0.126082 lr:0.004`.
fn read_hugectr_iterations(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let (rest, (step, n)) = head(&piece.text[hit..]).ok()?;
    let (rest, time_s) = parse_float(rest);
    let mut rest = rest.strip_prefix(b"s")?;
    for name in [&b" Loss: "[..], b" lr:"] {
        rest = rest
            .strip_prefix(name)
            .map_or(rest, |value| parse_float(value).0);
    }
    let line = StepLine {
        pace: time_s.map(|time_s| TrainerPace::Sum {
            time_s,
            steps: Some(n),
        }),
        ..StepLine::without_time(Trainer::HugeCtr, step)
    };
    LinePiece::step_record(find_prefix_start(piece, hit), piece.position(rest), line)
}

/// `Eval Time for 681 iters: 5.76215s`.
fn read_hugectr_evaluation(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let (rest, _) = parse_count(&piece.text[hit + HUGECTR_EVAL_TIME.len()..]).ok()?;
    let (rest, took) = parse_float(rest.strip_prefix(b" iters: ")?);
    Some(TrainerRecord {
        start: find_prefix_start(piece, hit),
        end: piece.position(rest.strip_prefix(b"s").unwrap_or(rest)),
        mark: TrainerMark::Evaluation(EvaluationLine::Took(took?)),
    })
}

#[cfg(test)]
mod tests {
    use crate::trainer::tests::{found, one, steps};
    use crate::trainer::{EvaluationLine, Trainer, TrainerMark, TrainerPace};

    #[test]
    fn a_line_sums_the_time_of_its_iterations() {
        for prefix in [
            "[HUGECTR][00:08:24][INFO][RANK0]: ",
            "[20d02h08m31s][HUGECTR][INFO]: ",
            "[HCTR][06:43:51.335][INFO][RK0][main]: ",
            "",
        ] {
            for more in ["", " Loss: 0.126082", " Loss: 0.126 lr:24.000000"] {
                let text = format!("{prefix}Iter: 3000 Time(1000 iters): 3.118911s{more}");
                let (line, got) = one(&format!("0: {text}[x"));
                assert_eq!((line.trainer, line.step), (Trainer::HugeCtr, 3000));
                let pace = TrainerPace::Sum {
                    time_s: 3.118911,
                    steps: Some(1000),
                };
                assert_eq!((line.pace, got), (Some(pace), text));
            }
        }
    }

    #[test]
    fn an_evaluation_says_how_long_it_took() {
        let text = "[HCTR][20:51:00.060][INFO][RK0][main]: Eval Time for 681 iters: 5.76215s";
        let all = found(text);
        let mark = TrainerMark::Evaluation(EvaluationLine::Took(5.76215));
        assert_eq!((all.len(), all[0].mark), (1, mark));
        assert_eq!((all[0].start, all[0].end), (0, text.len()));
    }

    #[test]
    fn other_iterations_are_refused() {
        for text in [
            "5 iters",
            "Iter: x Time(10 iters): 1s",
            "Time(10 iters): 1s",
            "Decoder iters 12",
        ] {
            assert_eq!(steps(text), 0, "{text}");
            assert!(found(text).is_empty(), "{text}");
        }
    }
}
