//! Lines with the time left: maskrcnn_benchmark and detectron2, torchvision's `MetricLogger` and
//! what grew from it (DETR, MAE, DINO), and NVIDIA's DLRM.
//!
//! Each prints `name: value` fields, two blanks or a tab apart. `time` is the median
//! (maskrcnn_benchmark `utils/metric_logger.py`) or the mean (torchvision
//! `references/detection/utils.py`) of the last 20 steps.

use crate::trainer::facts::{SampleLine, TrainerFacts};
use crate::trainer::parts::number::{
    bytes_after, number_after, parse_count, parse_float, parse_millis, prefix_len, suffix_len,
};
use crate::trainer::parts::piece::LinePiece;
use crate::trainer::parts::prefix::find_logger_prefix;
use crate::trainer::{StepLine, Trainer, TrainerMark, TrainerRecord};

/// The field that all of them have.
pub(crate) const ETA_FIELD: &[u8] = b"eta: ";

/// maskrcnn_benchmark and detectron2.
pub(crate) const MASKRCNN: TrainerFacts = TrainerFacts {
    words: &[(ETA_FIELD, read_detection_iteration)],
    aliases: &["maskrcnn_benchmark", "detectron2"],
    samples: &[SampleLine::new(
        "2020-06-25 16:26:13,365 maskrcnn_benchmark.trainer INFO: eta: 4:58:35  iter: 40  time: 0.1 (0.2)",
        40,
        Some(0.1),
    )],
    ..TrainerFacts::named("maskrcnn")
};
/// torchvision's references and their kin, which count from 0 in each epoch.
pub(crate) const TORCHVISION: TrainerFacts = TrainerFacts {
    words: &[(ETA_FIELD, read_torchvision_epoch)],
    aliases: &["detr", "mae", "dino"],
    first: 0,
    samples: &[SampleLine::new(
        "Epoch: [0]  [1020/4572]  eta: 0:16:47    time: 0.2830  data: 0.0009  max mem: 20783",
        1020,
        Some(0.283),
    )],
    ..TrainerFacts::named("torchvision")
};

fn is_space(b: u8) -> bool {
    b == b' ' || b == b'\t'
}

/// Length of the fields at the front, with the time left before them.
pub(crate) fn eta_fields_len(text: &[u8]) -> usize {
    let clock = |text: &[u8]| prefix_len(text, |b| b.is_ascii_digit() || b == b':');
    let mut len = clock(text);
    for days in [&b" day, "[..], b" days, "] {
        if let Some(rest) = text[len..].strip_prefix(days) {
            len = text.len() - rest.len() + clock(rest);
        }
    }
    loop {
        let rest = &text[len..];
        let gap = prefix_len(rest, is_space);
        if gap < 2 && !rest.starts_with(b"\t") {
            return len;
        }
        let name = prefix_len(&rest[gap..], |b| {
            b.is_ascii_alphanumeric() || b"_-/. ".contains(&b)
        });
        let Some(value) = rest[gap + name..].strip_prefix(b": ") else {
            return len;
        };
        let (tail, number) = parse_float(value);
        let mut tail = match number {
            Some(_) => tail,
            None => &value[prefix_len(value, |b| b.is_ascii_alphabetic() || b == b'-')..],
        };
        if let Some(more) = tail.strip_prefix(b" (") {
            let close = prefix_len(more, |b| b.is_ascii_alphanumeric() || b".+-".contains(&b));
            tail = more[close..].strip_prefix(b")").unwrap_or(tail);
        }
        for unit in [&b" ms"[..], b"M"] {
            tail = tail.strip_prefix(unit).unwrap_or(tail);
        }
        len = text.len() - tail.len();
    }
}

/// `eta: 4:58:35  iter: 40  loss: 1.4253 (2.3632)  time: 0.0544 (0.0621)  data: ..  lr: ..`.
fn read_detection_iteration(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let text = &piece.text[hit + ETA_FIELD.len()..];
    let record = &text[..eta_fields_len(text)];
    let (_, step) = parse_count(bytes_after(record, b"  iter: ")?).ok()?;
    let (before, low) = piece.free_text_before(hit);
    // `[05/19 12:00:00 d2.utils.events]:  `
    let detectron = before
        .strip_suffix(b"d2.utils.events]:  ")
        .and_then(|before| memchr::memrchr(b'[', before));
    let (start, wall_ms) = match detectron {
        Some(open) => (low + open, None),
        None => find_logger_prefix(piece.text, piece.floor, hit),
    };
    let line = StepLine {
        time_s: number_after(record, b"  time: "),
        wall_ms,
        ..StepLine::without_time(Trainer::MaskRcnn, step)
    };
    LinePiece::step_record(start, hit + ETA_FIELD.len() + record.len(), line)
}

/// `Epoch: [0]  [1020/4572]  eta: 0:16:47  lr: 0.01  time: 0.2830  data: 0.0009  max mem: 20783`,
/// and `Epoch:[0/1] [1184/75869]  eta: 0:04:18  loss: 0.1  step_time: 3.4589 ms  lr: 10.3` of DLRM.
/// `Test:` in the place of the epoch is an evaluation.
fn read_torchvision_epoch(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let text = &piece.text[hit + ETA_FIELD.len()..];
    let record = &text[..eta_fields_len(text)];
    let end = hit + ETA_FIELD.len() + record.len();
    let (before, low) = piece.free_text_before(hit);
    let open = memchr::memrchr(b'[', before)?;
    let of = &before[open + 1..];
    let (rest, n) = parse_count(&of[prefix_len(of, |b| b == b' ')..]).ok()?;
    let (rest, total) = parse_count(rest.strip_prefix(b"/")?).ok()?;
    if rest.first() != Some(&b']') || !rest[1..].iter().copied().all(is_space) {
        return None;
    }
    let head = &before[..open - suffix_len(&before[..open], is_space)];
    if let Some(left) = head.strip_suffix(b"Test:") {
        return Some(TrainerRecord {
            start: low + left.len(),
            end,
            mark: TrainerMark::Between,
        });
    }
    let inside = head.strip_suffix(b"]")?;
    let open = memchr::memrchr(b'[', inside)?;
    let (of, epoch) = parse_count(&inside[open + 1..]).ok()?;
    if !matches!(of, [] | [b'/', ..]) {
        return None;
    }
    let name = inside[..open].strip_suffix(b" ").unwrap_or(&inside[..open]);
    let start = low + name.strip_suffix(b"Epoch:")?.len();
    let (start, wall_ms) = find_logger_prefix(piece.text, piece.floor, start);
    let dlrm = bytes_after(record, b"  step_time: ").map(|ms| parse_millis(ms).1);
    let line = StepLine {
        epoch: Some(epoch),
        total: Some(total),
        time_s: dlrm.unwrap_or_else(|| {
            number_after(record, b"  time: ").or_else(|| number_after(record, b"\ttime: "))
        }),
        wall_ms,
        ..StepLine::without_time(
            match dlrm {
                Some(_) => Trainer::Dlrm,
                None => Trainer::TorchVision,
            },
            n,
        )
    };
    LinePiece::step_record(start, end, line)
}

#[cfg(test)]
mod tests {
    use crate::trainer::tests::{found, one, steps};
    use crate::trainer::{Trainer, TrainerMark};

    #[test]
    fn maskrcnn_counts_iterations_and_prints_the_median_time() {
        let fields =
            "eta: 0:41:22  iter: 50  time: 0.0544 (0.0621)  loss: 1.4 (2.3)  max mem: 2301";
        for prefix in [
            "2020-06-25 16:26:13,365 maskrcnn_benchmark.trainer INFO: ",
            "INFO:maskrcnn_benchmark.trainer:",
            "",
        ] {
            let (line, text) = one(&format!("  0: {prefix}{fields}h:1:2 [0] NCCL"));
            assert_eq!((line.trainer, line.step), (Trainer::MaskRcnn, 50));
            assert_eq!((line.time_s, line.epoch), (Some(0.0544), None));
            assert_eq!(line.wall_ms.is_some(), prefix.contains("2020"));
            assert_eq!(text, format!("{prefix}{fields}"));
        }
        let (line, _) = one("x eta: 4:58:35  iter: 40  loss: 1.4253 (2.3632)");
        assert_eq!((line.step, line.time_s), (40, None));
    }

    #[test]
    fn detectron2_has_a_prefix_of_its_own() {
        let text = "[05/19 12:00:00 d2.utils.events]:  eta: 1 day, 2:41:22  iter: 19  total_loss: \
            1.2  time: 0.2345  last_time: 0.2312  data_time: 0.01  lr: 1.6e-05  max_mem: 2301M";
        let (line, got) = one(text);
        assert_eq!((line.step, line.time_s), (19, Some(0.2345)));
        assert_eq!(got, text);
    }

    #[test]
    fn torchvision_counts_in_its_epoch() {
        for (text, time) in [
            (
                "Epoch: [3]  [  20/4572]  eta: 0:16:47    time: 0.2830  data: 0.0009  max mem: 20783",
                Some(0.283),
            ),
            (
                "Epoch: [3]  [20/4572]  eta: 1 day, 0:16:47  lr: 0.000011  loss: 1.2 (nan)  time: 0.17",
                Some(0.17),
            ),
            (
                "Epoch: [3/100]\t[20/4572]\teta: 0:01:00\ttime: 0.17",
                Some(0.17),
            ),
        ] {
            let (line, got) = one(&format!("0: {text}"));
            assert_eq!(
                (line.trainer, line.step),
                (Trainer::TorchVision, 20),
                "{text}"
            );
            assert_eq!((line.epoch, line.total), (Some(3), Some(4572)));
            assert_eq!((line.time_s, got.as_str()), (time, text));
        }
    }

    #[test]
    fn dlrm_prints_milliseconds() {
        let text =
            "Epoch:[0/1] [1184/75869]  eta: 0:04:18  loss: 0.1346  step_time: 3.4589 ms  lr: 10.3";
        let (line, got) = one(text);
        assert_eq!((line.trainer, line.step), (Trainer::Dlrm, 1184));
        assert_eq!((line.time_s, got.as_str()), (Some(0.0034589), text));
    }

    #[test]
    fn a_test_is_between_steps() {
        let text =
            "Test:  [ 60/194]  eta: 0:00:43  model_time: 0.26 (0.29)  time: 0.2  max mem: 105";
        let all = found(&format!("0: {text}"));
        assert_eq!((all.len(), all[0].mark), (1, TrainerMark::Between));
        assert_eq!((all[0].start, all[0].end), (3, 3 + text.len()));
    }

    #[test]
    fn other_times_left_are_refused() {
        for text in [
            "eta: 0:41:22  loss: 1.4",
            "beta: 0.9  iter: x",
            "Loading: [3]  [20/4572]  eta: 0:16:47  time: 0.2",
            "Epoch: [x]  [20/4572]  eta: 0:16:47  time: 0.2",
            "Epoch: [3]  [20/4572] then  eta: 0:16:47  time: 0.2",
            "| eta: 1:02:03 | iter: 5",
        ] {
            assert_eq!(steps(text), 0, "{text}");
        }
    }
}
