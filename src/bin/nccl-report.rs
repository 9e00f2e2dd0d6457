//! nccl-report: see `--help`.

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};
use nccl_pipe::program::cli::{self, AroundArgs, FileArgs, Format, InputArgs, Run, StepLineArgs};
use nccl_pipe::program::exit;
use nccl_pipe::program::exit::Exit;
use nccl_pipe::stages::page::{self, Page, html, json, markdown, summary, text};
use std::io::Write;
use std::path::PathBuf;
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
/// nccl-skew. Where an input does not tell something, the page says what is missing.
///
/// A step is called long if it took 1.5 times the median of all steps, or more.
#[derive(Debug, Parser)]
#[command(name = "nccl-report", version, after_long_help = AFTER)]
#[command(mut_arg("output", |output| output
    .help("Write the page to this file; its ending names the format: .html, .md, .json, .txt")
    .long_help(None)))]
struct Cli {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    lines: StepLineArgs,
    #[command(flatten)]
    file: FileArgs,
    /// Another run of the job: what changed from it to this one is part of the page, as nccl-diff has it
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    against: Option<PathBuf>,
    /// How the page is written (default: as the file's ending tells, else text)
    #[arg(short, long, value_enum, help_heading = "Output")]
    format: Option<Shape>,
    #[command(flatten)]
    around: AroundArgs,
    /// Write one row about the job instead of a page, for a table that grows (csv, tsv or jsonl)
    #[arg(long, help_heading = "Output")]
    summary: bool,
}

const AFTER: &str = "\
The HTML file needs nothing else: no network and no other file. Its tables can be sorted, and each can be
saved as CSV. The keys of the JSON object are described in docs/nccl-report.md.

Examples:
  nccl-report nccl.log
  nccl-report nccl.log -o report.html
  nccl-report logs/ traces/ --format md > ticket.md
  nccl-report nccl.log --summary --label job=123 --no-header >> jobs.csv
  nccl-report today.log --against yesterday.log -o report.html
  nccl-steps nccl.log --steps 45..49 --keep-init | nccl-report

Exit codes: 0 everything was read (also if something is wrong with the job: nccl-check tells that by its
exit code), 1 some input was damaged, 2 the program failed.";

/// How the page is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shape {
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

/// No page is narrower.
const LEAST: usize = 40;

impl Shape {
    /// What the file's ending names.
    fn of(path: &std::path::Path) -> Option<Shape> {
        match path.extension()?.to_str()? {
            "html" | "htm" => Some(Shape::Html),
            "md" | "markdown" => Some(Shape::Md),
            "json" => Some(Shape::Json),
            "txt" => Some(Shape::Text),
            _ => None,
        }
    }

    /// The format of a row.
    fn row(self) -> Option<Format> {
        match self {
            Shape::Csv => Some(Format::Csv),
            Shape::Tsv => Some(Format::Tsv),
            Shape::Jsonl => Some(Format::Jsonl),
            Shape::Text | Shape::Html | Shape::Md | Shape::Json => None,
        }
    }

    fn written(self, page: &Page, jobs: usize) -> Vec<u8> {
        let text = match self {
            Shape::Text => {
                let seen = cli::width().unwrap_or(text::WIDTH);
                text::page(page, seen.clamp(LEAST, text::WIDTH))
            }
            Shape::Json => return json::page(page, jobs),
            Shape::Html => html::page(page),
            Shape::Md => markdown::page(page),
            Shape::Csv | Shape::Tsv | Shape::Jsonl => String::new(),
        };
        text.into_bytes()
    }
}

pub(crate) fn main() -> ExitCode {
    exit::run("nccl-report", || {
        let Some(cli) = cli::parse::<Cli>()? else {
            return Ok(Exit::Clean);
        };
        Run::refuse_follow("nccl-report", &cli.input)?;
        let of_file = cli.file.path().map(Shape::of);
        let shape = match (cli.format, of_file) {
            (None, _) if cli.summary => Shape::Csv,
            (Some(shape), _) | (None, Some(Some(shape))) => shape,
            (None, None) => Shape::Text,
            (None, Some(None)) => {
                bail!("-o: expected a name that ends in .html, .md, .json or .txt, or --format")
            }
        };
        match (cli.summary, shape.row()) {
            (true, None) => bail!("--summary is a row: use --format csv, tsv or jsonl"),
            (false, Some(_)) => bail!("--format csv, tsv and jsonl are for the row of --summary"),
            _ => {}
        }
        if !cli.summary {
            cli.around.only_rows()?;
        }
        cli.file.redirect()?;
        let steps = cli.lines.into();
        let mut run = Run::new("nccl-report", &cli.input, &steps, cli::AWK_WINDOW)?;
        let against = match &cli.against {
            None => Vec::new(),
            Some(path) => run.other(path, &cli.input)?,
        };
        // The inputs are read more than once.
        let copies = run.at_rest()?;
        let both = (&run.origins[..], &against[..]);
        let whole = matches!(shape, Shape::Html | Shape::Json);
        let page = page::gather(both, whole, &run.options, &mut run.report, &run.bar)?;
        drop(copies);
        if let Some(format) = shape.row() {
            let output = cli.around.output(format);
            cli::print(
                || summary::row(&page).into(),
                None::<fn() -> Vec<u8>>,
                (&output, 1),
                &run.report,
            )?;
            return Ok(run.finish());
        }
        let page = shape.written(&page, run.options.log.jobs);
        let write =
            |out: &mut (dyn Write + Send)| out.write_all(&page).context("cannot write the output");
        match shape {
            Shape::Text => cli::with_text(cli.around.look(), write)?,
            _ => cli::with_stdout(write)?,
        }
        Ok(run.finish())
    })
}
