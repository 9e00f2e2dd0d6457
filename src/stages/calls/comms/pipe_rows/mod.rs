//! The rows of a pipe: a call's row is written as soon as its step is settled, in the order of [`super::order`].
//!
//! A pipe is walked once, so calls are held as records until they can be written. The last ones are written
//! when the log has ended. Then the written steps are checked: a later line may have changed them.

mod late_numbering;
mod written;

use super::call_spool::CallSpool;
use super::limits::GAP_OF_ITS_LINE;
use super::log_rows::WantedRows;
use super::order::{CallGap, ChunkCall, KnownPlaces as Knows, LiveRowOrder as InOrder};
use super::records::{CallInGap, ChunkRecords};
use super::text::{RowTextBuffer, SpeakerCache, SpeakerColumns};
use super::{CommsRowOrder, Options, report_missing, report_placement};
use crate::count::calls::{Options as Read, Progress};
use crate::error::{Error, Result};
use crate::filter::FilterWatch;
use crate::formats::Provides;
use crate::formats::open::OpenInput;
use crate::log::placement::{CallRecorder, FilesWithoutSteps};
use crate::log::propose;
use crate::log::timeline::{LiveTimeline, StepTimeline};
use crate::log::{LogState, MergedChunk};
use crate::members::MergedMembers;
use crate::report::Report;
use crate::source::InputName;
use crate::stages::survey::{LogSurvey, SurveyBuilder};
use crate::stages::{self, InputStage};
use late_numbering::LateNumbering;
use rustc_hash::FxHashMap;
use std::io::Write;
use std::sync::Arc;
use written::{HeadedRowText, WrittenCalls, WrittenRanks, WrittenRows};

/// Writes the rows of a pipe.
///
/// # Errors
/// As [`super::write_rows`].
pub(super) fn write_pipe_rows(
    origin: &InputName,
    read: &Read,
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
    out: &mut (dyn Write + Send),
) -> Result<Option<OpenInput<(CallRecorder, ChunkRecords)>>> {
    let mut live = LiveTable {
        read,
        now: SurveyBuilder::default(),
        growing: LiveTimeline::default(),
        ended: None,
        table: None,
        writer: PipeWriter {
            held: CallSpool::new(options.hold),
            order: InOrder::new(options.order.max_row_move()),
            rows: WrittenRows {
                read,
                options,
                numbering: LateNumbering::default(),
                out: HeadedRowText {
                    to: out,
                    header: Some(options.form.header_text()),
                },
                made: Vec::new(),
                ranks: WrittenRanks::default(),
                is_otherwise: false,
                watch: FilterWatch::default(),
            },
        },
        outcome: Ok(()),
    };
    let origins = std::slice::from_ref(origin);
    let new = || (CallRecorder::default(), ChunkRecords::new_without_bytes());
    let merged = stages::read_stage(&mut live, origins, read, report, progress, new)?;
    progress.finish();
    let LiveTable {
        growing,
        ended,
        table,
        writer,
        ..
    } = live;
    let Some(survey) = ended else {
        return Ok(table);
    };
    if let Some(window) = &read.window {
        let mut present = growing.forgotten_steps().clone();
        present.add_timeline(&survey.timeline);
        let missing =
            |text| propose::reopened_missing_steps_error(text, &present, origins, read.source);
        present.check_window(window).map_err(missing)?;
    }
    if growing.is_contradicted() {
        report.warn_rows_changed();
    }
    writer.finish_log(&survey, &merged, report)?;
    Ok(None)
}

/// A pipe while it is read.
struct LiveTable<'r> {
    read: &'r Read,
    now: SurveyBuilder,
    growing: LiveTimeline,
    ended: Option<LogSurvey>,
    /// It is no log.
    table: Option<OpenInput<(CallRecorder, ChunkRecords)>>,
    writer: PipeWriter<'r>,
    outcome: Result<()>,
}

impl InputStage for LiveTable<'_> {
    const NEEDS: Provides = Provides::CALLS;
    type Visit = (CallRecorder, ChunkRecords);

    fn begin_input(&mut self, _: String) {
        self.now = SurveyBuilder::new(self.read, None);
    }

    fn add_chunk(&mut self, part: MergedChunk<'_, Self::Visit>) {
        let ((calls, records), part) = part.take_visit();
        self.outcome = self.writer.add_records(records, &part);
        self.now.add_chunk(calls, &part, self.read);
        if let (Some((log, _)), true) = (part.so_far, self.outcome.is_ok()) {
            if self.read.timeline.none {
                let nothing = StepTimeline::default();
                let now = CallPositions {
                    timeline: &nothing,
                    settled: Some(u32::MAX),
                    cut: |_, _| (CallGap::OfLine, u32::MAX),
                };
                self.outcome = self.writer.write_ready_rows(&now, part.merged);
                return;
            }
            let timeline = log.update_growing_timeline(&mut self.growing, &self.read.timeline);
            let found = self.now.live_placement(timeline, part.merged, u32::MAX);
            let cut = |process, number| match found.cut_of_call(process, number) {
                Some((gap, until)) => (CallGap::Of(gap), until),
                None => (CallGap::Later, u32::MAX),
            };
            if let Some(settled) = found.settled {
                let now = CallPositions {
                    timeline,
                    settled: found.settled,
                    cut,
                };
                self.outcome = self.writer.write_ready_rows(&now, part.merged);
                if self.outcome.is_ok() && self.writer.is_nothing_waiting(&self.growing) {
                    self.forget_written(settled, log, &part);
                }
            }
        }
    }

    fn check_output(&mut self) -> Result<()> {
        std::mem::replace(&mut self.outcome, Ok(()))
    }

    fn end_input(
        &mut self,
        input: OpenInput<Self::Visit>,
        log: LogState,
        merged: &MergedMembers,
        report: &mut Report,
    ) {
        let now = std::mem::take(&mut self.now);
        let survey = now.end_log(
            log,
            &mut self.growing,
            merged,
            &mut FilesWithoutSteps::for_inputs(1),
            self.read,
        );
        report_missing(&input.name(), &survey, self.read, report);
        self.ended = Some(survey);
    }

    fn add_other_input(
        &mut self,
        input: OpenInput<Self::Visit>,
        _: &mut MergedMembers,
        _: &mut Report,
        _: &dyn Progress,
    ) -> Result<()> {
        self.table = Some(input);
        Ok(())
    }
}

impl LiveTable<'_> {
    /// Forgets all before the last checkpoint once all up to the end of gap `settled` is written.
    fn forget_written(&mut self, settled: u32, log: &LogState, part: &MergedChunk<'_, ()>) {
        let Some(turn) = self.growing.checkpoint(settled) else {
            return;
        };
        self.now.place_checkpoint(turn, part, self.read);
        let now = &self.now;
        let cuts = |process| now.cuts_of(process);
        self.writer
            .rows
            .check_written_steps(self.growing.timeline(), cuts);
        if let Some(before) = turn.before.map(|before| before.in_lines) {
            self.now.forget_until(before);
            self.growing.forget_until(before);
            log.forget_gaps_until(before);
        }
    }
}

/// The places of calls known so far.
struct CallPositions<'t, G> {
    timeline: &'t StepTimeline,
    settled: Option<u32>,
    /// By process and the number of its call: see [`Knows::find_cut`].
    cut: G,
}

impl<G: Fn(u32, u32) -> (CallGap, u32)> Knows for CallPositions<'_, G> {
    fn last_settled_gap(&self) -> Option<u32> {
        self.settled
    }

    fn stretch_end(&self, gap: u32) -> u32 {
        self.timeline.stretch_end(gap)
    }

    fn find_cut(&self, process: u32, number: u32) -> (CallGap, u32) {
        (self.cut)(process, number)
    }
}

/// Writes rows: those that wait, in their order.
struct PipeWriter<'r> {
    held: CallSpool,
    order: InOrder<Arc<ChunkRecords>>,
    rows: WrittenRows<'r>,
}

impl PipeWriter<'_> {
    fn add_records(&mut self, mut records: ChunkRecords, part: &MergedChunk<'_, ()>) -> Result<()> {
        records.set_merged_members(part.to);
        records.set_merged_processes(part.gap, part.to);
        if records.len() == 0 {
            return Ok(());
        }
        let records = Arc::new(records);
        let numbering = &mut self.rows.numbering;
        numbering.push(Arc::clone(&records));
        if !self.held.has_room_for(&records) {
            let renamed = part.merged.renamed_processes();
            numbering.number_until(&records, part.merged, &renamed);
        }
        self.held.push(records)
    }

    /// True if no call waits from before the last checkpoint.
    fn is_nothing_waiting(&self, growing: &LiveTimeline) -> bool {
        let stretch = self.order.first_open_gap();
        growing.last_checkpoint().is_none_or(|turn| stretch > turn)
    }

    /// Writes the rows that are next in order by the places known now.
    fn write_ready_rows(
        &mut self,
        now: &CallPositions<'_, impl Fn(u32, u32) -> (CallGap, u32)>,
        merged: &MergedMembers,
    ) -> Result<()> {
        let mut writing = RowBatch::new_batch(&mut self.rows, now.timeline, merged);
        let take = |of: &_, call, gap| writing.add_call(of, call, gap);
        self.order.take_ready(&mut self.held, now, take)?;
        writing.finish_batch()
    }

    /// Writes the rest after the end of the log, and reports rows with changed steps.
    fn finish_log(
        mut self,
        survey: &LogSurvey,
        merged: &MergedMembers,
        report: &mut Report,
    ) -> Result<()> {
        let (timeline, placement) = (&*survey.timeline, &survey.placement);
        let before = self.rows.made.clone();
        let cut = |process, number| match placement.cut_of_call(process, number) {
            Some((gap, until)) => (CallGap::Of(gap), until),
            None => (CallGap::OfLine, u32::MAX),
        };
        let now = CallPositions {
            timeline,
            settled: Some(u32::MAX),
            cut,
        };
        let mut rows = self.rows;
        rows.ranks.end_lines(merged);
        let mut writing = RowBatch::new_batch(&mut rows, timeline, merged);
        let take = |of: &_, call, gap| writing.add_call(of, call, gap);
        let is_in_order = self.order.take_remaining(&mut self.held, &now, take)?;
        writing.finish_batch()?;
        rows.out.write_rows(&[])?;
        let is_other = |(process, made): (u32, &WrittenCalls)| {
            let cuts = placement.cuts_of(process);
            made.did_old_steps_change(timeline, cuts) || made.did_steps_change(timeline, cuts)
        };
        let is_moved = rows.options.order == CommsRowOrder::Step && !is_in_order;
        if is_moved || rows.is_otherwise || (0_u32..).zip(&before).any(is_other) {
            report.warn_rows_changed();
        }
        rows.ranks.report_unknown(report);
        report_placement(rows.options, rows.read, survey.placement.methods, report);
        rows.watch.report(&rows.options.filter, report);
        Ok(())
    }
}

/// Writes rows while no more is read.
struct RowBatch<'w, 'r> {
    rows: &'w mut WrittenRows<'r>,
    timeline: &'w StepTimeline,
    merged: &'w MergedMembers,
    renamed: FxHashMap<u32, u32>,
    /// By merged member.
    speakers: SpeakerCache,
    /// Calls of one chunk that are written next.
    chunk: Option<Arc<ChunkRecords>>,
    calls: Vec<CallInGap>,
    text: Vec<u8>,
}

impl<'w, 'r> RowBatch<'w, 'r> {
    fn new_batch(
        rows: &'w mut WrittenRows<'r>,
        timeline: &'w StepTimeline,
        merged: &'w MergedMembers,
    ) -> Self {
        let ranks = rows.ranks.find_ranks(merged);
        let form = rows.options.form;
        RowBatch {
            rows,
            timeline,
            merged,
            renamed: merged.renamed_processes(),
            speakers: SpeakerCache::new(ranks, form),
            chunk: None,
            calls: Vec::new(),
            text: Vec::new(),
        }
    }

    /// Adds a call with the gap in which it was made; `None`: that of its line.
    fn add_call(
        &mut self,
        chunk: &Arc<ChunkRecords>,
        call: ChunkCall,
        gap: Option<u32>,
    ) -> Result<()> {
        if !self
            .chunk
            .as_ref()
            .is_some_and(|own| Arc::ptr_eq(own, chunk))
        {
            self.write_chunk_rows()?;
            self.chunk = Some(Arc::clone(chunk));
        }
        let step = gap.and_then(|gap| self.timeline.step_of(gap as usize));
        let rows = &mut *self.rows;
        let process = call.process as usize;
        if rows.made.len() <= process {
            rows.made.resize(process + 1, WrittenCalls::default());
        }
        rows.made[process].count_written(step.map(|step| step.step));
        rows.is_otherwise |=
            gap.is_some_and(|gap| (gap as usize) < self.timeline.gaps.forgotten_count());
        self.calls.push((call.at, gap.unwrap_or(GAP_OF_ITS_LINE)));
        Ok(())
    }

    /// Writes the rest.
    fn finish_batch(mut self) -> Result<()> {
        self.write_chunk_rows()?;
        if !self.text.is_empty() {
            self.rows.out.write_rows(&self.text)?;
        }
        self.rows.out.to.flush().map_err(Error::Output)
    }

    /// Writes the rows of the chunk in hand.
    fn write_chunk_rows(&mut self) -> Result<()> {
        let Some(records) = self.chunk.take() else {
            return Ok(());
        };
        let (merged, renamed) = (self.merged, &self.renamed);
        self.rows.numbering.number_until(&records, merged, renamed);
        let speaker = |&m: &u32| self.speakers.find_speaker(merged, merged, renamed, m);
        let own: Vec<Arc<SpeakerColumns>> = records.members().iter().map(speaker).collect();
        for (member, speaker) in records.members().iter().zip(&own) {
            self.rows.ranks.add_written(*member, speaker.global_rank());
        }
        let wanted = WantedRows {
            read: self.rows.read,
            filter: &self.rows.options.filter,
            watch: &self.rows.watch,
            timeline: self.timeline,
            timings: &[],
        };
        // Cached text is of one chunk: its keys are addresses of names.
        let mut text = RowTextBuffer::new(self.rows.options.form, std::mem::take(&mut self.text));
        let calls = self.calls.drain(..);
        wanted.each_row(&records, &[], &own, calls, |row, speaker| {
            text.push_row(row, speaker);
        });
        self.text = text.out;
        if self.text.len() > 1 << 16 {
            self.rows.out.write_rows(&self.text)?;
            self.text.clear();
        }
        Ok(())
    }
}
