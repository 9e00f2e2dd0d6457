//! Where the calls of each job are in a log that may have several: attempts of one, or jobs beside
//! each other. Between files nothing is known of the order of lines.

use crate::members::DisjointSets;
use crate::stages::communicators::CommunicatorsSummary;
use rustc_hash::FxHashMap;

/// Processes that share communicators, directly or through others: a job, or one attempt of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct JobsByProcess(Vec<u32>);

impl JobsByProcess {
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
    /// How many calls it made.
    calls: u64,
    /// The one input that has its calls.
    input: Option<u32>,
    /// They are in several.
    mixed: bool,
    /// The first and the last call among all calls of the log.
    span: (u64, u64),
}

/// The jobs' calls, as they are read again.
#[derive(Debug, Default)]
pub(crate) struct JobCallSpans {
    jobs: JobsByProcess,
    /// By job.
    clocks: Vec<JobCallSpan>,
    /// All calls.
    calls: u64,
}

impl JobCallSpans {
    /// Nothing was read yet.
    pub(crate) fn new(jobs: JobsByProcess) -> JobCallSpans {
        let n = jobs.0.len();
        JobCallSpans {
            jobs,
            clocks: vec![JobCallSpan::default(); n],
            calls: 0,
        }
    }

    /// A process makes a call; in line order.
    pub(crate) fn count_call(&mut self, process: u32, input: u32) {
        let job = self.jobs.job_of(process) as usize;
        let Some(clock) = self.clocks.get_mut(job) else {
            return;
        };
        if clock.calls == 0 {
            clock.span.0 = self.calls;
        }
        clock.mixed |= clock.input.is_some_and(|known| known != input);
        clock.input = Some(input);
        clock.calls += 1;
        clock.span.1 = self.calls;
        self.calls += 1;
    }

    /// The processes of an input make `all` calls.
    pub(crate) fn count_input_calls(
        &mut self,
        input: u32,
        spans: &FxHashMap<u32, ProcessCallSpan>,
        all: u64,
    ) {
        for (&process, span) in spans {
            let job = self.jobs.job_of(process) as usize;
            let Some(clock) = self.clocks.get_mut(job) else {
                continue;
            };
            let (first, last) = (self.calls + span.first, self.calls + span.last);
            clock.span = match clock.calls {
                0 => (first, last),
                _ => (clock.span.0.min(first), clock.span.1.max(last)),
            };
            clock.mixed |= clock.input.is_some_and(|known| known != input);
            clock.input = Some(input);
            clock.calls += span.calls;
        }
        self.calls += all;
    }

    /// The job of a process.
    pub(crate) fn job_of_process(&self, process: u32) -> u32 {
        self.jobs.job_of(process)
    }

    fn call_span(&self, job: u32) -> Option<&JobCallSpan> {
        self.clocks.get(job as usize)
    }

    /// True where the order of a job's calls is known.
    pub(crate) fn is_ordered(&self, job: u32) -> bool {
        self.call_span(job).is_some_and(|clock| !clock.mixed)
    }

    /// True where all of a job's calls come before all of another's in one input: it was started
    /// again.
    pub(crate) fn is_before(&self, job: u32, next: u32) -> bool {
        let (Some(a), Some(b)) = (self.call_span(job), self.call_span(next)) else {
            return false;
        };
        let one = !a.mixed && !b.mixed && a.input == b.input;
        one && a.calls > 0 && b.calls > 0 && a.span.1 < b.span.0
    }

    /// The jobs with calls.
    pub(crate) fn jobs_with_calls(&self) -> impl Iterator<Item = u32> {
        let all = (0_u32..).zip(&self.clocks);
        all.filter(|(_, clock)| clock.calls > 0).map(|(job, _)| job)
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
        assert_eq!(all.jobs_with_calls().collect::<Vec<_>>(), [0, 2]);
        all.count_call(0, 0);
        assert!(!all.is_before(0, 2));
    }
}
