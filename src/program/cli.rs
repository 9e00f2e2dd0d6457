//! What all programs share on the command line: inputs, steps, formats. A flag means the same
//! everywhere.

use crate::count::calls;
use crate::count::calls::{Calls, Progress};
use crate::count::groups::{self, By};
use crate::count::tally;
use crate::formats::log;
use crate::formats::log::timeline::{self, Marker, Window};
use crate::grammar::trainer::{Recogniser, Trainer};
use crate::grammar::values::Basis;
use crate::members::comm_id::CommId;
use crate::output::render::Sheet;
use crate::pool;
use crate::program::early::Early;
use crate::program::exit::Exit;
use crate::program::man;
use crate::report::progress::Bar;
use crate::report::{Escaped, Report};
use crate::source::{self, Names, Origin, Pattern, expand};
use anyhow::{Context, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, CommandFactory, ValueEnum};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;

/// Where bytes come from and how they are read.
#[derive(Debug, Args)]
pub struct InputArgs {
    /// Logs, folders of logs, or - for standard input (default); gzip and zstd too
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Read only those files of a folder whose name matches, such as '*.log' (a pattern with a /
    /// matches the path in the folder); may be given several times
    #[arg(long, value_name = "PATTERN")]
    glob: Vec<Pattern>,
    /// Go on when the end of the files is reached, as tail -F does, until Ctrl-C: files that are
    /// replaced or truncated are read on, and files that appear in a folder are read, too
    #[arg(long)]
    follow: bool,
    /// Read files in blocks instead of mapping them, for a log that is still being written
    #[arg(long, overrides_with = "mmap")]
    no_mmap: bool,
    /// Map files (default)
    #[arg(long, hide = true, overrides_with = "no_mmap")]
    mmap: bool,
    /// Threads (default: one per core; at most four per core)
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Stop at the first damaged line, with exit code 2
    #[arg(long)]
    strict: bool,
    /// Report the class of every line, and show damaged bytes
    #[arg(short, long)]
    verbose: bool,
    /// Print no notes, only warnings and errors
    #[arg(short, long)]
    quiet: bool,
    /// Print a man page or shell completions
    #[arg(long, hide_short_help = true, value_enum, value_name = "WHAT")]
    pub generate: Option<Generate>,
}

impl InputArgs {
    /// Which files of a folder are read.
    pub fn patterns(&self) -> &[Pattern] {
        &self.glob
    }

    /// True where notes are to be left out.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }
}

/// What `--generate` prints.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Generate {
    /// A man page.
    Man,
    /// Completions for bash.
    CompleteBash,
    /// Completions for zsh.
    CompleteZsh,
    /// Completions for fish.
    CompleteFish,
}

/// Which steps, and what a step line looks like.
#[derive(Debug, Args, Default)]
pub struct StepArgs {
    /// Only these steps, in the trainer's own numbers, both ends included: 45..49, 45.., ..49, 45
    #[arg(long, value_name = "A..B")]
    steps: Option<Window>,
    #[command(flatten)]
    lines: StepLineArgs,
    /// The rank that prints the step lines; its own calls are placed by position (default:
    /// detected)
    #[arg(long, value_name = "RANK", conflicts_with = "by_position")]
    printer: Option<u32>,
    /// Count all calls between two step lines in the step of the second line, for all ranks
    #[arg(long)]
    by_position: bool,
    /// Use the AWK chain's window (steps 45..50, lines after the marker)
    #[arg(long, value_enum, value_name = "WHOSE")]
    pub compat: Option<Compat>,
}

/// What a step line looks like.
#[derive(Debug, Args, Default)]
pub struct StepLineArgs {
    /// The trainer of the step lines: nemo2, megatron, torchtitan, maxtext, ... (default: detected)
    #[arg(long, value_name = "NAME", value_parser = trainer)]
    trainer: Option<Trainer>,
    // The pattern's groups are no HTML.
    #[allow(rustdoc::invalid_html_tags)]
    /// The shape of a step line, with groups step, tflops and one of time_s, time_ms, steps_per_s:
    /// 'step=(?P<step>\d+) took (?P<time_s>[\d.]+)' (nccl-steps --list proposes some if it knows
    /// none)
    #[arg(long, value_name = "REGEX", conflicts_with = "trainer")]
    step_regex: Option<String>,
    /// Whether a step line is printed at the end of its step or at its start
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = When::End)]
    marker: When,
}

impl From<StepLineArgs> for StepArgs {
    fn from(lines: StepLineArgs) -> StepArgs {
        StepArgs {
            lines,
            ..StepArgs::default()
        }
    }
}

/// When a step line comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum When {
    /// When the step is over.
    #[default]
    End,
    /// When the step begins.
    Start,
}

/// Whose numbers to reproduce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Compat {
    /// The AWK chain's.
    Awk,
}

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Comma-separated with a header: the default in a pipe.
    Csv,
    /// One JSON object a line.
    Jsonl,
    /// As the AWK chain prints it.
    Awk,
    /// A table for reading: the default on a terminal.
    Table,
}

impl Format {
    /// The one that fits where the output goes.
    pub fn fitting() -> Format {
        if io::stdout().is_terminal() {
            Format::Table
        } else {
            Format::Csv
        }
    }
}

/// The format of a table that the AWK chain does not have.
#[derive(Debug, Args, Default)]
pub struct FormatArgs {
    /// How rows are written (default: table on a terminal, csv in a pipe)
    #[arg(long, value_parser = not_awk())]
    format: Option<Format>,
}

impl FormatArgs {
    /// The format asked for, or the one that fits where the output goes.
    pub fn get(&self) -> Format {
        self.format.unwrap_or_else(Format::fitting)
    }
}

/// The format of a table that the AWK chain has too.
#[derive(Debug, Args, Default)]
pub struct ChainFormatArgs {
    /// How rows are written (default: table on a terminal, csv in a pipe)
    #[arg(long, value_enum)]
    format: Option<Format>,
}

impl ChainFormatArgs {
    /// The format asked for, or the one that fits where the output goes.
    pub fn get(&self) -> Format {
        self.format.unwrap_or_else(Format::fitting)
    }
}

/// All formats but the AWK chain's.
fn not_awk() -> impl TypedValueParser<Value = Format> {
    let formats = Format::value_variants().iter();
    let offered = formats.filter(|format| **format != Format::Awk);
    PossibleValuesParser::new(offered.filter_map(Format::to_possible_value))
        .try_map(|name| Format::from_str(&name, false))
}

/// How calls are grouped and measured.
#[derive(Debug, Args, Default)]
pub struct GroupArgs {
    /// Group by these columns as well
    #[arg(long, value_enum, value_delimiter = ',', value_name = "COLUMN")]
    by: Vec<ByArg>,
    /// The meaning of bytes: the caller's elements, nccl-tests' message size, or the bytes that a rank must move
    #[arg(long, value_enum, default_value_t = BasisArg::Api)]
    basis: BasisArg,
}

impl GroupArgs {
    /// The group columns, each once.
    pub fn by(&self) -> Vec<By> {
        let mut by = Vec::new();
        for arg in &self.by {
            let column = match arg {
                ByArg::Step => By::Step,
                ByArg::Comm => By::Comm,
                ByArg::CommId => By::CommId,
                ByArg::Rank => By::Rank,
                ByArg::Host => By::Host,
                ByArg::Datatype => By::Datatype,
                ByArg::Algo => By::Algo,
                ByArg::Proto => By::Proto,
            };
            if !by.contains(&column) {
                by.push(column);
            }
        }
        // A communicator's columns have its host: a name represents one column.
        if by.contains(&By::Comm) {
            by.retain(|column| *column != By::Host);
        }
        by
    }

    /// What bytes mean.
    pub fn basis(&self) -> Basis {
        match self.basis {
            BasisArg::Api => Basis::Api,
            BasisArg::Message => Basis::Message,
            BasisArg::Wire => Basis::Wire,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ByArg {
    /// The step
    Step,
    /// The communicator by its address in a process: host, pid, comm
    Comm,
    /// The id that all members of a communicator share
    #[value(name = "comm_id", alias = "comm-id")]
    CommId,
    /// The rank in the communicator
    Rank,
    /// The host
    Host,
    /// The datatype
    Datatype,
    /// NCCL's algorithm, where the input tells it
    Algo,
    /// NCCL's protocol, where the input tells it
    Proto,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum BasisArg {
    /// count × element size
    #[default]
    Api,
    /// × nranks for AllGather, ReduceScatter, AlltoAll, Gather, Scatter
    Message,
    /// message × nccl-tests' bus-bandwidth factor
    Wire,
}

fn trainer(name: &str) -> Result<Trainer, String> {
    Trainer::from_name(name).ok_or_else(|| {
        let names: Vec<_> = Trainer::all().map(Trainer::name).collect();
        format!("expected one of {} (or use --step-regex)", names.join(", "))
    })
}

/// The AWK chain's own markers: NeMo's `iteration`, whatever the epoch.
const AWK_MARKER: &str = r"Training epoch.*?iteration (?P<step>\d+)(?:[^|]*(?:\|[^|]*?)*?train_step_timing in s: (?P<time_s>[0-9.eE+-]+))?(?:[^|]*(?:\|[^|]*?)*?TFLOPS_per_GPU: (?P<tflops>[0-9.eE+-]+))?";

/// The window of the AWK chain's first script.
pub const AWK_WINDOW: Window = Window { from: 45, to: 50 };

impl StepArgs {
    fn recogniser(&self) -> anyhow::Result<Recogniser> {
        if self.compat.is_some() {
            return Recogniser::regex(AWK_MARKER).map_err(anyhow::Error::msg);
        }
        match (&self.lines.step_regex, self.lines.trainer) {
            (Some(pattern), _) => Recogniser::regex(pattern)
                .map_err(anyhow::Error::msg)
                .context("--step-regex"),
            (None, Some(trainer)) => Ok(Recogniser::only(trainer)),
            (None, None) => Ok(Recogniser::all()),
        }
    }

    /// True where the user said what step lines look like.
    fn is_asked(&self) -> bool {
        self.compat.is_some() || self.lines.step_regex.is_some() || self.lines.trainer.is_some()
    }

    /// The window asked for; `compat` is the AWK chain's own where none is.
    pub fn window(&self, compat: Window) -> Option<Window> {
        self.steps.or(self.compat.map(|_| compat))
    }
}

/// A program's run: its inputs, how they are read, and what is to be said.
pub struct Run {
    /// The inputs.
    pub origins: Vec<Origin>,
    /// How they are read.
    pub options: calls::Options,
    /// What is to be said.
    pub report: Report,
    /// What is shown meanwhile.
    pub bar: Bar,
}

impl Run {
    /// Sets a program up from its arguments. `compat` is the window that `--compat` means.
    ///
    /// # Errors
    /// A pattern that does not compile, an input that does not exist, nothing to read.
    pub fn new(
        name: &'static str,
        input: &InputArgs,
        steps: &StepArgs,
        compat: Window,
    ) -> anyhow::Result<Run> {
        if input.files.is_empty() && io::stdin().is_terminal() {
            bail!(
                "expected a log: name a file or a folder, or use standard input (see {name} \
                   --help)"
            );
        }
        if input.follow {
            let (mut run, _) = Run::of_sides(name, input, steps, compat, &[])?;
            run.origins = vec![Origin::Followed(Names::new(&input.files, &input.glob))];
            return Ok(run);
        }
        let (run, _) = Run::of_sides(name, input, steps, compat, &[&input.files])?;
        Ok(run)
    }

    /// Refuses `--follow`, in a program that needs whole logs.
    ///
    /// # Errors
    /// It is there.
    pub fn refuse_follow(name: &str, input: &InputArgs) -> anyhow::Result<()> {
        if input.follow {
            bail!("--follow: {name} compares whole logs; nccl-watch follows logs that grow");
        }
        Ok(())
    }

    /// The same for a program that holds inputs against each other: those of each of `sides` are
    /// listed by themselves, in one a file may be that is in another too.
    ///
    /// # Errors
    /// As [`Run::new`].
    pub fn of_sides(
        name: &'static str,
        input: &InputArgs,
        steps: &StepArgs,
        compat: Window,
        sides: &[&[PathBuf]],
    ) -> anyhow::Result<(Run, Vec<Vec<Origin>>)> {
        source::name_program(name);
        let mut report = Report::new(name, input.verbose, input.quiet);
        let mut listed = Vec::with_capacity(sides.len());
        for side in sides {
            let found = expand(side, &input.glob)?;
            report.listed(&found);
            listed.push(found.origins);
        }
        let origins = listed.concat();
        if origins.iter().filter(|&o| *o == Origin::Stdin).count() > 1 {
            bail!("standard input (-) can be named only once");
        }
        let marker = match (steps.compat, steps.lines.marker) {
            (Some(_), _) | (None, When::Start) => Marker::Start,
            (None, When::End) => Marker::End,
        };
        let options = calls::Options {
            source: source::Options {
                mmap: !input.no_mmap,
            },
            log: log::Options {
                jobs: pool::jobs(input.jobs.map(usize::from)),
                recogniser: steps.recogniser()?,
                strict: input.strict,
                keep_init_lines: false,
            },
            timeline: timeline::Options {
                marker,
                asked: steps.is_asked(),
                // The AWK chain knows no ranks.
                by_position: steps.by_position || steps.compat.is_some(),
                printer: steps.printer,
                ..timeline::Options::default()
            },
            window: steps.window(compat),
        };
        let bar = Bar::new(|| total(&origins), !input.quiet);
        let report = report.beside(&bar);
        let run = Run {
            origins,
            options,
            report,
            bar,
        };
        Ok((run, listed))
    }

    /// Counts the calls of all inputs by `by`. Of one that is still being written the rows of a step,
    /// as `sheet` makes them, are written as soon as it is settled, if steps come first in them.
    ///
    /// # Errors
    /// As [`calls::count`]; the output cannot be written.
    pub fn count<O: Sync>(
        &mut self,
        by: &[By],
        tally: &tally::Options,
        format: Format,
        (options, sheet): (&O, for<'a> fn(&'a Calls, &'a O) -> Sheet<'a>),
    ) -> anyhow::Result<(Calls, Early)> {
        let mut early = Early::new(format);
        let is_by_step = by.first() == Some(&By::Step) && early.is_possible();
        let mut rows = |calls: Calls| early.rows(&sheet(&calls, options));
        let all = calls::early(
            &self.origins,
            &self.options,
            tally,
            &mut self.report,
            &self.bar,
            is_by_step.then_some(&mut rows),
        )?;
        groups::note_unknown(&all, by, &self.report);
        Ok((all, early))
    }

    /// Says what is left to say; how the run ended.
    pub fn finish(&self) -> Exit {
        self.bar.finish();
        self.report.finish();
        if self.report.is_damaged() {
            Exit::Damaged
        } else {
            Exit::Clean
        }
    }
}

/// Bytes of all inputs, if all are files.
fn total(origins: &[Origin]) -> Option<u64> {
    origins.iter().try_fold(0_u64, |sum, origin| {
        let meta = origin.path()?.metadata().ok()?;
        Some(sum.saturating_add(meta.len()))
    })
}

/// Prints a man page or completions if that is what was asked for.
///
/// # Errors
/// The output cannot be written.
pub fn generated<C: CommandFactory>(what: Option<Generate>) -> anyhow::Result<bool> {
    let Some(what) = what else { return Ok(false) };
    let mut command = C::command();
    let name = command.get_name().to_owned();
    let mut out = Vec::new();
    let shell = match what {
        Generate::Man => {
            man::page(command, &mut out)?;
            io::stdout().write_all(&out)?;
            return Ok(true);
        }
        Generate::CompleteBash => clap_complete::Shell::Bash,
        Generate::CompleteZsh => clap_complete::Shell::Zsh,
        Generate::CompleteFish => clap_complete::Shell::Fish,
    };
    clap_complete::generate(shell, &mut command, name, &mut out);
    io::stdout().write_all(&out)?;
    Ok(true)
}

/// Writes a sheet in `format` to standard output, its rows made on `jobs` threads; `chain` gives
/// it as the AWK chain prints it.
///
/// # Errors
/// The output cannot be written; the sheet has no AWK form.
pub fn print<'s>(
    sheet: impl FnOnce() -> Sheet<'s>,
    chain: Option<impl FnOnce() -> Vec<u8>>,
    format: Format,
    jobs: usize,
) -> anyhow::Result<()> {
    print_rest(sheet, chain, (format, jobs), None)
}

/// The same, without the rows that were written before the input ended.
///
/// # Errors
/// As [`print()`].
pub fn print_rest<'s>(
    sheet: impl FnOnce() -> Sheet<'s>,
    chain: Option<impl FnOnce() -> Vec<u8>>,
    (format, jobs): (Format, usize),
    early: Option<(&Early, &Report)>,
) -> anyhow::Result<()> {
    with_stdout(|out| {
        if let Some((early, report)) = early.filter(|(early, _)| early.is_possible()) {
            let mut rest = early.rest(out);
            match format {
                Format::Jsonl => sheet().jsonl(jobs, &mut rest)?,
                _ => sheet().csv(jobs, &mut rest)?,
            }
            early.hold(&rest, report);
            return Ok(());
        }
        match (format, chain) {
            (Format::Csv, _) => sheet().csv(jobs, out)?,
            (Format::Jsonl, _) => sheet().jsonl(jobs, out)?,
            (Format::Table, _) => sheet().table(out)?,
            (Format::Awk, Some(chain)) => out.write_all(&chain())?,
            (Format::Awk, None) => {
                bail!("the AWK chain does not have this table: use --format csv")
            }
        }
        Ok(())
    })
}

/// Gives standard output, buffered, to `write`, and flushes it: a full disk must not pass
/// unnoticed. On a terminal the log's control bytes are escaped.
///
/// # Errors
/// Those of `write`; the output cannot be flushed.
pub fn with_stdout(
    write: impl FnOnce(&mut (dyn Write + Send)) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    // Not locked: whichever thread has the next rows writes them.
    let stdout = io::stdout();
    let mut out: Box<dyn Write + Send> = if stdout.is_terminal() {
        Box::new(BufWriter::new(Escaped::new(stdout)))
    } else {
        Box::new(BufWriter::with_capacity(1 << 16, stdout))
    };
    write(&mut out)?;
    out.flush().context("cannot write the output")
}

/// A number of bytes as typed: `4096`, `64KB`, `1M`, `2GiB`; units of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u128);

impl std::str::FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let wrong = || format!("invalid size `{text}`; expected bytes or 64KB, 1MB, 2GB (of 1024)");
        let end = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let number: u64 = text[..end].parse().map_err(|_| wrong())?;
        let power = match text[end..].to_ascii_uppercase().as_str() {
            "" | "B" => 0,
            "K" | "KB" | "KIB" => 10,
            "M" | "MB" | "MIB" => 20,
            "G" | "GB" | "GIB" => 30,
            "T" | "TB" | "TIB" => 40,
            _ => return Err(wrong()),
        };
        Ok(Size(u128::from(number) << power))
    }
}

impl Size {
    /// The sizes as edges of buckets.
    ///
    /// # Errors
    /// They do not rise, or one is 0.
    pub fn rising(sizes: &[Size]) -> anyhow::Result<Vec<u128>> {
        let edges: Vec<u128> = sizes.iter().map(|s| s.0).collect();
        if edges.first() == Some(&0) || edges.windows(2).any(|w| w[0] >= w[1]) {
            bail!("--edges: expected increasing sizes above 0, such as 64KB,1MB,16MB");
        }
        Ok(edges)
    }
}

/// A share as typed, in percent: `5%`, `0.5%`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share(pub f64);

impl std::str::FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Share, String> {
        let percent = text.strip_suffix('%').and_then(|n| n.parse::<f64>().ok());
        percent
            .filter(|n| n.is_finite() && *n >= 0.0)
            .map(|n| Share(n / 100.0))
            .ok_or_else(|| format!("invalid share `{text}`; expected percent, such as 5% or 0.5%"))
    }
}

/// A communicator's address or id as typed: `0x55d0a0000000`, `0x9f3b/2.7`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address(pub CommId);

impl std::str::FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        CommId::parse(text.as_bytes())
            .map(Address)
            .ok_or_else(|| format!("invalid address `{text}`; expected 0x and hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_typed() {
        let of = |t: &str| t.parse::<Size>().map(|s| s.0);
        assert_eq!(of("4096"), Ok(4096));
        assert_eq!(of("64KB"), Ok(65536));
        assert_eq!(of("1m"), Ok(1 << 20));
        assert_eq!(of("2GiB"), Ok(2 << 30));
        for bad in ["", "KB", "1.5MB", "-1", "1XB"] {
            assert!(of(bad).is_err(), "{bad}");
        }
        assert!(Size::rising(&[Size(2), Size(1)]).is_err());
        assert!(Size::rising(&[Size(0)]).is_err());
    }

    #[test]
    fn no_column_comes_twice() {
        let of = |by: &[ByArg]| {
            let group = GroupArgs {
                by: by.to_vec(),
                ..GroupArgs::default()
            };
            let columns = group.by().into_iter().flat_map(By::columns);
            columns.copied().collect::<Vec<_>>()
        };
        assert_eq!(
            of(&[ByArg::Rank, ByArg::Step, ByArg::Rank]),
            ["rank", "step"]
        );
        assert_eq!(of(&[ByArg::Host, ByArg::Rank]), ["host", "rank"]);
        let comm = ["host", "pid", "comm"];
        assert_eq!(of(&[ByArg::Comm, ByArg::Host]), comm);
        assert_eq!(of(&[ByArg::Host, ByArg::Comm]), comm);
    }

    #[test]
    fn shares_read_as_typed() {
        let of = |t: &str| t.parse::<Share>().map(|s| s.0);
        assert_eq!(
            (of("5%"), of("0.5%"), of("0%")),
            (Ok(0.05), Ok(0.005), Ok(0.0))
        );
        for bad in ["5", "0.05", "%", "-1%", "inf%", "nan%"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
