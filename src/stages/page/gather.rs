//! What the stages find, put together.

use super::inputs::PageInputs;
use super::series::StepSeries;
use super::{PageFinding, PageSection, ReportPage, SectionContent, SectionRows, job};
use crate::count::calls::{self, CountedCalls, Options, Progress};
use crate::count::groups::GroupBy;
use crate::count::tally;
use crate::error::{Error, Result};
use crate::output::render::Grid;
use crate::output::svg::plot::Plot;
use crate::report::Report;
use crate::source::InputName;
use crate::stages::check::answer::coverage::{self, StampCoverage};
use crate::stages::check::answer::table as answers;
use crate::stages::check::walk::{CheckGathered, PageRequest, Requested};
use crate::stages::check::{self, CheckSummary, JobLiveness};
use crate::stages::communicators::CommunicatorSide;
use crate::stages::matrix::cells::{TrafficMatrix, TrafficUnit};
use crate::stages::tuning::table as choices;
use crate::stages::{communicators, diff, hist, matrix, net, ops, overlap, skew, timing};

/// Shows nothing: the bar is for the first walk.
struct HiddenProgress;

impl Progress for HiddenProgress {
    fn advance(&self, _: u64) {}
}

/// Makes the page of all `origins`; `against` is another run, if one is given. Calls by step, and
/// who sends to whom, are on a `whole` page.
///
/// # Errors
/// An input that was named tells nothing of what is on the page, or cannot be read; damage under
/// `--strict`.
pub fn gather_page(
    (origins, against): (&[InputName], &[InputName]),
    whole: bool,
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<ReportPage> {
    let inputs = PageInputs::sort_inputs(origins, options.source, report)?;
    if inputs.checked.is_empty() && inputs.timed.is_empty() {
        let none = "none of the inputs is a log or a record of calls";
        return Err(Error::Content(none.to_owned()));
    }
    let mut page = ReportPage {
        rerun: coverage::rerun_environment(),
        ..ReportPage::default()
    };
    let mut parts = PageSections::default();
    let asked = Requested {
        calls: tally_options(),
        whole: whole.then(|| PageRequest {
            by_step: by_step_options().tally(),
        }),
        late: inputs.are_walked(),
    };
    let both = (&mut page, &mut parts);
    let known = run_check(&inputs, (options, &asked), both, report, progress)?;
    add_counted(
        &inputs,
        (options, whole),
        known.calls,
        &mut parts,
        (report, progress),
    );
    progress.finish();
    add_timelines(&inputs, options, &mut parts, report);
    if whole {
        page.map = build_call_matrix(&inputs, options, known.matrix, &mut parts);
    }
    add_late_ranks(&inputs, (options, known.is_stamped), known.late, &mut parts);
    add_changes((origins, against), options, &mut parts);
    if page.inputs.is_empty() {
        page.inputs = inputs
            .counted_inputs()
            .iter()
            .map(InputName::name)
            .collect();
    }
    page.parts = parts.0;
    Ok(page)
}

/// The tables so far.
#[derive(Default)]
struct PageSections(Vec<SectionContent>);

impl PageSections {
    /// A table, or why there is none; one without rows has none because of `empty`.
    fn add_grid(&mut self, of: PageSection, table: Result<Grid, String>, empty: &str) {
        self.put_table(of, table.map(SectionRows::Kept), empty);
    }

    fn put_table(&mut self, of: PageSection, table: Result<SectionRows, String>, empty: &str) {
        let table = match table {
            Ok(table) if table.is_empty() => Err(empty.to_owned()),
            table => table,
        };
        self.0.push(SectionContent { of, table });
    }

    fn put_missing(&mut self, of: PageSection, why: &str) {
        self.add_grid(of, Err(why.to_owned()), "");
    }
}

/// The calls as nccl-ops counts them by step.
pub(super) fn by_step_options() -> ops::Options {
    ops::Options {
        by: vec![GroupBy::Step],
        ..ops::Options::default()
    }
}

/// What distinguishes calls over all steps: what nccl-ops and nccl-hist need.
fn tally_options() -> tally::Options {
    tally::Options {
        members: true,
        ..ops::Options::default().tally()
    }
}

/// What nccl-check's walk knows for other parts.
#[derive(Default)]
struct CheckedFacts {
    /// All calls have time stamps.
    is_stamped: bool,
    /// The calls of logs, over all steps and by step.
    calls: Option<(CountedCalls, Option<CountedCalls>)>,
    /// Who sends to whom, by logs.
    matrix: Option<TrafficMatrix>,
    /// Who comes late, by logs alone.
    late: Option<Result<Grid>>,
}

/// Why there is nothing of what only lines tell ...
const NO_LOG_REASON: &str = "there is no log among the inputs: it is in NCCL's own lines";
/// ... which is this.
const SECTIONS_OF_LINES: [PageSection; 6] = [
    PageSection::Net,
    PageSection::Timing,
    PageSection::Steps,
    PageSection::Communicators,
    PageSection::Members,
    PageSection::Tuning,
];

/// What nccl-check's walk finds.
fn run_check(
    inputs: &PageInputs,
    (options, asked): (&Options, &Requested),
    (page, parts): (&mut ReportPage, &mut PageSections),
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<CheckedFacts> {
    if inputs.checked.is_empty() {
        let all = SECTIONS_OF_LINES
            .into_iter()
            .chain([PageSection::Findings, PageSection::Questions]);
        all.for_each(|of| parts.put_missing(of, NO_LOG_REASON));
        return Ok(CheckedFacts::default());
    }
    let now = (options, JobLiveness::Unknown);
    let asked = Some(asked);
    let (checked, mut seen) =
        check::check_and_keep_gathered(&inputs.checked, now, asked, report, progress)?;
    // What counting united is a finding's reason; no line tells it.
    seen.found.undo_unions();
    page.inputs.clone_from(&checked.inputs);
    if inputs.has_lines() {
        page.job = job::job_facts(&checked, &seen);
    }
    let steps = seen.inputs.iter().flat_map(|input| &input.printed).cloned();
    page.steps = StepSeries::from_steps(steps.collect());
    page.findings = checked
        .findings
        .iter()
        .map(|f| build_finding(f, &checked))
        .collect();
    page.compared = Some(answers::describe_compared(&checked));
    let is_stamped = checked.known.stamps == StampCoverage::All;
    match inputs.has_lines() {
        true => add_line_tables(&seen, &page.steps, parts),
        false => SECTIONS_OF_LINES
            .into_iter()
            .for_each(|of| parts.put_missing(of, NO_LOG_REASON)),
    }
    let no_findings = "nothing was found to be wrong";
    parts.add_grid(
        PageSection::Findings,
        Ok(answers::findings_grid(&checked)),
        no_findings,
    );
    parts.add_grid(
        PageSection::Questions,
        Ok(answers::coverage_grid(&checked)),
        "",
    );
    let counted = seen.counted.take();
    let (calls, pairs) = match counted {
        Some(counted) => (Some((counted.calls, counted.by_step)), counted.pairs),
        None => (None, None),
    };
    let pairs = pairs.filter(|_| inputs.are_logs());
    Ok(CheckedFacts {
        is_stamped,
        matrix: pairs.and_then(|pairs| build_matrix(&seen, pairs)),
        calls,
        late: seen.late.take(),
    })
}

/// Who sends to whom, by what the walk has counted.
fn build_matrix(
    seen: &CheckGathered,
    (calls, sides): (CountedCalls, Vec<CommunicatorSide>),
) -> Option<TrafficMatrix> {
    let told = matrix::TrafficSources {
        calls: &calls,
        sides,
        processes: seen.found.processes.clone(),
        net: &seen.net,
        tuning: seen.tuning.as_ref()?,
    };
    let silent = Report::new("", false, true).silenced();
    Some(matrix::build_matrix(
        told,
        &matrix::Options::default(),
        &silent,
    ))
}

/// A finding with its lines.
fn build_finding(finding: &check::finding::Finding, checked: &CheckSummary) -> PageFinding {
    let line = |evidence| {
        let (name, line) = answers::evidence_place(checked, evidence);
        let line = line.map_or(String::new(), |line| format!(":{line}"));
        let shown = evidence.text.as_deref().unwrap_or_default();
        (
            format!("{name}{line}"),
            String::from_utf8_lossy(shown).into_owned(),
        )
    };
    PageFinding {
        severity: finding.severity.name(),
        id: finding.kind.id(),
        says: finding.says.clone(),
        step: finding.about.step,
        sure: format!("{}: {}", finding.sure.name(), finding.why),
        advice: finding.advice.clone(),
        lines: finding.evidence.iter().map(line).collect(),
    }
}

/// The tables of what lines tell.
fn add_line_tables(seen: &CheckGathered, steps: &StepSeries, parts: &mut PageSections) {
    let facts = net::table::build_net_grid(&seen.net, &net::table::Options::default());
    parts.add_grid(
        PageSection::Net,
        Ok(facts),
        "no line has a network, a version or a setting",
    );
    let no_steps = "the log has no step lines of a trainer";
    match steps.list.is_empty() {
        true => [PageSection::Timing, PageSection::Steps]
            .into_iter()
            .for_each(|of| parts.put_missing(of, no_steps)),
        false => {
            parts.add_grid(
                PageSection::Timing,
                Ok(timing::summarise_steps(&steps.list)),
                no_steps,
            );
            parts.add_grid(
                PageSection::Steps,
                Ok(timing::grid_per_step(&steps.list)),
                no_steps,
            );
        }
    }
    let no_init = "no line names a communicator: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL";
    parts.add_grid(
        PageSection::Communicators,
        Ok(communicators::build_communicator_grid(&seen.found)),
        no_init,
    );
    parts.add_grid(
        PageSection::Members,
        Ok(communicators::build_member_grid(&seen.found)),
        no_init,
    );
    let no_tuning = "the log has no TUNING lines: NCCL_DEBUG_SUBSYS=INIT,COLL,TUNING on rank 0";
    let tuning = seen.tuning.as_ref();
    let tuning = tuning.map(|all| choices::build_crossover_grid(all, &choices::Options::default()));
    parts.add_grid(
        PageSection::Tuning,
        Ok(tuning.unwrap_or_default()),
        no_tuning,
    );
}

/// The calls as nccl-ops and nccl-hist count them: those of logs are counted.
fn add_counted(
    inputs: &PageInputs,
    (options, whole): (&Options, bool),
    known: Option<(CountedCalls, Option<CountedCalls>)>,
    parts: &mut PageSections,
    (report, progress): (&mut Report, &dyn Progress),
) {
    let all = [
        PageSection::StepCalls,
        PageSection::Operations,
        PageSection::Sizes,
    ];
    let known = known.filter(|_| !inputs.logs.is_empty());
    let count = || {
        let of = (inputs.counted_inputs(), options);
        count_recorded(of, whole, (report, progress))
    };
    let (calls, by_step) = match known.map_or_else(count, Ok) {
        Ok(counted) => counted,
        Err(error) => {
            all.into_iter()
                .for_each(|of| parts.put_missing(of, &error.to_string()));
            // Metrics have times and no calls.
            add_durations(inputs, options, parts);
            return;
        }
    };
    let no_calls = "the input has no calls: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL";
    match by_step {
        None => {}
        Some(calls) if calls.has_steps => {
            parts.put_table(
                PageSection::StepCalls,
                Ok(SectionRows::Steps(Box::new(calls))),
                no_calls,
            );
        }
        Some(_) => parts.put_missing(
            PageSection::StepCalls,
            "no step lines tell which step a call belongs to",
        ),
    }
    let grid = ops::ops_sheet(&calls, &ops::Options::default()).to_grid();
    parts.add_grid(PageSection::Operations, Ok(grid), no_calls);
    let sizes = hist::Options::default();
    let in_buckets = hist::put_in_buckets(&calls, &sizes.edges);
    let grid = hist::hist_sheet(&in_buckets, &sizes, false).to_grid();
    parts.add_grid(PageSection::Sizes, Ok(grid), no_calls);
    add_durations(inputs, options, parts);
}

/// The calls of records, over all steps and, on a whole page, by step.
///
/// # Errors
/// They cannot be read.
fn count_recorded(
    (origins, options): (&[InputName], &Options),
    whole: bool,
    (report, progress): (&mut Report, &dyn Progress),
) -> Result<(CountedCalls, Option<CountedCalls>)> {
    if !whole {
        let calls = calls::count_calls(origins, options, &tally_options(), report, progress)?;
        return Ok((calls, None));
    }
    // An export of nsys may have calls of its own, which have no steps, beside the log in it.
    let by_step = calls::count_calls(
        origins,
        options,
        &by_step_options().tally(),
        report,
        progress,
    )?;
    let mut silent = Report::new("", false, true).silenced();
    let calls = calls::count_calls(
        origins,
        options,
        &tally_options(),
        &mut silent,
        &HiddenProgress,
    )?;
    Ok((calls, Some(by_step)))
}

/// How long calls took, where a record has it.
fn add_durations(inputs: &PageInputs, options: &Options, parts: &mut PageSections) {
    const NO_DURATIONS_REASON: &str = "a log has no durations: NCCL Inspector, NCCL's profiler plugin, nsys or \
                        torch.profiler record them";
    if inputs.timed.is_empty() {
        parts.put_missing(PageSection::Durations, NO_DURATIONS_REASON);
        return;
    }
    let of = ops::Options {
        time: true,
        ..ops::Options::default()
    };
    let mut silent = Report::new("", false, true).silenced();
    let calls = calls::count_calls(
        &inputs.timed,
        options,
        &of.tally(),
        &mut silent,
        &HiddenProgress,
    );
    let grid = calls.and_then(|calls| {
        crate::stages::timed::report_untimed_calls(&calls, &silent)?;
        Ok(ops::ops_times_sheet(&calls, &of).to_grid())
    });
    parts.add_grid(
        PageSection::Durations,
        grid.map_err(|error| error.to_string()),
        NO_DURATIONS_REASON,
    );
}

/// What GPUs did.
fn add_timelines(
    inputs: &PageInputs,
    options: &Options,
    parts: &mut PageSections,
    report: &mut Report,
) {
    if inputs.timelines.is_empty() {
        let none =
            "it needs a record of what GPUs did: an export of nsys or a trace of torch.profiler";
        parts.put_missing(PageSection::Overlap, none);
        return;
    }
    let of = overlap::Options::default();
    let strict = options.log.strict;
    // They were reported on where calls were counted of them.
    let mut silent = Report::new("", false, true).silenced();
    let report = if inputs.logs.is_empty() {
        &mut silent
    } else {
        report
    };
    let rows = overlap::read_overlap(&inputs.timelines, options.source, &of, strict, report);
    let grid = rows.map(|rows| overlap::build_grid(&rows, &of));
    let none = "the GPUs did nothing";
    parts.add_grid(
        PageSection::Overlap,
        grid.map_err(|error| error.to_string()),
        none,
    );
}

/// Who sends to whom: the calls that are counted, and the copies of GPUs. Of logs alone that is
/// `known`.
fn build_call_matrix(
    inputs: &PageInputs,
    options: &Options,
    known: Option<TrafficMatrix>,
    parts: &mut PageSections,
) -> (Vec<String>, Option<Plot>) {
    match known.map_or_else(|| matrix_of_all(inputs, options), Ok) {
        Ok(matrix) => {
            let map = matrix::svg_heat_map::plot_matrix(&matrix, TrafficUnit::Bytes);
            let empty = "no input tells who sends to whom";
            parts.put_table(PageSection::Matrix, Ok(SectionRows::Pairs(matrix)), empty);
            map
        }
        Err(error) => {
            parts.put_missing(PageSection::Matrix, &error.to_string());
            (Vec::new(), None)
        }
    }
}

/// Who sends to whom, by all inputs.
///
/// # Errors
/// They cannot be read.
fn matrix_of_all(inputs: &PageInputs, options: &Options) -> Result<TrafficMatrix> {
    let mut origins = inputs.counted_inputs().to_vec();
    let known = |origin: &&InputName| !inputs.counted_inputs().contains(origin);
    origins.extend(inputs.timelines.iter().filter(known).cloned());
    let of = matrix::Options::default();
    let mut silent = Report::new("", false, true).silenced();
    matrix::read_matrix(&origins, options, &of, &mut silent, &HiddenProgress)
}

/// Who comes late; `known` is what the walk found, if it was asked.
fn add_late_ranks(
    inputs: &PageInputs,
    (options, is_stamped): (&Options, bool),
    known: Option<Result<Grid>>,
    parts: &mut PageSections,
) {
    const NO_TIMES_REASON: &str = "the calls have no times: NCCL_DEBUG_TIMESTAMP_LEVELS=ALL (NCCL 2.26), or a \
                            record with times";
    let read = |origins: &[InputName]| {
        let mut silent = Report::new("", false, true).silenced();
        let of = skew::Options::default();
        skew::read_skew(origins, options, &of, &mut silent, &HiddenProgress)
    };
    // A record beside a log may have no times, and the log may have them.
    let recorded = (!inputs.timed.is_empty()).then(|| read(&inputs.timed));
    let logged = || {
        let is_stamped = is_stamped && !inputs.logs.is_empty();
        is_stamped.then(|| known.unwrap_or_else(|| read(&inputs.logs)))
    };
    let grid = match recorded {
        Some(Ok(grid)) => Ok(grid),
        Some(Err(error)) => logged().unwrap_or(Err(error)),
        None => match logged() {
            Some(grid) => grid,
            None => return parts.put_missing(PageSection::Skew, NO_TIMES_REASON),
        },
    };
    let none = "no call is one of several ranks";
    parts.add_grid(
        PageSection::Skew,
        grid.map_err(|error| error.to_string()),
        none,
    );
}

/// What changed from another run to this one.
fn add_changes(
    (origins, against): (&[InputName], &[InputName]),
    options: &Options,
    parts: &mut PageSections,
) {
    if against.is_empty() {
        return;
    }
    let mut silent = Report::new("", false, true).silenced();
    let mut side =
        |origins| diff::run::read_run(origins, options, None, &mut silent, &HiddenProgress);
    let rows = side(against).and_then(|before| Ok((before, side(origins)?)));
    let grid = rows.map(|(before, now)| {
        let report = Report::new("", false, true).silenced();
        diff::row::build_grid(&diff::diff_runs(
            &before,
            &now,
            &diff::Options::default(),
            &report,
        ))
    });
    parts.add_grid(
        PageSection::Changes,
        grid.map_err(|error| error.to_string()),
        "nothing changed",
    );
}
