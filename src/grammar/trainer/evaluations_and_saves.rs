//! Lines at the end of an evaluation or of a checkpoint save.
//!
//! Their collectives are between two steps and would swell the second one. A line at the start of
//! a save (`saving checkpoint at iteration .. to`) marks nothing: the save is still to come.

use super::facts::{LOSS, RecordReader};
use super::language::nemo::NEMO_FIELDS;
use super::parts::number::{parse_count, prefix_len};
use super::parts::piece::LinePiece;
use super::parts::prefix::find_logger_prefix;
use super::{TrainerMark, TrainerRecord};

/// NeMo 2's evaluation and test run (`progress_printer.py` @8cfedd72).
const NEMO: &[u8] = b": iteration ";
/// The metrics of an evaluation of the Hugging Face trainer.
const HF_EVAL: &[u8] = b"{'eval_";
/// The checkpoints of Megatron-LM (`successfully saved`), fairseq (`Saved`) and of others.
const SAVED_CHECKPOINT: &[u8] = b"aved checkpoint";
/// torchtitan's checkpoint.
const TITAN_SAVED: &[u8] = b"Finished saving the checkpoint";

/// These words, each with the reader of the line around it.
pub(super) const EVALUATION_AND_SAVE_ANCHORS: &[(&[u8], RecordReader)] = &[
    (LOSS, read_megatron_validation),
    (NEMO, read_nemo_validation),
    (HF_EVAL, read_hugging_face_eval),
    (SAVED_CHECKPOINT, read_saved_checkpoint),
    (TITAN_SAVED, mark_sentence),
];

fn mark_record(start: usize, end: usize) -> Option<TrainerRecord> {
    Some(TrainerRecord {
        start,
        end,
        mark: TrainerMark::Between,
    })
}

/// A line of free text to the end of the piece, with the logger's prefix or the blanks before it.
fn mark_sentence(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let (start, _) = find_logger_prefix(piece.text, piece.floor, hit);
    // Megatron indents the one by a blank, the other by two.
    let start = if start == hit {
        piece.skip_word_back(b" ", piece.skip_word_back(b" ", hit))
    } else {
        start
    };
    mark_record(start, piece.text.len())
}

/// Where the first of `words` that is right before `at` begins.
fn find_words_before(piece: &LinePiece<'_>, words: &[&[u8]], at: usize) -> Option<usize> {
    let mut starts = words.iter().map(|word| piece.skip_word_back(word, at));
    starts.find(|start| *start < at)
}

/// `validation loss at iteration 10 | lm loss value: 2.3E+00 |` (`training.py` @d98e8a64).
fn read_megatron_validation(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let start = find_words_before(piece, &[b"validation"], hit)?;
    let ours = piece.text[hit + LOSS.len()..].starts_with(b"at iteration");
    ours.then(|| mark_sentence(piece, start)).flatten()
}

fn read_saved_checkpoint(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    find_words_before(piece, &[b"successfully s", b"S"], hit)
        .and_then(|start| mark_sentence(piece, start))
}

/// `Validation: iteration 3/32 | val_loss: 2.8`, also before training as `Sanity checking ..`.
fn read_nemo_validation(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let start = find_words_before(piece, &[b"Validation", b"Testing"], hit)?;
    let (rest, _) = parse_count(&piece.text[hit + NEMO.len()..]).ok()?;
    let total = rest
        .strip_prefix(b"/")
        .and_then(|total| parse_count(total).ok());
    let rest = total.map_or(rest, |(rest, _)| rest);
    let end = piece.position(rest) + NEMO_FIELDS.fields_len(rest);
    mark_record(piece.skip_word_back(b"Sanity checking ", start), end)
}

/// `{'eval_loss': 1.2, 'epoch': 1.0}`, printed once the evaluation is done.
fn read_hugging_face_eval(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let rest = &piece.text[hit..];
    let close = prefix_len(rest, |b| b != b'}');
    mark_record(hit, hit + (close + 1).min(rest.len()))
}

#[cfg(test)]
mod tests {
    use super::super::TrainerMark;
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
            assert_eq!(
                (all.len(), all[0].mark),
                (1, TrainerMark::Between),
                "{record}"
            );
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
