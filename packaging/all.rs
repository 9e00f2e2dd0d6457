//! nccl-pipe: see `--help`. It is also each of the other programs.
//!
//! Each program links most of the library, so twenty of them are ten times as large as this one. A package
//! has this one under the names of all: as links, or as the script `packaging/launcher` where there can be
//! no links. It is the program that its own name says (`argv[0]`), else the one that its first argument
//! says: `nccl-pipe hist LOG` and `nccl-pipe nccl-hist LOG` are `nccl-hist LOG`.

use anyhow::bail;
use clap::error::{ContextKind, ContextValue};
use clap::{Command, CommandFactory, Parser};
use nccl_pipe::error::escape::shell_word;
use nccl_pipe::program::cli::{self, ColorArgs, InputArgs, ProgramRun, StepArgs};
use nccl_pipe::program::exit::{self, Exit};
use nccl_pipe::stages::page::{self, NextCommand, PageOrder, text};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[path = "../src/bin/nccl-agg.rs"]
mod agg;
#[path = "../src/bin/nccl-check.rs"]
mod check;
#[path = "../src/bin/nccl-collect.rs"]
mod collect;
#[path = "../src/bin/nccl-comms.rs"]
mod comms;
#[path = "../src/bin/nccl-communicators.rs"]
mod communicators;
#[path = "../src/bin/nccl-cuda.rs"]
mod cuda;
#[path = "../src/bin/nccl-diff.rs"]
mod diff;
#[path = "../src/bin/nccl-hist.rs"]
mod hist;
#[path = "../src/bin/nccl-kernels.rs"]
mod kernels;
#[path = "../src/bin/nccl-matrix.rs"]
mod matrix;
#[path = "../src/bin/nccl-net.rs"]
mod net;
#[path = "../src/bin/nccl-ops.rs"]
mod ops;
#[path = "../src/bin/nccl-overlap.rs"]
mod overlap;
#[path = "../src/bin/nccl-pack.rs"]
mod pack;
#[path = "../src/bin/nccl-proxy.rs"]
mod proxy;
#[path = "../src/bin/nccl-report.rs"]
mod report;
#[path = "../src/bin/nccl-skew.rs"]
mod skew;
#[path = "../src/bin/nccl-steps.rs"]
mod steps;
#[path = "../src/bin/nccl-synth.rs"]
mod synth;
#[path = "../src/bin/nccl-timing.rs"]
mod timing;
#[path = "../src/bin/nccl-tuning.rs"]
mod tuning;
#[path = "../src/bin/nccl-watch.rs"]
mod watch;

/// A program of `src/bin`.
struct Program {
    name: &'static str,
    /// Where it begins.
    main: fn() -> ExitCode,
    /// Its arguments and its line in the list.
    command: fn() -> Command,
}

/// Makes the table of programs, a line for each.
macro_rules! programs {
    ($(($name:literal, $module:ident),)+) => {
        &[$(Program {
            name: $name,
            main: $module::main,
            command: <$module::Cli as CommandFactory>::command,
        },)+]
    };
}

/// Every program of `src/bin`.
const PROGRAMS: &[Program] = programs![
    ("nccl-agg", agg),
    ("nccl-check", check),
    ("nccl-collect", collect),
    ("nccl-comms", comms),
    ("nccl-communicators", communicators),
    ("nccl-cuda", cuda),
    ("nccl-diff", diff),
    ("nccl-hist", hist),
    ("nccl-kernels", kernels),
    ("nccl-matrix", matrix),
    ("nccl-net", net),
    ("nccl-ops", ops),
    ("nccl-overlap", overlap),
    ("nccl-pack", pack),
    ("nccl-proxy", proxy),
    ("nccl-report", report),
    ("nccl-skew", skew),
    ("nccl-steps", steps),
    ("nccl-synth", synth),
    ("nccl-timing", timing),
    ("nccl-tuning", tuning),
    ("nccl-watch", watch),
];

/// What a log or record tells on one page, and which programs tell more; or one of these programs
///
/// nccl-pipe FILE writes the page of nccl-report and below it the commands that have more about this
/// input. FILE is anything that one of the programs reads; it is recognised by its content. Without FILE
/// a pipe is read.
///
/// nccl-pipe PROGRAM starts a program: nccl-pipe hist nccl.log is nccl-hist nccl.log. A file with the name
/// of a program is named with its folder: ./hist.
#[derive(Debug, Parser)]
#[command(name = OWN_NAME, version, after_long_help = AFTER)]
#[command(mut_arg("files", |files| {
    let help = "Logs, folders of logs, or - for standard input";
    files.help(help).long_help(format!("{help}\n\nThose packed with gzip or zstd are unpacked."))
}))]
struct Cli {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    color: ColorArgs,
}

const OWN_NAME: &str = "nccl-pipe";

const AFTER: &str = "\
Examples:
  nccl-pipe nccl.log
  nccl-pipe hist nccl.log --steps 45..49
  nccl-pipe help hist

Exit codes: 0 everything was read, 1 some input was damaged, 2 the program failed. A program has its own.";

fn main() -> ExitCode {
    let mut args = env::args_os();
    let own = args.next().unwrap_or_default();
    if let Some(program) = Path::new(&own).file_name().and_then(find_program) {
        return (program.main)();
    }
    let Some(first) = args.next() else {
        return match has_piped_input() {
            true => run_page(),
            false => print_help(),
        };
    };
    if let Some(program) = find_program(&first) {
        return start_program(&own, program, args);
    }
    if first == "help" {
        return match args.next() {
            None => print_help(),
            Some(word) => match find_program(&word) {
                Some(program) => start_program(&own, program, ["--help".into()]),
                None => refuse_word(&word),
            },
        };
    }
    match is_input(&first) {
        true => run_page(),
        false => refuse_word(&first),
    }
}

/// True where standard input was given something to read: a scheduler's or a service's is neither a pipe nor a file.
fn has_piped_input() -> bool {
    let stdin = std::io::stdin().as_fd().try_clone_to_owned();
    let kind = stdin.and_then(|stdin| Ok(File::from(stdin).metadata()?.file_type()));
    kind.is_ok_and(|kind| kind.is_fifo() || kind.is_file())
}

fn run_page() -> ExitCode {
    exit::run_program(OWN_NAME, || {
        cli::parse_args_of(build_command())?.map_or(Ok(Exit::Clean), print_page)
    })
}

/// Returns the program of that name, which may lack `nccl-`.
fn find_program(name: &OsStr) -> Option<&'static Program> {
    let is_of = |program: &&Program| {
        name == program.name || Some(name) == program.name.strip_prefix("nccl-").map(OsStr::new)
    };
    PROGRAMS.iter().find(is_of)
}

/// True for an option or something to read. What is no local file is refused when it is opened.
fn is_input(word: &OsStr) -> bool {
    let text = word.to_string_lossy();
    text.starts_with('-') || text.contains("://") || Path::new(word).symlink_metadata().is_ok()
}

/// Begins again under the program's name: it is what help and messages show, and the arguments are then
/// those of the program alone.
fn start_program(
    own: &OsStr,
    program: &Program,
    args: impl IntoIterator<Item = OsString>,
) -> ExitCode {
    // A root without /proc has no path of a running program. The launcher gives the whole path.
    let file = env::current_exe().map_or_else(|_| own.to_owned(), OsString::from);
    let mut command = std::process::Command::new(&file);
    let error = command.arg0(program.name).args(args).exec();
    let _ = writeln!(
        std::io::stderr(),
        "{OWN_NAME}: cannot start {}: {error}",
        Path::new(&file).display()
    );
    ExitCode::from(2)
}

/// Each program with its own line.
fn list_programs() -> impl Iterator<Item = Command> {
    PROGRAMS.iter().map(|program| {
        let name = program.name.trim_start_matches("nccl-");
        let about = (program.command)().get_about().cloned();
        Command::new(name).about(fit_about(&about.unwrap_or_default().to_string()).to_owned())
    })
}

/// The arguments and the programs.
fn build_command() -> Command {
    let help = Command::new("help").about("This list, or the help of one program");
    cli::build_command::<Cli>()
        .subcommands(list_programs())
        .subcommand(help)
        .subcommand_value_name("PROGRAM")
        .subcommand_help_heading("Programs")
        .args_conflicts_with_subcommands(true)
        .disable_help_subcommand(true)
}

fn print_help() -> ExitCode {
    exit::run_program(OWN_NAME, || {
        let help = build_command().max_term_width(80).render_help();
        cli::with_stdout(|out| Ok(write!(out, "{help}")?))?;
        Ok(Exit::Clean)
    })
}

/// Fails for a word that is neither a program nor a file.
fn refuse_word(word: &OsStr) -> ExitCode {
    exit::run_program(OWN_NAME, || {
        let word = word.to_string_lossy();
        match find_near_program(&word) {
            Some(near) => bail!("no program and no file is called {word}: did you mean {near}?"),
            None => {
                bail!("no program and no file is called {word}; {OWN_NAME} help lists the programs")
            }
        }
    })
}

/// The program whose name is most like a word, as clap judges it.
fn find_near_program(word: &str) -> Option<String> {
    let is_letter = |c: char| c.is_alphabetic() || c == '-';
    if !word.chars().all(is_letter) {
        return None;
    }
    let known = Command::new(OWN_NAME).subcommands(list_programs());
    let tried = known.try_get_matches_from([OWN_NAME, word.trim_start_matches("nccl-")]);
    match tried.err()?.get(ContextKind::SuggestedSubcommand)? {
        ContextValue::Strings(names) => names.last().cloned(),
        _ => None,
    }
}

/// Writes the page, and the commands that tell more.
fn print_page(cli: Cli) -> anyhow::Result<Exit> {
    let mut run = ProgramRun::of_whole_logs(OWN_NAME, &cli.input, &StepArgs::default())?;
    let copies = run.copy_pipes_to_files()?;
    let order = PageOrder {
        origins: &run.origins,
        against: &[],
        whole: false,
        options: &run.options,
        filter: &run.filter,
        filter_against: &run.filter,
    };
    let page = page::gather_page(order, &mut run.report, &run.bar)?;
    drop(copies);
    // Of the only input nothing is known.
    if run.origins.len() == 1 && run.report.lacks_inputs() {
        return Ok(run.finish());
    }
    let text = text::render_text(&page, cli::page_width(), cli.input.is_quiet());
    let next = describe_next(&page.next, &cli.input.files);
    cli::with_text(cli.color.look(), |out| Ok(write!(out, "{text}{next}")?))?;
    Ok(run.finish())
}

/// A program's first line, up to the last of its parts that fits beside the name in 80 columns.
fn fit_about(about: &str) -> &str {
    const WIDTH: usize = 62;
    if about.len() <= WIDTH {
        return about;
    }
    let mut parts = about.match_indices([',', ':']).map(|(at, _)| at);
    parts
        .rfind(|&at| at <= WIDTH)
        .map_or(about, |at| &about[..at])
}

/// The commands as they are typed: for one input with its name.
fn describe_next(next: &[NextCommand], files: &[PathBuf]) -> String {
    let input = match files {
        [file] if file.as_os_str() != "-" => shell_word(&file.to_string_lossy()),
        _ => "LOG".to_owned(),
    };
    let commands: Vec<String> = next
        .iter()
        .map(|next| {
            format!(
                "{OWN_NAME} {} {input}",
                next.command.trim_start_matches("nccl-")
            )
        })
        .collect();
    let width = commands.iter().map(|command| command.chars().count()).max();
    let width = width.unwrap_or_default();
    let lines = commands.iter().zip(next);
    let lines = lines.map(|(command, next)| format!("  {command:width$}  {}\n", next.title));
    match next.is_empty() {
        true => String::new(),
        false => format!("\nMORE\n{}", lines.collect::<String>()),
    }
}
