//! Proposals of step lines for a log without a known trainer's. Step lines have in common a number
//! that rises by a constant, words that come again, and a time.
//!
//! A proposal is not used unless the user gives it to `--step-regex`. It costs a second look at the
//! log, on one thread, so that one table gets the lines in order, and memory of constant size.

mod limits;
pub(crate) mod pattern;
pub(crate) mod proposal_ranking;
pub(crate) mod score;
pub(crate) mod series;
pub(crate) mod step_time_units;
pub(crate) mod table;
pub(crate) mod template;
#[cfg(test)]
mod tests;

use crate::error::{Error, Result};
use crate::formats::{Provides, open};
use crate::grammar::{coll, header, short_header};
use crate::log::timeline::PresentSteps;
use crate::log::walk;
use crate::report;
use crate::source::{self, Input, InputName};
use limits::MAX_PROPOSALS;
use memchr::memmem::Finder;
use std::sync::LazyLock;
use table::TemplateTable;

/// Lines that may be the trainer's.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StepProposal {
    /// How many lines.
    pub lines: u64,
    /// The first step's number and the last one's.
    pub first: u64,
    /// See `first`.
    pub last: u64,
    /// The most frequent rise from line to line.
    pub increment: u64,
    /// Counts the times that it falls, to begin again.
    pub falls: u64,
    /// The first of the lines, without colours.
    pub example: Vec<u8>,
    /// The pattern that matches them, for `--step-regex`, fit for single quotes.
    pub pattern: String,
    /// How likely it is; only for comparison.
    score: f64,
}

impl StepProposal {
    /// Adds lines of another template that match the same pattern.
    fn merge(&mut self, other: &StepProposal) {
        self.lines += other.lines;
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }

    /// Returns true if the other counts the same steps.
    fn counts_same_steps(&self, other: &StepProposal) -> bool {
        let near = |a: u64, b: u64| a.abs_diff(b) <= self.increment;
        self.increment == other.increment
            && self.falls == other.falls
            && near(self.first, other.first)
            && near(self.last, other.last)
    }

    /// Describes it: its numbers, an example and its option, each on a line of its own.
    fn describe_proposal(&self) -> String {
        let StepProposal {
            lines,
            first,
            last,
            increment,
            falls,
            ..
        } = self;
        let again = match falls {
            0 => String::new(),
            1 => ", begins again once".to_owned(),
            falls => format!(", begins again {falls} times"),
        };
        let by = if *increment == 1 {
            String::new()
        } else {
            format!(" by {increment}")
        };
        let example = report::escape_for_terminal(&String::from_utf8_lossy(&self.example), false);
        format!(
            "{lines} lines, {first} to {last}{by}{again}:\n       {}\n       --step-regex '{}'",
            example.trim(),
            self.pattern
        )
    }
}

/// Returns the likeliest lines of a log, the best first.
fn propose_from_log(input: &Input) -> Result<Vec<StepProposal>> {
    let mut table = TemplateTable::default();
    let mut lines = 0;
    for chunk in input.open_chunks(usize::MAX, walk::classify_cut)? {
        let chunk = chunk?;
        for line in chunk.bytes().split(|&b| b == b'\n') {
            table.add_log_line(text_before_nccl(line), lines);
            lines += 1;
        }
    }
    Ok(proposal_ranking::best_proposals(&table.finish(), lines))
}

/// Returns the part of a line that is not NCCL's: all of it, or the text in front, such as a bar
/// without a line end.
fn text_before_nccl(line: &[u8]) -> &[u8] {
    static NCCL: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"NCCL "));
    let of_nccl = NCCL.find(line).is_some()
        || coll::is_tail(line)
        || short_header::parse_short_line(line).is_some();
    match header::find_header(line, 0).filter(|_| of_nccl) {
        Some(header) => line.get(..header.start).unwrap_or_default(),
        None if of_nccl => b"",
        None => line,
    }
}

/// Returns the error of inputs that lack steps: `missing`, and if there are no steps at all, the
/// lines of `inputs` that may be step lines.
pub fn missing_steps_error<I: std::borrow::Borrow<Input>>(
    missing: String,
    present: &PresentSteps,
    inputs: impl Iterator<Item = Result<I>>,
) -> Error {
    if !present.is_empty() {
        return Error::Content(missing);
    }
    let mut best: Vec<StepProposal> = Vec::new();
    // An input that cannot be read was reported when it was read first.
    for input in inputs.flatten() {
        for proposal in propose_from_log(input.borrow()).unwrap_or_default() {
            match best
                .iter_mut()
                .find(|known| known.pattern == proposal.pattern)
            {
                Some(known) => known.merge(&proposal),
                None => best.push(proposal),
            }
        }
        best.sort_by(|a, b| b.score.total_cmp(&a.score));
        best.truncate(MAX_PROPOSALS);
    }
    let mut text = missing;
    if best.is_empty() {
        return Error::Content(text);
    }
    text += "\nThese may be step lines, the likeliest first. None is used without --step-regex:";
    for (at, proposal) in best.iter().enumerate() {
        text += &format!("\n  {}. {}", at + 1, proposal.describe_proposal());
    }
    Error::Proposed(text)
}

/// Returns the error of inputs that are opened again, which a pipe cannot be.
pub fn reopened_missing_steps_error(
    missing: String,
    present: &PresentSteps,
    origins: &[InputName],
    options: source::Options,
) -> Error {
    if present.is_empty()
        && origins
            .iter()
            .any(|origin| origin.is_stdin() && origin.is_piped())
    {
        let more = "for a pipe, nccl-steps --list shows lines that may be step lines";
        return Error::Content(format!("{missing}; {more}"));
    }
    let open = |origin| open::open_input::<()>(origin, options, Provides::STEP_LINES);
    let inputs = origins.iter().map(|origin| Ok(open(origin)?.into_input()));
    missing_steps_error(missing, present, inputs)
}
