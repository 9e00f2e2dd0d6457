//! Lines at the end of an evaluation or of a checkpoint save.
//!
//! Their collectives stand between two steps and would swell the second one. A line at the start of
//! a save (`saving checkpoint at iteration .. to`) marks nothing: the save is still to come.

use super::nemo::FIELDS;
use super::number::{count, run};
use super::piece::Piece;
use super::prefix::logger;
use super::{Found, Mark};

/// Megatron-LM's evaluation (`training.py` @d98e8a64).
pub(super) const MEGATRON_LOSS: &[u8] = b"validation loss at iteration";
/// NeMo 2's evaluation (`progress_printer.py` @8cfedd72).
pub(super) const NEMO_VALIDATION: &[u8] = b"Validation: iteration ";
/// NeMo 2's test run.
pub(super) const NEMO_TEST: &[u8] = b"Testing: iteration ";
/// The metrics of an evaluation of the Hugging Face trainer.
pub(super) const HF_EVAL: &[u8] = b"{'eval_";
/// Megatron-LM's checkpoint.
pub(super) const MEGATRON_SAVED: &[u8] = b"successfully saved checkpoint";
/// fairseq's checkpoint, and of others.
pub(super) const SAVED: &[u8] = b"Saved checkpoint";
/// torchtitan's checkpoint.
pub(super) const TITAN_SAVED: &[u8] = b"Finished saving the checkpoint";

fn between(start: usize, end: usize) -> Option<Found> {
    Some(Found {
        start,
        end,
        mark: Mark::Between,
    })
}

/// A line of free text to the end of the piece, with the logger's prefix or the blanks before it.
pub(super) fn sentence(piece: &Piece<'_>, hit: usize) -> Option<Found> {
    let (start, _) = logger(piece.text, piece.floor, hit);
    // Megatron indents the one by a blank, the other by two.
    let start = if start == hit {
        piece.over(b" ", piece.over(b" ", hit))
    } else {
        start
    };
    between(start, piece.text.len())
}

/// `Validation: iteration 3/32 | val_loss: 2.8`, also before training as `Sanity checking ..`.
pub(super) fn nemo(piece: &Piece<'_>, hit: usize) -> Option<Found> {
    let text = &piece.text[hit..];
    let number = memchr::memmem::find(text, b"iteration ")? + b"iteration ".len();
    let (rest, _) = count(&text[number..]).ok()?;
    let total = rest.strip_prefix(b"/").and_then(|total| count(total).ok());
    let rest = total.map_or(rest, |(rest, _)| rest);
    let end = piece.position(rest) + FIELDS.length(rest);
    between(piece.over(b"Sanity checking ", hit), end)
}

/// `{'eval_loss': 1.2, 'epoch': 1.0}`, printed once the evaluation is done.
pub(super) fn hugging_face(piece: &Piece<'_>, hit: usize) -> Option<Found> {
    let rest = &piece.text[hit..];
    let close = run(rest, |b| b != b'}');
    between(hit, hit + (close + 1).min(rest.len()))
}

#[cfg(test)]
mod tests {
    use super::super::Mark;
    use super::super::tests::found;

    #[test]
    fn ends_of_evaluations_and_saves_are_found_with_their_prefix() {
        for (before, record, glue) in [
            (
                "0:",
                " validation loss at iteration 10 | lm loss value: 2.3E+00 |",
                "",
            ),
            ("0: ", "Validation: iteration 3/32 | val_loss: 2.861", "[x"),
            ("", "Sanity checking Validation: iteration 1/2", "x"),
            ("", "Testing: iteration 1/2", ""),
            ("", "{'eval_loss': '1.2', 'epoch': 1.0}", "  "),
            (
                "[r0]:",
                "  successfully saved checkpoint from iteration 500 to /x",
                "",
            ),
            (
                "",
                "2020-07-17 07:11:02 | INFO | fairseq.checkpoint_utils | Saved checkpoint x.pt",
                "",
            ),
            (
                "[rank0]:",
                "[titan] 2026-04-03 13:00:48,172 - root - INFO - Finished saving the checkpoint",
                "",
            ),
        ] {
            let all = found(&format!("{before}{record}{glue}"));
            assert_eq!((all.len(), all[0].mark), (1, Mark::Between), "{record}");
            let range = (all[0].start, all[0].end);
            assert_eq!(
                range,
                (before.len(), before.len() + record.len()),
                "{record}"
            );
        }
    }

    #[test]
    fn the_start_of_a_save_marks_nothing() {
        for text in [
            "saving checkpoint at iteration     500 to /x in torch_dist format",
            "Scheduled async checkpoint save for /x",
            "Epoch 0, global step 9: 'val_loss' reached 7.0 (best 7.0), saving model to 'x' as top 3",
            "Validation: iteration",
        ] {
            assert!(found(text).is_empty(), "{text}");
        }
    }
}
