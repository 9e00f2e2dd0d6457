//! The process that a rank of the job is, where a log has several jobs, or attempts of one.

use super::job_spans::JobsByProcess;
use crate::stages::communicators::{CommunicatorsSummary, JobRanksBasis, MergedCommunicator};
use crate::stages::net::net_stage::FirstReportLine;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// The processes of each rank, one for each job and attempt.
#[derive(Debug, Default)]
pub(crate) struct JobProcesses {
    /// Rank, job and process.
    ranks: BTreeSet<(u32, u32, u32)>,
    jobs: JobsByProcess,
    /// The jobs with ranks that have no lines.
    incomplete: BTreeSet<u32>,
    /// The first message of each process.
    begins: Vec<(FirstReportLine, u32)>,
    /// The first and the last line of an input at which a process of a job began, by job and input.
    begins_of_job: FxHashMap<(u32, u32), (u64, u64)>,
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
            jobs: JobsByProcess::group_processes(found),
            begins: begins.collect(),
            ..JobProcesses::default()
        };
        all.begins.sort_unstable();
        for &(at, process) in &all.begins {
            let key = (all.jobs.job_of(process), at.input);
            let own = all.begins_of_job.entry(key).or_insert((at.line, at.line));
            own.1 = at.line;
        }
        let is_of_all = |c: &&MergedCommunicator| {
            c.place.basis != JobRanksBasis::HostOrder && c.nranks == Some(c.place.world)
        };
        let worlds = found.communicators.iter().filter(is_of_all);
        let sides = worlds.flat_map(|world| world.sides.iter().map(move |&side| (side, world)));
        for (side, world) in sides {
            let side = &found.sides[side];
            let job = all.jobs.job_of(side.process);
            if !world.place.whole {
                all.incomplete.insert(job);
            }
            all.ranks
                .extend(side.rank.map(|rank| (rank, job, side.process)));
        }
        all
    }

    /// The ranks and their processes, of each job and attempt.
    pub(crate) fn iter_ranks(&self) -> impl Iterator<Item = (u32, u32)> {
        self.ranks.iter().map(|&(rank, _, process)| (rank, process))
    }

    /// The process of a rank, of the job that was at work at a line; `None` where several may be meant.
    pub(crate) fn process_of_rank(&self, rank: u32, at: FirstReportLine) -> Option<u32> {
        let only = |first: u32, last: u32| {
            let mut own = self.ranks.range((rank, first, 0)..=(rank, last, u32::MAX));
            let (.., process) = own.next()?;
            own.next().is_none().then_some(*process)
        };
        only(0, u32::MAX).or_else(|| self.job_at(at).and_then(|job| only(job, job)))
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
        let key = (self.job_at(at)?, at.input);
        self.begins_of_job.get(&key).copied()
    }

    /// The lines of an input from the first process of a job on, up to the first one of a job that `is_next`.
    pub(crate) fn lines_of_job(
        &self,
        job: u32,
        input: u32,
        is_next: impl Fn(u32) -> bool,
    ) -> (u64, u64) {
        let begin = self.begin_of_job(job, input).unwrap_or(0);
        let here = self.begins_in(input).iter();
        let mut next = here.filter(|(_, process)| is_next(self.job_of(*process)));
        (begin, next.next().map_or(u64::MAX, |(begin, _)| begin.line))
    }

    /// True where a process of a job began before a line of its input.
    pub(crate) fn has_begun(&self, job: u32, at: FirstReportLine) -> bool {
        let first = self.begin_of_job(job, at.input);
        first.is_some_and(|first| first <= at.line)
    }

    /// The line of an input at which the first process of a job began.
    fn begin_of_job(&self, job: u32, input: u32) -> Option<u64> {
        self.begins_of_job.get(&(job, input)).map(|own| own.0)
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
