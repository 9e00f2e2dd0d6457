//! Lines of reference and example programs: PyTorch's ImageNet example and NVIDIA's GNMT, the
//! single-shot detector and BERT of MLPerf, Meta's DLRM, and dlrover's training events.

use nom::bytes::complete::tag;
use nom::{IResult, Parser};

use crate::trainer::facts::{ITER, STEP};
use crate::trainer::facts::{SampleLine, TrainerFacts};
use crate::trainer::parts::number::{
    bytes_after, number_after, parse_count, parse_float, parse_millis, prefix_len, skip_blanks,
};
use crate::trainer::parts::piece::{FieldSyntax, LinePiece};
use crate::trainer::parts::prefix::find_logger_prefix;
use crate::trainer::{StepLine, Trainer, TrainerMark, TrainerPace, TrainerRecord, bar};

/// The meter of a batch's time, after a tab.
const BATCH_TIME_METER: &[u8] = b"\tTime ";

/// PyTorch's ImageNet example and what grew from it; it counts from 0 in each epoch, since 2022
/// from 1.
pub(crate) const IMAGENET: TrainerFacts = TrainerFacts {
    words: &[(BATCH_TIME_METER, read_imagenet_meter)],
    aliases: &["gnmt"],
    first: 0,
    samples: &[SampleLine::new(
        "TRAIN [0][10/321]\tTime 0.071 (0.081)\tData 6.87e-05 (2.28e-02)",
        10,
        Some(0.071),
    )],
    ..TrainerFacts::named("imagenet")
};
/// The single-shot detector. Every node prints.
pub(crate) const SSD: TrainerFacts = TrainerFacts {
    words: &[(ITER, read_ssd_iteration)],
    every_rank: true,
    samples: &[SampleLine::new(
        "Iteration:   1000, Loss function: 5.234, Average Loss: 4.36, avg. samples / sec: 54561.02",
        1000,
        None,
    )],
    ..TrainerFacts::named("ssd")
};
/// BERT.
pub(crate) const BERT: TrainerFacts = TrainerFacts {
    words: &[(STEP, read_bert_steps)],
    samples: &[SampleLine::new(
        "{'training_steps': 12, 'seq/s': 393.85, 'timestamp': 1593152764.6}",
        12,
        None,
    )],
    ..TrainerFacts::named("bert")
};
/// DLRM, Meta's and NVIDIA's.
pub(crate) const DLRM: TrainerFacts = TrainerFacts {
    words: &[(bar::SECONDS_PER_ITERATION, read_dlrm_iteration)],
    every_rank: true,
    samples: &[
        SampleLine::new(
            "Finished training it 128/128028 of epoch 0, 71.86 ms/it, loss 0.200952, accuracy 91.433 %",
            128,
            Some(0.07186),
        ),
        SampleLine::new(
            "Epoch:[0/1] [1184/75869]  eta: 0:04:18  loss: 0.1346  step_time: 3.4589 ms  lr: 10.341818",
            1184,
            Some(0.0034589),
        ),
    ],
    ..TrainerFacts::named("dlrm")
};
/// dlrover's ATorch.
pub(crate) const DLROVER: TrainerFacts = TrainerFacts {
    words: &[(STEP, read_dlrover_event)],
    aliases: &["atorch"],
    every_rank: true,
    samples: &[SampleLine::new(
        r#"[2025-04-21T23:53:35.596206] [4] [2] [Atorch] [#step] [END] {"global_step": 177019}"#,
        177019,
        None,
    )],
    ..TrainerFacts::named("dlrover")
};

/// `Epoch: [0][  10/5005]\tTime  0.512 ( 0.630)\tData ..` (`imagenet/main.py` of PyTorch's
/// examples) and `TRAIN [0][10/321]\tTime 0.071 (0.081)\t..` of GNMT; the first number is this
/// batch's. `Test: [ 10/196]` and `TEST [0][..]` are evaluations.
fn read_imagenet_meter(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let (before, low) = piece.free_text_before(hit);
    let inside = before.strip_suffix(b"]")?;
    let open = memchr::memrchr(b'[', inside)?;
    let of = &inside[open + 1..];
    let (rest, step) = parse_count(&of[prefix_len(of, |b| b == b' ')..]).ok()?;
    let (rest, total) = parse_count(rest.strip_prefix(b"/")?).ok()?;
    let end = piece.text.len();
    if !rest.is_empty() {
        return None;
    }
    let head = &inside[..open];
    let (name, epoch) = match head.strip_suffix(b"]") {
        Some(inside) => {
            let open = memchr::memrchr(b'[', inside)?;
            let (rest, epoch) = parse_count(&inside[open + 1..]).ok()?;
            (&inside[..open], rest.is_empty().then_some(epoch))
        }
        None => (head, None),
    };
    for word in [&b"Test: "[..], b"TEST "] {
        if let Some(left) = name.strip_suffix(word) {
            return Some(TrainerRecord {
                start: low + left.len(),
                end,
                mark: TrainerMark::Between,
            });
        }
    }
    let words = [&b"Epoch: "[..], b"TRAIN "];
    let start = low
        + words
            .iter()
            .find_map(|word| name.strip_suffix(*word))?
            .len();
    let (start, wall_ms) = find_logger_prefix(piece.text, piece.floor, start);
    let value = &piece.text[hit + BATCH_TIME_METER.len()..];
    let line = StepLine {
        epoch: Some(epoch?),
        total: Some(total),
        time_s: parse_float(&value[prefix_len(value, |b| b == b' ')..]).1,
        wall_ms,
        ..StepLine::without_time(Trainer::ImageNet, step)
    };
    LinePiece::step_record(start, end, line)
}

/// `Iteration:   1000, Loss function: 5.234, Average Loss: 4.360, avg. samples / sec: 54561.02`, the
/// rate of all nodes since the line before (`train.py` of NVIDIA's, MLPerf v0.6).
fn read_ssd_iteration(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let rest = piece.text[hit..].strip_prefix(b"Iteration:")?;
    let (rest, step) = parse_count(skip_blanks(rest)).ok()?;
    let (rest, _) = parse_float(rest.strip_prefix(b", Loss function: ")?);
    const FIELDS: FieldSyntax = FieldSyntax {
        separator: b", ",
        colon: b": ",
        units: b"",
    };
    let record = &rest[..FIELDS.fields_len(rest)];
    let line = StepLine {
        pace: number_after(record, b", avg. samples / sec: ")
            .map(|per_s| TrainerPace::Samples { per_s, batches: 1 }),
        ..StepLine::without_time(Trainer::Ssd, step)
    };
    LinePiece::step_record(hit, piece.position(rest) + record.len(), line)
}

/// `{'training_steps': 12, .. 'seq/s': 393.85, 'global_steps': 0, 'samples_trained': 0,
/// 'skipped_steps': 2, 'timestamp': 1593152764.6}`. Training steps are micro-batches; the
/// optimizer's steps are the global ones and those that an overflow skipped (`run_pretraining.py` of
/// NVIDIA's, MLPerf v0.7).
fn read_bert_steps(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let start = piece.skip_word_back(b"{'training_", hit);
    let (rest, step) = parse_count(piece.text[hit..].strip_prefix(b"steps': ")?).ok()?;
    let close = prefix_len(rest, |b| b != b'}');
    let record = &rest[..close];
    let whole = |name| {
        bytes_after(record, name)
            .and_then(|n| parse_count(n).ok())
            .map(|(_, n)| n)
    };
    let optimizer = whole(b"'global_steps': ")
        .zip(whole(b"'skipped_steps': "))
        .and_then(|(taken, skipped)| taken.checked_add(skipped));
    let stamp = number_after(record, b"'timestamp': ").map(|s| (s * 1000.0).round());
    let line = StepLine {
        wall_ms: stamp.filter(|ms| ms.abs() < 9e15).map(|ms| ms as i64),
        pace: number_after(record, b"'seq/s': ")
            .map(|per_s| TrainerPace::Samples { per_s, batches: 1 }),
        ..StepLine::without_time(Trainer::Bert, optimizer.unwrap_or(step))
    };
    let end = piece.position(rest) + (close + 1).min(rest.len());
    LinePiece::step_record(start, end, line).filter(|_| start < hit)
}

/// `Finished training it 128/128028 of epoch 0, 71.86 ms/it, loss 0.200952, accuracy 91.433 %`, the
/// mean since the line before (`dlrm_s_pytorch.py`); `hit` is at the `s/it`.
fn read_dlrm_iteration(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    const HEAD: &[u8] = b"Finished training it ";
    let start = piece.find_back(HEAD, hit)?;
    let head = |input| -> IResult<&[u8], (u64, u64, u64)> {
        let (rest, (_, step, _, total, _, epoch, _)) = (
            tag(HEAD),
            parse_count,
            tag("/"),
            parse_count,
            tag(" of epoch "),
            parse_count,
            tag(", "),
        )
            .parse(input)?;
        Ok((rest, (step, total, epoch)))
    };
    let (rest, (step, total, epoch)) = head(&piece.text[start..]).ok()?;
    let (rest, time_s) = parse_millis(rest);
    let mut rest = rest.strip_prefix(b" ms/it")?;
    for name in [&b", loss "[..], b", accuracy "] {
        rest = rest
            .strip_prefix(name)
            .map_or(rest, |value| parse_float(value).0);
    }
    let line = StepLine {
        epoch: Some(epoch),
        total: Some(total),
        // -1 represents no time.
        time_s: time_s.filter(|time_s| *time_s >= 0.0),
        ..StepLine::without_time(Trainer::Dlrm, step)
    };
    LinePiece::step_record(
        start,
        piece.position(rest.strip_prefix(b" %").unwrap_or(rest)),
        line,
    )
}

/// `[2025-04-21T23:53:35.596206] [426] [22b7ca89] [AtorchTrainerV2] [#step] [END] {"global_step": 5}`
/// (`dlrover/python/training_event`); `[BEGIN]` is before the step.
fn read_dlrover_event(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let rest = piece.text[hit..].strip_prefix(b"step] [END] {")?;
    let hit = Some(piece.skip_word_back(b"[#", hit)).filter(|at| *at < hit)?;
    let close = prefix_len(rest, |b| b != b'}');
    let (_, step) = parse_count(bytes_after(&rest[..close], b"\"global_step\": ")?).ok()?;
    let (start, wall_ms) = find_logger_prefix(piece.text, piece.floor, hit);
    let line = StepLine {
        wall_ms,
        ..StepLine::without_time(Trainer::Dlrover, step)
    };
    LinePiece::step_record(
        start,
        piece.position(rest) + (close + 1).min(rest.len()),
        line,
    )
}

#[cfg(test)]
mod tests {
    use crate::trainer::tests::{found, one, steps};
    use crate::trainer::{Trainer, TrainerMark, TrainerPace};

    #[test]
    fn meters_print_this_batchs_time_first() {
        for text in [
            "Epoch: [3][  10/5005]\tTime  0.512 ( 0.630)\tData  0.1 ( 0.2)\tLoss 6.9 (7.0)",
            "TRAIN [3][10/5005]\tTime 0.512 (0.081)\tData 6.87e-05 (2.28e-02)\tTok/s 51109",
        ] {
            let (line, got) = one(&format!("0: {text}"));
            assert_eq!(
                (line.trainer, line.step, line.epoch),
                (Trainer::ImageNet, 10, Some(3))
            );
            assert_eq!((line.time_s, line.total), (Some(0.512), Some(5005)));
            assert_eq!(got, text);
        }
        for text in [
            "Test: [ 10/196]\tTime  0.5 ( 0.6)",
            "TEST [0][9/20]\tTime 0.5 (0.6)",
        ] {
            let all = found(&format!("0: {text}"));
            assert_eq!(
                (all.len(), all[0].mark, all[0].start),
                (1, TrainerMark::Between, 3),
                "{text}"
            );
        }
    }

    #[test]
    fn the_detector_prints_samples_a_second() {
        let text = "Iteration:   1000, Loss function: 5.234, Average Loss: 4.360, avg. samples / sec: 545.02";
        let (line, got) = one(&format!("3: {text}Iter"));
        assert_eq!((line.trainer, line.step), (Trainer::Ssd, 1000));
        let pace = TrainerPace::Samples {
            per_s: 545.02,
            batches: 1,
        };
        assert_eq!((line.pace, got.as_str()), (Some(pace), text));
        assert_eq!(one("Iteration: 20, Loss function: 5.2").0.step, 20);
    }

    #[test]
    fn berts_dictionary_has_a_stamp() {
        let text = "{'training_steps': 12, 'average_loss': 5.98, 'seq/s': 393.5, 'timestamp': 1593152764.625087}";
        let (line, got) = one(&format!("0: {text}"));
        assert_eq!((line.trainer, line.step), (Trainer::Bert, 12));
        assert_eq!(line.wall_ms, Some(1_593_152_764_625));
        let pace = TrainerPace::Samples {
            per_s: 393.5,
            batches: 1,
        };
        assert_eq!((line.pace, got.as_str()), (Some(pace), text));
        let (line, _) = one("{'training_steps': 60, 'global_steps': 8, 'skipped_steps': 2}");
        assert_eq!(line.step, 10);
    }

    #[test]
    fn dlrm_prints_the_mean_of_an_iteration() {
        let text =
            "Finished training it 128/128028 of epoch 0, 71.86 ms/it, loss 0.2, accuracy 91.433 %";
        let (line, got) = one(text);
        assert_eq!((line.trainer, line.step), (Trainer::Dlrm, 128));
        assert_eq!((line.time_s, line.epoch), (Some(0.07186), Some(0)));
        assert_eq!(got, text);
        assert_eq!(steps(&text.repeat(2)), 2);
        let (line, _) = one("Finished training it 1/2 of epoch 0, -1.00 ms/it, loss 0.2");
        assert_eq!(line.time_s, None);
    }

    #[test]
    fn dlrovers_event_ends_a_step() {
        let text = "[2025-04-21T23:53:35.596206] [426] [22b7ca89] [AtorchTrainerV2] [#step] [END] \
            {\"global_step\": 177019, \"epoch\": 0.1}";
        let (line, got) = one(&format!("0: {text} x"));
        assert_eq!((line.trainer, line.step), (Trainer::Dlrover, 177_019));
        assert_eq!(
            (line.wall_ms, got.as_str()),
            (Some(1_745_279_615_596), text)
        );
        assert_eq!(steps(&text.replace("END", "BEGIN")), 0);
    }

    #[test]
    fn look_alikes_are_refused() {
        for text in [
            "x\tTime 0.5 (0.6)",
            "Epoch: [3][x/5]\tTime 0.5",
            "Sampler: [3][1/5]\tTime 0.5",
            "Loss function: cross entropy",
            "'training_steps': 12",
            "71.86 ms/it",
            "[#step] [END] {}",
        ] {
            assert_eq!(steps(text), 0, "{text}");
        }
    }
}
