//! Counts of calls by the way in which they were placed in steps, and the sentence that reports
//! them.

use crate::error::phrases::count_phrase;
use serde::{Deserialize, Serialize};

/// How many calls were placed by which method.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementMethods {
    /// By communicator and sequence number, compared with the rank that prints; its own calls too.
    pub sequence: u64,
    /// By the rank's program order, between two calls that were placed by sequence.
    pub order: u64,
    /// By the position of the line.
    pub position: u64,
    /// Without a step: the file has no step lines, and nothing shows to which step of another file
    /// they belong.
    pub without: u64,
    /// Why by position, if nothing else was tried.
    pub why: Option<PositionOnlyReason>,
    /// Why without a step, if other files have step lines.
    pub apart: Option<NoStepReason>,
}

/// Why calls are placed by the positions of their lines alone ([`crate::log::placement`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PositionOnlyReason {
    /// The user asked for it.
    Asked,
    /// Standard output was block-buffered: a process's lines come late, and together.
    Buffered,
    /// Calls are lost in damaged lines: those after them have other numbers than they should.
    Lost,
    /// The trainer prints its line after further calls of the next step.
    Late,
    /// Several ranks print each line, each at its own time.
    Printers,
    /// The calls between two lines take more memory than is given to calls that wait.
    Many,
}

impl PositionOnlyReason {
    /// Returns the reason in words.
    pub fn reason_text(self) -> &'static str {
        match self {
            PositionOnlyReason::Asked => "--by-position",
            PositionOnlyReason::Buffered => "standard output was block-buffered",
            PositionOnlyReason::Lost => "calls are lost in damaged lines",
            PositionOnlyReason::Late => "the trainer prints its line after calls of the next step",
            PositionOnlyReason::Printers => "several ranks print each line",
            PositionOnlyReason::Many => {
                "between two step lines are more calls than the program holds (1 GiB)"
            }
        }
    }
}

/// Why calls of a file without step lines have no step, although another file has such lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum NoStepReason {
    /// Nothing that they share with the rank that prints shows their step.
    Strangers,
    /// The file with the step lines has no calls.
    NoCalls,
    /// The calls of the file with the step lines are placed by position.
    ByPosition,
    /// The files' calls take more memory than is given to calls that wait.
    Many,
}

impl NoStepReason {
    fn reason_text(self) -> &'static str {
        match self {
            NoStepReason::Strangers => {
                "their files have no step lines, and they share no communicator with the rank that \
                 prints, from which their steps would follow"
            }
            NoStepReason::NoCalls => "the step lines are in a file without NCCL calls",
            NoStepReason::ByPosition => {
                "their files have no step lines, and the calls of the file with step lines are \
                 placed by position"
            }
            NoStepReason::Many => {
                "their files have no step lines, and all files together have more calls than the \
                 program holds (1 GiB)"
            }
        }
    }
}

impl PlacementMethods {
    /// Adds the counts of another log or stretch.
    pub fn add_counts(&mut self, other: PlacementMethods) {
        self.sequence += other.sequence;
        self.order += other.order;
        self.position += other.position;
        self.without += other.without;
        self.why = self.why.or(other.why);
        self.apart = self.apart.max(other.apart);
    }

    /// Counts the calls that lost their steps for lack of memory.
    pub fn lost_calls(self) -> u64 {
        let by_position = match self.why {
            Some(PositionOnlyReason::Many) => self.position,
            _ => 0,
        };
        let without = match self.apart {
            Some(NoStepReason::Many) => self.without,
            _ => 0,
        };
        by_position + without
    }

    /// Returns the sentence of a run; `None` if no call was placed.
    pub fn summary_text(self) -> Option<String> {
        let each = [
            (self.sequence, "by communicator and sequence"),
            (self.order, "by the order of their rank's calls"),
            (self.position, "by the position of their lines"),
        ];
        if self.total_calls() == self.without && self.apart.is_none() {
            return None;
        }
        let some = each.into_iter().filter(|(n, _)| *n > 0);
        let part = |(at, (n, how)): (usize, (u64, &str))| match (at, n) {
            (0, 1) => format!("1 was assigned to a step {how}"),
            (0, n) => format!("{n} were assigned to steps {how}"),
            (_, n) => format!("{n} {how}"),
        };
        let mut parts: Vec<String> = some.enumerate().map(part).collect();
        let why = match self.why {
            _ if self.position == 0 => None,
            Some(why) => Some(why.reason_text()),
            None if self.sequence == 0 => Some(
                "no INIT lines report which ranks share communicators with the one that \
                      prints",
            ),
            None => None,
        };
        if let (Some(why), Some(last)) = (why, parts.last_mut()) {
            *last = format!("{last} ({why})");
        }
        if self.without > 0 {
            let why = self
                .apart
                .map(|apart| format!(" ({})", apart.reason_text()));
            let have = if self.without == 1 { "has" } else { "have" };
            parts.push(format!(
                "{} {have} no step{}",
                self.without,
                why.unwrap_or_default()
            ));
        }
        (!parts.is_empty()).then(|| {
            let all = count_phrase(self.total_calls(), "call");
            format!("of {all}, {}", parts.join(", "))
        })
    }

    /// Scales the counts of `all` calls to `part` of them, rounded down but for the first method.
    pub(crate) fn scale_to_part(self, part: u64, all: u64) -> PlacementMethods {
        let of = |n: u64| {
            let share = u128::from(n) * u128::from(part) / u128::from(all.max(1));
            u64::try_from(share).unwrap_or(u64::MAX)
        };
        let (order, position) = (of(self.order), of(self.position));
        PlacementMethods {
            sequence: part.saturating_sub(order + position),
            order,
            position,
            without: 0,
            apart: None,
            why: self.why,
        }
    }

    /// Counts all calls.
    pub fn total_calls(self) -> u64 {
        self.sequence + self.order + self.position + self.without
    }
}
