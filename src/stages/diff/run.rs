//! One of the two runs: everything that is compared, from one walk over each of its inputs.

use super::counts::{Call, Counts, Step};
use super::whole_steps::{counted, listed};
use crate::count::calls::{Options as Read, Progress};
use crate::count::notes;
use crate::count::tally;
use crate::count::tally::{Bag, Key, UNKNOWN};
use crate::error::Result;
use crate::formats::Tells;
use crate::formats::door::Known;
use crate::formats::lines::Rows;
use crate::log::placement::Methods;
use crate::log::propose;
use crate::log::timeline::{self, Present, Timeline, Window};
use crate::log::{Log, Part};
use crate::members::Ops;
use crate::members::{Merged, Process};
use crate::output::table::Row;
use crate::report::Report;
use crate::source::Origin;
use crate::stages::communicators::{self, Found};
use crate::stages::hist::{self, bucket};
use crate::stages::kept::{Kept, Partial, partial};
use crate::stages::net::Net;
use crate::stages::tuning::all::All as Tuning;
use crate::stages::{self, Stage};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// A run.
#[derive(Debug)]
pub struct Run {
    pub(super) counts: Counts,
    pub(super) found: Found,
    pub(super) net: Net,
    pub(super) tuning: Tuning,
    /// Whose step lines there are.
    pub(super) trainers: BTreeSet<&'static str>,
    /// Seconds of the steps.
    pub(super) times: Vec<f64>,
    /// Their TFLOP/s per GPU.
    pub(super) tflops: Vec<f64>,
    /// An input has one step only, with what is before it.
    pub(super) start_counts: bool,
    /// Calls of inputs without steps.
    pub(super) without_steps: u64,
}

/// Reads a run's `origins`; the steps of `window` count, or all but those that are not whole.
///
/// # Errors
/// No input could be read, the window is not there, damage under `--strict`.
pub fn run(
    origins: &[Origin],
    read: &Read,
    window: Option<Window>,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<Run> {
    let tally = communicators::tally_options(true);
    let mut gather = Gather::new(read, window, origins.len());
    let new = || partial(&tally);
    let merged = stages::read(&mut gather, origins, read, report, progress, new)?;
    if let Some(window) = &window {
        let missing = |text| propose::anew(text, &gather.present, origins, read.source);
        gather.present.check(window).map_err(missing)?;
    }
    gather.rest(&merged);
    report.placed(gather.methods);
    let run = gather.finish(&merged);
    run.net.note_hidden(report);
    Ok(run)
}

struct Gather<'o> {
    read: &'o Read,
    window: Option<Window>,
    kept: Kept,
    edges: Vec<u128>,
    /// By merged member.
    calls: Bag<(), Key>,
    counts: Counts,
    present: Present,
    /// Steps of the log with the most.
    steps: u64,
    trainers: BTreeSet<&'static str>,
    times: Vec<f64>,
    tflops: Vec<f64>,
    start_counts: bool,
    without_steps: u64,
    methods: Methods,
}

impl Stage for Gather<'_> {
    const NEEDS: Tells = Tells::CALLS;
    type Visit = Partial;

    fn begin(&mut self, name: String) {
        self.kept.begin(name);
    }

    fn add(&mut self, part: Part<'_, Partial>) {
        self.kept.add(part, &self.read.timeline);
    }

    fn end(&mut self, input: Known<Partial>, log: Log, merged: &Merged, report: &mut Report) {
        self.log(&log, &input.name(), merged, report);
    }
    /// Counts the calls of a call table.
    fn other(
        &mut self,
        input: Known<Partial>,
        merged: &mut Merged,
        report: &mut Report,
        progress: &dyn Progress,
    ) -> Result<()> {
        let mut stepped: BTreeMap<(u64, Call), tally::Value> = BTreeMap::new();
        let mut numbers: BTreeSet<u64> = BTreeSet::new();
        let (ops, counts, edges) = (&mut self.kept.tally.ops, &mut self.counts, &self.edges);
        let account = input.records(
            (&self.read.log).into(),
            &mut merged.twice,
            || TableRows::new(edges),
            |bytes| progress.advance(bytes),
            |rows| {
                let of_op: Vec<u32> = rows.ops.names().map(|name| ops.intern(name).0).collect();
                for ((step, call), value) in rows.calls {
                    let op = of_op[call.op as usize];
                    let call = Call { op, ..call };
                    counts.whole(call, &value);
                    if let Some(step) = step {
                        numbers.insert(step);
                        stepped.entry((step, call)).or_default().merge(&value);
                    }
                }
                Ok(())
            },
        )?;
        report.input(&input.name(), &account);
        if numbers.is_empty() {
            self.without_steps = self.without_steps.saturating_add(account.calls);
        }
        numbers.iter().for_each(|&step| self.present.step(step, 1));
        let (steps, with_start) = listed(&numbers, self.window);
        self.start_counts |= with_start;
        let at: BTreeMap<u64, usize> = steps.iter().map(|s| s.step).zip(0..).collect();
        let mut calls: Bag<usize, Call> = Bag::default();
        for ((step, call), value) in stepped {
            if let Some(&at) = at.get(&step) {
                calls.push(at, call, value);
            }
        }
        self.counts.stepped(&steps, calls);
        Ok(())
    }
}

impl<'o> Gather<'o> {
    /// Nothing of a run of so many inputs yet.
    fn new(read: &'o Read, window: Option<Window>, inputs: usize) -> Gather<'o> {
        let tally = communicators::tally_options(true);
        Gather {
            read,
            window,
            kept: Kept::new(tally, inputs, read.log.jobs),
            edges: hist::Options::default().edges,
            calls: Bag::default(),
            counts: Counts::default(),
            present: Present::default(),
            steps: 0,
            trainers: BTreeSet::new(),
            times: Vec::new(),
            tflops: Vec::new(),
            start_counts: false,
            without_steps: 0,
            methods: Methods::default(),
        }
    }

    /// A log is read to its end.
    fn log(&mut self, log: &Log, name: &str, merged: &Merged, report: &Report) {
        let timeline = log.timeline(&self.read.timeline);
        let methods = self.kept.tally.place(&timeline, merged, |_| true);
        self.methods.add(methods);
        self.without_steps = self.without_steps.saturating_add(methods.without);
        self.trainers
            .extend(timeline.trainer.map(|trainer| trainer.name()));
        self.present.add(&timeline);
        let steps = timeline.steps.iter().map(|s| s.steps);
        self.steps = self.steps.max(steps.fold(0, u64::saturating_add));
        self.values(log, name, report);
        self.stepped(&timeline);
    }

    /// All inputs are read: counts the calls that were held until now.
    fn rest(&mut self, merged: &Merged) {
        if let Some((timeline, methods)) = self.kept.tally.rest(merged, |_, _| true) {
            self.methods.add(methods);
            self.without_steps = self.without_steps.saturating_add(methods.without);
            self.stepped(&timeline);
        }
    }

    /// What the step lines print.
    fn values(&mut self, log: &Log, name: &str, report: &Report) {
        // The values of a line are its own step's, also where the line lags behind the calls.
        let as_printed = timeline::Options {
            as_printed: true,
            ..self.read.timeline.clone()
        };
        let timeline = log.timeline(&as_printed);
        notes::stamps(name, &timeline, report);
        let inside = |step: &&timeline::Step| self.window.is_none_or(|w| w.contains(step.step));
        for step in timeline.steps.iter().filter(inside) {
            self.times.extend(step.time_s);
            self.tflops.extend(step.tflops);
        }
    }

    /// Counts the calls of a log that is read to its end.
    fn stepped(&mut self, timeline: &Timeline) {
        let (wanted, with_start) = counted(timeline, self.window, self.read.timeline.marker);
        self.start_counts |= with_start;
        let mut at: BTreeMap<u32, usize> = BTreeMap::new();
        let mut steps = Vec::new();
        for &index in &wanted {
            let step = &timeline.steps.left()[index as usize];
            at.insert(index, steps.len());
            steps.push(Step {
                segment: step.segment,
                step: step.step,
                steps: step.steps,
            });
        }
        let mut stepped: Bag<usize, Call> = Bag::default();
        let (counts, all, edges) = (&mut self.counts, &mut self.calls, &self.edges);
        self.kept.tally.drain(
            |_| true,
            |gap, key, value| {
                let call = Call {
                    member: key.member,
                    op: key.op,
                    datatype: key.datatype,
                    bucket: bucket(edges, key.size),
                };
                counts.whole(call, &value);
                if let Some(timeline::Gap::Step(index)) = timeline.gaps.get(gap)
                    && let Some(&at) = at.get(index)
                {
                    stepped.push(at, call, value);
                }
                all.push((), key, value);
            },
        );
        self.counts.stepped(&steps, stepped);
    }

    fn finish(mut self, merged: &Merged) -> Run {
        self.kept.tuning.end(merged);
        let net = Net::of(self.kept.net, merged);
        let ops = self.kept.tally.ops;
        let found = communicators::found(self.kept.sides, self.calls, merged, ops, self.steps);
        Run {
            counts: self.counts,
            found,
            net,
            tuning: self.kept.tuning,
            trainers: self.trainers,
            times: self.times,
            tflops: self.tflops,
            start_counts: self.start_counts,
            without_steps: self.without_steps,
        }
    }
}

/// The calls of a part of a call table.
struct TableRows<'o> {
    edges: &'o [u128],
    ops: Ops,
    calls: FxHashMap<(Option<u64>, Call), tally::Value>,
}

impl<'o> TableRows<'o> {
    fn new(edges: &'o [u128]) -> TableRows<'o> {
        TableRows {
            edges,
            ops: Ops::default(),
            calls: FxHashMap::default(),
        }
    }
}

impl Rows for TableRows<'_> {
    fn row(&mut self, row: &Row<'_>) {
        let bytes = row.bytes();
        let size = bytes.map_or(UNKNOWN, |b| u64::try_from(b).unwrap_or(UNKNOWN - 1));
        let call = Call {
            member: NOBODY,
            op: self.ops.intern(row.op).0,
            datatype: row.datatype.map_or(tally::NO_TYPE, |d| d.0.into()),
            bucket: bucket(self.edges, size),
        };
        let value = self.calls.entry((row.step, call)).or_default();
        value.add(row.calls, bytes);
    }
}

/// Who makes the calls of a table: it does not say what communicators are for.
const NOBODY: u32 = u32::MAX;

impl Run {
    /// True where all calls are in inputs with steps: only then are a step's calls known.
    pub(super) fn has_steps(&self) -> bool {
        self.counts.has_steps() && self.without_steps == 0
    }

    /// The processes that spoke, without those whose lines have no header.
    pub(super) fn processes(&self) -> impl Iterator<Item = &Process> {
        let all = self.net.real.iter();
        all.filter_map(|&at| self.net.processes.get(at as usize))
            .filter(|process| process.pid.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::pieces::{JOBS, read_apart};
    use crate::testing::options;
    use proptest::prelude::*;

    /// A run over `files`, each read in so many pieces.
    fn of(files: &[Vec<u8>], pieces: usize) -> Run {
        let (read, tally) = (options(1, false), communicators::tally_options(true));
        let mut gather = Gather::new(&read, None, files.len());
        let report = Report::new("a", false, true);
        let end = |gather: &mut Gather<'_>, at: usize, log: Log, merged: &Merged| {
            gather.log(&log, &at.to_string(), merged, &report);
        };
        let merged = read_apart(&mut gather, files, pieces, || partial(&tally), end);
        gather.rest(&merged);
        gather.finish(&merged)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn chunks_read_elsewhere_are_one_run(job in 0..JOBS.len(), pieces in 2..8_usize) {
            let files = &JOBS[job];
            let (apart, whole) = (of(files, pieces), of(files, 1));
            prop_assert!(whole.counts.has_steps());
            prop_assert_eq!(apart.counts, whole.counts);
            prop_assert_eq!(apart.times, whole.times);
            prop_assert_eq!(apart.trainers, whole.trainers);
        }
    }
}
