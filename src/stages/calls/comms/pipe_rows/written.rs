//! The rows that were written, to find out whether their steps change later.

use super::late_numbering::LateNumbering;
use crate::count::calls::Options as Read;
use crate::error::{Error, Result};
use crate::filter::FilterWatch;
use crate::log::timeline::StepTimeline;
use crate::members::MergedMembers;
use crate::members::job_ranks::JobRanks;
use crate::report::Report;
use crate::stages::calls::comms::Options;
use rustc_hash::FxHashMap;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

/// The calls of a process that were written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WrittenCalls {
    calls: u32,
    /// Calls written before the last checkpoint, and before the one before that.
    turned: [u32; 2],
    /// Hashes of the steps of those after each.
    steps: [u64; 2],
}

impl WrittenCalls {
    pub(super) fn count_written(&mut self, step: Option<u64>) {
        self.calls += 1;
        self.steps[0] = hash_step(self.steps[0], step);
    }

    /// Begins a new checkpoint.
    fn age_written(&mut self) {
        self.turned = [self.calls, self.turned[0]];
        self.steps = [0, self.steps[0]];
    }

    /// True if the steps of calls written before the last checkpoint have changed.
    pub(super) fn did_old_steps_change(
        &self,
        timeline: &StepTimeline,
        cuts: &[(u32, u32)],
    ) -> bool {
        hash_steps(timeline, cuts, self.turned[1]..self.turned[0]) != self.steps[1]
    }

    /// True if those written after it have changed.
    pub(super) fn did_steps_change(&self, timeline: &StepTimeline, cuts: &[(u32, u32)]) -> bool {
        hash_steps(timeline, cuts, self.turned[0]..self.calls) != self.steps[0]
    }
}

/// A hash of steps with one more.
fn hash_step(steps: u64, step: Option<u64>) -> u64 {
    let step = step.map_or(u64::MAX, |step| step.wrapping_add(1));
    (steps.rotate_left(5) ^ step).wrapping_mul(0x517c_c1b7_2722_0a95)
}

/// The hash of the steps of some calls of a process, by where its calls are cut.
fn hash_steps(timeline: &StepTimeline, cuts: &[(u32, u32)], calls: Range<u32>) -> u64 {
    let mut hash = 0;
    let mut number = calls.start;
    let first = cuts.partition_point(|cut| cut.1 <= number);
    for &(gap, end) in &cuts[first..] {
        let step = timeline.step_of(gap as usize).map(|step| step.step);
        while number < end.min(calls.end) {
            hash = hash_step(hash, step);
            number += 1;
        }
    }
    (number..calls.end).fold(hash, |hash, _| hash_step(hash, None))
}

/// The ranks in the job of the members with rows. A row that was written before the INIT lines of all ranks has
/// none.
#[derive(Default)]
pub(super) struct WrittenRanks {
    /// Of how many INIT lines, and the ranks.
    known: (usize, Arc<JobRanks>),
    /// By merged member.
    written: FxHashMap<u32, Option<u32>>,
    /// A rank became known, or another one, after rows were written.
    is_changed: bool,
}

impl WrittenRanks {
    /// The ranks of all jobs as far as they are known now.
    pub(super) fn find_ranks(&mut self, merged: &MergedMembers) -> Arc<JobRanks> {
        let lines = merged.count_named_ranks();
        if self.known.0 != lines {
            self.known = (
                lines,
                Arc::new(merged.find_job_ranks_so_far(&merged.process_aliases())),
            );
        }
        Arc::clone(&self.known.1)
    }

    /// All lines have come: what is missing now stays missing.
    pub(super) fn end_lines(&mut self, merged: &MergedMembers) {
        let so_far = self.find_ranks(merged);
        self.known.1 = Arc::new(merged.find_job_ranks(&merged.process_aliases()));
        let is_other = *so_far != *self.known.1;
        self.is_changed |= is_other && self.written.values().any(Option::is_none);
    }

    pub(super) fn add_written(&mut self, member: u32, rank: Option<u32>) {
        self.is_changed |= *self.written.entry(member).or_insert(rank) != rank;
    }

    pub(super) fn report_unknown(&self, report: &Report) {
        if self.is_changed {
            report.warn(
                "global_rank became known after rows were written: in these it is empty. Name the log as a \
                 file to have it in all rows",
            );
        }
    }
}

/// Where rows go.
pub(super) struct HeadedRowText<'r> {
    pub(super) to: &'r mut (dyn Write + Send),
    /// It goes before the first rows: a window that is not there leaves nothing.
    pub(super) header: Option<Vec<u8>>,
}

impl HeadedRowText<'_> {
    pub(super) fn write_rows(&mut self, rows: &[u8]) -> Result<()> {
        let header = self.header.take().unwrap_or_default();
        let header = self.to.write_all(&header);
        let written = header.and_then(|()| self.to.write_all(rows));
        written.map_err(Error::Output)
    }
}

/// The output of rows, and a record of those written.
pub(super) struct WrittenRows<'r> {
    pub(super) ranks: WrittenRanks,
    pub(super) read: &'r Read,
    pub(super) options: &'r Options,
    pub(super) numbering: LateNumbering,
    pub(super) out: HeadedRowText<'r>,
    /// By process.
    pub(super) made: Vec<WrittenCalls>,
    /// Rows were written with steps that have since changed.
    pub(super) is_otherwise: bool,
    pub(super) watch: FilterWatch,
}

impl WrittenRows<'_> {
    /// Makes a checkpoint: checks the steps of calls written before the last one.
    pub(super) fn check_written_steps<'c>(
        &mut self,
        timeline: &StepTimeline,
        cuts: impl Fn(u32) -> &'c [(u32, u32)],
    ) {
        for (process, made) in (0..).zip(&mut self.made) {
            self.is_otherwise |= made.did_old_steps_change(timeline, cuts(process));
            made.age_written();
        }
    }
}
