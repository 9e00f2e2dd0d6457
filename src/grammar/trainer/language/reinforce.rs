//! verl's and OpenRLHF's lines: one step is a rollout and several updates of the weights.
//!
//! Both are printed by a Ray driver, coloured and prefixed by Ray; the collectives come from other
//! processes.

use crate::trainer::facts::STEP;
use crate::trainer::facts::{SampleLine, TrainerFacts};
use crate::trainer::parts::number::{number_after, parse_count, prefix_len};
use crate::trainer::parts::piece::LinePiece;
use crate::trainer::parts::prefix::find_logger_prefix;
use crate::trainer::{StepLine, Trainer, TrainerMark, TrainerRecord};

/// verl.
pub(crate) const VERL: TrainerFacts = TrainerFacts {
    words: &[(STEP, read_verl_step)],
    samples: &[SampleLine::new(
        "\x1b[36m(R pid=1)\x1b[0m step:2 - timing_s/step:96.5",
        2,
        Some(96.5),
    )],
    ..TrainerFacts::named("verl")
};
/// OpenRLHF.
pub(crate) const OPENRLHF: TrainerFacts = TrainerFacts {
    words: &[(STEP, read_openrlhf_step)],
    samples: &[SampleLine::new(
        "✨ Global step 1: {'timing/step_total': 5.0}",
        1,
        Some(5.0),
    )],
    ..TrainerFacts::named("openrlhf")
};

/// `step:2 - actor/grad_norm:0.069 - timing_s/step:96.551`, values perhaps `np.float64(0.31)`
/// (@b178a3c). The record is free-form and ends with the piece.
pub(crate) fn read_verl_step(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let (rest, step) = parse_count(piece.text[hit..].strip_prefix(b"step:")?).ok()?;
    let record = rest.strip_prefix(b" - ")?;
    if !piece.is_word_start(hit) {
        return None;
    }
    let name = prefix_len(record, |b| b != b':' && b != b' ');
    if record.get(name) != Some(&b':') {
        return None;
    }
    let (start, end) = (hit, piece.text.len());
    // Validation before training prints scores only.
    let has = |needle: &[u8]| memchr::memmem::find(record, needle).is_some();
    if record.starts_with(b"val") && !has(b"timing") && !has(b"actor/") {
        return Some(TrainerRecord {
            start,
            end,
            mark: TrainerMark::Between,
        });
    }
    let time_s = number_after(record, b"timing_s/step:")
        .or_else(|| number_after(record, b"perf/time_per_step:"));
    LinePiece::step_record(
        start,
        end,
        StepLine {
            time_s,
            ..StepLine::without_time(Trainer::Verl, step)
        },
    )
}

/// `✨ Global step 1: {'policy_loss': 0.0, 'timing/step_total': 8.1}`; the asynchronous trainer has
/// no sparkles.
pub(crate) fn read_openrlhf_step(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let global = piece.skip_word_back(b"Global ", hit);
    let (rest, step) = parse_count(piece.text[hit..].strip_prefix(b"step ")?).ok()?;
    let dict = rest.strip_prefix(b": {").filter(|_| global < hit)?;
    let close = prefix_len(dict, |b| b != b'}');
    let record = &dict[..close];
    let end = piece.position(dict) + (close + 1).min(dict.len());
    let at = piece.skip_word_back("✨ ".as_bytes(), global);
    let (start, wall_ms) = find_logger_prefix(piece.text, piece.floor, at);
    let time_s = number_after(record, b"'timing/step_total': ");
    LinePiece::step_record(
        start,
        end,
        StepLine {
            time_s,
            wall_ms,
            ..StepLine::without_time(Trainer::OpenRlhf, step)
        },
    )
}

#[cfg(test)]
mod tests {
    use crate::trainer::tests::{found, one, steps};
    use crate::trainer::{Trainer, TrainerMark};

    #[test]
    fn verls_step_has_its_time_among_the_timings() {
        for (time, want) in [
            ("timing_s/step:96.551", Some(96.551)),
            ("perf/time_per_step:np.float64(5.5)", Some(5.5)),
            ("timing/gen:21.470", None),
        ] {
            let record = format!("step:2 - actor/grad_norm:0.069 - {time}");
            let (line, text) = one(&format!("\x1b[36m(TaskRunner pid=16292)\x1b[0m {record}"));
            assert_eq!(
                (line.trainer, line.step, line.time_s),
                (Trainer::Verl, 2, want)
            );
            assert_eq!(text, record);
        }
    }

    #[test]
    fn verls_validation_before_training_is_between_steps() {
        let all = found("step:0 - val-core/gsm8k/reward/mean@1:0.02");
        assert_eq!((all.len(), all[0].mark), (1, TrainerMark::Between));
    }

    #[test]
    fn openrlhfs_record_is_a_dict() {
        let record = "ppo_trainer.py:547] ✨ Global step 1: {'a': 2.9, 'timing/step_total': 8.1}";
        let (line, text) = one(&format!("(PPOTrainer) {record} x"));
        assert_eq!(
            (line.trainer, line.step, line.time_s),
            (Trainer::OpenRlhf, 1, Some(8.1))
        );
        assert_eq!(text, record);
        assert_eq!(
            one("Global step 2: {'reward': -0.6,").1,
            "Global step 2: {'reward': -0.6,"
        );
    }

    #[test]
    fn other_steps_are_refused() {
        for text in [
            "global_step:2 - a:1",
            "step:2 - done",
            "step:2 and",
            "Global step 9000",
            "step:",
        ] {
            assert_eq!(steps(text), 0, "{text}");
        }
    }
}
