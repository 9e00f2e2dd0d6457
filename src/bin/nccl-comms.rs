//! nccl-comms: see `--help`.

use anyhow::bail;
use clap::{Parser, ValueEnum};
use nccl_pipe::error::Error;
use nccl_pipe::filter::{CallFilter, FilterExpression};
use nccl_pipe::grammar::expression::Relation;
use nccl_pipe::output::chrome::ChromeTrace;
use nccl_pipe::output::parquet::ParquetCalls;
use nccl_pipe::output::table::{COLUMNS, Column, MEANINGS};
use nccl_pipe::program::cli;
use nccl_pipe::program::cli::{
    AroundArgs, ByteSize, FileArgs, FilterArgs, InputArgs, ProgramRun, RowFormat, StepArgs,
};
use nccl_pipe::report::{Report, count_phrase};
use nccl_pipe::source::InputName;
use nccl_pipe::stages::comms::{self, CommsRowOrder, Options, RowForm};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// The call table: one row for every NCCL call in a log
#[derive(Debug, Parser)]
#[command(name = "nccl-comms", version)]
#[command(next_help_heading = "Rows")]
#[command(long_about = about(), after_long_help = AFTER)]
pub(crate) struct Cli {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    steps: StepArgs,
    /// Write one row for each distinct call, with the number of calls
    #[arg(long)]
    unique: bool,
    /// Fill algo, proto and nchannels from the log's TUNING lines
    #[arg(long, hide_short_help = true)]
    tuning: bool,
    /// Fill durations, starts, algorithms and channels from what a recorder saw of the same job: traces
    /// of NCCL's profiler plugin or torch.profiler, NCCL Inspector's records, exports of Nsight Systems, dumps of
    /// PyTorch's flight recorder; may be given several times
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "unique",
        hide_short_help = true
    )]
    times: Vec<PathBuf>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Only calls of at least this many bytes: 64KB
    #[arg(long, value_name = "SIZE")]
    min_bytes: Option<ByteSize>,
    /// Only calls of at most this many bytes
    #[arg(long, value_name = "SIZE")]
    max_bytes: Option<ByteSize>,
    /// Do not look for steps: the column stays empty, and the rows of a pipe are written at once
    #[arg(
        long,
        conflicts_with_all = ["steps", "printer", "by_position", "compat"],
        hide_short_help = true
    )]
    no_steps: bool,
    /// Which row comes first: that of the first line, or that of the first step. Where ranks run ahead of the
    /// step lines, the last rows of a step come from a pipe a step earlier
    #[arg(long, value_enum, default_value = "line", conflicts_with_all = ["unique", "no_steps"], hide_short_help = true)]
    order: CommsOrderArg,
    /// How much of a pipe's calls may wait for their step in memory, such as 64MB (of 1024); more goes to a
    /// temporary file
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "64MB",
        hide_short_help = true
    )]
    hold: ByteSize,
    /// How rows are written (default: table on a terminal, csv in a pipe)
    #[arg(short, long, value_enum, help_heading = "Output")]
    format: Option<CommsFormat>,
    #[command(flatten)]
    around: AroundArgs,
    #[command(flatten)]
    file: FileArgs,
}

/// Which row comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CommsOrderArg {
    /// In the order of the log's lines.
    Line,
    /// Step by step, each in the order of the lines.
    Step,
}

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CommsFormat {
    /// Comma-separated with a header: the default in a pipe.
    Csv,
    /// The same with tabs.
    Tsv,
    /// One JSON object a line.
    #[value(alias = "json")]
    Jsonl,
    /// As the AWK chain prints it.
    Awk,
    /// A table for reading: the default on a terminal.
    Table,
    /// A Parquet file, for DuckDB, Polars, Spark and pandas.
    Parquet,
    /// A trace for Perfetto (Chrome's JSON): calls by process and stream.
    Chrome,
    /// The basic trace of PARAM's replay: a file for each rank, into the folder of --output.
    Param,
}

impl CommsFormat {
    /// What of it other tables have.
    fn table_format(self) -> RowFormat {
        match self {
            CommsFormat::Csv => RowFormat::Csv,
            CommsFormat::Tsv => RowFormat::Tsv,
            CommsFormat::Jsonl => RowFormat::Jsonl,
            CommsFormat::Awk | CommsFormat::Parquet | CommsFormat::Chrome | CommsFormat::Param => {
                RowFormat::Awk
            }
            CommsFormat::Table => RowFormat::Table,
        }
    }

    fn fitting_stdout() -> CommsFormat {
        match RowFormat::fitting_stdout() {
            RowFormat::Table => CommsFormat::Table,
            _ => CommsFormat::Csv,
        }
    }
}

/// What `--help` begins with; the columns are those of the table's declaration.
fn about() -> String {
    let columns = COLUMNS.iter().zip(MEANINGS);
    let lines: Vec<String> = columns
        .map(|(name, is)| format!("  {name:<9}  {is}"))
        .collect();
    format!(
        "{HELP_BEFORE_COLUMNS}\n\n{}\n\n{HELP_AFTER_COLUMNS}",
        lines.join("\n")
    )
}

const HELP_BEFORE_COLUMNS: &str = "\
The call table: one row for every NCCL call in a log

Reads NCCL debug logs (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL) or call tables. Each input is \
recognised by its content.

Writes these columns. An empty field means that the value is unknown.";

const HELP_AFTER_COLUMNS: &str = "\
A log has no durations: NCCL prints a call when it is enqueued. With --tuning, algo, proto and \
nchannels come from the log's TUNING lines (NCCL_DEBUG_SUBSYS=INIT,COLL,TUNING), which only rank 0 \
of a communicator prints; they are empty if the call of a line is unknown. \
nccl-tuning --help describes how lines find their calls.

With --times a recorder's files fill dur_ns, clock, quality, start_ns, algo, proto and nchannels: by \
communicator, rank and the number or order of the calls, whose operations and bytes must agree. Traces of \
the profiler plugin and of torch.profiler, NCCL Inspector's records, exports of Nsight Systems and \
dumps of PyTorch's flight recorder are taken. Notes report how many calls have a record, and how many \
records fill no call.

With --unique equal calls are one row: calls is their number, dur_ns is the sum of their durations \
(empty if one has none), and time, tid, seq, op_count, stream, start_ns and enqueue_ns are empty. step is also \
empty unless --steps is given. Calls that differ in src, clock, quality, algo, proto, nchannels, \
pg_name or pg_desc are never one row.

If no call passes a filter, a warning lists the values in the input. The table is then empty \
and the exit code is 0.

--format chrome writes a trace that Perfetto (https://ui.perfetto.dev) and chrome://tracing open: a \
process for each process of the job and clock, a track for each stream, a slice for each call with a \
duration, and an instant where only a start or a log's time stamp is known.

--format parquet writes a file for DuckDB, Polars, Spark and pandas: the same columns, with types. Empty fields \
are null. time is a time stamp in µs without a zone; one that is not a date and time is null, and a warning \
has their number. The file is complete when the input has ended.

--format param writes a folder of basic traces, which PARAM's commsTraceReplay reads (--trace-path DIR): \
RANK.json for each rank of the job, first the communicators, then the rank's calls in order. Sizes are elements. \
It needs the INIT lines of all ranks.

A log from a pipe is written as its steps end. In the order of the lines a row waits for the step of \
every call before it: where ranks run ahead of the step lines, --order step writes all rows of a step \
as soon as its line has come. The rows are the same.";

const AFTER: &str = "\
Examples:
  nccl-comms nccl.log -o calls.csv
  nccl-comms nccl.log -o calls.parquet
  nccl-comms nccl.log -s 45..49 --op AllReduce --rank 0
  nccl-comms nccl.log --times vm-pid3753.log --times vm-pid3755.log | nccl-ops --time
  nccl-comms trace_*.json --format chrome -o calls.json
  nccl-comms nccl.log --steps 45..49 --format param --output traces/
  nccl-comms nccl.log --unique --op AllGather,ReduceScatter
  nccl-steps nccl.log --steps 45..49 --keep-init | nccl-comms | nccl-hist --by rank

Exit codes: 0 everything was read, 1 some input was damaged, 2 the program failed.";

/// The form of the rows.
fn choose_form(cli: &Cli, format: CommsFormat, is_fitted: bool) -> anyhow::Result<RowForm> {
    Ok(match format {
        CommsFormat::Chrome if cli.unique => {
            bail!("--format chrome shows each call at its time: --unique has none")
        }
        CommsFormat::Param if cli.unique || cli.tuning || !cli.times.is_empty() => {
            bail!("--format param has each call once: omit --unique, --tuning and --times")
        }
        CommsFormat::Param if cli.file.path().is_none() => {
            bail!("--format param writes a file for each rank: name a folder with --output")
        }
        CommsFormat::Parquet if io::stdout().is_terminal() => {
            bail!("--format parquet writes no text: name a file (-o calls.parquet)")
        }
        CommsFormat::Parquet => RowForm::Packed,
        CommsFormat::Csv | CommsFormat::Tsv | CommsFormat::Param => RowForm::Csv,
        // A terminal's table is drawn of it.
        CommsFormat::Table if is_fitted => RowForm::Csv,
        CommsFormat::Jsonl | CommsFormat::Chrome => RowForm::Jsonl,
        CommsFormat::Table => RowForm::Table { tuning: cli.tuning },
        CommsFormat::Awk if cli.unique => {
            bail!("the AWK chain's lines have no field for a number of calls: use nccl-agg")
        }
        CommsFormat::Awk if cli.tuning => {
            bail!("the AWK chain's lines have no fields for algo, proto and nchannels")
        }
        CommsFormat::Awk => RowForm::Chain,
    })
}

/// Which calls are wanted.
fn build_filter(cli: &Cli) -> anyhow::Result<CallFilter> {
    let (min, max) = (cli.min_bytes.map(|s| s.0), cli.max_bytes.map(|s| s.0));
    if let (Some(min), Some(max)) = (min, max)
        && min > max
    {
        bail!("--min-bytes {min} is more than --max-bytes {max}: no call can match");
    }
    let bytes = |relation, than: Option<u128>| {
        let than = than.map(|than| than.to_string());
        let column = Column::bytes;
        than.map(|than| FilterExpression::compare(column, relation, &[&than]))
            .transpose()
            .map_err(anyhow::Error::msg)
    };
    let mut filter = cli.filter.build_filter()?;
    filter.add_terms(bytes(Relation::AtLeast, min)?);
    filter.add_terms(bytes(Relation::AtMost, max)?);
    Ok(filter)
}

pub(crate) fn main() -> ExitCode {
    cli::run_program("nccl-comms", |cli: Cli| {
        // --format param writes a file for each rank into the folder of --output.
        if cli.format != Some(CommsFormat::Param) {
            cli.file.redirect()?;
        }
        let format = cli.format.unwrap_or_else(CommsFormat::fitting_stdout);
        let output = cli.around.output(format.table_format());
        let is_fitted = output.look.width.is_some();
        let form = choose_form(&cli, format, is_fitted)?;
        let filter = build_filter(&cli)?;
        let tuning = cli.tuning;
        let mut run = ProgramRun::new("nccl-comms", &cli.input, &cli.steps)?;
        run.set_filter(filter, &cli.input)?;
        let options = Options {
            filter: std::mem::take(&mut run.filter),
            form,
            tuning,
            order: match cli.order {
                CommsOrderArg::Line => CommsRowOrder::Line,
                CommsOrderArg::Step => CommsRowOrder::Step,
            },
            hold: usize::try_from(cli.hold.0).unwrap_or(usize::MAX),
        };
        run.options.timeline.none = cli.no_steps;
        let ProgramRun {
            origins,
            options: read,
            report,
            bar,
            ..
        } = &mut run;
        if let (CommsFormat::Param, Some(folder)) = (format, cli.file.path()) {
            comms::param::write_traces(origins, read, &options, folder, report, bar)?;
            return Ok(run.finish());
        }
        let times: Vec<InputName> = cli.times.into_iter().map(InputName::Path).collect();
        let write =
            |report: &mut Report, out: &mut (dyn Write + Send)| match (cli.unique, &times[..]) {
                (true, _) => comms::write_unique_rows(origins, read, &options, report, bar, out),
                (_, []) => comms::write_rows(origins, read, &options, report, bar, out),
                (_, times) => {
                    comms::times::write_timed_rows(origins, times, read, &options, report, bar, out)
                }
            };
        if format == CommsFormat::Table && is_fitted {
            let columns = comms::terminal_columns::terminal_column_names(tuning);
            output.drawn(&columns, |out| Ok(write(report, out)?))?;
            return Ok(run.finish());
        }
        output.rows(true, |out| match format {
            CommsFormat::Chrome => write_chrome(out, report, write),
            CommsFormat::Parquet => write_parquet(out, report, write),
            _ => Ok(write(report, out)?),
        })?;
        Ok(run.finish())
    })
}

/// Makes a trace of the rows that `write` writes.
fn write_chrome(
    out: &mut (dyn Write + Send),
    report: &mut Report,
    write: impl FnOnce(&mut Report, &mut (dyn Write + Send)) -> Result<(), Error>,
) -> anyhow::Result<()> {
    let mut chrome = ChromeTrace::new(out);
    let written = write(report, &mut chrome);
    let untimed = chrome.finish().map_err(Error::Output)?;
    if untimed > 0 {
        report.warn(&format!(
            "the trace omits {} without a time: a log has times with NCCL_DEBUG_TIMESTAMP_LEVELS",
            count_phrase(untimed, "call")
        ));
    }
    Ok(written?)
}

/// Makes a Parquet file of the rows that `write` writes.
fn write_parquet(
    out: &mut (dyn Write + Send),
    report: &mut Report,
    write: impl FnOnce(&mut Report, &mut (dyn Write + Send)) -> Result<(), Error>,
) -> anyhow::Result<()> {
    let mut file = ParquetCalls::new(out);
    // What was written before an error is no file.
    write(report, &mut file)?;
    let lost = file.finish().map_err(Error::Output)?;
    if lost.times > 0 {
        report.warn(&format!(
            "time is null for {}: the time stamp is not a date and time of day",
            count_phrase(lost.times, "call")
        ));
    }
    if lost.numbers > 0 {
        report.warn(&format!(
            "{} too large for Parquet's integers: the fields are null",
            count_phrase(lost.numbers, "number")
        ));
    }
    Ok(())
}
