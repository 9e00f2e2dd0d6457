//! How long calls took: what nccl-ops and nccl-hist write of it under `--time`.

use crate::count::calls::CountedCalls;
use crate::count::cells::CountedStep;
use crate::count::groups::{GroupEntry, GroupsPart};
use crate::count::tally::CallKey;
use crate::count::timed::TimedCalls;
use crate::error::{Error, Result};
use crate::output::render::TableCell;
use crate::report::Report;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// Durations by step and key.
type DurationsByKey = FxHashMap<(CountedStep, CallKey), TimedCalls>;

/// The columns.
pub(in crate::stages) const DURATION_COLUMNS: [&str; 9] = [
    "calls",
    "total_us",
    "mean_us",
    "p50_us",
    "p95_us",
    "p99_us",
    "max_us",
    "algbw_gbs",
    "busbw_gbs",
];

/// The shares of the percentiles.
pub(in crate::stages) const DURATION_PERCENTILES: [f64; 3] = [0.50, 0.95, 0.99];

/// ns as µs.
fn to_us(ns: u128) -> f64 {
    ns as f64 / 1000.0
}

/// The duration columns of the calls of `entries` that have a duration of their own.
pub(in crate::stages) fn duration_cells(
    durations: &DurationsByKey,
    part: &GroupsPart<'_>,
    entries: &[GroupEntry],
) -> [TableCell<'static>; DURATION_COLUMNS.len()] {
    let mut all = TimedCalls::default();
    let own = entries.iter();
    let own = own.filter_map(|e| durations.get(&(e.step(), *part.key_of(e))));
    own.for_each(|one| all.merge(one));
    let of = &all.durations;
    let known = |ns: Option<u64>| ns.map(|ns| to_us(ns.into())).into();
    let sum = (of.count_calls() > 0).then(|| to_us(of.total_ns()));
    let [p50, p95, p99] = of.percentiles(DURATION_PERCENTILES).map(known);
    let [algbw, busbw] = all.bandwidths().map(TableCell::from);
    [
        of.count_calls().into(),
        sum.into(),
        sum.map(|sum| sum / of.count_calls() as f64).into(),
        p50,
        p95,
        p99,
        known(of.max_ns()),
        algbw,
        busbw,
    ]
}

/// Reports how many calls have no duration of their own, and what the others' are.
///
/// # Errors
/// None has one, or they are by different sources.
pub fn report_untimed_calls(calls: &CountedCalls, report: &Report) -> Result<()> {
    let (timed, all) = calls.count_timed();
    if timed == 0 {
        return Err(Error::Content(
            "no call has a duration of its own: NCCL Inspector's records, exports of Nsight Systems and \
             call tables with the column dur_ns and one row per call have durations; logs and tables of \
             nccl-comms --unique do not"
                .to_owned(),
        ));
    }
    let clocks = calls.clocks.list_clocks();
    let shown = |text: &[u8]| match text {
        b"" => "unknown".to_owned(),
        text => String::from_utf8_lossy(text).into_owned(),
    };
    let sources: BTreeSet<&[u8]> = clocks.iter().map(|(src, _)| &**src).collect();
    if sources.len() > 1 {
        let shown = clocks
            .iter()
            .map(|(src, clock)| format!("src {} with clock {}", shown(src), shown(clock)));
        return Err(Error::Content(format!(
            "durations of different sources must not be added: give --time the rows of one of them ({})",
            shown.collect::<Vec<_>>().join(", ")
        )));
    }
    if clocks.len() > 1 {
        let kinds = calls.clocks.iter_qualities();
        let kinds = kinds.map(|(quality, calls)| format!("{calls} are {}", shown(quality)));
        report.note(&format!(
            "the durations are by different clocks: {}",
            kinds.collect::<Vec<_>>().join(", ")
        ));
    }
    if timed < all {
        let without = all.saturating_sub(timed);
        report.note(&format!("{without} of {all} calls have no duration"));
    }
    for (quality, calls) in calls.clocks.iter_qualities() {
        if let Some(what) = quality_meaning(quality) {
            let quality = String::from_utf8_lossy(quality);
            report.note(&format!("{calls} of the durations are {quality}: {what}"));
        }
    }
    Ok(())
}

/// Explains a duration's quality (NCCL's `plugins/profiler/inspector/inspector.cc`).
fn quality_meaning(quality: &[u8]) -> Option<&'static str> {
    Some(match quality {
        b"kernel_gpu" => {
            "the time of the longest channel's kernel by the GPU's clock, with the wait for ranks that \
             came later"
        }
        b"kernel_cpu" => {
            "the time of the longest channel's kernel as NCCL's proxy thread saw it, overestimated by \
             the lag of that thread"
        }
        b"collective_cpu" => {
            "the time from the launch on the host until all of its parts had ended, with the wait in \
             the stream"
        }
        b"kernel of a group" => {
            "the time of a kernel that ran all calls of an ncclGroup: each of them has the whole time"
        }
        b"several kernels" => {
            "the time from the beginning of the first to the end of the last kernel"
        }
        b"mean of an interval" => {
            "NCCL Inspector's metrics omit the number of calls; each of these counts once"
        }
        b"last of an interval" => {
            "NCCL Inspector's metrics have the last collective of each communicator, and no other"
        }
        _ => return None,
    })
}
