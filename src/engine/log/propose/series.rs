//! The numbers at one place of a template's lines, in a few words of memory.

use super::limits::MAX_INCREMENTS;
use super::template::{TemplatePart, TemplatePartKind};

/// The whole numbers at one place, in the order of their lines.
#[derive(Debug, Clone, Default)]
pub(super) struct NumberSeries {
    /// Lines with a number here.
    pub(super) lines: u64,
    /// Lines with a number that is not whole.
    pub(super) others: u64,
    /// The first number and the last.
    pub(super) first: u64,
    pub(super) last: u64,
    /// The largest.
    pub(super) most: u64,
    /// A number has a comma or a point in it.
    pub(super) grouped: bool,
    pub(super) pointed: bool,
    /// Counts rises, and falls, after which it begins again.
    pub(super) rises: u64,
    pub(super) falls: u64,
    increments: [(u64, u64); MAX_INCREMENTS],
    /// The first and the last line of the current run, and how many lines of it are the template's.
    run: Option<(u64, u64)>,
    own: u64,
    /// The log's other lines within runs and between them, and all lines that runs span.
    pub(super) inside: u64,
    pub(super) outside: u64,
    pub(super) spans: u64,
    /// Sums of the values and of their inverses over lines with a known distance in time.
    pub(super) sum: f64,
    pub(super) inverse: f64,
}

/// Parses a whole number as trainers print one.
pub(super) fn parse_trainer_integer(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_whole = part.bytes().all(|b| b == b'0');
    is_whole
        .then(|| whole.replace(',', "").parse().ok())
        .flatten()
}

/// Parses the value of a number.
pub(super) fn parse_trainer_number(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?.replace(',', "");
    text.parse::<f64>().ok().filter(|v| v.is_finite())
}

impl NumberSeries {
    /// Adds the number of the line `at`; `timed` if its distance in time counts.
    pub(super) fn add_number(&mut self, text: &[u8], at: u64, timed: bool) {
        self.lines += 1;
        if timed && let Some(value) = parse_trainer_number(text).filter(|v| *v > 0.0) {
            self.sum += value;
            self.inverse += value.recip();
        }
        let Some(now) = parse_trainer_integer(text) else {
            self.others += 1;
            return;
        };
        self.grouped |= text.contains(&b',');
        self.pointed |= text.contains(&b'.');
        let Some((first, last)) = self.run else {
            (self.first, self.last, self.most) = (now, now, now);
            self.run = Some((at, at));
            self.own = 1;
            return;
        };
        if now > self.last {
            self.count_increment(now - self.last);
            self.rises += 1;
        } else if now < self.last {
            // A late rank's number of the step before is not a fall.
            if self.last - now <= self.main_increment().map_or(0, |(most, _)| most) {
                return;
            }
            self.falls += 1;
            self.outside += at.saturating_sub(last + 1);
            self.end_run();
            self.run = Some((at, at));
            (self.own, self.last) = (1, now);
            return;
        }
        self.own += u64::from(at != last);
        self.run = Some((first, at));
        self.last = now;
        self.most = self.most.max(now);
    }

    /// Ends the current run.
    pub(super) fn end_run(&mut self) {
        if let Some((first, last)) = self.run.take() {
            let spans = last.saturating_sub(first) + 1;
            self.spans += spans;
            self.inside += spans.saturating_sub(self.own);
        }
    }

    /// Counts an increment; of many, the frequent ones remain.
    fn count_increment(&mut self, by: u64) {
        let known = self.increments.iter_mut();
        let free = known.into_iter().find(|(value, n)| *n == 0 || *value == by);
        match free {
            Some(slot) => *slot = (by, slot.1 + 1),
            None => self.increments.iter_mut().for_each(|slot| slot.1 -= 1),
        }
    }

    /// Returns the most frequent increment and how often it was seen, at least.
    pub(super) fn main_increment(&self) -> Option<(u64, u64)> {
        let seen = self.increments.iter().filter(|(_, n)| *n > 0);
        seen.copied()
            .max_by_key(|&(by, n)| (n, std::cmp::Reverse(by)))
    }

    /// Returns the share of its changes that are by the same increment.
    pub(super) fn increment_share(&self) -> f64 {
        let changes = self.rises + self.falls;
        let by_most = self.main_increment().map_or(0, |(_, n)| n);
        by_most as f64 / (changes.max(1)) as f64
    }

    /// Returns true if both count the same: they begin and end within an increment of each other.
    pub(super) fn counts_same_as(&self, other: &NumberSeries) -> bool {
        let by = |series: &NumberSeries| series.main_increment().map_or(0, |(by, _)| by);
        let near = |a: u64, b: u64| a.abs_diff(b) <= by(self).max(by(other));
        self.rises > 0
            && other.rises > 0
            && near(self.first, other.first)
            && near(self.last, other.last)
    }
}

/// Iterates over the numbers among the parts of a line.
pub(super) fn iter_numbers(parts: &[TemplatePart]) -> impl Iterator<Item = (usize, &TemplatePart)> {
    let all = parts.iter().enumerate();
    all.filter(|(_, part)| part.kind == TemplatePartKind::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(numbers: &[&str]) -> NumberSeries {
        let mut series = NumberSeries::default();
        for (at, number) in (0_u64..).zip(numbers) {
            series.add_number(number.as_bytes(), 10 * at, false);
        }
        series.end_run();
        series
    }

    #[test]
    fn what_rises_by_a_constant_is_told_from_what_does_not() {
        let steps = of(&["50", "100", "150", "150", "200", "250", "300"]);
        assert_eq!(
            (steps.first, steps.last, steps.rises, steps.falls),
            (50, 300, 5, 0)
        );
        assert_eq!(
            (steps.main_increment(), steps.increment_share()),
            (Some((50, 5)), 1.0)
        );
        assert_eq!((steps.spans, steps.inside), (61, 54));
        let loss = of(&["7", "9", "12", "40", "41", "99", "140"]);
        assert!(loss.increment_share() < 0.5);
        assert_eq!(of(&["1.5", "2", "3.0", "nan"]).others, 2);
    }

    #[test]
    fn late_numbers_are_no_falls_and_bursts_are() {
        let late = of(&["1", "2", "3", "2", "4", "5", "4", "6"]);
        assert_eq!((late.falls, late.last), (0, 6));
        let bars = of(&["1", "20", "39", "1", "20", "39", "1", "20", "39"]);
        assert_eq!(bars.falls, 2);
        assert_eq!((bars.spans, bars.outside), (63, 18));
    }
}
