//! In which stretch of a log each call was made, wherever its line appears.
//!
//! A trainer prints its line when its printing rank has ended a step. Other ranks run ahead of that
//! rank or lag, so the place of a call's line shows little of its step. The log itself shows more: the
//! members of a communicator make the same collectives in the same order, and the printing rank has its
//! own calls on the right side of its own lines. So
//!
//! 1. the printing rank is found (`printer/`), and its calls are placed by their position;
//! 2. how many calls it has made on each communicator at each step line is a threshold: every
//!    other member's calls are placed by (communicator, sequence), a message by (sender, receiver,
//!    sequence);
//! 3. the rest of a rank's calls is placed by the rank's own program order: it lies between two
//!    calls that are placed, and where a step ends between these two the cut is where the rank has
//!    made the calls of its last two steps again (`again.rs`), or else where the calls before and after
//!    it look most like the ranks that are placed already (`cut.rs`);
//! 4. a placed rank gives the thresholds of the communicators that the printing rank is not in.
//!
//! Where every rank prints each step, a rank's own lines are found first
//! (`printer/every_rank_prints.rs`). If a rank's calls differ from the placed rank's, they are aligned by
//! their content (`anchors/align.rs`).
//!
//! Ranks that share no communicator with the printing rank, and logs that do not name the members of
//! communicators (no INIT lines), stay by position. [`PlacementMethods`] counts how many calls were placed how.
//!
//! Where each rank has its own file, only the printing rank's has step lines. The calls of the others
//! are held until all files are read, and placed in the same way against the ranks that are placed
//! already ([`FilesWithoutSteps`]). Line positions do not count then: a call that is not placed stays
//! without a step.

use crate::by_number::ByNumber;
use serde::{Deserialize, Serialize};

mod across;
mod again;
mod anchors;
mod bounds;
mod call_list;
mod cut;
mod keys;
mod lately;
mod limits;
mod placer;
mod printer;
mod record;
mod resolve;
mod streams;
mod what;

pub use crate::report::methods::{NoStepReason, PlacementMethods};
pub use across::{FilesWithoutSteps, PlacedCalls, TakenInput};
pub use call_list::{CallNumbers, CallSlice};
pub use lately::{LivePlacement, SettleRule};
pub use placer::CallPlacer;
pub use printer::{PrintingRankRule, printing_rank_rule};
pub use record::CallRecorder;
pub use streams::{GapCalls, StreamsByProcess};
pub use what::CallShape;

/// Where each process's calls are cut: pairs of (gap, number of the process's calls up to the end of
/// that gap), the second rising. By merged process.
pub type CutsByProcess = ByNumber<Vec<(u32, u32)>>;

/// Where the calls of an input are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Where they are cut.
    pub cuts: CutsByProcess,
    /// How the calls were placed.
    pub methods: PlacementMethods,
    /// The processes that are placed by more than the position of their lines, the printing one first.
    pub known: Vec<u32>,
}

impl Placement {
    /// The gap of a process's call, by its number, and how many there are up to the gap's end; `None` for
    /// one beyond those that were placed.
    pub fn cut_of_call(&self, process: u32, number: u32) -> Option<(u32, u32)> {
        lately::cut_at(self.cuts.get(process)?, number)
    }

    /// Where a process's calls are cut.
    pub fn cuts_of(&self, process: u32) -> &[(u32, u32)] {
        self.cuts.get(process).map_or(&[], |cuts| cuts)
    }

    /// How many calls each process made in each gap.
    pub fn calls_by_gap(&self) -> impl Iterator<Item = (u32, u32)> {
        self.cuts.all_values().flat_map(|cuts| {
            let mut before = 0;
            cuts.iter().map(move |&(gap, end)| {
                let calls = end.saturating_sub(before);
                before = before.max(end);
                (gap, calls)
            })
        })
    }

    /// Gives the gaps of calls that are met again in line order.
    pub fn gap_cursor(&self) -> GapCursor<'_> {
        GapCursor {
            cuts: &self.cuts,
            at: self.cuts.map_values(|_, _| GapPosition::default()),
        }
    }
}

/// The gaps of all calls, process by process, as they are met again in line order.
#[derive(Debug)]
pub struct GapCursor<'a> {
    cuts: &'a CutsByProcess,
    at: ByNumber<GapPosition>,
}

/// A process's position in its cuts: a gap, and how many of its calls are to come.
#[derive(Debug, Clone, Copy, Default)]
struct GapPosition {
    gap: u32,
    left: u32,
    /// The calls up to the gap's end, and the next cut.
    end: u32,
    next: u32,
}

impl GapCursor<'_> {
    /// The gap of the next call of a process; `None` for one beyond those that were placed.
    #[inline]
    pub fn next_gap(&mut self, process: u32) -> Option<u32> {
        let at = self.at.get_mut(process)?;
        if at.left == 0 {
            at.next_cut(self.cuts.get(process)?)?;
        }
        at.left -= 1;
        Some(at.gap)
    }
}

impl GapPosition {
    /// Goes on to the next gap with calls.
    fn next_cut(&mut self, cuts: &[(u32, u32)]) -> Option<()> {
        while self.left == 0 {
            let &(gap, end) = cuts.get(self.next as usize)?;
            self.next += 1;
            self.gap = gap;
            self.left = end.saturating_sub(self.end);
            self.end = self.end.max(end);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
