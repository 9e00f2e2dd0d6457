//! nccl-watch: see `--help`.

use anyhow::bail;
use clap::Parser;
use nccl_pipe::error::{Error, Result, without_temporary_path};
use nccl_pipe::formats::open;
use nccl_pipe::output::render::look::DrawStyle;
use nccl_pipe::output::render::wrap::WrapWriter;
use nccl_pipe::program::cli;
use nccl_pipe::program::cli::{
    ByteSize, FilterArgs, InputArgs, ProgramRun, StepArgs, StepLineArgs,
};
use nccl_pipe::program::exit::Exit;
use nccl_pipe::program::on_stall;
use nccl_pipe::program::output_file;
use nccl_pipe::program::ras_printer::RasPrinter;
use nccl_pipe::program::watch_screen::WatchScreen;
use nccl_pipe::report::Report;
use nccl_pipe::report::progress::Progress;
use nccl_pipe::source::GrowingFiles;
use nccl_pipe::stages::check::CheckSummary;
use nccl_pipe::stages::check::answer::findings_text::{ShownFindings, write_findings_text};
use nccl_pipe::stages::check::kind::Kind;
use nccl_pipe::stages::watch::processes::ALL_ENDED;
use nccl_pipe::stages::watch::ras::{RasAddress, RasOptions, watch_ras};
use nccl_pipe::stages::watch::run::{Options, WatchEnd, WatchListener, run_watch};
use nccl_pipe::stages::watch::{JobWatch, WatchEvent, format_metrics, messages};
use signal_hook::consts::SIGXFSZ;
use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Watches a job while it runs: a line for each step, and a check once nothing moves
///
/// Follows NCCL debug logs that are being written, as tail -F does: files, the files of a folder,
/// or a pipe. On a terminal it shows a page that renews itself: step times, calls by operation,
/// communicators and which of their ranks are behind, new kinds of WARN, and the findings at a
/// stall; q leaves it. Elsewhere, and with --plain, it writes a line for each step once its step line
/// and the calls of all ranks have come: the step, its time and TFLOP/s as the trainer prints them, and
/// its calls and bytes; a line for each new kind of WARN, with its meaning.
///
/// When no call and no step line have come for --stall, it checks the log up to there and
/// writes the findings of nccl-check: the ranks that the others wait for, and their last calls. While the
/// job moves, it is normal that some ranks are behind others. A log that did not grow since nccl-watch began
/// may be that of a job that is over: what it shows then is a condition. A pipe that ends is checked, too.
///
/// A filter (--op, --rank, --comm, --host, --where) chooses the calls that steps have, and the findings that
/// are shown. All calls are watched and judged.
///
/// A pipe is kept in a temporary file, to be checked, up to --keep. For a long job name the log's
/// file instead.
#[derive(Debug, Parser)]
#[command(name = "nccl-watch", version, after_long_help = AFTER)]
#[command(next_help_heading = "Stalls")]
#[command(mut_arg("files", |files| files.long_help(
    "Logs that grow, folders of logs, or - for standard input (default)")))]
pub(crate) struct Cli {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    lines: StepLineArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Ask the job itself, through NCCL's RAS (NCCL 2.24 or later), instead of following a log: at this address, by
    /// default localhost:28028
    ///
    /// It needs no log and no setting of the job, and changes nothing in it. Run it on a host of the job. Every few
    /// seconds it asks which collectives each rank launched; once no rank has launched one for --stall (60 seconds),
    /// it writes what nccl-check finds in the answers. Logs that are named too give ranks and hosts their names
    #[arg(
        long,
        value_name = "HOST:PORT",
        num_args = 0..=1,
        default_missing_value = "",
        help_heading = "Input"
    )]
    ras: Option<String>,
    /// The time between two questions to RAS
    #[arg(
        long,
        value_name = "TIME",
        value_parser = cli::parse_duration,
        default_value = "5s",
        requires = "ras",
        help_heading = "Input",
        hide_short_help = true
    )]
    ras_interval: Duration,
    /// Seconds without a call and a step line after which the job has stalled, such as 90, 90s or 5m
    /// (default: ten times the median step, at least 60)
    ///
    /// Before the first call a job has ten times as long, up to five minutes; by default five minutes until its first step's line
    #[arg(long, value_name = "TIME", value_parser = cli::parse_duration)]
    stall: Option<Duration>,
    /// Run a command in a shell at each stall
    ///
    /// It gets the first finding as JSON on standard input, and NCCL_WATCH_FINDING, NCCL_WATCH_HOST,
    /// NCCL_WATCH_PID, NCCL_WATCH_GLOBAL_RANK (in the job) and NCCL_WATCH_RANK (in the communicator); while the page is
    /// shown, the output of the command is not
    #[arg(long, value_name = "CMD")]
    on_stall: Option<String>,
    /// End at the first stall, with exit code 1
    #[arg(long)]
    exit_on_stall: bool,
    /// Keep so much of a pipe in a temporary file, such as 500M or 8G (of 1024): beyond it the oldest part
    /// is let go where all ranks have made the same calls
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "4G",
        help_heading = "Input",
        hide_short_help = true
    )]
    keep: ByteSize,
    /// Write lines on a terminal, too, instead of a page that renews itself
    #[arg(long, help_heading = "Output")]
    plain: bool,
    /// Keep a file of metrics for Prometheus (textfile collector)
    ///
    /// Steps, step time, calls and bytes by operation, warnings, seconds since the last call, findings
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    metrics: Option<PathBuf>,
}

const AFTER: &str = "\
Examples:
  torchrun train.py 2>&1 | tee nccl.log | nccl-watch
  nccl-watch nccl.log --stall 90
  nccl-watch logs/ --glob '*.log' --metrics /var/lib/node_exporter/nccl.prom
  nccl-watch nccl.log --on-stall 'ssh \"$NCCL_WATCH_HOST\" py-spy dump --pid \"$NCCL_WATCH_PID\"'
  nccl-watch --ras
  nccl-watch --ras node1:28028 --stall 90 --exit-on-stall
  nccl-watch nccl.log --exit-on-stall || scancel $SLURM_JOB_ID

Exit codes: 0 the pipe ended and nothing is wrong, 1 something is wrong or --exit-on-stall, 2 the
program failed, 130 and 143 the pipe ended by a signal.";

pub(crate) fn main() -> ExitCode {
    cli::run_program("nccl-watch", |cli: Cli| {
        if let Some(address) = cli.ras.clone() {
            return watch_ras_of_job(cli, &address);
        }
        if cli.input.files.is_empty() && io::stdin().is_terminal() {
            bail!(
                "expected a log that is being written: name a file or a folder, or use a pipe (see \
                 nccl-watch --help)"
            );
        }
        let steps: StepArgs = cli.lines.into();
        let (mut set, _) = ProgramRun::new_with_sides("nccl-watch", &cli.input, &steps, &[])?;
        set.options.source.mmap = false;
        // Nothing that is watched is ever read to its end.
        set.bar.finish();
        // A write beyond `ulimit -f` fails then, instead of ending this program and the job behind its pipe.
        signal_hook::flag::register(SIGXFSZ, Arc::default())?;
        let mut follow = GrowingFiles::new(&cli.input.files, cli.input.patterns())?;
        require_logs(&cli.input.files, &follow, &set)?;
        let has_page = !cli.plain && io::stdout().is_terminal();
        let page = has_page.then(|| WatchScreen::new(&cli.input.files, follow.has_pipe()));
        let page = match page.transpose() {
            Err(e) => {
                set.report.warn(&format!(
                    "{e:#}: lines are printed instead, as with --plain"
                ));
                None
            }
            Ok(page) => page,
        };
        let mut teller = WatchPrinter {
            out: io::stdout(),
            page,
            is_pipe: follow.has_pipe(),
            exits: cli.exit_on_stall,
            report: &set.report,
            is_quiet: cli.input.is_quiet(),
            on_stall: cli.on_stall.as_deref(),
            children: Vec::new(),
            metrics: cli.metrics.as_deref(),
            written: None,
            failures: BTreeSet::new(),
        };
        let options = Options {
            stall: cli.stall,
            exit_on_stall: cli.exit_on_stall,
            keep: cli.keep.bytes(),
            labels: teller.page.is_some(),
            filter: cli.filter.build_filter()?,
        };
        let ended = run_watch(&mut follow, &set.options, &options, &mut teller)?;
        for mut child in teller.children {
            child.wait()?;
        }
        Ok(match ended {
            WatchEnd::Over(false) | WatchEnd::Left => Exit::Clean,
            WatchEnd::Over(true) | WatchEnd::Stalled => Exit::Found,
        })
    })
}

/// Watches the job through NCCL's RAS.
fn watch_ras_of_job(cli: Cli, address: &str) -> anyhow::Result<Exit> {
    if Path::new(address).exists() {
        bail!("--ras takes HOST:PORT: name {address} before it, to read it too");
    }
    if cli.metrics.is_some() {
        bail!("--metrics counts calls and steps of a log: --ras has none");
    }
    if !cli.filter.build_filter()?.is_empty() {
        bail!("a filter chooses calls of a log: --ras has none");
    }
    let steps: StepArgs = cli.lines.into();
    let (set, _) = ProgramRun::new_with_sides("nccl-watch", &cli.input, &steps, &[])?;
    set.bar.finish();
    let options = RasOptions {
        address: RasAddress::parse_address(address).map_err(anyhow::Error::msg)?,
        interval: cli.ras_interval,
        stall: cli.stall,
        exit_on_stall: cli.exit_on_stall,
        logs: cli.input.files,
    };
    let mut printer = RasPrinter::new(&set.report, cli.on_stall.as_deref());
    let ended = watch_ras(&options, &set.options, &mut printer)?;
    printer.wait_for_commands()?;
    Ok(match ended {
        WatchEnd::Over(false) | WatchEnd::Left => Exit::Clean,
        WatchEnd::Over(true) | WatchEnd::Stalled => Exit::Found,
    })
}

/// Notes which of `paths` are not there yet, and refuses files that are no logs.
fn require_logs(paths: &[PathBuf], follow: &GrowingFiles, set: &ProgramRun) -> anyhow::Result<()> {
    for path in paths.iter().filter(|path| path.as_os_str() != "-") {
        if path.is_file() {
            match open::require_log(path, set.options.source) {
                // The job behind a pipe would die of an end here.
                Err(e) if follow.has_pipe() => set.report.warn(&e.to_string()),
                known => known?,
            }
        } else if !path.exists() {
            if path.to_string_lossy().contains("://") {
                let (path, cause) = (path.clone(), io::ErrorKind::NotFound.into());
                return Err(Error::Input { path, cause }.into());
            }
            let name = path.display();
            set.report.note(&format!(
                "{name} does not exist yet: it is read when it appears"
            ));
        }
    }
    Ok(())
}

/// How often metrics are written while nothing moves.
const METRICS_INTERVAL: Duration = Duration::from_secs(5);

/// Writes what happens.
struct WatchPrinter<'a> {
    out: io::Stdout,
    /// Until it is left.
    page: Option<WatchScreen>,
    is_pipe: bool,
    /// It ends at the first stall.
    exits: bool,
    report: &'a Report,
    is_quiet: bool,
    on_stall: Option<&'a str>,
    children: Vec<Child>,
    metrics: Option<&'a Path>,
    /// When the metrics were written, after how many steps, and whether in a stall.
    written: Option<(Instant, (u64, bool))>,
    /// The failures that were reported.
    failures: BTreeSet<String>,
}

impl WatchPrinter<'_> {
    fn print_line(&mut self, line: &str) -> Result<()> {
        writeln!(self.out, "{line}").map_err(Error::Output)?;
        self.out.flush().map_err(Error::Output)
    }

    /// Writes the verdict at a stall.
    fn print_verdict(&mut self, watch: &JobWatch<'_>, found: &CheckSummary) -> Result<()> {
        let rested = watch.pace().idle_time(Instant::now());
        self.print_line(&messages::format_stall(
            rested,
            watch.last_step(),
            watch.calls(),
        ))?;
        self.print_findings(watch, found)?;
        let is_over = found.findings.iter().any(|f| f.kind == ALL_ENDED);
        let is_live = watch.has_grown() && watch.calls().total().calls > 0;
        let is_open = is_live && !found.is_wrong() && !is_over;
        match is_open && watch.ranks().are_level() {
            true => self.print_line(messages::EQUAL_CALLS_TEXT),
            false => Ok(()),
        }
    }

    /// Writes the answer of nccl-check, and the notes that a watch needs.
    fn print_findings(&mut self, watch: &JobWatch<'_>, found: &CheckSummary) -> Result<()> {
        if found.is_wrong() {
            let look = DrawStyle {
                width: cli::terminal_width(),
                ..DrawStyle::default()
            };
            let mut out = WrapWriter::new(look, &mut self.out);
            let shown = ShownFindings {
                quiet: self.is_quiet,
                ..ShownFindings::default()
            };
            write_findings_text(found, &[], shown, &mut out).map_err(Error::Output)?;
            return out.flush().map_err(Error::Output);
        }
        let answer = found.answer();
        self.print_line(&answer.sentence)?;
        if let Some(next) = &answer.next {
            self.print_line(&format!("next: {next}"))?;
        }
        // Before the first call the initialisation is all that a log has of the job.
        for note in &found.findings {
            let is_needed = match note.kind {
                _ if self.is_quiet || answer.sentence.ends_with(&note.says) => false,
                Kind::InitIncomplete | Kind::NoFirstCall => watch.calls().total().calls == 0,
                id => id == ALL_ENDED || id == Kind::Shortened,
            };
            if is_needed {
                self.print_line(&format!("note: {}", note.says))?;
            }
        }
        Ok(())
    }
}

impl WatchListener for WatchPrinter<'_> {
    fn on_failure(&mut self, failure: &Error) {
        let said = format!("{failure}; the watch goes on without it");
        if !self.failures.contains(&said) {
            self.report.warn(&said);
            self.failures.insert(said);
        }
    }

    fn on_event(&mut self, event: &WatchEvent) -> Result<()> {
        match &mut self.page {
            Some(page) => {
                page.told.add_event(event);
                page.is_old = true;
                Ok(())
            }
            None => self.print_line(&messages::format_event(event)),
        }
    }

    fn on_check(&mut self, watch: &JobWatch<'_>) -> Result<()> {
        self.page.as_mut().map_or(Ok(()), |page| {
            page.told.checks = true;
            page.draw_page(watch, None)
        })
    }

    fn on_stall(&mut self, watch: &JobWatch<'_>, found: &CheckSummary) -> Result<()> {
        if self.exits {
            self.page = None;
        }
        match &mut self.page {
            Some(page) => {
                page.told.checks = false;
                page.is_old = true;
            }
            None => self.print_verdict(watch, found)?,
        }
        if let Some(command) = self.on_stall {
            match on_stall::start_stall_command(command, found, self.page.is_none()) {
                Ok(child) => self.children.push(child),
                Err(e) => self
                    .report
                    .warn(&format!("cannot run --on-stall {command}: {e}")),
            }
        }
        Ok(())
    }

    fn on_end(&mut self, watch: &JobWatch<'_>, found: &CheckSummary) -> Result<()> {
        self.page = None;
        self.print_line(&messages::format_end(watch.last_step(), watch.calls()))?;
        self.print_findings(watch, found)
    }

    fn on_idle(
        &mut self,
        watch: &JobWatch<'_>,
        found: Option<&CheckSummary>,
    ) -> Result<ControlFlow<()>> {
        let mut flow = ControlFlow::Continue(());
        if let Some(page) = &mut self.page {
            let WatchScreen { screen, view, .. } = page;
            let mut is_pressed = false;
            let is_left = screen.read_keys(|key| is_pressed |= view.press_key(key));
            page.is_old |= is_pressed;
            page.redraw_if_due(watch, found)?;
            if is_left {
                self.page = None;
                // What was on the page last stays to be read.
                if let Some(found) = found.filter(|_| watch.pace().is_stalled()) {
                    self.print_verdict(watch, found)?;
                }
                // Without a reader of its pipe the job would end.
                if !self.is_pipe {
                    flow = ControlFlow::Break(());
                }
            }
        }
        // Commands that are done.
        self.children
            .retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
        let now = Instant::now();
        let state = (watch.count_steps(), watch.pace().is_stalled());
        let is_new = |(at, before): &(Instant, (u64, bool))| {
            *before != state || now.saturating_duration_since(*at) >= METRICS_INTERVAL
        };
        if let Some(path) = self.metrics
            && self.written.as_ref().is_none_or(is_new)
        {
            let text = format_metrics(watch, found, now);
            if let Err(cause) = output_file::replace_file(path, text.as_bytes()) {
                let (path, cause) = (path.to_owned(), without_temporary_path(cause));
                self.on_failure(&Error::Input { path, cause });
            }
            self.written = Some((now, state));
        }
        Ok(flow)
    }
}
