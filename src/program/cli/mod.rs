//! What all programs share on the command line: inputs, steps, formats. A flag means the same
//! everywhere.

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

pub use format::{AroundArgs, ChainFormatArgs, ColorArgs, Format, FormatArgs, width};
pub use groups::GroupArgs;
pub use help::{HEADINGS, command, parse};
pub use input::{Generate, InputArgs};
pub use print::{Output, print, print_rest, with_stdout, with_text};
pub use rows::{FileArgs, OrderArgs};
pub use run::Run;
pub use steps::{AWK_WINDOW, Compat, StepArgs, StepLineArgs, When};
pub use svg::SvgArgs;
pub use values::{Address, Share, Size, one_of};
