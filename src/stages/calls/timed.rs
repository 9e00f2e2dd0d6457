//! How long calls took: what nccl-ops and nccl-hist write of it under `--time`.

use crate::count::calls::{CountedCalls, TimesByKey};
use crate::count::durations::DurationKind;
use crate::count::groups::{GroupEntry, GroupsPart};
use crate::count::timed::TimedCalls;
use crate::error::{Error, Result};
use crate::formats::quality::may_be_of_another_call;
use crate::output::render::TableCell;
use crate::report::Report;
use std::collections::{BTreeMap, BTreeSet};

/// The columns.
const DURATION_COLUMNS: [&str; 10] = [
    "calls",
    "total_us",
    "mean_us",
    "p50_us",
    "p95_us",
    "p99_us",
    "max_us",
    "algbw_gbs",
    "busbw_gbs",
    "min_us",
];

/// What measured the durations of a row, where there is more than one kind.
const KIND_COLUMNS: [&str; 2] = ["clock", "quality"];

/// The shares of the percentiles.
pub(in crate::stages) const DURATION_PERCENTILES: [f64; 3] = [0.50, 0.95, 0.99];

/// ns as µs.
fn to_us(ns: u128) -> f64 {
    ns as f64 / 1000.0
}

/// The durations of counted calls, as rows.
pub(in crate::stages) struct DurationRows<'c> {
    times: TimesByKey,
    kinds: &'c [DurationKind],
    has_kinds: bool,
}

impl<'c> DurationRows<'c> {
    /// Takes those of `calls`, by step or over all steps.
    pub(in crate::stages) fn new(calls: &'c CountedCalls, by_step: bool) -> DurationRows<'c> {
        let kinds = calls.count_timed_by_kind().into_iter();
        DurationRows {
            times: calls.durations_by_key(by_step),
            kinds: calls.kinds.all_kinds(),
            has_kinds: kinds.filter(|calls| *calls > 0).count() > 1,
        }
    }

    /// Returns the columns after `own`.
    pub(in crate::stages) fn columns_after<'n>(&self, own: &[&'n str]) -> Vec<&'n str> {
        let kind: &[&str] = if self.has_kinds { &KIND_COLUMNS } else { &[] };
        [own, kind, &DURATION_COLUMNS].concat()
    }

    /// Hands over the rows of `entries`, each beginning with `own`: one for each kind of their durations, or one
    /// if no call has a duration.
    pub(in crate::stages) fn push_rows(
        &self,
        part: &GroupsPart<'_>,
        entries: &[GroupEntry],
        own: &[TableCell<'_>],
        out: &mut dyn FnMut(&[TableCell<'_>]),
    ) {
        let mut all: BTreeMap<Option<&DurationKind>, TimedCalls> = BTreeMap::new();
        let times = entries.iter();
        let times = times.filter_map(|e| self.times.get(&(e.step(), *part.key_of(e))));
        for (kind, one) in times.flatten() {
            let kind = self.kinds.get(*kind as usize);
            all.entry(kind).or_default().merge(one);
        }
        if all.is_empty() {
            all.insert(None, TimedCalls::default());
        }
        for (kind, timed) in &all {
            let mut row = own.to_vec();
            if self.has_kinds {
                let text = |of: fn(&DurationKind) -> &[u8]| kind.map(of).unwrap_or_default().into();
                row.extend([text(|kind| &kind.clock), text(|kind| &kind.quality)]);
            }
            row.extend(duration_cells(timed));
            out(&row);
        }
    }
}

/// The cells of calls that have a duration of their own.
fn duration_cells(all: &TimedCalls) -> [TableCell<'static>; DURATION_COLUMNS.len()] {
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
        known(of.min_ns()),
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
    let shown = |text: &[u8]| match text {
        b"" => "unknown".to_owned(),
        text => String::from_utf8_lossy(text).into_owned(),
    };
    let kinds = calls
        .kinds
        .all_kinds()
        .iter()
        .zip(calls.count_timed_by_kind());
    let mut kinds: Vec<_> = kinds.filter(|(_, calls)| *calls > 0).collect();
    kinds.sort_unstable();
    let clocks: BTreeSet<(&[u8], &[u8])> =
        kinds.iter().map(|(k, _)| (&*k.src, &*k.clock)).collect();
    let sources: BTreeSet<&[u8]> = kinds.iter().map(|(kind, _)| &*kind.src).collect();
    if sources.len() > 1 {
        let shown = clocks
            .iter()
            .map(|(src, clock)| format!("src {} with clock {}", shown(src), shown(clock)));
        return Err(Error::Content(format!(
            "durations of different sources must not be added: give --time the rows of one of them ({})",
            shown.collect::<Vec<_>>().join(", ")
        )));
    }
    if kinds.len() > 1 {
        let shown = kinds.iter().map(|(kind, calls)| {
            let (quality, clock) = (shown(&kind.quality), shown(&kind.clock));
            format!("{calls} are {quality} (clock {clock})")
        });
        report.note(&format!(
            "the durations are of different kinds, each with rows of its own: {}",
            shown.collect::<Vec<_>>().join(", ")
        ));
    }
    if timed < all {
        let without = all.saturating_sub(timed);
        report.note(&format!("{without} of {all} calls have no duration"));
    }
    for (DurationKind { quality, .. }, calls) in kinds {
        if let Some(what) = quality_meaning(quality) {
            let is_doubtful = may_be_of_another_call(quality);
            let quality = String::from_utf8_lossy(quality);
            let check = match is_doubtful {
                true => " (NCCL_INSPECTOR_DUMP_VERBOSE=1 writes what can rule that out)",
                false => "",
            };
            report.note(&format!(
                "{calls} of the durations are {quality}: {what}{check}"
            ));
        }
    }
    Ok(())
}

/// Explains a duration's quality (NCCL's `plugins/profiler/inspector/inspector.cc`).
fn quality_meaning(quality: &[u8]) -> Option<&'static str> {
    let source = quality.split(|byte| *byte == b',').next()?;
    Some(match source {
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
