//! NeMo 2's printed step line.
//!
//! `iteration` is relative to the epoch and restarts at 0, so `global_step` counts where it is
//! printed; the total printed is the last number, one less than the count (@8cfedd72).

use nom::bytes::complete::tag;
use nom::{IResult, Parser};

use crate::trainer::facts::{SampleLine, TrainerFacts};
use crate::trainer::parts::number::{number_after, parse_count};
use crate::trainer::parts::piece::{FieldSyntax, LinePiece};
use crate::trainer::{StepLine, Trainer, TrainerRecord};

/// What every line begins with; the validation look-alikes have other words.
pub(crate) const TRAINING_EPOCH: &[u8] = b"Training epoch ";

/// NeMo 2.
pub(crate) const FACTS: TrainerFacts = TrainerFacts {
    words: &[(TRAINING_EPOCH, read_nemo_iteration)],
    aliases: &["nemo"],
    first: 0,
    samples: &[SampleLine::new(
        "0: Training epoch 0, iteration 45/99 | global_step: 45 | train_step_timing in s: 6.08",
        45,
        Some(6.08),
    )],
    ..TrainerFacts::named("nemo2")
};

/// How NeMo's printer writes its metrics.
pub(crate) const NEMO_FIELDS: FieldSyntax = FieldSyntax {
    separator: b" | ",
    colon: b": ",
    units: b"",
};

fn head(input: &[u8]) -> IResult<&[u8], (u64, u64)> {
    let (rest, (_, _, _, iteration, _, last)) = (
        tag(TRAINING_EPOCH),
        parse_count,
        tag(", iteration "),
        parse_count,
        tag("/"),
        parse_count,
    )
        .parse(input)?;
    Ok((rest, (iteration, last)))
}

/// `Training epoch 0, iteration 45/99 | global_step: 45 | train_step_timing in s: 6.08`.
pub(crate) fn read_nemo_iteration(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let (rest, (iteration, last)) = head(&piece.text[hit..]).ok()?;
    let record = &rest[..NEMO_FIELDS.fields_len(rest)];
    let global = number_after(record, b"| global_step: ");
    // Beyond 2^53 a float is no count, and `as` saturates, so the iteration is the better number.
    let global = global
        .filter(|&step| (0.0..9e15).contains(&step))
        .map(|step| step as u64);
    let tflops = number_after(record, b"| TFLOPS_per_GPU: ")
        .or_else(|| number_after(record, b"| tflops_per_sec_per_gpu: "));
    let line = StepLine {
        total: last.checked_add(1),
        time_s: number_after(record, b"| train_step_timing in s: "),
        tflops,
        ..StepLine::without_time(Trainer::Nemo2, global.unwrap_or(iteration))
    };
    LinePiece::step_record(hit, piece.position(rest) + record.len(), line)
}

#[cfg(test)]
mod tests {
    use crate::trainer::tests::{one, steps};

    #[test]
    fn global_step_counts_not_the_iteration_of_the_epoch() {
        let (line, text) = one(
            "0: Training epoch 1, iteration 0/19 | lr: 1e-06 | global_step: 19 | \
             train_step_timing in s: 7.592 | TFLOPS_per_GPU: 1e+03[NeMo I 2025",
        );
        assert_eq!((line.step, line.total), (19, Some(20)));
        assert_eq!((line.time_s, line.tflops), (Some(7.592), Some(1000.0)));
        assert!(
            text.starts_with("Training epoch") && text.ends_with("1e+03"),
            "{text}"
        );
    }

    #[test]
    fn a_line_without_fields_still_marks_its_step() {
        let (line, text) = one("sendbuff 0x7fTraining epoch 0, iteration 5/9");
        assert_eq!((line.step, line.total, line.time_s), (5, Some(10), None));
        assert_eq!(text, "Training epoch 0, iteration 5/9");
    }

    #[test]
    fn a_time_that_is_no_number_is_none() {
        let (line, _) = one("Training epoch 0, iteration 5/9 | train_step_timing in s: nan");
        assert_eq!(line.time_s, None);
    }

    #[test]
    fn look_alikes_and_cut_heads_are_refused() {
        for text in [
            "Training epoch 0, iteration 45",
            "Training epoch 0, iteration 99999999999999999999/9",
            "Validation: iteration 3/32 | x: 1",
            "Training epoch 0 starts",
        ] {
            assert_eq!(steps(text), 0, "{text}");
        }
    }
}
