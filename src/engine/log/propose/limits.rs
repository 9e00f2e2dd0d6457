//! The limits of proposals for step lines: how much is kept of a log, and how much evidence is wanted.
//! Points and shares were set on the logs of trainers in `testdata`, with their own step lines unknown.

/// Lines that are proposed.
pub(super) const MAX_PROPOSALS: usize = 3;

/// Bytes of an example that are shown.
pub(super) const MAX_EXAMPLE_BYTES: usize = 240;

/// Longest text on one side of a number in a pattern, in bytes.
pub(super) const MAX_SIDE_TEXT_BYTES: usize = 32;

/// Fewest points of a proposal: below, lines that are no step lines are shown too.
pub(super) const MIN_PROPOSAL_POINTS: f64 = 8.5;

/// Points that a series loses if it begins again while another continues.
pub(super) const NESTED_SERIES_POINTS: f64 = 4.0;

/// Templates that are compared for equal counts.
pub(super) const MAX_COMPARED_TEMPLATES: usize = 64;

/// Fewest rises of a number: fewer are no series.
pub(super) const MIN_RISES: u64 = 2;

/// Least share of a number's changes that are by one increment: a clock has less.
pub(super) const MIN_REGULAR_SHARE: f64 = 0.25;

/// Increments that are counted; a series that rises by a constant has one or two.
pub(super) const MAX_INCREMENTS: usize = 4;

/// Largest share by which a time may differ from the stamps.
pub(super) const MAX_TIME_DEVIATION_SHARE: f64 = 0.15;

/// The same where stamps are too coarse for that. It still separates seconds from milliseconds, and the
/// time of a step from that of several.
pub(super) const MAX_ROUGH_DEVIATION_SHARE: f64 = 0.4;

/// Least distance of two lines, in the unit of their stamps, for such a rough comparison.
pub(super) const MIN_ROUGH_DISTANCE: f64 = 1.5;

/// Templates in memory; with more, the rarest are forgotten.
pub(super) const MAX_TEMPLATES: usize = 2048;

/// Places of a line that are followed as series of numbers.
pub(super) const MAX_FOLLOWED_PLACES: usize = 24;

/// Bytes of a line that are read; the rest is left out.
pub(super) const MAX_TEMPLATE_LINE_BYTES: usize = 1024;

/// Parts into which a line is split.
pub(super) const MAX_TEMPLATE_PARTS: usize = 96;
