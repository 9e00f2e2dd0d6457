//! MLPerf's `:::MLLOG` records, and the `:::MLL` ones of v0.6.
//!
//! The submitter chooses what to log of a step (@7bbf792): a `train_loss` with the samples
//! so far, or `tracked_stats` with a loss or the step's time and a `step`, which counts steps,
//! samples or tokens. Records of whole blocks look alike: they have a `throughput`, or a
//! `train_step_time` with nothing but the samples of the block, and are no steps.

use memchr::memmem;

use crate::trainer::facts::{SampleLine, TrainerFacts};
use crate::trainer::parts::number::{
    bytes_after, number_after, parse_count, parse_float, prefix_len,
};
use crate::trainer::parts::piece::LinePiece;
use crate::trainer::{
    EvaluationLine, StepLine, StepNumberUnit, Trainer, TrainerMark, TrainerPace, TrainerRecord,
};

/// What every record begins with.
pub(crate) const MLPERF_ANCHOR: &[u8] = b":::MLL";

/// MLPerf's records.
pub(crate) const FACTS: TrainerFacts = TrainerFacts {
    words: &[(MLPERF_ANCHOR, read_mlperf_record)],
    samples: &[SampleLine::new(
        r#":::MLLOG {"time_ms": 1, "key": "train_loss", "samples_count": 2000}"#,
        2000,
        None,
    )],
    ..TrainerFacts::named("mlperf")
};

/// Longest record; a record cut short must not make each anchor look at the whole line.
const MAX_MLPERF_RECORD_BYTES: usize = 4096;

/// Length of the JSON object at the front, all of `text` when it is not closed.
fn json_object_len(text: &[u8]) -> usize {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for (at, &b) in text.iter().enumerate() {
        match (quoted, b) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => quoted = !quoted,
            (false, b'{') => depth += 1,
            (false, b'}') if depth <= 1 => return at + 1,
            (false, b'}') => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// A whole number after a name; `31.0` is 31.
fn whole_number_after(record: &[u8], name: &[u8]) -> Option<u64> {
    let value = bytes_after(record, name)?;
    let value = &value[..prefix_len(value, |b| b.is_ascii_digit() || b == b'.')];
    // A float of whole samples is exact up to 2^53.
    parse_float(value)
        .1
        .filter(|v| v.fract() == 0.0 && (0.0..9e15).contains(v))
        .map(|v| v as u64)
}

/// One record.
struct MlPerfRecord<'a> {
    /// Its key.
    key: &'a [u8],
    /// Its object.
    json: &'a [u8],
    /// Its stamp in milliseconds since the epoch.
    wall_ms: Option<i64>,
}

/// The record after the anchor: `OG {"time_ms": 17, "key": "train_loss", ..}`, or of v0.6
/// ` 1560722678.927 global_batch_size: {"value": 86016, ..}`; with its length.
fn parse_record(text: &[u8]) -> Option<(MlPerfRecord<'_>, usize)> {
    let text = &text[..memmem::find(text, MLPERF_ANCHOR).unwrap_or(text.len())];
    if let Some(json) = text.strip_prefix(b"OG ") {
        let json = &json[..json_object_len(json)];
        let key = bytes_after(json, b"\"key\": \"")?;
        let wall_ms = bytes_after(json, b"\"time_ms\": ")
            .and_then(|ms| parse_count(ms).ok())
            .and_then(|(_, ms)| i64::try_from(ms).ok());
        let record = MlPerfRecord {
            // One submitter's keys end in a blank.
            key: key[..prefix_len(key, |b| b != b'"')].trim_ascii(),
            json,
            wall_ms,
        };
        return Some((record, b"OG ".len() + json.len()));
    }
    let (rest, seconds) = parse_float(text.strip_prefix(b" ")?);
    let rest = rest.strip_prefix(b" ")?;
    let name = prefix_len(rest, |b| b.is_ascii_alphanumeric() || b == b'_');
    let json = rest[name..].strip_prefix(b": ")?;
    let length = text.len() - json.len() + json_object_len(json);
    let record = MlPerfRecord {
        key: &rest[..name],
        json: &json[..json_object_len(json)],
        wall_ms: seconds
            .filter(|s| *s < 9e12)
            .map(|s| (s * 1000.0).round() as i64),
    };
    Some((record, length))
}

impl MlPerfRecord<'_> {
    fn has(&self, name: &[u8]) -> bool {
        memmem::find(self.json, name).is_some()
    }

    fn mark(&self) -> Option<TrainerMark> {
        match self.key {
            b"eval_start" => Some(TrainerMark::Evaluation(EvaluationLine::Starts(
                self.wall_ms,
            ))),
            b"eval_stop" => Some(TrainerMark::Evaluation(EvaluationLine::Stops {
                wall_ms: self.wall_ms,
                samples: whole_number_after(self.json, b"\"samples_count\": "),
                step: whole_number_after(self.json, b"\"step\": "),
            })),
            b"global_batch_size" => {
                whole_number_after(self.json, b"\"value\": ").map(TrainerMark::BatchSize)
            }
            b"train_loss" | b"loss" | b"tracked_stats" => self.step().map(TrainerMark::Step),
            _ => None,
        }
    }

    fn step(&self) -> Option<StepLine> {
        let named = whole_number_after(self.json, b"\"step_num\": ");
        let step = named.or_else(|| whole_number_after(self.json, b"\"step\": "));
        let samples = whole_number_after(self.json, b"\"samples_count\": ");
        let tracked = self.key == b"tracked_stats";
        let train_loss = self.key == b"train_loss" || self.has(b"\"train_loss\": ");
        let reduced = self.has(b"\"reduced_train_loss\": ");
        // NVIDIA's GPT-3 writes `train_step_timing` (v3.0) and `train_step_timing in s` (v4.0).
        let names = [
            &b"\"train_step_time\": "[..],
            b"\"train_step_timing\": ",
            b"\"train_step_timing in s\": ",
        ];
        let time_s = names.iter().find_map(|name| number_after(self.json, name));
        let throughput = number_after(self.json, b"\"throughput\": ").filter(|_| tracked);
        // NVIDIA's 3D U-Net counts epochs and prints the iterations in one (v1.0 to v2.1).
        let iterations = whole_number_after(self.json, b"\"iterations\": ").filter(|_| tracked);
        let of_a_step = train_loss
            || (named.is_some() && (self.key == b"loss" || self.has(b"\"loss\": ")))
            || (step.is_some() && (iterations.is_some() || time_s.is_some() || reduced));
        let of_a_block = throughput.is_some() && iterations.is_none() && named.is_none();
        if !of_a_step || of_a_block || (throughput.is_some() && time_s.is_some()) {
            return None;
        }
        let (step, counts) = match (named, step, samples) {
            (Some(step), ..) => (step, StepNumberUnit::Steps),
            (_, Some(step), Some(samples)) if step != samples => (step, StepNumberUnit::Steps),
            (_, Some(step), None) if iterations.is_some() => (step, StepNumberUnit::Steps),
            (_, Some(step), None) => (step, StepNumberUnit::Unsaid),
            (.., samples) => (samples?, StepNumberUnit::Samples),
        };
        let pace = |(per_s, batches)| TrainerPace::Samples { per_s, batches };
        Some(StepLine {
            counts,
            time_s,
            wall_ms: self.wall_ms,
            pace: throughput.zip(iterations).map(pace),
            ..StepLine::without_time(Trainer::MlPerf, step)
        })
    }
}

/// `:::MLLOG {"time_ms": 1745155384296, "key": "train_loss", "metadata": {"samples_count": 2000}}`.
pub(crate) fn read_mlperf_record(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let text = &piece.text[hit + MLPERF_ANCHOR.len()..];
    let (record, length) = parse_record(&text[..text.len().min(MAX_MLPERF_RECORD_BYTES)])?;
    record.mark().map(|mark| TrainerRecord {
        start: hit,
        end: hit + MLPERF_ANCHOR.len() + length,
        mark,
    })
}

#[cfg(test)]
mod tests {
    use crate::trainer::tests::{found, one};
    use crate::trainer::{EvaluationLine, StepNumberUnit, Trainer, TrainerMark, TrainerPace};

    /// The record of a key with a value and metadata.
    fn record(key: &str, value: &str, metadata: &str) -> String {
        format!(
            r#":::MLLOG {{"namespace": "", "time_ms": 17, "key": "{key}", "value": {value}, "metadata": {{"file": "a\"}}", "lineno": 5, {metadata}}}}}"#
        )
    }

    #[test]
    fn what_a_number_counts_is_known_by_its_names() {
        let stats = "tracked_stats";
        let time = r#"{"train_step_time": 54.7, "reduced_train_loss": 8.0}"#;
        let loss = r#"{"train_loss": 2.35}"#;
        for (key, value, metadata, step, counts, time_s) in [
            (
                stats,
                time,
                r#""step": 31.0, "samples_count": 1024.0"#,
                31,
                StepNumberUnit::Steps,
                Some(54.7),
            ),
            (
                stats,
                time,
                r#""step": 1152.0"#,
                1152,
                StepNumberUnit::Unsaid,
                Some(54.7),
            ),
            (
                stats,
                time,
                r#""step": 64, "samples_count": 64"#,
                64,
                StepNumberUnit::Samples,
                Some(54.7),
            ),
            (
                stats,
                loss,
                r#""samples_count": 160, "lr": 0.1, "step": 10"#,
                10,
                StepNumberUnit::Steps,
                None,
            ),
            (
                stats,
                loss,
                r#""samples_count": 160"#,
                160,
                StepNumberUnit::Samples,
                None,
            ),
            (
                "train_loss",
                "1.1",
                r#""samples_count": 2000, "lr": 0.1"#,
                2000,
                StepNumberUnit::Samples,
                None,
            ),
            (
                "train_loss ",
                "1.1",
                r#""samples_count": 2000"#,
                2000,
                StepNumberUnit::Samples,
                None,
            ),
            (
                "loss",
                "0.67",
                r#""step_num": 300"#,
                300,
                StepNumberUnit::Steps,
                None,
            ),
            (
                stats,
                r#"{"train_step_timing in s": 10.6}"#,
                r#""step": 4194304"#,
                4_194_304,
                StepNumberUnit::Unsaid,
                Some(10.6),
            ),
            (
                stats,
                r#"{"throughput": 948.2, "loss": 0.5, "lr": 1.5e-05}"#,
                r#""step_num": 300"#,
                300,
                StepNumberUnit::Steps,
                None,
            ),
        ] {
            let text = record(key, value, metadata);
            let (line, got) = one(&format!(" 0: {text}h:1:2"));
            assert_eq!((line.trainer, line.step), (Trainer::MlPerf, step), "{text}");
            assert_eq!((line.counts, line.time_s), (counts, time_s), "{text}");
            assert_eq!((line.wall_ms, got), (Some(17), text));
        }
    }

    #[test]
    fn an_epoch_of_iterations_has_a_throughput() {
        let value = r#"{"throughput": 194.07, "iterations": 3, "loss_scale": 65536.0}"#;
        let (line, _) = one(&record("tracked_stats", value, r#""step": 20"#));
        let pace = TrainerPace::Samples {
            per_s: 194.07,
            batches: 3,
        };
        assert_eq!(
            (line.step, line.counts, line.pace),
            (20, StepNumberUnit::Steps, Some(pace))
        );
    }

    #[test]
    fn evaluations_and_the_batch_size_are_marks_in_both_formats() {
        let start = TrainerMark::Evaluation(EvaluationLine::Starts(Some(17)));
        let stop = |samples, step| {
            let wall_ms = Some(17);
            TrainerMark::Evaluation(EvaluationLine::Stops {
                wall_ms,
                samples,
                step,
            })
        };
        for (text, mark) in [
            (
                record("eval_start", "null", r#""samples_count": 5, "step": 5"#),
                start,
            ),
            (
                record("eval_stop", "null", r#""epoch_num": 5"#),
                stop(None, None),
            ),
            (
                record("eval_stop", "null", r#""samples_count": 80, "step": 5"#),
                stop(Some(80), Some(5)),
            ),
            (
                record("global_batch_size", "32", r#""x": 1"#),
                TrainerMark::BatchSize(32),
            ),
            (
                ":::MLL 0.017 eval_start: {\"value\": null}".to_owned(),
                start,
            ),
            (
                ":::MLL 0.017 eval_stop: {\"value\": null}".to_owned(),
                stop(None, None),
            ),
            (
                ":::MLL 1560722678.927 global_batch_size: {\"value\": 32, \"metadata\": {}}"
                    .to_owned(),
                TrainerMark::BatchSize(32),
            ),
        ] {
            let all = found(&format!("0: {text} x"));
            assert_eq!((all.len(), all[0].mark), (1, mark), "{text}");
            assert_eq!((all[0].start, all[0].end), (3, 3 + text.len()));
        }
    }

    #[test]
    fn blocks_and_other_keys_are_refused() {
        let stats = "tracked_stats";
        for text in [
            record(
                "block_stop",
                "null",
                r#""samples_count": 24576, "step": 768"#,
            ),
            record(
                stats,
                r#"{"train_step_time": 0.5969}"#,
                r#""samples_count": 24576"#,
            ),
            record(
                stats,
                r#"{"throughput": 5.1, "train_step_time": 1.5}"#,
                r#""step": 1920"#,
            ),
            record(
                stats,
                r#"{"throughput": 5.1, "train_step_time": 1.5, "max_memory_usage": 1.0}"#,
                r#""step_num": 1000"#,
            ),
            record(stats, r#"{"throughput": 5.1}"#, r#""step": 1920"#),
            record(
                stats,
                r#"{"throughput": 5.1, "loss": 9.6}"#,
                r#""step": [2, 3125]"#,
            ),
            record(
                stats,
                r#"{"throughput": 5.1, "lr": 0.1, "loss": 9.6}"#,
                r#""step": 2"#,
            ),
            record(
                stats,
                r#"{"validation_step_time": 0.1}"#,
                r#""step": 5, "samples_count": 80"#,
            ),
            record(stats, r#"{"warmup_time": 94.8}"#, r#""step": 0"#),
            record("eval_accuracy", "0.9", r#""samples_count": 5"#),
            record("train_loss", "1.0", r#""x": 1"#),
            ":::MLLOG {".to_owned(),
            ":::MLL 1.0 x".to_owned(),
            ":::MLLOG".to_owned(),
        ] {
            assert!(found(&text).is_empty(), "{text}");
        }
    }
}
