//! Takes the tables of nccl-check's walk, which also gathers for other stages.

use super::gather::{PageCalls, PageGatherer, by_step_options, tally_options};
use super::series::StepSeries;
use super::{PageFinding, PageSection, job, last_calls};
use crate::count::calls::CountedCalls;
use crate::error::Result;
use crate::log::timeline::TrainStep;
use crate::output::render::Grid;
use crate::pool;
use crate::report::Report;
use crate::stages::check::answer::coverage::StampCoverage;
use crate::stages::check::answer::headline::JobAnswer;
use crate::stages::check::answer::table as answers;
use crate::stages::check::walk::{CheckGathered, PageRequest, Requested};
use crate::stages::check::{self, CheckSummary, JobLiveness};
use crate::stages::communicators::CommunicatorSide;
use crate::stages::matrix::cells::TrafficMatrix;
use crate::stages::tuning::table as choices;
use crate::stages::{communicators, matrix, net, timing};

/// Results of nccl-check's walk that other sections use.
#[derive(Default)]
pub(super) struct WalkedFacts {
    /// All calls have time stamps.
    pub(super) is_stamped: bool,
    /// The calls of logs.
    pub(super) calls: Option<PageCalls>,
    /// The traffic by logs.
    pub(super) matrix: Option<(TrafficMatrix, Report)>,
    /// The late ranks by logs alone.
    pub(super) late: Option<(Result<Grid>, Report)>,
}

const NO_LOG_REASON: &str = "it needs an NCCL log, and only other records were given";

impl PageGatherer<'_> {
    /// Runs nccl-check's walk.
    pub(super) fn run_check(&mut self) -> Result<WalkedFacts> {
        if self.inputs.checked.is_empty() {
            self.leave_out_lines();
            self.page.answer = JobAnswer::of_records();
            let of_check = [PageSection::Findings, PageSection::Questions];
            self.sections.leave_out(&of_check, NO_LOG_REASON);
            return Ok(WalkedFacts::default());
        }
        let asked = Requested {
            calls: tally_options(),
            whole: self.order.whole.then(|| PageRequest {
                by_step: by_step_options().tally(),
            }),
            late: self.inputs.are_walked(),
        };
        let report = &mut *self.sections.report;
        let (options, progress) = (self.order.options, self.progress);
        let logs = std::mem::take(&mut self.inputs.checked);
        let (mut seen, beside) =
            check::gather_for_check(logs, options, Some(&asked), report, progress)?;
        let pairs = seen.counted.as_mut().and_then(|of| of.pairs.take());
        let (pairs, sides) = pairs.unzip();
        // The walk counts all calls.
        let is_of_all = self.order.filter.is_empty();
        let are_logs = self.inputs.are_logs() && is_of_all;
        let judge = || check::judge_gathered(&seen, beside, options, JobLiveness::Unknown, report);
        let counted = seen.counted.as_ref();
        let counted = counted.filter(|_| is_of_all && !self.inputs.logs.is_empty());
        let count = || {
            let calls = counted.map(|counted| PageCalls::tabulate_calls(&counted.calls));
            let pairs = pairs.as_ref().filter(|_| are_logs);
            (calls, build_matrix(&seen, pairs.zip(sides)))
        };
        let jobs = options.log.jobs;
        let (checked, (calls, matrix)) = pool::run_both(jobs, judge, count);
        let checked = checked?;
        let steps = seen.inputs.iter().flat_map(|input| &input.printed).cloned();
        let steps: Vec<TrainStep> = steps.collect();
        let draw = || last_calls::gather_last_calls(&seen, pairs.as_ref()?, &checked);
        let (last, grids) = pool::run_both(jobs, draw, || build_line_grids(&seen, &steps));
        self.page.last_calls = last;
        self.page.inputs.clone_from(&checked.inputs);
        self.page.steps = StepSeries::from_steps(steps);
        self.page.is_benchmark = seen.inputs.iter().any(|input| !input.benchmarks.is_empty());
        let findings = checked.findings.iter();
        self.page.findings = findings.map(|f| build_finding(f, &checked)).collect();
        self.page.compared = Some(answers::describe_compared(&checked));
        self.page.verdict = checked.clean_verdict();
        self.page.answer = checked.answer();
        self.page.judged = checked.judged.list_parts();
        match self.inputs.has_lines() {
            true => {
                self.page.job = job::job_facts(&checked, &seen);
                for (of, grid, none) in grids {
                    self.sections.add_grid(of, Ok(grid), none);
                }
            }
            false => self.leave_out_lines(),
        }
        let findings = answers::findings_grid(&checked);
        self.sections
            .add_grid(PageSection::Findings, Ok(findings), self.page.verdict);
        let questions = answers::coverage_grid(&checked);
        self.sections
            .add_grid(PageSection::Questions, Ok(questions), "");
        self.take_walked(
            checked.known.stamps == StampCoverage::All,
            seen,
            matrix,
            calls,
        )
    }

    /// Takes the walk's calls, with what their stages report.
    fn take_walked(
        &mut self,
        is_stamped: bool,
        mut seen: CheckGathered,
        matrix: Option<(TrafficMatrix, Report)>,
        calls: Option<PageCalls>,
    ) -> Result<WalkedFacts> {
        let mut walked = WalkedFacts {
            is_stamped,
            ..WalkedFacts::default()
        };
        // The walk counts all calls.
        if !self.order.filter.is_empty() {
            return Ok(walked);
        }
        walked.late = seen.late.take();
        let Some(counted) = seen.counted.take() else {
            return Ok(walked);
        };
        if counted.by_step.is_some() && !self.inputs.logs.is_empty() {
            self.sections
                .report
                .absorb(PageSection::StepCalls.key(), &seen.steps_report);
        }
        walked.calls = calls.map(|calls| calls.with_steps(counted.by_step));
        walked.matrix = matrix;
        self.page.rest = Some(Box::new(seen));
        Ok(walked)
    }

    /// Leaves out the tables that only lines have.
    fn leave_out_lines(&mut self) {
        let of_lines = [
            PageSection::Net,
            PageSection::Timing,
            PageSection::Steps,
            PageSection::Communicators,
            PageSection::Members,
            PageSection::Tuning,
        ];
        self.sections.leave_out(&of_lines, NO_LOG_REASON);
    }
}

/// A table that only lines have, and the reason of one without rows.
type LineGrid = (PageSection, Grid, &'static str);

/// Builds the tables that only lines have.
fn build_line_grids(seen: &CheckGathered, steps: &[TrainStep]) -> [LineGrid; 6] {
    let of_steps = |build: fn(&[TrainStep]) -> Grid| match steps.is_empty() {
        true => Grid::default(),
        false => build(steps),
    };
    let tuning = seen.tuning.as_ref();
    let tuning = tuning.map(|all| choices::build_crossover_grid(all, &choices::Options::default()));
    let facts = net::table::build_net_grid(&seen.net, &net::table::Options::default());
    // Communicators united by counting are a finding's reason; the tables show those of the lines.
    let found = seen.found.without_unions();
    let no_communicators =
        "no line names a communicator: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL";
    let no_steps = "the log has no step lines of a trainer";
    let no_tuning = "the log has no TUNING lines: NCCL_DEBUG_SUBSYS=INIT,COLL,TUNING on rank 0";
    [
        (
            PageSection::Net,
            facts,
            "no line has a network, a version or a setting",
        ),
        (
            PageSection::Timing,
            of_steps(timing::summarise_steps),
            no_steps,
        ),
        (
            PageSection::Steps,
            of_steps(timing::grid_per_step),
            no_steps,
        ),
        (PageSection::Tuning, tuning.unwrap_or_default(), no_tuning),
        (
            PageSection::Communicators,
            communicators::build_communicator_grid(&found),
            no_communicators,
        ),
        (
            PageSection::Members,
            communicators::build_member_grid(&found),
            no_communicators,
        ),
    ]
}

/// Builds the matrix of all calls, with what its stage reports.
fn build_matrix(
    seen: &CheckGathered,
    calls: Option<(&CountedCalls, Vec<CommunicatorSide>)>,
) -> Option<(TrafficMatrix, Report)> {
    let (calls, sides) = calls?;
    let sources = matrix::TrafficSources {
        calls,
        sides,
        processes: seen.found.processes.clone(),
        net: &seen.net,
        tuning: seen.tuning.as_ref()?,
    };
    let own = Report::of_section();
    let matrix = matrix::build_matrix(sources, &matrix::Options::default(), &own);
    Some((matrix, own))
}

/// A finding with its lines.
fn build_finding(finding: &check::finding::Finding, checked: &CheckSummary) -> PageFinding {
    let line = |evidence| {
        let (name, line) = answers::evidence_place(checked, evidence);
        let line = line.map_or(String::new(), |line| format!(":{line}"));
        let shown = evidence.text.as_deref().unwrap_or_default();
        let shown = String::from_utf8_lossy(shown).into_owned();
        (format!("{name}{line}"), shown)
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
