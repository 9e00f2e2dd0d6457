//! nccl-communicators: one row for each communicator, its members and its purpose.
//!
//! Chunks keep their calls ([`crate::count::tally`]) and their lines about communicators (`fold`). The
//! merge turns them into *sides*: one process's view of one communicator, from its first line to its last.
//! Sides of one id are a communicator (`identity`); its purpose follows from its members' places and their
//! traffic (`purpose_rules`, `traffic`).

mod attribution;
pub(crate) mod begun;
pub(crate) mod facts;
mod fold;
mod identity;
mod limits;
mod lookups;
mod purpose;
mod purpose_rules;
mod rows;
#[cfg(test)]
mod tests;
mod totals;
mod traffic;
pub(crate) mod view;
mod wire_bytes;

use crate::count::calls::{Options as Read, Progress};
use crate::count::filtered::CountFilter;
use crate::count::member_filter::{MemberFilter, SHAPE_COLUMNS};
use crate::count::notes;
use crate::count::tally::{self, SizeKey};
use crate::count::tally::{CallKey, CallVolume};
use crate::error::Result;
use crate::filter::{CallFilter, FilterPart};
use crate::formats::Provides;
use crate::formats::open::OpenInput;
use crate::grammar::values::ByteBasis;
use crate::log::propose;
use crate::log::timeline::PresentSteps;
use crate::log::{LogState, MergedChunk};
use crate::members::{MergedMembers, OpInterner, SpeakerProcess};
use crate::output::table::Row;
use crate::report::Report;
use crate::source::InputName;
use crate::stages::{self, InputStage};
use rustc_hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;
use std::sync::OnceLock;

pub(crate) use attribution::{build_communicators, resolve_processes};
pub(crate) use fold::{CommunicatorSide, CommunicatorSides, CommunicatorsPartial};
pub(crate) use identity::{
    CommunicatorKey as Named, CountingEvidence, JobGpu, JobRanksBasis, MergedCommunicator,
    find_job_ranks, gpu_of_side, natural_parts,
};
pub(crate) use purpose::{CommunicatorPurpose, CommunicatorState};
pub use rows::{build_communicator_grid, build_member_grid, build_terminal_grid};
pub use totals::CommunicatorTotals;
pub(crate) use view::CommunicatorKind;

/// Communicators of all logs.
#[derive(Debug, Clone, Default)]
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
    /// The most steps that an input has by its lines (0: unknown).
    pub(crate) steps: u64,
    /// The inputs' names.
    pub inputs: Vec<String>,
    /// Initialisations of unnamed communicators that had not ended.
    pub(crate) unnamed_setups: Vec<begun::UnnamedSetup>,
    /// The communicators before some were united.
    apart: Option<Vec<MergedCommunicator>>,
    lookups: OnceLock<lookups::SummaryLookups>,
}

impl CommunicatorsSummary {
    /// Returns the summary without unions: each communicator is as its lines show it.
    pub(crate) fn without_unions(&self) -> Cow<'_, CommunicatorsSummary> {
        let Some(apart) = &self.apart else {
            return Cow::Borrowed(self);
        };
        Cow::Owned(CommunicatorsSummary {
            communicators: apart.clone(),
            apart: None,
            lookups: OnceLock::new(),
            ..self.clone()
        })
    }

    /// Keeps `calls` and leaves the others out of the rows, and so the members that made only others. Members
    /// without any call stay if `filter` accepts their own columns.
    fn keep_calls(&mut self, calls: Vec<(CallKey, CallVolume)>, filter: &CallFilter) {
        let mut without = FilterPart::default();
        let known = self.communicators.iter();
        let known =
            known.filter_map(|of| Some(of.sides.iter().copied().zip(of.place.known_ranks()?)));
        let ranks = known.flatten();
        let ranks: FxHashMap<usize, u32> = ranks.map(|(side, rank)| (side, *rank)).collect();
        for (at, side) in self.sides.iter_mut().enumerate() {
            let process = &self.processes[side.process as usize];
            let row = Row {
                host: &process.host,
                pid: process.pid,
                dev: side.dev,
                comm: Some(side.comm),
                comm_id: side.comm_id,
                rank: side.rank,
                global_rank: ranks.get(&at).copied(),
                nranks: side.nranks,
                ..Row::default()
            };
            side.is_left_out = !side.uses.is_empty() || !without.does_pass(&row, filter);
            side.uses.clear();
        }
        for (key, value) in calls {
            if let Some(&side) = self.side_of.get(&key.member) {
                self.sides[side].is_left_out = false;
                self.sides[side].uses.push((key, value));
            }
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
        members: true,
        datatypes: true,
        steps,
        exact: true,
        ..tally::Options::by_size(SizeKey::Digits, ByteBasis::Api)
    }
}

/// Reads all `origins`, which must be logs. The calls and members of rows are those that pass `filter`.
///
/// # Errors
/// No input could be read, the window is not there, damage under `--strict`; the filter needs a column that these
/// calls lack.
pub fn read_communicators(
    origins: &[InputName],
    read: &Read,
    filter: &CallFilter,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<CommunicatorsSummary> {
    MemberFilter::new(filter, &SHAPE_COLUMNS)?;
    let wanted = tally_options(read.window.is_some());
    let by_filter = CountFilter::new(filter, &wanted)?;
    let tally = by_filter.tally();
    let mut stage = CommunicatorsStage {
        all: CommunicatorTotals::new(tally, origins.len(), read.log.jobs),
        present: PresentSteps::default(),
        read,
    };
    let new = || CommunicatorsPartial::new(tally);
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
    let passing = (!filter.is_empty()).then(|| all.keep_calls(&by_filter, &merged));
    let mut found = all.finish(&merged);
    report_missing(&found.sides, &found.communicators, report);
    if let Some((calls, part)) = passing {
        found.keep_calls(calls, filter);
        part.report(filter, report);
    }
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

/// Reports missing lines, and the settings that print them.
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
