//! Megatron-LM's step line and the three that grew from it.
//!
//! Forks put fields anywhere, so a field is searched by name and the head looked for after it. The
//! time is the mean over `log_interval` iterations (`training_log` @d98e8a64).

use nom::bytes::complete::tag;
use nom::character::complete::space0;
use nom::{IResult, Parser};

use crate::trainer::facts::STEP_BEGINS;
use crate::trainer::facts::{SampleLine, TrainerFacts};
use crate::trainer::parts::number::{
    bytes_after, number_after, parse_count, parse_float, parse_millis, parse_tera_flops,
    prefix_len, suffix_len,
};
use crate::trainer::parts::piece::LinePiece;
use crate::trainer::parts::prefix::parse_stamp_millis;
use crate::trainer::{StepLine, Trainer, TrainerMark, TrainerRecord};

/// The field every line has; rarer in other text than ` iteration `.
pub(crate) const ELAPSED_FIELD: &[u8] = b"elapsed time per iteration (ms): ";
/// The field that usually follows the head: a terminal or a pager may have wrapped the line after
/// it, and the step is a step without its time.
pub(crate) const CONSUMED_FIELD: &[u8] = b"| consumed samples: ";
/// What Megatron-Bridge prints from rank 0 beside the last rank's step line (@067f987d).
const STEP_TIME: &[u8] = b"Step Time ";

/// Megatron-LM and Megatron-Bridge.
pub(crate) const FACTS: TrainerFacts = TrainerFacts {
    words: &[
        (ELAPSED_FIELD, read_megatron_iteration),
        (CONSUMED_FIELD, read_megatron_iteration),
        (STEP_BEGINS, read_megatron_step_time),
    ],
    aliases: &["megatron-lm", "megatron-bridge"],
    last_rank: true,
    samples: &[SampleLine::new(
        " [2024-04-06 02:59:36.123456] iteration 43/ 100 | consumed samples: 5 | elapsed time per iteration (ms): 5444.9 | lr: 1 |",
        43,
        Some(5.4449),
    )],
    ..TrainerFacts::named("megatron")
};
/// Megatron-DeepSpeed; its words are Megatron-LM's.
pub(crate) const DEEPSPEED: TrainerFacts = TrainerFacts {
    fork_of: Some(Trainer::Megatron),
    last_rank: true,
    samples: &[SampleLine::new(
        " [2024-04-06 02:59:36.123456] iteration 43/ 100 | consumed samples: 5 | elapsed time per iteration (ms): 5444.9 | TFLOPs: 2.1 |",
        43,
        Some(5.4449),
    )],
    ..TrainerFacts::named("megatron-deepspeed")
};
/// GPT-NeoX; its words are Megatron-LM's.
pub(crate) const NEOX: TrainerFacts = TrainerFacts {
    aliases: &["neox"],
    fork_of: Some(Trainer::Megatron),
    samples: &[SampleLine::new(
        " samples/sec: 2.9 | iteration 1/ 5 | elapsed time per iteration (ms): 1.0 | approx flops per GPU: 9.8TFLOPS |",
        1,
        Some(0.001),
    )],
    ..TrainerFacts::named("gpt-neox")
};

fn head(input: &[u8]) -> IResult<&[u8], (u64, u64)> {
    let (rest, (_, _, step, _, _, total, _)) = (
        tag("iteration "),
        space0,
        parse_count,
        tag("/"),
        space0,
        parse_count,
        tag(" |"),
    )
        .parse(input)?;
    Ok((rest, (step, total)))
}

/// Length of the fields after the head: ` name: value |`, the last one perhaps cut.
fn megatron_fields_len(text: &[u8]) -> usize {
    let mut len = 0;
    loop {
        let rest = &text[len..];
        // What others print after has no blank before it, two, or a bracket or digit after it.
        let ours = matches!(rest, [b' ', first, ..] if first.is_ascii_alphabetic());
        let field = prefix_len(rest, |b| b != b'|');
        let cut = field == rest.len();
        if !ours || (memchr::memchr(b':', &rest[..field]).is_none() && !cut) {
            return len
                + if rest.iter().all(|&b| b == b' ') {
                    rest.len()
                } else {
                    0
                };
        }
        len += field + usize::from(!cut);
    }
}

/// Where ` [2024-04-06 02:59:36] iteration` or ` samples/sec: 2.9 | iteration` begins.
fn find_line_start(piece: &LinePiece<'_>, at: usize) -> (usize, Option<i64>) {
    let bare = piece.skip_word_back(b" ", at);
    let (before, low) = piece.free_text_before(bare);
    if let Some(group) = before.strip_suffix(b"]")
        && let Some(open) = memchr::memrchr(b'[', group)
        && let Some(ms) = parse_stamp_millis(&group[open + 1..])
    {
        return (piece.skip_word_back(b" ", low + open), Some(ms));
    }
    if let Some(rate) = before.strip_suffix(b" |") {
        let number = suffix_len(rate, |b| b.is_ascii_digit() || b == b'.');
        let name = low + rate.len() - number;
        let neox = piece.skip_word_back(b"samples/sec: ", name);
        if neox < name {
            return (piece.skip_word_back(b" ", neox), None);
        }
    }
    (bare, None)
}

/// ` iteration       43/     100 | .. | elapsed time per iteration (ms): 5444.9 | ..`.
pub(crate) fn read_megatron_iteration(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    // `iteration time: 270 s` and the like may be between the head and the anchor.
    let mut at = hit;
    let (rest, (step, total)) = loop {
        at = piece.find_back(b"iteration ", at)?;
        if hit - at > 512 {
            return None;
        }
        if let Ok(found) = head(&piece.text[at..]) {
            break found;
        }
    };
    let record = &rest[..megatron_fields_len(rest)];
    let neox = bytes_after(record, b" approx flops per GPU: ");
    let deepspeed = bytes_after(record, b" TFLOPs: ")
        .or_else(|| bytes_after(record, b" tokens per gpu per second (tgs): "));
    let trainer = match (neox, deepspeed) {
        (Some(_), _) => Trainer::GptNeox,
        (None, Some(_)) => Trainer::MegatronDeepSpeed,
        (None, None) => Trainer::Megatron,
    };
    let tflops = number_after(record, b" throughput per GPU (TFLOP/s/GPU): ")
        // AMD Primus >= 26.5 renames the field.
        .or_else(|| number_after(record, b" compute per GPU (TFLOP/s/GPU): "))
        .or_else(|| number_after(record, b" TFLOPs: "))
        .or_else(|| neox.and_then(parse_tera_flops));
    let time_s = bytes_after(record, ELAPSED_FIELD).and_then(|ms| parse_millis(ms).1);
    let (start, stamp) = find_line_start(piece, at);
    let line = StepLine {
        total: Some(total),
        time_s,
        tflops,
        wall_ms: stamp.filter(|_| time_s.is_none()),
        ..StepLine::without_time(trainer, step)
    };
    LinePiece::step_record(start, piece.position(rest) + record.len(), line)
}

/// `Step Time : 9.09s GPU utilization: 663.5MODEL_TFLOP/s/GPU`; without `MODEL_` before 23fc54521.
pub(crate) fn read_megatron_step_time(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let text = &piece.text[hit..];
    let text = &text[..text.len().min(256)];
    let rest = text.strip_prefix(STEP_TIME)?;
    let (rest, time_s) = parse_float(rest.strip_prefix(b": ").unwrap_or(rest));
    let rest = bytes_after(rest.strip_prefix(b"s")?, b"GPU utilization: ")?;
    let (rest, tflops) = parse_float(rest);
    let rest = rest.strip_prefix(b" ").unwrap_or(rest);
    let rest = rest
        .strip_prefix(b"MODEL_")
        .unwrap_or(rest)
        .strip_prefix(b"TFLOP/s/GPU")?;
    let end = hit + text.len() - rest.len();
    Some(TrainerRecord {
        start: hit,
        end,
        mark: TrainerMark::Timing { time_s, tflops },
    })
}

#[cfg(test)]
mod tests {
    use crate::trainer::tests::{found, one, steps};
    use crate::trainer::{Trainer, TrainerMark};

    const STAMPED: &str = " [2024-04-06 02:59:36] iteration       43/     100 | consumed samples: \
        5504 | elapsed time per iteration (ms): 5444.9 | throughput per GPU (TFLOP/s/GPU): 239.8 |";

    #[test]
    fn the_stamp_is_the_records_and_the_launchers_tag_is_not() {
        for tag in [
            "",
            "3: ",
            "[default0]:",
            "h:1:2 [0] NCCL INFO AllReduce: opCount 1 sendbuff",
        ] {
            let (line, text) = one(&format!("{tag}{STAMPED}"));
            assert_eq!(
                (line.trainer, line.step, line.total),
                (Trainer::Megatron, 43, Some(100))
            );
            assert_eq!((line.time_s, line.tflops), (Some(5.4449), Some(239.8)));
            assert_eq!((text.as_str(), line.wall_ms), (STAMPED, None));
        }
    }

    #[test]
    fn glued_records_are_left_out() {
        for glue in [
            "Number of parameters: 6.98",
            "[Rank 0] (after 1) | allocated: 1 |",
            "h:1:2 | x: 1 |",
        ] {
            assert_eq!(one(&format!("{STAMPED}{glue}")).1, STAMPED);
        }
        assert_eq!(steps(&format!("{STAMPED}{STAMPED}")), 2);
    }

    #[test]
    fn the_most_specific_trainer_of_one_line_wins() {
        let base = " iteration  2/ 55 | elapsed time per iteration (ms): 6524.7 |";
        let (line, text) = one(&format!(
            "x samples/sec: 4.904 |{base} approx flops per GPU: 1.2PFLOPS |"
        ));
        assert_eq!(
            (line.trainer, line.tflops),
            (Trainer::GptNeox, Some(1200.0))
        );
        assert!(text.starts_with(" samples/sec"), "{text}");
        let (line, _) = one(&format!("{base} TFLOPs: 69.85 |"));
        assert_eq!(
            (line.trainer, line.tflops),
            (Trainer::MegatronDeepSpeed, Some(69.85))
        );
        let (line, _) = one(&format!(
            "{base} compute per GPU (TFLOP/s/GPU): 496.3 (avg 496.1) |"
        ));
        assert_eq!(
            (line.trainer, line.tflops),
            (Trainer::Megatron, Some(496.3))
        );
    }

    #[test]
    fn a_wrapped_line_is_a_step_without_its_time() {
        let (line, text) = one(" [2025-10-02 22:52:07] iteration 10/ 50 | consumed samples: 512 |");
        assert_eq!(
            (line.step, line.time_s, line.wall_ms),
            (10, None, Some(1_759_445_527_000))
        );
        assert!(text.starts_with(" [2025"), "{text}");
        assert_eq!(
            steps("elapsed time per iteration (ms): 13212.7 | loss: 1 |"),
            0
        );
    }

    #[test]
    fn evaluations_and_cut_heads_are_no_steps() {
        for text in [
            " validation loss at iteration 10 | lm loss value: 1 |",
            " iteration 10 | elapsed time per iteration (ms): 1.0 |",
            "elapsed time per iteration (ms): ",
        ] {
            assert_eq!(steps(text), 0, "{text}");
        }
    }

    #[test]
    fn bridges_step_time_is_a_timing_for_the_next_step() {
        for (text, time, speed) in [
            (
                "Step Time : 9.09s GPU utilization: 663.5MODEL_TFLOP/s/GPU",
                9.09,
                663.5,
            ),
            (
                "Step Time : 14.26s GPU utilization: 58.2TFLOP/s/GPU",
                14.26,
                58.2,
            ),
        ] {
            let all = found(&format!("job/0 {text}  # note"));
            assert_eq!(
                all[0].mark,
                TrainerMark::Timing {
                    time_s: Some(time),
                    tflops: Some(speed)
                }
            );
            assert_eq!(
                (all.len(), all[0].start, all[0].end),
                (1, 6, 6 + text.len())
            );
        }
        assert!(found("Step Time : 9.09s").is_empty());
    }
}
