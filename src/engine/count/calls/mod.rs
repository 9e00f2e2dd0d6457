//! Counts all inputs (logs, call tables, chain lines) with their steps and members, for nccl-ops, nccl-hist and
//! nccl-agg.

mod live;
mod small_logs;

use crate::count::caller::{Caller, caller_of};
use crate::count::cells::{CellGatherer, CountCells, CountedStep};
use crate::count::durations::ClockNames;
use crate::count::limits::FILES_PER_BATCH;
use crate::count::notes::report_step_notes;
use crate::count::row_counts::RowCounts;
use crate::count::tally;
use crate::count::tally::{CallKey, CallVolume, Tally, TallyPartial};
use crate::count::timed::TimedCalls;
use crate::count::times::DurationTotal;
use crate::error::Result;
use crate::formats::Provides;
use crate::formats::lines::RowVisitor as _;
use crate::formats::open::{self, InputOpener, InputOutcomes, OpenInput, report_no_calls};
use crate::log;
use crate::log::placement::PlacementMethods;
use crate::log::propose;
use crate::log::timeline::{self, PresentSteps, StepKey, StepTimeline, StepWindow};
use crate::members::OpInterner;
use crate::members::{Interner, MergedMembers};
use crate::output::live_rows::LiveRows;
use crate::output::table::Row;
use crate::pool;
use crate::report::Report;
use crate::source::{self, InputName};
use live::LiveCounts;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use small_logs::{InputPartial, PrewalkedInput, SmallLogWalker};
use std::sync::atomic::AtomicUsize;

pub use crate::report::progress::Progress;

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

/// What an input must provide for `tally`.
fn tally_needs(tally: &tally::Options) -> Provides {
    let told = match tally.durations {
        true => Provides::TIMED,
        false => Provides::CALLS,
    };
    match tally.steps {
        true => told.and(Provides::BY_STEP),
        false => told,
    }
}

/// The column `src` of a log's calls.
pub const LOG_SOURCE: &[u8] = log::FORMAT.name.as_bytes();

/// Calls of all inputs, counted.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct CountedCalls {
    /// Operations by number.
    pub ops: OpInterner,
    /// The callers, by [`CallKey::member`].
    pub who: Vec<Caller>,
    /// The counts by step (`None` if unknown or not asked for) and key.
    pub cells: CountCells,
    /// Some input has step lines, or rows with a step.
    pub has_steps: bool,
    /// By step and key, where a tally is exact.
    durations: FxHashMap<(CountedStep, CallKey), DurationTotal>,
    /// How long each call took, where a tally keeps that.
    times: FxHashMap<(CountedStep, CallKey), TimedCalls>,
    /// The clocks of `times`.
    pub clocks: ClockNames,
    /// Calls that were output before the input ended, by key over all steps; `cells` does not have them.
    pub given: Vec<(CallKey, CallVolume)>,
}

impl CountedCalls {
    /// Returns the total nanoseconds of the calls of a step and key; `None` unless each call has a duration.
    pub fn duration(&self, step: Option<u64>, key: &CallKey, value: &CallVolume) -> Option<u64> {
        self.durations
            .get(&(step.map(StepKey::from), *key))?
            .total_ns(value.calls)
    }

    /// How long each call took, by key, and by step or over all steps.
    pub fn durations_by_key(&self, by_step: bool) -> FxHashMap<(CountedStep, CallKey), TimedCalls> {
        let mut all: FxHashMap<(CountedStep, CallKey), TimedCalls> = FxHashMap::default();
        for ((step, key), one) in &self.times {
            let step = step.filter(|_| by_step);
            all.entry((step, *key)).or_default().merge(one);
        }
        all
    }

    /// Calls with a duration of their own, and all.
    pub fn count_timed(&self) -> (u64, u64) {
        let sum = |all: u64, n: u64| all.saturating_add(n);
        let timed = self
            .times
            .values()
            .map(|one| one.durations.count_calls())
            .fold(0, sum);
        let mut all = 0;
        for at in 0..self.cells.iter_steps().count() {
            self.cells
                .each_count(at, |_, value| all = sum(all, value.calls));
        }
        (timed, all)
    }

    /// Returns the calls of each step in order; calls without a step last.
    pub fn calls_by_step(&self) -> impl Iterator<Item = (CountedStep, CallVolume)> {
        let steps = self.cells.iter_steps().enumerate();
        steps.map(|(at, (step, _))| {
            let mut all = CallVolume::default();
            self.cells.each_count(at, |_, value| all.merge(&value));
            (step, all)
        })
    }

    /// The calls over all steps, with other keys; those that become equal add up. Durations are left out.
    pub fn sum_over_steps(&self, change: impl Fn(&mut CallKey)) -> CountedCalls {
        let mut cells = CellGatherer::default();
        for ((_, mut key), value) in self.cells.list_counts() {
            change(&mut key);
            cells.push(None, key, value);
        }
        CountedCalls {
            ops: self.ops.clone(),
            who: self.who.clone(),
            cells: cells.into_cells(),
            ..CountedCalls::default()
        }
    }

    /// Adds the calls of other inputs that were counted in the same way, here or elsewhere.
    pub fn merge(&mut self, other: CountedCalls) {
        let mut met: Interner<Caller> = Interner::default();
        let mut cells = CellGatherer::default();
        let mut durations: Vec<((CountedStep, CallKey), DurationTotal)> = Vec::new();
        let mut times: Vec<((CountedStep, CallKey), TimedCalls)> = Vec::new();
        for calls in [std::mem::take(self), other] {
            let ops = calls.ops.op_names().map(|name| self.ops.intern(name).0);
            let ops: Vec<u32> = ops.collect();
            let who: Vec<u32> = calls.who.into_iter().map(|who| met.intern(who)).collect();
            let known = |key: CallKey| CallKey {
                op: ops[key.op as usize],
                member: who.get(key.member as usize).copied().unwrap_or(0),
                ..key
            };
            for ((step, key), value) in calls.cells.list_counts() {
                cells.push(step, known(key), value);
            }
            let of_calls = calls.durations.into_iter();
            durations.extend(of_calls.map(|((step, key), all)| ((step, known(key)), all)));
            self.clocks.merge(&calls.clocks);
            let of_calls = calls.times.into_iter();
            times.extend(of_calls.map(|((step, key), all)| ((step, known(key)), all)));
            self.has_steps |= calls.has_steps;
        }
        let (who, ranks) = sort_with_places(met.items());
        let rank = |member: u32| ranks.get(member as usize).copied().unwrap_or(0);
        cells.change_keys(|key| key.member = rank(key.member));
        for ((step, mut key), all) in durations {
            key.member = rank(key.member);
            self.durations.entry((step, key)).or_default().merge(&all);
        }
        for ((step, mut key), all) in times {
            key.member = rank(key.member);
            self.times.entry((step, key)).or_default().merge(&all);
        }
        self.who = who;
        self.cells = cells.into_cells();
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

struct CallCollector<'o, 'e> {
    options: &'o Options,
    tally: Tally,
    tally_options: &'o tally::Options,
    merged: MergedMembers,
    /// By merged member.
    logged: CellGatherer,
    /// The calls of tables.
    rows: RowCounts,
    present: PresentSteps,
    /// How calls were placed.
    methods: PlacementMethods,
    /// The state of an input that is still being written.
    live: LiveCounts<'e>,
}

impl<'o, 'e> CallCollector<'o, 'e> {
    fn new(options: &'o Options, tally: &'o tally::Options, inputs: usize) -> Self {
        CallCollector {
            options,
            tally: Tally::new(tally.clone(), inputs, options.log.jobs).without_gaps(),
            tally_options: tally,
            merged: MergedMembers::default(),
            logged: CellGatherer::default(),
            rows: RowCounts::new(tally, options.window),
            present: PresentSteps::default(),
            methods: PlacementMethods::default(),
            live: LiveCounts::default(),
        }
    }

    /// Reads all inputs in order. Small logs are opened, read and walked by the workers, many at a time;
    /// everything else is opened in its turn, and its chunks are shared out.
    fn read_inputs(
        &mut self,
        origins: &[InputName],
        report: &mut Report,
        progress: &dyn Progress,
    ) -> Result<()> {
        let options = self.options;
        let walker = SmallLogWalker {
            options,
            tally: self.tally_options,
            several: origins.len() > 1,
            apart: AtomicUsize::new(0),
        };
        let mut outcome = InputOutcomes::new(origins);
        // Few files are shared out one by one.
        let size = (origins.len() / (4 * options.log.jobs.max(1))).clamp(1, FILES_PER_BATCH);
        let batches = origins.chunks(size);
        pool::map_in_order(
            options.log.jobs,
            batches,
            |batch| walker.walk_ahead(batch),
            |batch| {
                batch.into_iter().try_for_each(|(origins, ahead)| {
                    self.add_prewalked(origins, ahead, &mut outcome, report, progress)
                })
            },
        )?;
        outcome.finish(report)
    }

    /// Adds inputs that a worker opened or walked.
    fn add_prewalked(
        &mut self,
        origins: &[InputName],
        ahead: PrewalkedInput,
        outcome: &mut InputOutcomes,
        report: &mut Report,
        progress: &dyn Progress,
    ) -> Result<()> {
        match ahead {
            PrewalkedInput::Together(log, had) => {
                self.tally.clear();
                let (tally, steps) = (&mut self.tally, &self.options.timeline);
                let (log, again) = log.merge_files(
                    origins.iter().map(InputName::name),
                    &had,
                    &mut self.merged,
                    |bytes| progress.advance(bytes),
                    |part| {
                        tally.add_chunk(part, steps);
                        Ok(())
                    },
                )?;
                report.add_plain_inputs(origins.len() as u64, &log.account);
                for ((origin, had), again) in origins.iter().zip(had).zip(again) {
                    if let Some(again) = again {
                        report.report_duplicate(&origin.name(), &again);
                    }
                    if had.calls == 0 {
                        report_no_calls(&origin.name(), had.lines, report);
                    }
                    outcome.add_result(origin, Ok(()), report)?;
                }
                let timeline = self.resolve_log_timeline(&log);
                self.count_by_gap(&timeline);
                Ok(())
            }
            PrewalkedInput::Each(logs) => origins.iter().zip(logs).try_for_each(|(origin, log)| {
                let name = origin.name();
                let walked = self.add_walked_log(&name, log, progress);
                let result = walked.map(|log| self.add_log(&name, &log, report));
                outcome.add_result(origin, result, report)
            }),
            PrewalkedInput::Other(mut opened) => origins.iter().try_for_each(|origin| {
                let in_turn = || {
                    open::open_input(origin, self.options.source, tally_needs(self.tally_options))
                };
                let opened = opened.take().map_or_else(in_turn, |opened| *opened);
                let result = opened.and_then(|mut input| {
                    input.note_encoding(report);
                    self.read_input(&mut input, report, progress)
                });
                outcome.add_result(origin, result, report)
            }),
        }
    }

    fn read_input(
        &mut self,
        input: &mut OpenInput<InputPartial>,
        report: &mut Report,
        progress: &dyn Progress,
    ) -> Result<()> {
        let is_log = input.provides(Provides::LINES);
        if is_log {
            self.tally.clear();
        }
        let (tally, rows) = (&mut self.tally, &mut self.rows);
        let (read, options) = (self.options, self.tally_options);
        let (steps, window) = (&read.timeline, read.window);
        let (live, logged) = (&mut self.live, &mut self.logged);
        let of_log = log::Options {
            keep_marks: options.steps,
            ..read.log.clone()
        };
        let log = input.read_input(
            &of_log,
            &mut self.merged,
            || InputPartial::new(options, window),
            |bytes| progress.advance(bytes),
            |part| {
                let (own, part) = part.take_visit();
                match is_log {
                    true => tally.add_chunk(part.with_visit(own.calls), steps),
                    false => rows.merge(own.rows, &mut tally.ops),
                }
                match is_log {
                    true => live.emit_settled(&part, tally, logged, read, options),
                    false => Ok(()),
                }
            },
        )?;
        match is_log {
            true => self.add_log(&input.name(), &log, report),
            false => report.report_input(&input.name(), &log.account),
        }
        Ok(())
    }

    /// Merges a log that was walked already.
    fn add_walked_log(
        &mut self,
        name: &str,
        log: log::WalkedLog<TallyPartial>,
        progress: &dyn Progress,
    ) -> Result<log::LogState> {
        self.tally.clear();
        let (tally, steps) = (&mut self.tally, &self.options.timeline);
        log.merge_file(
            name,
            self.options.log.strict,
            &mut self.merged,
            |bytes| progress.advance(bytes),
            |part| {
                tally.add_chunk(part, steps);
                Ok(())
            },
        )
    }

    /// Adds the calls of a log that is read to its end, by their steps.
    fn add_log(&mut self, name: &str, log: &log::LogState, report: &mut Report) {
        report.report_input(name, &log.account);
        if log.account.calls == 0 {
            report_no_calls(name, log.account.lines, report);
        }
        let timeline = self.resolve_log_timeline(log);
        report_step_notes(name, &timeline, report);
        if self.live.is_contradicted() {
            report.warn_rows_changed();
        }
        self.count_by_gap(&timeline);
    }

    /// Returns the steps of a log, if the tally has steps.
    fn resolve_log_timeline(&mut self, log: &log::LogState) -> StepTimeline {
        if !self.tally_options.steps {
            return StepTimeline::default();
        }
        let timeline = self.live.finish_timeline(log, &self.options.timeline);
        self.present.merge(self.live.forgotten_steps());
        self.present.add_timeline(&timeline);
        timeline
    }

    /// Adds the calls of the tally by the steps of their gaps.
    fn count_by_gap(&mut self, timeline: &StepTimeline) {
        if self.tally_options.steps {
            let (options, live) = (self.options, &self.live);
            let wanted = |gap: usize| live.counts_gap(options, timeline, gap);
            let methods = self.tally.place_input(timeline, &self.merged, wanted);
            self.methods.add_counts(methods);
        }
        self.take_counted(timeline);
    }

    /// All inputs are read: adds the calls that were held until now.
    fn count_held_inputs(&mut self) {
        let wanted = |timeline: &StepTimeline, gap: usize| self.options.counts_gap(timeline, gap);
        if let Some((timeline, methods)) = self.tally.count_held(&self.merged, wanted) {
            self.methods.add_counts(methods);
            self.take_counted(&timeline);
        }
        self.present.merge(&self.rows.present);
    }

    /// Adds what the tally has counted.
    fn take_counted(&mut self, timeline: &StepTimeline) {
        let step_of = |gap: usize| timeline.step_of(gap).map(timeline::TrainStep::key);
        let wanted = |gap: usize| self.live.counts_gap(self.options, timeline, gap);
        let logged = &mut self.logged;
        logged.next_input();
        let chunks = self.tally.drain_gaps(wanted, |gap, key, value| {
            logged.push(step_of(gap), key, value);
        });
        for pieces in chunks {
            logged.push_chunk(pieces.rename_stretches(|gap| wanted(gap).then(|| step_of(gap))));
        }
    }

    fn finish(self) -> CountedCalls {
        let is_known = !self.present.is_empty();
        finish_counts_after(
            self.live.into_given_calls(),
            self.tally_options,
            &self.merged,
            self.tally.ops,
            self.logged,
            self.rows,
            is_known,
        )
    }
}

/// Merges the counts of logs and of rows.
pub fn finish_counts(
    options: &tally::Options,
    merged: &MergedMembers,
    ops: OpInterner,
    cells: CellGatherer,
    rows: RowCounts,
    has_steps: bool,
) -> CountedCalls {
    finish_counts_after(Vec::new(), options, merged, ops, cells, rows, has_steps)
}

/// Like [`finish_counts`], after calls that were output.
fn finish_counts_after(
    mut given: Vec<(CallKey, CallVolume)>,
    options: &tally::Options,
    merged: &MergedMembers,
    ops: OpInterner,
    mut cells: CellGatherer,
    mut rows: RowCounts,
    has_steps: bool,
) -> CountedCalls {
    let mut to = Vec::new();
    if options.members {
        let aliases = merged.process_aliases();
        for member in merged.origins.members.items() {
            let mut who = caller_of(merged, &aliases, member);
            if options.exact {
                who.recorded.src = LOG_SOURCE.into();
            }
            to.push(rows.who.intern(who));
        }
    }
    // Callers come in any order; rows are sorted by host, process and communicator.
    let (who, ranks) = sort_with_places(rows.who.items());
    let rank = |member: u32| ranks.get(member as usize).copied().unwrap_or(0);
    let change = |key: &mut CallKey| {
        let member = to.get(key.member as usize).copied().unwrap_or(0);
        key.member = rank(member);
    };
    cells.change_keys(change);
    given.iter_mut().for_each(|(key, _)| change(key));
    for ((step, mut key), value) in rows.cells {
        key.member = rank(key.member);
        cells.push(step.map(StepKey::from), key, value);
    }
    let known = |(step, mut key): (Option<u64>, CallKey)| {
        key.member = rank(key.member);
        (step.map(StepKey::from), key)
    };
    let durations = rows.durations.into_iter();
    let durations = durations.map(|(key, all)| (known(key), all));
    let times = rows.times.into_iter();
    let times = times.map(|(key, all)| (known(key), all));
    CountedCalls {
        times: times.collect(),
        clocks: rows.clocks,
        given,
        ops,
        who,
        cells: cells.into_cells(),
        has_steps,
        durations: durations.collect(),
    }
}

/// Returns the items sorted, and the place of each.
fn sort_with_places<T: Ord + Clone>(items: &[T]) -> (Vec<T>, Vec<u32>) {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&at| &items[at]);
    let mut ranks = vec![0; items.len()];
    for (rank, &at) in (0_u32..).zip(&order) {
        ranks[at] = rank;
    }
    (order.iter().map(|&at| items[at].clone()).collect(), ranks)
}

#[cfg(test)]
pub(crate) mod tests;
