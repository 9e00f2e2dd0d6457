//! nanotron's step line. Its numbers have three digits and a suffix.

use nom::bytes::complete::tag;
use nom::{IResult, Parser};

use crate::trainer::facts::{SampleLine, TrainerFacts};
use crate::trainer::parts::number::{bytes_after, parse_count, parse_human_number};
use crate::trainer::parts::piece::{FieldSyntax, LinePiece};
use crate::trainer::parts::prefix::find_logger_prefix;
use crate::trainer::{StepLine, Trainer, TrainerRecord};

/// The end of `elapsed_time_per_iteration_ms: ` (v0.1-v0.5) and all of HEAD's name (@2411b02).
pub(crate) const TIME_PER_ITERATION_FIELD: &[u8] = b"time_per_iteration_ms: ";

/// nanotron.
pub(crate) const FACTS: TrainerFacts = TrainerFacts {
    words: &[(TIME_PER_ITERATION_FIELD, read_nanotron_iteration)],
    last_rank: true,
    samples: &[SampleLine::new(
        "01/17/2024 13:47:27 [INFO|DP=0]: iteration: 1 / 5 | elapsed_time_per_iteration_ms: 4.7K",
        1,
        Some(4.7),
    )],
    ..TrainerFacts::named("nanotron")
};

/// How nanotron writes its metrics; `eta: 1:02:03` is a clock.
const FIELDS: FieldSyntax = FieldSyntax {
    separator: b" | ",
    colon: b": ",
    units: b"KMBTPE:0123456789",
};

fn head(input: &[u8]) -> IResult<&[u8], (u64, u64)> {
    let (rest, (_, step, _, total)) =
        (tag("iteration: "), parse_count, tag(" / "), parse_count).parse(input)?;
    Ok((rest, (step, total)))
}

/// The stage in `[INFO|DP=0|PP=1|TP=0|node]: `.
fn pipeline_stage(prefix: &[u8]) -> Option<u32> {
    let (_, stage) = parse_count(bytes_after(prefix, b"|PP=")?).ok()?;
    stage.try_into().ok()
}

/// `iteration: 991 / 1000 | consumed_tokens: 634K | elapsed_time_per_iteration_ms: 4.71K`.
pub(crate) fn read_nanotron_iteration(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let at = piece.find_back(b"iteration: ", hit)?;
    let (rest, (step, total)) = head(&piece.text[at..]).ok()?;
    let record = &rest[..FIELDS.fields_len(rest)];
    let field =
        |name, by| bytes_after(record, name).and_then(|value| parse_human_number(value, by));
    let (start, wall_ms) = find_logger_prefix(piece.text, piece.floor, at);
    let time_s = field(TIME_PER_ITERATION_FIELD, -3);
    let prefix = piece.text.get(start..at).unwrap_or_default();
    let line = StepLine {
        total: Some(total),
        time_s,
        tflops: field(b"| model_tflops_per_gpu: ", 0),
        wall_ms: wall_ms.filter(|_| time_s.is_none()),
        stage: pipeline_stage(prefix),
        ..StepLine::without_time(Trainer::Nanotron, step)
    };
    let end = piece.position(rest) + record.len();
    LinePiece::step_record(start, end, line).filter(|found| hit < found.end)
}

#[cfg(test)]
mod tests {
    use crate::trainer::Trainer;
    use crate::trainer::tests::{one, steps};

    #[test]
    fn a_suffix_on_the_time_scales_it() {
        let record = "08/31/2024 14:37:31 [INFO|DP=0|PP=0|TP=0]: iteration: 1 / 15 | eta: 1:02:03 | \
            elapsed_time_per_iteration_ms: 4.71K | model_tflops_per_gpu: 1.87e-05";
        let (line, text) = one(&format!("[default0]:{record}[x] y"));
        assert_eq!(
            (line.trainer, line.step, line.total),
            (Trainer::Nanotron, 1, Some(15))
        );
        assert_eq!((line.time_s, line.tflops), (Some(4.71), Some(1.87e-5)));
        assert_eq!(line.stage, Some(0));
        assert_eq!((text.as_str(), line.wall_ms), (record, None));
    }

    #[test]
    fn heads_name_of_the_time_is_known() {
        let (line, _) = one("iteration: 2 / 15 | time_per_iteration_ms: 11.8 | lr: 0.1");
        assert_eq!((line.step, line.time_s), (2, Some(0.0118)));
    }

    #[test]
    fn a_time_without_its_iteration_is_refused() {
        assert_eq!(
            steps("Validation: iteration 3/4 | time_per_iteration_ms: 11.8"),
            0
        );
        assert_eq!(
            steps("iteration: 1 / 2 and then | time_per_iteration_ms: 11.8"),
            0
        );
    }
}
