//! Calls of ranks on several hosts: aligns the clocks of the hosts stretch by stretch, and adds up the lateness of
//! ranks.

use super::clock_stretches::ClockStretch;
use super::communicators::SkewComm;
use super::matching::{CommCursors, OpArrival, first_step};
use crate::stages::skew::align::{HostPairOffsets, StretchOffsets, compute_host_offsets};
use crate::stages::skew::lateness::{LatenessPartial, middle_and_last};
use crate::stages::skew::limits::NO_OP_NUMBER;
use crate::stages::skew::median::lower_median;
use std::collections::BTreeMap;

/// The results of some stretches.
pub(super) struct AlignedLateness {
    /// The differences of the hosts' clocks in each stretch.
    pub(super) reached: Vec<StretchOffsets>,
    /// The lateness of each caller.
    pub(super) own: Vec<LatenessPartial>,
}

/// A communicator's ranks by the number of their host, in rising order.
pub(super) struct RanksByHost(Vec<(u32, Vec<usize>)>);

/// Some calls of a stretch.
struct StretchCalls {
    comm: usize,
    came: Vec<OpArrival>,
    /// The end of each run of calls of one step, and the step.
    steps: Vec<(usize, Option<u64>)>,
}

impl RanksByHost {
    pub(super) fn from_comm(comm: &SkewComm<'_>, host_of: &[u32]) -> RanksByHost {
        let mut hosts: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (at, side) in comm.sides.iter().enumerate() {
            let host = host_of.get(side.who as usize).copied().unwrap_or(0);
            hosts.entry(host).or_default().push(at);
        }
        RanksByHost(hosts.into_iter().collect())
    }

    /// Adds the differences of hosts at calls.
    fn add_host_offsets(&self, came: &[OpArrival], n: usize, pairs: &mut HostPairOffsets) {
        let [_, _, ..] = self.0[..] else { return };
        // Most calls have a rank on the first host.
        let mut apart: Vec<Vec<i64>> = vec![Vec::new(); self.0.len()];
        let (mut times, mut medians) = (Vec::new(), Vec::new());
        for came in came.chunks_exact(n) {
            medians.clear();
            for (host, (_, sides)) in self.0.iter().enumerate() {
                times.clear();
                for &at in sides {
                    if came[at].0 != NO_OP_NUMBER {
                        times.push(came[at].1);
                    }
                }
                if let Some(ns) = lower_median(&mut times) {
                    medians.push((host, ns));
                }
            }
            let Some((&(first, base), others)) = medians.split_first() else {
                continue;
            };
            for &(other, ns) in others {
                let ns = ns.saturating_sub(base);
                match first {
                    0 => apart[other].push(ns),
                    _ => self.pair_of_hosts(pairs, first, other).push(ns),
                }
            }
        }
        for (other, apart) in apart
            .iter()
            .enumerate()
            .filter(|(_, apart)| !apart.is_empty())
        {
            self.pair_of_hosts(pairs, 0, other).extend(apart);
        }
    }

    fn pair_of_hosts<'p>(
        &self,
        pairs: &'p mut HostPairOffsets,
        first: usize,
        other: usize,
    ) -> &'p mut Vec<i64> {
        pairs.entry((self.0[first].0, self.0[other].0)).or_default()
    }

    /// Returns by how many ns each rank's clock is ahead.
    fn rank_clock_offsets(&self, reached: &StretchOffsets, n: usize) -> Vec<i64> {
        let mut ahead = vec![0; n];
        for (host, sides) in &self.0 {
            let by = reached.get(host).map_or(0, |(by, _)| *by);
            sides.iter().for_each(|&at| ahead[at] = by);
        }
        ahead
    }
}

/// Aligns the clocks of hosts, and adds up the lateness of ranks.
pub(super) struct ClockAligner<'l> {
    pub(super) comms: &'l [SkewComm<'l>],
    /// The hosts of each communicator's ranks.
    pub(super) hosts: &'l [RanksByHost],
    /// The number of callers.
    pub(super) ranks: usize,
    /// Nanoseconds from which a rank is late.
    pub(super) late_ns: u64,
}

impl ClockAligner<'_> {
    /// Aligns successive stretches; `None` if ranks make different calls, which do not wait for each other.
    pub(super) fn align_stretches(&self, stretches: &[ClockStretch]) -> Option<AlignedLateness> {
        let mut cursors: Vec<Option<CommCursors<'_>>> = Vec::new();
        cursors.resize_with(self.comms.len(), || None);
        let own = std::iter::repeat_with(LatenessPartial::default);
        let mut found = AlignedLateness {
            reached: Vec::new(),
            own: own.take(self.ranks).collect(),
        };
        for stretch in stretches {
            let calls = unpack_stretch_calls(stretch, self.comms, &mut cursors)?;
            let mut pairs = HostPairOffsets::new();
            for calls in &calls {
                let n = self.comms[calls.comm].sides.len();
                self.hosts[calls.comm].add_host_offsets(&calls.came, n, &mut pairs);
            }
            let reached = compute_host_offsets(&mut pairs);
            for calls in &calls {
                let comm = &self.comms[calls.comm];
                let ahead = self.hosts[calls.comm].rank_clock_offsets(&reached, comm.sides.len());
                add_lateness(calls, comm, &ahead, &mut found.own, self.late_ns);
            }
            found.reached.push(reached);
        }
        Some(found)
    }
}

/// Unpacks the calls of a stretch.
fn unpack_stretch_calls<'l>(
    stretch: &ClockStretch,
    comms: &'l [SkewComm<'l>],
    cursors: &mut [Option<CommCursors<'l>>],
) -> Option<Vec<StretchCalls>> {
    let mut by_comm: BTreeMap<usize, StretchCalls> = BTreeMap::new();
    let mut is_alike = true;
    for (comm, numbers) in stretch {
        let of = &comms[*comm];
        let n = of.sides.len();
        let calls = by_comm.entry(*comm).or_insert_with(|| StretchCalls {
            comm: *comm,
            came: Vec::with_capacity(n * (numbers.end - numbers.start) as usize),
            steps: Vec::new(),
        });
        let cursors = cursors.get_mut(*comm)?;
        if cursors
            .as_ref()
            .is_none_or(|known| known.next_call_number() != numbers.start)
        {
            *cursors = Some(CommCursors::at_call(of, numbers.start));
        }
        cursors
            .as_mut()?
            .for_each_block(numbers.end, |came, steps| {
                let step = first_step(steps.iter().copied());
                is_alike &= came.chunks_exact(n).all(are_same_op);
                calls.came.extend_from_slice(came);
                calls.steps.push((calls.came.len() / n, step));
            });
    }
    is_alike.then(|| by_comm.into_values().collect())
}

/// True if all ranks that came made one operation.
fn are_same_op(came: &[OpArrival]) -> bool {
    let mut ops = came
        .iter()
        .map(|came| came.0)
        .filter(|op| *op != NO_OP_NUMBER);
    ops.next().is_none_or(|first| ops.all(|op| op == first))
}

/// Adds the lateness of ranks. Their clocks are `ahead` by these times, ns.
fn add_lateness(
    calls: &StretchCalls,
    comm: &SkewComm<'_>,
    ahead: &[i64],
    own: &mut [LatenessPartial],
    late_ns: u64,
) {
    let n = comm.sides.len();
    let mut times = Vec::with_capacity(n);
    let mut each = calls.came.chunks_exact(n);
    let mut from = 0;
    for &(end, step) in &calls.steps {
        for came in each.by_ref().take(end - from) {
            times.clear();
            for at in 0..n {
                if came[at].0 != NO_OP_NUMBER {
                    times.push(came[at].1.saturating_sub(ahead[at]));
                }
            }
            let (middle, last) = middle_and_last(&mut times);
            for (at, side) in comm.sides.iter().enumerate() {
                if came[at].0 != NO_OP_NUMBER {
                    let ns = came[at].1.saturating_sub(ahead[at]);
                    own[side.who as usize].add_arrival(ns, middle, last, late_ns);
                }
            }
        }
        for side in &comm.sides {
            own[side.who as usize].end_step(step);
        }
        from = end;
    }
}
