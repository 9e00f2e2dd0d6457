//! Runs the stages of a page, one after the other.

use super::inputs::PageInputs;
use super::sections::{PageSections, SectionNeed};
use super::{PageSection, ReportPage, SectionRows, next};
use crate::count::calls::{CountedCalls, Options, Progress};
use crate::count::filtered::{CountFilter, count_passing_calls};
use crate::count::groups::GroupBy;
use crate::count::tally;
use crate::error::{Error, Result};
use crate::filter::CallFilter;
use crate::output::render::Grid;
use crate::report::Report;
use crate::source::InputName;
use crate::stages::check::answer::coverage;
use crate::stages::matrix::cells::TrafficMatrix;
use crate::stages::{diff, hist, matrix, ops, overlap, skew, timed};

/// Shows nothing: only the first walk has a progress bar.
struct HiddenProgress;

impl Progress for HiddenProgress {
    fn advance(&self, _: u64) {}
}

/// A requested page.
#[derive(Debug, Clone, Copy)]
pub struct PageOrder<'a> {
    /// The inputs of the job.
    pub origins: &'a [InputName],
    /// Those of another run, to compare with.
    pub against: &'a [InputName],
    /// The page has calls by step, and the matrix.
    pub whole: bool,
    /// How inputs are read.
    pub options: &'a Options,
    /// The calls of the tables that count calls; faults are judged by all calls.
    pub filter: &'a CallFilter,
    /// Those of the other run.
    pub filter_against: &'a CallFilter,
}

/// Makes a page.
///
/// # Errors
/// An input that was named has nothing for the page, or cannot be read; damage under `--strict`; the filter needs a
/// column that is not counted.
pub fn gather_page(
    order: PageOrder<'_>,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<ReportPage> {
    CountFilter::new(order.filter, &tally_options())?;
    report.keep_messages();
    report.expect_sources_apart();
    let inputs = PageInputs::sort_inputs(order.origins, order.options, report)?;
    if inputs.checked.is_empty() && inputs.timed.is_empty() && inputs.accessed.is_empty() {
        let none = "none of the inputs is a log or a record of calls";
        return Err(Error::Content(none.to_owned()));
    }
    let page = ReportPage {
        rerun: coverage::rerun_environment(),
        ..ReportPage::default()
    };
    let sections = PageSections {
        report,
        list: Vec::new(),
    };
    let mut gatherer = PageGatherer {
        order,
        inputs,
        page,
        sections,
        progress,
    };
    gatherer.gather_all()?;
    let PageGatherer {
        inputs,
        mut page,
        sections,
        ..
    } = gatherer;
    if page.inputs.is_empty() {
        let read = inputs.counted_inputs().iter().chain(&inputs.accessed);
        page.inputs = read.map(InputName::name).collect();
    }
    page.parts = sections.list;
    page.caveats = sections.report.messages();
    page.next = next::list_next_commands(&page, inputs.parts);
    Ok(page)
}

/// Options of calls as nccl-ops counts them by step.
pub(super) fn by_step_options() -> ops::Options {
    ops::Options {
        by: vec![GroupBy::Step],
        ..ops::Options::default()
    }
}

/// Distinguishes calls over all steps as far as nccl-ops and nccl-hist need it.
pub(super) fn tally_options() -> tally::Options {
    tally::Options {
        members: true,
        ..ops::Options::default().tally()
    }
}

/// Calls over all steps in tables and, on a whole page, by step.
pub(super) struct PageCalls {
    operations: Grid,
    sizes: Grid,
    by_step: Option<CountedCalls>,
}

impl PageCalls {
    /// Makes the tables of `all` calls.
    pub(super) fn tabulate_calls(all: &CountedCalls) -> PageCalls {
        let sizes = hist::Options::default();
        let in_buckets = hist::put_in_buckets(all, &sizes.edges);
        PageCalls {
            operations: ops::ops_sheet(all, &ops::Options::default()).to_grid(),
            sizes: hist::hist_sheet(&in_buckets, &sizes, false).to_grid(),
            by_step: None,
        }
    }

    /// Adds the calls by step.
    pub(super) fn with_steps(self, by_step: Option<CountedCalls>) -> PageCalls {
        PageCalls { by_step, ..self }
    }
}

const NO_DURATIONS_REASON: &str = "a log has no durations: NCCL Inspector, NCCL's profiler plugin, nsys or \
                                   torch.profiler record them";
const NO_CALLS_OF_ACCESSES_REASON: &str =
    "the inputs have accesses of kernels: they are not calls of NCCL";
const NO_TIMES_REASON: &str = "the calls have no times: NCCL_DEBUG_TIMESTAMP_LEVELS=ALL (NCCL 2.26), or a \
                               record with times";

/// Makes the sections of a page.
pub(super) struct PageGatherer<'a> {
    pub(super) order: PageOrder<'a>,
    pub(super) inputs: PageInputs,
    pub(super) page: ReportPage,
    pub(super) sections: PageSections<'a>,
    pub(super) progress: &'a dyn Progress,
}

impl PageGatherer<'_> {
    fn gather_all(&mut self) -> Result<()> {
        let walked = self.run_check()?;
        self.add_counted(walked.calls)?;
        self.progress.finish();
        self.add_timelines()?;
        let has_accesses = !self.inputs.accessed.is_empty();
        if self.order.whole || has_accesses {
            // The walk has no accesses.
            let known = walked.matrix.filter(|_| !has_accesses);
            self.add_matrix(known)?;
        }
        self.add_late_ranks(walked.is_stamped, walked.late)?;
        self.add_changes()
    }

    /// Adds calls as nccl-ops and nccl-hist count them; those of logs are `known`.
    fn add_counted(&mut self, known: Option<PageCalls>) -> Result<()> {
        let counted = match known {
            Some(calls) => Ok(calls),
            None => self.count_recorded()?,
        };
        let sections = &mut self.sections;
        let no_calls = match self.inputs.logs.is_empty() {
            true => "the records have no calls",
            false => "the input has no calls: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL",
        };
        match counted {
            Ok(tables) => {
                match tables.by_step {
                    None => {}
                    Some(calls) if calls.has_steps => {
                        let rows = SectionRows::Steps(Box::new(calls));
                        sections.add_table(PageSection::StepCalls, Ok(rows), no_calls);
                    }
                    Some(_) => {
                        let none = "no step lines tell which step a call belongs to";
                        sections.leave_out(&[PageSection::StepCalls], none);
                    }
                }
                sections.add_grid(PageSection::Operations, Ok(tables.operations), no_calls);
                sections.add_grid(PageSection::Sizes, Ok(tables.sizes), no_calls);
            }
            Err(why) => {
                let all = [
                    PageSection::StepCalls,
                    PageSection::Operations,
                    PageSection::Sizes,
                ];
                sections.leave_out(&all, &why);
            }
        }
        // Metrics have durations although they have no calls.
        self.add_durations()
    }

    /// Counts the calls of records.
    fn count_recorded(&mut self) -> Result<Result<PageCalls, String>> {
        let (inputs, options) = (self.inputs.counted_inputs(), self.order.options);
        if inputs.is_empty() {
            return Ok(Err(NO_CALLS_OF_ACCESSES_REASON.to_owned()));
        }
        // An export of nsys may have calls of its own, which have no steps, beside the log in it.
        let tally = match self.order.whole {
            true => by_step_options().tally(),
            false => tally_options(),
        };
        let report = &mut *self.sections.report;
        let filter = self.order.filter;
        let first = count_passing_calls(inputs, options, &tally, filter, report, self.progress);
        let first = match self.sections.keep_reason(SectionNeed::Possible, first)? {
            Ok(first) => first,
            Err(why) => return Ok(Err(why)),
        };
        if !self.order.whole {
            return Ok(Ok(PageCalls::tabulate_calls(&first)));
        }
        let mut own = Report::of_section();
        let tally = tally_options();
        let all = count_passing_calls(inputs, options, &tally, filter, &mut own, &HiddenProgress);
        self.sections
            .report
            .absorb(PageSection::Operations.key(), &own);
        let all = self.sections.keep_reason(SectionNeed::Possible, all)?;
        Ok(all.map(|all| PageCalls::tabulate_calls(&all).with_steps(Some(first))))
    }

    /// Adds durations, if a record has them.
    fn add_durations(&mut self) -> Result<()> {
        let of = PageSection::Durations;
        if self.inputs.timed.is_empty() {
            self.sections.leave_out(&[of], NO_DURATIONS_REASON);
            return Ok(());
        }
        let times = ops::Options {
            time: true,
            ..ops::Options::default()
        };
        let (inputs, order) = (&self.inputs.timed, self.order);
        let run = |report: &mut Report| {
            let (tally, hidden) = (times.tally(), &HiddenProgress);
            let (options, filter) = (order.options, order.filter);
            let calls = count_passing_calls(inputs, options, &tally, filter, report, hidden)?;
            timed::report_untimed_calls(&calls, report)?;
            let sheet = ops::ops_times_sheet(&calls, &times);
            Ok(SectionRows::Kept(sheet.to_grid()))
        };
        self.sections
            .run_stage(of, SectionNeed::Possible, NO_DURATIONS_REASON, run)
    }

    /// Adds the activity of GPUs.
    fn add_timelines(&mut self) -> Result<()> {
        let of = PageSection::Overlap;
        if self.inputs.timelines.is_empty() {
            let none = "it needs a record of what GPUs did: an export of nsys or a trace of torch.profiler";
            self.sections.leave_out(&[of], none);
            return Ok(());
        }
        let (inputs, options) = (&self.inputs.timelines, self.order.options);
        let overlap = overlap::Options::default();
        let run = |report: &mut Report| {
            let strict = options.log.strict;
            let rows = overlap::read_overlap(inputs, options.source, &overlap, strict, report)?;
            Ok(SectionRows::Kept(overlap::build_grid(&rows, &overlap)))
        };
        self.sections
            .run_stage(of, SectionNeed::Given, "the GPUs did nothing", run)
    }

    /// Adds the traffic of calls and the copies of GPUs; that of logs alone is `known`.
    fn add_matrix(&mut self, known: Option<(TrafficMatrix, Report)>) -> Result<()> {
        let (of, possible) = (PageSection::Matrix, SectionNeed::Possible);
        let empty = "no input has peers";
        match known {
            Some((matrix, own)) => {
                let table = Ok(SectionRows::Pairs(matrix));
                self.sections.end_stage(of, possible, empty, table, &own)?;
            }
            None => {
                let counted = self.inputs.counted_inputs();
                let mut origins = counted.to_vec();
                let is_new = |origin: &&InputName| !counted.contains(origin);
                let beside = self.inputs.timelines.iter().filter(is_new).cloned();
                let beside = beside.collect();
                origins.extend(self.inputs.accessed.iter().cloned());
                let PageOrder {
                    options, filter, ..
                } = self.order;
                let run = |report: &mut Report| {
                    let of = matrix::Options {
                        copies_of: beside,
                        ..matrix::Options::default()
                    };
                    let hidden = &HiddenProgress;
                    let matrix =
                        matrix::read_matrix(&origins, options, &of, filter, report, hidden);
                    matrix.map(SectionRows::Pairs)
                };
                self.sections.run_stage(of, possible, empty, run)?;
            }
        }
        Ok(())
    }

    /// Adds late ranks; those of logs alone are `known` if the walk looked for them.
    fn add_late_ranks(
        &mut self,
        is_stamped: bool,
        known: Option<(Result<Grid>, Report)>,
    ) -> Result<()> {
        let (of, possible) = (PageSection::Skew, SectionNeed::Possible);
        let empty = "no call is one of several ranks";
        let PageOrder {
            options, filter, ..
        } = self.order;
        let read = |origins: &[InputName], report: &mut Report| {
            let of = skew::Options {
                filter: filter.clone(),
                ..skew::Options::default()
            };
            let grid = skew::read_skew(origins, options, &of, report, &HiddenProgress);
            grid.map(SectionRows::Kept)
        };
        let is_logged = is_stamped && !self.inputs.logs.is_empty();
        // A record beside a log may have no times, and the log may have them.
        if !self.inputs.timed.is_empty() {
            let mut own = Report::of_section();
            let recorded = read(&self.inputs.timed, &mut own);
            if recorded.is_ok() || !is_logged {
                return self.sections.end_stage(of, possible, empty, recorded, &own);
            }
        } else if !is_logged {
            self.sections.leave_out(&[of], NO_TIMES_REASON);
            return Ok(());
        }
        match known {
            Some((late, own)) => {
                let table = late.map(SectionRows::Kept);
                self.sections.end_stage(of, possible, empty, table, &own)
            }
            None => {
                let run = |report: &mut Report| read(&self.inputs.logs, report);
                self.sections.run_stage(of, possible, empty, run)
            }
        }
    }

    /// Adds the changes from another run to this one.
    fn add_changes(&mut self) -> Result<()> {
        let PageOrder {
            origins,
            against,
            options,
            filter,
            filter_against,
            ..
        } = self.order;
        if against.is_empty() {
            return Ok(());
        }
        let of = PageSection::Changes;
        let run = |report: &mut Report| {
            let mut read = |run, filter| {
                diff::run::read_run(run, options, None, filter, report, &HiddenProgress)
            };
            let (before, now) = (read(against, filter_against)?, read(origins, filter)?);
            let changes = diff::diff_runs(&before, &now, &diff::Options::default(), report).rows;
            Ok(SectionRows::Kept(diff::row::build_grid(&changes)))
        };
        self.sections
            .run_stage(of, SectionNeed::Possible, "nothing changed", run)
    }
}
