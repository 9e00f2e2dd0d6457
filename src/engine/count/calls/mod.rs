//! Counts all inputs (logs, call tables, chain lines) with their steps and members, for nccl-ops, nccl-hist and
//! nccl-agg.

mod collector;
mod counted;
mod growing;
mod live;
mod small_logs;

use crate::count::row_counts::RowCounts;
use crate::count::tally;
use crate::count::tally::TallyPartial;
use crate::error::Result;
use crate::formats::Provides;
use crate::formats::lines::RowVisitor as _;
use crate::formats::open::InputOpener;
use crate::log;
use crate::log::propose;
use crate::log::timeline::{self, StepTimeline, StepWindow};
use crate::members::MergedMembers;
use crate::output::live_rows::LiveRows;
use crate::output::table::Row;
use crate::report::Report;
use crate::source::{self, InputName};
use collector::CallCollector;
use live::LiveCounts;

pub use crate::report::progress::Progress;
pub use counted::{CountedCalls, LOG_SOURCE, TimesByKey, finish_counts};
pub use growing::GrowingCounts;

/// How inputs are read.
#[derive(Debug, Clone)]
pub struct Options {
    /// How bytes come in.
    pub source: source::Options,
    /// How logs are read.
    pub log: log::Options,
    /// How steps are found.
    pub timeline: timeline::Options,
    /// The steps that count; all calls if none.
    pub window: Option<StepWindow>,
}

impl Options {
    /// Returns how to open inputs that must provide `needs`.
    pub fn opening_for(&self, needs: Provides) -> InputOpener<'_> {
        let needs = match self.window {
            Some(_) => needs.and(Provides::BY_STEP),
            None => needs,
        };
        InputOpener {
            source: self.source,
            log: &self.log,
            needs,
            again: false,
            recorded: false,
        }
    }

    /// True if the gap's calls count.
    pub fn counts_gap(&self, timeline: &StepTimeline, gap: usize) -> bool {
        let step = || timeline.step_of(gap).map(|s| s.step);
        let inside = |window: &StepWindow| step().is_some_and(|s| window.contains(s));
        self.window.as_ref().is_none_or(inside)
    }
}

/// Counts the calls of all `origins`.
///
/// # Errors
/// No input could be read, the window is not there, damage under `--strict`.
pub fn count_calls(
    origins: &[InputName],
    options: &Options,
    tally: &tally::Options,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<CountedCalls> {
    count_calls_live(origins, options, tally, report, progress, None)
}

/// Like [`count_calls`], but `early` gets each step's calls of a single growing input once they are settled, in
/// log order.
///
/// # Errors
/// As [`count_calls`], and those of `early`.
pub fn count_calls_live(
    origins: &[InputName],
    options: &Options,
    tally: &tally::Options,
    report: &mut Report,
    progress: &dyn Progress,
    early: Option<LiveRows<'_, CountedCalls>>,
) -> Result<CountedCalls> {
    let mut all = CallCollector::new(options, tally, origins.len());
    if let [origin] = origins
        && origin.is_piped()
    {
        all.merged.twice.expect_single_input();
    }
    all.live = LiveCounts::with_sink(early, origins.len() == 1 && tally.steps);
    all.read_inputs(origins, report, progress)?;
    all.count_held_inputs();
    if let Some(window) = &options.window {
        let missing = |text| {
            propose::reopened_missing_steps_error(text, &all.present, origins, options.source)
        };
        all.present.check_window(window).map_err(missing)?;
    }
    progress.finish();
    report.add_placements(all.methods);
    report.note_separate_jobs(&all.merged, 1);
    Ok(all.finish())
}

/// Counts rows that another stage makes.
pub struct RowCounter<'o> {
    all: CallCollector<'o, 'static>,
    rows: RowCounts,
}

impl<'o> RowCounter<'o> {
    /// Nothing counted yet.
    pub fn new(options: &'o Options, tally: &'o tally::Options) -> RowCounter<'o> {
        RowCounter {
            all: CallCollector::new(options, tally, 0),
            rows: RowCounts::new(tally, None),
        }
    }

    /// The options of the tally.
    pub fn tally(&self) -> &'o tally::Options {
        self.all.tally_options
    }

    /// Counts a row.
    pub fn count_row(&mut self, row: &Row<'_>) {
        self.rows.visit_row(row);
    }

    /// Adds rows counted elsewhere.
    pub fn merge(&mut self, part: RowCounts) {
        self.all.rows.merge(part, &mut self.all.tally.ops);
    }

    /// Returns the counts.
    pub fn finish(mut self) -> CountedCalls {
        self.all.rows.merge(self.rows, &mut self.all.tally.ops);
        self.all.finish()
    }
}

/// Counts a log that was walked elsewhere: `read` passes its parts in log order, and returns its state and
/// members.
pub fn count_log_parts(
    options: &Options,
    tally: &tally::Options,
    read: impl FnOnce(
        &mut dyn FnMut(log::MergedChunk<'_, TallyPartial>),
    ) -> (log::LogState, MergedMembers),
) -> CountedCalls {
    let mut all = CallCollector::new(options, tally, 1);
    let (log, merged) = read(&mut |part| all.tally.add_chunk(part, &options.timeline));
    all.merged = merged;
    all.add_log("", &log, &mut Report::new("", false, true));
    all.count_held_inputs();
    all.finish()
}

#[cfg(test)]
pub(crate) mod tests;
