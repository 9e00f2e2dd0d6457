//! Decides which columns of a table fit into a terminal.

use crate::output::limits::{MAX_TEXT_WIDTH, MIN_TEXT_WIDTH};
use unicode_width::UnicodeWidthStr;

/// A column, and the room it gets.
#[derive(Debug)]
pub(super) struct FittedColumn {
    pub(super) name: String,
    /// The width of its header and its widest cell; after fitting, the width that it gets.
    pub(super) width: usize,
    /// No row has a value.
    pub(super) is_empty: bool,
    /// It has texts: they are aligned to the left, and may be cut.
    pub(super) is_text: bool,
    pub(super) is_kept: bool,
}

impl FittedColumn {
    pub(super) fn new(name: &str) -> FittedColumn {
        FittedColumn {
            name: name.to_owned(),
            width: name.width(),
            is_empty: true,
            is_text: false,
            is_kept: true,
        }
    }

    /// Returns the width that it needs to be of use: a long text is cut before a column is left out
    /// for it.
    fn min_width(&self, most: usize) -> usize {
        match self.is_text {
            true => self.width.min(most.max(self.name.width())),
            false => self.width,
        }
    }
}

/// Pictures of what other columns have as numbers.
const BAR_COLUMNS: [&str; 2] = ["share of calls", "strip"];

/// Columns at the end that locate a row's source.
const POSITION_COLUMNS: [&str; 4] = ["text", "line", "input", "file"];

/// Columns that follow from others, or show less than they: the least missed is first.
const DERIVED_COLUMNS: [&str; 85] = [
    // The long text of a line.
    "advice",
    "why",
    "evidence",
    "sure",
    "which_steps",
    "missing",
    "basis",
    "quality",
    "clock",
    // Tuning.
    "without_call",
    "ambiguous",
    "min_channels",
    "max_channels",
    // The bucket's name contains both.
    "from_bytes",
    "to_bytes",
    "calls_per_gpu",
    // Percentiles and means beside others.
    "p99_bytes",
    "mean_bytes",
    "p99",
    "sd",
    "stddev_ns",
    "p99_us",
    "median_ns",
    "min_ns",
    "max_ns",
    "avg_ns",
    "min_us",
    "algbw_gbs",
    "p95_bytes",
    "p95_us",
    "min_bytes",
    "mean_us",
    "share_bytes",
    "share_calls",
    "gpus",
    "p50_us",
    // Communicators and their members.
    "stride",
    "init_s",
    "confidence",
    "nodes",
    "nvml_dev",
    "bus_id",
    "comm",
    "nranks",
    "state",
    // The network.
    "minority",
    "of_hosts",
    "processes",
    "via",
    "gdr",
    "nic",
    // Skew.
    "every",
    "late_us",
    "last_share",
    "late_steps",
    // Steps.
    "first_line",
    "last_line",
    "segment",
    // Overlap: what two kinds have in common, then shares of the columns of times.
    "compute_memory_ms",
    "comm_memory_ms",
    "compute_comm_ms",
    "memory",
    "active",
    "compute",
    "comm",
    "memory_ms",
    "idle_ms",
    "hidden_comm",
    "active_ms",
    // The proxy.
    "flush_us",
    "buffer_us",
    "steps_seen",
    "incomplete",
    "progress_us",
    "queue_us",
    // Accesses.
    "other_owner",
    "cachelines_per_warp",
    "sectors_per_warp",
    "lanes_per_warp",
    "estimated",
    "error",
    "from",
    "to",
    "sums_us",
    "sums_calls",
];

/// Leaves columns out, and cuts texts, until a row fits into `width` characters, with `between`
/// blanks between two columns: first pictures, then empty columns, then derived ones, then the last
/// ones. Returns the names of the columns that are left out, in this order.
pub(super) fn fit_columns(
    columns: &mut [FittedColumn],
    between: usize,
    width: usize,
) -> Vec<String> {
    let mut left_out = Vec::new();
    let mut most = MAX_TEXT_WIDTH;
    let is_too_wide =
        |columns: &[FittedColumn]| row_width(columns, between, MAX_TEXT_WIDTH) > width;
    let bars = |c: &FittedColumn| BAR_COLUMNS.contains(&c.name.as_str());
    leave_columns_out(columns, is_too_wide, &mut left_out, bars);
    let is_empty = |c: &FittedColumn| c.is_empty;
    leave_columns_out(columns, is_too_wide, &mut left_out, is_empty);
    while let Some(last) = columns.iter().rposition(|c| c.is_kept)
        && POSITION_COLUMNS.contains(&columns[last].name.as_str())
        && last > 0
        && is_too_wide(columns)
    {
        columns[last].is_kept = false;
        left_out.push(columns[last].name.clone());
    }
    for name in DERIVED_COLUMNS {
        let is_it = |c: &FittedColumn| c.name == name;
        leave_columns_out(columns, is_too_wide, &mut left_out, is_it);
    }
    // The rank in the job is what people look for.
    let named = |name: &str, columns: &[FittedColumn]| {
        let mut kept = (1..columns.len()).filter(|&at| columns[at].is_kept);
        kept.find(|&at| columns[at].name == name)
    };
    let global_rank = named("global_rank", columns).filter(|&at| !columns[at].is_empty);
    if global_rank.is_some() {
        let is_rank = |c: &FittedColumn| c.name == "rank";
        leave_columns_out(columns, is_too_wide, &mut left_out, is_rank);
    }
    if is_too_wide(columns) {
        most = MIN_TEXT_WIDTH;
    }
    let last = (1..columns.len()).rev();
    let last = last
        .filter(|at| Some(*at) != global_rank)
        .chain(global_rank);
    for at in Vec::from_iter(last) {
        if row_width(columns, between, most) > width && columns[at].is_kept {
            columns[at].is_kept = false;
            left_out.push(columns[at].name.clone());
        }
    }
    // The rest of the width goes to the cut columns, from the left.
    let mut free = width.saturating_sub(row_width(columns, between, most));
    for column in columns.iter_mut().filter(|column| column.is_kept) {
        let need = column.min_width(most);
        let more = free.min(column.width - need);
        free -= more;
        column.width = (need + more).min(width);
    }
    left_out
}

/// Leaves out columns that are `is_it`, from the right, while there is no room; never the first
/// column.
fn leave_columns_out(
    columns: &mut [FittedColumn],
    is_too_wide: impl Fn(&[FittedColumn]) -> bool,
    left_out: &mut Vec<String>,
    is_it: impl Fn(&FittedColumn) -> bool,
) {
    for at in (1..columns.len()).rev() {
        let column = &columns[at];
        if column.is_kept && is_it(column) && is_too_wide(columns) {
            columns[at].is_kept = false;
            left_out.push(columns[at].name.clone());
        }
    }
}

/// Counts the characters of a row.
fn row_width(columns: &[FittedColumn], between: usize, most: usize) -> usize {
    let kept = columns.iter().filter(|column| column.is_kept);
    let widths = kept.map(|column| column.min_width(most) + between);
    widths.sum::<usize>().saturating_sub(between)
}
