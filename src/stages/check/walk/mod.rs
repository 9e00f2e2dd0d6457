//! One walk over all inputs that gathers what every check needs.
//!
//! Parts of chunks travel between machines: other machines may walk the chunks of the inputs and send
//! what they keep of them. One coordinator adds the parts in their order and judges the whole, since a
//! stream's hash runs over its calls in all inputs in their order.

use super::RecorderInputs;
use super::log::old_steps::{self, OldSteps};
use super::ranks::unnamed_communicators::{self, UnnamedComms};
use super::streams::CallStreams;
use super::streams::last_steps::LastCallSteps;
use super::streams::piped::{PipeRecord, PipeRecorder};
use super::warn::warnings::Warnings;
use crate::count::calls::{Options, Progress};
use crate::count::notes::report_step_notes;
use crate::error::{Error, Result};
use crate::formats::Provides;
use crate::formats::open::OpenInput;
use crate::log::timeline::{self, Checkpoint, LastStepsStart, LiveTimeline};
use crate::log::{LogState, MergedChunk};
use crate::members::MergedMembers;
use crate::members::duplicate_inputs::LikelyCopy;
use crate::members::jobs::SeparateJob;
use crate::output::render::Grid;
use crate::pool;
use crate::report::Report;
use crate::report::account::Account;
use crate::source::{Input, InputName, PipeSpool};
use crate::stages::communicators::{CommunicatorTotals, CommunicatorsSummary};
use crate::stages::net::{self, NetSummary};
use crate::stages::skew::walked::SkewLogs;
use crate::stages::survey::GapSums;
use crate::stages::tuning::tuning_stage::TuningStage as Tuning;
use crate::stages::{self, InputStage};
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

mod chunk_partial;
mod copies;
mod requested;
mod walked_input;

pub(crate) use chunk_partial::LineKindFlags;
pub(crate) use copies::DoubledInput;
pub(crate) use requested::{PageRequest, Requested, RequestedCalls};
pub(crate) use walked_input::WalkedInput;
use walked_input::{InputRemains, WalkedSteps};

use chunk_partial::CheckPartial;

/// Everything that was gathered.
pub(crate) struct CheckGathered {
    /// The inputs that could be read.
    pub(crate) inputs: Vec<WalkedInput>,
    /// Where their lines went.
    pub(crate) accounts: Vec<Account>,
    /// For each of them the processes with lines in it.
    pub(crate) processes: Vec<BTreeSet<u32>>,
    /// The inputs that may be part of another one.
    copies: Vec<LikelyCopy>,
    /// The jobs of the inputs, if there are several.
    pub(crate) separate: Vec<SeparateJob>,
    /// Transports, versions, settings.
    pub(crate) net: NetSummary,
    /// Communicators.
    pub(crate) found: CommunicatorsSummary,
    /// Those that no line names.
    pub(crate) untold: UnnamedComms,
    /// The ranks' calls.
    pub(crate) streams: CallStreams,
    /// The steps of the ranks' last calls, if a whole page was requested.
    pub(crate) last_steps: LastCallSteps,
    /// The inputs, to be read again.
    kept: Vec<Input>,
    /// What was kept of those that came through a pipe.
    pub(crate) piped: BTreeMap<u32, PipeRecord>,
    /// WARN lines and PyTorch's watchdog's.
    pub(crate) warnings: Warnings,
    /// What kinds of lines there are.
    pub(crate) lines: LineKindFlags,
    /// Which algorithm served which sizes, if requested.
    pub(crate) tuning: Option<Tuning>,
    /// The calls, if requested.
    pub(crate) counted: Option<RequestedCalls>,
    /// The lateness of ranks, if it was requested and all calls have time stamps, with what nccl-skew reports of it.
    pub(crate) late: Option<(Result<Grid>, Report)>,
    /// What nccl-ops reports of the calls by step.
    pub(crate) steps_report: Report,
}

impl CheckGathered {
    /// An input, to be read again.
    ///
    /// # Errors
    /// It can be read only once.
    pub(crate) fn open_input(&self, number: u32) -> Result<Input> {
        let kept = self.kept.get(number as usize).and_then(Input::share_input);
        kept.ok_or_else(|| Error::Content(format!("input {number} can be read only once")))
    }
}

/// Walks all `origins`, which must be logs; a pipe with a record of calls goes to `beside`.
///
/// # Errors
/// No input could be read, or is a log; damage under `--strict`.
pub(super) fn walk_inputs(
    origins: &[InputName],
    options: &Options,
    asked: Option<&Requested>,
    beside: &mut RecorderInputs,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<CheckGathered> {
    let tally = Requested::tally_options(asked);
    let mut stage = Gatherer::new(options, asked, origins.len());
    stage.beside = mem::take(beside);
    let is_piped = Arc::clone(&stage.is_piped);
    let new = || CheckPartial::new(&tally, asked, is_piped.load(Ordering::Relaxed));
    let merged = stages::read_stage(&mut stage, origins, options, report, progress, new)?;
    progress.finish();
    *beside = mem::take(&mut stage.beside);
    stage.check_output()?;
    Ok(stage.finish_gathering(&merged))
}

/// What was gathered so far.
struct Gatherer<'o> {
    options: &'o Options,
    beside: RecorderInputs,
    gathered: CommunicatorTotals,
    net: net::net_stage::NetStage,
    streams: CallStreams,
    warnings: Warnings,
    lines: LineKindFlags,
    /// The results of the current input.
    now: CurrentInput<'o>,
    /// True if the current input is a pipe.
    is_piped: Arc<AtomicBool>,
    piped: BTreeMap<u32, PipeRecord>,
    /// Whether the spool of a pipe could be written.
    failed: Result<()>,
    inputs: Vec<WalkedInput>,
    accounts: Vec<Account>,
    processes: Vec<BTreeSet<u32>>,
    kept: Vec<Input>,
    tuning: Option<Tuning>,
    times: Option<SkewLogs>,
    last_steps: Option<LastCallSteps>,
    asked: Option<&'o Requested>,
    steps_report: Report,
}

/// The results of the current input.
#[derive(Default)]
struct CurrentInput<'o> {
    number: u32,
    piping: Option<PipeRecorder<'o>>,
    sums: GapSums,
    speakers: BTreeSet<u32>,
    remains: InputRemains,
    /// Its steps so far, if old ones are dropped while it is read.
    growing: Option<LiveTimeline>,
    /// How many marks it had when it was last looked whether there are too many steps.
    looked: usize,
    old: OldSteps,
}

impl<'o> InputStage for Gatherer<'o> {
    const NEEDS: Provides = Provides::LINES;
    const SECOND_PASS: bool = true;
    const RELEASES_PIPE_LINES: bool = true;
    const TAKES_PIPED_RECORDS: bool = true;
    type Visit = CheckPartial;

    fn jobs_at_once() -> usize {
        0
    }

    fn begin_input(&mut self, name: String) {
        // An input is counted only if it can be read to its end.
        let number = u32::try_from(self.inputs.len()).unwrap_or(u32::MAX);
        self.net
            .begin_numbered_input(self.inputs.len(), name.clone());
        self.gathered.begin_input(name);
        if let Some(times) = &mut self.times {
            times.begin_input();
        }
        self.now = CurrentInput {
            number,
            ..CurrentInput::default()
        };
    }

    fn take_pipe_spool(&mut self, name: String, thin: PipeSpool) {
        self.is_piped.store(true, Ordering::Relaxed);
        let piping = PipeRecorder::new(name, thin, &self.streams, self.options);
        self.now.piping = Some(piping);
        // Other requests than findings may need all steps.
        self.now.growing = self.asked.is_none().then(LiveTimeline::default);
    }

    fn note_read_to(&mut self, bytes: u64, merged: &MergedMembers) {
        if let (Some(piping), Ok(())) = (&mut self.now.piping, &self.failed) {
            self.failed = piping.release_agreed_calls(bytes, &mut self.streams, merged);
        }
    }

    fn check_output(&mut self) -> Result<()> {
        mem::replace(&mut self.failed, Ok(()))
    }

    fn add_chunk(&mut self, part: MergedChunk<'_, CheckPartial>) {
        let (visit, part) = part.take_visit();
        let (to, merged) = (part.to, part.merged);
        let now = &mut self.now;
        let (number, line) = (now.number, part.line);
        self.lines
            .merge_kinds(visit.lines.shift_to_input(number, line));
        self.warnings
            .add_chunk(visit.warnings, &to.processes, number, line);
        now.remains
            .add_chunk(visit.remains, visit.benchmarks, number, line);
        now.speakers.extend(to.processes.iter().copied());
        self.gathered
            .add_chunk(part.with_visit(visit.communicators), &self.options.timeline);
        self.streams.add_chunk(visit.streams, to, merged, number);
        if let (Some(piping), Some(again)) = (&mut now.piping, visit.again) {
            let (calls, placed) = again;
            piping.add_chunk(calls, placed, &part, &self.streams);
        }
        now.sums.add_chunk(visit.sums, part.gap, to, merged);
        if let (Some(tuning), Some(own)) = (&mut self.tuning, visit.tuning) {
            tuning.add_chunk(part.with_visit(own));
        }
        if let (Some(times), Some(own)) = (&mut self.times, visit.times) {
            times.add_chunk(part.with_visit(own), self.options);
        }
        self.net.add_chunk(part.with_visit(visit.net));
        self.release_old_steps(&part);
    }

    fn end_input(
        &mut self,
        input: OpenInput<CheckPartial>,
        log: LogState,
        merged: &MergedMembers,
        _: &mut Report,
    ) {
        self.add_log(input.into_input(), log, merged);
    }

    fn add_other_input(
        &mut self,
        input: OpenInput<CheckPartial>,
        _: &mut MergedMembers,
        report: &mut Report,
        _: &dyn Progress,
    ) -> Result<()> {
        match input.recorder() {
            Some(recorder) => self
                .beside
                .add_recording(&input, recorder, self.options, report),
            None => Err(input.error_without_part("log lines")),
        }
    }
}

impl<'o> Gatherer<'o> {
    fn new(options: &'o Options, asked: Option<&'o Requested>, inputs: usize) -> Gatherer<'o> {
        let jobs = options.log.jobs;
        let gathered = CommunicatorTotals::new(&Requested::tally_options(asked), inputs, jobs);
        Gatherer {
            options,
            beside: RecorderInputs::default(),
            gathered: match asked.and_then(|asked| asked.whole.as_ref()) {
                Some(whole) => gathered.with_steps(&whole.by_step),
                None => gathered,
            },
            net: net::net_stage::NetStage::default(),
            streams: CallStreams::default(),
            warnings: Warnings::default(),
            lines: LineKindFlags::default(),
            now: CurrentInput::default(),
            is_piped: Arc::default(),
            piped: BTreeMap::new(),
            failed: Ok(()),
            inputs: Vec::new(),
            accounts: Vec::new(),
            processes: Vec::new(),
            kept: Vec::new(),
            tuning: asked.map(|_| Tuning::default()),
            times: Requested::skew_placement(asked)
                .map(|places| SkewLogs::new(inputs, places, jobs)),
            last_steps: asked
                .and_then(|asked| asked.whole.as_ref())
                .map(|_| LastCallSteps::default()),
            asked,
            steps_report: Report::of_section(),
        }
    }

    /// Drops steps of a pipe that nothing uses any more, once in a while.
    fn release_old_steps(&mut self, part: &MergedChunk<'_, ()>) {
        let now = &mut self.now;
        let Some((log, _)) = part.so_far else { return };
        let Some(growing) = &mut now.growing else {
            return;
        };
        let (marks, kept) = (part.marks, old_steps::max_steps_kept());
        // There are no more steps than marks. Counting them takes a while, so it is done once per
        // this many marks.
        let more = kept / 4;
        if marks.len() < (now.looked + more).max(marks.forgotten_count() + kept + more) {
            return;
        }
        now.looked = marks.len();
        let timeline = log.update_growing_timeline(growing, &self.options.timeline);
        let Some((since, settled)) = now.old.steps_to_drop(timeline) else {
            return;
        };
        let turn = Checkpoint {
            gap: settled,
            before: None,
        };
        if let Some(piping) = &mut now.piping {
            piping.drop_steps_before_gap(turn, since.gap, part);
        }
        let lines = now.old.step_end_lines(since, timeline, marks);
        self.warnings.ends.add_old_step_lines(now.number, &lines);
        let sums = &mut now.sums;
        now.old
            .drop_steps(since, timeline, marks, sums, part.merged);
        let gap = u32::try_from(since.gap).unwrap_or(u32::MAX);
        growing.forget_until(gap);
        log.forget_gaps_until(gap);
    }

    /// A log is read to its end.
    fn add_log(&mut self, input: Input, mut log: LogState, merged: &MergedMembers) {
        let CurrentInput {
            number,
            piping,
            mut sums,
            speakers,
            remains,
            growing,
            mut old,
            ..
        } = mem::take(&mut self.now);
        self.is_piped.store(false, Ordering::Relaxed);
        let options = &self.options.timeline;
        let mut timeline = log.build_final_timeline(&mut growing.unwrap_or_default(), options);
        match piping.map(|piping| piping.finish_pipe(number, &timeline, merged)) {
            Some(Ok(piped)) => drop(self.piped.insert(number, piped)),
            Some(Err(error)) => self.failed = Err(error),
            None => {}
        }
        let as_printed = || timeline::Options {
            as_printed: true,
            ..options.clone()
        };
        let printed = self.asked.map(|_| log.build_timeline(&as_printed()).steps);
        let printed = printed.into_iter().flatten().collect();
        let placed = self.gathered.end_input(&timeline, merged, None);
        self.steps_report.add_placements(placed.1.methods);
        report_step_notes(&input.name(), &timeline, &self.steps_report);
        if let Some(last_steps) = &mut self.last_steps {
            last_steps.add_input(number, &speakers, &placed, &timeline);
        }
        if let Some(times) = &mut self.times {
            times.end_input(placed, &timeline, merged);
        }
        if let Some(since) = timeline.start_of_last(old_steps::max_steps_kept()) {
            let marks = log.marks.as_slice();
            let lines = old.step_end_lines(since, &timeline, marks);
            self.warnings.ends.add_old_step_lines(number, &lines);
            old.drop_steps(since, &timeline, marks, &mut sums, merged);
        }
        let end = LastStepsStart {
            step: timeline.steps.len(),
            gap: log.marks.len(),
        };
        let lines = old.step_end_lines(end, &timeline, log.marks.as_slice());
        self.warnings.ends.add_step_lines(number, lines);
        if old.since.step > 0 {
            let later = timeline.steps.slice(old.since.step..end.step).iter();
            let all = later.map(|step| step.steps);
            self.gathered
                .note_steps(all.fold(old.steps, u64::saturating_add));
            timeline = timeline.last_steps(old.since);
            sums.renumber_from(old.since.gap);
        }
        self.warnings.ends.add_takeovers(
            number,
            &speakers,
            log.begins.iter().map(|begin| begin.at),
        );
        let steps = WalkedSteps {
            old,
            timeline,
            printed,
        };
        let (name, printer) = (input.name(), self.options.timeline.printer);
        let walked = WalkedInput::from_log(name, &mut log, steps, sums, remains, merged, printer);
        self.inputs.push(WalkedInput {
            calls: self.streams.count_calls_of_input(number),
            ..walked
        });
        self.accounts.push(log.account);
        self.processes.push(speakers);
        self.kept.push(input.release_map());
    }

    /// All inputs are read.
    fn finish_gathering(mut self, merged: &MergedMembers) -> CheckGathered {
        self.streams.order_alarms();
        self.warnings.resolve_aliases(&merged.process_aliases());
        let placed = self.gathered.take_rest(merged, None);
        if let Some(placed) = &placed {
            self.steps_report.add_placements(placed.methods);
        }
        if let (Some(last_steps), Some(placed)) = (&mut self.last_steps, &placed) {
            last_steps.add_held(placed, &self.processes);
        }
        let late_report = Report::of_section();
        let late = self
            .times
            .and_then(|times| times.build_grid(merged, placed, &late_report))
            .map(|late| (late, late_report));
        let jobs = self.options.log.jobs;
        let asked = self.asked;
        let counted = asked.map(|asked| asked.count_calls(&mut self.gathered, merged, jobs));
        let (gathered, tuning, net) = (self.gathered, &mut self.tuning, self.net);
        let end_lines = || {
            if let Some(tuning) = tuning {
                tuning.end_lines(merged);
            }
            NetSummary::from_stage(net, merged)
        };
        let (mut found, net) = pool::run_both(jobs, || gathered.finish(merged), end_lines);
        CheckGathered {
            net,
            untold: unnamed_communicators::group_unnamed_communicators(&mut found),
            found,
            inputs: self.inputs,
            accounts: self.accounts,
            processes: self.processes,
            copies: merged.twice.likely_copies().to_vec(),
            separate: merged.find_separate_jobs(),
            streams: self.streams,
            last_steps: self.last_steps.unwrap_or_default(),
            kept: self.kept,
            piped: self.piped,
            warnings: self.warnings,
            lines: self.lines,
            tuning: self.tuning,
            counted,
            late,
            steps_report: self.steps_report,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::mend::blocks::BLOCK_REJOINER;
    use crate::stages::check::{self, judge_gathered};
    use crate::stages::pieces::{JOBS, read_apart};
    use crate::testing::options;
    use proptest::prelude::*;

    /// Returns the findings of `files`, each walked in this many pieces. They are in a folder, to
    /// be read again.
    fn found(folder: &std::path::Path, files: &[Vec<u8>], pieces: usize) -> String {
        let read = options(1, false);
        let tally = stages::communicators::tally_options(false);
        let mut stage = Gatherer::new(&read, None, files.len());
        let end = |stage: &mut Gatherer<'_>, at: usize, log: LogState, merged: &MergedMembers| {
            let origin = InputName::Path(folder.join(at.to_string()));
            let input = Input::open(&origin, read.source, BLOCK_REJOINER).unwrap();
            stage.add_log(input.make_rewindable().unwrap(), log, merged);
        };
        let merged = read_apart(
            &mut stage,
            files,
            pieces,
            || CheckPartial::new(&tally, None, false),
            end,
        );
        let mut report = Report::new("a", false, true);
        let checked = judge_gathered(
            &stage.finish_gathering(&merged),
            RecorderInputs::default(),
            &read,
            check::JobLiveness::Unknown,
            &mut report,
        );
        format!("{:#?}", checked.unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        /// Streams, warnings, facts and communicators of all files, walked elsewhere.
        #[test]
        fn chunks_walked_elsewhere_give_the_findings_of_one_run(
            job in 0..JOBS.len(),
            pieces in 2..8_usize,
        ) {
            let (folder, files) = (tempfile::tempdir().unwrap(), &JOBS[job]);
            for (at, text) in files.iter().enumerate() {
                std::fs::write(folder.path().join(at.to_string()), text).unwrap();
            }
            let whole = found(folder.path(), files, 1);
            prop_assert!(job == 0 || whole.contains("severity: Error"), "{job}");
            prop_assert_eq!(found(folder.path(), files, pieces), whole);
        }
    }
}
