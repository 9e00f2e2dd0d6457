//! Inputs: where bytes come from and how they are read.

use crate::source::FilePattern;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Where bytes come from and how they are read.
#[derive(Debug, Args)]
pub struct InputArgs {
    /// Logs, folders of logs, or - for standard input (default)
    ///
    /// Those packed with gzip or zstd are unpacked.
    #[arg(value_name = "FILE", display_order = 0, help_heading = "Input")]
    pub files: Vec<PathBuf>,
    /// Read only those files of a folder whose name matches, such as '*.log' (a pattern with a /
    /// matches the path in the folder); may be given several times
    #[arg(
        long,
        value_name = "PATTERN",
        hide_short_help = true,
        help_heading = "Input"
    )]
    pub(super) glob: Vec<FilePattern>,
    /// Check that the inputs are those of a list, a path on each line: exit code 2 if one is missing
    /// or doubled
    #[arg(
        long,
        value_name = "LIST",
        conflicts_with = "follow",
        hide_short_help = true,
        help_heading = "Input"
    )]
    pub(super) expect_inputs: Option<PathBuf>,
    /// Go on when the end of the files is reached, as tail -F does, until Ctrl-C: files that are replaced or truncated are read from their beginning, and files that appear in a folder are read, too
    #[arg(long, hide_short_help = true, help_heading = "Input")]
    pub(super) follow: bool,
    /// Read files in blocks instead of mapping them, for a log that is still being written
    #[arg(
        long,
        overrides_with = "mmap",
        hide_short_help = true,
        help_heading = "Input"
    )]
    pub(super) no_mmap: bool,
    /// Map files (default)
    #[arg(long, hide = true, overrides_with = "no_mmap")]
    mmap: bool,
    /// Threads (default: one per core; at most four per core)
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Input")]
    pub(super) jobs: Option<u16>,
    /// Stop at the first damaged line, with exit code 2
    #[arg(long, hide_short_help = true, help_heading = "Input")]
    pub(super) strict: bool,
    /// Report the class of every line, and show damaged bytes
    #[arg(short, long, help_heading = "Output")]
    pub(super) verbose: bool,
    /// Print no notes, only warnings and errors
    #[arg(short, long, help_heading = "Output")]
    pub(super) quiet: bool,
}

impl InputArgs {
    /// Which files of a folder are read.
    pub fn patterns(&self) -> &[FilePattern] {
        &self.glob
    }

    /// True where notes are to be left out.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }
}

/// What `--generate` prints.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum GenerateWhat {
    /// A man page.
    Man,
    /// Completions for bash.
    CompleteBash,
    /// Completions for zsh.
    CompleteZsh,
    /// Completions for fish.
    CompleteFish,
}
