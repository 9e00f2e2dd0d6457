//! nccl-communicators: one row for each communicator, its members and its purpose.
//!
//! Chunks keep their calls ([`crate::count::tally`]) and their lines about communicators (`fold`). The
//! merge turns them into *sides*: one process's view of one communicator, from its first line to its last.
//! Sides of one id are a communicator (`identity`); its purpose follows from its members' places and their
//! traffic (`purpose_rules`, `traffic`).

mod facts;
mod fold;
mod identity;
mod kinds;
pub(crate) mod member;
mod purpose;
mod purpose_rules;
mod rows;
#[cfg(test)]
mod tests;
mod traffic;
pub(crate) mod view;
mod wire_bytes;

use crate::count::calls::{CountedCalls, Options as Read, Progress, finish_counts};
use crate::count::cells::CellGatherer;
use crate::count::notes;
use crate::count::row_counts::RowCounts;
use crate::count::tally;
use crate::count::tally::{CallKey, ChunkCounts, SizeKey, SortBuffer, Tally};
use crate::error::Result;
use crate::formats::Provides;
use crate::formats::open::OpenInput;
use crate::grammar::values::ByteBasis;
use crate::log::placement::{PlacedCalls, Placement, TakenInput};
use crate::log::propose;
use crate::log::timeline::{self, PresentSteps, StepTimeline, StepWindow};
use crate::log::{LogState, MergedChunk};
use crate::members::comm_id::CommId;
use crate::members::{
    CommIdentity, MergedMembers, MergedNumbers, OpInterner, SpeakerComm, SpeakerProcess,
};
use crate::pool;
use crate::report::Report;
use crate::source::InputName;
use crate::stages::net::net_stage::FirstReportLine;
use crate::stages::{self, InputStage};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

pub(crate) use fold::{
    CommunicatorSide, CommunicatorSides, CommunicatorState, CommunicatorsPartial,
};
pub(crate) use identity::{
    CommunicatorKey as Named, CountingEvidence, DisjointSets, JobGpu, MergedCommunicator,
    gpu_of_side, group_sides, natural_sort_key,
};
pub(crate) use kinds::CommunicatorKind;
pub(crate) use purpose::CommunicatorPurpose;
pub use rows::{build_communicator_grid, build_member_grid, build_terminal_grid};

/// Communicators of all logs.
#[derive(Debug, Default)]
pub struct CommunicatorsSummary {
    /// Operations by number.
    ops: OpInterner,
    /// The processes, by number.
    pub(crate) processes: Vec<SpeakerProcess>,
    /// The communicators, in the order they were first seen.
    pub(crate) communicators: Vec<MergedCommunicator>,
    /// The sides, by number.
    pub(crate) sides: Vec<CommunicatorSide>,
    /// The side on which a merged member makes its calls.
    pub(crate) side_of: FxHashMap<u32, usize>,
    /// The inputs' names.
    pub inputs: Vec<String>,
    /// The communicators before some were united.
    apart: Option<Vec<MergedCommunicator>>,
}

impl CommunicatorsSummary {
    /// Undoes unions: each communicator is again as its lines show it.
    pub(crate) fn undo_unions(&mut self) {
        if let Some(apart) = self.apart.take() {
            self.communicators = apart;
        }
    }

    /// Unites sides that are each a communicator of their own.
    pub(crate) fn unite_sides(
        &mut self,
        nranks: u32,
        told: CountingEvidence,
        mut sides: Vec<usize>,
    ) {
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
        let is_one = |c: &MergedCommunicator| matches!(c.key, Named::Own(at) if all.contains(&at));
        // The place of each communicator afterwards; the united one is last.
        let rest = self.communicators.iter().filter(|c| !is_one(c)).count();
        let mut next = 0..rest;
        let place = |c: &MergedCommunicator| {
            let kept = (!is_one(c)).then(|| next.next());
            kept.flatten().unwrap_or(rest)
        };
        let places: Vec<usize> = self.communicators.iter().map(place).collect();
        self.communicators.retain(|c| !is_one(c));
        for communicator in &mut self.communicators {
            communicator.parent = communicator.parent.map(|parent| places[parent]);
        }
        self.communicators.push(MergedCommunicator {
            key: Named::Counted(first, told),
            sides,
            nranks: Some(nranks),
            ..MergedCommunicator::default()
        });
    }
}

/// Returns how calls are distinguished: by everything but their buffers, with sizes to three digits.
pub(crate) fn tally_options(steps: bool) -> tally::Options {
    tally::Options {
        sizing: SizeKey::Digits,
        basis: ByteBasis::Api,
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
pub fn read_communicators(
    origins: &[InputName],
    read: &Read,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<CommunicatorsSummary> {
    let tally = tally_options(read.window.is_some());
    let mut stage = CommunicatorsStage {
        all: CommunicatorTotals::new(&tally, origins.len(), read.log.jobs),
        present: PresentSteps::default(),
        read,
    };
    let new = || CommunicatorsPartial::new(&tally);
    let merged = stages::read_stage(&mut stage, origins, read, report, progress, new)?;
    let CommunicatorsStage {
        mut all, present, ..
    } = stage;
    if let Some(window) = &read.window {
        let missing =
            |text| propose::reopened_missing_steps_error(text, &present, origins, read.source);
        present.check_window(window).map_err(missing)?;
    }
    progress.finish();
    all.take_rest(&merged, read.window.as_ref());
    let found = all.finish(&merged);
    report_missing(&found.sides, &found.communicators, report);
    Ok(found)
}

/// The stage.
struct CommunicatorsStage<'o> {
    all: CommunicatorTotals,
    present: PresentSteps,
    read: &'o Read,
}

impl InputStage for CommunicatorsStage<'_> {
    const NEEDS: Provides = Provides::MEMBERS;
    type Visit = CommunicatorsPartial;

    fn begin_input(&mut self, name: String) {
        self.all.begin_input(name);
    }

    fn add_chunk(&mut self, part: MergedChunk<'_, CommunicatorsPartial>) {
        self.all.add_chunk(part, &self.read.timeline);
    }

    fn end_input(
        &mut self,
        input: OpenInput<CommunicatorsPartial>,
        log: LogState,
        merged: &MergedMembers,
        report: &mut Report,
    ) {
        let timeline = log.build_timeline(&self.read.timeline);
        let window = self.read.window.as_ref();
        if window.is_some() {
            notes::report_step_notes(&input.name(), &timeline, report);
        }
        self.present.add_timeline(&timeline);
        self.all.end_input(&timeline, merged, window);
    }
}

/// What the chunks of all inputs add up to.
#[derive(Debug, Serialize, Deserialize)]
pub struct CommunicatorTotals {
    tally: Tally,
    sides: CommunicatorSides,
    /// By merged member.
    calls: SortBuffer<(), CallKey>,
    /// Steps of the input with the most.
    steps: u64,
    /// The inputs' names.
    inputs: Vec<String>,
    /// The calls by step, where that is asked for.
    #[serde(skip)]
    by_step: Option<CommunicatorStepCalls>,
}

/// Calls by step.
#[derive(Debug)]
struct CommunicatorStepCalls {
    /// What tells them apart: less than what tells calls apart over all steps.
    tally: tally::Options,
    calls: CellGatherer,
    has_steps: bool,
}

impl CommunicatorTotals {
    /// Nothing read yet; the chunks are read with the same `tally`.
    pub(crate) fn new(tally: &tally::Options, inputs: usize, jobs: usize) -> CommunicatorTotals {
        CommunicatorTotals {
            tally: Tally::new(tally.clone(), inputs, jobs),
            sides: CommunicatorSides::default(),
            calls: SortBuffer::default(),
            steps: 0,
            inputs: Vec::new(),
            by_step: None,
        }
    }

    /// The same, that also counts calls by step as `tally` distinguishes them; the chunks tell steps
    /// apart.
    pub(crate) fn with_steps(self, tally: &tally::Options) -> CommunicatorTotals {
        let by_step = CommunicatorStepCalls {
            tally: tally.clone(),
            calls: CellGatherer::default(),
            has_steps: false,
        };
        CommunicatorTotals {
            by_step: Some(by_step),
            ..self
        }
    }

    /// Adds what was gathered elsewhere of inputs that come after these: both are between two inputs.
    /// `to` is how processes and members are numbered here. Calls that are not held any more have no
    /// step.
    pub fn merge(
        &mut self,
        other: CommunicatorTotals,
        to: &MergedNumbers,
        window: Option<&StepWindow>,
    ) {
        let ops = other.tally.ops.op_names();
        let ops: Vec<u32> = ops.map(|name| self.tally.ops.intern(name).0).collect();
        for (((), key), value) in other.calls.into_sorted() {
            let key = CallKey {
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
            .drain_wanted(|_| all, |_, key, value| calls.push((), key, value));
    }

    /// The next input begins.
    pub(crate) fn begin_input(&mut self, name: String) {
        self.tally.clear();
        self.inputs.push(name);
    }

    /// Adds a chunk.
    pub(crate) fn add_chunk(
        &mut self,
        part: MergedChunk<'_, CommunicatorsPartial>,
        steps: &timeline::Options,
    ) {
        let (visit, part) = part.take_visit();
        let (calls, heard) = visit.into_parts();
        let input = self.inputs.len().saturating_sub(1);
        let from = FirstReportLine {
            input: u32::try_from(input).unwrap_or(u32::MAX),
            line: part.line,
        };
        self.sides.add_lines(heard, part.to, from, part.merged);
        self.tally.add_chunk(part.with_visit(calls), steps);
    }

    /// The input is read: its calls in `window` count. Gives where they were made, if the chunks tell
    /// steps apart.
    pub(crate) fn end_input(
        &mut self,
        timeline: &StepTimeline,
        merged: &MergedMembers,
        window: Option<&StepWindow>,
    ) -> (Placement, TakenInput) {
        let inside = |step: &&timeline::TrainStep| window.is_none_or(|w| w.contains(step.step));
        let steps = timeline.steps.iter().filter(inside).map(|s| s.steps);
        let steps = steps.fold(0, u64::saturating_add);
        self.steps = self.steps.max(steps);
        let wanted = |gap: usize| is_gap_wanted(window, timeline, gap);
        let placed = self.tally.end_input((timeline, merged), wanted);
        self.take_tally(timeline, window);
        placed
    }

    /// The input had so many steps: of a long one not all are known when it ends.
    pub(crate) fn note_steps(&mut self, steps: u64) {
        self.steps = self.steps.max(steps);
    }

    /// Takes what the tally has counted.
    fn take_tally(&mut self, timeline: &StepTimeline, window: Option<&StepWindow>) {
        let (calls, by_step) = (&mut self.calls, &mut self.by_step);
        let (finer, jobs) = (self.tally.options().clone(), self.tally.jobs());
        let to = by_step.as_ref().map(|by_step| by_step.tally.clone());
        if let Some(by_step) = by_step {
            by_step.calls.next_input();
            by_step.has_steps |= !timeline.steps.is_empty();
        }
        let wanted = |gap: usize| is_gap_wanted(window, timeline, gap);
        let step_of = |gap: usize| timeline.step_of(gap).map(timeline::TrainStep::key);
        let chunks = self.tally.drain_gaps(wanted, |gap, key, value| {
            calls.push((), key, value);
            if let Some(by_step) = by_step {
                let key = by_step.tally.coarsen_key(&finer, &key);
                by_step.calls.push(step_of(gap), key, value);
            }
        });
        // There may be a count for every few calls: they add up where they are, on all cores.
        let added = |pieces: ChunkCounts<usize>| {
            let pieces = pieces.rename_stretches(|gap| wanted(gap).then(|| step_of(gap)));
            let mut wide = Vec::new();
            let coarse = to.as_ref().map(|to| {
                let add = |step, key, value| wide.push((step, key, value));
                pieces.change_keys(|key| to.coarsen_key(&finer, key), add)
            });
            (
                pieces.sum_over_stretches().collect::<Vec<_>>(),
                coarse,
                wide,
            )
        };
        let sink = |(all, coarse, wide): (Vec<_>, Option<_>, Vec<_>)| {
            for (key, value) in all {
                calls.push((), key, value);
            }
            if let (Some(by_step), Some(coarse)) = (by_step.as_mut(), coarse) {
                by_step.calls.push_chunk(coarse);
                for (step, key, value) in wide {
                    by_step.calls.push(step, key, value);
                }
            }
            Ok(())
        };
        // The sink does not fail.
        let _ = pool::map_in_order(jobs, chunks.into_iter(), added, sink);
    }

    /// All inputs are read: the calls in `window` count that were held until now. Gives where these
    /// were made.
    pub(crate) fn take_rest(
        &mut self,
        merged: &MergedMembers,
        window: Option<&StepWindow>,
    ) -> Option<PlacedCalls> {
        let wanted = |timeline: &StepTimeline, gap: usize| is_gap_wanted(window, timeline, gap);
        let placed = self.tally.place_held(merged, wanted)?;
        self.take_tally(&placed.timeline, window);
        Some(placed)
    }

    /// The calls by step; `None` where that was not asked for.
    pub(crate) fn take_calls_by_step(&mut self, merged: &MergedMembers) -> Option<CountedCalls> {
        let CommunicatorStepCalls {
            tally,
            calls,
            has_steps,
        } = self.by_step.take()?;
        let ops = self.tally.ops.clone();
        let none = RowCounts::new(&tally, None);
        Some(finish_counts(&tally, merged, (ops, calls), none, has_steps))
    }

    /// The calls over all steps, as `tally` distinguishes them: not further than the chunks did.
    pub(crate) fn count_calls_by(
        &self,
        tally: &tally::Options,
        merged: &MergedMembers,
    ) -> CountedCalls {
        let (ops, finer) = (self.tally.ops.clone(), self.tally.options());
        let mut calls = CellGatherer::default();
        for (((), key), value) in self.calls.clone().into_sorted() {
            calls.push(None, tally.coarsen_key(finer, &key), value);
        }
        let none = RowCounts::new(tally, None);
        finish_counts(tally, merged, (ops, calls), none, false)
    }

    /// The sides that lines tell of, without what calls were made on them.
    pub(crate) fn sides_from_lines(&self, merged: &MergedMembers) -> Vec<CommunicatorSide> {
        resolve_processes(self.sides.list.clone(), &merged.process_aliases())
    }

    /// Who is in which communicator, and what it is for.
    pub(crate) fn finish(mut self, merged: &MergedMembers) -> CommunicatorsSummary {
        let finer = self.tally.options().clone();
        let own = tally_options(false);
        self.calls
            .change_keys(|key| *key = own.coarsen_key(&finer, key));
        let ops = self.tally.ops;
        CommunicatorsSummary {
            inputs: self.inputs,
            ..build_communicators(self.sides, self.calls, merged, ops, self.steps)
        }
    }
}

/// True for a gap whose calls count.
fn is_gap_wanted(window: Option<&StepWindow>, timeline: &StepTimeline, gap: usize) -> bool {
    let step = || timeline.step_of(gap).map(|s| s.step);
    window.is_none_or(|w| step().is_some_and(|s| w.contains(s)))
}

/// The communicators of what was gathered: `calls` by merged member, of `steps` steps (0: not
/// known).
pub(crate) fn build_communicators(
    sides: CommunicatorSides,
    calls: SortBuffer<(), CallKey>,
    merged: &MergedMembers,
    ops: OpInterner,
    steps: u64,
) -> CommunicatorsSummary {
    let aliases = merged.process_aliases();
    let mut sides = resolve_processes(sides.list, &aliases);
    let side_of = attribute_calls(&mut sides, calls, merged, &aliases);
    let processes = merged.origins.processes.items().to_vec();
    let mut communicators = group_sides(&sides);
    identity::place_in_job(&mut communicators, &sides, &processes);
    purpose_rules::label_communicators(&mut communicators, &sides, &ops, steps);
    CommunicatorsSummary {
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
pub(crate) fn resolve_processes(
    list: Vec<CommunicatorSide>,
    aliases: &[u32],
) -> Vec<CommunicatorSide> {
    let mut sides: Vec<CommunicatorSide> = Vec::with_capacity(list.len());
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
            sides[twin].merge_account(side);
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
fn attribute_calls(
    sides: &mut Vec<CommunicatorSide>,
    calls: SortBuffer<(), CallKey>,
    merged: &MergedMembers,
    aliases: &[u32],
) -> FxHashMap<u32, usize> {
    let mut by_address: FxHashMap<(u32, u64), Vec<usize>> = FxHashMap::default();
    for (at, side) in sides.iter().enumerate() {
        let lives = by_address.entry((side.process, side.comm)).or_default();
        lives.push(at);
    }
    let mut own: FxHashMap<(u32, u64, Option<CommIdentity>), usize> = FxHashMap::default();
    let mut side_of: FxHashMap<u32, usize> = FxHashMap::default();
    for (((), key), value) in calls.into_sorted() {
        let at = *side_of.entry(key.member).or_insert_with(|| {
            let member = merged.origins.members.get(key.member);
            let process = aliases[merged.origins.places.get(member.place).process as usize];
            let identity = merged.identity_as(member, process);
            let lives = by_address.get(&(process, member.comm));
            if let Some(identity) = identity
                && let Some(at) = find_only_life(lives.into_iter().flatten(), sides, &identity)
            {
                return at;
            }
            *own.entry((process, member.comm, identity))
                .or_insert_with(|| {
                    sides.push(make_unnamed_side(process, member, identity));
                    sides.len() - 1
                })
        });
        sides[at].uses.push((key, value));
    }
    side_of
}

/// The one life of an address that is known as `identity`.
fn find_only_life<'s>(
    lives: impl Iterator<Item = &'s usize>,
    sides: &[CommunicatorSide],
    identity: &CommIdentity,
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
fn make_unnamed_side(
    process: u32,
    member: &SpeakerComm,
    identity: Option<CommIdentity>,
) -> CommunicatorSide {
    CommunicatorSide {
        process,
        comm: member.comm,
        rank: identity.map(|i| i.rank),
        nranks: identity.map(|i| i.nranks).or(member.nranks),
        comm_id: identity.and_then(|i| i.comm_id),
        ..CommunicatorSide::default()
    }
}

/// Says what is missing, and how to have it the next time.
fn report_missing(sides: &[CommunicatorSide], all: &[MergedCommunicator], report: &mut Report) {
    const COMMUNICATORS_RERUN_SETTING: &str = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL";
    let calls = sides.iter().map(CommunicatorSide::count_calls).sum::<u64>();
    let unknown = all.iter().filter(|c| matches!(c.key, Named::Own(_)));
    let unknown: Vec<&CommunicatorSide> = unknown
        .flat_map(|c| &c.sides)
        .map(|&at| &sides[at])
        .collect();
    let without = unknown.iter().filter(|side| side.rank.is_none()).count();
    if all.is_empty() && report.total_account().lines > 0 {
        report.warn(&format!(
            "the log names no communicators; NCCL prints them under {COMMUNICATORS_RERUN_SETTING}"
        ));
    } else if without > 0 {
        report.note(&format!(
            "{without} of {} rows are only one process's address: the log has no INIT line for it, \
             so its members are unknown; rerun with {COMMUNICATORS_RERUN_SETTING}",
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
            "the log has no calls, so the labels are unknown; rerun with {COMMUNICATORS_RERUN_SETTING}"
        ));
    }
}
