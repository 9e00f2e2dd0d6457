//! In which stretch of a log each call was made, wherever its line appears.
//!
//! A trainer prints its line when its printing rank has ended a step. Other ranks run ahead of that
//! rank or lag behind it, so the place of a call's line says little about its step. The log itself
//! says more: the members of a communicator make the same collectives in the same order, and the
//! printing rank has its own calls on the right side of its own lines. So
//!
//! 1. the printing rank is found ([`printer`]), and its calls are placed by their position;
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

mod anchors;
mod cut;
mod keys;
mod placer;
mod printer;
mod record;
mod resolve;
mod streams;

pub use placer::Placer;
pub use record::Recorder;
pub use streams::{Kind, Streams};

/// How many calls were placed by which method.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Methods {
    /// By communicator and sequence number, held against the rank that prints; its own calls too.
    pub sequence: u64,
    /// By the rank's program order, between two calls that were placed by sequence.
    pub order: u64,
    /// By the position of the line.
    pub position: u64,
}

impl Methods {
    /// Adds another log's, or another stretch's.
    pub fn add(&mut self, other: Methods) {
        self.sequence += other.sequence;
        self.order += other.order;
        self.position += other.position;
    }

    /// All calls.
    pub fn all(self) -> u64 {
        self.sequence + self.order + self.position
    }
}

/// Where each process's calls are cut: pairs of (gap, number of the process's calls up to the end of
/// that gap), both rising. By merged process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    /// By merged process.
    pub cuts: Vec<Vec<(u32, u32)>>,
    /// How the calls were placed.
    pub methods: Methods,
}

impl Placement {
    /// Gives the gaps of calls that are met again in line order.
    pub fn again(&self) -> Again<'_> {
        Again {
            cuts: &self.cuts,
            at: vec![(0, 0); self.cuts.len()],
        }
    }
}

/// The gaps of all calls, process by process, as they are met again in line order.
#[derive(Debug)]
pub struct Again<'a> {
    cuts: &'a [Vec<(u32, u32)>],
    /// By process: how many calls were met, and which cut comes next.
    at: Vec<(u32, usize)>,
}

impl Again<'_> {
    /// The gap of the next call of a process; `None` for one beyond those that were placed.
    #[inline]
    pub fn next(&mut self, process: u32) -> Option<u32> {
        let cuts = self.cuts.get(process as usize)?;
        let (number, cut) = self.at.get_mut(process as usize)?;
        while cuts.get(*cut).is_some_and(|(_, end)| end <= number) {
            *cut += 1;
        }
        *number += 1;
        cuts.get(*cut).map(|&(gap, _)| gap)
    }
}
