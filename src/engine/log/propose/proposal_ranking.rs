//! The best few proposals of a log's templates, each with the pattern that matches it.

use super::StepProposal;
use super::limits::{
    MAX_COMPARED_TEMPLATES, MAX_EXAMPLE_BYTES, MAX_PROPOSALS, MIN_PROPOSAL_POINTS,
    NESTED_SERIES_POINTS,
};
use super::pattern::{PatternGroup, PatternWidth, build_pattern, group_position};
use super::score::score_step_number;
use super::series::{NumberSeries, iter_numbers};
use super::step_time_units;
use super::table::LineTemplate;
use regex::bytes::Regex;

/// A template and the place of its step.
struct StepCandidate<'t> {
    template: &'t LineTemplate,
    /// The part with the step.
    part: usize,
    series: &'t NumberSeries,
    score: f64,
}

/// Returns the likeliest of the templates of a log of `lines` lines, best first.
pub(super) fn best_proposals(templates: &[LineTemplate], lines: u64) -> Vec<StepProposal> {
    let mut judged: Vec<StepCandidate<'_>> = templates
        .iter()
        .filter_map(|t| judge_template(t, lines))
        .collect();
    sort_candidates(&mut judged);
    adjust_by_agreement(&mut judged);
    sort_candidates(&mut judged);
    let mut out: Vec<(StepProposal, Regex)> = Vec::new();
    for judged in judged
        .iter()
        .filter(|judged| judged.score >= MIN_PROPOSAL_POINTS)
    {
        let mut proposal = judged.build_proposal();
        // Lines that count the same steps cut the log in the same places.
        if out
            .iter()
            .any(|(known, _)| known.counts_same_steps(&proposal))
        {
            continue;
        }
        // Lines that a pattern matches already belong to it.
        let known = out.iter_mut().find(|(_, regex)| judged.is_taken_by(regex));
        if let Some((known, _)) = known {
            known.merge(&proposal);
        } else if out.len() < MAX_PROPOSALS
            && let Some((pattern, regex)) = judged.find_pattern(templates)
        {
            proposal.pattern = pattern;
            out.push((proposal, regex));
        }
    }
    out.into_iter().map(|(proposal, _)| proposal).collect()
}

/// Returns the template with the likeliest of its numbers; the first of equals.
fn judge_template(template: &LineTemplate, lines: u64) -> Option<StepCandidate<'_>> {
    let places = iter_numbers(&template.parts).zip(&template.series);
    let of = |((part, _), series)| {
        Some(StepCandidate {
            template,
            part,
            series,
            score: score_step_number(template, part, series, lines)?,
        })
    };
    let places: Vec<StepCandidate<'_>> = places.filter_map(of).collect();
    let best = places.into_iter().rev();
    best.max_by(|a, b| a.score.total_cmp(&b.score))
}

/// Sorts the likeliest first, and equals by their first lines.
fn sort_candidates(judged: &mut [StepCandidate<'_>]) {
    let line = |judged: &StepCandidate<'_>| judged.template.line;
    judged.sort_by(|a, b| b.score.total_cmp(&a.score).then(line(a).cmp(&line(b))));
}

/// Compares the best few: a number that other lines count too is the job's own, and one that begins
/// again while others go on is not.
fn adjust_by_agreement(judged: &mut [StepCandidate<'_>]) {
    let few = judged.len().min(MAX_COMPARED_TEMPLATES);
    let (few, _) = judged.split_at_mut(few);
    let points = |one: &StepCandidate<'_>| {
        let agreeing = few
            .iter()
            .filter(|other| one.series.counts_same_as(other.series));
        // It agrees with itself.
        let agreeing = agreeing.count().clamp(1, 3) - 1;
        let inner = few.iter().any(|other| one.is_nested_in(other));
        0.5 * agreeing as f64 - if inner { NESTED_SERIES_POINTS } else { 0.0 }
    };
    let points: Vec<f64> = few.iter().map(points).collect();
    for (one, points) in few.iter_mut().zip(points) {
        one.score += points;
    }
}

impl StepCandidate<'_> {
    /// Returns true if these lines begin again and again while the other's, several between two
    /// times, go on: an evaluation's within a training.
    fn is_nested_in(&self, other: &StepCandidate<'_>) -> bool {
        let (own, outer) = (self.series, other.series);
        let (first, last) = (self.template.line, self.template.last);
        let both = last
            .min(other.template.last)
            .saturating_sub(first.max(other.template.line));
        own.falls >= 2
            && outer.falls < own.falls / 2
            && outer.rises >= 2 * own.falls
            && both >= (last - first) / 2
    }

    fn build_proposal(&self) -> StepProposal {
        let NumberSeries {
            first, last, falls, ..
        } = *self.series;
        let example = &self.template.example;
        StepProposal {
            lines: self.template.lines,
            first,
            last,
            increment: self.series.main_increment().map_or(0, |(by, _)| by),
            falls,
            example: example[..example.len().min(MAX_EXAMPLE_BYTES)].to_vec(),
            pattern: String::new(),
            score: self.score,
        }
    }

    /// Returns true if the pattern matches these lines, each once and by this number.
    fn is_taken_by(&self, regex: &Regex) -> bool {
        let own = self.template.parts.get(self.part).map(|part| part.start);
        let example = &self.template.example;
        own.is_some()
            && group_position(regex, example, "step") == own
            && regex.find_iter(example).count() == 1
    }

    /// Returns the pattern of the least width that matches no other lines.
    fn find_pattern(&self, templates: &[LineTemplate]) -> Option<(String, Regex)> {
        let time = step_time_units::find_time_group(self.template, self.part, self.series);
        let mut others: Vec<PatternGroup> = time
            .into_iter()
            .chain(step_time_units::find_tflops_group(self.template))
            .collect();
        others.retain(|group| group.part != self.part && self.finds_group(group));
        others.sort_by_key(|group| group.part);
        let mut last = None;
        for width in [
            PatternWidth::Near,
            PatternWidth::Around,
            PatternWidth::Left,
            PatternWidth::Whole,
        ] {
            let text = build_pattern(self.template, self.part, &others, width);
            let Some(regex) = Regex::new(&text)
                .ok()
                .filter(|regex| self.is_taken_by(regex))
            else {
                continue;
            };
            let is_strange = templates
                .iter()
                .any(|other| self.takes_foreign_lines(other, &regex));
            last = Some((text, regex));
            if !is_strange {
                break;
            }
        }
        last
    }

    /// Returns true if a pattern finds the group's number, and no other.
    fn finds_group(&self, group: &PatternGroup) -> bool {
        let text = build_pattern(self.template, self.part, &[*group], PatternWidth::Near);
        let part = self.template.parts.get(group.part);
        let found = |regex: Regex| group_position(&regex, &self.template.example, group.name);
        Regex::new(&text).ok().and_then(found) == part.map(|part| part.start)
    }

    /// Returns true for lines that the pattern matches although they count something else.
    fn takes_foreign_lines(&self, other: &LineTemplate, regex: &Regex) -> bool {
        let Some(start) = group_position(regex, &other.example, "step") else {
            return false;
        };
        let mut places = iter_numbers(&other.parts).zip(&other.series);
        let Some((_, theirs)) = places.find(|((_, part), _)| part.start == start) else {
            return true;
        };
        let own = self.series;
        // Lines with a few words more or less are another template of the same steps: those before,
        // after or among these.
        let goes_on = if theirs.most < own.first {
            other.line < self.template.line
        } else if theirs.first > own.most {
            other.line > self.template.line
        } else {
            theirs.first >= own.first
        };
        theirs.others > 0 || theirs.falls > own.falls || !goes_on
    }
}
