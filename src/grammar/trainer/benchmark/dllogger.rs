//! Lines of NVIDIA's DLLogger, as R-GAT, RNN-T and the Deep Learning Examples write them.

use nom::branch::alt;
use nom::bytes::complete::tag;
use nom::character::complete::space1;
use nom::combinator::opt;
use nom::{IResult, Parser};

use crate::trainer::facts::ITER;
use crate::trainer::facts::{SampleLine, TrainerFacts};
use crate::trainer::parts::number::{
    bytes_after, parse_count, parse_float, parse_millis, skip_blanks, suffix_len,
};
use crate::trainer::parts::piece::LinePiece;
use crate::trainer::parts::prefix::parse_stamp_millis;
use crate::trainer::{StepLine, Trainer, TrainerMark, TrainerPace, TrainerRecord};

/// How a line begins, up to the century.
const DLL_LINE_START: &[u8] = b"DLL 20";
/// A field of RNN-T.
const RNNT_TOOK_FIELD: &[u8] = b"| took ";

/// DLLogger; the programs count from 0 or from 1.
pub(crate) const FACTS: TrainerFacts = TrainerFacts {
    words: &[(ITER, read_dllogger), (RNNT_TOOK_FIELD, read_dllogger)],
    aliases: &["rnnt", "rgat"],
    samples: &[
        SampleLine::new(
            "DLL 2025-04-27 22:27:25.391486 - Iteration 0 | iteration_time : 194.40 ms | x : 8.0078",
            0,
            Some(0.1944),
        ),
        SampleLine::new(
            "DLL 2021-05-19 10:33:11.034765 - epoch   10 | iter  101/272 | loss 5.1 | took  0.30 s | l 4e-03",
            101,
            None,
        ),
    ],
    ..TrainerFacts::named("dllogger")
};

/// What follows the stamp.
enum DllHead {
    /// `Iteration 200 |`
    Iteration(u64),
    /// `epoch   10 | iter  101/272 |`
    Iter(u64, u64, u64),
    /// `Training Epoch: 0 Training Iteration: 5 ` and `Epoch: 0 Iteration: 20 `
    Named(u64),
}

fn head(input: &[u8]) -> IResult<&[u8], DllHead> {
    let iteration =
        (tag("Iteration "), parse_count, tag(" |")).map(|(_, n, _)| DllHead::Iteration(n));
    let iter = (
        tag("epoch"),
        space1,
        parse_count,
        tag(" | iter"),
        space1,
        parse_count,
        tag("/"),
        parse_count,
        tag(" |"),
    )
        .map(|(_, _, epoch, _, _, n, _, total, _)| DllHead::Iter(epoch, n, total));
    let named = (
        opt(tag("Training ")),
        tag("Epoch: "),
        parse_count,
        tag(" "),
        opt(tag("Training ")),
        tag("Iteration: "),
        parse_count,
        tag(" "),
    )
        .map(|(_, _, _, _, _, _, n, _)| DllHead::Named(n));
    alt((iteration, iter, named)).parse(input)
}

/// Whether a line of other words is the end of an evaluation: `epoch   10 |   dev ema wer   9.14 |
/// took  0.46 s`, `.. Validation Iteration: 5`.
fn is_evaluation_end(text: &[u8]) -> bool {
    let has = |word: &[u8]| memchr::memmem::find(text, word).is_some();
    has(b" wer ") || has(b"Validation Iteration: ")
}

/// `DLL 2025-04-27 22:27:25.391486 - Iteration 0 | iteration_time : 194.40 ms | train_loss : 8.0`.
fn read_dllogger(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let hit = piece.find_back(DLL_LINE_START, hit)?;
    let text = &piece.text[hit..];
    let text = &text[..text.len() - suffix_len(text, |b| b == b' ')];
    let end = hit + text.len();
    let wall_ms = parse_stamp_millis(text.get(4..30)?)?;
    let body = text[30..].strip_prefix(b" - ")?;
    if is_evaluation_end(body) {
        return Some(TrainerRecord {
            start: hit,
            end,
            mark: TrainerMark::Between,
        });
    }
    let (rest, head) = head(body).ok()?;
    let bare = |step| StepLine {
        wall_ms: Some(wall_ms),
        ..StepLine::without_time(Trainer::DlLogger, step)
    };
    let line = match head {
        DllHead::Iteration(step) => StepLine {
            time_s: bytes_after(rest, b" iteration_time : ").and_then(|ms| parse_millis(ms).1),
            ..bare(step)
        },
        // The time since the line before, or since the epoch began (`train.py` of NVIDIA's
        // RNN-T, MLPerf v1.0).
        DllHead::Iter(epoch, step, total) => StepLine {
            epoch: Some(epoch),
            total: Some(total),
            pace: bytes_after(rest, RNNT_TOOK_FIELD)
                .and_then(|took| parse_float(skip_blanks(took)).1)
                .map(|time_s| TrainerPace::Sum {
                    time_s,
                    steps: None,
                }),
            ..bare(step)
        },
        // Some programs begin again in each epoch, others count on.
        DllHead::Named(step) => bare(step),
    };
    LinePiece::step_record(hit, end, line)
}

#[cfg(test)]
mod tests {
    use crate::trainer::tests::{found, one, steps};
    use crate::trainer::{Trainer, TrainerMark, TrainerPace};

    const STAMP: &str = "DLL 2025-04-27 22:27:25.391486 - ";

    #[test]
    fn iterations_have_a_time() {
        let text = format!(
            "{STAMP}Iteration 200 | train_acc : 0.1 % | iteration_time : 194.40 ms | x : 1"
        );
        let (line, got) = one(&format!(" 0: {text} "));
        assert_eq!((line.trainer, line.step), (Trainer::DlLogger, 200));
        assert_eq!(
            (line.time_s, line.wall_ms),
            (Some(0.1944), Some(1_745_792_845_391))
        );
        assert_eq!(got, text);
    }

    #[test]
    fn rnnt_sums_the_time_since_the_line_before() {
        let (line, _) = one(&format!(
            "{STAMP}epoch   10 | iter  101/272 | loss   52.94 | utts/s  3394 | took  0.30 s | lrate 4.00e-03"
        ));
        assert_eq!(
            (line.step, line.epoch, line.total),
            (101, Some(10), Some(272))
        );
        let pace = TrainerPace::Sum {
            time_s: 0.3,
            steps: None,
        };
        assert_eq!((line.pace, line.time_s), (Some(pace), None));
    }

    #[test]
    fn the_examples_name_epoch_and_iteration() {
        for words in [
            "Epoch: 3 Iteration: 20 ",
            "Training Epoch: 3 Training Iteration: 20 ",
        ] {
            let (line, _) = one(&format!("{STAMP}{words} train.loss : 6.98"));
            assert_eq!((line.step, line.epoch), (20, None));
        }
    }

    #[test]
    fn evaluations_are_between_steps_and_the_rest_is_nothing() {
        for words in [
            "epoch   27 |   dev ema wer   9.14 | took  0.46 s",
            "Epoch: 3 Iteration: 20  Validation Iteration: 5  val.loss : 6.9",
        ] {
            let all = found(&format!("{STAMP}{words}"));
            assert_eq!(
                (all.len(), all[0].mark),
                (1, TrainerMark::Between),
                "{words}"
            );
        }
        for words in [
            "epoch   12 | avg train utts/s  4868 | took 57.21 s",
            "PARAMETER | beta1 :  0.9",
        ] {
            assert!(found(&format!("{STAMP}{words}")).is_empty(), "{words}");
        }
        assert_eq!(steps("DLL 2025-04-27 - Iteration 200 | x"), 0);
    }
}
