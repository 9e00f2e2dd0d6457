//! verl's, OpenRLHF's and NeMo-RL's lines: one step is a rollout and several updates of the weights.
//!
//! They are printed by a Ray driver, coloured and prefixed by Ray; the collectives come from other
//! processes.

use crate::trainer::facts::{STEP, STEP_BEGINS};
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

/// NeMo-RL. Its header begins a step, so it reports the end of the step before; the last step has no such line.
pub(crate) const NEMO_RL: TrainerFacts = TrainerFacts {
    words: &[
        (STEP_BEGINS, read_nemo_rl_header),
        (STEP, read_nemo_rl_time),
    ],
    samples: &[SampleLine::new(
        "========================= Step 4/100 =========================",
        3,
        None,
    )],
    ..TrainerFacts::named("nemo-rl")
};

/// The number of `=` on each side of NeMo-RL's header.
const HEADER_RULE_BYTES: usize = 25;

/// `========================= Step 2/100 =========================` (`grpo.py`, `sft.py`, `dpo.py` of NeMo-RL 0.3).
pub(crate) fn read_nemo_rl_header(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let rule = [b'='; HEADER_RULE_BYTES];
    let gap = piece.skip_word_back(b" ", hit);
    let start = piece.skip_word_back(&rule, gap);
    let (rest, number) = parse_count(piece.text[hit..].strip_prefix(STEP_BEGINS)?).ok()?;
    let (rest, total) = parse_count(rest.strip_prefix(b"/")?).ok()?;
    let rest = rest.strip_prefix(b" ")?.strip_prefix(&rule)?;
    if start == gap || gap == hit || number > total {
        return None;
    }
    let end = piece.position(rest);
    match number.checked_sub(1)? {
        // What comes before the first step is the start of the job.
        0 => Some(TrainerRecord {
            start,
            end,
            mark: TrainerMark::Between,
        }),
        step => LinePiece::step_record(
            start,
            end,
            StepLine {
                total: Some(total),
                ..StepLine::without_time(Trainer::NemoRl, step)
            },
        ),
    }
}

/// `  • Total step time: 25.12s`, printed at the end of a step: the next header has its number.
pub(crate) fn read_nemo_rl_time(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let start = piece.skip_word_back("• Total ".as_bytes(), hit);
    let text = piece.text[hit..].strip_prefix(b"step time: ")?;
    let time_s = number_after(&piece.text[hit..], b"step time: ")?;
    let digits = prefix_len(text, |b| b.is_ascii_digit() || b == b'.');
    let is_seconds = text.get(digits) == Some(&b's') && text[digits + 1..].trim_ascii().is_empty();
    (start < hit && is_seconds).then(|| TrainerRecord {
        start,
        end: piece.position(&text[digits + 1..]),
        mark: TrainerMark::Timing {
            time_s: Some(time_s),
            tflops: None,
        },
    })
}

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
    fn nemo_rls_header_ends_the_step_before() {
        let rule = "=".repeat(25);
        let all = found(&format!("{rule} Step 1/100 {rule}"));
        assert_eq!((all.len(), all[0].mark), (1, TrainerMark::Between));
        let (line, _) = one(&format!("(D pid=7) {rule} Step 2/100 {rule}"));
        let expect = (Trainer::NemoRl, 1, Some(100));
        assert_eq!((line.trainer, line.step, line.total), expect);
        let timing = |time_s| TrainerMark::Timing {
            time_s: Some(time_s),
            tflops: None,
        };
        assert_eq!(found("  • Total step time: 25.12s")[0].mark, timing(25.12));
        for none in [
            "== Step 2/100 ==",
            "Total step time: 25.12s",
            "  • Total step time: 25.12s ± 0.10s",
        ] {
            assert!(found(none).is_empty(), "{none}");
        }
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
