//! Jobs that a later one resumed, each with files of its own: the order of lines between files is
//! unknown, but the steps show which attempt went on from which.

use super::job_ends::JobEnds;
use super::job_spans::JobsByProcess;
use crate::stages::communicators::CommunicatorsSummary;
use std::collections::{BTreeMap, BTreeSet};

/// The first and the last step of a job.
type StepNumberSpan = (u64, u64);

/// The inputs of jobs that a later one took up.
pub(super) struct ResumedInputs(BTreeSet<u32>);

impl ResumedInputs {
    /// Finds the inputs of jobs that a later one resumed.
    pub(super) fn find_resumed(ends: &JobEnds, found: &CommunicatorsSummary) -> ResumedInputs {
        let jobs = JobsByProcess::group_processes(found);
        let mut of_input: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        let mut hosts: BTreeMap<u32, BTreeSet<&[u8]>> = BTreeMap::new();
        for (process, at) in ends.first_messages() {
            let job = jobs.job_of(process);
            of_input.entry(at.input).or_default().insert(job);
            let named = found.processes.get(process as usize);
            let own = hosts.entry(job).or_default();
            own.extend(named.map(|process| &process.host[..]));
        }
        // Several jobs in one input are in line order.
        let one = |input: &u32| {
            let jobs = of_input.get(input).filter(|jobs| jobs.len() == 1)?;
            jobs.first().copied()
        };
        let mut spans: BTreeMap<u32, StepNumberSpan> = BTreeMap::new();
        for (input, (first, last)) in ends.first_last_steps() {
            if let Some(job) = one(&input) {
                let span = spans.entry(job).or_insert((first, last));
                *span = (span.0.min(first), span.1.max(last));
            }
        }
        let is_left = |job: u32| {
            let Some((&own, at)) = spans.get(&job).zip(hosts.get(&job)) else {
                return false;
            };
            let shares = |other: &u32| hosts.get(other).is_some_and(|hosts| !at.is_disjoint(hosts));
            let mut others = spans.iter().filter(|(other, _)| **other != job);
            others.any(|(other, &span)| is_continued_by(span, own) && shares(other))
        };
        let inputs = of_input
            .keys()
            .filter(|input| one(input).is_some_and(is_left));
        ResumedInputs(inputs.copied().collect())
    }

    /// True for an input of a job that a later one took up.
    pub(super) fn is_resumed_later(&self, input: u32) -> bool {
        self.0.contains(&input)
    }
}

/// True where a job began within the steps of another, or right after them, and came further.
fn is_continued_by(next: StepNumberSpan, own: StepNumberSpan) -> bool {
    let within = own.0 < next.0 && next.0 <= own.1.saturating_add(1);
    within && next.1 > own.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_taken_up_that_another_went_on_from() {
        assert!(is_continued_by((2, 10), (0, 4)) && is_continued_by((5, 5), (0, 4)));
        // Jobs beside each other, a gap, and one that came no further.
        assert!(!is_continued_by((0, 10), (0, 4)) && !is_continued_by((6, 10), (0, 4)));
        assert!(!is_continued_by((2, 4), (0, 4)));
    }
}
