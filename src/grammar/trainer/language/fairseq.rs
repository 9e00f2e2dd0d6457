//! fairseq's and metaseq's progress lines, in the `simple` and the JSON form.
//!
//! `num_updates` counts; `2800 / 160368` is the place in the epoch and runs ahead after an overflow
//! is skipped. `ups` has two digits, so the stamp replaces the time (@3d262bb).

use crate::trainer::facts::{SampleLine, TrainerFacts};
use crate::trainer::parts::number::{number_after, parse_count, prefix_len};
use crate::trainer::parts::piece::{FieldSyntax, LinePiece};
use crate::trainer::parts::prefix::find_logger_prefix;
use crate::trainer::{StepLine, Trainer, TrainerClock, TrainerRecord};

/// The field that counts the steps, with `=` or as a JSON key.
pub(crate) const NUM_UPDATES_FIELD: &[u8] = b"num_updates";

/// fairseq and metaseq.
pub(crate) const FACTS: TrainerFacts = TrainerFacts {
    words: &[(NUM_UPDATES_FIELD, read_fairseq_updates)],
    samples: &[
        SampleLine::new(
            "2020-07-17 07:11:02 | INFO | train_inner | epoch 001:  5 / 6 loss=9.2, num_updates=28",
            28,
            None,
        ),
        SampleLine::new(r#"{"epoch": 27, "num_updates": "33700"}"#, 33700, None),
    ],
    ..TrainerFacts::named("fairseq")
};

/// metaseq prints hundreds of norms before the count.
const METASEQ_LOOKBACK_BYTES: usize = 8192;

/// How the simple form writes its numbers.
const FIELDS: FieldSyntax = FieldSyntax {
    separator: b", ",
    colon: b"=",
    units: b"%",
};

/// Where the last `needle` before `at` is, as far back as metaseq's records need.
fn find_head_before(piece: &LinePiece<'_>, needle: &[u8], at: usize) -> Option<usize> {
    let low = piece
        .floor
        .max(at.saturating_sub(METASEQ_LOOKBACK_BYTES))
        .min(at);
    memchr::memmem::rfind(&piece.text[low..at], needle).map(|found| low + found)
}

/// `epoch 001:   2800 / 160368 loss=9.2, num_updates=2800` or `{"epoch": 1, "num_updates": "2800"}`.
pub(crate) fn read_fairseq_updates(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let value = &piece.text[hit + NUM_UPDATES_FIELD.len()..];
    let (at, step, end) = if let Some(value) = value.strip_prefix(b"=") {
        let (rest, step) = parse_count(value).ok()?;
        let at = find_head_before(piece, b"epoch ", hit)?;
        (
            piece.skip_word_back(b"| ", at),
            step,
            piece.position(rest) + FIELDS.fields_len(rest),
        )
    } else {
        // `"train_num_updates"` is the end of an epoch, so the quote has to be before.
        let value = value.strip_prefix(b"\": ")?;
        let (rest, step) = parse_count(value.strip_prefix(b"\"").unwrap_or(value)).ok()?;
        let at = find_head_before(piece, b"{\"epoch\":", hit)
            .filter(|_| piece.skip_word_back(b"\"", hit) < hit)?;
        let close = prefix_len(rest, |b| b != b'}' && b != b'{');
        (
            at,
            step,
            piece.position(rest) + close + usize::from(rest.get(close) == Some(&b'}')),
        )
    };
    // In the simple form the `| ` before `epoch` is the logger's, unless there is no logger.
    let (start, wall_ms) = match find_logger_prefix(piece.text, piece.floor, at) {
        found @ (_, Some(_)) => found,
        _ => find_logger_prefix(
            piece.text,
            piece.floor,
            piece.text[..at].len() + skip_bar(piece, at),
        ),
    };
    let start = if wall_ms.is_none() { at } else { start };
    let words = &piece.text[start..at + skip_bar(piece, at)];
    let is = |name: &[u8]| memchr::memmem::find(words, name).is_some();
    if is(b"| train |") || is(b"| valid |") || is(b"| test |") {
        return None;
    }
    // Seconds since the program began, where no logger has a stamp.
    let wall = [&b" wall="[..], b"\"wall\": "];
    let wall = wall
        .iter()
        .find_map(|name| number_after(&piece.text[at..end], name));
    LinePiece::step_record(
        start,
        end,
        StepLine {
            wall_ms,
            clock: wall.map(|seconds| TrainerClock {
                seconds,
                error: 1.0,
            }),
            ..StepLine::without_time(Trainer::Fairseq, step)
        },
    )
}

/// Length of a `| ` at `at`, which ends the logger's prefix.
fn skip_bar(piece: &LinePiece<'_>, at: usize) -> usize {
    if piece.text[at..].starts_with(b"| ") {
        2
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use crate::trainer::Trainer;
    use crate::trainer::tests::{one, steps};

    const LOGGER: &str = "2020-07-17 07:11:02 | INFO | train_inner | ";

    #[test]
    fn the_simple_form_counts_updates_not_the_place_in_the_epoch() {
        let record = "epoch 001:    450 / 1891 loss=11.521, num_updates=445, clip=0%, wall=882";
        let (line, text) = one(&format!("0: {LOGGER}{record} x"));
        assert_eq!(
            (line.trainer, line.step, line.total),
            (Trainer::Fairseq, 445, None)
        );
        assert_eq!((line.time_s, line.wall_ms), (None, Some(1_594_969_862_000)));
        assert_eq!(text, format!("{LOGGER}{record}"));
        let (line, text) = one(&format!("0: | {record}"));
        assert_eq!((line.step, line.wall_ms), (445, None));
        assert_eq!(line.clock.map(|clock| clock.seconds), Some(882.0));
        assert_eq!(text, format!("| {record}"));
    }

    #[test]
    fn the_json_form_quotes_its_numbers() {
        let record = r#"{"epoch": 27, "loss": "8.2", "num_updates": "33700", "lr": "0.1"}"#;
        assert_eq!(one(&format!("0: {record}{{}}")).1, record);
        let (line, text) = one(&format!("{LOGGER}{record}"));
        assert_eq!((line.step, line.wall_ms), (33700, Some(1_594_969_862_000)));
        assert_eq!(text, format!("{LOGGER}{record}"));
    }

    #[test]
    fn ends_of_epochs_and_validations_are_refused() {
        for text in [
            "2020-07-17 07:11:02 | INFO | train | epoch 001 | loss 9.2 | num_updates 2800",
            "2020-07-17 07:11:02 | INFO | train | epoch 001: 5 / 6 loss=9.2, num_updates=2800",
            "2020-07-17 07:11:02 | INFO | valid | {\"epoch\": 1, \"num_updates\": \"2800\"}",
            r#"{"epoch": 1, "train_num_updates": "2800"}"#,
            "num_updates=5",
        ] {
            assert_eq!(steps(text), 0, "{text}");
        }
    }
}
