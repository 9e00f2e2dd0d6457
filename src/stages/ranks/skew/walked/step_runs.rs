//! The steps of each member's calls in a chunk. The ends of a process's steps are known by the number of its
//! calls, and each call is one member's.

use super::{SkewChunk, SkewLog};
use crate::log::timeline::StepTimeline;

/// A run of a member's calls of one step, up to the `end`th of the chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StepRun {
    pub(super) end: u64,
    pub(super) step: Option<u64>,
}

/// A process in a chunk.
struct ChunkProcess<'l> {
    cuts: &'l [(u32, u32)],
    /// Its calls in the log before the current one.
    made: u64,
    /// Its calls up to the end of its current step.
    end: u64,
    step: Option<u64>,
    members: Vec<usize>,
}

/// Returns the runs of each member of a chunk; `process_of` are the members' processes, and `made` the calls that
/// these made in the log before.
pub(super) fn find_step_runs(
    log: &SkewLog,
    chunk: &SkewChunk,
    process_of: &[u32],
    made: &[u64],
) -> Vec<Vec<StepRun>> {
    let (mut processes, of) = group_by_process(log, process_of, made);
    let mut runs = vec![Vec::new(); process_of.len()];
    let mut calls = vec![0; process_of.len()];
    for (member, is_made) in chunk.calls.iter_order() {
        let member = member as usize;
        let Some(Some(process)) = of
            .get(member)
            .map(|at| at.and_then(|at| processes.get_mut(at)))
        else {
            continue;
        };
        if process.made >= process.end {
            process.close_at_gap(&log.timeline, &calls, &mut runs);
        }
        process.made += 1;
        calls[member] += u64::from(is_made);
    }
    for process in &processes {
        process.close_runs(&calls, &mut runs);
    }
    runs
}

/// Returns the processes of the members, and the place of each member's process among them.
fn group_by_process<'l>(
    log: &'l SkewLog,
    process_of: &[u32],
    made: &[u64],
) -> (Vec<ChunkProcess<'l>>, Vec<Option<usize>>) {
    let known = process_of.iter().copied().zip(made.iter().copied());
    let mut known: Vec<(u32, u64)> = known.collect();
    known.sort_unstable();
    known.dedup();
    let mut processes: Vec<ChunkProcess<'_>> = known
        .iter()
        .map(|&(number, made)| {
            let cuts = log.placement.cuts_of(number);
            let before = cuts.partition_point(|&(_, end)| u64::from(end) <= made);
            ChunkProcess {
                cuts: &cuts[before..],
                made,
                end: 0,
                step: None,
                members: Vec::new(),
            }
        })
        .collect();
    let at = |number: &u32| known.binary_search_by_key(number, |known| known.0).ok();
    let of = process_of.iter().map(at);
    let of: Vec<Option<usize>> = of.collect();
    for (member, at) in of.iter().enumerate() {
        if let Some(process) = at.and_then(|at| processes.get_mut(at)) {
            process.members.push(member);
        }
    }
    (processes, of)
}

impl ChunkProcess<'_> {
    /// Begins another stretch of the log with the current call.
    fn close_at_gap(&mut self, timeline: &StepTimeline, calls: &[u64], runs: &mut [Vec<StepRun>]) {
        self.close_runs(calls, runs);
        let made = self.made;
        let before = self.cuts.iter().take_while(|cut| u64::from(cut.1) <= made);
        self.cuts = &self.cuts[before.count()..];
        // Calls after the last placed one have no step.
        let (gap, end) = match self.cuts.first() {
            Some(&(gap, end)) => (Some(gap), u64::from(end)),
            None => (None, u64::MAX),
        };
        self.end = end;
        let step = gap.and_then(|gap| timeline.step_of(gap as usize));
        self.step = step.map(|step| step.step);
    }

    /// Ends the runs of its members at the calls that they made so far.
    fn close_runs(&self, calls: &[u64], runs: &mut [Vec<StepRun>]) {
        for &member in &self.members {
            let (end, runs) = (calls[member], &mut runs[member]);
            match runs.last_mut() {
                Some(last) if last.end == end => {}
                Some(last) if last.step == self.step => last.end = end,
                None if end == 0 => {}
                _ => runs.push(StepRun {
                    end,
                    step: self.step,
                }),
            }
        }
    }
}
