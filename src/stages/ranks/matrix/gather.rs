//! One walk over all inputs: their calls, who is in which communicator, rings and trees, copies.

use super::copies::Copies;
use crate::count::calls::{Calls, Options as Read, Progress, finished};
use crate::count::cells::Gathering;
use crate::count::notes;
use crate::count::rowed::Rowed;
use crate::count::tally::{self, Sizing};
use crate::error::Result;
use crate::formats::Tells;
use crate::formats::door::{self, Known};
use crate::log::placement::Methods;
use crate::log::timeline::{Present, Step, Timeline};
use crate::log::{Log, Part};
use crate::members::{Merged, Process};
use crate::report::Report;
use crate::source::Origin;
use crate::stages::Stage;
use crate::stages::communicators::{self, Side};
use crate::stages::kept::{Kept, Partial};
use crate::stages::net::Net;
use crate::stages::tuning::all::All as Tuning;
use std::path::PathBuf;

/// What distinguishes calls.
pub(crate) fn tally(steps: bool) -> tally::Options {
    tally::Options {
        sizing: Sizing::Count,
        ..communicators::tally_options(steps)
    }
}

/// What all inputs tell.
pub(super) struct Found {
    pub(super) calls: Calls,
    /// Each process's view of its communicators.
    pub(super) sides: Vec<Side>,
    pub(super) processes: Vec<Process>,
    pub(super) net: Net,
    pub(super) tuning: Tuning,
    /// Of each input that has some.
    pub(super) copies: Vec<Copies>,
}

pub(super) struct Gather<'o> {
    read: &'o Read,
    options: &'o tally::Options,
    kept: Kept,
    /// By merged member.
    logged: Gathering,
    /// The calls of tables.
    rows: Rowed,
    pub(super) present: Present,
    pub(super) methods: Methods,
    copies: Vec<Copies>,
    /// Records of GPUs of which a log inside was read.
    around: Vec<Origin>,
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
        if log.account.calls == 0 && log.account.lines > 0 && !input.input().is_inside() {
            door::no_calls(&input.name(), log.account.lines, report);
        }
        if input.input().is_inside() {
            self.around.push(Origin::Path(PathBuf::from(input.name())));
        }
        let mut timeline = Timeline::default();
        if self.options.steps {
            timeline = log.timeline(&self.read.timeline);
            notes::said(&input.name(), &timeline, report);
            self.present.add(&timeline);
            let wanted = |gap: usize| self.read.wants(&timeline, gap);
            let methods = self.kept.tally.place(&timeline, merged, wanted);
            self.methods.add(methods);
        }
        self.counted(&timeline);
    }

    /// Counts the calls of a table, and takes the copies of a record of GPUs.
    fn other(
        &mut self,
        mut input: Known<Partial>,
        merged: &mut Merged,
        report: &mut Report,
        progress: &dyn Progress,
    ) -> Result<()> {
        let has_copies = input.tells(Tells::GPU);
        if has_copies {
            input = input.rewindable()?;
        }
        let (options, window) = (self.options, self.read.window);
        let (rows, ops) = (&mut self.rows, &mut self.kept.tally.ops);
        let account = input.records(
            (&self.read.log).into(),
            &mut merged.twice,
            || Rowed::new(options, window),
            |bytes| progress.advance(bytes),
            |part| {
                rows.merge(part, ops);
                Ok(())
            },
        )?;
        report.input(&input.name(), &account);
        if has_copies {
            self.copied(&input.rewound()?, report)?;
        }
        Ok(())
    }
}

impl<'o> Gather<'o> {
    /// Nothing of so many inputs yet.
    pub(super) fn new(read: &'o Read, options: &'o tally::Options, inputs: usize) -> Gather<'o> {
        Gather {
            read,
            options,
            kept: Kept::new(options.clone(), inputs, read.log.jobs),
            logged: Gathering::default(),
            rows: Rowed::new(options, read.window),
            present: Present::default(),
            methods: Methods::default(),
            copies: Vec::new(),
            around: Vec::new(),
        }
    }

    /// Takes the copies of a record of GPUs.
    fn copied<V>(&mut self, input: &Known<V>, report: &Report) -> Result<()> {
        let mut copies = Copies::default();
        input.gpu(&mut copies)?;
        for note in &copies.notes {
            report.note(&format!("{}: {note}", input.name()));
        }
        self.copies.push(copies);
        Ok(())
    }

    /// Takes the copies of records whose calls are in the log inside.
    ///
    /// # Errors
    /// One cannot be read any more.
    pub(super) fn copies_beside_logs(&mut self, read: &Read, report: &Report) -> Result<()> {
        for origin in std::mem::take(&mut self.around) {
            let known = door::open::<()>(&origin, read.source, Tells::GPU)?;
            self.copied(&known, report)?;
        }
        Ok(())
    }

    /// All inputs are read: adds the calls that were held until now.
    pub(super) fn rest(&mut self, merged: &Merged) {
        let wanted = |timeline: &Timeline, gap: usize| self.read.wants(timeline, gap);
        if let Some((timeline, methods)) = self.kept.tally.rest(merged, wanted) {
            self.methods.add(methods);
            self.counted(&timeline);
        }
        self.present.merge(&self.rows.present);
    }

    /// Adds what the tally has counted.
    fn counted(&mut self, timeline: &Timeline) {
        let step_of = |gap: usize| timeline.step_of(gap).map(Step::key);
        let logged = &mut self.logged;
        logged.next_input();
        self.kept.tally.drain(
            |gap| self.read.wants(timeline, gap),
            |gap, key, value| logged.push(step_of(gap), key, value),
        );
    }

    pub(super) fn finish(mut self, merged: &Merged) -> Found {
        self.kept.tuning.end(merged);
        let has_steps = !self.present.is_empty();
        let ops = (self.kept.tally.ops, self.logged);
        let calls = finished(self.options, merged, ops, self.rows, has_steps);
        Found {
            calls,
            sides: communicators::real(self.kept.sides.list, &merged.aliases()),
            processes: merged.origins.processes.items().to_vec(),
            net: Net::of(self.kept.net, merged),
            tuning: self.kept.tuning,
            copies: self.copies,
        }
    }
}
