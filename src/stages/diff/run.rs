//! A run: everything that is compared, from one walk over each input.

use super::benchmarks::BenchmarkRows;
use super::counts::{DiffCall, DiffStep, RunCounts};
use super::whole_steps::{counted_steps, table_steps};
use crate::count::calls::{CountedCalls, Options as Read, Progress};
use crate::count::filtered::CountFilter;
use crate::count::notes;
use crate::count::tally;
use crate::count::tally::{CallKey, SortBuffer, UNKNOWN_SIZE};
use crate::error::Result;
use crate::filter::{CallFilter, FilterPart};
use crate::formats::Provides;
use crate::formats::lines::RowVisitor;
use crate::formats::open::OpenInput;
use crate::log::placement::PlacementMethods;
use crate::log::propose;
use crate::log::timeline::{self, PresentSteps, StepTimeline, StepWindow};
use crate::log::{LogState, MergedChunk};
use crate::members::OpInterner;
use crate::members::{MergedMembers, SpeakerProcess};
use crate::output::table::Row;
use crate::report::Report;
use crate::source::InputName;
use crate::stages::communicators::{self, CommunicatorsSummary};
use crate::stages::hist::{self, bucket_of_size};
use crate::stages::net::NetSummary;
use crate::stages::run_snapshot::{RunSnapshot, SnapshotPartial, empty_partial};
use crate::stages::tuning::tuning_stage::TuningStage as Tuning;
use crate::stages::{self, InputStage};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;

/// A run.
#[derive(Debug)]
pub struct DiffRun {
    pub(super) counts: RunCounts,
    /// It has calls, whether or not any passes the filter.
    pub(super) has_calls: bool,
    pub(super) found: CommunicatorsSummary,
    pub(super) net: NetSummary,
    pub(super) tuning: Tuning,
    /// Trainers that printed step lines.
    pub(super) trainers: BTreeSet<&'static str>,
    /// Seconds of the steps.
    pub(super) times: Vec<f64>,
    /// Their TFLOP/s per GPU.
    pub(super) tflops: Vec<f64>,
    /// An input has only one step, which includes everything before it.
    pub(super) start_counts: bool,
    /// Calls of inputs without steps.
    pub(super) without_steps: u64,
    /// Rows of nccl-tests' tables.
    pub(super) benchmarks: BenchmarkRows,
}

/// Reads a run's `origins`; the steps of `window` count, or else all whole steps, and of the calls those that pass
/// `filter`.
///
/// # Errors
/// No input could be read, the window is not there, damage under `--strict`; the filter needs a column that is not counted.
pub fn read_run(
    origins: &[InputName],
    read: &Read,
    window: Option<StepWindow>,
    filter: &CallFilter,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<DiffRun> {
    let wanted = communicators::tally_options(true);
    let count_filter = CountFilter::new(filter, &wanted)?;
    let tally = count_filter.tally();
    let mut gather = RunGatherer::new(read, window, filter, &count_filter, origins.len());
    let new = || empty_partial(tally);
    let merged = stages::read_stage(&mut gather, origins, read, report, progress, new)?;
    if let Some(window) = &window {
        let missing = |text| {
            propose::reopened_missing_steps_error(text, &gather.present, origins, read.source)
        };
        gather.present.check_window(window).map_err(missing)?;
    }
    gather.add_remaining(&merged);
    report.add_placements(gather.methods);
    mem::take(&mut gather.part).report(filter, report);
    let run = gather.finish(&merged);
    run.net.note_hidden(report);
    Ok(run)
}

struct RunGatherer<'o> {
    read: &'o Read,
    filter: &'o CallFilter,
    count_filter: &'o CountFilter<'o>,
    /// The calls by the filter.
    part: FilterPart,
    window: Option<StepWindow>,
    kept: RunSnapshot,
    edges: Vec<u128>,
    /// Calls by merged member.
    calls: SortBuffer<(), CallKey>,
    counts: RunCounts,
    has_calls: bool,
    present: PresentSteps,
    /// Steps of the log with the most.
    steps: u64,
    trainers: BTreeSet<&'static str>,
    times: Vec<f64>,
    tflops: Vec<f64>,
    start_counts: bool,
    without_steps: u64,
    benchmarks: BenchmarkRows,
    methods: PlacementMethods,
}

impl InputStage for RunGatherer<'_> {
    const NEEDS: Provides = Provides::CALLS;
    type Visit = SnapshotPartial;

    fn jobs_at_once() -> usize {
        2
    }

    fn begin_input(&mut self, name: String) {
        self.kept.begin_log(name);
    }

    fn add_chunk(&mut self, part: MergedChunk<'_, SnapshotPartial>) {
        self.kept.add_chunk(part, &self.read.timeline);
    }

    fn end_input(
        &mut self,
        input: OpenInput<SnapshotPartial>,
        log: LogState,
        merged: &MergedMembers,
        report: &mut Report,
    ) {
        self.add_log(&log, &input.name(), merged, report);
    }
    /// Counts the calls of a call table.
    fn add_other_input(
        &mut self,
        input: OpenInput<SnapshotPartial>,
        merged: &mut MergedMembers,
        report: &mut Report,
        progress: &dyn Progress,
    ) -> Result<()> {
        let mut stepped: BTreeMap<(u64, DiffCall), tally::CallVolume> = BTreeMap::new();
        let mut numbers: BTreeSet<u64> = BTreeSet::new();
        let (ops, counts, edges) = (&mut self.kept.tally.ops, &mut self.counts, &self.edges);
        let (filter, part) = (self.filter, &mut self.part);
        let account = input.read_records(
            (&self.read.log).into(),
            &mut merged.twice,
            || TableCounts::new(edges, filter),
            |bytes| progress.advance(bytes),
            |rows| {
                part.merge(rows.part);
                let of_op: Vec<u32> = rows.ops.op_names().map(|name| ops.intern(name).0).collect();
                for ((step, call), value) in rows.calls {
                    let op = of_op[call.op as usize];
                    let call = DiffCall { op, ..call };
                    counts.add_calls(call, &value);
                    if let Some(step) = step {
                        numbers.insert(step);
                        stepped.entry((step, call)).or_default().merge(&value);
                    }
                }
                Ok(())
            },
        )?;
        report.report_input(&input.name(), &account);
        self.has_calls |= account.calls > 0;
        if numbers.is_empty() {
            self.without_steps = self.without_steps.saturating_add(account.calls);
        }
        numbers
            .iter()
            .for_each(|&step| self.present.add_step(step, 1));
        let (steps, with_start) = table_steps(&numbers, self.window);
        self.start_counts |= with_start;
        let at: BTreeMap<u64, usize> = steps.iter().map(|s| s.step).zip(0..).collect();
        let mut calls: SortBuffer<usize, DiffCall> = SortBuffer::default();
        for ((step, call), value) in stepped {
            if let Some(&at) = at.get(&step) {
                calls.push(at, call, value);
            }
        }
        self.counts.add_step_calls(&steps, calls);
        Ok(())
    }
}

impl<'o> RunGatherer<'o> {
    /// Makes an empty run of `inputs` inputs.
    fn new(
        read: &'o Read,
        window: Option<StepWindow>,
        filter: &'o CallFilter,
        count_filter: &'o CountFilter<'o>,
        inputs: usize,
    ) -> RunGatherer<'o> {
        let tally = count_filter.tally().clone();
        RunGatherer {
            read,
            filter,
            count_filter,
            part: FilterPart::default(),
            window,
            kept: RunSnapshot::new(tally, inputs, read.log.jobs),
            edges: hist::Options::default().edges,
            calls: SortBuffer::default(),
            counts: RunCounts::default(),
            has_calls: false,
            present: PresentSteps::default(),
            steps: 0,
            trainers: BTreeSet::new(),
            times: Vec::new(),
            tflops: Vec::new(),
            start_counts: false,
            without_steps: 0,
            benchmarks: BenchmarkRows::default(),
            methods: PlacementMethods::default(),
        }
    }

    /// Adds a log that is read to its end.
    fn add_log(&mut self, log: &LogState, name: &str, merged: &MergedMembers, report: &Report) {
        let tables = mem::take(&mut self.kept.benchmarks).finish();
        self.benchmarks.add_tables(tables);
        let timeline = log.build_timeline(&self.read.timeline);
        let methods = self.kept.tally.place_input(&timeline, merged, |_| true);
        self.methods.add_counts(methods);
        self.without_steps = self.without_steps.saturating_add(methods.without);
        self.trainers
            .extend(timeline.trainer.map(|trainer| trainer.name()));
        self.present.add_timeline(&timeline);
        let steps = timeline.steps.iter().map(|s| s.steps);
        self.steps = self.steps.max(steps.fold(0, u64::saturating_add));
        self.add_step_values(log, name, report);
        self.add_stepped(&timeline, merged);
    }

    /// Counts the calls that were held until all inputs were read.
    fn add_remaining(&mut self, merged: &MergedMembers) {
        if let Some((timeline, methods)) = self.kept.tally.count_held(merged, |_, _| true) {
            self.methods.add_counts(methods);
            self.without_steps = self.without_steps.saturating_add(methods.without);
            self.add_stepped(&timeline, merged);
        }
    }

    /// Adds the values of the step lines.
    fn add_step_values(&mut self, log: &LogState, name: &str, report: &Report) {
        // Values belong to the printed step, even if the line comes late.
        let as_printed = timeline::Options {
            as_printed: true,
            ..self.read.timeline.clone()
        };
        let timeline = log.build_timeline(&as_printed);
        notes::report_time_notes(name, &timeline, report);
        let inside =
            |step: &&timeline::TrainStep| self.window.is_none_or(|w| w.contains(step.step));
        for step in timeline.steps.iter().filter(inside) {
            self.times.extend(step.time_s);
            self.tflops.extend(step.tflops);
        }
    }

    /// Counts the calls of a log that is read to its end.
    fn add_stepped(&mut self, timeline: &StepTimeline, merged: &MergedMembers) {
        let (wanted, with_start) = counted_steps(timeline, self.window, self.read.timeline.marker);
        self.start_counts |= with_start;
        let mut at: BTreeMap<u32, usize> = BTreeMap::new();
        let mut steps = Vec::new();
        for &index in &wanted {
            let step = &timeline.steps.remaining()[index as usize];
            at.insert(index, steps.len());
            steps.push(DiffStep {
                segment: step.segment,
                step: step.step,
                steps: step.steps,
            });
        }
        let mut stepped: SortBuffer<usize, DiffCall> = SortBuffer::default();
        let (counts, all, edges) = (&mut self.counts, &mut self.calls, &self.edges);
        let (filter, part, has_calls) = (self.count_filter, &mut self.part, &mut self.has_calls);
        let is_filtered = !self.filter.is_empty();
        let names = is_filtered
            .then(|| CountedCalls::of_names(filter.tally(), merged, &self.kept.tally.ops));
        self.kept.tally.drain_wanted(
            |_| true,
            |gap, key, value| {
                let step = match timeline.gaps.get(gap) {
                    Some(timeline::GapKind::Step(index)) => Some(index),
                    _ => None,
                };
                let number = |index: &u32| timeline.steps.remaining()[*index as usize].step;
                let (key, passes) = names.as_ref().map_or((key, true), |names| {
                    filter.judge_key(names, step.map(number), &key, value.calls, part)
                });
                // What a communicator is for follows from all its calls.
                all.push((), key, value);
                *has_calls = true;
                if !passes {
                    return;
                }
                let call = DiffCall {
                    member: key.member,
                    op: key.op,
                    datatype: key.datatype,
                    bucket: bucket_of_size(edges, key.size),
                };
                counts.add_calls(call, &value);
                if let Some(&at) = step.and_then(|index| at.get(index)) {
                    stepped.push(at, call, value);
                }
            },
        );
        self.counts.add_step_calls(&steps, stepped);
    }

    fn finish(mut self, merged: &MergedMembers) -> DiffRun {
        self.kept.tuning.end_lines(merged);
        let net = NetSummary::from_stage(self.kept.net, merged);
        let ops = self.kept.tally.ops;
        let found = communicators::build_communicators(
            self.kept.sides,
            self.calls,
            merged,
            ops,
            self.steps,
        );
        DiffRun {
            counts: self.counts,
            has_calls: self.has_calls,
            found,
            net,
            tuning: self.kept.tuning,
            trainers: self.trainers,
            times: self.times,
            tflops: self.tflops,
            start_counts: self.start_counts,
            without_steps: self.without_steps,
            benchmarks: self.benchmarks,
        }
    }
}

/// Calls of a part of a call table.
struct TableCounts<'o> {
    edges: &'o [u128],
    filter: &'o CallFilter,
    part: FilterPart,
    ops: OpInterner,
    calls: FxHashMap<(Option<u64>, DiffCall), tally::CallVolume>,
}

impl<'o> TableCounts<'o> {
    fn new(edges: &'o [u128], filter: &'o CallFilter) -> TableCounts<'o> {
        TableCounts {
            edges,
            filter,
            part: FilterPart::default(),
            ops: OpInterner::default(),
            calls: FxHashMap::default(),
        }
    }
}

impl RowVisitor for TableCounts<'_> {
    fn visit_row(&mut self, row: &Row<'_>) {
        if !self.part.does_pass(row, self.filter) {
            return;
        }
        let bytes = row.bytes();
        let size = bytes.map_or(UNKNOWN_SIZE, |b| {
            u64::try_from(b).unwrap_or(UNKNOWN_SIZE - 1)
        });
        let call = DiffCall {
            // A call table does not show which communicator a call is on.
            member: u32::MAX,
            op: self.ops.intern(row.op).0,
            datatype: row.datatype.map_or(tally::UNNAMED_DATATYPE, |d| d.0.into()),
            bucket: bucket_of_size(self.edges, size),
        };
        let value = self.calls.entry((row.step, call)).or_default();
        value.add_calls(row.calls, bytes);
    }
}

impl DiffRun {
    /// True if all calls are in inputs with steps: only then are a step's calls known.
    pub(super) fn has_steps(&self) -> bool {
        self.counts.has_steps() && self.without_steps == 0
    }

    /// Returns the processes of lines with a header.
    pub(super) fn processes(&self) -> impl Iterator<Item = &SpeakerProcess> {
        let all = self.net.real.iter();
        all.filter_map(|&at| self.net.processes.get(at as usize))
            .filter(|process| process.pid.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::pieces::{JOBS, read_apart};
    use crate::testing::options;
    use proptest::prelude::*;

    /// A run over `files`, each read in so many pieces.
    fn of(files: &[Vec<u8>], pieces: usize) -> DiffRun {
        let (read, tally) = (options(1, false), communicators::tally_options(true));
        let filter = CallFilter::default();
        let count_filter = CountFilter::new(&filter, &tally).unwrap();
        let mut gather = RunGatherer::new(&read, None, &filter, &count_filter, files.len());
        let report = Report::new("a", false, true);
        let end =
            |gather: &mut RunGatherer<'_>, at: usize, log: LogState, merged: &MergedMembers| {
                gather.add_log(&log, &at.to_string(), merged, &report);
            };
        let merged = read_apart(&mut gather, files, pieces, || empty_partial(&tally), end);
        gather.add_remaining(&merged);
        gather.finish(&merged)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn chunks_read_elsewhere_are_one_run(job in 0..JOBS.len(), pieces in 2..8_usize) {
            let files = &JOBS[job];
            let (apart, whole) = (of(files, pieces), of(files, 1));
            prop_assert!(whole.counts.has_steps());
            prop_assert_eq!(apart.counts, whole.counts);
            prop_assert_eq!(apart.times, whole.times);
            prop_assert_eq!(apart.trainers, whole.trainers);
        }
    }
}
