//! The templates of a log's lines, as many as fit into a few megabytes.

use super::limits::{
    MAX_FOLLOWED_PLACES, MAX_ROUGH_DEVIATION_SHARE, MAX_TEMPLATE_LINE_BYTES, MAX_TEMPLATES,
    MAX_TIME_DEVIATION_SHARE, MIN_ROUGH_DISTANCE,
};
use super::series::{NumberSeries, iter_numbers};
use super::template::{self, TemplatePart, TemplatePartKind};
use crate::grammar::trainer::split_pieces;
use crate::grammar::wrap::strip_escapes;
use rustc_hash::FxHashMap;

/// Lines with the same words.
#[derive(Debug)]
pub(super) struct LineTemplate {
    /// The first of them, and its parts.
    pub(super) example: Box<[u8]>,
    pub(super) parts: Vec<TemplatePart>,
    pub(super) lines: u64,
    /// The first one's line in the log, and the last one's.
    pub(super) line: u64,
    pub(super) last: u64,
    /// The numbers of each place, in the order of the line.
    pub(super) series: Vec<NumberSeries>,
    pub(super) clock: TemplateClock,
}

/// The lines' own time of day.
#[derive(Debug, Default)]
pub(super) struct TemplateClock {
    last: Option<f64>,
    /// The shortest distance of two lines.
    shortest: Option<f64>,
    /// The sum of distances that are not much longer: without what came between steps.
    pub(super) sum: f64,
    /// How many distances are in it.
    pub(super) lines: u64,
    /// Stamps have a fraction.
    fine: bool,
}

impl TemplateClock {
    /// Returns true if the line's distance from the one before counts; `Err` if no earlier one
    /// counts any more.
    fn add_stamp(&mut self, stamp: &[u8]) -> Result<bool, ()> {
        let Some(now) = template::seconds_of_clock(stamp) else {
            return Ok(false);
        };
        self.fine = stamp.contains(&b'.') || stamp.contains(&b',');
        let distance = self.last.replace(now).map(|last| now - last);
        let Some(distance) = distance.filter(|d| *d > 0.0) else {
            return Ok(false);
        };
        let shortest = *self.shortest.get_or_insert(distance);
        if distance > 2.0 * shortest {
            return Ok(false);
        }
        self.shortest = Some(shortest.min(distance));
        let is_anew = 2.0 * distance < shortest;
        if is_anew {
            (self.sum, self.lines) = (0.0, 0);
        }
        self.sum += distance;
        self.lines += 1;
        if is_anew { Err(()) } else { Ok(true) }
    }

    /// Returns the sum of the distances if stamps are fine enough for them, and the share by which it may
    /// be wrong.
    pub(super) fn distance_sum(&self) -> Option<(f64, f64)> {
        let step = if self.fine { 0.001 } else { 1.0 };
        let least = |units: f64| self.lines >= 2 && self.sum >= units * step * self.lines as f64;
        if least(10.0) {
            Some((self.sum, MAX_TIME_DEVIATION_SHARE))
        } else {
            // Each distance is rounded, but their sum only at its ends.
            least(MIN_ROUGH_DISTANCE).then_some((self.sum, MAX_ROUGH_DEVIATION_SHARE))
        }
    }
}

impl LineTemplate {
    /// Returns the text right before a part.
    pub(super) fn text_before(&self, part: usize) -> &[u8] {
        part.checked_sub(1).map_or(b"", |at| self.text_part(at))
    }

    /// Returns the text right after a part.
    pub(super) fn text_after(&self, part: usize) -> &[u8] {
        self.text_part(part + 1)
    }

    fn text_part(&self, at: usize) -> &[u8] {
        let part = self.parts.get(at);
        let part = part.filter(|part| part.kind == TemplatePartKind::Text);
        part.map_or(b"", |part| part.slice_of(&self.example))
    }

    fn add_line(&mut self, text: &[u8], parts: &[TemplatePart], at: u64) {
        self.lines += 1;
        self.last = at;
        let is_clock = |part: &&TemplatePart| {
            part.kind == TemplatePartKind::Clock && part.slice_of(text).contains(&b':')
        };
        let timed = parts.iter().find(is_clock);
        let timed = timed.map_or(Ok(false), |part| self.clock.add_stamp(part.slice_of(text)));
        if timed.is_err() {
            for series in &mut self.series {
                (series.sum, series.inverse) = (0.0, 0.0);
            }
        }
        for (series, (_, part)) in self.series.iter_mut().zip(iter_numbers(parts)) {
            series.add_number(part.slice_of(text), at, timed.unwrap_or(true));
        }
    }
}

/// The templates of a log.
#[derive(Debug, Default)]
pub(super) struct TemplateTable {
    known: FxHashMap<Box<[u8]>, LineTemplate>,
    parts: Vec<TemplatePart>,
    key: Vec<u8>,
}

impl TemplateTable {
    /// Adds a line, the `at`th.
    pub(super) fn add_log_line(&mut self, line: &[u8], at: u64) {
        for (_, piece) in split_pieces(line) {
            let clean = strip_escapes(piece);
            let text = clean.as_ref().map_or(piece, |clean| clean.text());
            let text = text.trim_ascii_end();
            self.add_line_piece(&text[..text.len().min(MAX_TEMPLATE_LINE_BYTES)], at);
        }
    }

    fn add_line_piece(&mut self, text: &[u8], at: u64) {
        let (mut parts, mut key) = (
            std::mem::take(&mut self.parts),
            std::mem::take(&mut self.key),
        );
        template::split_into_parts(text, &mut parts);
        let places = iter_numbers(&parts).count().min(MAX_FOLLOWED_PLACES);
        if places > 0 {
            template::write_template_key(text, &parts, &mut key);
            if let Some(known) = self.known.get_mut(&key[..]) {
                known.add_line(text, &parts, at);
            } else {
                if self.known.len() >= MAX_TEMPLATES {
                    self.forget_rare_templates();
                }
                let mut template = LineTemplate {
                    example: text.into(),
                    parts: parts.clone(),
                    lines: 0,
                    line: at,
                    last: at,
                    series: vec![NumberSeries::default(); places],
                    clock: TemplateClock::default(),
                };
                template.add_line(text, &parts, at);
                self.known.insert(key[..].into(), template);
            }
        }
        (self.parts, self.key) = (parts, key);
    }

    /// Makes room: forgets the templates that came least often, the older ones of equals.
    fn forget_rare_templates(&mut self) {
        let mut all: Vec<(u64, u64)> = self.known.values().map(|t| (t.lines, t.line)).collect();
        all.sort_unstable();
        let Some(&middle) = all.get(all.len() / 2) else {
            return;
        };
        self.known.retain(|_, t| (t.lines, t.line) > middle);
    }

    /// Returns the templates in the order of their first lines.
    pub(super) fn finish(self) -> Vec<LineTemplate> {
        let mut all: Vec<LineTemplate> = self.known.into_values().collect();
        // Pieces of one line have its number, but other words.
        all.sort_unstable_by(|a, b| (a.line, &a.example).cmp(&(b.line, &b.example)));
        for series in all.iter_mut().flat_map(|t| &mut t.series) {
            series.end_run();
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_that_comes_again_outlives_any_number_of_others() {
        let mut table = TemplateTable::default();
        for at in 0..50_000_u64 {
            // Words of letters only, all different.
            let word: String = at.to_string().bytes().map(|b| char::from(b + 49)).collect();
            table.add_log_line(format!("{word} is 1").as_bytes(), at);
            if at % 100 == 0 {
                table.add_log_line(
                    format!("\x1b[1mstep: {}\x1b[0m ms", at / 100).as_bytes(),
                    at,
                );
            }
            assert!(table.known.len() <= MAX_TEMPLATES);
        }
        let all = table.finish();
        let steps = all.iter().find(|t| t.example.starts_with(b"step")).unwrap();
        assert_eq!((steps.lines, steps.series[0].last), (500, 499));
    }
}
