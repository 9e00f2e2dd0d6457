//! Speech trainers: ESPnet, icefall and FunASR.

use crate::trainer::facts::{STEP, SampleLine, TrainerFacts};
use crate::trainer::parts::number::{number_after, parse_count, suffix_len};
use crate::trainer::parts::piece::LinePiece;
use crate::trainer::parts::prefix::find_logger_prefix;
use crate::trainer::{StepLine, Trainer, TrainerRecord};

/// Of `1epoch:train:1-90batch: `.
const ESPNET_TRAIN: &[u8] = b"epoch:train:";
/// icefall's loss over the last batches; its evaluations have none.
const ICEFALL_LOSS: &[u8] = b"tot_loss[";

/// ESPnet 2. It counts batches in each epoch, and prints the last one of an interval.
pub(crate) const ESPNET: TrainerFacts = TrainerFacts {
    words: &[(ESPNET_TRAIN, read_espnet_interval)],
    aliases: &["espnet2"],
    samples: &[SampleLine::new(
        "2026-04-23 04:59:25,764 (trainer:793) INFO: 1epoch:train:1-90batch: iter_time=0.003, forward_time=0.095, train_time=0.734",
        90,
        Some(0.734),
    )],
    ..TrainerFacts::named("espnet")
};
/// icefall (k2). Every rank prints, and counts batches from 0 in each epoch.
pub(crate) const ICEFALL: TrainerFacts = TrainerFacts {
    words: &[(ICEFALL_LOSS, read_icefall_batch)],
    aliases: &["k2"],
    first: 0,
    every_rank: true,
    samples: &[SampleLine::new(
        "2023-01-01 12:00:00,123 INFO [train.py:892] (0/8) Epoch 1, batch 50, loss[loss=0.5, over 3.00 frames. ], tot_loss[loss=0.6, over 9.00 frames. ], batch size: 30",
        50,
        None,
    )],
    ..TrainerFacts::named("icefall")
};
/// FunASR. Every rank prints.
pub(crate) const FUNASR: TrainerFacts = TrainerFacts {
    words: &[(STEP, read_funasr_step)],
    every_rank: true,
    samples: &[SampleLine::new(
        "[2024-05-01 12:00:00,123][root][INFO] - train, rank: 0, epoch: 0/50, data_slice: 0/1, step_in_slice: 50/1234, step_in_epoch: 50, total step: 50, (loss_avg_rank: 1.2), {'forward_time': '0.1', 'total_time': '0.4'}",
        50,
        Some(0.4),
    )],
    ..TrainerFacts::named("funasr")
};

/// A record from `at` to the end of the line: loggers write it with its end.
fn step_record(piece: &LinePiece<'_>, at: usize, mut line: StepLine) -> Option<TrainerRecord> {
    let (start, wall_ms) = find_logger_prefix(piece.text, piece.floor, at);
    line.wall_ms = wall_ms;
    LinePiece::step_record(start, piece.text.len(), line)
}

/// `1epoch:train:91-180batch: iter_time=4.780e-04, forward_time=0.055, .., train_time=0.514`
/// (`espnet2/train/trainer.py` and `reporter.py`, v.202402). `train_time` is the mean time of an
/// optimizer's step, which may have several batches; the others are its parts.
fn read_espnet_interval(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let (before, low) = piece.free_text_before(hit);
    let digits = suffix_len(before, |b| b.is_ascii_digit());
    let (_, epoch) = parse_count(&before[before.len() - digits..]).ok()?;
    let range = &piece.text[hit + ESPNET_TRAIN.len()..];
    let (rest, _) = parse_count(range).ok()?;
    let (rest, step) = parse_count(rest.strip_prefix(b"-")?).ok()?;
    let fields = rest.strip_prefix(b"batch: ")?;
    let line = StepLine {
        epoch: Some(epoch),
        time_s: number_after(fields, b", train_time="),
        ..StepLine::without_time(Trainer::EspNet, step)
    };
    step_record(piece, low + before.len() - digits, line)
}

/// `Epoch 1, batch 50, loss[loss=0.5, ..], tot_loss[loss=0.6, ..], batch size: 30` of icefall's
/// recipes (`egs/*/ASR/*/train.py`), with `(0/8) ` in front if there are several ranks.
fn read_icefall_batch(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let at = piece.find_back(b"Epoch ", hit)?;
    let (rest, epoch) = parse_count(&piece.text[at + 6..hit]).ok()?;
    let (rest, step) = parse_count(rest.strip_prefix(b", batch ")?).ok()?;
    if !rest.starts_with(b", ") {
        return None;
    }
    let (before, low) = piece.free_text_before(at);
    let rank = before.strip_suffix(b") ").and_then(|inside| {
        let len = suffix_len(inside, |b| b.is_ascii_digit() || b == b'/');
        inside[..inside.len() - len].strip_suffix(b"(")
    });
    let line = StepLine {
        epoch: Some(epoch),
        ..StepLine::without_time(Trainer::Icefall, step)
    };
    step_record(piece, rank.map_or(at, |left| low + left.len()), line)
}

/// `train, rank: 0, epoch: 0/50, .. total step: 50, .. {.. 'total_time': '0.4'}, ..`
/// (`funasr/train_utils/trainer.py`, 1.1): `total_time` is the time of a batch, the others are its
/// parts. `val, rank: ..` is an evaluation.
fn read_funasr_step(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let (rest, step) = parse_count(piece.text[hit..].strip_prefix(b"step: ")?).ok()?;
    let total = piece.skip_word_back(b", total ", hit);
    let at = piece
        .find_back(b"train, rank: ", total)
        .filter(|_| total < hit)?;
    let line = StepLine {
        time_s: number_after(rest, b"'total_time': "),
        ..StepLine::without_time(Trainer::FunAsr, step)
    };
    step_record(piece, at, line)
}

#[cfg(test)]
mod tests {
    use crate::trainer::tests::{found, one, steps};

    #[test]
    fn espnet_prints_the_last_batch_of_an_interval() {
        let text = "2026-04-23 04:59:37,331 (trainer:793) INFO: 12epoch:train:91-180batch: \
                    iter_time=4.780e-04, forward_time=0.055, backward_time=0.041, clip=100.000, \
                    optim_step_time=0.010, train_time=0.514";
        let (line, got) = one(&format!("[host7] {text}"));
        assert_eq!(
            (line.step, line.epoch, line.time_s),
            (180, Some(12), Some(0.514))
        );
        assert_eq!((got.as_str(), line.wall_ms.is_some()), (text, true));
    }

    #[test]
    fn icefalls_ranks_count_batches() {
        for rank in ["(3/8) ", ""] {
            let text = format!(
                "2023-01-01 12:00:00,123 INFO [train.py:892] {rank}Epoch 2, batch 0, loss[loss=0.5, \
                 over 9.00 frames. ], tot_loss[loss=0.5, over 9.00 frames. ], batch size: 30, lr: 4.5e-02"
            );
            let (line, got) = one(&text);
            assert_eq!((line.step, line.epoch, line.time_s), (0, Some(2), None));
            assert_eq!((got, line.wall_ms.is_some()), (text, true));
        }
    }

    #[test]
    fn funasr_counts_over_the_epochs() {
        let text = "[2024-05-01 12:00:00,123][root][INFO] - train, rank: 3, epoch: 1/50, data_slice: \
                    0/1, step_in_slice: 50/1234, step_in_epoch: 50, total step: 1284, \
                    (loss_avg_rank: 1.200), [('loss', 1.2)], {'data_load': '0.001', 'forward_time': \
                    '0.123', 'total_time': '0.412'}, GPU, memory: usage: 1.2 GB";
        let (line, got) = one(text);
        assert_eq!(
            (line.step, line.epoch, line.time_s),
            (1284, None, Some(0.412))
        );
        assert_eq!((got.as_str(), line.wall_ms.is_some()), (text, true));
    }

    #[test]
    fn evaluations_are_no_steps() {
        for text in [
            "1epoch:valid:1-90batch: iter_time=0.003",
            "Epoch 1, validation: loss[loss=0.5, over 9.00 frames. ], tot_loss",
            "val, rank: 0, epoch: 0/50, step_in_slice: 5/12, total step: 50, (loss_avg_rank: 1.2)",
            "tot_loss[loss=1]",
        ] {
            assert_eq!(steps(text), 0, "{text}: {:?}", found(text));
        }
    }
}
