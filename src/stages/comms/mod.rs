//! nccl-comms: the call table, a row for every call or for every distinct one.
//!
//! A call's step is known only when its step line comes, later in the log. So a log is walked
//! twice: once for its steps, once for its rows (`log`).

use super::survey::{Survey, survey, survey_with};
use super::tuning;
use super::tuning::all::{All, Counts};
use super::tuning::fold::Partial;
use super::tuning::served::Served;
use crate::count::calls;
use crate::count::calls::{Options as Read, Progress, Who};
use crate::count::tally;
use crate::count::tally::{Key, NO_ROOT, NONE, Sizing, Value};
use crate::error::{Error, Result};
use crate::formats::log::Part;
use crate::formats::log::placement::{Across, Methods};
use crate::formats::log::propose;
use crate::formats::log::timeline::{Present, Window};
use crate::formats::{self, Format, rows};
use crate::grammar::values::{Datatype, RedOp, has_redop, has_root};
use crate::members::Merged;
use crate::output::table::{Row, Timing, csv_header};
use crate::report::Report;
use crate::source::{Input, Origin};
use filter::Watch;
use records::Seqs;
use std::io::Write;

mod filter;
mod log;
mod look;
mod records;
mod text;
mod work;

pub use filter::Filter;

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Which rows.
    pub filter: Filter,
    /// How they are written.
    pub form: Form,
    /// Whether a log's TUNING lines fill `algo`, `proto` and `nchannels`.
    pub tuning: bool,
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

/// What `--unique` tells apart: every column but time, tid, seq, op_count, stream, start_ns and
/// dur_ns, and the step only where steps are asked for. Durations add up.
fn unique_tally(steps: bool) -> tally::Options {
    tally::Options {
        sizing: Sizing::Count,
        basis: crate::grammar::values::Basis::Api,
        members: true,
        datatypes: true,
        steps,
        exact: true,
    }
}

/// Writes one row for each distinct call, with how often it was made, sorted.
///
/// # Errors
/// As [`calls::count`]; the output cannot be written.
pub fn unique(
    origins: &[Origin],
    read: &Read,
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
    out: &mut (dyn Write + Send),
) -> Result<()> {
    let tally = unique_tally(read.window.is_some());
    // How a call was served is known call by call.
    let calls = match options.tuning {
        true => calls::of_rows(read, &tally, |take| {
            each(origins, read, options, report, progress, Sink::Rows(take))
        })?,
        false => calls::count(origins, read, &tally, report, progress)?,
    };
    let cells = calls.cells.list();
    // A log's calls have none, and there may be many.
    let timing = |((step, key), value): &((Option<u64>, Key), Value)| {
        let who = &calls.who[key.member as usize];
        let timing = who.recorded.timing(calls.duration(*step, key, value));
        (timing != Timing::default()).then(|| Box::new(timing))
    };
    let timings: Vec<_> = cells.iter().map(timing).collect();
    let all = cells
        .iter()
        .zip(&timings)
        .map(|(((step, key), value), timing)| {
            let who = &calls.who[key.member as usize];
            let timing = timing.as_deref();
            let row = unique_row(&calls, *step, key, value);
            (Row { timing, ..row }, who)
        });
    let passes = |(row, _): &(Row<'_>, &Who)| options.filter.passes(row);
    let (mut rows, others): (Vec<_>, Vec<_>) = all.partition(passes);
    if rows.is_empty() {
        filter::none(&options.filter, others.iter().map(|(row, _)| row), report);
    }
    // Numbers given to members and operations depend on the order of the inputs; values do not.
    rows.sort_by(|(a, who_a), (b, who_b)| {
        let key = |r: &Row<'_>| {
            let step = (r.step.is_none(), r.step);
            (step, r.count, r.datatype, r.nranks, r.redop, r.root)
        };
        (key(a).0, who_a, a.op)
            .cmp(&(key(b).0, who_b, b.op))
            .then_with(|| key(a).cmp(&key(b)))
    });
    let mut text = options.form.header();
    for (row, _) in &rows {
        options.form.row(row, &mut text);
        if text.len() > 1 << 20 {
            out.write_all(&text).map_err(Error::Output)?;
            text.clear();
        }
    }
    out.write_all(&text).map_err(Error::Output)
}

fn unique_row<'c>(calls: &'c calls::Calls, step: Option<u64>, key: &Key, value: &Value) -> Row<'c> {
    let who = &calls.who[key.member as usize];
    let op = calls.ops.name(key.op);
    Row {
        step,
        host: &who.host,
        pid: who.pid,
        dev: who.dev,
        rank: who.rank,
        nranks: (key.nranks > 0).then_some(key.nranks),
        comm: who.comm,
        comm_id: who.comm_id,
        op,
        count: key.size,
        datatype: Datatype::from_code(key.datatype),
        redop: Some(key.redop)
            .filter(|&r| r != NONE && has_redop(op))
            .map(RedOp),
        root: Some(key.root).filter(|&r| r != NO_ROOT && has_root(op)),
        calls: value.calls,
        src: &who.recorded.src,
        ..Row::default()
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
    each(origins, read, options, report, progress, Sink::Text(out))
}

/// Where rows go.
enum Sink<'s> {
    /// As text, made on all cores.
    Text(&'s mut (dyn Write + Send)),
    /// One by one.
    Rows(&'s mut (dyn FnMut(&Row<'_>) -> Result<()> + Send)),
}

fn each(
    origins: &[Origin],
    read: &Read,
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
    mut sink: Sink<'_>,
) -> Result<()> {
    let mut run = Run {
        read,
        options,
        surveyed: Merged::default(),
        merged: Merged::default(),
        seqs: Seqs::default(),
        watch: Watch::default(),
        methods: Methods::default(),
        across: Across::of(origins.len()),
        tuned: Tuned::default(),
    };
    // The window is checked over all inputs before the first row goes out.
    let mut present = Present::default();
    let mut plans = Vec::new();
    calls::each(origins, read.source, report, |input, report| {
        plans.push(run.plan(input, report, progress, &mut present)?);
        Ok(())
    })?;
    if let Some(window) = &read.window {
        let missing = |text| propose::anew(text, &present, origins, read.source);
        present.check(window).map_err(missing)?;
    }
    progress.finish();
    if let Sink::Text(out) = &mut sink {
        out.write_all(&options.form.header())
            .map_err(Error::Output)?;
    }
    run.merged = Merged::after(&run.surveyed);
    let placed = run.across.place(&run.surveyed, read.log.jobs);
    if let Some(placed) = &placed {
        run.methods.add(placed.methods);
        for plan in &mut plans {
            if let Plan::Log(log) = plan {
                log.survey.settle(placed);
            }
        }
    }
    drop(placed);
    for plan in plans {
        match plan {
            Plan::Log(log) => run.log(*log, &mut sink)?,
            Plan::Table(input, format) => run.table(&input, format, report, &mut sink)?,
        }
    }
    if options.form != Form::Chain || run.read.window.is_some() {
        report.placed(run.methods);
    }
    if run.tuned.logs > 0 {
        tuning::said(run.tuned.sum, run.tuned.calls, report);
    }
    run.watch.said(&options.filter, report);
    Ok(())
}

/// What is known of an input before its rows are written.
enum Plan {
    Log(Box<LogPlan>),
    Table(Input, Format),
}

/// What is known of a log before its rows are written.
struct LogPlan {
    input: Input,
    survey: Survey,
    aliases: Vec<u32>,
    /// How its calls were served, if that is wanted.
    served: Option<Served>,
}

/// What TUNING lines tell of the calls of all logs.
#[derive(Debug, Default)]
struct Tuned {
    logs: u64,
    sum: Counts,
    /// Calls of ranks 0.
    calls: u64,
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
    /// How the steps of calls are known.
    methods: Methods,
    /// What inputs tell of each other's steps.
    across: Across,
    tuned: Tuned,
}

impl Run<'_> {
    fn plan(
        &mut self,
        input: Input,
        report: &mut Report,
        progress: &dyn Progress,
        present: &mut Present,
    ) -> Result<Plan> {
        let format = formats::recognise(&input.head()?);
        if format != Format::Log {
            return self.plan_table(input, format, present);
        }
        let input = input.rewindable()?;
        let known = (&mut self.surveyed, &mut self.across);
        let progress = |bytes| progress.advance(bytes);
        let (survey, all) = match self.options.tuning {
            true => {
                let mut all = All::in_order();
                let take = |part: Part<'_, Partial>| all.add(part);
                let new = Partial::in_order;
                let survey = survey_with(&input, self.read, false, known, progress, new, take)?;
                all.end(&self.surveyed);
                (survey, Some(all))
            }
            false => (survey(&input, self.read, false, known, progress)?, None),
        };
        if let Some(all) = &all {
            self.tuned.logs += 1;
            self.tuned.sum.add(all.sum());
            self.tuned.calls += all.calls;
        }
        report.input(&input.name(), &survey.log.account);
        if survey.log.account.calls == 0 {
            calls::no_calls(&input.name(), survey.log.account.lines, report);
        }
        let timeline = &survey.timeline;
        if self.read.window.is_some() {
            calls::said(&input.name(), timeline, report);
        }
        present.add(timeline);
        self.methods.add(survey.placement.methods);
        Ok(Plan::Log(Box::new(LogPlan {
            input,
            survey,
            aliases: self.surveyed.aliases(),
            served: all.map(All::into_served),
        })))
    }

    fn plan_table(&self, input: Input, format: Format, present: &mut Present) -> Result<Plan> {
        if self.read.window.is_none() {
            return Ok(Plan::Table(input, format));
        }
        let input = input.rewindable()?;
        rows::read(
            &input,
            format,
            false,
            |_| {},
            |row| {
                if let Some(step) = row.step {
                    present.step(step, 1);
                }
                Ok(())
            },
        )?;
        Ok(Plan::Table(input, format))
    }

    /// A table's rows, filtered, in their order.
    fn table(
        &mut self,
        input: &Input,
        format: Format,
        report: &mut Report,
        sink: &mut Sink<'_>,
    ) -> Result<()> {
        let mut text = Vec::new();
        let filter = &self.options.filter;
        let (mut passed, mut others) = (false, self.watch.part());
        let strict = self.read.log.strict;
        let account = rows::read_known(
            input,
            format,
            strict,
            &mut self.surveyed.twice,
            |_| {},
            |row| {
                let in_window = |w: &Window| row.step.is_some_and(|step| w.contains(step));
                if !self.read.window.as_ref().is_none_or(in_window) {
                    return Ok(());
                }
                if filter.passes(row) {
                    passed = true;
                    match sink {
                        Sink::Text(out) => {
                            self.options.form.row(row, &mut text);
                            if text.len() > 1 << 18 {
                                out.write_all(&text).map_err(Error::Output)?;
                                text.clear();
                            }
                        }
                        Sink::Rows(take) => take(row)?,
                    }
                } else if let (false, Some(others)) = (passed, &mut others) {
                    others.add(row, filter);
                }
                Ok(())
            },
        )?;
        self.watch.add(others, passed);
        report.input(&input.name(), &account);
        match sink {
            Sink::Text(out) => out.write_all(&text).map_err(Error::Output),
            Sink::Rows(_) => Ok(()),
        }
    }
}
