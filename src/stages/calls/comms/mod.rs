//! nccl-comms: the call table, a row for every call or for every distinct one.
//!
//! A call's step is known only when its step line comes, later in the log. So a log is walked
//! twice: once for its steps, once for its rows (`log`).

use crate::count::calls::{Counting, Options as Read, Progress};
use crate::count::notes;
use crate::count::rowed::Rowed;
use crate::error::{Error, Result};
use crate::formats::Tells;
use crate::formats::door::{self, Known};
use crate::formats::lines::{self, Rows};
use crate::log::placement::{Across, Methods};
use crate::log::propose;
use crate::log::timeline::{Growing, Present, Window};
use crate::log::{Log, Part};
use crate::members::Merged;
use crate::members::twice::Twice;
use crate::output::table::{Row, csv_header};
use crate::report::Report;
use crate::source::{Input, Origin};
use crate::stages::survey::{Survey, Surveying};
use crate::stages::tuning;
use crate::stages::tuning::served::Served;
use crate::stages::{self, Stage};
use beside::{Beside, Tuned, Tuning};
use filter::{Others, Watch};
use records::Seqs;
use std::io::Write;

mod beside;
mod filter;
mod held;
mod live;
mod log;
pub mod look;
mod order;
pub mod param;
mod records;
mod text;
pub mod times;
mod unique;
mod work;

pub use filter::Filter;
pub use order::Order;
pub use unique::unique;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which rows.
    pub filter: Filter,
    /// How they are written.
    pub form: Form,
    /// Whether a log's TUNING lines fill `algo`, `proto` and `nchannels`.
    pub tuning: bool,
    /// Which row comes first.
    pub order: Order,
    /// Bytes of a pipe's calls that may wait for their step in memory.
    pub hold: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            filter: Filter::default(),
            form: Form::default(),
            tuning: false,
            order: Order::default(),
            hold: 64 << 20,
        }
    }
}

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// CSV with a header.
    #[default]
    Csv,
    /// JSON lines.
    Jsonl,
    /// The AWK chain's `op count datatype bytes`.
    Chain,
    /// Columns to look at.
    Table {
        /// With those of `--tuning`.
        tuning: bool,
    },
}

impl Form {
    fn header(self) -> Vec<u8> {
        match self {
            Form::Csv => csv_header().into_bytes(),
            Form::Table { tuning } => look::header(tuning),
            Form::Jsonl | Form::Chain => Vec::new(),
        }
    }

    fn row(self, row: &Row<'_>, out: &mut Vec<u8>) {
        match self {
            Form::Csv => row.csv(out),
            Form::Jsonl => row.jsonl(out),
            Form::Chain => row.chain(out),
            Form::Table { tuning } => look::row(row, tuning, out),
        }
    }
}

/// Writes a row for every call.
///
/// # Errors
/// The window is not there; an input cannot be read, the output not written.
pub fn rows(
    origins: &[Origin],
    read: &Read,
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
    out: &mut (dyn Write + Send),
) -> Result<()> {
    if let ([origin], false) = (origins, options.tuning)
        && origin.is_piped()
    {
        return match live::rows(origin, read, options, report, progress, out)? {
            Some(input) => table(input, origins, read, options, report, out),
            None => Ok(()),
        };
    }
    let mut out = Headed::new(options.form, out);
    let sink = Sink::Text(&mut out);
    match options.tuning {
        true => each::<Tuning>(origins, read, options, report, progress, sink),
        false => each::<()>(origins, read, options, report, progress, sink),
    }?;
    out.flush().map_err(Error::Output)
}

/// Writes the rows of a table that comes through a pipe.
fn table<V>(
    input: Known<V>,
    origins: &[Origin],
    read: &Read,
    options: &Options,
    report: &mut Report,
    out: &mut (dyn Write + Send),
) -> Result<()> {
    let mut present = Present::default();
    let input = searched(input, read, &mut present)?;
    if let Some(window) = &read.window {
        let missing = |text| propose::anew(text, &present, origins, read.source);
        present.check(window).map_err(missing)?;
    }
    let mut out = Headed::new(options.form, out);
    let mut run = Run::of(read, options, Merged::default());
    run.table(&input, report, &mut Sink::Text(&mut out))?;
    out.flush().map_err(Error::Output)?;
    run.watch.said(&options.filter, report);
    Ok(())
}

/// A table as text: its header goes before the first row, or where there is none to the end. An input that
/// cannot be read leaves nothing.
struct Headed<'o> {
    header: Vec<u8>,
    out: &'o mut (dyn Write + Send),
}

impl<'o> Headed<'o> {
    fn new(form: Form, out: &'o mut (dyn Write + Send)) -> Headed<'o> {
        let header = form.header();
        Headed { header, out }
    }

    fn head(&mut self) -> std::io::Result<()> {
        match std::mem::take(&mut self.header) {
            header if header.is_empty() => Ok(()),
            header => self.out.write_all(&header),
        }
    }
}

impl Write for Headed<'_> {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        if !text.is_empty() {
            self.head()?;
        }
        self.out.write(text)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.head()?;
        self.out.flush()
    }
}

/// A table; which steps it has is read first, if that is asked for.
fn searched<V>(input: Known<V>, read: &Read, present: &mut Present) -> Result<Known<V>> {
    if read.window.is_none() {
        return Ok(input);
    }
    let input = input.rewindable()?;
    let options = lines::Options {
        jobs: read.log.jobs,
        strict: false,
    };
    input.records(
        options,
        &mut Twice::default(),
        Present::default,
        |_| {},
        |steps| {
            present.merge(&steps);
            Ok(())
        },
    )?;
    input.rewound()
}

/// Where rows go.
enum Sink<'s, 'o> {
    /// As text, made on all cores.
    Text(&'s mut (dyn Write + Send)),
    /// Counted by what tells them apart.
    Counted(&'s mut Counting<'o>),
}

fn each<B: Beside>(
    origins: &[Origin],
    read: &Read,
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
    mut sink: Sink<'_, '_>,
) -> Result<()> {
    let mut first = First {
        read,
        now: Surveying::default(),
        beside: B::default(),
        plans: Vec::new(),
        present: Present::default(),
        methods: Methods::default(),
        across: Across::of(origins.len()),
        tuned: Tuned::default(),
    };
    let surveyed = stages::read(&mut first, origins, read, report, progress, B::visit)?;
    let First {
        mut plans,
        present,
        mut methods,
        mut across,
        tuned,
        ..
    } = first;
    // The window is checked over all inputs before the first row goes out.
    if let Some(window) = &read.window {
        let missing = |text| propose::anew(text, &present, origins, read.source);
        present.check(window).map_err(missing)?;
    }
    progress.finish();
    if let Some(placed) = across.place(&surveyed, read.log.jobs) {
        methods.add(placed.methods);
        for plan in &mut plans {
            if let Plan::Log(log) = plan {
                log.survey.settle(&placed);
            }
        }
    }
    let mut run = Run::of(read, options, surveyed);
    for plan in plans {
        match plan {
            Plan::Log(log) => run.log(*log, &mut sink)?,
            Plan::Table(input) => run.table(&input, report, &mut sink)?,
        }
    }
    placed(options, read, methods, report);
    if tuned.logs > 0 {
        tuning::said(tuned.sum, tuned.calls, report);
    }
    run.watch.said(&options.filter, report);
    Ok(())
}

/// Reports what a log lacks, and what is known of its steps where some are asked for.
fn reported(name: &str, survey: &Survey, read: &Read, report: &mut Report) {
    let account = &survey.log.account;
    if account.calls == 0 && account.lines > 0 {
        door::no_calls(name, account.lines, report);
    }
    if read.window.is_some() {
        notes::said(name, &survey.timeline, report);
    }
}

/// Reports how calls were placed, where rows have steps.
fn placed(options: &Options, read: &Read, methods: Methods, report: &mut Report) {
    if options.form != Form::Chain || read.window.is_some() {
        report.placed(methods);
    }
}

/// What is known of an input before its rows are written.
enum Plan<V> {
    Log(Box<LogPlan>),
    Table(Box<Known<V>>),
}

/// What is known of a log before its rows are written.
struct LogPlan {
    input: Input,
    survey: Survey,
    aliases: Vec<u32>,
    /// How its calls were served, if that is wanted.
    served: Option<Served>,
}

/// The first walk of all inputs.
struct First<'o, B: Beside> {
    read: &'o Read,
    /// The log in hand, and what is kept beside its calls.
    now: Surveying,
    beside: B,
    plans: Vec<Plan<B::Visit>>,
    present: Present,
    /// How the steps of calls are known.
    methods: Methods,
    /// What inputs tell of each other's steps.
    across: Across,
    tuned: Tuned,
}

impl<B: Beside> Stage for First<'_, B> {
    const NEEDS: Tells = Tells::CALLS;
    const AGAIN: bool = true;
    type Visit = B::Visit;

    fn begin(&mut self, _: String) {
        self.now = Surveying::new(self.read, false);
        self.beside = B::default();
    }

    fn add(&mut self, part: Part<'_, Self::Visit>) {
        let (calls, part) = self.beside.add(part);
        self.now.add(calls, &part, self.read);
    }

    fn end(&mut self, input: Known<Self::Visit>, log: Log, merged: &Merged, report: &mut Report) {
        let now = std::mem::take(&mut self.now);
        let log = (log, &mut Growing::default());
        let survey = now.end(log, merged, &mut self.across, self.read);
        let served = std::mem::take(&mut self.beside).end(merged, &mut self.tuned);
        reported(&input.name(), &survey, self.read, report);
        self.present.add(&survey.timeline);
        self.methods.add(survey.placement.methods);
        self.plans.push(Plan::Log(Box::new(LogPlan {
            input: input.into_input(),
            survey,
            aliases: merged.aliases(),
            served,
        })));
    }

    /// Reads which steps a table has, if that is asked for.
    fn other(
        &mut self,
        input: Known<Self::Visit>,
        _: &mut Merged,
        _: &mut Report,
        _: &dyn Progress,
    ) -> Result<()> {
        let input = searched(input, self.read, &mut self.present)?;
        self.plans.push(Plan::Table(Box::new(input)));
        Ok(())
    }
}

struct Run<'o> {
    read: &'o Read,
    options: &'o Options,
    /// Who was met in the first walk.
    surveyed: Merged,
    /// Who was met so far in the second.
    merged: Merged,
    seqs: Seqs,
    /// Whether any row passes the filter.
    watch: Watch,
}

impl<'o> Run<'o> {
    fn of(read: &'o Read, options: &'o Options, surveyed: Merged) -> Run<'o> {
        Run {
            read,
            options,
            merged: Merged::after(&surveyed),
            surveyed,
            seqs: Seqs::default(),
            watch: Watch::default(),
        }
    }

    /// A table's rows, filtered, in their order.
    fn table<V>(
        &mut self,
        input: &Known<V>,
        report: &mut Report,
        sink: &mut Sink<'_, '_>,
    ) -> Result<()> {
        let counted = match sink {
            Sink::Text(_) => None,
            Sink::Counted(counting) => Some(counting.tally()),
        };
        let new_part = || match counted {
            None => Kept::Text(Vec::new()),
            Some(tally) => Kept::Counted(Box::new(Rowed::new(tally, None))),
        };
        let account = input.records(
            (&self.read.log).into(),
            &mut self.surveyed.twice,
            || TableRows {
                options: self.options,
                window: self.read.window.as_ref(),
                kept: new_part(),
                passed: false,
                others: self.watch.part(),
            },
            |_| {},
            |rows| {
                self.watch.add(rows.others, rows.passed);
                match (rows.kept, &mut *sink) {
                    (Kept::Text(text), Sink::Text(out)) => {
                        out.write_all(&text).map_err(Error::Output)
                    }
                    (Kept::Counted(part), Sink::Counted(counting)) => {
                        counting.merge(*part);
                        Ok(())
                    }
                    _ => Ok(()),
                }
            },
        )?;
        report.input(&input.name(), &account);
        Ok(())
    }
}

/// What is kept of the rows of a part of a table.
enum Kept {
    /// As they are written.
    Text(Vec<u8>),
    Counted(Box<Rowed>),
}

/// The rows of a part of a table that pass.
struct TableRows<'o> {
    options: &'o Options,
    window: Option<&'o Window>,
    kept: Kept,
    passed: bool,
    others: Option<Others>,
}

impl Rows for TableRows<'_> {
    fn row(&mut self, row: &Row<'_>) {
        let in_window = |w: &Window| row.step.is_some_and(|step| w.contains(step));
        if !self.window.is_none_or(in_window) {
            return;
        }
        let filter = &self.options.filter;
        if filter.passes(row) {
            self.passed = true;
            match &mut self.kept {
                Kept::Text(text) => self.options.form.row(row, text),
                Kept::Counted(part) => part.row(row),
            }
        } else if let (false, Some(others)) = (self.passed, &mut self.others) {
            others.add(row, filter);
        }
    }
}
