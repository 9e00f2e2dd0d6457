//! Filters calls of logs that are not counted by key: the member that made a call is known by its number, and
//! the stage has the call's own columns.

use crate::count::caller::{Caller, caller_of};
use crate::error::{Error, Result};
use crate::filter::{CallFilter, FilterPart};
use crate::members::MergedMembers;
use crate::members::job_ranks::JobRanks;
use crate::output::table::{COLUMNS, Column, Row};
use crate::report::Report;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The columns of a call without its place in the log and its times.
pub const SHAPE_COLUMNS: [Column; 15] = [
    Column::op,
    Column::count,
    Column::bytes,
    Column::datatype,
    Column::nranks,
    Column::redop,
    Column::root,
    Column::host,
    Column::pid,
    Column::dev,
    Column::comm,
    Column::comm_id,
    Column::rank,
    Column::global_rank,
    Column::src,
];

/// A filter of calls by their members' numbers, and how many calls passed it. By default all do.
#[derive(Debug, Default)]
pub struct MemberFilter {
    filter: Arc<CallFilter>,
    /// By merged member: those that have an identity.
    callers: FxHashMap<u32, Caller>,
    part: FilterPart,
}

impl MemberFilter {
    /// Makes a filter that has judged nothing yet.
    ///
    /// # Errors
    /// A column is none of `columns`, which are those that the stage has.
    pub fn new(filter: &CallFilter, columns: &[Column]) -> Result<MemberFilter> {
        let name = |column: &Column| COLUMNS[*column as usize];
        let unknown = filter.list_columns().into_iter();
        if let Some(column) = unknown.into_iter().find(|column| !columns.contains(column)) {
            let known: Vec<&str> = columns.iter().map(name).collect();
            return Err(Error::Usage(format!(
                "--where: {} is not known here; expected one of {}; nccl-comms and nccl-ops take all columns",
                name(&column),
                known.join(", ")
            )));
        }
        Ok(MemberFilter {
            filter: Arc::new(filter.clone()),
            ..MemberFilter::default()
        })
    }

    /// The same filter, which has judged nothing yet.
    pub fn new_part(&self) -> MemberFilter {
        MemberFilter {
            filter: Arc::clone(&self.filter),
            callers: self.callers.clone(),
            part: FilterPart::default(),
        }
    }

    /// True if all calls pass.
    pub fn is_empty(&self) -> bool {
        self.filter.is_empty()
    }

    /// Judges calls of a member; `row` has their own columns.
    pub fn does_pass(&mut self, merged: &MergedMembers, member: u32, row: &Row<'_>) -> bool {
        if self.filter.is_empty() {
            return true;
        }
        // A member's INIT line may come after its first calls.
        if self.callers.get(&member).is_none_or(|of| of.rank.is_none()) {
            let speaker = merged.origins.members.get(member);
            let (renamed, none) = (merged.renamed_processes(), JobRanks::default());
            let caller = caller_of(merged, &renamed, &none, speaker);
            self.callers.insert(member, caller);
        }
        let row = self.callers[&member].fill_row(*row);
        self.part.does_pass(&row, &self.filter)
    }

    /// Judges calls whose member is unknown.
    pub fn does_row_pass(&mut self, row: &Row<'_>) -> bool {
        self.part.does_pass(row, &self.filter)
    }

    /// Takes the counts of what was judged.
    pub fn take_part(&mut self) -> FilterPart {
        std::mem::take(&mut self.part)
    }

    /// As [`FilterPart::report_as`].
    pub fn report_as(&self, noun: &str, report: &Report) {
        if !self.is_empty() {
            self.part.report_as(noun, &self.filter, report);
        }
    }
}
