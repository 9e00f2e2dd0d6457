//! nccl-overlap: times in which GPUs compute, communicate and move memory, their overlap, and communication
//! that nothing hides.
//!
//! Times are unions of intervals by device, exact in ns. A device is a GPU as one process of one input sees
//! it.

mod all_devices;
pub mod comm;
mod device;
mod gather;
pub mod intervals;
mod table;

pub use device::OverlapSums;
pub use table::build_grid;

use super::limits::MAX_RANGE_NAMES;
use crate::error::{Error, Result};
use crate::formats::Provides;
use crate::formats::open::{self, InputOutcomes};
use crate::report::Report;
use crate::source::{self, InputName};
use all_devices::AllDevices;
use comm::CommKernels;
use device::OverlapDevice;
use gather::OverlapGatherer;

/// The time that shares are parts of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ShareWindow {
    /// From the first activity of the device to its last.
    #[default]
    Gpu,
    /// The recorder's session.
    Session,
    /// The steps (`ProfilerStep#N`), without the time between them.
    Step,
    /// The ranges of this name.
    Range(Vec<u8>),
}

impl ShareWindow {
    /// Parses an argument.
    pub fn parse(text: &str) -> ShareWindow {
        match text {
            "gpu" => ShareWindow::Gpu,
            "session" => ShareWindow::Session,
            "step" => ShareWindow::Step,
            name => ShareWindow::Range(name.as_bytes().to_vec()),
        }
    }
}

/// Columns that separate rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverlapGrouping {
    /// Steps.
    Step,
    /// Names of ranges.
    Range,
}

/// Options of the table.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The window.
    pub window: ShareWindow,
    /// Rows for each step or range, which then is the window.
    pub by: Option<OverlapGrouping>,
    /// All devices as one, as in the founding script: shares of the session.
    pub merge: bool,
    /// Names of kernels that communicate, as a pattern; default [`comm::KNOWN_COMM_KERNELS`].
    pub comm: Option<String>,
}

/// Label of a window.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum RangeLabel {
    /// All ranges of the window.
    Whole,
    Step(u64),
    Name(Box<[u8]>),
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverlapRow {
    pub(crate) label: RangeLabel,
    pub(crate) host: Box<[u8]>,
    pub(crate) rank: Option<u32>,
    pub(crate) pid: Option<u64>,
    /// `None` for all devices.
    pub(crate) device: Option<u32>,
    /// The basis of the window.
    pub(crate) basis: &'static str,
    /// Its times.
    pub sums: OverlapSums,
}

/// Reads the timelines of all inputs: a row for each device, and one for all of them.
///
/// # Errors
/// No input could be read, or one has no timeline; damage under `--strict`.
pub fn read_overlap(
    origins: &[InputName],
    source: source::Options,
    options: &Options,
    strict: bool,
    report: &mut Report,
) -> Result<Vec<OverlapRow>> {
    // The founding script searches kernels' names for this.
    let script = options.merge.then_some("(?i)nccl");
    let mut comm = CommKernels::new(options.comm.as_deref().or(script))?;
    let (mut rows, mut merged) = (Vec::new(), AllDevices::default());
    let mut outcome = InputOutcomes::new(origins);
    for origin in origins {
        let known = open::open_input::<()>(origin, source, Provides::GPU);
        // A folder may have logs too.
        if origin.is_listed() && matches!(known, Err(Error::Content(_))) {
            continue;
        }
        let read = known.and_then(|known| {
            let mut gather = OverlapGatherer::new(options, &mut comm);
            let account = known.read_gpu_timeline(&mut gather)?;
            let name = known.name();
            if strict {
                crate::log::first_damage_error(&name, &account)?;
            }
            report.report_input(&name, &account);
            for note in &gather.notes {
                report.note_of_input(&name, note);
            }
            if gather.devices.values().any(|device| !device.graphs.is_empty()) {
                report.warn(&format!(
                    "{name}: CUDA graphs are recorded as a whole: they count as activity{}, and not as \
                     computation or communication; nsys profile --cuda-graph-trace=node records their \
                     kernels",
                    match options.merge {
                        true => " (analyze_nsys_finegrained.py leaves them out)",
                        false => "",
                    }
                ));
            }
            if gather.left_out > 0 {
                report.warn(&format!(
                    "{name}: {} ranges are left out: there are more than {MAX_RANGE_NAMES} names",
                    gather.left_out
                ));
            }
            if options.merge {
                return merged.add_input(&mut gather, &name);
            }
            gather.devices.values_mut().for_each(OverlapDevice::finish);
            let found = gather.build_rows(&name)?;
            if found.is_empty() && !gather.devices.is_empty() {
                report.warn(&format!("{name}: there is no such range"));
            }
            rows.extend(found);
            Ok(())
        });
        outcome.add_result(origin, read, report)?;
    }
    outcome.finish(report)?;
    if report.count_inputs() == 0 {
        let none = "none of the files is a record of what GPUs did";
        return Err(Error::Content(none.to_owned()));
    }
    report.note(&comm.describe_comm());
    Ok(match options.merge {
        true => vec![merged.into_row()],
        false => with_totals(rows),
    })
}

/// Sorts the rows by label, and adds a row of all devices after each label with several.
fn with_totals(mut rows: Vec<OverlapRow>) -> Vec<OverlapRow> {
    rows.sort_by(|a, b| a.label.cmp(&b.label));
    let mut all = Vec::with_capacity(rows.len() * 2);
    for group in rows.chunk_by(|a, b| a.label == b.label) {
        all.extend_from_slice(group);
        if let [first, _, ..] = group {
            let mut sums = OverlapSums::default();
            group.iter().for_each(|row| sums.add_sums(&row.sums));
            let is_one = group.iter().all(|row| row.basis == first.basis);
            all.push(OverlapRow {
                label: first.label.clone(),
                host: Box::default(),
                rank: None,
                pid: None,
                device: None,
                basis: if is_one { first.basis } else { "" },
                sums,
            });
        }
    }
    all
}

#[cfg(test)]
mod tests;
