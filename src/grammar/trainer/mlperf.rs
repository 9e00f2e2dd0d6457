//! MLPerf's `:::MLLOG` records.
//!
//! What is logged per step is the submitter's choice, and the "step" is a count of samples, often a
//! float (@7bbf792). Records of whole blocks also carry a `train_step_time`, with a `throughput`
//! beside it and the samples at the block's start: those are no steps.

use memchr::memmem;

use super::number::{after, bytes_after, count, float, run};
use super::piece::Piece;
use super::{Found, Mark, StepLine, Trainer};

/// What every record begins with.
pub(super) const ANCHOR: &[u8] = b":::MLLOG ";

/// Longest record; a record cut short must not make each anchor look at the whole line.
const LONGEST: usize = 4096;

/// Length of the JSON object at the front, all of `text` when it is not closed.
fn object(text: &[u8]) -> usize {
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

/// The samples seen, whatever the submitter calls them.
fn samples(record: &[u8]) -> Option<u64> {
    let name = [&b"\"samples_count\": "[..], b"\"step\": "];
    let value = name.iter().find_map(|name| bytes_after(record, name))?;
    let value = &value[..run(value, |b| b.is_ascii_digit() || b == b'.')];
    // A float of whole samples is exact up to 2^53.
    float(value)
        .1
        .filter(|v| v.fract() == 0.0 && (0.0..9e15).contains(v))
        .map(|v| v as u64)
}

/// `:::MLLOG {"time_ms": 1745155384296, "key": "train_loss", "metadata": {"samples_count": 2000}}`.
pub(super) fn record(piece: &Piece<'_>, hit: usize) -> Option<Found> {
    let text = &piece.text[hit..];
    let json = &text[ANCHOR.len()..text.len().min(LONGEST)];
    let json = &json[..memmem::find(json, ANCHOR).unwrap_or(json.len())];
    let record = &json[..object(json)];
    let end = hit + ANCHOR.len() + record.len();
    let has = |needle: &[u8]| memmem::find(record, needle).is_some();
    if has(b"\"key\": \"eval_stop\"") {
        return Some(Found {
            start: hit,
            end,
            mark: Mark::Between,
        });
    }
    let time_s = after(record, b"\"train_step_time\": ");
    let per_step = has(b"\"key\": \"train_loss\"")
        || (has(b"\"key\": \"tracked_stats\"") && time_s.is_some() && !has(b"\"throughput\": "));
    if !per_step {
        return None;
    }
    let wall = bytes_after(record, b"\"time_ms\": ");
    let wall_ms = wall.and_then(|ms| count(ms).ok()).map(|(_, ms)| ms);
    let line = StepLine {
        time_s,
        wall_ms: wall_ms
            .and_then(|ms| i64::try_from(ms).ok())
            .filter(|_| time_s.is_none()),
        ..StepLine::bare(Trainer::MlPerf, samples(record)?)
    };
    Piece::step(hit, end, line)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{found, one, steps};
    use super::super::{Mark, Trainer};

    #[test]
    fn a_step_is_counted_in_samples() {
        let record = r#":::MLLOG {"time_ms": 17, "key": "tracked_stats", "value": {"train_step_time": 54.7}, "metadata": {"file": "a\"}", "step": 1152.0}}"#;
        let (line, text) = one(&format!(" 0: {record}h:1:2"));
        assert_eq!((line.trainer, line.step), (Trainer::MlPerf, 1152));
        assert_eq!((line.time_s, line.wall_ms), (Some(54.7), None));
        assert_eq!(text, record);
        let (line, _) = one(
            r#":::MLLOG {"time_ms": 17, "key": "train_loss", "value": 1.1, "metadata": {"samples_count": 2000}}"#,
        );
        assert_eq!(
            (line.step, line.time_s, line.wall_ms),
            (2000, None, Some(17))
        );
    }

    #[test]
    fn the_end_of_an_evaluation_is_between_steps() {
        let all = found(r#":::MLLOG {"key": "eval_stop", "value": null}"#);
        assert_eq!((all.len(), all[0].mark), (1, Mark::Between));
    }

    #[test]
    fn blocks_starts_and_other_keys_are_refused() {
        for text in [
            r#":::MLLOG {"key": "eval_start", "metadata": {"samples_count": 5}}"#,
            r#":::MLLOG {"key": "tracked_stats", "value": {"throughput": 5.1, "train_step_time": 1.5}, "metadata": {"step": 1920}}"#,
            r#":::MLLOG {"key": "tracked_stats", "value": {"throughput": 5.1}, "metadata": {"step": [2, 3125]}}"#,
            r#":::MLLOG {"key": "train_loss", "value": 1}"#,
            ":::MLLOG {",
        ] {
            assert!(found(text).is_empty(), "{text}");
        }
        assert_eq!(steps(""), 0);
    }
}
