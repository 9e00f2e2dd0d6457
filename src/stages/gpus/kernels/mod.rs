//! nccl-kernels: kernels of the GPUs and their times, summed up as `nsys stats` does.

mod sums;
mod table;

pub use table::{build_grid, render_nsys_csv};

use crate::error::{Error, Result};
use crate::formats::Provides;
use crate::formats::gpu::{ActivityKind, GpuActivity, GpuVisitor};
use crate::formats::open::{self, InputOutcomes, OpenInput};
use crate::formats::stats::{self, StatsKernel};
use crate::log;
use crate::report::Report;
use crate::source::{self, InputName};
use rustc_hash::FxHashMap;
use sums::KernelTimes;

/// Columns that separate rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelGrouping {
    /// NCCL's kernels by operation, not by name.
    Op,
    /// The kernel's grid and block.
    Grid,
    /// The GPU.
    Device,
}

impl KernelGrouping {
    /// All, with their names.
    pub const ALL: [(KernelGrouping, &str); 3] = [
        (KernelGrouping::Op, "op"),
        (KernelGrouping::Grid, "grid"),
        (KernelGrouping::Device, "device"),
    ];
}

/// Options of the table.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Columns that separate rows besides the name.
    pub by: Vec<KernelGrouping>,
}

impl Options {
    fn groups_by(&self, by: KernelGrouping) -> bool {
        self.by.contains(&by)
    }
}

/// A grid or a block.
type LaunchSize = [u32; 3];

/// Key of a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
struct KernelKey {
    /// The kernel's name, by number.
    name: usize,
    /// Number of the input's row if the printed name was cut.
    row: u64,
    device: Option<u32>,
    launched: Option<(LaunchSize, LaunchSize)>,
}

/// Kernels of all inputs.
#[derive(Debug, Default)]
pub struct KernelInventory {
    names: Vec<Box<[u8]>>,
    numbers: FxHashMap<Box<[u8]>, usize>,
    rows: Vec<(KernelKey, KernelTimes)>,
    places: FxHashMap<KernelKey, usize>,
    by_grid: bool,
    by_device: bool,
    /// Names that were cut when printed.
    clipped: u64,
    notes: Vec<String>,
}

impl KernelInventory {
    fn intern_name(&mut self, name: &[u8]) -> usize {
        if let Some(known) = self.numbers.get(name) {
            return *known;
        }
        let number = self.names.len();
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        number
    }

    fn times_of_key(&mut self, key: KernelKey) -> Option<&mut KernelTimes> {
        let next = self.rows.len();
        let at = match self.places.get(&key) {
            Some(at) => *at,
            None => {
                self.places.insert(key.clone(), next);
                self.rows.push((key, KernelTimes::default()));
                next
            }
        };
        self.rows.get_mut(at).map(|(_, times)| times)
    }

    fn add_printed(&mut self, kernel: &StatsKernel) {
        let is_clipped = kernel.is_clipped();
        self.clipped += u64::from(is_clipped);
        let key = KernelKey {
            name: self.intern_name(&kernel.name),
            row: if is_clipped { self.clipped } else { 0 },
            device: None,
            launched: kernel.launched.filter(|_| self.by_grid),
        };
        if let Some(times) = self.times_of_key(key) {
            times.parts.push(kernel.summary);
        }
    }
}

impl GpuVisitor for KernelInventory {
    fn visit_activity(&mut self, activity: &GpuActivity<'_>) -> Result<()> {
        let ns = activity.end_ns.abs_diff(activity.start_ns);
        if activity.kind == ActivityKind::Kernel {
            let key = KernelKey {
                name: self.intern_name(activity.name),
                row: 0,
                device: Some(activity.device).filter(|_| self.by_device),
                launched: activity.launched.filter(|_| self.by_grid),
            };
            if let Some(times) = self.times_of_key(key) {
                times.each.push(ns);
            }
        }
        Ok(())
    }

    fn wants_only_kernels(&self) -> bool {
        true
    }

    fn add_note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }
}

/// Options of reading.
#[derive(Debug, Clone, Copy)]
pub struct KernelReadOptions {
    /// How bytes come in.
    pub source: source::Options,
    /// Stops at the first damage.
    pub strict: bool,
}

/// Reads the kernels of all inputs.
///
/// # Errors
/// No input could be read, or one has no kernels; damage under `--strict`.
pub fn read_kernels(
    origins: &[InputName],
    reading: KernelReadOptions,
    options: &Options,
    report: &mut Report,
) -> Result<KernelInventory> {
    let mut found = KernelInventory {
        by_grid: options.groups_by(KernelGrouping::Grid),
        by_device: options.groups_by(KernelGrouping::Device),
        ..KernelInventory::default()
    };
    let mut outcome = InputOutcomes::new(origins);
    for origin in origins {
        let known = open::open_input::<()>(origin, reading.source, Provides::NOTHING);
        let read = known
            .and_then(|known| read_input(&known, origin, reading, options, &mut found, report));
        outcome.add_result(origin, read, report)?;
    }
    outcome.finish(report)?;
    if found.clipped > 0 && origins.len() > 1 {
        report.note(
            "nsys cut long names when it printed them: kernels whose names are cut are not added up \
             over inputs (nsys stats --format csv prints whole names)",
        );
    }
    Ok(found)
}

/// Reads the kernels of an input.
fn read_input(
    known: &OpenInput,
    origin: &InputName,
    reading: KernelReadOptions,
    options: &Options,
    found: &mut KernelInventory,
    report: &mut Report,
) -> Result<()> {
    let name = known.name();
    let account = if known.provides(Provides::GPU) {
        let account = known.read_gpu_timeline(found)?;
        for text in found.notes.drain(..) {
            report.note_of_input(&name, &text);
        }
        account
    } else if known.is_stats() || known.is_log() && !origin.is_listed() {
        // A log has what nsys prints at the end of a job.
        let read = stats::read_stats(known.input(), options.groups_by(KernelGrouping::Grid))?;
        read.kernels
            .iter()
            .for_each(|kernel| found.add_printed(kernel));
        if read.account.lines == 0 {
            return Err(Error::Content(format!("{name} is empty")));
        }
        if read.kernels.is_empty() {
            return Err(no_kernels_error(known, origin));
        }
        if let Some(percent) = read.printed_percent() {
            let text = format!(
                "the printed rows are {percent:.1} % of the time of all kernels: shares are of these rows"
            );
            report.note_of_input(&name, &text);
        }
        read.account
    } else {
        return Err(no_kernels_error(known, origin));
    };
    if reading.strict {
        log::first_damage_error(&name, &account)?;
    }
    report.report_input(&name, &account);
    Ok(())
}

/// Makes the error of an input without kernels.
fn no_kernels_error(known: &OpenInput, origin: &InputName) -> Error {
    let (name, what) = (known.name(), known.describe_format());
    match origin.is_listed() {
        true => Error::Unread { name, what },
        false => Error::Content(format!(
            "{name} is {what}: it has no times of kernels; an Nsight Systems export, a trace of \
             torch.profiler and what nsys stats prints have them"
        )),
    }
}
