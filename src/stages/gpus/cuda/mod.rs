//! nccl-cuda: calls of CUDA's interfaces, from the logs of Alnair's interposer: how often each function was
//! called, how much it copied, when nothing was called, and whether the two logs agree.
//!
//! No rate of bytes is given: the host's time in a call is not the time of the copy.

mod cross_check;
mod table;

pub use cross_check::report_differences;
pub use table::{functions_grid, gaps_grid, rate_grid};

use crate::count::durations::CallDurations;
use crate::error::{Error, Result};
use crate::formats::Provides;
use crate::formats::cuda::{self, CudaCall, CudaInput, CudaSnapshot, MemcpyDirection};
use crate::formats::open::{self, InputOutcomes};
use crate::report::Report;
use crate::source::{self, InputName};
use std::collections::BTreeMap;

/// What is known of the calls of a function, of one direction.
#[derive(Debug, Clone, Default)]
pub(crate) struct CudaFunctionStats {
    pub(crate) calls: u64,
    /// The sum, and of how many calls it is known.
    pub(crate) bytes: u128,
    pub(crate) sized: u64,
    /// The host's time in them.
    pub(crate) times: CallDurations,
    /// Calls whose printed time cannot be one.
    pub(crate) untimed: u64,
}

/// A stretch without a call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CudaGap {
    pub(crate) ns: u64,
    /// Where it begins: ns since 1970.
    pub(crate) from_ns: u64,
    /// The functions before and after it.
    pub(crate) before: Box<[u8]>,
    pub(crate) after: Box<[u8]>,
}

/// What was called in a stretch of time.
#[derive(Debug, Clone, Default)]
pub(crate) struct CudaTimeSlice {
    pub(crate) calls: u64,
    pub(crate) bytes: u128,
    pub(crate) host_ns: u128,
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How long the stretches of [`rate_grid`] are, in ns.
    pub every_ns: u64,
    /// How many gaps are kept.
    pub gaps: usize,
}

/// All calls and sums.
#[derive(Debug, Default)]
pub struct CudaSummary {
    pub(crate) by: BTreeMap<(Box<[u8]>, Option<MemcpyDirection>), CudaFunctionStats>,
    pub(crate) sums: Vec<CudaSnapshot>,
    /// Snapshots that were caught between being emptied and being written.
    pub(crate) emptied: u64,
    /// The longest gaps, longest last.
    pub(crate) gaps: Vec<CudaGap>,
    pub(crate) slices: BTreeMap<u64, CudaTimeSlice>,
    /// The first call's start and the last call's end.
    pub(crate) span: Option<(u64, u64)>,
    /// Calls that begin before one of a line above them ended, and by how much at most: ns.
    pub(crate) earlier: u64,
    /// How many timelines.
    pub(crate) timelines: u64,
    last: Option<(u64, Box<[u8]>)>,
}

/// The most functions and stretches that are kept apart: flipped bytes must not fill the memory.
const MAX_KEPT_APART: usize = 1 << 16;

impl CudaSummary {
    fn add_call(&mut self, call: &CudaCall<'_>, options: Options) {
        let key = (call.name.into(), call.kind);
        if self.by.len() < MAX_KEPT_APART || self.by.contains_key(&key) {
            let stats = self.by.entry(key).or_default();
            stats.calls += 1;
            if let Some(bytes) = call.bytes {
                stats.bytes += u128::from(bytes);
                stats.sized += 1;
            }
            match call.dur_ns() {
                Some(ns) => stats.times.add_call(ns),
                None => stats.untimed += 1,
            }
        }
        let end = call.start_ns.saturating_add(call.dur_ns().unwrap_or(0));
        let (first, last) = self.span.get_or_insert((call.start_ns, end));
        (*first, *last) = ((*first).min(call.start_ns), (*last).max(end));
        self.add_gap(call, end, options);
        let slice = call.start_ns / options.every_ns.max(1);
        if self.slices.len() < MAX_KEPT_APART || self.slices.contains_key(&slice) {
            let slice = self.slices.entry(slice).or_default();
            slice.calls += 1;
            slice.bytes += u128::from(call.bytes.unwrap_or(0));
            slice.host_ns += u128::from(call.dur_ns().unwrap_or(0));
        }
    }

    /// Lines are in the order in which calls returned.
    fn add_gap(&mut self, call: &CudaCall<'_>, end: u64, options: Options) {
        let Some((until, before)) = &mut self.last else {
            self.last = Some((end, call.name.into()));
            return;
        };
        match call.start_ns.checked_sub(*until) {
            Some(0) => {}
            Some(ns)
                if self.gaps.len() < options.gaps
                    || self.gaps.first().is_some_and(|g| ns > g.ns) =>
            {
                let gap = CudaGap {
                    ns,
                    from_ns: *until,
                    before: before.clone(),
                    after: call.name.into(),
                };
                let at = self.gaps.partition_point(|known| *known < gap);
                self.gaps.insert(at, gap);
                if self.gaps.len() > options.gaps {
                    self.gaps.remove(0);
                }
            }
            Some(_) => {}
            // The printed time is rounded down to whole µs.
            None => self.earlier += u64::from(call.start_ns + 1000 < *until),
        }
        if end >= *until {
            *until = end;
            if **before != *call.name {
                *before = call.name.into();
            }
        }
    }
}

/// Reads all timelines and snapshots.
///
/// # Errors
/// No input could be read, or one is neither; damage under `--strict`.
pub fn read_cuda_logs(
    origins: &[InputName],
    source: source::Options,
    options: Options,
    strict: bool,
    report: &mut Report,
) -> Result<CudaSummary> {
    let mut found = CudaSummary::default();
    let mut outcome = InputOutcomes::new(origins);
    for origin in origins {
        let is_empty =
            |path: &std::path::Path| path.metadata().is_ok_and(|m| m.is_file() && m.len() == 0);
        if origin.path().is_some_and(is_empty) {
            found.emptied += 1;
            outcome.add_result(origin, Ok(()), report)?;
            continue;
        }
        let known = open::open_input::<()>(origin, source, Provides::CUDA);
        // In a folder there are other files too.
        if origin.is_listed() && matches!(known, Err(Error::Content(_))) {
            continue;
        }
        let read = known.and_then(|known| {
            let name = known.name();
            // Files are one after another: between them is no gap.
            found.last = None;
            let read = cuda::read_cuda(known.input(), &mut |call| found.add_call(call, options))?;
            let account = match read {
                CudaInput::Calls(account) => {
                    found.timelines += 1;
                    account
                }
                CudaInput::Sums(sums, account) => {
                    found.sums.push(sums);
                    account
                }
            };
            if strict {
                crate::log::first_damage_error(&name, &account)?;
            }
            report.report_input(&name, &account);
            Ok(())
        });
        outcome.add_result(origin, read, report)?;
    }
    outcome.finish(report)?;
    if found.timelines == 0 && found.sums.is_empty() && found.emptied == 0 {
        let none = "none of the files is a timeline.log or metrics.log of Alnair's interposer";
        return Err(Error::Content(none.to_owned()));
    }
    Ok(found)
}
