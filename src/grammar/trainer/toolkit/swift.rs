//! ms-swift: a bar described `Train`, and after it a dictionary with the step.

use crate::trainer::facts::{STEP, SampleLine, TrainerFacts};
use crate::trainer::parts::number::{bytes_after, parse_count, prefix_len};
use crate::trainer::parts::piece::LinePiece;
use crate::trainer::{StepLine, Trainer, TrainerClock, TrainerRecord};

/// ms-swift. A bar described `Train` is drawn by other programs too.
pub(crate) const FACTS: TrainerFacts = TrainerFacts {
    words: &[(STEP, read_swift_dictionary)],
    aliases: &["ms-swift"],
    late: true,
    any_program: true,
    samples: &[
        SampleLine::new(
            "{'loss': '0.3713', 'learning_rate': '3.3e-05', 'global_step/max_steps': '1/60', 'elapsed_time': '43s', 'train_speed(s/it)': '42.51'}",
            1,
            None,
        ),
        SampleLine::new(
            "Train:   8%|▊         | 5/60 [03:52<43:40, 47.64s/it]",
            5,
            None,
        ),
    ],
    ..TrainerFacts::named("swift")
};

/// The seconds of `1d 2h`, `1h 7m 30s`, `3m 40s`, `43s`, and its last unit in seconds.
fn parse_elapsed(text: &[u8]) -> Option<TrainerClock> {
    let (mut seconds, mut error, mut rest) = (0.0, None, text);
    while let Ok((after, number)) = parse_count(rest) {
        let unit = match after.first()? {
            b'd' => 86_400.0,
            b'h' => 3_600.0,
            b'm' => 60.0,
            b's' => 1.0,
            _ => return None,
        };
        seconds += number as f64 * unit;
        error = Some(unit);
        rest = after[1..].trim_ascii_start();
    }
    error.map(|error| TrainerClock { seconds, error })
}

/// `{'loss': 1.3, .. 'global_step/max_steps': '1/700', .. 'elapsed_time': '3m 40s', ..}`, since 3.0;
/// `train_speed` is a mean since the start (`swift/trainers/callback.py`, 3.0 to 3.12). With
/// `eval_loss` it is an evaluation's.
fn read_swift_dictionary(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let rest = piece.text[hit..].strip_prefix(b"step/max_steps")?;
    let rest = rest
        .strip_prefix(b"': '")
        .or(rest.strip_prefix(b"\": \""))?;
    let name = piece.skip_word_back(b"global_", hit);
    let start = piece.find_back(b"{", name).filter(|_| name < hit)?;
    let (rest, step) = parse_count(rest).ok()?;
    let (rest, total) = parse_count(rest.strip_prefix(b"/")?).ok()?;
    let close = prefix_len(rest, |b| b != b'}');
    let names = [&b"'elapsed_time': '"[..], b"\"elapsed_time\": \""];
    let elapsed = names
        .iter()
        .find_map(|name| bytes_after(&rest[..close], name));
    let line = StepLine {
        total: Some(total),
        clock: elapsed.and_then(parse_elapsed),
        ..StepLine::without_time(Trainer::Swift, step)
    };
    let end = piece.position(rest) + (close + 1).min(rest.len());
    LinePiece::step_record(start, end, line)
}

#[cfg(test)]
mod tests {
    use crate::trainer::tests::{found, one};
    use crate::trainer::{Trainer, TrainerMark, TrainerPace};

    #[test]
    fn a_dictionary_has_the_step_and_a_clock() {
        for (quote, elapsed, seconds) in [("'", "1h 7m 30s", 4050.0), ("\"", "43s", 43.0)] {
            let text = "{'loss': 2.13, 'epoch': 0.32, 'global_step/max_steps': '5/16', 'percentage': \
                        '31.25%', 'elapsed_time': 'E', 'memory(GiB)': 24.8, 'train_speed(iter/s)': 0.015}"
                .replace('E', elapsed)
                .replace('\'', quote);
            let (line, got) = one(&format!("x{text}\n"));
            assert_eq!(
                (line.trainer, line.step, line.total),
                (Trainer::Swift, 5, Some(16))
            );
            assert_eq!((got, line.time_s), (text, None));
            assert_eq!(line.clock.map(|clock| clock.seconds), Some(seconds));
        }
    }

    #[test]
    fn its_bar_is_described() {
        let bar = "Train:   2%|▏         | 1/60 [00:42<41:47, 42.51s/it]";
        let all = found(&format!(
            "{bar}{{'loss': '0.3', 'global_step/max_steps': '1/60', 'elapsed_time': '43s'}}"
        ));
        assert_eq!(all.len(), 2);
        let (line, got) = one(bar);
        assert_eq!(
            (line.trainer, line.step, got.as_str()),
            (Trainer::Swift, 1, bar)
        );
        assert_eq!(line.pace, Some(TrainerPace::Smoothed(42.51)));
    }

    #[test]
    fn an_evaluation_is_between_steps() {
        let all =
            found("{'eval_loss': 0.5, 'global_step/max_steps': '222/222', 'percentage': '100%'}");
        assert_eq!((all.len(), all[0].mark), (1, TrainerMark::Between));
    }
}
