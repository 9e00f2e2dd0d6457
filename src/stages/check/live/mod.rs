//! The findings on the live state of a job: the answers of NCCL's RAS, and the stacks of its processes.
//!
//! RAS counts the collectives that each rank launched, not messages (up to NCCL 2.30.7). A process that waits for
//! its GPU launches no more, so a rank that is behind everywhere may have stopped, or wait for a message. Its stack
//! decides that.

mod counts;
mod findings;
mod limits;
mod lost;
mod movement;
mod process_names;
mod stack_findings;
mod stack_groups;
#[cfg(test)]
mod tests;
mod wait_functions;

use super::dumps::ShownFinding;
use super::finding::{Confidence, Finding, Kind, Severity};
use super::limits::MAX_LINES_WITH_STACKS;
use super::walk::CheckGathered;
use crate::error::Result;
use crate::formats::ras::{self, RasSnapshot};
use crate::formats::stacks::{self, ProcessStacks};
use crate::report::Report;
use crate::source::Input;
use crate::stages::communicators::CommunicatorsSummary;
use counts::{CountComparison, CountVerdict};
use movement::Movement;
use process_names::{LiveProcess, ProcessNames};
use stack_groups::{LiveStack, StackGroups};
use std::collections::BTreeMap;

/// The states of a job that runs or hangs, among the inputs of a check.
#[derive(Debug, Default)]
pub(super) struct LiveStates {
    names: Vec<String>,
    snapshots: Vec<NumberedSnapshot>,
    /// The stacks, each with the number of its input.
    stacks: Vec<NumberedStacks>,
}

/// An answer of RAS, with the number of its input.
#[derive(Debug)]
struct NumberedSnapshot {
    input: u32,
    snapshot: RasSnapshot,
}

/// Stacks of a process, with the number of their input.
#[derive(Debug)]
struct NumberedStacks {
    input: u32,
    process: ProcessStacks,
}

/// What the states show.
pub(super) struct LiveFindings {
    /// The cause, and others.
    pub(super) causes: Vec<ShownFinding>,
    /// The notes.
    pub(super) notes: Vec<Finding>,
}

/// True if no rank launched a collective between two answers of one job.
pub(crate) fn is_unchanged(before: &RasSnapshot, now: &RasSnapshot) -> bool {
    Movement::between(before, now) == Movement::Unchanged
}

impl LiveStates {
    /// The names of the inputs.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.names.iter()
    }

    /// Describes what the only process with stacks does in NCCL. One stack shows no fault.
    pub(super) fn describe_lone_process(&self) -> Option<String> {
        let [lone] = &self.stacks[..] else {
            return None;
        };
        let mut threads = lone.process.threads.iter();
        threads.find_map(wait_functions::describe_library_work)
    }

    fn next_input(&mut self, name: String) -> u32 {
        self.names.push(name);
        u32::try_from(self.names.len() - 1).unwrap_or(u32::MAX)
    }

    /// Reads the answers of RAS.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn load_ras(&mut self, input: &Input, report: &mut Report) -> Result<()> {
        let snapshots = ras::load_ras_snapshots(input)?;
        let name = input.name();
        if snapshots.is_empty() {
            report.warn_damaged(&format!("{name}: no answer of RAS could be read"));
        }
        if snapshots.iter().any(|snapshot| snapshot.is_cut) {
            report.warn_damaged(&format!("{name}: the answer of RAS is cut"));
        }
        let input = self.next_input(name);
        let numbered = snapshots.into_iter();
        self.snapshots
            .extend(numbered.map(|snapshot| NumberedSnapshot { input, snapshot }));
        Ok(())
    }

    /// Reads stacks.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn load_stacks(&mut self, input: &Input, report: &mut Report) -> Result<()> {
        let read = stacks::load_stacks(input)?;
        let name = input.name();
        if read.is_damaged || read.processes.is_empty() {
            report.warn_damaged(&format!("{name}: not all stacks could be read"));
        }
        let input = self.next_input(name);
        let numbered = read.processes.into_iter();
        self.stacks
            .extend(numbered.map(|process| NumberedStacks { input, process }));
        Ok(())
    }

    /// Numbers its inputs from `first`, after those that come before.
    pub(super) fn number_inputs_from(&mut self, first: u32) {
        let snapshots = self.snapshots.iter_mut().map(|of| &mut of.input);
        let stacks = self.stacks.iter_mut().map(|of| &mut of.input);
        for input in snapshots.chain(stacks) {
            *input = input.saturating_add(first);
        }
    }

    /// Reads stacks among the lines of the walk's short texts, as in a report on a job that hangs; their inputs have the
    /// walk's numbers.
    ///
    /// # Errors
    /// An input cannot be read.
    pub(super) fn load_stacks_in_texts(&mut self, seen: &CheckGathered) -> Result<()> {
        for (account, number) in seen.accounts.iter().zip(0..) {
            let may_have = account.calls == 0 && account.foreign > 1;
            if !may_have || account.lines > MAX_LINES_WITH_STACKS {
                continue;
            }
            let Ok(input) = seen.open_input(number) else {
                continue;
            };
            let mut read = stacks::load_stacks(&input)?.processes;
            read.retain(|of| of.main_thread().is_some_and(|main| !main.frames.is_empty()));
            let numbered = read.into_iter().map(|process| NumberedStacks {
                input: number,
                process,
            });
            self.stacks.extend(numbered);
        }
        Ok(())
    }

    /// Finds what the states show. `is_failed` means that other inputs report a failure.
    pub(super) fn find_causes(self, found: &CommunicatorsSummary, is_failed: bool) -> LiveFindings {
        let snapshots = movement::order_snapshots(&self.snapshots);
        let last = snapshots.last().copied();
        let mut names = ProcessNames::new(found, last.map(|of| &of.snapshot));
        for of in &self.stacks {
            if let (Some(pid), Some(rank)) = (of.process.pid, of.process.rank) {
                names.add_pid(pid, rank);
            }
        }
        let stacks = collect_stacks(&self.stacks, &names);
        let groups = StackGroups::from_stacks(&stacks);
        let compared = last.map(|of| CountComparison::new(&of.snapshot, &names));
        let judge = LiveJudge {
            names: &names,
            last,
            moved: Movement::of_snapshots(&snapshots),
            verdict: compared
                .as_ref()
                .map_or(CountVerdict::Level, CountComparison::judge_counts),
            compared: compared.as_ref(),
            stacks: &stacks,
            groups: &groups,
            is_failed,
        };
        judge.find_causes()
    }
}

/// The last stack of each process.
fn collect_stacks<'s>(
    all: &'s [NumberedStacks],
    names: &ProcessNames<'_>,
) -> BTreeMap<LiveProcess, LiveStack<'s>> {
    let mut stacks: BTreeMap<LiveProcess, LiveStack<'s>> = BTreeMap::new();
    let mut unnamed = 0_u64;
    for of in all {
        let Some(main) = of.process.main_thread() else {
            continue;
        };
        let mut next_unnamed = || {
            unnamed += 1;
            LiveProcess::Unnamed(unnamed)
        };
        let process = names
            .find_stack(of.process.rank, of.process.pid)
            .unwrap_or_else(&mut next_unnamed);
        let new = LiveStack {
            main,
            input: of.input,
            is_unchanged: None,
        };
        for _ in 0..of.process.others {
            stacks.insert(next_unnamed(), LiveStack { ..new });
        }
        match stacks.entry(process) {
            std::collections::btree_map::Entry::Vacant(free) => _ = free.insert(new),
            std::collections::btree_map::Entry::Occupied(mut known) => {
                let known = known.get_mut();
                let is_equal = known.main.frames == main.frames;
                let is_unchanged = Some(is_equal && known.is_unchanged != Some(false));
                *known = LiveStack {
                    is_unchanged,
                    ..new
                };
            }
        }
    }
    // Workers of a rank, such as those that load its data, have no rank.
    let is_ranked = |process: &LiveProcess| matches!(process, LiveProcess::Rank(_));
    if stacks.keys().any(is_ranked) {
        stacks.retain(|process, _| is_ranked(process));
    }
    stacks
}

/// Judges the states of a job.
struct LiveJudge<'j> {
    names: &'j ProcessNames<'j>,
    /// The last answer of RAS.
    last: Option<&'j NumberedSnapshot>,
    moved: Movement,
    verdict: CountVerdict,
    compared: Option<&'j CountComparison<'j>>,
    stacks: &'j BTreeMap<LiveProcess, LiveStack<'j>>,
    groups: &'j StackGroups<'j>,
    is_failed: bool,
}

impl LiveJudge<'_> {
    fn find_causes(&self) -> LiveFindings {
        let mut causes: Vec<ShownFinding> = Vec::new();
        causes.extend(self.find_lost_processes());
        if self.moved != Movement::Moved {
            if causes.is_empty() {
                causes.extend(self.find_open_setup());
            }
            if causes.is_empty() {
                causes.extend(self.find_odd_stack().or_else(|| self.find_odd_counts()));
            }
            if causes.is_empty() {
                causes.extend(self.find_reported_error().or_else(|| self.find_odd_wait()));
            }
        }
        let mut notes: Vec<Finding> = self.note_stacks().into_iter().collect();
        let is_error = |shown: &ShownFinding| shown.finding.severity == Severity::Error;
        if !causes.iter().any(is_error) {
            notes.extend(self.note_unjudged());
        }
        LiveFindings { causes, notes }
    }

    /// True if it is shown that the job stopped.
    fn is_stopped(&self) -> bool {
        self.moved == Movement::Unchanged
            || self.groups.are_unchanged == Some(true)
            || self.is_failed
    }

    /// The note on what the processes wait in.
    fn note_stacks(&self) -> Option<Finding> {
        let first = self.stacks.values().next()?;
        let says = self.groups.describe_groups();
        Some(Finding {
            why: "the stacks have these frames of the main threads".to_owned(),
            evidence: vec![findings::stack_evidence(first)],
            ..Finding::of_kind(Kind::StackGroups, Confidence::High, says)
        })
    }
}
