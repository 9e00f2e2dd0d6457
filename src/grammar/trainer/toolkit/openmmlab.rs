//! OpenMMLab's lines: mmcv's text logger, and mmengine's, which xtuner uses too.
//!
//! `time` is the mean over the steps since the line before (mmcv `runner/hooks/logger/text.py`, 1.7;
//! mmengine `runner/log_processor.py`, 0.10, where `window_size` is the interval). `data_time` is the
//! part of it that loads data.

use crate::trainer::benchmark::eta::{ETA_FIELD, eta_fields_len};
use crate::trainer::facts::{SampleLine, TrainerFacts};
use crate::trainer::parts::number::{number_after, parse_count, prefix_len, skip_blanks};
use crate::trainer::parts::piece::{FieldSyntax, LinePiece};
use crate::trainer::parts::prefix::find_logger_prefix;
use crate::trainer::{StepLine, Trainer, TrainerRecord};

/// mmcv, mmengine and xtuner.
pub(crate) const FACTS: TrainerFacts = TrainerFacts {
    words: &[(ETA_FIELD, read_mmengine_step), (ETA_FIELD, read_mmcv_step)],
    aliases: &["mmcv", "xtuner", "mmdetection"],
    samples: &[
        SampleLine::new(
            "07/03 13:04:17 - mmengine - INFO - Epoch(train)  [1][ 10/196]  lr: 3.3e-04  eta: 0:13:14  time: 0.4073  data_time: 0.0335",
            10,
            Some(0.4073),
        ),
        SampleLine::new(
            "2021-06-10 12:00:00,123 - mmdet - INFO - Epoch [1][50/7330]\tlr: 9.890e-04, eta: 8:20:32, time: 0.343, data_time: 0.052",
            50,
            Some(0.343),
        ),
    ],
    ..TrainerFacts::named("mmengine")
};

/// The text in front of `lr`: an epoch and a step in it, or a step of the run.
struct OpenMmHead {
    epoch: Option<u64>,
    step: u64,
    total: u64,
}

/// `[1][ 10/196]` or `[  10/1545]`, and nothing after.
fn parse_counters(text: &[u8], in_epoch: bool) -> Option<OpenMmHead> {
    let mut rest = text;
    let mut epoch = None;
    if in_epoch {
        let (after, number) = parse_count(rest.strip_prefix(b"[")?).ok()?;
        epoch = Some(number);
        rest = after.strip_prefix(b"]")?;
    }
    let (after, step) = parse_count(skip_blanks(rest.strip_prefix(b"[")?)).ok()?;
    let (after, total) = parse_count(after.strip_prefix(b"/")?).ok()?;
    let head = OpenMmHead { epoch, step, total };
    (after == b"]").then_some(head)
}

/// Finds the head between its name and the text before `eta`: `lr: 3.3e-04  `.
fn find_head(
    piece: &LinePiece<'_>,
    hit: usize,
    names: [&[u8]; 2],
    gap: &[u8],
) -> Option<(usize, OpenMmHead)> {
    names
        .iter()
        .zip([true, false])
        .find_map(|(name, in_epoch)| {
            let at = piece.find_back(name, hit)?;
            let text = skip_blanks(&piece.text[at + name.len()..hit]);
            let end = memchr::memmem::find(text, gap)?;
            parse_counters(&text[..end], in_epoch).map(|head| (at, head))
        })
}

fn step_record(
    piece: &LinePiece<'_>,
    at: usize,
    end: usize,
    head: OpenMmHead,
    time_s: Option<f64>,
) -> Option<TrainerRecord> {
    let (start, wall_ms) = find_logger_prefix(piece.text, piece.floor, at);
    let line = StepLine {
        epoch: head.epoch,
        total: Some(head.total),
        time_s,
        wall_ms,
        ..StepLine::without_time(Trainer::MmEngine, head.step)
    };
    LinePiece::step_record(start, end, line)
}

/// `Epoch(train)  [1][ 10/196]  lr: 3.3e-04  eta: 0:13:14  time: 0.4073  data_time: 0.0335 ..`, and
/// `Iter(train) [  10/1545]  ..`. `(val)` and `(test)` are evaluations.
fn read_mmengine_step(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let names = [&b"Epoch(train)"[..], b"Iter(train)"];
    let (at, head) = find_head(piece, hit, names, b"  ")?;
    let text = &piece.text[hit + ETA_FIELD.len()..];
    let record = &text[..eta_fields_len(text)];
    let end = hit + ETA_FIELD.len() + record.len();
    step_record(piece, at, end, head, number_after(record, b"  time: "))
}

/// `Epoch [1][50/7330]\tlr: 9.890e-04, eta: 8:20:32, time: 0.343, data_time: 0.052, ..`, and
/// `Iter [50/160000]\t..`.
fn read_mmcv_step(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    const FIELDS: FieldSyntax = FieldSyntax {
        separator: b", ",
        colon: b": ",
        units: b"",
    };
    let names = [&b"Epoch "[..], b"Iter "];
    let (at, head) = find_head(piece, hit, names, b"\t")?;
    let text = &piece.text[hit + ETA_FIELD.len()..];
    let clock = |text: &[u8]| prefix_len(text, |b| b.is_ascii_digit() || b == b':');
    let mut len = clock(text);
    for days in [&b" day, "[..], b" days, "] {
        if let Some(rest) = text[len..].strip_prefix(days) {
            len = text.len() - rest.len() + clock(rest);
        }
    }
    let fields = &text[len..][..FIELDS.fields_len(&text[len..])];
    let end = hit + ETA_FIELD.len() + len + fields.len();
    step_record(piece, at, end, head, number_after(fields, b", time: "))
}

#[cfg(test)]
mod tests {
    use crate::trainer::Trainer;
    use crate::trainer::tests::{found, one, steps};

    #[test]
    fn mmengine_counts_in_an_epoch_or_over_the_run() {
        let fields = "lr: 3.3333e-04  eta: 18 days, 16:18:38  time: 115.0463  data_time: 99.0316  \
                      memory: 970  loss: 6.1887  decode.loss_ce: 4.1";
        for (stamp, head, want) in [
            (
                "07/03 13:04:17 - mmengine - INFO - ",
                "Epoch(train)  [2][ 10/196]",
                (10, Some(2), 196),
            ),
            (
                "2025/02/09 07:47:19 - mmengine - INFO - ",
                "Iter(train) [ 8851/96000]",
                (8851, None, 96000),
            ),
            ("", "Iter(train) [10/720]", (10, None, 720)),
        ] {
            let text = format!("{stamp}{head}  {fields}");
            let (line, got) = one(&format!("0: {text}h:1:2 [0] NCCL"));
            assert_eq!(
                (line.step, line.epoch, line.total),
                (want.0, want.1, Some(want.2))
            );
            assert_eq!(
                (line.trainer, line.time_s),
                (Trainer::MmEngine, Some(115.0463))
            );
            assert_eq!((got, line.wall_ms.is_some()), (text, !stamp.is_empty()));
        }
    }

    #[test]
    fn mmcv_counts_so_too() {
        let text = "2021-06-10 12:00:00,123 - mmseg - INFO - Iter [50/160000]\tlr: 9.996e-03, eta: 1 day, \
                    2:13:44, time: 0.589, data_time: 0.010, memory: 9, decode.loss_seg: 2.9, loss: 1.5";
        let (line, got) = one(text);
        assert_eq!(
            (line.step, line.epoch, line.time_s),
            (50, None, Some(0.589))
        );
        assert_eq!(got, text);
        assert!(line.wall_ms.is_some());
    }

    #[test]
    fn evaluations_and_others_are_refused() {
        for text in [
            "07/03 13:04:17 - mmengine - INFO - Epoch(val) [1][10/79]    eta: 0:00:12  time: 0.1  data_time: 0.1",
            "Iter(train) [10/720]  no eta",
            "Iter(train) [x/720]  lr: 1  eta: 0:13:14  time: 0.4",
            "Epoch [1][50/7330] lr: 9.890e-04, eta: 8:20:32, time: 0.343",
        ] {
            assert_eq!(steps(text), 0, "{text}: {:?}", found(text));
        }
    }
}
