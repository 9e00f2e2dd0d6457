//! Where rows go, in which order, and how many of them.

use crate::output::render::order::{RowOrder, SortKey};
use crate::program::output_file;
use clap::{Arg, Args};
use std::path::{Path, PathBuf};

/// The file that takes the place of standard output.
#[derive(Debug, Clone, Args, Default)]
pub struct FileArgs {
    /// Write to this file instead of standard output
    ///
    /// Its ending names the format (calls.json, calls.csv) unless --format does. An existing file is replaced when the output is complete, and stays as it was if the program
    /// fails. To see rows as they come, write to standard output: > FILE.
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
}

impl FileArgs {
    /// The file, if there is one.
    pub fn path(&self) -> Option<&Path> {
        self.output.as_deref()
    }

    /// Lets standard output go into the file, if there is one. It comes before anything asks what
    /// standard output is.
    ///
    /// # Errors
    /// It cannot be written there.
    pub fn redirect(&self) -> anyhow::Result<()> {
        self.path().map_or(Ok(()), output_file::redirect_stdout)
    }
}

/// The order of rows, and how many of them are written.
#[derive(Debug, Clone, Args, Default)]
pub struct OrderArgs {
    /// Sort rows by a column; -COLUMN: largest first
    ///
    /// The smallest value comes first, with a - before the column the largest. Several columns are separated by commas: --sort op,-total_bytes. Numbers sort as numbers and
    /// come before texts; empty values come last either way; equal rows keep their order.
    #[arg(
        long,
        value_name = "COLUMN",
        value_delimiter = ',',
        allow_hyphen_values = true,
        help_heading = "Rows"
    )]
    sort: Vec<SortKey>,
    /// Write only the first N rows (after --sort)
    ///
    /// A note reports how many rows are left out. With --sort or --top rows are written when all of
    /// the input is read.
    #[arg(short = 'n', long, value_name = "N", help_heading = "Rows")]
    top: Option<u64>,
}

/// The argument `--top` of a program with rows that are counts: without `--sort` it keeps the rows with the most
/// of the first of these columns that the table has ([`SheetPrinter::largest_by`]).
///
/// [`SheetPrinter::largest_by`]: super::SheetPrinter::largest_by
pub fn top_of_counts(top: Arg, columns: &[&str]) -> Arg {
    let help = format!(
        "Write only the N rows with the most {}, or the first N after --sort",
        columns.join(" or ")
    );
    let rest = "A note reports how many rows are left out. With --sort or --top rows are written when all \
                of the input is read.";
    top.long_help(format!("{help}\n\n{rest}")).help(help)
}

impl OrderArgs {
    /// The requested order.
    pub fn order(&self) -> RowOrder {
        RowOrder {
            by: self.sort.clone(),
            top: self.top,
        }
    }
}
