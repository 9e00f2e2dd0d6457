//! The command line that all programs share: inputs, steps, formats. A flag means the same everywhere.

mod duration;
mod ending;
mod filter;
mod format;
mod groups;
mod help;
mod input;
mod print;
mod rows;
mod run;
mod steps;
mod svg;
mod values;

pub use duration::parse_duration;
pub use filter::FilterArgs;
pub use format::{
    AroundArgs, ChainFormatArgs, ColorArgs, FormatArgs, RowFormat, page_width, terminal_width,
};
pub use groups::GroupArgs;
pub use help::{OPTION_HEADINGS, build_command, parse_args, parse_args_of};
pub use input::{GenerateWhat, InputArgs};
pub use print::{RowOutput, SheetPrinter, with_stdout, with_text};
pub use rows::{FileArgs, OrderArgs, top_of_counts};
pub use run::{ProgramRun, run_program};
pub use steps::{CompatMode, StepArgs, StepLineArgs, StepLinePosition};
pub use svg::SvgArgs;
pub use values::{ByteSize, CommAddress, PercentShare, one_of, parse_edges};
