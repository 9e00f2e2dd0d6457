//! timm and open_clip. Both print the last batch's values, and in parentheses or after them a mean.

use crate::trainer::facts::{SampleLine, TrainerFacts};
use crate::trainer::parts::number::{parse_count, parse_float, skip_blanks};
use crate::trainer::parts::piece::LinePiece;
use crate::trainer::parts::prefix::find_logger_prefix;
use crate::trainer::{StepLine, StepNumberUnit, Trainer, TrainerRecord};

/// timm's field of a batch's time.
const TIMM_TIME: &[u8] = b"  Time: ";
/// open_clip's field of a batch's time; `Data (t): ` is its part that reads data.
const CLIP_TIME: &[u8] = b"Batch (t): ";

/// timm's `train.py`; it counts from 0 in each epoch.
pub(crate) const TIMM: TrainerFacts = TrainerFacts {
    words: &[(TIMM_TIME, read_timm_batch)],
    first: 0,
    samples: &[SampleLine::new(
        "Train: 0 [  50/1251 (  4%)]  Loss: 6.95 (6.96)  Time: 0.456s, 2245.90/s  (0.567s, 1805.60/s)  LR: 1.000e-05  Data: 0.010 (0.050)",
        50,
        Some(0.456),
    )],
    ..TrainerFacts::named("timm")
};
/// open_clip; it counts samples in each epoch.
pub(crate) const OPEN_CLIP: TrainerFacts = TrainerFacts {
    words: &[(CLIP_TIME, read_clip_samples)],
    aliases: &["openclip"],
    samples: &[SampleLine::new(
        "2023-04-21,12:03:20 | INFO | Train Epoch: 0 [  32768/3200000 (1%)] Data (t): 0.029 Batch (t): 6.655, 2461.78/s, 76.9308/s/gpu LR: 0.000000",
        32768,
        Some(6.655),
    )],
    ..TrainerFacts::named("open_clip")
};

/// `0 [  50/1251 (  4%)]`, and what follows.
fn parse_progress(text: &[u8]) -> Option<(&[u8], [u64; 3])> {
    let (rest, epoch) = parse_count(text).ok()?;
    let (rest, n) = parse_count(skip_blanks(rest.strip_prefix(b" [")?)).ok()?;
    let (rest, total) = parse_count(rest.strip_prefix(b"/")?).ok()?;
    let (rest, _) = parse_float(skip_blanks(rest.strip_prefix(b" (")?));
    Some((rest.strip_prefix(b"%)]")?, [epoch, n, total]))
}

/// `Train: 0 [  50/1251 (  4%)]  Loss: 6.95 (6.96)  Time: 0.456s, ..` (`train.py`, 0.4 to 1.0).
/// `Test: [  50/98]  Time: ..` is an evaluation.
fn read_timm_batch(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let at = piece.find_back(b"Train: ", hit)?;
    let (rest, [epoch, step, total]) = parse_progress(&piece.text[at + 7..hit])?;
    if !rest.starts_with(b"  Loss: ") {
        return None;
    }
    let value = skip_blanks(&piece.text[hit + TIMM_TIME.len()..]);
    let (left, time_s) = parse_float(value);
    left.strip_prefix(b"s")?;
    let (start, wall_ms) = find_logger_prefix(piece.text, piece.floor, at);
    let line = StepLine {
        epoch: Some(epoch),
        total: Some(total),
        time_s,
        wall_ms,
        ..StepLine::without_time(Trainer::Timm, step)
    };
    LinePiece::step_record(start, piece.text.len(), line)
}

/// `Train Epoch: 0 [  32768/3200000 (1%)] Data (t): 0.029 Batch (t): 6.655, 2461.78/s, ..`
/// (`training/train.py`, 2.0 to 2.32).
fn read_clip_samples(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let at = piece.find_back(b"Train Epoch: ", hit)?;
    let (_, [epoch, samples, _]) = parse_progress(&piece.text[at + 13..hit])?;
    let (start, wall_ms) = find_logger_prefix(piece.text, piece.floor, at);
    let line = StepLine {
        counts: StepNumberUnit::Samples,
        epoch: Some(epoch),
        time_s: parse_float(&piece.text[hit + CLIP_TIME.len()..]).1,
        wall_ms,
        ..StepLine::without_time(Trainer::OpenClip, samples)
    };
    LinePiece::step_record(start, piece.text.len(), line)
}

#[cfg(test)]
mod tests {
    use crate::trainer::tests::{found, one, steps};

    #[test]
    fn timm_counts_batches_in_an_epoch() {
        for text in [
            "Train: 3 [   0/1251 (  0%)]  Loss:  6.953438 (6.9534)  Time: 9.283s,  110.30/s  (9.283s,  110.30/s)  LR: 1.000e-06  Data: 4.683 (4.683)",
            "Train: 3 [   0/1251 (  0%)]  Loss: 6.95 (6.95)  Time: 9.283s,  110.30/s  (9.283s,  110.30/s)  LR: 1.000e-06",
        ] {
            let (line, got) = one(&format!("[rank0]:{text}"));
            assert_eq!(
                (line.step, line.epoch, line.total),
                (0, Some(3), Some(1251))
            );
            assert_eq!((line.time_s, got.as_str()), (Some(9.283), text));
        }
    }

    #[test]
    fn open_clip_counts_samples() {
        let text = "2023-04-21,12:03:13 | INFO | Train Epoch: 0 [  16384/3200000 (1%)] Data (t): 90.938 \
                    Batch (t): 137.606, 119.065/s, 3.72078/s/gpu LR: 0.000000 Loss: 9.7031 (9.7031)";
        let (line, got) = one(text);
        assert_eq!((line.step, line.time_s), (16384, Some(137.606)));
        assert_eq!((got.as_str(), line.wall_ms.is_some()), (text, true));
    }

    #[test]
    fn evaluations_are_no_steps() {
        for text in [
            "Test: [   0/48]  Time: 1.234 (1.234)  Loss: 0.5 (0.5)  Acc@1: 90 (90)",
            "Eval Epoch: 0 [256 / 50000]  Clip Loss: 1.2",
            "Batch (t): 6.655",
            "x  Time: 1.2s",
        ] {
            assert_eq!(steps(text), 0, "{text}: {:?}", found(text));
        }
    }
}
