//! What the log answers: the expectations of `--expect`, the questions it can answer, the summary,
//! and findings as a table.

pub mod ci_formats;
pub(crate) mod coverage;
pub mod expect;
mod facts;
pub mod judged;
mod line_kinds;
pub(super) mod summary;
pub mod table;
