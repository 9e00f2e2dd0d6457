//! Filters of calls: the flags `--op`, `--rank`, `--comm`, `--host` and the expression of `--where`, all
//! terms of one condition over the columns of the call table.
//!
//! | file | content |
//! |---|---|
//! | `condition` | a column compared with values, with the types of the columns |
//! | `expression` | conditions with `and`, `or`, `not`: read from text and applied to a row |
//! | `watch` | the calls that pass are counted; where none does, the values present are reported |

mod condition;
mod expression;
mod limits;
mod watch;

pub use condition::JobRankTable;
pub use expression::FilterExpression;
pub use watch::{FilterPart, FilterWatch};

use crate::output::table::{Column, Row};

/// Which calls are wanted: those for which all terms hold.
#[derive(Debug, Clone, Default)]
pub struct CallFilter {
    terms: Vec<FilterExpression>,
    /// The ranks of the job decide.
    is_of_job_ranks: bool,
    ranks: JobRankTable,
    /// What notes begin with: `A: ` where there are two runs.
    pub note_prefix: &'static str,
}

impl CallFilter {
    /// Makes a filter of terms.
    pub fn new(terms: impl IntoIterator<Item = FilterExpression>) -> CallFilter {
        let mut filter = CallFilter::default();
        filter.add_terms(terms);
        filter
    }

    /// Adds terms.
    pub fn add_terms(&mut self, terms: impl IntoIterator<Item = FilterExpression>) {
        let terms = terms.into_iter();
        self.terms
            .extend(terms.flat_map(FilterExpression::split_terms));
        self.is_of_job_ranks = self.list_columns().contains(&Column::global_rank);
    }

    /// True if all calls pass.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The columns that decide, some of them several times.
    pub fn list_columns(&self) -> Vec<Column> {
        let mut columns = Vec::new();
        for term in &self.terms {
            term.collect_columns(&mut columns);
        }
        columns
    }

    /// True if the ranks of the job decide: [`CallFilter::set_job_ranks`] gives them.
    pub fn needs_job_ranks(&self) -> bool {
        self.is_of_job_ranks
    }

    /// Sets the ranks in the job of each communicator's members.
    pub fn set_job_ranks(&mut self, ranks: JobRankTable) {
        self.ranks = ranks;
    }

    /// True for a row that is wanted.
    #[inline]
    pub fn does_pass(&self, row: &Row<'_>) -> bool {
        self.terms
            .iter()
            .all(|term| term.accepts_row(row, &self.ranks))
    }
}
