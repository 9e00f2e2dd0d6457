//! The rows of a pipe: a call's row is written as soon as its step is settled, in the order of [`super::order`].
//!
//! One walk is all there is of a pipe, so calls are held as records until they can be written. The
//! last ones are written when the log has ended, and then its own steps are held against those that
//! were written: a later line may tell something else.

use super::filter::Watch;
use super::held::Held;
use super::log::Wanted;
use super::order::{Call, Gap, Growing as InOrder, Known as Knows};
use super::records::{Placed, Records, Seqs, UNPLACED};
use super::text::{Speaker, Text};
use super::{Options, Order, placed, reported};
use crate::count::calls::{Options as Read, Progress};
use crate::count::who;
use crate::error::{Error, Result};
use crate::formats::Tells;
use crate::formats::door::Known;
use crate::log::placement::{Across, Recorder};
use crate::log::propose;
use crate::log::timeline::{Growing, Timeline};
use crate::log::{Log, Part};
use crate::members::Merged;
use crate::report::Report;
use crate::source::Origin;
use crate::stages::survey::{Survey, Surveying};
use crate::stages::{self, Stage};
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

/// Writes the rows of a pipe.
///
/// # Errors
/// As [`super::rows`].
pub(super) fn rows(
    origin: &Origin,
    read: &Read,
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
    out: &mut (dyn Write + Send),
) -> Result<Option<Known<(Recorder, Records)>>> {
    let mut live = Live {
        read,
        now: Surveying::default(),
        growing: Growing::default(),
        ended: None,
        table: None,
        writer: Writer {
            held: Held::new(options.hold),
            order: InOrder::new(options.order.reach()),
            seqs: Seqs::default(),
            rows: Rows {
                read,
                options,
                out: Out {
                    to: out,
                    header: Some(options.form.header()),
                },
                made: Vec::new(),
                is_otherwise: false,
                watch: Watch::default(),
            },
        },
        outcome: Ok(()),
    };
    let origins = std::slice::from_ref(origin);
    let new = || (Recorder::default(), Records::apart());
    let merged = stages::read(&mut live, origins, read, report, progress, new)?;
    progress.finish();
    let Live {
        growing,
        ended,
        table,
        writer,
        ..
    } = live;
    let Some(survey) = ended else {
        return Ok(table);
    };
    if let Some(window) = &read.window {
        let mut present = growing.forgotten().clone();
        present.add(&survey.timeline);
        let missing = |text| propose::anew(text, &present, origins, read.source);
        present.check(window).map_err(missing)?;
    }
    if growing.is_otherwise() {
        report.early();
    }
    writer.end(&survey, &merged, report)?;
    Ok(None)
}

/// A pipe while it is read.
struct Live<'r> {
    read: &'r Read,
    now: Surveying,
    growing: Growing,
    ended: Option<Survey>,
    /// It is no log.
    table: Option<Known<(Recorder, Records)>>,
    writer: Writer<'r>,
    outcome: Result<()>,
}

impl Stage for Live<'_> {
    const NEEDS: Tells = Tells::CALLS;
    type Visit = (Recorder, Records);

    fn begin(&mut self, _: String) {
        self.now = Surveying::new(self.read, false);
    }

    fn add(&mut self, part: Part<'_, Self::Visit>) {
        let ((calls, records), part) = part.taken();
        self.outcome = self.writer.add(records, &part);
        self.now.add(calls, &part, self.read);
        if let (Some((log, _)), true) = (part.so_far, self.outcome.is_ok()) {
            if self.read.timeline.none {
                let nothing = Timeline::default();
                let now = Now {
                    timeline: &nothing,
                    settled: Some(u32::MAX),
                    cut: |_, _| (Gap::OfLine, u32::MAX),
                };
                self.outcome = self.writer.write(&now, part.merged);
                return;
            }
            let timeline = log.growing(&mut self.growing, &self.read.timeline);
            let found = self.now.so_far(timeline, part.merged, u32::MAX);
            let cut = |process, number| match found.cut(process, number) {
                Some((gap, until)) => (Gap::Of(gap), until),
                None => (Gap::Later, u32::MAX),
            };
            if let Some(settled) = found.settled {
                let now = Now {
                    timeline,
                    settled: found.settled,
                    cut,
                };
                self.outcome = self.writer.write(&now, part.merged);
                if self.outcome.is_ok() && self.writer.is_clear(&self.growing) {
                    self.turn(settled, log, &part);
                }
            }
        }
    }

    fn added(&mut self) -> Result<()> {
        std::mem::replace(&mut self.outcome, Ok(()))
    }

    fn end(&mut self, input: Known<Self::Visit>, log: Log, merged: &Merged, report: &mut Report) {
        let now = std::mem::take(&mut self.now);
        let log = (log, &mut self.growing);
        let survey = now.end(log, merged, &mut Across::of(1), self.read);
        reported(&input.name(), &survey, self.read, report);
        self.ended = Some(survey);
    }

    fn other(
        &mut self,
        input: Known<Self::Visit>,
        _: &mut Merged,
        _: &mut Report,
        _: &dyn Progress,
    ) -> Result<()> {
        self.table = Some(input);
        Ok(())
    }
}

impl Live<'_> {
    /// All up to the end of gap `settled` is written: at a turn lets go of what is before the last one.
    fn turn(&mut self, settled: u32, log: &Log, part: &Part<'_, ()>) {
        let Some(turn) = self.growing.turn(settled) else {
            return;
        };
        self.now.turn(turn, part, self.read);
        let now = &self.now;
        let cuts = |process| now.cuts_of(process);
        self.writer.rows.turn(self.growing.timeline(), cuts);
        if let Some(before) = turn.before.map(|before| before.in_lines) {
            self.now.forget(before);
            self.growing.forget(before);
            log.forget(before);
        }
    }
}

/// What is known so far of where calls were made.
struct Now<'t, G> {
    timeline: &'t Timeline,
    settled: Option<u32>,
    /// By the process and the number of its call: see [`Knows::cut`].
    cut: G,
}

impl<G: Fn(u32, u32) -> (Gap, u32)> Knows for Now<'_, G> {
    fn settled(&self) -> Option<u32> {
        self.settled
    }

    fn stretch_end(&self, gap: u32) -> u32 {
        self.timeline.stretch_end(gap)
    }

    fn cut(&self, process: u32, number: u32) -> (Gap, u32) {
        (self.cut)(process, number)
    }
}

/// The calls of a process that were written.
#[derive(Debug, Clone, Copy, Default)]
struct Made {
    calls: u32,
    /// How many of them were written before the last turn, and before the one before that.
    turned: [u32; 2],
    /// Hashes of the steps of those after each.
    steps: [u64; 2],
}

impl Made {
    fn add(&mut self, step: Option<u64>) {
        self.calls += 1;
        self.steps[0] = with(self.steps[0], step);
    }

    /// The last turn is the one before from now on.
    fn turn(&mut self) {
        self.turned = [self.calls, self.turned[0]];
        self.steps = [0, self.steps[0]];
    }

    /// True where those that were written before the last turn were made in other steps than they were
    /// written with.
    fn is_old_other(&self, timeline: &Timeline, cuts: &[(u32, u32)]) -> bool {
        steps(timeline, cuts, self.turned[1]..self.turned[0]) != self.steps[1]
    }

    /// The same of those after it.
    fn is_other(&self, timeline: &Timeline, cuts: &[(u32, u32)]) -> bool {
        steps(timeline, cuts, self.turned[0]..self.calls) != self.steps[0]
    }
}

/// A hash of steps with one more.
fn with(steps: u64, step: Option<u64>) -> u64 {
    let step = step.map_or(u64::MAX, |step| step.wrapping_add(1));
    (steps.rotate_left(5) ^ step).wrapping_mul(0x517c_c1b7_2722_0a95)
}

/// The hash of the steps of some calls of a process, by where its calls are cut.
fn steps(timeline: &Timeline, cuts: &[(u32, u32)], calls: Range<u32>) -> u64 {
    let mut hash = 0;
    let mut number = calls.start;
    let first = cuts.partition_point(|cut| cut.1 <= number);
    for &(gap, end) in &cuts[first..] {
        let step = timeline.step_of(gap as usize).map(|step| step.step);
        while number < end.min(calls.end) {
            hash = with(hash, step);
            number += 1;
        }
    }
    (number..calls.end).fold(hash, |hash, _| with(hash, None))
}

/// Where rows go.
struct Out<'r> {
    to: &'r mut (dyn Write + Send),
    /// It goes before the first rows: a window that is not there leaves nothing.
    header: Option<Vec<u8>>,
}

impl Out<'_> {
    fn rows(&mut self, rows: &[u8]) -> Result<()> {
        let header = self.header.take().unwrap_or_default();
        let header = self.to.write_all(&header);
        let written = header.and_then(|()| self.to.write_all(rows));
        written.map_err(Error::Output)
    }
}

/// Writes rows: those that wait, in their order.
struct Writer<'r> {
    held: Held,
    order: InOrder<Arc<Records>>,
    seqs: Seqs,
    rows: Rows<'r>,
}

impl Writer<'_> {
    fn add(&mut self, mut records: Records, part: &Part<'_, ()>) -> Result<()> {
        records.follow(part.to, part.merged, &mut self.seqs);
        records.wait(part.gap, part.to);
        match records.len() {
            0 => Ok(()),
            _ => self.held.push(records),
        }
    }

    /// True where no call waits from before the last turn.
    fn is_clear(&self, growing: &Growing) -> bool {
        let stretch = self.order.stretch();
        growing.last_turn().is_none_or(|turn| stretch > turn)
    }

    /// Writes the rows of the calls whose turn has come by what is known now.
    fn write(
        &mut self,
        now: &Now<'_, impl Fn(u32, u32) -> (Gap, u32)>,
        merged: &Merged,
    ) -> Result<()> {
        let mut writing = Writing::of(&mut self.rows, now.timeline, merged);
        let take = |of: &_, call, gap| writing.add(of, call, gap);
        self.order.next(&mut self.held, now, take)?;
        writing.end()
    }

    /// The log has ended: writes the rest, and reports calls that were written with another step.
    fn end(mut self, survey: &Survey, merged: &Merged, report: &mut Report) -> Result<()> {
        let (timeline, placement) = (&*survey.timeline, &survey.placement);
        let before = self.rows.made.clone();
        let cut = |process, number| match placement.cut(process, number) {
            Some((gap, until)) => (Gap::Of(gap), until),
            None => (Gap::OfLine, u32::MAX),
        };
        let now = Now {
            timeline,
            settled: Some(u32::MAX),
            cut,
        };
        let mut rows = self.rows;
        let mut writing = Writing::of(&mut rows, timeline, merged);
        let take = |of: &_, call, gap| writing.add(of, call, gap);
        let is_in_order = self.order.end(&mut self.held, &now, take)?;
        writing.end()?;
        rows.out.rows(&[])?;
        let is_other = |(process, made): (u32, &Made)| {
            let cuts = placement.cuts_of(process);
            made.is_old_other(timeline, cuts) || made.is_other(timeline, cuts)
        };
        let is_moved = rows.options.order == Order::Step && !is_in_order;
        if is_moved || rows.is_otherwise || (0_u32..).zip(&before).any(is_other) {
            report.early();
        }
        placed(rows.options, rows.read, survey.placement.methods, report);
        rows.watch.said(&rows.options.filter, report);
        Ok(())
    }
}

/// Where rows go, and what is remembered of them.
struct Rows<'r> {
    read: &'r Read,
    options: &'r Options,
    out: Out<'r>,
    /// By process.
    made: Vec<Made>,
    /// Calls were written with other steps than are known now.
    is_otherwise: bool,
    watch: Watch,
}

impl Rows<'_> {
    /// At a turn: holds the calls that were written before the last one against where they were made.
    fn turn<'c>(&mut self, timeline: &Timeline, cuts: impl Fn(u32) -> &'c [(u32, u32)]) {
        for (process, made) in (0..).zip(&mut self.made) {
            self.is_otherwise |= made.is_old_other(timeline, cuts(process));
            made.turn();
        }
    }
}

/// Writes rows while no more is read.
struct Writing<'w, 'r> {
    rows: &'w mut Rows<'r>,
    timeline: &'w Timeline,
    merged: &'w Merged,
    aliases: Vec<u32>,
    /// By merged member.
    speakers: Vec<Option<Arc<Speaker>>>,
    /// Calls of one chunk that are written next.
    chunk: Option<Arc<Records>>,
    calls: Vec<Placed>,
    text: Vec<u8>,
}

impl<'w, 'r> Writing<'w, 'r> {
    fn of(rows: &'w mut Rows<'r>, timeline: &'w Timeline, merged: &'w Merged) -> Self {
        Writing {
            rows,
            timeline,
            merged,
            aliases: merged.aliases(),
            speakers: Vec::new(),
            chunk: None,
            calls: Vec::new(),
            text: Vec::new(),
        }
    }

    /// The next call, and the gap that it was made in; `None` where its line tells.
    fn add(&mut self, chunk: &Arc<Records>, call: Call, gap: Option<u32>) -> Result<()> {
        if !self
            .chunk
            .as_ref()
            .is_some_and(|own| Arc::ptr_eq(own, chunk))
        {
            self.write()?;
            self.chunk = Some(Arc::clone(chunk));
        }
        let step = gap.and_then(|gap| self.timeline.step_of(gap as usize));
        let rows = &mut *self.rows;
        let process = call.process as usize;
        if rows.made.len() <= process {
            rows.made.resize(process + 1, Made::default());
        }
        rows.made[process].add(step.map(|step| step.step));
        rows.is_otherwise |= gap.is_some_and(|gap| (gap as usize) < self.timeline.gaps.gone());
        self.calls.push((call.at, gap.unwrap_or(UNPLACED)));
        Ok(())
    }

    /// Writes what is left.
    fn end(mut self) -> Result<()> {
        self.write()?;
        if !self.text.is_empty() {
            self.rows.out.rows(&self.text)?;
        }
        self.rows.out.to.flush().map_err(Error::Output)
    }

    /// Makes the rows of the chunk in hand.
    fn write(&mut self) -> Result<()> {
        let Some(records) = self.chunk.take() else {
            return Ok(());
        };
        let own = records.members().iter();
        let own: Vec<Arc<Speaker>> = own.map(|&member| self.speaker(member)).collect();
        let wanted = Wanted {
            read: self.rows.read,
            filter: &self.rows.options.filter,
            watch: &self.rows.watch,
            timeline: self.timeline,
            timings: &[],
        };
        // What is written out once is of one chunk: it goes by the addresses of names.
        let mut text = Text::new(self.rows.options.form, std::mem::take(&mut self.text));
        let calls = self.calls.drain(..);
        wanted.rows((&records, &[], &own), calls, |row, speaker| {
            text.row(row, speaker);
        });
        self.text = text.out;
        if self.text.len() > 1 << 16 {
            self.rows.out.rows(&self.text)?;
            self.text.clear();
        }
        Ok(())
    }

    fn speaker(&mut self, member: u32) -> Arc<Speaker> {
        let at = member as usize;
        if self.speakers.len() <= at {
            self.speakers.resize(at + 1, None);
        }
        let (merged, aliases) = (self.merged, &self.aliases);
        let new = || {
            let member = merged.origins.members.get(member);
            let who = who::who(merged, aliases, member);
            Arc::new(Speaker::new(who, member.nranks))
        };
        Arc::clone(self.speakers[at].get_or_insert_with(new))
    }
}
