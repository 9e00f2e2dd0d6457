//! Finds the numbers beside a step's that are its time and its speed.

use super::pattern::PatternGroup;
use super::series::{NumberSeries, iter_numbers};
use super::table::LineTemplate;
use super::template::TemplatePart;
use memchr::memmem;

/// Words of the time of a part of a step, or of something beside the steps.
const PART_WORDS: [&[u8]; 27] = [
    b"forward",
    b"fwd",
    b"backward",
    b"bwd",
    b"data",
    b"reader",
    b"read",
    b"load",
    b"loader",
    b"loading",
    b"dataloader",
    b"fetch",
    b"optim",
    b"optimizer",
    b"opt",
    b"comm",
    b"allreduce",
    b"sync",
    b"wait",
    b"eval",
    b"val",
    b"validation",
    b"save",
    b"checkpoint",
    b"eta",
    b"remaining",
    b"total",
];

fn has_any_word(text: &[u8], words: &[&[u8]]) -> bool {
    words.iter().any(|word| memmem::find(text, word).is_some())
}

/// Returns true if the phrase names a ratio of these words: `sec/iter`, `s / it`.
fn names_ratio(phrase: &[u8], above: &[&[u8]], below: &[&[u8]]) -> bool {
    memchr::memchr_iter(b'/', phrase).any(|at| {
        let before = phrase[..at].trim_ascii_end();
        let start = before.iter().rposition(|b| !b.is_ascii_alphabetic());
        let after = phrase[at + 1..].trim_ascii_start();
        let end = after.iter().position(|b| !b.is_ascii_alphabetic());
        above.contains(&&before[start.map_or(0, |at| at + 1)..])
            && below.contains(&&after[..end.unwrap_or(after.len())])
    })
}

/// Returns the text that describes the number at `part`: the text before it, without what describes
/// another number.
fn words_at_number(template: &LineTemplate, part: usize) -> Vec<u8> {
    let text = template.text_before(part);
    let start = text.iter().rposition(|b| b"|,;{".contains(b));
    text[start.map_or(0, |at| at + 1)..].to_ascii_lowercase()
}

/// Returns the unit after the number at `part`: `ms`, `s/it`, `[sec]`.
fn unit_after(template: &LineTemplate, part: usize) -> Vec<u8> {
    let text = template.text_after(part).trim_ascii_start();
    let text = text.strip_prefix(b"[").unwrap_or(text);
    let end = text
        .iter()
        .position(|b| !b.is_ascii_alphabetic() && *b != b'/');
    text[..end.unwrap_or(text.len())].to_ascii_lowercase()
}

/// Finds the time of a step, or the steps of a second, if the lines' stamps show that a number is
/// one; without stamps, only by its name.
pub(super) fn find_time_group(
    template: &LineTemplate,
    step: usize,
    steps: &NumberSeries,
) -> Option<PatternGroup> {
    let by = steps.main_increment()?.0 as f64;
    // Of several the step's is the longest: the others are parts of it.
    let mut named: Option<(f64, PatternGroup)> = None;
    for ((part, _), series) in iter_numbers(&template.parts).zip(&template.series) {
        let unit = StepTimeUnit::parse_unit(
            &words_at_number(template, part),
            &unit_after(template, part),
        );
        let Some(unit) = unit.filter(|_| part != step) else {
            continue;
        };
        match template.clock.distance_sum() {
            Some((sum, share)) => {
                if let Some(name) = unit.time_group_name(series, sum / by, share) {
                    return Some(PatternGroup { part, name });
                }
            }
            None if unit.per_step => {
                let (name, scale) = match unit.seconds {
                    Some(0.001) => ("time_ms", 0.001),
                    Some(_) => ("time_s", 1.0),
                    None if unit.rate => ("steps_per_s", 0.0),
                    None => continue,
                };
                let group = PatternGroup { part, name };
                let sum = series.sum * scale;
                if named.as_ref().is_none_or(|(most, _)| sum > *most) {
                    named = Some((sum, group));
                }
            }
            None => {}
        }
    }
    named.map(|(_, group)| group)
}

/// The meaning of a number's name and unit.
#[derive(Debug, Clone, Copy)]
struct StepTimeUnit {
    /// Seconds of the value 1, if the unit is printed.
    seconds: Option<f64>,
    /// It is the time of a single step.
    per_step: bool,
    /// It is a number of steps in a second.
    rate: bool,
}

impl StepTimeUnit {
    /// Returns `None` for a number that is no time.
    fn parse_unit(phrase: &[u8], unit: &[u8]) -> Option<StepTimeUnit> {
        let named = |words: &[&[u8]]| {
            let mut all = phrase.split(|b| !b.is_ascii_alphabetic());
            all.any(|word| words.contains(&word))
        };
        if named(&PART_WORDS) {
            return None;
        }
        let of_step: [&[u8]; 7] = [
            b"it",
            b"iter",
            b"iters",
            b"iteration",
            b"step",
            b"steps",
            b"batch",
        ];
        let slash = unit.iter().position(|b| *b == b'/');
        let (above, below) = slash.map_or((unit, &b""[..]), |at| (&unit[..at], &unit[at + 1..]));
        let second: [&[u8]; 4] = [b"s", b"sec", b"secs", b"seconds"];
        let milli: [&[u8]; 2] = [b"ms", b"msec"];
        let rate = of_step.contains(&above) && second.contains(&below)
            || has_any_word(
                phrase,
                &[
                    b"steps_per_s",
                    b"it/s",
                    b"steps/s",
                    b"iterations per second",
                ],
            );
        let seconds = if milli.contains(&above) || above.is_empty() && named(&milli) {
            Some(0.001)
        } else if second.contains(&above) || above.is_empty() && named(&second) {
            Some(1.0)
        } else {
            None
        };
        // `cost` alone is a loss.
        let of_batch = has_any_word(phrase, &[b"iter", b"step", b"batch"]);
        let is_time = of_batch && named(&[b"cost"])
            || named(&[
                b"time",
                b"timing",
                b"took",
                b"duration",
                b"elapsed",
                b"latency",
                b"dt",
            ]);
        let per_step = of_step.contains(&below)
            || names_ratio(phrase, &[&second[..], &milli].concat(), &of_step)
            || rate
            || named(&[b"dt"])
            || of_batch && has_any_word(phrase, &[b"time", b"timing", b"cost"]);
        (is_time || rate || seconds.is_some()).then_some(StepTimeUnit {
            seconds: seconds.filter(|_| !rate),
            per_step,
            rate,
        })
    }

    /// Returns the group's name if the values are times of a step: together they are as long as
    /// `sum`, which is the time by the stamps over the steps of a line, but for a share of it.
    fn time_group_name(self, series: &NumberSeries, sum: f64, share: f64) -> Option<&'static str> {
        let near = |values: f64| values > 0.0 && (sum / values - 1.0).abs() < share;
        let is = |unit: f64| self.seconds.is_none_or(|s| s == unit) && near(series.sum * unit);
        if self.rate {
            near(series.inverse).then_some("steps_per_s")
        } else if is(1.0) {
            Some("time_s")
        } else {
            is(0.001).then_some("time_ms")
        }
    }
}

/// TFLOP/s, if the line states that they are of one GPU.
pub(super) fn find_tflops_group(template: &LineTemplate) -> Option<PatternGroup> {
    let of_gpu = |(part, _): &(usize, &TemplatePart)| {
        let named = |text: &[u8]| {
            has_any_word(text, &[b"flop"]) && has_any_word(text, &[b"gpu", b"device"])
        };
        let unit = template
            .text_after(*part)
            .trim_ascii_start()
            .to_ascii_lowercase();
        let end = unit.iter().position(u8::is_ascii_whitespace);
        named(&words_at_number(template, *part)) || named(&unit[..end.unwrap_or(unit.len())])
    };
    let (part, _) = iter_numbers(&template.parts).find(of_gpu)?;
    Some(PatternGroup {
        part,
        name: "tflops",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::propose::table::TemplateTable;

    /// The groups of the lines that `line` makes of a step number and a time of day.
    fn groups(line: impl Fn(u64, &str) -> String, seconds: f64) -> Vec<&'static str> {
        let mut table = TemplateTable::default();
        for k in 1..20_u64 {
            let now = seconds * k as f64;
            let clock = format!("10:{:02}:{:06.3}", (now / 60.0) as u64, now % 60.0);
            table.add_log_line(line(50 * k, &clock).as_bytes(), k);
        }
        let all = table.finish();
        let template = &all[0];
        let mut steps = iter_numbers(&template.parts).zip(&template.series);
        let ((step, _), series) = steps.find(|(_, s)| s.first == 50).unwrap();
        let time = find_time_group(template, step, series);
        time.into_iter()
            .chain(find_tflops_group(template))
            .map(|group| group.name)
            .collect()
    }

    #[test]
    fn stamps_tell_the_time_of_a_step_from_that_of_an_interval() {
        // Fifty steps a line, 0.06 seconds each.
        let of = |value: &'static str| groups(move |n, at| format!("{at} it: {n} {value}"), 3.0);
        assert_eq!(of("time: 0.06 (1.2)"), ["time_s"]);
        assert_eq!(of("took 60.1 ms"), ["time_ms"]);
        assert_eq!(of("time: 61"), ["time_ms"]);
        assert_eq!(of("16.6 it/s"), ["steps_per_s"]);
        assert_eq!(of("time: 3.0"), [""; 0]);
        assert_eq!(of("step time: 3.0 s"), [""; 0]);
        assert_eq!(of("loss 0.06"), [""; 0]);
        // Parts of a step are not the step, however long.
        assert_eq!(
            of("data_time: 0.06 forward_time=0.06, backward_time=0.06"),
            [""; 0]
        );
        assert_eq!(of("iter_time=0.001, train_time=0.061"), ["time_s"]);
        assert_eq!(
            of("avg_reader_cost: 0.06 s, avg_batch_cost: 0.061 s"),
            ["time_s"]
        );
        assert_eq!(of("dt: 60.1ms"), ["time_ms"]);
    }

    #[test]
    fn coarse_stamps_tell_units_and_intervals_apart() {
        // Two seconds a line, in stamps of whole seconds.
        let of =
            |value: &'static str| groups(move |n, at| format!("{} it: {n} {value}", &at[..8]), 2.0);
        assert_eq!(of("time: 0.041  data_time: 0.04"), ["time_s"]);
        assert_eq!(of("time: 41"), ["time_ms"]);
        assert_eq!(of("time: 2.01"), [""; 0]);
    }

    #[test]
    fn without_stamps_only_a_name_that_says_all_is_believed() {
        let of = |value: &'static str| groups(move |n, _| format!("it: {n} {value}"), 3.0);
        assert_eq!(of("time per iteration (ms): 5"), ["time_ms"]);
        assert_eq!(of("step_time: 0.5 s"), ["time_s"]);
        assert_eq!(of("71.8 ms/it"), ["time_ms"]);
        assert_eq!(of("35.55s/it"), ["time_s"]);
        assert_eq!(of("0.5 sec/iter"), ["time_s"]);
        assert_eq!(of("sec/iter: 0.5"), ["time_s"]);
        assert_eq!(of("ms/step 500"), ["time_ms"]);
        assert_eq!(of("2.5it/s"), ["steps_per_s"]);
        assert_eq!(of("dt: 1200ms"), ["time_ms"]);
        assert_eq!(of("batch_cost: 0.5s, reader_cost: 0.4s"), ["time_s"]);
        assert_eq!(of("forward step time: 0.5 s"), [""; 0]);
        assert_eq!(of("time: 0.5"), [""; 0]);
        assert_eq!(of("took 5 s"), [""; 0]);
        assert_eq!(of("5 TFLOP/s/device"), ["tflops"]);
        assert_eq!(of("TFLOPs: 5"), [""; 0]);
    }
}
