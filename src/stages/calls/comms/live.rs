//! The rows of a pipe: a call's row is written as soon as its step is settled, in the order of the lines.
//!
//! One walk is all there is of a pipe, so calls are held as records until they can be written. The
//! last ones are written when the log has ended, and then its own steps are held against those that
//! were written: a later line may tell something else.

use super::filter::Watch;
use super::held::{Held, Pending};
use super::log::Wanted;
use super::records::{Gap, Seqs};
use super::text::{Speaker, Text};
use super::{Options, placed, reported};
use crate::count::calls::{Options as Read, Progress};
use crate::count::who;
use crate::error::{Error, Result};
use crate::formats::Tells;
use crate::formats::door::Known;
use crate::formats::log::placement::{Across, Recorder};
use crate::formats::log::propose;
use crate::formats::log::timeline::{Growing, Timeline};
use crate::formats::log::walk::{Call, Torn, Visit};
use crate::formats::log::{Log, Part};
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
) -> Result<Option<Known<(Recorder, Pending)>>> {
    let mut live = Live {
        read,
        now: Surveying::default(),
        growing: Growing::default(),
        ended: None,
        table: None,
        writer: Writer {
            read,
            options,
            out: Out {
                to: out,
                header: Some(options.form.header()),
            },
            held: Held::new(options.hold),
            seqs: Seqs::default(),
            made: Vec::new(),
            is_otherwise: false,
            watch: Watch::default(),
        },
        outcome: Ok(()),
    };
    let origins = std::slice::from_ref(origin);
    let new = || (Recorder::default(), Pending::default());
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
    table: Option<Known<(Recorder, Pending)>>,
    writer: Writer<'r>,
    outcome: Result<()>,
}

impl Stage for Live<'_> {
    const NEEDS: Tells = Tells::CALLS;
    type Visit = (Recorder, Pending);

    fn begin(&mut self, _: String) {
        self.now = Surveying::new(self.read, false);
    }

    fn add(&mut self, part: Part<'_, Self::Visit>) {
        let ((calls, pending), part) = part.taken();
        self.outcome = self.writer.add(pending, &part);
        self.now.add(calls, &part, self.read);
        if let (Some((log, _)), true) = (part.so_far, self.outcome.is_ok()) {
            if self.read.timeline.none {
                let (nothing, gap) = (Timeline::default(), |_, _| Gap::OfLine);
                self.outcome = self.writer.write(&nothing, part.merged, gap);
                return;
            }
            let timeline = log.growing(&mut self.growing, &self.read.timeline);
            let found = self.now.so_far(timeline, part.merged, u32::MAX);
            let gap = |process, number| match found.gap(process, number) {
                Some(gap) => Gap::Of(gap),
                None => Gap::Later,
            };
            if let Some(settled) = found.settled {
                self.outcome = self.writer.write(timeline, part.merged, gap);
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
        self.writer.turn(self.growing.timeline(), cuts);
        if let Some(before) = turn.before.map(|before| before.in_lines) {
            self.now.forget(before);
            self.growing.forget(before);
            log.forget(before);
        }
    }
}

impl Visit for Pending {
    #[inline(always)]
    fn call(&mut self, call: &Call<'_>) {
        self.records.call(call);
    }

    fn mark(&mut self) {
        self.records.mark();
    }

    fn slot(&mut self) {
        self.records.slot();
    }

    fn torn(&mut self, calls: &[Torn<'_>]) {
        self.records.torn(calls);
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

/// Writes rows.
struct Writer<'r> {
    read: &'r Read,
    options: &'r Options,
    out: Out<'r>,
    held: Held,
    seqs: Seqs,
    /// By process.
    made: Vec<Made>,
    /// Calls were written with other steps than are known now.
    is_otherwise: bool,
    watch: Watch,
}

impl Writer<'_> {
    fn add(&mut self, mut pending: Pending, part: &Part<'_, ()>) -> Result<()> {
        pending.records.follow(part.to, part.merged, &mut self.seqs);
        pending.records.wait(part.gap, part.to);
        match pending.records.len() {
            0 => Ok(()),
            _ => self.held.push(pending),
        }
    }

    /// True where no call waits from before the last turn.
    fn is_clear(&self, growing: &Growing) -> bool {
        let first = self.held.first_gap();
        first.is_none_or(|gap| growing.last_turn().is_none_or(|turn| gap > turn))
    }

    /// At a turn: holds the calls that were written before the last one against where they were made.
    fn turn<'c>(&mut self, timeline: &Timeline, cuts: impl Fn(u32) -> &'c [(u32, u32)]) {
        for (process, made) in (0..).zip(&mut self.made) {
            self.is_otherwise |= made.is_old_other(timeline, cuts(process));
            made.turn();
        }
    }

    /// Writes the rows of the calls that wait, up to the first whose gap is not known yet: `gap` gives
    /// it by the process and the number of its call.
    fn write(
        &mut self,
        timeline: &Timeline,
        merged: &Merged,
        gap: impl Fn(u32, u32) -> Gap,
    ) -> Result<()> {
        let mut out = Vec::new();
        let aliases = merged.aliases();
        let mut speakers: Vec<Option<Arc<Speaker>>> = Vec::new();
        let wanted = Wanted {
            read: self.read,
            filter: &self.options.filter,
            watch: &self.watch,
            timeline,
            timings: &[],
        };
        while let Some(pending) = self.held.first()? {
            let (from, made) = (pending.written, &mut self.made);
            pending.written = pending.records.place_from(from, |process| {
                let at = process as usize;
                if made.len() <= at {
                    made.resize(at + 1, Made::default());
                }
                let found = gap(process, made[at].calls);
                if let Gap::Of(gap) = found {
                    self.is_otherwise |= (gap as usize) < timeline.gaps.gone();
                }
                match found {
                    Gap::Of(gap) => made[at].add(timeline.step_of(gap as usize).map(|s| s.step)),
                    Gap::OfLine => made[at].add(None),
                    Gap::Later => {}
                }
                found
            });
            let own = pending.records.members().iter().map(|&member| {
                let at = member as usize;
                if speakers.len() <= at {
                    speakers.resize(at + 1, None);
                }
                let new = || {
                    let member = merged.origins.members.get(member);
                    let who = who::who(merged, &aliases, member);
                    Arc::new(Speaker::new(who, member.nranks))
                };
                Arc::clone(speakers[at].get_or_insert_with(new))
            });
            let own: Vec<Arc<Speaker>> = own.collect();
            let known = (&pending.records, &[][..], &own[..]);
            // What is written out once is of one chunk: it goes by the addresses of names.
            let mut text = Text::new(self.options.form, std::mem::take(&mut out));
            wanted.rows(known, from..pending.written, |row, speaker| {
                text.row(row, speaker);
            });
            out = text.out;
            if out.len() > 1 << 16 {
                self.out.rows(&out)?;
                out.clear();
            }
            if pending.written < pending.records.len() {
                break;
            }
            self.held.pop();
        }
        if !out.is_empty() {
            self.out.rows(&out)?;
        }
        self.out.to.flush().map_err(Error::Output)
    }

    /// The log has ended: writes the rest, and reports calls that were written with another step.
    fn end(mut self, survey: &Survey, merged: &Merged, report: &mut Report) -> Result<()> {
        let (timeline, placement) = (&*survey.timeline, &survey.placement);
        let before = self.made.clone();
        self.write(timeline, merged, |process, number| {
            let gap = placement.gap(process, number);
            gap.map_or(Gap::OfLine, Gap::Of)
        })?;
        self.out.rows(&[])?;
        let is_other = |(process, made): (u32, &Made)| {
            let cuts = placement.cuts_of(process);
            made.is_old_other(timeline, cuts) || made.is_other(timeline, cuts)
        };
        if self.is_otherwise || (0_u32..).zip(&before).any(is_other) {
            report.early();
        }
        placed(self.options, self.read, survey.placement.methods, report);
        self.watch.said(&self.options.filter, report);
        Ok(())
    }
}
