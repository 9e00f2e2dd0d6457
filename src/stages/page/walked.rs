//! Takes the tables of nccl-check's walk, which also gathers for other stages.

use super::gather::{PageCalls, PageGatherer, by_step_options, tally_options};
use super::series::StepSeries;
use super::{PageFinding, PageSection, job, last_calls};
use crate::error::Result;
use crate::output::render::Grid;
use crate::pool;
use crate::report::Report;
use crate::stages::check::answer::coverage::StampCoverage;
use crate::stages::check::answer::headline::JobAnswer;
use crate::stages::check::answer::table as answers;
use crate::stages::check::walk::{CheckGathered, PageRequest, Requested};
use crate::stages::check::{self, CheckSummary, JobLiveness};
use crate::stages::matrix::cells::TrafficMatrix;
use crate::stages::tuning::table as choices;
use crate::stages::{communicators, matrix, net, timing};
use std::collections::BTreeSet;

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
        let (checked, mut seen) = check::check_and_keep_gathered(
            std::mem::take(&mut self.inputs.checked),
            self.order.options,
            JobLiveness::Unknown,
            Some(&asked),
            report,
            self.progress,
        )?;
        let matrix = self.draw_calls(&mut seen, &checked);
        // Communicators united by counting are a finding's reason; the tables show those of the lines.
        seen.found.undo_unions();
        // A text that also has stacks is an input twice.
        let (mut known, names) = (BTreeSet::new(), checked.inputs.iter());
        self.page.inputs = names.filter(|&name| known.insert(name)).cloned().collect();
        let steps = seen.inputs.iter().flat_map(|input| &input.printed).cloned();
        self.page.steps = StepSeries::from_steps(steps.collect());
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
                self.add_line_tables(&seen);
            }
            false => self.leave_out_lines(),
        }
        let findings = answers::findings_grid(&checked);
        self.sections
            .add_grid(PageSection::Findings, Ok(findings), self.page.verdict);
        let questions = answers::coverage_grid(&checked);
        self.sections
            .add_grid(PageSection::Questions, Ok(questions), "");
        self.take_walked(checked.known.stamps == StampCoverage::All, seen, matrix)
    }

    /// Gathers the last calls of the ranks for a picture, and beside it builds the matrix of all calls.
    fn draw_calls(
        &mut self,
        seen: &mut CheckGathered,
        checked: &CheckSummary,
    ) -> Option<(TrafficMatrix, Report)> {
        let (calls, sides) = seen.counted.as_mut()?.pairs.take()?;
        let (seen, inputs) = (&*seen, &self.inputs);
        // The walk counts all calls.
        let is_of_all = inputs.are_logs() && self.order.filter.is_empty();
        let tuning = seen.tuning.as_ref().filter(|_| is_of_all);
        let build_matrix = || {
            let sources = matrix::TrafficSources {
                calls: &calls,
                sides,
                processes: seen.found.processes.clone(),
                net: &seen.net,
                tuning: tuning?,
            };
            let own = Report::of_section();
            let matrix = matrix::build_matrix(sources, &matrix::Options::default(), &own);
            Some((matrix, own))
        };
        let jobs = self.order.options.log.jobs;
        let gather = || last_calls::gather_last_calls(seen, &calls, checked);
        let (last, matrix) = pool::run_both(jobs, gather, build_matrix);
        self.page.last_calls = last;
        matrix
    }

    /// Takes the walk's calls, with what their stages report.
    fn take_walked(
        &mut self,
        is_stamped: bool,
        mut seen: CheckGathered,
        matrix: Option<(TrafficMatrix, Report)>,
    ) -> Result<WalkedFacts> {
        let mut walked = WalkedFacts {
            is_stamped,
            ..WalkedFacts::default()
        };
        // The walk counts all calls.
        if !self.order.filter.is_empty() {
            return Ok(walked);
        }
        walked.late = seen.late.take().map(|late| (late, seen.late_report));
        let Some(counted) = seen.counted.take() else {
            return Ok(walked);
        };
        if counted.by_step.is_some() && !self.inputs.logs.is_empty() {
            self.sections
                .report
                .absorb(PageSection::StepCalls.key(), &seen.steps_report);
        }
        walked.calls = Some(PageCalls {
            all: counted.calls,
            by_step: counted.by_step,
        });
        walked.matrix = matrix;
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

    /// Adds the tables that only lines have.
    fn add_line_tables(&mut self, seen: &CheckGathered) {
        let sections = &mut self.sections;
        let facts = net::table::build_net_grid(&seen.net, &net::table::Options::default());
        let none = "no line has a network, a version or a setting";
        sections.add_grid(PageSection::Net, Ok(facts), none);
        let steps = &self.page.steps.list;
        let none = "the log has no step lines of a trainer";
        match steps.is_empty() {
            true => sections.leave_out(&[PageSection::Timing, PageSection::Steps], none),
            false => {
                let all = timing::summarise_steps(steps);
                sections.add_grid(PageSection::Timing, Ok(all), none);
                let each = timing::grid_per_step(steps);
                sections.add_grid(PageSection::Steps, Ok(each), none);
            }
        }
        let none = "no line names a communicator: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL";
        let communicators = communicators::build_communicator_grid(&seen.found);
        sections.add_grid(PageSection::Communicators, Ok(communicators), none);
        let members = communicators::build_member_grid(&seen.found);
        sections.add_grid(PageSection::Members, Ok(members), none);
        let none = "the log has no TUNING lines: NCCL_DEBUG_SUBSYS=INIT,COLL,TUNING on rank 0";
        let of = choices::Options::default();
        let tuning = seen.tuning.as_ref();
        let tuning = tuning.map(|all| choices::build_crossover_grid(all, &of));
        sections.add_grid(PageSection::Tuning, Ok(tuning.unwrap_or_default()), none);
    }
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
