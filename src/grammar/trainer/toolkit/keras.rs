//! Keras' progress bar.
//!
//! It counts from 1 in each epoch, and the epoch is on a line of its own. Its `3ms/step` is the mean since
//! the epoch began, so that it is a clock (Keras 2.2 to 2.15 `utils/generic_utils.py`, 3.0 to 3.11
//! `src/utils/progbar.py`). Evaluations draw such bars too, with another total.

use crate::trainer::facts::{STEP, SampleLine, TrainerFacts};
use crate::trainer::parts::number::{number_len, parse_count, parse_float, suffix_len};
use crate::trainer::parts::piece::LinePiece;
use crate::trainer::{StepLine, Trainer, TrainerClock, TrainerRecord};

/// What Keras 2 prints until an epoch is over.
const KERAS_ETA: &[u8] = b" - ETA: ";

/// Keras.
pub(crate) const FACTS: TrainerFacts = TrainerFacts {
    words: &[(STEP, read_mean_time), (KERAS_ETA, read_time_left)],
    aliases: &["tensorflow"],
    late: true,
    any_program: true,
    samples: &[
        SampleLine::new(
            "  10/1875 [..............................] - ETA: 5s - loss: 2.3025 - accuracy: 0.1000",
            10,
            None,
        ),
        SampleLine::new(
            "1875/1875 ━━━━━━━━━━━━━━━━━━━━ 5s 3ms/step - accuracy: 0.9 - loss: 0.3",
            1875,
            None,
        ),
    ],
    ..TrainerFacts::named("keras")
};

/// Finds `  10/1875 ` before the drawn bar, or before ` - 4s - `.
fn find_counter(piece: &LinePiece<'_>, hit: usize) -> Option<(usize, u64, u64)> {
    let (text, low) = piece.free_text_before(hit);
    memchr::memchr_iter(b'/', text).find_map(|slash| {
        let (rest, total) = parse_count(&text[slash + 1..]).ok()?;
        let drawn = [&b" ["[..], " ━".as_bytes(), b" - "];
        drawn.iter().find(|begin| rest.starts_with(begin))?;
        // The number is as wide as the total; digits of a torn line may be before it.
        let width = text.len() - rest.len() - slash - 1;
        let digits = suffix_len(&text[..slash], |b| b.is_ascii_digit()).min(width);
        let start = slash - digits;
        let pad = suffix_len(&text[..start], |b| b == b' ').min(width - digits);
        let (_, step) = parse_count(&text[start..slash]).ok()?;
        (step > 0 && step <= total).then_some((low + start - pad, step, total))
    })
}

/// The record of a bar with a loss, which the predictions of Keras have not.
fn bar_record(
    piece: &LinePiece<'_>,
    hit: usize,
    after: &[u8],
    clock: impl FnOnce(u64) -> Option<TrainerClock>,
) -> Option<TrainerRecord> {
    let (start, step, total) = find_counter(piece, hit)?;
    let end = piece.position(fields_end(after));
    memchr::memmem::find(&piece.text[start..end], b"loss: ")?;
    let line = StepLine {
        total: Some(total),
        clock: clock(step),
        ..StepLine::without_time(Trainer::Keras, step)
    };
    LinePiece::step_record(start, end, line)
}

/// What follows ` - loss: 2.3025 - accuracy: 0.1` and ` - 4s/epoch`.
fn fields_end(text: &[u8]) -> &[u8] {
    let mut rest = text;
    while let Some(field) = rest.strip_prefix(b" - ") {
        let name = field
            .iter()
            .position(|b| !(b.is_ascii_alphanumeric() || b"_/".contains(b)));
        let Some(value) = name.and_then(|len| field[len..].strip_prefix(b": ")) else {
            let Some(after) = field[number_len(field)..].strip_prefix(b"s/epoch") else {
                break;
            };
            rest = after;
            continue;
        };
        let len = match number_len(value) {
            0 if value.starts_with(b"nan") => 3,
            len => len,
        };
        if len == 0 {
            break;
        }
        rest = &value[len..];
    }
    rest
}

/// `10/1875 [...] - ETA: 5s - loss: 2.3025`.
fn read_time_left(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let time = &piece.text[hit + KERAS_ETA.len()..];
    let len = time
        .iter()
        .position(|b| !(b.is_ascii_digit() || b":s".contains(b)))?;
    bar_record(piece, hit, &time[len..], |_| None)
}

/// `1875/1875 ━━━━ 5s 3ms/step - accuracy: 0.9 - loss: 0.3`, `[====] - 6s 3ms/step - loss: 0.3`, and with
/// `verbose=2` `1875/1875 - 4s - 2ms/step - loss: 0.3`.
fn read_mean_time(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let after = piece.text[hit..].strip_prefix(b"step")?;
    let before = piece.free_text_before(hit).0.strip_suffix(b"s/")?;
    let (number, unit) = match before.last()? {
        b'm' => (&before[..before.len() - 1], 1e-3),
        b'u' => (&before[..before.len() - 1], 1e-6),
        _ => (before, 1.0),
    };
    let len = suffix_len(number, |b| b.is_ascii_digit() || b == b'.');
    let mean = parse_float(&number[number.len() - len..]).1?;
    bar_record(piece, hit, after, |step| {
        Some(TrainerClock {
            seconds: step as f64 * mean * unit,
            error: step as f64 * unit,
        })
    })
}

#[cfg(test)]
mod tests {
    use crate::trainer::Trainer;
    use crate::trainer::tests::{found, one, steps};

    #[test]
    fn all_forms_of_the_bar_are_read() {
        for (text, step, seconds) in [
            (
                "  10/1875 [..............................] - ETA: 1:05 - loss: 2.3025 - accuracy: 0.1",
                10,
                None,
            ),
            (
                "1875/1875 [==============================] - 6s 3ms/step - loss: nan - accuracy: 0.9",
                1875,
                Some(5.625),
            ),
            (
                " 500/1875 ━━━━━━━━━━━━━━━━━━━━ 4s 2ms/step - accuracy: 0.9 - loss: 0.3",
                500,
                Some(1.0),
            ),
            (
                "1875/1875 - 4s - loss: 0.29 - accuracy: 0.91 - 4s/epoch - 2ms/step",
                1875,
                Some(3.75),
            ),
            (
                "1875/1875 - 4s - 2ms/step - accuracy: 0.91 - loss: 0.29",
                1875,
                Some(3.75),
            ),
        ] {
            let (line, got) = one(&format!("0: {text}h:1:2 [0] NCCL"));
            assert_eq!(
                (line.trainer, line.step, line.total),
                (Trainer::Keras, step, Some(1875))
            );
            assert_eq!((got.as_str(), line.time_s), (text, None));
            assert_eq!(line.clock.map(|clock| clock.seconds), seconds, "{text}");
        }
        let colours = "\x1b[1m 10/1875\x1b[0m \x1b[32m━━━\x1b[0m\x1b[37m━━\x1b[0m \x1b[1m5s\x1b[0m 3ms/step - loss: 2.3";
        assert_eq!(one(colours).0.step, 10);
    }

    #[test]
    fn predictions_and_others_are_refused() {
        for text in [
            "10/10 ━━━━━━━━━━━━━━━━━━━━ 1s 5ms/step",
            "took 5ms/step",
            "0/10 [....] - ETA: 5s - loss: 2",
            "11/10 [....] - ETA: 5s - loss: 2",
            "x - ETA: 5s - loss: 2",
        ] {
            assert_eq!(steps(text), 0, "{text}: {:?}", found(text));
        }
    }
}
