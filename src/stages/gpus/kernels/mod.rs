//! nccl-kernels: which kernels the GPUs ran, and for how long, as `nsys stats` sums them up.

mod sums;
mod table;

pub use table::{grid, nsys};

use crate::error::{Error, Result};
use crate::formats::Tells;
use crate::formats::door::{self, Known, Outcome};
use crate::formats::gpu::{Activity, Kind, Visit};
use crate::formats::stats::{self, Kernel};
use crate::log;
use crate::report::Report;
use crate::source::{self, Origin};
use rustc_hash::FxHashMap;
use sums::Times;

/// What tells rows apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// NCCL's kernels by operation, not by name.
    Op,
    /// The kernel's grid and block.
    Grid,
    /// The GPU.
    Device,
}

impl By {
    /// All, by name.
    pub const ALL: [(By, &str); 3] = [(By::Op, "op"), (By::Grid, "grid"), (By::Device, "device")];
}

/// Which rows.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What tells rows apart beside the name.
    pub by: Vec<By>,
}

impl Options {
    fn has(&self, by: By) -> bool {
        self.by.contains(&by)
    }
}

/// A grid or a block.
type Size = [u32; 3];

/// What kernels of a row have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
struct Key {
    /// The kernel's name, by number.
    name: usize,
    /// Where a name was cut when it was printed: that row of that input.
    row: u64,
    device: Option<u32>,
    launched: Option<(Size, Size)>,
}

/// What the inputs have.
#[derive(Debug, Default)]
pub struct Found {
    names: Vec<Box<[u8]>>,
    numbers: FxHashMap<Box<[u8]>, usize>,
    rows: Vec<(Key, Times)>,
    places: FxHashMap<Key, usize>,
    by_grid: bool,
    by_device: bool,
    /// Names that were cut when they were printed.
    clipped: u64,
    notes: Vec<String>,
}

impl Found {
    fn name(&mut self, name: &[u8]) -> usize {
        if let Some(known) = self.numbers.get(name) {
            return *known;
        }
        let number = self.names.len();
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        number
    }

    fn times(&mut self, key: Key) -> Option<&mut Times> {
        let next = self.rows.len();
        let at = match self.places.get(&key) {
            Some(at) => *at,
            None => {
                self.places.insert(key.clone(), next);
                self.rows.push((key, Times::default()));
                next
            }
        };
        self.rows.get_mut(at).map(|(_, times)| times)
    }

    fn printed(&mut self, kernel: &Kernel) {
        let is_clipped = kernel.is_clipped();
        self.clipped += u64::from(is_clipped);
        let key = Key {
            name: self.name(&kernel.name),
            row: if is_clipped { self.clipped } else { 0 },
            device: None,
            launched: kernel.launched.filter(|_| self.by_grid),
        };
        if let Some(times) = self.times(key) {
            times.parts.push(kernel.summary);
        }
    }
}

impl Visit for Found {
    fn activity(&mut self, activity: &Activity<'_>) -> Result<()> {
        let ns = activity.end_ns.abs_diff(activity.start_ns);
        if activity.kind == Kind::Kernel {
            let key = Key {
                name: self.name(activity.name),
                row: 0,
                device: Some(activity.device).filter(|_| self.by_device),
                launched: activity.launched.filter(|_| self.by_grid),
            };
            if let Some(times) = self.times(key) {
                times.each.push(ns);
            }
        }
        Ok(())
    }

    fn is_of_kernels(&self) -> bool {
        true
    }

    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }
}

/// How inputs are read.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// How bytes come in.
    pub source: source::Options,
    /// Stop at the first damage.
    pub strict: bool,
}

/// Reads the kernels of all inputs.
///
/// # Errors
/// No input could be read, or one has no kernels; damage under `--strict`.
pub fn read(
    origins: &[Origin],
    reading: Reading,
    options: &Options,
    report: &mut Report,
) -> Result<Found> {
    let mut found = Found {
        by_grid: options.has(By::Grid),
        by_device: options.has(By::Device),
        ..Found::default()
    };
    let mut outcome = Outcome::of(origins);
    for origin in origins {
        let known = door::open::<()>(origin, reading.source, Tells::NOTHING);
        let read =
            known.and_then(|known| one(&known, origin, reading, options, &mut found, report));
        outcome.add(origin, read, report)?;
    }
    outcome.end(report)?;
    if found.clipped > 0 && origins.len() > 1 {
        report.note(
            "nsys cut long names when it printed them: kernels whose names are cut are not added up \
             over inputs (nsys stats --format csv prints whole names)",
        );
    }
    Ok(found)
}

/// Reads the kernels of an input.
fn one(
    known: &Known,
    origin: &Origin,
    reading: Reading,
    options: &Options,
    found: &mut Found,
    report: &mut Report,
) -> Result<()> {
    let name = known.name();
    let account = if known.tells(Tells::GPU) {
        let account = known.gpu(found)?;
        for text in found.notes.drain(..) {
            report.note(&format!("{name}: {text}"));
        }
        account
    } else if known.is_stats() || known.is_log() && !origin.is_listed() {
        // What nsys prints at the end of a job is in its log.
        let read = stats::read(known.input(), options.has(By::Grid))?;
        read.kernels.iter().for_each(|kernel| found.printed(kernel));
        if read.account.lines == 0 {
            return Err(Error::Content(format!("{name} is empty")));
        }
        if read.kernels.is_empty() {
            return Err(none(known, origin));
        }
        read.account
    } else {
        return Err(none(known, origin));
    };
    if reading.strict {
        log::first_damage(&name, &account)?;
    }
    report.input(&name, &account);
    Ok(())
}

/// The error of an input without kernels.
fn none(known: &Known, origin: &Origin) -> Error {
    let (name, what) = (known.name(), known.what());
    match origin.is_listed() {
        true => Error::Unread { name, what },
        false => Error::Content(format!(
            "{name} is {what}: it has no times of kernels; an Nsight Systems export, a trace of \
             torch.profiler and what nsys stats prints have them"
        )),
    }
}
