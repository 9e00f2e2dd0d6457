//! Where the calls of each job are in a log that may have several: attempts of one, or jobs beside
//! each other. Between files nothing is known of the order of lines.

use crate::members::DisjointSets;
use crate::stages::communicators::CommunicatorsSummary;
use rustc_hash::FxHashMap;
use std::sync::OnceLock;

/// Processes that share communicators, directly or through others: a job, or one attempt of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct JobsByProcess(Vec<u32>);

impl JobsByProcess {
    #[cfg(test)]
    pub(crate) fn of_one_job(processes: usize) -> JobsByProcess {
        JobsByProcess(vec![0; processes])
    }

    /// The jobs of a log.
    pub(crate) fn group_processes(found: &CommunicatorsSummary) -> JobsByProcess {
        let mut union = DisjointSets::new(found.processes.len());
        for communicator in &found.communicators {
            let process = |&side: &usize| found.sides[side].process as usize;
            let mut processes = communicator.sides.iter().map(process);
            if let Some(first) = processes.next() {
                processes.for_each(|process| union.join_sets(first, process));
            }
        }
        let jobs = (0..found.processes.len()).map(|process| union.find_root(process));
        JobsByProcess(
            jobs.map(|job| u32::try_from(job).unwrap_or(u32::MAX))
                .collect(),
        )
    }

    /// The job of a process, named by its first one.
    pub(crate) fn job_of(&self, process: u32) -> u32 {
        self.0.get(process as usize).copied().unwrap_or(process)
    }
}

/// The number of a process's calls, and the first and the last among all calls of the input.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ProcessCallSpan {
    pub(crate) calls: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// One job's calls.
#[derive(Debug, Clone, Copy, Default)]
struct JobCallSpan {
    /// Among all calls of the log.
    made: ProcessCallSpan,
    /// The one input that has its calls.
    input: Option<u32>,
    /// They are in several.
    mixed: bool,
}

/// The jobs' calls, as they are read again.
#[derive(Debug, Default)]
pub(crate) struct JobCallSpans {
    jobs: JobsByProcess,
    /// By job.
    clocks: Vec<JobCallSpan>,
    /// By process, among all calls of the log.
    processes: Vec<ProcessCallSpan>,
    /// All calls.
    calls: u64,
    /// Of the processes of each job, made when it is first asked for.
    overlaps: OnceLock<FxHashMap<u32, (u64, u64)>>,
}

impl JobCallSpans {
    /// Nothing was read yet.
    pub(crate) fn new(jobs: JobsByProcess) -> JobCallSpans {
        let n = jobs.0.len();
        JobCallSpans {
            jobs,
            clocks: vec![JobCallSpan::default(); n],
            processes: vec![ProcessCallSpan::default(); n],
            calls: 0,
            overlaps: OnceLock::new(),
        }
    }

    /// A process makes a call; in line order.
    pub(crate) fn count_call(&mut self, process: u32, input: u32) {
        let one = ProcessCallSpan {
            calls: 1,
            ..ProcessCallSpan::default()
        };
        self.add_span(process, input, one);
        self.calls += 1;
    }

    /// The processes of an input make `all` calls.
    pub(crate) fn count_input_calls(
        &mut self,
        input: u32,
        spans: &FxHashMap<u32, ProcessCallSpan>,
        all: u64,
    ) {
        for (&process, &span) in spans {
            self.add_span(process, input, span);
        }
        self.calls += all;
    }

    /// Adds a process's calls, counted from the calls so far.
    fn add_span(&mut self, process: u32, input: u32, span: ProcessCallSpan) {
        self.overlaps.take();
        let job = self.jobs.job_of(process) as usize;
        let own = self.processes.get_mut(process as usize);
        let (Some(clock), Some(own)) = (self.clocks.get_mut(job), own) else {
            return;
        };
        let (first, last) = (self.calls + span.first, self.calls + span.last);
        for known in [&mut clock.made, own] {
            if known.calls == 0 {
                known.first = first;
            }
            known.first = known.first.min(first);
            known.last = known.last.max(last);
            known.calls += span.calls;
        }
        clock.mixed |= clock.input.is_some_and(|known| known != input);
        clock.input = Some(input);
    }

    /// The job of a process.
    pub(crate) fn job_of_process(&self, process: u32) -> u32 {
        self.jobs.job_of(process)
    }

    fn call_span(&self, job: u32) -> Option<&JobCallSpan> {
        self.clocks.get(job as usize)
    }

    /// True where the order of a job's calls is known: one input has them, and it was written by all
    /// processes at once. Files that were written one by each process, and then joined, have no order.
    pub(crate) fn is_ordered(&self, job: u32) -> bool {
        let is_one = self.call_span(job).is_some_and(|clock| !clock.mixed);
        let overlaps = self.overlaps.get_or_init(|| self.find_overlaps());
        let overlap = overlaps.get(&job);
        is_one && overlap.is_some_and(|(latest_first, earliest_last)| latest_first <= earliest_last)
    }

    /// For each job the latest first call of a process, and the earliest last one.
    fn find_overlaps(&self) -> FxHashMap<u32, (u64, u64)> {
        let mut all: FxHashMap<u32, (u64, u64)> = FxHashMap::default();
        let own = (0..).zip(&self.processes);
        for (process, made) in own.filter(|(_, made)| made.calls > 0) {
            let of = all.entry(self.jobs.job_of(process));
            let of = of.or_insert((made.first, made.last));
            *of = (of.0.max(made.first), of.1.min(made.last));
        }
        all
    }

    /// True where all of a job's calls come before all of another's in one input: it was started
    /// again.
    pub(crate) fn is_before(&self, job: u32, next: u32) -> bool {
        let (Some(a), Some(b)) = (self.call_span(job), self.call_span(next)) else {
            return false;
        };
        let one = !a.mixed && !b.mixed && a.input == b.input;
        one && a.made.calls > 0 && b.made.calls > 0 && a.made.last < b.made.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_before_the_next() {
        let mut all = JobCallSpans::new(JobsByProcess(vec![0, 0, 2, 2]));
        [0, 1, 0, 2, 3]
            .iter()
            .for_each(|&process| all.count_call(process, 0));
        assert!(all.is_before(0, 2) && !all.is_before(2, 0));
        all.count_call(0, 0);
        assert!(!all.is_before(0, 2));
    }

    #[test]
    fn files_that_were_joined_have_no_order() {
        let is_ordered = |processes: &[u32]| {
            let mut all = JobCallSpans::new(JobsByProcess::of_one_job(3));
            let each = processes.iter();
            each.for_each(|&process| all.count_call(process, 0));
            all.is_ordered(0)
        };
        assert!(is_ordered(&[0, 1, 2, 0, 1, 1]));
        assert!(is_ordered(&[1, 1, 1]));
        assert!(!is_ordered(&[0, 1, 0, 1, 2, 2]));
    }
}
