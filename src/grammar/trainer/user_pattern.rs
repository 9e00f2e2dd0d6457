//! The user's own pattern for step lines.

use regex::bytes::{Captures, Regex};

use super::parts::number::{parse_count, parse_millis, parse_wrapped_number};
use super::{StepLine, Trainer, TrainerMark, TrainerRecord};

/// Shown with every complaint, because a pattern is easier to change than to invent.
const EXAMPLE_OF_PATTERN: &str = r"for example 'step (?P<step>\d+) took (?P<time_ms>[\d.]+) ms'";

/// The groups a pattern may have.
const PATTERN_GROUPS: [&str; 5] = ["step", "time_s", "time_ms", "steps_per_s", "tflops"];

/// Those that give a step's time.
const TIME_GROUPS: [&str; 3] = ["time_s", "time_ms", "steps_per_s"];

/// A pattern with a group `step`.
#[derive(Debug, Clone)]
pub(super) struct StepPattern(Regex);

impl StepPattern {
    /// Compiles the pattern, or explains why it is invalid.
    pub(super) fn new(pattern: &str) -> Result<StepPattern, String> {
        let regex = Regex::new(pattern).map_err(|error| {
            // The last of several lines is the reason; the others draw the position.
            let error = error.to_string();
            let what = error.lines().last().unwrap_or_default();
            let what = what.trim_start_matches("error: ");
            format!("`{pattern}`: {what}; expected a regular expression, {EXAMPLE_OF_PATTERN}")
        })?;
        let named = |name: &str| regex.capture_names().flatten().any(|group| group == name);
        if let Some(other) = regex
            .capture_names()
            .flatten()
            .find(|group| !PATTERN_GROUPS.contains(group))
        {
            return Err(format!(
                "unknown group `{other}`, expected one of {}, {EXAMPLE_OF_PATTERN}",
                PATTERN_GROUPS.join(", ")
            ));
        }
        if !named("step") {
            return Err(format!(
                "expected a group named `step`, {EXAMPLE_OF_PATTERN}"
            ));
        }
        if TIME_GROUPS.iter().filter(|name| named(name)).count() > 1 {
            return Err(format!(
                "expected only one of the groups {}, {EXAMPLE_OF_PATTERN}",
                TIME_GROUPS.join(", ")
            ));
        }
        Ok(StepPattern(regex))
    }

    /// Whether the pattern matches in a piece.
    pub(super) fn matches(&self, piece: &[u8]) -> bool {
        self.0.is_match(piece)
    }

    /// Every match in a piece that has a number of a step, from the match's first byte to its last.
    pub(super) fn find_steps<'a>(
        &'a self,
        piece: &'a [u8],
    ) -> impl Iterator<Item = TrainerRecord> + 'a {
        self.0
            .captures_iter(piece)
            .filter_map(|captures| record_of_captures(&captures))
    }
}

/// A whole number in a group: `1,152` and `1152.0` are 1152.
fn parse_whole_number(text: &[u8]) -> Option<u64> {
    if let Ok((b"", step)) = parse_count(text) {
        return Some(step);
    }
    let value = parse_wrapped_number(text)?;
    (value.fract() == 0.0 && (0.0..9e15).contains(&value)).then_some(value as u64)
}

fn record_of_captures(captures: &Captures<'_>) -> Option<TrainerRecord> {
    let group = |name| captures.name(name).map(|m| m.as_bytes().trim_ascii());
    let number = |name| group(name).and_then(parse_wrapped_number);
    let by_rate = || number("steps_per_s").filter(|rate| *rate > 0.0);
    let time_ms = || group("time_ms").and_then(|ms| parse_millis(ms).1);
    let line = StepLine {
        time_s: number("time_s")
            .or_else(time_ms)
            .or_else(|| by_rate().map(f64::recip).filter(|time| time.is_finite())),
        tflops: number("tflops"),
        ..StepLine::without_time(Trainer::Custom, parse_whole_number(group("step")?)?)
    };
    let all = captures.get(0)?;
    Some(TrainerRecord {
        start: all.start(),
        end: all.end(),
        mark: TrainerMark::Step(line),
    })
}

#[cfg(test)]
mod tests {
    use super::super::Recogniser;
    use super::*;

    fn lines(pattern: &str, text: &str) -> Vec<StepLine> {
        let mut found = Vec::new();
        Recogniser::for_pattern(pattern)
            .unwrap()
            .marks(text.as_bytes(), &mut found);
        let step = |found: &TrainerRecord| match found.mark {
            TrainerMark::Step(line) => Some(line),
            _ => None,
        };
        found.iter().filter_map(step).collect()
    }

    #[test]
    fn groups_become_the_fields_of_a_step() {
        let pattern = r"it (?P<step>[\d,.]+) (?P<time_ms>\S+) ms(?: (?P<tflops>\S+))?";
        let all = lines(
            pattern,
            "it 1,152 12.5 ms 3e2\rit 3 nan ms; it 4.0 5 ms; it 4.5 5 ms",
        );
        let got: Vec<_> = all.iter().map(|l| (l.step, l.time_s, l.tflops)).collect();
        assert_eq!(
            got,
            [
                (1152, Some(0.0125), Some(300.0)),
                (3, None, None),
                (4, Some(0.005), None)
            ]
        );
        let rates = lines(
            r"(?P<step>\d+) (?P<steps_per_s>\S+)/s",
            "1 2.5/s 2 0/s 3 -4/s",
        );
        let times: Vec<_> = rates.iter().map(|l| l.time_s).collect();
        assert_eq!(times, [Some(0.4), None, None]);
        assert_eq!(
            lines(
                r"^s(?P<step>\d+) (?P<time_s>.*)$",
                "x\r\x1b[1ms5 0.5\x1b[0m\r"
            )
            .len(),
            1
        );
    }

    #[test]
    fn only_the_pattern_makes_steps_but_evaluations_are_still_found() {
        let recogniser = Recogniser::for_pattern(r"now (?P<step>\d+)").unwrap();
        let mut found = Vec::new();
        recogniser.marks(b"[batch=1/2]: now 4 Testing: iteration 1/2", &mut found);
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].mark, TrainerMark::Between);
        assert!(recogniser.may_mark(b"now 4") && !recogniser.may_mark(b"now then"));
    }

    #[test]
    fn what_is_wrong_with_a_pattern_is_said_with_an_example() {
        for (pattern, complaint) in [
            ("(?P<step>", "expected a regular expression"),
            ("x(", "`x(`: unclosed group"),
            (r"it (\d+)", "expected a group named `step`"),
            (r"it (?P<stp>\d+)", "unknown group `stp`"),
            (r"(?P<step>\d+)(?P<time_s>x)(?P<time_ms>y)", "only one of"),
            (
                r"(?P<step>\d+)(?P<time_s>x)(?P<steps_per_s>y)",
                "only one of",
            ),
        ] {
            let error = Recogniser::for_pattern(pattern).unwrap_err();
            assert!(
                error.contains(complaint)
                    && error.contains("for example")
                    && error.lines().count() == 1,
                "{error}"
            );
        }
    }
}
