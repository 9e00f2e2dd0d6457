//! One walk over all inputs: calls, members of communicators, rings and trees, copies.

use super::copies::GpuCopies;
use crate::count::calls::{CountedCalls, Options as Read, Progress, finish_counts};
use crate::count::cells::CellGatherer;
use crate::count::notes;
use crate::count::row_counts::RowCounts;
use crate::count::tally::{self, SizeKey};
use crate::error::Result;
use crate::formats::Provides;
use crate::formats::open::{self, OpenInput};
use crate::log::placement::PlacementMethods;
use crate::log::timeline::{PresentSteps, StepTimeline, TrainStep};
use crate::log::{LogState, MergedChunk};
use crate::members::{MergedMembers, SpeakerProcess};
use crate::report::Report;
use crate::source::{Input, InputName};
use crate::stages::InputStage;
use crate::stages::communicators::{self, CommunicatorSide};
use crate::stages::net::NetSummary;
use crate::stages::run_snapshot::{RunSnapshot, SnapshotPartial};
use crate::stages::tuning::tuning_stage::TuningStage as Tuning;

/// Returns the tally options of the matrix.
pub(crate) fn matrix_tally_options(steps: bool) -> tally::Options {
    tally::Options {
        sizing: SizeKey::Count,
        ..communicators::tally_options(steps)
    }
}

/// The contents of all inputs.
pub(super) struct GatheredTraffic {
    pub(super) calls: CountedCalls,
    /// Each process's view of its communicators.
    pub(super) sides: Vec<CommunicatorSide>,
    pub(super) processes: Vec<SpeakerProcess>,
    pub(super) net: NetSummary,
    pub(super) tuning: Tuning,
    /// The copies of each input that has some.
    pub(super) copies: Vec<GpuCopies>,
}

pub(super) struct TrafficGatherer<'o> {
    read: &'o Read,
    options: &'o tally::Options,
    kept: RunSnapshot,
    /// Calls of logs by merged member.
    logged: CellGatherer,
    /// The calls of tables.
    rows: RowCounts,
    pub(super) present: PresentSteps,
    pub(super) methods: PlacementMethods,
    copies: Vec<GpuCopies>,
    /// Records of GPUs that give only their copies, as those with a log inside, which was read.
    around: Vec<InputName>,
}

impl InputStage for TrafficGatherer<'_> {
    const NEEDS: Provides = Provides::CALLS;
    type Visit = SnapshotPartial;

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
        if log.account.calls == 0 && log.account.lines > 0 && !input.input().is_inside() {
            open::report_no_calls(&input.name(), log.account.lines, report);
        }
        self.around.extend(input.input().outer_name().cloned());
        let mut timeline = StepTimeline::default();
        if self.options.steps {
            timeline = log.build_timeline(&self.read.timeline);
            notes::report_step_notes(&input.name(), &timeline, report);
            self.present.add_timeline(&timeline);
            let wanted = |gap: usize| self.read.counts_gap(&timeline, gap);
            let methods = self.kept.tally.place_input(&timeline, merged, wanted);
            self.methods.add_counts(methods);
        }
        self.add_counted_calls(&timeline);
    }

    /// Counts the calls of a table, and takes the copies of a record of GPUs.
    fn add_other_input(
        &mut self,
        mut input: OpenInput<SnapshotPartial>,
        merged: &mut MergedMembers,
        report: &mut Report,
        progress: &dyn Progress,
    ) -> Result<()> {
        let has_copies = input.provides(Provides::GPU);
        if has_copies {
            input = input.into_rewindable(Input::make_rewindable)?;
        }
        let (options, window) = (self.options, self.read.window);
        let (rows, ops) = (&mut self.rows, &mut self.kept.tally.ops);
        let account = input.read_records(
            (&self.read.log).into(),
            &mut merged.twice,
            || RowCounts::new(options, window),
            |bytes| progress.advance(bytes),
            |part| {
                rows.merge(part, ops);
                Ok(())
            },
        )?;
        report.report_input(&input.name(), &account);
        if has_copies {
            self.add_gpu_copies(&input.into_rewound()?, report)?;
        }
        Ok(())
    }
}

impl<'o> TrafficGatherer<'o> {
    /// Begins with this number of inputs; the records `around` give only their copies.
    pub(super) fn new(
        read: &'o Read,
        options: &'o tally::Options,
        inputs: usize,
        around: Vec<InputName>,
    ) -> TrafficGatherer<'o> {
        TrafficGatherer {
            read,
            options,
            kept: RunSnapshot::new(options.clone(), inputs, read.log.jobs),
            logged: CellGatherer::default(),
            rows: RowCounts::new(options, read.window),
            present: PresentSteps::default(),
            methods: PlacementMethods::default(),
            copies: Vec::new(),
            around,
        }
    }

    /// Adds the copies of a record of GPUs.
    fn add_gpu_copies<V>(&mut self, input: &OpenInput<V>, report: &Report) -> Result<()> {
        let mut copies = GpuCopies::default();
        input.read_gpu_timeline(&mut copies)?;
        for note in &copies.notes {
            report.note(&format!("{}: {note}", input.name()));
        }
        self.copies.push(copies);
        Ok(())
    }

    /// Adds the copies of records that contain a log.
    ///
    /// # Errors
    /// A record can no longer be read.
    pub(super) fn add_copies_beside_logs(&mut self, read: &Read, report: &Report) -> Result<()> {
        for origin in std::mem::take(&mut self.around) {
            let known = open::open_input::<()>(&origin, read.source, Provides::GPU)?;
            self.add_gpu_copies(&known, report)?;
        }
        Ok(())
    }

    /// Adds the calls that were held until all inputs were read.
    pub(super) fn add_held_calls(&mut self, merged: &MergedMembers) {
        let wanted = |timeline: &StepTimeline, gap: usize| self.read.counts_gap(timeline, gap);
        if let Some((timeline, methods)) = self.kept.tally.count_held(merged, wanted) {
            self.methods.add_counts(methods);
            self.add_counted_calls(&timeline);
        }
        self.present.merge(&self.rows.present);
    }

    /// Adds the calls that the tally has counted.
    fn add_counted_calls(&mut self, timeline: &StepTimeline) {
        let step_of = |gap: usize| timeline.step_of(gap).map(TrainStep::key);
        let logged = &mut self.logged;
        logged.next_input();
        self.kept.tally.drain_wanted(
            |gap| self.read.counts_gap(timeline, gap),
            |gap, key, value| logged.push(step_of(gap), key, value),
        );
    }

    pub(super) fn finish(mut self, merged: &MergedMembers) -> GatheredTraffic {
        self.kept.tuning.end_lines(merged);
        let has_steps = !self.present.is_empty();
        let ops = self.kept.tally.ops;
        let calls = finish_counts(self.options, merged, ops, self.logged, self.rows, has_steps);
        GatheredTraffic {
            calls,
            sides: communicators::resolve_processes(
                self.kept.sides.list,
                &merged.process_aliases(),
            ),
            processes: merged.origins.processes.items().to_vec(),
            net: NetSummary::from_stage(self.kept.net, merged),
            tuning: self.kept.tuning,
            copies: self.copies,
        }
    }
}
