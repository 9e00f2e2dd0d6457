//! nccl-communicators: one row for each communicator, its members and its purpose.
//!
//! Chunks keep their calls ([`crate::count::tally`]) and their lines about communicators (`fold`). At
//! the merge these become *sides*: one process's view of one communicator, from the line that
//! begins it to the one that ends it. Sides of one id are a communicator (`identity`); what it is
//! for is read from where its members are and what they send (`label`, `traffic`).

mod facts;
mod fold;
mod identity;
mod kinds;
mod label;
mod purpose;
mod rows;
pub(crate) mod seat;
#[cfg(test)]
mod tests;
mod traffic;
pub(crate) mod view;
mod wire;

use crate::count::calls::{Calls, Options as Read, Progress, finished};
use crate::count::cells::Gathering;
use crate::count::notes;
use crate::count::rowed::Rowed;
use crate::count::tally;
use crate::count::tally::{Bag, Key, Pieces, Sizing, Tally};
use crate::error::Result;
use crate::formats::Tells;
use crate::formats::door::Known;
use crate::grammar::values::Basis;
use crate::log::placement::{Placed, Placement, Taken};
use crate::log::propose;
use crate::log::timeline::{self, Present, Timeline, Window};
use crate::log::{Log, Part};
use crate::members::comm_id::CommId;
use crate::members::{Identity, Member, Merged, Ops, Process, Renumbered};
use crate::pool;
use crate::report::Report;
use crate::source::Origin;
use crate::stages::net::all::First;
use crate::stages::{self, Stage};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

pub(crate) use fold::{Partial, Side, Sides, State};
pub(crate) use identity::{
    Communicator, Gpu, Key as Named, Told, Union, communicators, gpu, natural,
};
pub(crate) use kinds::Kind;
pub(crate) use purpose::Of;
pub use rows::{grid, look, members};

/// What the logs say about communicators.
#[derive(Debug, Default)]
pub struct Found {
    /// Operations by number.
    ops: Ops,
    /// The processes, by number.
    pub(crate) processes: Vec<Process>,
    /// The communicators, in the order they were first seen.
    pub(crate) communicators: Vec<Communicator>,
    /// The sides, by number.
    pub(crate) sides: Vec<Side>,
    /// Whose side a merged member's calls were made on.
    pub(crate) side_of: FxHashMap<u32, usize>,
    /// The inputs' names.
    pub inputs: Vec<String>,
    /// The communicators before some were united.
    apart: Option<Vec<Communicator>>,
}

impl Found {
    /// Takes back what was united: each communicator is what lines tell of it.
    pub(crate) fn part(&mut self) {
        if let Some(apart) = self.apart.take() {
            self.communicators = apart;
        }
    }

    /// Makes one communicator of sides that are each one of their own.
    pub(crate) fn unite(&mut self, nranks: u32, told: Told, mut sides: Vec<usize>) {
        let Some(&first) = sides.iter().min() else {
            return;
        };
        if self.apart.is_none() {
            self.apart = Some(self.communicators.clone());
        }
        let process = |at: usize| &self.processes[self.sides[at].process as usize];
        sides.sort_by_cached_key(|&at| {
            let process = process(at);
            (self.sides[at].rank, process.host.clone(), process.pid, at)
        });
        let all: FxHashSet<usize> = sides.iter().copied().collect();
        let is_one = |c: &Communicator| matches!(c.key, Named::Own(at) if all.contains(&at));
        // Where each is when they are one, the last.
        let rest = self.communicators.iter().filter(|c| !is_one(c)).count();
        let mut next = 0..rest;
        let place = |c: &Communicator| {
            let kept = (!is_one(c)).then(|| next.next());
            kept.flatten().unwrap_or(rest)
        };
        let places: Vec<usize> = self.communicators.iter().map(place).collect();
        self.communicators.retain(|c| !is_one(c));
        for communicator in &mut self.communicators {
            communicator.parent = communicator.parent.map(|parent| places[parent]);
        }
        self.communicators.push(Communicator {
            key: Named::Counted(first, told),
            sides,
            nranks: Some(nranks),
            ..Communicator::default()
        });
    }
}

/// What the counting tells apart: every call but its buffers, sizes to three digits.
pub(crate) fn tally_options(steps: bool) -> tally::Options {
    tally::Options {
        sizing: Sizing::Digits,
        basis: Basis::Api,
        members: true,
        datatypes: true,
        steps,
        exact: true,
        durations: false,
        served: false,
    }
}

/// Reads all `origins`, which must be logs.
///
/// # Errors
/// No input could be read, the window is not there, damage under `--strict`.
pub fn read(
    origins: &[Origin],
    read: &Read,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<Found> {
    let tally = tally_options(read.window.is_some());
    let mut stage = Reading {
        all: Gathered::new(&tally, origins.len(), read.log.jobs),
        present: Present::default(),
        read,
    };
    let new = || Partial::new(&tally);
    let merged = stages::read(&mut stage, origins, read, report, progress, new)?;
    let Reading {
        mut all, present, ..
    } = stage;
    if let Some(window) = &read.window {
        let missing = |text| propose::anew(text, &present, origins, read.source);
        present.check(window).map_err(missing)?;
    }
    progress.finish();
    all.rest(&merged, read.window.as_ref());
    let found = all.finish(&merged);
    notes(&found.sides, &found.communicators, report);
    Ok(found)
}

/// What was read so far.
struct Reading<'o> {
    all: Gathered,
    present: Present,
    read: &'o Read,
}

impl Stage for Reading<'_> {
    const NEEDS: Tells = Tells::MEMBERS;
    type Visit = Partial;

    fn begin(&mut self, name: String) {
        self.all.begin_input(name);
    }

    fn add(&mut self, part: Part<'_, Partial>) {
        self.all.add(part, &self.read.timeline);
    }

    fn end(&mut self, input: Known<Partial>, log: Log, merged: &Merged, report: &mut Report) {
        let timeline = log.timeline(&self.read.timeline);
        let window = self.read.window.as_ref();
        if window.is_some() {
            notes::said(&input.name(), &timeline, report);
        }
        self.present.add(&timeline);
        self.all.end_input(&timeline, merged, window);
    }
}

/// What the chunks of all inputs add up to.
#[derive(Debug, Serialize, Deserialize)]
pub struct Gathered {
    tally: Tally,
    sides: Sides,
    /// By merged member.
    calls: Bag<(), Key>,
    /// Steps of the input with the most.
    steps: u64,
    /// The inputs' names.
    inputs: Vec<String>,
    /// The calls by step, where that is asked for.
    #[serde(skip)]
    by_step: Option<ByStep>,
}

/// Calls by step.
#[derive(Debug)]
struct ByStep {
    /// What tells them apart: less than what tells calls apart over all steps.
    tally: tally::Options,
    calls: Gathering,
    has_steps: bool,
}

impl Gathered {
    /// Nothing read yet; the chunks are read with the same `tally`.
    pub(crate) fn new(tally: &tally::Options, inputs: usize, jobs: usize) -> Gathered {
        Gathered {
            tally: Tally::new(tally.clone(), inputs, jobs),
            sides: Sides::default(),
            calls: Bag::default(),
            steps: 0,
            inputs: Vec::new(),
            by_step: None,
        }
    }

    /// The same, that also counts calls by step as `tally` distinguishes them; the chunks tell steps
    /// apart.
    pub(crate) fn by_step(self, tally: &tally::Options) -> Gathered {
        let by_step = ByStep {
            tally: tally.clone(),
            calls: Gathering::default(),
            has_steps: false,
        };
        Gathered {
            by_step: Some(by_step),
            ..self
        }
    }

    /// Adds what was gathered elsewhere of inputs that come after these: both are between two inputs.
    /// `to` is how processes and members are numbered here. Calls that are not held any more have no
    /// step.
    pub fn merge(&mut self, other: Gathered, to: &Renumbered, window: Option<&Window>) {
        let ops = other.tally.ops.names();
        let ops: Vec<u32> = ops.map(|name| self.tally.ops.intern(name).0).collect();
        for (((), key), value) in other.calls.into_sorted() {
            let key = Key {
                op: ops[key.op as usize],
                member: to.members[key.member as usize],
                ..key
            };
            self.calls.push((), key, value);
        }
        let before = u32::try_from(self.inputs.len()).unwrap_or(u32::MAX);
        let here = |process: u32| to.processes[process as usize];
        self.sides.merge(other.sides, here, before);
        self.inputs.extend(other.inputs);
        self.steps = self.steps.max(other.steps);
        self.tally.merge(other.tally, to);
        let (calls, all) = (&mut self.calls, window.is_none());
        self.tally
            .drain(|_| all, |_, key, value| calls.push((), key, value));
    }

    /// The next input begins.
    pub(crate) fn begin_input(&mut self, name: String) {
        self.tally.clear();
        self.inputs.push(name);
    }

    /// Adds a chunk.
    pub(crate) fn add(&mut self, part: Part<'_, Partial>, steps: &timeline::Options) {
        let (visit, part) = part.taken();
        let (calls, heard) = visit.parts();
        let input = self.inputs.len().saturating_sub(1);
        let from = First {
            input: u32::try_from(input).unwrap_or(u32::MAX),
            line: part.line,
        };
        self.sides.add(heard, part.to, from, part.merged);
        self.tally.add(part.with(calls), steps);
    }

    /// The input is read: its calls in `window` count. Gives where they were made, if the chunks tell
    /// steps apart.
    pub(crate) fn end_input(
        &mut self,
        timeline: &Timeline,
        merged: &Merged,
        window: Option<&Window>,
    ) -> (Placement, Taken) {
        let inside = |step: &&timeline::Step| window.is_none_or(|w| w.contains(step.step));
        let steps = timeline.steps.iter().filter(inside).map(|s| s.steps);
        let steps = steps.fold(0, u64::saturating_add);
        self.steps = self.steps.max(steps);
        let wanted = |gap: usize| wants(window, timeline, gap);
        let placed = self.tally.end((timeline, merged), wanted);
        self.take(timeline, window);
        placed
    }

    /// The input had so many steps: of a long one not all are known when it ends.
    pub(crate) fn ran(&mut self, steps: u64) {
        self.steps = self.steps.max(steps);
    }

    /// Takes what the tally has counted.
    fn take(&mut self, timeline: &Timeline, window: Option<&Window>) {
        let (calls, by_step) = (&mut self.calls, &mut self.by_step);
        let (finer, jobs) = (self.tally.options().clone(), self.tally.jobs());
        let to = by_step.as_ref().map(|by_step| by_step.tally.clone());
        if let Some(by_step) = by_step {
            by_step.calls.next_input();
            by_step.has_steps |= !timeline.steps.is_empty();
        }
        let wanted = |gap: usize| wants(window, timeline, gap);
        let step_of = |gap: usize| timeline.step_of(gap).map(timeline::Step::key);
        let chunks = self.tally.gaps(wanted, |gap, key, value| {
            calls.push((), key, value);
            if let Some(by_step) = by_step {
                let key = by_step.tally.coarser(&finer, &key);
                by_step.calls.push(step_of(gap), key, value);
            }
        });
        // There may be a count for every few calls: they add up where they are, on all cores.
        let added = |pieces: Pieces<usize>| {
            let pieces = pieces.renamed(|gap| wanted(gap).then(|| step_of(gap)));
            let mut wide = Vec::new();
            let coarse = to.as_ref().map(|to| {
                let add = |step, key, value| wide.push((step, key, value));
                pieces.changed(|key| to.coarser(&finer, key), add)
            });
            (pieces.over_all().collect::<Vec<_>>(), coarse, wide)
        };
        let sink = |(all, coarse, wide): (Vec<_>, Option<_>, Vec<_>)| {
            for (key, value) in all {
                calls.push((), key, value);
            }
            if let (Some(by_step), Some(coarse)) = (by_step.as_mut(), coarse) {
                by_step.calls.pieces(coarse);
                for (step, key, value) in wide {
                    by_step.calls.push(step, key, value);
                }
            }
            Ok(())
        };
        // The sink does not fail.
        let _ = pool::ordered(jobs, chunks.into_iter(), added, sink);
    }

    /// All inputs are read: the calls in `window` count that were held until now. Gives where these
    /// were made.
    pub(crate) fn rest(&mut self, merged: &Merged, window: Option<&Window>) -> Option<Placed> {
        let wanted = |timeline: &Timeline, gap: usize| wants(window, timeline, gap);
        let placed = self.tally.held(merged, wanted)?;
        self.take(&placed.timeline, window);
        Some(placed)
    }

    /// The calls by step; `None` where that was not asked for.
    pub(crate) fn steps(&mut self, merged: &Merged) -> Option<Calls> {
        let ByStep {
            tally,
            calls,
            has_steps,
        } = self.by_step.take()?;
        let ops = self.tally.ops.clone();
        let none = Rowed::new(&tally, None);
        Some(finished(&tally, merged, (ops, calls), none, has_steps))
    }

    /// The calls over all steps, as `tally` distinguishes them: not further than the chunks did.
    pub(crate) fn counted(&self, tally: &tally::Options, merged: &Merged) -> Calls {
        let (ops, finer) = (self.tally.ops.clone(), self.tally.options());
        let mut calls = Gathering::default();
        for (((), key), value) in self.calls.clone().into_sorted() {
            calls.push(None, tally.coarser(finer, &key), value);
        }
        let none = Rowed::new(tally, None);
        finished(tally, merged, (ops, calls), none, false)
    }

    /// The sides that lines tell of, without what calls were made on them.
    pub(crate) fn told(&self, merged: &Merged) -> Vec<Side> {
        real(self.sides.list.clone(), &merged.aliases())
    }

    /// Who is in which communicator, and what it is for.
    pub(crate) fn finish(mut self, merged: &Merged) -> Found {
        let finer = self.tally.options().clone();
        let own = tally_options(false);
        self.calls.change(|key| *key = own.coarser(&finer, key));
        let ops = self.tally.ops;
        Found {
            inputs: self.inputs,
            ..found(self.sides, self.calls, merged, ops, self.steps)
        }
    }
}

/// True for a gap whose calls count.
fn wants(window: Option<&Window>, timeline: &Timeline, gap: usize) -> bool {
    let step = || timeline.step_of(gap).map(|s| s.step);
    window.is_none_or(|w| step().is_some_and(|s| w.contains(s)))
}

/// The communicators of what was gathered: `calls` by merged member, of `steps` steps (0: not
/// known).
pub(crate) fn found(
    sides: Sides,
    calls: Bag<(), Key>,
    merged: &Merged,
    ops: Ops,
    steps: u64,
) -> Found {
    let aliases = merged.aliases();
    let mut sides = real(sides.list, &aliases);
    let side_of = attribute(&mut sides, calls, merged, &aliases);
    let processes = merged.origins.processes.items().to_vec();
    let mut communicators = communicators(&sides);
    identity::place(&mut communicators, &sides, &processes);
    label::label(&mut communicators, &sides, &ops, steps);
    Found {
        ops,
        processes,
        communicators,
        sides,
        side_of,
        inputs: Vec::new(),
        apart: None,
    }
}

/// The sides with the processes they really are of. Two accounts of one side, by a process's name
/// and by one with bytes glued to it, become one.
pub(crate) fn real(list: Vec<Side>, aliases: &[u32]) -> Vec<Side> {
    let mut sides: Vec<Side> = Vec::with_capacity(list.len());
    let mut at: Vec<usize> = Vec::with_capacity(list.len());
    let mut known: FxHashMap<(u32, u64, CommId), usize> = FxHashMap::default();
    for mut side in list {
        let glued = aliases[side.process as usize] != side.process;
        side.process = aliases[side.process as usize];
        side.parent = side.parent.and_then(|parent| at.get(parent).copied());
        let key = side.comm_id.map(|id| (side.process, side.comm, id));
        let twin = key.and_then(|key| known.get(&key).copied());
        if let Some(twin) = twin
            && (glued || sides[twin].rank == side.rank)
        {
            at.push(twin);
            sides[twin].absorb(side);
            continue;
        }
        let here = sides.len();
        if let Some(key) = key {
            known.insert(key, here);
        }
        at.push(here);
        sides.push(side);
    }
    sides
}

/// Gives each call to the side it was made on. A call whose side is not known, or may be one of
/// several, makes a side of its own. Returns the sides by merged member.
fn attribute(
    sides: &mut Vec<Side>,
    calls: Bag<(), Key>,
    merged: &Merged,
    aliases: &[u32],
) -> FxHashMap<u32, usize> {
    let mut by_address: FxHashMap<(u32, u64), Vec<usize>> = FxHashMap::default();
    for (at, side) in sides.iter().enumerate() {
        let lives = by_address.entry((side.process, side.comm)).or_default();
        lives.push(at);
    }
    let mut own: FxHashMap<(u32, u64, Option<Identity>), usize> = FxHashMap::default();
    let mut side_of: FxHashMap<u32, usize> = FxHashMap::default();
    for (((), key), value) in calls.into_sorted() {
        let at = *side_of.entry(key.member).or_insert_with(|| {
            let member = merged.origins.members.get(key.member);
            let process = aliases[merged.origins.places.get(member.place).process as usize];
            let identity = merged.identity_as(member, process);
            let lives = by_address.get(&(process, member.comm));
            if let Some(identity) = identity
                && let Some(at) = sole(lives.into_iter().flatten(), sides, &identity)
            {
                return at;
            }
            *own.entry((process, member.comm, identity))
                .or_insert_with(|| {
                    sides.push(unnamed(process, member, identity));
                    sides.len() - 1
                })
        });
        sides[at].uses.push((key, value));
    }
    side_of
}

/// The one life of an address that is known as `identity`.
fn sole<'s>(
    lives: impl Iterator<Item = &'s usize>,
    sides: &[Side],
    identity: &Identity,
) -> Option<usize> {
    let is = |&&at: &&usize| {
        let side = &sides[at];
        let ids = side.comm_id.zip(identity.comm_id);
        (side.rank, side.nranks) == (Some(identity.rank), Some(identity.nranks))
            && ids.is_none_or(|(a, b)| a == b)
    };
    let mut those = lives.filter(is);
    match (those.next(), those.next()) {
        (Some(&at), None) => Some(at),
        _ => None,
    }
}

/// A side that only calls name, or an INIT line that was torn.
fn unnamed(process: u32, member: &Member, identity: Option<Identity>) -> Side {
    Side {
        process,
        comm: member.comm,
        rank: identity.map(|i| i.rank),
        nranks: identity.map(|i| i.nranks).or(member.nranks),
        comm_id: identity.and_then(|i| i.comm_id),
        ..Side::default()
    }
}

/// Says what is missing, and how to have it the next time.
fn notes(sides: &[Side], all: &[Communicator], report: &mut Report) {
    const SETTING: &str = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL";
    let calls = sides.iter().map(Side::calls).sum::<u64>();
    let unknown = all.iter().filter(|c| matches!(c.key, Named::Own(_)));
    let unknown: Vec<&Side> = unknown
        .flat_map(|c| &c.sides)
        .map(|&at| &sides[at])
        .collect();
    let without = unknown.iter().filter(|side| side.rank.is_none()).count();
    if all.is_empty() && report.total().lines > 0 {
        report.warn(&format!(
            "the log names no communicators; NCCL prints them under {SETTING}"
        ));
    } else if without > 0 {
        report.note(&format!(
            "{without} of {} rows are only one process's address: the log has no INIT line for it, \
             so its members are unknown; rerun with {SETTING}",
            all.len()
        ));
    } else if !unknown.is_empty() {
        report.note(&format!(
            "{} of {} rows are one process's side: their INIT lines have no commId (NCCL prints it \
             since 2.18), so the members of a communicator are unknown",
            unknown.len(),
            all.len()
        ));
    } else if calls == 0 {
        report.note(&format!(
            "the log has no calls, so the labels are unknown; rerun with {SETTING}"
        ));
    }
}
