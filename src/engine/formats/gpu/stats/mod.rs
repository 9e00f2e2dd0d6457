//! The kernel reports of `nsys stats`: gpukernsum, cuda_gpu_kern_sum and cuda_gpu_kern_gb_sum, as csv,
//! tsv, table, column or json, of any version. Other reports and nsys's progress are in the same stream
//! and are skipped.
//!
//! A report is known by its columns: `Total Time`, `Instances` and `Name`. cuda_gpu_sum (gpusum), which has copies too, is
//! read where its kernels have no report of their own: it has a `Category`, and the name is the `Operation`.
//! cuda_gpu_trace (gputrace) has a row for each kernel; they are added up where no report has sums.

mod columns;
mod json_objects;
mod limits;
mod number;
mod traced;
mod wrapped;

use crate::error::Result;
use crate::formats::{InputFormat, ProbeAnswer, Provides, ordered};
use crate::report::account::{Account, LineClass};
use crate::source::Input;
use columns::StatsLayout;
use limits::MAX_STATS_BYTES;
use memchr::memmem;
use wrapped::{UnwrappedLine, UnwrappedLines};

/// The format.
pub(in crate::formats) const FORMAT: InputFormat = InputFormat {
    name: "stats",
    what: "what nsys stats prints",
    tells: Provides::NOTHING,
    probe: |head| {
        let has = |key: &[u8]| memmem::find(head.bytes, key).is_some();
        let has_times = has(b"Time (%)") || has(b"Time(%)");
        let is_summary = has_times && has(b"Total Time (");
        match is_summary || has(b"Duration (") && has(b"CorrId") && has(b"GrdX") {
            true => head.probe_recorder(true),
            false => ProbeAnswer::No,
        }
    },
};

/// The printed times of equal kernels, in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StatsSummary {
    /// All.
    pub total: u64,
    /// How many kernels.
    pub instances: u64,
    /// The mean, rounded to a tenth.
    pub average: f64,
    /// The median (since 2022).
    pub median: Option<f64>,
    /// The shortest.
    pub min: u64,
    /// The longest.
    pub max: u64,
    /// The deviation of the sample.
    pub deviation: Option<f64>,
}

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub struct StatsKernel {
    /// The name; cut if it ends in `…`.
    pub name: Vec<u8>,
    /// Grid and block, if the report has them.
    pub launched: Option<([u32; 3], [u32; 3])>,
    /// The times.
    pub summary: StatsSummary,
    /// The printed percentage of the time of all kernels.
    pub percent: Option<f64>,
    /// The report has copies too.
    has_copies: bool,
    /// It is one launch of a trace.
    is_launch: bool,
}

impl StatsKernel {
    /// Returns true if nsys cut the name when it printed it.
    pub fn is_clipped(&self) -> bool {
        self.name.ends_with("…".as_bytes())
    }
}

/// The rows and the account of an output.
#[derive(Debug, Default)]
pub struct StatsOutput {
    /// The rows, in their order.
    pub kernels: Vec<StatsKernel>,
    /// The account of the lines.
    pub account: Account,
}

impl StatsOutput {
    /// Returns the percentage of the time of all kernels that the rows have, if nsys stats printed only some.
    pub fn printed_percent(&self) -> Option<f64> {
        let all = self.kernels.iter().map(|kernel| kernel.percent);
        let all = all.collect::<Option<Vec<f64>>>()?;
        // Each is rounded to a tenth.
        let rounded_off = (0.05 * all.len() as f64).max(0.5);
        let sum: f64 = all.iter().sum();
        (!all.is_empty() && sum + rounded_off < 100.0).then_some(sum)
    }
}

/// Reads the output of an input. If it has a report of kernels by grid and one by name alone, reads only
/// the one by grid with `by_grid`, else only the other.
///
/// # Errors
/// It cannot be read, or is far too long.
pub fn read_stats(input: &Input, by_grid: bool) -> Result<StatsOutput> {
    let text = ordered::read_whole(input, MAX_STATS_BYTES)?;
    let mut read = parse_stats(&text, by_grid);
    read.account.broken = crate::log::check_unpacked(input, false)?;
    Ok(read)
}

/// Reads the text of an output, as [`read_stats`] does.
pub fn parse_stats(text: &[u8], by_grid: bool) -> StatsOutput {
    let (mut account, mut kernels) = (Account::default(), Vec::new());
    let mut launches = traced::TracedKernels::new(by_grid);
    let mut layout = None;
    let mut objects = json_objects::StatsObjects::default();
    for UnwrappedLine { line, pieces } in UnwrappedLines::new(text) {
        (1..pieces).for_each(|_| account.count_line(LineClass::Other));
        let Some(line) = line else {
            account.count_line(LineClass::Foreign);
            continue;
        };
        if let Some(begun) = StatsLayout::from_header(&line) {
            layout = Some(begun);
            account.count_line(LineClass::Other);
            continue;
        }
        let row = match &mut layout {
            Some(of) => of.read_line(&line),
            None => objects.read_line(&line),
        };
        match row {
            StatsLine::Kernel(kernel) => {
                match kernel.is_launch {
                    true => launches.add_launch(*kernel),
                    false => kernels.push(*kernel),
                }
                account.count_line(LineClass::Call);
            }
            StatsLine::Damaged => {
                account.count_damaged_line("a row of the kernel summary", &line);
            }
            StatsLine::Other => account.count_line(LineClass::Other),
            StatsLine::End => {
                layout = None;
                account.count_line(LineClass::Foreign);
            }
        }
    }
    // Each report has all kernels.
    if kernels.iter().any(|kernel| !kernel.has_copies) {
        kernels.retain(|kernel| !kernel.has_copies);
    }
    let is_by_grid = |kernel: &StatsKernel| kernel.launched.is_some();
    if kernels.is_empty() || by_grid && !kernels.iter().any(is_by_grid) {
        kernels.extend(launches.into_kernels());
    }
    if kernels.iter().any(is_by_grid) && !kernels.iter().all(is_by_grid) {
        kernels.retain(|kernel| is_by_grid(kernel) == by_grid);
    }
    StatsOutput { kernels, account }
}

/// The kind of a line after a header.
#[derive(Debug, Clone, PartialEq)]
enum StatsLine {
    /// A row of the report.
    Kernel(Box<StatsKernel>),
    /// One that cannot be read.
    Damaged,
    /// A rule under the header, or a row's part.
    Other,
    /// The report is over.
    End,
}

/// The content of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StatsField {
    Percent,
    Total,
    Instances,
    Average,
    Median,
    Min,
    Max,
    Deviation,
    Grid,
    Block,
    Name,
    /// `CUDA_KERNEL`, or a kind of copy.
    Category,
    /// Of a launch.
    Start,
    Duration,
    /// A direction of the grid or of the block, from 0.
    GridSide(usize),
    BlockSide(usize),
    /// Anything else.
    Other,
}

impl StatsField {
    /// What the column of that name holds, and how many ns its unit is.
    fn from_name(name: &[u8]) -> (StatsField, u64) {
        let name = name.trim_ascii();
        let (word, unit) = match name.iter().position(|&b| b == b'(') {
            Some(at) => name.split_at(at),
            None => (name, &b""[..]),
        };
        let field = match word.trim_ascii() {
            b"Time" => StatsField::Percent,
            b"Total Time" => StatsField::Total,
            b"Instances" => StatsField::Instances,
            b"Avg" | b"Average" => StatsField::Average,
            b"Med" | b"Median" => StatsField::Median,
            b"Min" | b"Minimum" => StatsField::Min,
            b"Max" | b"Maximum" => StatsField::Max,
            b"StdDev" => StatsField::Deviation,
            b"GridXYZ" => StatsField::Grid,
            b"BlockXYZ" => StatsField::Block,
            b"Name" | b"Operation" => StatsField::Name,
            b"Category" => StatsField::Category,
            b"Start" => StatsField::Start,
            b"Duration" => StatsField::Duration,
            b"GrdX" => StatsField::GridSide(0),
            b"GrdY" => StatsField::GridSide(1),
            b"GrdZ" => StatsField::GridSide(2),
            b"BlkX" => StatsField::BlockSide(0),
            b"BlkY" => StatsField::BlockSide(1),
            b"BlkZ" => StatsField::BlockSide(2),
            _ => StatsField::Other,
        };
        let ns = match unit {
            b"(us)" | b"(usec)" => 1_000,
            b"(ms)" | b"(msec)" => 1_000_000,
            b"(s)" | b"(sec)" | b"(seconds)" => 1_000_000_000,
            _ => 1,
        };
        (field, ns)
    }
}

/// Finds the field and the unit of each column; `None` if the report is not one of kernels.
fn find_columns<'n>(names: impl Iterator<Item = &'n [u8]>) -> Option<Vec<(StatsField, u64)>> {
    let mut columns: Vec<(StatsField, u64)> = names.map(StatsField::from_name).collect();
    if traced::are_columns_of_trace(&columns) {
        return Some(columns);
    }
    // Of old headers only the total names its unit.
    let total = columns
        .iter()
        .find(|(field, _)| *field == StatsField::Total)?
        .1;
    if columns.iter().all(|(_, ns)| *ns == 1 || *ns == total) {
        columns.iter_mut().for_each(|(_, ns)| *ns = total);
    }
    let has = |field| columns.iter().any(|(known, _)| *known == field);
    let needed = [
        StatsField::Instances,
        StatsField::Min,
        StatsField::Max,
        StatsField::Name,
    ];
    needed.into_iter().all(has).then_some(columns)
}

/// Reads the fields of a row.
fn parse_row<'f>(fields: impl Iterator<Item = ((StatsField, u64), &'f [u8])>) -> StatsLine {
    let mut category = None;
    let fields = fields.inspect(|((field, _), text)| {
        if *field == StatsField::Category {
            category = Some(*text);
        }
    });
    let fields: Vec<_> = fields.collect();
    if fields
        .iter()
        .any(|((field, _), _)| *field == StatsField::Duration)
    {
        return traced::parse_launch(&fields);
    }
    let kernel = parse_kernel(fields.into_iter());
    let category = category.map(<[u8]>::trim_ascii);
    match (kernel, category) {
        (_, Some(category)) if category != b"CUDA_KERNEL" => StatsLine::Other,
        (None, _) => StatsLine::Damaged,
        (Some(kernel), None) => StatsLine::Kernel(Box::new(kernel)),
        (Some(kernel), Some(_)) => StatsLine::Kernel(Box::new(StatsKernel {
            // It is of the time of copies too.
            percent: None,
            has_copies: true,
            ..kernel
        })),
    }
}

/// A row of these fields.
fn parse_kernel<'f>(
    fields: impl Iterator<Item = ((StatsField, u64), &'f [u8])>,
) -> Option<StatsKernel> {
    let (mut total, mut instances, mut min, mut max) = (None, None, None, None);
    let (mut average, mut median, mut deviation) = (None, None, None);
    let (mut grid, mut block, mut name, mut percent) = (None, None, None, None);
    for ((field, ns), text) in fields {
        let whole = || number::parse_whole_ns(text, ns);
        match field {
            StatsField::Percent => percent = number::parse_fraction_ns(text, 1),
            StatsField::Total => total = Some(whole()?),
            StatsField::Instances => instances = Some(number::parse_whole_ns(text, 1)?),
            StatsField::Min => min = Some(whole()?),
            StatsField::Max => max = Some(whole()?),
            StatsField::Average => average = number::parse_fraction_ns(text, ns),
            StatsField::Median => median = number::parse_fraction_ns(text, ns),
            StatsField::Deviation => deviation = number::parse_fraction_ns(text, ns),
            StatsField::Grid => grid = number::parse_three(text),
            StatsField::Block => block = number::parse_three(text),
            StatsField::Name => name = Some(text.trim_ascii()),
            _ => {}
        }
    }
    let (total, instances) = (total?, instances.filter(|&n| n > 0)?);
    Some(StatsKernel {
        name: name.filter(|name| !name.is_empty())?.to_vec(),
        launched: grid.zip(block),
        summary: StatsSummary {
            total,
            instances,
            average: average.unwrap_or(total as f64 / instances as f64),
            median,
            min: min?,
            max: max?,
            deviation,
        },
        percent,
        has_copies: false,
        is_launch: false,
    })
}

#[cfg(test)]
mod tests;
