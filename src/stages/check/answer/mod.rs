//! What the log answers: the expectations of `--expect`, the questions it can answer, the summary,
//! and findings as a table.

pub(super) mod actors;
pub mod ci_formats;
pub(crate) mod coverage;
pub mod expect;
pub mod explain;
mod facts;
pub mod findings_text;
pub(crate) mod headline;
pub mod judged;
mod line_kinds;
mod shown;
pub(super) mod summary;
pub mod table;
