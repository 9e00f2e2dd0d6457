//! The main threads of all processes, grouped by equal frames.

use super::limits::MAX_STACK_GROUPS_LISTED;
use super::process_names::{LiveProcess, list_processes};
use super::wait_functions::{StackPlace, describe_place, find_place};
use crate::formats::stacks::{ThreadFrame, ThreadStack};
use std::collections::{BTreeMap, BTreeSet};

/// The last stack of a process.
#[derive(Debug)]
pub(super) struct LiveStack<'s> {
    pub(super) main: &'s ThreadStack,
    /// The number of its input.
    pub(super) input: u32,
    /// Whether the frames of its first and last stack are equal; unknown of one stack.
    pub(super) is_unchanged: Option<bool>,
}

/// Processes with equal frames.
#[derive(Debug)]
pub(super) struct StackGroup<'s> {
    pub(super) processes: BTreeSet<&'s LiveProcess>,
    pub(super) place: StackPlace,
    /// `in synchronize from train.py:76`.
    pub(super) words: String,
}

/// The groups, the largest first.
#[derive(Debug, Default)]
pub(super) struct StackGroups<'s> {
    pub(super) groups: Vec<StackGroup<'s>>,
    /// Whether no process changed its frames; unknown where there is one stack of each.
    pub(super) are_unchanged: Option<bool>,
}

impl<'s> StackGroups<'s> {
    /// Groups the stacks.
    pub(super) fn from_stacks(stacks: &'s BTreeMap<LiveProcess, LiveStack<'s>>) -> StackGroups<'s> {
        let mut by_frames: BTreeMap<(&[ThreadFrame], StackPlace), StackGroup<'s>> = BTreeMap::new();
        for (process, stack) in stacks {
            let place = find_place(stack.main);
            let new = || StackGroup {
                processes: BTreeSet::new(),
                place,
                words: describe_place(stack.main),
            };
            let key = (&stack.main.frames[..], place);
            by_frames
                .entry(key)
                .or_insert_with(new)
                .processes
                .insert(process);
        }
        let mut groups: Vec<StackGroup<'s>> = by_frames.into_values().collect();
        groups.sort_by_key(|group| {
            (
                std::cmp::Reverse(group.processes.len()),
                group.processes.first().copied(),
            )
        });
        let mut seen = stacks
            .values()
            .filter_map(|stack| stack.is_unchanged)
            .peekable();
        let are_unchanged = seen.peek().is_some().then(|| seen.all(|is| is));
        StackGroups {
            groups,
            are_unchanged,
        }
    }

    /// Returns the group of a process.
    pub(super) fn group_of(&self, process: &LiveProcess) -> Option<&StackGroup<'s>> {
        self.groups
            .iter()
            .find(|group| group.processes.contains(process))
    }

    /// Returns the processes at a place.
    pub(super) fn processes_at(&self, place: StackPlace) -> BTreeSet<LiveProcess> {
        let groups = self.groups.iter().filter(|group| group.place == place);
        groups
            .flat_map(|group| group.processes.iter().copied().cloned())
            .collect()
    }

    /// `ranks 1-7 are in synchronize from train.py:76, rank 0 is in layer (train.py:39)`.
    pub(super) fn describe_groups(&self) -> String {
        let shown = self.groups.iter().take(MAX_STACK_GROUPS_LISTED);
        let each: Vec<String> = shown
            .map(|group| {
                let is = if group.processes.len() == 1 {
                    "is"
                } else {
                    "are"
                };
                format!(
                    "{} {is} {}",
                    list_processes(group.processes.iter().copied()),
                    group.words
                )
            })
            .collect();
        let more = match self.groups.len().saturating_sub(MAX_STACK_GROUPS_LISTED) {
            0 => String::new(),
            more => format!(", and others are at {more} more places"),
        };
        each.join(", ") + &more
    }
}
