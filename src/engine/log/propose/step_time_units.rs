//! Finds the numbers beside a step's that are its time and its speed.

use super::limits::MAX_TIME_DEVIATION_SHARE;
use super::pattern::PatternGroup;
use super::series::{NumberSeries, iter_numbers};
use super::table::LineTemplate;
use super::template::TemplatePart;
use memchr::memmem;

fn has_any_word(text: &[u8], words: &[&[u8]]) -> bool {
    words.iter().any(|word| memmem::find(text, word).is_some())
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
    // A bar's rate is smoothed.
    let is_bar = template.has_bar();
    let mut named = None;
    for ((part, _), series) in iter_numbers(&template.parts).zip(&template.series) {
        let unit = StepTimeUnit::parse_unit(
            &words_at_number(template, part),
            &unit_after(template, part),
        );
        let Some(unit) = unit.filter(|_| part != step) else {
            continue;
        };
        match template.clock.distance_sum() {
            Some(sum) => {
                if let Some(name) = unit.time_group_name(series, sum / by) {
                    return Some(PatternGroup { part, name });
                }
            }
            None if unit.per_step && !is_bar => {
                let name = match unit.seconds {
                    Some(0.001) => "time_ms",
                    Some(_) => "time_s",
                    None => continue,
                };
                named.get_or_insert(PatternGroup { part, name });
            }
            None => {}
        }
    }
    named
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
        let of_step: [&[u8]; 6] = [b"it", b"iter", b"iters", b"iteration", b"step", b"steps"];
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
        let is_time = named(&[
            b"time",
            b"timing",
            b"took",
            b"duration",
            b"elapsed",
            b"latency",
        ]);
        let per_step = of_step.contains(&below)
            || has_any_word(phrase, &[b"time", b"timing"])
                && has_any_word(phrase, &[b"iter", b"step", b"batch"]);
        (is_time || rate || seconds.is_some()).then_some(StepTimeUnit {
            seconds: seconds.filter(|_| !rate),
            per_step,
            rate,
        })
    }

    /// Returns the group's name if the values are times of a step: together they are as long as
    /// `sum`, which is the time by the stamps over the steps of a line.
    fn time_group_name(self, series: &NumberSeries, sum: f64) -> Option<&'static str> {
        let near =
            |values: f64| values > 0.0 && (sum / values - 1.0).abs() < MAX_TIME_DEVIATION_SHARE;
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
    }

    #[test]
    fn without_stamps_only_a_name_that_says_all_is_believed() {
        let of = |value: &'static str| groups(move |n, _| format!("it: {n} {value}"), 3.0);
        assert_eq!(of("time per iteration (ms): 5"), ["time_ms"]);
        assert_eq!(of("step_time: 0.5 s"), ["time_s"]);
        assert_eq!(of("71.8 ms/it"), ["time_ms"]);
        assert_eq!(of("time: 0.5"), [""; 0]);
        assert_eq!(of("took 5 s"), [""; 0]);
        assert_eq!(of("5 TFLOP/s/device"), ["tflops"]);
        assert_eq!(of("TFLOPs: 5"), [""; 0]);
    }
}
