//! Arguments and their help: the same headings in the same order in every program, and a short help
//! (`-h`) that fits a terminal.

use super::GenerateWhat;
use super::ending::format_of_output;
use crate::program::man;
use anyhow::{Context, bail};
use clap::builder::EnumValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command, Parser};
use std::ffi::OsString;
use std::io::{self, Write};

/// The headings of options, in the order of the help. Each program has some of them.
pub const OPTION_HEADINGS: [&str; 8] = [
    "Input", "Job", "Steps", "Log", "Damage", "Stalls", "Rows", "Output",
];

/// The characters of a line of the short help at most, and of the long one.
const HELP_WIDTHS: (usize, usize) = (80, 100);

/// How many examples the short help shows.
const EXAMPLES_IN_SHORT_HELP: usize = 2;

/// The use of `--generate`'s output.
const GENERATE_HELP: &str = "\
Print a man page or shell completions

bash: source <(nccl-x --generate complete-bash)
zsh: nccl-x --generate complete-zsh > ~/.zfunc/_nccl-x (a folder of $fpath)
fish: nccl-x --generate complete-fish | source
man: nccl-x --generate man | man -l -";

/// Reads the arguments. `None` if they asked for a man page or completions, which are printed then.
///
/// # Errors
/// The output cannot be written.
pub fn parse_args<C: Parser>() -> anyhow::Result<Option<C>> {
    parse_args_of(build_command::<C>())
}

/// The same, of a `command` that has more than the arguments of `C`.
///
/// # Errors
/// As [`parse_args`].
pub fn parse_args_of<C: Parser>(command: Command) -> anyhow::Result<Option<C>> {
    let Some(matches) = match_args(&command)? else {
        return Ok(None);
    };
    match C::from_arg_matches(&matches) {
        Ok(cli) => Ok(Some(cli)),
        Err(error) => exit_with_usage(error, &command),
    }
}

/// The arguments as clap has them.
fn match_args(command: &Command) -> anyhow::Result<Option<ArgMatches>> {
    let is_short = std::env::args_os().skip(1).any(|arg| arg == "-h");
    let width = if is_short {
        HELP_WIDTHS.0
    } else {
        HELP_WIDTHS.1
    };
    let command = command.clone().max_term_width(width);
    let matches = command.clone().try_get_matches();
    let mut matches = matches.unwrap_or_else(|error| drop_distant_tip(error, &command).exit());
    if let Some(what) = matches.get_one::<GenerateWhat>("generate") {
        print_generated(*what, command).context("cannot write the output")?;
        return Ok(None);
    }
    if let Some(format) = format_of_output(&command, &matches)? {
        let mut args: Vec<OsString> = std::env::args_os().collect();
        args.splice(1..1, ["--format".into(), format.clone().into()]);
        // Where no format can be asked for, lines of text are written, as by nccl-steps.
        matches = match command.clone().try_get_matches_from(args) {
            Ok(matches) => matches,
            Err(_) if format == "table" || format == "text" => matches,
            Err(_) => bail!(
                "-o: {} writes lines of text with these options: name a file of text (.txt, .log)",
                command.get_name()
            ),
        };
    }
    Ok(Some(matches))
}

/// The options of a filter of calls.
const FILTER_OPTIONS: [&str; 5] = ["op", "rank", "comm", "host", "where"];

/// Leaves out a tip that names another option than the one that was probably meant, such as `--output` for `--op`, and the
/// one to name it as a file.
fn drop_distant_tip(mut error: clap::Error, command: &Command) -> clap::Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.trim_start_matches('-').as_bytes(),
        _ => b"",
    };
    let (given, tip) = (
        text(ContextKind::InvalidArg),
        text(ContextKind::SuggestedArg),
    );
    let is_distant = !(tip.is_empty() || tip.starts_with(given) || are_typos(given, tip));
    let is_filter = FILTER_OPTIONS.iter().any(|name| name.as_bytes() == given);
    if error.kind() == ErrorKind::UnknownArgument {
        error.remove(ContextKind::Suggested);
    }
    if is_distant {
        let usage = ContextValue::StyledStr(command.clone().render_usage());
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Usage, usage);
    }
    if is_filter && error.kind() == ErrorKind::UnknownArgument {
        let tip = format!(
            "{} has no filter of calls; this counts some of a log: nccl-ops --op AllReduce",
            command.get_name()
        );
        let tips = ContextValue::StyledStrs(vec![tip.into()]);
        error.insert(ContextKind::Suggested, tips);
    }
    error
}

/// True for words with the same letters but for one.
fn are_typos(one: &[u8], other: &[u8]) -> bool {
    let mut left = other.to_vec();
    let is_in = |letter: &&u8| {
        let at = left.iter().position(|of| of == *letter);
        at.map(|at| left.swap_remove(at)).is_some()
    };
    one.iter().filter(is_in).count() + 1 >= one.len().max(other.len())
}

/// A usage error: clap's own message and exit code 2.
fn exit_with_usage(error: clap::Error, command: &Command) -> ! {
    error.with_cmd(command).exit()
}

/// A program's arguments, by their headings.
pub fn build_command<C: Parser>() -> Command {
    sort_by_headings(C::command())
}

fn sort_by_headings(made: Command) -> Command {
    let name = made.get_name().to_owned();
    let after = made.get_after_long_help().map(ToString::to_string);
    let after = join_paragraph_lines(&after.unwrap_or_default());
    let rank = |arg: &Arg| {
        OPTION_HEADINGS
            .iter()
            .position(|is| Some(*is) == arg.get_help_heading())
    };
    let mut args: Vec<Arg> = made.get_arguments().cloned().collect();
    // clap shows headings as they first appear.
    args.sort_by_key(rank);
    let mut command = Command::new(name.clone())
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args(args)
        .args(common_args(&name))
        .after_help(first_examples(&after))
        .after_long_help(after);
    if let Some(version) = made.get_version() {
        command = command.version(version.to_owned());
    }
    if let Some(about) = made.get_about() {
        command = command.about(about.clone());
    }
    if let Some(about) = made.get_long_about() {
        command = command.long_about(join_paragraph_lines(&about.to_string()));
    }
    command
}

/// Joins the lines of each paragraph, which the terminal's width breaks; a line with blanks before it, a heading and what
/// follows them stay.
fn join_paragraph_lines(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut before = "";
    for line in text.lines() {
        let is_of_paragraph = |line: &str| !line.is_empty() && !line.starts_with(' ');
        let is_joined = is_of_paragraph(before) && is_of_paragraph(line) && !before.ends_with(':');
        joined.push_str(if is_joined { " " } else { "\n" });
        joined.push_str(line);
        before = line;
    }
    joined.trim_matches('\n').to_owned()
}

/// The arguments of every program.
fn common_args(name: &str) -> [Arg; 3] {
    let own = |id: &'static str, at| {
        Arg::new(id)
            .long(id)
            .help_heading("Output")
            .display_order(at)
    };
    [
        own("generate", 1000)
            .value_name("WHAT")
            .value_parser(EnumValueParser::<GenerateWhat>::new())
            .exclusive(true)
            .hide_short_help(true)
            .help(GENERATE_HELP.lines().next().unwrap_or_default())
            .long_help(GENERATE_HELP.replace("nccl-x", name)),
        own("help", 1001)
            .short('h')
            .action(ArgAction::Help)
            .help("Print help (-h: the common options; --help: all)"),
        own("version", 1002)
            .short('V')
            .action(ArgAction::Version)
            .help("Print version"),
    ]
}

/// The first examples that fit the short help.
fn first_examples(after: &str) -> String {
    let examples = after
        .split("\n\n")
        .find_map(|p| p.strip_prefix("Examples:\n"));
    let fitting = |line: &&str| line.chars().count() <= HELP_WIDTHS.0;
    let lines = examples.unwrap_or_default().lines().filter(fitting);
    let first: Vec<&str> = lines.take(EXAMPLES_IN_SHORT_HELP).collect();
    format!("Examples:\n{}", first.join("\n"))
}

fn print_generated(what: GenerateWhat, mut command: Command) -> io::Result<()> {
    let mut out = Vec::new();
    let shell = match what {
        GenerateWhat::Man => {
            man::write_man_page(command, &mut out)?;
            return io::stdout().write_all(&out);
        }
        GenerateWhat::CompleteBash => clap_complete::Shell::Bash,
        GenerateWhat::CompleteZsh => clap_complete::Shell::Zsh,
        GenerateWhat::CompleteFish => clap_complete::Shell::Fish,
    };
    let name = command.get_name().to_owned();
    clap_complete::generate(shell, &mut command, name, &mut out);
    io::stdout().write_all(&out)
}
