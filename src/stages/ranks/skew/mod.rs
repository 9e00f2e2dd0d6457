//! nccl-skew: how late each rank comes to the collectives of its communicators, and how often.
//!
//! It reads the rows of the call table, which nccl-comms' stage makes of any input. A page walks its
//! logs anyway, and takes the calls from that walk (`walked`). Rows of one call are put together in a window
//! (`window`), the clocks of hosts are aligned by the medians of many calls (`align`), and each rank's lateness
//! is kept by step (`lateness`).
//!
//! [`crate::stages::survey`] measures another skew of these logs: the calls that each rank has made at a step
//! line, at any time.

mod align;
mod dumps;
mod jumps;
mod kinds;
mod latency;
mod lateness;
mod limits;
mod median;
mod own_clocks;
mod rows;
#[cfg(test)]
mod tests;
mod untimed;
pub(crate) mod walked;
mod window;

use crate::count::calls::{Options as Read, Progress};
use crate::error::{Error, Result};
use crate::filter::CallFilter;
use crate::formats::open::{self, RecorderKind};
use crate::formats::table_rows::TableFeed;
use crate::output::render::Grid;
use crate::output::table::Row;
use crate::report::{Report, count_phrase};
use crate::source::InputName;
use crate::stages::comms;
use rows::SkewBuilder;

/// The source of the time at which a rank came to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ArrivalSource {
    /// The call's enqueue or start, or the time stamp of its line, at which NCCL received it.
    #[default]
    Starts,
    /// The start of the call's kernel.
    Kernels,
    /// The call's duration: all ranks of a call end together, so the last rank waits least.
    Durations,
}

/// Options of the table.
#[derive(Debug, Clone)]
pub struct Options {
    /// The source of times.
    pub from: ArrivalSource,
    /// Nanoseconds from which a rank is late.
    pub late_ns: u64,
    /// Aligns the clocks of hosts.
    pub align: bool,
    /// Parts of calls that may wait for other ranks.
    pub window: usize,
    /// Lists latencies by operation instead of ranks.
    pub latency: bool,
    /// Which calls are compared.
    pub filter: CallFilter,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            from: ArrivalSource::default(),
            late_ns: 1_000_000,
            align: true,
            window: 2_000_000,
            latency: false,
            filter: CallFilter::default(),
        }
    }
}

/// Returns the table.
///
/// # Errors
/// No input could be read; no call has a time, or is of two ranks.
pub fn read_skew(
    origins: &[InputName],
    read: &Read,
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<Grid> {
    let (mut taken, mut others) = (SkewBuilder::default(), Vec::new());
    // Times of one kind are compared: a log's and a record's are not added up.
    report.expect_sources_apart();
    // One of several pipes is opened in its turn.
    let is_single = origins.len() == 1;
    for origin in origins {
        let recorded = match is_single {
            true => open::open_recorded_pipe(origin, read.source)?,
            false => open::open_recorded(origin, read.source),
        };
        // In a folder dumps lie beside a job's logs.
        match recorded.filter(|_| !origin.is_listed()) {
            Some((known, RecorderKind::Flight)) => {
                dumps::add_dump_calls(&mut taken, known.input(), options, report)?;
            }
            _ => others.push(origin.clone()),
        }
    }
    let is_of_dumps = taken.is_of_dumps;
    if !(others.is_empty() && is_of_dumps) {
        let mut feed = TableFeed::new(|row: &Row<'_>| taken.add_row(row, options));
        comms::write_rows(
            &others,
            read,
            &comms::Options {
                filter: options.filter.clone(),
                ..comms::Options::default()
            },
            report,
            progress,
            &mut feed,
        )?;
    }
    build_skew_table(&taken.finish_rows(options), options, report)
}

/// Returns the table of a summary.
///
/// # Errors
/// No call has a time, or is of two ranks.
fn build_skew_table(found: &SkewSummary, options: &Options, report: &Report) -> Result<Grid> {
    let none = |what: &str| Err(Error::Content(what.to_owned()));
    if options.latency {
        return found.build_latency_grid(options, report);
    }
    if found.timed == 0 && !options.filter.is_empty() {
        return none("no collective that the filter keeps has a time");
    }
    if found.timed == 0 {
        return none(match options.from {
            ArrivalSource::Starts => {
                "no collective has a time: a log has time stamps under \
                 NCCL_DEBUG_TIMESTAMP_LEVELS=ALL (with fractions under \
                 NCCL_DEBUG_TIMESTAMP_FORMAT='[%F %T.%6f] '), NCCL Inspector's records under \
                 NCCL_INSPECTOR_DUMP_VERBOSE=1; --from durations needs no start"
            }
            ArrivalSource::Kernels => {
                "no collective has the start of its kernel beside its enqueue: traces of the profiler plugin and \
                 of torch.profiler and exports of Nsight Systems have them"
            }
            ArrivalSource::Durations => {
                "no collective that keeps its ranks together has a duration"
            }
        });
    }
    if found.matched == 0 {
        return match (options.filter.is_empty(), found.alone) {
            (false, _) => none("the filter keeps no call of two ranks to compare"),
            (true, 0) => none(
                "no call was found on two ranks: rows need comm_id, rank and seq; a log has them with its INIT lines \
                 (NCCL_DEBUG_SUBSYS=INIT,COLL) and takes times from records without them: nccl-comms LOG --times TRACE | nccl-skew",
            ),
            (true, alone) => none(&format!(
                "only one rank is in the input for each of {}: lateness is that of one rank beside others; name the \
                 files of the other ranks too: nccl-skew FILE FILE ..., or nccl-skew FOLDER",
                count_phrase(alone, "call")
            )),
        };
    }
    if found.own_clocks.has_calls() && !options.align {
        return none(
            "--no-align: the times of these calls are by clocks that begin with each process; without the \
             alignment they cannot be compared",
        );
    }
    found.report_skew_notes(options, report);
    Ok(found.late.to_grid(options.late_ns))
}

/// The summary of all rows.
#[derive(Debug, Default)]
struct SkewSummary {
    /// Collectives with a time.
    timed: u64,
    /// Collectives without a time, or alone with one of another kind.
    untimed: u64,
    /// Calls that were found on two ranks or more.
    matched: u64,
    /// Calls among these that were not found on all ranks.
    partly: u64,
    /// Those that lack a rank with a call that has no time, and those that lack one that is not in the input.
    lack_times: u64,
    lack_ranks: u64,
    /// It is known of all calls without a time which ranks' they are.
    are_gaps_known: bool,
    /// Calls that were found on one rank.
    alone: u64,
    /// The resolution of the times, ns.
    step: i64,
    late: lateness::LatenessByRank,
    clocks: align::HostClocks,
    own_clocks: own_clocks::OwnClocks,
    /// The kind of the times, where the input has several or it is not the usual one.
    time_kind: String,
    /// Other kinds, and the calls with times of them only.
    other_kinds: Vec<(String, u64)>,
    /// No input names hosts.
    names_no_host: bool,
    latencies: latency::LatencyByOp,
}

impl SkewSummary {
    /// Returns the table of latencies.
    ///
    /// # Errors
    /// No call has the durations of all of its ranks.
    fn build_latency_grid(&self, options: &Options, report: &Report) -> Result<Grid> {
        let calls = count_phrase(self.partly + self.alone, "call");
        let is_some_left_out = self.partly + self.alone > 0;
        let missing = match self.untimed {
            0 => describe_missing(options).to_owned(),
            _ => format!(
                "have no such time to compare, or {}",
                describe_missing(options)
            ),
        };
        let untimed = self.describe_untimed();
        if self.latencies.is_empty() {
            return Err(Error::Content(match is_some_left_out {
                true => format!(
                    "no call has the durations of all of its ranks, and the others' are waits for the last one: some ranks \
                     of {calls} {missing}{}; name the files of all ranks: nccl-skew FILE FILE ..., or nccl-skew FOLDER",
                    untimed.map(|untimed| format!(", and {untimed}")).unwrap_or_default()
                ),
                false => "no call has the duration of two ranks or more: NCCL Inspector's records and call \
                          tables with the column dur_ns have durations"
                    .to_owned(),
            }));
        }
        self.report_other_kinds(report);
        if is_some_left_out {
            report.note(&format!("left out: some ranks of {calls} {missing}"));
            untimed.iter().for_each(|untimed| report.note(untimed));
        }
        Ok(self.latencies.to_grid())
    }

    fn report_skew_notes(&self, options: &Options, report: &Report) {
        let SkewSummary { alone, clocks, .. } = self;
        let matched = self.matched - clocks.beside_jumps - clocks.contradicted;
        let by_kind = match self.time_kind.as_str() {
            "" => String::new(),
            kind => format!(" by {kind}"),
        };
        report.note(&format!(
            "{} compared{by_kind}: each rank with the median of the ranks of its call",
            count_phrase(matched, "call")
        ));
        let is_start = options.from != ArrivalSource::Durations;
        self.report_other_kinds(report);
        if self.names_no_host && is_start && !self.clocks.has_disproved() {
            report.note("no host is named: the clocks of all ranks are taken as one");
        }
        self.report_gaps(options, report);
        if *alone > 0 {
            let alone = count_phrase(*alone, "more call");
            report.note(&format!("{alone} had only one rank to compare"));
        }
        let late_ns = i64::try_from(options.late_ns).unwrap_or(i64::MAX);
        if self.step > late_ns {
            report.warn(&format!(
                "time stamps are multiples of {} ms; shorter delays are invisible: print fractions with \
                 NCCL_DEBUG_TIMESTAMP_FORMAT='[%F %T.%6f] '",
                self.step / 1_000_000
            ));
        }
        self.own_clocks.report(report);
        if self.own_clocks.error_ns() > options.late_ns {
            report.warn("the clocks are not aligned well enough to show which rank is late: no lateness is given (--late sets what counts)");
        }
        if is_start {
            self.clocks.report_offsets(options.align, report);
        }
    }

    /// Returns how many calls of ranks are in the input without a time.
    fn describe_untimed(&self) -> Option<String> {
        let untimed = self.untimed;
        (untimed > 0).then(|| format!("calls of ranks in the input without such a time: {untimed}"))
    }

    /// Notes how many calls lack ranks, and why.
    fn report_gaps(&self, options: &Options, report: &Report) {
        let untimed = "have no such time to compare";
        let missing = describe_missing(options);
        let are_known = self.are_gaps_known && self.lack_times + self.lack_ranks >= self.partly;
        let gaps = match (self.untimed, are_known) {
            (0, _) => vec![(self.partly, missing.to_owned())],
            (_, true) => vec![
                (self.lack_times, untimed.to_owned()),
                (self.lack_ranks, missing.to_owned()),
            ],
            _ => vec![(self.partly, format!("{untimed}, or {missing}"))],
        };
        for (calls, why) in gaps.iter().filter(|(calls, _)| *calls > 0) {
            report.note(&format!("some ranks of {calls} of these calls {why}"));
        }
        if self.partly > 0 {
            let untimed = self.describe_untimed();
            untimed.iter().for_each(|untimed| report.note(untimed));
        }
    }

    fn report_other_kinds(&self, report: &Report) {
        for (kind, calls) in &self.other_kinds {
            report.note(&format!(
                "{} can be compared by {kind} only: left out, as times of two kinds do not add up",
                count_phrase(*calls, "more call")
            ));
        }
    }
}

/// Returns where the ranks are that some calls lack.
fn describe_missing(options: &Options) -> &'static str {
    match options.filter.is_empty() {
        true => "are not in the input",
        false => "are not among the calls that the filter keeps",
    }
}
