//! Reads the inputs in order and adds up their calls.

use super::Options;
use super::counted::{CountedCalls, finish_counts_after};
use super::live::LiveCounts;
use super::small_logs::{InputPartial, PrewalkedInput, SmallLogWalker, tally_needs};
use crate::count::cells::CellGatherer;
use crate::count::limits::FILES_PER_BATCH;
use crate::count::notes::report_step_notes;
use crate::count::row_counts::RowCounts;
use crate::count::tally;
use crate::count::tally::{Tally, TallyPartial};
use crate::error::Result;
use crate::formats::Provides;
use crate::formats::open::{self, InputOutcomes, OpenInput, report_no_calls};
use crate::log;
use crate::log::placement::PlacementMethods;
use crate::log::timeline::{self, PresentSteps, StepTimeline};
use crate::members::MergedMembers;
use crate::pool;
use crate::report::Report;
use crate::report::progress::Progress;
use crate::source::InputName;
use std::sync::atomic::AtomicUsize;

/// Counts the calls of all inputs, one after the other.
pub(super) struct CallCollector<'o, 'e> {
    options: &'o Options,
    pub(super) tally: Tally,
    pub(super) tally_options: &'o tally::Options,
    pub(super) merged: MergedMembers,
    /// By merged member.
    pub(super) logged: CellGatherer,
    /// The calls of tables.
    pub(super) rows: RowCounts,
    pub(super) present: PresentSteps,
    /// How calls were placed.
    pub(super) methods: PlacementMethods,
    /// The state of an input that is still being written.
    pub(super) live: LiveCounts<'e>,
}

impl<'o, 'e> CallCollector<'o, 'e> {
    pub(super) fn new(options: &'o Options, tally: &'o tally::Options, inputs: usize) -> Self {
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
    pub(super) fn read_inputs(
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

    pub(super) fn read_input(
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
    pub(super) fn add_log(&mut self, name: &str, log: &log::LogState, report: &mut Report) {
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
    pub(super) fn count_held_inputs(&mut self) {
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

    pub(super) fn finish(self) -> CountedCalls {
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
