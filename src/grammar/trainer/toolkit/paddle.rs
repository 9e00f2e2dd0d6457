//! Lines of PaddlePaddle's toolkits: PaddleNLP, PaddleClas, PaddleDetection, PaddleOCR, PaddleSeg.
//!
//! `batch_cost` and `avg_batch_cost` are the time of a step as a mean over some of the last steps;
//! `reader_cost` and `data_cost` are its part that reads data (PaddleClas 2.5 `ppcls/engine/train/utils.py`,
//! PaddleDetection 2.6 `ppdet/engine/callbacks.py`, PaddleOCR 2.7 `tools/program.py`, PaddleSeg 2.8
//! `paddleseg/core/train.py`).

use crate::trainer::facts::{STEP, SampleLine, TrainerFacts};
use crate::trainer::parts::number::{number_after, parse_count, parse_float, skip_blanks};
use crate::trainer::parts::piece::LinePiece;
use crate::trainer::parts::prefix::find_logger_prefix;
use crate::trainer::{StepLine, Trainer, TrainerPace, TrainerRecord};

/// The end of `batch_cost: ` and `avg_batch_cost: `.
const BATCH_COST: &[u8] = b"atch_cost: ";

/// PaddlePaddle's toolkits; PaddleDetection and PaddleClas count from 0 in each epoch.
pub(crate) const FACTS: TrainerFacts = TrainerFacts {
    words: &[
        (BATCH_COST, read_batch_cost),
        (STEP, read_interval),
        (STEP, read_global_step),
    ],
    aliases: &[
        "paddlenlp",
        "paddleclas",
        "paddledetection",
        "paddleocr",
        "paddleseg",
    ],
    samples: &[
        SampleLine::new(
            "[2022-08-31 14:25:49,741] [    INFO] - loss: 1.2155, learning_rate: 2.9e-05, global_step: 10, interval_runtime: 6.8718, interval_steps_per_second: 1.455, epoch: 0.0016",
            10,
            None,
        ),
        SampleLine::new(
            "[2022/09/01 13:08:54] ppcls INFO: [Train][Epoch 187/200][Iter: 1350/2502]lr(LinearWarmup): 0.00125, loss: 2.1, batch_cost: 0.53062s, reader_cost: 0.11223",
            1350,
            Some(0.53062),
        ),
        SampleLine::new(
            "[11/09 20:15:14] ppdet.engine INFO: Epoch: [53] [ 20/157] learning_rate: 0.000042 loss: 1.62 eta: 0:33:40 batch_cost: 0.4564 data_cost: 0.0005",
            20,
            Some(0.4564),
        ),
    ],
    ..TrainerFacts::named("paddle")
};

/// The rest of the line is the record: the toolkits' logger writes it with its end.
fn step_record(piece: &LinePiece<'_>, at: usize, mut line: StepLine) -> Option<TrainerRecord> {
    let (start, wall_ms) = find_logger_prefix(piece.text, piece.floor, at);
    line.wall_ms = wall_ms;
    LinePiece::step_record(start, piece.text.len(), line)
}

/// `12/345`.
fn parse_of_total(text: &[u8]) -> Option<(&[u8], u64, u64)> {
    let (rest, step) = parse_count(skip_blanks(text)).ok()?;
    let (rest, total) = parse_count(rest.strip_prefix(b"/")?).ok()?;
    Some((rest, step, total))
}

/// `[Train][Epoch 187/200][Iter: 1350/2502]lr(..): ..`; `[Eval][Epoch ..` is an evaluation.
fn parse_clas(text: &[u8]) -> Option<StepLine> {
    let (rest, epoch, _) = parse_of_total(text)?;
    let (rest, step, total) = parse_of_total(rest.strip_prefix(b"][Iter: ")?)?;
    rest.starts_with(b"]").then_some(StepLine {
        epoch: Some(epoch),
        total: Some(total),
        ..StepLine::without_time(Trainer::Paddle, step)
    })
}

/// `Epoch: [53] [ 20/157] learning_rate: ..`.
fn parse_detection(text: &[u8]) -> Option<StepLine> {
    let (rest, epoch) = parse_count(text).ok()?;
    let (rest, step, total) = parse_of_total(rest.strip_prefix(b"] [")?)?;
    rest.starts_with(b"] learning_rate: ").then_some(StepLine {
        epoch: Some(epoch),
        total: Some(total),
        ..StepLine::without_time(Trainer::Paddle, step)
    })
}

/// `epoch: [1/400], global_step: 20, ..`, up to 2.2 `iter: 20`; it counts over the epochs.
fn parse_ocr(text: &[u8]) -> Option<StepLine> {
    let (rest, ..) = parse_of_total(text)?;
    let names = [&b"], global_step: "[..], b"], iter: "];
    let step = names.iter().find_map(|name| rest.strip_prefix(*name))?;
    let (rest, step) = parse_count(step).ok()?;
    rest.starts_with(b",")
        .then(|| StepLine::without_time(Trainer::Paddle, step))
}

/// `[TRAIN] epoch: 1, iter: 10/1000, loss: ..`, up to 2.0 `epoch=1, iter=10/1000`; it counts over the
/// epochs.
fn parse_seg(text: &[u8]) -> Option<StepLine> {
    let sign: fn(&'_ [u8]) -> Option<&'_ [u8]> =
        |text: &[u8]| text.strip_prefix(b": ").or_else(|| text.strip_prefix(b"="));
    let (rest, _) = parse_count(sign(text)?).ok()?;
    let (_, step, total) = parse_of_total(sign(rest.strip_prefix(b", iter")?)?)?;
    Some(StepLine {
        total: Some(total),
        ..StepLine::without_time(Trainer::Paddle, step)
    })
}

/// A line with the time of a step, in seconds.
fn read_batch_cost(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    type Parser = fn(&[u8]) -> Option<StepLine>;
    let heads: [(&[u8], Parser); 4] = [
        (b"[Train][Epoch ", parse_clas),
        (b"Epoch: [", parse_detection),
        (b"epoch: [", parse_ocr),
        (b"[TRAIN] epoch", parse_seg),
    ];
    let (at, line) = heads.iter().find_map(|(head, parse)| {
        let at = piece.find_back(head, hit)?;
        Some((at, parse(&piece.text[at + head.len()..hit])?))
    })?;
    let time_s = parse_float(&piece.text[hit + BATCH_COST.len()..]).1;
    step_record(piece, at, StepLine { time_s, ..line })
}

/// `loss: 1.2, learning_rate: 2.9e-05, global_step: 10, .. interval_runtime: 6.8718, ..
/// interval_steps_per_second: 1.455, ..`: the time of all steps since the line before (PaddleNLP
/// `paddlenlp/trainer/trainer.py`, 2.4 to 3.0).
fn read_interval(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let (rest, step) = parse_count(piece.text[hit..].strip_prefix(b"step: ")?).ok()?;
    let names = piece.skip_word_back(b", global_", hit);
    let at = piece.find_back(b"loss: ", names).filter(|_| names < hit)?;
    let time_s = number_after(rest, b", interval_runtime: ")?;
    // Of many steps the rate has too few digits for their number.
    let all = number_after(rest, b", interval_steps_per_second: ").map(|rate| rate * time_s);
    let steps = all.filter(|all| (1.0..1e6).contains(all) && (all - all.round()).abs() < 0.1);
    let line = StepLine {
        pace: Some(TrainerPace::Sum {
            time_s,
            steps: steps.map(|steps| steps.round() as u64),
        }),
        ..StepLine::without_time(Trainer::Paddle, step)
    };
    step_record(piece, at, line)
}

/// `global step 10, epoch: 0, batch: 9, loss: 0.69, avg_reader_cost: 0.05 sec, avg_batch_cost: 0.43 sec, ..`
/// and `.., speed: 2.03 step/s`, both means since the line before (PaddleNLP 2.0 to 2.5, `examples`
/// and `model_zoo`).
fn read_global_step(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let at = Some(piece.skip_word_back(b"global ", hit)).filter(|at| *at < hit)?;
    let (rest, step) = parse_count(piece.text[hit..].strip_prefix(b"step ")?).ok()?;
    if !rest.starts_with(b", epoch: ") || memchr::memmem::find(rest, b", batch: ").is_none() {
        return None;
    }
    let speed = memchr::memmem::find(rest, b" step/s").and_then(|_| {
        let rate = number_after(rest, b", speed: ")?;
        Some(rate.recip()).filter(|time| time.is_finite())
    });
    let line = StepLine {
        time_s: number_after(rest, b", avg_batch_cost: ").or(speed),
        ..StepLine::without_time(Trainer::Paddle, step)
    };
    step_record(piece, at, line)
}

#[cfg(test)]
mod tests {
    use crate::trainer::tests::{found, one, steps};
    use crate::trainer::{Trainer, TrainerPace};

    #[test]
    fn paddlenlp_prints_the_time_of_an_interval() {
        let text = "[2022-08-31 14:25:55,321] [    INFO] - loss: 1.12669315, learning_rate: 3e-05, \
                    global_step: 20, current_memory_allocated: 7.5, interval_runtime: 5.5807, \
                    interval_samples_per_second: 11.468, interval_steps_per_second: 1.792, \
                    progress_or_epoch: 0.0033";
        let (line, got) = one(&format!("0: {text}"));
        assert_eq!(
            (line.trainer, line.step, got.as_str()),
            (Trainer::Paddle, 20, text)
        );
        let pace = TrainerPace::Sum {
            time_s: 5.5807,
            steps: Some(10),
        };
        assert_eq!((line.pace, line.wall_ms.is_some()), (Some(pace), true));
    }

    #[test]
    fn other_toolkits_print_the_time_of_a_step() {
        for (text, step, epoch, total, time) in [
            (
                "[2022/05/15 16:56:04] root INFO: [Train][Epoch 198/300][Iter: 1560/1669]lr: 0.00007, loss: 2.5, batch_cost: 0.84729s, reader_cost: 0.00073, ips: 226.6 images/sec",
                1560,
                Some(198),
                Some(1669),
                0.84729,
            ),
            (
                "[08/15 04:02:46] ppdet.engine INFO: Epoch: [0] [   0/1929] learning_rate: 0.04 loss: 2.9 eta: 17 days, 13:50:26 batch_cost: 15.7452 data_cost: 2.9112 ips: 1.5",
                0,
                Some(0),
                Some(1929),
                15.7452,
            ),
            (
                "[2022/08/16 03:07:33] ppocr INFO: epoch: [1/400], global_step: 20, lr: 0.0001, loss: 3.9, avg_reader_cost: 2.63382 s, avg_batch_cost: 6.32390 s, avg_samples: 48.0",
                20,
                None,
                None,
                6.3239,
            ),
            (
                "2022-08-16 03:07:33 [INFO]\t[TRAIN] epoch: 1, iter: 10/1000, loss: 1.2, lr: 0.01, batch_cost: 0.1234, reader_cost: 0.0123, ips: 12.3 samples/sec | ETA 00:12:34",
                10,
                None,
                Some(1000),
                0.1234,
            ),
            (
                "[2021-08-16 03:07:33,100] [    INFO] - global step 10, epoch: 0, batch: 9, loss: 0.69, avg_reader_cost: 0.05 sec, avg_batch_cost: 0.43 sec, avg_samples: 8.0",
                10,
                None,
                None,
                0.43,
            ),
            (
                "global step 10, epoch: 0, batch: 9, loss: 0.69, speed: 2.50 step/s",
                10,
                None,
                None,
                0.4,
            ),
        ] {
            let (line, got) = one(text);
            assert_eq!(
                (line.step, line.epoch, line.total),
                (step, epoch, total),
                "{text}"
            );
            assert_eq!(line.time_s, Some(time), "{text}");
            assert!(text.ends_with(&got), "{got}");
        }
    }

    #[test]
    fn evaluations_are_no_steps() {
        for text in [
            "[2022/05/15 16:56:04] ppcls INFO: [Eval][Epoch 1][Iter: 0/782]loss: 2.5, batch_cost: 0.8s, reader_cost: 0.1",
            "loss: 2, global_step: 20, epoch: 1",
            "global step 10, epoch 0",
            "batch_cost: 0.4",
        ] {
            assert_eq!(steps(text), 0, "{text}: {:?}", found(text));
        }
    }
}
