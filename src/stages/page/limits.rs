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
/// The last calls of each rank that are drawn: more make the picture wide, fewer hide where ranks begin to differ.
pub(super) const LAST_CALLS_PER_RANK: usize = 50;
/// Ranks with a row in the picture of the last calls.
pub(super) const MAX_DRAWN_RANKS: usize = 64;
/// Columns of that picture: a box must have room for a letter. A rank that is far behind the others needs more columns
/// than its own calls.
pub(super) const MAX_CALL_COLUMNS: usize = 120;
/// The last calls of a rank that an error names that are shown, however far it is behind.
pub(super) const MIN_MARKED_CALLS: usize = 10;
/// Calls that ranks wait in, listed in words.
pub(super) const MAX_LISTED_WAITS: usize = 8;
/// Width of the picture of the last calls, in units of its own.
pub(super) const CALLS_PICTURE_WIDTH: f64 = 960.0;
/// Width of the names at its left.
pub(super) const RANK_NAMES_WIDTH: f64 = 150.0;
/// Heights of its rows: of few ranks, and of many.
pub(super) const RANK_ROW_HEIGHTS: [f64; 2] = [22.0, 15.0];
/// The most ranks that have the larger height.
pub(super) const MAX_TALL_ROWS: usize = 24;
/// Width of a call's box, with the space after it, where there are few columns.
pub(super) const MAX_CALL_BOX_WIDTH: f64 = 24.0;
/// Space that the number of a step takes.
pub(super) const STEP_LABEL_WIDTH: f64 = 64.0;
