//! What the stages find, put together.

use super::inputs::Inputs;
use super::series::Steps;
use super::{Finding, Of, Page, Part, Table, job};
use crate::count::calls::{self, Calls, Options, Progress};
use crate::count::groups::By;
use crate::count::tally;
use crate::error::{Error, Result};
use crate::output::render::Grid;
use crate::output::svg::plot::Plot;
use crate::report::Report;
use crate::source::Origin;
use crate::stages::check::answer::coverage::{self, Stamps};
use crate::stages::check::answer::table as answers;
use crate::stages::check::walk::{Asked, Seen, Whole};
use crate::stages::check::{self, Checked, Now};
use crate::stages::communicators::Side;
use crate::stages::matrix::cells::{Matrix, Unit};
use crate::stages::tuning::table as choices;
use crate::stages::{communicators, diff, hist, matrix, net, ops, overlap, skew, timing};

/// Shows nothing: the bar is for the first walk.
struct Unseen;

impl Progress for Unseen {
    fn advance(&self, _: u64) {}
}

/// Makes the page of all `origins`; `against` is another run, if one is given. Calls by step, and
/// who sends to whom, are on a `whole` page.
///
/// # Errors
/// An input that was named tells nothing of what is on the page, or cannot be read; damage under
/// `--strict`.
pub fn gather(
    (origins, against): (&[Origin], &[Origin]),
    whole: bool,
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<Page> {
    let inputs = Inputs::sort(origins, options.source, report)?;
    if inputs.checked.is_empty() && inputs.timed.is_empty() {
        let none = "none of the inputs is a log or a record of calls";
        return Err(Error::Content(none.to_owned()));
    }
    let mut page = Page {
        rerun: coverage::rerun(),
        ..Page::default()
    };
    let mut parts = Parts::default();
    let asked = Asked {
        calls: tally(),
        whole: whole.then(|| Whole {
            by_step: by_step().tally(),
        }),
        late: inputs.are_walked(),
    };
    let both = (&mut page, &mut parts);
    let known = checked(&inputs, (options, &asked), both, report, progress)?;
    counted(
        &inputs,
        (options, whole),
        known.calls,
        &mut parts,
        (report, progress),
    );
    progress.finish();
    timelines(&inputs, options, &mut parts, report);
    if whole {
        page.map = map(&inputs, options, known.matrix, &mut parts);
    }
    late(&inputs, (options, known.is_stamped), known.late, &mut parts);
    changes((origins, against), options, &mut parts);
    if page.inputs.is_empty() {
        page.inputs = inputs.counted().iter().map(Origin::name).collect();
    }
    page.parts = parts.0;
    Ok(page)
}

/// The tables so far.
#[derive(Default)]
struct Parts(Vec<Part>);

impl Parts {
    /// A table, or why there is none; one without rows has none because of `empty`.
    fn add(&mut self, of: Of, table: Result<Grid, String>, empty: &str) {
        self.put(of, table.map(Table::Kept), empty);
    }

    fn put(&mut self, of: Of, table: Result<Table, String>, empty: &str) {
        let table = match table {
            Ok(table) if table.is_empty() => Err(empty.to_owned()),
            table => table,
        };
        self.0.push(Part { of, table });
    }

    fn none(&mut self, of: Of, why: &str) {
        self.add(of, Err(why.to_owned()), "");
    }
}

/// The calls as nccl-ops counts them by step.
pub(super) fn by_step() -> ops::Options {
    ops::Options {
        by: vec![By::Step],
        ..ops::Options::default()
    }
}

/// What distinguishes calls over all steps: what nccl-ops and nccl-hist need.
fn tally() -> tally::Options {
    tally::Options {
        members: true,
        ..ops::Options::default().tally()
    }
}

/// What nccl-check's walk knows for other parts.
#[derive(Default)]
struct Known {
    /// All calls have time stamps.
    is_stamped: bool,
    /// The calls of logs, over all steps and by step.
    calls: Option<(Calls, Option<Calls>)>,
    /// Who sends to whom, by logs.
    matrix: Option<Matrix>,
    /// Who comes late, by logs alone.
    late: Option<Result<Grid>>,
}

/// Why there is nothing of what only lines tell ...
const NO_LOG: &str = "there is no log among the inputs: it is in NCCL's own lines";
/// ... which is this.
const OF_LINES: [Of; 6] = [
    Of::Net,
    Of::Timing,
    Of::Steps,
    Of::Communicators,
    Of::Members,
    Of::Tuning,
];

/// What nccl-check's walk finds.
fn checked(
    inputs: &Inputs,
    (options, asked): (&Options, &Asked),
    (page, parts): (&mut Page, &mut Parts),
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<Known> {
    if inputs.checked.is_empty() {
        let all = OF_LINES.into_iter().chain([Of::Findings, Of::Questions]);
        all.for_each(|of| parts.none(of, NO_LOG));
        return Ok(Known::default());
    }
    let now = (options, Now::Unknown);
    let asked = Some(asked);
    let (checked, mut seen) = check::examine(&inputs.checked, now, asked, report, progress)?;
    // What counting united is a finding's reason; no line tells it.
    seen.found.part();
    page.inputs.clone_from(&checked.inputs);
    if inputs.has_lines() {
        page.job = job::of(&checked, &seen);
    }
    let steps = seen.inputs.iter().flat_map(|input| &input.printed).cloned();
    page.steps = Steps::of(steps.collect());
    page.findings = checked
        .findings
        .iter()
        .map(|f| finding(f, &checked))
        .collect();
    page.compared = Some(answers::compared(&checked));
    let is_stamped = checked.known.stamps == Stamps::All;
    match inputs.has_lines() {
        true => of_lines(&seen, &page.steps, parts),
        false => OF_LINES.into_iter().for_each(|of| parts.none(of, NO_LOG)),
    }
    let no_findings = "nothing was found to be wrong";
    parts.add(Of::Findings, Ok(answers::grid(&checked)), no_findings);
    parts.add(Of::Questions, Ok(answers::coverage(&checked)), "");
    let counted = seen.counted.take();
    let (calls, pairs) = match counted {
        Some(counted) => (Some((counted.calls, counted.by_step)), counted.pairs),
        None => (None, None),
    };
    let pairs = pairs.filter(|_| inputs.are_logs());
    Ok(Known {
        is_stamped,
        matrix: pairs.and_then(|pairs| matrix_of(&seen, pairs)),
        calls,
        late: seen.late.take(),
    })
}

/// Who sends to whom, by what the walk has counted.
fn matrix_of(seen: &Seen, (calls, sides): (Calls, Vec<Side>)) -> Option<Matrix> {
    let told = matrix::Told {
        calls: &calls,
        sides,
        processes: seen.found.processes.clone(),
        net: &seen.net,
        tuning: seen.tuning.as_ref()?,
    };
    let silent = Report::new("", false, true).silent();
    Some(matrix::of(told, &matrix::Options::default(), &silent))
}

/// A finding with its lines.
fn finding(finding: &check::finding::Finding, checked: &Checked) -> Finding {
    let line = |evidence| {
        let (name, line) = answers::place(checked, evidence);
        let line = line.map_or(String::new(), |line| format!(":{line}"));
        let shown = evidence.text.as_deref().unwrap_or_default();
        (
            format!("{name}{line}"),
            String::from_utf8_lossy(shown).into_owned(),
        )
    };
    Finding {
        severity: finding.severity.name(),
        id: finding.id,
        says: finding.says.clone(),
        step: finding.about.step,
        sure: format!("{}: {}", finding.sure.name(), finding.why),
        advice: finding.advice.clone(),
        lines: finding.evidence.iter().map(line).collect(),
    }
}

/// The tables of what lines tell.
fn of_lines(seen: &Seen, steps: &Steps, parts: &mut Parts) {
    let facts = net::table::grid(&seen.net, &net::table::Options::default());
    parts.add(
        Of::Net,
        Ok(facts),
        "no line has a network, a version or a setting",
    );
    let no_steps = "the log has no step lines of a trainer";
    match steps.list.is_empty() {
        true => [Of::Timing, Of::Steps]
            .into_iter()
            .for_each(|of| parts.none(of, no_steps)),
        false => {
            parts.add(Of::Timing, Ok(timing::summary(&steps.list)), no_steps);
            parts.add(Of::Steps, Ok(timing::per_step(&steps.list)), no_steps);
        }
    }
    let no_init = "no line names a communicator: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL";
    parts.add(
        Of::Communicators,
        Ok(communicators::grid(&seen.found)),
        no_init,
    );
    parts.add(
        Of::Members,
        Ok(communicators::members(&seen.found)),
        no_init,
    );
    let no_tuning = "the log has no TUNING lines: NCCL_DEBUG_SUBSYS=INIT,COLL,TUNING on rank 0";
    let tuning = seen.tuning.as_ref();
    let tuning = tuning.map(|all| choices::grid(all, &choices::Options::default()));
    parts.add(Of::Tuning, Ok(tuning.unwrap_or_default()), no_tuning);
}

/// The calls as nccl-ops and nccl-hist count them: those of logs are counted.
fn counted(
    inputs: &Inputs,
    (options, whole): (&Options, bool),
    known: Option<(Calls, Option<Calls>)>,
    parts: &mut Parts,
    (report, progress): (&mut Report, &dyn Progress),
) {
    let all = [Of::StepCalls, Of::Operations, Of::Sizes];
    let known = known.filter(|_| !inputs.logs.is_empty());
    let count = || {
        let of = (inputs.counted(), options);
        recorded(of, whole, (report, progress))
    };
    let (calls, by_step) = match known.map_or_else(count, Ok) {
        Ok(counted) => counted,
        Err(error) => {
            all.into_iter()
                .for_each(|of| parts.none(of, &error.to_string()));
            // Metrics have times and no calls.
            durations(inputs, options, parts);
            return;
        }
    };
    let no_calls = "the input has no calls: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL";
    match by_step {
        None => {}
        Some(calls) if calls.has_steps => {
            parts.put(Of::StepCalls, Ok(Table::Steps(Box::new(calls))), no_calls);
        }
        Some(_) => parts.none(
            Of::StepCalls,
            "no step lines tell which step a call belongs to",
        ),
    }
    let grid = ops::sheet(&calls, &ops::Options::default()).grid();
    parts.add(Of::Operations, Ok(grid), no_calls);
    let sizes = hist::Options::default();
    let in_buckets = hist::in_buckets(&calls, &sizes.edges);
    let grid = hist::sheet(&in_buckets, &sizes, false).grid();
    parts.add(Of::Sizes, Ok(grid), no_calls);
    durations(inputs, options, parts);
}

/// The calls of records, over all steps and, on a whole page, by step.
///
/// # Errors
/// They cannot be read.
fn recorded(
    (origins, options): (&[Origin], &Options),
    whole: bool,
    (report, progress): (&mut Report, &dyn Progress),
) -> Result<(Calls, Option<Calls>)> {
    if !whole {
        let calls = calls::count(origins, options, &tally(), report, progress)?;
        return Ok((calls, None));
    }
    // An export of nsys may have calls of its own, which have no steps, beside the log in it.
    let by_step = calls::count(origins, options, &by_step().tally(), report, progress)?;
    let mut silent = Report::new("", false, true).silent();
    let calls = calls::count(origins, options, &tally(), &mut silent, &Unseen)?;
    Ok((calls, Some(by_step)))
}

/// How long calls took, where a record has it.
fn durations(inputs: &Inputs, options: &Options, parts: &mut Parts) {
    const NONE: &str = "a log has no durations: NCCL Inspector, NCCL's profiler plugin, nsys or \
                        torch.profiler record them";
    if inputs.timed.is_empty() {
        parts.none(Of::Durations, NONE);
        return;
    }
    let of = ops::Options {
        time: true,
        ..ops::Options::default()
    };
    let mut silent = Report::new("", false, true).silent();
    let calls = calls::count(&inputs.timed, options, &of.tally(), &mut silent, &Unseen);
    let grid = calls.and_then(|calls| {
        crate::stages::timed::note(&calls, &silent)?;
        Ok(ops::times(&calls, &of).grid())
    });
    parts.add(Of::Durations, grid.map_err(|error| error.to_string()), NONE);
}

/// What GPUs did.
fn timelines(inputs: &Inputs, options: &Options, parts: &mut Parts, report: &mut Report) {
    if inputs.timelines.is_empty() {
        let none =
            "it needs a record of what GPUs did: an export of nsys or a trace of torch.profiler";
        parts.none(Of::Overlap, none);
        return;
    }
    let of = overlap::Options::default();
    let strict = options.log.strict;
    // They were reported on where calls were counted of them.
    let mut silent = Report::new("", false, true).silent();
    let report = if inputs.logs.is_empty() {
        &mut silent
    } else {
        report
    };
    let rows = overlap::read(&inputs.timelines, options.source, &of, strict, report);
    let grid = rows.map(|rows| overlap::grid(&rows, &of));
    let none = "the GPUs did nothing";
    parts.add(Of::Overlap, grid.map_err(|error| error.to_string()), none);
}

/// Who sends to whom: the calls that are counted, and the copies of GPUs. Of logs alone that is
/// `known`.
fn map(
    inputs: &Inputs,
    options: &Options,
    known: Option<Matrix>,
    parts: &mut Parts,
) -> (Vec<String>, Option<Plot>) {
    match known.map_or_else(|| of_all(inputs, options), Ok) {
        Ok(matrix) => {
            let map = matrix::picture::plot(&matrix, Unit::Bytes);
            let empty = "no input tells who sends to whom";
            parts.put(Of::Matrix, Ok(Table::Pairs(matrix)), empty);
            map
        }
        Err(error) => {
            parts.none(Of::Matrix, &error.to_string());
            (Vec::new(), None)
        }
    }
}

/// Who sends to whom, by all inputs.
///
/// # Errors
/// They cannot be read.
fn of_all(inputs: &Inputs, options: &Options) -> Result<Matrix> {
    let mut origins = inputs.counted().to_vec();
    let known = |origin: &&Origin| !inputs.counted().contains(origin);
    origins.extend(inputs.timelines.iter().filter(known).cloned());
    let of = matrix::Options::default();
    let mut silent = Report::new("", false, true).silent();
    matrix::matrix(&origins, options, &of, &mut silent, &Unseen)
}

/// Who comes late; `known` is what the walk found, if it was asked.
fn late(
    inputs: &Inputs,
    (options, is_stamped): (&Options, bool),
    known: Option<Result<Grid>>,
    parts: &mut Parts,
) {
    const NO_TIMES: &str = "the calls have no times: NCCL_DEBUG_TIMESTAMP_LEVELS=ALL (NCCL 2.26), or a \
                            record with times";
    let read = |origins: &[Origin]| {
        let mut silent = Report::new("", false, true).silent();
        let of = skew::Options::default();
        skew::skew(origins, options, &of, &mut silent, &Unseen)
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
            None => return parts.none(Of::Skew, NO_TIMES),
        },
    };
    let none = "no call is one of several ranks";
    parts.add(Of::Skew, grid.map_err(|error| error.to_string()), none);
}

/// What changed from another run to this one.
fn changes((origins, against): (&[Origin], &[Origin]), options: &Options, parts: &mut Parts) {
    if against.is_empty() {
        return;
    }
    let mut silent = Report::new("", false, true).silent();
    let mut side = |origins| diff::run::run(origins, options, None, &mut silent, &Unseen);
    let rows = side(against).and_then(|before| Ok((before, side(origins)?)));
    let grid = rows.map(|(before, now)| {
        let report = Report::new("", false, true).silent();
        diff::row::grid(&diff::diff(
            &before,
            &now,
            &diff::Options::default(),
            &report,
        ))
    });
    parts.add(
        Of::Changes,
        grid.map_err(|error| error.to_string()),
        "nothing changed",
    );
}
