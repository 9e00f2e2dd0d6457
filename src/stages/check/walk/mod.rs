//! One walk over all inputs that gathers what every check needs.
//!
//! Parts of chunks travel between machines: other machines may walk the chunks of the inputs and send
//! what they keep of them. One coordinator adds the parts in their order and judges the whole, since a
//! stream's hash runs over its calls in all inputs in their order.

use super::Beside;
use super::log::old_steps::{self, OldSteps};
use super::log::overwritten::Remains;
use super::streams::Streams;
use super::streams::piped::{Piped, Piping};
use super::warn::warnings::Warnings;
use crate::count::calls::{Calls, Options, Progress};
use crate::count::tally;
use crate::error::{Error, Result};
use crate::formats::Tells;
use crate::formats::door::Known;
use crate::log::timeline::{self, Growing, Since, Turn};
use crate::log::{Log, Part};
use crate::members::Merged;
use crate::output::render::Grid;
use crate::report::Report;
use crate::report::account::Account;
use crate::source::{Input, Origin, Thin};
use crate::stages::communicators::{self, Found, Gathered, Side};
use crate::stages::matrix;
use crate::stages::net::{self, Net};
use crate::stages::skew::walked::Times;
use crate::stages::survey::Sums;
use crate::stages::tuning::all::All as Tuning;
use crate::stages::{self, Stage};
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

mod part;
mod walked;

pub(crate) use part::Lines;
pub(crate) use walked::Walked;

use part::Partial;

/// What is asked for besides findings: what TUNING lines tell, and calls.
pub(crate) struct Asked {
    /// How calls over all steps are distinguished.
    pub(crate) calls: tally::Options,
    /// All that a page with plots has, too.
    pub(crate) whole: Option<Whole>,
    /// Who comes late, where calls have time stamps.
    pub(crate) late: bool,
}

/// What only a page with plots has.
pub(crate) struct Whole {
    /// How calls by step are distinguished.
    pub(crate) by_step: tally::Options,
}

impl Asked {
    /// How the walk tells calls apart.
    fn tally(asked: Option<&Asked>) -> tally::Options {
        match asked.and_then(|asked| asked.whole.as_ref()) {
            Some(_) => matrix::tally(true),
            None => communicators::tally_options(false),
        }
    }

    /// Whether who comes late is asked for, and if so, whether calls' steps are placed for that alone.
    fn late(asked: Option<&Asked>) -> Option<bool> {
        let asked = asked.filter(|asked| asked.late)?;
        Some(asked.whole.is_none())
    }
}

/// Calls that were asked for.
pub(crate) struct Counted {
    /// Over all steps.
    pub(crate) calls: Calls,
    /// By step.
    pub(crate) by_step: Option<Calls>,
    /// As nccl-matrix tells them apart, with the sides of communicators that lines tell of.
    pub(crate) pairs: Option<(Calls, Vec<Side>)>,
}

/// Everything that was gathered.
pub(crate) struct Seen {
    /// The inputs that could be read.
    pub(crate) inputs: Vec<Walked>,
    /// Where their lines went.
    pub(crate) accounts: Vec<Account>,
    /// For each of them the processes with lines in it.
    pub(crate) processes: Vec<BTreeSet<u32>>,
    /// Transports, versions, settings.
    pub(crate) net: Net,
    /// Communicators.
    pub(crate) found: Found,
    /// The ranks' calls.
    pub(crate) streams: Streams,
    /// The inputs, to be read again.
    kept: Vec<Input>,
    /// What was kept of those that came through a pipe.
    pub(crate) piped: BTreeMap<u32, Piped>,
    /// WARN lines and PyTorch's watchdog's.
    pub(crate) warnings: Warnings,
    /// What kinds of lines there are.
    pub(crate) lines: Lines,
    /// Which algorithm served which sizes, where it was asked for.
    pub(crate) tuning: Option<Tuning>,
    /// The calls, where they were asked for.
    pub(crate) counted: Option<Counted>,
    /// Who comes late, where it was asked for and all calls have time stamps.
    pub(crate) late: Option<Result<Grid>>,
}

impl Seen {
    /// An input, to be read again.
    ///
    /// # Errors
    /// It can be read only once.
    pub(crate) fn open(&self, number: u32) -> Result<Input> {
        let kept = self.kept.get(number as usize).and_then(Input::shared);
        kept.ok_or_else(|| Error::Content(format!("input {number} can be read only once")))
    }
}

/// Walks all `origins`, which must be logs; of a pipe that is a record of calls `beside` gets what
/// it tells.
///
/// # Errors
/// No input could be read, or is a log; damage under `--strict`.
pub(super) fn walk(
    origins: &[Origin],
    (options, asked): (&Options, Option<&Asked>),
    beside: &mut Beside,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<Seen> {
    let tally = Asked::tally(asked);
    let mut stage = Reading::new(options, asked, origins.len());
    stage.beside = mem::take(beside);
    let is_piped = Arc::clone(&stage.is_piped);
    let new = || Partial::new(&tally, asked, is_piped.load(Ordering::Relaxed));
    let merged = stages::read(&mut stage, origins, options, report, progress, new)?;
    progress.finish();
    *beside = mem::take(&mut stage.beside);
    stage.added()?;
    Ok(stage.seen(&merged))
}

/// What was gathered so far.
struct Reading<'o> {
    options: &'o Options,
    beside: Beside,
    gathered: Gathered,
    net: net::all::All,
    streams: Streams,
    warnings: Warnings,
    lines: Lines,
    /// Of the input in hand.
    now: Now<'o>,
    /// It is a pipe.
    is_piped: Arc<AtomicBool>,
    piped: BTreeMap<u32, Piped>,
    /// Whether what is kept of a pipe could be written.
    failed: Result<()>,
    inputs: Vec<Walked>,
    accounts: Vec<Account>,
    processes: Vec<BTreeSet<u32>>,
    kept: Vec<Input>,
    tuning: Option<Tuning>,
    times: Option<Times>,
    asked: Option<&'o Asked>,
}

/// What is known of the input in hand.
#[derive(Default)]
struct Now<'o> {
    number: u32,
    piping: Option<Piping<'o>>,
    sums: Sums,
    speakers: BTreeSet<u32>,
    remains: Remains,
    /// Its steps so far, where the first ones are let go while it is read.
    growing: Option<Growing>,
    /// How many marks it had when it was last looked whether there are too many steps.
    looked: usize,
    old: OldSteps,
}

impl<'o> Stage for Reading<'o> {
    const NEEDS: Tells = Tells::LINES;
    const AGAIN: bool = true;
    const THINS: bool = true;
    const RECORDED: bool = true;
    type Visit = Partial;

    fn begin(&mut self, name: String) {
        // An input is counted only if it can be read to its end.
        let number = u32::try_from(self.inputs.len()).unwrap_or(u32::MAX);
        self.net.begin_input(self.inputs.len(), name.clone());
        self.gathered.begin_input(name);
        if let Some(times) = &mut self.times {
            times.begin_input();
        }
        self.now = Now {
            number,
            ..Now::default()
        };
    }

    fn thin(&mut self, name: String, thin: Thin) {
        self.is_piped.store(true, Ordering::Relaxed);
        let piping = Piping::new(name, thin, &self.streams, self.options);
        self.now.piping = Some(piping);
        // What is asked for besides findings may need all steps.
        self.now.growing = self.asked.is_none().then(Growing::default);
    }

    fn read_to(&mut self, bytes: u64, merged: &Merged) {
        if let (Some(piping), Ok(())) = (&mut self.now.piping, &self.failed) {
            self.failed = piping.look(bytes, &mut self.streams, merged);
        }
    }

    fn added(&mut self) -> Result<()> {
        mem::replace(&mut self.failed, Ok(()))
    }

    fn add(&mut self, part: Part<'_, Partial>) {
        let (visit, part) = part.taken();
        let (to, merged) = (part.to, part.merged);
        let now = &mut self.now;
        let (number, line) = (now.number, part.line);
        self.lines.add(visit.lines.placed(number, line));
        self.warnings
            .add(visit.warnings, &to.processes, number, line);
        now.remains.add(visit.remains, number, line);
        now.speakers.extend(to.processes.iter().copied());
        self.gathered
            .add(part.with(visit.communicators), &self.options.timeline);
        self.streams.add(visit.streams, to, merged, number);
        if let (Some(piping), Some(again)) = (&mut now.piping, visit.again) {
            piping.add(again, &part, &self.streams);
        }
        now.sums.add(visit.sums, part.gap, to, merged);
        if let (Some(tuning), Some(own)) = (&mut self.tuning, visit.tuning) {
            tuning.add(part.with(own));
        }
        if let (Some(times), Some(own)) = (&mut self.times, visit.times) {
            times.add(part.with(own), self.options);
        }
        self.net.add(part.with(visit.net));
        self.let_go(&part);
    }

    fn end(&mut self, input: Known<Partial>, log: Log, merged: &Merged, _: &mut Report) {
        self.log(input.into_input(), log, merged);
    }

    fn other(
        &mut self,
        input: Known<Partial>,
        _: &mut Merged,
        report: &mut Report,
        _: &dyn Progress,
    ) -> Result<()> {
        match input.recorder() {
            Some(recorder) => self.beside.add((&input, recorder), self.options, report),
            None => Err(input.refused("log lines")),
        }
    }
}

impl<'o> Reading<'o> {
    fn new(options: &'o Options, asked: Option<&'o Asked>, inputs: usize) -> Reading<'o> {
        let jobs = options.log.jobs;
        let gathered = Gathered::new(&Asked::tally(asked), inputs, jobs);
        Reading {
            options,
            beside: Beside::default(),
            gathered: match asked.and_then(|asked| asked.whole.as_ref()) {
                Some(whole) => gathered.by_step(&whole.by_step),
                None => gathered,
            },
            net: net::all::All::default(),
            streams: Streams::default(),
            warnings: Warnings::default(),
            lines: Lines::default(),
            now: Now::default(),
            is_piped: Arc::default(),
            piped: BTreeMap::new(),
            failed: Ok(()),
            inputs: Vec::new(),
            accounts: Vec::new(),
            processes: Vec::new(),
            kept: Vec::new(),
            tuning: asked.map(|_| Tuning::default()),
            times: Asked::late(asked).map(|places| Times::new(inputs, places, jobs)),
            asked,
        }
    }

    /// Lets go of steps of a pipe that nobody will look at, once in a while.
    fn let_go(&mut self, part: &Part<'_, ()>) {
        let now = &mut self.now;
        let Some((log, _)) = part.so_far else { return };
        let Some(growing) = &mut now.growing else {
            return;
        };
        let (marks, kept) = (part.marks, old_steps::kept());
        // There are no more steps than marks. To look at them takes a while, so it is done once in so many.
        let more = kept / 4;
        if marks.len() < (now.looked + more).max(marks.gone() + kept + more) {
            return;
        }
        now.looked = marks.len();
        let timeline = log.growing(growing, &self.options.timeline);
        let Some((since, settled)) = now.old.due(timeline) else {
            return;
        };
        let turn = Turn {
            gap: settled,
            before: None,
        };
        if let Some(piping) = &mut now.piping {
            piping.turn(turn, since.gap, part);
        }
        let lines = now.old.lines(since, (timeline, marks));
        self.warnings.old_steps(now.number, &lines);
        let sums = &mut now.sums;
        let known = (timeline, marks);
        now.old.let_go(since, known, sums, part.merged);
        let gap = u32::try_from(since.gap).unwrap_or(u32::MAX);
        growing.forget(gap);
        log.forget(gap);
    }

    /// A log is read to its end.
    fn log(&mut self, input: Input, mut log: Log, merged: &Merged) {
        let Now {
            number,
            piping,
            mut sums,
            speakers,
            remains,
            growing,
            mut old,
            ..
        } = mem::take(&mut self.now);
        self.is_piped.store(false, Ordering::Relaxed);
        let options = &self.options.timeline;
        let mut timeline = log.ended(&mut growing.unwrap_or_default(), options);
        match piping.map(|piping| piping.end((number, &timeline), merged)) {
            Some(Ok(piped)) => drop(self.piped.insert(number, piped)),
            Some(Err(error)) => self.failed = Err(error),
            None => {}
        }
        let as_printed = || timeline::Options {
            as_printed: true,
            ..options.clone()
        };
        let printed = self.asked.map(|_| log.timeline(&as_printed()).steps);
        let printed = printed.into_iter().flatten().collect();
        let placed = self.gathered.end_input(&timeline, merged, None);
        if let Some(times) = &mut self.times {
            times.end_input(placed, &timeline, merged);
        }
        let known = (&timeline, log.marks.all());
        if let Some(since) = timeline.since(old_steps::kept()) {
            let lines = old.lines(since, known);
            self.warnings.old_steps(number, &lines);
            old.let_go(since, known, &mut sums, merged);
        }
        let end = Since {
            step: timeline.steps.len(),
            gap: log.marks.len(),
        };
        self.warnings.steps(number, old.lines(end, known));
        if old.since.step > 0 {
            let later = timeline.steps.part(old.since.step..end.step).iter();
            let all = later.map(|step| step.steps);
            self.gathered.ran(all.fold(old.steps, u64::saturating_add));
            timeline = timeline.last_steps(old.since);
            sums.begin_at(old.since.gap);
        }
        self.warnings
            .again(number, log.begins.iter().map(|begin| begin.at));
        let name = input.name();
        let printer = self.options.timeline.printer;
        let walked = Walked::of(
            name,
            &mut log,
            (old, timeline, printed),
            (sums, remains),
            merged,
            printer,
        );
        self.inputs.push(walked);
        self.accounts.push(log.account);
        self.processes.push(speakers);
        self.kept.push(input.at_rest());
    }

    /// All inputs are read.
    fn seen(mut self, merged: &Merged) -> Seen {
        self.warnings.settle(&merged.aliases());
        let placed = self.gathered.rest(merged, None);
        let silent = Report::new("", false, true).silent();
        let late = self
            .times
            .and_then(|times| times.grid(merged, placed, &silent));
        let gathered = &mut self.gathered;
        let counted = self.asked.map(|asked| Counted {
            calls: gathered.counted(&asked.calls, merged),
            by_step: gathered.steps(merged),
            pairs: asked.whole.is_some().then(|| {
                let calls = gathered.counted(&matrix::tally(false), merged);
                (calls, gathered.told(merged))
            }),
        });
        if let Some(tuning) = &mut self.tuning {
            tuning.end(merged);
        }
        Seen {
            net: Net::of(self.net, merged),
            found: self.gathered.finish(merged),
            inputs: self.inputs,
            accounts: self.accounts,
            processes: self.processes,
            streams: self.streams,
            kept: self.kept,
            piped: self.piped,
            warnings: self.warnings,
            lines: self.lines,
            tuning: self.tuning,
            counted,
            late,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::mend::blocks::REJOIN;
    use crate::stages::check::{self, judge};
    use crate::stages::pieces::{JOBS, read_apart};
    use crate::testing::options;
    use proptest::prelude::*;

    /// What is found in `files`, each walked in so many pieces. They lie in a folder, to be read again.
    fn found(folder: &std::path::Path, files: &[Vec<u8>], pieces: usize) -> String {
        let read = options(1, false);
        let tally = communicators::tally_options(false);
        let mut stage = Reading::new(&read, None, files.len());
        let end = |stage: &mut Reading<'_>, at: usize, log: Log, merged: &Merged| {
            let origin = Origin::Path(folder.join(at.to_string()));
            let input = Input::open(&origin, read.source, REJOIN).unwrap();
            stage.log(input.rewindable().unwrap(), log, merged);
        };
        let merged = read_apart(
            &mut stage,
            files,
            pieces,
            || Partial::new(&tally, None, false),
            end,
        );
        let mut report = Report::new("a", false, true);
        let checked = judge(
            &mut stage.seen(&merged),
            Beside::default(),
            (&read, check::Now::Unknown),
            &mut report,
        );
        format!("{:#?}", checked.unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        /// Streams, warnings, facts and communicators of all files, walked elsewhere.
        #[test]
        fn chunks_walked_elsewhere_give_the_findings_of_one_run(
            job in 0..JOBS.len(),
            pieces in 2..8_usize,
        ) {
            let (folder, files) = (tempfile::tempdir().unwrap(), &JOBS[job]);
            for (at, text) in files.iter().enumerate() {
                std::fs::write(folder.path().join(at.to_string()), text).unwrap();
            }
            let whole = found(folder.path(), files, 1);
            prop_assert!(job == 0 || whole.contains("severity: Error"), "{job}");
            prop_assert_eq!(found(folder.path(), files, pieces), whole);
        }
    }
}
