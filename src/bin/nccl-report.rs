//! nccl-report: see `--help`.

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};
use nccl_pipe::program::cli::{
    self, AroundArgs, FileArgs, FilterArgs, InputArgs, ProgramRun, RowFormat, StepLineArgs,
};
use nccl_pipe::stages::page::{self, PageOrder, ReportPage, html, json, markdown, summary, text};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// One page about a job: what ran, how fast, what is wrong, and what the log does not show
///
/// Reads NCCL debug logs (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL,...), of one job: a file, or
/// one for each process. Records beside them or alone give durations and overlap: NCCL Inspector's
/// records, traces of NCCL's profiler plugin, PyTorch's flight recorder and torch.profiler, exports of
/// Nsight Systems.
///
/// Every table of the page is that of another program, and every number of it is in one of these tables:
/// nccl-check, nccl-timing, nccl-ops, nccl-hist, nccl-communicators, nccl-net, nccl-tuning, nccl-overlap,
/// nccl-skew. Where an input lacks something, the page names it.
///
/// A filter concerns the tables that count calls. Faults are judged by all calls: a missing call of a rank shows only
/// beside those of the other ranks.
///
/// A step is called long if it took 1.5 times the median of all steps, or more.
#[derive(Debug, Parser)]
#[command(name = "nccl-report", version, after_long_help = AFTER)]
#[command(mut_arg("follow", |follow| follow.hide(true)))]
#[command(mut_arg("output", |output| output
    .help("Write the page to this file; its ending names the format: .html, .md, .json, .txt")
    .long_help(None)))]
pub(crate) struct Cli {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    lines: StepLineArgs,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    file: FileArgs,
    /// Another run of the job: what changed from it to this one is part of the page, as nccl-diff has it
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    against: Option<PathBuf>,
    /// How the page is written (default: by the file's ending, else text)
    #[arg(short, long, value_enum, help_heading = "Output")]
    format: Option<ReportFormat>,
    #[command(flatten)]
    around: AroundArgs,
    /// Write one row about the job instead of a page, for a table that grows (csv, tsv or jsonl)
    #[arg(long, help_heading = "Output")]
    summary: bool,
}

const AFTER: &str = "\
The HTML file needs nothing else: no network and no other file. Its tables can be sorted, and each
can be saved as CSV. The keys of the JSON object are described in docs/nccl-report.md.

Examples:
  nccl-report nccl.log
  nccl-report nccl.log -o report.html
  nccl-report logs/ traces/ --format md > ticket.md
  nccl-report nccl.log --summary --label job=123 --no-header >> jobs.csv
  nccl-report today.log --against yesterday.log -o report.html
  nccl-steps nccl.log --steps 45..49 --keep-init | nccl-report

Exit codes: 0 everything was read (also if something is wrong with the job: nccl-check shows that
by its exit code), 1 some input was damaged, 2 the program failed.";

/// How the page is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    /// 80 columns to look at
    Text,
    /// One HTML file with plots and all tables
    Html,
    /// Markdown for a ticket
    Md,
    /// One JSON object for a script
    Json,
    /// The row of --summary, comma-separated with a header
    Csv,
    /// The same with tabs
    Tsv,
    /// The same as a line of JSON
    Jsonl,
}

impl ReportFormat {
    /// The format of a row.
    fn row_format(self) -> Option<RowFormat> {
        match self {
            ReportFormat::Csv => Some(RowFormat::Csv),
            ReportFormat::Tsv => Some(RowFormat::Tsv),
            ReportFormat::Jsonl => Some(RowFormat::Jsonl),
            ReportFormat::Text | ReportFormat::Html | ReportFormat::Md | ReportFormat::Json => None,
        }
    }

    fn write_page(
        self,
        page: &ReportPage,
        jobs: usize,
        is_quiet: bool,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let text = match self {
            ReportFormat::Text => text::render_text(page, cli::page_width(), is_quiet).into_bytes(),
            ReportFormat::Json => json::render_json(page, jobs),
            ReportFormat::Html => return Ok(html::write_page(page, jobs, out)?),
            ReportFormat::Md => markdown::render_markdown(page).into_bytes(),
            ReportFormat::Csv | ReportFormat::Tsv | ReportFormat::Jsonl => return Ok(()),
        };
        out.write_all(&text).context("cannot write the output")
    }
}

pub(crate) fn main() -> ExitCode {
    cli::run_program("nccl-report", |cli: Cli| {
        ProgramRun::refuse_follow("nccl-report", &cli.input)?;
        let is_text = |path: &Path| path.extension().is_some_and(|ending| ending == "txt");
        let shape = match (cli.format, cli.file.path()) {
            (Some(shape), _) => shape,
            (None, _) if cli.summary => ReportFormat::Csv,
            (None, Some(path)) if !is_text(path) => {
                bail!(
                    "-o: expected a name that ends in .html, .md, .json or .txt, or --format; with --summary \
                     .csv, .tsv or .jsonl"
                )
            }
            (None, _) => ReportFormat::Text,
        };
        match (cli.summary, shape.row_format()) {
            (true, None) => bail!("--summary is a row: use --format csv, tsv or jsonl"),
            (false, Some(_)) => bail!(
                "csv, tsv and jsonl are for the row of --summary: add --summary, or take .html, .md, .json or .txt"
            ),
            (false, None) => cli.around.refuse_row_options()?,
            (true, Some(_)) => {}
        }
        cli.file.redirect()?;
        let filter = cli.filter.build_filter()?;
        let mut run = ProgramRun::new("nccl-report", &cli.input, &cli.lines.into())?;
        let against = match &cli.against {
            None => Vec::new(),
            Some(path) => run.list_other_run(path, &cli.input)?,
        };
        // The inputs are read more than once.
        let _copies = run.copy_pipes_to_files()?;
        run.set_filter(filter, &cli.input)?;
        run.filter.note_prefix = "tables of calls: ";
        let mut filter_against = run.filter.clone();
        run.set_filter_ranks(&mut filter_against, &against);
        filter_against.note_prefix = "the run before: ";
        let order = PageOrder {
            origins: &run.origins,
            against: &against,
            whole: matches!(shape, ReportFormat::Html | ReportFormat::Json),
            options: &run.options,
            filter: &run.filter,
            filter_against: &filter_against,
        };
        let page = page::gather_page(order, &mut run.report, &run.bar)?;
        // Of the only input nothing is known.
        if run.origins.len() == 1 && run.report.lacks_inputs() {
            return Ok(run.finish());
        }
        if let Some(format) = shape.row_format() {
            let output = cli.around.output(format);
            output
                .printer(&run.report)
                .print(|| summary::build_summary(&page).into())?;
            return Ok(run.finish());
        }
        let (jobs, is_quiet) = (run.options.log.jobs, cli.input.is_quiet());
        let write = |out: &mut (dyn Write + Send)| shape.write_page(&page, jobs, is_quiet, out);
        match shape {
            ReportFormat::Text => cli::with_text(cli.around.look(), write)?,
            _ => cli::with_stdout(write)?,
        }
        // A page in a file shows nothing on the terminal.
        if let Some(path) = cli.file.path()
            && io::stderr().is_terminal()
        {
            let answer = &page.answer;
            let next = answer.next.as_ref().map(|next| format!("; next: {next}"));
            let next = next.unwrap_or_default();
            run.report
                .note(&format!("{}: {}{next}", path.display(), answer.sentence));
        }
        // The program ends: the page is not freed.
        std::mem::forget(page);
        Ok(run.finish())
    })
}
