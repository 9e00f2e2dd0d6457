//! How rows are written.

use super::{OrderArgs, RowOutput};
use crate::output::render::look::{self, DrawStyle, MAX_TERMINAL_ROWS};
use crate::output::render::order::RowOrder;
use crate::output::reshape::{LabelColumn, RowReshape};
use crate::stages::page::text::PAGE_WIDTH_CHARS;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ColorChoice, ValueEnum};
use std::io::{self, IsTerminal};

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RowFormat {
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
}

impl RowFormat {
    /// The one that fits where the output goes.
    pub fn fitting_stdout() -> RowFormat {
        if io::stdout().is_terminal() {
            RowFormat::Table
        } else {
            RowFormat::Csv
        }
    }

    /// Whether one row follows the other, as scripts read them.
    pub fn is_rows(self) -> bool {
        matches!(self, RowFormat::Csv | RowFormat::Tsv | RowFormat::Jsonl)
    }
}

/// Columns and headers put around rows of any format.
#[derive(Debug, Clone, Args, Default)]
pub struct AroundArgs {
    /// Put a column with this value in front of each row; may be given several times
    #[arg(
        long,
        value_name = "NAME=VALUE",
        hide_short_help = true,
        help_heading = "Output"
    )]
    label: Vec<LabelColumn>,
    /// Leave out the line with the columns' names
    #[arg(long, hide_short_help = true, help_heading = "Output")]
    no_header: bool,
    #[command(flatten)]
    color: ColorArgs,
}

/// Whether colours are used.
#[derive(Debug, Clone, Args, Default)]
pub struct ColorArgs {
    /// Colours: by severity, and for what changed
    #[arg(long, value_name = "WHEN", default_value_t = ColorChoice::Auto, hide_short_help = true, help_heading = "Output")]
    color: ColorChoice,
}

impl AroundArgs {
    /// Where a table or a text is drawn.
    pub fn look(&self) -> DrawStyle {
        self.color.look()
    }

    /// The labels of rows.
    pub fn labels(&self) -> &[LabelColumn] {
        &self.label
    }

    /// Refuses what only rows can have, where something else is written.
    ///
    /// # Errors
    /// There are labels, or the header is to be left out.
    pub fn refuse_row_options(&self) -> anyhow::Result<()> {
        Ok(self.output(RowFormat::Csv).reshape.refuse_row_options()?)
    }

    /// With rows in this format.
    pub fn output(&self, format: RowFormat) -> RowOutput {
        RowOutput {
            format,
            reshape: RowReshape {
                labels: self.label.clone(),
                no_header: self.no_header,
                tabs: format == RowFormat::Tsv,
                json: format == RowFormat::Jsonl,
            },
            look: self.color.look(),
            order: RowOrder::default(),
        }
    }
}

impl ColorArgs {
    /// Where a table or a text is drawn.
    pub fn look(&self) -> DrawStyle {
        DrawStyle {
            width: terminal_width(),
            rows: io::stdout().is_terminal().then_some(MAX_TERMINAL_ROWS),
            colour: self.is_coloured(),
        }
    }

    /// Whether colours are wanted, and seen.
    fn is_coloured(&self) -> bool {
        match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
            }
        }
    }
}

/// The format of a table that the AWK chain does not have.
#[derive(Debug, Args, Default)]
pub struct FormatArgs {
    /// How rows are written (default: table on a terminal, csv in a pipe)
    #[arg(short, long, value_parser = not_awk(), help_heading = "Output")]
    format: Option<RowFormat>,
    #[command(flatten)]
    around: AroundArgs,
    #[command(flatten)]
    order: OrderArgs,
}

impl FormatArgs {
    /// As [`AroundArgs::refuse_row_options`].
    ///
    /// # Errors
    /// Those of it.
    pub fn refuse_row_options(&self) -> anyhow::Result<()> {
        self.around.refuse_row_options()
    }

    /// The format asked for, or the one that fits where the output goes.
    pub fn get(&self) -> RowOutput {
        self.around
            .output(self.format.unwrap_or_else(RowFormat::fitting_stdout))
            .ordered(&self.order)
    }
}

/// The format of a table that the AWK chain has too.
#[derive(Debug, Args, Default)]
pub struct ChainFormatArgs {
    /// How rows are written (default: table on a terminal, csv in a pipe)
    #[arg(short, long, value_enum, help_heading = "Output")]
    format: Option<RowFormat>,
    #[command(flatten)]
    around: AroundArgs,
    #[command(flatten)]
    order: OrderArgs,
}

impl ChainFormatArgs {
    /// As [`AroundArgs::refuse_row_options`].
    ///
    /// # Errors
    /// Those of it.
    pub fn refuse_row_options(&self) -> anyhow::Result<()> {
        self.around.refuse_row_options()
    }

    /// The format asked for, or the one that fits where the output goes.
    pub fn get(&self) -> RowOutput {
        self.around
            .output(self.format.unwrap_or_else(RowFormat::fitting_stdout))
            .ordered(&self.order)
    }
}

/// All formats but the AWK chain's.
fn not_awk() -> impl TypedValueParser<Value = RowFormat> {
    let formats = RowFormat::value_variants().iter();
    let offered = formats.filter(|format| **format != RowFormat::Awk);
    PossibleValuesParser::new(offered.filter_map(RowFormat::to_possible_value))
        .try_map(|name| RowFormat::from_str(&name, false))
}

/// No page is narrower.
const MIN_PAGE_COLUMNS: usize = 40;

/// The characters of a line of a page: it fits the terminal, and is not wider than a page in a pipe.
pub fn page_width() -> usize {
    let seen = terminal_width().unwrap_or(PAGE_WIDTH_CHARS);
    seen.clamp(MIN_PAGE_COLUMNS, PAGE_WIDTH_CHARS)
}

/// The characters of a line of the terminal that standard output is, if it is one.
pub fn terminal_width() -> Option<usize> {
    look::terminal_width(&io::stdout())
}
