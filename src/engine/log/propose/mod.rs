//! Lines that may be step lines, where no known trainer's are found: what step lines have in common
//! is a number that rises by a constant, words that come again, and a time beside it.
//!
//! A proposal is not taken: the user decides with `--step-regex`. It costs a second look at the
//! log, on one thread, so that one table sees the lines in their order, and in memory of constant
//! size.

pub(crate) mod best;
pub(crate) mod pattern;
pub(crate) mod score;
pub(crate) mod series;
pub(crate) mod table;
pub(crate) mod template;
#[cfg(test)]
mod tests;
pub(crate) mod units;

use crate::error::{Error, Result};
use crate::formats::{Tells, door};
use crate::grammar::{coll, header};
use crate::log::timeline::Present;
use crate::log::walk;
use crate::report;
use crate::source::{self, Input, Origin};
use memchr::memmem::Finder;
use std::sync::LazyLock;
use table::Table;

/// How many lines are proposed.
const BEST: usize = 3;

/// How much of an example is shown, in bytes.
const SHOWN: usize = 240;

/// Lines that may be the trainer's.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Proposal {
    /// How many they are.
    pub lines: u64,
    /// The first step's number and the last one's.
    pub first: u64,
    /// See `first`.
    pub last: u64,
    /// How much it mostly rises from line to line.
    pub increment: u64,
    /// How often it falls, to begin again.
    pub falls: u64,
    /// The first of the lines, without colours.
    pub example: Vec<u8>,
    /// The pattern that takes them, for `--step-regex`, fit for single quotes.
    pub pattern: String,
    /// How likely it is: only compared.
    score: f64,
}

impl Proposal {
    /// Adds lines of another template that the same pattern takes.
    fn merge(&mut self, other: &Proposal) {
        self.lines += other.lines;
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }

    /// True where the other counts the same steps.
    fn counts_as(&self, other: &Proposal) -> bool {
        let near = |a: u64, b: u64| a.abs_diff(b) <= self.increment;
        self.increment == other.increment
            && self.falls == other.falls
            && near(self.first, other.first)
            && near(self.last, other.last)
    }

    /// What is known of it, an example and how it is taken, each on a line of its own.
    fn describe(&self) -> String {
        let Proposal {
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
        let example = report::printable(&String::from_utf8_lossy(&self.example), false);
        format!(
            "{lines} lines, {first} to {last}{by}{again}:\n       {}\n       --step-regex '{}'",
            example.trim(),
            self.pattern
        )
    }
}

/// The likeliest lines of a log, the best first.
fn of_log(input: &Input) -> Result<Vec<Proposal>> {
    let mut table = Table::default();
    let mut lines = 0;
    for chunk in input.chunks(usize::MAX, walk::place)? {
        let chunk = chunk?;
        for line in chunk.bytes().split(|&b| b == b'\n') {
            table.add(before_nccl(line), lines);
            lines += 1;
        }
    }
    Ok(best::best(&table.finish(), lines))
}

/// What of a line is not NCCL's: all, or what is in front of it, as a bar without a line end is.
fn before_nccl(line: &[u8]) -> &[u8] {
    static NCCL: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"NCCL "));
    let of_nccl = NCCL.find(line).is_some() || coll::is_tail(line);
    match header::find(line, 0).filter(|_| of_nccl) {
        Some(header) => line.get(..header.start).unwrap_or_default(),
        None if of_nccl => b"",
        None => line,
    }
}

/// The error of inputs that lack steps, as `missing` says. Where there are none at all, with the
/// lines of `inputs` that may be step lines.
pub fn instead<I: std::borrow::Borrow<Input>>(
    missing: String,
    present: &Present,
    inputs: impl Iterator<Item = Result<I>>,
) -> Error {
    if !present.is_empty() {
        return Error::Content(missing);
    }
    let mut best: Vec<Proposal> = Vec::new();
    // What cannot be read was reported when it was read for the first time.
    for input in inputs.flatten() {
        for proposal in of_log(input.borrow()).unwrap_or_default() {
            match best
                .iter_mut()
                .find(|known| known.pattern == proposal.pattern)
            {
                Some(known) => known.merge(&proposal),
                None => best.push(proposal),
            }
        }
        best.sort_by(|a, b| b.score.total_cmp(&a.score));
        best.truncate(BEST);
    }
    let mut text = missing;
    if best.is_empty() {
        return Error::Content(text);
    }
    text += "\nThese may be step lines, the likeliest first. None is used without --step-regex:";
    for (at, proposal) in best.iter().enumerate() {
        text += &format!("\n  {}. {}", at + 1, proposal.describe());
    }
    Error::Proposed(text)
}

/// The same for inputs that are opened anew, which a pipe cannot be.
pub fn anew(
    missing: String,
    present: &Present,
    origins: &[Origin],
    options: source::Options,
) -> Error {
    if present.is_empty() && origins.contains(&Origin::Stdin) {
        let more = "for a pipe, nccl-steps --list shows lines that may be step lines";
        return Error::Content(format!("{missing}; {more}"));
    }
    let open = |origin| door::open::<()>(origin, options, Tells::STEP_LINES);
    let inputs = origins.iter().map(|origin| Ok(open(origin)?.into_input()));
    instead(missing, present, inputs)
}
