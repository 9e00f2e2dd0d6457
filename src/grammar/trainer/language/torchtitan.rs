//! torchtitan's step line: no total, no time, two blanks between fields.
//!
//! The stamp of its logger replaces the time: the interval of two lines over the difference of
//! their steps (@b5bcd76). The same words after `validate ` end a validation.

use crate::trainer::facts::STEP;
use crate::trainer::facts::{SampleLine, TrainerFacts};
use crate::trainer::parts::number::{number_after, parse_count, prefix_len, skip_blanks};
use crate::trainer::parts::piece::LinePiece;
use crate::trainer::parts::prefix::find_logger_prefix;
use crate::trainer::{StepLine, Trainer, TrainerMark, TrainerRecord};

/// torchtitan.
pub(crate) const FACTS: TrainerFacts = TrainerFacts {
    words: &[(STEP, read_torchtitan_step)],
    every_rank: true,
    samples: &[SampleLine::new(
        "[titan] 2026-04-03 13:00:48,267 - root - INFO - \x1b[31mstep: 97  \x1b[32mloss:  2.8  tps: 1,542",
        97,
        None,
    )],
    ..TrainerFacts::named("torchtitan")
};

/// Length of `  name: value` fields; two blanks distinguish them from text that others print after.
fn torchtitan_fields_len(text: &[u8]) -> usize {
    let mut len = 0;
    while text[len..].starts_with(b"  ") {
        let rest = skip_blanks(&text[len..]);
        let name = prefix_len(rest, |b| b.is_ascii_lowercase() || b == b'_' || b == b'/');
        let Some(value) = rest[name..].strip_prefix(b":") else {
            break;
        };
        let value = skip_blanks(value);
        let mut end = prefix_len(value, |b| {
            b.is_ascii_alphanumeric() || b"+-.,/".contains(&b)
        });
        // `66.91GiB(37.51%)` and `13.99%`.
        if value[end..].starts_with(b"(") {
            end += 1 + prefix_len(&value[end + 1..], |b| b.is_ascii_digit() || b == b'.');
        }
        for close in [b'%', b')'] {
            end += usize::from(value.get(end) == Some(&close));
        }
        len = text.len() - value.len() + end;
    }
    len
}

/// `step: 96  loss:  2.81863  memory: ..  tps: 152,515  tflops: 10.92  mfu: 1.10%`.
pub(crate) fn read_torchtitan_step(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let (rest, step) = parse_count(skip_blanks(piece.text[hit..].strip_prefix(b"step:")?)).ok()?;
    let record = &rest[..torchtitan_fields_len(rest)];
    if !skip_blanks(rest).starts_with(b"loss:") || !piece.is_word_start(hit) {
        return None;
    }
    // `wps: ` before 4d182a13e, 2024-11-23.
    number_after(record, b" tps: ").or_else(|| number_after(record, b" wps: "))?;
    let word = piece.skip_word_back(b"validate ", hit);
    let (start, wall_ms) = find_logger_prefix(piece.text, piece.floor, word);
    let end = piece.position(rest) + record.len();
    if word < hit {
        return Some(TrainerRecord {
            start,
            end,
            mark: TrainerMark::Between,
        });
    }
    let tflops = number_after(record, b" tflops: ");
    let line = StepLine {
        tflops,
        wall_ms,
        ..StepLine::without_time(Trainer::Torchtitan, step)
    };
    LinePiece::step_record(start, end, line)
}

#[cfg(test)]
mod tests {
    use crate::trainer::tests::{found, one, steps};
    use crate::trainer::{Trainer, TrainerMark};

    const LINE: &str = "[titan] 2026-04-03 13:00:48,267 - root - INFO - step: 97  loss:  2.89489  \
        memory:  1.00GiB(1.06%)  tps: 1,169,542  tflops: 1,012.14  mfu: 1.23%";

    #[test]
    fn commas_group_thousands_and_the_stamp_is_kept() {
        for glue in ["", "[rank1]:[titan] 2026", "h:1:2 [0] NCCL INFO"] {
            let (line, text) = one(&format!("[rank0]:{LINE}{glue}"));
            assert_eq!((line.trainer, line.step), (Trainer::Torchtitan, 97));
            assert_eq!((line.time_s, line.tflops), (None, Some(1012.14)));
            assert_eq!(
                (text.as_str(), line.wall_ms),
                (LINE, Some(1_775_221_248_267))
            );
        }
    }

    #[test]
    fn colours_between_the_fields_do_not_matter() {
        let text = LINE
            .replace("step:", "\x1b[31mstep:")
            .replace("  loss", "  \x1b[32mloss");
        let text = format!("{text}\x1b[39m").replace("tflops", "\x1b[38;2;1;2;3mtflops");
        let (line, got) = one(&text);
        assert_eq!((line.step, line.tflops), (97, Some(1012.14)));
        assert_eq!(got, text);
    }

    #[test]
    fn a_validation_ends_what_is_between_steps() {
        let text = LINE
            .replace("step:", "validate step:")
            .replace("  tflops: 1,012.14", "");
        assert_eq!(found(&text)[0].mark, TrainerMark::Between);
        assert_eq!(found(&text)[0].start, 0);
    }

    #[test]
    fn other_steps_are_refused() {
        for text in [
            "# nThread 1 step: 2(factor) warmup",
            "step: 3  loss: 1.0",
            "step: x  loss: 1",
        ] {
            assert_eq!(steps(text), 0, "{text}");
        }
    }
}
