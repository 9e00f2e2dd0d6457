//! MaxText's step line, printed one step late (390c5d561, 2024-01-31).

use crate::trainer::facts::STEP;
use crate::trainer::facts::{SampleLine, TrainerFacts};
use crate::trainer::parts::number::{number_after, parse_count};
use crate::trainer::parts::piece::{FieldSyntax, LinePiece};
use crate::trainer::parts::prefix::find_logger_prefix;
use crate::trainer::{StepLine, Trainer, TrainerRecord};

/// MaxText, which flushes line N from a buffer one step deep (390c5d561, 2024-01-31).
pub(crate) const FACTS: TrainerFacts = TrainerFacts {
    words: &[(STEP, read_maxtext_step)],
    first: 0,
    every_rank: true,
    lags: true,
    samples: &[SampleLine::new(
        "I0811 21:54:55.531340 1383 metric_logger.py:226] completed step: 1, seconds: 0.6, loss: 1.0",
        1,
        Some(0.6),
    )],
    ..TrainerFacts::named("maxtext")
};

/// How MaxText writes its metrics.
const FIELDS: FieldSyntax = FieldSyntax {
    separator: b", ",
    colon: b": ",
    units: b"",
};

/// `completed step: 9, seconds: 5.667, TFLOP/s/device: 134.924`; `hit` is at `step:`.
pub(crate) fn read_maxtext_step(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let word = piece.skip_word_back(b"completed ", hit);
    if word == hit {
        return None;
    }
    let (rest, step) = parse_count(piece.text[hit..].strip_prefix(b"step: ")?).ok()?;
    // A profiler's `completed .. step: 5` has no time.
    if !rest.starts_with(b", seconds: ") {
        return None;
    }
    let record = &rest[..FIELDS.fields_len(rest)];
    let phase = piece.skip_word_back(b"[Rampup Batch Size Phase], ", word);
    let (start, _) = find_logger_prefix(piece.text, piece.floor, phase);
    let line = StepLine {
        time_s: number_after(record, b", seconds: "),
        tflops: number_after(record, b", TFLOP/s/device: "),
        ..StepLine::without_time(Trainer::MaxText, step)
    };
    LinePiece::step_record(start, piece.position(rest) + record.len(), line)
}

#[cfg(test)]
mod tests {
    use crate::trainer::Trainer;
    use crate::trainer::tests::{one, steps};

    #[test]
    fn absls_prefix_belongs_to_the_record() {
        let record = "I0811 21:54:55.531340 138304841739136 metric_logger.py:226] completed step: \
            1, seconds: 0.631, TFLOP/s/device: 5688.282, loss: 12.979";
        let (line, text) = one(&format!("0: {record}"));
        assert_eq!(
            (line.trainer, line.step, line.total),
            (Trainer::MaxText, 1, None)
        );
        assert_eq!((line.time_s, line.tflops), (Some(0.631), Some(5688.282)));
        assert_eq!(text, record);
    }

    #[test]
    fn the_ramp_up_phase_has_no_speed() {
        let (line, text) =
            one("[Rampup Batch Size Phase], completed step: 1, seconds: 0.6, loss: 1");
        assert_eq!((line.step, line.tflops), (1, None));
        assert!(text.starts_with("[Rampup"), "{text}");
    }

    #[test]
    fn a_profilers_step_is_refused() {
        for text in [
            "completed profiler activation/deactivation step: 5",
            "completed step: 5",
            "step: 5, seconds: 1.0",
        ] {
            assert_eq!(steps(text), 0, "{text}");
        }
    }
}
