//! All inputs as one tally: logs, call tables and chain lines together, steps resolved, members
//! named. What nccl-ops, nccl-hist and nccl-agg finish into rows.

use crate::count::cells::{Cells, Gathering};
use crate::count::rowed::Rowed;
use crate::count::tally;
use crate::count::tally::{Key, Ops, Partial, Tally, Value};
use crate::count::times::Total;
use crate::count::who::{Who, who};
use crate::error::Result;
use crate::formats::door::{self, Known, Opening, Outcome, no_calls};
use crate::formats::lines::Rows;
use crate::formats::log::blocks::REJOIN;
use crate::formats::log::placement::Methods;
use crate::formats::log::propose;
use crate::formats::log::timeline::{self, Present, Timeline, Times, Window};
use crate::formats::log::walk::{Call, Had, Torn, Visit};
use crate::formats::{Tells, log};
use crate::members::Merged;
use crate::output::table::Row;
use crate::pool;
use crate::report::{Report, counted};
use crate::source::{self, Origin, Texts};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicUsize, Ordering};

pub use crate::report::progress::Progress;

/// How inputs are read.
#[derive(Debug)]
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
        Opening {
            source: self.source,
            log: &self.log,
            needs,
            again: false,
        }
    }

    /// True for a gap whose calls count.
    fn wants(&self, timeline: &Timeline, gap: usize) -> bool {
        let step = || timeline.step_of(gap).map(|s| s.step);
        let inside = |window: &Window| step().is_some_and(|s| window.contains(s));
        self.window.as_ref().is_none_or(inside)
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
    durations: FxHashMap<(Option<u64>, Key), Total>,
}

impl Calls {
    /// How many nanoseconds the calls of a step and key took together; `None` where that is not
    /// known of each of them.
    pub fn duration(&self, step: Option<u64>, key: &Key, value: &Value) -> Option<u64> {
        self.durations.get(&(step, *key))?.of(value.calls)
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
    let mut all = Collector::new(options, tally, origins.len());
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
    all: Collector<'o>,
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
    pub(crate) fn merge(&mut self, part: Rowed) {
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

/// What a part of any input adds.
struct Part {
    /// Of a log.
    calls: Partial,
    /// Of a table.
    rows: Rowed,
}

impl Part {
    fn new(options: &tally::Options, window: Option<Window>) -> Part {
        Part {
            calls: Partial::new(options),
            rows: Rowed::new(options, window),
        }
    }
}

impl Visit for Part {
    #[inline(always)]
    fn call(&mut self, call: &Call<'_>) {
        self.calls.call(call);
    }

    fn mark(&mut self) {
        self.calls.mark();
    }

    fn slot(&mut self) {
        self.calls.slot();
    }

    fn torn(&mut self, calls: &[Torn<'_>]) {
        self.calls.torn(calls);
    }
}

impl Rows for Part {
    #[inline]
    fn row(&mut self, row: &Row<'_>) {
        self.rows.row(row);
    }
}

struct Collector<'o> {
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
}

impl<'o> Collector<'o> {
    fn new(options: &'o Options, tally: &'o tally::Options, inputs: usize) -> Self {
        Collector {
            options,
            tally: Tally::new(tally.clone(), inputs, options.log.jobs),
            tally_options: tally,
            merged: Merged::default(),
            logged: Gathering::default(),
            rows: Rowed::new(tally, options.window),
            present: Present::default(),
            methods: Methods::default(),
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
                        tally.merge(part, steps);
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
                let in_turn = || door::open(origin, self.options.source, Tells::CALLS);
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
        let (steps, options, window) = (
            &self.options.timeline,
            self.tally_options,
            self.options.window,
        );
        let log = input.read(
            &self.options.log,
            &mut self.merged,
            || Part::new(options, window),
            |bytes| progress.advance(bytes),
            |part| {
                let (own, part) = part.taken();
                match is_log {
                    true => tally.merge(part.with(own.calls), steps),
                    false => rows.merge(own.rows, &mut tally.ops),
                }
                Ok(())
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
                tally.merge(part, steps);
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
        said(name, &timeline, report);
        self.count(&timeline);
    }

    /// The steps of a log, where they are told apart.
    fn timeline(&mut self, log: &log::Log) -> Timeline {
        if !self.tally_options.steps {
            return Timeline::default();
        }
        let timeline = log.timeline(&self.options.timeline);
        self.present.add(&timeline);
        timeline
    }

    /// Adds the calls of the tally by the steps of their gaps.
    fn count(&mut self, timeline: &Timeline) {
        if self.tally_options.steps {
            let wanted = |gap: usize| self.options.wants(timeline, gap);
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
        let step_of = |gap: usize| timeline.step_of(gap).map(|s| s.step);
        let wanted = |gap: usize| self.options.wants(timeline, gap);
        let logged = &mut self.logged;
        logged.next_input();
        let chunks = self.tally.gaps(wanted, |gap, key, value| {
            logged.push(step_of(gap), key, value);
        });
        for pieces in chunks {
            logged.pieces(pieces.renamed(|gap| wanted(gap).then(|| step_of(gap))));
        }
    }

    fn finish(mut self) -> Calls {
        let mut to = Vec::new();
        if self.tally_options.members {
            let aliases = self.merged.aliases();
            for member in self.merged.origins.members.items() {
                let mut who = who(&self.merged, &aliases, member);
                if self.tally_options.exact {
                    who.recorded.src = LOG.into();
                }
                to.push(self.rows.who.intern(who));
            }
        }
        // Whoever was met in whatever order: rows come by host, process and communicator.
        let (who, ranks) = sorted(self.rows.who.items());
        let rank = |member: u32| ranks.get(member as usize).copied().unwrap_or(0);
        let mut cells = self.logged;
        cells.change(|key| {
            let member = to.get(key.member as usize).copied().unwrap_or(0);
            key.member = rank(member);
        });
        for ((step, mut key), value) in self.rows.cells {
            key.member = rank(key.member);
            cells.push(step, key, value);
        }
        let durations = self
            .rows
            .durations
            .into_iter()
            .map(|((step, mut key), all)| {
                key.member = rank(key.member);
                ((step, key), all)
            });
        Calls {
            ops: self.tally.ops,
            who,
            cells: cells.into_cells(),
            has_steps: !self.present.is_empty(),
            durations: durations.collect(),
        }
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

/// Inputs before it is their turn.
enum Ahead {
    /// Small logs, walked as one, and what each had.
    Together(Box<log::Ahead<Partial>>, Vec<Had>),
    /// Small logs, each walked by itself.
    Each(Vec<log::Ahead<Partial>>),
    /// Anything else, if it could be opened before it is its turn.
    Other(Option<Box<Result<Known<Part>>>>),
}

/// Walks small logs before it is their turn.
struct Walker<'o> {
    options: &'o Options,
    tally: &'o tally::Options,
    /// There is more than one input.
    several: bool,
    /// How many times to come logs are not walked as one: where one is torn, so may be others,
    /// and what was walked for nothing would cost more than is won.
    apart: AtomicUsize,
}

/// After so many times logs are walked as one again.
const APART: usize = 32;

impl<'o> Walker<'o> {
    fn ahead<'i>(&self, origins: &'i [Origin]) -> Vec<(&'i [Origin], Ahead)> {
        let mut all = Vec::new();
        // What is empty is nothing to walk, and in a folder nothing to be said of.
        let is_log = |head: &[u8]| !head.is_empty() && door::is_log(head);
        source::texts(origins, REJOIN, is_log, |origins, texts| {
            let ahead = match (texts, origins) {
                (Some(texts), _) => self.walk(&texts),
                (None, [origin]) => Ahead::Other(self.open(origin)),
                (None, _) => Ahead::Other(None),
            };
            all.push((origins, ahead));
        });
        all
    }

    fn open(&self, origin: &Origin) -> Option<Box<Result<Known<Part>>>> {
        let (tally, window) = (self.tally, self.options.window);
        let opening = self.options.opening(Tells::CALLS);
        let new = || Part::new(tally, window);
        opening.ahead(origin, self.several, new).map(Box::new)
    }

    fn walk(&self, texts: &Texts<'_>) -> Ahead {
        let new = || Partial::new(self.tally);
        let next = |apart: usize| apart.checked_sub(1);
        let apart = self
            .apart
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        if texts.at().len() > 1 && apart.is_err() {
            match log::together(texts, &self.options.log, self.tally.steps, new()) {
                Some((log, had)) => return Ahead::Together(Box::new(log), had),
                None => self.apart.store(APART, Ordering::Relaxed),
            }
        }
        let walked = texts
            .each()
            .map(|text| log::ahead(text, &self.options.log, new));
        Ahead::Each(walked.collect())
    }
}

/// Reports where step times and step numbers are not what the step lines print.
pub fn stamps(name: &str, timeline: &Timeline, report: &Report) {
    let note = |says: &str| report.note(&format!("{name}: {says}"));
    match timeline.counted {
        timeline::Counted::Steps => {}
        timeline::Counted::Epochs(steps) => note(&format!(
            "the step lines count epochs of {steps} steps: a step here is an epoch, and its time is the \
             epoch's"
        )),
        timeline::Counted::ByStep(each) => note(&format!(
            "the step lines count samples or tokens, {each} per step: a step is that number \
             divided by {each}"
        )),
        timeline::Counted::Samples => note(
            "the step lines count samples, and the log reports no batch size: step numbers are \
             samples, and step times are unknown",
        ),
    }
    match timeline.times {
        Times::Printed => {}
        Times::Stamps => note(
            "these step lines print no step time: it is computed from the lines' time stamps and \
             step numbers",
        ),
        Times::Throughput => note(
            "these step lines print no step time: it is the log's batch size divided by the \
             samples per second on the line",
        ),
        Times::Smoothed => note(
            "these step lines print no step time: it is computed from the rate on the line, a \
             moving average over the last steps",
        ),
        Times::Clock => note(
            "these step lines print no step time: it is computed from the elapsed time on the \
             lines, over as many steps as its digits need",
        ),
    }
}

/// Says what a reader of step numbers must know of a timeline.
pub fn said(name: &str, timeline: &Timeline, report: &Report) {
    if let Some(falls) = timeline.bursts {
        report.note(&format!(
            "{name}: progress bars begin again {falls} times while the log goes on between them: \
             they are not used as training steps (--trainer hf uses them)"
        ));
    }
    let interval = timeline.interval();
    if interval > 1 {
        report.note(&format!(
            "{name}: a step line appears every {interval} steps: the values of a step are sums \
             over the steps since the previous line"
        ));
    }
    let falls = timeline.steps.last().map_or(0, |s| s.segment);
    if falls > 0 {
        report.note(&format!(
            "{name}: the steps begin again {} (a restart or a new epoch): a step number selects \
             that step of each of the {} segments",
            counted(falls.into(), "time"),
            falls + 1
        ));
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::count::tally::Sizing;
    use crate::formats::log::walk::{self, tests::healthy};
    use crate::grammar::trainer::Recogniser;
    use crate::grammar::values::Basis;
    use proptest::prelude::*;
    use std::fs;
    use std::path::Path;

    struct Nobody;
    impl Progress for Nobody {
        fn advance(&self, _: u64) {}
    }

    pub(crate) fn options(jobs: usize, strict: bool) -> Options {
        Options {
            source: source::Options::default(),
            log: log::Options {
                jobs,
                recogniser: Recogniser::all(),
                strict,
                keep_init_lines: false,
            },
            timeline: timeline::Options::default(),
            window: None,
        }
    }

    /// The calls of a log whose chunks `read` gives.
    pub(crate) fn count_chunks(
        tally: &tally::Options,
        read: impl FnOnce(&mut dyn FnMut(log::Part<'_, Partial>)) -> (log::Log, Merged),
    ) -> Calls {
        let options = options(1, false);
        let mut all = Collector::new(&options, tally, 1);
        let (log, merged) = read(&mut |part| all.tally.merge(part, &options.timeline));
        all.merged = merged;
        all.add("a", &log, &mut Report::new("a", false, true));
        all.rest();
        all.finish()
    }

    /// Logs of no line and more, a damaged one, a table, a binary file, one that is not there, and
    /// one that is no small file.
    fn folder(dir: &Path) -> Vec<Origin> {
        let call = |rank: usize, i: usize| {
            format!(
                "h{}:{}:{} [{rank}] NCCL INFO AllReduce: opCount {i:x} sendbuff 0x7f0000000000 \
                 recvbuff 0x7f0000000000 count {} datatype 7 op 0 root 0 comm 0x5500299{:05x} \
                 [nranks=32] stream 0x5600ea6658e0\n",
                rank % 3,
                100 + rank,
                200 + rank,
                1 << (i % 20),
                rank % 7,
            )
        };
        for rank in 0..40 {
            let lines = if rank == 20 { 6000 } else { rank * rank };
            let log: String = (0..lines).map(|i| call(rank, i)).collect();
            fs::write(dir.join(format!("r{rank:02}.log")), log).unwrap();
        }
        fs::write(dir.join("r07b.csv"), "op,count,datatype\nSend,5,int8\n").unwrap();
        fs::write(dir.join("r08b.log"), b"\x7fELF\x02\x01").unwrap();
        fs::write(
            dir.join("r09b.log"),
            "h1:2:3 [0] NCCL INFO AllReduce: opCount 5 sendbuff\n",
        )
        .unwrap();
        let mut origins = source::expand(&[dir.to_owned()], &[]).unwrap().origins;
        origins.insert(11, Origin::Path(dir.join("nothing")));
        origins
    }

    fn tally(steps: bool) -> tally::Options {
        tally::Options {
            sizing: Sizing::Count,
            basis: Basis::Api,
            members: true,
            datatypes: true,
            steps,
            exact: true,
        }
    }

    /// The twin: each input opened when it is its turn.
    fn one_by_one(
        origins: &[Origin],
        options: &Options,
        tally: &tally::Options,
        report: &mut Report,
    ) -> Result<Calls> {
        let mut all = Collector::new(options, tally, origins.len());
        let mut outcome = Outcome::of(origins);
        for origin in origins {
            let result = door::open(origin, options.source, Tells::CALLS);
            let result = result.and_then(|mut input| all.input(&mut input, report, &Nobody));
            outcome.add(origin, result, report)?;
        }
        outcome.end(report)?;
        all.rest();
        Ok(all.finish())
    }

    /// Holds the inputs as workers walk them against the twin.
    fn hold(origins: &[Origin], options: &Options, steps: bool) -> Result<Calls> {
        let tally = tally(steps);
        let (mut report, mut other) =
            (Report::new("a", false, true), Report::new("b", false, true));
        let got = count(origins, options, &tally, &mut report, &Nobody);
        let want = one_by_one(origins, options, &tally, &mut other);
        let all = |calls: &Result<Calls>| match calls {
            Ok(calls) => format!("{:?} {:?} {:?}", calls.ops, calls.who, calls.cells.list()),
            Err(e) => e.to_string(),
        };
        assert_eq!(all(&got), all(&want));
        assert_eq!(report.total(), other.total());
        assert_eq!(report.is_damaged(), other.is_damaged());
        got
    }

    #[test]
    fn small_files_read_ahead_give_what_they_give_in_turn() {
        let dir = tempfile::tempdir().unwrap();
        let origins = folder(dir.path());
        for (jobs, strict) in [(1, false), (2, false), (5, false), (1, true), (4, true)] {
            let got = hold(&origins, &options(jobs, strict), false);
            assert_eq!(got.is_err(), strict);
        }
    }

    proptest! {
        /// Files with torn lines, with step lines and without, and such that are no logs.
        #[test]
        fn small_files_walked_as_one_give_what_each_gives(
            files in proptest::collection::vec(prop_oneof![
                9 => healthy(),
                1 => walk::tests::log(),
                1 => Just(b"op,count,datatype\nSend,5,int8\n".to_vec()),
            ], 1..40),
            jobs in 1..4_usize,
            steps: bool,
        ) {
            let dir = tempfile::tempdir().unwrap();
            for (at, file) in files.iter().enumerate() {
                fs::write(dir.path().join(format!("{at:02}.log")), file).unwrap();
            }
            let origins = source::expand(&[dir.path().to_owned()], &[]).unwrap().origins;
            // A folder of empty files has no log.
            let is_ok = files.iter().any(|file| !file.is_empty());
            prop_assert_eq!(hold(&origins, &options(jobs, false), steps).is_ok(), is_ok);
        }
    }
}
