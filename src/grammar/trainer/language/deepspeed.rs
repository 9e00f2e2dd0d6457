//! DeepSpeed's lines: the engine's `step=`, the timer's `SamplesPerSec=`, the pipeline's `steps: `.
//!
//! None but the pipeline's has a time, so the stamp is kept. The first two are printed for the same
//! step, and both are found (@edaa722; since 066d91205 only when the level is raised).

use crate::trainer::facts::STEP;
use crate::trainer::facts::{SampleLine, TrainerFacts};
use crate::trainer::parts::number::{
    bytes_after, parse_count, parse_float, prefix_len, suffix_len,
};
use crate::trainer::parts::piece::{FieldSyntax, LinePiece};
use crate::trainer::parts::prefix::find_logger_prefix;
use crate::trainer::{StepLine, Trainer, TrainerRecord};

/// The timer's field in the form before 5bd09a8f8, 2022-07-26.
pub(crate) const SAMPLES: &[u8] = b", SamplesPerSec=";

/// DeepSpeed.
pub(crate) const FACTS: TrainerFacts = TrainerFacts {
    words: &[
        (STEP, read_engine_step),
        (STEP, read_timer),
        (SAMPLES, read_old_timer),
        (STEP, read_pipeline),
    ],
    samples: &[
        SampleLine::new(
            "[2022-03-11 02:06:58,985] [INFO] [l.py:6:d] [Rank 0] step=40, skipped=2, lr=[5e-05], mom=[[0.9]]",
            40,
            None,
        ),
        SampleLine::new(
            "epoch=0/micro_step=3/global_step=34, RunningAvgSamplesPerSec=7.8, MemAllocated=5.6GB",
            34,
            None,
        ),
        SampleLine::new(
            "steps: 200 loss: 5.5 iter time (s): 0.936 samples/sec: 136.7",
            200,
            Some(0.936),
        ),
    ],
    ..TrainerFacts::named("deepspeed")
};

/// How the timer writes its numbers.
const FIELDS: FieldSyntax = FieldSyntax {
    separator: b", ",
    colon: b"=",
    units: b"GB",
};

fn step_with_stamp(
    piece: &LinePiece<'_>,
    at: usize,
    end: usize,
    step: u64,
) -> Option<TrainerRecord> {
    let (start, wall_ms) = find_logger_prefix(piece.text, piece.floor, at);
    LinePiece::step_record(
        start,
        end,
        StepLine {
            wall_ms,
            ..StepLine::without_time(Trainer::DeepSpeed, step)
        },
    )
}

/// `[Rank 0] step=40, skipped=2, lr=[5e-05], mom=[[0.9, 0.999]]`.
pub(crate) fn read_engine_step(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let (rest, step) = parse_count(piece.text[hit..].strip_prefix(b"step=")?).ok()?;
    if !rest.starts_with(b", skipped=") || !piece.is_word_start(hit) {
        return None;
    }
    // The lists of one rate and one momentum per group; a list cut short ends with the piece.
    let mut end = rest
        .len()
        .min(10 + prefix_len(&rest[10..], |b| b.is_ascii_digit()));
    for name in [&b", lr=["[..], b", mom=["] {
        let Some(list) = rest[end..].strip_prefix(name) else {
            break;
        };
        let close = prefix_len(list, |b| {
            b.is_ascii_digit() || b"[](), .eE+-".contains(&b) || b.is_ascii_alphabetic()
        });
        // `mom` follows `lr` with a comma, which the list would take in.
        let list = &list[..memchr::memmem::find(&list[..close], b", mom=[").unwrap_or(close)];
        let depth = memchr::memchr(b'[', list).is_some_and(|at| at == 0);
        let close = if depth {
            memchr::memmem::find(list, b"]]").map(|at| at + 2)
        } else {
            memchr::memchr(b']', list).map(|at| at + 1)
        };
        end += name.len() + close.unwrap_or(list.len());
    }
    step_with_stamp(
        piece,
        piece.skip_word_back(b"[Rank 0] ", hit),
        piece.position(rest) + end,
        step,
    )
}

/// `epoch=0/micro_step=34/global_step=34, RunningAvgSamplesPerSec=7.8, ..`; `hit` is at `step=34`.
pub(crate) fn read_timer(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let digit = |b: u8| b.is_ascii_digit();
    let (before, low) = piece.free_text_before(hit);
    let micro = before.strip_suffix(b"/global_")?;
    let epoch = micro[..micro.len() - suffix_len(micro, digit)].strip_suffix(b"/micro_step=")?;
    let head = epoch[..epoch.len() - suffix_len(epoch, digit)].strip_suffix(b"epoch=")?;
    let (rest, step) = parse_count(piece.text[hit..].strip_prefix(b"step=")?).ok()?;
    step_with_stamp(
        piece,
        low + head.len(),
        piece.position(rest) + FIELDS.fields_len(rest),
        step,
    )
}

/// `0/40, SamplesPerSec=83.48`, the timer of old: epoch and step.
pub(crate) fn read_old_timer(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let digit = |b: u8| b.is_ascii_digit();
    let (before, low) = piece.free_text_before(hit);
    let digits = suffix_len(before, digit);
    let epoch = before[..before.len() - digits].strip_suffix(b"/")?;
    let (_, step) = parse_count(&before[before.len() - digits..]).ok()?;
    let head = epoch.len() - suffix_len(epoch, digit);
    let end = hit + FIELDS.fields_len(&piece.text[hit..]);
    step_with_stamp(piece, low + head, end, step).filter(|_| head < epoch.len())
}

/// `steps: 200 loss: 5.5508 iter time (s): 0.936 samples/sec: 136.706`, a bare `print`; the time is
/// the mean over `steps_per_print`.
pub(crate) fn read_pipeline(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let (rest, step) = parse_count(piece.text[hit..].strip_prefix(b"steps: ")?).ok()?;
    if !rest.starts_with(b" loss: ") || !piece.is_word_start(hit) {
        return None;
    }
    let window = &rest[..rest.len().min(512)];
    let time = bytes_after(window, b" iter time (s): ")?;
    let (mut tail, time_s) = parse_float(time);
    if let Some(rate) = tail.strip_prefix(b" samples/sec: ") {
        tail = parse_float(rate).0;
    }
    let line = StepLine {
        time_s,
        ..StepLine::without_time(Trainer::DeepSpeed, step)
    };
    LinePiece::step_record(hit, piece.position(rest) + window.len() - tail.len(), line)
}

#[cfg(test)]
mod tests {
    use crate::trainer::Trainer;
    use crate::trainer::tests::{found, one, steps};

    #[test]
    fn the_bracketed_prefix_belongs_to_the_record() {
        let stamp = "[2022-03-11 02:06:58,985] [INFO] ";
        for record in [
            "[logging.py:69:log_dist] [Rank 0] step=40, skipped=2, lr=[5e-05], mom=[[0.9, 0.999]]",
            "[logging.py:69:log_dist] [Rank 0] step=40, skipped=2, lr=[1e-3, 2e-3], mom=[0.0, 0.0]",
            "[logging.py:69:log_dist] [Rank 0] step=40, skipped=2, lr=[1e-3], mom=[(0.9, 0.9)]",
            "[timer.py:189:stop] 0/40, SamplesPerSec=83.486, MemAllocated=0.26GB",
            "[timer.py:215:stop] epoch=0/micro_step=80/global_step=40, RunningAvgSamplesPerSec=7.8, \
             CurrSamplesPerSec=8.0, MemAllocated=59.65GB",
        ] {
            for glue in ["", "[2022-03-11 02:06:58,986] x"] {
                let (line, text) = one(&format!("worker-0: {stamp}{record}{glue}"));
                assert_eq!(
                    (line.trainer, line.step),
                    (Trainer::DeepSpeed, 40),
                    "{record}"
                );
                assert_eq!((line.time_s, line.wall_ms), (None, Some(1_646_964_418_985)));
                assert_eq!(text, format!("{stamp}{record}"));
            }
        }
    }

    #[test]
    fn the_oldest_prefix_has_its_level_inside() {
        let record = "[INFO 2020-06-08 05:26:19] 0/2650, SamplesPerSec=13.19749106827976";
        let (line, text) = one(&format!("[0] {record}"));
        assert_eq!((line.step, line.wall_ms), (2650, Some(1_591_593_979_000)));
        assert_eq!(text, record);
    }

    #[test]
    fn a_bar_glued_before_is_a_record_of_its_own() {
        let all = found(
            "  8%|#  | 1999/24128 [1:52:09<20:27:23,  3.33s/it][2021-11-26 03:07:16,494] [INFO] \
             [logging.py:69:log_dist] [Rank 0] step=2000, skipped=1995, lr=[0.001], mom=[0.0]",
        );
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].end, all[1].start);
    }

    #[test]
    fn the_pipeline_prints_a_mean_time() {
        let (line, text) =
            one("steps: 200 loss: 5.5508 lm loss: 5.5 iter time (s): 0.936 samples/sec: 136.7 x");
        assert_eq!((line.step, line.time_s), (200, Some(0.936)));
        assert!(text.ends_with("136.7"), "{text}");
    }

    #[test]
    fn settings_and_file_names_are_refused() {
        for text in [
            "model--step=9000-consumed_samples=1.ckpt",
            "global_step=40, skipped=2",
            "num_steps: 200 loss: 1 iter time (s): 1",
            "steps: 200 loss: 1",
            ", SamplesPerSec=1.0",
        ] {
            assert_eq!(steps(text), 0, "{text}");
        }
    }
}
