//! Filters counted calls: keys distinguish the columns that the filter needs as well, the filter decides
//! once for each key and step, and what passes is added up by the wanted keys.

use crate::count::calls::{self, CountedCalls, Progress};
use crate::count::cells::{CellGatherer, CountedStep};
use crate::count::tally::{self, CallKey, SizeKey};
use crate::error::{Error, Result};
use crate::filter::{CallFilter, FilterPart};
use crate::log::timeline::StepKey;
use crate::output::table::{COLUMNS, Column, Row};
use crate::report::Report;
use crate::source::InputName;

/// A filter of counted calls.
#[derive(Debug)]
pub struct CountFilter<'f> {
    filter: &'f CallFilter,
    /// What the caller distinguishes.
    wanted: &'f tally::Options,
    /// The distinctions that are counted.
    finer: tally::Options,
}

impl<'f> CountFilter<'f> {
    /// Prepares to count the calls that pass `filter` as `wanted` distinguishes them.
    ///
    /// # Errors
    /// A column differs from call to call and is not counted.
    pub fn new(filter: &'f CallFilter, wanted: &'f tally::Options) -> Result<CountFilter<'f>> {
        let mut finer = wanted.clone();
        for column in filter.list_columns() {
            add_need(column, &mut finer)?;
        }
        Ok(CountFilter {
            filter,
            wanted,
            finer,
        })
    }

    /// The distinctions to count.
    pub fn tally(&self) -> &tally::Options {
        &self.finer
    }

    /// The key that the caller wants for calls of one that is counted, and whether they pass; `names` are
    /// [`CountedCalls::of_names`].
    pub fn judge_key(
        &self,
        names: &CountedCalls,
        step: Option<u64>,
        key: &CallKey,
        calls: u64,
        part: &mut FilterPart,
    ) -> (CallKey, bool) {
        let step = step.map(StepKey::from);
        let passes = |row: &Row<'_>| part.does_pass(row, self.filter);
        let does_pass = with_row(names, step, key, calls, passes);
        (self.coarsen_cells(names, step, key).1, does_pass)
    }

    /// Keeps the calls that pass.
    pub fn keep_calls(&self, calls: CountedCalls) -> (CountedCalls, FilterPart) {
        let mut part = FilterPart::default();
        if self.filter.is_empty() {
            return (calls, part);
        }
        let mut cells = CellGatherer::default();
        for ((step, key), value) in calls.cells.list_counts() {
            let passes = |row: &Row<'_>| part.does_pass(row, self.filter);
            if with_row(&calls, step, &key, value.calls, passes) {
                let (step, key) = self.coarsen_cells(&calls, step, &key);
                cells.push(step, key, value);
            }
        }
        let mut kept = CountedCalls {
            cells: cells.into_cells(),
            has_steps: calls.has_steps,
            ..CountedCalls::default()
        };
        let passes = |step: CountedStep, key: &CallKey| {
            with_row(&calls, step, key, 1, |row| self.filter.does_pass(row))
        };
        for ((step, key, kind), one) in &calls.times {
            if passes(*step, key) {
                let (step, key) = self.coarsen_cells(&calls, *step, key);
                kept.times.entry((step, key, *kind)).or_default().merge(one);
            }
        }
        for ((step, key), all) in &calls.durations {
            if self.wanted.exact && passes(*step, key) {
                let to = self.coarsen_cells(&calls, *step, key);
                kept.durations.entry(to).or_default().merge(all);
            }
        }
        (kept.ops, kept.who, kept.kinds) = (calls.ops, calls.who, calls.kinds);
        (kept, part)
    }

    /// The step and key that the caller wants of those counted.
    fn coarsen_cells(
        &self,
        calls: &CountedCalls,
        step: CountedStep,
        key: &CallKey,
    ) -> (CountedStep, CallKey) {
        let kind = calls.ops.op_kind(key.op);
        let coarse = self.wanted.coarsen_key_of(&self.finer, key, kind);
        (step.filter(|_| self.wanted.steps), coarse)
    }
}

/// Counts the calls of `origins` that pass `filter`, as `wanted` distinguishes them; a note has how many do.
///
/// # Errors
/// As [`calls::count_calls`]; a column differs from call to call and is not counted.
pub fn count_passing_calls(
    origins: &[InputName],
    read: &calls::Options,
    wanted: &tally::Options,
    filter: &CallFilter,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<CountedCalls> {
    let by_filter = CountFilter::new(filter, wanted)?;
    let all = calls::count_calls(origins, read, by_filter.tally(), report, progress)?;
    let (kept, part) = by_filter.keep_calls(all);
    part.report(filter, report);
    Ok(kept)
}

/// Gives calls to `passes` as a row of the call table.
fn with_row(
    calls: &CountedCalls,
    step: CountedStep,
    key: &CallKey,
    times: u64,
    passes: impl FnOnce(&Row<'_>) -> bool,
) -> bool {
    let row = calls.row_of_key(step.map(|step| step.step), key, times);
    let who = calls.who.get(key.member as usize);
    let timing = who.map(|who| who.recorded.timing_of_calls(None));
    passes(&Row {
        timing: timing.as_ref(),
        ..row
    })
}

/// Makes `tally` distinguish the values of a column.
fn add_need(column: Column, tally: &mut tally::Options) -> Result<()> {
    match column {
        Column::step => tally.steps = true,
        Column::host | Column::pid | Column::dev => tally.members = true,
        Column::rank | Column::global_rank | Column::comm | Column::comm_id => {
            tally.members = true;
        }
        Column::op => {}
        Column::count | Column::bytes => {
            (tally.sizing, tally.datatypes) = (SizeKey::Count, true);
        }
        Column::datatype => tally.datatypes = true,
        Column::nranks | Column::redop | Column::root => tally.exact = true,
        Column::algo | Column::proto => (tally.served, tally.members) = (true, true),
        Column::src | Column::clock | Column::quality | Column::nchannels => {
            (tally.exact, tally.members) = (true, true);
        }
        Column::pg_name | Column::pg_desc => (tally.exact, tally.members) = (true, true),
        Column::time | Column::tid | Column::seq | Column::op_count | Column::stream => {
            return Err(refuse_column(column));
        }
        Column::calls | Column::dur_ns | Column::start_ns | Column::enqueue_ns => {
            return Err(refuse_column(column));
        }
    }
    Ok(())
}

fn refuse_column(column: Column) -> Error {
    let name = COLUMNS[column as usize];
    Error::Usage(format!(
        "--where: {name} differs from call to call and is not counted: filter the rows first \
         (nccl-comms --where '{name} ...' FILE | ...)"
    ))
}
