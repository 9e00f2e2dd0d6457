//! In which stretch of a log each call was made, wherever its line appears.
//!
//! A trainer prints its line when its printing rank has ended a step. Other ranks run ahead of that
//! rank or lag behind it, so the place of a call's line says little about its step. The log itself
//! says more: the members of a communicator make the same collectives in the same order, and the
//! printing rank has its own calls on the right side of its own lines. So
//!
//! 1. the printing rank is found (`printer.rs`), and its calls are placed by their position;
//! 2. how many calls it has made on each communicator at each step line is a threshold: every
//!    other member's calls are placed by (communicator, sequence), a message by (sender, receiver,
//!    sequence);
//! 3. what is left of a rank's calls is placed by the rank's own program order: it lies between two
//!    calls that are placed, and where a step ends between these two the cut is where the calls
//!    before and after it look most like the ranks that are placed already;
//! 4. a rank that is placed tells the thresholds of the communicators the printing rank is not in.
//!
//! Ranks that share no communicator with the printing rank, and logs whose lines do not name the
//! members (no INIT lines), stay by position. [`Methods`] counts how many calls were placed how.
//!
//! Where each rank has its own file, only the printing rank's has step lines. The calls of the others
//! are held until all files are read, and placed in the same way against the ranks that are placed
//! already ([`Across`]); where their lines are says nothing, so what is not known stays without a
//! step.

mod across;
mod anchors;
mod cut;
mod keys;
mod placer;
mod printer;
mod record;
mod resolve;
mod streams;
mod what;

use crate::formats::log::timeline::ByPosition;
use crate::report::counted;
pub use across::{Across, Placed, Taken};
pub use placer::Placer;
pub(crate) use printer::prints_on_last;
pub use record::Recorder;
pub use streams::Streams;
pub use what::What;

/// How many calls were placed by which method.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Methods {
    /// By communicator and sequence number, held against the rank that prints; its own calls too.
    pub sequence: u64,
    /// By the rank's program order, between two calls that were placed by sequence.
    pub order: u64,
    /// By the position of the line.
    pub position: u64,
    /// Not at all: the file has no step lines, and nothing says where in another's they belong.
    pub without: u64,
    /// Why by position, where nothing else was tried.
    pub why: Option<ByPosition>,
    /// Why not at all, where other files have step lines.
    pub apart: Option<Apart>,
}

/// Why calls of a file without step lines have no step, although another file has such lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Apart {
    /// Nothing that they share with the rank that prints says in which step they were made.
    Strangers,
    /// The file with the step lines has no calls.
    NoCalls,
    /// The calls of the file with the step lines are placed by position.
    ByPosition,
    /// The files have more calls than are held until all are read.
    Many,
}

impl Apart {
    fn words(self) -> &'static str {
        match self {
            Apart::Strangers => {
                "their files have no step lines, and they share no communicator with the rank that \
                 prints, from which their steps would follow"
            }
            Apart::NoCalls => "the step lines are in a file without NCCL calls",
            Apart::ByPosition => {
                "their files have no step lines, and the calls of the file with step lines are \
                 placed by position"
            }
            Apart::Many => {
                "their files have no step lines, and all files together have more calls than the \
                 program keeps"
            }
        }
    }
}

impl Methods {
    /// Adds another log's, or another stretch's.
    pub fn add(&mut self, other: Methods) {
        self.sequence += other.sequence;
        self.order += other.order;
        self.position += other.position;
        self.without += other.without;
        self.why = self.why.or(other.why);
        self.apart = self.apart.max(other.apart);
    }

    /// What a run says of them; `None` where no call was placed.
    pub fn said(self) -> Option<String> {
        let each = [
            (self.sequence, "by communicator and sequence"),
            (self.order, "by the order of their rank's calls"),
            (self.position, "by the position of their lines"),
        ];
        if self.all() == self.without && self.apart.is_none() {
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
            Some(why) => Some(why.words()),
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
            let why = self.apart.map(|apart| format!(" ({})", apart.words()));
            let have = if self.without == 1 { "has" } else { "have" };
            parts.push(format!(
                "{} {have} no step{}",
                self.without,
                why.unwrap_or_default()
            ));
        }
        (!parts.is_empty()).then(|| {
            let all = counted(self.all(), "call");
            format!("of {all}, {}", parts.join(", "))
        })
    }

    /// All calls.
    pub fn all(self) -> u64 {
        self.sequence + self.order + self.position + self.without
    }
}

/// Where each process's calls are cut: pairs of (gap, number of the process's calls up to the end of
/// that gap), the second rising. By merged process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    /// The first process with calls.
    first: u32,
    /// By merged process, from the first.
    pub cuts: Vec<Vec<(u32, u32)>>,
    /// How the calls were placed.
    pub methods: Methods,
    /// The processes whose calls are known by more than the position of their lines, the one that
    /// prints first.
    pub known: Vec<u32>,
}

impl Placement {
    /// The same without the processes before the first one with calls: of many files each has few.
    pub fn trimmed(mut self) -> Placement {
        let none = self.cuts.iter().take_while(|cuts| cuts.is_empty()).count();
        self.first += none as u32;
        self.cuts = self.cuts.split_off(none);
        self
    }

    /// Gives the gaps of calls that are met again in line order.
    pub fn again(&self) -> Again<'_> {
        Again {
            first: self.first,
            cuts: &self.cuts,
            at: vec![(0, 0); self.cuts.len()],
        }
    }
}

/// The gaps of all calls, process by process, as they are met again in line order.
#[derive(Debug)]
pub struct Again<'a> {
    first: u32,
    cuts: &'a [Vec<(u32, u32)>],
    /// By process: how many calls were met, and which cut comes next.
    at: Vec<(u32, usize)>,
}

impl Again<'_> {
    /// The gap of the next call of a process; `None` for one beyond those that were placed.
    #[inline]
    pub fn next(&mut self, process: u32) -> Option<u32> {
        let process = process.checked_sub(self.first)? as usize;
        let cuts = self.cuts.get(process)?;
        let (number, cut) = self.at.get_mut(process)?;
        while cuts.get(*cut).is_some_and(|(_, end)| end <= number) {
            *cut += 1;
        }
        *number += 1;
        cuts.get(*cut).map(|&(gap, _)| gap)
    }
}

#[cfg(test)]
mod tests;
