//! The best few proposals of a log's templates, each with the pattern that takes it.

use super::pattern::{Group, Width, pattern, taken};
use super::score::score;
use super::series::{Series, numbers};
use super::table::Template;
use super::units;
use super::{BEST, Proposal, SHOWN};
use regex::bytes::Regex;

/// Fewest points of what is worth showing.
const LEAST: f64 = 8.5;

/// Points that a series loses which begins again while another goes on.
const WITHIN: f64 = 4.0;

/// Templates that are asked whether they count the same.
const FEW: usize = 64;

/// A template and the place of its step.
struct Judged<'t> {
    template: &'t Template,
    /// Which of its parts.
    part: usize,
    series: &'t Series,
    score: f64,
}

/// The likeliest of the templates of a log of `lines` lines, best first.
pub(super) fn best(templates: &[Template], lines: u64) -> Vec<Proposal> {
    let mut judged: Vec<Judged<'_>> = templates.iter().filter_map(|t| judge(t, lines)).collect();
    sort(&mut judged);
    agree(&mut judged);
    sort(&mut judged);
    let mut out: Vec<(Proposal, Regex)> = Vec::new();
    for judged in judged.iter().filter(|judged| judged.score >= LEAST) {
        let mut proposal = judged.proposal();
        // What counts the same steps cuts the log the same way.
        if out.iter().any(|(known, _)| known.counts_as(&proposal)) {
            continue;
        }
        // Lines that a pattern takes already are of that one.
        let known = out.iter_mut().find(|(_, regex)| judged.is_taken(regex));
        if let Some((known, _)) = known {
            known.merge(&proposal);
        } else if out.len() < BEST
            && let Some((pattern, regex)) = judged.found(templates)
        {
            proposal.pattern = pattern;
            out.push((proposal, regex));
        }
    }
    out.into_iter().map(|(proposal, _)| proposal).collect()
}

/// The template with the likeliest of its numbers; the first of equals.
fn judge(template: &Template, lines: u64) -> Option<Judged<'_>> {
    let places = numbers(&template.parts).zip(&template.series);
    let of = |((part, _), series)| {
        Some(Judged {
            template,
            part,
            series,
            score: score(template, part, series, lines)?,
        })
    };
    let places: Vec<Judged<'_>> = places.filter_map(of).collect();
    let best = places.into_iter().rev();
    best.max_by(|a, b| a.score.total_cmp(&b.score))
}

/// The likeliest first, and of equals the one that came first.
fn sort(judged: &mut [Judged<'_>]) {
    let line = |judged: &Judged<'_>| judged.template.line;
    judged.sort_by(|a, b| b.score.total_cmp(&a.score).then(line(a).cmp(&line(b))));
}

/// What other lines count too is the job's own, and what begins again while others go on is not:
/// the best few are held against each other.
fn agree(judged: &mut [Judged<'_>]) {
    let few = judged.len().min(FEW);
    let (few, _) = judged.split_at_mut(few);
    let points = |one: &Judged<'_>| {
        let agreeing = few
            .iter()
            .filter(|other| one.series.agrees_with(other.series));
        // It agrees with itself.
        let agreeing = agreeing.count().clamp(1, 3) - 1;
        let inner = few.iter().any(|other| one.is_within(other));
        0.5 * agreeing as f64 - if inner { WITHIN } else { 0.0 }
    };
    let points: Vec<f64> = few.iter().map(points).collect();
    for (one, points) in few.iter_mut().zip(points) {
        one.score += points;
    }
}

impl Judged<'_> {
    /// True where these lines begin again and again while the other's, several between two times,
    /// go on: an evaluation's within a training.
    fn is_within(&self, other: &Judged<'_>) -> bool {
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

    fn proposal(&self) -> Proposal {
        let Series {
            first, last, falls, ..
        } = *self.series;
        let example = &self.template.example;
        Proposal {
            lines: self.template.lines,
            first,
            last,
            increment: self.series.increment().map_or(0, |(by, _)| by),
            falls,
            example: example[..example.len().min(SHOWN)].to_vec(),
            pattern: String::new(),
            score: self.score,
        }
    }

    /// True where the pattern takes these lines, each once and by this number.
    fn is_taken(&self, regex: &Regex) -> bool {
        let own = self.template.parts.get(self.part).map(|part| part.start);
        let example = &self.template.example;
        own.is_some()
            && taken(regex, example, "step") == own
            && regex.find_iter(example).count() == 1
    }

    /// The pattern of the least width that takes no other lines.
    fn found(&self, templates: &[Template]) -> Option<(String, Regex)> {
        let time = units::time(self.template, self.part, self.series);
        let mut others: Vec<Group> = time
            .into_iter()
            .chain(units::tflops(self.template))
            .collect();
        others.retain(|group| group.part != self.part && self.takes(group));
        others.sort_by_key(|group| group.part);
        let mut last = None;
        for width in [Width::Near, Width::Around, Width::Left, Width::Whole] {
            let text = pattern(self.template, self.part, &others, width);
            let Some(regex) = Regex::new(&text).ok().filter(|regex| self.is_taken(regex)) else {
                continue;
            };
            let is_strange = templates
                .iter()
                .any(|other| self.is_stranger(other, &regex));
            last = Some((text, regex));
            if !is_strange {
                break;
            }
        }
        last
    }

    /// True where a pattern finds the group's number, and no other.
    fn takes(&self, group: &Group) -> bool {
        let text = pattern(self.template, self.part, &[*group], Width::Near);
        let part = self.template.parts.get(group.part);
        let found = |regex: Regex| taken(&regex, &self.template.example, group.name);
        Regex::new(&text).ok().and_then(found) == part.map(|part| part.start)
    }

    /// True for lines that the pattern takes though they count something else.
    fn is_stranger(&self, other: &Template, regex: &Regex) -> bool {
        let Some(start) = taken(regex, &other.example, "step") else {
            return false;
        };
        let mut places = numbers(&other.parts).zip(&other.series);
        let Some((_, theirs)) = places.find(|((_, part), _)| part.start == start) else {
            return true;
        };
        let own = self.series;
        // What a line has more or less than others is another template of the same steps: those
        // before, after or among these.
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
