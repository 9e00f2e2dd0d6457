//! The prefix a trainer's own logger puts before a record, and the stamp in it.
//!
//! Read backwards from the record, because anything may be before the prefix: a launcher's
//! tag, a collector's stamp, the head of a torn NCCL line. None of those is taken for the logger's.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::number::suffix_len;

/// How far back a prefix may reach; the longest seen is OLMo's, at about 90 bytes.
const PREFIX_LOOKBACK_BYTES: usize = 256;

/// Milliseconds since the epoch of a `YYYY-mm-dd HH:MM:SS[.,frac]` that fills `text`, as UTC.
pub fn parse_stamp_millis(text: &[u8]) -> Option<i64> {
    let number = |range: std::ops::Range<usize>| -> Option<i16> {
        text.get(range)?.iter().try_fold(0_i16, |sum, b| {
            b.is_ascii_digit().then(|| sum * 10 + i16::from(b - b'0'))
        })
    };
    let two = |at: usize| number(at..at + 2).and_then(|n| i8::try_from(n).ok());
    let marks = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    if marks.iter().any(|&(at, mark)| text.get(at) != Some(&mark))
        || !matches!(text.get(10), Some(b' ' | b'T'))
    {
        return None;
    }
    // Four digits fit an i16, a leading 9 included.
    let date = DateTime::new(
        number(0..4)?,
        two(5)?,
        two(8)?,
        two(11)?,
        two(14)?,
        two(17)?,
        0,
    );
    let whole = date
        .ok()?
        .to_zoned(TimeZone::UTC)
        .ok()?
        .timestamp()
        .as_millisecond();
    let millis = match text.get(19..)? {
        [] => 0,
        [b'.' | b',', frac @ ..] if (3..=9).contains(&frac.len()) => i64::from(number(20..23)?),
        _ => return None,
    };
    text.get(20..)
        .is_none_or(|frac| frac.iter().all(u8::is_ascii_digit))
        .then_some(whole + millis)
}

/// Stamps with another date: `07/03 13:04:17` (mmengine, 0.2), `2025/02/09 07:47:19` (mmengine,
/// PaddlePaddle's toolkits), `2023-04-21,12:03:20` (open_clip). Returns where the one that ends `text` begins.
fn find_slashed_stamp_at_end(text: &[u8]) -> Option<(usize, i64)> {
    [19, 14].into_iter().find_map(|len| {
        let start = text.len().checked_sub(len)?;
        let stamp = &text[start..];
        let mut iso = [0_u8; 19];
        iso[19 - len..].copy_from_slice(stamp);
        if len == 14 {
            iso[..5].copy_from_slice(YEAR_WITHOUT_YEAR_DASH);
        }
        for (at, old) in [(4, b'/'), (7, b'/'), (10, b',')] {
            if iso[at] == old {
                iso[at] = if at == 10 { b' ' } else { b'-' };
            }
        }
        parse_stamp_millis(&iso).map(|ms| (start, ms))
    })
}

/// A stamp that ends `text`: where it begins, and its milliseconds.
fn find_stamp_at_end(text: &[u8]) -> Option<(usize, i64)> {
    let iso = [26, 23, 19].into_iter().find_map(|len| {
        let start = text.len().checked_sub(len)?;
        parse_stamp_millis(&text[start..]).map(|ms| (start, ms))
    });
    iso.or_else(|| find_slashed_stamp_at_end(text))
}

/// `text` without the word of `keep` bytes at its end, `None` when there is none.
fn strip_last_word(text: &[u8], keep: impl Fn(u8) -> bool) -> Option<&[u8]> {
    let len = suffix_len(text, keep);
    (len > 0).then(|| &text[..text.len() - len])
}

fn strip_last_blanks(text: &[u8]) -> &[u8] {
    &text[..text.len() - suffix_len(text, |b| b == b' ')]
}

/// Where the logger's prefix before `at` begins, never before `floor`, and its stamp as UTC.
///
/// Without a prefix of a known shape that is `at` itself.
pub(crate) fn find_logger_prefix(text: &[u8], floor: usize, at: usize) -> (usize, Option<i64>) {
    let low = floor.max(at.saturating_sub(PREFIX_LOOKBACK_BYTES)).min(at);
    let before = &text[low..at];
    let found = dashes_prefix(before)
        .or_else(|| pipes_prefix(before))
        .or_else(|| nanotron_prefix(before))
        .or_else(|| brackets_prefix(before))
        .or_else(|| tabs_prefix(before))
        .or_else(|| mxnet_prefix(before))
        .or_else(|| named_logger_prefix(before))
        .or_else(|| basic_config_prefix(before))
        .or_else(|| absl_prefix(before));
    found.map_or((at, None), |(start, ms)| (low + start, ms))
}

/// `[titan] <stamp> - root - INFO - ` (torchtitan @b5bcd76; without `[titan] ` before 2025-04).
fn dashes_prefix(text: &[u8]) -> Option<(usize, Option<i64>)> {
    let name = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'.';
    let level = strip_last_word(text.strip_suffix(b" - ")?, name)?;
    let logger = strip_last_word(level.strip_suffix(b" - ")?, name)?;
    let (start, ms) = find_stamp_at_end(logger.strip_suffix(b" - ")?)?;
    let start = text[..start]
        .strip_suffix(b"[titan] ")
        .map_or(start, <[u8]>::len);
    Some((start, Some(ms)))
}

/// `<stamp> | INFO | train_inner | ` (fairseq, `fairseq_cli/train.py:18` @3d262bb).
fn pipes_prefix(text: &[u8]) -> Option<(usize, Option<i64>)> {
    let name = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'.';
    let logger = strip_last_word(text.strip_suffix(b" | ")?, name)?;
    let level = logger.strip_suffix(b" | ")?;
    // open_clip names no logger.
    if let Some((start, ms)) = find_stamp_at_end(level) {
        return Some((start, Some(ms)));
    }
    let level = strip_last_word(level, name)?;
    let (start, ms) = find_stamp_at_end(level.strip_suffix(b" | ")?)?;
    Some((start, Some(ms)))
}

/// `01/17/2024 13:47:27 [INFO|DP=0|PP=0|TP=0|node]: ` (nanotron @2411b02).
fn nanotron_prefix(text: &[u8]) -> Option<(usize, Option<i64>)> {
    let group = text.strip_suffix(b"]: ")?;
    let open = memchr::memrchr(b'[', group)?;
    let date = group[..open].strip_suffix(b" ")?;
    let start = date.len().checked_sub(19)?;
    let d = &date[start..];
    let mut iso = *b"YYYY-mm-dd HH:MM:SS";
    iso[..4].copy_from_slice(&d[6..10]);
    iso[5..7].copy_from_slice(&d[..2]);
    iso[8..10].copy_from_slice(&d[3..5]);
    iso[10..].copy_from_slice(&d[10..]);
    (d[2] == b'/' && d[5] == b'/').then_some(())?;
    Some((start, Some(parse_stamp_millis(&iso)?)))
}

/// Groups in brackets up to the one with the date: `[2022-03-11 02:06:58,985] [INFO] [..] ` and
/// `[INFO 2020-06-08 05:26:19] ` (DeepSpeed @edaa722), `[2025-02-20 15:18:04] INFO     [..] `
/// (OLMo-core @fa6c501), `[2022-08-31 14:25:49,741] [    INFO] - ` (PaddleNLP), `[2024-05-01
/// 12:00:00,123][root][INFO] - ` (FunASR, by Hydra), `[11/09 20:15:14] ppdet.engine INFO: `
/// (PaddleDetection). A group before the date is a launcher's: Hydra writes `[0] `. Or the stamp has no
/// brackets: `2023-01-01 12:00:00,123 INFO [train.py:892] ` (icefall), `2022-08-16 03:07:33 [INFO]\t`.
fn brackets_prefix(text: &[u8]) -> Option<(usize, Option<i64>)> {
    let mut left = text.strip_suffix(b"- ").unwrap_or(text);
    left = left.strip_suffix(b"\t").unwrap_or(left);
    if let Some(level) = left.strip_suffix(b": ") {
        let name = |b: u8| b.is_ascii_alphanumeric() || b == b'.' || b == b'_';
        let level = strip_last_word(level, |b| b.is_ascii_uppercase())?;
        left = strip_last_word(level.strip_suffix(b" ")?, name)?;
    }
    for _ in 0..6 {
        left = strip_last_blanks(left);
        let Some(group) = left.strip_suffix(b"]") else {
            if let Some((start, ms)) = find_stamp_at_end(left).filter(|_| left.len() < text.len()) {
                return Some((start, Some(ms)));
            }
            left = strip_last_word(left, |b| b.is_ascii_uppercase())?;
            continue;
        };
        let open = memchr::memrchr(b'[', group)?;
        let inside = &group[open + 1..];
        let dated = match inside.first() {
            Some(b) if b.is_ascii_digit() => {
                find_stamp_at_end(inside).and_then(|(at, ms)| (at == 0).then_some(ms))
            }
            _ => find_stamp_at_end(inside).map(|(_, ms)| ms),
        };
        if dated.is_some() {
            return Some((open, dated));
        }
        left = &group[..open];
    }
    None
}

/// `<stamp>\thost:0\tname:62\tINFO\t`, OLMo without rich (@59a53e3).
fn tabs_prefix(text: &[u8]) -> Option<(usize, Option<i64>)> {
    let mut left = text;
    for _ in 0..3 {
        left = strip_last_word(left.strip_suffix(b"\t")?, |b| b != b'\t')?;
    }
    let (start, ms) = find_stamp_at_end(left.strip_suffix(b"\t")?)?;
    Some((start, Some(ms)))
}

/// `2020-07-10 18:52:44,594 Node[0] ` (MXNet's `common/fit.py`).
fn mxnet_prefix(text: &[u8]) -> Option<(usize, Option<i64>)> {
    let rank = strip_last_word(text.strip_suffix(b"] ")?, |b| b.is_ascii_digit())?;
    let (start, ms) = find_stamp_at_end(rank.strip_suffix(b" Node[")?)?;
    Some((start, Some(ms)))
}

/// `2020-06-25 16:26:13,365 maskrcnn_benchmark.trainer INFO: `.
fn named_logger_prefix(text: &[u8]) -> Option<(usize, Option<i64>)> {
    let level = strip_last_word(text.strip_suffix(b": ")?, |b| b.is_ascii_uppercase())?;
    let name = strip_last_word(level.strip_suffix(b" ")?, |b| b != b' ')?;
    let (start, ms) = find_stamp_at_end(name.strip_suffix(b" ")?)?;
    Some((start, Some(ms)))
}

/// `INFO:maskrcnn_benchmark.trainer:`, as Python's `logging.basicConfig` has it.
fn basic_config_prefix(text: &[u8]) -> Option<(usize, Option<i64>)> {
    let name = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'.';
    let level = strip_last_word(text.strip_suffix(b":")?, name)?.strip_suffix(b":")?;
    let levels = [&b"INFO"[..], b"DEBUG", b"WARNING"];
    let start = levels.iter().find_map(|word| level.strip_suffix(*word))?;
    Some((start.len(), None))
}

/// The year of stamps that have none: only their differences matter, and it has a 29th of
/// February.
const YEAR_WITHOUT_YEAR: &[u8] = b"1972";
const YEAR_WITHOUT_YEAR_DASH: &[u8] = b"1972-";

/// `I0811 21:54:55.531340 138304841739136 metric_logger.py:226] ` (absl, MaxText since 1a19a7b73)
/// and `INFO 08-11 10:10:10 ppo_trainer.py:547] ` (OpenRLHF @3c3be62). Neither has a year.
fn absl_prefix(text: &[u8]) -> Option<(usize, Option<i64>)> {
    let file = text.strip_suffix(b"] ")?;
    let place = strip_last_word(file, |b| b != b' ' && b != b'[' && b != b']')?;
    memchr::memchr(b':', &file[place.len()..])?;
    let date_time = |text| -> Option<(usize, Option<i64>)> {
        let time = strip_last_word(text, |b: u8| b.is_ascii_digit() || b == b':' || b == b'.')?;
        let day = strip_last_word(strip_last_blanks(time), |b| b.is_ascii_digit() || b == b'-')?;
        let date = &strip_last_blanks(time)[day.len()..];
        let ms = match date {
            [a, b, c, d] | [a, b, b'-', c, d] => {
                let date = [YEAR_WITHOUT_YEAR, b"-", &[*a, *b], b"-", &[*c, *d], b" "].concat();
                parse_stamp_millis(&[&date, &text[time.len()..]].concat())
            }
            _ => None,
        };
        let left = strip_last_blanks(day);
        let level = left.len() - strip_last_word(left, |b| b.is_ascii_uppercase())?.len();
        // absl's level is one letter, with any text before it.
        let level = if left.len() == day.len() { 1 } else { level };
        Some((left.len() - level, ms))
    };
    let left = strip_last_blanks(place);
    let thread = strip_last_word(left, |b| b.is_ascii_digit()).filter(|left| left.ends_with(b" "));
    Some(
        thread
            .and_then(|left| date_time(strip_last_blanks(left)))
            .or_else(|| date_time(left))
            .unwrap_or((place.len(), None)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_end(text: &str) -> (&str, Option<i64>) {
        let (start, ms) = find_logger_prefix(text.as_bytes(), 0, text.len());
        (&text[start..], ms)
    }

    #[test]
    fn each_logger_is_cut_where_it_begins() {
        let ms = Some(1_649_000_000_985);
        for (launcher, prefix, want) in [
            (
                "[rank0]:",
                "[titan] 2022-04-03 15:33:20,985 - root - INFO - ",
                ms,
            ),
            ("[rank0]:", "2022-04-03 15:33:20,985 - root - INFO - ", ms),
            (
                "0: ",
                "2022-04-03 15:33:20 | INFO | train_inner | ",
                Some(1_649_000_000_000),
            ),
            (
                "",
                "04/03/2022 15:33:20 [INFO|DP=0|TP=0|n-1]: ",
                Some(1_649_000_000_000),
            ),
            (
                "[0] ",
                "[2022-04-03 15:33:20,985] [INFO] [timer.py:1:stop] ",
                ms,
            ),
            (
                "worker-0: ",
                "[INFO 2022-04-03 15:33:20] ",
                Some(1_649_000_000_000),
            ),
            (
                "",
                "[2022-04-03 15:33:20] INFO     [olmo:62, rank=0] ",
                Some(1_649_000_000_000),
            ),
            (
                "x ",
                "2022-04-03 15:33:20.985\tn:0\tolmo.train:8\tINFO\t",
                None,
            ),
            (
                "7: ",
                "I0811 21:54:55.531340 138304841739136 metric_logger.py:226] ",
                Some(82_418_095_531),
            ),
            (
                "(P) ",
                "INFO 08-11 10:10:10 ppo_trainer.py:547] ",
                Some(82_375_810_000),
            ),
            ("0: ", "2022-04-03 15:33:20,985 Node[0] ", ms),
            (
                "0: ",
                "2022-04-03 15:33:20,985 maskrcnn_benchmark.trainer INFO: ",
                ms,
            ),
            ("0: ", "INFO:maskrcnn_benchmark.trainer:", None),
            ("(P) ", "ppo_trainer.py:547] ", None),
        ] {
            let line = format!("{launcher}{prefix}");
            let (got, stamp) = at_end(&line);
            if prefix.contains('\t') {
                assert!(stamp.is_some(), "{line}");
                assert_eq!(got, prefix);
            } else {
                assert_eq!((got, stamp), (prefix, want), "{line}");
            }
        }
    }

    #[test]
    fn launcher_tags_and_torn_nccl_heads_are_not_prefixes() {
        for text in [
            "[default0]:",
            "[rank0]: ",
            "0: ",
            "h:1:2 [0] NCCL INFO ",
            "sendbuff 0x7f",
            "",
        ] {
            assert_eq!(at_end(text), ("", None), "{text}");
        }
    }

    #[test]
    fn a_stamp_that_is_no_date_is_refused() {
        assert_eq!(parse_stamp_millis(b"1970-01-01 00:00:01.5"), None);
        assert_eq!(parse_stamp_millis(b"1970-01-01 00:00:01.500"), Some(1500));
        assert_eq!(parse_stamp_millis(b"1970-01-01T00:00:01"), Some(1000));
        for text in [
            "1970-13-01 00:00:01",
            "1970-01-01 00:00:01 ",
            "1970-01-01 00:00",
            "",
        ] {
            assert_eq!(parse_stamp_millis(text.as_bytes()), None, "{text}");
        }
    }
}
