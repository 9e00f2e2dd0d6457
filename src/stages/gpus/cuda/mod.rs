//! nccl-cuda: calls of CUDA's interfaces, from the logs of Alnair's interposer: calls and copied bytes of
//! each function, gaps without calls, and whether the two logs agree.
//!
//! There is no rate of bytes: the host's time in a call is not the time of the copy.

mod cross_check;
mod table;

pub use cross_check::report_differences;
pub use table::{functions_grid, gaps_grid, rate_grid};

use super::limits::MAX_KEPT_APART;
use crate::count::durations::CallDurations;
use crate::error::{Error, Result};
use crate::formats::Provides;
use crate::formats::cuda::{self, CudaCall, CudaInput, CudaSnapshot, MemcpyDirection};
use crate::formats::open::{self, InputOutcomes};
use crate::report::Report;
use crate::source::{self, InputName};
use std::collections::BTreeMap;

/// Calls of a function and direction.
#[derive(Debug, Clone, Default)]
pub(crate) struct CudaFunctionStats {
    pub(crate) calls: u64,
    /// The sum of known bytes, and its number of calls.
    pub(crate) bytes: u128,
    pub(crate) sized: u64,
    /// The host's times of the calls.
    pub(crate) times: CallDurations,
    /// Calls with an impossible time.
    pub(crate) untimed: u64,
}

/// A gap without calls.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CudaGap {
    pub(crate) ns: u64,
    /// Its begin in ns since 1970.
    pub(crate) from_ns: u64,
    /// The functions before and after it.
    pub(crate) before: Box<[u8]>,
    pub(crate) after: Box<[u8]>,
}

/// Calls of an interval.
#[derive(Debug, Clone, Default)]
pub(crate) struct CudaTimeSlice {
    pub(crate) calls: u64,
    pub(crate) bytes: u128,
    pub(crate) host_ns: u128,
}

/// Options of the tables.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Length of the intervals of [`rate_grid`], in ns.
    pub every_ns: u64,
    /// Number of gaps to keep.
    pub gaps: usize,
}

/// All calls and sums.
#[derive(Debug, Default)]
pub struct CudaSummary {
    pub(crate) by: BTreeMap<(Box<[u8]>, Option<MemcpyDirection>), CudaFunctionStats>,
    pub(crate) sums: Vec<CudaSnapshot>,
    /// Snapshots taken between emptying and writing.
    pub(crate) emptied: u64,
    /// The longest gaps, longest last.
    pub(crate) gaps: Vec<CudaGap>,
    pub(crate) slices: BTreeMap<u64, CudaTimeSlice>,
    /// The first call's start and the last call's end.
    pub(crate) span: Option<(u64, u64)>,
    /// Calls that begin before a call of a line above ended, and the largest overlap in ns.
    pub(crate) earlier: u64,
    /// Number of timelines.
    pub(crate) timelines: u64,
    last: Option<(u64, Box<[u8]>)>,
}

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

    /// Adds the gap before a call; lines are in the order in which calls returned.
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
        if open::is_empty_input(origin, source) {
            found.emptied += 1;
            outcome.add_result(origin, Ok(()), report)?;
            continue;
        }
        let known = open::open_input::<()>(origin, source, Provides::CUDA);
        // A folder may have other files.
        if origin.is_listed() && matches!(known, Err(Error::Content(_))) {
            continue;
        }
        let read = known.and_then(|known| {
            let name = known.name();
            // There is no gap between two files.
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
