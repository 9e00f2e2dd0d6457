//! Which numbers beside a step's are its time and its speed.

use super::pattern::Group;
use super::series::{Series, numbers};
use super::table::Template;
use super::template::Part;
use memchr::memmem;

/// A time agrees with the stamps if it is off by less than this share.
const NEAR: f64 = 0.15;

fn has(text: &[u8], words: &[&[u8]]) -> bool {
    words.iter().any(|word| memmem::find(text, word).is_some())
}

/// What is said of the number at `part` in the text before it, without what is said of another.
fn phrase(template: &Template, part: usize) -> Vec<u8> {
    let text = template.before(part);
    let start = text.iter().rposition(|b| b"|,;{".contains(b));
    text[start.map_or(0, |at| at + 1)..].to_ascii_lowercase()
}

/// The unit after the number at `part`: `ms`, `s/it`, `[sec]`.
fn unit_of(template: &Template, part: usize) -> Vec<u8> {
    let text = template.after(part).trim_ascii_start();
    let text = text.strip_prefix(b"[").unwrap_or(text);
    let end = text
        .iter()
        .position(|b| !b.is_ascii_alphabetic() && *b != b'/');
    text[..end.unwrap_or(text.len())].to_ascii_lowercase()
}

/// The time of a step, or how many steps are done in a second, where the lines' stamps say that a
/// number is one; without stamps only where its name shows it.
pub(super) fn time(template: &Template, step: usize, steps: &Series) -> Option<Group> {
    let by = steps.increment()?.0 as f64;
    // A bar's rate is smoothed.
    let is_bar = template.has_bar();
    let mut named = None;
    for ((part, _), series) in numbers(&template.parts).zip(&template.series) {
        let unit = Unit::of(&phrase(template, part), &unit_of(template, part));
        let Some(unit) = unit.filter(|_| part != step) else {
            continue;
        };
        match template.clock.known() {
            Some(sum) => {
                if let Some(name) = unit.fits(series, sum / by) {
                    return Some(Group { part, name });
                }
            }
            None if unit.per_step && !is_bar => {
                let name = match unit.seconds {
                    Some(0.001) => "time_ms",
                    Some(_) => "time_s",
                    None => continue,
                };
                named.get_or_insert(Group { part, name });
            }
            None => {}
        }
    }
    named
}

/// What a number's name and unit say of it.
#[derive(Debug, Clone, Copy)]
struct Unit {
    /// Seconds that 1 represents, if the unit is printed.
    seconds: Option<f64>,
    /// It is the time of a single step.
    per_step: bool,
    /// It is a number of steps in a second.
    rate: bool,
}

impl Unit {
    /// `None` for a number that is no time.
    fn of(phrase: &[u8], unit: &[u8]) -> Option<Unit> {
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
            || has(
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
            || has(phrase, &[b"time", b"timing"]) && has(phrase, &[b"iter", b"step", b"batch"]);
        (is_time || rate || seconds.is_some()).then_some(Unit {
            seconds: seconds.filter(|_| !rate),
            per_step,
            rate,
        })
    }

    /// The group's name, if the values are times of a step: all of them together are as long as
    /// `sum`, which is the time by the stamps over the steps of a line.
    fn fits(self, series: &Series, sum: f64) -> Option<&'static str> {
        let near = |values: f64| values > 0.0 && (sum / values - 1.0).abs() < NEAR;
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

/// TFLOP/s, where the line says that they are of one GPU.
pub(super) fn tflops(template: &Template) -> Option<Group> {
    let of_gpu = |(part, _): &(usize, &Part)| {
        let named = |text: &[u8]| has(text, &[b"flop"]) && has(text, &[b"gpu", b"device"]);
        let unit = template
            .after(*part)
            .trim_ascii_start()
            .to_ascii_lowercase();
        let end = unit.iter().position(u8::is_ascii_whitespace);
        named(&phrase(template, *part)) || named(&unit[..end.unwrap_or(unit.len())])
    };
    let (part, _) = numbers(&template.parts).find(of_gpu)?;
    Some(Group {
        part,
        name: "tflops",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::propose::table::Table;

    /// The groups of the lines that `line` makes of a step number and a time of day.
    fn groups(line: impl Fn(u64, &str) -> String, seconds: f64) -> Vec<&'static str> {
        let mut table = Table::default();
        for k in 1..20_u64 {
            let now = seconds * k as f64;
            let clock = format!("10:{:02}:{:06.3}", (now / 60.0) as u64, now % 60.0);
            table.add(line(50 * k, &clock).as_bytes(), k);
        }
        let all = table.finish();
        let template = &all[0];
        let mut steps = numbers(&template.parts).zip(&template.series);
        let ((step, _), series) = steps.find(|(_, s)| s.first == 50).unwrap();
        let time = time(template, step, series);
        time.into_iter()
            .chain(tflops(template))
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
