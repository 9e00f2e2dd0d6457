//! Steps in which the ranks of a communicator made more or fewer collectives than in all others,
//! also where ranks run ahead of the step lines.
//!
//! Members of a communicator make the same collectives, so what one of them did in a step all did. A rank that
//! is ahead makes some of the next step's calls too early, and those of the next step are fewer: its numbers go
//! up and down. The rank that prints the step lines is in step with them, and its numbers count: they are equal
//! in all steps but a few, on each of its communicators, and no neighbour lacks the surplus of a step. It is
//! the rank that the trainer prints on, or that the user named; if its numbers go up and down, the ranks with
//! steady numbers count. A rank's call is in the step in which the printing rank makes the same one: the place
//! of its line is not considered.

use super::skew::RankCollectives;
use crate::log::placement::{PrintingRankRule, printing_rank_rule};
use crate::log::timeline::{GapKind, StepTimeline, TrainStep};
use crate::members::comm_id::CommId;
pub(crate) use crate::stages::trainer::limits::{MAX_ODD_STEPS, MIN_STEPS_COMPARED};
use std::collections::{BTreeMap, BTreeSet};

/// A step in which a communicator's ranks made another number of collectives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OddStep {
    /// The communicator.
    pub(crate) comm_id: CommId,
    /// The first and the last step it may be, by their places among the steps: ranks that are each in step may
    /// differ by one.
    pub(crate) steps: (usize, usize),
    /// A rank's collectives.
    pub(crate) made: u64,
    /// Those in each of the other steps.
    pub(crate) usual: u64,
    /// The number of steps compared.
    pub(crate) of: usize,
}

/// Steps in the middle of a run: the first ones set things up, the last may be cut.
pub(crate) fn inner_steps(steps: &[TrainStep]) -> impl Iterator<Item = usize> {
    let segment = |at: usize| steps.get(at).map(|step| step.segment);
    let last = steps.len().saturating_sub(1);
    (2..last).filter(move |&at| segment(at - 2) == segment(at) && segment(at + 1) == segment(at))
}

/// The process that prints the step lines: rank `asked`, or the one that the trainer prints on, of the
/// largest communicator.
fn find_printer(
    comms: &BTreeMap<CommId, Vec<&RankCollectives>>,
    timeline: &StepTimeline,
    asked: Option<u32>,
) -> Option<u32> {
    let most = comms.values().map(Vec::len).max()?;
    let largest = comms.values().filter(|ranks| ranks.len() == most);
    let prints = printing_rank_rule(timeline.trainer, timeline.stage);
    let rank = asked.unwrap_or_else(|| prints.rank_among(most as u32));
    let mut own = largest.filter_map(|ranks| ranks.get(rank as usize));
    let first = own.next()?.process;
    let all = own.map(|made| made.process);
    // Of several such communicators, take that of the job's first rank, or of its last.
    Some(match prints {
        PrintingRankRule::Last => all.fold(first, u32::max),
        PrintingRankRule::First | PrintingRankRule::Stage(_) => all.fold(first, u32::min),
    })
}

/// Finds the odd steps by communicator; `asked` is the printing rank, if the user named it.
pub(crate) fn find_odd_steps(
    comms: &BTreeMap<CommId, Vec<&RankCollectives>>,
    timeline: &StepTimeline,
    asked: Option<u32>,
) -> Vec<OddStep> {
    let interval = timeline.line_interval();
    let steps = timeline.steps.remaining();
    let inner: Vec<usize> = inner_steps(steps)
        .filter(|&at| steps[at].steps == interval)
        .collect();
    if inner.len() < MIN_STEPS_COMPARED {
        return Vec::new();
    }
    // Where each step's stretch of gaps ends.
    let mut ends = vec![None; steps.len()];
    for (gap, what) in timeline.gaps.iter().enumerate() {
        if let GapKind::Step(step) = what
            && let Some(end) = ends.get_mut(*step as usize)
        {
            *end = Some(gap);
        }
    }
    let known = RhythmContext {
        timeline,
        inner: &inner,
        ends: &ends,
    };
    let mut unsteady: BTreeSet<u32> = BTreeSet::new();
    let mut said: BTreeMap<CommId, Vec<(u32, RankRhythm)>> = BTreeMap::new();
    for (&id, ranks) in comms {
        for made in ranks {
            match known.find_rhythm(&made.gaps) {
                Some(rhythm) => said.entry(id).or_default().push((made.process, rhythm)),
                None => drop(unsteady.insert(made.process)),
            }
        }
    }
    let printer =
        find_printer(comms, timeline, asked).filter(|printer| !unsteady.contains(printer));
    let mut all = Vec::new();
    for (id, mut ranks) in said {
        ranks.retain(|(process, _)| !unsteady.contains(process));
        if ranks.iter().any(|(process, _)| Some(*process) == printer) {
            ranks.retain(|(process, _)| Some(*process) == printer);
        }
        let rhythms: Vec<&RankRhythm> = ranks.iter().map(|(_, rhythm)| rhythm).collect();
        all.extend(
            agreed_odd_steps(id, &rhythms, inner.len())
                .into_iter()
                .flatten(),
        );
    }
    all
}

/// A rank's usual collectives in a step, and the steps with others: (step, number).
#[derive(Debug, PartialEq, Eq)]
struct RankRhythm {
    usual: u64,
    odd: Vec<(usize, u64)>,
}

/// Returns the odd steps of a communicator if its steady ranks agree.
fn agreed_odd_steps(comm_id: CommId, rhythms: &[&RankRhythm], of: usize) -> Option<Vec<OddStep>> {
    let first = rhythms.first()?;
    let same = |rhythm: &&RankRhythm| {
        let counts = |r: &RankRhythm| r.odd.iter().map(|(_, made)| *made).collect::<Vec<_>>();
        rhythm.usual == first.usual && counts(rhythm) == counts(first)
    };
    if !rhythms.iter().all(same) || is_regular(&first.odd) {
        return None;
    }
    let odd = |(nth, &(_, made)): (usize, &(usize, u64))| {
        let at = || rhythms.iter().map(|rhythm| rhythm.odd[nth].0);
        let steps = (at().min()?, at().max()?);
        (steps.1 - steps.0 < 2).then_some(OddStep {
            comm_id,
            steps,
            made,
            usual: first.usual,
            of,
        })
    };
    first.odd.iter().enumerate().map(odd).collect()
}

/// True if odd steps come at a regular interval, as an evaluation does.
fn is_regular(odd: &[(usize, u64)]) -> bool {
    let apart = |w: &[(usize, u64)]| w[1].0 - w[0].0;
    let first = odd.first_chunk::<2>().map(|w| apart(w));
    odd.len() > 2 && odd.windows(2).all(|w| Some(apart(w)) == first)
}

struct RhythmContext<'a> {
    timeline: &'a StepTimeline,
    inner: &'a [usize],
    ends: &'a [Option<usize>],
}

impl RhythmContext<'_> {
    /// Returns the rhythm of a rank by its collectives in each gap; `None` if unsteady.
    fn find_rhythm(&self, gaps: &[(u32, u32)]) -> Option<RankRhythm> {
        let mut made = vec![0_u64; self.timeline.steps.len()];
        for &(gap, n) in gaps {
            if let Some(GapKind::Step(step)) = self.timeline.gaps.get(gap as usize) {
                *made.get_mut(*step as usize)? += u64::from(n);
            }
        }
        let mut sorted: Vec<u64> = self.inner.iter().map(|&at| made[at]).collect();
        sorted.sort_unstable();
        let usual = sorted[sorted.len() / 2];
        let odd: Vec<(usize, u64)> = self
            .inner
            .iter()
            .filter(|&&at| made[at] != usual)
            .map(|&at| (at, made[at]))
            .collect();
        let few = odd.len() <= MAX_ODD_STEPS.min(self.inner.len() / 10);
        (few && odd
            .iter()
            .all(|&(at, n)| self.is_alone(at, n, usual, &made, gaps)))
        .then_some(RankRhythm { usual, odd })
    }

    /// True if neither the steps beside it nor the gaps between them make up for the difference.
    fn is_alone(&self, at: usize, n: u64, usual: u64, made: &[u64], gaps: &[(u32, u32)]) -> bool {
        let (Some(from), Some(to)) = (self.ends[at - 2], self.ends[at + 1]) else {
            return false;
        };
        let begin = gaps.partition_point(|(gap, _)| *gap as usize <= from);
        let around = gaps[begin..].iter();
        let around = around.take_while(|(gap, _)| *gap as usize <= to);
        let around: u64 = around.map(|(_, n)| u64::from(*n)).sum();
        let beside = made[at - 1] == usual && made[at + 1] == usual;
        beside && around == n + 2 * usual
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::trainer::Trainer;

    /// Steps 0, 1, ... of a line each.
    fn timeline(steps: usize) -> StepTimeline {
        let step = |at: usize| TrainStep {
            segment: 0,
            step: at as u64,
            steps: 1,
            mark: at,
            time_s: None,
            tflops: None,
        };
        let gaps = (0..steps as u32).map(GapKind::Step).chain([GapKind::After]);
        StepTimeline {
            trainer: Some(Trainer::Nemo2),
            steps: (0..steps).map(step).collect(),
            gaps: gaps.collect(),
            ..StepTimeline::default()
        }
    }

    /// A rank with so many collectives in each step.
    fn made(process: u32, counts: &[u64]) -> RankCollectives {
        RankCollectives {
            process,
            before: 0,
            gaps: (0..).zip(counts.iter().map(|&n| n as u32)).collect(),
        }
    }

    /// The report on these ranks of one communicator: (steps, made, usual).
    fn told(ranks: &[Vec<u64>]) -> Vec<((usize, usize), u64, u64)> {
        let made: Vec<RankCollectives> = (0..)
            .zip(ranks)
            .map(|(p, counts)| made(p, counts))
            .collect();
        let comms = BTreeMap::from([(CommId::from_printed(7), made.iter().collect())]);
        let odd = find_odd_steps(&comms, &timeline(ranks[0].len()), None);
        odd.iter().map(|o| (o.steps, o.made, o.usual)).collect()
    }

    #[test]
    fn the_rank_in_step_with_the_lines_tells_where_others_are_ahead() {
        let mut even = vec![5; 20];
        even[12] = 6;
        // One that runs ahead at many lines, and has the call in another step.
        let ahead: Vec<u64> = (0..20).map(|n| [7, 4, 4][n % 3]).collect();
        assert_eq!(told(&[even.clone(), ahead.clone()]), [((12, 12), 6, 5)]);
        assert_eq!(told(&[ahead.clone(), ahead.clone()]), []);
        // One that had made the call when the line before came, and is in step else.
        let mut early = vec![5; 20];
        early[11] = 6;
        assert_eq!(told(&[even.clone(), early.clone()]), [((12, 12), 6, 5)]);
        // The first rank prints; where it is not in step, the others tell what they tell together.
        assert_eq!(told(&[early.clone(), even.clone()]), [((11, 11), 6, 5)]);
        assert_eq!(told(&[ahead, early, even]), [((11, 12), 6, 5)]);
        // A call of the next step's made too early is no call more.
        let mut jump = vec![5; 20];
        (jump[8], jump[9]) = (7, 3);
        assert_eq!(told(&[jump.clone(), jump]), []);
        // What only sets up or ends a job is not looked at.
        let mut ends = vec![5; 20];
        (ends[0], ends[1], ends[19]) = (30, 9, 1);
        assert_eq!(told(&[ends.clone(), ends]), []);
    }

    #[test]
    fn what_comes_every_so_many_steps_is_how_the_job_is() {
        let regular: Vec<u64> = (0..60).map(|n| 5 + u64::from(n % 15 == 10)).collect();
        assert_eq!(told(&[regular.clone(), regular.clone()]), []);
        let mut twice = regular;
        (twice[10], twice[55]) = (5, 5);
        assert_eq!(told(&[twice.clone(), twice]).len(), 2);
    }
}
