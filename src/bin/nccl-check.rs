//! nccl-check: see `--help`.

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};
use nccl_pipe::program::cli;
use nccl_pipe::program::cli::{
    AroundArgs, FileArgs, FilterArgs, InputArgs, OrderArgs, ProgramRun, RowFormat, StepLineArgs,
};
use nccl_pipe::program::exit::Exit;
use nccl_pipe::report::Report;
use nccl_pipe::stages::check::answer::expect::{
    ExpectAnswer, ExpectVerdict, Expectations, answer_all,
};
use nccl_pipe::stages::check::answer::explain;
use nccl_pipe::stages::check::answer::findings_text::{ShownFindings, write_findings_text};
use nccl_pipe::stages::check::answer::{ci_formats, table};
use nccl_pipe::stages::check::{self, CheckSummary, JobLiveness};
use std::io::{self, IsTerminal};
use std::process::ExitCode;

/// Find faults of a job by its log, with evidence and a confidence, and the limits of the log
///
/// Reads NCCL debug logs (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL,NET,...), one file or one
/// for each process. Writes findings, worst first. Each has the lines that show it, a confidence
/// with its reason, and advice. The answer is printed first and again last: which rank, what, since when, and what to do next. --coverage reports instead which of the 25
/// questions that users ask most this log can answer, and the settings for a log that answers more.
///
/// It compares the ranks' calls by their number in each communicator (op_mismatch, count_mismatch,
/// datatype_mismatch, redop_mismatch, root_mismatch, p2p_missing_counterpart, p2p_wrong_peer,
/// deadlock, rank_behind, rank_ahead, rank_silent), and the hosts' networks, GPUDirect, NVLS,
/// channels, versions, NICs and settings. Ranks are not judged where lines may be missing: shared
/// or damaged files, ranks without a log. WARN lines and PyTorch's watchdog are reported by their
/// first cause. A WARN line is an error if the job ended by it, and a note if it comes after the
/// job's own end.
///
/// The process that failed first is found in Python's exceptions and in the reports of torchrun,
/// srun, slurmstepd, mpirun, bash and the kernel (rank_exception, rank_killed, rank_crashed,
/// rank_exited, host_out_of_memory), or because it is the only one that prints nothing after the
/// failure (dead_process). setup_failed reports processes that waited for a rank while they set up a process
/// group, and names that rank. Ranks that are at different calls where a log ends are a finding
/// only if a line reports a failure, or if they are further behind and silent for longer than any
/// rank before, over several steps.
///
/// Dumps of PyTorch's flight recorder (nccl_trace_rank_N, written when a job hangs) are read with the
/// logs or alone. They have each rank's last calls with the source lines that made them: which rank
/// never made the call that the others wait in, made another one, left one out, sent to a wrong peer,
/// or left no dump. A finding of the log on the same rank takes the lines over. line_mismatch is an
/// equal call by another line of the program, which shows a call that was left out.
///
/// NCCL Inspector's records and traces of NCCL's profiler plugin are read in the same way: sizes that differ
/// between the ranks of a communicator, how many calls ended, and operations of the proxy thread that did
/// not (unfinished_traffic).
///
/// What a job answers while it hangs is read too: NCCL's RAS (ncclras, text or JSON; take two answers some
/// seconds apart) and stacks of its processes (py-spy dump, gdb, faulthandler). They show which rank is behind,
/// dead or missing, and the line of the program at which it is (stack_groups groups the processes).
///
/// What the machines report is joined to the ranks by host, process and GPU: the kernel's messages (dmesg, journalctl,
/// syslog: Xid errors of GPUs, the out-of-memory killer, links, PCIe, memory), nvidia-smi -q and dcgmi. Messages alone
/// are an answer too.
///
/// A filter (--op, --rank, --comm, --host, --where) chooses the findings that are shown, by their process and the call of
/// their first line. All calls are judged, and the answer and the exit code are those of the job.
///
/// Rows (--format csv, jsonl, table) have severity (error, warning, note), finding (a stable
/// word), says (the finding as a sentence), host, pid, rank, comm_id and seq as in the call
/// table, step (that the line is in), sure (the confidence: high, medium, low), why, advice, and the first line that shows it:
/// input, line, text; then global_rank (the rank in the job) and stage (how far the job had come).
#[derive(Debug, Parser)]
#[command(name = "nccl-check", version, after_long_help = AFTER)]
#[command(next_help_heading = "Rows")]
pub(crate) struct Cli {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    lines: StepLineArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Check conditions, for scripts: net=ib,gdr=on,mismatch=0
    ///
    /// Conditions: net=ib, gdr=on, nvls=used, versions=1, nodes=16, mismatch=0, warn=0,
    /// step_time_p95<6.5; may be given several times. The rows are then the answers: expectation,
    /// found, verdict, why.
    #[arg(long, value_name = "LIST")]
    expect: Vec<Expectations>,
    /// The job is running while its log is read, so the end of the log shows nothing
    #[arg(long, hide_short_help = true)]
    running: bool,
    /// Which of the questions that users ask most this log can answer, and how to get more
    ///
    /// Writes the 25 questions, and the settings for a log that answers more. As rows they are
    /// number, question, answerable (yes, partly, no), by, missing.
    #[arg(long, conflicts_with = "expect")]
    coverage: bool,
    /// Explain a kind of finding: its meaning, how it is found, what to do, with real lines; `list` has all kinds
    #[arg(long, value_name = "FINDING", exclusive = true)]
    explain: Option<String>,
    /// How findings are written (default: text on a terminal, csv in a pipe)
    #[arg(short, long, value_enum, help_heading = "Output")]
    format: Option<CheckFormat>,
    /// Every finding in the text, with all its lines: otherwise notes have one line a kind
    #[arg(long, help_heading = "Output")]
    all: bool,
    #[command(flatten)]
    around: AroundArgs,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    file: FileArgs,
    // Other programs have it: the error here names what to do instead.
    #[arg(short, long, hide = true, value_name = "A..B")]
    steps: Option<String>,
}

const AFTER: &str = "\
Examples:
  nccl-check nccl.log
  nccl-check logs/ > findings.csv
  nccl-check logs/ --format text | less
  nccl-check nccl.log /tmp/nccl_trace_rank_*
  nccl-check logs/ --format junit > nccl.xml
  nccl-check --explain rank_behind
  nccl-check logs/ --expect net=ib,gdr=on,mismatch=0 || mail -s 'job broken' me
  nccl-synth --ranks 16 --tp 4 --fault skip | nccl-check

Exit codes: 0 nothing is wrong (notes do not count), 1 there are findings or some input was damaged,
2 the program failed, 3 nothing could be judged.
With --expect: 0 all are met, 1 one is violated, 3 this log cannot answer one.";

/// How findings are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CheckFormat {
    /// A report to read, with every line that shows a finding: the default on a terminal
    Text,
    /// Comma-separated with a header, one row per finding: the default in a pipe
    Csv,
    /// The same with tabs
    Tsv,
    /// One JSON object a line
    #[value(alias = "json")]
    Jsonl,
    /// The rows as a table to look at
    Table,
    /// JUnit's XML for a CI server: errors and warnings are failures
    Junit,
    /// Annotations of a GitHub workflow
    Github,
    /// Metrics for Prometheus (textfile collector)
    Prometheus,
}

pub(crate) fn main() -> ExitCode {
    cli::run_program("nccl-check", |mut cli: Cli| {
        cli.file.redirect()?;
        if cli.steps.is_some() {
            bail!(
                "nccl-check has no --steps: ranks are compared from their first call on, so it \
                 needs the whole log"
            );
        }
        if let Some(word) = &cli.explain {
            let text = explain::explain_finding(word)?;
            cli::with_text(cli.around.look(), |out| {
                out.write_all(text.as_bytes())
                    .context("cannot write the output")
            })?;
            return Ok(Exit::Clean);
        }
        let steps = std::mem::take(&mut cli.lines).into();
        let mut run = ProgramRun::new("nccl-check", &cli.input, &steps)?;
        let filter = cli.filter.build_filter()?;
        run.set_filter(filter, &cli.input)?;
        let now = match cli.running {
            true => JobLiveness::Running,
            false => JobLiveness::Unknown,
        };
        let mut checked = check::check(&run.origins, &run.options, now, &mut run.report, &run.bar)?;
        checked.filter = std::mem::take(&mut run.filter);
        checked.report_shown(&run.report);
        let expected = Expectations::join_lists(&cli.expect);
        let expected = expected.map(|expect| answer_all(&expect, &checked.facts));
        write_findings(&cli, &checked, expected.as_deref(), &run.report)?;
        let end = run.finish();
        if end == Exit::Unread {
            return Ok(end);
        }
        Ok(match expected {
            Some(answers) => match ExpectVerdict::worst_of(&answers) {
                ExpectVerdict::Met => Exit::Clean,
                ExpectVerdict::Violated => Exit::Found,
                ExpectVerdict::Unanswerable => Exit::Unanswerable,
            },
            None if checked.is_wrong() => Exit::Found,
            None if checked.is_empty() && end == Exit::Clean => Exit::Unanswerable,
            None => end,
        })
    })
}

fn write_findings(
    cli: &Cli,
    checked: &CheckSummary,
    expected: Option<&[ExpectAnswer]>,
    report: &Report,
) -> anyhow::Result<()> {
    let order = cli.order.order();
    let is_sorted = !order.by.is_empty();
    let fitting = || match io::stdout().is_terminal() {
        true if is_sorted => CheckFormat::Table,
        true => CheckFormat::Text,
        false => CheckFormat::Csv,
    };
    let labels = cli.around.labels();
    let plain = |text: &str| {
        cli::with_stdout(|out| {
            out.write_all(text.as_bytes())
                .context("cannot write the output")
        })
    };
    let format = match cli.format.unwrap_or_else(fitting) {
        CheckFormat::Text if is_sorted => {
            bail!("--sort is for rows: use --format table, csv, tsv or jsonl")
        }
        CheckFormat::Text => {
            cli.around.refuse_row_options()?;
            let shown = ShownFindings {
                all: cli.all,
                quiet: cli.input.is_quiet(),
                top: order
                    .top
                    .map(|top| usize::try_from(top).unwrap_or(usize::MAX)),
            };
            return cli::with_text(cli.around.look(), |out| {
                match cli.coverage {
                    true => table::write_coverage_text(checked, out),
                    false => write_findings_text(checked, expected.unwrap_or_default(), shown, out),
                }
                .context("cannot write the output")
            });
        }
        CheckFormat::Junit | CheckFormat::Github | CheckFormat::Prometheus if cli.coverage => {
            bail!("--coverage has rows: use --format text, csv, tsv, jsonl or table")
        }
        CheckFormat::Junit => return plain(&ci_formats::write_junit(checked, expected, labels)),
        CheckFormat::Github => {
            cli.around.refuse_row_options()?;
            return plain(&ci_formats::write_github(checked, expected));
        }
        CheckFormat::Prometheus => {
            let metrics = ci_formats::write_prometheus(checked, expected, labels);
            return plain(&metrics.map_err(anyhow::Error::msg)?);
        }
        CheckFormat::Csv => RowFormat::Csv,
        CheckFormat::Tsv => RowFormat::Tsv,
        CheckFormat::Jsonl => RowFormat::Jsonl,
        CheckFormat::Table => RowFormat::Table,
    };
    let grid = match expected {
        Some(answers) => table::answers_grid(answers),
        None if cli.coverage => table::coverage_grid(checked),
        None => table::findings_grid(checked),
    };
    let output = cli.around.output(format).ordered(&cli.order);
    output.printer(report).print(|| grid.into())?;
    if checked.findings.is_empty() && expected.is_none() && !cli.coverage {
        let answer = checked.answer();
        let next = answer
            .next
            .map_or_else(String::new, |next| format!("; next: {next}"));
        report.note(&format!("{}{next}", answer.sentence));
    }
    Ok(())
}
