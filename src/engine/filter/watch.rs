//! Counts the calls that pass a filter; if none does, reports the values present.

use super::condition::value_of_column;
use super::limits::MAX_VALUES_REMEMBERED;
use super::{CallFilter, FilterExpression};
use crate::output::table::{COLUMNS, Column, ComparedAs, FieldValue, Row};
use crate::report::{Report, count_phrase, names_phrase};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The values of a column.
#[derive(Debug, Default)]
struct PresentValues {
    texts: BTreeSet<Vec<u8>>,
    /// The least and the most of numbers.
    range: Option<(i128, i128)>,
}

impl PresentValues {
    fn add_value(&mut self, column: Column, row: &Row<'_>, filter: &CallFilter) {
        match (column, value_of_column(column, row, &filter.ranks)) {
            (_, FieldValue::Unknown) => {}
            (_, FieldValue::Number(n)) if column.compares_as() == ComparedAs::Number => {
                self.widen_range((n, n));
            }
            (column, _) if self.texts.len() < MAX_VALUES_REMEMBERED => {
                let mut text = Vec::new();
                row.value(column, &mut text);
                self.texts.insert(text);
            }
            _ => {}
        }
    }

    fn widen_range(&mut self, by: (i128, i128)) {
        let (least, most) = self.range.unwrap_or(by);
        self.range = Some((least.min(by.0), most.max(by.1)));
    }

    fn merge(&mut self, other: PresentValues) {
        self.texts.extend(other.texts);
        if let Some(by) = other.range {
            self.widen_range(by);
        }
    }

    /// Describes the values of `column`.
    fn describe(&self, column: Column) -> String {
        let noun = match column {
            Column::op => "operations",
            Column::host => "hosts",
            column => COLUMNS[column as usize],
        };
        match self.range {
            Some((least, most)) if least == most => format!("{noun} here: {least}"),
            Some((least, most)) => format!("{noun} here: {least} to {most}"),
            None if self.texts.is_empty() => match column {
                Column::global_rank | Column::rank => {
                    format!("{noun} is unknown for all calls: {RANK_HELP}")
                }
                _ => format!("{noun} is unknown for all calls"),
            },
            None => {
                let texts = self.texts.iter().map(|text| &text[..]);
                format!("{noun} here: {}", names_phrase(texts))
            }
        }
    }
}

/// What shows the ranks.
const RANK_HELP: &str = "ranks come from the INIT lines of all ranks (NCCL_DEBUG_SUBSYS=INIT,COLL; \
                         nccl-steps writes them under --keep-init)";

/// The calls of a part of the input that met a filter.
#[derive(Debug, Default)]
pub struct FilterPart {
    /// Calls that passed, and all.
    kept: u64,
    all: u64,
    /// Calls without a known rank in the job, if that decides.
    unranked: u64,
    /// A call of another part passed: values need not be noted.
    is_other_kept: bool,
    /// Until a call passes: for each term whether a call met it, and the values of its columns.
    terms: Vec<(bool, Vec<PresentValues>)>,
}

impl FilterPart {
    /// True for a row that is wanted.
    #[inline(always)]
    pub fn does_pass(&mut self, row: &Row<'_>, filter: &CallFilter) -> bool {
        filter.is_empty() || self.does_row_pass(row, filter)
    }

    fn does_row_pass(&mut self, row: &Row<'_>, filter: &CallFilter) -> bool {
        self.all = self.all.saturating_add(row.calls);
        let passes = filter.does_pass(row);
        if passes {
            self.kept = self.kept.saturating_add(row.calls);
        }
        if filter.needs_job_ranks() {
            let rank = value_of_column(Column::global_rank, row, &filter.ranks);
            if rank == FieldValue::Unknown {
                self.unranked = self.unranked.saturating_add(row.calls);
            }
        }
        if self.kept == 0 && !self.is_other_kept {
            self.add_unmatched(row, filter);
        }
        passes
    }

    /// Notes the values of a call that does not pass.
    fn add_unmatched(&mut self, row: &Row<'_>, filter: &CallFilter) {
        self.terms.resize_with(filter.terms.len(), Default::default);
        for (term, (is_met, values)) in filter.terms.iter().zip(&mut self.terms) {
            *is_met = *is_met || term.accepts_row(row, &filter.ranks);
            if !*is_met {
                let columns = columns_of_term(term);
                values.resize_with(columns.len(), PresentValues::default);
                for (column, values) in columns.into_iter().zip(values) {
                    values.add_value(column, row, filter);
                }
            }
        }
    }

    /// Adds the calls of another part.
    pub fn merge(&mut self, other: FilterPart) {
        self.all = self.all.saturating_add(other.all);
        self.kept = self.kept.saturating_add(other.kept);
        self.unranked = self.unranked.saturating_add(other.unranked);
        if self.kept > 0 {
            return self.terms.clear();
        }
        let count = self.terms.len().max(other.terms.len());
        self.terms.resize_with(count, Default::default);
        for ((is_met, values), (is_other_met, more)) in self.terms.iter_mut().zip(other.terms) {
            *is_met |= is_other_met;
            let count = values.len().max(more.len());
            values.resize_with(count, PresentValues::default);
            for (values, more) in values.iter_mut().zip(more) {
                values.merge(more);
            }
        }
    }

    /// Reports how many calls passed, or the values present if none did, and how many calls have no rank where that
    /// decides.
    pub fn report(&self, filter: &CallFilter, report: &Report) {
        self.report_as("call", filter, report);
    }

    /// Like [`FilterPart::report`], where a `noun` other than a call passed.
    pub fn report_as(&self, noun: &str, filter: &CallFilter, report: &Report) {
        let (of, all) = (filter.note_prefix, count_phrase(self.all, noun));
        if self.all == 0 {
            return;
        }
        if self.kept == 0 {
            let unmatched = self.describe_unmatched(filter);
            return report.print_of_filter("warning", format!("{of}{unmatched}"));
        }
        let kept = format!("{of}the filter kept {} of {all}", self.kept);
        report.print_of_filter("note", kept);
        if self.unranked > 0 {
            let unranked = self.unranked;
            let unknown =
                format!("{of}the rank in the job is unknown for {unranked} of {all}: {RANK_HELP}");
            report.print_of_filter("note", unknown);
        }
    }

    /// Describes the terms that no call meets, and the values present.
    fn describe_unmatched(&self, filter: &CallFilter) -> String {
        let terms = filter.terms.iter().zip(&self.terms);
        let unmet = terms.filter(|(_, (is_met, _))| !is_met);
        let (mut wanted, mut present) = (Vec::new(), Vec::new());
        for (term, (_, values)) in unmet {
            wanted.push(term.to_string());
            for (column, values) in columns_of_term(term).into_iter().zip(values) {
                present.push(values.describe(column));
            }
        }
        match wanted.is_empty() {
            true => {
                let terms: Vec<String> = filter.terms.iter().map(ToString::to_string).collect();
                format!("no call meets all of: {}", terms.join("; "))
            }
            false => format!(
                "no call has {}; {}",
                wanted.join(", or "),
                present.join("; ")
            ),
        }
    }
}

/// The columns of a term, each once.
fn columns_of_term(term: &FilterExpression) -> Vec<Column> {
    let (mut all, mut columns) = (Vec::new(), Vec::new());
    term.collect_columns(&mut all);
    for column in all {
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    columns
}

/// The calls that met a filter, over all parts of the input.
#[derive(Debug, Default)]
pub struct FilterWatch {
    is_any_kept: AtomicBool,
    sum: Mutex<FilterPart>,
}

impl FilterWatch {
    /// Begins a part.
    pub fn new_part(&self) -> FilterPart {
        FilterPart {
            is_other_kept: self.is_any_kept.load(Ordering::Relaxed),
            ..FilterPart::default()
        }
    }

    /// Adds the calls of a part.
    pub fn add_part(&self, part: FilterPart) {
        if part.all > 0 {
            self.is_any_kept.fetch_or(part.kept > 0, Ordering::Relaxed);
            let mut sum = self.sum.lock().unwrap_or_else(PoisonError::into_inner);
            sum.merge(part);
        }
    }

    /// As [`FilterPart::report`].
    pub fn report(self, filter: &CallFilter, report: &Report) {
        let sum = self
            .sum
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        sum.report(filter, report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::values::Datatype;

    #[test]
    fn a_filter_that_nothing_meets_says_what_there_is() {
        let row = |op, rank, count| Row {
            op,
            rank,
            count: Some(count),
            host: b"a",
            datatype: Some(Datatype(7)),
            calls: 1,
            ..Row::default()
        };
        let rows = [row(&b"Send"[..], Some(0), 1), row(b"Recv", Some(3), 9)];
        for (text, expected) in [
            (
                "op = Gather",
                "no call has op = Gather; operations here: Recv, Send",
            ),
            ("rank = 9", "no call has rank = 9; rank here: 0 to 3"),
            (
                "bytes >= 37",
                "no call has bytes >= 37; bytes here: 4 to 36",
            ),
            (
                "op = send and rank = 3",
                "no call meets all of: op = send; rank = 3",
            ),
            (
                "op = x and host = b",
                "no call has op = x, or host = b; operations here: Recv, Send; hosts here: a",
            ),
            (
                "step = 1",
                "no call has step = 1; step is unknown for all calls",
            ),
        ] {
            let filter = CallFilter::new([text.parse().unwrap()]);
            // Parts merge as one.
            let mut sum = FilterPart::default();
            for row in &rows {
                let mut part = FilterPart::default();
                assert!(!part.does_pass(row, &filter));
                sum.merge(part);
            }
            assert_eq!(sum.describe_unmatched(&filter), expected);
        }
    }
}
