//! All inputs as one tally: logs, call tables and chain lines together, steps resolved, members
//! named. What nccl-ops, nccl-hist and nccl-agg finish into rows.

mod ahead;
mod live;

use crate::count::cells::{Cells, Gathering, Step};
use crate::count::durations::Clocks;
use crate::count::notes::said;
use crate::count::rowed::Rowed;
use crate::count::tally;
use crate::count::tally::{Key, Partial, Tally, Value};
use crate::count::timed::Timed;
use crate::count::times::Total;
use crate::count::who::{Who, who};
use crate::error::Result;
use crate::formats::Tells;
use crate::formats::door::{self, Known, Opening, Outcome, no_calls};
use crate::formats::lines::Rows as _;
use crate::log;
use crate::log::placement::Methods;
use crate::log::propose;
use crate::log::timeline::{self, Present, StepKey, Timeline, Window};
use crate::members::Ops;
use crate::members::{Interner, Merged};
use crate::output::early::Early;
use crate::output::table::Row;
use crate::pool;
use crate::report::Report;
use crate::source::{self, Origin};
use ahead::{Ahead, Part, Walker};
use live::Live;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::sync::atomic::AtomicUsize;

pub use crate::report::progress::Progress;

/// How inputs are read.
#[derive(Debug, Clone)]
pub struct Options {
    /// How bytes come in.
    pub source: source::Options,
    /// How logs are read.
    pub log: log::Options,
    /// How steps are found.
    pub timeline: timeline::Options,
    /// The steps that count; all calls if none.
    pub window: Option<Window>,
}

impl Options {
    /// How inputs are opened that must tell what a stage `needs`.
    pub fn opening(&self, needs: Tells) -> Opening<'_> {
        let needs = match self.window {
            Some(_) => needs.and(Tells::BY_STEP),
            None => needs,
        };
        Opening {
            source: self.source,
            log: &self.log,
            needs,
            again: false,
            recorded: false,
        }
    }

    /// True for a gap whose calls count.
    pub fn wants(&self, timeline: &Timeline, gap: usize) -> bool {
        let step = || timeline.step_of(gap).map(|s| s.step);
        let inside = |window: &Window| step().is_some_and(|s| window.contains(s));
        self.window.as_ref().is_none_or(inside)
    }
}

/// What an input must tell to be counted so.
fn needs(tally: &tally::Options) -> Tells {
    let told = match tally.durations {
        true => Tells::TIMED,
        false => Tells::CALLS,
    };
    match tally.steps {
        true => told.and(Tells::BY_STEP),
        false => told,
    }
}

/// The column `src` of a log's calls.
pub const LOG: &[u8] = b"log";

/// Calls of all inputs, counted.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Calls {
    /// Operations by number.
    pub ops: Ops,
    /// Who made calls, by the number in [`Key::member`].
    pub who: Vec<Who>,
    /// The counts by step (`None` where steps are not told apart or not known) and key.
    pub cells: Cells,
    /// Some input has step lines, or rows with a step.
    pub has_steps: bool,
    /// By step and key, where a tally is exact.
    durations: FxHashMap<(Step, Key), Total>,
    /// How long each call took, where a tally keeps that.
    times: FxHashMap<(Step, Key), Timed>,
    /// Whose clocks measured that.
    pub clocks: Clocks,
    /// Calls that were given for good before the input ended, over all steps by key: they are not among
    /// the others.
    pub given: Vec<(Key, Value)>,
}

impl Calls {
    /// How many nanoseconds the calls of a step and key took together; `None` where that is not
    /// known of each of them.
    pub fn duration(&self, step: Option<u64>, key: &Key, value: &Value) -> Option<u64> {
        self.durations
            .get(&(step.map(StepKey::from), *key))?
            .of(value.calls)
    }

    /// How long each call took, by key, and by step or over all steps.
    pub fn durations_of(&self, by_step: bool) -> FxHashMap<(Step, Key), Timed> {
        let mut all: FxHashMap<(Step, Key), Timed> = FxHashMap::default();
        for ((step, key), one) in &self.times {
            let step = step.filter(|_| by_step);
            all.entry((step, *key)).or_default().merge(one);
        }
        all
    }

    /// Calls with a duration of their own, and all.
    pub fn timed(&self) -> (u64, u64) {
        let sum = |all: u64, n: u64| all.saturating_add(n);
        let timed = self
            .times
            .values()
            .map(|one| one.durations.calls())
            .fold(0, sum);
        let mut all = 0;
        for at in 0..self.cells.steps().count() {
            self.cells.each(at, |_, value| all = sum(all, value.calls));
        }
        (timed, all)
    }

    /// All calls of each step, in the order of the steps; those of none last.
    pub fn by_step(&self) -> impl Iterator<Item = (Step, Value)> {
        let steps = self.cells.steps().enumerate();
        steps.map(|(at, (step, _))| {
            let mut all = Value::default();
            self.cells.each(at, |_, value| all.merge(&value));
            (step, all)
        })
    }

    /// The calls over all steps, with other keys; those that become equal add up. Durations are left out.
    pub fn over_steps(&self, change: impl Fn(&mut Key)) -> Calls {
        let mut cells = Gathering::default();
        for ((_, mut key), value) in self.cells.list() {
            change(&mut key);
            cells.push(None, key, value);
        }
        Calls {
            ops: self.ops.clone(),
            who: self.who.clone(),
            cells: cells.into_cells(),
            ..Calls::default()
        }
    }

    /// Adds the calls of other inputs that were counted in the same way, here or elsewhere.
    pub fn merge(&mut self, other: Calls) {
        let mut met: Interner<Who> = Interner::default();
        let mut cells = Gathering::default();
        let mut durations: Vec<((Step, Key), Total)> = Vec::new();
        let mut times: Vec<((Step, Key), Timed)> = Vec::new();
        for calls in [std::mem::take(self), other] {
            let ops = calls.ops.names().map(|name| self.ops.intern(name).0);
            let ops: Vec<u32> = ops.collect();
            let who: Vec<u32> = calls.who.into_iter().map(|who| met.intern(who)).collect();
            let known = |key: Key| Key {
                op: ops[key.op as usize],
                member: who.get(key.member as usize).copied().unwrap_or(0),
                ..key
            };
            for ((step, key), value) in calls.cells.list() {
                cells.push(step, known(key), value);
            }
            let of_calls = calls.durations.into_iter();
            durations.extend(of_calls.map(|((step, key), all)| ((step, known(key)), all)));
            self.clocks.merge(&calls.clocks);
            let of_calls = calls.times.into_iter();
            times.extend(of_calls.map(|((step, key), all)| ((step, known(key)), all)));
            self.has_steps |= calls.has_steps;
        }
        let (who, ranks) = sorted(met.items());
        let rank = |member: u32| ranks.get(member as usize).copied().unwrap_or(0);
        cells.change(|key| key.member = rank(key.member));
        for ((step, mut key), all) in durations {
            key.member = rank(key.member);
            self.durations.entry((step, key)).or_default().merge(&all);
        }
        for ((step, mut key), all) in times {
            key.member = rank(key.member);
            self.times.entry((step, key)).or_default().merge(&all);
        }
        self.who = who;
        self.cells = cells.into_cells();
    }
}

/// Counts the calls of all `origins`.
///
/// # Errors
/// No input could be read, the window is not there, damage under `--strict`.
pub fn count(
    origins: &[Origin],
    options: &Options,
    tally: &tally::Options,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<Calls> {
    early(origins, options, tally, report, progress, None)
}

/// The same; of one input that is still being written `early` gets each step's calls as soon as it
/// has them, in the order of the log.
///
/// # Errors
/// As [`count`], and those of `early`.
pub fn early(
    origins: &[Origin],
    options: &Options,
    tally: &tally::Options,
    report: &mut Report,
    progress: &dyn Progress,
    early: Option<Early<'_, Calls>>,
) -> Result<Calls> {
    let mut all = Collector::new(options, tally, origins.len());
    if let [origin] = origins
        && origin.is_piped()
    {
        all.merged.twice.alone();
    }
    all.live = Live::of(early, origins.len() == 1 && tally.steps);
    all.inputs(origins, report, progress)?;
    all.rest();
    if let Some(window) = &options.window {
        let missing = |text| propose::anew(text, &all.present, origins, options.source);
        all.present.check(window).map_err(missing)?;
    }
    progress.finish();
    report.placed(all.methods);
    Ok(all.finish())
}

/// Counts rows that another stage makes.
pub struct Counting<'o> {
    all: Collector<'o, 'static>,
    rows: Rowed,
}

impl<'o> Counting<'o> {
    /// Nothing counted yet.
    pub fn new(options: &'o Options, tally: &'o tally::Options) -> Counting<'o> {
        Counting {
            all: Collector::new(options, tally, 0),
            rows: Rowed::new(tally, None),
        }
    }

    /// How rows are told apart.
    pub fn tally(&self) -> &'o tally::Options {
        self.all.tally_options
    }

    /// The next row.
    pub fn row(&mut self, row: &Row<'_>) {
        self.rows.row(row);
    }

    /// Adds rows that were counted apart.
    pub fn merge(&mut self, part: Rowed) {
        self.all.rows.merge(part, &mut self.all.tally.ops);
    }

    /// All rows are counted.
    pub fn finish(mut self) -> Calls {
        self.all.rows.merge(self.rows, &mut self.all.tally.ops);
        self.all.finish()
    }
}

/// Small files that a worker walks in one go: handing one over costs as much as walking some.
const BATCH: usize = 32;

/// The calls of a log whose parts were walked elsewhere: `read` gives them in the order of the log, and what is
/// known of the whole.
pub fn of_parts(
    options: &Options,
    tally: &tally::Options,
    read: impl FnOnce(&mut dyn FnMut(log::Part<'_, Partial>)) -> (log::Log, Merged),
) -> Calls {
    let mut all = Collector::new(options, tally, 1);
    let (log, merged) = read(&mut |part| all.tally.add(part, &options.timeline));
    all.merged = merged;
    all.add("", &log, &mut Report::new("", false, true));
    all.rest();
    all.finish()
}

struct Collector<'o, 'e> {
    options: &'o Options,
    tally: Tally,
    tally_options: &'o tally::Options,
    merged: Merged,
    /// By merged member.
    logged: Gathering,
    /// The calls of tables.
    rows: Rowed,
    present: Present,
    /// How calls were placed.
    methods: Methods,
    /// What is known of an input that is still being written.
    live: Live<'e>,
}

impl<'o, 'e> Collector<'o, 'e> {
    fn new(options: &'o Options, tally: &'o tally::Options, inputs: usize) -> Self {
        Collector {
            options,
            tally: Tally::new(tally.clone(), inputs, options.log.jobs).counts_only(),
            tally_options: tally,
            merged: Merged::default(),
            logged: Gathering::default(),
            rows: Rowed::new(tally, options.window),
            present: Present::default(),
            methods: Methods::default(),
            live: Live::default(),
        }
    }

    /// All inputs in order. Small logs are opened, read and walked by the workers, many at a
    /// time; everything else is opened when it is its turn, and its chunks are shared out.
    fn inputs(
        &mut self,
        origins: &[Origin],
        report: &mut Report,
        progress: &dyn Progress,
    ) -> Result<()> {
        let options = self.options;
        let walker = Walker {
            options,
            tally: self.tally_options,
            several: origins.len() > 1,
            apart: AtomicUsize::new(0),
        };
        let mut outcome = Outcome::of(origins);
        // Few files are shared out one by one.
        let size = (origins.len() / (4 * options.log.jobs.max(1))).clamp(1, BATCH);
        let batches = origins.chunks(size);
        pool::ordered(
            options.log.jobs,
            batches,
            |batch| walker.ahead(batch),
            |batch| {
                batch.into_iter().try_for_each(|(origins, ahead)| {
                    self.ahead(origins, ahead, &mut outcome, report, progress)
                })
            },
        )?;
        outcome.end(report)
    }

    /// Adds inputs that a worker had already.
    fn ahead(
        &mut self,
        origins: &[Origin],
        ahead: Ahead,
        outcome: &mut Outcome,
        report: &mut Report,
        progress: &dyn Progress,
    ) -> Result<()> {
        match ahead {
            Ahead::Together(log, had) => {
                self.tally.clear();
                let (tally, steps) = (&mut self.tally, &self.options.timeline);
                let (log, again) = log.merge_all(
                    origins.iter().map(Origin::name),
                    &had,
                    &mut self.merged,
                    |bytes| progress.advance(bytes),
                    |part| {
                        tally.add(part, steps);
                        Ok(())
                    },
                )?;
                report.plain(origins.len() as u64, &log.account);
                for ((origin, had), again) in origins.iter().zip(had).zip(again) {
                    if let Some(again) = again {
                        report.again(&origin.name(), &again);
                    }
                    if had.calls == 0 {
                        no_calls(&origin.name(), had.lines, report);
                    }
                    outcome.add(origin, Ok(()), report)?;
                }
                let timeline = self.timeline(&log);
                self.count(&timeline);
                Ok(())
            }
            Ahead::Each(logs) => origins.iter().zip(logs).try_for_each(|(origin, log)| {
                let name = origin.name();
                let walked = self.walked(&name, log, progress);
                let result = walked.map(|log| self.add(&name, &log, report));
                outcome.add(origin, result, report)
            }),
            Ahead::Other(mut opened) => origins.iter().try_for_each(|origin| {
                let in_turn = || door::open(origin, self.options.source, needs(self.tally_options));
                let opened = opened.take().map_or_else(in_turn, |opened| *opened);
                let result = opened.and_then(|mut input| {
                    input.note(report);
                    self.input(&mut input, report, progress)
                });
                outcome.add(origin, result, report)
            }),
        }
    }

    fn input(
        &mut self,
        input: &mut Known<Part>,
        report: &mut Report,
        progress: &dyn Progress,
    ) -> Result<()> {
        let is_log = input.tells(Tells::LINES);
        if is_log {
            self.tally.clear();
        }
        let (tally, rows) = (&mut self.tally, &mut self.rows);
        let (read, options) = (self.options, self.tally_options);
        let (steps, window) = (&read.timeline, read.window);
        let (live, logged) = (&mut self.live, &mut self.logged);
        let of_log = log::Options {
            keep_marks: options.steps,
            ..read.log.clone()
        };
        let log = input.read(
            &of_log,
            &mut self.merged,
            || Part::new(options, window),
            |bytes| progress.advance(bytes),
            |part| {
                let (own, part) = part.taken();
                match is_log {
                    true => tally.add(part.with(own.calls), steps),
                    false => rows.merge(own.rows, &mut tally.ops),
                }
                match is_log {
                    true => live.add(&part, (tally, logged), (read, options)),
                    false => Ok(()),
                }
            },
        )?;
        match is_log {
            true => self.add(&input.name(), &log, report),
            false => report.input(&input.name(), &log.account),
        }
        Ok(())
    }

    /// Merges a log that was walked already.
    fn walked(
        &mut self,
        name: &str,
        log: log::Ahead<Partial>,
        progress: &dyn Progress,
    ) -> Result<log::Log> {
        self.tally.clear();
        let (tally, steps) = (&mut self.tally, &self.options.timeline);
        log.merge(
            name,
            self.options.log.strict,
            &mut self.merged,
            |bytes| progress.advance(bytes),
            |part| {
                tally.add(part, steps);
                Ok(())
            },
        )
    }

    /// Adds the calls of a log that is read to its end, by their steps.
    fn add(&mut self, name: &str, log: &log::Log, report: &mut Report) {
        report.input(name, &log.account);
        if log.account.calls == 0 {
            no_calls(name, log.account.lines, report);
        }
        let timeline = self.timeline(log);
        if self.live.is_otherwise() {
            report.early();
        }
        said(name, &timeline, report);
        self.count(&timeline);
    }

    /// The steps of a log, where they are told apart.
    fn timeline(&mut self, log: &log::Log) -> Timeline {
        if !self.tally_options.steps {
            return Timeline::default();
        }
        let timeline = self.live.ended(log, &self.options.timeline);
        self.present.merge(self.live.forgotten());
        self.present.add(&timeline);
        timeline
    }

    /// Adds the calls of the tally by the steps of their gaps.
    fn count(&mut self, timeline: &Timeline) {
        if self.tally_options.steps {
            let (options, live) = (self.options, &self.live);
            let wanted = |gap: usize| live.wants(options, timeline, gap);
            let methods = self.tally.place(timeline, &self.merged, wanted);
            self.methods.add(methods);
        }
        self.counted(timeline);
    }

    /// All inputs are read: adds the calls that were held until now.
    fn rest(&mut self) {
        let wanted = |timeline: &Timeline, gap: usize| self.options.wants(timeline, gap);
        if let Some((timeline, methods)) = self.tally.rest(&self.merged, wanted) {
            self.methods.add(methods);
            self.counted(&timeline);
        }
        self.present.merge(&self.rows.present);
    }

    /// Adds what the tally has counted.
    fn counted(&mut self, timeline: &Timeline) {
        let step_of = |gap: usize| timeline.step_of(gap).map(timeline::Step::key);
        let wanted = |gap: usize| self.live.wants(self.options, timeline, gap);
        let logged = &mut self.logged;
        logged.next_input();
        let chunks = self.tally.gaps(wanted, |gap, key, value| {
            logged.push(step_of(gap), key, value);
        });
        for pieces in chunks {
            logged.pieces(pieces.renamed(|gap| wanted(gap).then(|| step_of(gap))));
        }
    }

    fn finish(self) -> Calls {
        let is_known = !self.present.is_empty();
        let (ops, logged) = (self.tally.ops, self.logged);
        finished_after(
            self.live.given(),
            self.tally_options,
            &self.merged,
            (ops, logged),
            self.rows,
            is_known,
        )
    }
}

/// What was counted of logs and of rows, as one.
pub fn finished(
    options: &tally::Options,
    merged: &Merged,
    counted: (Ops, Gathering),
    rows: Rowed,
    has_steps: bool,
) -> Calls {
    finished_after(Vec::new(), options, merged, counted, rows, has_steps)
}

/// The same after calls that were given for good before.
fn finished_after(
    mut given: Vec<(Key, Value)>,
    options: &tally::Options,
    merged: &Merged,
    (ops, mut cells): (Ops, Gathering),
    mut rows: Rowed,
    has_steps: bool,
) -> Calls {
    let mut to = Vec::new();
    if options.members {
        let aliases = merged.aliases();
        for member in merged.origins.members.items() {
            let mut who = who(merged, &aliases, member);
            if options.exact {
                who.recorded.src = LOG.into();
            }
            to.push(rows.who.intern(who));
        }
    }
    // Whoever was met in whatever order: rows come by host, process and communicator.
    let (who, ranks) = sorted(rows.who.items());
    let rank = |member: u32| ranks.get(member as usize).copied().unwrap_or(0);
    let change = |key: &mut Key| {
        let member = to.get(key.member as usize).copied().unwrap_or(0);
        key.member = rank(member);
    };
    cells.change(change);
    given.iter_mut().for_each(|(key, _)| change(key));
    for ((step, mut key), value) in rows.cells {
        key.member = rank(key.member);
        cells.push(step.map(StepKey::from), key, value);
    }
    let known = |(step, mut key): (Option<u64>, Key)| {
        key.member = rank(key.member);
        (step.map(StepKey::from), key)
    };
    let durations = rows.durations.into_iter();
    let durations = durations.map(|(key, all)| (known(key), all));
    let times = rows.times.into_iter();
    let times = times.map(|(key, all)| (known(key), all));
    Calls {
        times: times.collect(),
        clocks: rows.clocks,
        given,
        ops,
        who,
        cells: cells.into_cells(),
        has_steps,
        durations: durations.collect(),
    }
}

/// The items in their order, and the place of each there.
fn sorted<T: Ord + Clone>(items: &[T]) -> (Vec<T>, Vec<u32>) {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&at| &items[at]);
    let mut ranks = vec![0; items.len()];
    for (rank, &at) in (0_u32..).zip(&order) {
        ranks[at] = rank;
    }
    (order.iter().map(|&at| items[at].clone()).collect(), ranks)
}

#[cfg(test)]
pub(crate) mod tests;
