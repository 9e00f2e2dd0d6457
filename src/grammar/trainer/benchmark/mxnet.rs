//! MXNet's lines: the speedometer of its training loops, and NVIDIA's single-shot detector.
//!
//! The speedometer counts batches from 0 in each epoch and prints no time but samples a second,
//! of one worker or of all, as the program has it (`mxnet/callback.py`, and `common/fit.py` of
//! NVIDIA's ResNet in MLPerf v0.6 to v2.1).

use nom::bytes::complete::tag;
use nom::{IResult, Parser};

use crate::trainer::facts::ITER;
use crate::trainer::facts::{SampleLine, TrainerFacts};
use crate::trainer::parts::number::{
    bytes_after, parse_count, parse_float, parse_millis, suffix_len,
};
use crate::trainer::parts::piece::{FieldSyntax, LinePiece};
use crate::trainer::parts::prefix::find_logger_prefix;
use crate::trainer::{StepLine, Trainer, TrainerMark, TrainerPace, TrainerRecord};

/// The speedometer's field.
const MXNET_SPEED_FIELD: &[u8] = b"Speed: ";
/// The end of an evaluation in the loops of the speedometer.
const MXNET_VALIDATION: &[u8] = b"] Validation-";

/// MXNet. Every worker prints.
pub(crate) const FACTS: TrainerFacts = TrainerFacts {
    words: &[
        (MXNET_SPEED_FIELD, read_mxnet_speed),
        (ITER, read_mxnet_training),
        (MXNET_VALIDATION, read_mxnet_validation),
    ],
    first: 0,
    every_rank: true,
    samples: &[
        SampleLine::new(
            "2020-07-10 18:52:44,594 Node[0] Epoch[0] Batch [0-20]\tSpeed: 20461.75 samples/sec\tx=0.1",
            20,
            None,
        ),
        SampleLine::new(
            "INFO:root:[Training][Iteration 200][Epoch 2, Batch 85/115] lr: 0.06, training time: 229.3 [ms]",
            200,
            Some(0.2293),
        ),
    ],
    ..TrainerFacts::named("mxnet")
};

const METRICS: [FieldSyntax; 2] = [
    FieldSyntax {
        separator: b"\t",
        colon: b"=",
        units: b"",
    },
    FieldSyntax {
        separator: b", ",
        colon: b"=",
        units: b"",
    },
];

/// `text` without `<open>12]` at its end, and the number.
fn split_index_at_end<'a>(text: &'a [u8], open: &[u8]) -> Option<(&'a [u8], u64)> {
    let inside = text.strip_suffix(b"]")?;
    let (left, digits) = inside.split_at(inside.len() - suffix_len(inside, |b| b.is_ascii_digit()));
    let (_, n) = parse_count(digits).ok()?;
    // `[20-40]` is the batches after the 20th up to the 40th.
    let left = left.strip_suffix(b"-").map_or(left, |range| {
        &range[..range.len() - suffix_len(range, |b| b.is_ascii_digit())]
    });
    Some((left.strip_suffix(open)?, n))
}

/// `Epoch[0] Batch [0-20]\tSpeed: 20461.75 samples/sec\taccuracy=0.001284`, and GluonCV's
/// `[Epoch 0][Batch 99], Speed: 23.4 samples/sec, loss=1.2`.
fn read_mxnet_speed(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let (rest, per_s) = parse_float(&piece.text[hit + MXNET_SPEED_FIELD.len()..]);
    let rest = rest.strip_prefix(b" samples/sec")?;
    let (before, low) = piece.free_text_before(hit);
    let head = &before[..before.len() - suffix_len(before, |b| b" \t,".contains(&b))];
    let (left, step) =
        split_index_at_end(head, b"Batch [").or_else(|| split_index_at_end(head, b"[Batch "))?;
    let left = left.strip_suffix(b" ").unwrap_or(left);
    let opens = [&b"Epoch["[..], b"[Epoch ", b"Iter["];
    let (start, epoch) = opens
        .iter()
        .find_map(|open| split_index_at_end(left, open))?;
    let (start, wall_ms) = find_logger_prefix(piece.text, piece.floor, low + start.len());
    let metrics = METRICS.iter().map(|fields| fields.fields_len(rest)).max();
    let line = StepLine {
        epoch: Some(epoch),
        wall_ms,
        pace: per_s.map(|per_s| TrainerPace::Samples { per_s, batches: 1 }),
        ..StepLine::without_time(Trainer::Mxnet, step)
    };
    LinePiece::step_record(start, piece.position(rest) + metrics.unwrap_or(0), line)
}

fn head(input: &[u8]) -> IResult<&[u8], u64> {
    let (rest, (_, iteration, _, _, _, _, _, _, _)) = (
        tag("Iteration "),
        parse_count,
        tag("][Epoch "),
        parse_count,
        tag(", Batch "),
        parse_count,
        tag("/"),
        parse_count,
        tag("]"),
    )
        .parse(input)?;
    Ok((rest, iteration))
}

/// `[Training][Iteration 200][Epoch 2, Batch 85/115] lr: 0.06, training time: 229.395 [ms], speed:
/// 4463.911 [imgs/sec], loss=7.3`; the iteration counts over the epochs (`ssd/` of NVIDIA's in
/// MLPerf v0.7 and v1.0).
fn read_mxnet_training(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let (rest, step) = head(&piece.text[hit..]).ok()?;
    let at = Some(piece.skip_word_back(b"[Training][", hit)).filter(|at| *at < hit)?;
    let (left, time_s) = parse_millis(bytes_after(rest, b" training time: ")?);
    let left = left.strip_prefix(b" [ms]")?;
    let speed = left
        .strip_prefix(b", speed: ")
        .and_then(|speed| parse_float(speed).0.strip_prefix(b" [imgs/sec]"));
    let left = speed.unwrap_or(left);
    let left = &left[METRICS[1].fields_len(left)..];
    let (start, wall_ms) = find_logger_prefix(piece.text, piece.floor, at);
    let line = StepLine {
        time_s,
        wall_ms,
        ..StepLine::without_time(Trainer::Mxnet, step)
    };
    LinePiece::step_record(start, piece.position(left), line)
}

/// `Epoch[9] Validation-accuracy=0.122449`.
fn read_mxnet_validation(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let (before, low) = piece.free_text_before(hit + 1);
    let (left, _) = split_index_at_end(before, b"Epoch[")?;
    let (start, _) = find_logger_prefix(piece.text, piece.floor, low + left.len());
    Some(TrainerRecord {
        start,
        end: piece.text.len(),
        mark: TrainerMark::Between,
    })
}

#[cfg(test)]
mod tests {
    use crate::trainer::tests::{found, one, steps};
    use crate::trainer::{Trainer, TrainerMark, TrainerPace};

    #[test]
    fn the_speedometer_counts_batches_of_an_epoch() {
        let stamp = "2020-07-10 18:52:44,594 Node[0] ";
        for (prefix, record) in [
            (
                stamp,
                "Epoch[3] Batch [0-20]\tSpeed: 2046.5 samples/sec\taccuracy=0.0012\tloss=1.5",
            ),
            (stamp, "Epoch[3] Batch [20]\tSpeed: 2046.5 samples/sec"),
            (
                "INFO:root:",
                "Epoch[3] Batch [20]\tSpeed: 2046.50 samples/sec\taccuracy=nan",
            ),
            (
                "[2019-06-13 00:34:45] ",
                "Iter[3] Batch [20]\tSpeed: 2046.5 samples/sec",
            ),
            (
                "",
                "[Epoch 3][Batch 20], Speed: 2046.5 samples/sec, loss=1.2",
            ),
        ] {
            let (line, text) = one(&format!("0: {prefix}{record}"));
            assert_eq!(
                (line.trainer, line.step, line.epoch),
                (Trainer::Mxnet, 20, Some(3))
            );
            let pace = TrainerPace::Samples {
                per_s: 2046.5,
                batches: 1,
            };
            assert_eq!((line.pace, line.time_s), (Some(pace), None), "{record}");
            assert_eq!(text, format!("{prefix}{record}"));
            assert_eq!(line.wall_ms.is_some(), prefix.contains("20"), "{prefix}");
        }
    }

    #[test]
    fn the_detector_prints_a_time() {
        let record = "[Training][Iteration 200][Epoch 2, Batch 85/115] lr: 0.06240, training time: \
            229.395 [ms], speed: 4463.911 [imgs/sec], loss=8.093";
        for prefix in ["", "INFO:root:"] {
            let (line, text) = one(&format!("{prefix}{record}\t"));
            assert_eq!(
                (line.step, line.epoch, line.time_s),
                (200, None, Some(0.229395))
            );
            assert_eq!(text, format!("{prefix}{record}"));
        }
    }

    #[test]
    fn the_end_of_an_evaluation_is_between_steps() {
        let text = "2019-05-23 18:26:16,794 Node[0] Epoch[9] Validation-accuracy=0.122449";
        let all = found(text);
        assert_eq!((all.len(), all[0].mark), (1, TrainerMark::Between));
        assert_eq!((all[0].start, all[0].end), (0, text.len()));
    }

    #[test]
    fn other_speeds_are_refused() {
        for text in [
            "NIC Speed: 100 samples/sec",
            "Epoch[0] Batch [0-20]\tSpeed: 20461.75 MB/s",
            "Epoch[x] Batch [20]\tSpeed: 1.0 samples/sec",
            "[Training][Epoch 3] training time: 26.296 [sec],avg speed: 4439.311 [imgs/sec]",
            "Epoch[2] Time cost=1.190",
        ] {
            assert_eq!(steps(text), 0, "{text}");
        }
    }
}
