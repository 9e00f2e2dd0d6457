//! The process that a rank of the job is, where a log has several jobs, or attempts of one.

use super::job_spans::JobsByProcess;
use crate::stages::communicators::{CommunicatorsSummary, JobRanksBasis, MergedCommunicator};
use crate::stages::net::net_stage::FirstReportLine;
use std::collections::{BTreeMap, BTreeSet};

/// The processes of each rank, one for each job and attempt.
#[derive(Debug, Default)]
pub(crate) struct JobProcesses {
    of_rank: BTreeMap<u32, Vec<u32>>,
    jobs: JobsByProcess,
    /// The jobs with ranks that have no lines.
    incomplete: BTreeSet<u32>,
    /// The first message of each process.
    begins: Vec<(FirstReportLine, u32)>,
}

impl JobProcesses {
    /// The members of the communicators that have all ranks, also those without lines; `begins` has the first message of each process.
    pub(crate) fn new(
        found: &CommunicatorsSummary,
        begins: impl IntoIterator<Item = (u32, FirstReportLine)>,
    ) -> JobProcesses {
        // Lines without a header are of no process of a job.
        let members: BTreeSet<u32> = found.sides.iter().map(|side| side.process).collect();
        let begins = begins
            .into_iter()
            .filter(|(process, _)| members.contains(process));
        let begins = begins.map(|(process, at)| (at, process));
        let mut all = JobProcesses {
            of_rank: BTreeMap::new(),
            jobs: JobsByProcess::group_processes(found),
            incomplete: BTreeSet::new(),
            begins: begins.collect(),
        };
        all.begins.sort_unstable();
        let is_of_all = |c: &&MergedCommunicator| {
            c.place.basis != JobRanksBasis::HostOrder && c.nranks == Some(c.place.world)
        };
        let worlds = found.communicators.iter().filter(is_of_all);
        let sides = worlds.flat_map(|world| world.sides.iter().map(move |&side| (side, world)));
        for (side, world) in sides {
            let side = &found.sides[side];
            if !world.place.whole {
                all.incomplete.insert(all.jobs.job_of(side.process));
            }
            let own = side.rank.map(|rank| all.of_rank.entry(rank).or_default());
            if let Some(own) = own.filter(|own| !own.contains(&side.process)) {
                own.push(side.process);
            }
        }
        all
    }

    /// The ranks and their processes, of each job and attempt.
    pub(crate) fn iter_ranks(&self) -> impl Iterator<Item = (u32, u32)> {
        let ranks = self.of_rank.iter();
        ranks.flat_map(|(&rank, own)| own.iter().map(move |&process| (rank, process)))
    }

    /// The process of a rank, of the job that was at work at a line; `None` where several may be meant.
    pub(crate) fn process_of_rank(&self, rank: u32, at: FirstReportLine) -> Option<u32> {
        let own = &self.of_rank.get(&rank)?[..];
        if let [process] = own {
            return Some(*process);
        }
        let job = self.job_at(at)?;
        let mut own = own
            .iter()
            .filter(|&&process| self.jobs.job_of(process) == job);
        own.next().copied().filter(|_| own.next().is_none())
    }

    /// The jobs that have a rank with a process not `among` some, or without lines.
    pub(crate) fn jobs_with_others(&self, among: impl Fn(u32) -> bool) -> BTreeSet<u32> {
        let others = self.iter_ranks().filter(|(_, process)| !among(*process));
        let others = others.map(|(_, process)| self.job_of(process));
        others.chain(self.incomplete.iter().copied()).collect()
    }

    /// The first and the last line, in the input of a line, at which processes of the job at work there began. Lines
    /// before the last show nothing of that process: they are of files that were joined, or the job is not yet at work.
    pub(crate) fn begins_of_job_at(&self, at: FirstReportLine) -> Option<(u64, u64)> {
        let mut own = self.begins_of_job(self.job_at(at)?, at.input);
        let first = own.next()?;
        Some((first, own.next_back().unwrap_or(first)))
    }

    /// The lines of an input from the first process of a job on, up to the first one of a job that `is_next`.
    pub(crate) fn lines_of_job(
        &self,
        job: u32,
        input: u32,
        is_next: impl Fn(u32) -> bool,
    ) -> (u64, u64) {
        let begin = self.begins_of_job(job, input).next().unwrap_or(0);
        let here = self.begins_in(input).iter();
        let mut next = here.filter(|(_, process)| is_next(self.job_of(*process)));
        (begin, next.next().map_or(u64::MAX, |(begin, _)| begin.line))
    }

    /// True where a process of a job began before a line of its input.
    pub(crate) fn has_begun(&self, job: u32, at: FirstReportLine) -> bool {
        let first = self.begins_of_job(job, at.input).next();
        first.is_some_and(|first| first <= at.line)
    }

    /// The lines of an input at which processes of a job began.
    fn begins_of_job(&self, job: u32, input: u32) -> impl DoubleEndedIterator<Item = u64> {
        let here = self.begins_in(input).iter();
        let own = here.filter(move |(_, process)| self.job_of(*process) == job);
        own.map(|(begin, _)| begin.line)
    }

    /// The first messages of processes in an input.
    fn begins_in(&self, input: u32) -> &[(FirstReportLine, u32)] {
        let before = self
            .begins
            .partition_point(|(begin, _)| begin.input < input);
        let here = &self.begins[before..];
        &here[..here.partition_point(|(begin, _)| begin.input == input)]
    }

    /// The job of a process.
    pub(crate) fn job_of(&self, process: u32) -> u32 {
        self.jobs.job_of(process)
    }

    /// The job of the process that began last before a line of its input.
    pub(crate) fn job_at(&self, at: FirstReportLine) -> Option<u32> {
        let begun = self.begins.partition_point(|(begin, _)| *begin <= at);
        let (begin, process) = self.begins[..begun].last()?;
        (begin.input == at.input).then(|| self.jobs.job_of(*process))
    }
}
