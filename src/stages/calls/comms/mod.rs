//! nccl-comms: the call table, a row for every call or for every distinct one.
//!
//! A call's step is known only when its step line comes, later in the log. So a log is walked
//! twice: once for its steps, once for its rows (`log`).

use crate::count::calls::{Options as Read, Progress, RowCounter};
use crate::count::notes;
use crate::error::{Error, Result};
use crate::filter::{CallFilter, FilterWatch};
use crate::formats::Provides;
use crate::formats::open::{self, OpenInput};
use crate::log::placement::{FilesWithoutSteps, PlacementMethods};
use crate::log::propose;
use crate::log::timeline::{LiveTimeline, PresentSteps};
use crate::log::{LogState, MergedChunk};
use crate::members::MergedMembers;
use crate::members::job_ranks::JobRanks;
use crate::output::table::{Part, Row, csv_header};
use crate::report::Report;
use crate::source::{Input, InputName};
use crate::stages::survey::{LogSurvey, SurveyBuilder};
use crate::stages::tuning;
use crate::stages::tuning::call_methods::CallMethods;
use crate::stages::{self, InputStage};
use rustc_hash::FxHashMap;
use sequences::CallSequences;
use std::io::Write;
use std::sync::Arc;
use tables::{search_steps, write_table};
use tuning_option::{TuningCounts, TuningOption, WithTuning};

mod call_spool;
pub(in crate::stages) mod limits;
mod log_rows;
mod order;
pub mod param;
mod pipe_rows;
mod records;
mod row_workers;
mod sequences;
mod tables;
pub mod terminal_columns;
mod text;
pub mod times;
mod tuning_option;
mod unique;

pub use order::CommsRowOrder;
pub use unique::write_unique_rows;

/// The options of nccl-comms.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which rows.
    pub filter: CallFilter,
    /// How they are written.
    pub form: RowForm,
    /// Whether a log's TUNING lines fill `algo`, `proto` and `nchannels`.
    pub tuning: bool,
    /// Which row comes first.
    pub order: CommsRowOrder,
    /// Bytes of a pipe's calls that may wait for their step in memory.
    pub hold: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            filter: CallFilter::default(),
            form: RowForm::default(),
            tuning: false,
            order: CommsRowOrder::default(),
            hold: 64 << 20,
        }
    }
}

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RowForm {
    /// CSV with a header.
    #[default]
    Csv,
    /// JSON lines.
    Jsonl,
    /// Typed values, for [`ParquetCalls`](crate::output::parquet::ParquetCalls).
    Packed,
    /// The AWK chain's `op count datatype bytes`.
    Chain,
    /// Columns for a terminal.
    Table {
        /// With those of `--tuning`.
        tuning: bool,
    },
}

impl RowForm {
    fn header_text(self) -> Vec<u8> {
        match self {
            RowForm::Csv => csv_header().into_bytes(),
            RowForm::Table { tuning } => terminal_columns::terminal_header(tuning),
            RowForm::Jsonl | RowForm::Packed | RowForm::Chain => Vec::new(),
        }
    }

    /// True where a row's text is made of its parts' text.
    fn has_parts(self) -> bool {
        matches!(self, RowForm::Csv | RowForm::Packed)
    }

    #[inline(always)]
    fn write_part(self, row: &Row<'_>, part: Part, out: &mut Vec<u8>) {
        match self {
            RowForm::Packed => row.packed_part(part, out),
            _ => row.csv_part(part, out),
        }
    }

    fn write_row(self, row: &Row<'_>, out: &mut Vec<u8>) {
        match self {
            RowForm::Csv => row.csv(out),
            RowForm::Jsonl => row.jsonl(out),
            RowForm::Packed => row.packed(out),
            RowForm::Chain => row.chain(out),
            RowForm::Table { tuning } => terminal_columns::write_terminal_row(row, tuning, out),
        }
    }
}

/// Writes a row for every call.
///
/// # Errors
/// The window is not there; an input cannot be read, the output not written.
pub fn write_rows(
    origins: &[InputName],
    read: &Read,
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
    out: &mut (dyn Write + Send),
) -> Result<()> {
    if let ([origin], false) = (origins, options.tuning)
        && origin.is_piped()
    {
        return match pipe_rows::write_pipe_rows(origin, read, options, report, progress, out)? {
            Some(input) => write_table(input, origins, read, options, report, out),
            None => Ok(()),
        };
    }
    let mut out = HeadedTable::new(options.form, out);
    let sink = CommsRowSink::Text(&mut out);
    match options.tuning {
        true => write_inputs::<WithTuning>(origins, read, options, report, progress, sink),
        false => write_inputs::<()>(origins, read, options, report, progress, sink),
    }?;
    out.flush().map_err(Error::Output)
}

/// A table as text: its header goes before the first row, or where there is none to the end. An input that
/// cannot be read leaves nothing.
struct HeadedTable<'o> {
    header: Vec<u8>,
    out: &'o mut (dyn Write + Send),
}

impl<'o> HeadedTable<'o> {
    fn new(form: RowForm, out: &'o mut (dyn Write + Send)) -> HeadedTable<'o> {
        let header = form.header_text();
        HeadedTable { header, out }
    }

    fn write_header(&mut self) -> std::io::Result<()> {
        match std::mem::take(&mut self.header) {
            header if header.is_empty() => Ok(()),
            header => self.out.write_all(&header),
        }
    }
}

impl Write for HeadedTable<'_> {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        if !text.is_empty() {
            self.write_header()?;
        }
        self.out.write(text)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.write_header()?;
        self.out.flush()
    }
}

/// Where rows go.
enum CommsRowSink<'s, 'o> {
    /// As text, made on all cores.
    Text(&'s mut (dyn Write + Send)),
    /// Counted by key.
    Counted(&'s mut RowCounter<'o>),
}

fn write_inputs<B: TuningOption>(
    origins: &[InputName],
    read: &Read,
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
    mut sink: CommsRowSink<'_, '_>,
) -> Result<()> {
    let mut first = FirstWalk {
        read,
        now: SurveyBuilder::default(),
        beside: B::default(),
        plans: Vec::new(),
        present: PresentSteps::default(),
        methods: PlacementMethods::default(),
        across: FilesWithoutSteps::for_inputs(origins.len()),
        tuned: TuningCounts::default(),
    };
    let surveyed = stages::read_stage(&mut first, origins, read, report, progress, B::new_visit)?;
    let FirstWalk {
        mut plans,
        present,
        mut methods,
        mut across,
        tuned,
        ..
    } = first;
    // The window is checked over all inputs before the first row goes out.
    if let Some(window) = &read.window {
        let missing =
            |text| propose::reopened_missing_steps_error(text, &present, origins, read.source);
        present.check_window(window).map_err(missing)?;
    }
    progress.finish();
    if let Some(placed) = across.place_held(&surveyed, read.log.jobs) {
        methods.add_counts(placed.methods);
        for plan in &mut plans {
            if let InputPlan::Log(log) = plan {
                log.survey.settle_steps(&placed, &surveyed);
            }
        }
    }
    let mut run = SecondWalk::start_second_walk(read, options, surveyed);
    for plan in plans {
        match plan {
            InputPlan::Log(log) => run.write_log_rows(*log, &mut sink)?,
            InputPlan::Table(input) => run.write_table_rows(&input, report, &mut sink)?,
        }
    }
    report_placement(options, read, methods, report);
    if tuned.logs > 0 {
        tuning::report_unmatched_calls(tuned.sum, tuned.calls, report);
    }
    run.watch.report(&options.filter, report);
    Ok(())
}

/// Reports a log without calls, and the notes on its steps if there is a window.
fn report_missing(name: &str, survey: &LogSurvey, read: &Read, report: &mut Report) {
    let account = &survey.log.account;
    if account.calls == 0 && account.lines > 0 {
        open::report_no_calls(name, account.lines, report);
    }
    match read.window {
        Some(_) => notes::report_step_notes(name, &survey.timeline, report),
        None => notes::report_decision(name, &survey.timeline, report),
    }
}

/// Reports how calls were placed, where rows have steps.
fn report_placement(
    options: &Options,
    read: &Read,
    methods: PlacementMethods,
    report: &mut Report,
) {
    if options.form != RowForm::Chain || read.window.is_some() {
        report.add_placements(methods);
    }
}

/// An input after the first walk.
enum InputPlan<V> {
    Log(Box<LogPlan>),
    Table(Box<OpenInput<V>>),
}

/// A log after the first walk.
struct LogPlan {
    input: Input,
    survey: LogSurvey,
    renamed: FxHashMap<u32, u32>,
    /// How its calls were served, if that is wanted.
    served: Option<CallMethods>,
}

/// The first walk of all inputs.
struct FirstWalk<'o, B: TuningOption> {
    read: &'o Read,
    /// The current log, and its TUNING lines if wanted.
    now: SurveyBuilder,
    beside: B,
    plans: Vec<InputPlan<B::Visit>>,
    present: PresentSteps,
    /// How calls were placed.
    methods: PlacementMethods,
    /// Inputs placed by each other's step lines.
    across: FilesWithoutSteps,
    tuned: TuningCounts,
}

impl<B: TuningOption> InputStage for FirstWalk<'_, B> {
    const NEEDS: Provides = Provides::CALLS;
    const SECOND_PASS: bool = true;
    type Visit = B::Visit;

    fn begin_input(&mut self, _: String) {
        self.now = SurveyBuilder::new(self.read, None);
        self.beside = B::default();
    }

    fn add_chunk(&mut self, part: MergedChunk<'_, Self::Visit>) {
        let (calls, part) = self.beside.split_part(part);
        self.now.add_chunk(calls, &part, self.read);
    }

    fn end_input(
        &mut self,
        input: OpenInput<Self::Visit>,
        log: LogState,
        merged: &MergedMembers,
        report: &mut Report,
    ) {
        let now = std::mem::take(&mut self.now);
        let growing = &mut LiveTimeline::default();
        let survey = now.end_log(log, growing, merged, &mut self.across, self.read);
        let served = std::mem::take(&mut self.beside).finish_log(merged, &mut self.tuned);
        report_missing(&input.name(), &survey, self.read, report);
        self.present.add_timeline(&survey.timeline);
        self.methods.add_counts(survey.placement.methods);
        self.plans.push(InputPlan::Log(Box::new(LogPlan {
            input: input.into_input(),
            survey,
            renamed: merged.renamed_processes(),
            served,
        })));
    }

    /// Reads the steps of a table, if there is a window.
    fn add_other_input(
        &mut self,
        input: OpenInput<Self::Visit>,
        _: &mut MergedMembers,
        _: &mut Report,
        _: &dyn Progress,
    ) -> Result<()> {
        let input = search_steps(input, self.read, &mut self.present)?;
        self.plans.push(InputPlan::Table(Box::new(input)));
        Ok(())
    }
}

struct SecondWalk<'o> {
    read: &'o Read,
    options: &'o Options,
    /// Members of the first walk.
    surveyed: MergedMembers,
    /// The ranks in the job of its processes.
    ranks: Arc<JobRanks>,
    /// Members so far in the second.
    merged: MergedMembers,
    seqs: CallSequences,
    /// Whether any row passes the filter.
    watch: FilterWatch,
}

impl<'o> SecondWalk<'o> {
    fn start_second_walk(
        read: &'o Read,
        options: &'o Options,
        surveyed: MergedMembers,
    ) -> SecondWalk<'o> {
        SecondWalk {
            read,
            options,
            merged: MergedMembers::with_names_after(&surveyed),
            ranks: Arc::new(surveyed.find_job_ranks(&surveyed.process_aliases())),
            surveyed,
            seqs: CallSequences::default(),
            watch: FilterWatch::default(),
        }
    }
}
