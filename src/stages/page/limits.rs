//! How much a page shows: more rows make it longer, and the programs that it names have all of them.

/// Width of the page for a terminal, in characters.
pub const PAGE_WIDTH_CHARS: usize = 80;
/// Operations, and labels of communicators, on the page for a terminal.
pub(super) const MAX_LISTED_ROWS: usize = 5;
/// Findings, and warnings of stages, on the page for a terminal.
pub(super) const MAX_LISTED_FINDINGS: usize = 8;
/// Changes on the page for a terminal.
pub(super) const MAX_TEXT_CHANGES: usize = 6;
/// Changes, and messages of stages, in Markdown.
pub(super) const MAX_MARKDOWN_CHANGES: usize = 30;
/// Rows of a table in HTML.
pub(super) const MAX_HTML_ROWS: usize = 300;
/// Texts longer than this many bytes may be broken into lines in a cell of HTML.
pub(super) const MIN_SENTENCE_BYTES: usize = 40;
/// An outlier took at least this many times the median of all steps.
pub(super) const OUTLIER_MEDIAN_RATIO: f64 = 1.5;
/// An outlier needs more steps than this to compare with.
pub(super) const MIN_STEPS_TO_COMPARE: usize = 5;
