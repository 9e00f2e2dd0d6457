//! The jobs of the inputs: communicators, processes and inputs connect the ranks of a job. Tables add up all
//! inputs, so that inputs of several jobs are reported.

use super::MergedMembers;
use super::job_ranks::find_worlds;
use super::limits::MAX_JOBS_LISTED;
use crate::error::escape::escape_for_terminal;
use crate::error::phrases::count_phrase;
use std::collections::BTreeMap;

/// A job that shares no process, input or communicator with another one of the inputs: an attempt of a job may be
/// one, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeparateJob {
    /// The number of its ranks.
    pub ranks: u32,
    /// The names of its inputs, in their order.
    pub inputs: Vec<String>,
}

impl MergedMembers {
    /// Finds the jobs if there are several: each has a communicator of all its ranks whose members' INIT lines are all
    /// there. Of the parts of a job that no such communicator connects, each is one.
    pub fn find_separate_jobs(&self) -> Vec<SeparateJob> {
        let aliases = self.process_aliases();
        let mut sets = self.beside.sets.clone();
        sets.grow_to(aliases.len());
        for (process, &real) in aliases.iter().enumerate() {
            sets.join_sets(process, real as usize);
        }
        let (named, _) = self.group_init_lines(&aliases);
        for members in named.values() {
            let members = Vec::from_iter(members.keys());
            for pair in members.windows(2) {
                sets.join_sets(*pair[0] as usize, *pair[1] as usize);
            }
        }
        let mut ranks_of: BTreeMap<usize, u32> = BTreeMap::new();
        for ((_, nranks), members) in
            find_worlds(&named, aliases.len(), |world| world.has_job_ranks)
        {
            let first = members.keys().next().map_or(0, |process| *process as usize);
            let ranks = ranks_of.entry(sets.find_root(first)).or_default();
            *ranks = (*ranks).max(*nranks);
        }
        if ranks_of.len() < 2 {
            return Vec::new();
        }
        let mut inputs_of: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for (&input, &process) in &self.beside.of_input {
            let root = sets.find_root(process as usize);
            let name = self.twice.input_name(input).to_owned();
            inputs_of.entry(root).or_default().push(name);
        }
        let jobs = ranks_of.into_iter().map(|(root, ranks)| SeparateJob {
            ranks,
            inputs: inputs_of.remove(&root).unwrap_or_default(),
        });
        jobs.collect()
    }
}

/// A path that holds the inputs of a job and of no other one: its only input, or its folder.
fn find_own_path(jobs: &[SeparateJob], at: usize) -> Option<&str> {
    match &jobs.get(at)?.inputs[..] {
        [input] => Some(input),
        [first, rest @ ..] => {
            let folder = &first[..=first.rfind('/')?];
            let is_inside = |name: &String| name.starts_with(folder);
            let others = jobs.iter().enumerate().filter(|(other, _)| *other != at);
            let has_others = others.flat_map(|(_, job)| &job.inputs).any(is_inside);
            (rest.iter().all(is_inside) && !has_others).then_some(folder)
        }
        [] => None,
    }
}

/// Describes several jobs that a program adds up, with the command for `at_once` of them.
pub fn describe_added_jobs(jobs: &[SeparateJob], name: &str, at_once: usize) -> String {
    let paths = (0..at_once).map(|at| find_own_path(jobs, at));
    let paths: Option<Vec<&str>> = paths.collect();
    let apart = match paths {
        Some(paths) => escape_for_terminal(&format!("{name} {}", paths.join(" ")), false),
        None => "name the files of one job".to_owned(),
    };
    let what = describe_separate_jobs(jobs);
    format!("{what}; the output is of all of them. To read one alone: {apart}")
}

/// Describes several jobs.
pub fn describe_separate_jobs(jobs: &[SeparateJob]) -> String {
    let each = jobs.iter().map(|job| {
        let first = job.inputs.first().map_or("", |name| name);
        let more = match job.inputs.len() {
            0 | 1 => String::new(),
            n => format!(" and {}", count_phrase(n as u64 - 1, "other input")),
        };
        let ranks = count_phrase(u64::from(job.ranks), "rank");
        format!("{ranks} in {}{more}", escape_for_terminal(first, false))
    });
    let shown: Vec<String> = each.take(MAX_JOBS_LISTED).collect();
    let more = match jobs.len() - shown.len() {
        0 => String::new(),
        n => format!(", and {n} more"),
    };
    format!(
        "the inputs are of {} jobs, or attempts of one, that share no process: {}{more}",
        jobs.len(),
        shown.join(", ")
    )
}
