//! What `nsys stats` prints of kernels: the reports gpukernsum, cuda_gpu_kern_sum and
//! cuda_gpu_kern_gb_sum, as csv, tsv, table, column or json, of any version. Other reports, and what nsys
//! says of its work, stand in the same stream and are passed over.
//!
//! A report is known by its columns: `Total Time`, `Instances` and `Name`, and no `Category`.

mod columns;
mod number;
mod objects;

use crate::error::Result;
use crate::formats::{Format, Is, Tells, ordered};
use crate::report::account::{Account, Class};
use crate::source::Input;
use columns::Layout;
use memchr::memmem;

/// The format.
pub(in crate::formats) const FORMAT: Format = Format {
    name: "stats",
    what: "what nsys stats prints",
    tells: Tells::NOTHING,
    probe: |head| {
        let has = |key: &[u8]| memmem::find(head.bytes, key).is_some();
        let has_times = has(b"Time (%)") || has(b"Time(%)");
        match has_times && has(b"Total Time (") {
            true => head.other(true),
            false => Is::No,
        }
    },
};

/// The times of equal kernels, as they are printed. Times are ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// All.
    pub total: u64,
    /// How many kernels.
    pub instances: u64,
    /// The mean, rounded to a tenth.
    pub average: f64,
    /// The value in the middle (since 2022).
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
pub struct Kernel {
    /// The name; cut where it ends in `…`.
    pub name: Vec<u8>,
    /// Grid and block, where the report has them.
    pub launched: Option<([u32; 3], [u32; 3])>,
    /// The times.
    pub summary: Summary,
}

impl Kernel {
    /// True where nsys cut the name when it printed it.
    pub fn is_clipped(&self) -> bool {
        self.name.ends_with("…".as_bytes())
    }
}

/// What was read.
#[derive(Debug, Default)]
pub struct Read {
    /// The rows, in their order.
    pub kernels: Vec<Kernel>,
    /// What became of the lines.
    pub account: Account,
}

/// The longest output that is read: a row has a few hundred bytes.
const LONGEST: usize = 256 << 20;

/// Reads the output of an input. Where it has a report of kernels by grid and one by name alone, that by
/// grid is read only if it is wanted.
///
/// # Errors
/// It cannot be read, or is far too long.
pub fn read(input: &Input, by_grid: bool) -> Result<Read> {
    let text = ordered::whole(input, LONGEST)?;
    let mut read = parse(&text, by_grid);
    read.account.broken = crate::log::unbroken(input, false)?;
    Ok(read)
}

/// The same of its text.
pub fn parse(text: &[u8], by_grid: bool) -> Read {
    let (mut account, mut kernels) = (Account::default(), Vec::new());
    let mut layout = None;
    let mut objects = objects::Objects::default();
    for line in text.split_inclusive(|&b| b == b'\n') {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(begun) = Layout::of(line) {
            layout = Some(begun);
            account.line(Class::Other);
            continue;
        }
        let row = match &mut layout {
            Some(of) => of.row(line),
            None => objects.line(line),
        };
        match row {
            Row::Kernel(kernel) => {
                kernels.push(*kernel);
                account.line(Class::Call);
            }
            Row::Damaged => {
                account.damage("a row of the kernel summary", line);
            }
            Row::Other => account.line(Class::Other),
            Row::End => {
                layout = None;
                account.line(Class::Foreign);
            }
        }
    }
    // Both reports have all kernels.
    let is_by_grid = |kernel: &Kernel| kernel.launched.is_some();
    if kernels.iter().any(is_by_grid) && !kernels.iter().all(is_by_grid) {
        kernels.retain(|kernel| is_by_grid(kernel) == by_grid);
    }
    Read { kernels, account }
}

/// What a line is, after a header.
#[derive(Debug, Clone, PartialEq)]
enum Row {
    /// A row of the report.
    Kernel(Box<Kernel>),
    /// One that cannot be read.
    Damaged,
    /// A rule under the header, or a row's part.
    Other,
    /// The report is over.
    End,
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
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
    /// Anything else.
    Other,
}

impl Field {
    /// What the column of that name holds, and how many ns its unit is.
    fn of(name: &[u8]) -> (Field, u64) {
        let name = name.trim_ascii();
        let (word, unit) = match name.iter().position(|&b| b == b'(') {
            Some(at) => name.split_at(at),
            None => (name, &b""[..]),
        };
        let field = match word.trim_ascii() {
            b"Total Time" => Field::Total,
            b"Instances" => Field::Instances,
            b"Avg" | b"Average" => Field::Average,
            b"Med" | b"Median" => Field::Median,
            b"Min" | b"Minimum" => Field::Min,
            b"Max" | b"Maximum" => Field::Max,
            b"StdDev" => Field::Deviation,
            b"GridXYZ" => Field::Grid,
            b"BlockXYZ" => Field::Block,
            b"Name" => Field::Name,
            _ => Field::Other,
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

/// The columns of a report: what each holds, and its unit. `None` where they are not those of a report of
/// kernels.
fn columns<'n>(names: impl Iterator<Item = &'n [u8]>) -> Option<Vec<(Field, u64)>> {
    let mut is_other = false;
    let mut columns: Vec<(Field, u64)> = Vec::new();
    for name in names {
        is_other |= name.trim_ascii() == b"Category";
        columns.push(Field::of(name));
    }
    // Of old headers only the total names its unit.
    let total = columns.iter().find(|(field, _)| *field == Field::Total)?.1;
    if columns.iter().all(|(_, ns)| *ns == 1 || *ns == total) {
        columns.iter_mut().for_each(|(_, ns)| *ns = total);
    }
    let has = |field| columns.iter().any(|(known, _)| *known == field);
    let needed = [Field::Instances, Field::Min, Field::Max, Field::Name];
    (!is_other && needed.into_iter().all(has)).then_some(columns)
}

/// A row of these fields.
fn kernel<'f>(fields: impl Iterator<Item = ((Field, u64), &'f [u8])>) -> Option<Kernel> {
    let (mut total, mut instances, mut min, mut max) = (None, None, None, None);
    let (mut average, mut median, mut deviation) = (None, None, None);
    let (mut grid, mut block, mut name) = (None, None, None);
    for ((field, ns), text) in fields {
        let whole = || number::whole(text, ns);
        match field {
            Field::Total => total = Some(whole()?),
            Field::Instances => instances = Some(number::whole(text, 1)?),
            Field::Min => min = Some(whole()?),
            Field::Max => max = Some(whole()?),
            Field::Average => average = number::fraction(text, ns),
            Field::Median => median = number::fraction(text, ns),
            Field::Deviation => deviation = number::fraction(text, ns),
            Field::Grid => grid = number::three(text),
            Field::Block => block = number::three(text),
            Field::Name => name = Some(text.trim_ascii()),
            Field::Other => {}
        }
    }
    let (total, instances) = (total?, instances.filter(|&n| n > 0)?);
    Some(Kernel {
        name: name.filter(|name| !name.is_empty())?.to_vec(),
        launched: grid.zip(block),
        summary: Summary {
            total,
            instances,
            average: average.unwrap_or(total as f64 / instances as f64),
            median,
            min: min?,
            max: max?,
            deviation,
        },
    })
}

#[cfg(test)]
mod tests;
