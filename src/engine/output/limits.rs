//! The limits of output: sizes of tables and pictures, and how much text is kept to be used again.

/// Tracks of a trace for one process; calls that still overlap are on the last one.
pub(super) const MAX_LANES: usize = 256;

/// Rows that a terminal gets: more than people look at, and few enough to find the table's head.
pub const MAX_TERMINAL_ROWS: usize = 100;

/// Blanks between two columns.
pub(super) const COLUMN_SPACE: usize = 2;

/// Characters to which a text is cut before other columns are left out.
pub(super) const MAX_TEXT_WIDTH: usize = 40;

/// Characters to which a text is cut if nothing else helps.
pub(super) const MIN_TEXT_WIDTH: usize = 16;

/// Rows that are made into text at a time.
pub(super) const ROWS_PER_PART: usize = 4096;

/// Groups of rows that are kept as text.
pub(super) const MAX_CACHED_GROUPS: u64 = 1 << 14;

/// Words that a group of rows that is kept is made of.
pub(super) const MAX_CACHED_GROUP_WORDS: usize = 512;

/// Bytes of text after which no more groups are kept.
pub(super) const MAX_CACHED_BYTES: usize = if cfg!(test) { 1 << 12 } else { 4 << 20 };

/// Fractions that are kept as text, by the first byte of a hash.
pub(super) const MAX_CACHED_FRACTIONS: usize = 256;

/// Width of a plot, in units of its own, as all sizes of pictures.
pub(super) const PLOT_WIDTH: f64 = 960.0;

/// Width of the space left of columns, for the scale.
pub(super) const LABEL_WIDTH: f64 = 100.0;

/// Least and most width of the space left of strips and maps, for their names.
pub(super) const LABEL_WIDTHS: [f64; 2] = [60.0, 440.0];

/// The fewest characters of a cut text that show a place in it.
pub(super) const MIN_SHOWN_PLACE: usize = 8;

/// Width of a legend: what a telephone, 400 pixels wide, shows of a plot.
pub(super) const LEGEND_WIDTH: f64 = 420.0;

/// Height of a line of a legend.
pub(super) const LEGEND_LINE_HEIGHT: f64 = 24.0;

/// Width of a character, but for the widest ones.
pub(super) const CHARACTER_WIDTH: f64 = 7.7;

/// Width of a character of a map's cell: a number, with its unit.
pub(super) const CELL_CHARACTER_WIDTH: f64 = 6.5;

/// Space around plots.
pub(super) const PICTURE_MARGIN: f64 = 16.0;

/// Height of a line of text.
pub(super) const LINE_HEIGHT: f64 = 20.0;

/// Height of the space above columns, for the values of those that are higher than the plot.
pub(super) const COLUMNS_TOP: f64 = 20.0;

/// Height of a plot of columns.
pub(super) const COLUMNS_HEIGHT: f64 = 180.0;

/// Height of a strip.
pub(super) const STRIP_HEIGHT: f64 = 24.0;

/// Columns of a plot; of several values in one column the largest is drawn.
pub(super) const MAX_PLOT_COLUMNS: usize = 240;

/// One column in this many may be higher than the plot, as a job's first step may be.
pub(super) const HIGH_COLUMNS_ONE_IN: usize = 10;

/// Such a column is at least this many times as high as the others.
pub(super) const HIGH_COLUMN_RATIO: f64 = 4.0;

/// The first byte of a packed value: it is not known, a number, a number that eight bytes do not hold, a text.
pub(super) const UNKNOWN: u8 = 0;
pub(super) const NUMBER: u8 = 1;
pub(super) const TOO_LARGE: u8 = 2;
pub(super) const TEXT: u8 = 3;

/// The bytes of the length of a packed part or text.
pub(super) const LENGTH_BYTES: usize = size_of::<u32>();
